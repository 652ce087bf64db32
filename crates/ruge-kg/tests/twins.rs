//! Every index of the graph against a naive twin: a list of triples searched from end to end.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ruge_kg::{Dataset, Edge, EntityId, Filter, Graph, Label, Names, Pair, RelationId, Triple};

const ENTITIES: u32 = 12;
const RELATIONS: u32 = 3;

/// Small enough that reflexive triples, duplicates and pairs with many links are common. Some entities are hubs; the
/// last ones and the last relation often remain unused.
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
        let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &train);
        let filters = [
            Filter::new(ENTITIES as usize, RELATIONS as usize, &[&train, &valid, &test]),
            Filter::beside(&graph, &[&valid, &test]),
        ];
        let facts: BTreeSet<Triple> = [&train[..], &valid, &test].concat().into_iter().collect();
        for relation in (0..RELATIONS).map(RelationId) {
            for entity in (0..ENTITIES).map(EntityId) {
                let with = |test: &dyn Fn(&Triple) -> bool, side: fn(&Triple) -> EntityId| -> Vec<EntityId> {
                    let found: BTreeSet<EntityId> =
                        facts.iter().filter(|t| t.relation == relation && test(t)).map(side).collect();
                    found.into_iter().collect()
                };
                let (tails, heads) = (with(&|t| t.head == entity, |t| t.tail), with(&|t| t.tail == entity, |t| t.head));
                for filter in &filters {
                    prop_assert_eq!(filter.tails(entity, relation), &tails[..]);
                    prop_assert_eq!(filter.heads(relation, entity), &heads[..]);
                    for tail in (0..ENTITIES).map(EntityId) {
                        let triple = Triple { head: entity, relation, tail };
                        prop_assert_eq!(filter.contains(triple), facts.contains(&triple));
                    }
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

#[test]
fn a_graph_that_is_built_in_many_ranges() {
    // Several ranges of entities and buckets sorted in parts, with hubs, duplicates and reflexive triples.
    const ENTITIES: u32 = 9_000;
    let draw = |stream: u64, at: u64| ruge_kg::random::draw(3, ruge_kg::random::Stream(stream), 0, at);
    let list = |count: u64, from: u64| -> Vec<Triple> {
        (from..from + count)
            .map(|at| {
                let entity = |stream| ((draw(stream, at) % u64::from(ENTITIES)) >> (draw(stream + 2, at) % 12)) as u32;
                Triple::new(entity(1), (draw(5, at) % 100).min(6) as u32 % 7, entity(2))
            })
            .collect()
    };
    let (train, held_out) = (list(400_000, 0), list(30_000, 390_000));
    let graph = Graph::new(ENTITIES as usize, 7, &train);
    let facts: BTreeSet<Triple> = train.iter().copied().collect();
    assert!(facts.len() > 200_000, "only {} distinct triples", facts.len());

    let mut by_relation: Vec<Triple> = facts.iter().copied().collect();
    by_relation.sort_by_key(|t| (t.relation, t.head, t.tail));
    assert!(graph.triples().eq(by_relation.iter().copied()));
    by_relation.sort_by_key(|t| (t.relation, t.tail, t.head));
    let by_tail =
        |r| graph.facts_by_tail(r).iter().map(move |pair| Triple { head: pair.other, relation: r, tail: pair.key });
    assert!(graph.relations().flat_map(by_tail).eq(by_relation.iter().copied()));

    let walked = |graph: &Graph| -> Vec<(EntityId, Label, EntityId)> {
        let runs = |u| graph.adjacency().runs(u).flat_map(move |(label, run)| run.iter().map(move |&v| (u, label, v)));
        graph.entities().flat_map(runs).collect()
    };
    let expected: Vec<(EntityId, Label, EntityId)> = edges(&facts).into_iter().collect();
    assert!(walked(&graph) == expected);
    let mut by_neighbour: Vec<(EntityId, EntityId, Label)> = expected.iter().map(|&(u, l, v)| (u, v, l)).collect();
    by_neighbour.sort();
    let links = |u| graph.links(u).iter().map(move |edge| (u, edge.neighbour, edge.label));
    assert!(graph.entities().flat_map(links).eq(by_neighbour));

    let filter = Filter::beside(&graph, &[&held_out[..10_000], &held_out[10_000..]]);
    let all: BTreeSet<Triple> = facts.into_iter().chain(held_out).collect();
    let mut expected: Vec<(EntityId, Label, EntityId)> = edges(&all).into_iter().collect();
    expected.sort();
    for run in expected.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (u, label, _) = run[0];
        let found =
            if label.is_inverse() { filter.heads(label.relation(), u) } else { filter.tails(u, label.relation()) };
        assert!(found.iter().copied().eq(run.iter().map(|edge| edge.2)), "{u:?} {label:?}");
    }
}
