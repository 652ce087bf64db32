//! `stats` against a hand-counted world and against a naive twin.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use ruge_kg::stats::{CardinalityClass, Leaks, MIN_FACTS, Pattern, STRONG};
use ruge_kg::{Dataset, EntityId, Names, ReadOptions, RelationId, Triple, describe};

fn families() -> Dataset {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/families");
    let (data, report) = Dataset::load(&folder, &ReadOptions::default()).unwrap();
    assert_eq!(report.duplicates[0].count, 1);
    data
}

/// A pattern by name: first, second, support, then the number of facts of each.
fn named(data: &Dataset, pattern: &Pattern) -> (String, String, usize, usize, usize) {
    let name = |relation| data.names().relations.name(relation).to_string();
    let of = |share: f64| (pattern.support as f64 / share).round() as usize;
    (
        name(pattern.first),
        name(pattern.second),
        pattern.support,
        of(pattern.share_of_first),
        of(pattern.share_of_second),
    )
}

#[test]
fn families_are_counted_as_by_hand() {
    let data = families();
    let stats = describe(&data);
    assert_eq!((stats.entities, stats.relations), (25, 6), "24 people and Atlantis");
    assert_eq!(stats.splits.map(|split| split.triples), [44, 2, 6]);
    assert_eq!(stats.splits.map(|split| split.reflexive), [1, 0, 0]);
    assert_eq!(stats.splits.map(|split| split.with_unseen_entity), [0, 0, 1]);
    assert_eq!(stats.splits.map(|split| split.with_unseen_relation), [0, 0, 1]);
    assert_eq!((stats.unseen.entities, stats.unseen.relations), (1, 1));
    assert_eq!(data.names().entities.name(stats.unseen.first_entities[0]), "Atlantis");
    assert_eq!(data.names().relations.name(stats.unseen.first_relations[0]), "lives_in");
    assert_eq!((stats.overlap.train_valid, stats.overlap.train_test, stats.overlap.valid_test), (1, 0, 0));
    assert_eq!((stats.unused_entities, stats.unused_relations), (0, 0));

    // Anton: married both ways 2, two children in three relations 6, himself twice.
    assert_eq!((stats.degrees.spread.min, stats.degrees.spread.max), (0, 10));
    assert_eq!(stats.degrees.top[0], (data.names().entities.id("Anton").unwrap(), 10));
    assert_eq!(stats.degrees.spread.mean, 88.0 / 25.0);
    assert_eq!(stats.relation_sizes.largest[0].1, 12);
    assert_eq!((stats.relation_sizes.below_10, stats.relation_sizes.below_100), (2, 6));

    let classes = stats.cardinalities.map(|cardinality| (cardinality.relations, cardinality.triples));
    assert_eq!(classes, [(2, 12), (2, 22), (1, 10), (0, 0)], "married_to, admires; parent_of, father_of; child_of");

    let patterns = &stats.patterns;
    let list = |patterns: &[Pattern]| patterns.iter().map(|pattern| named(&data, pattern)).collect::<Vec<_>>();
    let row = |first: &str, second: &str, support, of_first, of_second| {
        (first.to_string(), second.to_string(), support, of_first, of_second)
    };
    assert_eq!(list(&patterns.symmetric), [row("married_to", "married_to", 12, 12, 12)]);
    assert_eq!(
        list(&patterns.inverse),
        [row("parent_of", "child_of", 12, 12, 12), row("father_of", "child_of", 11, 11, 12)]
    );
    assert_eq!(list(&patterns.duplicate), [row("father_of", "parent_of", 11, 11, 12)]);

    assert_eq!(
        stats.test_leakage.counts,
        Leaks {
            reverse_same: 1,
            reverse_inverse: 1,
            reverse_any: 3, // admires(Ada, Anton) has married_to(Anton, Ada)
            duplicate_strong: 1,
            duplicate_any: 2,
            copyable: 3,
            linked: 4,
        }
    );
    assert_eq!(stats.valid_leakage.counts.reverse_inverse, 1);
    assert_eq!(stats.test_leakage.share_copyable, 0.5);
}

