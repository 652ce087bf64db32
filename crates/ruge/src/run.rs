//! A training run and its folder.
//!
//! The folder holds `run.json` (what the run is made from), `spec.toml` (resolved), `rules.tsv`, `metrics.jsonl` (a line per epoch),
//! `checkpoint.safetensors` and, at the end, `model.safetensors`. Every file is replaced whole, and the checkpoint carries all that
//! training changes, so a run that is killed at any moment continues from its last checkpoint to the same bits. One process works in a
//! folder at a time, and a run that is replaced stays until the new one is finished ([`workplace`]).

pub mod curve;
mod keep;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ruge_embed::{Model, Progress, StopReason, checkpoint};
use ruge_kg::Dataset;
use ruge_kg::io::write::{remove_for_good, replace_file_in};
use ruge_rules::RuleRecord;

use crate::error::{Difference, Result, RugeError};
use crate::identity::{self, Identity, Papers};
use crate::model_file::ModelFile;
use crate::spec::{ModelName, Spec};
pub use crate::train::{Grounds, Guides, Tick, TrainControl, TrainEvent, TrainSummary};
use crate::train::{Parts, learn, weigh};
pub use crate::workplace::Mode;
use crate::workplace::{self, Kind, Workplace};
use keep::Keep;

/// All files of a run folder, of `ruge train` and of `ruge run`: whichever is replaced, nothing of it stays.
pub const FILES: [&str; 52] = [
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
    "deploy.json",
    "predictions.json",
    "proposals.json",
    "report.html",
    "unguided/run.json",
    "unguided/spec.toml",
    "unguided/rules.tsv",
    "unguided/metrics.jsonl",
    "unguided/checkpoint.safetensors",
    "unguided/checkpoint.safetensors.tmp",
    "unguided/model.safetensors",
    "guided/run.json",
    "guided/spec.toml",
    "guided/rules.tsv",
    "guided/metrics.jsonl",
    "guided/checkpoint.safetensors",
    "guided/checkpoint.safetensors.tmp",
    "guided/model.safetensors",
    "evaluated/run.json",
    "evaluated/spec.toml",
    "evaluated/rules.tsv",
    "evaluated/metrics.jsonl",
    "evaluated/checkpoint.safetensors",
    "evaluated/checkpoint.safetensors.tmp",
    "evaluated/model.safetensors",
    "evaluated/prepared.safetensors",
    "deployed/run.json",
    "deployed/spec.toml",
    "deployed/rules.tsv",
    "deployed/metrics.jsonl",
    "deployed/checkpoint.safetensors",
    "deployed/checkpoint.safetensors.tmp",
    "deployed/model.safetensors",
    // Of earlier versions.
    "with-rules/run.json",
    "with-rules/spec.toml",
    "with-rules/rules.tsv",
    "with-rules/metrics.jsonl",
    "with-rules/checkpoint.safetensors",
    "with-rules/model.safetensors",
];

const CHECKPOINT: &str = "checkpoint.safetensors";

/// Rules that are being made ready to rank with; see [`prepare`](crate::prepare).
pub(crate) const PREPARED: &str = "prepared.safetensors";

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

    /// The error of a run that is not the one that is to go on.
    fn other(&self, difference: Difference) -> RugeError {
        RugeError::OtherRun { path: self.path.clone(), difference, aside: None }
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
        Ok(remove_for_good(&self.file(name))?)
    }
}

/// The spec of the run that `--resume` would continue in a folder; an error where there is none.
pub fn stored_spec(home: &Path) -> Result<Spec> {
    let folder = workplace::current(home, KIND)?;
    refuse_stages(home, &folder)?;
    match begun(&folder)? {
        Some((identity, _)) => Ok(identity.spec),
        None => Err(RugeError::NothingToResume { path: home.to_path_buf(), what: KIND.name }),
    }
}

