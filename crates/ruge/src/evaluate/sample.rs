//! A sample of queries: exact ranks of some, figures for all, each with an interval.
//!
//! Ranking a query among all entities is exact however many queries there are, so a large split needs fewer queries, never
//! fewer candidates. The sample is *stratified*: every relation and side is drawn from in proportion to its size. Strata that
//! would get fewer than two queries are merged, because the variance of one query is unknown.
//!
//! The estimate of a mean is Σ (N_h/N) m_h over the strata, and its variance Σ (N_h/N)² (1 − n_h/N_h) s_h²/n_h. The interval is
//! 1.96 standard errors to each side, never wider than Hoeffding's bound for values in [0, 1], 1.36/√n. Where the sample shows
//! no variance at all the normal approximation says nothing, and three divided by n is used, the "rule of three".

use ruge_embed::Metrics;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Place, Rank, RankQuery, RelationId, Side, Ties, Triple};
use std::collections::BTreeMap;

/// The stream for the drawn queries.
pub const QUERIES: Stream = Stream(0x7a1);
/// Fewest expected queries of a stratum.
const LEAST: usize = 2;
/// Standard errors of a normal distribution that hold 95 %.
const NORMAL: f64 = 1.96;
/// √(ln(2/.05) / 2): Hoeffding's bound on the mean of values in [0, 1], times √n.
const HOEFFDING: f64 = 1.36;
/// −ln(.05), rounded up: a share of more than 3/n is seen in n draws with a chance of 95 %.
const RULE_OF_THREE: f64 = 3.0;

/// Which queries were drawn from which strata, and of how many.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Queries of the whole split.
    pub of: usize,
    /// The seed of the draws.
    pub seed: u64,
    /// By relation, its queries in the split, both sides together.
    pub by_relation: BTreeMap<RelationId, usize>,
    /// Queries of each stratum.
    sizes: Vec<usize>,
    /// By drawn query, its stratum.
    strata: Vec<u32>,
}

/// Intervals that hold the figure of all queries in 95 of 100 samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    /// Of the MRR.
    pub mrr: Interval,
    /// Of Hits@N, by N.
    pub hits: BTreeMap<u32, Interval>,
}

/// An estimate and half the width of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub mean: f64,
    /// Half the width; 0 if nothing was left out.
    pub half: f64,
}

impl Interval {
    /// Both ends, within [0, 1].
    pub fn ends(&self) -> [f64; 2] {
        [(self.mean - self.half).max(0.0), (self.mean + self.half).min(1.0)]
    }
}

impl Sample {
    /// Draws `count` of the queries about triples, both sides of each; nothing if there are no more than that. The drawn
    /// queries are in the order of [`RankQuery::both_sides`]. Only the drawn ones are made: a split of millions is not copied.
    pub fn draw(triples: &[Triple], count: usize, seed: u64) -> Option<(Self, Vec<RankQuery>)> {
        let of = 2 * triples.len();
        if count >= of {
            return None;
        }
        let relations = triples.iter().map(|triple| triple.relation.index() + 1).max().unwrap_or(0);
        let mut counts = vec![0usize; relations];
        triples.iter().for_each(|triple| counts[triple.relation.index()] += 1);
        let (stratum, sizes) = strata(&counts, of, count);
        let taken = proportional(&sizes, of, count);
        let mut drawn: Vec<std::vec::IntoIter<u32>> = (0u64..)
            .zip(sizes.iter().zip(&taken))
            .map(|(stratum, (&size, &taken))| {
                let mut places = random::sample(size, taken, seed, QUERIES, stratum);
                places.sort_unstable();
                places.into_iter()
            })
            .collect();
        let mut next: Vec<Option<u32>> = drawn.iter_mut().map(Iterator::next).collect();
        let mut seen = vec![0u32; sizes.len()];
        let (mut queries, mut strata) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for &triple in triples {
            for (at, side) in [Side::Head, Side::Tail].into_iter().enumerate() {
                let stratum = stratum[2 * triple.relation.index() + at] as usize;
                if next[stratum] == Some(seen[stratum]) {
                    queries.push(RankQuery { triple, side });
                    strata.push(stratum as u32);
                    next[stratum] = drawn[stratum].next();
                }
                seen[stratum] += 1;
            }
        }
        assert_eq!(queries.len(), count, "every drawn place is that of a query");
        let by_relation =
            (0u32..).map(RelationId).zip(&counts).filter(|(_, count)| **count > 0).map(|(r, count)| (r, 2 * count));
        Some((Self { of, seed, by_relation: by_relation.collect(), sizes, strata }, queries))
    }

