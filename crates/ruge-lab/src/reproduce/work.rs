//! Filling one cell for one seed: mine, ground, train, rank, record.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ruge_embed::Model;
use ruge_embed::rank::Side;
use ruge_kg::Dataset;
use ruge_rules::{Groundings, RuleFormat, RuleReadOptions, RuleRecord, SoftRule, Watch, parse_rules};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::cells::{Cell, Point, RankBy, Work, portable};
use super::record::{Beside, Example, Figures, Record, RuleCounts, Seconds, Tried, spec_json, utc};
use ruge::assemble;
use ruge::combine::{self, Effort, Prepared};
use ruge::error::{Result, RugeError};
use ruge::evaluate::{Questions, ranks_sha256};
use ruge::model_file::{ModelFile, data_hash, hex};
use ruge::rules_only::RulesOnly;
use ruge::run::{self, Listener, Mode, Tick, curve};
use ruge::spec::{DeviceName, MinePreset, RulesSpec, Spec};

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
    /// Set from outside to stop after the current epoch.
    pub stop: &'a AtomicBool,
    /// Runs again what is recorded.
    pub force: bool,
    /// Rules for ranking that the last cell needed, by the hash of their data: all seeds of a cell share them.
    pub ranking_rules: RefCell<Option<(String, Arc<Prepared>)>>,
}

impl Place<'_> {
    /// Whether nothing new should begin.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Rules to stand beside models of these data, mined and weighed once; `None` when stopped.
    fn ranking_rules(&self, data: &Dataset, effort: Effort) -> Result<Option<Arc<Prepared>>> {
        let hash = data_hash(data);
        if let Some((of, prepared)) = &*self.ranking_rules.borrow()
            && (of, prepared.effort()) == (&hash, effort)
        {
            return Ok(Some(Arc::clone(prepared)));
        }
        let watch = Watch { stop: Some(self.stop), ..Watch::default() };
        let mining = RulesSpec { mine: MinePreset::Ranking, ..RulesSpec::default() };
        let Some(rules) = assemble::mined(&mining, data, &watch)? else { return Ok(None) };
        let Some(prepared) = Prepared::beside(rules, data, effort, &watch)?.map(Arc::new) else { return Ok(None) };
        *self.ranking_rules.borrow_mut() = Some((hash, Arc::clone(&prepared)));
        Ok(Some(prepared))
    }
}

