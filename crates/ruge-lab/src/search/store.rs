//! Trials in SQLite: `search.db`, for us to continue from and for anyone to ask.
//!
//! Four tables: `search` (the space as TOML, what it runs on), `trial` (a row each, its leaves as JSON), `rung` and `curve`. A
//! trial is written whole in one transaction, so the file always tells of a moment that was. Every trial carries the SHA-256 of all
//! that is stored about it, every fact one of its own, and one fact is the hash of all trials: a damaged file is noticed, also where
//! SQLite itself finds nothing wrong.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use super::space::{Point, Space};
use super::{Rung, State, Trial};
use ruge::error::{Result, RugeError};
use ruge::model_file::hex;

/// The shape of the tables; another number is another program's. Version 1 had no hashes.
const VERSION: i64 = 2;
/// A file that is being made.
pub const DRAFT: &str = "search.db.new";
/// SQLite's own file next to it.
pub const DRAFT_JOURNAL: &str = "search.db.new-journal";
/// The fact that holds the hash of all trials.
const ALL: &str = "trials-sha256";

const TABLES: &str = "
    CREATE TABLE search (key TEXT PRIMARY KEY, value TEXT NOT NULL, sha256 TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE trial (
        number INTEGER PRIMARY KEY,
        leaves TEXT NOT NULL,     -- JSON: what the searched leaves of the spec are
        state TEXT NOT NULL,      -- running, paused, finished, failed
        epochs INTEGER,           -- done at the end of the last rung
        valid_mrr REAL,           -- the best until then
        best_epoch INTEGER,
        seconds REAL NOT NULL,
        error TEXT,
        sha256 TEXT NOT NULL      -- of all of this, with the trial's rungs and curve
    );
    CREATE TABLE rung (
        trial INTEGER NOT NULL, rung INTEGER NOT NULL, epochs INTEGER NOT NULL, valid_mrr REAL NOT NULL,
        best_epoch INTEGER NOT NULL, PRIMARY KEY (trial, rung)
    ) WITHOUT ROWID;
    CREATE TABLE curve (
        trial INTEGER NOT NULL, epoch INTEGER NOT NULL, valid_mrr REAL NOT NULL, PRIMARY KEY (trial, epoch)
    ) WITHOUT ROWID;
";

/// The open file.
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

impl Store {
    /// Makes a file with facts about a search. It is made under another name, so that a search without them is never seen.
    pub fn create(path: &Path, facts: &[(&str, &str)]) -> Result<Self> {
        let draft = path.with_file_name(DRAFT);
        for left in [&draft, &path.with_file_name(DRAFT_JOURNAL)] {
            match std::fs::remove_file(left) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(RugeError::io(left, "remove")(error));
                }
                _ => {}
            }
        }
        Self::open(&draft)?.keep(facts)?;
        std::fs::rename(&draft, path).map_err(RugeError::io(path, "write"))?;
        Self::open(path)
    }

    /// Opens a file, or makes it.
    pub fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path).map_err(told(path))?;
        let mut store = Self { path: path.to_path_buf(), connection };
        let version: i64 =
            store.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(told(path))?;
        match version {
            VERSION => {}
            0 => store.change(|connection| connection.execute_batch(TABLES))?,
            1 => store.change(upgrade)?,
            other => {
                return Err(RugeError::Damaged {
                    path: path.to_path_buf(),
                    reason: format!("it was made by another version of ruge (format {other})"),
                });
            }
        }
        let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        let found = store.connection.query_row("PRAGMA integrity_check(1)", [], check).map_err(told(path))?;
        if found != "ok" {
            return Err(store.damaged(&found));
        }
        Ok(store)
    }

    /// Changes the file in one transaction, after which it has the version of this program.
    fn change(&mut self, change: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<()> {
        let change = || -> rusqlite::Result<()> {
            let transaction = self.connection.transaction()?;
            change(&transaction)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()
        };
        change().map_err(told(&self.path))
    }

    fn damaged(&self, what: &str) -> RugeError {
        RugeError::Damaged { path: self.path.clone(), reason: format!("it is damaged: {what}") }
    }

    /// A fact about the search.
    pub fn fact(&self, key: &str) -> Result<Option<String>> {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        let found = self.connection.query_row("SELECT value, sha256 FROM search WHERE key = ?1", [key], row);
        match found.optional().map_err(told(&self.path))? {
            Some((value, sum)) if sum != fact_sum(key, &value) => {
                Err(self.damaged(&format!("its {key} does not match its checksum")))
            }
            found => Ok(found.map(|(value, _)| value)),
        }
    }

    /// Keeps facts about the search.
    pub fn keep(&mut self, facts: &[(&str, &str)]) -> Result<()> {
        let keep = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            for (key, value) in facts {
                put_fact(&transaction, key, value)?;
            }
            transaction.commit()
        };
        keep(&mut self.connection).map_err(told(&self.path))
    }

    /// Keeps a trial, whole.
    pub fn save(&mut self, space: &Space, trial: &Trial) -> Result<()> {
        let number = trial.number as i64;
        let mut leaves = Map::new();
        for (leaf, value) in space.named(&trial.point) {
            leaves.insert(leaf, serde_json::to_value(&value).expect("a leaf is plain data"));
        }
        let last = trial.rungs.last();
        let save = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            transaction.execute(
                "INSERT OR REPLACE INTO trial VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '')",
                params![
                    number,
                    Json::Object(leaves).to_string(),
                    trial.state.name(),
                    last.map(|rung| rung.epochs as i64),
                    last.map(|rung| rung.valid_mrr),
                    last.map(|rung| rung.best_epoch as i64),
                    trial.seconds,
                    trial.error,
                ],
            )?;
            transaction.execute("DELETE FROM rung WHERE trial = ?1", [number])?;
            transaction.execute("DELETE FROM curve WHERE trial = ?1", [number])?;
            for (at, rung) in trial.rungs.iter().enumerate() {
                let row = params![number, at as i64, rung.epochs as i64, rung.valid_mrr, rung.best_epoch as i64];
                transaction.execute("INSERT INTO rung VALUES (?1, ?2, ?3, ?4, ?5)", row)?;
            }
            for (epoch, mrr) in &trial.curve {
                transaction.execute("INSERT INTO curve VALUES (?1, ?2, ?3)", params![number, *epoch as i64, mrr])?;
            }
            seal(&transaction, number)?;
            transaction.commit()
        };
        save(&mut self.connection).map_err(told(&self.path))
    }

    /// Every trial, in the order of beginning.
    pub fn trials(&self, space: &Space) -> Result<Vec<Trial>> {
        let read = || -> rusqlite::Result<Vec<(Trial, String, String)>> {
            let mut query =
                self.connection.prepare("SELECT number, leaves, state, seconds, error FROM trial ORDER BY number")?;
            let mut rungs = self
                .connection
                .prepare("SELECT epochs, valid_mrr, best_epoch FROM rung WHERE trial = ?1 ORDER BY rung")?;
            let mut curve =
                self.connection.prepare("SELECT epoch, valid_mrr FROM curve WHERE trial = ?1 ORDER BY epoch")?;
            let rows = query.query_map([], |row| {
                let number: i64 = row.get(0)?;
                let mut trial = Trial::new(number as usize, Point::new());
                (trial.seconds, trial.error) = (row.get(3)?, row.get(4)?);
                let rung = |row: &rusqlite::Row<'_>| {
                    let (epochs, best): (i64, i64) = (row.get(0)?, row.get(2)?);
                    Ok(Rung { epochs: epochs as u64, valid_mrr: row.get(1)?, best_epoch: best as u64 })
                };
                trial.rungs = rungs.query_map([number], rung)?.collect::<rusqlite::Result<_>>()?;
                let point = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?));
                trial.curve = curve.query_map([number], point)?.collect::<rusqlite::Result<_>>()?;
                Ok((trial, row.get(1)?, row.get(2)?))
            })?;
            rows.collect()
        };
        let broken = |number: usize, what: &str| self.damaged(&format!("trial {number}: {what}"));
        let rows = read().map_err(told(&self.path))?;
        for (number, (trial, ..)) in rows.iter().enumerate().map(|(at, row)| (at + 1, row)) {
            if trial.number != number {
                return Err(broken(number, "it is missing"));
            }
            let sums = [stored_sum(&self.connection, number as i64), trial_sum(&self.connection, number as i64)];
            let [stored, found] = sums.map(|sum| sum.map_err(told(&self.path)));
            if stored? != found? {
                return Err(broken(number, "it does not match its checksum"));
            }
        }
        let all = all_sum(&self.connection).map_err(told(&self.path))?;
        if self.fact(ALL)?.map_or(!rows.is_empty(), |kept| kept != all) {
            return Err(self.damaged("its trials do not match their checksum"));
        }
        let mut trials = Vec::with_capacity(rows.len());
        for (mut trial, leaves, state) in rows {
            let number = trial.number;
            trial.state = State::ALL
                .into_iter()
                .find(|other| other.name() == state)
                .ok_or_else(|| broken(number, &format!("its state is {state:?}")))?;
            let leaves: Map<String, Json> =
                serde_json::from_str(&leaves).map_err(|error| broken(number, &error.to_string()))?;
            for parameter in &space.parameters {
                let value = leaves.get(&parameter.leaf).and_then(|value| toml::Value::try_from(value).ok());
                trial.point.push(value.ok_or_else(|| broken(number, &format!("{} is missing", parameter.leaf)))?);
            }
            trials.push(trial);
        }
        Ok(trials)
    }
}

