//! The stages: each reads what the ones before it left, leaves its own file, and says in a sentence what came out.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ruge_kg::{Cancelled, Dataset, Triple, Work, describe, visible};
use ruge_rules::words::is_sayable;
use ruge_rules::{RuleFormat, RuleReadOptions, RuleRecord, RuleWriteOptions, SoftRule, read_rules_about, write_rules};

use super::bench::Bench;
use super::findings::{
    Checked, Comparison, Findings, GroundingCounts, Learned, Obedience, PROPOSALS, SystemResult, Trust, WithRules,
    store,
};
use super::ledger::write_file;
use super::{Job, MOST_WITH_RULES, Stage, Stagehand, deploy, samples, unguided};
use ruge::Engine;
use ruge::assemble;
use ruge::budget::ranking_steps;
use ruge::calibrate::Calibration;
use ruge::combine::{combine_within, kept};
use ruge::consistency::{consistency_over, doubtful};
use ruge::error::{Result, RugeError};
use ruge::evaluate::{Questions, ranks_sha256};
use ruge::explain::Explainer;
use ruge::identity::{Papers, spec_text};
use ruge::model_file::{Contents, ModelFile, data_hash};
use ruge::prepare::{self, Hearers, prepare};
use ruge::run::{Guides, Run, TrainEvent, curve};
use ruge::spec::{RulesSpec, SoftmaxSpec, Training};
use ruge_rules::rank::only::RulesOnly;
use ruge_rules::rank::validated::validated;
use ruge_rules::rank::{Ranking, Tried, Weighing};

/// Doubtful training triples kept for people to look at.
const DOUBTFUL: usize = 20;

/// Takes one stage. The answer says what came out.
pub(super) fn take(
    stage: Stage,
    job: &Job<'_>,
    bench: &Bench<'_>,
    anew: bool,
    watcher: &Stagehand<'_>,
) -> Result<String> {
    match stage {
        Stage::Check => check(job, watcher),
        Stage::Mine => mine(job, bench, watcher),
        Stage::Ground => ground_rules(job, bench, watcher),
        Stage::TrainUnguided => train_unguided(job, anew, watcher),
        Stage::TrainGuided => train_guided(job, bench, anew, watcher),
        Stage::WithRules => with_rules(job, bench, anew, watcher),
        Stage::Evaluate => evaluate(job, bench, watcher),
        Stage::Calibrate => calibrate(job, bench, watcher),
        Stage::Consistency => obey(job, bench, watcher),
        Stage::Deploy => deploy::deploy(job, bench, anew, watcher),
        Stage::Predict => predict(job, bench, watcher),
        Stage::Report => report(job, watcher),
    }
}

fn check(job: &Job<'_>, watcher: &Stagehand<'_>) -> Result<String> {
    let stats = describe(job.data);
    let names = &job.data.names().relations;
    let splits = stats.splits.map(|split| split.triples);
    let checked = Checked {
        entities: stats.entities,
        relations: stats.relations,
        splits,
        overlap: stats.overlap.train_valid + stats.overlap.train_test,
        unseen: stats.splits[1..].iter().map(|split| split.with_unseen_entity + split.with_unseen_relation).sum(),
        copyable: (splits[2] > 0).then_some(stats.test_leakage.share_copyable),
        largest: stats.relation_sizes.largest.iter().map(|&(id, facts)| (names.name(id).to_string(), facts)).collect(),
    };
    for (missing, what) in [
        (
            splits[1] == 0,
            "no valid triples: the last epoch is kept instead of the best, and truth values are not calibrated",
        ),
        (splits[2] == 0 && splits[1] > 0, "no test triples: figures are on valid, which also chose the epoch"),
        (
            splits[1] + splits[2] == 0,
            "no held-out triples at all, so nothing can be evaluated; give a single larger file, which will be split",
        ),
    ] {
        if missing {
            watcher.note(&format!("the data have {what}"));
        }
    }
    store(&job.out, Stage::Check, &checked)?;
    let [entities, relations, triples] =
        [(checked.entities, "entity"), (checked.relations, "relation"), (splits[0], "training triple")]
            .map(|(count, noun)| counted(count, noun));
    Ok(format!("{entities}, {relations}, {triples}"))
}