#[test]
fn a_larger_relation_does_not_foretell_the_smaller() {
    // all(aᵢ, bᵢ) for 100 pairs, some(aᵢ, bᵢ) for 20 of them: some ⇒ all is strong, all ⇒ some is not.
    let mut names = Names::default();
    let mut train = Vec::new();
    for i in 0..100 {
        train.push(names.triple(&format!("a{i}"), "all", &format!("b{i}")));
    }
    for i in 0..20 {
        train.push(names.triple(&format!("a{i}"), "some", &format!("b{i}")));
    }
    let test = vec![names.triple("a50", "some", "b50")];
    let stats = describe(&Dataset::new(names, train, vec![], test));
    assert_eq!(stats.patterns.duplicate.len(), 1);
    assert_eq!(stats.patterns.duplicate[0].first, RelationId(1));
    assert_eq!(stats.test_leakage.counts.duplicate_any, 1);
    assert_eq!(stats.test_leakage.counts.copyable, 0);
}

#[test]
fn an_empty_data_set_has_noughts() {
    let stats = describe(&Dataset::new(Names::default(), vec![], vec![], vec![]));
    assert_eq!((stats.entities, stats.relations, stats.degrees.spread.max), (0, 0, 0));
    assert_eq!(stats.test_leakage.share_copyable, 0.0);
}

/// The same definitions by brute force.
struct Naive {
    train: BTreeSet<Triple>,
    known: BTreeSet<Triple>,
    entities: u32,
    relations: u32,
}

impl Naive {
    fn has(&self, head: EntityId, relation: RelationId, tail: EntityId) -> bool {
        self.train.contains(&Triple { head, relation, tail })
    }

    fn relations(&self) -> impl Iterator<Item = RelationId> {
        (0..self.relations).map(RelationId)
    }

    /// Facts of `first` in any split between two different entities, and how many hold for `second`, reversed or not.
    fn pattern(&self, first: RelationId, second: RelationId, turned: bool) -> (usize, usize) {
        let facts = self.known.iter().filter(|t| t.relation == first && t.head != t.tail);
        let held = facts.clone().filter(|t| {
            let partner = if turned { t.reversed() } else { **t };
            self.known.contains(&Triple { relation: second, ..partner })
        });
        (facts.clone().count(), held.count())
    }

    fn share(&self, first: RelationId, second: RelationId, turned: bool) -> f64 {
        let (facts, held) = self.pattern(first, second, turned);
        held as f64 / facts.max(1) as f64
    }

    fn is_strong(&self, first: RelationId, second: RelationId, turned: bool) -> bool {
        self.pattern(first, second, turned).0 >= MIN_FACTS && self.share(first, second, turned) >= STRONG
    }

    /// Whether facts of `from` are mostly facts of `to`, in a pair that is listed.
    fn foretells(&self, from: RelationId, to: RelationId, turned: bool) -> bool {
        let listed = self.is_strong(from, to, turned) || self.is_strong(to, from, turned);
        listed && self.share(from, to, turned) >= STRONG
    }

    fn leaks(&self, test: &[Triple]) -> Leaks {
        let count = |holds: &dyn Fn(&Triple) -> bool| test.iter().filter(|t| holds(t)).count();
        let reverse = |t: &Triple, wanted: &dyn Fn(RelationId) -> bool| {
            t.head != t.tail && self.relations().any(|r| wanted(r) && self.has(t.tail, r, t.head))
        };
        let duplicate = |t: &Triple, wanted: &dyn Fn(RelationId) -> bool| {
            self.relations().any(|r| r != t.relation && wanted(r) && self.has(t.head, r, t.tail))
        };
        Leaks {
            reverse_same: count(&|t| reverse(t, &|r| r == t.relation)),
            reverse_inverse: count(&|t| reverse(t, &|r| r != t.relation && self.foretells(r, t.relation, true))),
            reverse_any: count(&|t| reverse(t, &|_| true)),
            duplicate_strong: count(&|t| duplicate(t, &|r| self.foretells(r, t.relation, false))),
            duplicate_any: count(&|t| duplicate(t, &|_| true)),
            copyable: count(&|t| {
                reverse(t, &|r| self.foretells(r, t.relation, true))
                    || duplicate(t, &|r| self.foretells(r, t.relation, false))
            }),
            linked: count(&|t| reverse(t, &|_| true) || duplicate(t, &|_| true)),
        }
    }
}

