//! How facts are distributed over entities and relations, and how many partners a relation allows.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::EXAMPLES;
use crate::graph::Graph;
use crate::triple::{EntityId, RelationId};

/// Mean partners from which a side counts as *many*, the convention since Bordes et al. (2013).
const MANY: f64 = 1.5;

/// Edges per entity in train. An edge counts at both ends; a reflexive edge counts twice.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Degrees {
    /// The distribution over all entities; those absent from train count 0.
    #[serde(flatten)]
    pub spread: Spread,
    /// The entities with most edges, most first, ties in id order.
    pub top: Vec<(EntityId, usize)>,
}

/// Facts per relation in train.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Sizes {
    /// The distribution over all relations.
    #[serde(flatten)]
    pub spread: Spread,
    /// Relations with fewer than 10 facts.
    pub below_10: usize,
    /// Relations with fewer than 100 facts.
    pub below_100: usize,
    /// The relations with most facts, most first, ties in id order.
    pub largest: Vec<(RelationId, usize)>,
    /// The relations with fewest facts, fewest first, ties in id order.
    pub smallest: Vec<(RelationId, usize)>,
}

/// Summary of a list of numbers. Quantiles use the nearest rank, so each is an element of the list.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Spread {
    /// The minimum.
    pub min: usize,
    /// The median.
    pub median: usize,
    /// The mean.
    pub mean: f64,
    /// The 90th percentile.
    pub p90: usize,
    /// The 99th percentile.
    pub p99: usize,
    /// The maximum.
    pub max: usize,
}

impl Spread {
    /// All zeros for an empty list.
    fn of(mut numbers: Vec<usize>) -> Self {
        if numbers.is_empty() {
            return Self::default();
        }
        numbers.par_sort_unstable();
        let n = numbers.len();
        let quantile = |percent: usize| numbers[((percent * n).div_ceil(100)).max(1) - 1];
        Self {
            min: numbers[0],
            median: quantile(50),
            mean: numbers.iter().sum::<usize>() as f64 / n as f64,
            p90: quantile(90),
            p99: quantile(99),
            max: numbers[n - 1],
        }
    }
}

/// Whether a head has one tail or many on average, and a tail one head or many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum CardinalityClass {
    /// One head, one tail.
    #[serde(rename = "1-1")]
    OneToOne,
    /// One head, many tails.
    #[serde(rename = "1-N")]
    OneToMany,
    /// Many heads, one tail.
    #[serde(rename = "N-1")]
    ManyToOne,
    /// Many of both.
    #[serde(rename = "N-N")]
    ManyToMany,
}

impl CardinalityClass {
    /// All four, in the usual order.
    pub const ALL: [Self; 4] = [Self::OneToOne, Self::OneToMany, Self::ManyToOne, Self::ManyToMany];

    /// `1-1`, `1-N`, `N-1` or `N-N`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneToOne => "1-1",
            Self::OneToMany => "1-N",
            Self::ManyToOne => "N-1",
            Self::ManyToMany => "N-N",
        }
    }

    /// The class of a relation in the training graph; one without facts counts as 1-1.
    pub fn of(graph: &Graph, relation: RelationId) -> Self {
        let facts = graph.facts(relation).len() as f64;
        let per = |distinct: usize| facts / distinct.max(1) as f64;
        Self::of_means(per(graph.distinct_heads(relation)), per(graph.distinct_tails(relation)))
    }

    fn of_means(tails_per_head: f64, heads_per_tail: f64) -> Self {
        match (heads_per_tail >= MANY, tails_per_head >= MANY) {
            (false, false) => Self::OneToOne,
            (false, true) => Self::OneToMany,
            (true, false) => Self::ManyToOne,
            (true, true) => Self::ManyToMany,
        }
    }
}

/// How many relations, and how many facts, have a cardinality class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Cardinality {
    /// The class.
    pub class: CardinalityClass,
    /// Relations of the class that have facts in train.
    pub relations: usize,
    /// Their facts in train.
    pub triples: usize,
}

/// Statistics of one relation in train.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RelationStats {
    /// The relation.
    pub relation: RelationId,
    /// Its facts.
    pub facts: usize,
    /// Distinct heads.
    pub heads: usize,
    /// Distinct tails.
    pub tails: usize,
    /// Mean number of tails per head.
    pub tails_per_head: f64,
    /// Mean number of heads per tail.
    pub heads_per_tail: f64,
    /// The resulting class; `None` without facts.
    pub cardinality: Option<CardinalityClass>,
    /// Facts whose head is their tail.
    pub reflexive: usize,
    /// Share of the facts between two different entities, over all splits, that hold in both directions.
    pub symmetric: f64,
}

