//! The immutable graph and its indexes.
//!
//! Mining, grounding, training and ranking ask four questions. One sorted array answers each:
//!
//! | question | index |
//! |---|---|
//! | who is reached from `u` over label `l`? | [`Adjacency`]: per entity, runs of equal label |
//! | how are `u` and `v` linked? | links: per entity, sorted by neighbour, then label |
//! | which facts has relation `r`, by head? by tail? | facts: per relation, sorted pairs, both ways |
//! | is this triple a fact? | binary search in any of them |
//!
//! Nothing is indexed densely by (relation, entity): FB15K alone would need 20 million offsets.
//!
//! *Construction.* Triples are distributed into one bucket per relation, and each bucket is sorted by head and by tail.
//! Every other index is then built one range of entities at a time from slices of these lists, so random writes stay
//! within the caches however large the graph is.

mod adjacency;
mod facts;
mod filter;

use std::sync::Arc;

use rayon::prelude::*;

use crate::triple::{EntityId, Label, RelationId, Triple};

pub use adjacency::Adjacency;
use facts::Facts;
pub use facts::Pair;
pub use filter::Filter;

/// One end of an edge: following `label` leads to `neighbour`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// The entity at the other end.
    pub neighbour: EntityId,
    /// The relation and its direction.
    pub label: Label,
}

/// 𝒪, the observed triples, as a set with its indexes. Immutable once built.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    entities: usize,
    adjacency: Arc<Adjacency>,
    link_offsets: Vec<u32>,
    links: Vec<Edge>,
    by_head: Facts,
    by_tail: Facts,
    distinct: Vec<(u32, u32)>,
}

impl Graph {
    /// Indexes `triples` over `entities` × `relations` ids. Duplicates count once.
    pub fn new(entities: usize, relations: usize, triples: &[Triple]) -> Self {
        Self::of_splits(entities, relations, &[triples])
    }

    /// Indexes the union of `splits`, without a list of all their triples.
    pub fn of_splits(entities: usize, relations: usize, splits: &[&[Triple]]) -> Self {
        let by_head = Facts::by_head(relations, splits);
        let by_tail = by_head.by_tail();
        let adjacency = Arc::new(Adjacency::new(entities, 2 * relations, |label| either(&by_head, &by_tail, label)));
        let (link_offsets, links) = links(&adjacency, entities);
        let count_keys = |pairs: &[Pair]| pairs.chunk_by(|a, b| a.key == b.key).count() as u32;
        let distinct = (0..relations as u32)
            .into_par_iter()
            .map(|r| (count_keys(by_head.of(RelationId(r))), count_keys(by_tail.of(RelationId(r)))))
            .collect();
        Self { entities, adjacency, link_offsets, links, by_head, by_tail, distinct }
    }

    /// Number of entity ids, used or not.
    pub fn entity_count(&self) -> usize {
        self.entities
    }

    /// Number of relation ids, used or not.
    pub fn relation_count(&self) -> usize {
        self.distinct.len()
    }

    /// Number of distinct triples.
    pub fn len(&self) -> usize {
        self.by_head.len()
    }

    /// Whether the graph has no triples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entity ids.
    pub fn entities(&self) -> impl ExactSizeIterator<Item = EntityId> + use<> {
        (0..self.entities).map(|index| EntityId(index as u32))
    }

    /// All relation ids.
    pub fn relations(&self) -> impl ExactSizeIterator<Item = RelationId> + use<> {
        (0..self.relation_count()).map(|index| RelationId(index as u32))
    }

    /// Whether the triple is a fact. Logarithmic in the smaller of the two degrees.
    pub fn contains(&self, triple: Triple) -> bool {
        let out = self.links(triple.head);
        let back = self.links(triple.tail);
        let (links, edge) = if out.len() <= back.len() {
            (out, Edge { neighbour: triple.tail, label: Label::forward(triple.relation) })
        } else {
            (back, Edge { neighbour: triple.head, label: Label::inverse(triple.relation) })
        };
        links.binary_search(&edge).is_ok()
    }

    /// The entities reached from `entity` over `label`, in id order.
    #[inline]
    pub fn neighbours(&self, entity: EntityId, label: Label) -> &[EntityId] {
        self.adjacency.neighbours(entity, label)
    }

    /// Neighbours grouped by label.
    #[inline]
    pub fn adjacency(&self) -> &Adjacency {
        &self.adjacency
    }

