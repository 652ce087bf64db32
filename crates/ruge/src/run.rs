//! A training run and its folder.
//!
//! The folder holds `spec.toml` (resolved), `rules.tsv`, `metrics.jsonl` (a line per epoch), `checkpoint.safetensors` and,
//! at the end, `model.safetensors`. Every file is replaced whole, and the checkpoint carries all that training changes,
//! so a run that is killed at any moment continues from its last checkpoint to the same bits.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ruge_embed::model::State;
use ruge_embed::trainer::Event;
use ruge_embed::{
    Losses, Metrics, Model, Progress, RankOptions, RankQuery, StopReason, Ties, Validation, checkpoint,
    train as train_epochs,
};
use ruge_kg::Dataset;
use ruge_kg::io::write::remove_drafts;
use ruge_rules::{Groundings, RuleFormat, RuleRecord, RuleWriteOptions, Watch, write_rules};
use serde_json::json;

use crate::assemble;
use crate::calibrate::Calibration;
use crate::combine::{self, Combined, Effort, Prepared};
use crate::error::{Result, RugeError};
use crate::guidance::ptranse::PathReport;
use crate::model_file::{Contents, ModelFile, data_hash};
use crate::spec::{ModelName, Spec};

/// What to do about a folder that holds a run already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Refuse.
    Fresh,
    /// Begin anew.
    Force,
    /// Go on from the last checkpoint.
    Resume,
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Epochs done.
    pub epochs: u64,
    /// The epoch of the kept model.
    pub best_epoch: u64,
    /// Its validation MRR, if there was a validation.
    pub valid_mrr: Option<f64>,
    /// Numbers that validation decided, where rules are the model.
    pub fitted: Option<usize>,
    /// Mean wall time of an epoch of this process: shuffling, negatives, soft labels and update, without validation.
    pub seconds_per_epoch: f64,
    /// Rules that guided it.
    pub rules: usize,
    /// Their groundings.
    pub groundings: usize,
    /// Wall time of grounding them.
    pub ground_seconds: f64,
    /// Wall time of finding relation paths, where they guide.
    pub path_seconds: f64,
    /// The relation paths that guided it, and what was left out of them.
    pub paths: Option<PathReport>,
    /// Why it ended.
    pub stop: StopReason,
    /// The model file.
    pub model: PathBuf,
}

/// What a listener hears after every epoch.
#[derive(Clone, Debug)]
pub struct Tick<'t> {
    /// The epoch, from 1.
    pub epoch: u64,
    /// Its mean losses.
    pub losses: Losses,
    /// The validation, where there was one.
    pub metrics: Option<&'t Metrics>,
    /// Whether it was the best so far.
    pub improved: bool,
    /// Wall time of the epoch alone.
    pub seconds: f64,
    /// What learning rates were multiplied by; below 1 after a plateau.
    pub rate: f32,
}

/// Who listens, and who may stop.
pub struct Listener<'l> {
    /// Told once, before the first epoch: rules and groundings.
    pub grounded: &'l mut dyn FnMut(usize, &ruge_rules::Groundings),
    /// Told once, before the first epoch, where relation paths guide.
    pub paths: &'l mut dyn FnMut(&PathReport),
    /// Told after every epoch.
    pub tick: &'l mut dyn FnMut(&Tick<'_>),
    /// Set from outside to stop after the current epoch.
    pub stop: &'l AtomicBool,
    /// Least time between two checkpoints.
    pub checkpoint_every: Duration,
}

/// Files of a run.
pub(crate) struct Folder {
    path: PathBuf,
}

/// The files of a run.
const FILES: [&str; 6] = [
    "spec.toml",
    "rules.tsv",
    "metrics.jsonl",
    "checkpoint.safetensors",
    "model.safetensors",
    // A draft of earlier versions.
    "checkpoint.safetensors.tmp",
];

impl Folder {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether a folder has a run in it.
    pub(crate) fn holds_run_at(path: &Path) -> bool {
        Self { path: path.to_path_buf() }.holds_run()
    }

    fn holds_run(&self) -> bool {
        ["spec.toml", "checkpoint.safetensors", "model.safetensors"].iter().any(|name| self.file(name).exists())
    }

