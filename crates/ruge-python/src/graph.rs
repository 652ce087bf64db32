//! Graphs: from files, columns of names, or ids.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use ruge::model_file::data_hash;
use ruge_kg::io::split::split;
use ruge_kg::{Dataset, GraphChoice, Header, Literals, Names, ReadOptions, Triple};
use rustc_hash::FxHashSet;
use serde_json::json;

use crate::errors::{Fault, Result};
use crate::job;

/// Names and triples in three parts.
#[pyclass(frozen, module = "ruge._core")]
pub struct Graph {
    pub data: Arc<Dataset>,
    /// What reading found, in words.
    notes: Vec<String>,
    /// Repeated triples that were dropped.
    duplicates: usize,
}

/// Data that are being put together.
#[derive(Default)]
struct Parts {
    names: Names,
    splits: [Vec<Triple>; 3],
}

/// Collects the parts of a graph.
#[pyclass(frozen, module = "ruge._core")]
#[derive(Default)]
pub struct Builder {
    parts: Mutex<Parts>,
}

/// How files are read; names as on the command line.
#[allow(clippy::too_many_arguments)]
fn options(
    columns: Option<String>,
    header: &str,
    lenient: bool,
    seed: u64,
    held_out: [f64; 2],
    labels: Vec<PathBuf>,
    literals: &str,
    graph_name: &str,
    base: Option<String>,
) -> Result<ReadOptions> {
    let columns = match columns {
        Some(text) => text.parse().map_err(|error| Fault::setting(format!("columns: {error}")))?,
        None => Default::default(),
    };
    Ok(ReadOptions {
        columns,
        header: match header {
            "auto" => Header::Auto,
            "yes" => Header::Yes,
            "no" => Header::No,
            other => return Err(Fault::setting(format!("header is \"auto\", \"yes\" or \"no\", not {other:?}"))),
        },
        lenient,
        seed,
        held_out,
        labels,
        literals: match literals {
            "skip" => Literals::Skip,
            "entities" => Literals::Entities,
            other => return Err(Fault::setting(format!("literals is \"skip\" or \"entities\", not {other:?}"))),
        },
        graph: match graph_name {
            "all" => GraphChoice::All,
            "default" => GraphChoice::Default,
            name => GraphChoice::Named(name.to_string()),
        },
        base,
        ..ReadOptions::default()
    })
}

fn checked(held_out: [f64; 2]) -> Result<[f64; 2]> {
    let [valid, test] = held_out;
    if valid >= 0.0 && test >= 0.0 && valid + test < 1.0 {
        return Ok(held_out);
    }
    Err(Fault::setting("held_out gives the shares of valid and test as in (0.1, 0.1); together below 1"))
}

