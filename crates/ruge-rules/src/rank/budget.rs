//! How many rules may rank.
//!
//! Low thresholds find hundreds of rules per fact on small, dense graphs. Most of them say again what better ones say, they fit
//! chance, and weighing them takes longer than training. So every relation keeps its best rules, as many as its facts can tell apart.
//!
//! Where even these would take too long, rules that cost the most for what they are worth are left out: [`affordable`].

use std::collections::BTreeMap;

use rayon::prelude::*;
use ruge_kg::control::{Cancelled, Control};
use ruge_kg::{Dataset, Graph, RankQuery, RelationId};

use super::fit::some;
use super::index::{Asker, RuleIndex};
use super::prepared::{Effort, FEW, SMOOTHINGS};
use super::scores::known_end;
use super::{SMOOTHING, ranking_confidence};
use crate::io::RuleRecord;

/// Rules of a relation for each of its facts: more on graphs of at most [`SMALL`] training triples, where it pays (docs/ranking.md).
const PER_FACT: [usize; 2] = [16, 8];
/// Training triples of a small graph.
const SMALL: usize = 50_000;
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
    let per_fact = PER_FACT[usize::from(graph.len() > SMALL)];
    for (relation, mut found) in heads {
        let facts = if relation.index() < graph.relation_count() { graph.facts(relation).len() } else { 0 };
        let most = AT_LEAST.max(per_fact * facts);
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        found.iter().skip(most).for_each(|&(_, _, at)| kept[at] = false);
    }
    keep(rules, kept)
}

/// The rules that are kept, and how many are not.
fn keep(mut rules: Vec<RuleRecord>, kept: Vec<bool>) -> (Vec<RuleRecord>, usize) {
    let dropped = kept.iter().filter(|kept| !**kept).count();
    let mut keeps = kept.into_iter();
    rules.retain(|_| keeps.next() == Some(true));
    (rules, dropped)
}

/// Questions that the cost of rules is measured on.
const SAMPLED: usize = 1_024;
/// Times that rules are asked about a fact while weights are learned: once, and what came is gone through in every pass.
const LEARNING: f64 = 4.0;
/// Times that rules are asked a validation question: settings, evidence and truth are fitted, with the model and without.
const FITTING: f64 = 8.0;

/// What weighing rules may cost, and what it costs.
pub(super) struct Affordable {
    /// The rules that are kept, in their order.
    pub rules: Vec<RuleRecord>,
    /// How many are not.
    pub dropped: usize,
    /// How much is asked.
    pub effort: Effort,
}

/// The rules with which weighing takes no more than so many steps, about. Time must not decide, or two runs would differ; so the
/// steps that rules take are counted on a sample of questions about train, and where all questions would take too many, rules that
/// cost the most for what they are worth are left out. Rules without counts are kept: where they alone cost too much, less is asked.
pub(super) fn affordable(
    rules: Vec<RuleRecord>,
    data: &Dataset,
    effort: Effort,
    steps: u64,
    control: &Control<'_>,
) -> Result<Affordable, Cancelled> {
    let sample = RankQuery::both_sides(&some(data.train(), SAMPLED / 2));
    let costs = costs(&rules, data.graph(), &sample, control)?;
    let valid = data.valid().len();
    let learned = effort.questions.min(2 * data.train().len()) as f64;
    let asked = (SMOOTHINGS.len() * 2 * valid.min(FEW)) as f64
        + LEARNING * learned
        + FITTING * 2.0 * valid.min(effort.triples) as f64;
    let most = (steps as f64 / asked * sample.len() as f64) as u64;
    let mut total: u64 = costs.iter().sum();
    if total <= most {
        return Ok(Affordable { rules, dropped: 0, effort });
    }
    let worth = |at: usize| ranking_confidence(&rules[at], SMOOTHING).max(f64::MIN_POSITIVE);
    let price = |at: usize| costs[at] as f64 / worth(at);
    let mut order: Vec<usize> = (0..rules.len()).filter(|&at| costs[at] > 0 && rules[at].counts.is_some()).collect();
    order.sort_by(|&a, &b| price(b).total_cmp(&price(a)).then(a.cmp(&b)));
    let mut kept = vec![true; rules.len()];
    for at in order {
        if total <= most {
            break;
        }
        total -= costs[at];
        kept[at] = false;
    }
    let share = if total <= most { 1.0 } else { most as f64 / total as f64 };
    let less = |wanted: usize, least: usize| ((wanted as f64 * share) as usize).clamp(least.min(wanted), wanted);
    let effort = Effort { questions: less(effort.questions, 1_000), triples: less(effort.triples, FEW) };
    let (rules, dropped) = keep(rules, kept);
    Ok(Affordable { rules, dropped, effort })
}

