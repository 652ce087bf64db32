//! Rules: mined, read, written, as rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ruge_kg::{Control, Dataset, Names, RelationId, Work};
use ruge_rules::io::{packed, read_relation_dictionary};
use ruge_rules::mine::RelationFilter;
use ruge_rules::{
    MineConfig, RuleFormat, RuleReadOptions, RuleRecord, RuleWriteOptions, Take, parse_rules, read_rules_about, words,
    write_rules,
};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use crate::errors::{Fault, Result};
use crate::graph::Graph;
use crate::job;

/// What rules are put together from.
type State<'py> = (Bound<'py, PyBytes>, Vec<String>, Vec<String>, bool);

/// Rules about the names of a graph.
#[pyclass(frozen, module = "ruge._core")]
pub struct Rules {
    records: Arc<Vec<RuleRecord>>,
    names: Arc<Names>,
    /// What was applied, for the top of a file.
    comments: Vec<String>,
    /// Whether every head was searched.
    complete: bool,
}

impl Rules {
    /// The rules of a model.
    pub fn of(records: &[RuleRecord], names: &Names) -> Self {
        let (records, names) = (Arc::new(records.to_vec()), Arc::new(names.clone()));
        Self { records, names, comments: Vec::new(), complete: true }
    }

    /// The rules of a file, in any format, about these names.
    pub fn read(path: &Path, names: &Names, options: &RuleReadOptions) -> Result<Self> {
        let mut names = names.clone();
        let (file, _) = read_rules_about(path, options, &mut names)?;
        Ok(Self { records: Arc::new(file.rules), names: Arc::new(names), comments: Vec::new(), complete: true })
    }

    /// The rules and what their ids mean, to be handed to work.
    pub fn shared(&self) -> SharedRules {
        SharedRules { records: Arc::clone(&self.records), names: Arc::clone(&self.names) }
    }
}

/// Rules on their way to work.
pub struct SharedRules {
    records: Arc<Vec<RuleRecord>>,
    names: Arc<Names>,
}

impl SharedRules {
    /// The rules in the ids of a graph; how many were left out because they name what it does not have.
    pub fn about(&self, data: &Dataset) -> Result<(Vec<RuleRecord>, usize)> {
        let same = {
            let (ours, theirs) = (&self.names.relations, &data.names().relations);
            let (own, other) = (&self.names.entities, &data.names().entities);
            ours.len() == theirs.len()
                && own.len() == other.len()
                && ours.iter().zip(theirs.iter()).all(|(one, two)| one.1 == two.1)
                && own.iter().zip(other.iter()).all(|(one, two)| one.1 == two.1)
        };
        if same {
            return Ok((self.records.to_vec(), 0));
        }
        // Ids of other data mean other names, so they go by name.
        let mut text = Vec::new();
        write_rules(&mut text, RuleFormat::Native, &self.records, &self.names, &RuleWriteOptions::default())?;
        let options = RuleReadOptions { format: Some(RuleFormat::Native), ..RuleReadOptions::default() };
        let mut names = data.names().clone();
        let mut rules = match self.records.is_empty() {
            true => Vec::new(),
            false => parse_rules(&String::from_utf8_lossy(&text), &options, &mut names)?.rules,
        };
        let all = rules.len();
        rules.retain(|record| words::is_sayable(&record.rule, data.names()));
        let lost = all - rules.len();
        Ok((rules, lost))
    }
}

