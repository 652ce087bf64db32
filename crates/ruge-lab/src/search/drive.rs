//! A search and its folder: `search.db`, a run folder per trial under `trials/`, and what the edges write beside.
//!
//! One trial is trained after another. What a trial is told to do is in `search.db` before it begins, and its run folder has
//! checkpoints, so a search that is killed at any moment goes on inside the trial it was at.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ruge_embed::{EmbedError, StopReason};
use ruge_kg::{Cancelled, Control, Dataset, RankError};
use ruge_rules::RuleRecord;
use sha2::{Digest, Sha256};

use super::halving::{self, Job};
use super::space::Space;
use super::store::{DRAFT, DRAFT_JOURNAL, Store};
use super::{Rung, State, Trial, ranked};
use ruge::assemble;
use ruge::error::{Difference, Result, RugeError};
use ruge::model_file::{data_hash, hex};
use ruge::run::{Guides, Mode, Run, Tick, TrainEvent, TrainSummary, curve};
use ruge::spec::{DeviceName, RulesSpec, Spec};
use ruge::workplace::{Kind, Workplace};

/// How a run of the search is done.
pub struct SearchOptions {
    /// Where to compute; without it, where the spec says.
    pub device: Option<DeviceName>,
    /// The search ends before this: the trial under way is stopped at the end of an epoch, with a checkpoint from which it goes on later
    /// to the same bits. Until then it takes no part in any comparison.
    pub until: Option<Instant>,
    /// Least time between two checkpoints of a trial.
    pub checkpoint_every: Duration,
}

/// What happens in a search.
#[derive(Clone, Debug)]
pub enum SearchEvent {
    /// Rules are mined or read, which may take a while.
    Rules,
    /// A trial begins or goes on, until so many epochs.
    Begins(Trial, u64),
    /// An epoch of so many is done.
    Epoch(Tick, u64),
    /// A trial has reached the end of a rung, or failed; all trials.
    Ended(Trial, Vec<Trial>),
}

/// How a run of the search ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Nothing is left to try.
    Done,
    /// A stop was asked for; it can go on.
    Unfinished,
    /// Time was up; it can go on.
    TimeUp,
}

/// A search.
pub struct Search {
    /// Held while we work: two programs on one search would overwrite each other's trials.
    place: Option<Workplace>,
    /// Where its files are.
    folder: PathBuf,
    /// Where the user finds them in the end.
    home: PathBuf,
    space: Space,
    store: Store,
    trials: Vec<Trial>,
}

const DATABASE: &str = "search.db";

/// What a search consists of.
const KIND: Kind = Kind {
    name: "search",
    command: "search",
    resumes: true,
    signs: &[DATABASE],
    files: &[DATABASE, "search.db-journal", "best.toml", "report.html"],
    leftovers: &[DRAFT, DRAFT_JOURNAL, "search.lock"],
    folders: &["trials"],
};

impl Search {
    /// Begins a search in a folder. [`Mode::Fresh`] refuses where there is one, [`Mode::Force`] makes one that replaces it when it is
    /// finished, and [`Mode::Resume`] continues it: `space` may then be missing, and may want another number of trials.
    pub fn open(folder: &Path, space: Option<Space>, data: &Dataset, mode: Mode) -> Result<Self> {
        let other = |difference| RugeError::OtherRun { path: folder.to_path_buf(), difference, aside: None };
        if data.valid().is_empty() {
            return Err(RugeError::refused("the data have no validation triples: there is nothing to choose by"));
        }
        let (place, home) = (Workplace::open(folder, KIND, mode)?, folder);
        let folder = place.work();
        let (path, hash) = (folder.join(DATABASE), data_hash(data));
        let store = match &space {
            Some(space) if !path.exists() => {
                let version = env!("CARGO_PKG_VERSION");
                let numerics = ruge_embed::NUMERICS.to_string();
                let facts =
                    [("space", &*space.to_toml()), ("data", &hash), ("version", version), ("numerics", &numerics)];
                Store::create(&path, &facts)?
            }
            _ => Store::open(&path)?,
        };
        let mut space = match (store.fact("space")?, space) {
            (Some(kept), space) => {
                let name = folder.join(DATABASE).display().to_string();
                let kept = Space::parse(&kept, &name, None)?;
                if space.as_ref().is_some_and(|space| !space.is_same(&kept)) {
                    return Err(other(Difference::Space));
                }
                if store.fact("data")?.is_some_and(|of| of != hash) {
                    return Err(other(Difference::Data));
                }
                if store.fact("numerics")?.is_some_and(|of| of != ruge_embed::NUMERICS.to_string()) {
                    let by =
                        store.fact("version")?.map_or("another program".into(), |version| format!("ruge {version}"));
                    return Err(other(Difference::Arithmetic { by }));
                }
                let trials = space.and_then(|space| space.settings.trials).or(kept.settings.trials);
                let mut kept = kept;
                kept.settings.trials = trials;
                kept
            }
            (None, _) => return Err(RugeError::Damaged { path, reason: "its search has no space".into() }),
        };
        space.settings.trials = space.settings.trials.filter(|trials| *trials > 0);
        let trials = store.trials(&space)?;
        let folder = folder.to_path_buf();
        Ok(Self { place: Some(place), folder, home: home.to_path_buf(), space, store, trials })
    }

