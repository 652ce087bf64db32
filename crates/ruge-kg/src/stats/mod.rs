//! What is in a data set, counted: the numbers behind `ruge check`.
//!
//! One call, [`describe`], looks at a [`Dataset`] and returns plain values; it prints nothing. Degrees and relation
//! sizes are those of *train*, since that is all a model or a miner ever sees. Patterns are those of all splits
//! together: they are a property of the relations, and a random split that holds a fifth back would make a perfect
//! inverse look like one of 80 %. Every number is a count or a ratio of two counts, so the thread count cannot change
//! it.

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

/// How many examples a list of names holds.
pub const EXAMPLES: usize = 10;

/// Everything that is known about a data set.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stats {
    /// Entities of all splits.
    pub entities: usize,
    /// Relations of all splits.
    pub relations: usize,
    /// What each split holds: train, valid, test.
    pub splits: [Split; 3],
    /// Names that valid or test know and train lacks, both splits together.
    pub unseen: Unseen,
    /// Triples that stand in two splits.
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
    /// Symmetric relations, inverse pairs and duplicate pairs of all splits together.
    pub patterns: Patterns,
    /// What of valid stands in train in another guise.
    pub valid_leakage: Leakage,
    /// What of test stands in train in another guise.
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
    /// Triples that mention an entity train lacks.
    pub with_unseen_entity: usize,
    /// Triples whose relation train lacks.
    pub with_unseen_relation: usize,
}

/// Names train lacks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Unseen {
    /// How many entities.
    pub entities: usize,
    /// How many relations.
    pub relations: usize,
    /// The first of the entities, in id order.
    pub first_entities: Vec<EntityId>,
    /// The first of the relations, in id order.
    pub first_relations: Vec<RelationId>,
}

/// Triples that stand in two splits: they are asked for although they were given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Overlap {
    /// In train and in valid.
    pub train_valid: usize,
    /// In train and in test.
    pub train_test: usize,
    /// In valid and in test.
    pub valid_test: usize,
}

/// Counts everything. Linear in the triples, but for the pairs of relations that share a pair of entities.
pub fn describe(data: &Dataset) -> Stats {
    let graph = data.graph();
    let (patterns, symmetric_shares) = if data.valid().is_empty() && data.test().is_empty() {
        patterns::find(graph)
    } else {
        let known = [data.train(), data.valid(), data.test()].concat();
        patterns::find(&Graph::new(data.entity_count(), data.relation_count(), &known))
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
