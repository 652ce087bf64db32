//! Rules with more groundings than can be visited: counted, applied, rejected, stopped.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use ruge_kg::{Cancel, Control, EntityId, Graph, RelationId, Triple, Work};
use ruge_rules::apply::{Application, Walker};
use ruge_rules::count::Counter;
use ruge_rules::ground::{Streaming, ground_conclusion, ground_conclusion_where, stream_within};
use ruge_rules::rank::index::{Asker, RuleIndex};
use ruge_rules::{Atom, GroundLimit, Rule, RuleError, Side, Variable, ground, ground_within};

const ENTITIES: u32 = 11;

/// Relation 0 links ten entities with all of them, relation 1 one pair; the eleventh entity has no fact of relation 0.
fn complete() -> Graph {
    let mut facts: Vec<Triple> = (0..10).flat_map(|x| (0..10).map(move |y| Triple::new(x, 0, y))).collect();
    facts.push(Triple::new(0, 1, 1));
    facts.push(Triple::new(0, 1, 10));
    Graph::new(ENTITIES as usize, 2, &facts)
}

/// r1(x, y) ⇐ r0(x, z1) ∧ r0(z1, z2) ∧ … ∧ r0(z, y): each atom multiplies the matches by ten.
fn chain(atoms: u8) -> Rule {
    let variable = |at: u8| match at {
        0 => Variable::X,
        at if at == atoms => Variable::Y,
        at => Variable(1 + at),
    };
    let step = |at: u8| Atom::new(RelationId(0), variable(at), variable(at + 1));
    Rule::new(Atom::new(RelationId(1), Variable::X, Variable::Y), (0..atoms).map(step).collect())
}

#[test]
fn a_long_rule_is_counted() {
    let counts = Counter::new(ENTITIES as usize).count(&complete(), &chain(11)).expect("it is safe");
    assert_eq!((counts.body, counts.support, counts.head), (100, 1, 2));
    assert_eq!((counts.pca_subject, counts.pca_object), (10, 10));
}

#[test]
fn a_long_rule_is_applied() {
    let graph = complete();
    let application = Application::new(&graph, &chain(40)).expect("it can be applied");
    let (mut ends, mut visits) = (std::collections::BTreeSet::new(), 0);
    application.objects(&graph, EntityId(3), &mut Walker::default(), &mut |end| {
        visits += 1;
        ends.insert(end.0);
    });
    assert_eq!(ends.len(), 10);
    assert!(visits <= 100, "{visits} visits");
    // A rule of an unusual shape: the index has no path for it and applies it directly.
    let mut odd = chain(40);
    odd.premise.push(Atom::new(RelationId(0), Variable(9), Variable(9)));
    let index = RuleIndex::new(&graph, [&odd]);
    let mut told = 0;
    let mut hear = |_: u32, _: EntityId| told += 1;
    index.ask(&graph, RelationId(1), (Side::Subject, EntityId(3)), &mut Asker::default(), &mut hear);
    assert_eq!(told, 10);
}

#[test]
fn a_long_rule_is_explained() {
    let graph = complete();
    let shown = ground_conclusion(&graph, &chain(30), Triple::new(2, 1, 7), 5);
    assert_eq!(shown.len(), 5);
    // Nothing leads to the eleventh entity: ten states per step are tried, not their product.
    assert!(ground_conclusion(&graph, &chain(30), Triple::new(2, 1, 10), 5).is_empty());
    let mut looked_at = 0u64;
    let none = ground_conclusion_where(&graph, &chain(11), Triple::new(2, 1, 7), 5, &mut |_| {
        looked_at += 1;
        false
    });
    assert!(none.is_empty() && looked_at <= 10_000_000);
}

#[test]
fn more_groundings_than_fit_are_refused_by_name() {
    let graph = complete();
    let rules = [chain(2), chain(11)];
    let refused = |limit| match ground_within(&graph, &rules, limit, &Control::default()) {
        Err(RuleError::TooManyGroundings { rule, .. }) => rule,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(GroundLimit::of_bytes(1_000_000_000)), 1);
    assert_eq!(refused(GroundLimit { groundings: 1_000_000, bytes: u64::MAX }), 1);
    // Short premises are counted while they are grounded. One of the 1000 matches of this one concludes a fact.
    let short = [chain(2)];
    let within =
        |groundings| ground_within(&graph, &short, GroundLimit { groundings, bytes: u64::MAX }, &Control::default());
    assert_eq!(within(990).expect("they fit").len(), 990);
    assert!(matches!(within(989), Err(RuleError::TooManyGroundings { rule: 0, limit: 989 })));
    assert!(matches!(
        ground_within(&graph, &short, GroundLimit::of_bytes(1000), &Control::default()),
        Err(RuleError::TooManyGroundings { rule: 0, .. })
    ));
}

