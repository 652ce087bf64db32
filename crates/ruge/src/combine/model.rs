//! The combination as a [`Model`]: whatever ranks, predicts, explains or completes with a model does so with this one.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use ruge_embed::model::{State, check_shapes};
use ruge_embed::rank::{self, Side};
use ruge_embed::top::{self, Scored, TopOptions};
use ruge_embed::{EmbedError, Embeddings, Losses, Model, Plan, Rank, RankOptions, RankQuery, Result, Table};
use ruge_kg::{Filter, RelationId, Triple};

use super::scores::{SHARE, block, by_question, in_place};
use super::{Heard, Ranking, RuleScores, Setting, Sum};

/// A model with rules beside it, or rules alone.
pub struct Combined {
    base: Base,
    rules: Arc<RuleScores>,
    global: Setting,
    settings: BTreeMap<(RelationId, Side), Setting>,
}

enum Base {
    Model(Box<dyn Model>),
    /// Nothing but rules: the tables have rows without numbers.
    Nothing(State),
}

impl Combined {
    /// Rules beside a model.
    pub fn new(base: Box<dyn Model>, rules: impl Into<Arc<RuleScores>>, ranking: &Ranking) -> Self {
        Self { base: Base::Model(base), rules: rules.into(), global: ranking.global, settings: ranking.table() }
    }

    /// Rules alone.
    pub fn rules_alone(rules: impl Into<Arc<RuleScores>>, ranking: &Ranking) -> Self {
        let rules = rules.into();
        let empty = |rows| Table::zeros(rows, 0);
        let graph = rules.graph();
        let embeddings = Embeddings { entities: empty(graph.entity_count()), relations: empty(graph.relation_count()) };
        let base = Base::Nothing(State { embeddings, moments: Vec::new(), steps: 0 });
        Self { base, rules, global: ranking.global, settings: ranking.table() }
    }

    fn setting(&self, query: &RankQuery) -> Setting {
        self.settings.get(&(query.triple.relation, query.side)).copied().unwrap_or(self.global)
    }

    /// Adds what rules say to the scores of one query.
    fn add(&self, query: &RankQuery, heard: &mut Vec<(Sum, Heard)>, scores: &mut [f32]) {
        let setting = self.setting(query);
        if setting.weight == 0.0 {
            return;
        }
        let at = heard.iter().position(|(of, _)| *of == setting.sum()).unwrap_or_else(|| {
            heard.push((setting.sum(), Heard::new(&[setting.sum()])));
            heard.len() - 1
        });
        let heard = &mut heard[at].1;
        self.rules.ask(query, heard);
        for (place, entity) in heard.candidates.iter().enumerate() {
            let said = setting.weight * setting.form.score(heard.sum(place, 0));
            scores[entity.index()] = (f64::from(scores[entity.index()]) + said) as f32;
        }
    }

    fn base_scores(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<()> {
        match &self.base {
            Base::Model(model) => model.score_many(queries, scores),
            Base::Nothing(_) => {
                scores.fill(0.0);
                Ok(())
            }
        }
    }

    /// Scores queries block by block, and hands each with its scores to `then`.
    fn by_blocks<T: Send>(
        &self,
        queries: &[RankQuery],
        progress: &(dyn Fn(usize, usize) + Sync),
        then: impl Fn(&RankQuery, &[f32]) -> T + Sync,
    ) -> Result<Vec<T>> {
        let entities = self.rules.graph().entity_count();
        let most = block(entities).min(queries.len());
        let mut scores = vec![0.0; most * entities];
        let mut all = Vec::with_capacity(queries.len());
        let order = by_question(queries);
        for places in order.chunks(most.max(1)) {
            let block: Vec<RankQuery> = places.iter().map(|&at| queries[at as usize]).collect();
            let scores = &mut scores[..block.len() * entities];
            self.base_scores(&block, scores)?;
            let rows = scores.par_chunks_mut(entities.max(1));
            let of = |heard: &mut Vec<(Sum, Heard)>, (query, row): (&RankQuery, &mut [f32])| {
                self.add(query, heard, row);
                then(query, row)
            };
            all.par_extend(block.par_iter().zip(rows).with_min_len(SHARE).map_init(Vec::new, of));
            progress(all.len(), queries.len());
        }
        Ok(in_place(&order, all))
    }
}

impl Model for Combined {
    fn name(&self) -> &'static str {
        match &self.base {
            Base::Model(model) => model.name(),
            Base::Nothing(_) => "rules",
        }
    }

    /// A triple alone is asked about from its head, as (h, r, ?).
    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<()> {
        assert_eq!(triples.len(), scores.len(), "one score per triple");
        match &self.base {
            Base::Model(model) => model.score(triples, scores)?,
            Base::Nothing(_) => scores.fill(0.0),
        }
        // Triples that share head and relation are one question.
        let mut order: Vec<usize> = (0..triples.len()).collect();
        let key = |at: &usize| (triples[*at].relation, triples[*at].head);
        order.sort_by_key(key);
        let groups: Vec<&[usize]> = order.chunk_by(|a, b| key(a) == key(b)).collect();
        let entities = self.rules.graph().entity_count();
        let said: Vec<Vec<f32>> = groups
            .par_iter()
            .with_min_len(SHARE)
            .map_init(
                || (Vec::new(), vec![0.0f32; entities]),
                |(heard, row), group| {
                    row.fill(0.0);
                    self.add(&RankQuery { triple: triples[group[0]], side: Side::Tail }, heard, row);
                    group.iter().map(|&at| row[triples[at].tail.index()]).collect()
                },
            )
            .collect();
        for (&at, said) in groups.iter().copied().flatten().zip(said.into_iter().flatten()) {
            scores[at] += said;
        }
        Ok(())
    }

    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<()> {
        match &self.base {
            Base::Model(model) => model.score_all(query, scores)?,
            Base::Nothing(_) => scores.fill(0.0),
        }
        self.add(&query, &mut Vec::new(), scores);
        Ok(())
    }

    fn score_many(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<()> {
        self.base_scores(queries, scores)?;
        let entities = self.rules.graph().entity_count().max(1);
        let rows = scores.par_chunks_mut(entities);
        queries.par_iter().zip(rows).for_each_init(Vec::new, |heard, (query, row)| self.add(query, heard, row));
        Ok(())
    }

    fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        _: &RankOptions,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<Rank>> {
        self.by_blocks(queries, progress, |query, scores| rank::place(query, known, scores))
    }

    fn top(
        &self,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<Vec<Scored>>> {
        self.by_blocks(queries, progress, |query, scores| top::select(scores, query, options))
    }

    /// What is combined is not trained further: the weights were fitted to the model as it is.
    fn epoch(&mut self, _: &Plan<'_>, _: u64) -> Result<Losses> {
        Err(EmbedError::NotTrainable { model: "a combination with rules" })
    }

    fn state(&self) -> Result<&State> {
        match &self.base {
            Base::Model(model) => model.state(),
            Base::Nothing(state) => Ok(state),
        }
    }

    fn restore(&mut self, state: State) -> Result<()> {
        match &mut self.base {
            Base::Model(model) => model.restore(state),
            Base::Nothing(own) => check_shapes(&state, own),
        }
    }
}
