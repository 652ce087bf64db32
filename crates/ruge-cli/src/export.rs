//! `ruge export`: a model for other tools.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use ruge::{DeviceName, ModelFile};
use ruge_lab::export::{ExportFormat, export, left_out};
use serde_json::json;

use crate::console::Console;
use crate::text::counted;

/// Export a model's vectors, rules and groundings for other tools
///
/// npy: NumPy arrays and names. word2vec: the text format gensim reads. parquet: tables with a list column. pykeen: a folder
/// whose load.py builds PyKEEN's own model with these weights. If rules guided the model, they are exported with their
/// groundings. If rules and evidence rank, npy and parquet have tables of them; the other formats have the vectors alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge export runs/demo --to npy
  ruge export runs/demo --to parquet --out vectors
  ruge export runs/demo --to pykeen --out pykeen && python pykeen/load.py")]
pub struct ExportArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: FormatArg,
    /// Output folder [default: export/FORMAT next to the model]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormatArg {
    Npy,
    Word2vec,
    Parquet,
    Pykeen,
}

/// Runs `ruge export MODEL --to FORMAT`.
pub fn run(args: &ExportArgs, console: Console) -> Result<()> {
    let path = ModelFile::find(&args.model);
    let engine = crate::open::engine(&args.model, DeviceName::Cpu, console)?;
    let format = match args.to {
        FormatArg::Npy => ExportFormat::Npy,
        FormatArg::Word2vec => ExportFormat::Word2vec,
        FormatArg::Parquet => ExportFormat::Parquet,
        FormatArg::Pykeen => ExportFormat::Pykeen,
    };
    let out = match &args.out {
        Some(out) => out.clone(),
        None => path.with_file_name("export").join(format.name()),
    };
    let files = export(&engine, format, &out, args.force)?;
    let left_out = left_out(&engine, format);
    if let Some(left_out) = &left_out {
        console.note(&format!("note: {left_out}; npy and parquet have all of it"));
    }
    if console.json {
        let mut object = json!({ "format": format.name(), "out": out, "paths": files });
        if let (Some(left_out), Some(object)) = (left_out, object.as_object_mut()) {
            object.insert("left_out".into(), left_out.into());
        }
        return console.json_result(&object);
    }
    let mut text = match engine.model() {
        Some(_) => format!(
            "{} and {} of dimension {} written to {}\n",
            counted(engine.data().entity_count(), "entity"),
            counted(engine.data().relation_count(), "relation"),
            engine.spec().model.dimension,
            out.display()
        ),
        None => format!("{} written to {}\n", counted(engine.rules().len(), "rule"), out.display()),
    };
    for file in &files {
        text.push_str(&format!("  {}\n", file.file_name().unwrap_or_default().to_string_lossy()));
    }
    console.result(&text)
}
