//! A run within a time: how many epochs, and how large a model, the time is enough for.
//!
//! Before the first model is trained, an epoch and a validation are tried for a moment, and the settings are made small enough for the
//! time: fewer epochs first, then a smaller dimension as well. While the unguided model trains, the clock may end it earlier; the
//! guided model then gets the same number of epochs. Whatever was decided is a number in the spec: `spec.toml` makes the same run
//! again, to the bit, without any clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ruge::Spec;
use ruge::assemble;
use ruge::error::Result;
use ruge::identity::spec_text;
use ruge::model_file::data_hash;
use ruge::run::{Guides, of_epochs};
use ruge::spec::{NegativesSpec, RankingRules, Training};
use ruge_embed::{EmbedError, Evidence, Model, Plan};
use ruge_kg::{Cancelled, Control, Dataset, RankQuery, Work};

use super::bench::Bench;
use super::ledger::{Ledger, write_file};
use super::stagehand::Stagehand;
use super::{Job, Stage, unguided};

/// Share of the time that is planned with; the rest is for what nobody foresaw.
const PLANNED: f64 = 0.85;
/// Of the epochs wanted, the share below which the model is made smaller, too.
const FEW: f64 = 0.3;
/// No model is made smaller than that.
const LEAST_DIMENSION: usize = 20;
/// How many times longer rules for ranking are mined than those that guide, at least.
const MINING: f64 = 10.0;
/// Validation questions that are tried.
const TRIED: usize = 50;

/// Epochs that a finished training has done, for the forecast alone.
pub(super) fn epochs(job: &Job<'_>, stage: Stage) -> Option<u64> {
    let folder = match stage {
        Stage::TrainUnguided => "unguided",
        Stage::TrainGuided => "guided",
        _ => return None,
    };
    let curve = ruge::run::curve::read(&job.out.join(folder)).ok()?;
    curve.last().map(|line| line.epoch)
}

/// Makes the settings fit into the time, before the first model is trained. The answer: when its training has to end.
pub(super) fn fitted(
    stage: Stage,
    job: &mut Job<'_>,
    bench: &Bench<'_>,
    ledger: &mut Ledger,
    before: f64,
    watcher: &Stagehand<'_>,
) -> Result<Option<Instant>> {
    if !matches!(stage, Stage::TrainUnguided | Stage::TrainGuided) {
        return Ok(None);
    }
    let quiet = watcher.control.quiet();
    let shares = Shares::of(job, bench.guides(&quiet)?);
    watcher.clock.note(|forecast, _| {
        forecast
            .renew(|outlook| (outlook.guided, outlook.all, outlook.asked) = (shares.guided, shares.all, shares.asked));
    });
    let (Stage::TrainUnguided, Some(time)) = (stage, job.budget) else { return Ok(None) };
    let before = Duration::try_from_secs_f64(before).unwrap_or_default();
    let left = time.saturating_sub(before + watcher.clock.started.elapsed());
    if ledger.asked.is_some() {
        return still(job, shares, left, &quiet).map(Some);
    }
    let mined = ledger.stages.get(Stage::Mine.name()).map_or(0.0, |entry| entry.seconds);
    let sized = size(job, shares, left, mined, &quiet)?;
    ledger.asked = Some(ledger.spec.clone());
    decide(job, sized.spec, ledger)?;
    watcher.clock.note(|forecast, _| {
        forecast.renew(|outlook| (outlook.schedule, outlook.ranks) = (job.spec.schedule, ranks(job)));
    });
    watcher.note(&sized.said);
    Ok(Some(sized.until))
}

/// The clock may have ended the unguided training: the guided one, and all that reads the spec, gets the same number of epochs.
pub(super) fn came_to(job: &mut Job<'_>, epochs: u64, ledger: &mut Ledger, watcher: &Stagehand<'_>) -> Result<()> {
    if epochs >= job.spec.schedule.epochs {
        return Ok(());
    }
    let wanted = job.spec.schedule.epochs;
    watcher.note(&format!("time is short: both models are trained for at most {epochs} epochs instead of {wanted}"));
    decide(job, of_epochs(&job.spec, epochs), ledger)?;
    watcher.clock.note(|forecast, _| forecast.renew(|outlook| outlook.schedule = job.spec.schedule));
    Ok(())
}

