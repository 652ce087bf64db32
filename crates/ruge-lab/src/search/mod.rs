//! Finding settings: many runs of one kind, the promising ones for longer.
//!
//! A [`Space`] says what may vary. [`next`](halving::next) looks at all trials so far and says what to do now: begin a trial
//! at a point that [`sample`] chooses, let one that did well climb to its next rung, or stop. It is a pure function of the
//! space and the trials, so a search that was killed goes on exactly as one that was not, and nothing but the trials need be
//! kept: [`store`] keeps them in SQLite, beside one run folder each. [`drive`] trains, one trial after another, through
//! [`run`](ruge::run); a trial that fails is a result like any other, one that the clock stops is none yet. [`importance`] tells which leaves mattered.

mod domain;
pub mod drive;
pub mod halving;
pub mod importance;
pub mod sample;
pub mod space;
pub mod store;
mod tpe;

pub use domain::Domain;
pub use drive::{Ended, Search, SearchEvent, SearchOptions};
pub use halving::epochs_left;
pub use space::{Halving, Method, Parameter, Point, Space};

/// How far a trial is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// On its way to the end of its next rung, now or when the search was last stopped.
    Running,
    /// At the end of a rung; it may climb.
    Paused,
    /// Trained to its end.
    Finished,
    /// It cannot go on.
    Failed,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Running, Self::Paused, Self::Finished, Self::Failed];

    /// As stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
            Self::Failed => "failed",
        }
    }
}

/// What a trial had reached at the end of a rung.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rung {
    /// Epochs done.
    pub epochs: u64,
    /// The best validation MRR until then.
    pub valid_mrr: f64,
    /// Its epoch.
    pub best_epoch: u64,
}

/// One point and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Trial {
    /// From 1, in the order of beginning.
    pub number: usize,
    /// Where it is.
    pub point: Point,
    /// How far it is.
    pub state: State,
    /// The rungs it has finished.
    pub rungs: Vec<Rung>,
    /// Wall time of its training.
    pub seconds: f64,
    /// Why it failed.
    pub error: Option<String>,
    /// Validation MRR by epoch.
    pub curve: Vec<(u64, f64)>,
}

impl Trial {
    /// A trial that begins.
    pub fn new(number: usize, point: Point) -> Self {
        let (rungs, curve) = (Vec::new(), Vec::new());
        Self { number, point, state: State::Running, rungs, seconds: 0.0, error: None, curve }
    }

    /// The best validation MRR it has reached; nothing before its first rung, or where it failed.
    pub fn valid_mrr(&self) -> Option<f64> {
        if self.state == State::Failed { None } else { self.rungs.last().map(|rung| rung.valid_mrr) }
    }
}

/// What to go by: the best trial, or, before any has come to the end of a rung, the one that was stopped on its way there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Best<'t> {
    /// The trial.
    pub trial: &'t Trial,
    /// Its best validation MRR.
    pub valid_mrr: f64,
    /// The epoch of it, where the trial is one that was stopped: so many epochs train that model.
    pub stopped_at: Option<u64>,
}

impl<'t> Best<'t> {
    /// Of these trials. A trial that was stopped is compared with none: it had less time than they.
    pub fn of(trials: &'t [Trial]) -> Option<Self> {
        if let Some(trial) = ranked(trials).first().copied() {
            return Some(Self { trial, valid_mrr: trial.valid_mrr()?, stopped_at: None });
        }
        let trial = trials.iter().find(|trial| trial.state == State::Running)?;
        let (epoch, valid_mrr) = trial
            .curve
            .iter()
            .copied()
            .filter(|(_, mrr)| mrr.is_finite())
            .reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        Some(Self { trial, valid_mrr, stopped_at: Some(epoch) })
    }
}

/// Trials that have a result, best first; of equals, the one begun first.
pub fn ranked(trials: &[Trial]) -> Vec<&Trial> {
    let mut ranked: Vec<&Trial> = trials.iter().filter(|trial| trial.valid_mrr().is_some()).collect();
    ranked.sort_by(|a, b| {
        b.valid_mrr().partial_cmp(&a.valid_mrr()).expect("a mean of ranks").then(a.number.cmp(&b.number))
    });
    ranked
}
