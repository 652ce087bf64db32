//! Ranking: a query is a triple with one end hidden, and its answer is ranked among all entities.
//!
//! A [`Ranker`] scores entities in the hidden position: an embedding, rules, or both. The trait is defined here, next
//! to [`Filter`], because rules and embeddings both implement it and must not depend on each other. Its provided
//! methods are the definition (score every entity, remove known facts, count or sort). Implementations override them
//! for speed, and tests compare the two.
//!
//! *Ties.* Equal scores are counted separately, so the optimistic, mean and pessimistic ranks are all available; the
//! mean is the default. *NaN* counts as −∞, below every number.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::control::{Cancelled, Control};
use crate::graph::Filter;
use crate::triple::{EntityId, Triple};

/// Which end of a triple is hidden.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// (?, r, t)
    Head,
    /// (h, r, ?)
    Tail,
}

/// A triple with one end hidden.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RankQuery {
    /// The triple, including its true answer.
    pub triple: Triple,
    /// The hidden end.
    pub side: Side,
}

impl RankQuery {
    /// Both queries of each triple: head, tail, head, tail, …
    pub fn both_sides(triples: &[Triple]) -> Vec<Self> {
        triples.iter().flat_map(|&triple| [Side::Head, Side::Tail].map(|side| Self { triple, side })).collect()
    }

    /// The hidden entity.
    pub fn answer(&self) -> EntityId {
        match self.side {
            Side::Head => self.triple.head,
            Side::Tail => self.triple.tail,
        }
    }

    /// The entity that is not hidden.
    pub fn given(&self) -> EntityId {
        match self.side {
            Side::Head => self.triple.tail,
            Side::Tail => self.triple.head,
        }
    }

    /// The triple with another entity in the hidden position.
    pub fn answered(&self, entity: EntityId) -> Triple {
        match self.side {
            Side::Head => Triple { head: entity, ..self.triple },
            Side::Tail => Triple { tail: entity, ..self.triple },
        }
    }

    /// Every entity that completes the query to a known fact, in id order.
    pub fn known<'f>(&self, filter: &'f Filter) -> &'f [EntityId] {
        match self.side {
            Side::Head => filter.heads(self.triple.relation, self.triple.tail),
            Side::Tail => filter.tails(self.triple.head, self.triple.relation),
        }
    }
}

/// How ties are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// The middle of the tied candidates; half ranks occur.
    #[default]
    Mean,
    /// Before the tied candidates.
    Optimistic,
    /// After the tied candidates.
    Pessimistic,
}

/// The position of an answer among the other candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Candidates that score higher.
    pub better: u32,
    /// Other candidates with the same score.
    pub equal: u32,
    /// All other candidates.
    pub others: u32,
}

impl Place {
    /// The rank, 1 for the best.
    pub fn rank(&self, ties: Ties) -> f64 {
        let (better, equal) = (f64::from(self.better), f64::from(self.equal));
        match ties {
            Ties::Mean => 1.0 + better + 0.5 * equal,
            Ties::Optimistic => 1.0 + better,
            Ties::Pessimistic => 1.0 + better + equal,
        }
    }
}

impl Place {
    /// The chance that the answer is among the first `top` of itself and `drawn` other candidates, drawn at random with
    /// replacement: how often fewer than `top` draws beat it, by the binomial distribution. No sample is drawn. Of candidates that
    /// score the same, half beat it under [`Ties::Mean`].
    pub fn hit_among(&self, drawn: u32, top: u32, ties: Ties) -> f64 {
        if self.others == 0 || drawn < top {
            return 1.0;
        }
        let beats = (self.rank(ties) - 1.0) / f64::from(self.others);
        // Terms of the sum, each from the one before; at 1 every draw beats the answer.
        let mut term = (1.0 - beats).powi(drawn as i32);
        let (mut sum, odds) = (0.0, beats / (1.0 - beats));
        for beaten in 0..top {
            sum += term;
            term *= odds * f64::from(drawn - beaten) / f64::from(beaten + 1);
        }
        if sum.is_nan() { 0.0 } else { sum.min(1.0) }
    }
}

/// The position of an answer with and without other known facts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rank {
    /// Among candidates that are not other known facts.
    pub filtered: Place,
    /// Among all entities.
    pub raw: Place,
}

