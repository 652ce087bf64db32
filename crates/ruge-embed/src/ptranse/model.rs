//! PTransE as a [`Model`]: what trains, checkpoints, ranks and predicts with any model does so with this one.
//!
//! *Scores.* [`Model::score`] counts the paths of every triple it is given. [`Model::score_all`] is the two-stage order of
//! a query: entities outside of its block have no path term, whatever paths they have. So the two agree within a block,
//! and a triple whose answer lies outside scores higher alone than in its query if paths speak for it.

use ruge_kg::{Filter, Triple};

use super::rank::{self, Scorer};
use super::train::PTransE;
use crate::model::{State, check_shapes};
use crate::top::{self, Scored, TopOptions};
use crate::{Losses, Model, Plan, Rank, RankOptions, RankQuery, Result};

impl Model for PTransE {
    fn name(&self) -> &'static str {
        "ptranse"
    }

    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<()> {
        assert_eq!(triples.len(), scores.len(), "one score per triple");
        rank::score(&self.paths, &self.state.embeddings, triples, scores);
        Ok(())
    }

    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<()> {
        assert_eq!(scores.len(), self.state.embeddings.entities.rows(), "one score per entity");
        Scorer::new(&self.paths, &self.state.embeddings, &self.config, &[query], self.isa).score_all(query, scores);
        Ok(())
    }

    fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        options: &RankOptions,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<Rank>> {
        let rows = &self.state.embeddings;
        Ok(rank::rank(&self.paths, rows, &self.config, queries, known, options.isa, progress))
    }

    /// As defined, with what relations asked for share prepared once.
    fn top(
        &self,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<Vec<Scored>>> {
        let rows = &self.state.embeddings;
        let scorer = Scorer::new(&self.paths, rows, &self.config, queries, options.rank.isa);
        let score_all = |query: RankQuery, scores: &mut [f32]| {
            scorer.score_all(query, scores);
            Ok(())
        };
        let found = top::by_scores(rows.entities.rows(), &score_all, queries, options)?;
        progress(queries.len(), queries.len());
        Ok(found)
    }

    /// One epoch of PTransE's own: of the plan only the number of the epoch is asked, since the settings are the model's.
    fn epoch(&mut self, plan: &Plan<'_>, epoch: u64) -> Result<Losses> {
        let rate = self.config.rate;
        self.config.rate = rate * plan.rate;
        let labeled = PTransE::epoch(self, epoch);
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
