//! Parts of a report from what the other crates return, so that every caller says the same in the same words.

pub mod evidence;

use std::collections::BTreeSet;

use ruge::run::curve::Line;
use ruge_embed::Metrics;
use ruge_kg::stats::Pattern;
use ruge_kg::{Dataset, LoadReport, RelationId, Stats, describe};
use ruge_rules::measure::wilson_lower;
use ruge_rules::rank::validated::Validated;
use ruge_rules::{RuleRecord, words};

use crate::report::{
    Curve, DataAudit, Finding, Histogram, Level, MetricsRow, PatternRow, RelationSize, RuleRow, RuleSet, System,
};
use crate::shown;

/// Rows of a list in the data audit.
const ROWS: usize = 10;

/// The audit of a data set. `loaded` adds what was met while reading; `source` says where that was.
pub fn data(source: &str, data: &Dataset, loaded: Option<&LoadReport>) -> DataAudit {
    let stats = describe(data);
    let relation = |id: RelationId| data.called_relation(id);
    let pattern = |kind: &str, pattern: &Pattern| PatternRow {
        kind: kind.into(),
        first: relation(pattern.first),
        second: relation(pattern.second),
        share_of_first: pattern.share_of_first,
        share_of_second: pattern.share_of_second,
        support: pattern.support,
    };
    let found = &stats.patterns;
    let lists = [("symmetric", &found.symmetric), ("inverse", &found.inverse), ("duplicate", &found.duplicate)];
    let mut patterns: Vec<PatternRow> =
        lists.iter().flat_map(|(kind, list)| list.iter().map(move |row| pattern(kind, row))).collect();
    patterns.sort_by_key(|row| std::cmp::Reverse(row.support));
    patterns.truncate(ROWS);
    let largest = stats.relation_sizes.largest.iter().take(ROWS).map(|&(id, facts)| RelationSize {
        relation: relation(id),
        facts,
        class: stats.per_relation[id.index()].cardinality.map_or(String::new(), |class| class.name().to_string()),
    });
    DataAudit {
        source: source.into(),
        entities: stats.entities,
        relations: stats.relations,
        splits: stats.splits.map(|split| split.triples),
        findings: findings(&stats, loaded),
        largest: largest.collect(),
        patterns,
    }
}

fn findings(stats: &Stats, loaded: Option<&LoadReport>) -> Vec<Finding> {
    let mut list = Vec::new();
    let mut say = |level: Level, text: String| list.push(Finding { level, text });
    let are = |count: usize, one: &str, many: &str| {
        let words = if count == 1 { one } else { many };
        format!("{} {words}", crate::html::grouped(count))
    };
    if let Some(loaded) = loaded {
        let duplicates: usize = loaded.duplicates.iter().map(|split| split.count).sum();
        match (loaded.bad_lines(), duplicates) {
            (0, 0) => say(Level::Fine, "Every line is a triple, and none is repeated.".into()),
            (bad, repeated) => {
                if bad > 0 {
                    let text = are(bad as usize, "malformed line was", "malformed lines were");
                    say(Level::Warning, format!("{text} skipped."));
                }
                if repeated > 0 {
                    let text = are(repeated, "triple is repeated; it counts", "triples are repeated; they count");
                    say(Level::Note, format!("{text} once."));
                }
            }
        }
        if loaded.split_here {
            say(Level::Note, "Validation and test triples were split off here, reproducibly.".into());
        }
    }
    let [_, valid, test] = &stats.splits;
    if valid.triples + test.triples == 0 {
        say(Level::Warning, "There are no held-out triples: nothing can be validated or tested.".into());
        return list;
    }
    let overlap = stats.overlap.train_valid + stats.overlap.train_test;
    if overlap > 0 {
        let text = are(overlap, "held-out triple is also", "held-out triples are also");
        say(Level::Warning, format!("{text} in train: the model has seen the answer."));
    } else {
        say(Level::Fine, "No held-out triple is in train.".into());
    }
    let unseen = valid.with_unseen_entity + test.with_unseen_entity;
    if unseen > 0 {
        let text = are(unseen, "held-out triple mentions", "held-out triples mention");
        say(Level::Warning, format!("{text} an entity that is not in train: a model can only guess there."));
    } else {
        say(Level::Fine, "Every held-out entity is known from train.".into());
    }
    let leak = &stats.test_leakage;
    if leak.counts.copyable > 0 {
        say(
            if leak.share_copyable > 0.3 { Level::Warning } else { Level::Note },
            format!(
                "{} ({:.1} %) could be copied from train through a symmetric, inverse or duplicate relation. Rules find these \
                 first, so read gains with it in mind.",
                are(leak.counts.copyable, "test triple", "test triples"),
                100.0 * leak.share_copyable
            ),
        );
    }
    list
}

