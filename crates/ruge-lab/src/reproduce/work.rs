//! Filling one cell for one seed: mine, ground, train, rank, record.

use ruge_kg::{Cancelled, Control, Ranker, Side};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ruge_embed::StopReason;
use ruge_kg::Dataset;
use ruge_rules::{RuleFormat, RuleReadOptions, RuleRecord, SoftRule, parse_rules};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::cells::{Cell, Point, RankBy, Task, portable};
use super::record::{Beside, Example, Figures, Record, RuleCounts, Seconds, Tried, spec_json, utc};
use ruge::assemble;
use ruge::combine::combine;
use ruge::error::{Result, RugeError};
use ruge::evaluate::{Questions, ranks_sha256};
use ruge::model_file::{data_hash, hex};
use ruge::run::{Grounds, Mode, Run, Tick, TrainEvent, curve};
use ruge::spec::{DeviceName, RankingRules, RulesSpec, Spec};
use ruge::{Engine, OpenOptions};
use ruge_rules::rank::only::RulesOnly;
use ruge_rules::rank::{Prepared, Ranking};

/// Above so many rules the rules-only row is left out of training cells: walking them all costs more than training.
pub const MOST_RULES_ALONE: usize = 5_000;

/// Where things lie, and who is told.
pub struct Place<'a> {
    /// The folder of table files and specs.
    pub experiments: &'a Path,
    /// The folder of records.
    pub records: &'a Path,
    /// The folder of data sets.
    pub data: &'a Path,
    /// The folder of run folders.
    pub runs: &'a Path,
    /// Where to compute.
    pub device: DeviceName,
    /// The same in words, for the record.
    pub device_words: &'a str,
    /// The program's version.
    pub version: &'a str,
    /// The commit it was built from; empty if unknown.
    pub commit: &'a str,
    /// Begins no point after this.
    pub until: Option<Instant>,
    /// Runs again what is recorded.
    pub force: bool,
    /// Rules for ranking that the last cell needed, by the hash of their data and where they come from: all seeds of a cell share them.
    pub ranking_rules: RefCell<Option<(String, RankingRules, Arc<Prepared>)>>,
}

impl Place<'_> {
    /// Whether nothing new should begin.
    pub fn is_over(&self, control: &CellControl<'_>) -> bool {
        control.until(self.until).is_cancelled()
    }

    /// Rules to rank with in addition to models of these data, mined and weighed once.
    fn ranking_rules(&self, data: &Dataset, wanted: &RulesSpec, control: &CellControl<'_>) -> Result<Arc<Prepared>> {
        let hash = data_hash(data);
        if let Some((of, from, prepared)) = &*self.ranking_rules.borrow()
            && (of, from, prepared.weighing()) == (&hash, &wanted.ranking, wanted.weighing())
        {
            return Ok(Arc::clone(prepared));
        }
        let rules = assemble::ranking_rules(wanted, data, &control.quiet())?;
        let prepared = Arc::new(Prepared::beside(rules, data, wanted.weighing(), &control.quiet())?);
        *self.ranking_rules.borrow_mut() = Some((hash, wanted.ranking.clone(), Arc::clone(&prepared)));
        Ok(prepared)
    }
}

/// Hears of a cell, and may cancel it.
pub type CellControl<'c> = Control<'c, CellEvent>;

/// What happens while a cell is filled.
#[derive(Clone, Debug)]
pub enum CellEvent {
    /// A point begins: its number, their count, its leaves.
    Point(usize, usize, BTreeMap<String, Value>),
    /// Rules are grounded.
    Grounded(RuleCounts),
    /// An epoch of so many is done.
    Epoch(Tick, u64),
    /// A point failed and the others go on.
    Failed(String),
}

/// How filling a cell ended.
#[derive(Clone, Debug)]
pub enum Filled {
    /// There was a record of this setting.
    Kept(Record),
    /// Filled.
    Done(Record),
    /// Time was up, or a stop was asked for; the same command goes on.
    Unfinished,
}

