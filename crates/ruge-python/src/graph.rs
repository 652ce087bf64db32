//! Graphs: read from files, looked at, taken apart and put together again.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ruge::constraints::{Constraints, Habits};
use ruge::model_file::data_hash;
use ruge_kg::load::Duplicates;
use ruge_kg::stats::{Leakage, MIN_FACTS, Pattern, STRONG};
use ruge_kg::{Dataset, Format, GraphChoice, Header, Labels, Literals, LoadReport, Names, ReadOptions, Triple};
use serde_json::json;

use crate::errors::{Fault, Result};
use crate::job;

/// Names and triples in three parts.
#[pyclass(frozen, module = "ruge._core")]
pub struct Graph {
    pub data: Arc<Dataset>,
    /// What reading found.
    pub report: LoadReport,
}

impl Graph {
    /// A graph that was not read from files; `read` says how many triples there were before repeated ones were dropped.
    pub fn given(data: Dataset, read: [usize; 3], split_here: bool) -> Self {
        let kept = [data.train().len(), data.valid().len(), data.test().len()];
        let duplicates = std::array::from_fn(|part| Duplicates {
            count: if split_here { 0 } else { read[part].saturating_sub(kept[part]) },
            ..Duplicates::default()
        });
        let mut report = LoadReport {
            layout: "a table",
            files: Vec::new(),
            read,
            duplicates,
            split_here,
            labels: Vec::new(),
            labelled: data.labels().labelled(),
            typed: data.labels().typed(),
            warnings: Vec::new(),
        };
        if split_here {
            let dropped = read.iter().sum::<usize>() - kept.iter().sum::<usize>();
            report.duplicates[0].count = dropped;
        }
        report.warnings = ruge_kg::load::of_test(&data, data.test());
        Self { data: Arc::new(data), report }
    }
}

