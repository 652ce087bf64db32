//! `stages.json`: what of a run is finished, what it was made from, and what came out.
//!
//! A stage is finished when its entry says so, was made from the same inputs, and every file it left still has the content
//! it was left with. Inputs are hashed in a chain: a stage's inputs hold the hashes of the files it reads, so that what
//! changes early makes everything after it stale. The file is replaced whole after every stage; a run that is killed at
//! any moment finds the last state it was in. It carries a checksum of its own ([`sealed_json`]).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Stage;
use ruge::error::{Result, RugeError};
use ruge::model_file::hex;
use ruge::sealed_json;
use ruge::truth::told::Told;

/// Its name in the run folder.
pub const FILE: &str = "stages.json";
/// Its version. Files without one are of earlier programs. Up to version 4, inputs held the spec, too, and guided training applied
/// the thresholds of rules a second time: nothing of such a run counts as finished.
const FORMAT: u32 = 5;

/// What a run folder has come to.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// The version of this file.
    pub format: u32,
    /// The program that began it, for people.
    pub program: String,
    /// The version of the arithmetic: of another one, nothing is reused.
    pub numerics: u32,
    /// Hash of names and triples.
    pub data: String,
    /// The resolved spec, as TOML.
    pub spec: String,
    /// The one that was asked for, where that was made to fit into a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// What a user told about the graph, by which new facts were judged.
    #[serde(default, skip_serializing_if = "Told::is_empty")]
    pub told: Told,
    /// By the name of the stage.
    pub stages: BTreeMap<String, Entry>,
}

/// One stage.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Entry {
    /// Hash of everything it was made from.
    pub inputs: String,
    /// Whether it came to its end.
    pub finished: bool,
    /// How long it took, over all attempts that this file knows of.
    pub seconds: f64,
    /// Files it left, with the hash of their content.
    pub outputs: BTreeMap<String, String>,
    /// What came out, in a sentence.
    pub line: String,
}

impl Ledger {
    /// The ledger of a folder; nothing if it has none.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        sealed_json::read(&path).map_err(|error| match error {
            RugeError::Run { path, reason } => RugeError::Damaged { path, reason },
            other => other,
        })
    }

    /// The ledger of a run that begins.
    pub fn new(data: String, spec: String) -> Self {
        Self {
            format: FORMAT,
            program: format!("ruge {}", env!("CARGO_PKG_VERSION")),
            numerics: ruge_embed::NUMERICS,
            data,
            spec,
            asked: None,
            told: Told::default(),
            stages: BTreeMap::new(),
        }
    }

    /// Replaces the file.
    pub fn write(&self, folder: &Path) -> Result<()> {
        sealed_json::write(&folder.join(FILE), self)
    }

    /// Whether an earlier program wrote the inputs of some stages.
    pub fn is_earlier(&self) -> bool {
        self.format < FORMAT
    }

    /// Notes that every stage is of this program now.
    pub fn settle(&mut self, folder: &Path) -> Result<()> {
        if self.is_earlier() {
            self.format = FORMAT;
            self.write(folder)?;
        }
        Ok(())
    }

    /// Whether a stage has nothing left to do.
    pub fn is_finished(&self, folder: &Path, stage: Stage, inputs: &str) -> bool {
        self.stages.get(stage.name()).is_some_and(|entry| {
            entry.finished
                && entry.inputs == inputs
                && entry.outputs.iter().all(|(name, hash)| file_hash(&folder.join(name)).as_ref() == Some(hash))
        })
    }

    /// The hash of a file that an earlier stage left; empty if no stage did.
    pub fn output(&self, stage: Stage, file: &str) -> &str {
        self.stages.get(stage.name()).and_then(|entry| entry.outputs.get(file)).map_or("", String::as_str)
    }

    /// Notes that a stage is under way. Time that earlier attempts at the same took is kept.
    pub fn begin(&mut self, stage: Stage, inputs: &str) {
        let entry = self.stages.entry(stage.name().to_string()).or_default();
        let seconds = if entry.inputs == inputs && !entry.finished { entry.seconds } else { 0.0 };
        *entry = Entry { inputs: inputs.to_string(), seconds, ..Entry::default() };
    }

    /// Notes that a stage came to its end, or was interrupted.
    pub fn end(&mut self, folder: &Path, stage: Stage, finished: bool, seconds: f64, line: &str) -> Result<()> {
        let mut outputs = BTreeMap::new();
        if finished {
            for name in stage.outputs() {
                if let Some(hash) = file_hash(&folder.join(name)) {
                    outputs.insert((*name).to_string(), hash);
                }
            }
        }
        let entry = self.stages.entry(stage.name().to_string()).or_default();
        entry.finished = finished;
        entry.seconds += seconds;
        entry.outputs = outputs;
        entry.line = line.to_string();
        self.write(folder)
    }
}

