//! The stages: each reads what the ones before it left, leaves its own file, and says in a sentence what came out.

use std::path::Path;

use ruge_embed::rank::{Rank, RankQuery};
use ruge_embed::{Evaluation, HITS, Metrics, Model, RankOptions, Ties};
use ruge_kg::{Dataset, Triple, describe};
use ruge_rules::io::unknown_relations;
use ruge_rules::words::is_sayable;
use ruge_rules::{
    Groundings, RuleFormat, RuleReadOptions, RuleRecord, RuleWriteOptions, SoftRule, Watch, read_rules, write_rules,
};
use sha2::{Digest, Sha256};

use super::findings::{
    Checked, Comparison, Findings, Grounded, Obedience, SystemResult, Training, Trust, WithRules, rules, store,
};
use super::ledger::write_file;
use super::{Job, Stage, Watcher, samples, unguided};
use ruge::assemble;
use ruge::calibrate::Calibration;
use ruge::combine::{Effort, Prepared, Ranking, combine_within};
use ruge::consistency::{consistency, doubtful};
use ruge::error::{Result, RugeError};
use ruge::explain::Explainer;
use ruge::identity::Papers;
use ruge::loaded::Loaded;
use ruge::model_file::{Contents, ModelFile, hex};
use ruge::rules_only::{Aggregation, RulesOnly};
use ruge::run::{Listener, Run, Tick};
use ruge::spec::{GuidanceSpec, MinePreset, RulesSpec};

/// Doubtful training triples kept for people to look at.
const DOUBTFUL: usize = 20;

/// Takes one stage. The answer says what came out; nothing if it was stopped before its end.
pub(super) fn take(stage: Stage, job: &Job<'_>, anew: bool, watcher: &Watcher<'_>) -> Result<Option<String>> {
    match stage {
        Stage::Check => check(job, watcher).map(Some),
        Stage::Mine => mine(job, watcher),
        Stage::Ground => ground_rules(job).map(Some),
        Stage::TrainUnguided => train_unguided(job, anew, watcher),
        Stage::TrainGuided => train_guided(job, anew, watcher),
        Stage::WithRules => with_rules(job, watcher),
        Stage::Evaluate => evaluate(job, watcher).map(Some),
        Stage::Calibrate => calibrate(job).map(Some),
        Stage::Consistency => obey(job).map(Some),
        Stage::Predict => predict(job, watcher).map(Some),
        Stage::Report => report(job, watcher).map(Some),
    }
}

fn check(job: &Job<'_>, watcher: &Watcher<'_>) -> Result<String> {
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
    Ok(format!(
        "{} entities, {} relations, {} training triples",
        checked.entities, checked.relations, checked.splits[0]
    ))
}

fn mine(job: &Job<'_>, watcher: &Watcher<'_>) -> Result<Option<String>> {
    let records = match &job.spec.rules.file {
        Some(file) => {
            let mut names = job.data.names().clone();
            let relations = job.data.names().relations.iter().map(|(_, name)| name.to_string()).collect();
            let options = RuleReadOptions { relations: Some(relations), ..RuleReadOptions::default() };
            let read = read_rules(Path::new(file), &options, &mut names)?;
            if let Some(bad) = read.bad.first() {
                let count = read.bad.len();
                watcher.note(&format!(
                    "{file}: {count} lines are not rules, the first is line {}: {}",
                    bad.line, bad.reason
                ));
            }
            for unknown in unknown_relations(&read, job.data.relation_count(), &names) {
                watcher.note(&format!("{file}:{}: {unknown}", unknown.line));
            }
            let lost = read.rules.iter().filter(|record| !is_sayable(&record.rule, job.data.names())).count();
            if lost > 0 {
                watcher.note(&format!(
                    "{file}: {lost} of {} rules name relations or entities the data do not have; ignored",
                    read.rules.len()
                ));
            }
            read.rules
        }
        None => {
            let progress = |done: u64, total: u64| watcher.progress(Stage::Mine, done, total, "");
            let watch = Watch { stop: Some(watcher.stop), progress: Some(&progress), deadline: None };
            match assemble::mined(&job.spec.rules, job.data, &watch)? {
                Some(rules) => rules,
                None => return Ok(None),
            }
        }
    };
    // As training takes them, which leaves the same file.
    let watch = Watch { stop: Some(watcher.stop), ..Watch::default() };
    let (kept, _) = match assemble::grounded_watched(&job.spec, job.data, records, &watch) {
        Err(error) if error.is_stopped() => return Ok(None),
        grounded => grounded?,
    };
    let mut text = Vec::new();
    write_rules(&mut text, RuleFormat::Native, &kept, job.data.names(), &RuleWriteOptions::default())?;
    write_file(&job.out.join("rules.tsv"), &text)?;
    if kept.is_empty() {
        watcher.note(&format!("{}, so there is no guidance", no_rules(job, watcher)));
    }
    let atoms = |n: usize| kept.iter().filter(|record| record.rule.premise.len() == n).count();
    Ok(Some(format!("{} rules ({} of one atom, {} of two)", kept.len(), atoms(1), atoms(2))))
}