#[pymethods]
impl Rules {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        job::here(py, || Ok(self.records.len()))
    }

    /// Whether every head was searched.
    #[getter]
    fn complete(&self, py: Python<'_>) -> PyResult<bool> {
        job::here(py, || Ok(self.complete))
    }

    /// Every rule as a row, as JSON.
    fn rows(&self, py: Python<'_>) -> PyResult<String> {
        job::short(py, || {
            let row = |record: &RuleRecord| {
                let counts = record.counts.as_ref();
                json!({
                    "rule": words::formula(&record.rule, &self.names),
                    "words": words::sentence(&record.rule, &self.names),
                    "confidence": record.mined_confidence(),
                    "support": counts.map(|counts| counts.support),
                    "head_coverage": counts.map(|counts| counts.head_coverage()),
                    "std": counts.map(|counts| counts.standard()),
                    "pca": counts.map(|counts| counts.pca()),
                    "head": self.names.relations.name(record.rule.head()),
                    "atoms": record.rule.premise.len(),
                })
            };
            Ok(Value::Array(self.records.iter().map(row).collect()).to_string())
        })
    }

    /// What the rules are put together from again: bytes, names by id, and whether every head was searched.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<State<'py>> {
        job::here(py, || {
            let bytes = packed::encode(&self.records).ok_or_else(|| {
                Fault::setting("a rule is too long to be stored\n  remedy: write them to a file").raise(py)
            })?;
            let entities = self.names.entities.iter().map(|(_, name)| name.to_string()).collect();
            let relations = self.names.relations.iter().map(|(_, name)| name.to_string()).collect();
            Ok((PyBytes::new(py, &bytes), entities, relations, self.complete))
        })
    }

    /// Puts rules together again.
    #[staticmethod]
    fn restored(
        py: Python<'_>,
        records: &[u8],
        entities: Vec<String>,
        relations: Vec<String>,
        complete: bool,
    ) -> PyResult<Self> {
        job::short(py, || {
            let mut names = Names::default();
            entities.iter().for_each(|name| _ = names.entities.intern(name));
            relations.iter().for_each(|name| _ = names.relations.intern(name));
            let records = packed::decode(records)
                .filter(|records| records.iter().all(|record| words::is_sayable(&record.rule, &names)));
            let records = records.ok_or_else(|| Fault::data("the rules are damaged", None, "mine them again"))?;
            Ok(Self { records: Arc::new(records), names: Arc::new(names), comments: Vec::new(), complete })
        })
    }

    /// The rules in a format of `ruge rules convert`.
    fn text(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        job::short(py, || {
            let format: RuleFormat = format.parse()?;
            let relations = self.names.relations.iter().map(|(_, name)| name.to_string()).collect();
            let options = RuleWriteOptions { comments: self.comments.clone(), relations: Some(relations) };
            let mut text = Vec::new();
            write_rules(&mut text, format, &self.records, &self.names, &options)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        })
    }
}

fn relations(data: &Dataset, list: Vec<String>) -> Result<FxHashSet<RelationId>> {
    let vocabulary = &data.names().relations;
    let find = |name: &String| {
        vocabulary.id(name).ok_or_else(|| {
            let names = vocabulary.iter().map(|(_, name)| name);
            let nearest = ruge::suggest::nearest(name, names, 3).into_iter().map(str::to_string).collect();
            ruge::RugeError::UnknownName { kind: "relation", name: name.clone(), nearest, some: Vec::new(), more: 0 }
                .into()
        })
    };
    list.iter().map(find).collect()
}