/// The rules of a run: counts, the `best` of them, the histogram of confidences. `validated` has what validation says of each rule,
/// in their order, or nothing.
pub fn rules(source: &str, rules: &[RuleRecord], validated: &[Validated], data: &Dataset, best: usize) -> RuleSet {
    let row = |record: &RuleRecord| {
        let place = rules.iter().position(|other| std::ptr::eq(other, record));
        let measured = place.and_then(|place| validated.get(place)).filter(|found| found.is_measured);
        RuleRow { valid: measured.map(|found| [found.in_valid, found.conclusions]), ..rule(record, data) }
    };
    let known: Vec<&RuleRecord> = rules.iter().filter(|record| words::is_sayable(&record.rule, data.names())).collect();
    let mut by_length = [0; 3];
    for record in rules {
        let length = record.rule.premise.len() + record.rule.negated.len();
        by_length[length.clamp(1, 3) - 1] += 1;
    }
    RuleSet {
        source: source.into(),
        count: rules.len(),
        by_length,
        best: best_of(&known, best).into_iter().map(row).collect(),
        confidences: histogram(rules.iter().map(RuleRecord::mined_confidence)),
        ..RuleSet::default()
    }
}

/// One rule in words and numbers.
pub fn rule(record: &RuleRecord, data: &Dataset) -> RuleRow {
    RuleRow {
        words: words::told(&record.rule, data),
        formula: shown::text(data, &words::formula(&record.rule, data.names())),
        confidence: record.mined_confidence(),
        support: record.counts.as_ref().map(|counts| counts.support),
        head_coverage: record.counts.as_ref().map(|counts| counts.head_coverage()),
        standard: record.counts.as_ref().map(|counts| counts.standard()),
        valid: None,
    }
}

/// The surest first (lower bound of the confidence given its counts), one per concluded relation, then the next of each.
fn best_of<'r>(rules: &[&'r RuleRecord], count: usize) -> Vec<&'r RuleRecord> {
    let sure = |record: &RuleRecord| match &record.counts {
        Some(counts) => wilson_lower(counts.support, counts.pca_body()),
        None => record.confidence.get(),
    };
    let mut order: Vec<&RuleRecord> = rules.to_vec();
    order.sort_by(|a, b| sure(b).total_cmp(&sure(a)));
    let mut heads = BTreeSet::new();
    let (first, rest): (Vec<&RuleRecord>, Vec<&RuleRecord>) =
        order.into_iter().partition(|record| heads.insert(record.rule.head()));
    first.into_iter().chain(rest).take(count).collect()
}

/// Equal buckets from the lowest twentieth up to 1.
fn histogram(confidences: impl Iterator<Item = f64>) -> Histogram {
    let values: Vec<f64> = confidences.collect();
    let lowest = values.iter().copied().fold(1.0, f64::min);
    // In twentieths, so that edges are round numbers; at least four buckets.
    let first = ((lowest * 20.0 + 1e-9).floor() as i32).clamp(0, 16);
    let edges: Vec<f64> = (2 * first..=40).map(|fortieth| f64::from(fortieth) / 40.0).collect();
    let mut counts = vec![0; edges.len() - 1];
    for value in values {
        let at = ((value - edges[0]) * 40.0 + 1e-9).floor().max(0.0) as usize;
        counts[at.min(edges.len() - 2)] += 1;
    }
    Histogram { edges, counts }
}

