//! Models opened for questions.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ruge::complete::{CompleteOptions, complete, measure};
use ruge::evaluate::{Questions, ranks_sha256};
use ruge::explain::drawing::Drawing;
use ruge::explain::{ExplainOptions, Explainer};
use ruge::fold_in::NewFacts;
use ruge::predict::{PredictOptions, Question};
use ruge::{Control, Engine, ModelFile, OpenOptions};
use ruge_embed::Table;
use ruge_kg::{EntityId, Side, Ties, Triple, Work};
use ruge_lab::export::facts::{self, FactFormat};
use ruge_rules::RuleReadOptions;
use serde_json::json;

use crate::combine::tell_lost;
use crate::errors::{Fault, Result};
use crate::graph::Graph;
use crate::job::{self, Job};
use crate::rules::{Rules, SharedRules};
use crate::settings::device_named;
use crate::told;

/// A model opened for questions.
#[pyclass(frozen, module = "ruge._core")]
pub struct Model {
    pub engine: Engine,
}

/// Opens a run folder or a model.safetensors; `evaluated` is the model that figures describe.
#[pyfunction]
pub fn load(py: Python<'_>, path: PathBuf, device: String, evaluated: bool) -> PyResult<Model> {
    job::work(py, None, None, move |_| {
        let device = device_named(&device)?;
        let path = if evaluated { ModelFile::evaluated(&path) } else { path };
        Ok(Model::new(Engine::open_with(&path, &OpenOptions { device, ..OpenOptions::default() })?))
    })
}

/// Three names with one missing.
type Asked = (Option<String>, Option<String>, Option<String>);

impl Model {
    /// For questions to this engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

/// Head, relation and tail.
type Named = (String, String, String);

fn ids(engine: &Engine, (head, relation, tail): &Named) -> Result<Triple> {
    Ok(Triple { head: engine.entity(head)?, relation: engine.relation(relation)?, tail: engine.entity(tail)? })
}

/// What is wanted of answers.
struct Choice {
    top: usize,
    new: bool,
    candidates: Option<Vec<String>>,
    typed: bool,
    by_rules: bool,
}

fn ask(engine: &Engine, questions: &[Asked], choice: Choice, control: &Control<'_>) -> Result<String> {
    let Choice { top, new, candidates, typed, by_rules } = choice;
    let of = |(h, r, t): &Asked| Question::named(engine, h.as_deref(), r.as_deref(), t.as_deref());
    let asked = questions.iter().map(of).collect::<ruge::Result<Vec<_>>>()?;
    let found = candidates.map(|names| names.iter().map(|name| engine.entity(name)).collect());
    let candidates: Option<Vec<EntityId>> = found.transpose()?;
    let options = PredictOptions { top, new, candidates, typed, by_rules };
    let answers = engine.predict(&asked, &options, control)?;
    Ok(json!({"answers": answers, "assumes": engine.truth_assumes()?}).to_string())
}

/// With the model's own rules, or with others.
fn explainer(engine: &Engine, rules: Option<SharedRules>, job: &Job) -> Result<Explainer> {
    let Some(rules) = rules else { return Ok(Explainer::new(engine)) };
    let (rules, lost) = rules.about(engine.data())?;
    tell_lost(job, lost);
    Ok(Explainer::with_rules(engine, rules))
}

#[pymethods]
impl Model {
    /// The best answers to each question, as JSON: `answers`, a list for each, and what truth assumes.
    #[pyo3(signature = (questions, top, new, candidates, typed, by_rules, threads))]
    #[allow(clippy::too_many_arguments)]
    fn predict(
        &self,
        py: Python<'_>,
        questions: Vec<Asked>,
        top: usize,
        new: bool,
        candidates: Option<Vec<String>>,
        typed: bool,
        by_rules: bool,
        threads: Option<usize>,
    ) -> PyResult<String> {
        let choice = Choice { top, new, candidates, typed, by_rules };
        match questions.len() {
            1 => job::short(py, || ask(&self.engine, &questions, choice, &Control::default())),
            _ => {
                let engine = self.engine.clone();
                job::work(py, threads, None, move |job| ask(&engine, &questions, choice, &Control::new(&job.cancel)))
            }
        }
    }

    /// The first question that names what the model does not know: its place, and the error.
    fn unknown(&self, py: Python<'_>, questions: Vec<Asked>) -> PyResult<Option<(usize, PyErr)>> {
        job::here(py, || {
            let of = |(h, r, t): &Asked| Question::named(&self.engine, h.as_deref(), r.as_deref(), t.as_deref()).err();
            let found = questions.iter().enumerate().find_map(|(at, asked)| Some((at, of(asked)?)));
            Ok(found.map(|(at, error)| (at, Fault::from(error).raise(py))))
        })
    }