/// The steps that every rule takes for some questions together.
fn costs(
    rules: &[RuleRecord],
    graph: &Graph,
    sample: &[RankQuery],
    control: &Control<'_>,
) -> Result<Vec<u64>, Cancelled> {
    let index = RuleIndex::new(graph, rules.iter().map(|record| &record.rule)).injective();
    let mut costs = vec![0u64; rules.len()];
    // A few at a time: a question may meet a hundred thousand rules.
    for some in sample.chunks(64) {
        control.check()?;
        let ask = |asker: &mut Asker, query: &RankQuery| {
            let mut found = Vec::new();
            let mut tell = |rule: u32, steps: u64| found.push((rule, steps));
            index.steps(graph, query.triple.relation, known_end(query), asker, &mut tell);
            found
        };
        let found: Vec<Vec<(u32, u64)>> = some.par_iter().map_init(Asker::default, ask).collect();
        found.into_iter().flatten().for_each(|(rule, steps)| costs[rule as usize] += steps);
    }
    Ok(costs)
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
            let (body, head) = (2_000, 60);
            let counts = Counts { support, body, pca_subject: body, pca_object: body, head, side: Side::Subject };
            RuleRecord::counted(rule, counts)
        };
        let rules: Vec<RuleRecord> = (0..1_400).map(|at| record(u32::from(at % 7 == 0), at + 1)).collect();
        let (kept, dropped) = within(rules, &graph);
        assert_eq!(
            (kept.len(), dropped),
            (1_160, 240),
            "960 for 60 facts; 200 of the other are no more than the least"
        );
        let concluding = kept.iter().filter(|record| record.rule.head() == RelationId(0));
        let supports = concluding.map(|record| record.counts.expect("counted").support);
        assert!(supports.min().expect("some") > 270, "the best by confidence");
    }

    /// Fifty people of two towns, two hundred others who live there, and who owns which shop.
    fn towns() -> (Dataset, Vec<RuleRecord>) {
        let mut names = ruge_kg::Names::default();
        let mut train = Vec::new();
        for person in 0..250 {
            train.push(names.triple(&format!("p{person}"), "lives", &format!("town{}", person % 2)));
        }
        let mut valid = Vec::new();
        for person in 0..50 {
            let (owner, shop) = (format!("p{person}"), format!("shop{person}"));
            train.push(names.triple(&owner, "founded", &shop));
            let owns = names.triple(&owner, "owns", &shop);
            if person % 5 == 0 {
                valid.push(owns)
            } else {
                train.push(owns)
            }
            train.push(names.triple(&shop, "stands", &format!("town{}", person % 2)));
        }
        let data = Dataset::new(names, train, valid, Vec::new());
        let relation = |name: &str| data.names().relations.id(name).expect("a relation");
        let (x, y, z) = (Term::from(Variable::X), Term::from(Variable::Y), Term::from(Variable::Z));
        let owns = Atom::new(relation("owns"), x, y);
        let founded = Rule::new(owns, vec![Atom::new(relation("founded"), x, y)]);
        let lives = [Atom::new(relation("lives"), x, z), Atom::new(relation("stands"), y, z)];
        let neighbour = Rule::new(owns, lives.to_vec());
        let counted = |rule: Rule| {
            let counts = crate::count::Counter::new(data.entity_count()).count(data.graph(), &rule);
            RuleRecord::counted(rule, counts.expect("a rule of the graph"))
        };
        let rules = vec![counted(neighbour), counted(founded)];
        (data, rules)
    }

    #[test]
    fn what_costs_the_most_for_its_worth_goes_first() {
        let (data, rules) = towns();
        let control = Control::default();
        let some = RankQuery::both_sides(&super::some(data.train(), SAMPLED / 2));
        let costs = costs(&rules, data.graph(), &some, &control).expect("nobody cancels");
        // Forty facts, each asked from both ends: an owner has one town of 25 shops, a shop one town of 125 people.
        assert_eq!(costs, [40 * (1 + 1 + 25) + 40 * (1 + 1 + 125), 40 * 2 + 40 * 2]);
        let within = |steps: u64| affordable(rules.clone(), &data, Effort::USUAL, steps, &control).expect("done");
        let asked = 8.0 * 20.0 + LEARNING * 2.0 * data.train().len() as f64 + FITTING * 20.0;
        let all = (costs.iter().sum::<u64>() as f64 / some.len() as f64 * asked).ceil() as u64;
        assert_eq!((within(all).rules, within(all).effort), (rules.clone(), Effort::USUAL), "everything fits");
        let less = within(all - 100);
        assert_eq!((&less.rules[..], less.dropped, less.effort), (&rules[1..], 1, Effort::USUAL));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
        assert_eq!(pool.install(|| within(all - 100).rules), less.rules, "on any number of threads");
        assert_eq!(within(0).dropped, 2, "nothing is for free");
        // Somebody chose them: less is asked instead.
        let chosen: Vec<RuleRecord> =
            rules.iter().map(|record| RuleRecord { counts: None, ..record.clone() }).collect();
        let found = affordable(chosen, &data, Effort::USUAL, all / 2, &control).expect("done");
        assert_eq!((found.dropped, found.rules.len()), (0, 2));
        assert!((29_000..=30_000).contains(&found.effort.questions), "{:?}", found.effort);
        control.cancel().cancel();
        assert!(affordable(rules.clone(), &data, Effort::USUAL, all, &control).is_err());
    }
}
