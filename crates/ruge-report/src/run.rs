//! The report of a run, filled from what its stages left.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::html::{self, grouped};
use crate::report::{
    self, CalibrationCurve, CleanUp, CompletenessRow, Consistency, ConsistencyRow, Curve, Effect, EvidenceUse, Fact,
    Firing, MetricsTable, Part, Prediction, Proposed, RelationRow, ReliabilityBin, Repeat, Report, Suspect, System,
};
use crate::shown::{self, Shown};
use crate::{gather, published};
use ruge::calibrate::{Reliability, Source};
use ruge::complete::Proposal;
use ruge::consistency;
use ruge::explain;
use ruge::run::curve;
use ruge::spec::Weigh;
use ruge::truth::CompletenessOf;
use ruge::truth::told::Told;
use ruge::{GuidanceSpec, ModelFile};
use ruge_kg::{Dataset, LoadReport};
use ruge_lab::pipeline::{
    ALL_RELATIONS_UP_TO, Findings, Job, Proposals, Sample, Stage, Standing, SystemResult, unguided,
};

/// Rules shown in the report.
const RULES: usize = 20;
/// Rows of the table by rule.
const ROWS: usize = 30;

/// Everything the page shows; `version` is the program's.
pub fn report(findings: &Findings, job: &Job<'_>, loaded: &LoadReport, version: &str) -> Report {
    let model = job.spec.model.name.title();
    let audit = gather::data(&findings.source, job.data, Some(loaded));
    let data = job.data;
    let proposals = findings.proposals.as_ref().map_or(&[][..], |found| &found.facts);
    let published = published::of(audit.entities, audit.relations, audit.splits);
    Report {
        title: findings.source.clone(),
        summary: summary(findings),
        data: audit.into(),
        rules: rules(findings, job),
        curves: curves(findings, model),
        metrics: metrics(findings, job, model, published),
        relations: relations(findings, job),
        calibration: calibration(findings),
        consistency: obedience(findings),
        evidence: evidence(findings, job),
        proposals: match &findings.proposals {
            Some(found) => proposed(found, findings, job).into(),
            None => Part::LeftOut,
        },
        shown: Shown::of(proposals, data),
        predictions: match &findings.samples {
            Some(samples) if !samples.is_empty() => {
                let moves_labels = !matches!(job.spec.guidance(), GuidanceSpec::Examples { .. });
                samples.iter().map(|sample| prediction(sample, moves_labels, data)).collect::<Vec<_>>().into()
            }
            _ => Part::Missing("No fact was predicted.".into()),
        },
        clean_up: clean_up(findings, data),
        repeat: repeat(findings, job, version).into(),
    }
}

/// `the 48 guiding rules`, `the guiding rule`.
fn counted(article: &str, what: &str, rules: usize) -> String {
    match rules {
        1 => format!("the {what}rule"),
        _ => format!("{article} {} {what}rules", grouped(rules)),
    }
}

fn summary(findings: &Findings) -> Vec<String> {
    let mut said = Vec::new();
    if findings.grounded.as_ref().is_some_and(|found| found.groundings == 0) {
        said.push("No rule concludes anything new here, so the guided model is the unguided one.".into());
    }
    match findings.checked.as_ref().map(|checked| checked.splits) {
        Some([_, 0, 0]) => said.push("There are no held-out triples, so nothing could be evaluated.".into()),
        Some([_, 0, _]) => said.push("There are no validation triples: the last epoch was kept.".into()),
        Some([_, _, 0]) => {
            said.push("There are no test triples: figures are on validation, which chose the epoch.".into())
        }
        _ => {}
    }
    said
}

fn rules(findings: &Findings, job: &Job<'_>) -> Part<report::RuleSet> {
    if findings.rules.is_empty() {
        return Part::Missing("No rule passes the thresholds.".into());
    }
    let mut source =
        job.spec.rules.file.as_ref().map_or("mined from train".to_string(), |file| format!("read from {file}"));
    if job.spec.rules.weigh == Weigh::Validated {
        source += "; how much each counts in training is measured on validation";
    }
    let validated = findings.grounded.as_ref().map_or(&[][..], |grounded| &grounded.validated);
    let mut set = gather::rules(&source, &findings.rules, validated, job.data, RULES);
    if let Some(grounded) = &findings.grounded {
        set.groundings = Some(grounded.groundings);
        set.unlabeled = Some(grounded.unlabeled);
        set.in_test = (!job.data.test().is_empty()).then_some(grounded.in_test);
    }
    set.into()
}