    /// Where its files are now; its page and best spec belong there too.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it will replace another search when it is finished.
    pub fn replaces(&self) -> bool {
        self.place.as_ref().is_some_and(Workplace::replaces)
    }

    /// Puts a search that came to its end in its place, where it replaces another one. Nothing is tried after that.
    pub fn finish(&mut self) -> Result<()> {
        self.folder = self.home.clone();
        self.place.take().map_or(Ok(()), Workplace::finish)
    }

    /// Wants another number of trials.
    pub fn want(&mut self, trials: usize) {
        self.space.settings.trials = Some(trials.max(1));
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Every trial so far.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The best trial so far.
    pub fn best(&self) -> Option<&Trial> {
        ranked(&self.trials).first().copied()
    }

    /// The run folder of a trial.
    pub fn run_folder(&self, trial: &Trial) -> PathBuf {
        self.folder.join("trials").join(format!("{:04}", trial.number))
    }

    /// The spec of a trial, as it is when trained to its end.
    pub fn spec(&self, trial: &Trial, device: Option<DeviceName>) -> Result<Spec> {
        let mut spec = self.space.spec(&trial.point)?;
        spec.device = device.unwrap_or(spec.device);
        Ok(spec)
    }

    /// Gives up the trial that was under way: for one that takes the program down with it. Its number, if there was one.
    pub fn give_up(&mut self) -> Result<Option<usize>> {
        let Some(trial) = self.trials.iter_mut().find(|trial| trial.state == State::Running) else { return Ok(None) };
        trial.state = State::Failed;
        trial.error = Some("given up, as was asked for".into());
        self.store.save(&self.space, trial)?;
        Ok(Some(trial.number))
    }

    /// Trains trial after trial until nothing is left to do, time is up or a stop is asked for.
    pub fn run(
        &mut self,
        data: &Dataset,
        options: &SearchOptions,
        control: &Control<'_, SearchEvent>,
    ) -> Result<Ended> {
        self.store.keep(&[("space", &self.space.to_toml())])?;
        let mut guides = SharedGuides::default();
        let ended = || if control.is_cancelled() { Ended::Unfinished } else { Ended::TimeUp };
        while let Some(job) = halving::next(&self.space, &self.trials) {
            if control.until(options.until).is_cancelled() {
                return Ok(ended());
            }
            let (place, anew) = match job {
                Job::Climb(place) => (place, false),
                Job::Begin(point) => {
                    self.trials.push(Trial::new(self.trials.len() + 1, point));
                    // Whatever lies in its folder is not its own.
                    (self.trials.len() - 1, true)
                }
            };
            // What is begun is known before it begins.
            self.trials[place].state = State::Running;
            self.store.save(&self.space, &self.trials[place])?;
            let is_through = self.climb(place, anew, data, options, &mut guides, &control.until(options.until))?;
            self.store.save(&self.space, &self.trials[place])?;
            if !is_through {
                return Ok(ended());
            }
            self.drop_models(false)?;
            control.report(&SearchEvent::Ended(self.trials[place].clone(), self.trials.clone()));
        }
        self.drop_models(true)?;
        Ok(Ended::Done)
    }

    /// All trials of a search are guided by what a rule file held when the first of them was.
    fn know_rules(&mut self, spec: &Spec) -> Result<()> {
        let Some(file) = spec.rules.file.as_ref().filter(|_| spec.takes_rules()) else { return Ok(()) };
        let path = Path::new(file);
        let text = fs::read(path).map_err(RugeError::io(path, "read the rules"))?;
        let sum = hex(&Sha256::digest(&text));
        let key = format!("rules of {file}");
        match self.store.fact(&key)? {
            None => self.store.keep(&[(&key, &sum)]),
            Some(old) if old != sum => Err(RugeError::OtherRun {
                path: self.home.clone(),
                difference: Difference::Rules(Some(path.to_path_buf())),
                aside: None,
            }),
            Some(_) => Ok(()),
        }
    }

    /// Trains a trial to the end of its next rung. False when stopped before.
    fn climb(
        &mut self,
        place: usize,
        anew: bool,
        data: &Dataset,
        options: &SearchOptions,
        guides: &mut SharedGuides,
        control: &Control<'_, SearchEvent>,
    ) -> Result<bool> {
        // A spec that cannot be is told below.
        if let Ok(spec) = self.spec(&self.trials[place], options.device) {
            self.know_rules(&spec)?;
        }
        let trial = &self.trials[place];
        let folder = self.run_folder(trial);
        let started = Instant::now();
        let done = self.spec(trial, options.device).and_then(|whole| {
            let mut spec = whole.clone();
            spec.schedule.epochs = halving::epochs(self.space.settings.halving, &whole, trial.rungs.len());
            control.report(&SearchEvent::Begins(trial.clone(), spec.schedule.epochs));
            let outcome = train(&spec, data, (&folder, anew), options, guides, control)?;
            Ok((outcome, spec.schedule.epochs == whole.schedule.epochs))
        });
        let trial = &mut self.trials[place];
        trial.seconds += started.elapsed().as_secs_f64();
        let curve = curve::read(&folder).unwrap_or_default();
        trial.curve = curve.iter().filter_map(|line| Some((line.epoch, line.valid_mrr?))).collect();
        match done {
            Err(error) if error.is_cancelled() => return Ok(false),
            Ok((TrainSummary { epochs, best_epoch, valid_mrr: Some(valid_mrr), .. }, is_whole))
                if valid_mrr.is_finite() =>
            {
                trial.rungs.push(Rung { epochs, valid_mrr, best_epoch });
                trial.state = if is_whole { State::Finished } else { State::Paused };
            }
            Ok(_) => fail(trial, "it ended without a validation"),
            Err(error) if stops_the_search(&error) => return Err(error),
            Err(error) => fail(trial, &error.to_string()),
        }
        Ok(true)
    }

    /// Removes what is large and can be made again: models and checkpoints of trials that are not the best and will not go on
    /// soon. One that goes on after all begins anew, to the same bits.
    fn drop_models(&self, all: bool) -> Result<()> {
        let best = self.best().map(|trial| trial.number);
        for trial in self.trials.iter().filter(|trial| Some(trial.number) != best) {
            let mut files = vec!["model.safetensors"];
            if all || matches!(trial.state, State::Failed | State::Finished) {
                files.push("checkpoint.safetensors");
            }
            for file in files.into_iter().map(|name| self.run_folder(trial).join(name)).filter(|file| file.exists()) {
                fs::remove_file(&file).map_err(RugeError::io(&file, "remove"))?;
            }
        }
        Ok(())
    }
}

fn fail(trial: &mut Trial, reason: &str) {
    trial.state = State::Failed;
    trial.error = Some(reason.to_string());
}

/// Whether an error has nothing to do with the trial's setting: the next trial would meet it too.
fn stops_the_search(error: &RugeError) -> bool {
    match error {
        RugeError::Io { .. } | RugeError::ModelFile { .. } | RugeError::Kg(_) => true,
        RugeError::Run { .. } | RugeError::Damaged { .. } | RugeError::CutOff { .. } => true,
        RugeError::Exists { .. } | RugeError::InTheWay { .. } | RugeError::Locked { .. } => true,
        RugeError::OtherRun { .. } | RugeError::OtherKind { .. } | RugeError::Unfinished { .. } => true,
        RugeError::NothingToResume { .. } | RugeError::NoModel { .. } => true,
        // A rule file that cannot be read now may be there again later.
        RugeError::Rules(_) => true,
        RugeError::Embed(EmbedError::Io { .. } | EmbedError::Checkpoint { .. }) => true,
        RugeError::Embed(EmbedError::Device { lasting, .. } | EmbedError::Rank(RankError::Device { lasting, .. })) => {
            *lasting
        }
        RugeError::Rank(RankError::Device { lasting, .. }) => *lasting,
        RugeError::Cuda(error) => error.is_lasting(),
        _ => false,
    }
}

fn train(
    spec: &Spec,
    data: &Dataset,
    (folder, anew): (&Path, bool),
    options: &SearchOptions,
    guides: &mut SharedGuides,
    control: &Control<'_, SearchEvent>,
) -> Result<TrainSummary> {
    let guides = guides.of(spec, data, control)?;
    let time_is_up = Arc::new(AtomicBool::new(false));
    let pace = Mutex::new((Instant::now(), Duration::ZERO));
    let hear = |event: &TrainEvent| {
        if let TrainEvent::Epoch(tick) = event {
            // The longest epoch with its validation: what is begun must end in time.
            let mut held = pace.lock().unwrap_or_else(PoisonError::into_inner);
            let (since, longest) = &mut *held;
            *longest = (*longest).max(since.elapsed());
            *since = Instant::now();
            let is_last = options.until.is_some_and(|until| *since + *longest > until);
            time_is_up.store(is_last && tick.epoch < spec.schedule.epochs, Ordering::Relaxed);
            control.report(&SearchEvent::Epoch(tick.clone(), spec.schedule.epochs));
        }
    };
    let training = Control::new(&control.cancel().clone().or_on(Arc::clone(&time_is_up))).with_listener(&hear);
    let work = || {
        let run = Run::within(spec, data, folder, anew, false)?.checkpoint_every(options.checkpoint_every);
        run.train_grounded(guides, &training)
    };
    // A night of trials must not end with a bug that one of them finds. Nothing of it is used afterwards.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|cause| {
        let words = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
        Err(RugeError::refused(format!("a bug in ruge: {}", words.unwrap_or("it panicked"))))
    })?;
    if outcome.stop == StopReason::Asked { Err(Cancelled.into()) } else { Ok(outcome) }
}