    /// Every edge at `entity`, sorted by neighbour, then label.
    #[inline]
    pub fn links(&self, entity: EntityId) -> &[Edge] {
        &self.links[self.link_offsets[entity.index()] as usize..self.link_offsets[entity.index() + 1] as usize]
    }

    /// The edges that lead from `from` to `to`, sorted by label.
    pub fn links_between(&self, from: EntityId, to: EntityId) -> &[Edge] {
        let links = self.links(from);
        let start = links.partition_point(|edge| edge.neighbour < to);
        let len = links[start..].iter().take_while(|edge| edge.neighbour == to).count();
        &links[start..start + len]
    }

    /// Number of edges at `entity`; a reflexive fact counts twice.
    #[inline]
    pub fn degree(&self, entity: EntityId) -> usize {
        self.links(entity).len()
    }

    /// The facts of `relation`, sorted by head, then tail (`key` is the head).
    #[inline]
    pub fn facts(&self, relation: RelationId) -> &[Pair] {
        self.by_head.of(relation)
    }

    /// The facts of `relation`, sorted by tail, then head (`key` is the tail).
    #[inline]
    pub fn facts_by_tail(&self, relation: RelationId) -> &[Pair] {
        self.by_tail.of(relation)
    }

    /// The pairs connected by `label`: keyed by head for a forward label, by tail for an inverse one.
    #[inline]
    pub fn pairs(&self, label: Label) -> &[Pair] {
        either(&self.by_head, &self.by_tail, label)
    }

    /// Number of distinct heads of `relation`.
    pub fn distinct_heads(&self, relation: RelationId) -> usize {
        self.distinct[relation.index()].0 as usize
    }

    /// Number of distinct tails of `relation`.
    pub fn distinct_tails(&self, relation: RelationId) -> usize {
        self.distinct[relation.index()].1 as usize
    }

    /// Every triple, sorted by relation, head, tail.
    pub fn triples(&self) -> impl Iterator<Item = Triple> {
        self.relations().flat_map(|relation| {
            self.facts(relation).iter().map(move |pair| Triple { head: pair.key, relation, tail: pair.other })
        })
    }

    /// Size of all indexes in bytes.
    pub fn bytes(&self) -> usize {
        self.adjacency.bytes()
            + self.by_head.bytes()
            + self.by_tail.bytes()
            + 4 * self.link_offsets.len()
            + 8 * (self.links.len() + self.distinct.len())
    }
}

/// The facts of a relation in the direction of its label.
#[inline]
fn either<'f>(by_head: &'f Facts, by_tail: &'f Facts, label: Label) -> &'f [Pair] {
    if label.is_inverse() { by_tail.of(label.relation()) } else { by_head.of(label.relation()) }
}

/// Entities whose links one task sorts.
const ENTITIES_AT_ONCE: usize = 256;

/// Per entity, its edges sorted by (neighbour, label).
///
/// Each list is sorted separately, while it is in the caches. Scattering every edge to its other end in entity order
/// would need no sort, but in a large graph every such write misses all caches.
fn links(adjacency: &Adjacency, entities: usize) -> (Vec<u32>, Vec<Edge>) {
    let mut offsets = vec![0u32; entities + 1];
    for u in 0..entities {
        offsets[u + 1] = offsets[u] + adjacency.degree(EntityId(u as u32)) as u32;
    }
    let mut links = vec![Edge { neighbour: EntityId(0), label: Label(0) }; offsets[entities] as usize];
    let mut rest = links.as_mut_slice();
    let mut tasks = Vec::with_capacity(entities / ENTITIES_AT_ONCE + 1);
    for start in (0..entities).step_by(ENTITIES_AT_ONCE) {
        let end = (start + ENTITIES_AT_ONCE).min(entities);
        let (here, tail) = rest.split_at_mut((offsets[end] - offsets[start]) as usize);
        tasks.push((start..end, here));
        rest = tail;
    }
    tasks.into_par_iter().for_each(|(range, mut rest)| {
        for u in range {
            let (list, tail) = rest.split_at_mut((offsets[u + 1] - offsets[u]) as usize);
            rest = tail;
            let edges = adjacency
                .runs(EntityId(u as u32))
                .flat_map(|(label, neighbours)| neighbours.iter().map(move |&neighbour| Edge { neighbour, label }));
            list.iter_mut().zip(edges).for_each(|(slot, edge)| *slot = edge);
            list.sort_unstable_by_key(|edge| u64::from(edge.neighbour.0) << 32 | u64::from(edge.label.0));
        }
    });
    (offsets, links)
}
