//! Opening a model that the user named.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use ruge::{DeviceName, Engine, OpenOptions};
use ruge_kg::Dataset;

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::text::{counted, grouped};

/// MODEL, a run folder or a model.safetensors, ready for questions.
pub fn engine(path: &Path, device: DeviceName, console: Console) -> Result<Engine> {
    with(path, &OpenOptions { device, ..OpenOptions::default() }, console)
}

/// The same, with choices. Files of earlier programs are opened, and said to be such.
pub fn with(path: &Path, options: &OpenOptions, console: Console) -> Result<Engine> {
    let engine = Engine::open_with(path, options)?;
    if engine.is_old() {
        console.note(&format!(
            "note: {} was written by an earlier version of ruge: its checksum covers the numbers, but not settings, rules and \
             truth values",
            path.display()
        ));
    }
    Ok(engine)
}

/// A graph other than the model's own.
#[derive(Debug, Clone, Args)]
pub struct GraphArgs {
    /// Answer on another graph, with entities of its own and the model's relations: a folder with train, or one file.
    /// Rules, their weights and evidence are used; vectors and rules that name an entity are not
    #[arg(long, value_name = "DATA")]
    pub graph: Option<PathBuf>,
}

impl GraphArgs {
    /// The model as it is, or on the other graph, with that graph as it was read.
    pub fn place(&self, engine: Engine, console: Console) -> Result<(Engine, Option<Dataset>)> {
        let Some(path) = &self.graph else { return Ok((engine, None)) };
        let loaded = DataArgs::plain(path).load(console)?;
        loaded.announce(console);
        let (there, unseen) = engine.on_graph(&loaded.data).with_context(|| path.display().to_string())?;
        let rules = counted(there.rules().len(), "rule");
        let evidence = there.ranking().is_some_and(|ranking| ranking.evidence.is_some());
        let evidence = if evidence { " and evidence" } else { "" };
        console.note(&format!("note: answering on {} by {rules}{evidence} learned elsewhere", path.display()));
        let mut unused = Vec::new();
        if unseen.vectors {
            unused.push("the model's vectors".to_string());
        }
        if unseen.constants > 0 {
            unused.push(match unseen.constants {
                1 => "1 rule that names an entity".into(),
                count => format!("{} rules that name an entity", grouped(count)),
            });
        }
        if !unused.is_empty() {
            console.note(&format!("note: not used there: {}", unused.join(" and ")));
        }
        let facts: usize = unseen.unknown.iter().sum();
        if facts > 0 {
            let names = loaded.data.names().relations.iter().map(|(_, name)| name);
            let unknown: Vec<&str> = names.filter(|name| there.relation(name).is_err()).collect();
            let shown = unknown.iter().take(3).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let more = if unknown.len() > 3 { format!(" and {} more", unknown.len() - 3) } else { String::new() };
            console.note(&format!(
                "note: {} ignored: the model does not know {} relation ({shown}{more})",
                if facts == 1 { "1 fact is".into() } else { format!("{} facts are", grouped(facts)) },
                if facts == 1 { "its" } else { "their" },
            ));
        }
        console.note("note: truth values are those of the model's own graph; they were not fitted on this one");
        Ok((there, Some(loaded.data)))
    }
}