/// Why no rule is left.
fn no_rules(job: &Job<'_>, watcher: &Watcher<'_>) -> String {
    let spec = &job.spec.rules;
    if let Some(file) = &spec.file {
        return format!("no rule of {file} is left");
    }
    let all = RulesSpec { max_conclusions: None, ..spec.clone() };
    let watch = Watch { stop: Some(watcher.stop), ..Watch::default() };
    match (spec.max_conclusions, assemble::mined(&all, job.data, &watch).ok().flatten()) {
        (Some(share), Some(rules)) if !rules.is_empty() => format!(
            "{} rules pass the thresholds, but the most confident one concludes more than {share} times as many triples as train has \
             (raise --max-conclusions to use it)",
            rules.len()
        ),
        _ => "no rule passes the thresholds (lower --min-pca, --min-std or --min-support)".into(),
    }
}

/// The rules of the run and where they fire.
fn grounded(job: &Job<'_>) -> Result<(Vec<RuleRecord>, Groundings)> {
    let records = rules(&job.out, job)?;
    let horn: Vec<_> = records.iter().map(|record| record.rule.clone()).collect();
    let groundings = assemble::groundings(job.data, &horn, &Watch::default())?;
    Ok((records, groundings))
}

fn ground_rules(job: &Job<'_>) -> Result<String> {
    let (records, groundings) = grounded(job)?;
    let found = Grounded {
        rules: records.len() - groundings.not_grounded().len(),
        groundings: groundings.len(),
        unlabeled: groundings.unlabeled().len(),
        in_valid: groundings.overlap(job.data.valid()),
        in_test: groundings.overlap(job.data.test()),
        of_rule: (0..records.len()).map(|rule| groundings.of_rule(rule).len()).collect(),
    };
    store(&job.out, Stage::Ground, &found)?;
    Ok(format!(
        "{} groundings of {} unlabeled triples ({} in valid, {} in test)",
        found.groundings, found.unlabeled, found.in_valid, found.in_test
    ))
}

fn train_unguided(job: &Job<'_>, anew: bool, watcher: &Watcher<'_>) -> Result<Option<String>> {
    let folder = job.out.join("unguided");
    train(job, Stage::TrainUnguided, &unguided(&job.spec), Vec::new(), &folder, anew, watcher)
}

fn train_guided(job: &Job<'_>, anew: bool, watcher: &Watcher<'_>) -> Result<Option<String>> {
    let (records, groundings) = grounded(job)?;
    if groundings.is_empty() {
        let curve = job.out.join("unguided/metrics.jsonl");
        let lines = std::fs::read(&curve).map_err(RugeError::io(&curve, "read"))?;
        write_file(&job.out.join("metrics.jsonl"), &lines)?;
        take_unguided(job, &job.spec, &records)?;
        return Ok(Some("no rule concludes anything new: the guided model is the unguided one".into()));
    }
    let Some(line) = train(job, Stage::TrainGuided, &job.spec, records.clone(), &job.out, anew, watcher)? else {
        return Ok(None);
    };
    step_aside(job, &records, watcher).map(|aside| Some(aside.unwrap_or(line)))
}