    /// Why a triple is held true, as JSON and as a drawing.
    fn explain(
        &self,
        py: Python<'_>,
        triple: Named,
        groundings: usize,
        similar: usize,
        side: String,
        rules: Option<&Rules>,
    ) -> PyResult<(String, String, String)> {
        let (engine, rules) = (self.engine.clone(), rules.map(Rules::shared));
        job::work(py, None, None, move |job| {
            let side = match &*side {
                "tail" => Side::Tail,
                "head" => Side::Head,
                other => return Err(Fault::setting(format!("side is \"tail\" or \"head\", not {other:?}"))),
            };
            let options = ExplainOptions { groundings, similar, side };
            let explanation = explainer(&engine, rules, job)?.explain(ids(&engine, &triple)?, &options)?;
            let mut object = json!(explanation);
            object["rules_fired"] = explanation.fired().into();
            object["grounding_count"] = explanation.grounding_count().into();
            object["assumes"] = engine.truth_assumes()?.into();
            let relation = engine.relation(&explanation.fact.relation)?;
            object["completeness"] = json!(engine.completeness(relation)?);
            let drawing = Drawing::new(&explanation);
            Ok((object.to_string(), drawing.svg(), drawing.dot()))
        })
    }

    /// Reads a rule file about the names of this model, in any format.
    fn read_rules(&self, py: Python<'_>, path: PathBuf) -> PyResult<Rules> {
        job::short(py, || Rules::read(&path, self.engine.data().names(), &RuleReadOptions::default()))
    }

    /// New facts for the graph, as JSON, and as text in a format of `ruge complete --to` where one is named.
    #[pyo3(signature = (relation, min_truth, top, per_query, rules, threads, progress))]
    #[allow(clippy::too_many_arguments)]
    fn complete(
        &self,
        py: Python<'_>,
        relation: Option<String>,
        min_truth: Option<f64>,
        top: Option<usize>,
        per_query: usize,
        rules: Option<&Rules>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let (engine, rules) = (self.engine.clone(), rules.map(Rules::shared));
        job::work(py, threads, progress.as_ref(), move |job| {
            let relation = relation.map(|name| engine.relation(&name)).transpose()?;
            // As on the command line: with a threshold alone, everything that reaches it.
            let top = if min_truth.is_some() { top } else { top.or(CompleteOptions::default().top) };
            let options = CompleteOptions { relation, per_query, min_truth: min_truth.unwrap_or(0.0), top };
            let hear = |work: &Work| job.tell("complete", work.done, work.total, String::new());
            let control = Control::new(&job.cancel).with_listener(&hear);
            let found = complete(&explainer(&engine, rules, job)?, &options, &control)?;
            let facts = found.proposals(0..found.len())?;
            Ok(json!({
                "facts": facts, "candidates": found.candidates, "from_rules": found.from_rules,
                "queries": found.queries, "completeness": found.completeness, "assumes": found.assumes,
            })
            .to_string())
        })
    }

    /// How far truths of proposals can be believed, on test facts, as JSON.
    #[pyo3(signature = (relation, per_query, threads, progress))]
    fn measure(
        &self,
        py: Python<'_>,
        relation: Option<String>,
        per_query: usize,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let engine = self.engine.clone();
        job::work(py, threads, progress.as_ref(), move |job| {
            if engine.data().test().is_empty() {
                return Err(Fault::setting(
                    "the model has no test triples to measure on\n  remedy: train it on data with test triples",
                ));
            }
            let relation = relation.map(|name| engine.relation(&name)).transpose()?;
            let options = CompleteOptions { relation, per_query, min_truth: 0.0, top: None };
            let hear = |work: &Work| job.tell("measure", work.done, work.total, String::new());
            let measured =
                measure(&Explainer::new(&engine), &options, &Control::new(&job.cancel).with_listener(&hear))?;
            let mut object = json!(measured);
            object["ece"] = measured.all.ece.into();
            Ok(object.to_string())
        })
    }

