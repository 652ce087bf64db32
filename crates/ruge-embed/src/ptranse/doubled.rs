//! The doubled graph: every training triple in both directions, and how a resource is split at each step.
//!
//! An inverse relation r⁻¹ has row r + n_r of the relation table. Walks use the [`Label`]s of the graph, which
//! interleave the two directions; [`Doubled::row`] converts. The *doubled training list* is the links of all entities
//! in order, so a link's position identifies a triple.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use ruge_kg::{Edge, EntityId, Graph, Label};

/// Bits of a label in a packed sequence.
const BITS: u32 = 21;
const MASK: u64 = (1 << BITS) - 1;

/// A relation path p: one to three labels, packed so that sequences sort by first label, then second, then third, a
/// sequence before its extensions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sequence(u64);

impl Sequence {
    /// Maximum relations of a graph whose labels can be packed.
    pub const RELATIONS: usize = (MASK as usize - 1) / 2;

    /// A path of one step.
    #[inline]
    pub fn one(label: Label) -> Self {
        Self((u64::from(label.0) + 1) << (2 * BITS))
    }

    /// A path of two steps.
    #[inline]
    pub fn two(first: Label, second: Label) -> Self {
        Self(Self::one(first).0 | (u64::from(second.0) + 1) << BITS)
    }

    /// Extends a path of two steps by a third. Panics in debug builds if it does not have two.
    #[inline]
    pub fn then(self, third: Label) -> Self {
        debug_assert_eq!(self.len(), 2, "only a path of two steps is extended");
        Self(self.0 | (u64::from(third.0) + 1))
    }

    /// Number of steps.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a path has at least one step")]
    pub fn len(self) -> usize {
        1 + usize::from((self.0 >> BITS) & MASK != 0) + usize::from(self.0 & MASK != 0)
    }

    /// The label of a step, counted from 0, if it exists.
    #[inline]
    pub fn label(self, step: usize) -> Option<Label> {
        let packed = (self.0 >> (BITS * (2 - step as u32))) & MASK;
        (packed != 0).then(|| Label(packed as u32 - 1))
    }

    /// The first label.
    #[inline]
    pub fn first(self) -> Label {
        Label((self.0 >> (2 * BITS)) as u32 - 1)
    }

    /// The labels in order.
    #[inline]
    pub fn labels(self) -> impl Iterator<Item = Label> {
        (0..3).map_while(move |step| self.label(step))
    }

    /// The path walked from its end.
    pub fn reversed(self) -> Self {
        let flip = |step| self.label(step).map_or(0, |label: Label| u64::from(label.reversed().0) + 1);
        match self.len() {
            1 => Self(flip(0) << (2 * BITS)),
            2 => Self(flip(1) << (2 * BITS) | flip(0) << BITS),
            _ => Self(flip(2) << (2 * BITS) | flip(1) << BITS | flip(0)),
        }
    }
}

/// The doubled graph with the sizes by which a resource is split.
#[derive(Debug)]
pub struct Doubled {
    graph: Arc<Graph>,
    /// Per entity, the start of its links in the order of all links.
    first_link: Vec<u32>,
    /// Per link u −l→ v: |l(u)|, the number of shares of a resource at u.
    out: Vec<u32>,
    /// Per link u −l→ v: |l⁻¹(v)|, the same for the inverse link.
    back: Vec<u32>,
    /// `back` in the order of [`ruge_kg::graph::Adjacency::run_places`].
    place_back: Vec<u32>,
}

impl Doubled {
    /// Measures every link of the graph.
    pub fn new(graph: Arc<Graph>) -> Self {
        let adjacency = graph.adjacency();
        let entities: Vec<EntityId> = graph.entities().collect();
        let mut first_link = Vec::with_capacity(entities.len() + 1);
        first_link.push(0u32);
        first_link.extend(entities.iter().scan(0, |sum, &entity| {
            *sum += graph.degree(entity) as u32;
            Some(*sum)
        }));
        let size = |entity, label| adjacency.neighbours(entity, label).len() as u32;
        let links = || entities.par_iter().flat_map_iter(|&u| graph.links(u).iter().map(move |&edge| (u, edge)));
        let out = links().map(|(u, edge)| size(u, edge.label)).collect();
        let back = links().map(|(_, edge)| size(edge.neighbour, edge.label.reversed())).collect();
        let place_back = entities
            .par_iter()
            .flat_map_iter(|&u| adjacency.runs(u))
            .flat_map_iter(|(label, run)| run.iter().map(move |&v| size(v, label.reversed())))
            .collect();
        Self { graph, first_link, out, back, place_back }
    }

