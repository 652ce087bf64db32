//! A training run and its folder.
//!
//! The folder holds `run.json` (what the run is made from), `spec.toml` (resolved), `rules.tsv`, `metrics.jsonl` (a line per epoch),
//! `checkpoint.safetensors` and, at the end, `model.safetensors`. Every file is replaced whole, and the checkpoint carries all that
//! training changes, so a run that is killed at any moment continues from its last checkpoint to the same bits. One process works in a
//! folder at a time, and a run that is replaced stays until the new one is finished ([`workplace`]).

pub mod curve;
mod fit_rules;

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ruge_embed::model::State;
use ruge_embed::trainer::Event;
use ruge_embed::{
    Losses, Metrics, Model, PathReport, Progress, StopReason, Validation, checkpoint, train as train_epochs,
};
use ruge_kg::io::write::replace_file_in;
use ruge_kg::{Control, Dataset};
use ruge_rules::{Groundings, RuleRecord};
use serde_json::json;

use crate::assemble;
use crate::calibrate::Calibration;
use crate::error::{Result, RugeError};
use crate::identity::{self, Identity, Papers};
use crate::model_file::{Contents, ModelFile};
use crate::spec::{ModelName, Spec};
pub use crate::workplace::Mode;
use crate::workplace::{self, Kind, Workplace};
use curve::Curve;

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
    /// The model file; written unless the listener stopped the run.
    pub model: PathBuf,
}

/// What happens while a model is trained.
#[derive(Clone, Debug)]
pub enum TrainEvent {
    /// Rules are grounded, before the first epoch; all zero where no rule guides.
    Grounded(Grounds),
    /// Relation paths are found, before the first epoch, where they guide.
    Paths(PathReport),
    /// An epoch is done.
    Epoch(Tick),
}

/// What guides a model, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grounds {
    /// Rules.
    pub rules: usize,
    /// Their groundings.
    pub groundings: usize,
    /// The distinct conclusions of these.
    pub unlabeled: usize,
    /// Those of them that are validation triples.
    pub in_valid: usize,
    /// Those of them that are test triples.
    pub in_test: usize,
}

impl Grounds {
    /// Counts so many rules and their groundings.
    pub fn of(rules: usize, groundings: &Groundings, data: &Dataset) -> Self {
        Self {
            rules,
            groundings: groundings.len(),
            unlabeled: groundings.unlabeled().len(),
            in_valid: groundings.overlap(data.valid()),
            in_test: groundings.overlap(data.test()),
        }
    }
}

/// An epoch that is done.
#[derive(Clone, Debug)]
pub struct Tick {
    /// The epoch, from 1.
    pub epoch: u64,
    /// Its mean losses.
    pub losses: Losses,
    /// The validation, where there was one.
    pub metrics: Option<Metrics>,
    /// Whether it was the best so far.
    pub improved: bool,
    /// Wall time of the epoch alone.
    pub seconds: f64,
    /// What learning rates were multiplied by; below 1 after a plateau.
    pub rate: f32,
}

/// Hears of training, and may cancel it.
pub type TrainControl<'c> = Control<'c, TrainEvent>;

/// All files of a run folder, of `ruge train` and of `ruge run`: whichever is replaced, nothing of it stays.
pub const FILES: [&str; 28] = [
    "stages.json",
    "run.json",
    "spec.toml",
    "rules.tsv",
    "metrics.jsonl",
    "checkpoint.safetensors",
    "checkpoint.safetensors.tmp",
    "model.safetensors",
    "check.json",
    "ground.json",
    "evaluation.json",
    "calibration.json",
    "consistency.json",
    "predictions.json",
    "report.html",
    "unguided/run.json",
    "unguided/spec.toml",
    "unguided/rules.tsv",
    "unguided/metrics.jsonl",
    "unguided/checkpoint.safetensors",
    "unguided/checkpoint.safetensors.tmp",
    "unguided/model.safetensors",
    "with-rules/run.json",
    "with-rules/spec.toml",
    "with-rules/rules.tsv",
    "with-rules/metrics.jsonl",
    "with-rules/checkpoint.safetensors",
    "with-rules/model.safetensors",
];

