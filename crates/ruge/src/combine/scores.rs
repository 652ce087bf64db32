//! What rules say of every candidate of a query, as numbers to be ranked by or added to a model's scores.

use std::sync::Arc;

use ruge_embed::rank::{RankQuery, Side};
use ruge_kg::{EntityId, Graph, RelationId};
use ruge_rules::index::{Asker, Hearer, RuleIndex};
use ruge_rules::{RuleRecord, measure};

use crate::rules_only::log_doubt;

/// What is added to the body's size where nothing was fitted: a rule that was right five times of five is not yet certain.
pub const SMOOTHING: f64 = 5.0;

/// The confidence rules rank by: support / (body + smoothing), counted on train. Rules without counts keep their own
/// confidence.
///
/// PCA confidence believes that a relation is a function, and so puts rare rules above good ones.
pub fn ranking_confidence(record: &RuleRecord, smoothing: f64) -> f64 {
    match record.counts {
        Some(counts) => counts.support as f64 / (counts.body as f64 + smoothing),
        None => record.confidence.get(),
    }
}

/// Rules of a training graph, ready to be asked from either end of their conclusions.
#[derive(Clone, Debug)]
pub struct RuleScores {
    graph: Arc<Graph>,
    /// In falling confidence, then in the order given.
    index: RuleIndex,
    /// −ln(1 − confidence) of each; rules that name an entity are told apart.
    terms: Vec<(f64, bool)>,
}

impl RuleScores {
    /// Files every rule.
    pub fn new(graph: Arc<Graph>, rules: &[RuleRecord], smoothing: f64) -> Self {
        let confidence = |record: &RuleRecord| ranking_confidence(record, smoothing).clamp(0.0, 1.0);
        let confidences: Vec<f64> = rules.iter().map(confidence).collect();
        let mut order: Vec<usize> = (0..rules.len()).filter(|&at| confidences[at] > 0.0).collect();
        order.sort_by(|&a, &b| confidences[b].total_cmp(&confidences[a]));
        let index = RuleIndex::new(&graph, order.iter().map(|&at| &rules[at].rule));
        let terms = order.iter().map(|&at| (log_doubt(confidences[at]), rules[at].rule.has_constants())).collect();
        Self { graph, index, terms }
    }

    /// The training graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Sums what the rules say of every candidate of a query, for each of the ways to sum that `heard` was made for.
    pub fn ask(&self, query: &RankQuery, heard: &mut Heard) {
        let asked = question(query);
        if heard.asked == Some(asked) {
            return;
        }
        heard.clear(self.graph.entity_count());
        heard.asked = Some(asked);
        let known = match query.side {
            Side::Head => (measure::Side::Object, query.triple.tail),
            Side::Tail => (measure::Side::Subject, query.triple.head),
        };
        let mut asker = std::mem::take(&mut heard.asker);
        let mut hearing = Hearing { heard, terms: &self.terms };
        self.index.ask(&self.graph, query.triple.relation, known, &mut asker, &mut hearing);
        heard.asker = asker;
    }
}

/// What a query asks, its answer left away.
fn question(query: &RankQuery) -> (RelationId, Side, EntityId) {
    let known = match query.side {
        Side::Head => query.triple.tail,
        Side::Tail => query.triple.head,
    };
    (query.triple.relation, query.side, known)
}

/// Queries in an order in which the same questions follow each other, so that rules are walked once for each; as places.
pub(super) fn by_question(queries: &[RankQuery]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..queries.len() as u32).collect();
    order.sort_by_key(|&at| question(&queries[at as usize]));
    order
}

/// What came of queries taken in such an order, in the order of the queries.
pub(super) fn in_place<T>(order: &[u32], found: Vec<T>) -> Vec<T> {
    let mut found: Vec<(u32, T)> = order.iter().copied().zip(found).collect();
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, one)| one).collect()
}

/// Queries scored at a time: as many as 256 MB of scores hold. Some questions take a thousand times as long as others, and the
/// end of a block waits for its last.
pub(super) fn block(entities: usize) -> usize {
    ((1 << 26) / entities.max(1)).clamp(64, 4096)
}

/// Queries that share their working memory, at least: it is large, and the same question often follows.
pub(super) const SHARE: usize = 16;

/// A way to sum: how much each further rule counts, and which rules count at all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sum {
    /// γ: 0 takes the best rule alone, 1 is the noisy-or.
    pub discount: f64,
    /// Whether rules that name an entity have a say.
    pub constants: bool,
}

/// The candidates that rules reach, with a sum for each way to sum: the scratch of one thread.
#[derive(Clone, Debug)]
pub struct Heard {
    sums: Vec<Sum>,
    /// Per entity, its place among the candidates plus one.
    place: Vec<u32>,
    /// Who was reached, in the order of being reached.
    pub candidates: Vec<EntityId>,
    /// Per candidate and way, the sum so far and the weight of the next term.
    values: Vec<(f64, f64)>,
    asker: Asker,
    /// The question that all this answers, of the rules it was asked of.
    asked: Option<(RelationId, Side, EntityId)>,
}

impl Heard {
    /// For these ways to sum.
    pub fn new(sums: &[Sum]) -> Self {
        let asker = Asker::default();
        let (place, candidates, values) = (Vec::new(), Vec::new(), Vec::new());
        Self { sums: sums.to_vec(), place, candidates, values, asker, asked: None }
    }

    fn clear(&mut self, entities: usize) {
        for entity in self.candidates.drain(..) {
            self.place[entity.index()] = 0;
        }
        self.place.resize(entities, 0);
        self.values.clear();
    }

    /// The sum of a candidate, by its place, and a way.
    #[inline]
    pub fn sum(&self, candidate: usize, way: usize) -> f64 {
        self.values[candidate * self.sums.len() + way].0
    }

    /// The place of an entity among the candidates.
    pub fn place(&self, entity: EntityId) -> Option<usize> {
        (self.place[entity.index()] as usize).checked_sub(1)
    }
}

struct Hearing<'a> {
    heard: &'a mut Heard,
    terms: &'a [(f64, bool)],
}

impl Hearer for Hearing<'_> {
    #[inline]
    fn hear(&mut self, rule: u32, entity: EntityId) {
        let Heard { sums, place, candidates, values, .. } = &mut *self.heard;
        let (term, constant) = self.terms[rule as usize];
        let slot = &mut place[entity.index()];
        if *slot == 0 {
            candidates.push(entity);
            *slot = candidates.len() as u32;
            values.resize(candidates.len() * sums.len(), (0.0, 1.0));
        }
        let from = (*slot as usize - 1) * sums.len();
        for (way, (sum, weight)) in sums.iter().zip(&mut values[from..]) {
            if way.constants || !constant {
                *sum += *weight * term;
                *weight *= way.discount;
            }
        }
    }
}
