//! Training, in memory or in a run folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use ruge::run::{Mode, Run, TrainControl, TrainEvent};
use ruge::spec::SpecText;
use ruge::{Engine, assemble};
use ruge_cli::minutes::training_ends;
use ruge_embed::StopReason;

use crate::combine::tell_lost;
use crate::errors::{Fault, Result};
use crate::graph::{self, Graph};
use crate::job::{self, INFO};
use crate::model::Model;
use crate::rules::Rules;
use crate::settings::request;

/// Trains a model; keywords are the flags of `ruge train`, as JSON, and `spec` is TOML with the name to call it by.
#[pyfunction]
#[pyo3(signature = (graph, keywords, spec, rules, out, force, resume, checkpoint_every, minutes, threads, progress))]
#[allow(clippy::too_many_arguments)]
pub fn train(
    py: Python<'_>,
    graph: &Graph,
    keywords: String,
    spec: Option<(String, String, bool)>,
    rules: Option<&Rules>,
    out: Option<PathBuf>,
    force: bool,
    resume: bool,
    checkpoint_every: f64,
    minutes: Option<f64>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Model> {
    let data = Arc::clone(&graph.data);
    let given = rules.map(Rules::shared);
    let until = minutes.map(|minutes| training_ends(Instant::now(), minutes));
    job::write(py, threads, progress.as_ref(), move |job| {
        if force && resume {
            return Err(Fault::setting("force and resume cannot be given together\n  remedy: leave one of them out"));
        }
        if out.is_none() && (force || resume) {
            return Err(Fault::setting("force and resume need the run folder\n  remedy: give it with out="));
        }
        let text = spec.map(|(name, text, is_file)| SpecText { name, text, is_file });
        let asked = request(&keywords, text)?;
        let settings = &asked.settings;
        let typed =
            settings.model.is_some() || settings.guidance.is_some() || asked.text.is_some() || asked.preset.is_some();
        let stored = match &out {
            Some(out) if resume => Some(ruge::run::stored_spec(out)?).filter(|_| !typed),
            _ => None,
        };
        let (mut spec, own_plateau) = match stored {
            Some(stored) => (asked.resume(stored)?, true),
            None => asked.resolve()?,
        };
        if given.is_some() && !spec.takes_rules() {
            return Err(Fault::setting(
                "rules are given, but nothing takes them\n  remedy: choose guidance=\"ruge\" or \"examples\", \
                 preset=\"complex-n3-rules\" or model=\"rules\"",
            ));
        }
        if spec.schedule.plateau.is_some() && data.valid().is_empty() {
            if own_plateau {
                return Err(Fault::setting(
                    "schedule.plateau needs validation, but the data have no validation triples",
                ));
            }
            spec.schedule.plateau = None;
        }
        let epochs = spec.schedule.epochs;
        let hear = |event: &TrainEvent| {
            if let TrainEvent::Epoch(tick) = event {
                let mrr = tick.metrics.as_ref().map_or_else(String::new, |found| format!(", MRR {:.4}", found.mrr));
                if tick.metrics.is_some() {
                    job.log(INFO, format!("epoch {} of {epochs}: loss {:.4}{mrr}", tick.epoch, tick.losses.labeled));
                }
                job.tell("train", tick.epoch, epochs, format!("loss {:.4}{mrr}", tick.losses.labeled));
            }
        };
        let control: TrainControl<'_> = TrainControl::new(&job.cancel).with_listener(&hear);
        let find = || -> Result<Vec<_>> {
            match given {
                Some(given) => {
                    let (rules, lost) = given.about(&data)?;
                    tell_lost(job, lost);
                    Ok(rules)
                }
                None => Ok(assemble::rules(&spec, &data, &control.quiet())?),
            }
        };
        let Some(out) = out else {
            let rules = find()?;
            return Ok(Model::new(ruge::train(&spec, &data, rules, &control)?.engine(graph::copy(&data))?));
        };
        let run = Run::open(&spec, &data, &out, Mode::of(force, resume))?;
        let rules = match find() {
            Ok(rules) => rules,
            Err(fault) => {
                run.withdraw();
                return Err(fault);
            }
        };
        let every = Duration::try_from_secs_f64(checkpoint_every)
            .map_err(|_| Fault::setting("checkpoint_every is a number of seconds"))?;
        let outcome = run.checkpoint_every(every).until(until).train(rules, &control)?;
        if outcome.stop == StopReason::Time {
            let done = outcome.epochs;
            job.log(
                INFO,
                format!("time is up after {done} of {epochs} epochs; spec.toml says so, and trains the same model"),
            );
        }
        if outcome.stop == StopReason::Asked {
            return Err(ruge::RugeError::from(ruge_kg::Cancelled).into());
        }
        Ok(Model::new(Engine::open(&out)?))
    })
}