/// Writes down what the run goes by from now on.
fn decide(job: &mut Job<'_>, spec: Spec, ledger: &mut Ledger) -> Result<()> {
    job.spec = spec;
    ledger.spec = job.spec.to_toml();
    ledger.write(&job.out)?;
    write_file(&job.out.join("spec.toml"), spec_text(&job.spec, &data_hash(job.data)).as_bytes())
}

/// What a model takes, in seconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    epoch: f64,
    validation: f64,
}

/// Costs of a run that do not depend on the settings.
#[derive(Clone, Copy, Debug)]
struct Shares {
    /// How much longer an epoch takes with guidance.
    guided: f64,
    /// How much longer one takes on all listed facts; nothing where no model is trained on them.
    all: f64,
    /// Whether rules are weighed for ranking.
    ranks: bool,
    /// Test triples for each triple that a validation ranks.
    asked: f64,
}

impl Shares {
    fn of(job: &Job<'_>, guides: &Guides) -> Self {
        let [train, valid, test] = [job.data.train(), job.data.valid(), job.data.test()].map(<[_]>::len);
        let validated = job.spec.schedule.validation_triples.unwrap_or(valid).min(valid).max(1);
        Self {
            guided: guided(&job.spec, guides, train),
            all: if job.deploys { (train + valid + test) as f64 / train.max(1) as f64 } else { 0.0 },
            ranks: ranks(job),
            asked: test as f64 / validated as f64,
        }
    }

    /// Seconds of an epoch of everything that is trained, its validations included.
    fn epoch(&self, spec: &Spec, pace: Pace) -> f64 {
        let validation = match spec.schedule.validate_every {
            0 => 0.0,
            every => pace.validation / every as f64,
        };
        let rules = if self.ranks { pace.epoch } else { 0.0 };
        pace.epoch * (1.0 + self.guided * (1.0 + self.all)) + 2.0 * validation + rules
    }

    /// The share of that which the unguided model takes.
    fn unguided(&self, spec: &Spec, pace: Pace) -> f64 {
        let validation = pace.validation / spec.schedule.validate_every.max(1) as f64;
        (pace.epoch + validation) / self.epoch(spec, pace).max(1e-9)
    }
}

/// Whether rules are weighed for ranking.
fn ranks(job: &Job<'_>) -> bool {
    job.ranks_with_rules() && job.spec.rules.ranking != RankingRules::None
}

/// How much longer an epoch takes with guidance: by the examples that rules add.
fn guided(spec: &Spec, guides: &Guides, train: usize) -> f64 {
    let added = guides.groundings.unlabeled().len() as f64;
    let trained = match &spec.training {
        // Premises are scored as well.
        Training::Negatives(NegativesSpec { negatives, .. }) => {
            return 1.0
                + (added + 2.0 * guides.groundings.len() as f64) / (train.max(1) * (1 + negatives.count)) as f64;
        }
        _ => train.max(1) as f64,
    };
    1.0 + added / trained
}

/// What came of making a run fit.
struct Sized {
    /// The settings.
    spec: Spec,
    /// When the unguided model has to be trained.
    until: Instant,
    /// What was decided, in a sentence.
    said: String,
}

