//! The whole job of `ruge run`, in this process: stages are told as progress and as lines of the log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use ruge::Spec;
use ruge::spec::SpecText;
use ruge::truth::told::Told;
use ruge_cli::minutes::duration;
use ruge_kg::LoadReport;
use ruge_lab::pipeline::ledger::{self, Ledger};
use ruge_lab::pipeline::{self, Choice, Ended, Event, Findings, Job, Stage};
use ruge_lab::recipe::Size;
use ruge_report::run::report;

use crate::errors::{Fault, Result};
use crate::graph::Graph;
use crate::job::{self, INFO, WARNING};
use crate::settings::{self, is_given, request};

/// Runs the whole job; keywords are the flags of `ruge run`, as JSON. The result is what `ruge run --json` prints.
#[pyfunction]
#[pyo3(signature = (graph, source, keywords, spec, out, force, resume, stages, evaluate_only, samples, checkpoint_every, minutes, seeds, told, threads, progress))]
#[allow(clippy::too_many_arguments)]
pub fn run(
    py: Python<'_>,
    graph: &Graph,
    source: String,
    keywords: String,
    spec: Option<(String, String, bool)>,
    out: PathBuf,
    force: bool,
    resume: bool,
    stages: (Option<String>, Option<String>),
    evaluate_only: bool,
    samples: usize,
    checkpoint_every: f64,
    minutes: Option<f64>,
    seeds: Option<u64>,
    told: (Option<String>, Option<PathBuf>, Option<PathBuf>),
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (data, loaded) = (Arc::clone(&graph.data), graph.report.clone());
    job::write(py, threads, progress.as_ref(), move |job| {
        if force && resume {
            return Err(Fault::setting("force and resume cannot be given together"));
        }
        let stored = if resume { Ledger::read(&pipeline::folder(&out)?)? } else { None };
        if resume && seeds.is_none() && stored.is_none() {
            return Err(Fault::setting(format!(
                "{}: there is no run to resume\n  remedy: leave out resume=True to start one",
                out.display()
            )));
        }
        let text = spec.map(|(name, text, is_file)| SpecText { name, text, is_file });
        let typed = text.is_some() || is_given(&keywords)?;
        let keeps_dimension = text.is_some() || settings::has(&keywords, "dim")?;
        let (completeness, feedback, constraints) = told;
        let mut told = Told { completeness, feedback, constraints };
        // A run that goes on is told what it was told before, unless something else is said.
        if let Some(stored) = stored.as_ref().filter(|_| told.is_empty()) {
            told = stored.told.clone();
        }
        let spec = match stored.filter(|_| !typed) {
            Some(ledger) => Spec::default().overlaid(&ledger.spec, &out.join(ledger::FILE).display().to_string())?,
            None => ruge_cli::run_spec(&request(&keywords, text)?, Size::of(&data))?,
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
            home: out,
            force,
            choice,
            deploys: !evaluate_only,
            budget: minutes.map(|minutes| duration(minutes / seeds.unwrap_or(1).max(1) as f64)),
            keeps_dimension,
            samples,
            told,
            checkpoint_every: Duration::try_from_secs_f64(checkpoint_every)
                .map_err(|_| Fault::setting("checkpoint_every is a number of seconds"))?,
        };
        if let Some(seeds) = seeds {
            return several(&whole, seeds, &loaded, job);
        }
        let started = Instant::now();
        let (findings, whole) = take(&whole, &loaded, job)?;
        Ok(ruge_cli::run_object(&findings, &whole, started.elapsed().as_secs_f64()).to_string())
    })
}

/// Takes the stages of one run.
fn take<'j>(whole: &Job<'j>, loaded: &LoadReport, job: &job::Job) -> Result<(Findings, Job<'j>)> {
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
    // A time may have changed the settings on the way.
    let as_run = |findings: &Findings| -> ruge::Result<Job<'j>> {
        Ok(Job { spec: Spec::default().overlaid(&findings.spec, ledger::FILE)?, ..whole.clone() })
    };
    let page =
        |findings: &Findings| Ok(ruge_report::render(&report(findings, &as_run(findings)?, loaded, ruge_cli::VERSION)));
    if let Ended::Stopped(_) = pipeline::run(whole, &page, &control)? {
        return Err(ruge::RugeError::from(ruge_kg::Cancelled).into());
    }
    // A part of what is to replace an earlier run is still beside it.
    let folder = pipeline::folder(&whole.out)?;
    let spec = match Ledger::read(&folder)? {
        Some(ledger) => Spec::default().overlaid(&ledger.spec, ledger::FILE)?,
        None => whole.spec.clone(),
    };
    let whole = Job { out: folder, spec, ..whole.clone() };
    Ok((Findings::read(&whole)?, whole))
}

/// The same run with several seeds, each in a folder of its own; those that are finished are skipped.
fn several(whole: &Job<'_>, seeds: u64, loaded: &LoadReport, job: &job::Job) -> Result<String> {
    if seeds < 2 {
        return Err(Fault::setting(
            "seeds is the number of seeds to compare, at least 2\n  remedy: leave it out for one run",
        ));
    }
    if whole.choice != Choice::All {
        return Err(Fault::setting("seeds cannot be given together with only or from_"));
    }
    if whole.out.join(ledger::FILE).exists() || whole.out.join("run.json").exists() {
        let what = format!(
            "{}: it holds a single run; runs of several seeds need a folder of their own\n  remedy: give another out=",
            whole.out.display()
        );
        return Err(Fault::at(whole.out.clone(), what));
    }
    let (mut all, mut found) = (Vec::new(), Vec::new());
    for seed in (0..seeds).map(|more| whole.spec.seed + more) {
        let out = whole.out.join(format!("seed-{seed}"));
        job.log(INFO, format!("seed {seed}: {} of {seeds}", all.len() + 1));
        let one = Job {
            spec: Spec { seed, ..whole.spec.clone() },
            out: out.clone(),
            home: out.clone(),
            // One model to deploy is enough.
            deploys: whole.deploys && all.is_empty(),
            ..whole.clone()
        };
        let started = Instant::now();
        let (findings, done) = take(&one, loaded, job)?;
        found.push(ruge_cli::run_object(&findings, &done, started.elapsed().as_secs_f64()));
        all.push((seed, out, findings));
    }
    let mut object = ruge_cli::seeds_object(&all, &whole.spec)
        .ok_or_else(|| Fault::setting("there are no held-out triples, so seeds cannot be compared"))?;
    object["found"] = found.into();
    Ok(object.to_string())
}

fn stage(name: &str) -> Result<Stage> {
    Stage::ALL.into_iter().find(|stage| stage.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        Fault::setting(format!("there is no stage called {name:?}\n  remedy: the stages are {}", names.join(", ")))
    })
}