/// Mines rules from train; keywords are the flags of `ruge mine`, as JSON.
#[pyfunction]
#[pyo3(signature = (graph, keywords, time_limit, threads, progress))]
pub fn mine(
    py: Python<'_>,
    graph: &Graph,
    keywords: String,
    time_limit: Option<f64>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Rules> {
    let data = Arc::clone(&graph.data);
    job::work(py, threads, progress.as_ref(), move |job| {
        let mut config = config(&data, &keywords)?;
        config.check().map_err(|error| Fault::setting(error.to_string()))?;
        config.memory = ruge::memory::mining(config.memory);
        let hear = |work: &Work| job.tell("mine", work.done, work.total, String::new());
        let limit = time_limit.map(|seconds| {
            Duration::try_from_secs_f64(seconds).map_err(|_| Fault::setting("time_limit is a number of seconds"))
        });
        let deadline = limit.transpose()?.and_then(|limit| Instant::now().checked_add(limit));
        let control = Control::new(&job.cancel).until(deadline).with_listener(&hear);
        let mined = ruge_rules::mine(data.graph(), &config, &control);
        if let Some(limit) = mined.over_memory {
            return Err(Fault::setting(format!(
                "candidates and rules exceed {:.1} GB of memory\n  remedy: raise min_support, min_hc or min_pca, or mine \
                 fewer relations at a time with heads=",
                limit as f64 / 1e9
            )));
        }
        let records = mined.rules.into_iter().map(|rule| RuleRecord::counted(rule.rule, rule.counts)).collect();
        let complete = mined.unfinished.is_empty();
        Ok(Rules { records: Arc::new(records), names: Arc::new(data.names().clone()), comments: Vec::new(), complete })
    })
}

fn config(data: &Dataset, keywords: &str) -> Result<MineConfig> {
    let wrong = |error: serde_json::Error| Fault::setting(error.to_string());
    let given: Keywords = serde_json::from_str(keywords).map_err(wrong)?;
    let size = [data.train().len(), data.entity_count(), data.relation_count()];
    let mut config = match given.preset.as_deref() {
        None => MineConfig::default(),
        Some("amie") => MineConfig::amie(),
        Some("ruge-fb15k") => MineConfig::ruge_fb15k(),
        Some("ruge-yago") => MineConfig::ruge_yago(),
        Some("ranking") => MineConfig::ranking(size[0], size[1], size[2]).at_hubs_of(data.graph()),
        Some("inductive") => MineConfig::inductive(size[0], size[1], size[2]),
        Some(other) => {
            return Err(Fault::setting(format!(
                "there is no preset called {other:?}; there are amie, ruge-fb15k, ruge-yago, ranking and inductive"
            )));
        }
    };
    config.min_pca = given.min_pca.unwrap_or(config.min_pca);
    config.min_head_coverage = given.min_hc.unwrap_or(config.min_head_coverage);
    config.min_std = given.min_std.unwrap_or(config.min_std);
    config.max_body = given.max_body.unwrap_or(config.max_body);
    config.min_head_size = given.min_head_size.unwrap_or(config.min_head_size);
    if let Some(support) = given.min_support {
        (config.min_support, config.min_constant_support) = (support, support);
    }
    config.skyline &= !given.no_skyline;
    config.injective |= given.injective;
    config.constants |= given.constants;
    let filter = |include: Option<Vec<String>>, exclude: Option<Vec<String>>| -> Result<RelationFilter> {
        Ok(RelationFilter {
            include: include.map(|names| relations(data, names)).transpose()?,
            exclude: relations(data, exclude.unwrap_or_default())?,
        })
    };
    config.heads = filter(given.heads, given.exclude_heads)?;
    config.bodies = filter(given.bodies, given.exclude_bodies)?;
    Ok(config)
}

/// The flags of `ruge mine`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Keywords {
    preset: Option<String>,
    max_body: Option<usize>,
    min_pca: Option<f64>,
    min_hc: Option<f64>,
    min_std: Option<f64>,
    min_support: Option<u64>,
    min_head_size: Option<u64>,
    no_skyline: bool,
    injective: bool,
    constants: bool,
    heads: Option<Vec<String>>,
    exclude_heads: Option<Vec<String>>,
    bodies: Option<Vec<String>>,
    exclude_bodies: Option<Vec<String>>,
}

/// Reads a rule file about the names of a graph: in which format, which of its numbers is the confidence, and names for formats with ids.
#[pyfunction]
pub fn read_rules(
    py: Python<'_>,
    path: PathBuf,
    graph: &Graph,
    rule_format: Option<String>,
    confidence: &str,
    relation_ids: Option<PathBuf>,
) -> PyResult<Rules> {
    job::short(py, || {
        let take = match confidence {
            "written" => Take::Written,
            "pca" => Take::Pca,
            "std" => Take::Std,
            "smoothed" => Take::Smoothed,
            other => {
                let what = format!("confidence is \"written\", \"pca\", \"std\" or \"smoothed\", not {other:?}");
                return Err(Fault::setting(what));
            }
        };
        let format = rule_format.as_deref().map(str::parse).transpose()?;
        let relations = relation_ids.as_deref().map(read_relation_dictionary).transpose()?;
        Rules::read(&path, graph.data.names(), &RuleReadOptions { format, take, relations })
    })
}