#[test]
fn a_stream_is_refused_before_it_begins_or_cut_short() {
    let graph = complete();
    let control = Control::default();
    let folder = std::env::temp_dir();
    let streamed = |rules: &[Rule], most: u64| {
        let mut seen = 0u64;
        let streaming = Streaming { memory: 0, folder: &folder, most, control: &control };
        let report = stream_within(&graph, rules, &streaming, &[], &mut |_| {
            seen += 1;
            Ok(())
        });
        (report.map(|report| report.groundings), seen)
    };
    let (report, seen) = streamed(&[chain(11)], 1_000_000);
    assert!(matches!(report, Err(RuleError::TooManyGroundings { rule: 0, .. })) && seen == 0, "{seen} were handed on");
    assert!(matches!(streamed(&[chain(2)], 990), (Ok(990), 990)));
    assert!(matches!(streamed(&[chain(2)], 989), (Err(RuleError::TooManyGroundings { rule: 0, limit: 989 }), 989)));
    // A batch larger than its room is passed on one by one, with the same result.
    let (report, seen) = streamed(&[chain(6)], u64::MAX);
    assert!(matches!(report, Ok(9_900_000)) && seen == 9_900_000, "{report:?} {seen}");
}

#[test]
fn long_work_ends_when_told_to() {
    let graph = complete();
    let control = Control::default();
    control.cancel().cancel();
    let rules = [chain(11)];
    assert!(matches!(ground_within(&graph, &rules, GroundLimit::NONE, &control), Err(RuleError::Cancelled(_))));
    let limit = GroundLimit::of_bytes(u64::MAX / 2);
    assert!(matches!(ground_within(&graph, &rules, limit, &control), Err(RuleError::Cancelled(_))));
    let mut counter = Counter::new(ENTITIES as usize);
    assert!(matches!(counter.count_under(&graph, &rules[0], &control), Err(RuleError::Cancelled(_))));
    // A cancelled stream passes on little more.
    let cancel = Cancel::new();
    let seen = AtomicU64::new(0);
    let listener = |_: &Work| cancel.cancel();
    let control = Control::new(&cancel).with_listener(&listener);
    let folder = std::env::temp_dir();
    let streaming = Streaming { memory: 1 << 20, folder: &folder, most: u64::MAX, control: &control };
    let stopped = stream_within(&graph, &rules, &streaming, &[], &mut |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    assert!(matches!(stopped, Err(RuleError::Cancelled(_))), "{stopped:?}");
    assert!(seen.into_inner() <= 1 << 15);
}

#[test]
fn a_premise_of_thousands_of_atoms_is_not_matched() {
    let graph = complete();
    let rule = Rule::new(chain(1).conclusion, vec![chain(1).premise[0]; 100_000]);
    assert!(Counter::new(ENTITIES as usize).count(&graph, &rule).is_none());
    assert_eq!(ground(&graph, std::slice::from_ref(&rule)).not_grounded().len(), 1);
    assert!(Application::new(&graph, &rule).is_err());
    assert!(ground_conclusion(&graph, &rule, Triple::new(2, 1, 7), 5).is_empty());
}

fn rule() -> impl Strategy<Value = Rule> {
    let atom = || (0u32..3, 0u8..6, 0u8..6).prop_map(|(r, a, b)| Atom::new(RelationId(r), Variable(a), Variable(b)));
    (atom(), proptest::collection::vec(atom(), 4..7), proptest::collection::vec(atom(), 0..2))
        .prop_map(|(conclusion, premise, negated)| Rule { conclusion, premise, negated })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Conclusions and counts are the same whether matches are visited or states remembered.
    #[test]
    fn remembering_changes_nothing(
        facts in proptest::collection::vec((0u32..7, 0u32..3, 0u32..7), 1..30),
        rule in rule(),
    ) {
        let triples: Vec<Triple> = facts.iter().map(|&(h, r, t)| Triple::new(h, r, t)).collect();
        let graph = Graph::new(7, 3, &triples);
        let all = ground(&graph, std::slice::from_ref(&rule));
        prop_assume!(all.not_grounded().is_empty());
        // The number compared with the limit is that of the groundings.
        let within = |groundings: u64| {
            let limit = GroundLimit { groundings, bytes: u64::MAX };
            ground_within(&graph, std::slice::from_ref(&rule), limit, &Control::default())
        };
        prop_assert_eq!(&within(all.len() as u64).expect("they fit"), &all);
        if !all.is_empty() {
            prop_assert!(within(all.len() as u64 - 1).is_err());
        }
        // Every conclusion, new or known, is reached from both ends, with all its groundings.
        let application = Application::new(&graph, &rule).expect("it was grounded");
        let mut walker = Walker::default();
        for (place, triple) in all.unlabeled().iter().enumerate() {
            let (mut objects, mut subjects) = (Vec::new(), Vec::new());
            application.objects(&graph, triple.head, &mut walker, &mut |end| objects.push(end));
            application.subjects(&graph, triple.tail, &mut walker, &mut |end| subjects.push(end));
            prop_assert!(objects.contains(&triple.tail) && subjects.contains(&triple.head));
            let ways = ground_conclusion(&graph, &rule, *triple, usize::MAX);
            prop_assert_eq!(ways.len(), all.concluding(place).len());
        }
        if let Some(counts) = Counter::new(7).count(&graph, &rule) {
            let new = counts.body - counts.support;
            prop_assert_eq!(new as usize, all.unlabeled().len());
        }
    }
}
