//! Graphs put together part by part: from files, columns of names, or ids.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use ruge_kg::io::rows::read;
use ruge_kg::io::split::split;
use ruge_kg::{Dataset, Names, Triple};
use rustc_hash::FxHashSet;

use crate::columns::{Cells, Column};
use crate::errors::{Fault, Result};
use crate::graph::{Graph, HELD_OUT, checked, options};
use crate::job;

/// Data that are being put together.
#[derive(Default)]
struct Parts {
    names: Names,
    splits: [Vec<Triple>; 3],
}

/// Collects the parts of a graph.
#[pyclass(frozen, module = "ruge._core")]
pub struct Builder {
    parts: Arc<Mutex<Parts>>,
}

/// Rows between two looks for signals.
const ROWS: usize = 1 << 16;

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
    fn new(py: Python<'_>) -> PyResult<Self> {
        job::here(py, || Ok(Self { parts: Arc::default() }))
    }

    /// Makes the next entry panic: for the test that no panic reaches the user.
    #[cfg(debug_assertions)]
    #[staticmethod]
    fn _panic_next() {
        job::ARMED.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// Adds a file to a part.
    #[pyo3(signature = (split, path, *, columns, header, format, lenient, literals, graph_name, base))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        split: usize,
        path: PathBuf,
        columns: Option<String>,
        header: &str,
        format: Option<String>,
        lenient: bool,
        literals: &str,
        graph_name: &str,
        base: Option<String>,
    ) -> PyResult<()> {
        let options = job::here(py, || {
            options(columns, header, format, lenient, literals, graph_name, base).map_err(|fault| fault.raise(py))
        })?;
        let parts = Arc::clone(&self.parts);
        job::work(py, None, None, move |_| {
            let mut parts = held(&parts);
            let found = ruge_kg::io::read_file(&path, &mut parts.names, &options)?;
            parts.splits[split].extend(found.triples);
            Ok(())
        })
    }

    /// Adds three columns of names to a part.
    fn columns(
        &self,
        py: Python<'_>,
        split: usize,
        heads: &Bound<'_, PyList>,
        relations: &Bound<'_, PyList>,
        tails: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        job::here(py, || {
            let mut parts = held(&self.parts);
            let Parts { names, splits } = &mut *parts;
            for (row, ((head, relation), tail)) in heads.iter().zip(relations).zip(tails).enumerate() {
                if row % ROWS == 0 {
                    py.check_signals()?;
                }
                let head = with_name(&head, row, "head", |name| names.entities.intern(name))?;
                let relation = with_name(&relation, row, "relation", |name| names.relations.intern(name))?;
                let tail = with_name(&tail, row, "tail", |name| names.entities.intern(name))?;
                splits[split].push(Triple { head, relation, tail });
            }
            Ok(())
        })
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
            let columns = [Cells::of(heads)?, Cells::of(relations)?, Cells::of(tails)?];
            let mut parts = held(&self.parts);
            let Parts { names, splits } = &mut *parts;
            let ([head, relation, tail], triples) = (&columns, &mut splits[split]);
            if columns.iter().all(Cells::borrows) {
                return read(rows, names, triples, |range, take| -> Result<()> {
                    for at in range {
                        let of = row + at;
                        take([head.text(at, of)?, relation.text(at, of)?, tail.text(at, of)?]);
                    }
                    Ok(())
                });
            }
            read(rows, names, triples, |range, take| -> Result<()> {
                for at in range {
                    let of = row + at;
                    take([head.name(at, of)?, relation.name(at, of)?, tail.name(at, of)?]);
                }
                Ok(())
            })
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
        let known = [entities.as_deref(), relations.as_deref(), entities.as_deref()];
        let named = |row: usize, triple: &[u8], at: usize| -> Result<Cow<'_, str>> {
            let id = triple[8 * at..8 * at + 8].try_into().map_or(-1, i64::from_ne_bytes);
            let name = match known[at] {
                None => (id >= 0).then(|| id.to_string().into()),
                Some(known) => usize::try_from(id).ok().and_then(|id| known.get(id)).map(|name| (&**name).into()),
            };
            name.filter(|name: &Cow<'_, str>| !name.is_empty()).ok_or_else(|| {
                let place = ["head", "relation", "tail"][at];
                Fault::data(
                    format!("row {row}: the {place} {id} is no id"),
                    Some(row as u64),
                    "ids start at 0, and each needs a name in entity_names or relation_names where these are given",
                )
            })
        };
        for (window, ids) in ids.chunks(24 * ROWS).enumerate() {
            py.check_signals()?;
            job::short(py, || {
                let mut parts = held(&self.parts);
                let Parts { names, splits } = &mut *parts;
                read(ids.len() / 24, names, &mut splits[split], |range, take| -> Result<()> {
                    for (at, triple) in range.clone().zip(ids[24 * range.start..].chunks_exact(24)) {
                        let row = window * ROWS + at;
                        take([named(row, triple, 0)?, named(row, triple, 1)?, named(row, triple, 2)?]);
                    }
                    Ok(())
                })
            })?;
        }
        Ok(())
    }

    /// The graph; where only one part was given, it is split as a single file is.
    fn finish(&self, py: Python<'_>, splits: bool, seed: u64, held_out: Option<[f64; 2]>) -> PyResult<Graph> {
        let parts = Arc::clone(&self.parts);
        job::work(py, None, None, move |_| {
            let held_out = checked(held_out.unwrap_or(HELD_OUT))?;
            let Parts { names, splits: mut parts } = std::mem::take(&mut *held(&parts));
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

fn held(parts: &Mutex<Parts>) -> MutexGuard<'_, Parts> {
    parts.lock().unwrap_or_else(PoisonError::into_inner)
}