const CHECKPOINT: &str = "checkpoint.safetensors";

/// What a run consists of.
pub const KIND: Kind = Kind {
    name: "run",
    command: "train",
    resumes: true,
    signs: &[identity::FILE, "spec.toml", CHECKPOINT, "model.safetensors"],
    files: &FILES,
    leftovers: &[],
    folders: &[],
};

/// Most rules that a run folder holds as text next to the model file, which holds them all.
pub(crate) const MOST_RULES_AS_TEXT: usize = 100_000;

/// Files of a run.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf() }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn wrong(&self, reason: String) -> RugeError {
        RugeError::Run { path: self.path.clone(), reason }
    }

    pub(crate) fn write(&self, name: &str, text: &[u8]) -> Result<()> {
        replace_file_in(&self.path, name, |mut file| {
            file.write_all(text).map_err(RugeError::io(&self.file(name), "write"))?;
            Ok((file, ()))
        })
    }

    /// Writes down what the run is made from; see [`Papers::put`].
    pub(crate) fn put(&self, identity: &Identity, rules: Option<&[u8]>) -> Result<()> {
        Papers::new(&self.path, &|name, text| self.write(name, text)).put(identity, rules)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let path = self.file(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(RugeError::io(&path, "remove")(error)),
            _ => Ok(()),
        }
    }
}

/// The spec of the run that `--resume` would continue in a folder; an error where there is none.
pub fn stored_spec(home: &Path) -> Result<Spec> {
    let folder = workplace::current(home, KIND)?;
    if folder.join("stages.json").exists() {
        return Err(
            Folder::at(home).wrong("it holds a run of `ruge run`; continue it with `ruge run … --resume`".into())
        );
    }
    match begun(&folder)? {
        Some((identity, _)) => Ok(identity.spec),
        None => Err(Folder::at(home).wrong("there is no run to resume; leave out --resume to start one".into())),
    }
}

/// What the run in a folder was begun as, and whether an earlier program began it, whose checkpoint alone tells; nothing where there is
/// none.
fn begun(folder: &Path) -> Result<Option<(Identity, bool)>> {
    if let Some(identity) = identity::read(folder)? {
        return Ok(Some((identity, false)));
    }
    let path = folder.join(CHECKPOINT);
    match path.exists() {
        true => Ok(Some((Identity::of_notes(&checkpoint::read(&path)?.notes)?, true))),
        false => Ok(None),
    }
}

/// A run whose folder is ours and that has not been trained to its end. What it is made from is on disk already.
pub struct Run<'r> {
    spec: &'r Spec,
    data: &'r Dataset,
    place: Workplace,
    folder: Folder,
    identity: Identity,
    /// The one of the run that goes on; nothing for a run that begins, or that an earlier program began.
    old: Option<Identity>,
    mode: Mode,
    /// Whether `rules.tsv` is this run's to write.
    writes_rules: bool,
    /// Whether this process has begun it, and nothing is trained yet.
    is_new: bool,
    /// Whether an earlier program began it.
    is_old: bool,
    /// The files that are there only because it was begun.
    written: Vec<&'static str>,
    checkpoint_every: Duration,
}

impl<'r> Run<'r> {
    /// Takes a folder for a run, and writes down what the run is made from, before any long work.
    pub fn open(spec: &'r Spec, data: &'r Dataset, path: &Path, mode: Mode) -> Result<Self> {
        Self::begin(spec, data, Workplace::open(path, KIND, mode)?, mode)
    }

    /// The same in a folder within one that is ours already, or in that one itself, which is locked. A run of the same identity goes on
    /// unless `anew`.
    pub fn within(spec: &'r Spec, data: &'r Dataset, path: &Path, anew: bool, is_locked: bool) -> Result<Self> {
        let mode = if anew { Mode::Force } else { Mode::Continue };
        Self::begin(spec, data, Workplace::within(path, KIND, is_locked)?, mode)
    }