/// Rules that were mined or read, and the groundings used last: trials that want the same share them.
#[derive(Default)]
struct SharedGuides {
    rules: Vec<(RulesSpec, Vec<RuleRecord>)>,
    last: Option<(bool, RulesSpec, Guides)>,
}

/// Different rule sets that are kept.
const KEPT: usize = 8;

impl SharedGuides {
    /// What guides a spec.
    fn of(&mut self, spec: &Spec, data: &Dataset, control: &Control<'_, SearchEvent>) -> Result<&Guides> {
        let takes = spec.guidance().takes_rules();
        // What an epoch takes of the groundings is the plan's affair.
        let wanted = RulesSpec { most_groundings: None, ..spec.rules.clone() };
        let is_same = |(took, of, _): &(bool, RulesSpec, Guides)| *took == takes && (!takes || *of == wanted);
        let guides = match self.last.take().filter(is_same) {
            Some((_, _, guides)) => guides,
            None => {
                let rules = if takes { self.rules(&wanted, data, control)? } else { Vec::new() };
                Guides::ground(spec, data, rules, &control.quiet())?
            }
        };
        Ok(&self.last.insert((takes, wanted, guides)).2)
    }

    fn rules(
        &mut self,
        wanted: &RulesSpec,
        data: &Dataset,
        control: &Control<'_, SearchEvent>,
    ) -> Result<Vec<RuleRecord>> {
        // Which rules stay, and with which confidence, is decided after mining.
        let source = RulesSpec { min_confidence: 0.0, confidence: None, ..wanted.clone() };
        if let Some((_, rules)) = self.rules.iter().find(|(of, _)| *of == source) {
            return Ok(rules.clone());
        }
        control.report(&SearchEvent::Rules);
        let rules = assemble::rules_of(&source, data, &control.quiet())?;
        if self.rules.len() == KEPT {
            self.rules.remove(0);
        }
        self.rules.push((source, rules.clone()));
        Ok(rules)
    }
}