    /// Makes the folder ready; refuses to touch a run unless told to.
    pub(crate) fn open(path: &Path, mode: Mode) -> Result<Self> {
        let folder = Self { path: path.to_path_buf() };
        if path.exists() && !path.is_dir() {
            return Err(folder.wrong("it is a file; give a folder with --out"));
        }
        fs::create_dir_all(path).map_err(RugeError::io(path, "create"))?;
        match mode {
            Mode::Fresh if folder.holds_run() => {
                return Err(
                    folder.wrong("it holds a run already; continue it with --resume, or replace it with --force")
                );
            }
            Mode::Force => {
                remove_drafts(path, &FILES)?;
                for file in FILES.iter().map(|name| folder.file(name)).filter(|file| file.exists()) {
                    fs::remove_file(&file).map_err(RugeError::io(&file, "remove"))?;
                }
            }
            Mode::Fresh | Mode::Resume => {}
        }
        Ok(folder)
    }

    fn wrong(&self, reason: &str) -> RugeError {
        RugeError::Run { path: self.path.clone(), reason: reason.to_string() }
    }

    pub(crate) fn write(&self, name: &str, text: &[u8]) -> Result<()> {
        let path = self.file(name);
        ruge_kg::io::write::replace_file(&path, |mut file| {
            file.write_all(text).map_err(RugeError::io(&path, "write"))?;
            Ok((file, ()))
        })
    }
}

/// The spec stored in a run folder.
pub fn stored_spec(folder: &Path) -> Result<Spec> {
    let path = folder.join("spec.toml");
    let text = fs::read_to_string(&path).map_err(RugeError::io(&path, "read"))?;
    Spec::default().overlaid_file(&text, &path.display().to_string())
}

/// Trains as the spec says and leaves a run folder.
pub fn train(
    spec: &Spec,
    data: &Dataset,
    rules: Vec<RuleRecord>,
    path: &Path,
    mode: Mode,
    listener: &mut Listener<'_>,
) -> Result<Outcome> {
    spec.check()?;
    if spec.model.name == ModelName::Rules {
        return fit_rules(spec, data, rules, path, mode, listener.stop);
    }
    // A folder that is in the way is told before the long work of grounding.
    Folder::open(path, mode)?;
    let started = Instant::now();
    let (rules, groundings) = assemble::grounded(spec, data, rules);
    let seconds = started.elapsed().as_secs_f64();
    train_grounded(spec, data, &Grounded { rules, groundings, seconds }, path, mode, listener)
}

/// Most rules that a run folder holds as text beside the model file, which holds them all.
pub(crate) const MOST_RULES_AS_TEXT: usize = 100_000;

/// Rules as a model: nothing is trained, how they are summed is fitted on validation.
fn fit_rules(
    spec: &Spec,
    data: &Dataset,
    rules: Vec<RuleRecord>,
    path: &Path,
    mode: Mode,
    stop: &AtomicBool,
) -> Result<Outcome> {
    let folder = Folder::open(path, mode)?;
    let rules = assemble::left_in(spec, data, rules);
    let hash = data_hash(data);
    let head = format!("# ruge {}, data sha256 {hash}\n", env!("CARGO_PKG_VERSION"));
    folder.write("spec.toml", format!("{head}{}", spec.to_toml()).as_bytes())?;
    if rules.len() <= MOST_RULES_AS_TEXT {
        let mut text = Vec::new();
        write_rules(&mut text, RuleFormat::Native, &rules, data.names(), &RuleWriteOptions::default())?;
        folder.write("rules.tsv", &text)?;
    }
    let started = Instant::now();
    let watch = Watch { stop: Some(stop), ..Watch::default() };
    let Some(prepared) = Prepared::new(rules, data, Effort::of(spec.rules.thorough), &watch)? else {
        return Err(folder.wrong("stopped before the rules were weighed; run it again with --force"));
    };
    let ranking = combine::fit(None, &prepared, data)?;
    let (rules, weights) = (&prepared.rules, prepared.weights(&ranking));
    let model = Combined::rules_alone(prepared.scores(), &ranking);
    let seconds = started.elapsed().as_secs_f64();
    let (mut valid_mrr, mut line) = (None, json!({ "epoch": 0, "seconds": seconds }));
    if !data.valid().is_empty() {
        let queries = RankQuery::both_sides(data.valid());
        let ranks = model.rank(&queries, Some(data.filter()), &RankOptions::default(), &|_, _| ())?;
        let metrics = Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &ruge_embed::metrics::HITS);
        line["valid_mrr"] = metrics.mrr.into();
        line["valid_median"] = metrics.median.into();
        line["valid_hits"] = json!(metrics.hits);
        line["best"] = true.into();
        valid_mrr = Some(metrics.mrr);
    }
    folder.write("metrics.jsonl", format!("{line}\n").as_bytes())?;
    let mut words = BTreeMap::from([("epochs".to_string(), "0".to_string())]);
    words.extend(valid_mrr.map(|mrr| ("valid_mrr".to_string(), mrr.to_string())));
    let calibration = Calibration::fit(&model, data, spec.seed)?;
    let file = folder.file("model.safetensors");
    let embeddings = &model.state()?.embeddings;
    let calibration = calibration.as_ref();
    let fitted = Some(ranking.fitted);
    let (ranking, weights) = (Some(&ranking), weights.as_deref());
    let contents = Contents { spec, embeddings, data, rules, notes: &words, calibration, ranking, weights };
    ModelFile::write(&file, &contents)?;
    Ok(Outcome {
        epochs: 0,
        best_epoch: 0,
        valid_mrr,
        fitted,
        seconds_per_epoch: 0.0,
        rules: rules.len(),
        groundings: 0,
        ground_seconds: 0.0,
        path_seconds: 0.0,
        paths: None,
        stop: StopReason::Epochs,
        model: file,
    })
}