/// Random triples, with some relations made inverse, symmetric or equal so that strong patterns occur.
fn world() -> impl Strategy<Value = (Vec<Triple>, Vec<Triple>, Vec<Triple>)> {
    let list = |n| proptest::collection::vec((0u32..12, 0u32..5, 0u32..12), 0..n);
    (list(120), list(20), list(40), 0u32..16).prop_map(|(mut train, valid, test, echo)| {
        for (h, r, t) in train.clone() {
            match r {
                0 if echo & 1 != 0 => train.push((t, 0, h)),
                1 if echo & 2 != 0 => train.push((t, 2, h)),
                3 if echo & 4 != 0 && h != 5 => train.push((h, 4, t)),
                4 if echo & 8 != 0 => train.push((h, 3, t)),
                _ => {}
            }
        }
        let triples = |raw: Vec<(u32, u32, u32)>| raw.into_iter().map(|(h, r, t)| Triple::new(h, r, t)).collect();
        (triples(train), triples(valid), triples(test))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn agrees_with_the_naive_twin((train, valid, test) in world()) {
        let mut names = Names::default();
        for id in 0..12 {
            names.entities.intern(&format!("e{id}"));
        }
        for id in 0..5 {
            names.relations.intern(&format!("r{id}"));
        }
        let data = Dataset::new(names, train, valid, test);
        let stats = describe(&data);
        let known = [data.train(), data.valid(), data.test()].concat().into_iter().collect();
        let naive = Naive { train: data.train().iter().copied().collect(), known, entities: 12, relations: 5 };

        let seen = |e: EntityId| naive.train.iter().any(|t| t.head == e || t.tail == e);
        let held_out: Vec<Triple> = [data.valid(), data.test()].concat();
        let unseen: BTreeSet<EntityId> =
            held_out.iter().flat_map(|t| [t.head, t.tail]).filter(|&e| !seen(e)).collect();
        prop_assert_eq!(stats.unseen.entities, unseen.len());
        let used = |e: EntityId| seen(e) || unseen.contains(&e);
        prop_assert_eq!(stats.unused_entities, (0..naive.entities).filter(|&e| !used(EntityId(e))).count());
        prop_assert_eq!(stats.overlap.train_test, data.test().iter().filter(|t| naive.train.contains(t)).count());
        prop_assert_eq!(stats.overlap.valid_test, data.test().iter().filter(|t| data.valid().contains(t)).count());

        for row in &stats.per_relation {
            let facts: Vec<&Triple> = naive.train.iter().filter(|t| t.relation == row.relation).collect();
            prop_assert_eq!(row.facts, facts.len());
            prop_assert_eq!(row.heads, facts.iter().map(|t| t.head).collect::<BTreeSet<_>>().len());
            prop_assert_eq!(row.tails, facts.iter().map(|t| t.tail).collect::<BTreeSet<_>>().len());
            prop_assert_eq!(row.reflexive, facts.iter().filter(|t| t.head == t.tail).count());
            prop_assert_eq!(row.symmetric, naive.share(row.relation, row.relation, true));
            let many_tails = row.facts as f64 >= 1.5 * row.heads as f64;
            let many_heads = row.facts as f64 >= 1.5 * row.tails as f64;
            let class = match (many_heads, many_tails) {
                _ if facts.is_empty() => None,
                (false, false) => Some(CardinalityClass::OneToOne),
                (false, true) => Some(CardinalityClass::OneToMany),
                (true, false) => Some(CardinalityClass::ManyToOne),
                (true, true) => Some(CardinalityClass::ManyToMany),
            };
            prop_assert_eq!(row.cardinality, class);
        }

        for (list, turned) in [(&stats.patterns.inverse, true), (&stats.patterns.duplicate, false)] {
            let mut expected = BTreeSet::new();
            for a in naive.relations() {
                for b in naive.relations().filter(|&b| b != a && naive.is_strong(a, b, turned)) {
                    expected.insert((a.min(b), a.max(b)));
                }
            }
            let found: Vec<_> = list.iter().map(|p| (p.first.min(p.second), p.first.max(p.second))).collect();
            prop_assert_eq!(found.len(), expected.len(), "each pair once");
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
            for p in list {
                prop_assert_eq!(p.support, naive.pattern(p.first, p.second, turned).1);
                prop_assert_eq!(p.share_of_first, naive.share(p.first, p.second, turned));
                prop_assert_eq!(p.share_of_second, naive.share(p.second, p.first, turned));
            }
            prop_assert!(list.is_sorted_by(|a, b| a.share_of_first >= b.share_of_first));
        }
        let symmetric: BTreeSet<RelationId> = stats.patterns.symmetric.iter().map(|p| p.first).collect();
        let expected: BTreeSet<RelationId> = naive.relations().filter(|&r| naive.is_strong(r, r, true)).collect();
        prop_assert_eq!(symmetric, expected);
        prop_assert_eq!(stats.test_leakage.counts, naive.leaks(data.test()));
        prop_assert_eq!(stats.valid_leakage.counts, naive.leaks(data.valid()));
    }
}