    /// Leaves `rules.tsv` to somebody else.
    pub fn without_rules_file(self) -> Self {
        Self { writes_rules: false, ..self }
    }

    fn begin(spec: &'r Spec, data: &'r Dataset, place: Workplace, mode: Mode) -> Result<Self> {
        spec.check()?;
        let folder = Folder::at(place.work());
        let identity = Identity::new(spec, data);
        let (writes_rules, is_new, is_old, written) = (true, false, false, Vec::new());
        let mut run = Self {
            spec,
            data,
            place,
            folder,
            identity,
            old: None,
            mode,
            writes_rules,
            is_new,
            is_old,
            written,
            checkpoint_every: Duration::from_secs(30),
        };
        if matches!(mode, Mode::Resume | Mode::Continue)
            && let Some((old, is_old)) = begun(run.place.work())?
        {
            (run.old, run.is_old) = (Some(old), is_old);
        }
        if mode == Mode::Resume && run.old.is_none() {
            return Err(run.folder.wrong("there is no run to resume; leave out --resume to start one".into()));
        }
        if !run.goes_on()? {
            run.folder.remove(CHECKPOINT)?;
            let files = [identity::FILE, "spec.toml", "rules.tsv"];
            run.written = files.into_iter().filter(|name| !run.folder.file(name).exists()).collect();
            run.folder.put(&run.identity, None)?;
            run.is_new = true;
        }
        Ok(run)
    }

    /// Whether it goes on with what a program before the ledger began: what was not stored then cannot be compared.
    pub fn is_of_earlier_program(&self) -> bool {
        self.is_old
    }

    /// Gives the folder back as it was, if nothing was trained: for a run that turns out not to be possible. One that goes on stays.
    pub fn withdraw(self) {
        if self.is_new && matches!(self.mode, Mode::Fresh | Mode::Force) && self.writes_rules {
            self.place.withdraw(&self.written);
        }
    }

    /// Whether what will replace an earlier run is made aside.
    pub fn replaces(&self) -> bool {
        self.place.replaces()
    }

    /// Whether the run in the folder is this one. Another one is an error, or is begun again, as the mode says.
    fn goes_on(&mut self) -> Result<bool> {
        let Some(old) = &self.old else { return Ok(false) };
        match self.identity.refuses(old) {
            None => Ok(true),
            Some(reason) if self.mode == Mode::Resume => Err(self.folder.wrong(reason)),
            Some(_) => {
                self.old = None;
                Ok(false)
            }
        }
    }

    /// Least time between two checkpoints; half a minute where nothing is said.
    #[must_use]
    pub fn checkpoint_every(self, every: Duration) -> Self {
        Self { checkpoint_every: every, ..self }
    }

    /// Trains with these rules and leaves the model in the folder.
    pub fn train(mut self, rules: Vec<RuleRecord>, control: &TrainControl<'_>) -> Result<Outcome> {
        let started = Instant::now();
        let done = match self.spec.model.name {
            ModelName::Rules => self.fit_rules(rules, &control.quiet()),
            _ => assemble::grounded(self.spec, self.data, rules, &control.quiet()).and_then(|(rules, groundings)| {
                let seconds = started.elapsed().as_secs_f64();
                self.train_all(&Guides { rules, groundings, seconds }, control)
            }),
        };
        self.end(done)
    }

    /// The same as [`train`](Self::train), with rules [`grounded`](assemble::grounded) before.
    pub fn train_grounded(mut self, guides: &Guides, control: &TrainControl<'_>) -> Result<Outcome> {
        let done = self.train_all(guides, control);
        self.end(done)
    }

