//! The cells of a table, as `experiments/<table>.toml` lists them.
//!
//! A cell is a spec file with leaves laid over it, and seeds. A leaf that is a list makes the cell a grid: every
//! combination is a point, and the point that is best on validation is the cell's result. A cell with `sweep` stands for
//! many, one per value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::leaves;
use ruge::error::{Result, RugeError};
use ruge::spec::{DeviceName, Spec};

/// A table or figure of the paper, or one of ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableName {
    /// MRR, MED and HITS@N of every system.
    LinkPrediction,
    /// MRR against the least confidence of rules.
    Confidence,
    /// Seconds of extraction, propositionalisation and an epoch.
    Runtime,
    /// Rules, groundings, unlabeled triples.
    Statistics,
    /// What each part of RUGE is worth.
    Ablation,
    /// The best systems of ours.
    Best,
}

impl TableName {
    /// All of them, in the order of reading.
    pub const ALL: [Self; 6] =
        [Self::LinkPrediction, Self::Confidence, Self::Runtime, Self::Statistics, Self::Ablation, Self::Best];

    /// As typed, and as its file is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::LinkPrediction => "link-prediction",
            Self::Confidence => "confidence",
            Self::Runtime => "runtime",
            Self::Statistics => "statistics",
            Self::Ablation => "ablation",
            Self::Best => "best",
        }
    }
}

/// What a table says, and its cells.
#[derive(Clone, Debug)]
pub struct PaperTable {
    /// Which one.
    pub name: TableName,
    /// Its heading.
    pub title: String,
    /// What a reader must know about it.
    pub note: String,
    /// Its cells, sweeps spelled out.
    pub cells: Vec<Cell>,
}

/// What is done for a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Train, then rank the test triples.
    #[default]
    Train,
    /// Train a few epochs and look at the clock alone.
    Time,
    /// Mine and ground; nothing is trained.
    Statistics,
}

/// Who ranks the test triples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankBy {
    /// The trained model.
    #[default]
    Model,
    /// Candidates that a rule reaches come first, by confidence; the model ranks among equals and the rest.
    RulesFirst,
    /// The trained model with rules beside it, mined for ranking and fitted on validation.
    Combined,
}

/// Figures a paper states; those it does not state are missing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct Published {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mrr: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub med: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hits: BTreeMap<String, f64>,
    /// Seconds of mining rules or extracting paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extraction: Option<f64>,
    /// Seconds of propositionalisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grounding: Option<f64>,
    /// Seconds of an epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groundings: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlabeled: Option<u64>,
}

/// One cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The table it belongs to.
    pub table: TableName,
    /// Unique in its table; the first part of its records' names.
    pub name: String,
    /// The system, as readers know it.
    pub method: String,
    /// The data set: a folder of the data folder, or `demo`.
    pub data: String,
    /// The spec file, within the experiments folder.
    pub spec: PathBuf,
    /// Leaves laid over it; lists make a grid.
    pub change: toml::Table,
    /// Leaves that follow another: in a grid they take its value.
    pub tie: BTreeMap<String, String>,
    /// One run each.
    pub seeds: Vec<u64>,
    /// What is done.
    pub work: Task,
    /// Who ranks.
    pub rank_by: RankBy,
    /// The only device it is meant for.
    pub device: Option<DeviceName>,
    /// What the paper says.
    pub published: Option<Published>,
    /// What a reader must know about the row.
    pub note: String,
    /// Part of the small subset for everyone, and of nothing else.
    pub quick: bool,
    /// Its data have no public home: where they are missing the cell is left out.
    pub optional: bool,
    /// Its place on the axis of a sweep.
    pub x: Option<f64>,
    /// Rules of the paper to look for.
    pub examples: Vec<String>,
    /// A cell that ranks by this one's model with rules beside it: its records tell of the model alone, too.
    pub alone_of: Option<String>,
}

/// One way of filling a cell.
#[derive(Clone, Debug)]
pub struct Point {
    /// The leaves that differ between points; empty where there is but one.
    pub leaves: BTreeMap<String, Value>,
    /// Everything about the run.
    pub spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    title: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    cell: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    name: String,
    method: String,
    data: String,
    spec: PathBuf,
    #[serde(default)]
    change: toml::Table,
    #[serde(default)]
    tie: BTreeMap<String, String>,
    #[serde(default = "one_seed")]
    seeds: Vec<u64>,
    #[serde(default)]
    work: Task,
    #[serde(default)]
    rank_by: RankBy,
    device: Option<DeviceName>,
    published: Option<Published>,
    #[serde(default)]
    note: String,
    #[serde(default)]
    quick: bool,
    #[serde(default)]
    optional: bool,
    sweep: Option<Sweep>,
    #[serde(default)]
    examples: Vec<String>,
    alone_of: Option<String>,
}

