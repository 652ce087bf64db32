//! Personalised PageRank from the known end of a query: a ranking that knows nothing but nearness.
//!
//! A walker starts at the known end and takes a random edge, whatever its relation and direction, or with a chance of
//! [`RESTART`] starts again. A candidate's score is the share of time spent there. It is a baseline: on small graphs near
//! entities are often the answer, so a ranking by anything that was learned should be better than this one.
//!
//! The known end itself scores 0. So do entities that cannot be reached.

use std::sync::Arc;

use rayon::prelude::*;

use crate::graph::Graph;
use crate::rank::{RankError, RankQuery, Ranker, Side};
use crate::triple::{EntityId, Triple};

/// The chance to start again instead of taking an edge.
pub const RESTART: f32 = 0.15;
/// Steps that are computed. What later ones would add is less than (1 − RESTART)³⁰, below 1 %.
const STEPS: usize = 30;

/// Personalised PageRank over the edges of a graph.
#[derive(Clone, Debug)]
pub struct PageRank {
    graph: Arc<Graph>,
}

impl PageRank {
    /// Over a training graph.
    pub fn new(graph: Arc<Graph>) -> Self {
        Self { graph }
    }

    /// The share of time spent at each entity by a walker who starts at one.
    pub fn shares(&self, start: EntityId, shares: &mut [f32]) {
        let mut next = vec![0.0; shares.len()];
        shares.fill(0.0);
        shares[start.index()] = 1.0;
        for _ in 0..STEPS {
            next.fill(0.0);
            // Who has no edge starts again.
            let mut again = 0.0;
            for entity in self.graph.entities().filter(|entity| shares[entity.index()] > 0.0) {
                let (share, links) = (shares[entity.index()], self.graph.links(entity));
                let goes = if links.is_empty() { 0.0 } else { (1.0 - RESTART) * share };
                again += share - goes;
                let each = goes / links.len().max(1) as f32;
                links.iter().for_each(|edge| next[edge.neighbour.index()] += each);
            }
            next[start.index()] += again;
            shares.copy_from_slice(&next);
        }
    }
}

impl Ranker for PageRank {
    fn name(&self) -> &'static str {
        "pagerank"
    }

    fn entity_count(&self) -> usize {
        self.graph.entity_count()
    }

    /// A triple alone is asked about from its head.
    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
        let mut shares = vec![0.0; self.entity_count()];
        for (triple, score) in triples.iter().zip(scores) {
            self.score_all(RankQuery { triple: *triple, side: Side::Tail }, &mut shares)?;
            *score = shares[triple.tail.index()];
        }
        Ok(())
    }

    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<(), RankError> {
        self.shares(query.given(), scores);
        scores[query.given().index()] = 0.0;
        Ok(())
    }

    fn score_many(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        let rows = scores.par_chunks_mut(self.entity_count().max(1));
        queries.par_iter().zip(rows).try_for_each(|(query, row)| self.score_all(*query, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_time_are_those_counted_by_hand() {
        // 0 – 1 – 2, and 3 with no edge.
        let graph = Graph::new(4, 2, &[Triple::new(0, 0, 1), Triple::new(2, 1, 1)]);
        let ranker = PageRank::new(Arc::new(graph));
        let mut scores = vec![0.0; 4];
        let query = RankQuery { triple: Triple::new(0, 0, 3), side: Side::Tail };
        ranker.score_all(query, &mut scores).expect("it fits");
        // With c = .85: p1 = c (p0 + p2), p2 = c p1 / 2, and all sum to 1, so p1 = c / (1 + c) and p2 = c² / 2(1 + c).
        let expected = [0.0, 0.85 / 1.85, 0.85 * 0.85 / 3.7, 0.0];
        assert!(scores.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01), "{scores:?}");
        let alone = RankQuery { triple: Triple::new(3, 0, 0), side: Side::Tail };
        ranker.score_all(alone, &mut scores).expect("it fits");
        assert_eq!(scores, [0.0; 4], "nobody is near");
        let mut one = [0.0];
        ranker.score(&[Triple::new(0, 1, 2)], &mut one).expect("it fits");
        assert!((one[0] - expected[2]).abs() < 0.01);
    }
}
