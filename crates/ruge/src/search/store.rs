//! Trials in SQLite: `search.db`, for us to go on from and for anyone to ask.
//!
//! Four tables: `search` (the space as TOML, what it runs on), `trial` (a row each, its leaves as JSON), `rung` and `curve`. A
//! trial is written whole in one transaction, so the file always tells of a moment that was.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value as Json};

use super::space::{Point, Space};
use super::{Rung, State, Trial};
use crate::error::{Result, RugeError};

/// The shape of the tables; another number is another program's.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE search (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE trial (
        number INTEGER PRIMARY KEY,
        leaves TEXT NOT NULL,     -- JSON: what the searched leaves of the spec are
        state TEXT NOT NULL,      -- running, paused, finished, failed
        epochs INTEGER,           -- done at the end of the last rung
        valid_mrr REAL,           -- the best until then
        best_epoch INTEGER,
        seconds REAL NOT NULL,
        error TEXT
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
    /// Opens a file, or makes it.
    pub fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path).map_err(told(path))?;
        let mut store = Self { path: path.to_path_buf(), connection };
        let version: i64 =
            store.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(told(path))?;
        match version {
            VERSION => {}
            0 => {
                let transaction = store.connection.transaction().map_err(told(path))?;
                transaction.execute_batch(TABLES).map_err(told(path))?;
                transaction.pragma_update(None, "user_version", VERSION).map_err(told(path))?;
                transaction.commit().map_err(told(path))?;
            }
            other => {
                return Err(RugeError::Run {
                    path: path.to_path_buf(),
                    reason: format!("it was made by another version of ruge (format {other}); begin anew with --force"),
                });
            }
        }
        Ok(store)
    }

    /// A fact about the search.
    pub fn fact(&self, key: &str) -> Result<Option<String>> {
        let found = self.connection.query_row("SELECT value FROM search WHERE key = ?1", [key], |row| row.get(0));
        found.optional().map_err(told(&self.path))
    }

    /// Keeps facts about the search.
    pub fn keep(&mut self, facts: &[(&str, &str)]) -> Result<()> {
        let transaction = self.connection.transaction().map_err(told(&self.path))?;
        for (key, value) in facts {
            let done = transaction.execute("INSERT OR REPLACE INTO search VALUES (?1, ?2)", [key, value]);
            done.map_err(told(&self.path))?;
        }
        transaction.commit().map_err(told(&self.path))
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
                "INSERT OR REPLACE INTO trial VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
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
        let broken = |number: usize, what: &str| RugeError::Run {
            path: self.path.clone(),
            reason: format!("trial {number} is damaged: {what}; begin anew with --force"),
        };
        let rows = read().map_err(told(&self.path))?;
        let mut trials = Vec::with_capacity(rows.len());
        for (at, (mut trial, leaves, state)) in rows.into_iter().enumerate() {
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
            if number != at + 1 {
                return Err(broken(at + 1, "it is missing"));
            }
            trials.push(trial);
        }
        Ok(trials)
    }
}

fn told(path: &Path) -> impl FnOnce(rusqlite::Error) -> RugeError {
    let path = path.to_path_buf();
    move |error| RugeError::Run {
        path,
        reason: format!("cannot read or write the trials: {error}; --force begins anew"),
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
        assert!(store.trials(&space).unwrap_err().to_string().contains("trial 1 is damaged"));
        store.connection.execute("UPDATE trial SET leaves = '{}', number = 1", []).unwrap();
        assert!(store.trials(&space).unwrap_err().to_string().contains("seed is missing"));
    }
}