/// A search of version 1 gets its hashes.
fn upgrade(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "ALTER TABLE trial ADD COLUMN sha256 TEXT NOT NULL DEFAULT '';
         ALTER TABLE search ADD COLUMN sha256 TEXT NOT NULL DEFAULT '';",
    )?;
    let facts: Vec<(String, String)> = connection
        .prepare("SELECT key, value FROM search")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    facts.iter().try_for_each(|(key, value)| put_fact(connection, key, value))?;
    let numbers: Vec<i64> = connection
        .prepare("SELECT number FROM trial ORDER BY number")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    numbers.into_iter().try_for_each(|number| seal(connection, number))
}

fn put_fact(connection: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    let row = [key, value, &fact_sum(key, value)];
    connection.execute("INSERT OR REPLACE INTO search VALUES (?1, ?2, ?3)", row).map(|_| ())
}

fn fact_sum(key: &str, value: &str) -> String {
    sha256(&format!("{}:{key}{value}", key.len()))
}

/// Gives a trial its hash, and all of them theirs.
fn seal(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    let sum = trial_sum(connection, number)?;
    connection.execute("UPDATE trial SET sha256 = ?1 WHERE number = ?2", params![sum, number])?;
    put_fact(connection, ALL, &all_sum(connection)?)
}

fn stored_sum(connection: &Connection, number: i64) -> rusqlite::Result<String> {
    connection.query_row("SELECT sha256 FROM trial WHERE number = ?1", [number], |row| row.get(0))
}

