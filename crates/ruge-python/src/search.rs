//! `ruge search`, in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use ruge::run::Mode;
use ruge_kg::io::write::replace_file;
use ruge_lab::search::importance::importance;
use ruge_lab::search::{Ended, Search, SearchEvent, SearchOptions, Space, State, Trial, ranked};
use ruge_report::search::{SearchPage, render_search};
use serde_json::{Map, Value, json};

use crate::errors::{Fault, Result};
use crate::graph::Graph;
use crate::job::{self, INFO};
use crate::settings::device_named;

/// Searches for the settings that are best on validation; `space` is TOML with the name to call it by. The result is what
/// `ruge search --json` prints.
#[pyfunction]
#[pyo3(signature = (graph, source, space, out, force, resume, skip, trials, minutes, device, seed, checkpoint_every, threads, progress))]
#[allow(clippy::too_many_arguments)]
pub fn search(
    py: Python<'_>,
    graph: &Graph,
    source: String,
    space: Option<(String, String, bool)>,
    out: PathBuf,
    force: bool,
    resume: bool,
    skip: bool,
    trials: Option<usize>,
    minutes: Option<f64>,
    device: Option<String>,
    seed: Option<u64>,
    checkpoint_every: f64,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let data = Arc::clone(&graph.data);
    job::write(py, threads, progress.as_ref(), move |job| {
        if force && resume {
            return Err(Fault::setting("force and resume cannot be given together"));
        }
        if skip && !resume {
            return Err(Fault::setting(
                "skip gives up the trial of a search that is resumed\n  remedy: give resume=True, too",
            ));
        }
        let space = match space {
            None if resume => None,
            None => {
                return Err(Fault::setting("a search needs a space\n  remedy: give a dict or a TOML file with spec="));
            }
            Some((name, text, is_file)) => {
                let mut space = if is_file { Space::read(name.as_ref())? } else { Space::parse(&text, &name, None)? };
                if let Some(seed) = seed {
                    space.reseed(seed);
                }
                if let Some(trials) = trials {
                    space.settings.trials = Some(trials.max(1));
                }
                Some(space)
            }
        };
        let device = device.as_deref().map(device_named).transpose()?;
        let limit = |seconds: f64, what: &str| {
            Duration::try_from_secs_f64(seconds).map_err(|_| Fault::setting(format!("{what} is not below zero")))
        };
        let options = SearchOptions {
            device,
            until: match minutes {
                Some(minutes) => Instant::now().checked_add(limit(60.0 * minutes, "minutes")?),
                None => None,
            },
            checkpoint_every: limit(checkpoint_every, "checkpoint_every")?,
        };
        let mut search = Search::open(&out, space, &data, Mode::of(force, resume))?;
        if let Some(trials) = trials {
            search.want(trials);
        }
        if skip && let Some(number) = search.give_up()? {
            job.log(INFO, format!("trial {number} is given up"));
        }
        let folder = search.folder().to_path_buf();
        let named = search.space().clone();
        let hear = |event: &SearchEvent| match event {
            SearchEvent::Rules => job.tell("rules", 0, 0, String::new()),
            SearchEvent::Begins(trial, epochs) => job.tell("search", 0, *epochs, format!("trial {}", trial.number)),
            SearchEvent::Epoch(tick, epochs) => {
                let mrr = tick.metrics.as_ref().map_or_else(String::new, |found| format!("MRR {:.4}", found.mrr));
                job.tell("search", tick.epoch, *epochs, mrr);
            }
            SearchEvent::Ended(trial, _) => job.log(INFO, line(&named, trial)),
        };
        let ended = search.run(&data, &options, &ruge::Control::new(&job.cancel).with_listener(&hear))?;
        let best_spec = write(&search, &folder, &source, device, ended == Ended::Done)?;
        if ended == Ended::Done && search.best().is_some() {
            search.finish()?;
        }
        if ended == Ended::Unfinished && job.cancel.is_cancelled() {
            return Err(ruge::RugeError::from(ruge_kg::Cancelled).into());
        }
        if ended == Ended::Done && search.best().is_none() {
            let first = search.trials().iter().find_map(|trial| trial.error.as_deref()).unwrap_or("nothing was tried");
            return Err(Fault::setting(format!("every trial failed; the first reason: {first}")));
        }
        let (space, trials) = (search.space(), search.trials());
        let names = space.parameters.iter().map(|parameter| parameter.leaf.clone());
        let shares = names.zip(importance(space, trials)).map(|(leaf, share)| (leaf, json!(share)));
        let object = |trial: &Trial| object(space, trial);
        Ok(json!({
            "done": ended == Ended::Done,
            "best": search.best().map(object),
            "best_spec": best_spec,
            "best_spec_file": search.best().map(|_| out.join("best.toml")),
            "run": search.best().map(|best| search.run_folder(best)),
            "trials": trials.iter().map(object).collect::<Vec<_>>(),
            "failed": trials.iter().filter(|trial| trial.state == State::Failed).count(),
            "importance": shares.collect::<Map<_, _>>(),
            "report": out.join("report.html"),
        })
        .to_string())
    })
}

fn object(space: &Space, trial: &Trial) -> Value {
    let leaves = space.named(&trial.point).into_iter();
    let leaves = Value::Object(leaves.map(|(leaf, value)| (leaf, json!(value))).collect::<Map<_, _>>());
    let last = trial.rungs.last();
    json!({
        "trial": trial.number,
        "state": trial.state.name(),
        "leaves": leaves,
        "valid_mrr": trial.valid_mrr(),
        "best_epoch": last.map(|rung| rung.best_epoch),
        "epochs": last.map(|rung| rung.epochs),
        "rungs": trial.rungs.iter().map(|rung| json!([rung.epochs, rung.valid_mrr])).collect::<Vec<_>>(),
        "seconds": trial.seconds,
        "error": trial.error,
    })
}

fn line(space: &Space, trial: &Trial) -> String {
    let leaves: Vec<String> =
        space.named(&trial.point).into_iter().map(|(leaf, value)| format!("{leaf} {value}")).collect();
    let came = match (&trial.error, trial.rungs.last()) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(rung)) => format!("validation MRR {:.4} after {} epochs", rung.valid_mrr, rung.epochs),
        (None, None) => "nothing yet".into(),
    };
    format!("trial {}: {came}; {}", trial.number, leaves.join(", "))
}

/// `best.toml` and `report.html`; the text of the former.
fn write(
    search: &Search,
    folder: &Path,
    source: &str,
    device: Option<ruge::DeviceName>,
    is_done: bool,
) -> Result<Option<String>> {
    let (space, trials) = (search.space(), search.trials());
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        replace_file(&path, |mut file| {
            std::io::Write::write_all(&mut file, text.as_bytes()).map_err(ruge::RugeError::io(&path, "write"))?;
            Ok::<_, ruge::RugeError>((file, ()))
        })
    };
    let mut best_spec = None;
    if let Some(best) = ranked(trials).first() {
        let text = format!(
            "# Found by ruge.search: trial {} of {}, validation MRR {:.4}\n{}",
            best.number,
            trials.len(),
            best.valid_mrr().unwrap_or(0.0),
            search.spec(best, device)?.to_toml()
        );
        put("best.toml", &text)?;
        best_spec = Some(text);
    }
    let page = SearchPage {
        title: source.to_string(),
        best_spec: best_spec.clone().unwrap_or_default(),
        version: ruge_cli::VERSION.into(),
        ..SearchPage::of(space, trials, is_done)
    };
    put("report.html", &render_search(&page))?;
    Ok(best_spec)
}
