//! What people decided, and facts they added: one SQLite file, which outlives models.
//!
//! Everything is keyed by names. A decision is one transaction that is on the disk before it is answered (`synchronous=FULL`),
//! so a killed server loses nothing that it has confirmed. `history` keeps every step, undone ones too.
//!
//! One server at a time writes to a file: what it knows of the decisions would else miss those of the other. A lock that the system keeps
//! says so, on a file beside it; it is gone with the program, however that ends.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Names of a fact.
pub type Names = [String; 3];

/// Marks our files: "RUGE" in ASCII.
const APPLICATION: i64 = 0x5255_4745;
/// The version of the tables.
const VERSION: i64 = 1;
/// How long a server that is about to end is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE decision (
  head TEXT NOT NULL, relation TEXT NOT NULL, tail TEXT NOT NULL, decision TEXT NOT NULL, truth REAL NOT NULL,
  note TEXT, reviewer TEXT, at INTEGER NOT NULL, model TEXT NOT NULL, PRIMARY KEY (head, relation, tail)
) STRICT;
CREATE TABLE history (
  id INTEGER PRIMARY KEY, head TEXT NOT NULL, relation TEXT NOT NULL, tail TEXT NOT NULL, what TEXT NOT NULL,
  reviewer TEXT, at INTEGER NOT NULL
) STRICT;
CREATE TABLE fact (
  id INTEGER PRIMARY KEY, head TEXT NOT NULL, relation TEXT NOT NULL, tail TEXT NOT NULL, reviewer TEXT, at INTEGER NOT NULL,
  UNIQUE (head, relation, tail)
) STRICT;
CREATE TABLE suggestion (
  place INTEGER PRIMARY KEY, graph TEXT NOT NULL, head TEXT NOT NULL, relation TEXT NOT NULL, tail TEXT NOT NULL, truth REAL NOT NULL
) STRICT;";

/// What a person says about a proposed fact.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is true.
    Accept,
    /// It is false.
    Reject,
    /// Not decided now.
    Skip,
}

/// In the order in which they are counted.
const KINDS: [Verdict; 3] = [Verdict::Accept, Verdict::Reject, Verdict::Skip];

impl Verdict {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Skip => "skip",
        }
    }

    /// As it was written.
    pub fn parse(text: &str) -> Option<Self> {
        KINDS.into_iter().find(|verdict| verdict.name() == text)
    }
}

/// A decision about a fact.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Decision {
    /// What was decided.
    pub decision: Verdict,
    /// The truth by the model alone, without decisions.
    pub truth: f64,
    /// A remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<String>,
    /// When: seconds since 1970.
    pub at: u64,
    /// The model that was asked, by its hash.
    pub model: String,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: the file of reviews cannot be used: {reason}", path.display())]
pub struct ReviewsError {
    path: PathBuf,
    reason: String,
}

type Decisions = FxHashMap<Names, Decision>;

/// The file of decisions and added facts.
pub struct Reviews {
    path: PathBuf,
    /// Held while something is written, which takes as long as the disk does. Whoever reads decisions does not wait for it.
    file: Mutex<Connection>,
    decisions: RwLock<Decisions>,
    /// Decisions of each kind.
    counts: [AtomicUsize; 3],
    is_open_to_change: bool,
    /// Locked while this lives.
    _lock: Option<File>,
}

/// Of decisions on facts of about the same truth, how many accepted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bin {
    /// Truths from here.
    pub from: f64,
    /// To here.
    pub to: f64,
    /// Facts accepted or rejected.
    pub judged: usize,
    /// Facts accepted.
    pub accepted: usize,
    /// The mean of those truths.
    pub mean_truth: f64,
}

impl Reviews {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> Result<Self, ReviewsError> {
        Self::open_within(PATIENCE, path)
    }

    fn open_within(patience: Duration, path: &Path) -> Result<Self, ReviewsError> {
        let told = |reason: String| ReviewsError { path: path.to_path_buf(), reason };
        // Nothing is put beside a file that is not ours.
        let lock = if is_foreign(path) { None } else { Some(locked(path, patience).map_err(told)?) };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(path, flags).map_err(Into::into);
        opened.and_then(|file| Self::load(path, file, lock, true)).map_err(|error| told(error.to_string()))
    }