fn curves(findings: &Findings, model: &str) -> Part<Vec<Curve>> {
    let mut curves = Vec::new();
    let guided = format!("{model} guided by {}", html::counted(findings.rules.len(), "rule", "rules"));
    for (name, system, folder) in [
        (guided, System::Guided, findings.out.clone()),
        (format!("{model} without rules"), System::Unguided, findings.out.join("unguided")),
    ] {
        if let Ok(lines) = curve::read(&folder) {
            curves.push(gather::curve(&name, system, &lines));
        }
    }
    if curves.is_empty() {
        Part::Missing("The learning curves are not in the run folder.".into())
    } else {
        curves.into()
    }
}

fn metrics(findings: &Findings, job: &Job<'_>, model: &str, published: Vec<report::Published>) -> Part<MetricsTable> {
    let Some((comparison, split)) = findings.comparison.as_ref().and_then(|found| Some((found, found.split.clone()?)))
    else {
        return Part::Missing("There are no held-out triples to evaluate on.".into());
    };
    let mut rows = Vec::new();
    let guidance = job.spec.guidance();
    if let Some(result) = &comparison.guided {
        let name = format!("{model} guided by {}", guidance.title());
        rows.push(gather::metrics(&name, System::Guided, guidance.name(), &result.filtered));
    }
    if let Some(found) = &comparison.with_rules {
        let name = format!("the same, combined with {} at ranking time", html::counted(found.rules, "rule", "rules"));
        rows.push(gather::metrics(&name, System::Combined, "with-rules", &found.result.filtered));
        if let Some(metrics) = &found.alone {
            let name = format!("{} alone", counted("those", "", found.rules));
            rows.push(gather::metrics(&name, System::RulesAlone, "ranking-rules", metrics));
        }
    }
    if let Some(result) = &comparison.unguided {
        let name = format!("{model} without rules");
        rows.push(gather::metrics(&name, System::Unguided, job.spec.model.name.name(), &result.filtered));
    }
    if let Some(metrics) = &comparison.rules_only {
        let name = format!("{} alone", counted("the", "guiding ", findings.rules.len()));
        rows.push(gather::metrics(&name, System::RulesAlone, "rules", metrics));
    }
    MetricsTable { split, rows, published }.into()
}

fn relations(findings: &Findings, job: &Job<'_>) -> Part<Vec<RelationRow>> {
    let Some(comparison) = findings.comparison.as_ref().filter(|found| found.split.is_some()) else {
        return Part::LeftOut;
    };
    let of = |result: &Option<SystemResult>, name: &str| {
        result.as_ref().and_then(|result| result.by_relation.get(name)).map(|metrics| (metrics.mrr, metrics.queries))
    };
    let combined = comparison.with_rules.as_ref().map(|found| found.result.clone());
    let names = &job.data.names().relations;
    let rows: Vec<RelationRow> = names
        .iter()
        .filter_map(|(id, name)| {
            let (with, without) = (of(&comparison.guided, name), of(&comparison.unguided, name));
            Some(RelationRow {
                relation: job.data.called_relation(id),
                queries: with.or(without)?.1,
                combined: of(&combined, name).map(|(mrr, _)| mrr),
                rules: Some(findings.rules.iter().filter(|record| record.rule.head() == id).count()),
                guided: with.map(|(mrr, _)| mrr),
                unguided: without.map(|(mrr, _)| mrr),
            })
        })
        .collect();
    rows.into()
}

/// Where the model that ranks with rules and evidence may be, in a run folder.
const RANKS: [&str; 2] = ["evaluated", "with-rules"];

fn evidence(findings: &Findings, job: &Job<'_>) -> Part<EvidenceUse> {
    let folders = RANKS.iter().map(|name| ModelFile::find(&findings.out.join(name)));
    let Some(path) = folders.into_iter().find(|path| path.is_file()) else { return Part::LeftOut };
    let ranking = match ModelFile::read(&path) {
        Ok(file) => file.ranking,
        Err(error) => return Part::Missing(format!("The evidence could not be read: {error}.")),
    };
    match ranking.as_ref().and_then(|ranking| gather::evidence::of(ranking, job.data)) {
        Some(found) => found.into(),
        None => Part::LeftOut,
    }
}

