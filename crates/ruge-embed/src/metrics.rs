//! Metrics of ranks: MRR, median, Hits@N, mean rank, overall and by side, relation and kind of relation.
//!
//! The paper pools all ranks of head and tail queries, so a relation with many test triples outweighs the rest. The
//! *macro* average over relations is reported as well. The adjusted mean rank index is independent of the number of
//! candidates: 1 is always first, 0 is chance, negative is worse.

use std::collections::BTreeMap;

use ruge_kg::stats::CardinalityClass;
use ruge_kg::{Graph, Place, Rank, RankQuery, RelationId, Side, Ties};
use serde::{Deserialize, Serialize};

/// Metrics of a set of ranks. All sums are in query order, in `f64`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Number of queries.
    pub queries: usize,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// Median rank; the mean of the two middle ranks if the number is even.
    pub median: f64,
    /// Mean rank.
    pub mean_rank: f64,
    /// Adjusted mean rank index: 1 − Σ(rank − 1) / Σ(expected rank − 1).
    pub adjusted_mean_rank_index: f64,
    /// Share of ranks ≤ N, by N.
    pub hits: BTreeMap<u32, f64>,
}

/// The N of Hits@N in the paper.
pub const HITS: [u32; 4] = [1, 3, 5, 10];

impl Metrics {
    /// Metrics of places under a tie policy. All 0 if there are no places.
    pub fn of(places: impl IntoIterator<Item = Place>, ties: Ties, hits: &[u32]) -> Self {
        let places: Vec<Place> = places.into_iter().collect();
        let mut ranks: Vec<f64> = places.iter().map(|place| place.rank(ties)).collect();
        let n = ranks.len();
        let mean = |sum: f64| if n == 0 { 0.0 } else { sum / n as f64 };
        let mrr = mean(ranks.iter().map(|rank| 1.0 / rank).sum());
        let mean_rank = mean(ranks.iter().sum());
        let excess: f64 = ranks.iter().map(|rank| rank - 1.0).sum();
        let by_chance: f64 = places.iter().map(|place| 0.5 * f64::from(place.others)).sum();
        let hits = hits
            .iter()
            .map(|&top| (top, mean(ranks.iter().filter(|&&rank| rank <= f64::from(top)).count() as f64)))
            .collect();
        ranks.sort_unstable_by(f64::total_cmp);
        let median = if n == 0 { 0.0 } else { 0.5 * (ranks[(n - 1) / 2] + ranks[n / 2]) };
        let adjusted_mean_rank_index = if by_chance > 0.0 { 1.0 - excess / by_chance } else { 0.0 };
        Self { queries: n, mrr, median, mean_rank, adjusted_mean_rank_index, hits }
    }

    /// The unweighted mean of several metrics.
    fn mean_of<'m>(parts: impl ExactSizeIterator<Item = &'m Metrics>) -> Self {
        let n = parts.len().max(1) as f64;
        let mut mean = Self::of([], Ties::Mean, &[]);
        for part in parts {
            mean.queries += part.queries;
            mean.mrr += part.mrr / n;
            mean.median += part.median / n;
            mean.mean_rank += part.mean_rank / n;
            mean.adjusted_mean_rank_index += part.adjusted_mean_rank_index / n;
            for (&top, &share) in &part.hits {
                *mean.hits.entry(top).or_default() += share / n;
            }
        }
        mean
    }
}

/// All metrics of one evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Filtered, both sides pooled: the figures of the paper.
    pub pooled: Metrics,
    /// The same without filtering known facts.
    pub raw: Metrics,
    /// Filtered, ties broken in favour of the answer.
    pub optimistic: Metrics,
    /// Filtered, ties broken against the answer.
    pub pessimistic: Metrics,
    /// Filtered, by the hidden side.
    pub by_side: BTreeMap<Side, Metrics>,
    /// Filtered, by relation.
    pub by_relation: BTreeMap<RelationId, Metrics>,
    /// The unweighted mean over relations.
    pub macro_average: Metrics,
    /// Filtered, by kind of relation and side.
    pub by_category: Vec<(CardinalityClass, Side, Metrics)>,
}

