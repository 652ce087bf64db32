//! Rules and another ranker together, as a [`Ranker`]: whatever ranks, predicts, explains or completes does so with this one.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use ruge_kg::rank::{place, select};
use ruge_kg::{
    Cancelled, Control, EntityId, Filter, PageRank, Rank, RankError, RankQuery, Ranker, RelationId, Scored, Side,
    TopOptions, Triple,
};

use super::evidence::{Counts, EvidencePart, EvidenceScores, Sheet};
use super::scores::{SHARE, block, by_question, in_place, question};
use super::{Heard, Ranking, RuleScores, Setting, Sum};

/// Rules in addition to a ranker, or rules alone.
pub struct Combined {
    base: Option<Arc<dyn Ranker>>,
    rules: Arc<RuleScores>,
    global: Setting,
    settings: BTreeMap<(RelationId, Side), Setting>,
    evidence: Option<EvidenceScores>,
    near: Option<PageRank>,
}

/// A part of a score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// Whose.
    pub of: PartOf,
    /// What it adds.
    pub value: f64,
}

/// Who adds to a score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PartOf {
    /// The other ranker.
    Model,
    /// A rule, by its place in the order given.
    Rule(usize),
    /// What was counted about the candidate.
    Evidence(EvidencePart),
    /// How near the candidate is to the known end.
    Near,
}

/// What nearness counts: less than any rule.
const NEAR: f32 = 1e-4;

/// The scratch of one thread.
#[derive(Default)]
struct Scratch {
    heard: Vec<(Sum, Heard)>,
    sheet: Sheet,
    /// Shares of a walker's time, and where the walk began.
    near: (Option<EntityId>, Vec<f32>),
}

impl Combined {
    /// Rules in addition to a ranker; alone without one.
    pub fn new(base: Option<Arc<dyn Ranker>>, rules: Arc<RuleScores>, ranking: &Ranking) -> Self {
        let counts = || Arc::new(Counts::new(rules.shared_graph()));
        let evidence = ranking.evidence.as_ref().map(|evidence| EvidenceScores::new(counts(), evidence));
        let near = ranking.near.then(|| PageRank::new(rules.shared_graph()));
        Self { base, rules, global: ranking.global, settings: ranking.table(), evidence, near }
    }

    /// The rules.
    pub fn rules(&self) -> &RuleScores {
        &self.rules
    }

    fn setting(&self, query: &RankQuery) -> Setting {
        self.settings.get(&(query.triple.relation, query.side)).copied().unwrap_or(self.global)
    }

    /// Evidence, if it counts.
    pub fn evidence(&self) -> Option<&EvidenceScores> {
        self.evidence.as_ref()
    }

    /// Adds what rules and evidence say to the scores of one query.
    fn add(&self, query: &RankQuery, scratch: &mut Scratch, scores: &mut [f32]) {
        self.add_rules(query, &mut scratch.heard, scores);
        if let Some(evidence) = &self.evidence {
            evidence.add(query, &mut scratch.sheet, scores);
        }
        if let Some(near) = &self.near {
            let (start, shares) = (query.given(), &mut scratch.near);
            if shares.0 != Some(start) {
                shares.1.resize(scores.len(), 0.0);
                near.shares(start, &mut shares.1);
                shares.1[start.index()] = 0.0;
                shares.0 = Some(start);
            }
            scores.iter_mut().zip(&shares.1).for_each(|(score, share)| *score += NEAR * share);
        }
    }

    /// What the score of a query's answer is made of. The parts add up to its score, up to rounding.
    pub fn parts(&self, query: &RankQuery) -> Result<Vec<Part>, RankError> {
        let mut parts = Vec::new();
        if let Some(base) = &self.base {
            let mut score = [0.0];
            base.score_answers(&[*query], &mut score)?;
            parts.push(Part { of: PartOf::Model, value: f64::from(score[0]) });
        }
        let setting = self.setting(query);
        if setting.weight != 0.0 {
            let terms = self.rules.terms(query, setting.sum());
            let sum: f64 = terms.iter().map(|(_, term)| term).sum();
            // A probability is no sum: every rule has the share of it that it has of the evidence.
            let unit = if sum > 0.0 { setting.weight * setting.form.score(sum) / sum } else { 0.0 };
            parts.extend(terms.iter().map(|&(rule, term)| Part { of: PartOf::Rule(rule), value: unit * term }));
        }
        let evidence = self.evidence.iter().flat_map(|evidence| evidence.parts(query, query.answer()));
        parts.extend(evidence.map(|part| Part { of: PartOf::Evidence(part), value: f64::from(part.value) }));
        if let Some(near) = &self.near
            && query.answer() != query.given()
        {
            let mut shares = vec![0.0; self.entity_count()];
            near.shares(query.given(), &mut shares);
            parts.push(Part { of: PartOf::Near, value: f64::from(NEAR * shares[query.answer().index()]) });
        }
        Ok(parts)
    }