/// Refuses a folder whose run has stages: this trains one model.
fn refuse_stages(home: &Path, folder: &Path) -> Result<()> {
    match folder.join("stages.json").exists() {
        true => {
            let (path, what) = (home.to_path_buf(), "a run of all stages");
            Err(RugeError::OtherKind { path, what, made_by: "run" })
        }
        false => Ok(()),
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
    /// When training ends, however many epochs are done.
    until: Option<Instant>,
}

impl<'r> Run<'r> {
    /// Takes a folder for a run, and writes down what the run is made from, before any long work.
    pub fn open(spec: &'r Spec, data: &'r Dataset, path: &Path, mode: Mode) -> Result<Self> {
        if mode != Mode::Force {
            refuse_stages(path, path)?;
        }
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
            until: None,
        };
        if matches!(mode, Mode::Resume | Mode::Continue)
            && let Some((old, is_old)) = begun(run.place.work())?
        {
            (run.old, run.is_old) = (Some(old), is_old);
        }
        if mode == Mode::Resume && run.old.is_none() {
            return Err(RugeError::NothingToResume { path: run.folder.path, what: KIND.name });
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
            Some(difference) if self.mode == Mode::Resume => Err(self.folder.other(difference)),
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

    /// Ends in time for this, with the best model so far. The clock decides only the number of epochs: the spec that is stored with the
    /// model says it, and trains the same model, to the bit. No time at all is one epoch, and one more if it must be validated.
    #[must_use]
    pub fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// Trains with these rules and leaves the model in the folder.
    pub fn train(mut self, rules: Vec<RuleRecord>, control: &TrainControl<'_>) -> Result<TrainSummary> {
        let (spec, data) = (self.spec, self.data);
        let done = match spec.model.name {
            ModelName::Rules => self.weigh_all(rules, control),
            _ => {
                Guides::ground(spec, data, rules, &control.quiet()).and_then(|guides| self.learn_all(&guides, control))
            }
        };
        self.end(done)
    }

    /// The same as [`train`](Self::train), with rules [grounded](Guides::ground) before.
    pub fn train_grounded(mut self, guides: &Guides, control: &TrainControl<'_>) -> Result<TrainSummary> {
        let done = self.learn_all(guides, control);
        self.end(done)
    }

    /// A finished run comes to its place, one that could not begin leaves nothing.
    fn end(self, done: Result<TrainSummary>) -> Result<TrainSummary> {
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
        if let Some(difference) = self.identity.refuses(&Identity::of_notes(&stored.notes)?) {
            return match self.mode {
                Mode::Continue => Ok(None),
                _ => Err(RugeError::OtherRun { path, difference, aside: None }),
            };
        }
        if self.mode == Mode::Resume && stored.progress.epoch > self.spec.schedule.epochs {
            let (done, wanted) = (stored.progress.epoch, self.spec.schedule.epochs);
            return Err(self.folder.other(Difference::Epochs { done, wanted }));
        }
        model.restore(stored.state)?;
        Ok(Some((stored.progress, stored.notes.get(curve::NOTE).cloned())))
    }

    fn learn_all(&mut self, guides: &Guides, control: &TrainControl<'_>) -> Result<TrainSummary> {
        let (spec, data) = (self.spec, self.data);
        let mut keep = Keep::new(self);
        let (outcome, parts) = learn(spec, data, guides, &mut keep, control)?;
        // Of a run that was cancelled, what its checkpoint holds: it is written, and has all that is finished.
        let Some(parts) = parts else { return Ok(TrainSummary { epochs: keep.saved_epoch(), ..outcome }) };
        let came_to = match outcome.stop {
            StopReason::Time => of_epochs(spec, outcome.epochs),
            _ => spec.clone(),
        };
        if came_to != *spec {
            let write = |name: &str, text: &[u8]| self.folder.write(name, text);
            Papers::new(&self.folder.path, &write).replace_spec(&came_to, data)?;
        }
        self.write_model(&came_to, &parts, &guides.rules)?;
        Ok(outcome)
    }

    fn weigh_all(&mut self, rules: Vec<RuleRecord>, control: &TrainControl<'_>) -> Result<TrainSummary> {
        let (spec, data) = (self.spec, self.data);
        let (outcome, made) = weigh(spec, data, rules, &mut Keep::new(self), &control.quiet())?;
        self.is_new = false;
        made.map_or(Ok(()), |(parts, rules)| self.write_model(spec, &parts, &rules))?;
        Ok(outcome)
    }

    fn write_model(&self, spec: &Spec, parts: &Parts, rules: &[RuleRecord]) -> Result<()> {
        ModelFile::write(&self.folder.file("model.safetensors"), &parts.contents(spec, self.data, rules)?)
    }
}

/// The same spec with another number of epochs.
pub fn of_epochs(spec: &Spec, epochs: u64) -> Spec {
    let mut spec = spec.clone();
    spec.schedule.epochs = epochs;
    spec
}

/// Trains as the spec says and leaves a run folder.
pub fn train(
    spec: &Spec,
    data: &Dataset,
    rules: Vec<RuleRecord>,
    path: &Path,
    mode: Mode,
    control: &TrainControl<'_>,
) -> Result<TrainSummary> {
    Run::open(spec, data, path, mode)?.train(rules, control)
}
