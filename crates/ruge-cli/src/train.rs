//! `ruge train`: embeddings, with or without guidance from rules.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use ruge::run::{self, Mode, Run, TrainControl, TrainEvent};
use ruge::spec::RulesSpec;
use ruge::{ModelName, Spec, assemble};
use ruge_embed::StopReason;
use ruge_kg::Dataset;
use ruge_rules::RuleRecord;
use ruge_rules::words::is_sayable;
use serde_json::json;

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::path_words::path_words;
use crate::rule_args::RuleArgs;
use crate::settings::SettingsArgs;
use crate::text::{counted, grouped};
use crate::usage::UsageError;
use crate::{interrupt, memory, minutes, progress, usage};

/// Train an embedding model, with or without guidance from rules
///
/// Defaults are the paper's settings. --spec overrides them with a TOML file, and flags override both. The resolved spec is
/// stored with the run. The model that is best on validation is kept.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge train demo --dim 50 --epochs 100 --out runs/demo
  ruge train data/fb15k --guidance ruge --rules data/fb15k/rules.tsv --out runs/ruge
  ruge train data/fb15k --model transe --guidance ptranse --path-length 3 --out runs/ptranse
  ruge train data/fb15k --spec experiments/fb15k/ruge.toml --seed 1 --out runs/ruge-1
  ruge train data/fb15k --out runs/ruge --minutes 30
  ruge train data/fb15k --out runs/ruge --resume")]
pub struct TrainArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The run folder [default: runs/DATA-MODEL-GUIDANCE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace an existing run when the new one is finished
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Minimum seconds between two checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    checkpoint_every: u64,
    /// Continue from the last checkpoint in the run folder
    #[arg(long)]
    resume: bool,
    /// Train for at most M minutes and keep the best model so far; spec.toml then has the number of epochs
    #[arg(long, value_name = "M", value_parser = minutes::parse)]
    minutes: Option<f64>,
    #[command(flatten, next_help_heading = "Settings (default: the paper's)")]
    settings: SettingsArgs,
}

/// Why no rule guides, and what to do about it; `found` were mined or read.
fn no_rules(spec: &Spec, found: usize, data: &Dataset) -> String {
    let idle = match spec.model.name {
        ModelName::Rules => "so the model is empty",
        _ => "so nothing guides the training",
    };
    let RulesSpec { file, min_confidence, max_conclusions, .. } = &spec.rules;
    if found > 0 {
        return format!(
            "note: {} left, {idle}: below the minimum confidence ({min_confidence}), or about relations or entities the data do \
             not have\n  remedy: lower --min-conf, or give other rules with --rules FILE",
            if found == 1 { "the one rule is not".into() } else { format!("none of {} rules is", grouped(found)) }
        );
    }
    if let Some(file) = file {
        return format!("note: {file} holds no rule, {idle}\n  remedy: give other rules with --rules FILE, or none");
    }
    let config = spec.rules.config_for([data.train().len(), data.entity_count(), data.relation_count()]);
    let share = max_conclusions.map_or_else(String::new, |share| format!(", or raise max-conclusions (now {share})"));
    format!(
        "note: no rule was found, {idle}\n  remedy: lower the mining thresholds in section [rules] of a --spec file: min-head-size \
         (now {}; the minimum number of facts of a head relation), min-pca ({}), min-hc ({}), min-support ({}){share}\n  \
         or give rules with --rules FILE",
        config.min_head_size, config.min_pca, config.min_head_coverage, config.min_support,
    )
}

/// Whether a run was begun in a folder and not finished: the same command continues it.
fn is_unfinished(out: &Path) -> bool {
    out.join("run.json").is_file() && !out.join("model.safetensors").exists() && !out.join("stages.json").exists()
}

/// Says once, when it is known how long an epoch takes, how many epochs the time is enough for.
fn plan(minutes: f64, left: Duration, epoch: Duration, done: u64, epochs: u64) -> String {
    let enough = done + (left.as_secs_f64() / epoch.as_secs_f64().max(1e-9)) as u64;
    match enough >= epochs {
        true => {
            let time = minutes::said(epoch.mul_f64((epochs - done) as f64));
            format!("all {} epochs take about {time} more, unless validation ends them earlier", grouped(epochs))
        }
        false => format!(
            "{minutes} {} are enough for about {} of {} epochs; the best model so far is kept then",
            if minutes == 1.0 { "minute" } else { "minutes" },
            grouped(enough),
            grouped(epochs)
        ),
    }
}

