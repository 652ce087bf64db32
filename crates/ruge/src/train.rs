//! Training in memory: spec, data and rules in, a model that can be asked out.
//!
//! [`train()`] grounds the rules, trains as long as the spec says, takes the epoch that validation liked best and fits its truth values.
//! What comes out is [`Trained`], and [`Trained::engine`] opens it for questions. A [run](crate::run) is a layer above: the same
//! training, with a folder that keeps what it needs to go on, by way of a [`Keeper`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

use ruge_embed::trainer::Event;
use ruge_embed::{Losses, Metrics, Model, PathReport, Progress, StopReason, Validation, train as train_epochs};
use ruge_kg::{Cancelled, Control, Dataset, RankError, Work};
use ruge_rules::rank::{Combined, Prepared, Ranking, Weights, fit};
use ruge_rules::{Groundings, RuleRecord};
use serde_json::json;

use crate::assemble;
use crate::calibrate::Calibration;
use crate::engine::{Engine, OpenOptions};
use crate::error::Result;
use crate::evaluate::Questions;
use crate::model_file::{Contents, ModelFile};
use crate::spec::{ModelName, Spec};
use crate::truth::{self, Truth, Witness};

/// Trains as the spec says, guided by these rules; [`assemble::rules`] gets those that the spec asks for. A spec whose model is rules
/// fits how they are summed instead. Whoever cancels it gets an error.
pub fn train(spec: &Spec, data: &Dataset, rules: Vec<RuleRecord>, control: &TrainControl<'_>) -> Result<Trained> {
    spec.check()?;
    let (outcome, made) = match spec.model.name {
        ModelName::Rules => weigh(spec, data, rules, &mut Nothing, &control.quiet())?,
        _ => {
            let guides = Guides::ground(spec, data, rules, &control.quiet())?;
            let (outcome, parts) = learn(spec, data, &guides, &mut Nothing, control)?;
            (outcome, parts.map(|parts| (parts, guides.rules)))
        }
    };
    let (parts, rules) = made.ok_or(Cancelled)?;
    Ok(Trained { outcome, spec: spec.clone(), rules, parts })
}

/// A trained model, and how its training went.
pub struct Trained {
    /// How it went.
    pub outcome: TrainSummary,
    spec: Spec,
    rules: Vec<RuleRecord>,
    parts: Parts,
}

impl Trained {
    /// Opens it for questions, where it was trained; `data` is what it was trained on. [`ModelFile::write`] takes the
    /// [contents](Engine::contents) of an engine.
    pub fn engine(self, data: Dataset) -> Result<Engine> {
        let Self { spec, rules, parts: Parts { model, notes, calibration, truth, ranking, weights }, .. } = self;
        let embeddings = model.map(|model| model.state().map(|state| state.embeddings.clone())).transpose()?;
        let options = OpenOptions { device: spec.device, ..OpenOptions::default() };
        let is_old = false;
        let file = ModelFile { spec, embeddings, data, rules, notes, calibration, truth, ranking, weights, is_old };
        Engine::of(file, &options)
    }
}

/// How training went.
#[derive(Clone, Debug)]
pub struct TrainSummary {
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
}

/// What happens while a model is trained.
#[derive(Clone, Debug)]
pub enum TrainEvent {
    /// Rules are grounded, before the first epoch; all zero where no rule guides.
    Grounded(Grounds),
    /// Relation paths are found, before the first epoch, where they guide.
    Paths(PathReport),
    /// Batches of the epoch under way.
    Batches(Work),
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

/// Rules that stay under a spec, with their groundings: made once where many runs share them.
pub struct Guides {
    /// The rules.
    pub rules: Vec<RuleRecord>,
    /// Their groundings in train.
    pub groundings: Groundings,
    /// Wall time of grounding them.
    pub seconds: f64,
}

impl Guides {
    /// Grounds the rules that stay under a spec.
    pub fn ground(spec: &Spec, data: &Dataset, rules: Vec<RuleRecord>, control: &Control<'_>) -> Result<Self> {
        let started = Instant::now();
        let (rules, groundings) = assemble::grounded(spec, data, rules, control)?;
        Ok(Self { rules, groundings, seconds: started.elapsed().as_secs_f64() })
    }
}

/// When a training ends because of the time it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Last {
    /// Not yet.
    No,
    /// Another epoch is the last.
    Next,
    /// This epoch was.
    This,
}

