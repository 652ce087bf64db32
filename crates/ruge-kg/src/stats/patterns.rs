//! Relations that repeat each other: symmetric ones, inverse pairs, duplicate pairs.
//!
//! A pattern is a rule of one atom, `r₁(x,y) ⇒ r₂(x,y)` or `⇒ r₂(y,x)`, and its share is that rule's standard
//! confidence. Only facts between two different entities are counted: a reflexive fact is its own reverse and would
//! make any relation look symmetric.
//!
//! Each relation is counted separately, over the links between the two ends of each of its facts, into one array with
//! two entries per relation. Nothing is stored for all pairs of relations.
//!
//! The facts may lie in several graphs that share none, so that held-out facts are counted next to the index of train instead
//! of in an index of everything.

use rayon::prelude::*;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::graph::{Graph, Pair};
use crate::triple::{Label, RelationId};

/// Minimum share of a reported pattern.
pub const STRONG: f64 = 0.8;

/// Relations with fewer facts are ignored: their patterns would be chance.
pub const MIN_FACTS: usize = 10;

/// The strong patterns of a graph, each list strongest first.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Patterns {
    /// `r(x,y)` with `r(y,x)`; both relations of the pattern are the same.
    pub symmetric: Vec<Pattern>,
    /// `r₁(x,y)` with `r₂(y,x)`.
    pub inverse: Vec<Pattern>,
    /// `r₁(x,y)` with `r₂(x,y)`: equal, or one a subset of the other.
    pub duplicate: Vec<Pattern>,
}

/// Two relations that hold for the same pairs. Each pair of relations is listed once.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Pattern {
    /// The relation with the larger share.
    pub first: RelationId,
    /// The other.
    pub second: RelationId,
    /// Facts of `first` that have a partner in `second`.
    pub support: usize,
    /// `support` over the facts of `first` between two different entities.
    pub share_of_first: f64,
    /// `support` over those of `second`.
    pub share_of_second: f64,
}

/// Which labels leak which relation, for [`leakage`](super::leakage).
pub(super) type StrongPairs = FxHashSet<(RelationId, Label)>;

impl Patterns {
    /// For each relation, the labels that predict it: if such a label leads from x to y, the relation most likely holds
    /// too. A relation contained in a larger one predicts the larger one, not the other way round.
    pub(super) fn strong_pairs(&self) -> StrongPairs {
        let mut pairs = StrongPairs::default();
        for (list, label) in [
            (&self.symmetric, Label::inverse as fn(RelationId) -> Label),
            (&self.inverse, Label::inverse),
            (&self.duplicate, Label::forward),
        ] {
            for pattern in list {
                pairs.insert((pattern.second, label(pattern.first)));
                if pattern.share_of_second >= STRONG {
                    pairs.insert((pattern.first, label(pattern.second)));
                }
            }
        }
        pairs
    }
}

/// The strong patterns of the facts of all graphs, and for every relation the share of its facts that hold in both directions.
/// The graphs have the same ids, and no fact is in two of them.
pub(super) fn find(graphs: &[&Graph]) -> (Patterns, Vec<f64>) {
    let relations: Vec<RelationId> = graphs.first().map_or_else(Vec::new, |graph| graph.relations().collect());
    let proper: Vec<usize> = relations.par_iter().map(|&relation| between_two(graphs, relation).count()).collect();
    let counted: Vec<Vec<(Label, usize)>> = relations
        .par_iter()
        .map_init(|| vec![0usize; 2 * relations.len()], |counts, &relation| partners(graphs, relation, counts))
        .collect();

    let share = |support: usize, relation: RelationId| support as f64 / proper[relation.index()].max(1) as f64;
    let is_strong =
        |support, relation: RelationId| proper[relation.index()] >= MIN_FACTS && share(support, relation) >= STRONG;
    let mut patterns = Patterns::default();
    let mut symmetric_shares = vec![0.0; relations.len()];
    for (&first, partners) in relations.iter().zip(&counted) {
        for &(label, support) in partners {
            let second = label.relation();
            let pattern = Pattern {
                first,
                second,
                support,
                share_of_first: share(support, first),
                share_of_second: share(support, second),
            };
            if second == first {
                // The forward label is the fact itself.
                if label.is_inverse() {
                    symmetric_shares[first.index()] = pattern.share_of_first;
                    if is_strong(support, first) {
                        patterns.symmetric.push(pattern);
                    }
                }
                continue;
            }
            // A pair is found from both relations; it is reported from the one with the larger share.
            let better = pattern.share_of_first > pattern.share_of_second
                || (pattern.share_of_first == pattern.share_of_second && first < second);
            if is_strong(support, first) && (better || !is_strong(support, second)) {
                let list = if label.is_inverse() { &mut patterns.inverse } else { &mut patterns.duplicate };
                list.push(pattern);
            }
        }
    }
    for list in [&mut patterns.symmetric, &mut patterns.inverse, &mut patterns.duplicate] {
        list.sort_by(|a, b| {
            b.share_of_first
                .total_cmp(&a.share_of_first)
                .then(b.share_of_second.total_cmp(&a.share_of_second))
                .then(b.support.cmp(&a.support))
                .then((a.first, a.second).cmp(&(b.first, b.second)))
        });
    }
    (patterns, symmetric_shares)
}

/// The facts of `relation` between two different entities.
fn between_two<'g>(graphs: &'g [&Graph], relation: RelationId) -> impl Iterator<Item = &'g Pair> {
    graphs.iter().flat_map(move |graph| graph.facts(relation)).filter(|pair| pair.key != pair.other)
}

/// How many facts of `relation` between two different entities are also connected by each label, in label order.
/// `counts` has two entries per relation, all zero before and after.
fn partners(graphs: &[&Graph], relation: RelationId, counts: &mut [usize]) -> Vec<(Label, usize)> {
    let mut met: Vec<Label> = Vec::new();
    for pair in between_two(graphs, relation) {
        for edge in graphs.iter().flat_map(|graph| graph.links_between(pair.key, pair.other)) {
            let count = &mut counts[edge.label.index()];
            if *count == 0 {
                met.push(edge.label);
            }
            *count += 1;
        }
    }
    met.sort_unstable();
    met.into_iter().map(|label| (label, std::mem::take(&mut counts[label.index()]))).collect()
}
