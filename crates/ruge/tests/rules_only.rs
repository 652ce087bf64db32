//! Ranking by rules alone, against a naive twin on random graphs.

use std::cmp::Ordering;

use proptest::prelude::*;
use ruge_kg::{Control, EntityId, Filter, Graph, Place, Rank, RankQuery, RelationId, Side, Triple};
use ruge_rules::rank::only::{Aggregation, RulesOnly, log_doubt};
use ruge_rules::{Atom, Confidence, Rule, SoftRule, Term, Variable};

const ENTITIES: u32 = 6;
const RELATIONS: u32 = 3;
const AGGREGATIONS: [Aggregation; 5] = [
    Aggregation::Max,
    Aggregation::MaxPlus,
    Aggregation::NoisyOr,
    Aggregation::Discounted(0.5),
    Aggregation::Discounted(0.0),
];

fn triples(most: usize) -> impl Strategy<Value = Vec<Triple>> {
    let triple = (0..ENTITIES, 0..RELATIONS, 0..ENTITIES).prop_map(|(h, r, t)| Triple::new(h, r, t));
    proptest::collection::vec(triple, 0..most)
}

/// Any rules, unsafe and impossible ones too. Confidences are such that all products of them are exact.
fn rules() -> impl Strategy<Value = Vec<SoftRule>> {
    let term = prop_oneof![
        6 => (0u8..4).prop_map(|v| Term::from(Variable(v))),
        1 => (0..ENTITIES + 1).prop_map(|e| Term::from(EntityId(e))),
    ];
    let atom = (0..RELATIONS, term.clone(), term).prop_map(|(r, s, o)| Atom::new(RelationId(r), s, o));
    let body = proptest::collection::vec(atom.clone(), 0..4);
    let negated = prop_oneof![3 => Just(vec![]), 1 => proptest::collection::vec(atom.clone(), 1..3)];
    let confidence = prop_oneof![1 => Just(0.0), 2 => Just(0.25), 4 => Just(0.5), 2 => Just(0.75), 1 => Just(1.0)];
    let rule = (atom, body, negated, confidence).prop_map(|(conclusion, premise, negated, confidence)| SoftRule {
        rule: Rule { conclusion, premise, negated },
        confidence: Confidence::new(confidence).expect("in range"),
    });
    proptest::collection::vec(rule, 0..8)
}

/// Whether some binding of all variables makes the premise true and the conclusion this triple.
fn concludes(train: &[Triple], rule: &Rule, triple: Triple) -> bool {
    if rule.premise.is_empty() || !rule.is_safe() {
        return false;
    }
    (0..ENTITIES.pow(4)).any(|code| {
        let value = |term: Term| match term {
            Term::Variable(v) => code / ENTITIES.pow(u32::from(v.0)) % ENTITIES,
            Term::Constant(entity) => entity.0,
        };
        let bound = |atom: &Atom| Triple::new(value(atom.subject), atom.relation.0, value(atom.object));
        let holds = |atom: &Atom| train.contains(&bound(atom));
        bound(&rule.conclusion) == triple && rule.premise.iter().all(holds) && !rule.negated.iter().any(holds)
    })
}

/// Confidences of the rules that conclude the triple, in falling order.
fn support(train: &[Triple], rules: &[SoftRule], triple: Triple) -> Vec<f64> {
    let says = |soft: &&SoftRule| soft.confidence.get() > 0.0 && concludes(train, &soft.rule, triple);
    let mut found: Vec<f64> = rules.iter().filter(says).map(|soft| soft.confidence.get()).collect();
    found.sort_by(|a, b| b.total_cmp(a));
    found
}

fn compare(aggregation: Aggregation, a: &[f64], b: &[f64]) -> Ordering {
    let noisy = |list: &[f64]| 1.0 - list.iter().map(|c| 1.0 - c).product::<f64>();
    let order = match aggregation {
        Aggregation::Max => a.first().unwrap_or(&0.0).partial_cmp(b.first().unwrap_or(&0.0)),
        Aggregation::MaxPlus => a.partial_cmp(b),
        Aggregation::NoisyOr => noisy(a).partial_cmp(&noisy(b)),
        Aggregation::Discounted(discount) => {
            let sum = |list: &[f64]| {
                let term = |(at, c): (usize, &f64)| discount.powi(at as i32) * log_doubt(*c);
                list.iter().enumerate().map(term).fold(0.0, |sum, term| sum + term)
            };
            sum(a).partial_cmp(&sum(b))
        }
    };
    order.expect("no NaN")
}

/// The definition, word by word.
fn naive(train: &[Triple], rules: &[SoftRule], known: &[Triple], query: &RankQuery, how: Aggregation) -> Rank {
    let with = |entity: EntityId| match query.side {
        Side::Head => Triple { head: entity, ..query.triple },
        Side::Tail => Triple { tail: entity, ..query.triple },
    };
    let own = support(train, rules, query.triple);
    let mut rank = Rank::default();
    for entity in (0..ENTITIES).map(EntityId).filter(|&entity| entity != query.answer()) {
        let order = compare(how, &support(train, rules, with(entity)), &own);
        let count = |place: &mut Place| {
            place.others += 1;
            place.better += u32::from(order == Ordering::Greater);
            place.equal += u32::from(order == Ordering::Equal);
        };
        count(&mut rank.raw);
        if !known.contains(&with(entity)) {
            count(&mut rank.filtered);
        }
    }
    rank
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn ranks_follow_the_definition(train in triples(40), test in triples(6), rules in rules(), filtered: bool) {
        let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &train);
        let mut known = if filtered { train.clone() } else { vec![] };
        // The last test triple is unknown to the filter: the answer need not be a known fact.
        known.extend(test.iter().take(if filtered { test.len().saturating_sub(1) } else { 0 }));
        let filter = Filter::new(ENTITIES as usize, RELATIONS as usize, &[&known]);
        let queries = RankQuery::both_sides(&test);
        let ranker = RulesOnly::new(&graph, &rules);
        for how in AGGREGATIONS {
            let ranks = ranker.rank(&queries, filtered.then_some(&filter), how, &Control::default()).expect("nobody cancels");
            for (query, rank) in queries.iter().zip(ranks) {
                prop_assert_eq!(rank, naive(&train, &rules, &known, query, how), "{:?} {:?}", how, query);
            }
        }
        // The two ends of the discount are the two old friends.
        let by = |how| ranker.rank(&queries, filtered.then_some(&filter), how, &Control::default()).expect("nobody cancels");
        prop_assert_eq!(by(Aggregation::Discounted(0.0)), by(Aggregation::Max));
        if rules.iter().all(|soft| soft.confidence.get() < 1.0) {
            // Logarithms round where products of these confidences do not: equal up to ties.
            for (log, product) in by(Aggregation::Discounted(1.0)).iter().zip(by(Aggregation::NoisyOr)) {
                let (low, high) = (log.filtered.better, log.filtered.better + log.filtered.equal);
                prop_assert!(low <= product.filtered.better + product.filtered.equal && product.filtered.better <= high);
            }
        }
    }
}