/// Validation chooses whether rules guide: where the model with them is no better, the one without, which is what examples of weight 0
/// give to the bit, stands in its place. The curve stays as it was run. The paper's trainer is left as it is.
fn step_aside(job: &Job<'_>, records: &[RuleRecord], watcher: &Watcher<'_>) -> Result<Option<String>> {
    if job.spec.is_of_the_paper() {
        return Ok(None);
    }
    let mrr = |path: &Path| -> Result<Option<f64>> { Ok(Training::of(&ModelFile::read(path)?).valid_mrr) };
    let (with, without) = (mrr(&job.out.join("model.safetensors"))?, mrr(&job.out.join("unguided/model.safetensors"))?);
    let (Some(with), Some(without)) = (with, without) else { return Ok(None) };
    if with > without {
        return Ok(None);
    }
    let mut spec = job.spec.clone();
    let tried = match &mut spec.guidance {
        GuidanceSpec::Examples { weight, .. } => {
            format!("examples of weight {}", std::mem::replace(weight, 0.0))
        }
        guidance => {
            let name = std::mem::replace(guidance, GuidanceSpec::None).name();
            format!("guidance {name}")
        }
    };
    take_unguided(job, &spec, records)?;
    watcher.note("rules are not used: validation is better without them");
    Ok(Some(format!("validation MRR {with:.3} with {tried}, {without:.3} without: rules are not used")))
}

/// The unguided model in the guided one's place, with the rules that explain it.
fn take_unguided(job: &Job<'_>, spec: &ruge::Spec, records: &[RuleRecord]) -> Result<()> {
    let twin = ModelFile::read(&job.out.join("unguided/model.safetensors"))?;
    let write = |name: &str, text: &[u8]| write_file(&job.out.join(name), text);
    Papers::new(&job.out, &write).replace_spec(spec, job.data)?;
    let contents = Contents {
        spec,
        embeddings: &twin.embeddings,
        data: job.data,
        rules: records,
        notes: &twin.notes,
        calibration: twin.calibration.as_ref(),
        ranking: None,
        weights: None,
    };
    ModelFile::write(&job.out.join("model.safetensors"), &contents)
}

fn train(
    job: &Job<'_>,
    stage: Stage,
    spec: &ruge::Spec,
    records: Vec<RuleRecord>,
    folder: &Path,
    anew: bool,
    watcher: &Watcher<'_>,
) -> Result<Option<String>> {
    let mut best: Option<(u64, f64)> = None;
    let mut tick = |tick: &Tick<'_>| {
        if let Some(metrics) = tick.metrics.filter(|_| tick.improved) {
            best = Some((tick.epoch, metrics.mrr));
        }
        let note = match best {
            Some((epoch, mrr)) => format!("validation MRR {mrr:.3} at epoch {epoch}"),
            None => format!("loss {:.4}", tick.losses.labeled),
        };
        watcher.progress(stage, tick.epoch, spec.schedule.epochs, &note);
    };
    let mut listener = Listener {
        grounded: &mut |_, _| (),
        paths: &mut |_| (),
        tick: &mut tick,
        stop: watcher.stop,
        checkpoint_every: job.checkpoint_every,
    };
    // The rules of a run are the file of the stage that mined them.
    let run = Run::within(spec, job.data, folder, anew, folder == job.out)?.without_rules_file();
    let outcome = run.train(records, &mut listener)?;
    if outcome.stop == ruge_embed::StopReason::Asked {
        return Ok(None);
    }
    let kept = match outcome.valid_mrr {
        Some(mrr) => format!("best epoch {}, validation MRR {mrr:.3}", outcome.best_epoch),
        None => "last epoch kept, as there is no validation".into(),
    };
    Ok(Some(format!("{} epochs, {kept}", outcome.epochs)))
}

