//! Many epochs: validate now and then, keep the best model, stop when it no longer gets better.
//!
//! The trainer decides and the caller listens: after every epoch an [`Event`] tells what happened and lends all that a
//! checkpoint or a learning curve needs. What goes on between events is [`Model::epoch`] and nothing else, so a run
//! resumed from the state of an event continues with the same bits.

use std::ops::ControlFlow;

use ruge_kg::{Control, Filter, RankError, RankQuery, Ties, Triple};
use serde::{Deserialize, Serialize};

use crate::embeddings::Embeddings;
use crate::error::{EmbedError, Result};
use crate::metrics::{HITS, Metrics};
use crate::model::{Losses, Model};
use crate::plan::Plan;

/// How long to train and when to look.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Schedule {
    /// Epochs at most.
    pub epochs: u64,
    /// Validate after every so many epochs, and after the last; 0 for never.
    pub validate_every: u64,
    /// Stop after so many validations in a row without a better MRR.
    #[serde(default)]
    pub patience: Option<u64>,
    /// Learn more slowly where validation no longer gets better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plateau: Option<Plateau>,
    /// Validate on the first triples only; the reference takes 1,000.
    #[serde(default)]
    pub validation_triples: Option<usize>,
    /// How ties count in validation.
    #[serde(default)]
    pub ties: Ties,
}

/// When learning rates fall.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plateau {
    /// What the rates are multiplied by, each time.
    pub factor: f32,
    /// After so many validations in a row without a better MRR, counted anew after each time.
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
    /// What learning rates are multiplied by after such progress.
    pub fn rate(&self, progress: &Progress) -> f32 {
        self.plateau.map_or(1.0, |plateau| (0..progress.cuts).fold(1.0, |rate, _| rate * plateau.factor))
    }
}

/// How far a run has come.
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
    /// Validations since the best model or, where that was later, the last such time.
    pub waited: u64,
}

/// The model with the best validation MRR.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// After which epoch.
    pub epoch: u64,
    /// Its MRR.
    pub mrr: f64,
    /// Its parameters.
    pub embeddings: Embeddings,
}

/// What is asked on the way.
#[derive(Clone, Copy)]
pub struct Validation<'a> {
    /// The triples asked for.
    pub triples: &'a [Triple],
    /// Known facts, left out of the ranks.
    pub known: Option<&'a Filter>,
}

/// What has happened, after every epoch.
pub struct Event<'e> {
    /// The losses of the epoch.
    pub losses: Losses,
    /// Wall time of the epoch alone, without validation.
    pub seconds: f64,
    /// The validation, where there was one.
    pub metrics: Option<&'e Metrics>,
    /// Whether it was the best so far.
    pub improved: bool,
    /// What learning rates were multiplied by in this epoch.
    pub rate: f32,
    /// How far the run has come: together with the model's state, all that resuming needs.
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
    /// Validation did not get better for long enough.
    Patience,
    /// Somebody cancelled it. An epoch that was under way is given up: the parameters are then of no use, and the state of the last
    /// [`Event`] is what to go on from.
    Asked,
}

/// Trains until the schedule ends, patience does, or somebody cancels; continues from `progress`. `hear` is called after every epoch;
/// it alone knows whether the epoch is kept, so it says whether to go on after a cancellation that came between epochs.
pub fn train(
    model: &mut dyn Model,
    plan: &Plan<'_>,
    schedule: &Schedule,
    validation: Option<Validation<'_>>,
    progress: &mut Progress,
    control: &Control<'_>,
    hear: &mut dyn FnMut(Event<'_>) -> Result<ControlFlow<()>>,
) -> Result<StopReason> {
    // An epoch and its validation are lost where they are given up: those nearly done may end.
    let control = &control.with_grace();
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
        let losses = match model.epoch(&Plan { rate, control: Some(control), ..*plan }, epoch) {
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
            progress.note(epoch, &found, improved, &model.state()?.embeddings);
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
    fn note(&mut self, epoch: u64, metrics: &Metrics, improved: bool, embeddings: &Embeddings) {
        if !improved {
            self.stale += 1;
            return;
        }
        self.stale = 0;
        match &mut self.best {
            // The memory of the last best is used again.
            Some(best) => {
                (best.epoch, best.mrr) = (epoch, metrics.mrr);
                best.embeddings.copy_from(embeddings);
            }
            None => self.best = Some(Best { epoch, mrr: metrics.mrr, embeddings: embeddings.clone() }),
        }
    }
}
