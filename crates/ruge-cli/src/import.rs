//! `ruge import`: a model of PyKEEN or LibKGE as one of ours.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ruge::run::Mode;
use ruge_lab::import;
use serde_json::json;

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::text::counted;

/// Import a model that PyKEEN or LibKGE has trained
///
/// The result is a model like any other: eval, predict, explain, complete, combine, export and serve take it. ComplEx, DistMult,
/// HolE and TransE of PyKEEN and ComplEx, DistMult and TransE of LibKGE have the same formulas here; other models are refused. Files
/// are read as data, and nothing in them is run. PyKEEN's folder has the training triples alone: with --data, the held-out triples
/// let `ruge eval` rank them, and truth and rules be fitted on validation.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge import pykeen-results --data data/fb15k-237 --out runs/imported
  ruge import libkge/local/experiments/fb15k-237-complex --data libkge/data/fb15k-237 --out runs/imported
  ruge combine runs/imported --out runs/with-rules")]
pub struct ImportArgs {
    /// A folder of PyKEEN's save_to_directory, or a folder or checkpoint of LibKGE
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The data that the model was trained on, with their split; needed for LibKGE [default: PyKEEN's training triples]
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,
    /// Output folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace an existing run
    #[arg(long)]
    force: bool,
}

/// Runs `ruge import FOLDER`.
pub fn run(args: &ImportArgs, console: Console) -> Result<()> {
    let loaded = match &args.data {
        Some(path) => Some(DataArgs::plain(path).load(console)?),
        None => None,
    };
    if let Some(loaded) = &loaded {
        loaded.announce(console);
    }
    let imported = import::read(&args.folder, loaded.as_ref().map(|loaded| &loaded.data))?;
    let mode = if args.force { Mode::Force } else { Mode::Fresh };
    let model = import::write(&imported, &args.out, mode)?;
    let (engine, lost) = (&imported.engine, imported.unknown.iter().sum::<usize>());
    let data = engine.data();
    if lost > 0 {
        let name = if lost == 1 { "names" } else { "name" };
        let lost = counted(lost, "triple");
        console.note(&format!("note: {lost} of DATA {name} what the model does not know; left out"));
    }
    if data.valid().is_empty() {
        console.note(
            "note: without validation triples, truth is not calibrated and no rules can be combined with the model; give --data",
        );
    }
    if console.json {
        return console.json_result(&json!({
            "origin": imported.origin,
            "entities": data.entity_count(),
            "relations": data.relation_count(),
            "train": data.train().len(),
            "valid": data.valid().len(),
            "test": data.test().len(),
            "left_out": imported.unknown,
            "model": model,
        }));
    }
    console.result(&format!(
        "{} of dimension {}, {} and {}, written to {}\nnext: ruge {} {}\n",
        imported.origin,
        engine.spec().model.dimension,
        counted(data.entity_count(), "entity"),
        counted(data.relation_count(), "relation"),
        args.out.display(),
        if data.valid().is_empty() { "predict" } else { "combine" },
        args.out.display()
    ))
}
