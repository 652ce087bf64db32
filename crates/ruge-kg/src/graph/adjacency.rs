//! Per entity, its edges grouped by label.

use std::ops::Range;

use rayon::prelude::*;

use super::facts::{Pair, accumulate};
use crate::triple::{EntityId, Label};

/// Per entity, its neighbours grouped by label: `neighbours(u, l)` is a slice, found by binary search over the labels
/// of `u`.
#[derive(Clone, Debug, Default)]
pub struct Adjacency {
    runs_of: Vec<u32>,
    /// Per entity, a 64-bit filter with one bit per label: most requested labels are absent, and few share a bit with a
    /// present one.
    has: Vec<u64>,
    run_labels: Vec<Label>,
    run_starts: Vec<u32>,
    neighbours: Vec<EntityId>,
}

impl Adjacency {
    /// Builds the index from `facts`: a sorted, duplicate-free list of pairs for every label.
    ///
    /// Entities are processed in ranges small enough that all writes for a range stay in the inner caches; the pairs of
    /// a label that belong to a range are contiguous. Spans of several ranges run in parallel.
    pub(super) fn new<'f>(entities: usize, labels: usize, facts: impl Fn(Label) -> &'f [Pair] + Sync) -> Self {
        let all = (0..labels as u32).map(Label);
        let most: usize = all.map(|label| facts(label).len()).sum();
        // Every range visits every label, so many labels mean few ranges.
        let ranges = (most / EDGES_AT_ONCE).min(most / (4 * labels).max(1)).max(1);
        let width = entities.div_ceil(ranges).max(1);
        let span = width * ranges.div_ceil(SPANS_PER_THREAD * rayon::current_num_threads());

        let mut edges_of = vec![0u32; entities + 1];
        let mut runs_of = vec![0u32; entities + 1];
        let counts = edges_of[1..].par_chunks_mut(span).zip(runs_of[1..].par_chunks_mut(span));
        counts.enumerate().for_each(|(index, (edges, runs))| {
            let start = index * span;
            Ahead::new(start, labels, &facts).visit(start..start + edges.len(), width, &mut |_, pair, first| {
                edges[pair.key.index() - start] += 1;
                runs[pair.key.index() - start] += u32::from(first);
            });
        });
        accumulate(&mut edges_of);
        accumulate(&mut runs_of);

        let (edges, runs) = (edges_of[entities] as usize, runs_of[entities] as usize);
        let mut neighbours = vec![EntityId(0); edges];
        let mut run_labels = vec![Label(0); runs];
        let mut run_starts = vec![0u32; runs + 1];
        run_starts[runs] = edges as u32;
        let mut rest = (&mut neighbours[..], &mut run_labels[..], &mut run_starts[..runs]);
        let mut tasks = Vec::new();
        for start in (0..entities).step_by(span) {
            let end = (start + span).min(entities);
            let here = ((edges_of[end] - edges_of[start]) as usize, (runs_of[end] - runs_of[start]) as usize);
            let (neighbours, labels, starts) = rest;
            let (neighbours, labels, starts) =
                (neighbours.split_at_mut(here.0), labels.split_at_mut(here.1), starts.split_at_mut(here.1));
            tasks.push((start..end, neighbours.0, labels.0, starts.0));
            rest = (neighbours.1, labels.1, starts.1);
        }
        tasks.into_par_iter().for_each(|(span, neighbours, run_labels, run_starts)| {
            let start = span.start;
            let (first_edge, first_run) = (edges_of[start], runs_of[start]);
            let mut next: Vec<(u32, u32)> =
                span.clone().map(|u| (edges_of[u] - first_edge, runs_of[u] - first_run)).collect();
            Ahead::new(start, labels, &facts).visit(span, width, &mut |label, pair, first| {
                let (edge, run) = &mut next[pair.key.index() - start];
                if first {
                    run_labels[*run as usize] = label;
                    run_starts[*run as usize] = first_edge + *edge;
                    *run += 1;
                }
                neighbours[*edge as usize] = pair.other;
                *edge += 1;
            });
        });
        let bits = |labels: &[Label]| labels.iter().fold(0, |bits, label| bits | bit(*label));
        let has = (0..entities)
            .into_par_iter()
            .map(|entity| bits(&run_labels[runs_of[entity] as usize..runs_of[entity + 1] as usize]))
            .collect();
        Self { runs_of, has, run_labels, run_starts, neighbours }
    }

    /// The entities reached from `entity` over `label`, in id order.
    #[inline]
    pub fn neighbours(&self, entity: EntityId, label: Label) -> &[EntityId] {
        self.run_number(entity, label).map_or(&[], |run| self.run(run))
    }

    /// The labels at `entity` in order, each with the entities it leads to.
    #[inline]
    pub fn runs(&self, entity: EntityId) -> impl ExactSizeIterator<Item = (Label, &[EntityId])> {
        let (from, to) = self.run_range(entity);
        (from..to).map(|run| (self.run_labels[run], self.run(run)))
    }

    /// The labels at `entity`, sorted.
    #[inline]
    pub fn labels(&self, entity: EntityId) -> &[Label] {
        let (from, to) = self.run_range(entity);
        &self.run_labels[from..to]
    }

    /// Number of edges at `entity`, both directions together.
    #[inline]
    pub fn degree(&self, entity: EntityId) -> usize {
        let (from, to) = self.run_range(entity);
        (self.run_starts[to] - self.run_starts[from]) as usize
    }

    /// Number of runs: distinct (entity, label).
    pub fn run_count(&self) -> usize {
        self.run_labels.len()
    }

    /// The runs of `entity`, as numbers from 0 to [`run_count`](Self::run_count).
    #[inline]
    pub fn runs_of(&self, entity: EntityId) -> std::ops::Range<usize> {
        let (from, to) = self.run_range(entity);
        from..to
    }

    /// Whether `entity` may have `label`: false is certain. One word is read and nothing is searched; most entities lack
    /// most labels.
    #[inline]
    pub fn may_have(&self, entity: EntityId, label: Label) -> bool {
        self.has[entity.index()] & bit(label) != 0
    }

    /// The number of the run of `entity` with `label`, if it has one.
    #[inline]
    pub fn run_number(&self, entity: EntityId, label: Label) -> Option<usize> {
        if !self.may_have(entity, label) {
            return None;
        }
        let (from, to) = self.run_range(entity);
        self.run_labels[from..to].binary_search(&label).ok().map(|at| from + at)
    }

    /// The label of a run, and the range of its neighbours in the order of all edges.
    #[inline]
    pub fn run_places(&self, run: usize) -> (Label, std::ops::Range<usize>) {
        (self.run_labels[run], self.run_starts[run] as usize..self.run_starts[run + 1] as usize)
    }

    /// The entities a run leads to.
    #[inline]
    pub fn run_members(&self, run: usize) -> &[EntityId] {
        self.run(run)
    }

    /// Size of the index in bytes.
    pub fn bytes(&self) -> usize {
        4 * (self.runs_of.len() + self.run_labels.len() + self.run_starts.len() + self.neighbours.len())
            + 8 * self.has.len()
    }

    #[inline]
    fn run_range(&self, entity: EntityId) -> (usize, usize) {
        (self.runs_of[entity.index()] as usize, self.runs_of[entity.index() + 1] as usize)
    }

    #[inline]
    fn run(&self, run: usize) -> &[EntityId] {
        &self.neighbours[self.run_starts[run] as usize..self.run_starts[run + 1] as usize]
    }
}

