//! Shared by all parts: a case is tried, it gives findings, and findings are counted in a table.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::process::Ruge;
use super::random::Random;
use super::{Options, target, text};

/// Kinds of findings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Exit code 0, but a different result from an undisturbed run.
    Wrong,
    /// A model that does not open, a lost result, or a folder that the next command refuses.
    Unusable,
    /// No end within the time limit, or after a signal.
    Hang,
    /// A panic, an abort, another deadly signal, or an undefined exit code.
    Panic,
    /// More memory than the stated bound.
    Memory,
    /// A damaged file that was accepted.
    Accepted,
    /// Files that an undisturbed run does not leave.
    Leftover,
    /// Long work that a signal ended: reported, but not a failure.
    Long,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Wrong,
        Self::Unusable,
        Self::Hang,
        Self::Panic,
        Self::Memory,
        Self::Accepted,
        Self::Leftover,
        Self::Long,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Unusable => "unusable",
            Self::Hang => "hangs",
            Self::Panic => "panics",
            Self::Memory => "memory",
            Self::Accepted => "accepted",
            Self::Leftover => "leftovers",
            Self::Long => "long",
        }
    }

    fn fails(self) -> bool {
        self != Self::Long
    }
}

/// The findings of a case; empty if it passed.
pub type Verdict = Vec<(Kind, String)>;

/// Counts of one table row.
#[derive(Default, Clone)]
struct Count {
    planned: usize,
    attempts: usize,
    found: BTreeMap<Kind, usize>,
    skipped: Vec<String>,
}

/// The final table: one row per group of cases.
#[derive(Default)]
pub struct Table(Mutex<BTreeMap<String, Count>>);

impl Table {
    fn change(&self, group: &str, change: impl FnOnce(&mut Count)) {
        change(self.0.lock().expect("no worker panics").entry(group.to_string()).or_default());
    }

    /// Number of findings that count as failures.
    pub fn failures(&self) -> usize {
        let rows = self.0.lock().expect("no worker panics");
        rows.values().flat_map(|count| &count.found).filter(|(kind, _)| kind.fails()).map(|(_, number)| number).sum()
    }

    /// The table as JSON.
    pub fn json(&self, options: &Options) -> Value {
        let rows = self.0.lock().expect("no worker panics");
        let row = |(group, count): (&String, &Count)| {
            let mut object =
                json!({"group": group, "attempts": count.attempts, "planned": count.planned, "skipped": count.skipped});
            for kind in Kind::ALL {
                object[kind.name()] = json!(count.found.get(&kind).copied().unwrap_or(0));
            }
            object
        };
        json!({"seed": options.seed, "minutes": options.minutes, "rows": rows.iter().map(row).collect::<Vec<_>>()})
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.0.lock().expect("no worker panics");
        let width = rows.keys().map(String::len).max().unwrap_or(0).max(8);
        write!(out, "{:<width$} {:>8} {:>8}", "", "attempts", "of")?;
        for kind in Kind::ALL {
            write!(out, " {:>9}", kind.name())?;
        }
        writeln!(out)?;
        let mut total = Count::default();
        for (group, count) in rows.iter().filter(|(_, count)| count.planned > 0) {
            line(out, width, group, count)?;
            total.planned += count.planned;
            total.attempts += count.attempts;
            for (kind, number) in &count.found {
                *total.found.entry(*kind).or_default() += number;
            }
        }
        line(out, width, "all", &total)?;
        for (group, count) in rows.iter() {
            for reason in &count.skipped {
                writeln!(out, "SKIPPED: {group}: {reason}")?;
            }
        }
        Ok(())
    }
}

fn line(out: &mut fmt::Formatter<'_>, width: usize, group: &str, count: &Count) -> fmt::Result {
    write!(out, "{group:<width$} {:>8} {:>8}", count.attempts, count.planned)?;
    for kind in Kind::ALL {
        write!(out, " {:>9}", count.found.get(&kind).copied().unwrap_or(0))?;
    }
    writeln!(out)
}

/// The environment of a part: the program, the time, folders, and the table.
pub struct Yard<'a> {
    pub part: &'static str,
    /// The program under attack.
    pub ruge: Ruge,
    /// The seed of every choice.
    pub seed: u64,
    /// How long new cases may be started, after the preparation.
    pub time: Duration,
    /// A folder for this part, in memory if the system supports it.
    pub ground: PathBuf,
    only: Option<String>,
    kept: PathBuf,
    table: &'a Table,
}

/// Maximum folders of failed cases kept per part.
const KEPT: usize = 25;