    /// Filtered ranking of a part of the data, as JSON.
    #[pyo3(signature = (split, data, ties, hits, threads, progress))]
    #[allow(clippy::too_many_arguments)]
    fn evaluate(
        &self,
        py: Python<'_>,
        split: String,
        data: Option<&Graph>,
        ties: String,
        hits: Vec<u32>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let (engine, given) = (self.engine.clone(), data.map(|graph| Arc::clone(&graph.data)));
        job::work(py, threads, progress.as_ref(), move |job| {
            let (engine, split) = (&engine, &*split);
            let other = match given {
                Some(given) => told::other_data(&given, split, engine)?,
                None => None,
            };
            let data = other.as_ref().unwrap_or(engine.data());
            let Some(triples) = data.split(split) else {
                return Err(Fault::setting(format!("split is \"test\", \"valid\" or \"train\", not {split:?}")));
            };
            if engine.notes().get("trained_on").is_some_and(|on| on == "all") && split != "train" {
                return Err(Fault::setting(format!(
                    "this model was trained on every listed fact, {split} included, so it knows the answers\n  remedy: load \
                     the run with evaluated=True"
                )));
            }
            if triples.is_empty() {
                return Err(Fault::setting(format!(
                    "the data have no {split} triples\n  remedy: choose another split"
                )));
            }
            let ties = match &*ties {
                "mean" => Ties::Mean,
                "optimistic" => Ties::Optimistic,
                "pessimistic" => Ties::Pessimistic,
                other => {
                    let words = format!("ties is \"mean\", \"optimistic\" or \"pessimistic\", not {other:?}");
                    return Err(Fault::setting(words));
                }
            };
            let questions = Questions { ties, hits, ..Questions::about(triples, data.filter()) };
            let hear = |work: &Work| job.tell("evaluate", work.done, work.total, String::new());
            let control = Control::new(&job.cancel).with_listener(&hear);
            let ranks = questions.rank(engine.ranker(), &control)?;
            let found = questions.evaluation(&ranks, engine.data().graph());
            let names = &data.names().relations;
            let rows = found.by_relation.iter().map(|(&id, metrics)| {
                let mut row = json!(metrics);
                row["relation"] = names.name(id).into();
                row
            });
            let mut object = json!(found.pooled);
            object["split"] = split.into();
            object["head"] = json!(found.by_side.get(&Side::Head));
            object["tail"] = json!(found.by_side.get(&Side::Tail));
            object["ranks_sha256"] = ranks_sha256(&ranks).into();
            object["by_relation"] = rows.collect();
            Ok(object.to_string())
        })
    }

    /// The entities nearest to one, as JSON.
    fn similar(&self, py: Python<'_>, entity: String, top: usize) -> PyResult<String> {
        let engine = self.engine.clone();
        job::work(py, None, None, move |_| Ok(json!(engine.similar(engine.entity(&entity)?, top)?).to_string()))
    }

    /// Scores of triples, and the chance that each is true.
    fn score(&self, py: Python<'_>, triples: Vec<Named>) -> PyResult<(Vec<f32>, Vec<f64>)> {
        let engine = self.engine.clone();
        job::work(py, None, None, move |_| {
            let of = |(row, triple): (usize, &Named)| ids(&engine, triple).map_err(|fault| fault.in_row(row as u64));
            let triples = triples.iter().enumerate().map(of).collect::<Result<Vec<_>>>()?;
            let mut scores = vec![0.0; triples.len()];
            engine.scores(&triples, &mut scores).map_err(ruge::RugeError::from)?;
            Ok((scores, engine.truths(&triples)?))
        })
    }

    /// The same model with new facts and entities.
    fn with_facts(&self, py: Python<'_>, facts: &Graph) -> PyResult<Self> {
        let (engine, facts) = (self.engine.clone(), Arc::clone(&facts.data));
        job::work(py, None, None, move |job| {
            let facts = NewFacts::of(&engine, &facts)?;
            Ok(Self::new(engine.with_facts(&facts, &Control::new(&job.cancel))?))
        })
    }

    /// The same rules, weights and evidence on a graph with entities of its own.
    fn on_graph(&self, py: Python<'_>, graph: &Graph) -> PyResult<Self> {
        let (engine, graph) = (self.engine.clone(), Arc::clone(&graph.data));
        job::work(py, None, None, move |_| Ok(Self::new(engine.on_graph(&graph)?.0)))
    }

    /// The same model, told how complete the graph is: as a whole, and by relation.
    fn with_completeness(&self, py: Python<'_>, all: Option<f64>, relations: Vec<(String, f64)>) -> PyResult<Self> {
        job::short(py, || Ok(Self::new(told::completeness(&self.engine, all, relations)?)))
    }

    /// The same model, corrected by judged facts: from a file, or given.
    fn with_feedback(&self, py: Python<'_>, path: Option<PathBuf>, judged: Vec<(Named, bool)>) -> PyResult<Self> {
        job::short(py, || Ok(Self::new(told::feedback(&self.engine, path, judged)?)))
    }