/// Mines rules for ranking, which are many more than guide, and fits what they count beside the guided model.
fn with_rules(job: &Job<'_>, watcher: &Watcher<'_>) -> Result<Option<String>> {
    let progress = |done: u64, total: u64| watcher.progress(Stage::WithRules, done, total, "mining");
    let watch = Watch { stop: Some(watcher.stop), progress: Some(&progress), deadline: None };
    let wanted = RulesSpec { mine: MinePreset::Ranking, ..RulesSpec::default() };
    let Some(rules) = assemble::mined(&wanted, job.data, &watch)? else { return Ok(None) };
    let progress = |done: u64, total: u64| watcher.progress(Stage::WithRules, done, total, "learning weights");
    let watch = Watch { stop: Some(watcher.stop), progress: Some(&progress), deadline: None };
    watcher.progress(Stage::WithRules, 0, 0, "weighing rules");
    let Some(prepared) = Prepared::beside(rules, job.data, Effort::of(job.spec.rules.thorough), &watch)? else {
        return Ok(None);
    };
    watcher.progress(Stage::WithRules, 0, 0, "fitting on validation");
    let file = ModelFile::read(&job.out.join("model.safetensors"))?;
    let outcome = combine_within(&file, &prepared, &job.out.join("with-rules"), job.spec.device)?;
    let mrr = |place: usize| outcome.ranking.tried.get(place).map_or(0.0, |tried| tried.mrr);
    let taken = outcome.ranking.tried.iter().position(|tried| tried.taken).unwrap_or(0);
    Ok(Some(match outcome.ranking.uses_rules() {
        true => {
            format!("combined with {} rules: validation MRR {:.3} instead of {:.3}", outcome.rules, mrr(taken), mrr(0))
        }
        false => "rules at ranking time do not help on validation".into(),
    }))
}

/// Both models, opened.
fn models(job: &Job<'_>) -> Result<[Loaded; 2]> {
    Ok([Loaded::open(&job.out.join("unguided"))?, Loaded::open(&job.out)?])
}

/// The part that figures are on.
fn held_out(data: &Dataset) -> Option<(&'static str, &[Triple])> {
    [("test", data.test()), ("valid", data.valid())].into_iter().find(|(_, triples)| !triples.is_empty())
}

fn evaluate(job: &Job<'_>, watcher: &Watcher<'_>) -> Result<String> {
    let Some((split, triples)) = held_out(job.data) else {
        store(&job.out, Stage::Evaluate, &Comparison::default())?;
        return Ok("no held-out triples to evaluate on".into());
    };
    let queries = RankQuery::both_sides(triples);
    let total = 5 * queries.len() as u64;
    let (mut results, mut beside_alone) = (Vec::new(), None);
    let mut files = vec!["unguided/model.safetensors", "model.safetensors"];
    files.extend(job.ranks_with_rules().then_some("with-rules/model.safetensors"));
    for (place, file) in files.iter().enumerate() {
        let file = ModelFile::read(&job.out.join(file))?;
        if place == 2 && !file.ranking.as_ref().is_some_and(Ranking::uses_rules) {
            continue;
        }
        let follow = |done: usize, _: usize| {
            watcher.progress(Stage::Evaluate, (place * queries.len() + done) as u64, total, "");
        };
        let ranks = file.model()?.rank(&queries, Some(job.data.filter()), &RankOptions::default(), &follow)?;
        let evaluation = Evaluation::new(&queries, &ranks, job.data.graph(), Ties::Mean, &HITS);
        let result = SystemResult::new(Training::of(&file), evaluation, job.data.names(), digest(&ranks));
        if place == 2
            && let Some(alone) = file.rules_alone()
        {
            let follow = |done: usize, _: usize| {
                watcher.progress(Stage::Evaluate, (3 * queries.len() + done) as u64, total, "");
            };
            let ranks = alone.rank(&queries, Some(job.data.filter()), &RankOptions::default(), &follow)?;
            beside_alone = Some(Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &HITS));
        }
        results.push((file.rules.len(), result));
    }
    let soft: Vec<SoftRule> = rules(&job.out, job)?.iter().map(RuleRecord::soft).collect();
    let follow = |done: usize, _: usize| {
        watcher.progress(Stage::Evaluate, (4 * queries.len() + done) as u64, total, "");
    };
    let rules_only = (!soft.is_empty()).then(|| {
        let alone = RulesOnly::new(job.data.graph(), &soft);
        let ranks = alone.rank(&queries, Some(job.data.filter()), Aggregation::Max, &follow);
        Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &HITS)
    });
    let mut results = results.into_iter();
    let mut next = || results.next();
    let (unguided, guided) = (next().map(|found| found.1), next().map(|found| found.1));
    let with_rules = next().map(|(rules, result)| WithRules { rules, result, alone: beside_alone });
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