/// The position of a query's answer, given the scores of all entities. NaN counts as −∞.
pub fn place(query: &RankQuery, known: Option<&Filter>, scores: &[f32]) -> Rank {
    let number = |score: f32| if score.is_nan() { f32::NEG_INFINITY } else { score };
    let answer = query.answer();
    let target = number(scores[answer.index()]);
    let (mut better, mut equal) = (0, 0);
    for &score in scores {
        better += u32::from(number(score) > target);
        equal += u32::from(number(score) == target);
    }
    let raw = Place { better, equal: equal - 1, others: scores.len() as u32 - 1 };
    let mut filtered = raw;
    let known = known.map_or(&[][..], |filter| query.known(filter));
    for &entity in known.iter().filter(|&&entity| entity != answer) {
        let score = number(scores[entity.index()]);
        filtered.others -= 1;
        filtered.better -= u32::from(score > target);
        filtered.equal -= u32::from(score == target);
    }
    Rank { filtered, raw }
}

/// An entity with its score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scored {
    /// The entity.
    pub entity: EntityId,
    /// Its score η.
    pub score: f32,
}

impl Scored {
    /// The order of answers: higher scores first, ties by id. NaN is never an answer.
    pub fn best_first(&self, other: &Self) -> std::cmp::Ordering {
        other.score.partial_cmp(&self.score).unwrap_or(std::cmp::Ordering::Equal).then(self.entity.cmp(&other.entity))
    }
}

/// Which candidates are excluded because they form known facts.
#[derive(Clone, Copy, Debug, Default)]
pub enum Hide<'f> {
    /// None.
    #[default]
    Nothing,
    /// All known facts: the remaining answers are new.
    Known(&'f Filter),
    /// All known facts except the query's own answer, as in filtered ranking.
    OtherKnown(&'f Filter),
}

impl<'f> Hide<'f> {
    /// The entities to exclude, in id order, and the one among them to keep.
    pub fn of(self, query: &RankQuery) -> (&'f [EntityId], Option<EntityId>) {
        match self {
            Hide::Nothing => (&[], None),
            Hide::Known(filter) => (query.known(filter), None),
            Hide::OtherKnown(filter) => (query.known(filter), Some(query.answer())),
        }
    }
}

/// The entities that may answer a query: bit e % 32 of word e / 32, or `None` for all.
pub type Only<'a> = &'a (dyn Fn(&RankQuery) -> Option<&'a [u32]> + Sync);

/// Which answers to return.
#[derive(Clone, Copy)]
pub struct TopOptions<'a> {
    /// Answers per query; fewer if there are fewer candidates.
    pub k: usize,
    /// Known facts to exclude.
    pub hide: Hide<'a>,
    /// Candidates to consider.
    pub only: Option<Only<'a>>,
}

impl TopOptions<'_> {
    /// The k best of all entities.
    pub fn new(k: usize) -> Self {
        Self { k, hide: Hide::Nothing, only: None }
    }
}

/// A set of entities in the form of [`Only`].
pub fn entity_set(entities: usize, members: impl IntoIterator<Item = EntityId>) -> Vec<u32> {
    let mut words = vec![0; entities.div_ceil(32)];
    for entity in members {
        words[entity.index() / 32] |= 1 << (entity.index() % 32);
    }
    words
}

/// The k best answers to one query, given the scores of all entities.
pub fn select(scores: &[f32], query: &RankQuery, options: &TopOptions<'_>) -> Vec<Scored> {
    let (hidden, stays) = options.hide.of(query);
    let only = options.only.and_then(|only| only(query));
    let wanted = |entity: EntityId| {
        only.is_none_or(|words| words[entity.index() / 32] >> (entity.index() % 32) & 1 == 1)
            && (stays == Some(entity) || hidden.binary_search(&entity).is_err())
    };
    // Most candidates are worse than the worst that is kept so far, and no more is asked about them.
    let most = options.k.saturating_mul(2).max(ROOM).min(scores.len());
    let mut found: Vec<Scored> = Vec::with_capacity(most);
    let mut least = f32::NEG_INFINITY;
    let keep = |found: &mut Vec<Scored>| {
        if options.k < found.len() {
            found.select_nth_unstable_by(options.k, Scored::best_first);
            found.truncate(options.k);
        }
    };
    for (index, &score) in scores.iter().enumerate() {
        let entity = EntityId(index as u32);
        // Equal ones stay: the entity decides among them.
        if score > f32::NEG_INFINITY && score >= least && wanted(entity) {
            if found.len() == most {
                keep(&mut found);
                least = found.iter().fold(f32::INFINITY, |least, one| least.min(one.score));
            }
            found.push(Scored { entity, score });
        }
    }
    keep(&mut found);
    // Keeping room for more per query would take gigabytes.
    found.shrink_to_fit();
    found.sort_unstable_by(Scored::best_first);
    found
}

