//! What rules say of every candidate of a query, as numbers to be ranked by or added to a model's scores.

use std::sync::Arc;

use ruge_kg::control::{Cancelled, Control};
use ruge_kg::{EntityId, Graph, RankQuery, RelationId, Side, Triple};

use super::Hiding;
use super::index::{Asker, Hearer, RuleIndex};
use super::learn::{self, Counted};
use super::only::log_doubt;
use crate::io::RuleRecord;
use crate::measure;

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
    terms: Vec<Term>,
    /// Of each, its place in the order given.
    order: Vec<u32>,
}

/// What a rule counts.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// −ln(1 − confidence).
    counted: f64,
    /// What was learned for questions about heads and about tails; as counted where nothing was.
    learned: [f32; 2],
    /// Whether it names an entity.
    constant: bool,
}

/// What rules weigh in questions about heads and tails, for each rule in the order given.
pub type Weights = Vec<[f32; 2]>;

impl RuleScores {
    /// Files every rule, to be applied as `ranking` says.
    pub fn new(graph: Arc<Graph>, rules: &[RuleRecord], smoothing: f64, injective: bool) -> Self {
        let confidence = |record: &RuleRecord| ranking_confidence(record, smoothing).clamp(0.0, 1.0);
        let confidences: Vec<f64> = rules.iter().map(confidence).collect();
        let mut order: Vec<usize> = (0..rules.len()).filter(|&at| confidences[at] > 0.0).collect();
        order.sort_by(|&a, &b| confidences[b].total_cmp(&confidences[a]));
        let index = RuleIndex::new(&graph, order.iter().map(|&at| &rules[at].rule));
        let index = if injective { index.injective() } else { index };
        let term = |&at: &usize| {
            let counted = log_doubt(confidences[at]);
            Term { counted, learned: [counted as f32; 2], constant: rules[at].rule.has_constants() }
        };
        let terms = order.iter().map(term).collect();
        Self { graph, index, terms, order: order.into_iter().map(|at| at as u32).collect() }
    }

    /// As filed, with weights that were learned.
    #[must_use]
    pub fn with_weights(mut self, weights: &[[f32; 2]]) -> Self {
        for (term, &at) in self.terms.iter_mut().zip(&self.order) {
            if let Some(&learned) = weights.get(at as usize) {
                term.learned = learned;
            }
        }
        self
    }

    /// Weights to be kept for [`Self::with_weights`], for so many rules; those that conclude nothing weigh nothing.
    pub fn weights(&self, rules: usize) -> Weights {
        let mut weights = vec![[0.0; 2]; rules];
        for (term, &at) in self.terms.iter().zip(&self.order) {
            weights[at as usize] = term.learned;
        }
        weights
    }

    /// Learns what the rules weigh from so many facts of train, each hidden in its turn. `rules` are those that were filed.
    pub(super) fn learn(
        &mut self,
        rules: &[RuleRecord],
        smoothing: f64,
        asked: (&[Triple], usize),
        hiding: Hiding,
        control: &Control<'_>,
    ) -> Result<(), Cancelled> {
        let counted: Vec<Counted> = self
            .terms
            .iter()
            .zip(&self.order)
            .map(|(term, &at)| {
                // Without the fact that is asked about: a rule that was right twice would else call itself right.
                let without = rules[at as usize].counts.map(|counts| {
                    let support = counts.support.saturating_sub(1) as f64;
                    log_doubt(support / (counts.body.saturating_sub(1) as f64 + smoothing))
                });
                let weight = term.counted as f32;
                Counted { weight, share_without: without.map_or(1.0, |without| (without / term.counted) as f32) }
            })
            .collect();
        let learned = learn::learn(&self.graph, &self.index, &counted, asked, hiding, control)?;
        for (term, learned) in self.terms.iter_mut().zip(learned) {
            term.learned = learned;
        }
        Ok(())
    }

    /// The training graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The same, shared.
    pub fn shared_graph(&self) -> Arc<Graph> {
        Arc::clone(&self.graph)
    }

    /// The rules that reach one candidate, by their place in the order given, each with its term in the sum.
    pub fn terms(&self, query: &RankQuery, way: Sum) -> Vec<(usize, f64)> {
        let known = known_end(query);
        let (answer, side) = (query.answer(), side_place(query.side));
        let (mut terms, mut share) = (Vec::new(), 1.0);
        let mut hear = |rule: u32, entity: EntityId| {
            let Term { counted, learned, constant } = self.terms[rule as usize];
            if entity == answer && (way.constants || !constant) {
                let term = if way.learned { f64::from(learned[side]) } else { counted };
                terms.push((self.order[rule as usize] as usize, share * term));
                share *= way.discount;
            }
        };
        self.index.ask(&self.graph, query.triple.relation, known, &mut Asker::default(), &mut hear);
        terms
    }

    /// Sums what the rules say of every candidate of a query, for each of the ways to sum that `heard` was made for.
    pub fn ask(&self, query: &RankQuery, heard: &mut Heard) {
        let asked = question(query);
        if heard.asked == Some(asked) {
            return;
        }
        heard.clear(self.graph.entity_count());
        heard.asked = Some(asked);
        let known = known_end(query);
        let mut asker = std::mem::take(&mut heard.asker);
        let side = side_place(query.side);
        let mut hearing = Hearing { heard, terms: &self.terms, side };
        self.index.ask(&self.graph, query.triple.relation, known, &mut asker, &mut hearing);
        heard.asker = asker;
    }
}