/// Rules that stay under a spec, with their groundings: made once where many runs share them.
pub struct Grounded {
    /// The rules.
    pub rules: Vec<RuleRecord>,
    /// Their groundings in train.
    pub groundings: Groundings,
    /// Wall time of grounding them.
    pub seconds: f64,
}

/// The same as [`train`], with rules [`grounded`](assemble::grounded) before.
pub fn train_grounded(
    spec: &Spec,
    data: &Dataset,
    guides: &Grounded,
    path: &Path,
    mode: Mode,
    listener: &mut Listener<'_>,
) -> Result<Outcome> {
    spec.check()?;
    let folder = Folder::open(path, mode)?;
    let hash = data_hash(data);
    let Grounded { rules, groundings, seconds: ground_seconds } = guides;
    let evidence = assemble::evidence_for(spec, rules, groundings)?;
    (listener.grounded)(rules.len(), groundings);
    let examples = assemble::examples_for(spec, &evidence);
    let plan = assemble::plan(spec, data, &evidence, &examples)?;
    let started = Instant::now();
    let paths = assemble::paths(spec, data)?;
    let path_seconds = started.elapsed().as_secs_f64();
    let path_report = paths.as_ref().map(|paths| *paths.report());
    path_report.iter().for_each(|report| (listener.paths)(report));
    let mut model = assemble::model_with(spec, data, paths)?;
    let notes = BTreeMap::from([("spec".to_string(), spec.to_toml()), ("data".to_string(), hash.clone())]);

    let mut progress = Progress::default();
    if mode == Mode::Resume && folder.file("checkpoint.safetensors").exists() {
        progress = resume(&folder, spec, &hash, &mut *model)?;
        remove_drafts(&folder.path, &FILES)?;
    } else if spec.guidance.takes_rules() {
        let mut text = Vec::new();
        write_rules(&mut text, RuleFormat::Native, rules, data.names(), &RuleWriteOptions::default())?;
        folder.write("rules.tsv", &text)?;
    }
    // Also of a run that goes on: its schedule may be a longer one now.
    let head = format!("# ruge {}, data sha256 {hash}\n", env!("CARGO_PKG_VERSION"));
    folder.write("spec.toml", format!("{head}{}", spec.to_toml()).as_bytes())?;
    let mut curve = Curve::open(&folder, progress.epoch)?;

    let (mut seconds, mut epochs) = (0.0, 0u64);
    let validation = Validation { triples: data.valid(), known: Some(data.filter()), options: RankOptions::default() };
    let validation = (!data.valid().is_empty()).then_some(validation);
    let mut saved = Instant::now();
    let mut failed = None;
    let mut hear = |event: Event<'_>| {
        seconds += event.seconds;
        epochs += 1;
        let tick = Tick {
            epoch: event.progress.epoch,
            losses: event.losses,
            metrics: event.metrics,
            improved: event.improved,
            seconds: event.seconds,
            rate: event.rate,
        };
        let stop = listener.stop.load(Ordering::Relaxed);
        let mut keep = || -> Result<()> {
            curve.add(&tick)?;
            if stop || saved.elapsed() >= listener.checkpoint_every {
                curve.flush()?;
                let file = folder.file("checkpoint.safetensors");
                checkpoint::write(&file, event.model.state()?, event.progress, &notes)?;
                saved = Instant::now();
            }
            Ok(())
        };
        failed = keep().err();
        (listener.tick)(&tick);
        if stop || failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stop = train_epochs(&mut *model, &plan, &spec.schedule, validation, &mut progress, &mut hear)?;
    if let Some(error) = failed {
        return Err(error);
    }
    curve.flush()?;
    let seconds_per_epoch = seconds / epochs.max(1) as f64;
    checkpoint::write(&folder.file("checkpoint.safetensors"), model.state()?, &progress, &notes)?;

    let (best_epoch, valid_mrr) = match &progress.best {
        Some(best) => (best.epoch, Some(best.mrr)),
        None => (progress.epoch, None),
    };
    let mut words = BTreeMap::from([
        ("epochs".to_string(), progress.epoch.to_string()),
        ("best_epoch".to_string(), best_epoch.to_string()),
    ]);
    if let Some(mrr) = valid_mrr {
        words.insert("valid_mrr".into(), mrr.to_string());
    }
    if let Some(report) = path_report {
        words.insert("paths".into(), json!(report).to_string());
    }
    let file = folder.file("model.safetensors");
    if let Some(best) = progress.best {
        let State { moments, steps, .. } = model.state()?;
        let kept = State { embeddings: best.embeddings, moments: moments.clone(), steps: *steps };
        model.restore(kept)?;
    }
    let calibration = Calibration::fit(&*model, data, spec.seed)?;
    let calibration = calibration.as_ref();
    let embeddings = &model.state()?.embeddings;
    let notes = &words;
    let contents = Contents { spec, embeddings, data, rules, notes, calibration, ranking: None, weights: None };
    ModelFile::write(&file, &contents)?;
    Ok(Outcome {
        epochs: progress.epoch,
        best_epoch,
        valid_mrr,
        fitted: None,
        seconds_per_epoch,
        rules: rules.len(),
        groundings: groundings.len(),
        ground_seconds: *ground_seconds,
        path_seconds,
        paths: path_report,
        stop,
        model: file,
    })
}