/// Candidates that are held at a time, at least.
const ROOM: usize = 256;

/// What can go wrong while ranking.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// The caller cancelled, or the deadline passed.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The scoring device failed.
    #[error("{source}")]
    Device {
        /// The error of the device's crate.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Whether further work on this device would fail too.
        lasting: bool,
    },
}

/// Queries scored at a time by the provided methods.
const BLOCK: usize = 64;

/// Scores entities in the hidden position of a query.
pub trait Ranker: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Number of candidate entities.
    fn entity_count(&self) -> usize;

    /// η of each triple. A GPU may fail; the CPU never does.
    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError>;

    /// η of every entity in the hidden position, in ranking's order of summation. The query's own answer is ignored.
    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<(), RankError>;

    /// η of every entity for each query: one row of `scores` per query, equal to [`Ranker::score_all`]. CPUs and GPUs
    /// score many queries faster than one at a time.
    fn score_many(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        let rows = scores.chunks_mut(self.entity_count().max(1));
        queries.iter().zip(rows).try_for_each(|(&query, row)| self.score_all(query, row))
    }

    /// η of each query's own answer, asked from its known end: for tails, [`Ranker::score`] of the triples.
    fn score_answers(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        assert_eq!(queries.len(), scores.len(), "one score per query");
        let found = by_scores(self, queries, &Control::default(), |query, row| row[query.answer().index()])?;
        scores.copy_from_slice(&found);
        Ok(())
    }

    /// The position of each query's answer among all entities.
    fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        control: &Control<'_>,
    ) -> Result<Vec<Rank>, RankError> {
        by_scores(self, queries, control, |query, scores| place(query, known, scores))
    }

    /// The best answers to each query, best first. The query's own answer is ignored.
    fn top(
        &self,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Scored>>, RankError> {
        by_scores(self, queries, control, |query, scores| select(scores, query, options))
    }
}