#[pymethods]
impl Graph {
    /// Reads DATA: demo, a folder, a file or several.
    #[staticmethod]
    #[pyo3(signature = (path, *, columns, header, lenient, seed, held_out, labels, literals, graph_name, base))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        columns: Option<String>,
        header: &str,
        lenient: bool,
        seed: u64,
        held_out: [f64; 2],
        labels: Vec<PathBuf>,
        literals: &str,
        graph_name: &str,
        base: Option<String>,
    ) -> PyResult<Self> {
        let options = checked(held_out)
            .and_then(|held_out| options(columns, header, lenient, seed, held_out, labels, literals, graph_name, base));
        let options = options.map_err(|fault| fault.raise(py))?;
        let (data, report) = job::work(py, None, None, move |_| Ok(Dataset::load(&path, &options)?))?;
        let mut notes: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
        notes.extend(report.notes());
        let duplicates = report.duplicates.iter().map(|found| found.count).sum();
        Ok(Self { data: Arc::new(data), notes, duplicates })
    }

    /// Numbers of entities, relations and triples, and what makes the data doubtful, as JSON.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        job::work(py, None, None, |_| {
            let stats = ruge_kg::describe(&self.data);
            let names = self.data.names();
            let mut object = json!({
                "entities": stats.entities,
                "relations": stats.relations,
                "train": stats.splits[0].triples,
                "valid": stats.splits[1].triples,
                "test": stats.splits[2].triples,
                "duplicates": self.duplicates,
                "unseen_entities": stats.unseen.entities,
                "unseen_relations": stats.unseen.relations,
                "unused_entities": stats.unused_entities,
                "unused_relations": stats.unused_relations,
                "overlap": stats.overlap,
                "leakage": {"valid": stats.valid_leakage, "test": stats.test_leakage},
                "notes": self.notes,
            });
            object["per_relation"] = stats
                .per_relation
                .iter()
                .map(|row| {
                    json!({
                        "relation": names.relations.name(row.relation), "facts": row.facts, "heads": row.heads,
                        "tails": row.tails, "tails_per_head": row.tails_per_head,
                        "heads_per_tail": row.heads_per_tail, "cardinality": row.cardinality,
                        "reflexive": row.reflexive, "symmetric": row.symmetric,
                    })
                })
                .collect();
            Ok(object.to_string())
        })
    }

    /// What reading found, in words.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// A hash of names and triples, as model files store it.
    #[getter]
    fn digest(&self) -> String {
        data_hash(&self.data)
    }

    /// Entities, relations, and triples by part.
    #[getter]
    fn sizes(&self) -> [usize; 5] {
        let data = &self.data;
        [data.entity_count(), data.relation_count(), data.train().len(), data.valid().len(), data.test().len()]
    }

    /// Names in the order of their ids.
    fn entity_names(&self) -> Vec<&str> {
        self.data.names().entities.iter().map(|(_, name)| name).collect()
    }

    /// Names in the order of their ids.
    fn relation_names(&self) -> Vec<&str> {
        self.data.names().relations.iter().map(|(_, name)| name).collect()
    }

    /// The triples of a part, as ids of four bytes.
    fn ids<'py>(&self, py: Python<'py>, split: &str) -> PyResult<Bound<'py, PyBytes>> {
        let Some(triples) = self.data.split(split) else {
            return Err(Fault::setting(format!("split is \"train\", \"valid\" or \"test\", not {split:?}")).raise(py));
        };
        let flat = triples.iter().flat_map(|triple| [triple.head.0, triple.relation.0, triple.tail.0]);
        Ok(PyBytes::new(py, &flat.flat_map(u32::to_ne_bytes).collect::<Vec<u8>>()))
    }
}

/// A name as it stands in a column; numbers by their digits.
fn with_name<T>(item: &Bound<'_, PyAny>, row: usize, place: &str, take: impl FnOnce(&str) -> T) -> PyResult<T> {
    let py = item.py();
    if let Ok(text) = item.cast::<PyString>() {
        let text = text.to_str().map_err(|_| {
            let message = format!("row {row}: the {place} is not valid Unicode");
            Fault::data(message, Some(row as u64), "encode the names as UTF-8").raise(py)
        })?;
        if text.is_empty() {
            let message = format!("row {row}: the {place} is empty");
            return Err(Fault::data(message, Some(row as u64), "remove the row, or give it a name").raise(py));
        }
        return Ok(take(text));
    }
    let kind = item.get_type().name()?.to_string();
    let is_missing = item.is_none() || (kind.contains("float") && item.ne(item)?) || kind.starts_with("NA");
    if is_missing {
        let message = format!("row {row}: the {place} is missing");
        return Err(
            Fault::data(message, Some(row as u64), "remove rows with nulls, for example with dropna()").raise(py)
        );
    }
    if kind == "bool" || kind.contains("float") || item.getattr("__index__").is_err() {
        let message = format!("row {row}: the {place} is of type {kind}, and names are text or whole numbers");
        return Err(Fault::data(message, Some(row as u64), "convert the column to str").raise(py));
    }
    Ok(take(item.call_method0("__index__")?.str()?.to_str()?))
}