    /// Opens a file that is there, to read it only.
    pub fn look_at(path: &Path) -> Result<Self, ReviewsError> {
        let read = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let plain = || Self::load(path, Connection::open_with_flags(path, read)?, None, false);
        // In a folder where nothing can be written, SQLite reads only what nobody else changes.
        let fixed = || {
            let name: String = form_urlencoded::byte_serialize(path.to_string_lossy().as_bytes()).collect();
            let address = format!("file:{}?immutable=1", name.replace('+', "%20"));
            Self::load(path, Connection::open_with_flags(address, read | OpenFlags::SQLITE_OPEN_URI)?, None, false)
        };
        plain()
            .or_else(|error: Box<dyn std::error::Error>| fixed().map_err(|_| error))
            .map_err(|error| ReviewsError { path: path.to_path_buf(), reason: error.to_string() })
    }

    /// In memory only.
    pub fn none() -> Self {
        let file = Connection::open_in_memory().and_then(|file| file.execute_batch(TABLES).map(|()| file));
        let file = file.expect("a database in memory can be made");
        Self::with(PathBuf::new(), file, Decisions::default(), None, true)
    }

    fn with(
        path: PathBuf,
        file: Connection,
        decisions: Decisions,
        lock: Option<File>,
        is_open_to_change: bool,
    ) -> Self {
        let counts =
            KINDS.map(|kind| AtomicUsize::new(decisions.values().filter(|decision| decision.decision == kind).count()));
        let (file, decisions) = (Mutex::new(file), RwLock::new(decisions));
        Self { path, file, decisions, counts, is_open_to_change, _lock: lock }
    }

