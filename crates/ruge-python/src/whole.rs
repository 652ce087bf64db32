//! The whole job of `ruge run`, in this process: stages are told as progress and as lines of the log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use ruge::Spec;
use ruge::spec::SpecText;
use ruge_lab::pipeline::ledger::{self, Ledger};
use ruge_lab::pipeline::{self, Choice, Ended, Event, Findings, Job, Stage};
use ruge_lab::recipe::Size;
use ruge_report::run::report;

use crate::errors::{Fault, Result};
use crate::graph::Graph;
use crate::job::{self, INFO, WARNING};
use crate::settings::{is_given, request};

/// Runs the whole job; keywords are the flags of `ruge run`, as JSON. The result is what `ruge run --json` prints.
#[pyfunction]
#[pyo3(signature = (graph, source, keywords, spec, out, force, resume, stages, evaluate_only, samples, checkpoint_every, threads, progress))]
#[allow(clippy::too_many_arguments)]
pub fn run(
    py: Python<'_>,
    graph: &Graph,
    source: String,
    keywords: &str,
    spec: Option<(String, String, bool)>,
    out: PathBuf,
    force: bool,
    resume: bool,
    stages: (Option<String>, Option<String>),
    evaluate_only: bool,
    samples: usize,
    checkpoint_every: f64,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (data, loaded) = (Arc::clone(&graph.data), graph.report.clone());
    job::work(py, threads, progress.as_ref(), move |job| {
        if force && resume {
            return Err(Fault::setting("force and resume cannot be given together"));
        }
        let stored = if resume { Ledger::read(&pipeline::folder(&out)?)? } else { None };
        if resume && stored.is_none() {
            return Err(Fault::setting(format!(
                "{}: there is no run to resume\n  remedy: leave out resume=True to start one",
                out.display()
            )));
        }
        let text = spec.map(|(name, text, is_file)| SpecText { name, text, is_file });
        let typed = text.is_some() || is_given(keywords)?;
        let spec = match stored.filter(|_| !typed) {
            Some(ledger) => Spec::default().overlaid(&ledger.spec, &out.join(ledger::FILE).display().to_string())?,
            None => ruge_cli::run_spec(&request(keywords, text)?, Size::of(&data))?,
        };
        let choice = match stages {
            (Some(_), Some(_)) => return Err(Fault::setting("only and from_ cannot be given together")),
            (Some(only), None) => Choice::Only(stage(&only)?),
            (None, Some(from)) => Choice::From(stage(&from)?),
            (None, None) => Choice::All,
        };
        let whole = Job {
            data: &data,
            source,
            spec,
            out: out.clone(),
            home: out.clone(),
            force,
            choice,
            deploys: !evaluate_only,
            budget: None,
            keeps_dimension: false,
            samples,
            checkpoint_every: Duration::try_from_secs_f64(checkpoint_every)
                .map_err(|_| Fault::setting("checkpoint_every is a number of seconds"))?,
        };
        let hear = |event: &Event| match event {
            Event::Began { stage } => job.tell(stage.name(), 0, 0, String::new()),
            Event::Progress { stage, done, total, note } => job.tell(stage.name(), *done, *total, note.clone()),
            Event::Epoch { stage, epoch, epochs, note } => job.tell(stage.name(), *epoch, *epochs, note.clone()),
            // A bar of epochs stands still within one.
            Event::Batches { .. } | Event::Left { .. } => {}
            Event::Note { text } => job.log(WARNING, text),
            Event::Skipped { stage, line } => job.log(INFO, format!("{}: {line} (finished before)", stage.name())),
            Event::Finished { stage, line, seconds } => {
                job.log(INFO, format!("{}: {line} ({seconds:.1} s)", stage.name()));
            }
        };
        let control = ruge::Control::new(&job.cancel).with_listener(&hear);
        let page = |findings: &Findings| Ok(ruge_report::render(&report(findings, &whole, &loaded, ruge_cli::VERSION)));
        let started = Instant::now();
        if let Ended::Stopped(_) = pipeline::run(&whole, &page, &control)? {
            return Err(ruge::RugeError::from(ruge_kg::Cancelled).into());
        }
        let whole = Job { out: pipeline::folder(&out)?, ..whole.clone() };
        let findings = Findings::read(&whole)?;
        Ok(ruge_cli::run_object(&findings, &whole, started.elapsed().as_secs_f64()).to_string())
    })
}

fn stage(name: &str) -> Result<Stage> {
    Stage::ALL.into_iter().find(|stage| stage.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        Fault::setting(format!("there is no stage called {name:?}\n  remedy: the stages are {}", names.join(", ")))
    })
}