/// Scores queries in blocks and calls `then` for each with the scores of all entities.
pub fn by_scores<R: Ranker + ?Sized, T: Send>(
    ranker: &R,
    queries: &[RankQuery],
    control: &Control<'_>,
    then: impl Fn(&RankQuery, &[f32]) -> T + Sync,
) -> Result<Vec<T>, RankError> {
    let entities = ranker.entity_count();
    let mut scores = vec![0.0; queries.len().min(BLOCK) * entities];
    let mut found = Vec::with_capacity(queries.len());
    for block in queries.chunks(BLOCK) {
        control.check()?;
        let scores = &mut scores[..block.len() * entities];
        ranker.score_many(block, scores)?;
        found.par_extend(block.par_iter().zip(scores.par_chunks(entities.max(1))).map(|(query, row)| then(query, row)));
        control.progress(found.len(), queries.len());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test ranker: the score of an entity is its id modulo a small number.
    struct Modulo(u32);

    impl Ranker for Modulo {
        fn name(&self) -> &'static str {
            "modulo"
        }

        fn entity_count(&self) -> usize {
            100
        }

        fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
            triples.iter().zip(scores).for_each(|(triple, score)| *score = (triple.tail.0 % self.0) as f32);
            Ok(())
        }

        fn score_all(&self, _: RankQuery, scores: &mut [f32]) -> Result<(), RankError> {
            scores.iter_mut().enumerate().for_each(|(at, score)| *score = (at as u32 % self.0) as f32);
            Ok(())
        }
    }

    #[test]
    fn the_best_are_those_of_a_full_sort() {
        let query = RankQuery { triple: Triple::new(0, 0, 7), side: Side::Tail };
        for seed in 0..40u64 {
            // Few values, so that many are equal, in an order that rises, falls or has none.
            let draw = |at: u64| crate::random::draw(seed, crate::random::Stream(1), 0, at);
            let score = |at: u64| match (draw(at) % 50, seed % 4) {
                (0, _) => f32::NAN,
                (1, _) => f32::NEG_INFINITY,
                (_, 0) => at as f32,
                (_, 1) => -(at as f32),
                (value, 2) => value as f32,
                (_, _) => (draw(at) % 5_000) as f32,
            };
            let scores: Vec<f32> = (0..3_000).map(score).collect();
            let mut sorted: Vec<Scored> =
                scores.iter().enumerate().map(|(at, &score)| Scored { entity: EntityId(at as u32), score }).collect();
            sorted.retain(|one| one.score > f32::NEG_INFINITY);
            sorted.sort_by(Scored::best_first);
            for k in [0, 1, 10, 127, 128, 129, 300, 1_499, 1_500, 2_999, 3_000, 9_999] {
                let found = select(&scores, &query, &TopOptions::new(k));
                assert_eq!(found, sorted[..k.min(sorted.len())], "{k} best, seed {seed}");
            }
        }
    }

    #[test]
    fn hits_among_drawn_candidates_are_what_draws_give() {
        let place = |better, equal, others| Place { better, equal, others };
        let hit = |place: Place| place.hit_among(50, 10, Ties::Mean);
        assert_eq!(hit(place(0, 0, 100)), 1.0);
        assert_eq!(hit(place(0, 0, 0)), 1.0, "nobody else");
        assert_eq!(hit(place(100, 0, 100)), 0.0);
        assert!(hit(place(1900, 0, 2000)) < 1e-20);
        // By hand: two drawn, first of three: neither may beat it.
        assert!((place(1, 2, 8).hit_among(2, 1, Ties::Mean) - 0.75 * 0.75).abs() < 1e-12);
        assert!((place(1, 2, 8).hit_among(2, 2, Ties::Mean) - (1.0 - 0.25 * 0.25)).abs() < 1e-12);
        assert!((place(1, 2, 8).hit_among(2, 1, Ties::Optimistic) - 0.875 * 0.875).abs() < 1e-12);
        assert!((place(1, 2, 8).hit_among(2, 1, Ties::Pessimistic) - 0.625 * 0.625).abs() < 1e-12);
        // By drawing: candidates are numbered, the better ones first, then the equal ones, each of which wins half the time.
        let of = place(150, 100, 1000);
        let stream = crate::random::Stream(0x50);
        let trial = |trial: u64| {
            let beats = |at: u64| {
                let draw = crate::random::draw(1, stream, trial, at);
                let (who, coin) = (draw % 1000, draw >> 63);
                who < 150 || who < 250 && coin == 1
            };
            (0..50).filter(|&at| beats(at)).count() < 10
        };
        let share = (0..40_000).filter(|&at| trial(at)).count() as f64 / 40_000.0;
        assert!((share - hit(of)).abs() < 0.01, "{share} {}", hit(of));
    }

    #[test]
    fn the_definition_counts_ties_leaves_out_known_facts_and_stops() {
        let facts: Vec<Triple> = (0..130).map(|at| Triple::new(at % 7, 0, at % 100)).collect();
        let filter = Filter::new(100, 1, &[&facts]);
        let query = RankQuery { triple: Triple::new(0, 0, 7), side: Side::Tail };
        let ranks = Modulo(10).rank(&[query], Some(&filter), &Control::default()).expect("it fits");
        assert_eq!(ranks[0].raw, Place { better: 20, equal: 9, others: 99 });
        assert!(ranks[0].filtered.others < 99);
        let options = TopOptions { hide: Hide::Known(&filter), ..TopOptions::new(3) };
        let lists = Modulo(10).top(&vec![query; 150], &options, &Control::default()).expect("it fits");
        assert_eq!(lists.len(), 150);
        assert!(lists[0].iter().all(|x| x.score == 9.0) && lists[0].is_sorted_by_key(|x| x.entity));
        let control = Control::default();
        control.cancel().cancel();
        assert!(matches!(Modulo(10).rank(&[query], None, &control), Err(RankError::Cancelled(_))));
    }
}
