//! Data set statistics: the numbers behind `ruge check`.
//!
//! [`describe`] takes a [`Dataset`] and returns plain values; it prints nothing. Degrees and relation sizes are those
//! of *train*, since models and miners see nothing else. Patterns are counted over all splits: they are a property of
//! the relations, and a random split that holds out a fifth would make a perfect inverse look like one of 80 %. Every
//! number is a count or a ratio of two counts, so the number of threads cannot change it.

mod distribution;
mod leakage;
mod patterns;

use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::dataset::Dataset;
use crate::graph::Graph;
use crate::triple::{EntityId, RelationId, Triple};

pub use distribution::{Cardinality, CardinalityClass, Degrees, RelationStats, Sizes, Spread};
pub use leakage::{Leakage, Leaks};
pub use patterns::{MIN_FACTS, Pattern, Patterns, STRONG};

/// Maximum examples in a list of names.
pub const EXAMPLES: usize = 10;

/// All statistics of a data set.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stats {
    /// Entities in all splits.
    pub entities: usize,
    /// Relations in all splits.
    pub relations: usize,
    /// Each split: train, valid, test.
    pub splits: [Split; 3],
    /// Names in valid or test that are missing from train, both splits together.
    pub unseen: Unseen,
    /// Triples shared by two splits.
    pub overlap: Overlap,
    /// Entities that no triple of any split mentions.
    pub unused_entities: usize,
    /// Relations that no triple of any split mentions.
    pub unused_relations: usize,
    /// Edges per entity in train.
    pub degrees: Degrees,
    /// Facts per relation in train.
    pub relation_sizes: Sizes,
    /// Relations and facts of each cardinality class: 1-1, 1-N, N-1, N-N.
    pub cardinalities: [Cardinality; 4],
    /// Symmetric relations, inverse pairs and duplicate pairs over all splits.
    pub patterns: Patterns,
    /// Leakage of valid: triples that train contains in another form.
    pub valid_leakage: Leakage,
    /// Leakage of test: triples that train contains in another form.
    pub test_leakage: Leakage,
    /// One row per relation, in id order.
    pub per_relation: Vec<RelationStats>,
}

/// The triples of one split.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Split {
    /// Distinct triples.
    pub triples: usize,
    /// Triples whose head is their tail.
    pub reflexive: usize,
    /// Triples with an entity missing from train.
    pub with_unseen_entity: usize,
    /// Triples with a relation missing from train.
    pub with_unseen_relation: usize,
}

/// Names missing from train.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Unseen {
    /// Number of entities.
    pub entities: usize,
    /// Number of relations.
    pub relations: usize,
    /// The first entities, in id order.
    pub first_entities: Vec<EntityId>,
    /// The first relations, in id order.
    pub first_relations: Vec<RelationId>,
}

/// Triples shared by two splits: these are tested although they were trained on, or tested twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Overlap {
    /// In train and in valid.
    pub train_valid: usize,
    /// In train and in test.
    pub train_test: usize,
    /// In valid and in test.
    pub valid_test: usize,
}

/// Computes all statistics. Linear in the triples, except for the pairs of relations that share a pair of entities.
pub fn describe(data: &Dataset) -> Stats {
    let graph = data.graph();
    let (patterns, symmetric_shares) = if data.valid().is_empty() && data.test().is_empty() {
        patterns::find(&[graph])
    } else {
        // Train is indexed already; only what it lacks is indexed next to it.
        let unseen = |triple: &Triple| !graph.contains(*triple);
        let held_out: Vec<Triple> = [data.valid(), data.test()].into_iter().flatten().copied().filter(unseen).collect();
        patterns::find(&[graph, &Graph::new(data.entity_count(), data.relation_count(), &held_out)])
    };
    let strong = patterns.strong_pairs();
    let mut rows = distribution::per_relation(graph);
    for (row, share) in rows.iter_mut().zip(symmetric_shares) {
        row.symmetric = share;
    }
    let held_out = [data.valid(), data.test()];
    let [valid_leakage, test_leakage] = held_out.map(|triples| leakage::measure(graph, &strong, triples));
    Stats {
        entities: data.entity_count(),
        relations: data.relation_count(),
        splits: [data.train(), data.valid(), data.test()].map(|triples| split(data, triples)),
        unseen: unseen(data),
        overlap: overlap(data),
        unused_entities: unused_entities(data),
        unused_relations: unused_relations(data),
        degrees: distribution::degrees(graph),
        relation_sizes: distribution::sizes(&rows),
        cardinalities: distribution::cardinalities(&rows),
        patterns,
        valid_leakage,
        test_leakage,
        per_relation: rows,
    }
}

fn knows_entity(data: &Dataset, entity: EntityId) -> bool {
    data.graph().degree(entity) > 0
}

fn knows_relation(data: &Dataset, relation: RelationId) -> bool {
    !data.graph().facts(relation).is_empty()
}

fn split(data: &Dataset, triples: &[Triple]) -> Split {
    let count = |test: &dyn Fn(&Triple) -> bool| triples.iter().filter(|triple| test(triple)).count();
    Split {
        triples: triples.len(),
        reflexive: count(&|triple| triple.head == triple.tail),
        with_unseen_entity: count(&|triple| !knows_entity(data, triple.head) || !knows_entity(data, triple.tail)),
        with_unseen_relation: count(&|triple| !knows_relation(data, triple.relation)),
    }
}

fn unseen(data: &Dataset) -> Unseen {
    let held_out = || data.valid().iter().chain(data.test());
    let mut entities: Vec<EntityId> = held_out()
        .flat_map(|triple| [triple.head, triple.tail])
        .filter(|&entity| !knows_entity(data, entity))
        .collect();
    entities.sort_unstable();
    entities.dedup();
    let mut relations: Vec<RelationId> =
        held_out().map(|triple| triple.relation).filter(|&relation| !knows_relation(data, relation)).collect();
    relations.sort_unstable();
    relations.dedup();
    Unseen {
        entities: entities.len(),
        relations: relations.len(),
        first_entities: entities.into_iter().take(EXAMPLES).collect(),
        first_relations: relations.into_iter().take(EXAMPLES).collect(),
    }
}

fn overlap(data: &Dataset) -> Overlap {
    let in_train = |triples: &[Triple]| triples.iter().filter(|&&triple| data.graph().contains(triple)).count();
    let valid: FxHashSet<Triple> = data.valid().iter().copied().collect();
    Overlap {
        train_valid: in_train(data.valid()),
        train_test: in_train(data.test()),
        valid_test: data.test().iter().filter(|triple| valid.contains(triple)).count(),
    }
}

fn unused_entities(data: &Dataset) -> usize {
    let mut used: Vec<bool> = data.graph().entities().map(|entity| knows_entity(data, entity)).collect();
    for triple in data.valid().iter().chain(data.test()) {
        used[triple.head.index()] = true;
        used[triple.tail.index()] = true;
    }
    used.iter().filter(|&&used| !used).count()
}

fn unused_relations(data: &Dataset) -> usize {
    let mut used: Vec<bool> = data.graph().relations().map(|relation| knows_relation(data, relation)).collect();
    for triple in data.valid().iter().chain(data.test()) {
        used[triple.relation.index()] = true;
    }
    used.iter().filter(|&&used| !used).count()
}