/// Fills a cell for a seed, or finds it filled.
pub fn fill(
    cell: &Cell,
    seed: u64,
    place: &Place<'_>,
    data: &mut dyn FnMut() -> Result<std::sync::Arc<Dataset>>,
    control: &CellControl<'_>,
) -> Result<Filled> {
    let points = cell.points(place.experiments, place.data, seed, place.device)?;
    let path = cell.record_path(place.records, seed);
    let kept = Record::read(&path)?.filter(|record| record.is_current(cell, &points));
    let mut record = match kept {
        Some(record) if record.complete && !place.force => return Ok(Filled::Kept(record)),
        Some(record) if !record.complete => record,
        _ => Record::default(),
    };
    if place.is_over(control) {
        return Ok(Filled::Unfinished);
    }
    let data = data()?;
    let named = Record {
        cell: cell.name.clone(),
        method: cell.method.clone(),
        data: cell.data.clone(),
        data_sha256: data_hash(&data),
        seed,
        rank_by: cell.rank_by,
        version: place.version.into(),
        commit: place.commit.into(),
        device: place.device_words.into(),
        ..Record::default()
    };
    for (index, point) in points.iter().enumerate() {
        if points.len() > 1 && record.tried(&point.leaves) {
            continue;
        }
        if place.is_over(control) {
            return Ok(Filled::Unfinished);
        }
        control.report(&CellEvent::Point(index + 1, points.len(), point.leaves.clone()));
        let folder = run_folder(place.runs, cell, &point.spec);
        let fresh = match try_point(cell, point, &data, place, &folder, Mode::Continue, named.clone(), control) {
            Ok(fresh) => fresh,
            Err(error) if error.is_cancelled() => return Ok(Filled::Unfinished),
            // A point of a grid may diverge; that is a result, and no reason to stop.
            Err(RugeError::Embed(error)) if points.len() > 1 => {
                control.report(&CellEvent::Failed(error.to_string()));
                let failed = Tried {
                    leaves: point.leaves.clone(),
                    valid_mrr: None,
                    best_epoch: 0,
                    epochs: 0,
                    seconds_per_epoch: 0.0,
                    failed: Some(error.to_string()),
                };
                let mut points = std::mem::take(&mut record.points);
                points.push(failed);
                record = Record { points, ..if record.spec.is_none() { named.clone() } else { record } };
                record.write(&path)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut tried = std::mem::take(&mut record.points);
        if points.len() > 1 {
            tried.push(Tried {
                leaves: point.leaves.clone(),
                valid_mrr: fresh.valid.as_ref().map(|valid| valid.mrr),
                best_epoch: fresh.best_epoch,
                epochs: fresh.epochs,
                seconds_per_epoch: fresh.seconds.epoch.unwrap_or(0.0),
                failed: None,
            });
        }
        let mrr = |record: &Record| record.valid.as_ref().map(|valid| valid.mrr);
        if record.spec.is_none() || mrr(&record).is_none_or(|old| mrr(&fresh).is_some_and(|new| new > old)) {
            record = fresh;
        }
        record.points = tried;
        record.write(&path)?;
    }
    if record.spec.is_none() {
        return Err(RugeError::refused(format!(
            "every point of the cell {:?} failed; see {}",
            cell.name,
            path.display()
        )));
    }
    record.complete = true;
    record.write(&path)?;
    Ok(Filled::Done(record))
}

/// Runs the recorded spec of a cell anew, beside the runs there are, and returns what came out; `None` when cancelled.
pub fn repeat(
    cell: &Cell,
    recorded: &Record,
    place: &Place<'_>,
    data: &Dataset,
    control: &CellControl<'_>,
) -> Result<Option<Record>> {
    let mut spec = recorded.spec()?.ok_or_else(|| {
        RugeError::spec(format!(
            "the result of {:?} was recorded without its resolved spec; run the cell once, then verify",
            cell.name
        ))
    })?;
    spec.device = place.device;
    if let Some(file) = &mut spec.rules.file
        && !Path::new(file.as_str()).exists()
        && let Some(name) = Path::new(file.as_str()).file_name()
    {
        *file = place.data.join(&cell.data).join(name).display().to_string();
    }
    let folder = run_folder(&place.runs.join("verify"), cell, &spec);
    let point = Point { leaves: BTreeMap::new(), spec };
    let named = Record { device: place.device_words.into(), ..Record::default() };
    match try_point(cell, &point, data, place, &folder, Mode::Force, named, control) {
        Err(error) if error.is_cancelled() => Ok(None),
        repeated => repeated.map(Some),
    }
}

/// The spec that a cell trains with. Where rules are added to the trained model, their settings are no part of it: cells that differ
/// only in them share the model.
fn trained_spec(cell: &Cell, spec: &Spec) -> Spec {
    match cell.rank_by {
        RankBy::Combined => Spec { rules: spec.rules.in_training(), ..spec.clone() },
        RankBy::Model | RankBy::RulesFirst => spec.clone(),
    }
}

/// The first digits of the hash of a spec, the same on any machine.
fn short_hash(spec: &Spec) -> String {
    hex(&Sha256::digest(portable(spec, spec.device).to_toml())).chars().take(12).collect()
}

/// Named by all that the trained model depends on, so that two cells of one setting share it.
fn run_folder(runs: &Path, cell: &Cell, spec: &Spec) -> PathBuf {
    let short = short_hash(&trained_spec(cell, spec));
    runs.join(format!("{}-{}-{}-{short}", cell.data, spec.model.name.name(), spec.guidance().name()))
}

#[allow(clippy::too_many_arguments)]
fn try_point(
    cell: &Cell,
    point: &Point,
    data: &Dataset,
    place: &Place<'_>,
    folder: &Path,
    mode: Mode,
    record: Record,
    control: &CellControl<'_>,
) -> Result<Record> {
    let mut record = Record { spec: Some(spec_json(&elsewhere(&point.spec, place.data))), ..record };
    match cell.work {
        Task::Statistics => statistics(cell, &point.spec, data, &mut record, control)?,
        Task::Train | Task::Time => train(cell, &point.spec, data, place, (folder, mode), &mut record, control)?,
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    record.time = utc(now.as_secs());
    Ok(record)
}

/// The spec as it would be written anywhere: the data folder goes by its usual name.
fn elsewhere(spec: &Spec, data: &Path) -> Spec {
    let mut spec = spec.clone();
    if let Some(file) = &mut spec.rules.file
        && let Ok(within) = Path::new(file.as_str()).strip_prefix(data)
    {
        *file = Path::new("data").join(within).display().to_string();
    }
    spec
}

fn counts(spec: &Spec, found: &Grounds) -> RuleCounts {
    let most = spec.rules.most_groundings.filter(|most| *most < found.groundings);
    RuleCounts {
        rules: found.rules as u64,
        groundings: found.groundings as u64,
        unlabeled: found.unlabeled as u64,
        in_valid: found.in_valid as u64,
        in_test: found.in_test as u64,
        per_epoch: most.map(|most| most as u64),
    }
}

/// The rules alone on the test triples.
fn rules_only(rules: &[SoftRule], data: &Dataset, control: &CellControl<'_>) -> Result<Option<Figures>> {
    if rules.is_empty() || data.test().is_empty() {
        return Ok(None);
    }
    let questions = Questions::about(data.test(), data.filter());
    let ranks = questions.rank_by_rules(&RulesOnly::new(data.graph(), rules), &control.quiet())?;
    Ok(Some(Figures::of(&questions.metrics(&ranks))))
}

fn soft(rules: &[RuleRecord]) -> Vec<SoftRule> {
    rules.iter().map(RuleRecord::soft).collect()
}

/// Mines and grounds.
fn statistics(cell: &Cell, spec: &Spec, data: &Dataset, record: &mut Record, control: &CellControl<'_>) -> Result<()> {
    let started = Instant::now();
    let rules = assemble::rules_of(&spec.rules, data, &control.quiet())?;
    record.seconds.mining = spec.rules.file.is_none().then(|| started.elapsed().as_secs_f64());
    let started = Instant::now();
    let (rules, groundings) = assemble::grounded(spec, data, rules, &control.quiet())?;
    record.seconds.grounding = Some(started.elapsed().as_secs_f64());
    let counts = counts(spec, &Grounds::of(rules.len(), &groundings, data));
    control.report(&CellEvent::Grounded(counts));
    record.rules = Some(counts);
    record.rules_only = rules_only(&soft(&rules), data, control)?;
    record.examples = examples(cell, &rules, data)?;
    Ok(())
}

/// Looks for the paper's rules among ours.
fn examples(cell: &Cell, rules: &[RuleRecord], data: &Dataset) -> Result<Vec<Example>> {
    let options = RuleReadOptions { format: Some(RuleFormat::Ruge), ..RuleReadOptions::default() };
    let mut found = Vec::new();
    for text in &cell.examples {
        let mut names = data.names().clone();
        let wanted = parse_rules(&format!("{text}\t1\n"), &options, &mut names)?.rules;
        let Some(wanted) = wanted.first().map(|record| record.rule.canonical()) else {
            return Err(RugeError::spec(format!("the cell {:?} names {text:?}, which is not a rule", cell.name)));
        };
        let same = rules.iter().find(|record| record.rule.canonical() == wanted);
        found.push(Example { rule: text.clone(), confidence: same.map(|record| record.confidence.get()) });
    }
    Ok(found)
}

/// Trains, resuming what is there, and ranks.
fn train(
    cell: &Cell,
    spec: &Spec,
    data: &Dataset,
    place: &Place<'_>,
    (folder, mode): (&Path, Mode),
    record: &mut Record,
    control: &CellControl<'_>,
) -> Result<()> {
    let started = Instant::now();
    let rules = match spec.takes_rules() || cell.rank_by == RankBy::RulesFirst {
        true => assemble::rules_of(&spec.rules, data, &control.quiet())?,
        false => Vec::new(),
    };
    if !rules.is_empty() && spec.rules.file.is_none() {
        record.seconds.mining = Some(started.elapsed().as_secs_f64());
    }
    let (guided, given) = (spec.guidance().takes_rules(), spec.takes_rules());
    let found = Mutex::new(RuleCounts::default());
    let hear = |event: &TrainEvent| match event {
        TrainEvent::Grounded(grounds) => {
            let counts = counts(spec, grounds);
            *found.lock().unwrap_or_else(PoisonError::into_inner) = counts;
            if guided {
                control.report(&CellEvent::Grounded(counts));
            }
        }
        TrainEvent::Epoch(tick) => control.report(&CellEvent::Epoch(tick.clone(), spec.schedule.epochs)),
        TrainEvent::Paths(_) | TrainEvent::Batches(_) => {}
    };
    let trained_spec = trained_spec(cell, spec);
    let run = Run::open(&trained_spec, data, folder, mode)?.checkpoint_every(Duration::from_secs(60));
    let trained = run.train(if given { rules.clone() } else { Vec::new() }, &control.heard_by(&hear))?;
    if trained.stop == StopReason::Asked {
        return Err(Cancelled.into());
    }
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let curve = Curve::read(folder, trained.epochs)?;
    record.epochs = trained.epochs;
    record.best_epoch = trained.best_epoch;
    record.valid = curve.valid_at(trained.best_epoch);
    record.curve = curve.valid.iter().map(|(epoch, figures)| (*epoch, round(figures.mrr))).collect();
    record.rules = guided.then_some(found);
    record.seconds = Seconds {
        mining: record.seconds.mining,
        grounding: guided.then_some(trained.ground_seconds),
        paths: trained.paths.map(|_| trained.path_seconds),
        epoch: curve.mean(),
        median_epoch: curve.median(),
        training: Some(curve.seconds.iter().sum()),
        ranking: None,
    };
    if cell.work == Task::Time || data.test().is_empty() {
        return Ok(());
    }
    let on_device = OpenOptions { device: spec.device, ..OpenOptions::default() };
    let mut engine = Engine::open_with(&folder.join("model.safetensors"), &on_device)?;
    if cell.rank_by == RankBy::Combined {
        engine = beside(&engine, data, folder, spec, place, record, control)?;
    }
    let by_rules = if guided && engine.ranking().is_none() { soft(engine.rules()) } else { soft(&rules) };
    if by_rules.len() <= MOST_RULES_ALONE {
        record.rules_only = rules_only(&by_rules, data, control)?;
    }
    evaluate(cell, engine.ranker(), &by_rules, data, record, control)
}

/// The model with rules mined for ranking, whatever guided it.
fn beside(
    engine: &Engine,
    data: &Dataset,
    folder: &Path,
    spec: &Spec,
    place: &Place<'_>,
    record: &mut Record,
    control: &CellControl<'_>,
) -> Result<Engine> {
    let started = Instant::now();
    let prepared = place.ranking_rules(data, &spec.rules, control)?;
    // The trained model is shared; what is made of it has a folder by its settings.
    let name = match spec.rules == spec.rules.in_training() {
        true => "with-rules".to_string(),
        false => format!("with-rules-{}", short_hash(spec)),
    };
    let combined = combine(engine, &prepared, &folder.join(name), Mode::Force, &control.quiet())?;
    let seconds = started.elapsed().as_secs_f64();
    let questions = Questions::about(data.test(), data.filter());
    let alone = questions.metrics(&questions.rank(engine.ranker(), &control.quiet())?);
    let Ranking { fitted, tried, evidence_tried, hiding, .. } = combined.ranking;
    let (rules, alone) = (combined.rules, Figures::of(&alone));
    record.beside = Some(Beside { rules, fitted, tried, evidence_tried, hiding, alone, seconds });
    Engine::open_with(&combined.model, &OpenOptions { device: spec.device, ..OpenOptions::default() })
}

fn evaluate(
    cell: &Cell,
    ranker: &dyn Ranker,
    rules: &[SoftRule],
    data: &Dataset,
    record: &mut Record,
    control: &CellControl<'_>,
) -> Result<()> {
    let questions = Questions::about(data.test(), data.filter());
    let started = Instant::now();
    let mut ranks = questions.rank(ranker, &control.quiet())?;
    if cell.rank_by == RankBy::RulesFirst {
        let rules = RulesOnly::new(data.graph(), rules);
        ranks = rules.rank_first(&questions.queries, Some(data.filter()), ranker, &ranks, &control.quiet())?;
    }
    record.seconds.ranking = Some(started.elapsed().as_secs_f64());
    let evaluation = questions.evaluation(&ranks, data.graph());
    record.test = Some(Figures::of(&evaluation.pooled));
    let side = |side| evaluation.by_side.get(&side).map(Figures::of);
    (record.head, record.tail) = (side(Side::Head), side(Side::Tail));
    record.ranks_sha256 = Some(ranks_sha256(&ranks));
    Ok(())
}

fn round(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

/// What tables show of a learning curve.
struct Curve {
    seconds: Vec<f64>,
    /// Validations by epoch.
    valid: Vec<(u64, Figures)>,
}

impl Curve {
    fn read(folder: &Path, epochs: u64) -> Result<Self> {
        let mut curve = Self { seconds: Vec::new(), valid: Vec::new() };
        for line in curve::read(folder)?.into_iter().filter(|line| line.epoch <= epochs) {
            curve.seconds.extend(line.seconds);
            if let Some(mrr) = line.valid_mrr {
                let (hits, med) = (line.valid_hits.unwrap_or_default(), line.valid_median.unwrap_or(f64::NAN));
                curve.valid.push((line.epoch, Figures { mrr, med, hits, ..Figures::default() }));
            }
        }
        Ok(curve)
    }

    fn valid_at(&self, epoch: u64) -> Option<Figures> {
        self.valid.iter().find(|(of, _)| *of == epoch).map(|(_, figures)| figures.clone())
    }

    fn mean(&self) -> Option<f64> {
        (!self.seconds.is_empty()).then(|| self.seconds.iter().sum::<f64>() / self.seconds.len() as f64)
    }

    fn median(&self) -> Option<f64> {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}