/// Leaves that take the same value in each of many cells.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Sweep {
    leaves: Vec<String>,
    values: Vec<f64>,
}

fn one_seed() -> Vec<u64> {
    vec![0]
}

impl PaperTable {
    /// Reads `<folder>/<table>.toml`.
    pub fn read(folder: &Path, name: TableName) -> Result<Self> {
        let path = folder.join(format!("{}.toml", name.name()));
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => RugeError::refused(format!(
                "{}: there is no such table; tables, specs and records are in the folder `experiments` of the source",
                path.display()
            )),
            _ => RugeError::io(&path, "read")(error),
        })?;
        Self::parse(&text, name, &path.display().to_string())
    }

    /// The same from its text; `source` is named in complaints.
    pub fn parse(text: &str, name: TableName, source: &str) -> Result<Self> {
        let file: File = toml::from_str(text).map_err(|error| RugeError::spec(format!("{source}: {error}")))?;
        let mut cells: Vec<Cell> = Vec::new();
        for entry in file.cell {
            entry.spelled_out(name, source, &mut cells)?;
        }
        for (index, cell) in cells.iter().enumerate() {
            let wrong = |reason: &str| Err(RugeError::spec(format!("{source}: the cell {:?} {reason}", cell.name)));
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            if cell.name.is_empty() || !cell.name.chars().all(plain) || cell.name.starts_with('.') {
                return wrong("needs a name of letters, digits, - and . alone: it becomes the name of a file");
            }
            if cells[..index].iter().any(|other| other.name == cell.name) {
                return wrong("occurs twice; give one of them another name");
            }
            if cell.seeds.is_empty() {
                return wrong("has no seeds; remove `seeds` for seed 0");
            }
            if let Some(seed) = cell.seeds.iter().enumerate().find(|(at, seed)| cell.seeds[..*at].contains(seed)) {
                return wrong(&format!("has the seed {} twice; remove one", seed.1));
            }
            if let Some(name) = &cell.alone_of {
                let combined = |other: &Cell| other.name == *name && other.rank_by == RankBy::Combined;
                if cell.rank_by != RankBy::Model || !cells.iter().any(combined) {
                    return wrong(
                        "says `alone-of`; it must rank by its model, and name a cell that ranks by `combined`",
                    );
                }
            }
        }
        Ok(Self { name, title: file.title, note: file.note, cells })
    }
}

impl Entry {
    fn spelled_out(self, table: TableName, source: &str, cells: &mut Vec<Cell>) -> Result<()> {
        let cell = Cell {
            table,
            name: self.name,
            method: self.method,
            data: self.data,
            spec: self.spec,
            change: self.change,
            tie: self.tie,
            seeds: self.seeds,
            work: self.work,
            rank_by: self.rank_by,
            device: self.device,
            published: self.published,
            note: self.note,
            quick: self.quick,
            optional: self.optional,
            x: None,
            examples: self.examples,
            alone_of: self.alone_of,
        };
        let Some(sweep) = self.sweep else {
            cells.push(cell);
            return Ok(());
        };
        for value in sweep.values {
            let mut swept = cell.clone();
            swept.name = format!("{}-{value:.2}", cell.name);
            swept.x = Some(value);
            for leaf in &sweep.leaves {
                leaves::set(&mut swept.change, leaf, value.into()).ok_or_else(|| {
                    RugeError::spec(format!("{source}: the cell {:?}: {leaf:?} is not a setting of a spec", cell.name))
                })?;
            }
            cells.push(swept);
        }
        Ok(())
    }
}

impl Cell {
    /// Every point of the cell for a seed, the last leaf changing fastest. `data` is the folder of data sets.
    pub fn points(&self, experiments: &Path, data: &Path, seed: u64, device: DeviceName) -> Result<Vec<Point>> {
        let base = Spec::read(&experiments.join(&self.spec))?;
        let choices = leaves::combinations(&leaves::lists(&self.change));
        let source = format!("the cell {:?} of {}.toml", self.name, self.table.name());
        if choices.is_empty() {
            return Err(RugeError::spec(format!("{source}: an empty list has nothing to try")));
        }
        let mut points = Vec::new();
        for choice in choices {
            let mut change = self.change.clone();
            leaves::set_all(&mut change, &choice, &self.tie);
            let to_json = |value: &toml::Value| serde_json::to_value(value).unwrap_or(Value::Null);
            let leaves = choice.iter().map(|(leaf, value)| (leaf.clone(), to_json(value))).collect();
            let text = toml::to_string(&change).map_err(|error| RugeError::spec(format!("{source}: {error}")))?;
            let mut spec = base.overlaid(&text, &source)?;
            spec.seed = seed;
            spec.device = device;
            if let Some(file) = &mut spec.rules.file
                && let Ok(within) = Path::new(file).strip_prefix("data")
            {
                *file = data.join(within).display().to_string();
            }
            spec.check().map_err(|error| RugeError::spec(format!("{source}: {error}")))?;
            points.push(Point { leaves, spec });
        }
        Ok(points)
    }

