//! What a user says about the graph: how complete it is, which facts are true or false, what may not be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ruge::Engine;
use ruge::constraints::Constraints;
use ruge::truth::Completeness;
use ruge::truth::feedback;

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
    pub fn tell(&self, mut engine: Engine, console: Console) -> Result<Engine> {
        if let Some(given) = &self.completeness {
            engine = engine.with_completeness(completeness(given, &engine)?);
        }
        if let Some(path) = &self.constraints {
            let constraints = Constraints::read(path, engine.data())?;
            if constraints.is_empty() {
                console.note(&format!("note: {}: the file has no constraints", path.display()));
            }
            engine = engine.with_constraints(constraints);
        }
        if let Some(path) = &self.feedback {
            let judged = feedback::read(path, &engine)?;
            if judged.is_empty() {
                console.note(&format!("note: {}: the file has no judged facts", path.display()));
            }
            engine = engine.with_feedback(&judged)?;
        }
        Ok(engine)
    }

    /// Files that are read, and must not be written to.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        [&self.feedback, &self.constraints].into_iter().flatten().cloned().collect::<Vec<_>>().into_iter()
    }
}

fn share(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0)
}

fn completeness(given: &str, engine: &Engine) -> Result<Completeness> {
    if given.trim().parse::<f64>().is_ok() {
        return match share(given) {
            Some(share) => Ok(Completeness { all: Some(share), relations: BTreeMap::new() }),
            None => bail!(UsageError(format!("--completeness {given}: give a share above 0 and below 1, such as 0.9"))),
        };
    }
    let path = Path::new(given);
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: cannot read it; give a share such as 0.9, or a file", path.display()))?;
    let mut found = Completeness::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.strip_prefix('\u{feff}').unwrap_or(line).trim_end_matches('\r');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", path.display(), at + 1);
        let Some((name, share)) = line.rsplit_once('\t').and_then(|(name, text)| Some((name, share(text)?))) else {
            bail!("{place}: write a relation, a tab, and a share above 0 and below 1; * stands for all relations");
        };
        match name {
            "*" => found.all = Some(share),
            name => {
                found.relations.insert(engine.relation(name).with_context(|| place)?, share);
            }
        }
    }
    Ok(found)
}
