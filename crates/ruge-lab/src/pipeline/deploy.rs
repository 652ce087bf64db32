//! The model to deploy: trained on every listed fact, with what validation decided.
//!
//! Figures need facts that the model has not seen. New facts do not: a model that has not seen valid and test proposes a second value for
//! what is listed there. So the guided model is trained once more, on train, valid and test together, with the settings and the number
//! of epochs that validation chose. Rules, their weights, evidence and the fit of truth are those of the evaluated model, asked on all
//! listed facts. Nothing is left to validate them on, so the stage compares what both models say about the same new facts.

use ruge::Engine;
use ruge::Spec;
use ruge::assemble;
use ruge::complete::{CompleteOptions, complete};
use ruge::error::Result;
use ruge::explain::Explainer;
use ruge::model_file::{Contents, ModelFile};
use ruge::run::Guides;
use ruge::truth::Truth;
use ruge_embed::Schedule;
use ruge_kg::{Control, Dataset, Triple};
use serde::{Deserialize, Serialize};

use super::bench::Bench;
use super::findings::{Learned, store};
use super::stages::{counted, train_on};
use super::{Job, Stage, Stagehand};

/// New facts that both models are asked about.
const COMPARED: usize = 2_000;
/// Training triples up to which this is done for the whole graph.
const SMALL: usize = 100_000;

/// `deploy.json`: what the model to deploy is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Deployed {
    /// Facts it was trained on.
    pub facts: usize,
    /// Epochs; nothing where it is the evaluated model.
    pub epochs: Option<u64>,
    /// Why it is the evaluated model, where it is.
    pub same: Option<String>,
    /// How truth carries over; nothing where it was not compared.
    pub carried: Option<Carried>,
}

/// What both models say about the same new facts.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Carried {
    /// New facts, the surest of the model to deploy.
    pub facts: usize,
    /// Their mean truth by the model to deploy.
    pub deployed: f64,
    /// Their mean truth by the evaluated model.
    pub evaluated: f64,
    /// Mean absolute difference.
    pub difference: f64,
}

/// Trains it.
pub(super) fn deploy(job: &Job<'_>, bench: &Bench<'_>, anew: bool, watcher: &Stagehand<'_>) -> Result<String> {
    let (guided, evaluated) = (bench.guided()?, bench.evaluated()?);
    let path = job.out.join("model.safetensors");
    if let Some(reason) = why_not(job, guided.spec()) {
        ModelFile::write(&path, &evaluated.contents()?)?;
        let facts = job.data.train().len();
        store(&job.out, Stage::Deploy, &Deployed { facts, same: Some(reason.into()), ..Deployed::default() })?;
        return Ok(format!("the evaluated model is the one to deploy: {reason}"));
    }
    let all = job.data.merged();
    let spec = on_all(guided.spec(), Learned::of(guided).best_epoch);
    let guides = match spec.takes_rules() {
        true => {
            let rules = bench.guides(&watcher.control.quiet())?.rules.clone();
            let horn: Vec<_> = rules.iter().map(|record| record.rule.clone()).collect();
            let groundings = assemble::groundings(&all, &horn, &watcher.control.quiet())?;
            Some(Guides { rules, groundings, seconds: 0.0 })
        }
        false => None,
    };
    let folder = job.out.join("deployed");
    let (_, _) = train_on(&all, job, Stage::Deploy, &spec, guides.as_ref(), &folder, anew, watcher)?;
    let trained = Engine::open(&folder)?;
    let facts = all.train().len();
    let notes = [("facts", facts.to_string()), ("trained_on", "all".to_string())];
    let contents = Contents { embeddings: trained.embeddings()?, data: &all, ..evaluated.contents()? };
    let mut all_notes = contents.notes.clone();
    all_notes.extend(notes.map(|(key, value)| (key.to_string(), value)));
    let truth = carried_truth(&all, &trained, evaluated, &watcher.control.quiet())?;
    ModelFile::write(&path, &Contents { notes: &all_notes, truth: truth.as_ref(), ..contents })?;
    let carried = match all.train().len() <= SMALL {
        true => carry_over(bench.deployed()?, evaluated, watcher)?,
        false => None,
    };
    store(&job.out, Stage::Deploy, &Deployed { facts, epochs: Some(spec.schedule.epochs), same: None, carried })?;
    let said = carried.map_or_else(String::new, |found| {
        format!(
            "; mean truth of {} {:.2}, by the evaluated model {:.2}",
            counted(found.facts, "new fact"),
            found.deployed,
            found.evaluated
        )
    });
    let epochs = counted(spec.schedule.epochs as usize, "epoch");
    Ok(format!("trained on all {facts} listed facts for {epochs}{said}"))
}

/// The fit of truth, for the model that has seen every listed fact.
fn carried_truth(all: &Dataset, trained: &Engine, evaluated: &Engine, control: &Control<'_>) -> Result<Option<Truth>> {
    let Some(truth) = evaluated.fitted_truth()? else { return Ok(None) };
    let after = evaluated.on(all.merged(), trained.shared_model())?;
    truth.carried_over(&evaluated.witness(), &after.witness(), all.filter(), evaluated.spec().seed, control).map(Some)
}

/// Why the evaluated model is the one to deploy.
fn why_not(job: &Job<'_>, spec: &Spec) -> Option<&'static str> {
    if job.data.valid().is_empty() && job.data.test().is_empty() {
        return Some("it has seen every listed fact");
    }
    // Without validation nobody would know when.
    spec.schedule.plateau.map(|_| "its trainer lowers the learning rates by validation")
}

/// The same training without anything to validate on.
fn on_all(spec: &Spec, epochs: u64) -> Spec {
    let schedule = Schedule { epochs, validate_every: 0, patience: None, ..spec.schedule };
    Spec { schedule, ..spec.clone() }
}

/// Truth was fitted with the evaluated model: does it mean the same with this one?
fn carry_over(deployed: &Engine, evaluated: &Engine, watcher: &Stagehand<'_>) -> Result<Option<Carried>> {
    let options = CompleteOptions { top: Some(COMPARED), min_truth: 0.1, ..CompleteOptions::default() };
    let follow = watcher.hearing(Stage::Deploy, "comparing");
    let found = complete(&Explainer::new(deployed), &options, &watcher.control.heard_by(&follow))?;
    let (triples, truths): (Vec<Triple>, Vec<f64>) = found.triples().unzip();
    if triples.is_empty() {
        return Ok(None);
    }
    let before = evaluated.estimates(&triples)?;
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / triples.len() as f64;
    Ok(Some(Carried {
        facts: triples.len(),
        deployed: mean(&mut truths.iter().copied()),
        evaluated: mean(&mut before.iter().copied()),
        difference: mean(&mut truths.iter().zip(&before).map(|(a, b)| (a - b).abs())),
    }))
}