    /// The observed graph.
    #[inline]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Number of doubled relations: both directions of each.
    #[inline]
    pub fn label_count(&self) -> usize {
        2 * self.graph.relation_count()
    }

    /// Number of doubled triples.
    #[inline]
    pub fn link_count(&self) -> usize {
        self.out.len()
    }

    /// The row of a label in the relation table: r for a relation, r + n_r for its inverse.
    #[inline]
    pub fn row(&self, label: Label) -> usize {
        label.relation().index() + if label.is_inverse() { self.graph.relation_count() } else { 0 }
    }

    /// The label of a row of the relation table.
    #[inline]
    pub fn label_of_row(&self, row: usize) -> Label {
        let relations = self.graph.relation_count();
        Label((row % relations) as u32 * 2 + u32::from(row >= relations))
    }

    /// The positions of an entity's links in the order of all links.
    #[inline]
    pub fn links_of(&self, entity: EntityId) -> Range<usize> {
        self.first_link[entity.index()] as usize..self.first_link[entity.index() + 1] as usize
    }

    /// |l(u)| of the link u −l→ v at a position.
    #[inline]
    pub fn out(&self, link: usize) -> u32 {
        self.out[link]
    }

    /// |l⁻¹(v)| of the link u −l→ v at a position.
    #[inline]
    pub fn back(&self, link: usize) -> u32 {
        self.back[link]
    }

    /// |l⁻¹(v)| of the edges of a run, in order.
    #[inline]
    pub fn run_back(&self, run: usize) -> &[u32] {
        &self.place_back[self.graph.adjacency().run_places(run).1]
    }

    /// Visits every common neighbour of `a` and `b` in id order, with the positions of its links at `a` and at `b`.
    ///
    /// The two sorted lists of links are searched by galloping, so a hub costs a small neighbour little.
    #[inline]
    pub fn meet(&self, a: EntityId, b: EntityId, mut visit: impl FnMut(Range<usize>, Range<usize>)) {
        let (of_a, of_b) = (self.graph.links(a), self.graph.links(b));
        let (from_a, from_b) = (self.links_of(a).start, self.links_of(b).start);
        let (mut i, mut j) = (0, 0);
        while i < of_a.len() && j < of_b.len() {
            let (at_a, at_b) = (of_a[i].neighbour, of_b[j].neighbour);
            if at_a < at_b {
                i = leap(of_a, i, at_b);
            } else if at_b < at_a {
                j = leap(of_b, j, at_a);
            } else {
                let end_of = |links: &[Edge], from: usize| {
                    from + links[from..].iter().take_while(|edge| edge.neighbour == at_a).count()
                };
                let (end_i, end_j) = (end_of(of_a, i), end_of(of_b, j));
                visit(from_a + i..from_a + end_i, from_b + j..from_b + end_j);
                (i, j) = (end_i, end_j);
            }
        }
    }
}

/// The first position from `from` on whose neighbour is at least `target`, by exponential search.
#[inline]
fn leap(links: &[Edge], from: usize, target: EntityId) -> usize {
    let (mut low, mut step) = (from, 1);
    while low + step < links.len() && links[low + step].neighbour < target {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(links.len());
    low + links[low..high].partition_point(|edge| edge.neighbour < target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_unpack_reverse_and_sort() {
        let [a, b, c] = [Label(0), Label(5), Label(7)];
        let (one, two) = (Sequence::one(a), Sequence::two(a, b));
        let three = two.then(c);
        assert_eq!(three.labels().collect::<Vec<_>>(), [a, b, c]);
        assert_eq!(three.reversed().labels().collect::<Vec<_>>(), [Label(6), Label(4), Label(1)]);
        assert_eq!((one.len(), two.len(), three.len()), (1, 2, 3));
        assert_eq!(two.reversed().reversed(), two);
        assert!(one < two && two < three && three < Sequence::one(b));
    }
}
