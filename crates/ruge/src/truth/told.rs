//! What a user tells about the graph, as typed: how complete it is, which facts are true or false, what may not be.
//!
//! It changes truth without training again. The same words are understood by every command, and a run keeps them beside its results.

use std::path::{Path, PathBuf};

use ruge_kg::Dataset;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::completeness::{Completeness, share};
use super::{Judgement, feedback};
use crate::constraints::Constraints;
use crate::engine::Engine;
use crate::error::{Result, RugeError};
use crate::model_file::hex;

/// As typed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// A share above 0 and below 1, or a file of relations and their shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness: Option<String>,
    /// A file of judged facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<PathBuf>,
    /// A file of constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<PathBuf>,
}

/// What was read.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Understood {
    /// Shares of the true facts that are listed.
    pub completeness: Option<Completeness>,
    /// Judged facts.
    pub judgements: Option<Vec<Judgement>>,
    /// Constraints.
    pub constraints: Option<Constraints>,
}

impl Told {
    /// Whether nothing was told.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Files that are read.
    pub fn files(&self) -> Vec<PathBuf> {
        let shares = self.completeness.as_ref().filter(|given| !is_number(given)).map(PathBuf::from);
        shares.into_iter().chain(self.feedback.clone()).chain(self.constraints.clone()).collect()
    }

    /// Reads it by the names of a graph.
    pub fn read(&self, data: &Dataset) -> Result<Understood> {
        let completeness = match &self.completeness {
            None => None,
            Some(given) if is_number(given) => match share(given) {
                Some(share) => Some(Completeness { all: Some(share), ..Completeness::default() }),
                None => {
                    let reason = format!("completeness {given}: give a share above 0 and below 1, such as 0.9");
                    return Err(RugeError::refused(reason));
                }
            },
            Some(file) => Some(Completeness::read(Path::new(file), data)?),
        };
        let judgements = self.feedback.as_ref().map(|path| feedback::read_about(path, data)).transpose()?;
        let constraints = self.constraints.as_ref().map(|path| Constraints::read(path, data)).transpose()?;
        Ok(Understood { completeness, judgements, constraints })
    }

    /// A hash of everything told, with the content of the files; empty if nothing was.
    pub fn digest(&self) -> Result<String> {
        if self.is_empty() {
            return Ok(String::new());
        }
        let mut hasher = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        match &self.completeness {
            Some(given) if is_number(given) => part(given.trim().as_bytes()),
            given => part(&content(given.as_ref().map(Path::new))?),
        }
        part(&content(self.feedback.as_deref())?);
        part(&content(self.constraints.as_deref())?);
        Ok(hex(&hasher.finalize()))
    }
}

impl Understood {
    /// The model, told all of it.
    pub fn tell(&self, engine: &Engine) -> Result<Engine> {
        let mut engine = engine.clone();
        if let Some(completeness) = &self.completeness {
            engine = engine.with_completeness(completeness.clone());
        }
        if let Some(constraints) = &self.constraints {
            engine = engine.with_constraints(constraints.clone());
        }
        match &self.judgements {
            Some(judgements) => engine.with_feedback(judgements),
            None => Ok(engine),
        }
    }
}

/// Whether it is meant as a share, and not as a file.
fn is_number(given: &str) -> bool {
    given.trim().parse::<f64>().is_ok()
}

fn content(path: Option<&Path>) -> Result<Vec<u8>> {
    path.map_or(Ok(Vec::new()), |path| std::fs::read(path).map_err(RugeError::io(path, "read")))
}