/// Hash of all that is stored about a trial. Numbers with a point count by their bits.
fn trial_sum(connection: &Connection, number: i64) -> rusqlite::Result<String> {
    let text = |query: &str| -> rusqlite::Result<String> {
        let mut statement = connection.prepare(query)?;
        let columns = statement.column_count();
        let mut rows = statement.query([number])?;
        let mut text = String::new();
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                use rusqlite::types::ValueRef;
                text.push_str(&match row.get_ref(column)? {
                    ValueRef::Null => "-".to_string(),
                    ValueRef::Integer(value) => format!("i{value}"),
                    ValueRef::Real(value) => format!("r{:016x}", value.to_bits()),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        format!("t{}:{}", bytes.len(), String::from_utf8_lossy(bytes))
                    }
                });
                text.push(' ');
            }
            text.push('\n');
        }
        Ok(text)
    };
    let trial =
        "SELECT number, leaves, state, epochs, valid_mrr, best_epoch, seconds, error FROM trial WHERE number = ?1";
    let rungs = "SELECT rung, epochs, valid_mrr, best_epoch FROM rung WHERE trial = ?1 ORDER BY rung";
    let curve = "SELECT epoch, valid_mrr FROM curve WHERE trial = ?1 ORDER BY epoch";
    Ok(sha256(&[text(trial)?, text(rungs)?, text(curve)?].join("\n")))
}

