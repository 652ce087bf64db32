//! PTransE as a [`Model`]: it trains, checkpoints, ranks and predicts like any other.
//!
//! *Scores.* [`Ranker::score`] adds the path term for every triple. [`Ranker::score_all`] is the two-stage order of a
//! query: entities outside its block have no path term, whatever paths they have. So the two agree within a block, and
//! a triple whose answer is outside scores higher alone than in its query if paths support it.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use ruge_kg::rank::select;
use ruge_kg::{Control, Filter, Rank, RankError, RankQuery, Ranker, Scored, TopOptions, Triple};

use super::rank::{self, Scorer};
use super::train::PTransE;
use crate::error::Result;
use crate::model::{State, check_shapes};
use crate::{Losses, Model, Plan};

impl Ranker for PTransE {
    fn name(&self) -> &'static str {
        "ptranse"
    }

    fn entity_count(&self) -> usize {
        self.state.embeddings.entities.rows()
    }

    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
        assert_eq!(triples.len(), scores.len(), "one score per triple");
        rank::score(&self.paths, &self.state.embeddings, triples, scores);
        Ok(())
    }

    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<(), RankError> {
        assert_eq!(scores.len(), self.entity_count(), "one score per entity");
        Scorer::new(&self.paths, &self.state.embeddings, &self.config, &[query], self.isa).score_all(query, scores);
        Ok(())
    }

    /// A triple has one score, whichever end is asked for.
    fn score_answers(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        let triples: Vec<Triple> = queries.iter().map(|query| query.triple).collect();
        self.score(&triples, scores)
    }

    /// The data shared by queries of the same relation is prepared once.
    fn score_many(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        let scorer = Scorer::new(&self.paths, &self.state.embeddings, &self.config, queries, self.isa);
        let rows = scores.par_chunks_mut(self.entity_count().max(1));
        queries.par_iter().zip(rows).for_each(|(&query, row)| scorer.score_all(query, row));
        Ok(())
    }

    fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        control: &Control<'_>,
    ) -> Result<Vec<Rank>, RankError> {
        Ok(rank::rank(&self.paths, &self.state.embeddings, &self.config, queries, known, self.isa, control)?)
    }

    fn top(
        &self,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Scored>>, RankError> {
        let scorer = Scorer::new(&self.paths, &self.state.embeddings, &self.config, queries, self.isa);
        let done = AtomicUsize::new(0);
        let answer = |scores: &mut Vec<f32>, query: &RankQuery| {
            control.check()?;
            scorer.score_all(*query, scores);
            control.progress(done.fetch_add(1, Ordering::Relaxed) + 1, queries.len());
            Ok(select(scores, query, options))
        };
        queries.par_iter().map_init(|| vec![0.0; self.entity_count()], answer).collect()
    }
}

impl Model for PTransE {
    /// One PTransE epoch. Of the plan it uses only the epoch number, since the settings belong to the model.
    fn epoch(&mut self, plan: &Plan<'_>, epoch: u64) -> Result<Losses> {
        let rate = self.config.rate;
        self.config.rate = rate * plan.rate;
        let labeled = PTransE::epoch(self, epoch, plan.control.unwrap_or(&Control::default()));
        self.config.rate = rate;
        Ok(Losses { labeled: labeled?, unlabeled: 0.0 })
    }

    fn state(&self) -> Result<&State> {
        Ok(&self.state)
    }

    fn restore(&mut self, state: State) -> Result<()> {
        check_shapes(&state, &self.state)?;
        self.state = state;
        Ok(())
    }
}
