//! What every stage is handed, and what is heard of a run.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ruge::error::Result;
use ruge::run::Tick;
use ruge_kg::{Control, Work};

use super::forecast::Forecast;
use super::{Findings, Stage};

/// Makes the page of a run from what was found.
pub type Page<'p> = dyn Fn(&Findings) -> Result<String> + Sync + 'p;

/// What is handed to every stage: the control of the run, who makes the page, and the time.
pub(super) struct Stagehand<'w> {
    pub control: &'w Control<'w, Event>,
    pub page: &'w Page<'w>,
    pub clock: &'w Clock,
    /// When training has to end in this stage.
    pub until: Option<Instant>,
}

/// The time of a run, and how much of it is left.
pub(super) struct Clock {
    pub started: Instant,
    forecast: Mutex<(Forecast, Option<Instant>)>,
}

/// Least time between two forecasts that are told.
const FORECASTS: Duration = Duration::from_millis(500);

impl Clock {
    pub fn new(forecast: Forecast) -> Self {
        Self { started: Instant::now(), forecast: Mutex::new((forecast, None)) }
    }

    /// Changes the forecast, given the time.
    pub fn note(&self, change: impl FnOnce(&mut Forecast, f64)) {
        let mut held = self.forecast.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut held.0, self.started.elapsed().as_secs_f64());
    }

    /// The forecast, unless it was told just now.
    pub fn left(&self) -> Option<f64> {
        let mut held = self.forecast.lock().unwrap_or_else(PoisonError::into_inner);
        if held.1.is_some_and(|told| told.elapsed() < FORECASTS) {
            return None;
        }
        held.1 = Some(Instant::now());
        held.0.left(self.started.elapsed().as_secs_f64())
    }
}

impl Stagehand<'_> {
    pub fn progress(&self, stage: Stage, done: u64, total: u64, note: &str) {
        if stage == Stage::Evaluate {
            self.clock.note(|forecast, at| forecast.part(stage, done as f64 / total.max(1) as f64, at));
        }
        self.control.report(&Event::Progress { stage, done, total, note: note.to_string() });
        self.tell_left();
    }

    /// Some batches of an epoch are trained.
    pub fn batches(&self, stage: Stage, work: &Work, epochs: u64) {
        let part = work.done as f64 / work.total.max(1) as f64;
        self.clock.note(|forecast, at| forecast.part(stage, part, at));
        self.control.report(&Event::Batches { stage, part, epochs });
        self.tell_left();
    }

    /// An epoch of so many is trained.
    pub fn epoch(&self, stage: Stage, tick: &Tick, epochs: u64, note: String) {
        self.clock.note(|forecast, at| forecast.epoch(stage, tick, at));
        self.control.report(&Event::Epoch { stage, epoch: tick.epoch, epochs, note });
        self.tell_left();
    }

    fn tell_left(&self) {
        if let Some(seconds) = self.clock.left() {
            self.control.report(&Event::Left { seconds });
        }
    }

    pub fn note(&self, text: &str) {
        self.control.report(&Event::Note { text: text.to_string() });
    }

    /// Hears of work that is a part of a stage, and tells it on under a note.
    pub fn hearing(&self, stage: Stage, note: &'static str) -> impl Fn(&Work) + Sync {
        move |work: &Work| self.progress(stage, work.done, work.total, note)
    }
}

/// What happens in a run.
#[derive(Clone, Debug)]
pub enum Event {
    /// A stage has its result already.
    Skipped {
        /// Which.
        stage: Stage,
        /// What came out then.
        line: String,
    },
    /// A stage begins.
    Began {
        /// Which.
        stage: Stage,
    },
    /// It has come so far.
    Progress {
        /// Which.
        stage: Stage,
        /// Steps done.
        done: u64,
        /// Of so many; 0 where that is not known.
        total: u64,
        /// What stands there now; may be empty.
        note: String,
    },
    /// An epoch is trained.
    Epoch {
        /// In which stage.
        stage: Stage,
        /// Its number, from 1.
        epoch: u64,
        /// Epochs at most.
        epochs: u64,
        /// What stands there now.
        note: String,
    },
    /// So much of the epoch under way is trained, from 0 to 1.
    Batches {
        /// In which stage.
        stage: Stage,
        /// The part.
        part: f64,
        /// Epochs at most.
        epochs: u64,
    },
    /// How long the run still takes, all stages together.
    Left {
        /// An estimate, told now and then once something is measured.
        seconds: f64,
    },
    /// Something a user should know.
    Note {
        /// A sentence.
        text: String,
    },
    /// It came to its end.
    Finished {
        /// Which.
        stage: Stage,
        /// What came out.
        line: String,
        /// How long it took.
        seconds: f64,
    },
}