fn mine(job: &Job<'_>, bench: &Bench<'_>, watcher: &Stagehand<'_>) -> Result<String> {
    let records = match &job.spec.rules.file {
        Some(file) => {
            let mut names = job.data.names().clone();
            let (read, unknown) = read_rules_about(Path::new(file), &RuleReadOptions::default(), &mut names)?;
            if let Some(bad) = read.bad.first() {
                let lines = match read.bad.len() {
                    1 => format!("line {} is not a rule", bad.line),
                    count => format!("{count} lines are not rules, the first is line {}", bad.line),
                };
                watcher.note(&format!("{file}: {lines}: {}", bad.reason));
            }
            for unknown in unknown {
                watcher.note(&format!("{file}:{}: {unknown}", unknown.line));
            }
            let lost = read.rules.iter().filter(|record| !is_sayable(&record.rule, job.data.names())).count();
            if lost > 0 {
                watcher.note(&format!(
                    "{file}: {lost} of {} {} relations or entities the data do not have; ignored",
                    counted(read.rules.len(), "rule"),
                    if lost == 1 { "names" } else { "name" }
                ));
            }
            read.rules
        }
        None => {
            let control = watcher.hearing(Stage::Mine, "");
            assemble::mined(&job.spec.rules, job.data, &watcher.control.heard_by(&control))?
        }
    };
    // The thresholds and weights of the spec are applied here and nowhere after: what the file holds is what guides.
    let started = Instant::now();
    let (kept, groundings) = assemble::grounded(&job.spec, job.data, records, &watcher.control.quiet())?;
    let mut text = Vec::new();
    write_rules(&mut text, RuleFormat::Native, &kept, job.data.names(), &RuleWriteOptions::default())?;
    write_file(&job.out.join("rules.tsv"), &text)?;
    if kept.is_empty() {
        watcher.note(&format!("{}, so there is no guidance", no_rules(job, watcher)));
    }
    let atoms = |n: usize| kept.iter().filter(|record| record.rule.premise.len() == n).count();
    let line = format!("{} ({} of one atom, {} of two)", counted(kept.len(), "rule"), atoms(1), atoms(2));
    bench.take_groundings(&kept, groundings, started.elapsed().as_secs_f64())?;
    Ok(line)
}

/// A count with its noun.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {}", visible::plural(count, noun))
}

/// Why no rule is left.
fn no_rules(job: &Job<'_>, watcher: &Stagehand<'_>) -> String {
    let spec = &job.spec.rules;
    if let Some(file) = &spec.file {
        return format!("no rule of {file} is left");
    }
    let all = RulesSpec { max_conclusions: None, ..spec.clone() };
    match (spec.max_conclusions, assemble::mined(&all, job.data, &watcher.control.quiet()).ok()) {
        (Some(share), Some(rules)) if !rules.is_empty() => format!(
            "{} the thresholds, but the most confident one concludes more than {share} times as many triples as train has \
             (raise rules.max-conclusions to use it)",
            if rules.len() == 1 { "1 rule passes".into() } else { format!("{} rules pass", rules.len()) }
        ),
        _ => "no rule passes the thresholds (lower rules.min-pca, rules.min-std or rules.min-support)".into(),
    }
}

fn ground_rules(job: &Job<'_>, bench: &Bench<'_>, watcher: &Stagehand<'_>) -> Result<String> {
    let Guides { rules: records, groundings, .. } = bench.guides(&watcher.control.quiet())?;
    let found = GroundingCounts {
        rules: records.len() - groundings.not_grounded().len(),
        groundings: groundings.len(),
        unlabeled: groundings.unlabeled().len(),
        in_valid: groundings.overlap(job.data.valid()),
        in_test: groundings.overlap(job.data.test()),
        of_rule: (0..records.len()).map(|rule| groundings.of_rule(rule).len()).collect(),
        validated: match job.data.valid().is_empty() {
            true => Vec::new(),
            false => validated(records, groundings, job.data),
        },
    };
    store(&job.out, Stage::Ground, &found)?;
    Ok(format!(
        "{} of {} ({} in valid, {} in test)",
        counted(found.groundings, "grounding"),
        counted(found.unlabeled, "unlabeled triple"),
        found.in_valid,
        found.in_test
    ))
}