    /// A finished run comes to its place, one that could not begin leaves nothing.
    fn end(self, done: Result<Outcome>) -> Result<Outcome> {
        match &done {
            Ok(outcome) if outcome.stop != StopReason::Asked => self.place.finish()?,
            Ok(_) => {}
            Err(_) => self.withdraw(),
        }
        done
    }

    /// Now that the rules are known, they belong to the identity.
    fn take_rules(&mut self, rules: &[RuleRecord]) -> Result<()> {
        self.identity = self.identity.clone().with_rules(rules, self.data)?;
        if self.old.is_some() && !self.goes_on()? {
            self.folder.remove(CHECKPOINT)?;
        }
        let written = self.writes_rules && self.spec.takes_rules() && rules.len() <= MOST_RULES_AS_TEXT;
        let text = if written { Some(identity::rules_text(rules, self.data)?) } else { None };
        self.folder.put(&self.identity, text.as_deref())
    }

    /// Takes over the last checkpoint, if there is one and it belongs to this run.
    fn resume(&self, model: &mut dyn Model) -> Result<Option<(Progress, Option<String>)>> {
        let path = self.folder.file(CHECKPOINT);
        if !path.exists() {
            return Ok(None);
        }
        let stored = checkpoint::read(&path)?;
        if let Some(reason) = self.identity.refuses(&Identity::of_notes(&stored.notes)?) {
            return match self.mode {
                Mode::Continue => Ok(None),
                _ => Err(RugeError::Run { path, reason }),
            };
        }
        if self.mode == Mode::Resume && stored.progress.epoch > self.spec.schedule.epochs {
            let (done, wanted) = (stored.progress.epoch, self.spec.schedule.epochs);
            return Err(self.folder.wrong(format!(
                "it has done {done} epochs already, more than {wanted}; give --epochs {done} or more"
            )));
        }
        model.restore(stored.state)?;
        Ok(Some((stored.progress, stored.notes.get(curve::NOTE).cloned())))
    }