    /// The file of a seed's record.
    pub fn record_path(&self, records: &Path, seed: u64) -> PathBuf {
        records.join(self.table.name()).join(format!("{}-seed{seed}.json", self.name))
    }
}

/// The same spec on a given device, with the rule file by its name alone: where the data lie is no part of a setting.
pub fn portable(spec: &Spec, device: DeviceName) -> Spec {
    let mut spec = Spec { device, ..spec.clone() };
    if let Some(file) = &mut spec.rules.file {
        let path = Path::new(file.as_str());
        *file = path.file_name().map_or(file.clone(), |name| name.to_string_lossy().into_owned());
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
title = "A table"
[[cell]]
name = "grid"
method = "RUGE"
data = "demo"
spec = "base.toml"
seeds = [0, 1]
published = { mrr = 0.5, hits = { 1 = 0.25 } }
tie = { "optimizer.relation-rate" = "optimizer.entity-rate" }
[cell.change]
model.dimension = [8, 16]
optimizer.entity-rate = [0.1, 0.5]
schedule.epochs = 3

[[cell]]
name = "theta"
method = "RUGE"
data = "demo"
spec = "base.toml"
sweep = { leaves = ["rules.min-pca", "rules.min-std"], values = [0.5, 0.95] }
"#;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("base.toml"), "[guidance]\nkind = \"ruge\"\nslackness = 0.01\n").unwrap();
        folder
    }

    #[test]
    fn lists_make_a_grid_and_sweeps_make_cells() {
        let folder = folder();
        let table = PaperTable::parse(TABLE, TableName::Ablation, "x.toml").unwrap();
        let names: Vec<&str> = table.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names, ["grid", "theta-0.50", "theta-0.95"]);
        let points = table.cells[0].points(folder.path(), Path::new("data"), 1, DeviceName::Cpu).unwrap();
        let tried: Vec<(usize, f32)> =
            points.iter().map(|p| (p.spec.model.dimension, p.spec.optimizer.entity_rate)).collect();
        assert_eq!(tried, [(8, 0.1), (8, 0.5), (16, 0.1), (16, 0.5)]);
        assert!(points.iter().all(|p| p.spec.optimizer.relation_rate == p.spec.optimizer.entity_rate), "they are tied");
        assert!(points.iter().all(|point| point.spec.seed == 1 && point.spec.schedule.epochs == 3));
        assert_eq!(points[2].leaves["model.dimension"], 16);
        let swept = &table.cells[2].points(folder.path(), Path::new("data"), 0, DeviceName::Cpu).unwrap()[0].spec;
        assert_eq!((swept.rules.min_pca, swept.rules.min_std, table.cells[2].x), (Some(0.95), Some(0.95), Some(0.95)));
        assert_eq!(table.cells[0].published.as_ref().unwrap().hits["1"], 0.25);
    }

    #[test]
    fn wrong_tables_are_told() {
        let told = |text: &str| PaperTable::parse(text, TableName::Best, "my.toml").unwrap_err().to_string();
        assert!(told("title = 3").contains("my.toml"));
        let twice = TABLE.replace("name = \"theta\"", "name = \"grid\"").replace("sweep", "#sweep");
        assert!(told(&twice).contains("occurs twice"), "{}", told(&twice));
        assert!(told(&TABLE.replace("\"grid\"", "\"../grid\"")).contains("name of a file"));
        let seeds = told(&TABLE.replace("[0, 1]", "[0, 1, 0]"));
        assert!(seeds.contains("the cell \"grid\" has the seed 0 twice"), "{seeds}");
        let folder = folder();
        let table = PaperTable::parse(&TABLE.replace("[8, 16]", "[]"), TableName::Best, "x").unwrap();
        let points = table.cells[0].points(folder.path(), Path::new("data"), 0, DeviceName::Cpu);
        assert!(points.unwrap_err().to_string().contains("empty list"));
        let table =
            PaperTable::parse(&TABLE.replace("model.dimension", "model.dimenson"), TableName::Best, "x").unwrap();
        let points = table.cells[0].points(folder.path(), Path::new("data"), 0, DeviceName::Cpu);
        assert!(points.unwrap_err().to_string().contains("did you mean `dimension`"));
    }
}
