//! Every index of the graph against its naive twin: a list of triples, searched from end to end.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ruge_kg::{Dataset, Edge, EntityId, Filter, Graph, Label, Names, Pair, RelationId, Triple};

const ENTITIES: u32 = 12;
const RELATIONS: u32 = 3;

/// Small enough that reflexive triples, repetitions and pairs linked many times over are common; some entities are
/// hubs, the last ones and the last relation often stay unused.
fn triples() -> impl Strategy<Value = Vec<Triple>> {
    let entity = prop_oneof![2 => 0..2u32, 3 => 0..ENTITIES];
    let triple = (entity.clone(), 0..RELATIONS, entity, 0..8u32).prop_map(|(head, relation, tail, reflexive)| {
        Triple::new(head, relation, if reflexive == 0 { head } else { tail })
    });
    prop_oneof![1 => Just(Vec::new()), 9 => proptest::collection::vec(triple, 0..80)]
}

/// Both ends of every triple, as (from, label, to).
fn edges(facts: &BTreeSet<Triple>) -> BTreeSet<(EntityId, Label, EntityId)> {
    let forward = facts.iter().map(|t| (t.head, Label::forward(t.relation), t.tail));
    let inverse = facts.iter().map(|t| (t.tail, Label::inverse(t.relation), t.head));
    forward.chain(inverse).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_index_of_the_graph(list in triples()) {
        let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &list);
        let facts: BTreeSet<Triple> = list.iter().copied().collect();
        let edges = edges(&facts);
        prop_assert_eq!(graph.entity_count(), ENTITIES as usize);
        prop_assert_eq!(graph.relation_count(), RELATIONS as usize);
        prop_assert_eq!(graph.len(), facts.len());
        prop_assert_eq!(graph.is_empty(), facts.is_empty());
        let mut by_relation: Vec<Triple> = facts.iter().copied().collect();
        by_relation.sort_by_key(|t| (t.relation, t.head, t.tail));
        prop_assert_eq!(graph.triples().collect::<Vec<_>>(), by_relation);

        for entity in graph.entities() {
            let at: Vec<_> = edges.iter().filter(|edge| edge.0 == entity).collect();
            let mut links: Vec<Edge> = at.iter().map(|&&(_, label, neighbour)| Edge { neighbour, label }).collect();
            links.sort();
            prop_assert_eq!(graph.links(entity), &links[..]);
            prop_assert_eq!(graph.degree(entity), at.len());
            prop_assert_eq!(graph.adjacency().degree(entity), at.len());
            let mut labels: Vec<Label> = at.iter().map(|edge| edge.1).collect();
            labels.dedup();
            prop_assert_eq!(graph.adjacency().labels(entity), &labels[..]);
            let runs: Vec<(Label, Vec<EntityId>)> =
                graph.adjacency().runs(entity).map(|(label, run)| (label, run.to_vec())).collect();
            prop_assert_eq!(runs.iter().map(|run| run.0).collect::<Vec<_>>(), labels);
            for label in (0..2 * RELATIONS).map(Label) {
                let neighbours: Vec<EntityId> = at.iter().filter(|edge| edge.1 == label).map(|edge| edge.2).collect();
                prop_assert_eq!(graph.neighbours(entity, label), &neighbours[..]);
                prop_assert_eq!(graph.adjacency().neighbours(entity, label), &neighbours[..]);
                let run = runs.iter().find(|run| run.0 == label).map_or(&[][..], |run| &run.1);
                prop_assert_eq!(run, &neighbours[..]);
            }
            for other in graph.entities() {
                let between: Vec<Edge> = links.iter().filter(|edge| edge.neighbour == other).copied().collect();
                prop_assert_eq!(graph.links_between(entity, other), &between[..]);
                for relation in graph.relations() {
                    let triple = Triple { head: entity, relation, tail: other };
                    prop_assert_eq!(graph.contains(triple), facts.contains(&triple));
                }
            }
        }

        for relation in graph.relations() {
            let of: Vec<&Triple> = facts.iter().filter(|t| t.relation == relation).collect();
            let mut by_head: Vec<Pair> = of.iter().map(|t| Pair { key: t.head, other: t.tail }).collect();
            let mut by_tail: Vec<Pair> = of.iter().map(|t| Pair { key: t.tail, other: t.head }).collect();
            by_head.sort();
            by_tail.sort();
            prop_assert_eq!(graph.facts(relation), &by_head[..]);
            prop_assert_eq!(graph.facts_by_tail(relation), &by_tail[..]);
            prop_assert_eq!(graph.pairs(Label::forward(relation)), &by_head[..]);
            prop_assert_eq!(graph.pairs(Label::inverse(relation)), &by_tail[..]);
            let distinct = |side: fn(&Triple) -> EntityId| of.iter().map(|t| side(t)).collect::<BTreeSet<_>>().len();
            prop_assert_eq!(graph.distinct_heads(relation), distinct(|t| t.head));
            prop_assert_eq!(graph.distinct_tails(relation), distinct(|t| t.tail));
        }
    }

    #[test]
    fn the_filter_of_all_splits(train in triples(), valid in triples(), test in triples()) {
        let filter = Filter::new(ENTITIES as usize, RELATIONS as usize, &[&train, &valid, &test]);
        let facts: BTreeSet<Triple> = [&train[..], &valid, &test].concat().into_iter().collect();
        for relation in (0..RELATIONS).map(RelationId) {
            for entity in (0..ENTITIES).map(EntityId) {
                let with = |test: &dyn Fn(&Triple) -> bool, side: fn(&Triple) -> EntityId| -> Vec<EntityId> {
                    let found: BTreeSet<EntityId> =
                        facts.iter().filter(|t| t.relation == relation && test(t)).map(side).collect();
                    found.into_iter().collect()
                };
                prop_assert_eq!(filter.tails(entity, relation), &with(&|t| t.head == entity, |t| t.tail)[..]);
                prop_assert_eq!(filter.heads(relation, entity), &with(&|t| t.tail == entity, |t| t.head)[..]);
                for tail in (0..ENTITIES).map(EntityId) {
                    let triple = Triple { head: entity, relation, tail };
                    prop_assert_eq!(filter.contains(triple), facts.contains(&triple));
                }
            }
        }
    }

    #[test]
    fn ids_are_those_of_first_appearance(words in proptest::collection::vec(("[a-e]{0,2}", "[rs]", "[a-e]{0,2}"), 0..40)) {
        let mut names = Names::default();
        let triples: Vec<Triple> = words.iter().map(|(head, relation, tail)| names.triple(head, relation, tail)).collect();
        let mut entities: Vec<&str> = Vec::new();
        for word in words.iter().flat_map(|(head, _, tail)| [head, tail]) {
            if !entities.contains(&word.as_str()) {
                entities.push(word);
            }
        }
        prop_assert_eq!(names.entities.iter().map(|(_, name)| name).collect::<Vec<_>>(), entities.clone());
        for ((head, _, tail), triple) in words.iter().zip(&triples) {
            prop_assert_eq!(entities[triple.head.index()], head);
            prop_assert_eq!(entities[triple.tail.index()], tail);
            prop_assert_eq!(names.entities.id(head), Some(triple.head));
        }
    }

    #[test]
    fn a_data_set_keeps_the_first_of_equal_triples(train in triples(), valid in triples(), test in triples()) {
        let mut names = Names::default();
        for entity in 0..ENTITIES {
            names.entities.intern(&format!("e{entity}"));
        }
        for relation in 0..RELATIONS {
            names.relations.intern(&format!("r{relation}"));
        }
        let data = Dataset::new(names, train.clone(), valid.clone(), test.clone());
        for (kept, given) in [(data.train(), &train), (data.valid(), &valid), (data.test(), &test)] {
            let mut expected: Vec<Triple> = Vec::new();
            for triple in given {
                if !expected.contains(triple) {
                    expected.push(*triple);
                }
            }
            prop_assert_eq!(kept, &expected[..]);
        }
        prop_assert_eq!(data.graph().len(), data.train().len());
        prop_assert!(test.iter().all(|&triple| data.filter().contains(triple)));
    }
}

#[test]
fn a_hub_among_a_hundred_thousand_edges() {
    // Large enough for the parallel sort of one relation, with everything linked to entity 0.
    let list: Vec<Triple> = (0..70_000u32).map(|i| Triple::new(i * 48_271 % 50_021, 0, 0)).collect();
    let graph = Graph::new(50_021, 1, &list);
    let facts: BTreeSet<Triple> = list.iter().copied().collect();
    assert_eq!(graph.len(), facts.len());
    assert!(graph.triples().eq(facts.iter().copied()));
    assert_eq!(graph.distinct_tails(RelationId(0)), 1);
    assert_eq!(graph.neighbours(EntityId(0), Label::inverse(RelationId(0))).len(), facts.len());
    for i in [0, 1, 17, 50_020] {
        assert_eq!(graph.contains(Triple::new(i, 0, 0)), facts.contains(&Triple::new(i, 0, 0)));
    }
    assert!(!graph.contains(Triple::new(0, 0, 1)));
}