    /// The same model under constraints: from a file, or as its text.
    fn with_constraints(&self, py: Python<'_>, path: Option<PathBuf>, text: Option<String>) -> PyResult<Self> {
        job::short(py, || Ok(Self::new(told::constraints(&self.engine, path, text)?)))
    }

    /// The id of a name.
    fn id(&self, py: Python<'_>, name: &str, is_entity: bool) -> PyResult<usize> {
        job::short(py, || {
            Ok(match is_entity {
                true => self.engine.entity(name)?.index(),
                false => self.engine.relation(name)?.index(),
            })
        })
    }

    /// Writes a model.safetensors, complete or not at all; an existing file is kept unless `force` is given.
    fn save(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        let engine = self.engine.clone();
        job::write(py, None, None, move |_| {
            Fault::refuse_to_replace(&path, force)?;
            Ok(ModelFile::write(&path, &engine.contents()?)?)
        })
    }

    /// The spec as TOML.
    #[getter]
    fn spec(&self, py: Python<'_>) -> PyResult<String> {
        job::here(py, || Ok(self.engine.spec().to_toml()))
    }

    /// What training says about itself.
    #[getter]
    fn notes(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<String, String>> {
        job::here(py, || Ok(self.engine.notes().clone()))
    }

    /// Model and guidance, by name.
    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<(String, String)> {
        job::here(py, || {
            let spec = self.engine.spec();
            Ok((spec.model.name.name().to_string(), spec.guidance().name().to_string()))
        })
    }

    /// The rules that guided it or that it ranks with.
    fn rules(&self, py: Python<'_>) -> PyResult<Rules> {
        job::short(py, || Ok(Rules::of(self.engine.rules(), self.engine.data().names())))
    }

    /// Names in the order of their ids.
    fn entity_names(&self, py: Python<'_>) -> PyResult<Vec<&str>> {
        job::here(py, || Ok(self.engine.data().names().entities.iter().map(|(_, name)| name).collect()))
    }

    /// Names in the order of their ids.
    fn relation_names(&self, py: Python<'_>) -> PyResult<Vec<&str>> {
        job::here(py, || Ok(self.engine.data().names().relations.iter().map(|(_, name)| name).collect()))
    }

    /// The vectors of entities or relations, in the model's memory.
    fn vectors(&self, py: Python<'_>, entities: bool) -> PyResult<Vectors> {
        job::here(py, || Ok(Vectors { engine: self.engine.clone(), entities }))
    }

    /// Proposals as text in a format of `ruge complete --to`, by the ending of a file's name.
    #[staticmethod]
    fn facts_text(py: Python<'_>, proposals: &str, ending: &str, base: &str, path: PathBuf) -> PyResult<String> {
        job::short(py, || {
            let format = FactFormat::of_ending(ending).ok_or_else(|| {
                let what = match ending {
                    "" => "a file without an ending".to_string(),
                    ending => format!(".{ending}"),
                };
                let what = format!("{}: facts cannot be written as {what}", path.display());
                Fault::data(what, None, "use .tsv, .csv, .jsonl, .nt, .ttl or .cypher").of_file(path)
            })?;
            if !facts::is_base(base) {
                return Err(Fault::setting(format!(
                    "base={base:?} is no absolute IRI\n  remedy: give one, such as http://example.org/id/"
                )));
            }
            let proposals: Vec<ruge::complete::Proposal> =
                serde_json::from_str(proposals).map_err(|error| Fault::setting(error.to_string()))?;
            Ok(facts::text(format, base, &proposals))
        })
    }
}

/// A table of a model; NumPy makes a read-only view of it.
#[pyclass(frozen, module = "ruge._core")]
pub struct Vectors {
    engine: Engine,
    entities: bool,
}

impl Vectors {
    fn table(&self) -> Result<&Table> {
        let embeddings = self.engine.embeddings()?;
        let embeddings = embeddings.ok_or_else(|| Fault::setting("this model is rules alone, and has no vectors"))?;
        Ok(if self.entities { &embeddings.entities } else { &embeddings.relations })
    }
}

#[pymethods]
impl Vectors {
    /// Where the numbers are; whoever reads them keeps this object, and with it the model, alive.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        job::here(py, || {
            let table = self.table().map_err(|fault| fault.raise(py))?;
            let dict = PyDict::new(py);
            dict.set_item("version", 3)?;
            dict.set_item("typestr", "<f4")?;
            dict.set_item("shape", (table.rows(), table.width()))?;
            dict.set_item("strides", (4 * table.stride(), 4))?;
            dict.set_item("data", (table.as_slice().as_ptr() as usize, true))?;
            Ok(dict)
        })
    }
}