pub(super) fn degrees(graph: &Graph) -> Degrees {
    let degrees: Vec<usize> = graph.entities().map(|entity| graph.degree(entity)).collect();
    let top = extremes(degrees.iter().copied(), std::cmp::Reverse);
    let top = top.into_iter().filter(|&(_, degree)| degree > 0).map(|(at, degree)| (EntityId(at), degree)).collect();
    Degrees { spread: Spread::of(degrees), top }
}

pub(super) fn sizes(rows: &[RelationStats]) -> Sizes {
    let facts = || rows.iter().map(|row| row.facts);
    let named = |list: Vec<(u32, usize)>| list.into_iter().map(|(at, facts)| (RelationId(at), facts)).collect();
    Sizes {
        spread: Spread::of(facts().collect()),
        below_10: facts().filter(|&n| n < 10).count(),
        below_100: facts().filter(|&n| n < 100).count(),
        largest: named(extremes(facts(), std::cmp::Reverse)),
        smallest: named(extremes(facts(), |n| n)),
    }
}

/// Positions and values of the first few numbers by `key`, ties in order of position.
fn extremes<K: Ord>(numbers: impl Iterator<Item = usize>, key: impl Fn(usize) -> K) -> Vec<(u32, usize)> {
    let mut best: Vec<(K, u32, usize)> = Vec::with_capacity(EXAMPLES + 1);
    for (at, number) in numbers.enumerate() {
        let candidate = key(number);
        if best.len() == EXAMPLES && best.last().is_some_and(|last| last.0 <= candidate) {
            continue;
        }
        let place = best.partition_point(|other| other.0 <= candidate);
        best.insert(place, (candidate, at as u32, number));
        best.truncate(EXAMPLES);
    }
    best.into_iter().map(|(_, at, number)| (at, number)).collect()
}

pub(super) fn cardinalities(rows: &[RelationStats]) -> [Cardinality; 4] {
    CardinalityClass::ALL.map(|class| {
        let of_class = || rows.iter().filter(|row| row.cardinality == Some(class));
        Cardinality { class, relations: of_class().count(), triples: of_class().map(|row| row.facts).sum() }
    })
}

pub(super) fn per_relation(graph: &Graph) -> Vec<RelationStats> {
    let relations: Vec<RelationId> = graph.relations().collect();
    relations
        .into_par_iter()
        .map(|relation| {
            let facts = graph.facts(relation);
            let (heads, tails) = (graph.distinct_heads(relation), graph.distinct_tails(relation));
            let mean = |of: usize| if of == 0 { 0.0 } else { facts.len() as f64 / of as f64 };
            let (tails_per_head, heads_per_tail) = (mean(heads), mean(tails));
            RelationStats {
                relation,
                facts: facts.len(),
                heads,
                tails,
                tails_per_head,
                heads_per_tail,
                cardinality: (!facts.is_empty()).then(|| CardinalityClass::of_means(tails_per_head, heads_per_tail)),
                reflexive: facts.iter().filter(|pair| pair.key == pair.other).count(),
                symmetric: 0.0,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_numbers_of_the_list() {
        let spread = Spread::of((1..=100).rev().collect());
        assert_eq!((spread.min, spread.median, spread.p90, spread.p99, spread.max), (1, 50, 90, 99, 100));
        assert_eq!(Spread::of(vec![7]), Spread { min: 7, median: 7, mean: 7.0, p90: 7, p99: 7, max: 7 });
        assert_eq!(Spread::of(vec![]), Spread::default());
    }

    #[test]
    fn extremes_keep_ties_in_order() {
        let numbers = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 9, 1];
        let least = extremes(numbers.into_iter(), |n| n);
        assert_eq!(least[..5], [(1, 1), (3, 1), (12, 1), (6, 2), (0, 3)]);
        let most = extremes(numbers.into_iter(), std::cmp::Reverse);
        assert_eq!(most[..4], [(5, 9), (11, 9), (7, 6), (4, 5)]);
        assert_eq!(most.len(), EXAMPLES);
    }
}