#[pymethods]
impl Builder {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds a file to a part.
    #[pyo3(signature = (split, path, *, columns, header, lenient, literals, graph_name, base))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        split: usize,
        path: PathBuf,
        columns: Option<String>,
        header: &str,
        lenient: bool,
        literals: &str,
        graph_name: &str,
        base: Option<String>,
    ) -> PyResult<()> {
        let options = options(columns, header, lenient, 0, [0.1, 0.1], Vec::new(), literals, graph_name, base);
        let options = options.map_err(|fault| fault.raise(py))?;
        job::short(py, || {
            let mut parts = self.held();
            let found = ruge_kg::io::read_file(&path, &mut parts.names, &options)?;
            parts.splits[split].extend(found.triples);
            Ok(())
        })
    }

    /// Adds three columns of names to a part.
    fn columns(
        &self,
        split: usize,
        heads: &Bound<'_, PyList>,
        relations: &Bound<'_, PyList>,
        tails: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let mut parts = self.held();
        let Parts { names, splits } = &mut *parts;
        for (row, ((head, relation), tail)) in heads.iter().zip(relations).zip(tails).enumerate() {
            let head = with_name(&head, row, "head", |name| names.entities.intern(name))?;
            let relation = with_name(&relation, row, "relation", |name| names.relations.intern(name))?;
            let tail = with_name(&tail, row, "tail", |name| names.entities.intern(name))?;
            splits[split].push(Triple { head, relation, tail });
        }
        Ok(())
    }

    /// Adds triples of ids of eight bytes; `entities` and `relations` are names by id, or nothing for the ids themselves.
    #[pyo3(signature = (split, ids, entities, relations))]
    fn ids(
        &self,
        py: Python<'_>,
        split: usize,
        ids: &[u8],
        entities: Option<Vec<String>>,
        relations: Option<Vec<String>>,
    ) -> PyResult<()> {
        let mut parts = self.held();
        let Parts { names, splits } = &mut *parts;
        let number = |bytes: &[u8]| bytes.try_into().map_or(-1, i64::from_ne_bytes);
        for (row, triple) in ids.chunks_exact(24).enumerate() {
            let named = |at: usize, known: &Option<Vec<String>>| -> Result<String> {
                let id = number(&triple[8 * at..8 * at + 8]);
                let place = ["head", "relation", "tail"][at];
                match known {
                    None if id >= 0 => Ok(id.to_string()),
                    Some(known) if id >= 0 && (id as usize) < known.len() => Ok(known[id as usize].clone()),
                    _ => Err(Fault::data(
                        format!("row {row}: the {place} {id} is no id"),
                        Some(row as u64),
                        "ids start at 0, and each needs a name in entity_names or relation_names where these are given",
                    )),
                }
            };
            let found = (|| Ok([named(0, &entities)?, named(1, &relations)?, named(2, &entities)?]))();
            let [head, relation, tail] = found.map_err(|fault: Fault| fault.raise(py))?;
            splits[split].push(names.triple(&head, &relation, &tail));
        }
        Ok(())
    }

    /// The graph; where only one part was given, it is split as a single file is.
    fn finish(&self, py: Python<'_>, splits: bool, seed: u64, held_out: [f64; 2]) -> PyResult<Graph> {
        job::short(py, || {
            let held_out = checked(held_out)?;
            let Parts { names, splits: mut parts } = std::mem::take(&mut *self.held());
            if parts[0].is_empty() {
                return Err(Fault::data("there are no triples", None, "give at least one triple to learn from"));
            }
            let read: usize = parts.iter().map(Vec::len).sum();
            if splits {
                let mut seen = FxHashSet::default();
                parts[0].retain(|triple| seen.insert(*triple));
                let made = split(names.entities.len(), names.relations.len(), &parts[0], held_out, seed);
                parts = [made.train, made.valid, made.test];
            }
            let [train, valid, test] = parts;
            let data = Dataset::new(names, train, valid, test);
            let kept = data.train().len() + data.valid().len() + data.test().len();
            Ok(Graph { data: Arc::new(data), notes: Vec::new(), duplicates: read - kept })
        })
    }
}

impl Builder {
    fn held(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The same data once more, for a model that owns its own.
pub fn copy(data: &Dataset) -> Dataset {
    let parts = [data.train(), data.valid(), data.test()].map(<[Triple]>::to_vec);
    let [train, valid, test] = parts;
    let copy = Dataset::new(data.names().clone(), train, valid, test);
    copy.with_labels(data.labels().clone()).with_prefixes(data.declared_prefixes().to_vec())
}