fn train_unguided(job: &Job<'_>, anew: bool, watcher: &Stagehand<'_>) -> Result<String> {
    let folder = job.out.join("unguided");
    let trained = train(job, Stage::TrainUnguided, &unguided(&job.spec), None, &folder, anew, watcher)?;
    Ok(trained.0)
}

fn train_guided(job: &Job<'_>, bench: &Bench<'_>, anew: bool, watcher: &Stagehand<'_>) -> Result<String> {
    let guides = bench.guides(&watcher.control.quiet())?;
    let folder = job.out.join("guided");
    if guides.groundings.is_empty() {
        let twin = job.out.join("unguided").join(curve::FILE);
        let lines = std::fs::read(&twin).map_err(RugeError::io(&twin, "read"))?;
        std::fs::create_dir_all(&folder).map_err(RugeError::io(&folder, "create"))?;
        write_file(&folder.join(curve::FILE), &lines)?;
        take_unguided(job, bench, &job.spec)?;
        settle(job, &job.spec)?;
        return Ok("no rule concludes anything new: the guided model is the unguided one".into());
    }
    let (line, valid_mrr) = train(job, Stage::TrainGuided, &job.spec, Some(guides), &folder, anew, watcher)?;
    match choose_by_validation(job, bench, valid_mrr, watcher)? {
        Some((spec, without)) => {
            settle(job, &spec)?;
            Ok(without)
        }
        None => {
            settle(job, &job.spec)?;
            Ok(line)
        }
    }
}

/// What people look for at the top of a run folder: the spec that was decided on, and the guided model's curve.
fn settle(job: &Job<'_>, spec: &ruge::Spec) -> Result<()> {
    let curve = job.out.join("guided").join(curve::FILE);
    let lines = std::fs::read(&curve).map_err(RugeError::io(&curve, "read"))?;
    write_file(&job.out.join(curve::FILE), &lines)?;
    write_file(&job.out.join("spec.toml"), spec_text(spec, &data_hash(job.data)).as_bytes())
}

/// Validation chooses whether rules guide: where the model with them is no better, the one without, which is what examples of weight 0
/// give to the bit, stands in its place. The curve stays as it was run. The paper's trainer is left as it is.
fn choose_by_validation(
    job: &Job<'_>,
    bench: &Bench<'_>,
    with: Option<f64>,
    watcher: &Stagehand<'_>,
) -> Result<Option<(ruge::Spec, String)>> {
    if job.spec.is_of_the_paper() {
        return Ok(None);
    }
    let without = Learned::of(bench.unguided()?).valid_mrr;
    let (Some(with), Some(without)) = (with, without) else { return Ok(None) };
    if with > without {
        return Ok(None);
    }
    let mut spec = job.spec.clone();
    let tried = match &mut spec.training {
        Training::Softmax(SoftmaxSpec { examples: Some(examples), .. }) => {
            format!("examples of weight {}", std::mem::replace(&mut examples.weight, 0.0))
        }
        training => {
            let tried = format!("guidance {}", training.guidance().name());
            *training = training.unguided();
            tried
        }
    };
    take_unguided(job, bench, &spec)?;
    watcher.note("rules are not used: validation is better without them");
    let line = format!("validation MRR {with:.3} with {tried}, {without:.3} without: rules are not used");
    Ok(Some((spec, line)))
}

/// The unguided model in the guided one's place, with the rules that explain it.
fn take_unguided(job: &Job<'_>, bench: &Bench<'_>, spec: &ruge::Spec) -> Result<()> {
    let twin = bench.unguided()?;
    let folder = job.out.join("guided");
    let write = |name: &str, text: &[u8]| write_file(&folder.join(name), text);
    Papers::new(&folder, &write).replace_spec(spec, job.data)?;
    let contents = Contents { spec, data: job.data, rules: bench.rules()?, ..twin.contents()? };
    ModelFile::write(&folder.join("model.safetensors"), &contents)
}

