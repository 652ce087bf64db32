//! What a rule's new conclusions are worth, measured on validation.
//!
//! A confidence is counted on train, where the conclusions that are already facts stand. What guidance needs is another
//! number: of the conclusions that are *not* in train, how many are true? PCA confidence guesses it, and on graphs without a
//! leak it guesses far too high. Validation triples are a sample of the facts left out, so the share of a rule's new
//! conclusions among them, divided by the share of the left-out facts that validation is, measures it.
//!
//! *Few conclusions.* Of a rule with five conclusions, none of them in valid, nothing is known. So each rule's share is
//! shrunk to that of all rules with its head relation, and that to the share of all rules, each as if
//! [`PRIOR`] conclusions had been seen with the mean of the wider group: the mean of a Beta posterior. Where valid has no fact of the
//! head relation at all, it says nothing, and the confidence stands.

use crate::{Confidence, Groundings, RuleRecord};
use ruge_kg::{Dataset, RelationId, Triple};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// Conclusions that a prior counts for.
pub const PRIOR: f64 = 20.0;

/// What validation says of one rule.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Validated {
    /// Its distinct conclusions that are not in train.
    pub conclusions: usize,
    /// Those of them that are validation triples.
    pub in_valid: usize,
    /// The estimated share of true ones, in [0, 1]; the mined confidence where validation has no fact of the head relation.
    pub precision: f64,
    /// Whether validation has facts of the head relation.
    pub is_measured: bool,
}

/// The precision of every rule, in their order. Only train and valid are looked at, and how many test triples there are: that
/// tells which share of the left-out facts validation is. One number is fitted per rule, one per head relation and one in all.
pub fn validated(rules: &[RuleRecord], groundings: &Groundings, data: &Dataset) -> Vec<Validated> {
    let new = |triples: &[Triple]| triples.iter().filter(|triple| !data.graph().contains(**triple)).count() as f64;
    let valid: FxHashSet<Triple> = data.valid().iter().copied().collect();
    let relations: FxHashSet<RelationId> = valid.iter().map(|triple| triple.relation).collect();
    // The content of test is not asked for; facts of train that stand in it again are few and do no harm.
    let share = match new(data.valid()) {
        0.0 => 1.0,
        valid => valid / (valid + data.test().len() as f64),
    };
    let hit: Vec<bool> = groundings.unlabeled().iter().map(|triple| valid.contains(triple)).collect();
    let count = |rule: usize| {
        let mut places: Vec<usize> = groundings.of_rule(rule).map(|g| groundings.conclusion(g)).collect();
        places.sort_unstable();
        places.dedup();
        (places.len(), places.iter().filter(|&&place| hit[place]).count())
    };
    let counts: Vec<(usize, usize)> = (0..rules.len().min(groundings.rule_count())).map(count).collect();
    let mut all = (0, 0);
    let mut heads: FxHashMap<RelationId, (usize, usize)> = FxHashMap::default();
    for (record, &(conclusions, in_valid)) in rules.iter().zip(&counts) {
        for sum in [&mut all, heads.entry(record.rule.head()).or_default()] {
            sum.0 += conclusions;
            sum.1 += in_valid;
        }
    }
    let shrunk = |(n, hits): (usize, usize), mean: f64| (hits as f64 + PRIOR * mean) / (n as f64 + PRIOR);
    let global = if all.0 == 0 { 0.0 } else { all.1 as f64 / all.0 as f64 };
    let precision = |(record, &own): (&RuleRecord, &(usize, usize))| {
        let head = heads.get(&record.rule.head()).copied().unwrap_or_default();
        let is_measured = relations.contains(&record.rule.head());
        let precision = match is_measured {
            true => (shrunk(own, shrunk(head, global)) / share).clamp(0.0, 1.0),
            false => record.mined_confidence(),
        };
        Validated { conclusions: own.0, in_valid: own.1, precision, is_measured }
    };
    rules.iter().zip(&counts).map(precision).collect()
}