impl<'a> Yard<'a> {
    /// A yard with an empty folder.
    pub fn new(
        part: &'static str,
        program: &Path,
        options: &Options,
        time: Duration,
        table: &'a Table,
    ) -> Result<Self> {
        let kept = target().join("torture").join(part);
        let ground = memory_folder()?.join(part);
        for folder in [&kept, &ground] {
            if folder.exists() {
                std::fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
            }
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let ruge = Ruge::new(program, &ground);
        let only = options.case.clone();
        Ok(Self { part, ruge, seed: options.seed, time, ground, only, kept, table })
    }

    /// The random numbers of a case.
    pub fn random(&self, case: &str) -> Random {
        Random::of(self.seed, case)
    }

    /// Records, and prints, that something was skipped.
    pub fn skip(&self, group: &str, reason: &str) {
        eprintln!("SKIPPED: {}: {group}: {reason}", self.part);
        self.table.change(&format!("{} {group}", self.part), |count| count.skipped.push(reason.to_string()));
    }

    /// Whether a single case or group was requested.
    pub fn is_narrowed(&self) -> bool {
        self.only.is_some()
    }

    /// Whether cases of this group were requested.
    pub fn wants(&self, group: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.split('/').next() == Some(group))
    }

    /// Prepares each item, on all cores.
    pub fn prepare<T: Sync, R: Send>(&self, items: &[T], make: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<(usize, R)>> {
            let mut made = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return Ok(made) };
                made.push((index, make(item)?));
            }
        };
        let mut made = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers()).map(|_| scope.spawn(work)).collect();
            let mut made = Vec::new();
            for worker in workers {
                made.extend(worker.join().expect("no worker panics")?);
            }
            Ok::<_, anyhow::Error>(made)
        })?;
        made.sort_by_key(|(index, _)| *index);
        Ok(made.into_iter().map(|(_, made)| made).collect())
    }

    /// Tries cases on all cores until they or the time run out. A case is identified by its name, `group/…`; `attempt`
    /// gets an empty folder for each.
    pub fn try_all<T: Sync>(
        &self,
        cases: &[(String, T)],
        attempt: impl Fn(&str, &T, &Path) -> Result<Verdict> + Sync,
    ) -> Result<()> {
        let wanted: Vec<&(String, T)> = cases
            .iter()
            .filter(|(name, _)| {
                self.only.as_ref().is_none_or(|only| name == only || name.starts_with(&format!("{only}/")))
            })
            .collect();
        let group = |name: &str| format!("{} {}", self.part, name.split('/').next().unwrap_or(name));
        for (name, _) in &wanted {
            self.table.change(&group(name), |count| count.planned += 1);
        }
        let deadline = Instant::now() + self.time;
        let next = AtomicUsize::new(0);
        let kept = AtomicUsize::new(0);
        let work = |worker: usize| -> Result<()> {
            let folder = self.ground.join(format!("worker-{worker}"));
            while Instant::now() < deadline {
                let Some((name, case)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                if folder.exists() {
                    std::fs::remove_dir_all(&folder)?;
                }
                std::fs::create_dir_all(&folder)?;
                let verdict = attempt(name, case, &folder).with_context(|| format!("case {name}"))?;
                self.table.change(&group(name), |count| {
                    count.attempts += 1;
                    for (kind, _) in &verdict {
                        *count.found.entry(*kind).or_default() += 1;
                    }
                });
                self.tell(name, &verdict, &folder, &kept);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers()).map(|worker| scope.spawn(move || work(worker))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
        })
    }

    fn tell(&self, name: &str, verdict: &Verdict, folder: &Path, kept: &AtomicUsize) {
        for (kind, what) in verdict {
            eprintln!("{}: {what}", kind.name());
        }
        if verdict.iter().any(|(kind, _)| kind.fails()) {
            eprintln!("  repeat: cargo xtask torture --only {} --seed {} --case '{name}'", self.part, self.seed);
            if kept.fetch_add(1, Ordering::Relaxed) < KEPT {
                let to = self.kept.join(name.replace(['/', ' '], "-"));
                if let Err(error) = copy_folder(folder, &to) {
                    eprintln!("  the folder could not be kept: {error:#}");
                }
            }
        }
    }
}

/// How many threads work.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

impl Drop for Yard<'_> {
    fn drop(&mut self) {
        // If this fails, the next attack removes it: see `memory_folder`.
        let _ = std::fs::remove_dir_all(&self.ground);
    }
}

/// A folder of this process, in memory if the system supports it, where fsync costs nothing. Removes the folders of
/// processes that no longer exist.
fn memory_folder() -> Result<PathBuf> {
    let base = Path::new("/dev/shm");
    if !base.is_dir() || !Path::new("/proc/self").exists() {
        return Ok(target().join("torture").join("ground"));
    }
    for entry in base.read_dir().context("cannot list the memory's folder")? {
        let entry = entry?;
        let name = entry.file_name();
        let gone = text(Path::new(&name))
            .strip_prefix("ruge-torture-")
            .is_some_and(|process| !Path::new("/proc").join(process).exists());
        if gone {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(base.join(format!("ruge-torture-{}", std::process::id())))
}

pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in from.read_dir().with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let into = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &into)?;
        } else {
            std::fs::copy(entry.path(), &into).with_context(|| format!("cannot copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}