    /// Number of drawn queries.
    pub fn len(&self) -> usize {
        self.strata.len()
    }

    /// Whether none is drawn.
    pub fn is_empty(&self) -> bool {
        self.strata.is_empty()
    }

    /// The mean over all queries of a value in [0, 1] that is known of the drawn ones, with its interval.
    pub fn interval(&self, values: impl IntoIterator<Item = f64>) -> Interval {
        // (n, Σ x, Σ x²), in query order.
        let mut sums = vec![(0.0, 0.0, 0.0); self.sizes.len()];
        for (&stratum, value) in self.strata.iter().zip(values) {
            let (n, sum, squares) = &mut sums[stratum as usize];
            (*n, *sum, *squares) = (*n + 1.0, *sum + value, *squares + value * value);
        }
        let (mut mean, mut variance, mut unknown) = (0.0, 0.0, false);
        for (&size, (n, sum, squares)) in self.sizes.iter().zip(sums) {
            let share = size as f64 / self.of as f64;
            if n == 0.0 {
                continue;
            }
            mean += share * sum / n;
            let left_out = 1.0 - n / size as f64;
            if n < 2.0 {
                unknown |= left_out > 0.0;
                continue;
            }
            let spread = ((squares - sum * sum / n) / (n - 1.0)).max(0.0);
            variance += share * share * left_out * spread / n;
        }
        let n = (self.len() as f64).max(1.0);
        let widest = HOEFFDING / n.sqrt();
        let half = match variance {
            _ if unknown => widest,
            // Rounding of equal values leaves about 1e-17.
            variance if variance < 1e-15 => RULE_OF_THREE / n,
            variance => NORMAL * variance.sqrt(),
        };
        Interval { mean, half: half.min(widest) }
    }

    /// The mean over all queries of a value of any size.
    pub fn mean(&self, values: impl IntoIterator<Item = f64>) -> f64 {
        self.interval(values).mean
    }

    /// Intervals of the figures that have one.
    pub fn intervals(&self, ranks: &[Rank], ties: Ties, hits: &[u32]) -> Intervals {
        let places = || ranks.iter().map(|rank| rank.filtered.rank(ties));
        let hit = |top: u32| self.interval(places().map(|rank| f64::from(u8::from(rank <= f64::from(top)))));
        Intervals {
            mrr: self.interval(places().map(|rank| 1.0 / rank)),
            hits: hits.iter().map(|&top| (top, hit(top))).collect(),
        }
    }

    /// The same metrics with their means weighted by the sizes of the strata.
    pub(super) fn weigh(
        &self,
        mut metrics: Metrics,
        places: impl Iterator<Item = Place> + Clone,
        ties: Ties,
    ) -> Metrics {
        let ranks = || places.clone().map(|place| place.rank(ties));
        metrics.mrr = self.mean(ranks().map(|rank| 1.0 / rank));
        metrics.mean_rank = self.mean(ranks());
        for (&top, share) in &mut metrics.hits {
            *share = self.mean(ranks().map(|rank| f64::from(u8::from(rank <= f64::from(top)))));
        }
        metrics
    }
}

/// The stratum of each (relation, side) and the size of each stratum. Relations with too few queries share the last one.
fn strata(counts: &[usize], of: usize, count: usize) -> (Vec<u32>, Vec<usize>) {
    let expects_enough = |size: usize| size as u128 * count as u128 >= LEAST as u128 * of as u128;
    let mut sizes: Vec<usize> = Vec::new();
    let mut stratum = vec![u32::MAX; 2 * counts.len()];
    let mut rest = 0;
    for (at, stratum) in stratum.iter_mut().enumerate() {
        match counts[at / 2] {
            size if expects_enough(size) => {
                *stratum = sizes.len() as u32;
                sizes.push(size);
            }
            size => rest += size,
        }
    }
    if rest == 0 {
        return (stratum, sizes);
    }
    // What is too small even when merged joins the smallest of the others.
    let smallest = (0..sizes.len()).min_by_key(|&at| sizes[at]);
    let into = match smallest {
        Some(smallest) if !expects_enough(rest) => smallest,
        _ => {
            sizes.push(0);
            sizes.len() - 1
        }
    };
    sizes[into] += rest;
    stratum.iter_mut().filter(|stratum| **stratum == u32::MAX).for_each(|stratum| *stratum = into as u32);
    (stratum, sizes)
}