    fn add_rules(&self, query: &RankQuery, heard: &mut Vec<(Sum, Heard)>, scores: &mut [f32]) {
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

    /// Adds what rules and evidence say to the scores of the queries' own answers. Queries that ask the same are asked once.
    fn add_to_answers(&self, queries: &[RankQuery], scores: &mut [f32]) {
        let order = by_question(queries);
        let key = |at: &u32| question(&queries[*at as usize]);
        let groups: Vec<&[u32]> = order.chunk_by(|a, b| key(a) == key(b)).collect();
        let entities = self.rules.graph().entity_count();
        let said: Vec<Vec<f32>> = groups
            .par_iter()
            .with_min_len(SHARE)
            .map_init(
                || (Scratch::default(), vec![0.0f32; entities]),
                |(scratch, row), group| {
                    row.fill(0.0);
                    self.add(&queries[group[0] as usize], scratch, row);
                    group.iter().map(|&at| row[queries[at as usize].answer().index()]).collect()
                },
            )
            .collect();
        for (&at, said) in groups.iter().copied().flatten().zip(said.into_iter().flatten()) {
            scores[at as usize] += said;
        }
    }

    fn base_scores(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        match &self.base {
            Some(base) => base.score_many(queries, scores),
            None => {
                scores.fill(0.0);
                Ok(())
            }
        }
    }

    /// Scores queries block by block, and hands each with its scores to `then`.
    fn by_blocks<T: Send>(
        &self,
        queries: &[RankQuery],
        control: &Control<'_>,
        then: impl Fn(&RankQuery, &[f32]) -> T + Sync,
    ) -> Result<Vec<T>, RankError> {
        let entities = self.rules.graph().entity_count();
        let most = block(entities).min(queries.len());
        let mut scores = vec![0.0; most * entities];
        let mut all = Vec::with_capacity(queries.len());
        let order = by_question(queries);
        for places in order.chunks(most.max(1)) {
            control.check()?;
            let block: Vec<RankQuery> = places.iter().map(|&at| queries[at as usize]).collect();
            let scores = &mut scores[..block.len() * entities];
            self.base_scores(&block, scores)?;
            let rows = scores.par_chunks_mut(entities.max(1));
            // Few queries are spread over all threads.
            let share = if block.len() < SHARE * rayon::current_num_threads() { 1 } else { SHARE };
            let of = |scratch: &mut Scratch, (query, row): (&RankQuery, &mut [f32])| {
                control.check()?;
                self.add(query, scratch, row);
                Ok(then(query, row))
            };
            let found: Result<Vec<T>, Cancelled> =
                block.par_iter().zip(rows).with_min_len(share).map_init(Scratch::default, of).collect();
            all.extend(found?);
            control.progress(all.len(), queries.len());
        }
        Ok(in_place(&order, all))
    }
}

impl Ranker for Combined {
    fn name(&self) -> &'static str {
        self.base.as_ref().map_or("rules", |base| base.name())
    }

    fn entity_count(&self) -> usize {
        self.rules.graph().entity_count()
    }

    /// A triple alone is asked about from its head, as (h, r, ?).
    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
        assert_eq!(triples.len(), scores.len(), "one score per triple");
        match &self.base {
            Some(base) => base.score(triples, scores)?,
            None => scores.fill(0.0),
        }
        let queries: Vec<RankQuery> = triples.iter().map(|&triple| RankQuery { triple, side: Side::Tail }).collect();
        self.add_to_answers(&queries, scores);
        Ok(())
    }

    fn score_answers(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        assert_eq!(queries.len(), scores.len(), "one score per query");
        match &self.base {
            Some(base) => base.score_answers(queries, scores)?,
            None => scores.fill(0.0),
        }
        self.add_to_answers(queries, scores);
        Ok(())
    }

    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<(), RankError> {
        self.score_many(&[query], scores)
    }

    fn score_many(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        self.base_scores(queries, scores)?;
        let rows = scores.par_chunks_mut(self.entity_count().max(1));
        queries
            .par_iter()
            .zip(rows)
            .for_each_init(Scratch::default, |scratch, (query, row)| self.add(query, scratch, row));
        Ok(())
    }

    fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        control: &Control<'_>,
    ) -> Result<Vec<Rank>, RankError> {
        self.by_blocks(queries, control, |query, scores| place(query, known, scores))
    }

    fn top(
        &self,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Scored>>, RankError> {
        self.by_blocks(queries, control, |query, scores| select(scores, query, options))
    }
}