/// The rules with their validated precision for a confidence.
pub fn weigh(rules: &mut [RuleRecord], groundings: &Groundings, data: &Dataset) {
    // Without validation triples there is nothing to measure; confidence is all there is.
    if data.valid().is_empty() {
        return;
    }
    let measured = validated(rules, groundings, data);
    for (record, validated) in rules.iter_mut().zip(measured) {
        record.confidence = Confidence::new(validated.precision).unwrap_or(record.confidence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Stated;
    use crate::{Atom, Rule, Variable, ground};
    use ruge_kg::Names;

    /// Relation 0 is concluded from relation 1 (always right) and from relation 2 (never).
    fn world(pairs: u32) -> Dataset {
        let mut names = Names::default();
        for entity in 0..2 * pairs {
            names.entities.intern(&format!("e{entity}"));
        }
        for relation in 0..4 {
            names.relations.intern(&format!("r{relation}"));
        }
        let (mut train, mut valid, mut test) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            let fact = |relation| Triple::new(2 * pair, relation, 2 * pair + 1);
            train.push(fact(1));
            train.push(Triple::new(2 * pair + 1, 2, 2 * pair));
            let part = if pair % 2 == 0 { &mut valid } else { &mut test };
            part.push(fact(0));
        }
        Dataset::new(names, train, valid, test)
    }

    fn rule(head: u32, body: u32) -> RuleRecord {
        let atom = |relation| Atom::new(RelationId(relation), Variable::X, Variable::Y);
        let rule = Rule::new(atom(head), vec![atom(body)]);
        RuleRecord { line: 0, rule, confidence: Confidence::HARD, stated: Stated::default(), counts: None }
    }

    fn measure(data: &Dataset, rules: &[RuleRecord]) -> Vec<Validated> {
        let horn: Vec<Rule> = rules.iter().map(|record| record.rule.clone()).collect();
        validated(rules, &ground(data.graph(), &horn), data)
    }

    #[test]
    fn right_and_wrong_rules_are_told_apart() {
        let data = world(400);
        let rules = [rule(0, 1), rule(0, 2), rule(3, 1)];
        let found = measure(&data, &rules);
        assert_eq!((found[0].conclusions, found[0].in_valid), (400, 200));
        assert_eq!((found[1].conclusions, found[1].in_valid), (400, 0));
        assert!(found[0].precision > 0.95 && found[1].precision < 0.05, "{found:?}");
        assert!(
            !found[2].is_measured && found[2].precision == 1.0,
            "of a relation that valid never has nothing is known"
        );
        let mut weighed = rules.to_vec();
        let horn: Vec<Rule> = rules.iter().map(|record| record.rule.clone()).collect();
        weigh(&mut weighed, &ground(data.graph(), &horn), &data);
        assert!(weighed.iter().zip(&found).all(|(record, found)| record.confidence.get() == found.precision));
    }

    #[test]
    fn a_rule_of_few_conclusions_is_near_its_group() {
        // By hand: one conclusion in two is in valid, valid is half of what was left out.
        let data = world(4);
        let found = measure(&data, &[rule(0, 1), rule(0, 2)]);
        let global: f64 = 2.0 / 8.0;
        let head = (2.0 + PRIOR * global) / (8.0 + PRIOR);
        let own = (2.0 + PRIOR * head) / (4.0 + PRIOR) / 0.5;
        assert!((found[0].precision - own).abs() < 1e-12, "{found:?}, not {own}");
        assert!(found[0].precision - found[1].precision < 0.2, "four conclusions decide little: {found:?}");
    }

    #[test]
    fn without_validation_the_mined_confidence_stands() {
        let data = world(10);
        let none = Dataset::new(data.names().clone(), data.train().to_vec(), Vec::new(), Vec::new());
        assert!(measure(&none, &[rule(0, 1)]).iter().all(|found| found.precision == 1.0 && !found.is_measured));
        assert!(measure(&none, &[]).is_empty());
    }
}
