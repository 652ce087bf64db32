//! How good a ranking is: held-out triples are asked on both sides, among all entities, known facts left out.
//!
//! `ruge eval`, the stages of a run, tables of experiments and rules fitted alone all ask here, so that a figure means the same
//! wherever it stands. A large split may be asked by a [`Sample`] of its queries.

mod sample;

use ruge_embed::{Evaluation, HITS, Metrics};
use ruge_kg::{Control, Dataset, EntityId, Filter, Graph, Place, Rank, RankQuery, Ranker, RelationId, Ties, Triple};
use ruge_rules::rank::only::{Aggregation, RulesOnly};
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::model_file::{data_hash, hex};
use crate::names::unknown;

pub use sample::{Interval, Intervals, QUERIES, Sample};

/// Other data than a model's own, in the model's ids; nothing where they are the same. An error for names that the model does
/// not have.
pub fn in_ids_of(own: &Dataset, given: &Dataset) -> Result<Option<Dataset>> {
    if data_hash(given) == data_hash(own) {
        return Ok(None);
    }
    let (ours, theirs) = (own.names(), given.names());
    let mut entities = Vec::with_capacity(given.entity_count());
    for (_, name) in theirs.entities.iter() {
        let error = || unknown("entity", name, ours.entities.iter().map(|(_, name)| name));
        entities.push(ours.entities.id(name).ok_or_else(error)?);
    }
    let mut relations = Vec::with_capacity(given.relation_count());
    for (_, name) in theirs.relations.iter() {
        let error = || unknown("relation", name, ours.relations.iter().map(|(_, name)| name));
        relations.push(ours.relations.id(name).ok_or_else(error)?);
    }
    let (entity, relation) = (|id: EntityId| Some(entities[id.index()]), |id: RelationId| Some(relations[id.index()]));
    Ok(Some(given.translated(ours.clone(), entity, relation).0))
}

/// The questions of an evaluation, and how their answers are counted.
pub struct Questions<'d> {
    /// Both sides of every triple, or a sample of them.
    pub queries: Vec<RankQuery>,
    /// Facts that do not count as wrong answers.
    pub known: &'d Filter,
    /// How equal scores count.
    pub ties: Ties,
    /// The N of Hits@N.
    pub hits: Vec<u32>,
    /// What the queries were drawn from, if they are not all.
    pub sample: Option<Sample>,
}

impl<'d> Questions<'d> {
    /// About triples, with mean ranks for ties and the usual N.
    pub fn about(triples: &[Triple], known: &'d Filter) -> Self {
        Self { queries: RankQuery::both_sides(triples), known, ties: Ties::Mean, hits: HITS.to_vec(), sample: None }
    }

    /// About a sample of the queries that [`about`](Self::about) has; about all of them if there are no more than `count`.
    pub fn sampled(triples: &[Triple], known: &'d Filter, count: usize, seed: u64) -> Self {
        match Sample::draw(triples, count, seed) {
            None => Self::about(triples, known),
            Some((sample, queries)) => Self { queries, sample: Some(sample), ..Self::about(&[], known) },
        }
    }

    /// The ranks that a model gives; the control hears how many queries are done.
    pub fn rank(&self, ranker: &dyn Ranker, control: &Control<'_>) -> Result<Vec<Rank>> {
        Ok(ranker.rank(&self.queries, Some(self.known), control)?)
    }

    /// The ranks that rules give without a model: the largest confidence decides.
    pub fn rank_by_rules(&self, rules: &RulesOnly<'_>, control: &Control<'_>) -> Result<Vec<Rank>> {
        Ok(rules.rank(&self.queries, Some(self.known), Aggregation::Max, control)?)
    }

    /// Filtered figures over all queries; estimates of them from a sample.
    pub fn metrics(&self, ranks: &[Rank]) -> Metrics {
        let metrics = Metrics::of(ranks.iter().map(|rank| rank.filtered), self.ties, &self.hits);
        self.for_all(metrics, ranks.iter().map(|rank| rank.filtered), self.ties)
    }

    /// All figures; `train` says which category a relation is of. From a sample, figures of a side, a relation or a category
    /// are those of its drawn queries.
    pub fn evaluation(&self, ranks: &[Rank], train: &Graph) -> Evaluation {
        let found = Evaluation::new(&self.queries, ranks, train, self.ties, &self.hits);
        let filtered = || ranks.iter().map(|rank| rank.filtered);
        Evaluation {
            pooled: self.for_all(found.pooled, filtered(), self.ties),
            raw: self.for_all(found.raw, ranks.iter().map(|rank| rank.raw), self.ties),
            optimistic: self.for_all(found.optimistic, filtered(), Ties::Optimistic),
            pessimistic: self.for_all(found.pessimistic, filtered(), Ties::Pessimistic),
            ..found
        }
    }

    /// Intervals of the filtered figures of all queries; nothing where all were asked.
    pub fn intervals(&self, ranks: &[Rank]) -> Option<Intervals> {
        self.sample.as_ref().map(|sample| sample.intervals(ranks, self.ties, &self.hits))
    }

    /// The mean of a value of each query, over all queries.
    pub fn mean(&self, values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let count = values.len().max(1) as f64;
        match &self.sample {
            Some(sample) => sample.mean(values),
            None => values.sum::<f64>() / count,
        }
    }

    fn for_all(&self, metrics: Metrics, places: impl Iterator<Item = Place> + Clone, ties: Ties) -> Metrics {
        match &self.sample {
            Some(sample) => sample.weigh(metrics, places, ties),
            None => metrics,
        }
    }
}

/// One number for all ranks: two evaluations that agree here agree everywhere. Half ranks occur, so they are doubled.
pub fn ranks_sha256(ranks: &[Rank]) -> String {
    let mut hasher = Sha256::new();
    for rank in ranks {
        hasher.update(((2.0 * rank.filtered.rank(Ties::Mean)) as u32).to_le_bytes());
    }
    hex(&hasher.finalize())
}
