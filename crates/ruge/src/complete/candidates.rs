//! Candidates for new facts, relation by relation, from train alone.

use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Filter, Hide, RankQuery, RelationId, Side, TopOptions, Triple, Work};
use ruge_rules::Rule;

use super::MOST_CANDIDATES;
use crate::assemble;
use crate::engine::Engine;
use crate::error::Result;
use crate::explain::Explainer;

/// Queries asked in one call: the model packs its entities once for each.
const BATCH: usize = 16_384;

/// Least confidence of rules whose conclusions are candidates where the model ranks by rules already.
const LEAST_BESIDE_RANKING: f64 = 0.5;

/// Which other relations a fit looks at, where one relation is asked for.
const RELATIONS: Stream = Stream(0x701);

/// A triple that is not in train and may be a fact.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// The triple.
    pub triple: Triple,
    /// η.
    pub score: f32,
    /// Place among the model's answers to (h, r, ?) without training facts, from 1; one more than are asked for where it
    /// is not among them.
    pub tail_place: u16,
    /// The same for (?, r, t).
    pub head_place: u16,
    /// Confidence of the best rule that concludes it; 0 where none does.
    pub confidence: f32,
    /// How many rules conclude it.
    pub rules: u16,
}

/// Makes candidates.
pub(super) struct Generator<'m> {
    engine: &'m Engine,
    explainer: &'m Explainer,
    per_query: usize,
    train: Filter,
    /// Relations that some entity has with itself in train; for others nobody need be told that nobody does.
    reflexive: Vec<bool>,
}

impl<'m> Generator<'m> {
    pub(super) fn new(explainer: &'m Explainer, per_query: usize) -> Self {
        let engine = explainer.engine();
        let data = engine.data();
        let train = Filter::new(data.entity_count(), data.relation_count(), &[data.train()]);
        let queries: usize = data.graph().relations().map(|relation| pairs(engine, relation)).sum();
        let room = MOST_CANDIDATES / queries.max(1);
        let per_query = per_query.min(room).min(data.entity_count()).clamp(1, usize::from(u16::MAX) - 1);
        let graph = data.graph();
        let reflexive = graph.relations().map(|r| graph.facts(r).iter().any(|pair| pair.key == pair.other)).collect();
        Self { engine, explainer, per_query, train, reflexive }
    }

    /// Answers asked for per query: as many as wanted, or as memory and the graph allow.
    pub(super) fn per_query(&self) -> usize {
        self.per_query
    }

    /// A relation, and others in an order fixed by the seed until there are `queries` of them; in id order.
    pub(super) fn sample(&self, relation: RelationId, queries: usize) -> Vec<RelationId> {
        let data = self.engine.data();
        let mut chosen = vec![relation];
        let mut sum = pairs(self.engine, relation);
        for index in random::permutation(data.relation_count(), self.engine.spec().seed, RELATIONS, 0) {
            if sum >= queries {
                break;
            }
            if RelationId(index) != relation {
                chosen.push(RelationId(index));
                sum += pairs(self.engine, RelationId(index));
            }
        }
        chosen.sort_unstable();
        chosen
    }

    /// All candidates of the relations, by relation, then by head and tail; and how many queries were asked.
    pub(super) fn generate(&self, relations: &[RelationId], control: &Control<'_>) -> Result<(Vec<Candidate>, usize)> {
        let all_queries: usize = relations.iter().map(|&relation| pairs(self.engine, relation)).sum();
        let mut found = Vec::new();
        let mut done = 0;
        let mut queries: Vec<RankQuery> = Vec::new();
        let mut batch: Vec<RelationId> = Vec::new();
        for (index, &relation) in relations.iter().enumerate() {
            self.ask(relation, &mut queries);
            batch.push(relation);
            if queries.len() >= BATCH || index + 1 == relations.len() {
                let heard = |work: &Work| control.progress(done + work.done as usize, all_queries);
                self.answer(&batch, &queries, &mut found, &control.heard_by(&heard))?;
                done += queries.len();
                queries.clear();
                batch.clear();
            }
        }
        Ok((found, done))
    }

    /// The queries of a relation: who else is at the other end of what is there?
    fn ask(&self, relation: RelationId, queries: &mut Vec<RankQuery>) {
        let graph = self.engine.data().graph();
        for same in graph.facts(relation).chunk_by(|a, b| a.key == b.key) {
            let triple = Triple { head: same[0].key, relation, tail: same[0].other };
            queries.push(RankQuery { triple, side: Side::Tail });
        }
        for same in graph.facts_by_tail(relation).chunk_by(|a, b| a.key == b.key) {
            let triple = Triple { head: same[0].other, relation, tail: same[0].key };
            queries.push(RankQuery { triple, side: Side::Head });
        }
    }