/// Makes the settings fit into what is left of the time. `mined` is how long mining took.
fn size(job: &Job<'_>, shares: Shares, left: Duration, mined: f64, control: &Control<'_>) -> Result<Sized> {
    let now = Instant::now();
    let total = left.as_secs_f64();
    let mut spec = job.spec.clone();
    let mut shares = shares;
    // Mining for ranking is the one long step that no setting of the model makes shorter.
    let drops_rules = shares.ranks && spec.rules.ranking == RankingRules::Auto && MINING * mined > 0.3 * total;
    if drops_rules {
        spec.rules.ranking = RankingRules::None;
        shares.ranks = false;
    }
    let most = Duration::from_secs_f64((0.03 * total).clamp(0.2, 5.0));
    let mut pace = tried(&spec, job.data, most, control)?;
    let enough = |spec: &Spec, pace: Pace| {
        let rest = 12.0 * pace.validation * shares.asked;
        ((PLANNED * (total - rest)).max(0.0) / shares.epoch(spec, pace).max(1e-9)) as u64
    };
    let wanted = spec.schedule.epochs;
    let mut epochs = enough(&spec, pace);
    let dimension = spec.model.dimension;
    if (epochs as f64) < FEW * wanted as f64 && dimension > LEAST_DIMENSION && !job.keeps_dimension {
        let smaller = dimension as f64 * epochs.max(1) as f64 / (FEW * wanted as f64);
        spec.model.dimension = ((smaller / 10.0).round() as usize * 10).clamp(LEAST_DIMENSION, dimension);
        pace = tried(&spec, job.data, most, control)?;
        epochs = enough(&spec, pace);
    }
    spec.schedule.epochs = epochs.clamp(1, wanted);
    let told = |what: String| if what.is_empty() { "as wanted".to_string() } else { what };
    let mut changes = Vec::new();
    if spec.model.dimension < dimension {
        changes.push(format!("dimension {} instead of {dimension}", spec.model.dimension));
    }
    if spec.schedule.epochs < wanted {
        changes.push(format!("at most {} of {wanted} epochs", spec.schedule.epochs));
    }
    if drops_rules {
        changes.push("no rules at ranking time".into());
    }
    let said = format!(
        "sized to the time left, {:.1} min: {}; an epoch takes about {:.2} s, a validation {:.2} s",
        total / 60.0,
        told(changes.join(", ")),
        pace.epoch,
        pace.validation
    );
    Ok(Sized { until: ends(&spec, shares, pace, now + left, now), spec, said })
}

/// When the unguided model has to be trained, so that the rest of the run has its time.
fn ends(spec: &Spec, shares: Shares, pace: Pace, deadline: Instant, now: Instant) -> Instant {
    let left = deadline.saturating_duration_since(now).as_secs_f64();
    let rest = 12.0 * pace.validation * shares.asked;
    now + Duration::from_secs_f64((0.95 * (left - rest)).max(0.0) * shares.unguided(spec, pace))
}

/// The same for a run that goes on and was made to fit before.
fn still(job: &Job<'_>, shares: Shares, left: Duration, control: &Control<'_>) -> Result<Instant> {
    let now = Instant::now();
    let most = Duration::from_secs_f64((0.03 * left.as_secs_f64()).clamp(0.2, 5.0));
    let pace = tried(&job.spec, job.data, most, control)?;
    Ok(ends(&job.spec, shares, pace, now + left, now))
}

/// Trains the unguided model for a moment, and ranks some validation triples with it. Nothing of it is kept.
fn tried(spec: &Spec, data: &Dataset, most: Duration, control: &Control<'_>) -> Result<Pace> {
    let spec = unguided(spec);
    let evidence = Evidence::nothing();
    let examples = assemble::examples_for(&spec, evidence);
    let plan = assemble::plan(&spec, data, evidence, &examples)?;
    let mut model = assemble::model(&spec, data)?;
    let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let hear = |work: &Work| {
        done.store(work.done, Ordering::Relaxed);
        total.store(work.total, Ordering::Relaxed);
    };
    let begun = Instant::now();
    let short = control.until(Some(begun + most)).with_listener(&hear);
    let epoch = match model.epoch(&Plan { control: Some(&short), ..plan }, 1) {
        Err(EmbedError::Cancelled(_)) if control.is_cancelled() => return Err(Cancelled.into()),
        Err(EmbedError::Cancelled(_)) => {
            let part = done.into_inner().max(1) as f64 / total.into_inner().max(1) as f64;
            begun.elapsed().as_secs_f64() / part
        }
        losses => losses.map(|_| begun.elapsed().as_secs_f64())?,
    };
    Ok(Pace { epoch, validation: validation(&spec, data, &mut *model, control)? })
}

/// Seconds that a validation takes.
fn validation(spec: &Spec, data: &Dataset, model: &mut dyn Model, control: &Control<'_>) -> Result<f64> {
    let all = spec.schedule.validation_triples.unwrap_or(usize::MAX).min(data.valid().len());
    let some = all.min(TRIED);
    if some == 0 {
        return Ok(0.0);
    }
    let begun = Instant::now();
    model.rank(&RankQuery::both_sides(&data.valid()[..some]), Some(data.filter()), &control.quiet())?;
    Ok(begun.elapsed().as_secs_f64() * all as f64 / some as f64)
}