/// Ranks as doubled integers (half ranks occur), so that two evaluations can be compared by one number.
fn digest(ranks: &[Rank]) -> String {
    let mut hasher = Sha256::new();
    for rank in ranks {
        hasher.update(((2.0 * rank.filtered.rank(Ties::Mean)) as u32).to_le_bytes());
    }
    hex(&hasher.finalize())
}

fn calibrate(job: &Job<'_>) -> Result<String> {
    let [without, with] = models(job)?;
    let data = job.data;
    // Where it was fitted is no place to try it.
    let fitted = !data.valid().is_empty();
    let held_out = if fitted { data.test() } else { &[] };
    let tried = |model: &Loaded, calibration: &Calibration| {
        let found = || calibration.reliability(&*model.model, data, held_out, job.spec.seed);
        (!held_out.is_empty()).then(found).transpose()
    };
    let trust = Trust {
        source: with.calibration.source,
        split: (!held_out.is_empty()).then(|| "test".to_string()),
        guided: tried(&with, &with.calibration)?,
        unguided: tried(&without, &without.calibration)?,
        before: tried(&with, &Calibration::plain(job.spec.objective.shift))?,
    };
    store(&job.out, Stage::Calibrate, &trust)?;
    Ok(match &trust.guided {
        Some(found) => {
            format!("truth values are off by {:.3} on average on test (expected calibration error)", found.ece)
        }
        None if fitted => "fitted on valid; there are no test triples to check it on".into(),
        None => "no valid triples to calibrate truth values on".into(),
    })
}

fn obey(job: &Job<'_>) -> Result<String> {
    let [without, with] = models(job)?;
    let explainer = Explainer::new(&with);
    if explainer.rules().is_empty() {
        store(&job.out, Stage::Consistency, &Obedience { consistency: None, doubtful: Vec::new(), doubtful_count: 0 })?;
        return Ok("no rules to obey".into());
    }
    let found = consistency(&with, &explainer, Some(&without))?;
    let (doubtful_count, doubtful) = doubtful(&with, &explainer, DOUBTFUL)?;
    let before = found.unguided.map_or(0.0, |agreement| agreement.share);
    let met = match found.groundings {
        0 => "no rule concludes anything new".to_string(),
        _ => {
            let [with, without] = [found.model.share, before].map(|share| 100.0 * share);
            format!("the model obeys {with:.0} % of groundings with guidance, {without:.0} % without")
        }
    };
    let line = format!("{met}; {doubtful_count} training triples look doubtful");
    store(&job.out, Stage::Consistency, &Obedience { consistency: Some(found), doubtful, doubtful_count })?;
    Ok(line)
}

fn predict(job: &Job<'_>, watcher: &Watcher<'_>) -> Result<String> {
    let [without, with] = models(job)?;
    let found = samples::choose(job, &without, &with, watcher)?;
    let new = found.iter().filter(|sample| sample.standing == samples::Standing::New).count();
    store(&job.out, Stage::Predict, &found)?;
    Ok(format!("{new} new facts, {} held-out ones, with their reasons", found.len() - new))
}

fn report(job: &Job<'_>, watcher: &Watcher<'_>) -> Result<String> {
    let page = (watcher.page)(&Findings::read(job)?)?;
    write_file(&job.out.join("report.html"), page.as_bytes())?;
    Ok(format!("{} kB", page.len().div_ceil(1000)))
}