/// How files are read; names as on the command line.
#[allow(clippy::too_many_arguments)]
pub fn options(
    columns: Option<String>,
    header: &str,
    format: Option<String>,
    lenient: bool,
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
        format: format.as_deref().map(format_named).transpose()?,
        lenient,
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

/// The formats of files, by the names of the command line.
const FORMATS: [(&str, Format); 13] = [
    ("tsv", Format::Tsv),
    ("blanks", Format::Whitespace),
    ("csv", Format::Csv(b',')),
    ("csv-semicolon", Format::Csv(b';')),
    ("csv-bar", Format::Csv(b'|')),
    ("nt", Format::NTriples),
    ("ttl", Format::Turtle),
    ("nq", Format::NQuads),
    ("trig", Format::TriG),
    ("rdf", Format::RdfXml),
    ("jsonld", Format::JsonLd),
    ("tsv-quoted", Format::Csv(b'\t')),
    ("parquet", Format::Parquet),
];

fn format_named(name: &str) -> Result<Format> {
    FORMATS.into_iter().find(|(known, _)| *known == name).map(|(_, format)| format).ok_or_else(|| {
        let names = FORMATS.map(|(name, _)| name).join(", ");
        Fault::setting(format!("there is no format called {name:?}\n  remedy: the formats are {names}"))
    })
}

/// Shares of valid and test where none are given.
pub const HELD_OUT: [f64; 2] = [0.1, 0.1];

pub fn checked(held_out: [f64; 2]) -> Result<[f64; 2]> {
    let [valid, test] = held_out;
    if valid >= 0.0 && test >= 0.0 && valid + test < 1.0 {
        return Ok(held_out);
    }
    Err(Fault::setting(format!(
        "held_out=({valid}, {test}) leaves nothing to learn from\n  remedy: give the shares of valid and test as in (0.1, 0.1); together below 1"
    )))
}

#[pymethods]
impl Graph {
    /// Reads DATA: demo, a folder, a file or several.
    #[staticmethod]
    #[pyo3(signature = (path, *, columns, header, format, lenient, seed, held_out, labels, literals, graph_name, base))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        columns: Option<String>,
        header: &str,
        format: Option<String>,
        lenient: bool,
        seed: u64,
        held_out: Option<[f64; 2]>,
        labels: Vec<PathBuf>,
        literals: &str,
        graph_name: &str,
        base: Option<String>,
    ) -> PyResult<Self> {
        let options = job::here(py, || {
            let read = || -> Result<ReadOptions> {
                let options = options(columns, header, format, lenient, literals, graph_name, base)?;
                // Who gives shares wants something held out.
                let split_train = held_out.is_some();
                let held_out = checked(held_out.unwrap_or(HELD_OUT))?;
                Ok(ReadOptions { seed, held_out, labels, split_train, ..options })
            };
            read().map_err(|fault| fault.raise(py))
        })?;
        let (data, report) = job::work(py, None, None, move |_| Ok(Dataset::load(&path, &options)?))?;
        Ok(Self { data: Arc::new(data), report })
    }

    /// Numbers of entities, relations and triples, and what makes the data doubtful, as JSON; with facts that violate the constraints
    /// of a file.
    fn check(&self, py: Python<'_>, constraints: Option<PathBuf>) -> PyResult<String> {
        let (data, report) = (Arc::clone(&self.data), self.report.clone());
        job::work(py, None, None, move |_| {
            let data = &*data;
            let constraints = constraints.map(|path| Constraints::read(&path, data)).transpose()?;
            let stats = ruge_kg::describe(data);
            let names = data.names();
            // Shares make no sense of an empty part.
            let leakage = |found: &Leakage| {
                let mut value = json!(found);
                if found.triples == 0 {
                    (value["share_copyable"], value["share_linked"]) = (json!(null), json!(null));
                }
                value
            };
            let patterns = |list: &[Pattern]| -> serde_json::Value {
                let row = |pattern: &Pattern| {
                    json!({
                        "first": names.relations.name(pattern.first), "second": names.relations.name(pattern.second),
                        "support": pattern.support, "share_of_first": pattern.share_of_first,
                        "share_of_second": pattern.share_of_second,
                    })
                };
                list.iter().map(row).collect()
            };
            let mut object = json!({
                "entities": stats.entities,
                "relations": stats.relations,
                "train": stats.splits[0].triples,
                "valid": stats.splits[1].triples,
                "test": stats.splits[2].triples,
                "duplicates": report.duplicates.iter().map(|found| found.count).sum::<usize>(),
                "unseen_entities": stats.unseen.entities,
                "unseen_relations": stats.unseen.relations,
                "unused_entities": stats.unused_entities,
                "unused_relations": stats.unused_relations,
                "bad_lines": report.bad_lines(),
                "split_here": report.split_here,
                "files": report.files,
                "labelled": report.labelled,
                "typed": report.typed,
                "overlap": stats.overlap,
                "leakage": {"valid": leakage(&stats.valid_leakage), "test": leakage(&stats.test_leakage)},
                "patterns": {
                    "strong_from": STRONG, "facts_from": MIN_FACTS,
                    "symmetric": patterns(&stats.patterns.symmetric), "inverse": patterns(&stats.patterns.inverse),
                    "duplicate": patterns(&stats.patterns.duplicate),
                },
                "habits": Habits::listed(data).list(data),
                "violations": constraints.map(|constraints| constraints.violations(data)),
                "notes": report.notes(),
                "warnings": warnings(&report),
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

    /// The habits of relations, as a file of constraints to go through.
    fn suggested_constraints(&self, py: Python<'_>) -> PyResult<String> {
        let data = Arc::clone(&self.data);
        job::work(py, None, None, move |_| Ok(Habits::listed(&data).suggest(&data)))
    }

    /// What reading found, in words.
    #[getter]
    fn notes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        job::here(py, || Ok(self.report.notes()))
    }

    /// What makes results on these data doubtful, in words.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        job::here(py, || Ok(warnings(&self.report)))
    }

    /// Labels and prefixes, as JSON.
    fn described(&self, py: Python<'_>) -> PyResult<String> {
        job::here(py, || {
            Ok(json!({"labels": self.data.labels(), "prefixes": self.data.declared_prefixes()}).to_string())
        })
    }

    /// Puts together what a graph was taken apart into: names by id, the parts as ids, labels and prefixes.
    #[staticmethod]
    fn restored(
        py: Python<'_>,
        entities: Vec<String>,
        relations: Vec<String>,
        parts: [Vec<u8>; 3],
        described: String,
    ) -> PyResult<Self> {
        job::work(py, None, None, move |_| {
            let wrong = |what: &str| Fault::data(format!("the graph is damaged: {what}"), None, "make it again");
            let mut names = Names::default();
            for name in &entities {
                names.entities.intern(name);
            }
            for name in &relations {
                names.relations.intern(name);
            }
            if (names.entities.len(), names.relations.len()) != (entities.len(), relations.len()) {
                return Err(wrong("a name occurs twice"));
            }
            let triples = |bytes: Vec<u8>| -> Vec<Triple> {
                let ids: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect();
                ids.as_chunks::<3>().0.iter().map(|&[h, r, t]| Triple::new(h, r, t)).collect()
            };
            let parts = parts.map(triples);
            let most = [entities.len(), relations.len()];
            let fits =
                |t: &Triple| t.head.index() < most[0] && t.relation.index() < most[1] && t.tail.index() < most[0];
            if !parts.iter().flatten().all(fits) {
                return Err(wrong("a triple has an id without a name"));
            }
            let (labels, prefixes): (Labels, Vec<(String, String)>) = serde_json::from_str::<Described>(&described)
                .map(|found| (found.labels, found.prefixes))
                .map_err(|error| wrong(&error.to_string()))?;
            if !labels.fits(most[0], most[1]) {
                return Err(wrong("a label has an id without a name"));
            }
            let read = [parts[0].len(), parts[1].len(), parts[2].len()];
            let [train, valid, test] = parts;
            let data = Dataset::new(names, train, valid, test).with_labels(labels).with_prefixes(prefixes);
            Ok(Self::given(data, read, false))
        })
    }

    /// A hash of names and triples, as model files store it.
    #[getter]
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        job::short(py, || Ok(data_hash(&self.data)))
    }

    /// Entities, relations, and triples by part.
    #[getter]
    fn sizes(&self, py: Python<'_>) -> PyResult<[usize; 5]> {
        let data = &self.data;
        job::here(py, || {
            let parts = [data.train().len(), data.valid().len(), data.test().len()];
            Ok([data.entity_count(), data.relation_count(), parts[0], parts[1], parts[2]])
        })
    }

    /// Names in the order of their ids.
    fn entity_names(&self, py: Python<'_>) -> PyResult<Vec<&str>> {
        job::here(py, || Ok(self.data.names().entities.iter().map(|(_, name)| name).collect()))
    }

    /// Names in the order of their ids.
    fn relation_names(&self, py: Python<'_>) -> PyResult<Vec<&str>> {
        job::here(py, || Ok(self.data.names().relations.iter().map(|(_, name)| name).collect()))
    }

    /// The triples of a part, as ids of four bytes.
    fn ids<'py>(&self, py: Python<'py>, split: &str) -> PyResult<Bound<'py, PyBytes>> {
        job::here(py, || {
            let Some(triples) = self.data.split(split) else {
                let what = format!("split is \"train\", \"valid\" or \"test\", not {split:?}");
                return Err(Fault::setting(what).raise(py));
            };
            let flat = triples.iter().flat_map(|triple| [triple.head.0, triple.relation.0, triple.tail.0]);
            Ok(PyBytes::new(py, &flat.flat_map(u32::to_ne_bytes).collect::<Vec<u8>>()))
        })
    }
}

fn warnings(report: &LoadReport) -> Vec<String> {
    report.warnings.iter().map(ToString::to_string).collect()
}

/// What stands beside names and triples.
#[derive(serde::Deserialize)]
struct Described {
    labels: Labels,
    prefixes: Vec<(String, String)>,
}

/// The same data once more, for a model that owns its own.
pub fn copy(data: &Dataset) -> Dataset {
    let parts = [data.train(), data.valid(), data.test()].map(<[Triple]>::to_vec);
    let [train, valid, test] = parts;
    let copy = Dataset::new(data.names().clone(), train, valid, test);
    copy.with_labels(data.labels().clone()).with_prefixes(data.declared_prefixes().to_vec())
}