fn calibration(findings: &Findings) -> Part<CalibrationCurve> {
    let Some(trust) = &findings.trust else { return Part::LeftOut };
    let (Some(found), Some(split)) = (&trust.guided, &trust.split) else {
        return Part::Missing(match trust.source {
            Source::Objective => "There are no validation triples to calibrate truth values on.".into(),
            Source::Validation { .. } => {
                "Truth values were calibrated on validation; there are no test triples to check them on.".into()
            }
        });
    };
    let bins = |found: &Reliability| -> Vec<ReliabilityBin> {
        found
            .curve
            .iter()
            .filter(|bucket| bucket.count > 0)
            .map(|bucket| ReliabilityBin {
                predicted: bucket.expected,
                observed: bucket.facts,
                count: bucket.count as u64,
            })
            .collect()
    };
    CalibrationCurve {
        about: format!(
            "The first ten answers to both questions of every {split} triple, other known facts left out. An answer counts as \
             true if it is the {split} triple; facts nobody listed count as wrong. The share was fitted on validation. The truth of a new fact is another number: see the proposed facts."
        ),
        bins: bins(found),
        before: trust.before.as_ref().map_or_else(Vec::new, bins),
        brier: Some(found.brier),
        ece: Some(found.ece),
        brier_before: trust.before.as_ref().map(|found| found.brier),
        ece_before: trust.before.as_ref().map(|found| found.ece),
    }
    .into()
}

fn obedience(findings: &Findings) -> Part<Consistency> {
    let Some(found) = findings.obedience.as_ref().and_then(|found| found.consistency.as_ref()) else {
        return Part::Missing("There are no rules to obey.".into());
    };
    let mut rules: Vec<_> = found.rules.iter().collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.groundings));
    Consistency {
        guided: Some(found.model.share),
        unguided: found.unguided.map(|agreement| agreement.share),
        rows: rules
            .into_iter()
            .take(ROWS)
            .map(|rule| ConsistencyRow {
                words: rule.words.clone(),
                confidence: rule.confidence,
                groundings: rule.groundings,
                guided: Some(rule.model.share),
                unguided: rule.unguided.map(|agreement| agreement.share),
            })
            .collect(),
    }
    .into()
}

fn clean_up(findings: &Findings, data: &Dataset) -> Part<CleanUp> {
    let Some(found) = &findings.obedience else { return Part::LeftOut };
    if found.doubtful.is_empty() {
        return Part::Missing("No training triple is doubted by rules and model both.".into());
    }
    let rows = found.doubtful.iter().map(|doubt| Suspect {
        fact: fact(&doubt.fact, false, data),
        truth: doubt.estimate,
        why: match doubt.instead.is_empty() {
            true => "no rule concludes it, though rules conclude most facts of its relation".into(),
            false => format!("no rule concludes it; rules conclude {} instead", called(&doubt.instead, data)),
        },
    });
    CleanUp { about: consistency::CRITERION.into(), rows: rows.collect() }.into()
}

/// Relations whose completeness is in the report.
const COMPLETENESS: usize = 40;
/// Relations that are named in a sentence.
const NAMED: usize = 10;

