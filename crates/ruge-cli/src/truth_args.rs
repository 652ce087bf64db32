//! What a user says about the graph: how complete it is, which facts are true or false, what may not be.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use ruge::Engine;
use ruge::truth::completeness;
use ruge::truth::told::{Told, Understood};
use ruge_kg::Dataset;

use crate::console::Console;
use crate::usage::UsageError;

/// Flags that change truth without training again.
#[derive(Debug, Clone, Default, Args)]
pub struct TruthArgs {
    /// Share of the true facts that are listed, above 0 and below 1, or a file with a relation and its share per line, separated
    /// by a tab [default: estimated]
    #[arg(long, value_name = "SHARE|FILE")]
    pub completeness: Option<String>,
    /// Facts judged by a person, to correct truth by: head, relation, tail and true or false per line, separated by tabs
    #[arg(long, value_name = "FILE")]
    pub feedback: Option<PathBuf>,
    /// Constraints that facts must obey, one per line: functional, inverse-functional, irreflexive, asymmetric, domain, range
    #[arg(long, value_name = "FILE")]
    pub constraints: Option<PathBuf>,
}

impl TruthArgs {
    /// The model, told all of it.
    pub fn tell(&self, engine: Engine, console: Console) -> Result<Engine> {
        let read = Self::read(&self.told(), engine.data(), console)?;
        Ok(read.tell(&engine)?)
    }

    /// As typed.
    pub fn told(&self) -> Told {
        let Self { completeness, feedback, constraints } = self.clone();
        Told { completeness, feedback, constraints }
    }

    /// Reads what was told by the names of a graph. Files that say nothing are named.
    pub fn read(told: &Told, data: &Dataset, console: Console) -> Result<Understood> {
        if let Some(given) = &told.completeness
            && given.trim().parse::<f64>().is_ok()
            && completeness::share(given).is_none()
        {
            bail!(UsageError(format!("--completeness {given}: give a share above 0 and below 1, such as 0.9")));
        }
        let missing = |given: &&String| given.trim().parse::<f64>().is_err() && !Path::new(given.as_str()).exists();
        if let Some(given) = told.completeness.as_ref().filter(missing) {
            bail!("{given}: cannot read it; give a share such as 0.9, or a file");
        }
        let read = told.read(data)?;
        let nothing = [
            (&told.constraints, read.constraints.as_ref().is_some_and(|list| list.is_empty()), "constraints"),
            (&told.feedback, read.judgements.as_ref().is_some_and(Vec::is_empty), "judged facts"),
        ];
        for (path, is_empty, what) in nothing {
            if let Some(path) = path.as_ref().filter(|_| is_empty) {
                console.note(&format!("note: {}: the file has no {what}", path.display()));
            }
        }
        Ok(read)
    }

    /// Files that are read, and must not be written to.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.told().files().into_iter()
    }
}
