//! Leakage: held-out triples that train contains in another form.
//!
//! A test triple whose reverse, or whose pair under a duplicate relation, is in train can be answered by copying. FB15K
//! and WN18 are known for it, and a score on such a set says little about reasoning. This module counts such triples.

use rayon::prelude::*;
use serde::Serialize;

use super::patterns::StrongPairs;
use crate::graph::Graph;
use crate::triple::Triple;

/// How many triples of a split could be copied from train, and how. A triple may be counted in several ways.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Leakage {
    /// Triples in the split.
    pub triples: usize,
    /// Counts by kind of copy.
    #[serde(flatten)]
    pub counts: Leaks,
    /// `copyable` over `triples`, 0 for an empty split.
    pub share_copyable: f64,
    /// `linked` over `triples`, 0 for an empty split.
    pub share_linked: f64,
}

/// Triples by how they could be copied. A reflexive triple has no reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Leaks {
    /// `r(y,x)` is in train.
    pub reverse_same: usize,
    /// `r₂(y,x)` is in train for a relation `r₂` whose facts, reversed, are mostly facts of `r`.
    pub reverse_inverse: usize,
    /// `r₂(y,x)` is in train for any relation `r₂`, `r` included.
    pub reverse_any: usize,
    /// `r₂(x,y)` is in train for a relation `r₂` whose facts are mostly facts of `r`.
    pub duplicate_strong: usize,
    /// `r₂(x,y)` is in train for any relation `r₂` but `r`.
    pub duplicate_any: usize,
    /// A symmetric, inverse or duplicate pattern leads from train to the triple: one rule would answer it.
    pub copyable: usize,
    /// The two entities are linked in train by anything other than the triple itself.
    pub linked: usize,
}

impl Leaks {
    fn of(graph: &Graph, strong: &StrongPairs, triple: Triple) -> Self {
        let mut found = [false; 7];
        let reflexive = triple.head == triple.tail;
        for edge in graph.links_between(triple.head, triple.tail) {
            let same = edge.label.relation() == triple.relation;
            if edge.label.is_inverse() {
                // A reflexive link appears under both labels; the forward one has been counted.
                if reflexive {
                    continue;
                }
                let strong = strong.contains(&(triple.relation, edge.label));
                found[0] |= same;
                found[1] |= !same && strong;
                found[2] = true;
                found[5] |= strong;
                found[6] = true;
            } else if !same {
                let strong = strong.contains(&(triple.relation, edge.label));
                found[3] |= strong;
                found[4] = true;
                found[5] |= strong;
                found[6] = true;
            }
        }
        let [reverse_same, reverse_inverse, reverse_any, duplicate_strong, duplicate_any, copyable, linked] =
            found.map(usize::from);
        Self { reverse_same, reverse_inverse, reverse_any, duplicate_strong, duplicate_any, copyable, linked }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            reverse_same: self.reverse_same + other.reverse_same,
            reverse_inverse: self.reverse_inverse + other.reverse_inverse,
            reverse_any: self.reverse_any + other.reverse_any,
            duplicate_strong: self.duplicate_strong + other.duplicate_strong,
            duplicate_any: self.duplicate_any + other.duplicate_any,
            copyable: self.copyable + other.copyable,
            linked: self.linked + other.linked,
        }
    }
}

pub(super) fn measure(graph: &Graph, strong: &StrongPairs, triples: &[Triple]) -> Leakage {
    let counts = triples.par_iter().map(|&triple| Leaks::of(graph, strong, triple)).reduce(Leaks::default, Leaks::plus);
    let share = |count: usize| if triples.is_empty() { 0.0 } else { count as f64 / triples.len() as f64 };
    Leakage {
        triples: triples.len(),
        counts,
        share_copyable: share(counts.copyable),
        share_linked: share(counts.linked),
    }
}