/// Trains on the data of the job. The answer: what came out, and the validation MRR.
fn train(
    job: &Job<'_>,
    stage: Stage,
    spec: &ruge::Spec,
    guides: Option<&Guides>,
    folder: &Path,
    anew: bool,
    watcher: &Stagehand<'_>,
) -> Result<(String, Option<f64>)> {
    train_on(job.data, job, stage, spec, guides, folder, anew, watcher)
}

/// Trains, with rules where there are some.
#[allow(clippy::too_many_arguments)]
pub(super) fn train_on(
    data: &Dataset,
    job: &Job<'_>,
    stage: Stage,
    spec: &ruge::Spec,
    guides: Option<&Guides>,
    folder: &Path,
    anew: bool,
    watcher: &Stagehand<'_>,
) -> Result<(String, Option<f64>)> {
    let best: Mutex<Option<(u64, f64)>> = Mutex::new(None);
    let hear = |event: &TrainEvent| {
        let tick = match event {
            TrainEvent::Epoch(tick) => tick,
            TrainEvent::Batches(work) => return watcher.batches(stage, work, spec.schedule.epochs),
            _ => return,
        };
        let mut best = best.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(metrics) = tick.metrics.as_ref().filter(|_| tick.improved) {
            *best = Some((tick.epoch, metrics.mrr));
        }
        let note = match *best {
            Some((epoch, mrr)) => format!("validation MRR {mrr:.3} at epoch {epoch}"),
            None => format!("loss {:.4}", tick.losses.labeled),
        };
        watcher.epoch(stage, tick, spec.schedule.epochs, note);
    };
    let control = watcher.control.heard_by(&hear);
    // The rules of a run are the file of the stage that mined them.
    let run = Run::within(spec, data, folder, anew, false)?.without_rules_file();
    let run = run.checkpoint_every(job.checkpoint_every).until(watcher.until);
    let outcome = match guides {
        Some(guides) => run.train_grounded(guides, &control)?,
        None => run.train(Vec::new(), &control)?,
    };
    if outcome.stop == ruge_embed::StopReason::Asked {
        return Err(Cancelled.into());
    }
    let kept = match outcome.valid_mrr {
        Some(mrr) => format!("best epoch {}, validation MRR {mrr:.3}", outcome.best_epoch),
        None => "last epoch kept, as there is no validation".into(),
    };
    Ok((format!("{}, {kept}", counted(outcome.epochs as usize, "epoch")), outcome.valid_mrr))
}

/// Mines rules for ranking, which are many more than guide, and fits what they count beside the guided model.
fn with_rules(job: &Job<'_>, bench: &Bench<'_>, anew: bool, watcher: &Stagehand<'_>) -> Result<String> {
    let folder = job.out.join("evaluated");
    if !job.ranks_with_rules() {
        let guided = bench.guided()?;
        std::fs::create_dir_all(&folder).map_err(RugeError::io(&folder, "create"))?;
        ModelFile::write(&folder.join("model.safetensors"), &guided.contents()?)?;
        write_file(&folder.join("spec.toml"), spec_text(guided.spec(), &data_hash(job.data)).as_bytes())?;
        return Ok(match job.data.valid().is_empty() {
            true => "no rules or evidence at ranking time: there are no validation triples to weigh them on".into(),
            false if job.spec.is_of_the_paper() => "no rules at ranking time in the paper's setting".into(),
            false => format!("no rules at ranking time: there are more than {MOST_WITH_RULES} training triples"),
        });
    }
    if anew {
        prepare::clear(&folder)?;
    }
    let mining = watcher.hearing(Stage::WithRules, "mining");
    let learning = watcher.hearing(Stage::WithRules, "learning weights");
    let control = Hearers { mining: watcher.control.heard_by(&mining), learning: watcher.control.heard_by(&learning) };
    let weighing = Weighing { steps: Some(ranking_steps(&job.spec, job.data)), ..job.spec.rules.weighing() };
    let prepared = prepare(&folder, &job.spec.rules, weighing, job.data, &control)?;
    kept(&prepared).iter().for_each(|kept| watcher.note(kept));
    watcher.progress(Stage::WithRules, 0, 0, "fitting on validation");
    let outcome = combine_within(bench.guided()?, &prepared, &folder, &watcher.control.quiet())?;
    prepare::clear(&folder)?;
    let gain = |tried: &[Tried]| {
        let taken = tried.iter().find(|tried| tried.taken).or(tried.first());
        let mrr = |tried: Option<&Tried>| tried.map_or(0.0, |tried| tried.mrr);
        format!("validation MRR {:.3} instead of {:.3}", mrr(taken), mrr(tried.first()))
    };
    let Ranking { tried, evidence_tried, evidence, .. } = &outcome.ranking;
    let rules = match outcome.ranking.uses_rules() {
        true => format!("combined with {}: {}", counted(outcome.rules, "rule"), gain(tried)),
        false => "rules at ranking time do not help on validation".into(),
    };
    Ok(match evidence {
        Some(evidence) => {
            let names: Vec<&str> = evidence.features.iter().map(|feature| feature.name()).collect();
            format!("{rules}; evidence ({}): {} among the best answers", names.join(", "), gain(evidence_tried))
        }
        None => rules,
    })
}