impl Evaluation {
    /// Summarises ranks; `graph` determines the kinds of relations.
    pub fn new(queries: &[RankQuery], ranks: &[Rank], graph: &Graph, ties: Ties, hits: &[u32]) -> Self {
        assert_eq!(queries.len(), ranks.len(), "one rank per query");
        let pairs = || queries.iter().zip(ranks);
        let mut by_side: BTreeMap<Side, Vec<Place>> = BTreeMap::new();
        let mut by_relation: BTreeMap<RelationId, Vec<Place>> = BTreeMap::new();
        let mut by_category: BTreeMap<(CardinalityClass, Side), Vec<Place>> = BTreeMap::new();
        for (query, rank) in pairs() {
            let relation = query.triple.relation;
            by_side.entry(query.side).or_default().push(rank.filtered);
            by_relation.entry(relation).or_default().push(rank.filtered);
            by_category.entry((CardinalityClass::of(graph, relation), query.side)).or_default().push(rank.filtered);
        }
        let filtered = |ties| Metrics::of(ranks.iter().map(|rank| rank.filtered), ties, hits);
        let by_relation: BTreeMap<_, _> =
            by_relation.into_iter().map(|(relation, places)| (relation, Metrics::of(places, ties, hits))).collect();
        Self {
            pooled: filtered(ties),
            raw: Metrics::of(ranks.iter().map(|rank| rank.raw), ties, hits),
            optimistic: filtered(Ties::Optimistic),
            pessimistic: filtered(Ties::Pessimistic),
            by_side: by_side.into_iter().map(|(side, places)| (side, Metrics::of(places, ties, hits))).collect(),
            macro_average: Metrics::mean_of(by_relation.values()),
            by_relation,
            by_category: by_category
                .into_iter()
                .map(|((category, side), places)| (category, side, Metrics::of(places, ties, hits)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::Triple;

    fn place(better: u32, equal: u32) -> Place {
        Place { better, equal, others: 8 }
    }

    #[test]
    fn metrics_of_a_few_ranks() {
        let metrics = Metrics::of([place(0, 0), place(1, 2), place(3, 0), place(7, 0)], Ties::Mean, &HITS);
        assert!((metrics.mrr - (1.0 + 1.0 / 3.0 + 0.25 + 0.125) / 4.0).abs() < 1e-12);
        assert_eq!((metrics.median, metrics.mean_rank), (3.5, 4.0));
        assert_eq!(metrics.hits[&1], 0.25);
        assert_eq!(metrics.hits[&3], 0.5);
        assert!((metrics.adjusted_mean_rank_index - (1.0 - 12.0 / 16.0)).abs() < 1e-12);
        assert_eq!(Metrics::of([place(1, 2)], Ties::Optimistic, &[]).mean_rank, 2.0);
        assert_eq!(Metrics::of([place(1, 2)], Ties::Pessimistic, &[]).mean_rank, 4.0);
        assert_eq!(Metrics::of([], Ties::Mean, &HITS).mrr, 0.0);
    }

    #[test]
    fn every_angle_counts_every_query_once() {
        let facts = [Triple::new(0, 0, 1), Triple::new(0, 0, 2), Triple::new(3, 1, 1)];
        let graph = Graph::new(4, 2, &facts);
        let queries = RankQuery::both_sides(&facts);
        let ranks: Vec<Rank> = (0..6).map(|i| Rank { filtered: place(i, 0), raw: place(i + 1, 0) }).collect();
        let report = Evaluation::new(&queries, &ranks, &graph, Ties::Mean, &HITS);
        assert_eq!(report.by_side[&Side::Head].mean_rank, 3.0);
        assert_eq!(report.by_relation[&RelationId(1)].mean_rank, 5.5);
        assert_eq!(report.macro_average.mean_rank, 0.5 * (2.5 + 5.5));
        assert_eq!(report.raw.mean_rank, 4.5);
        assert_eq!(CardinalityClass::of(&graph, RelationId(0)), CardinalityClass::OneToMany);
        assert_eq!(report.by_category.iter().map(|(.., metrics)| metrics.queries).sum::<usize>(), 6);
    }
}