/// Runs `ruge train DATA`.
pub fn run(args: &TrainArgs, console: Console) -> Result<()> {
    let started = Instant::now();
    let until = args.minutes.map(|minutes| minutes::training_ends(started, minutes));
    let mut mode = Mode::of(args.force, args.resume);
    // A run that goes on is led by its stored spec. Flags stay leaves of it: one that says something else is told later.
    let SettingsArgs { model, guidance, spec, preset, .. } = &args.settings;
    let typed = model.is_some() || guidance.is_some() || spec.is_some() || preset.is_some();
    let request = args.settings.request(args.data.seed)?;
    let resumed = |out: &Path| -> Result<Option<(Spec, bool)>> {
        if mode != Mode::Resume {
            return Ok(None);
        }
        let stored = run::stored_spec(out)?;
        if typed {
            return Ok(None);
        }
        Ok(Some((request.resume(stored).map_err(usage::of_spec)?, true)))
    };
    let (mut spec, mut own_plateau) = match args.out.as_deref().map(resumed).transpose()?.flatten() {
        Some(stored) => stored,
        None => request.resolve().map_err(usage::of_spec)?,
    };
    let stem = args.data.data.file_name().map_or("data".into(), |name| name.to_string_lossy().into_owned());
    let name = || format!("runs/{stem}-{}-{}", spec.model.name.name(), spec.guidance().name());
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(name()));
    if args.out.is_none()
        && let Some(stored) = resumed(&out)?
    {
        (spec, own_plateau) = stored;
    }
    let loaded = args.data.load(console)?;
    loaded.announce(console);
    let data = &loaded.data;
    if spec.schedule.plateau.is_some() && data.valid().is_empty() {
        if own_plateau {
            bail!(UsageError(
                "schedule.plateau needs validation, but the data have no validation triples; leave it out of the spec, or \
                 put some triples into a file `valid`"
                    .into()
            ));
        }
        spec.schedule.plateau = None;
        console.note(
            "note: the data have no validation triples, so learning rates stay as they are; the preset lowers them when \
             validation stops improving",
        );
    }

    let control: TrainControl<'_> = interrupt::control();
    if mode == Mode::Fresh && is_unfinished(&out) {
        console.note(&format!("note: {} holds an unfinished run, which is continued", out.display()));
        mode = Mode::Resume;
    }
    // The folder is ours, and holds the whole spec, before the long work begins.
    let run = Run::open(&spec, data, &out, mode)?;
    if run.replaces() {
        console.note(&format!("note: the run in {} is kept until this one is finished", out.display()));
    }
    if run.is_of_earlier_program() {
        console.note(
            "note: the run was started by an earlier version of ruge, which did not store its rules; give the same ones",
        );
    }
    let read = || -> Result<Vec<RuleRecord>> {
        Ok(match &spec.rules.file {
            // Read here and not by `assemble`, so that lines that are no rules are told.
            Some(file) if spec.takes_rules() => {
                let mut names = data.names().clone();
                let rules = RuleArgs::plain().read(Path::new(file), &mut names, console)?.rules;
                let lost = rules.iter().filter(|record| !is_sayable(&record.rule, data.names())).count();
                if lost > 0 {
                    let what = if lost == 1 { "rule names" } else { "rules name" };
                    console.note(&format!("note: {lost} {what} relations or entities the data do not have; ignored"));
                }
                rules
            }
            _ => {
                let _spinner = progress::spinner(console, "mining rules");
                assemble::rules(&spec, data, &control.quiet())?
            }
        })
    };
    let rules = match read() {
        Ok(rules) => rules,
        Err(error) => {
            run.withdraw();
            return Err(error);
        }
    };
    let found = rules.len();
    if spec.model.name == ModelName::Rules && found == 0 {
        console.note(&no_rules(&spec, found, data));
    }
    if spec.model.name == ModelName::Rules && data.valid().is_empty() {
        console.note("note: there are no validation triples: rules count as mined, and evidence is not used");
    }
    let epochs = spec.schedule.epochs;
    let bar = progress::work(console, "training", progress::position(epochs));
    let begun = Instant::now();
    // The epochs done before this process, and in it.
    let done = Mutex::new((0, 0u64));
    let hear = |event: &TrainEvent| match event {
        TrainEvent::Grounded(found) if found.rules > 0 => {
            let text = format!(
                "{} {} {} of {} ({} in valid, {} in test)",
                counted(found.rules, "rule"),
                if found.rules == 1 { "gives" } else { "give" },
                counted(found.groundings, "grounding"),
                counted(found.unlabeled, "unlabeled triple"),
                grouped(found.in_valid),
                grouped(found.in_test),
            );
            bar.suspend(|| console.note(&text));
        }
        TrainEvent::Grounded(_) if spec.guidance().takes_rules() => {
            bar.suspend(|| console.note(&no_rules(&spec, found, data)));
        }
        TrainEvent::Grounded(_) => {}
        TrainEvent::Paths(report) => {
            let text = path_words(report).join("\n");
            bar.suspend(|| console.note(&text));
        }
        TrainEvent::Batches(work) => {
            let (before, since) = *done.lock().unwrap_or_else(PoisonError::into_inner);
            bar.set_position(progress::parts(before + since, work));
        }
        TrainEvent::Epoch(tick) => {
            let since = {
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                *done = (tick.epoch - done.1 - 1, done.1 + 1);
                done.1
            };
            bar.set_position(progress::position(tick.epoch));
            let epoch = begun.elapsed().div_f64(since as f64);
            if let (Some(until), Some(minutes)) = (until, args.minutes) {
                let left = until.saturating_duration_since(Instant::now());
                let enough = tick.epoch + (left.as_secs_f64() / epoch.as_secs_f64().max(1e-9)) as u64;
                bar.set_length(progress::position(enough.min(epochs)));
                // The first epoch is slower than the others.
                if since == 2 {
                    let text = plan(minutes, left, epoch, tick.epoch, epochs);
                    bar.suspend(|| console.note(&text));
                }
            }
            bar.set_message(format!("training, loss {:.4}, {:.2} s an epoch", tick.losses.labeled, tick.seconds));
            if let Some(metrics) = &tick.metrics {
                let best = if tick.improved { ", best so far" } else { "" };
                let text = format!(
                    "epoch {:>5}  loss {:.4}  validation MRR {:.4}  hits@1 {:.3}  hits@10 {:.3}{best}",
                    tick.epoch,
                    tick.losses.labeled,
                    metrics.mrr,
                    metrics.hits.get(&1).unwrap_or(&0.0),
                    metrics.hits.get(&10).unwrap_or(&0.0),
                );
                bar.suspend(|| console.note(&text));
            }
        }
    };
    let run = run.checkpoint_every(Duration::from_secs(args.checkpoint_every)).until(until);
    let outcome = run.train(rules, &control.with_listener(&hear))?;
    bar.finish_and_clear();
    if outcome.stop == StopReason::Asked {
        let done = match outcome.epochs {
            0 => "before the end of the first epoch".to_string(),
            epochs => format!("after epoch {}, which is saved", grouped(epochs)),
        };
        return Err(interrupt::error(format!("interrupted {done}; the same command continues it, as does --resume")));
    }
    if outcome.stop == StopReason::Time {
        console.note(&format!(
            "time is up after {} of {} epochs; {} says so, and trains the same model again",
            grouped(outcome.epochs),
            grouped(epochs),
            out.join("spec.toml").display()
        ));
    }
    if console.json {
        let mut object = json!({
            "epochs": outcome.epochs,
            "best_epoch": outcome.best_epoch,
            "valid_mrr": outcome.valid_mrr,
            "seconds_per_epoch": outcome.seconds_per_epoch,
            "rules": outcome.rules,
            "groundings": outcome.groundings,
            "stopped_by": outcome.stop,
            "model": out.join("model.safetensors"),
            "peak_memory_mb": memory::peak_mb(),
        });
        if let Some(paths) = outcome.paths {
            object["paths"] = json!(paths);
        }
        if let Some(fitted) = outcome.fitted {
            object["fitted_numbers"] = json!(fitted);
        }
        console.json_result(&object)?;
    } else {
        let mrr = outcome.valid_mrr.map_or_else(String::new, |mrr| format!(", validation MRR {mrr:.4}"));
        if spec.model.name == ModelName::Rules {
            let fitted = outcome.fitted.filter(|_| outcome.valid_mrr.is_some()).map_or_else(String::new, |fitted| {
                format!(", on which {} {} fitted", counted(fitted, "number"), if fitted == 1 { "was" } else { "were" })
            });
            return console.result(&format!(
                "{}{mrr}{fitted}\nwritten to {}; next: ruge eval {}\n",
                counted(outcome.rules, "rule"),
                out.display(),
                out.display()
            ));
        }
        console.result(&format!(
            "{} at {:.2} s; best epoch {}{mrr}\nwritten to {}; next: ruge eval {}\n",
            counted(outcome.epochs as usize, "epoch"),
            outcome.seconds_per_epoch,
            grouped(outcome.best_epoch),
            out.display(),
            out.display()
        ))?;
    }
    Ok(())
}