/// Who keeps what training has done. By default nothing is kept; an error ends the training.
pub(crate) trait Keeper {
    /// These rules have a part in it.
    fn rules(&mut self, _rules: &[RuleRecord]) -> Result<()> {
        Ok(())
    }
    /// Takes over what was done before.
    fn resume(&mut self, _model: &mut dyn Model) -> Result<Progress> {
        Ok(Progress::default())
    }
    /// An epoch is done.
    fn epoch(&mut self, _tick: &Tick) -> Result<()> {
        Ok(())
    }
    /// The listener has heard of it; `stops` if it is the last because somebody cancelled.
    fn save(&mut self, _event: &Event<'_>, _stops: bool) -> Result<()> {
        Ok(())
    }
    /// Whether time is up. A spec with so many epochs trains the same model: what is decided here is only their number, and an
    /// epoch that is the last is validated.
    fn last(&mut self, _tick: &Tick) -> Last {
        Last::No
    }
    /// The last epoch is done, and nobody cancelled it.
    fn trained(&mut self, _model: &dyn Model, _progress: &Progress) -> Result<()> {
        Ok(())
    }
    /// Rules are weighed, where they are the model; what validation says of them.
    fn weighed(&mut self, _seconds: f64, _metrics: Option<&Metrics>) -> Result<()> {
        Ok(())
    }
}

/// Keeps nothing.
struct Nothing;

impl Keeper for Nothing {}

/// What training makes, beside spec, data and rules.
pub(crate) struct Parts {
    /// None where rules are all there is.
    model: Option<Box<dyn Model>>,
    notes: BTreeMap<String, String>,
    calibration: Option<Calibration>,
    truth: Option<Truth>,
    ranking: Option<Ranking>,
    weights: Option<Weights>,
}

impl Parts {
    /// What a model file of it holds.
    pub(crate) fn contents<'a>(
        &'a self,
        spec: &'a Spec,
        data: &'a Dataset,
        rules: &'a [RuleRecord],
    ) -> Result<Contents<'a>> {
        Ok(Contents {
            spec,
            embeddings: self.model.as_ref().map(|model| model.state().map(|state| &state.embeddings)).transpose()?,
            data,
            rules,
            notes: &self.notes,
            calibration: self.calibration.as_ref(),
            truth: self.truth.as_ref(),
            ranking: self.ranking.as_ref(),
            weights: self.weights.as_deref(),
        })
    }
}

/// How it went, and what came out unless it was cancelled.
type Made<P> = (TrainSummary, Option<P>);

/// Trains a model with vectors; nothing comes out where it was cancelled.
pub(crate) fn learn(
    spec: &Spec,
    data: &Dataset,
    guides: &Guides,
    keeper: &mut dyn Keeper,
    control: &TrainControl<'_>,
) -> Result<Made<Parts>> {
    let Guides { rules, groundings, seconds: ground_seconds } = guides;
    let evidence = assemble::evidence_for(spec, rules, groundings)?;
    keeper.rules(rules)?;
    control.report(&TrainEvent::Grounded(Grounds::of(rules.len(), groundings, data)));
    let examples = assemble::examples_for(spec, &evidence);
    let plan = assemble::plan(spec, data, &evidence, &examples)?;
    let started = Instant::now();
    let paths = assemble::paths(spec, data, &control.quiet())?;
    let path_seconds = started.elapsed().as_secs_f64();
    let path_report = paths.as_ref().map(|paths| *paths.report());
    path_report.iter().for_each(|report| control.report(&TrainEvent::Paths(*report)));
    let mut model = assemble::model_with(spec, data, paths)?;
    let mut progress = keeper.resume(&mut *model)?;

    let (mut seconds, mut epochs) = (0.0, 0u64);
    let validation = Validation { triples: data.valid(), known: Some(data.filter()) };
    let validation = (!data.valid().is_empty()).then_some(validation);
    let (mut last, mut schedule) = (Last::No, spec.schedule);
    let stop = loop {
        let (mut failed, mut is_last) = (None, false);
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
            let noted = keeper.epoch(&tick);
            if last == Last::No {
                last = keeper.last(&tick);
            }
            control.report(&TrainEvent::Epoch(tick));
            // Whoever hears of it may cancel: then this epoch is the last that is kept.
            let stops = control.is_cancelled();
            is_last = last != Last::No && !stops;
            // What cannot be kept ends the training; why is told below.
            Ok(match noted.and_then(|()| keeper.save(&event, stops)) {
                Ok(()) if !stops && !is_last => ControlFlow::Continue(()),
                Ok(()) => ControlFlow::Break(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            })
        };
        let within = |work: &Work| control.report(&TrainEvent::Batches(*work));
        let heard = control.heard_by(&within);
        let trained = train_epochs(&mut *model, &plan, &schedule, validation, &mut progress, &heard, &mut hear);
        if let Some(error) = failed {
            return Err(error);
        }
        match trained? {
            // One more epoch, which is validated because it is the last of its schedule.
            StopReason::Asked if is_last && last == Last::Next && progress.epoch < schedule.epochs => {
                (schedule.epochs, last) = (progress.epoch + 1, Last::This);
            }
            StopReason::Asked if is_last && progress.epoch < spec.schedule.epochs => break StopReason::Time,
            StopReason::Asked if is_last => break StopReason::Epochs,
            stop => break stop,
        }
    };
    let (best_epoch, valid_mrr) = match &progress.best {
        Some(best) => (best.epoch, Some(best.mrr)),
        None => (progress.epoch, None),
    };
    let outcome = TrainSummary {
        epochs: progress.epoch,
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
    };
    // Whoever cancels wants to be gone soon.
    if stop == StopReason::Asked {
        return Ok((outcome, None));
    }
    keeper.trained(&*model, &progress)?;
    let mut notes = BTreeMap::from([
        ("epochs".to_string(), progress.epoch.to_string()),
        ("best_epoch".to_string(), best_epoch.to_string()),
    ]);
    notes.extend(valid_mrr.map(|mrr| ("valid_mrr".to_string(), mrr.to_string())));
    notes.extend(path_report.map(|report| ("paths".to_string(), json!(report).to_string())));
    if let Some(best) = progress.best {
        model.set_embeddings(best.embeddings)?;
    }
    let quiet = control.quiet();
    let calibration = Calibration::fit(&*model, data, spec.seed, &quiet)?;
    let truth = truth::of_model(&*model, rules, data, spec.seed, &quiet)?;
    Ok((outcome, Some(Parts { model: Some(model), notes, calibration, truth, ranking: None, weights: None })))
}