    fn load(
        path: &Path,
        mut file: Connection,
        lock: Option<File>,
        is_open_to_change: bool,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        file.busy_timeout(PATIENCE)?;
        let number = |file: &Connection, name: &str| file.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let is_new = file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))? == 0;
        if !is_new && number(&file, "application_id")? != APPLICATION {
            return Err("it is a database of another program".into());
        }
        if !is_new && number(&file, "user_version")? != VERSION {
            return Err("it is of another version of ruge".into());
        }
        if is_open_to_change {
            file.pragma_update(None, "journal_mode", "WAL")?;
            file.pragma_update(None, "synchronous", "FULL")?;
        }
        if is_new && is_open_to_change {
            let change = file.transaction()?;
            change.execute_batch(TABLES)?;
            change.pragma_update(None, "application_id", APPLICATION)?;
            change.pragma_update(None, "user_version", VERSION)?;
            change.commit()?;
        }
        let decisions = if is_new && !is_open_to_change {
            Decisions::default()
        } else {
            let mut rows =
                file.prepare("SELECT head, relation, tail, decision, truth, note, reviewer, at, model FROM decision")?;
            let row = |row: &rusqlite::Row<'_>| {
                let verdict: String = row.get(3)?;
                let decision = Decision {
                    decision: Verdict::parse(&verdict).unwrap_or(Verdict::Skip),
                    truth: row.get(4)?,
                    note: row.get(5)?,
                    reviewer: row.get(6)?,
                    at: row.get::<_, i64>(7)?.unsigned_abs(),
                    model: row.get(8)?,
                };
                Ok(([row.get(0)?, row.get(1)?, row.get(2)?], decision))
            };
            rows.query_map([], row)?.collect::<Result<Decisions, _>>()?
        };
        Ok(Self::with(path.to_path_buf(), file, decisions, lock, is_open_to_change))
    }

    fn file(&self) -> MutexGuard<'_, Connection> {
        // A transaction that a panic interrupted was rolled back.
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decisions(&self) -> RwLockReadGuard<'_, Decisions> {
        self.decisions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> RwLockWriteGuard<'_, Decisions> {
        self.decisions.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, decision: &Decision) -> &AtomicUsize {
        &self.counts[decision.decision as usize]
    }

    fn told(&self, error: &rusqlite::Error) -> ReviewsError {
        ReviewsError { path: self.path.clone(), reason: error.to_string() }
    }

    /// Keeps a decision; an earlier one about the same fact is replaced.
    pub fn decide(&self, fact: &Names, decision: Decision) -> Result<(), ReviewsError> {
        let mut file = self.file();
        let write = |file: &mut Connection| {
            let change = file.transaction()?;
            change.execute(
                "INSERT OR REPLACE INTO decision VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    fact[0],
                    fact[1],
                    fact[2],
                    decision.decision.name(),
                    decision.truth,
                    decision.note,
                    decision.reviewer,
                    decision.at as i64,
                    decision.model
                ],
            )?;
            note(&change, fact, decision.decision.name(), decision.reviewer.as_deref())?;
            change.commit()
        };
        write(&mut file).map_err(|error| self.told(&error))?;
        self.count(&decision).fetch_add(1, Ordering::Relaxed);
        // Still with the file: in memory, too, the later decision counts.
        if let Some(before) = self.changed().insert(fact.clone(), decision) {
            self.count(&before).fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes a decision back; false if there was none.
    pub fn undo(&self, fact: &Names, reviewer: Option<&str>) -> Result<bool, ReviewsError> {
        let mut file = self.file();
        let write = |file: &mut Connection| {
            let change = file.transaction()?;
            let removed = change.execute(
                "DELETE FROM decision WHERE head = ?1 AND relation = ?2 AND tail = ?3",
                params![fact[0], fact[1], fact[2]],
            )?;
            if removed > 0 {
                note(&change, fact, "undo", reviewer)?;
            }
            change.commit().map(|()| removed > 0)
        };
        let was_there = write(&mut file).map_err(|error| self.told(&error))?;
        if let Some(before) = self.changed().remove(fact) {
            self.count(&before).fetch_sub(1, Ordering::Relaxed);
        }
        Ok(was_there)
    }

    /// What was decided about a fact.
    pub fn of(&self, fact: &Names) -> Option<Decision> {
        self.decisions().get(fact).cloned()
    }

    /// Whether there is a decision about a fact.
    pub fn is_decided(&self, fact: &Names) -> bool {
        self.decisions().contains_key(fact)
    }

    /// All decisions, the latest first.
    pub fn all(&self) -> Vec<(Names, Decision)> {
        let mut all: Vec<(Names, Decision)> =
            self.decisions().iter().map(|(fact, decision)| (fact.clone(), decision.clone())).collect();
        all.sort_by(|(a, x), (b, y)| y.at.cmp(&x.at).then_with(|| a.cmp(b)));
        all
    }

    /// Facts accepted, rejected and skipped.
    pub fn counts(&self) -> [usize; 3] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// How far the model's truths agree with what was decided, by tenths; those without decisions are left out.
    pub fn reliability(&self) -> Vec<Bin> {
        self.reliability_of(|_| true)
    }

    /// The same for some facts.
    pub fn reliability_of(&self, counts: impl Fn(&Names) -> bool) -> Vec<Bin> {
        let mut bins = [(0usize, 0usize, 0.0f64); 10];
        for (_, decision) in self.decisions().iter().filter(|(fact, it)| it.decision != Verdict::Skip && counts(fact)) {
            let bin = &mut bins[((decision.truth * 10.0) as usize).min(9)];
            bin.0 += 1;
            bin.1 += usize::from(decision.decision == Verdict::Accept);
            bin.2 += decision.truth;
        }
        let bin = |(at, (judged, accepted, sum)): (usize, (usize, usize, f64))| Bin {
            from: at as f64 / 10.0,
            to: (at + 1) as f64 / 10.0,
            judged,
            accepted,
            mean_truth: sum / judged.max(1) as f64,
        };
        bins.into_iter().enumerate().filter(|(_, (judged, ..))| *judged > 0).map(bin).collect()
    }

    /// Facts that were added, in the order in which they came.
    pub fn facts(&self) -> Result<Vec<Names>, ReviewsError> {
        let file = self.file();
        let read = || {
            let mut rows = file.prepare("SELECT head, relation, tail FROM fact ORDER BY id")?;
            rows.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
                .collect::<rusqlite::Result<Vec<Names>>>()
        };
        read().map_err(|error| self.told(&error))
    }

    /// Adds some facts and removes others, all or none of them.
    pub fn change_facts(&self, add: &[Names], remove: &[Names], reviewer: Option<&str>) -> Result<(), ReviewsError> {
        let mut file = self.file();
        let write = |file: &mut Connection| {
            let change = file.transaction()?;
            for fact in add {
                let values = params![fact[0], fact[1], fact[2], reviewer, now() as i64];
                change.execute(
                    "INSERT OR IGNORE INTO fact (head, relation, tail, reviewer, at) VALUES (?1, ?2, ?3, ?4, ?5)",
                    values,
                )?;
                note(&change, fact, "add", reviewer)?;
            }
            for fact in remove {
                let values = params![fact[0], fact[1], fact[2]];
                change.execute("DELETE FROM fact WHERE head = ?1 AND relation = ?2 AND tail = ?3", values)?;
                note(&change, fact, "remove", reviewer)?;
            }
            change.commit()
        };
        write(&mut file).map_err(|error| self.told(&error))
    }

    /// Suggestions kept for a graph; nothing if there are none for this one.
    pub fn suggestions(&self, graph: &str) -> Result<Vec<(Names, f64)>, ReviewsError> {
        let file = self.file();
        let read = || {
            let mut rows =
                file.prepare("SELECT head, relation, tail, truth FROM suggestion WHERE graph = ?1 ORDER BY place")?;
            let row = |row: &rusqlite::Row<'_>| Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get(3)?));
            rows.query_map([graph], row)?.collect::<rusqlite::Result<Vec<(Names, f64)>>>()
        };
        read().map_err(|error| self.told(&error))
    }

    /// Keeps suggestions for a graph instead of those before.
    pub fn keep_suggestions(&self, graph: &str, list: &[(Names, f64)]) -> Result<(), ReviewsError> {
        // They can be found again.
        if !self.is_open_to_change {
            return Ok(());
        }
        let mut file = self.file();
        let write = |file: &mut Connection| {
            let change = file.transaction()?;
            change.execute("DELETE FROM suggestion", [])?;
            {
                let mut insert = change.prepare("INSERT INTO suggestion VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
                for (place, ([head, relation, tail], truth)) in list.iter().enumerate() {
                    insert.execute(params![place as i64, graph, head, relation, tail, truth])?;
                }
            }
            change.commit()
        };
        write(&mut file).map_err(|error| self.told(&error))
    }
}

/// Whether a file is there that SQLite did not write, or that another program wrote with it.
fn is_foreign(path: &Path) -> bool {
    let read = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let number = |file: Connection| file.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0));
    let has_content = path.metadata().is_ok_and(|meta| meta.len() > 0);
    has_content
        && match Connection::open_with_flags(path, read).and_then(number) {
            Ok(id) => id != APPLICATION,
            Err(error) => error.sqlite_error_code() == Some(ErrorCode::NotADatabase),
        }
}

