//! What a run folder keeps of a training under way: the learning curve, and a checkpoint now and then.

use std::time::Instant;

use ruge_embed::model::State;
use ruge_embed::trainer::Event;
use ruge_embed::{Metrics, Model, Progress, checkpoint};
use ruge_rules::RuleRecord;

use super::curve::{self, Curve, Line};
use super::{CHECKPOINT, Run, Tick};
use crate::error::Result;
use crate::train::Keeper;

/// Keeps a training in the folder of its run.
pub(super) struct Keep<'k, 'r> {
    run: &'k mut Run<'r>,
    /// Open once it is known where training begins.
    curve: Option<Curve>,
    saved: Instant,
    saved_epoch: u64,
}

impl<'k, 'r> Keep<'k, 'r> {
    pub(super) fn new(run: &'k mut Run<'r>) -> Self {
        Self { run, curve: None, saved: Instant::now(), saved_epoch: 0 }
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
        Ok(progress)
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