    fn train_all(&mut self, guides: &Guides, control: &TrainControl<'_>) -> Result<Outcome> {
        let (spec, data) = (self.spec, self.data);
        let Guides { rules, groundings, seconds: ground_seconds } = guides;
        let evidence = assemble::evidence_for(spec, rules, groundings)?;
        self.take_rules(rules)?;
        control.report(&TrainEvent::Grounded(Grounds::of(rules.len(), groundings, data)));
        let examples = assemble::examples_for(spec, &evidence);
        let plan = assemble::plan(spec, data, &evidence, &examples)?;
        let started = Instant::now();
        let paths = assemble::paths(spec, data, &control.quiet())?;
        let path_seconds = started.elapsed().as_secs_f64();
        let path_report = paths.as_ref().map(|paths| *paths.report());
        path_report.iter().for_each(|report| control.report(&TrainEvent::Paths(*report)));
        let mut model = assemble::model_with(spec, data, paths)?;
        let (mut progress, curve_note) = self.resume(&mut *model)?.unwrap_or_default();
        // From here on there is something to continue.
        self.is_new = false;
        let mut curve = Curve::open(&self.folder, progress.epoch, curve_note.as_deref())?;

        let (mut seconds, mut epochs) = (0.0, 0u64);
        let validation = Validation { triples: data.valid(), known: Some(data.filter()) };
        let validation = (!data.valid().is_empty()).then_some(validation);
        let keep = |state: &State, progress: &Progress, curve: &mut Curve| -> Result<()> {
            let mut notes = self.identity.notes();
            // The lines of the curve are on disk before a checkpoint counts on them.
            notes.insert(curve::NOTE.to_string(), curve.sync()?);
            Ok(checkpoint::write(&self.folder.file(CHECKPOINT), state, progress, &notes)?)
        };
        let (mut saved, mut saved_epoch) = (Instant::now(), progress.epoch);
        let mut failed = None;
        let mut hear = |event: Event<'_>| {
            seconds += event.seconds;
            epochs += 1;
            let tick = Tick {
                epoch: event.progress.epoch,
                losses: event.losses,
                metrics: event.metrics.cloned(),
                improved: event.improved,
                seconds: event.seconds,
                rate: event.rate,
            };
            let added = curve.add(&tick);
            control.report(&TrainEvent::Epoch(tick));
            let save = || -> Result<ControlFlow<()>> {
                added?;
                let stops = control.is_cancelled();
                if stops || saved.elapsed() >= self.checkpoint_every {
                    keep(event.model.state()?, event.progress, &mut curve)?;
                    (saved, saved_epoch) = (Instant::now(), event.progress.epoch);
                }
                Ok(if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            // What cannot be written ends the training; why is told below.
            Ok(save().unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            }))
        };
        let trained =
            train_epochs(&mut *model, &plan, &spec.schedule, validation, &mut progress, &control.quiet(), &mut hear);
        if let Some(error) = failed {
            return Err(error);
        }
        let stop = trained?;
        let (best_epoch, valid_mrr) = match &progress.best {
            Some(best) => (best.epoch, Some(best.mrr)),
            None => (progress.epoch, None),
        };
        let outcome = Outcome {
            // Of a run that was cancelled, what its checkpoint holds.
            epochs: if stop == StopReason::Asked { saved_epoch } else { progress.epoch },
            best_epoch,
            valid_mrr,
            fitted: None,
            seconds_per_epoch: seconds / epochs.max(1) as f64,
            rules: rules.len(),
            groundings: groundings.len(),
            ground_seconds: *ground_seconds,
            path_seconds,
            paths: path_report,
            stop,
            model: self.place.home().join("model.safetensors"),
        };
        // Whoever cancels a run wants to be gone soon: the checkpoint is written, and has all that is finished.
        if stop == StopReason::Asked {
            return Ok(outcome);
        }
        keep(model.state()?, &progress, &mut curve)?;
        self.write_model(&mut *model, progress, rules, &outcome, control)?;
        Ok(outcome)
    }

    /// The best model as a file.
    fn write_model(
        &self,
        model: &mut dyn Model,
        progress: Progress,
        rules: &[RuleRecord],
        outcome: &Outcome,
        control: &TrainControl<'_>,
    ) -> Result<()> {
        let mut notes = std::collections::BTreeMap::from([
            ("epochs".to_string(), progress.epoch.to_string()),
            ("best_epoch".to_string(), outcome.best_epoch.to_string()),
        ]);
        notes.extend(outcome.valid_mrr.map(|mrr| ("valid_mrr".to_string(), mrr.to_string())));
        notes.extend(outcome.paths.map(|report| ("paths".to_string(), json!(report).to_string())));
        if let Some(best) = progress.best {
            let State { moments, steps, .. } = model.state()?;
            let kept = State { embeddings: best.embeddings, moments: moments.clone(), steps: *steps };
            model.restore(kept)?;
        }
        let calibration = Calibration::fit(model, self.data, self.spec.seed, &control.quiet())?;
        let contents = Contents {
            spec: self.spec,
            embeddings: Some(&model.state()?.embeddings),
            data: self.data,
            rules,
            notes: &notes,
            calibration: calibration.as_ref(),
            ranking: None,
            weights: None,
        };
        ModelFile::write(&self.folder.file("model.safetensors"), &contents)
    }
}

/// Trains as the spec says and leaves a run folder.
pub fn train(
    spec: &Spec,
    data: &Dataset,
    rules: Vec<RuleRecord>,
    path: &Path,
    mode: Mode,
    control: &TrainControl<'_>,
) -> Result<Outcome> {
    Run::open(spec, data, path, mode)?.train(rules, control)
}

/// Rules that stay under a spec, with their groundings: made once where many runs share them.
pub struct Guides {
    /// The rules.
    pub rules: Vec<RuleRecord>,
    /// Their groundings in train.
    pub groundings: Groundings,
    /// Wall time of grounding them.
    pub seconds: f64,
}
