//! Graphs put together part by part: from files, columns of names, or ids.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use ruge_kg::io::split::split;
use ruge_kg::{Dataset, Names, Triple};
use rustc_hash::FxHashSet;

use crate::columns::{Cells, Column};
use crate::errors::{Fault, Result};
use crate::graph::{Graph, checked, options};
use crate::job;

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

    /// Adds rows of three columns of a table; `row` is the number of the first one, as the user counts.
    fn cells(
        &self,
        py: Python<'_>,
        split: usize,
        columns: (Py<Column>, Py<Column>, Py<Column>),
        rows: usize,
        row: usize,
    ) -> PyResult<()> {
        let (heads, relations, tails) = (columns.0.get(), columns.1.get(), columns.2.get());
        job::short(py, || {
            let (mut heads, mut relations, mut tails) = (Cells::of(heads)?, Cells::of(relations)?, Cells::of(tails)?);
            let mut parts = self.held();
            let Parts { names, splits } = &mut *parts;
            for at in 0..rows {
                let head = heads.intern(at, row + at, &mut names.entities)?;
                let relation = relations.intern(at, row + at, &mut names.relations)?;
                let tail = tails.intern(at, row + at, &mut names.entities)?;
                splits[split].push(Triple { head, relation, tail });
            }
            Ok(())
        })
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
                    Some(known) if id >= 0 && known.get(id as usize).is_some_and(|name| !name.is_empty()) => {
                        Ok(known[id as usize].clone())
                    }
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
            let read = [parts[0].len(), parts[1].len(), parts[2].len()];
            if splits {
                let mut seen = FxHashSet::default();
                parts[0].retain(|triple| seen.insert(*triple));
                let made = split(names.entities.len(), names.relations.len(), &parts[0], held_out, seed);
                parts = [made.train, made.valid, made.test];
            }
            let [train, valid, test] = parts;
            let data = Dataset::new(names, train, valid, test);
            Ok(Graph::given(data, read, splits))
        })
    }
}

impl Builder {
    fn held(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