/// Rules as a model: nothing is trained, how they are summed is fitted on validation. The rules come back with it.
pub(crate) fn weigh(
    spec: &Spec,
    data: &Dataset,
    rules: Vec<RuleRecord>,
    keeper: &mut dyn Keeper,
    control: &Control<'_>,
) -> Result<Made<(Parts, Vec<RuleRecord>)>> {
    let rules = assemble::left_in(spec, data, rules);
    keeper.rules(&rules)?;
    let started = Instant::now();
    let mut outcome = TrainSummary {
        epochs: 0,
        best_epoch: 0,
        valid_mrr: None,
        fitted: None,
        seconds_per_epoch: 0.0,
        rules: rules.len(),
        groundings: 0,
        ground_seconds: 0.0,
        path_seconds: 0.0,
        paths: None,
        stop: StopReason::Asked,
    };
    let fitted = Prepared::new(rules, data, spec.rules.weighing(), control)
        .and_then(|prepared| fit(None, &prepared, data, control).map(|ranking| (prepared, ranking)));
    let (prepared, ranking) = match fitted {
        Err(RankError::Cancelled(_)) => return Ok((outcome, None)),
        fitted => fitted?,
    };
    let weights = prepared.weights(&ranking);
    let model = Combined::new(None, prepared.scores(), &ranking);
    let seconds = started.elapsed().as_secs_f64();
    let metrics = match data.valid() {
        [] => None,
        valid => {
            let questions = Questions::about(valid, data.filter());
            Some(questions.metrics(&questions.rank(&model, control)?))
        }
    };
    keeper.weighed(seconds, metrics.as_ref())?;
    let valid_mrr = metrics.map(|metrics| metrics.mrr);
    let mut notes = BTreeMap::from([("epochs".to_string(), "0".to_string())]);
    notes.extend(valid_mrr.map(|mrr| ("valid_mrr".to_string(), mrr.to_string())));
    let calibration = Calibration::fit(&model, data, spec.seed, control)?;
    let witness = Witness { ranker: &model, model: None, rules: model.rules(), graph: data.graph(), listed: None };
    let truth = Truth::fit(&witness, data, spec.seed, control)?;
    (outcome.valid_mrr, outcome.fitted) = (valid_mrr, Some(ranking.fitted));
    (outcome.rules, outcome.stop) = (prepared.rules.len(), StopReason::Epochs);
    let parts = Parts { model: None, notes, calibration, truth, ranking: Some(ranking), weights };
    Ok((outcome, Some((parts, prepared.rules))))
}