/// The part that figures are on.
fn held_out(data: &Dataset) -> Option<(&'static str, &[Triple])> {
    [("test", data.test()), ("valid", data.valid())].into_iter().find(|(_, triples)| !triples.is_empty())
}

fn evaluate(job: &Job<'_>, bench: &Bench<'_>, watcher: &Stagehand<'_>) -> Result<String> {
    let Some((split, triples)) = held_out(job.data) else {
        store(&job.out, Stage::Evaluate, &Comparison::default())?;
        return Ok("no held-out triples to evaluate on".into());
    };
    let questions = Questions::about(triples, job.data.filter());
    let count = questions.queries.len();
    let follow = |place: usize| {
        move |work: &Work| {
            watcher.progress(Stage::Evaluate, (place * count) as u64 + work.done, 5 * count as u64, "");
        }
    };
    let result = |place: usize, engine: &Engine| -> Result<SystemResult> {
        let ranks = questions.rank(engine.ranker(), &watcher.control.heard_by(&follow(place)))?;
        let evaluation = questions.evaluation(&ranks, job.data.graph());
        Ok(SystemResult::new(Learned::of(engine), evaluation, job.data.names(), ranks_sha256(&ranks)))
    };
    let (unguided, guided) = (Some(result(0, bench.unguided()?)?), Some(result(1, bench.guided()?)?));
    let mut with_rules = None;
    if job.ranks_with_rules() {
        let engine = bench.evaluated()?;
        if engine.ranking().is_some_and(Ranking::counts) {
            let result = result(2, engine)?;
            let alone = match engine.rules_alone() {
                Some(alone) => Some(questions.metrics(&questions.rank(&alone, &watcher.control.heard_by(&follow(3)))?)),
                None => None,
            };
            with_rules = Some(WithRules { rules: engine.rules().len(), result, alone });
        }
    }
    let soft: Vec<SoftRule> = bench.rules()?.iter().map(RuleRecord::soft).collect();
    let rules_only = match soft.is_empty() {
        true => None,
        false => {
            let alone = RulesOnly::new(job.data.graph(), &soft);
            Some(questions.metrics(&questions.rank_by_rules(&alone, &watcher.control.heard_by(&follow(4)))?))
        }
    };
    let comparison = Comparison { split: Some(split.into()), unguided, guided, rules_only, with_rules };
    store(&job.out, Stage::Evaluate, &comparison)?;
    let mrr = |result: &Option<SystemResult>| result.as_ref().map_or(0.0, |result| result.filtered.mrr);
    Ok(format!(
        "{split} MRR {:.3} without rules, {:.3} with them{}{}",
        mrr(&comparison.unguided),
        mrr(&comparison.guided),
        comparison.with_rules.as_ref().map_or_else(String::new, |found| {
            format!(", {:.3} with more rules at ranking time", found.result.filtered.mrr)
        }),
        comparison.strongest_rules().map_or_else(String::new, |alone| format!(", {:.3} by rules alone", alone.mrr))
    ))
}