/// Takes the lock of a file of reviews, waiting for a while for a server that ends.
fn locked(path: &Path, patience: Duration) -> Result<File, String> {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    let made = File::options().create(true).truncate(false).write(true).open(&name);
    let file = made.map_err(|error| format!("{}: {error}", Path::new(&name).display()))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                return Err("another server uses it; name another one, or serve to read only".into());
            }
            // Some file systems know no locks.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
}

fn note(file: &Connection, fact: &Names, what: &str, reviewer: Option<&str>) -> rusqlite::Result<usize> {
    file.execute(
        "INSERT INTO history (head, relation, tail, what, reviewer, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![fact[0], fact[1], fact[2], what, reviewer, now() as i64],
    )
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(number: usize) -> Names {
        [format!("h{number}\u{0}'"), "r\t".into(), "t\n\"".into()]
    }

    fn decision(decision: Verdict, truth: f64) -> Decision {
        Decision { decision, truth, note: None, reviewer: Some("Ada".into()), at: now(), model: "m".into() }
    }

    #[test]
    fn decisions_are_there_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reviews.db");
        let reviews = Reviews::open(&path).unwrap();
        for number in 0..20 {
            let verdict = if number % 4 == 0 { Verdict::Reject } else { Verdict::Accept };
            reviews.decide(&fact(number), decision(verdict, 0.85)).unwrap();
        }
        reviews.decide(&fact(0), decision(Verdict::Skip, 0.1)).unwrap();
        assert!(reviews.undo(&fact(1), None).unwrap() && !reviews.undo(&fact(1), None).unwrap());
        reviews.change_facts(&[fact(7), fact(8), fact(7)], &[], None).unwrap();
        reviews.change_facts(&[], &[fact(8)], Some("Ada")).unwrap();
        reviews.keep_suggestions("g", &[(fact(3), 0.5), (fact(2), 0.4)]).unwrap();
        let before = reviews.all();
        // One server writes; others may look.
        let error = Reviews::open_within(Duration::ZERO, &path).err().unwrap().to_string();
        assert!(error.contains("another server uses it"), "{error}");
        let look = Reviews::look_at(&path).unwrap();
        assert_eq!((look.all(), look.counts()), (before.clone(), reviews.counts()));
        assert!(look.decide(&fact(50), decision(Verdict::Accept, 0.5)).is_err());
        drop((reviews, look));
        let again = Reviews::open(&path).unwrap();
        assert_eq!(again.all(), before);
        assert_eq!((again.counts(), again.facts().unwrap()), ([14, 4, 1], vec![fact(7)]));
        assert_eq!(again.suggestions("g").unwrap(), [(fact(3), 0.5), (fact(2), 0.4)]);
        assert!(again.suggestions("other").unwrap().is_empty());
        let bins = again.reliability();
        assert_eq!((bins.len(), bins[0].judged, bins[0].accepted, bins[0].from), (1, 18, 14, 0.8));
    }

    #[test]
    fn other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "not a database, but a text of some length that nobody wants to lose").unwrap();
        assert!(Reviews::open(&path).is_err());
        let other = folder.path().join("other.db");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
        assert!(Reviews::open(&other).err().unwrap().to_string().contains("another program"));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("not a database"));
    }
}
