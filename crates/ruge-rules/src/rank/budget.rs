//! How many rules may rank.
//!
//! Low thresholds find hundreds of rules per fact on small, dense graphs. Most of them say again what better ones say, they fit
//! chance, and weighing them takes longer than training. So every relation keeps its best rules, as many as its facts can tell apart.

use std::collections::BTreeMap;

use ruge_kg::{Graph, RelationId};

use super::{SMOOTHING, ranking_confidence};
use crate::io::RuleRecord;

/// Rules of a relation for each of its facts.
const PER_FACT: usize = 8;
/// Rules of a relation in any case.
const AT_LEAST: usize = 200;

/// The rules that fit, in their order, and how many do not. Rules without counts, from a file, are all kept: somebody chose them.
pub(super) fn within(rules: Vec<RuleRecord>, graph: &Graph) -> (Vec<RuleRecord>, usize) {
    let mut heads: BTreeMap<RelationId, Vec<(f64, u64, usize)>> = BTreeMap::new();
    for (at, record) in rules.iter().enumerate() {
        if let Some(counts) = record.counts {
            let worth = (ranking_confidence(record, SMOOTHING), counts.support, at);
            heads.entry(record.rule.head()).or_default().push(worth);
        }
    }
    let mut kept = vec![true; rules.len()];
    for (relation, mut found) in heads {
        let facts = if relation.index() < graph.relation_count() { graph.facts(relation).len() } else { 0 };
        let most = AT_LEAST.max(PER_FACT * facts);
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        found.iter().skip(most).for_each(|&(_, _, at)| kept[at] = false);
    }
    let dropped = kept.iter().filter(|kept| !**kept).count();
    let mut keeps = kept.into_iter();
    let mut rules = rules;
    rules.retain(|_| keeps.next() == Some(true));
    (rules, dropped)
}

#[cfg(test)]
mod tests {
    use ruge_kg::Triple;

    use super::*;
    use crate::measure::{Counts, Side};
    use crate::{Atom, Rule, Term, Variable};

    #[test]
    fn every_relation_keeps_its_best_rules() {
        let facts: Vec<Triple> = (0..60).map(|at| Triple::new(at, 0, at + 60)).collect();
        let graph = Graph::new(120, 2, &facts);
        let (x, y) = (Term::from(Variable(0)), Term::from(Variable(1)));
        let record = |head: u32, support: u64| {
            let rule = Rule::new(Atom::new(RelationId(head), x, y), vec![Atom::new(RelationId(1), y, x)]);
            let (body, head) = (1_000, 60);
            let counts = Counts { support, body, pca_subject: body, pca_object: body, head, side: Side::Subject };
            RuleRecord::counted(rule, counts)
        };
        let rules: Vec<RuleRecord> = (0..700).map(|at| record(u32::from(at % 7 == 0), at + 1)).collect();
        let (kept, dropped) = within(rules, &graph);
        assert_eq!((kept.len(), dropped), (580, 120), "480 for 60 facts; 100 of the other are fewer than the least");
        let concluding = kept.iter().filter(|record| record.rule.head() == RelationId(0));
        let supports = concluding.map(|record| record.counts.expect("counted").support);
        assert!(supports.min().expect("some") > 130, "the best by confidence");
    }
}