/// Where weights of questions with this end hidden stand.
pub(super) fn side_place(hidden: Side) -> usize {
    match hidden {
        Side::Head => 0,
        Side::Tail => 1,
    }
}

/// The end of the conclusion that a query knows, and who stands there.
pub(super) fn known_end(query: &RankQuery) -> (measure::Side, EntityId) {
    match query.side {
        Side::Head => (measure::Side::Object, query.triple.tail),
        Side::Tail => (measure::Side::Subject, query.triple.head),
    }
}

/// What a query asks, without its answer.
pub(super) fn question(query: &RankQuery) -> (RelationId, Side, EntityId) {
    (query.triple.relation, query.side, query.given())
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
    /// Whether rules weigh what was learned instead of what was counted.
    pub learned: bool,
}

/// Ways to sum at a time, at most.
const LANES: usize = 16;

/// The candidates that rules reach, with a sum for each way to sum: the scratch of one thread.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Per entity, its place among the candidates plus one.
    place: Vec<u32>,
    /// Who was reached, in the order of being reached.
    pub candidates: Vec<EntityId>,
    sums: Sums,
    asker: Asker,
    /// The question that all this answers, of the rules it was asked of.
    asked: Option<(RelationId, Side, EntityId)>,
}

/// Per candidate, sums so far and the weights of their next terms.
#[derive(Clone, Debug)]
enum Sums {
    One(Sum, Vec<(f64, f64)>),
    /// All ways in step, in numbers of 32 bits: only a fit looks at so many, and millions of terms are told to it.
    Many(Box<Lanes>),
}

#[derive(Clone, Debug)]
struct Lanes {
    discounts: [f32; LANES],
    /// 1 where rules that name an entity count, else 0.
    constants: [f32; LANES],
    /// 1 where rules weigh what was learned, else 0.
    learned: [f32; LANES],
    /// Sums, then weights.
    values: Vec<[[f32; LANES]; 2]>,
}

impl Lanes {
    fn new(sums: &[Sum]) -> Self {
        assert!(sums.len() <= LANES, "{} ways to sum at a time, at most {LANES}", sums.len());
        let mut lanes =
            Self { discounts: [0.0; LANES], constants: [0.0; LANES], learned: [0.0; LANES], values: Vec::new() };
        for (lane, sum) in sums.iter().enumerate() {
            lanes.discounts[lane] = sum.discount as f32;
            lanes.constants[lane] = f32::from(u8::from(sum.constants));
            lanes.learned[lane] = f32::from(u8::from(sum.learned));
        }
        lanes
    }

    #[inline]
    fn add(&mut self, candidate: usize, counted: f32, learned: f32, constant: bool) {
        let [sums, weights] = &mut self.values[candidate];
        let more = learned - counted;
        if constant {
            for lane in 0..LANES {
                let counts = self.constants[lane];
                sums[lane] += counts * weights[lane] * (counted + more * self.learned[lane]);
                weights[lane] *= 1.0 + counts * (self.discounts[lane] - 1.0);
            }
        } else {
            for lane in 0..LANES {
                sums[lane] += weights[lane] * (counted + more * self.learned[lane]);
                weights[lane] *= self.discounts[lane];
            }
        }
    }
}

impl Heard {
    /// For these ways to sum.
    pub fn new(sums: &[Sum]) -> Self {
        let sums = match sums {
            [one] => Sums::One(*one, Vec::new()),
            many => Sums::Many(Box::new(Lanes::new(many))),
        };
        Self { place: Vec::new(), candidates: Vec::new(), sums, asker: Asker::default(), asked: None }
    }

    fn clear(&mut self, entities: usize) {
        for entity in self.candidates.drain(..) {
            self.place[entity.index()] = 0;
        }
        self.place.resize(entities, 0);
        match &mut self.sums {
            Sums::One(_, values) => values.clear(),
            Sums::Many(lanes) => lanes.values.clear(),
        }
    }

    /// The sum of a candidate, by its place, and a way.
    #[inline]
    pub fn sum(&self, candidate: usize, way: usize) -> f64 {
        match &self.sums {
            Sums::One(_, values) => values[candidate].0,
            Sums::Many(lanes) => f64::from(lanes.values[candidate][0][way]),
        }
    }

    /// The place of an entity among the candidates.
    pub fn place(&self, entity: EntityId) -> Option<usize> {
        (self.place[entity.index()] as usize).checked_sub(1)
    }
}

struct Hearing<'a> {
    heard: &'a mut Heard,
    terms: &'a [Term],
    side: usize,
}

impl Hearer for Hearing<'_> {
    #[inline]
    fn hear(&mut self, rule: u32, entity: EntityId) {
        let Heard { place, candidates, sums, .. } = &mut *self.heard;
        let Term { counted, learned, constant } = self.terms[rule as usize];
        let learned = learned[self.side];
        let slot = &mut place[entity.index()];
        if *slot == 0 {
            candidates.push(entity);
            *slot = candidates.len() as u32;
            match sums {
                Sums::One(_, values) => values.push((0.0, 1.0)),
                Sums::Many(lanes) => lanes.values.push([[0.0; LANES], [1.0; LANES]]),
            }
        }
        let at = *slot as usize - 1;
        match sums {
            Sums::One(way, values) => {
                if way.constants || !constant {
                    let (sum, weight) = &mut values[at];
                    *sum += *weight * if way.learned { f64::from(learned) } else { counted };
                    *weight *= way.discount;
                }
            }
            Sums::Many(lanes) => lanes.add(at, counted as f32, learned, constant),
        }
    }
}
