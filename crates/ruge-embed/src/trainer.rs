//! The training loop: epochs, validation, keeping the best model, early stopping.
//!
//! After every epoch the caller receives an [`Event`] with everything a checkpoint or a learning curve needs. Between
//! events only [`Model::epoch`] runs, so a run resumed from the state of an event continues with the same bits.

use std::ops::ControlFlow;

use ruge_kg::{Control, Filter, RankError, RankQuery, Ties, Triple, Work};
use serde::{Deserialize, Serialize};

use crate::embeddings::Embeddings;
use crate::error::{EmbedError, Result};
use crate::metrics::{HITS, Metrics};
use crate::model::{Losses, Model};
use crate::plan::Plan;

/// How long to train and when to validate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Schedule {
    /// Maximum epochs.
    pub epochs: u64,
    /// Validate after every this many epochs and after the last; 0 for never.
    pub validate_every: u64,
    /// Stop after this many validations in a row without a better MRR.
    #[serde(default)]
    pub patience: Option<u64>,
    /// Lower the learning rates when validation stops improving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plateau: Option<Plateau>,
    /// Validate on this many triples only; the reference uses 1,000.
    #[serde(default)]
    pub validation_triples: Option<usize>,
    /// Tie policy in validation.
    #[serde(default)]
    pub ties: Ties,
}

/// When to lower the learning rates.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plateau {
    /// Factor on the rates, each time.
    pub factor: f32,
    /// Number of validations in a row without a better MRR; the count restarts each time.
    pub patience: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            epochs: 1000,
            validate_every: 50,
            patience: None,
            plateau: None,
            validation_triples: None,
            ties: Ties::Mean,
        }
    }
}

impl Schedule {
    /// The factor on the learning rates at this point.
    pub fn rate(&self, progress: &Progress) -> f32 {
        self.plateau.map_or(1.0, |plateau| (0..progress.cuts).fold(1.0, |rate, _| rate * plateau.factor))
    }
}

/// Progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Epochs done.
    pub epoch: u64,
    /// The best model so far.
    pub best: Option<Best>,
    /// Validations since then.
    pub stale: u64,
    /// How often a plateau has lowered the learning rates.
    pub cuts: u64,
    /// Validations since the best model or the last such cut, whichever was later.
    pub waited: u64,
}

/// The model with the best validation MRR.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Its epoch.
    pub epoch: u64,
    /// Its MRR.
    pub mrr: f64,
    /// Its parameters.
    pub embeddings: Embeddings,
}

/// Data for validation.
#[derive(Clone, Copy)]
pub struct Validation<'a> {
    /// The triples to rank.
    pub triples: &'a [Triple],
    /// Known facts, excluded from the ranks.
    pub known: Option<&'a Filter>,
}

/// The result of an epoch.
pub struct Event<'e> {
    /// The losses of the epoch.
    pub losses: Losses,
    /// Wall time of the epoch alone, without validation.
    pub seconds: f64,
    /// The validation metrics, if it was validated.
    pub metrics: Option<&'e Metrics>,
    /// Whether they are the best so far.
    pub improved: bool,
    /// The factor on the learning rates in this epoch.
    pub rate: f32,
    /// Progress of the run: together with the model's state, all that resuming needs.
    pub progress: &'e Progress,
    /// The model.
    pub model: &'e dyn Model,
}

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// All epochs are done.
    Epochs,
    /// Validation did not improve for long enough.
    Patience,
    /// The time that was given is up.
    Time,
    /// The caller cancelled. An unfinished epoch is discarded: the parameters are then invalid, and the run continues
    /// from the state of the last [`Event`].
    Asked,
}

/// Trains until the schedule or patience ends or the caller cancels; continues from `progress`. The listener of `control` hears of
/// the batches of each epoch. `hear` is called after every epoch. Only it knows whether the epoch was saved, so it decides whether to continue after a cancellation.
pub fn train(
    model: &mut dyn Model,
    plan: &Plan<'_>,
    schedule: &Schedule,
    validation: Option<Validation<'_>>,
    progress: &mut Progress,
    control: &Control<'_>,
    hear: &mut dyn FnMut(Event<'_>) -> Result<ControlFlow<()>>,
) -> Result<StopReason> {
    let within = |work: &Work| control.report(work);
    // A cancelled epoch and its validation are lost, so nearly finished ones may complete.
    let control = &control.with_grace();
    let heard = &control.heard_by(&within);
    let queries = validation.map_or_else(Vec::new, |validation| {
        let count = schedule.validation_triples.unwrap_or(usize::MAX).min(validation.triples.len());
        RankQuery::both_sides(&validation.triples[..count])
    });
    let out_of_patience = |progress: &Progress| schedule.patience.is_some_and(|limit| progress.stale >= limit);
    while progress.epoch < schedule.epochs {
        if out_of_patience(progress) {
            return Ok(StopReason::Patience);
        }
        let epoch = progress.epoch + 1;
        let started = std::time::Instant::now();
        let rate = schedule.rate(progress);
        let losses = match model.epoch(&Plan { rate, control: Some(heard), ..*plan }, epoch) {
            Err(EmbedError::Cancelled(_)) => return Ok(StopReason::Asked),
            losses => losses?,
        };
        let seconds = started.elapsed().as_secs_f64();
        let due =
            schedule.validate_every > 0 && (epoch.is_multiple_of(schedule.validate_every) || epoch == schedule.epochs);
        let mut metrics = None;
        let mut improved = false;
        if let Some(validation) = validation.filter(|_| due && !queries.is_empty()) {
            let ranks = match model.rank(&queries, validation.known, control) {
                Err(RankError::Cancelled(_)) => return Ok(StopReason::Asked),
                ranks => ranks?,
            };
            let found = Metrics::of(ranks.iter().map(|rank| rank.filtered), schedule.ties, &HITS);
            improved = progress.best.as_ref().is_none_or(|best| found.mrr > best.mrr);
            // On a GPU the state must be fetched, so only a better model is asked for it.
            if improved {
                progress.keep(epoch, found.mrr, &model.state()?.embeddings);
            } else {
                progress.stale += 1;
            }
            progress.waited = if improved { 0 } else { progress.waited + 1 };
            if schedule.plateau.is_some_and(|plateau| progress.waited >= plateau.patience) {
                (progress.cuts, progress.waited) = (progress.cuts + 1, 0);
            }
            metrics = Some(found);
        }
        progress.epoch = epoch;
        if hear(Event { losses, seconds, metrics: metrics.as_ref(), improved, rate, progress, model })?.is_break() {
            return Ok(StopReason::Asked);
        }
    }
    Ok(if out_of_patience(progress) { StopReason::Patience } else { StopReason::Epochs })
}

impl Progress {
    /// Keeps the best model so far.
    fn keep(&mut self, epoch: u64, mrr: f64, embeddings: &Embeddings) {
        self.stale = 0;
        match &mut self.best {
            // Reuses the memory of the previous best.
            Some(best) => {
                (best.epoch, best.mrr) = (epoch, mrr);
                best.embeddings.copy_from(embeddings);
            }
            None => self.best = Some(Best { epoch, mrr, embeddings: embeddings.clone() }),
        }
    }
}