/// A learning curve from the lines of a run. Long losses are thinned to what a plot shows.
pub fn curve(name: &str, system: System, lines: &[Line]) -> Curve {
    let mut curve = Curve { name: name.into(), system, valid_mrr: Vec::new(), loss: Vec::new(), best_epoch: None };
    for Line { epoch, loss, valid_mrr, best, .. } in lines {
        curve.loss.extend(loss.map(|loss| (*epoch, loss)));
        curve.valid_mrr.extend(valid_mrr.map(|mrr| (*epoch, mrr)));
        if valid_mrr.is_some() && *best == Some(true) {
            curve.best_epoch = Some(*epoch);
        }
    }
    let every = curve.loss.len().div_ceil(200).max(1);
    let last = curve.loss.len().saturating_sub(1);
    let mut at = 0;
    curve.loss.retain(|_| {
        at += 1;
        (at - 1) % every == 0 || at - 1 == last
    });
    curve
}

/// A row of the metrics table. `method` is the name papers use, lower case.
pub fn metrics(name: &str, system: System, method: &str, metrics: &Metrics) -> MetricsRow {
    MetricsRow {
        name: name.into(),
        system,
        method: method.into(),
        mrr: metrics.mrr,
        spread: None,
        median: metrics.median,
        mean_rank: metrics.mean_rank,
        hits: metrics.hits.clone(),
        queries: metrics.queries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::Control;
    use ruge_kg::ReadOptions;
    use ruge_rules::{MineConfig, mine};

    #[test]
    fn the_demo_graph_tells_its_story() {
        let (set, loaded) = Dataset::load(std::path::Path::new("demo"), &ReadOptions::default()).unwrap();
        let audit = data("demo", &set, Some(&loaded));
        assert_eq!(audit.splits.iter().sum::<usize>(), set.train().len() + set.valid().len() + set.test().len());
        assert_eq!(audit.largest.len(), ROWS);
        assert!(audit.findings.iter().any(|finding| finding.level == Level::Fine));
        let mined = mine(set.graph(), &MineConfig::default(), &Control::default());
        let records: Vec<RuleRecord> =
            mined.rules.into_iter().map(|rule| RuleRecord::counted(rule.rule, rule.counts)).collect();
        let measured = |conclusions| Validated { conclusions, in_valid: 1, precision: 0.5, is_measured: true };
        let validated: Vec<Validated> = (0..records.len()).map(measured).collect();
        let found = rules("mined from train", &records, &validated, &set, 12);
        // Rules are sorted, and each keeps what validation says of it.
        let [_, place] = found.best[1].valid.expect("it was measured");
        assert_eq!(found.best[1].words, words::sentence(&records[place].rule, set.names()));
        assert_eq!(found.best.len(), 12);
        assert_eq!(found.count, records.len());
        assert_eq!(found.confidences.counts.iter().sum::<u64>(), records.len() as u64);
        assert_eq!(found.by_length.iter().sum::<usize>(), records.len());
        assert!(found.best[0].words.starts_with("if "), "{:?}", found.best[0]);
    }

    #[test]
    fn confidences_fall_into_round_buckets() {
        let found = histogram([0.8, 0.8249, 0.825, 1.0].into_iter());
        assert_eq!(found.edges.first().zip(found.edges.last()), Some((&0.8, &1.0)));
        assert_eq!(found.counts, [2, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(histogram([].into_iter()).counts.iter().sum::<u64>(), 0);
        assert_eq!(histogram([0.0, 0.033].into_iter()).counts[..2], [1, 1]);
    }

    #[test]
    fn curves_come_from_the_lines_of_a_run() {
        let line = |epoch, loss, valid_mrr, best| Line { epoch, loss: Some(loss), valid_mrr, best, ..Line::default() };
        let lines =
            [line(1, 0.7, None, None), line(2, 0.5, Some(0.3), Some(true)), line(4, 0.4, Some(0.2), Some(false))];
        let found = curve("x", System::Guided, &lines);
        assert_eq!(found.loss, [(1, 0.7), (2, 0.5), (4, 0.4)]);
        assert_eq!((found.valid_mrr, found.best_epoch), (vec![(2, 0.3), (4, 0.2)], Some(2)));
    }
}