/// All that is known of the proposed facts, and what was left out.
fn proposed(found: &Proposals, findings: &Findings, job: &Job<'_>) -> Proposed {
    let mut cut = Vec::new();
    if let Some(only) = &found.only {
        let more = if only.len() > NAMED { ", …" } else { "" };
        cut.push(format!(
            "Facts were proposed for {} of {} relations only, those that rules conclude most about, because train has more than {} \
             triples: {}{more}. The command below completes the others, too.",
            grouped(only.len()),
            grouped(job.data.relation_count()),
            grouped(ALL_RELATIONS_UP_TO),
            only.iter().take(NAMED).map(|name| shown::relation(job.data, name)).collect::<Vec<_>>().join(", ")
        ));
    }
    let left_out = found.count - found.facts.len().min(found.count);
    if left_out > 0 {
        let kept = grouped(found.facts.len());
        cut.push(format!("The {kept} truest are here; {} were found and are not.", grouped(left_out)));
    }
    if !cut.is_empty() {
        cut.push(format!("All of them: ruge complete {} --min-truth {}", findings.home.display(), found.min_truth));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    found.facts.iter().for_each(|proposal| *counts.entry(&proposal.fact.relation).or_default() += 1);
    let row = |of: &CompletenessOf| CompletenessRow {
        relation: of.relation.clone(),
        proposals: counts.get(of.relation.as_str()).copied().unwrap_or(0),
        share: of.estimate.share,
        interval: [of.estimate.low, of.estimate.high],
        sure: of.sure,
        given: of.given,
    };
    let mut completeness: Vec<CompletenessRow> = found.completeness.iter().map(row).collect();
    completeness.sort_by_key(|row| std::cmp::Reverse(row.proposals));
    completeness.truncate(COMPLETENESS);
    Proposed {
        facts: told_against(&found.facts, job.data),
        found: found.count,
        least: found.min_truth,
        cut,
        assumes: found.assumes.clone(),
        completeness,
    }
}

/// A fact as people read it.
fn fact(of: &explain::Fact, negated: bool, data: &Dataset) -> Fact {
    let (head, tail) = (shown::entity(data, &of.head), shown::entity(data, &of.tail));
    Fact { negated, ..Fact::new(head, shown::relation(data, &of.relation), tail) }
}

fn called(entities: &[String], data: &Dataset) -> String {
    entities.iter().map(|name| shown::entity(data, name)).collect::<Vec<_>>().join(", ")
}

/// Sentences of facts that keep their names: the page has them once to read and once to download.
fn told_against(proposals: &[Proposal], data: &Dataset) -> Vec<Proposal> {
    let mut proposals = proposals.to_vec();
    for reason in proposals.iter_mut().flat_map(|proposal| &mut proposal.against) {
        *reason = shown::text(data, reason);
    }
    proposals
}

/// Only soft labels are moved; examples weigh what they weigh.
fn prediction(sample: &Sample, moves_labels: bool, data: &Dataset) -> Prediction {
    let found = &sample.explanation;
    let firing = |(place, rule): (usize, &explain::RuleEvidence)| Firing {
        words: shown::text(data, &rule.words),
        confidence: rule.confidence,
        push: moves_labels.then_some(rule.push),
        premises: found
            .groundings
            .iter()
            .find(|grounding| grounding.rule_index == place)
            .map(|grounding| {
                grounding.premises.iter().map(|premise| fact(&premise.fact, premise.negated, data)).collect()
            })
            .unwrap_or_default(),
    };
    Prediction {
        fact: fact(&found.fact, false, data),
        standing: match sample.standing {
            Standing::New => report::Standing::New,
            Standing::InTest => report::Standing::InTest,
        },
        truth: Some(found.estimate),
        // The model without rules has not seen what the model to deploy has: only of held-out facts the two compare.
        truth_unguided: (sample.standing == Standing::InTest).then_some(sample.estimate_unguided),
        rank: Some(found.rank),
        rank_unguided: Some(sample.rank_unguided),
        rules: found.rules.iter().enumerate().map(firing).collect(),
        similar: found.similar.iter().map(|similar| fact(&similar.fact, false, data)).collect(),
        against: found.against.iter().map(|reason| shown::text(data, reason)).collect(),
        parts: found
            .parts
            .iter()
            .map(|part| Effect { words: shown::text(data, &part.words), value: part.value })
            .collect(),
        closing: explain::parts::closing(found.side).into(),
        note: match sample.standing {
            Standing::New => None,
            Standing::InTest => {
                Some("Chosen among test triples that rules conclude because guidance helped here.".into())
            }
        },
    }
}

/// What the user told, as flags.
fn told(told: &Told) -> String {
    let path = |path: &PathBuf| path.display().to_string();
    [
        ("completeness", told.completeness.clone()),
        ("feedback", told.feedback.as_ref().map(path)),
        ("constraints", told.constraints.as_ref().map(path)),
    ]
    .into_iter()
    .filter_map(|(flag, value)| Some(format!(" --{flag} {}", value?)))
    .collect()
}

fn repeat(findings: &Findings, job: &Job<'_>, version: &str) -> Repeat {
    let out = findings.home.display();
    let stages = Stage::ALL
        .iter()
        .filter_map(|stage| Some((stage.name().to_string(), findings.ledger.stages.get(stage.name())?.seconds)))
        .filter(|(name, _)| name != Stage::Report.name());
    Repeat {
        commands: vec![
            format!("ruge run {} --spec {out}/spec.toml --out again{}", findings.source, told(&findings.ledger.told)),
            format!("ruge eval {out} --by-relation"),
        ],
        specs: vec![
            ("spec.toml (with rules)".into(), findings.spec.clone()),
            ("unguided/spec.toml (without)".into(), unguided(&job.spec).to_toml()),
        ],
        version: version.into(),
        seed: job.spec.seed,
        data_hash: findings.ledger.data.clone(),
        stages: stages.collect(),
        notes: vec![("threads".into(), rayon::current_num_threads().to_string())],
    }
}