/// The filter bit of a label, by Fibonacci hashing, so that consecutive labels get different bits.
#[inline]
fn bit(label: Label) -> u64 {
    1 << (label.0.wrapping_mul(0x9e37_79b9) >> 26)
}

/// Approximate edges per range of entities: 512 KB of neighbours and as much of labels.
const EDGES_AT_ONCE: usize = 1 << 17;
/// Spans per thread. Several, since some contain hubs.
const SPANS_PER_THREAD: usize = 8;

/// The remaining facts of each label, during a pass over entities in id order.
struct Ahead<'f> {
    pairs: Vec<&'f [Pair]>,
}

impl<'f> Ahead<'f> {
    /// The facts whose key is `start` or greater.
    fn new(start: usize, labels: usize, facts: &impl Fn(Label) -> &'f [Pair]) -> Self {
        let ahead = |pairs: &'f [Pair]| &pairs[pairs.partition_point(|pair| pair.key.index() < start)..];
        Self { pairs: (0..labels as u32).map(|label| ahead(facts(Label(label)))).collect() }
    }

    /// Visits the facts whose key is in `span`, `width` keys at a time, label by label, in pair order. The visitor also
    /// learns whether a fact is the first of its key and label.
    #[inline]
    fn visit(mut self, span: Range<usize>, width: usize, visit: &mut impl FnMut(Label, Pair, bool)) {
        for start in span.clone().step_by(width) {
            let end = (start + width).min(span.end);
            for (label, pairs) in self.pairs.iter_mut().enumerate() {
                let (mut last, mut seen) = (None, 0);
                for &pair in pairs.iter().take_while(|pair| pair.key.index() < end) {
                    visit(Label(label as u32), pair, last != Some(pair.key));
                    last = Some(pair.key);
                    seen += 1;
                }
                *pairs = &pairs[seen..];
            }
        }
    }
}
