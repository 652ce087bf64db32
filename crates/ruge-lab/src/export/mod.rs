//! A model for other tools: its vectors, its names, its rules and where they hold.
//!
//! Each format is a folder of plain files. All of them have `about.json` (which model, how its rows are laid out), and, where
//! rules guided the model, the table of rules and the table of their groundings. Nothing is overwritten unless asked
//! for, and an export is complete or not there: see [`staging`].

mod npy;
mod parquet;
mod parquet_file;
mod pykeen;
mod staging;
mod tables;
mod word2vec;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use ruge::Engine;
use ruge::error::{Result, RugeError};
use ruge::model_file::data_hash;
use ruge::spec::ModelName;
use ruge_embed::Embeddings;
use staging::Staging;

/// What to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// NumPy arrays, names as text files.
    Npy,
    /// word2vec's text format, which gensim reads.
    Word2vec,
    /// Apache Parquet tables.
    Parquet,
    /// Arrays, triples and a script that gives PyKEEN's model with these weights.
    Pykeen,
}

impl ExportFormat {
    /// As typed.
    pub fn name(self) -> &'static str {
        match self {
            ExportFormat::Npy => "npy",
            ExportFormat::Word2vec => "word2vec",
            ExportFormat::Parquet => "parquet",
            ExportFormat::Pykeen => "pykeen",
        }
    }

    /// The files it consists of, for a model with or without rules.
    fn files(self, rules: bool) -> Vec<&'static str> {
        let (mut files, tables) = match self {
            ExportFormat::Npy => (
                vec!["entities.npy", "relations.npy", "entities.txt", "relations.txt"],
                ["rules.tsv", "groundings.tsv"],
            ),
            ExportFormat::Word2vec => (vec!["entities.w2v.txt", "relations.w2v.txt"], ["rules.tsv", "groundings.tsv"]),
            ExportFormat::Parquet => {
                (vec!["entities.parquet", "relations.parquet"], ["rules.parquet", "groundings.parquet"])
            }
            ExportFormat::Pykeen => (
                vec![
                    "entities.npy",
                    "relations.npy",
                    "entity_to_id.tsv",
                    "relation_to_id.tsv",
                    "train.tsv",
                    "valid.tsv",
                    "test.tsv",
                    "expected.tsv",
                    "load.py",
                ],
                ["rules.tsv", "groundings.tsv"],
            ),
        };
        if rules {
            files.extend(tables);
        }
        files.push("about.json");
        files
    }
}

/// Writes a model into a folder; returns the files.
///
/// Without `force` nothing is written where one of the files is already there. `about.json` comes last, so a folder that has
/// it is complete. A link in the place of a file is refused.
pub fn export(engine: &Engine, format: ExportFormat, out: &Path, force: bool) -> Result<Vec<PathBuf>> {
    let (Some(embeddings), None) = (engine.embeddings()?, engine.ranking()) else {
        let reason = "this model ranks by rules, which no format of vectors can say".into();
        return Err(RugeError::Unwritable { path: out.to_path_buf(), reason, formats: &[] });
    };
    let (every, names) = (format.files(true), format.files(!engine.rules().is_empty()));
    let staging = Staging::begin(out, &every, &names, force)?;
    let target = Target { out, folder: staging.folder(), engine, embeddings };
    match format {
        ExportFormat::Npy => npy::write(&target)?,
        ExportFormat::Word2vec => word2vec::write(&target)?,
        ExportFormat::Parquet => parquet::write(&target)?,
        ExportFormat::Pykeen => pykeen::write(&target)?,
    }
    if !engine.rules().is_empty() && format != ExportFormat::Parquet {
        tables::write(&target)?;
    }
    target.put("about.json", |out| {
        serde_json::to_writer_pretty(&mut *out, &about(engine, format))?;
        writeln!(out)
    })?;
    staging.finish(&every, &names)?;
    Ok(names.into_iter().map(|name| out.join(name)).collect())
}

/// Where to, and what.
struct Target<'t> {
    /// Where the user wants it.
    out: &'t Path,
    /// Where it is written.
    folder: &'t Path,
    engine: &'t Engine,
    embeddings: &'t Embeddings,
}

impl Target<'_> {
    /// Writes one file, complete or not at all.
    fn put(&self, name: &str, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
        let path = self.folder.join(name);
        ruge_kg::io::write::replace_file(&path, |file| {
            let mut out = BufWriter::with_capacity(1 << 18, file);
            write(&mut out).map_err(RugeError::io(&path, "write"))?;
            let file = out.into_inner().map_err(|error| RugeError::io(&path, "write")(error.into_error()))?;
            Ok((file, ()))
        })
    }

    /// Entity names in the order of their rows.
    fn entities(&self) -> impl Iterator<Item = &str> {
        self.engine.data().names().entities.iter().map(|(_, name)| name)
    }

    /// Relation names in the order of their rows.
    fn relations(&self) -> impl Iterator<Item = &str> {
        self.engine.data().names().relations.iter().map(|(_, name)| name)
    }

    /// The error of a model that this format cannot hold, and these can.
    fn unwritable(&self, reason: impl Into<String>, formats: &'static [&'static str]) -> RugeError {
        RugeError::Unwritable { path: self.out.to_path_buf(), reason: reason.into(), formats }
    }

    /// Refuses names that a line of tab-separated text cannot hold.
    fn check_lines(&self, format: &str) -> Result<()> {
        let bad = |name: &&str| name.contains(['\t', '\n', '\r']);
        match self.entities().chain(self.relations()).find(bad) {
            None => Ok(()),
            Some(name) => {
                let reason = format!("the name {name:?} holds a tab or a line end, which {format} cannot keep");
                Err(self.unwritable(reason, &["parquet"]))
            }
        }
    }
}

fn about(engine: &Engine, format: ExportFormat) -> serde_json::Value {
    let rows = match engine.spec().model.name {
        ModelName::ComplEx => "d real parts, then d imaginary parts",
        ModelName::RotatE => "entities: d real parts, then d imaginary parts; relations: d phases in radians",
        ModelName::DistMult | ModelName::HolE | ModelName::TransE => "d numbers",
        ModelName::Rules => "none: rules have no vectors",
    };
    let halves = "; relations: such a row for (h, r, ?), then one for (t, r⁻¹, ?)";
    let rows = format!("{rows}{}", if engine.spec().model.reciprocal { halves } else { "" });
    json!({
        "format": format.name(),
        "model": engine.spec().model.name.name(),
        "dimension": engine.spec().model.dimension,
        "norm": engine.spec().model.norm,
        "guidance": engine.spec().guidance().name(),
        "rows": rows,
        "entities": engine.data().entity_count(),
        "relations": engine.data().relation_count(),
        "rules": engine.rules().len(),
        "data_sha256": data_hash(engine.data()),
        "version": env!("CARGO_PKG_VERSION"),
    })
}
