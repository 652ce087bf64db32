//! A model for other tools: its vectors, its names, its rules and where they hold.
//!
//! Each format is a folder of plain files. All of them have `about.json` (which model, how its rows are laid out), and, where
//! rules guided the model, the table of rules and the table of their groundings. Where rules and evidence rank, formats of tables have
//! the rules with their weights, the settings and the weights of evidence; formats of vectors alone leave them out and say so
//! ([`left_out`]). Nothing is overwritten unless asked for, and an export is complete or not there: see [`staging`]. [`facts`] writes
//! proposed facts.

pub mod facts;
mod npy;
mod parquet;
mod parquet_file;
mod pykeen;
mod ranking;
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
use ruge_rules::rank::Ranking;
use ruge_rules::words;
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

    /// Whether it has tables of what ranks besides vectors.
    fn has_tables(self) -> bool {
        matches!(self, ExportFormat::Npy | ExportFormat::Parquet)
    }

    /// The files it consists of, for a model of such parts.
    fn files(self, parts: &Parts) -> Vec<&'static str> {
        let text = self != ExportFormat::Parquet;
        let (vectors, tables): (&[&str], [&str; 4]) = match self {
            ExportFormat::Npy => (&["entities.npy", "relations.npy", "entities.txt", "relations.txt"], TEXT),
            ExportFormat::Word2vec => (&["entities.w2v.txt", "relations.w2v.txt"], TEXT),
            ExportFormat::Parquet => (&["entities.parquet", "relations.parquet"], PARQUET),
            ExportFormat::Pykeen => (
                &[
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
                TEXT,
            ),
        };
        let [rules, groundings, ranking, evidence] = tables;
        let mut files = if parts.vectors { vectors.to_vec() } else { Vec::new() };
        let more = [
            (parts.rules, rules),
            (parts.groundings, groundings),
            (parts.ranking, ranking),
            (parts.evidence, evidence),
            (parts.weights && text, ranking::RULE_WEIGHTS),
        ];
        files.extend(more.into_iter().filter_map(|(there, file)| there.then_some(file)));
        files.push("about.json");
        files
    }
}

/// Rules, their groundings, settings and weights of evidence.
const TEXT: [&str; 4] = ["rules.tsv", "groundings.tsv", "ranking.tsv", "evidence.tsv"];
const PARQUET: [&str; 4] = ["rules.parquet", "groundings.parquet", "ranking.parquet", "evidence.parquet"];

/// What of a model goes into an export.
struct Parts {
    vectors: bool,
    rules: bool,
    /// Where rules guided. Rules that rank are far too many for it.
    groundings: bool,
    ranking: bool,
    evidence: bool,
    /// What was learned that rules weigh.
    weights: bool,
}

impl Parts {
    const ALL: Parts =
        Parts { vectors: true, rules: true, groundings: true, ranking: true, evidence: true, weights: true };

    fn of(engine: &Engine, format: ExportFormat) -> Result<Self> {
        let contents = engine.contents()?;
        let (vectors, rules) = (contents.embeddings.is_some(), !contents.rules.is_empty());
        let Some(ranking) = contents.ranking else {
            return Ok(Self { vectors, rules, groundings: rules, ranking: false, evidence: false, weights: false });
        };
        let tables = format.has_tables();
        Ok(Self {
            vectors,
            rules: rules && tables,
            groundings: false,
            ranking: tables,
            evidence: tables && has_evidence(ranking),
            weights: tables && rules && contents.weights.is_some(),
        })
    }
}

/// Whether evidence counts, next to a model or with rules alone.
fn has_evidence(ranking: &Ranking) -> bool {
    ranking.evidence.is_some() || ranking.alone.as_ref().is_some_and(|alone| alone.evidence.is_some())
}

/// What a format leaves out of a model, in words; nothing where it has all of it.
pub fn left_out(engine: &Engine, format: ExportFormat) -> Option<String> {
    let ranking = engine.ranking().filter(|ranking| !format.has_tables() && ranking.counts())?;
    let parts = [(ranking.uses_rules(), "rules"), (ranking.evidence.is_some(), "evidence")];
    let parts: Vec<&str> = parts.into_iter().filter_map(|(counts, name)| counts.then_some(name)).collect();
    Some(format!("the model also ranks by {}, which this format leaves out", parts.join(" and ")))
}

/// Writes a model into a folder; returns the files.
///
/// Without `force` nothing is written where one of the files is already there. `about.json` comes last, so a folder that has
/// it is complete. A link in the place of a file is refused.
pub fn export(engine: &Engine, format: ExportFormat, out: &Path, force: bool) -> Result<Vec<PathBuf>> {
    let embeddings = engine.embeddings()?;
    if embeddings.is_none() && !format.has_tables() {
        let reason = "this model is rules alone, and the format holds nothing but vectors".into();
        return Err(RugeError::Unwritable { path: out.to_path_buf(), reason, formats: &["npy", "parquet"] });
    }
    let parts = Parts::of(engine, format)?;
    let (every, names) = (format.files(&Parts::ALL), format.files(&parts));
    let staging = Staging::begin(out, &every, &names, force)?;
    let target = Target { out, folder: staging.folder(), engine, format };
    if let Some(embeddings) = embeddings {
        match format {
            ExportFormat::Npy => npy::write(&target, embeddings)?,
            ExportFormat::Word2vec => word2vec::write(&target, embeddings)?,
            ExportFormat::Parquet => parquet::write(&target, embeddings)?,
            ExportFormat::Pykeen => pykeen::write(&target, embeddings)?,
        }
    }
    match format {
        _ if !parts.rules => {}
        ExportFormat::Parquet => parquet::write_rules(&target, parts.groundings)?,
        _ => tables::write(&target, parts.groundings)?,
    }
    if let Some(ranking) = engine.ranking().filter(|_| parts.ranking) {
        ranking::write(&target, ranking)?;
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
    format: ExportFormat,
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

    /// Rules that the model's own names can say, by their place.
    fn sayable(&self) -> impl Iterator<Item = usize> {
        let names = self.engine.data().names();
        let rules = self.engine.rules().iter().enumerate();
        rules.filter(|(_, record)| words::is_sayable(&record.rule, names)).map(|(at, _)| at)
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
    let mut about = json!({
        "format": format.name(),
        "model": engine.spec().model.name.name(),
        "dimension": engine.spec().model.dimension,
        "norm": engine.spec().model.norm,
        "reciprocal": engine.spec().model.reciprocal,
        "guidance": engine.spec().guidance().name(),
        "rows": rows,
        "entities": engine.data().entity_count(),
        "relations": engine.data().relation_count(),
        "rules": engine.rules().len(),
        "data_sha256": data_hash(engine.data()),
        "version": env!("CARGO_PKG_VERSION"),
    });
    if let (Some(ranking), Some(about)) = (engine.ranking(), about.as_object_mut()) {
        let features = ranking.evidence.as_ref().map(|evidence| &evidence.features);
        let ranking = json!({
            "smoothing": ranking.smoothing, "injective": ranking.injective, "hiding": ranking.hiding,
            "near": ranking.near, "rules": ranking.uses_rules(), "evidence": features,
        });
        about.insert("ranking".into(), ranking);
        about.extend(left_out(engine, format).map(|words| ("left_out".into(), words.into())));
    }
    about
}