/// Takes over the last checkpoint, if it belongs to this spec and these data.
fn resume(folder: &Folder, spec: &Spec, hash: &str, model: &mut dyn Model) -> Result<Progress> {
    let stored = checkpoint::read(&folder.file("checkpoint.safetensors"))?;
    let note = |key: &str| stored.notes.get(key).map_or("", String::as_str);
    if note("data") != hash {
        return Err(folder.wrong(
            "its checkpoint was made from other data; give the same DATA (and --seed, if it is split), or begin anew with --force",
        ));
    }
    let mut old = Spec::default().overlaid(note("spec"), "the checkpoint's spec")?;
    // A longer schedule is a wish one may have; everything else would make it another run.
    // So is another device.
    (old.schedule, old.device) = (spec.schedule, spec.device);
    if old != *spec {
        return Err(
            folder.wrong("its checkpoint was made with another spec; leave the flags away, or begin anew with --force")
        );
    }
    model.restore(State { ..stored.state })?;
    Ok(stored.progress)
}

/// The learning curve, a line of JSON per epoch.
struct Curve {
    path: PathBuf,
    file: File,
    lines: String,
}

impl Curve {
    /// Keeps the lines up to `epoch`: what was written after the checkpoint will be written again.
    fn open(folder: &Folder, epoch: u64) -> Result<Self> {
        let path = folder.file("metrics.jsonl");
        let mut kept = String::new();
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).lines() {
                let line = line.map_err(RugeError::io(&path, "read"))?;
                let of: Option<u64> =
                    serde_json::from_str::<serde_json::Value>(&line).ok().and_then(|line| line["epoch"].as_u64());
                if of.is_some_and(|of| of <= epoch) {
                    kept.push_str(&line);
                    kept.push('\n');
                }
            }
        }
        folder.write("metrics.jsonl", kept.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path).map_err(RugeError::io(&path, "write"))?;
        Ok(Self { path, file, lines: String::new() })
    }

    fn add(&mut self, tick: &Tick<'_>) -> Result<()> {
        let mut line = json!({
            "epoch": tick.epoch, "loss": tick.losses.labeled, "unlabeled_loss": tick.losses.unlabeled, "seconds": tick.seconds,
        });
        if tick.rate != 1.0 {
            // By its own shortest digits, not by those of the f64 next to it.
            line["rate"] = tick.rate.to_string().parse::<f64>().unwrap_or_default().into();
        }
        if let Some(metrics) = tick.metrics {
            line["valid_mrr"] = metrics.mrr.into();
            line["valid_median"] = metrics.median.into();
            line["valid_hits"] = json!(metrics.hits);
            line["best"] = tick.improved.into();
        }
        self.lines.push_str(&format!("{line}\n"));
        // A validation is worth seeing at once; single epochs can wait for company.
        if tick.metrics.is_some() || self.lines.len() > 4096 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let lines = std::mem::take(&mut self.lines);
        self.file.write_all(lines.as_bytes()).map_err(RugeError::io(&self.path, "write"))
    }
}