/// Hash of the hashes of all trials: none may get lost unnoticed.
fn all_sum(connection: &Connection) -> rusqlite::Result<String> {
    let mut statement = connection.prepare("SELECT number, sha256 FROM trial ORDER BY number")?;
    let row = |row: &rusqlite::Row<'_>| Ok(format!("{} {}\n", row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    Ok(sha256(&statement.query_map([], row)?.collect::<rusqlite::Result<String>>()?))
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// What SQLite says. Trials that were kept stay kept, whatever a disk does for a moment.
fn told(path: &Path) -> impl FnOnce(rusqlite::Error) -> RugeError {
    let path = path.to_path_buf();
    move |error| {
        let reason = format!("cannot read or write the trials: {error}");
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => RugeError::Damaged { path, reason },
            Some(ErrorCode::DiskFull) => RugeError::CutOff {
                path,
                reason: format!("{reason}; make room on the disk; every finished trial is kept"),
            },
            _ => RugeError::CutOff { path, reason: format!("{reason}; every finished trial is kept") },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_come_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.db");
        let text = "guidance = [{ kind = \"none\" }, { kind = \"ruge\", slackness = 0.1 }]\nmodel.dimension = [8, 16]\n\
                    optimizer.entity-rate = [0.1, 0.30000000000000004, 1.0]\nnegatives.filtered = [true, false]";
        let space = Space::parse(text, "x", None).unwrap();
        let mut trials: Vec<Trial> =
            (0..4).map(|at| Trial::new(at + 1, space.point(&[0.3 * at as f64, 0.9, 0.5, 0.2]))).collect();
        let rung = |epochs, valid_mrr| Rung { epochs, valid_mrr, best_epoch: epochs };
        (trials[1].rungs, trials[1].curve) = (vec![rung(5, 0.1), rung(15, 1.0 / 3.0)], vec![(5, 0.1), (15, 1.0 / 3.0)]);
        (trials[1].state, trials[1].seconds) = (State::Paused, 0.7);
        (trials[2].state, trials[2].error) = (State::Failed, Some("it's \"over\"".into()));
        trials[3].state = State::Finished;
        {
            let mut store = Store::open(&path).unwrap();
            store.keep(&[("space", text)]).unwrap();
            trials.iter().for_each(|trial| store.save(&space, trial).unwrap());
            trials.iter().for_each(|trial| store.save(&space, trial).unwrap());
        }
        let store = Store::open(&path).unwrap();
        assert_eq!(store.trials(&space).unwrap(), trials);
        assert_eq!((store.fact("space").unwrap().as_deref(), store.fact("seed").unwrap()), (Some(text), None));
    }

    #[test]
    fn what_is_no_store_of_ours_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.db");
        std::fs::write(&path, "not a database, but long enough to be looked at as one, is it not? ".repeat(20))
            .unwrap();
        let error = Store::open(&path).err().unwrap().to_string();
        assert!(error.contains("search.db") && error.contains("not a database"), "{error}");
        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
        assert!(Store::open(&path).err().unwrap().to_string().contains("another version"));
        std::fs::remove_file(&path).unwrap();
        let mut store = Store::open(&path).unwrap();
        let space = Space::parse("seed = [1, 2]", "x", None).unwrap();
        store.save(&space, &Trial::new(2, space.point(&[0.0]))).unwrap();
        assert!(store.trials(&space).unwrap_err().to_string().contains("trial 1: it is missing"));
        store.connection.execute("UPDATE trial SET leaves = '{}', number = 1", []).unwrap();
        assert!(store.trials(&space).unwrap_err().to_string().contains("does not match its checksum"));
    }

    #[test]
    fn no_change_behind_its_back_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.db");
        let space = Space::parse("seed = [1, 2]", "x", None).unwrap();
        let mut store = Store::open(&path).unwrap();
        store.keep(&[("space", "seed = [1, 2]")]).unwrap();
        for number in 1..=2 {
            let mut trial = Trial::new(number, space.point(&[0.3 * number as f64]));
            trial.rungs = vec![Rung { epochs: 5, valid_mrr: 0.25, best_epoch: 5 }];
            trial.curve = vec![(5, 0.25)];
            store.save(&space, &trial).unwrap();
        }
        assert_eq!(store.trials(&space).unwrap().len(), 2);
        drop(store);
        let good = std::fs::read(&path).unwrap();
        for change in [
            "UPDATE trial SET seconds = 1.0 WHERE number = 1",
            "UPDATE trial SET state = 'failed' WHERE number = 2",
            "UPDATE trial SET epochs = 6 WHERE number = 2",
            "UPDATE rung SET valid_mrr = 0.5 WHERE trial = 1",
            "DELETE FROM curve WHERE trial = 2",
            "DELETE FROM trial WHERE number = 2",
            "UPDATE search SET value = 'seed = [1, 3]' WHERE key = 'space'",
            "DELETE FROM search WHERE key = 'trials-sha256'",
            "UPDATE trial SET sha256 = '' WHERE number = 1",
        ] {
            std::fs::write(&path, &good).unwrap();
            Connection::open(&path).unwrap().execute(change, []).unwrap();
            let read = Store::open(&path).and_then(|store| store.fact("space").and_then(|_| store.trials(&space)));
            let told = read.expect_err(change).to_string();
            assert!(told.contains("damaged") && told.contains("search.db"), "{told}");
        }
    }

    #[test]
    fn a_search_of_version_1_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.db");
        let tables = TABLES
            .replace(", sha256 TEXT NOT NULL", "")
            .replace("error TEXT,\n        sha256 TEXT NOT NULL", "error TEXT\n       ");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&tables).unwrap();
        connection
            .execute_batch(
                "INSERT INTO search VALUES ('space', 'seed = [1, 2]');
                 INSERT INTO trial VALUES (1, '{\"seed\":2}', 'finished', 4, 0.5, 4, 1.5, NULL);
                 INSERT INTO rung VALUES (1, 0, 4, 0.5, 4);
                 PRAGMA user_version = 1;",
            )
            .unwrap();
        drop(connection);
        let space = Space::parse("seed = [1, 2]", "x", None).unwrap();
        for _ in 0..2 {
            let store = Store::open(&path).unwrap();
            let trials = store.trials(&space).unwrap();
            assert_eq!((trials.len(), trials[0].valid_mrr(), trials[0].state), (1, Some(0.5), State::Finished));
            assert_eq!(store.fact("space").unwrap().as_deref(), Some("seed = [1, 2]"));
        }
    }
}