fn calibrate(job: &Job<'_>, bench: &Bench<'_>, watcher: &Stagehand<'_>) -> Result<String> {
    let (without, with) = (bench.unguided()?, bench.evaluated()?);
    let data = job.data;
    // Where it was fitted is no place to try it.
    let fitted = !data.valid().is_empty();
    let held_out = if fitted { data.test() } else { &[] };
    let control = watcher.control.quiet();
    let tried = |engine: &Engine, calibration: &Calibration| {
        let found = || calibration.reliability(engine.ranker(), data, held_out, job.spec.seed, &control);
        (!held_out.is_empty()).then(found).transpose()
    };
    let trust = Trust {
        source: with.calibration().source,
        split: (!held_out.is_empty()).then(|| "test".to_string()),
        guided: tried(with, with.calibration())?,
        unguided: tried(without, without.calibration())?,
        before: tried(with, &Calibration::plain(job.spec.shift()))?,
    };
    store(&job.out, Stage::Calibrate, &trust)?;
    Ok(match &trust.guided {
        Some(found) => {
            format!("expected and listed shares of answers differ by {:.3} on average on test", found.ece)
        }
        None if fitted => "fitted on valid; there are no test triples to check it on".into(),
        None => "no valid triples to fit truth on".into(),
    })
}

fn obey(job: &Job<'_>, bench: &Bench<'_>, watcher: &Stagehand<'_>) -> Result<String> {
    let control = watcher.control.quiet();
    let (without, with) = (bench.unguided()?, bench.guided()?);
    let explainer = Explainer::new(with);
    if explainer.usable().is_empty() {
        store(&job.out, Stage::Consistency, &Obedience { consistency: None, doubtful: Vec::new(), doubtful_count: 0 })?;
        return Ok("no rules to obey".into());
    }
    let found = bench.with_groundings(&explainer, &control, |groundings| {
        consistency_over(groundings, &explainer, Some(without), &control)
    })?;
    let (doubtful_count, doubtful) = doubtful(&explainer, DOUBTFUL, &control)?;
    let before = found.unguided.map_or(0.0, |agreement| agreement.share);
    let met = match found.groundings {
        0 => "no rule concludes anything new".to_string(),
        _ => {
            let [with, without] = [found.model.share, before].map(|share| 100.0 * share);
            format!("the model obeys {with:.0} % of groundings with guidance, {without:.0} % without")
        }
    };
    let look = if doubtful_count == 1 { "looks" } else { "look" };
    let line = format!("{met}; {} {look} doubtful", counted(doubtful_count, "training triple"));
    store(&job.out, Stage::Consistency, &Obedience { consistency: Some(found), doubtful, doubtful_count })?;
    Ok(line)
}

fn predict(job: &Job<'_>, bench: &Bench<'_>, watcher: &Stagehand<'_>) -> Result<String> {
    let (found, proposals) = samples::choose(job, bench, watcher)?;
    let new = found.iter().filter(|sample| sample.standing == samples::Standing::New).count();
    store(&job.out, Stage::Predict, &found)?;
    let text = serde_json::to_string(&proposals).expect("a result is plain data");
    write_file(&job.out.join(PROPOSALS), text.as_bytes())?;
    let cut = match proposals.count - proposals.facts.len() {
        0 => String::new(),
        _ => format!(" of {}", proposals.count),
    };
    let only = proposals.only.as_ref().map_or_else(String::new, |only| {
        format!(" for {} of {}", counted(only.len(), "relation"), job.data.relation_count())
    });
    Ok(format!(
        "{}{cut}{only}; {new} of them and {} held-out with their reasons",
        counted(proposals.facts.len(), "proposed fact"),
        found.len() - new
    ))
}

fn report(job: &Job<'_>, watcher: &Stagehand<'_>) -> Result<String> {
    let page = (watcher.page)(&Findings::read(job)?)?;
    write_file(&job.out.join("report.html"), page.as_bytes())?;
    Ok(format!("{} kB", page.len().div_ceil(1000)))
}