/// Gives a file of a run folder its content, whole or not at all.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let (folder, name) =
        (path.parent().unwrap_or(Path::new("")), path.file_name().and_then(|name| name.to_str()).unwrap_or_default());
    ruge_kg::io::write::replace_file_in(folder, name, |mut file| {
        file.write_all(bytes).map_err(RugeError::io(path, "write"))?;
        Ok((file, ()))
    })
}

/// Hash of texts, each with its length, so that no two lists of texts run together.
pub(super) fn hash<'t>(parts: impl IntoIterator<Item = &'t str>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize())
}

/// Hash of a file's content; nothing if it cannot be read.
pub(super) fn file_hash(path: &Path) -> Option<String> {
    let mut hasher = Sha256::new();
    let mut file = fs::File::open(path).ok()?;
    let mut bytes = vec![0; 1 << 20];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Some(hex(&hasher.finalize())),
            Ok(length) => hasher.update(&bytes[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// What stands in a folder before a run begins.
#[derive(Clone, PartialEq, Debug)]
pub enum Found {
    /// Nothing, or nothing but drafts of a run that was killed in its first moment.
    Empty,
    /// A run of this pipeline.
    Run(Box<Ledger>),
    /// A run of `ruge train`.
    Training,
    /// Something else.
    Foreign(PathBuf),
}

impl Found {
    /// Looks at a folder.
    pub fn at(folder: &Path) -> Result<Self> {
        if !folder.exists() {
            return Ok(Self::Empty);
        }
        if !folder.is_dir() {
            return Ok(Self::Foreign(folder.to_path_buf()));
        }
        if let Some(ledger) = Ledger::read(folder)? {
            return Ok(Self::Run(Box::new(ledger)));
        }
        let entries = fs::read_dir(folder).map_err(RugeError::io(folder, "read"))?;
        let mut others: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        others.retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
        others.sort();
        let ours = |name: &str| folder.join(name).is_file();
        Ok(match others.first() {
            None => Self::Empty,
            Some(_) if ours("run.json") => Self::Training,
            Some(_) if ours("spec.toml") && (ours("model.safetensors") || ours("checkpoint.safetensors")) => {
                Self::Training
            }
            Some(first) => Self::Foreign(first.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_finished_while_nothing_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut ledger = Ledger { program: "x".into(), ..Ledger::default() };
        fs::write(path.join("ground.json"), "{}").unwrap();
        ledger.begin(Stage::Ground, "a");
        assert!(!ledger.is_finished(path, Stage::Ground, "a"), "it is only begun");
        ledger.end(path, Stage::Ground, false, 1.0, "interrupted").unwrap();
        ledger.begin(Stage::Ground, "a");
        ledger.end(path, Stage::Ground, true, 2.0, "done").unwrap();
        assert_eq!(ledger.stages["ground"].seconds, 3.0, "both attempts count");
        let read = Ledger::read(path).unwrap().unwrap();
        assert_eq!(read, ledger);
        assert!(read.is_finished(path, Stage::Ground, "a"));
        assert!(!read.is_finished(path, Stage::Ground, "b"), "other inputs");
        fs::write(path.join("ground.json"), "{ }").unwrap();
        assert!(!read.is_finished(path, Stage::Ground, "a"), "its result was changed");
        fs::remove_file(path.join("ground.json")).unwrap();
        assert!(!read.is_finished(path, Stage::Ground, "a"), "its result is gone");
    }

    #[test]
    fn folders_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(Found::at(&path.join("nowhere")).unwrap(), Found::Empty);
        assert_eq!(Found::at(path).unwrap(), Found::Empty);
        fs::write(path.join(".draft"), "").unwrap();
        assert_eq!(Found::at(path).unwrap(), Found::Empty);
        fs::write(path.join("letter.txt"), "").unwrap();
        assert_eq!(Found::at(path).unwrap(), Found::Foreign(path.join("letter.txt")));
        fs::write(path.join("spec.toml"), "").unwrap();
        assert!(matches!(Found::at(path).unwrap(), Found::Foreign(_)));
        fs::write(path.join("checkpoint.safetensors"), "").unwrap();
        assert_eq!(Found::at(path).unwrap(), Found::Training);
        Ledger::default().write(path).unwrap();
        assert!(matches!(Found::at(path).unwrap(), Found::Run(_)));
        fs::write(path.join(FILE), "{").unwrap();
        assert!(Found::at(path).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn texts_do_not_run_together() {
        assert_ne!(hash(["ab", "c"]), hash(["a", "bc"]));
    }
}