    fn answer(
        &self,
        batch: &[RelationId],
        queries: &[RankQuery],
        found: &mut Vec<Candidate>,
        control: &Control<'_>,
    ) -> Result<()> {
        let ranker = self.engine.ranker();
        let beyond = (self.per_query + 1) as u16;
        let new = |triple| Candidate {
            triple,
            score: 0.0,
            tail_place: beyond,
            head_place: beyond,
            confidence: 0.0,
            rules: 0,
        };
        let options = TopOptions { hide: Hide::Known(&self.train), ..TopOptions::new(self.per_query) };
        let lists = ranker.top(queries, &options, control)?;
        let mut met: Vec<Candidate> = Vec::new();
        for (query, list) in queries.iter().zip(&lists) {
            for (place, answer) in list.iter().enumerate() {
                let mut candidate = new(query.answered(answer.entity));
                match query.side {
                    Side::Tail => candidate.tail_place = place as u16 + 1,
                    Side::Head => candidate.head_place = place as u16 + 1,
                }
                met.push(candidate);
            }
        }
        for &relation in batch {
            self.conclude(relation, &mut met, new, control)?;
        }
        let key = |candidate: &Candidate| {
            let Triple { head, relation, tail } = candidate.triple;
            (relation, head, tail)
        };
        met.sort_by_key(key);
        let from = found.len();
        for same in met.chunk_by(|a, b| a.triple == b.triple) {
            let mut all = same[0];
            if all.triple.head == all.triple.tail && !self.reflexive[all.triple.relation.index()] {
                continue;
            }
            for other in &same[1..] {
                all.tail_place = all.tail_place.min(other.tail_place);
                all.head_place = all.head_place.min(other.head_place);
                all.confidence = all.confidence.max(other.confidence);
                all.rules = all.rules.max(other.rules);
            }
            found.push(all);
        }
        let triples: Vec<Triple> = found[from..].iter().map(|candidate| candidate.triple).collect();
        let mut scores = vec![0.0; triples.len()];
        ranker.score(&triples, &mut scores)?;
        for (candidate, score) in found[from..].iter_mut().zip(scores) {
            // A score that is no number is the lowest.
            candidate.score = if score.is_nan() { f32::MIN } else { score };
        }
        Ok(())
    }

    /// What the rules of a relation conclude.
    fn conclude(
        &self,
        relation: RelationId,
        met: &mut Vec<Candidate>,
        new: impl Fn(Triple) -> Candidate,
        control: &Control<'_>,
    ) -> Result<()> {
        let rule = |index: usize| &self.explainer.rules()[index];
        let mut rules = self.explainer.concluding(relation).to_vec();
        if self.engine.ranking().is_some() {
            // Weak rules have had their say in the model's own answers; what all of them conclude would be nearly everything.
            rules.retain(|&index| rule(index).confidence.get() >= LEAST_BESIDE_RANKING);
        }
        if rules.is_empty() {
            return Ok(());
        }
        let horn: Vec<Rule> = rules.iter().map(|&index| rule(index).rule.clone()).collect();
        let groundings = assemble::groundings(self.engine.data(), &horn, control)?;
        let apart: Vec<bool> = rules.iter().map(|&index| self.explainer.tells_apart(index)).collect();
        let mut speaking: Vec<usize> = Vec::new();
        for (unlabeled, &triple) in groundings.unlabeled().iter().enumerate() {
            let counts = |&grounding: &usize| {
                let at = groundings.rule(grounding);
                !apart[at] || horn[at].keeps_apart(triple, groundings.premises(grounding))
            };
            let concluding = groundings.concluding(unlabeled).iter().map(|&grounding| grounding as usize);
            speaking.clear();
            speaking.extend(concluding.filter(counts).map(|grounding| groundings.rule(grounding)));
            speaking.sort_unstable();
            speaking.dedup();
            if speaking.is_empty() {
                continue;
            }
            let mut candidate = new(triple);
            candidate.rules = speaking.len().min(usize::from(u16::MAX)) as u16;
            candidate.confidence =
                speaking.iter().map(|&at| rule(rules[at]).confidence.get() as f32).fold(0.0, f32::max);
            met.push(candidate);
        }
        Ok(())
    }
}

/// Distinct (h, r) and (r, t) of a relation in train.
fn pairs(engine: &Engine, relation: RelationId) -> usize {
    let graph = engine.data().graph();
    graph.distinct_heads(relation) + graph.distinct_tails(relation)
}