/// How many of `count` each stratum gets: its share rounded down, and one more for those with the largest remainders.
fn proportional(sizes: &[usize], of: usize, count: usize) -> Vec<usize> {
    let share = |size: usize| size as u128 * count as u128;
    let mut taken: Vec<usize> = sizes.iter().map(|&size| (share(size) / of as u128) as usize).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(share(sizes[at]) % of as u128), at));
    let missing = count - taken.iter().sum::<usize>();
    order.iter().take(missing).for_each(|&at| taken[at] += 1);
    taken
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::evaluate::{Questions, ranks_sha256};
    use ruge_embed::HITS;
    use ruge_kg::{Control, Dataset, ReadOptions};
    use ruge_rules::rank::only::RulesOnly;
    use ruge_rules::{MineConfig, SoftRule, mine};

    fn demo() -> Dataset {
        Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded").0
    }

    /// Rules alone rank a split in milliseconds.
    fn ranks(data: &Dataset, questions: &Questions<'_>) -> Vec<Rank> {
        let mined = mine(data.graph(), &MineConfig::default(), &Control::default());
        let rules: Vec<SoftRule> = mined.rules.iter().map(|record| record.soft()).collect();
        assert!(rules.len() > 10);
        questions.rank_by_rules(&RulesOnly::new(data.graph(), &rules), &Control::default()).expect("nobody cancels it")
    }

    #[test]
    fn a_sample_is_proportional_without_repeats_and_in_order() {
        let data = demo();
        let all = RankQuery::both_sides(data.train());
        for count in [1, 2, 3, 10, 57, 400, all.len() - 1] {
            let (sample, queries) = Sample::draw(data.train(), count, 5).expect("there are more");
            assert_eq!((queries.len(), sample.len(), sample.of), (count, count, all.len()));
            assert_eq!(sample.sizes.iter().sum::<usize>(), all.len());
            assert_eq!(sample.by_relation.values().sum::<usize>(), all.len());
            // In order, each once: a subsequence of all queries.
            let mut rest = all.iter();
            assert!(queries.iter().all(|query| rest.any(|other| other == query)), "{count}");
            for (stratum, &size) in sample.sizes.iter().enumerate() {
                let taken = sample.strata.iter().filter(|&&of| of as usize == stratum).count();
                let expected = size as f64 * count as f64 / all.len() as f64;
                assert!((taken as f64 - expected).abs() < 1.0, "{taken} of {expected} expected");
                assert!(taken >= LEAST || sample.sizes.len() == 1, "{taken} of a stratum of {size}");
            }
            let again = Sample::draw(data.train(), count, 5).expect("the same");
            assert_eq!(again.1, queries);
            assert!(count == 1 || Sample::draw(data.train(), count, 6).expect("another").1 != queries);
        }
        assert!(Sample::draw(data.train(), all.len(), 5).is_none());
        assert!(Sample::draw(&[], 5, 5).is_none());
    }

    #[test]
    fn small_strata_are_merged() {
        // 100 queries of three relations; ten are drawn, so a stratum needs twenty queries of a side.
        assert_eq!(strata(&[30, 15, 5], 100, 10), (vec![0, 1, 2, 2, 2, 2], vec![30, 30, 40]));
        // The rest is too small: it joins the smallest.
        assert_eq!(strata(&[25, 23, 2], 100, 10), (vec![0, 1, 2, 3, 2, 2], vec![25, 25, 27, 23]));
        assert_eq!(strata(&[25, 25], 100, 1), (vec![0; 4], vec![100]));
        assert_eq!(proportional(&[30, 30, 40], 100, 10), [3, 3, 4]);
        assert_eq!(proportional(&[25, 25, 27, 23], 100, 10), [3, 2, 3, 2]);
    }

    #[test]
    fn of_two_hundred_samples_ninety_five_percent_hold_the_full_value() {
        let data = demo();
        let questions = Questions::about(data.train(), data.filter());
        let ranks = ranks(&data, &questions);
        let full = questions.metrics(&ranks);
        let place: std::collections::HashMap<RankQuery, usize> = questions.queries.iter().copied().zip(0..).collect();
        let (mut held, mut held_hits, mut widths) = (0, 0, 0.0);
        for seed in 0..200 {
            let (sample, queries) =
                Sample::draw(data.train(), questions.queries.len() / 5, seed).expect("there are more");
            let drawn: Vec<Rank> = queries.iter().map(|query| ranks[place[query]]).collect();
            let Intervals { mrr, hits } = sample.intervals(&drawn, Ties::Mean, &HITS);
            let holds = |interval: &Interval, value: f64| (interval.mean - value).abs() <= interval.half;
            held += u32::from(holds(&mrr, full.mrr));
            held_hits += u32::from(holds(&hits[&10], full.hits[&10]));
            widths += mrr.half / 200.0;
        }
        assert!((184..=196).contains(&held), "the MRR of {held} samples of 200, ± {widths}");
        assert!((184..=196).contains(&held_hits), "the Hits@10 of {held_hits} samples of 200");
        // Stratified sampling is not wider than drawing from all.
        let simple = 1.96 * 0.5 / ((questions.queries.len() / 5) as f64).sqrt();
        assert!(widths > 0.001 && widths < simple, "{widths}");
    }

    #[test]
    fn sampled_questions_are_ranked_as_all_of_them_are_on_any_number_of_threads() {
        let data = demo();
        let all = Questions::about(data.test(), data.filter());
        let ranks_of_all = ranks(&data, &all);
        let of = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| {
                let questions = Questions::sampled(data.test(), data.filter(), 40, 3);
                let ranks = ranks(&data, &questions);
                (questions.queries.clone(), ranks_sha256(&ranks), questions.intervals(&ranks), ranks)
            })
        };
        let (queries, digest, intervals, drawn) = of(1);
        for (query, rank) in queries.iter().zip(&drawn) {
            let at = all.queries.iter().position(|other| other == query).expect("it is one of them");
            assert_eq!(*rank, ranks_of_all[at]);
        }
        for threads in [2, 5] {
            let (other, its_digest, its_intervals, _) = of(threads);
            assert_eq!((&other, &its_digest, &its_intervals), (&queries, &digest, &intervals));
        }
    }

    #[test]
    fn everything_is_exact_and_has_no_interval() {
        let data = demo();
        let all = Questions::about(data.test(), data.filter());
        let sampled = Questions::sampled(data.test(), data.filter(), usize::MAX, 3);
        assert_eq!(sampled.queries, all.queries);
        let ranks = ranks(&data, &all);
        assert!(sampled.sample.is_none() && sampled.intervals(&ranks).is_none());
        assert_eq!(sampled.metrics(&ranks), all.metrics(&ranks));
    }

    #[test]
    fn an_interval_is_never_wider_than_hoeffdings_nor_empty_where_nothing_varies() {
        let facts: Vec<Triple> = (0..500).map(|i| Triple::new(i, 0, i + 1)).collect();
        let (sample, _) = Sample::draw(&facts, 100, 1).expect("there are more");
        let same = sample.interval([1.0; 100]);
        assert_eq!((same.mean, same.half, same.ends()), (1.0, 0.03, [0.97, 1.0]));
        // Half of each stratum is 0 and half 1: s² is 25/98 of 50 of its 500.
        let mut seen = [0u32; 2];
        let halves = sample.strata.iter().map(|&stratum| {
            seen[stratum as usize] += 1;
            f64::from(seen[stratum as usize] % 2)
        });
        let apart = sample.interval(halves.collect::<Vec<f64>>());
        let expected = 1.96 * (0.9 * 25.0 / 98.0 / 100.0f64).sqrt();
        assert!((apart.half - expected).abs() < 1e-12 && (apart.mean - 0.5).abs() < 1e-12, "{apart:?}, {expected}");
        let (one, _) = Sample::draw(&facts, 1, 1).expect("there are more");
        assert_eq!(one.interval([0.5]), Interval { mean: 0.5, half: 1.36 });
        assert_eq!(one.interval([0.5]).ends(), [0.0, 1.0]);
        let (few, _) = Sample::draw(&facts, 4, 1).expect("there are more");
        assert_eq!(few.interval([0.0, 1.0, 0.0, 1.0]).half, 0.68);
    }
}