/// What a listener hears.
#[derive(Clone, Debug)]
pub enum News<'n> {
    /// A point begins: its number, their count, its leaves.
    Point(usize, usize, &'n BTreeMap<String, Value>),
    /// Rules are grounded.
    Grounded(RuleCounts),
    /// An epoch of so many is done.
    Tick(&'n Tick<'n>, u64),
    /// A point failed and the others go on.
    Failed(&'n str),
}

/// How filling a cell ended.
#[derive(Clone, Debug)]
pub enum Outcome {
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
    hear: &mut dyn FnMut(News<'_>),
) -> Result<Outcome> {
    let points = cell.points(place.experiments, place.data, seed, place.device)?;
    let path = cell.record_path(place.records, seed);
    let kept = Record::read(&path)?.filter(|record| record.is_current(cell, &points));
    let mut record = match kept {
        Some(record) if record.complete && !place.force => return Ok(Outcome::Kept(record)),
        Some(record) if !record.complete => record,
        _ => Record::default(),
    };
    if place.is_over() {
        return Ok(Outcome::Unfinished);
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
        if place.is_over() {
            return Ok(Outcome::Unfinished);
        }
        hear(News::Point(index + 1, points.len(), &point.leaves));
        let folder = run_folder(place.runs, cell, &point.spec);
        let fresh = match try_point(cell, point, &data, place, &folder, Mode::Continue, named.clone(), hear) {
            Ok(Some(fresh)) => fresh,
            Ok(None) => return Ok(Outcome::Unfinished),
            // A point of a grid may diverge; that is a result, and no reason to stop.
            Err(RugeError::Embed(error)) if points.len() > 1 => {
                hear(News::Failed(&error.to_string()));
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
        return Err(RugeError::Spec(format!("every point of the cell {:?} failed; see {}", cell.name, path.display())));
    }
    record.complete = true;
    record.write(&path)?;
    Ok(Outcome::Done(record))
}

/// Runs the recorded spec of a cell anew, beside the runs there are, and returns what came out; `None` when stopped.
pub fn repeat(
    cell: &Cell,
    recorded: &Record,
    place: &Place<'_>,
    data: &Dataset,
    hear: &mut dyn FnMut(News<'_>),
) -> Result<Option<Record>> {
    let mut spec = recorded.spec()?.ok_or_else(|| {
        RugeError::Spec(format!(
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
    try_point(cell, &point, data, place, &folder, Mode::Force, named, hear)
}

/// Named by all that the run depends on, so that two cells of one setting share it.
fn run_folder(runs: &Path, cell: &Cell, spec: &Spec) -> PathBuf {
    let hash = hex(&Sha256::digest(portable(spec, spec.device).to_toml()));
    let short: String = hash.chars().take(12).collect();
    runs.join(format!("{}-{}-{}-{short}", cell.data, spec.model.name.name(), spec.guidance.name()))
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
    hear: &mut dyn FnMut(News<'_>),
) -> Result<Option<Record>> {
    let mut record = Record { spec: Some(spec_json(&elsewhere(&point.spec, place.data))), ..record };
    let done = match cell.work {
        Work::Statistics => statistics(cell, &point.spec, data, place, &mut record, hear)?,
        Work::Train | Work::Time => train(cell, &point.spec, data, place, (folder, mode), &mut record, hear)?,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    record.time = utc(now.as_secs());
    Ok(done.then_some(record))
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

fn counts(spec: &Spec, rules: usize, groundings: &Groundings, data: &Dataset) -> RuleCounts {
    let most = spec.rules.most_groundings.filter(|most| *most < groundings.len());
    RuleCounts {
        rules: rules as u64,
        groundings: groundings.len() as u64,
        unlabeled: groundings.unlabeled().len() as u64,
        in_valid: groundings.overlap(data.valid()) as u64,
        in_test: groundings.overlap(data.test()) as u64,
        per_epoch: most.map(|most| most as u64),
    }
}

/// The rules alone on the test triples.
fn rules_only(rules: &[SoftRule], data: &Dataset) -> Result<Option<Figures>> {
    if rules.is_empty() || data.test().is_empty() {
        return Ok(None);
    }
    let questions = Questions::about(data.test(), data.filter());
    let ranks = questions.rank_by_rules(&RulesOnly::new(data.graph(), rules), &|_| ())?;
    Ok(Some(Figures::of(&questions.metrics(&ranks))))
}

fn soft(rules: &[RuleRecord]) -> Vec<SoftRule> {
    rules.iter().map(RuleRecord::soft).collect()
}

/// Mines and grounds. False when stopped.
fn statistics(
    cell: &Cell,
    spec: &Spec,
    data: &Dataset,
    place: &Place<'_>,
    record: &mut Record,
    hear: &mut dyn FnMut(News<'_>),
) -> Result<bool> {
    let started = Instant::now();
    let watch = Watch { stop: Some(place.stop), ..Watch::default() };
    let rules = assemble::rules_of(&spec.rules, data, &watch);
    if place.stop.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let rules = rules?;
    record.seconds.mining = spec.rules.file.is_none().then(|| started.elapsed().as_secs_f64());
    let started = Instant::now();
    let (rules, groundings) = assemble::grounded(spec, data, rules)?;
    record.seconds.grounding = Some(started.elapsed().as_secs_f64());
    let counts = counts(spec, rules.len(), &groundings, data);
    hear(News::Grounded(counts));
    record.rules = Some(counts);
    record.rules_only = rules_only(&soft(&rules), data)?;
    record.examples = examples(cell, &rules, data)?;
    Ok(true)
}

/// Looks for the paper's rules among ours.
fn examples(cell: &Cell, rules: &[RuleRecord], data: &Dataset) -> Result<Vec<Example>> {
    let options = RuleReadOptions { format: Some(RuleFormat::Ruge), ..RuleReadOptions::default() };
    let mut found = Vec::new();
    for text in &cell.examples {
        let mut names = data.names().clone();
        let wanted = parse_rules(&format!("{text}\t1\n"), &options, &mut names)?.rules;
        let Some(wanted) = wanted.first().map(|record| record.rule.canonical()) else {
            return Err(RugeError::Spec(format!("the cell {:?} names {text:?}, which is not a rule", cell.name)));
        };
        let same = rules.iter().find(|record| record.rule.canonical() == wanted);
        found.push(Example { rule: text.clone(), confidence: same.map(|record| record.confidence.get()) });
    }
    Ok(found)
}

/// Trains, resuming what is there, and ranks. False when stopped.
fn train(
    cell: &Cell,
    spec: &Spec,
    data: &Dataset,
    place: &Place<'_>,
    (folder, mode): (&Path, Mode),
    record: &mut Record,
    hear: &mut dyn FnMut(News<'_>),
) -> Result<bool> {
    let started = Instant::now();
    let watch = Watch { stop: Some(place.stop), ..Watch::default() };
    let rules = match spec.takes_rules() || cell.rank_by == RankBy::RulesFirst {
        true => assemble::rules_of(&spec.rules, data, &watch),
        false => Ok(Vec::new()),
    };
    if place.stop.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let rules = rules?;
    if !rules.is_empty() && spec.rules.file.is_none() {
        record.seconds.mining = Some(started.elapsed().as_secs_f64());
    }
    let (guided, given) = (spec.guidance.takes_rules(), spec.takes_rules());
    let hear = std::cell::RefCell::new(hear);
    let mut found = RuleCounts::default();
    let trained = run::train(
        spec,
        data,
        if given { rules.clone() } else { Vec::new() },
        folder,
        mode,
        &mut Listener {
            grounded: &mut |rules, groundings| {
                found = counts(spec, rules, groundings, data);
                if guided {
                    (hear.borrow_mut())(News::Grounded(found));
                }
            },
            paths: &mut |_| (),
            tick: &mut |tick| (hear.borrow_mut())(News::Tick(tick, spec.schedule.epochs)),
            stop: place.stop,
            checkpoint_every: Duration::from_secs(60),
        },
    )?;
    if place.stop.load(Ordering::Relaxed) {
        return Ok(false);
    }
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
    if cell.work == Work::Time || data.test().is_empty() {
        return Ok(true);
    }
    let mut file = ModelFile::read(&trained.model)?;
    if cell.rank_by == RankBy::Combined {
        match beside(&file, data, folder, spec, place, record)? {
            Some(with_rules) => file = with_rules,
            None => return Ok(false),
        }
    }
    let model = file.model_on(spec.device)?;
    let by_rules = if guided && file.ranking.is_none() { soft(&file.rules) } else { soft(&rules) };
    if by_rules.len() <= MOST_RULES_ALONE {
        record.rules_only = rules_only(&by_rules, data)?;
    }
    evaluate(cell, &*model, &by_rules, data, record)?;
    Ok(true)
}

/// The model with rules beside it, mined for ranking whatever guided it; `None` when stopped.
fn beside(
    file: &ModelFile,
    data: &Dataset,
    folder: &Path,
    spec: &Spec,
    place: &Place<'_>,
    record: &mut Record,
) -> Result<Option<ModelFile>> {
    let started = Instant::now();
    let Some(prepared) = place.ranking_rules(data, Effort::of(spec.rules.thorough))? else { return Ok(None) };
    let combined = combine::combine(file, &prepared, &folder.join("with-rules"), Mode::Force, spec.device)?;
    let seconds = started.elapsed().as_secs_f64();
    let questions = Questions::about(data.test(), data.filter());
    let alone = questions.metrics(&questions.rank(&*file.model_on(spec.device)?, &|_| ())?);
    let combine::Ranking { fitted, tried, .. } = combined.ranking;
    record.beside = Some(Beside { rules: combined.rules, fitted, tried, alone: Figures::of(&alone), seconds });
    Ok(Some(ModelFile::read(&combined.model)?))
}

fn evaluate(cell: &Cell, model: &dyn Model, rules: &[SoftRule], data: &Dataset, record: &mut Record) -> Result<()> {
    let questions = Questions::about(data.test(), data.filter());
    let started = Instant::now();
    let mut ranks = questions.rank(model, &|_| ())?;
    if cell.rank_by == RankBy::RulesFirst {
        let rules = RulesOnly::new(data.graph(), rules);
        ranks = rules.rank_first(&questions.queries, Some(data.filter()), model, &ranks)?;
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
