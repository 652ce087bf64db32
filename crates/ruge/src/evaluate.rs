//! How good a ranking is: held-out triples are asked on both sides, among all entities, known facts left out.
//!
//! `ruge eval`, the stages of a run, tables of experiments and rules fitted alone all ask here, so that a figure means the same
//! wherever it stands.

use ruge_embed::{Evaluation, HITS, Metrics};
use ruge_kg::{Control, Dataset, EntityId, Filter, Graph, Rank, RankQuery, Ranker, RelationId, Ties, Triple};
use ruge_rules::rank::only::{Aggregation, RulesOnly};
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::model_file::{data_hash, hex};
use crate::names::unknown;

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
    /// Both sides of every triple.
    pub queries: Vec<RankQuery>,
    /// Facts that do not count as wrong answers.
    pub known: &'d Filter,
    /// How equal scores count.
    pub ties: Ties,
    /// The N of Hits@N.
    pub hits: Vec<u32>,
}

impl<'d> Questions<'d> {
    /// About triples, with mean ranks for ties and the usual N.
    pub fn about(triples: &[Triple], known: &'d Filter) -> Self {
        Self { queries: RankQuery::both_sides(triples), known, ties: Ties::Mean, hits: HITS.to_vec() }
    }

    /// The ranks that a model gives; the control hears how many queries are done.
    pub fn rank(&self, ranker: &dyn Ranker, control: &Control<'_>) -> Result<Vec<Rank>> {
        Ok(ranker.rank(&self.queries, Some(self.known), control)?)
    }

    /// The ranks that rules give without a model: the largest confidence decides.
    pub fn rank_by_rules(&self, rules: &RulesOnly<'_>, control: &Control<'_>) -> Result<Vec<Rank>> {
        Ok(rules.rank(&self.queries, Some(self.known), Aggregation::Max, control)?)
    }

    /// Filtered figures over all queries.
    pub fn metrics(&self, ranks: &[Rank]) -> Metrics {
        Metrics::of(ranks.iter().map(|rank| rank.filtered), self.ties, &self.hits)
    }

    /// All figures; `train` says which category a relation is of.
    pub fn evaluation(&self, ranks: &[Rank], train: &Graph) -> Evaluation {
        Evaluation::new(&self.queries, ranks, train, self.ties, &self.hits)
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
