//! What a run folder keeps of a training under way: the learning curve, and a checkpoint now and then.

use std::time::{Duration, Instant};

use ruge_embed::model::State;
use ruge_embed::trainer::Event;
use ruge_embed::{Metrics, Model, Progress, checkpoint};
use ruge_rules::RuleRecord;

use super::curve::{self, Curve, Line};
use super::{CHECKPOINT, Run, Tick};
use crate::error::Result;
use crate::train::{Keeper, Last};

/// Keeps a training in the folder of its run.
pub(super) struct Keep<'k, 'r> {
    run: &'k mut Run<'r>,
    /// Open once it is known where training begins.
    curve: Option<Curve>,
    saved: Instant,
    saved_epoch: u64,
    pace: Pace,
}

/// What an epoch and a validation take, to know when the last epoch has come.
struct Pace {
    /// When the last epoch was over.
    since: Instant,
    epoch: Duration,
    validation: Duration,
}

impl Pace {
    fn new() -> Self {
        Self { since: Instant::now(), epoch: Duration::ZERO, validation: Duration::ZERO }
    }

    /// An epoch is over. The longest of each counts: what is begun must end in time.
    fn note(&mut self, tick: &Tick) {
        let epoch = Duration::try_from_secs_f64(tick.seconds).unwrap_or_default();
        self.epoch = self.epoch.max(epoch);
        if tick.metrics.is_some() {
            self.validation = self.validation.max(self.since.elapsed().saturating_sub(epoch));
        }
        self.since = Instant::now();
    }

    /// Whether what is left is enough for another epoch and one more after it, both validated.
    fn allows_two(&self, until: Instant) -> bool {
        2 * (self.epoch + self.validation) <= until.saturating_duration_since(Instant::now())
    }
}

impl<'k, 'r> Keep<'k, 'r> {
    pub(super) fn new(run: &'k mut Run<'r>) -> Self {
        Self { run, curve: None, saved: Instant::now(), saved_epoch: 0, pace: Pace::new() }
    }

    /// The epoch of the last checkpoint.
    pub(super) fn saved_epoch(&self) -> u64 {
        self.saved_epoch
    }

    fn write(&mut self, state: &State, progress: &Progress) -> Result<()> {
        let mut notes = self.run.identity.notes();
        // The lines of the curve are on disk before a checkpoint counts on them.
        if let Some(curve) = &mut self.curve {
            notes.insert(curve::NOTE.to_string(), curve.sync()?);
        }
        checkpoint::write(&self.run.folder.file(CHECKPOINT), state, progress, &notes)?;
        (self.saved, self.saved_epoch) = (Instant::now(), progress.epoch);
        Ok(())
    }
}

impl Keeper for Keep<'_, '_> {
    fn rules(&mut self, rules: &[RuleRecord]) -> Result<()> {
        self.run.take_rules(rules)
    }

    fn resume(&mut self, model: &mut dyn Model) -> Result<Progress> {
        let (progress, note) = self.run.resume(model)?.unwrap_or_default();
        // From here on there is something to continue.
        self.run.is_new = false;
        self.curve = Some(Curve::open(&self.run.folder, progress.epoch, note.as_deref())?);
        (self.saved, self.saved_epoch) = (Instant::now(), progress.epoch);
        self.pace = Pace::new();
        Ok(progress)
    }

    fn last(&mut self, tick: &Tick) -> Last {
        self.pace.note(tick);
        let Some(until) = self.run.until else { return Last::No };
        let is_validated = self.run.spec.schedule.validate_every > 0 && !self.run.data.valid().is_empty();
        match self.pace.allows_two(until) {
            true => Last::No,
            false if tick.metrics.is_some() || !is_validated => Last::This,
            false => Last::Next,
        }
    }

    fn epoch(&mut self, tick: &Tick) -> Result<()> {
        self.curve.as_mut().map_or(Ok(()), |curve| curve.add(tick))
    }

    fn save(&mut self, event: &Event<'_>, stops: bool) -> Result<()> {
        if stops || self.saved.elapsed() >= self.run.checkpoint_every {
            self.write(event.model.state()?, event.progress)?;
        }
        Ok(())
    }

    fn trained(&mut self, model: &dyn Model, progress: &Progress) -> Result<()> {
        self.write(model.state()?, progress)
    }

    fn weighed(&mut self, seconds: f64, metrics: Option<&Metrics>) -> Result<()> {
        self.run.is_new = false;
        let line = Line { seconds: Some(seconds), ..Line::default() };
        let line = match metrics {
            Some(metrics) => line.validated(metrics, true),
            None => line,
        };
        self.run.folder.write(curve::FILE, line.text().as_bytes())
    }
}
