//! The known facts of all splits, for filtered ranking.
//!
//! Train is indexed already, and held-out facts are few. So only the lists that they lengthen are stored again, merged; every
//! other list is that of train. An index of all splits would take as much memory as the one of train.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::facts::Facts;
use super::{Adjacency, Graph, either};
use crate::triple::{EntityId, Label, RelationId, Triple};

/// The known facts of all splits: the tails of (h, r) and the heads of (r, t).
///
/// Filtered ranking uses it, so that a model is not penalised for ranking one fact above another.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    train: Arc<Adjacency>,
    /// The lists of train that held-out facts lengthen.
    merged: Option<Arc<Merged>>,
}

/// Lists of neighbours by entity and label, one after the other.
#[derive(Debug, Default)]
struct Merged {
    places: FxHashMap<(EntityId, Label), Range<usize>>,
    neighbours: Vec<EntityId>,
}

impl Filter {
    /// Indexes the union of `splits`.
    pub fn new(entities: usize, relations: usize, splits: &[&[Triple]]) -> Self {
        let by_head = Facts::by_head(relations, splits);
        let by_tail = by_head.by_tail();
        let adjacency = Adjacency::new(entities, 2 * relations, |label| either(&by_head, &by_tail, label));
        Self { train: Arc::new(adjacency), merged: None }
    }

    /// The facts of `train` together with those of `held_out`. The index of the graph is shared, and held-out facts cost their
    /// own lists and no more.
    pub fn beside(train: &Graph, held_out: &[&[Triple]]) -> Self {
        let mut edges: Vec<(EntityId, Label, EntityId)> = held_out
            .iter()
            .flat_map(|split| split.iter())
            .filter(|triple| !train.contains(**triple))
            .flat_map(|&Triple { head, relation, tail }| {
                [(head, Label::forward(relation), tail), (tail, Label::inverse(relation), head)]
            })
            .collect();
        edges.par_sort_unstable();
        edges.dedup();
        let mut merged = Merged::default();
        for run in edges.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (entity, label, _) = run[0];
            let from = merged.neighbours.len();
            let mut known = train.neighbours(entity, label);
            for &(_, _, neighbour) in run {
                let before = known.partition_point(|&other| other < neighbour);
                merged.neighbours.extend_from_slice(&known[..before]);
                merged.neighbours.push(neighbour);
                known = &known[before..];
            }
            merged.neighbours.extend_from_slice(known);
            merged.places.insert((entity, label), from..merged.neighbours.len());
        }
        merged.neighbours.shrink_to_fit();
        let merged = (!merged.places.is_empty()).then(|| Arc::new(merged));
        Self { train: Arc::clone(&train.adjacency), merged }
    }

    /// Every `t` with `relation(head, t)` in some split, in id order.
    #[inline]
    pub fn tails(&self, head: EntityId, relation: RelationId) -> &[EntityId] {
        self.neighbours(head, Label::forward(relation))
    }

    /// Every `h` with `relation(h, tail)` in some split, in id order.
    #[inline]
    pub fn heads(&self, relation: RelationId, tail: EntityId) -> &[EntityId] {
        self.neighbours(tail, Label::inverse(relation))
    }

    /// Whether the triple is in any split.
    pub fn contains(&self, triple: Triple) -> bool {
        self.tails(triple.head, triple.relation).binary_search(&triple.tail).is_ok()
    }

    #[inline]
    fn neighbours(&self, entity: EntityId, label: Label) -> &[EntityId] {
        let merged = self.merged.as_deref().and_then(|merged| merged.of(entity, label));
        merged.unwrap_or_else(|| self.train.neighbours(entity, label))
    }
}

impl Merged {
    #[inline]
    fn of(&self, entity: EntityId, label: Label) -> Option<&[EntityId]> {
        self.places.get(&(entity, label)).map(|place| &self.neighbours[place.clone()])
    }
}
