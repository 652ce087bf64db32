//! How good a ranking is: held-out triples are asked on both sides, among all entities, known facts left out.
//!
//! `ruge eval`, the stages of a run, tables of experiments and rules fitted alone all ask here, so that a figure means the same
//! wherever it stands.

use std::sync::atomic::{AtomicBool, Ordering};

use ruge_embed::rank::{Rank, RankQuery};
use ruge_embed::{Evaluation, HITS, Metrics, Model, RankOptions, Ties};
use ruge_kg::{Filter, Graph, Triple};
use ruge_rules::RuleError;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::model_file::hex;
use crate::rules_only::{Aggregation, RulesOnly};

/// Queries ranked between two looks at whether to stop.
const LOOK: usize = 4_096;

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
    /// How models rank.
    pub options: RankOptions,
    /// Set from outside to stop; ranking then fails with an error that [is a stop](crate::RugeError::is_stopped).
    pub stop: Option<&'d AtomicBool>,
}

impl<'d> Questions<'d> {
    /// About triples, with mean ranks for ties and the usual N.
    pub fn about(triples: &[Triple], known: &'d Filter) -> Self {
        Self {
            queries: RankQuery::both_sides(triples),
            known,
            ties: Ties::Mean,
            hits: HITS.to_vec(),
            options: RankOptions::default(),
            stop: None,
        }
    }

    /// The ranks that a model gives; `follow` hears how many queries are done.
    pub fn rank(&self, model: &dyn Model, follow: &(dyn Fn(usize) + Sync)) -> Result<Vec<Rank>> {
        self.ask(follow, |some, follow| Ok(model.rank(some, Some(self.known), &self.options, follow)?))
    }

    /// The ranks that rules give without a model: the largest confidence decides.
    pub fn rank_by_rules(&self, rules: &RulesOnly<'_>, follow: &(dyn Fn(usize) + Sync)) -> Result<Vec<Rank>> {
        self.ask(follow, |some, follow| Ok(rules.rank(some, Some(self.known), Aggregation::Max, follow)))
    }

    fn ask(
        &self,
        follow: &(dyn Fn(usize) + Sync),
        rank: impl Fn(&[RankQuery], &(dyn Fn(usize, usize) + Sync)) -> Result<Vec<Rank>>,
    ) -> Result<Vec<Rank>> {
        let Some(stop) = self.stop else { return rank(&self.queries, &|done, _| follow(done)) };
        let mut ranks = Vec::with_capacity(self.queries.len());
        for some in self.queries.chunks(LOOK) {
            if stop.load(Ordering::Relaxed) {
                return Err(RuleError::Stopped.into());
            }
            let before = ranks.len();
            ranks.extend(rank(some, &|done, _| follow(before + done))?);
        }
        Ok(ranks)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelName, Spec, assemble};
    use ruge_kg::{Dataset, ReadOptions};
    use std::path::Path;
    use std::sync::Mutex;

    #[test]
    fn looking_whether_to_stop_changes_no_rank() {
        let (data, _) = Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded");
        let mut spec = Spec::paper(ModelName::ComplEx, "none").expect("a system of the paper");
        spec.model.dimension = 4;
        let model = assemble::model(&spec, &data).expect("it fits");
        // More queries than are ranked between two looks.
        let mut questions = Questions::about(&data.train()[..LOOK / 2 + 50], data.filter());
        let at_once = questions.rank(&*model, &|_| ()).expect("ranks");
        let stop = AtomicBool::new(false);
        questions.stop = Some(&stop);
        let most = Mutex::new(0);
        let follow = |done: usize| {
            let mut most = most.lock().expect("nobody panics");
            *most = done.max(*most);
        };
        let in_pieces = questions.rank(&*model, &follow).expect("ranks");
        assert_eq!(ranks_sha256(&at_once), ranks_sha256(&in_pieces));
        assert_eq!((at_once.len(), *most.lock().expect("nobody panics")), (LOOK + 100, LOOK + 100));
        assert_eq!(questions.metrics(&at_once), questions.evaluation(&at_once, data.graph()).pooled);
        stop.store(true, Ordering::Relaxed);
        assert!(questions.rank(&*model, &|_| ()).expect_err("stopped").is_stopped());
    }
}
