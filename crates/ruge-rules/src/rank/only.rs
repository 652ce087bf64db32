//! Rules alone as a ranker: the row that stands beside every guided model.
//!
//! For a query (h, r, ?) or (?, r, t) every rule that concludes r is walked from the known end over the training graph,
//! and a candidate's score is made of the confidences of the rules that reach it. Candidates that no rule reaches score
//! 0 and tie. On FB15K most held-out facts follow from a rule, so a guided model must be read against this row.
//!
//! *How it is fast.* Queries that share relation, side and known end are answered together. Rules are filed by what must
//! hold at the known end ([`RuleIndex`]), so that a query touches only those that have a chance. They are tried in falling
//! confidence, and where only the best one counts, asking ends as soon as all answers are found. Groups of queries are
//! independent, so ranks are the same on any number of threads.

mod first;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use ruge_kg::control::{Cancelled, Control};
use ruge_kg::{EntityId, Filter, Graph, Place, Rank, RankQuery, Side};
use serde::{Deserialize, Serialize};

use super::index::{Asker, Hearer, RuleIndex};
use crate::ground::NotGrounded;
use crate::{SoftRule, measure};

/// How the confidences of several rules for one candidate become its score. A rule counts once per candidate.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// The largest confidence.
    #[default]
    Max,
    /// The largest confidence; among equals the next largest, and so on. More rules beat fewer with the same beginning.
    MaxPlus,
    /// 1 − Π (1 − λ): the rules as independent causes. A hard rule outweighs any number of others.
    NoisyOr,
    /// Σ γⁱ · −ln(1 − λᵢ) over the rules in falling confidence, i from 0: each further rule counts less, since it mostly
    /// says again what a better one has said. γ = 0 is the maximum, γ = 1 the noisy-or. Confidences count up to
    /// [`ALMOST_CERTAIN`], so that the sum stays finite.
    Discounted(f64),
}

/// The most a single rule counts for where log-doubts are summed.
pub const ALMOST_CERTAIN: f64 = 1.0 - 1e-9;

/// −ln(1 − λ): what a rule adds to a discounted sum.
pub fn log_doubt(confidence: f64) -> f64 {
    -(-confidence.min(ALMOST_CERTAIN)).ln_1p()
}

/// Rules of a training graph, ready to rank.
#[derive(Clone, Debug)]
pub struct RulesOnly<'g> {
    graph: &'g Graph,
    /// In falling confidence, then in the order given.
    index: RuleIndex,
    confidences: Vec<f64>,
    not_applied: Vec<(usize, NotGrounded)>,
}

impl<'g> RulesOnly<'g> {
    /// Files every rule. Rules of confidence 0 say nothing and are left out.
    pub fn new(graph: &'g Graph, rules: &[SoftRule]) -> Self {
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by(|&a, &b| rules[b].confidence.get().total_cmp(&rules[a].confidence.get()));
        let index = RuleIndex::new(graph, order.iter().map(|&at| &rules[at].rule));
        let mut not_applied: Vec<_> = index.not_applied().iter().map(|&(at, reason)| (order[at], reason)).collect();
        not_applied.sort_unstable_by_key(|(at, _)| *at);
        let confidences = order.iter().map(|&at| rules[at].confidence.get()).collect();
        Self { graph, index, confidences, not_applied }
    }

    /// Rules that can conclude nothing, by their place in the list given, and why.
    pub fn not_applied(&self) -> &[(usize, NotGrounded)] {
        &self.not_applied
    }

    /// Ranks every query's answer among all entities of the graph. `progress` hears of queries done and queries in all,
    /// from any thread.
    pub fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        aggregation: Aggregation,
        control: &Control<'_>,
    ) -> Result<Vec<Rank>, Cancelled> {
        let key = |query: &RankQuery| (query.triple.relation, query.side, query.given());
        let mut order: Vec<usize> = (0..queries.len()).collect();
        order.sort_by_key(|&index| key(&queries[index]));
        let groups: Vec<&[usize]> = order.chunk_by(|&a, &b| key(&queries[a]) == key(&queries[b])).collect();
        let done = AtomicUsize::new(0);
        let ranked: Result<Vec<Vec<Rank>>, Cancelled> = groups
            .par_iter()
            .with_min_len(16)
            .map_init(
                || Board::new(self.graph.entity_count()),
                |board, group| {
                    control.check()?;
                    let asked: Vec<RankQuery> = group.iter().map(|&index| queries[index]).collect();
                    let ranks = self.rank_group(&asked, known, aggregation, board);
                    let before = done.fetch_add(group.len(), Ordering::Relaxed);
                    control.progress(before + group.len(), queries.len());
                    Ok(ranks)
                },
            )
            .collect();
        let mut ranks = vec![Rank::default(); queries.len()];
        for (&index, rank) in groups.iter().copied().flatten().zip(ranked?.into_iter().flatten()) {
            ranks[index] = rank;
        }
        Ok(ranks)
    }

    /// Ranks queries that differ in their answers only.
    fn rank_group(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        aggregation: Aggregation,
        board: &mut Board,
    ) -> Vec<Rank> {
        let Some(first) = queries.first() else { return Vec::new() };
        board.clear();
        self.fill(queries, first, aggregation, board);
        let mut scores: Vec<u64> = board.reached.iter().map(|entity| board.scores[entity.index()]).collect();
        scores.sort_unstable();
        let known = known.map_or(&[][..], |filter| first.known(filter));
        let mut of_known: Vec<u64> = known.iter().map(|&entity| board.score(entity)).collect();
        of_known.sort_unstable();
        let place = |query: &RankQuery| {
            let score = board.score(query.answer());
            let itself_known = u32::from(known.binary_search(&query.answer()).is_ok());
            let others = self.graph.entity_count() as u32 - 1;
            let (better, reached) = above(&scores, score);
            // Everyone whom no rule reaches ties with an answer that no rule reaches.
            let equal = if score == 0 { others - better } else { reached - 1 };
            let raw = Place { better, equal, others };
            let (better_known, equal_known) = above(&of_known, score);
            let filtered = Place {
                better: better - better_known,
                equal: equal - (equal_known - itself_known),
                others: others - (known.len() as u32 - itself_known),
            };
            Rank { filtered, raw }
        };
        queries.iter().map(place).collect()
    }

    /// Asks the rules of a group of queries, of which `first` is one.
    fn fill(&self, queries: &[RankQuery], first: &RankQuery, aggregation: Aggregation, board: &mut Board) {
        let mut asker = std::mem::take(&mut board.asker);
        let side = match first.side {
            Side::Head => measure::Side::Object,
            Side::Tail => measure::Side::Subject,
        };
        let known = (side, first.given());
        let mut fill = Fill { board, queries, aggregation, confidences: &self.confidences, level: f64::INFINITY };
        self.index.ask(self.graph, first.triple.relation, known, &mut asker, &mut fill);
        board.asker = asker;
        if aggregation == Aggregation::MaxPlus {
            board.number_lists();
        }
    }
}

/// Fills a board by what rules say.
struct Fill<'a> {
    board: &'a mut Board,
    queries: &'a [RankQuery],
    aggregation: Aggregation,
    confidences: &'a [f64],
    /// The confidence of the rule before.
    level: f64,
}

impl Hearer for Fill<'_> {
    fn goes_on(&mut self, rule: u32) -> bool {
        let confidence = self.confidences[rule as usize];
        let lower = confidence < self.level;
        self.level = confidence;
        // Where the best rule decides, what comes after all answers are found is below every answer.
        let found = |query: &RankQuery| self.board.score(query.answer()) > 0;
        confidence > 0.0 && !(lower && self.aggregation == Aggregation::Max && self.queries.iter().all(found))
    }

    #[inline]
    fn hear(&mut self, rule: u32, entity: EntityId) {
        let confidence = self.confidences[rule as usize];
        match self.aggregation {
            Aggregation::Max => self.board.reach(entity, confidence.to_bits()),
            Aggregation::MaxPlus => self.board.append(entity, confidence),
            Aggregation::NoisyOr => self.board.weaken(entity, 1.0 - confidence),
            Aggregation::Discounted(discount) => self.board.add(entity, log_doubt(confidence), discount),
        }
    }
}

/// How many of the sorted `scores` lie above `score`, and how many are equal to it.
fn above(scores: &[u64], score: u64) -> (u32, u32) {
    let from = scores.partition_point(|&other| other < score);
    let equal = scores[from..].partition_point(|&other| other == score);
    ((scores.len() - from - equal) as u32, equal as u32)
}

/// The scores of one query's candidates: the scratch of one thread.
///
/// Scores are whole numbers that compare as the confidences do; 0 is a candidate that no rule reaches. Bits of
/// non-negative floats compare like the floats.
struct Board {
    scores: Vec<u64>,
    reached: Vec<EntityId>,
    /// Under max-plus, the confidences of each candidate reached, in falling order.
    lists: Vec<Vec<f64>>,
    /// Under a discount, what the next rule counts.
    weights: Vec<f64>,
    asker: Asker,
}

impl Board {
    fn new(entities: usize) -> Self {
        Self {
            scores: vec![0; entities],
            reached: Vec::new(),
            lists: Vec::new(),
            weights: Vec::new(),
            asker: Asker::default(),
        }
    }

    fn clear(&mut self) {
        for entity in self.reached.drain(..) {
            self.scores[entity.index()] = 0;
        }
    }

    fn score(&self, entity: EntityId) -> u64 {
        self.scores[entity.index()]
    }

    /// The first rule to reach a candidate is the best.
    fn reach(&mut self, entity: EntityId, score: u64) {
        let slot = &mut self.scores[entity.index()];
        if *slot == 0 {
            *slot = score;
            self.reached.push(entity);
        }
    }

    /// Adds to a sum whose terms count less and less.
    fn add(&mut self, entity: EntityId, term: f64, discount: f64) {
        self.weights.resize(self.scores.len(), 1.0);
        let (slot, weight) = (&mut self.scores[entity.index()], &mut self.weights[entity.index()]);
        if *slot == 0 {
            self.reached.push(entity);
            *weight = 1.0;
        }
        *slot = (f64::from_bits(*slot) + *weight * term).to_bits();
        *weight *= discount;
    }

    /// Multiplies the doubt Π (1 − λ). The score counts down from the bits of 1, so that doubts far below the precision
    /// of 1 − doubt still tell candidates apart.
    fn weaken(&mut self, entity: EntityId, doubt: f64) {
        let certain = 1f64.to_bits();
        let slot = &mut self.scores[entity.index()];
        if *slot == 0 {
            self.reached.push(entity);
        }
        *slot = certain - (f64::from_bits(certain - *slot) * doubt).to_bits();
    }

    fn append(&mut self, entity: EntityId, confidence: f64) {
        if self.scores[entity.index()] == 0 {
            self.reached.push(entity);
            self.scores[entity.index()] = self.reached.len() as u64;
            if self.lists.len() < self.reached.len() {
                self.lists.push(Vec::new());
            }
            self.lists[self.reached.len() - 1].clear();
        }
        self.lists[self.scores[entity.index()] as usize - 1].push(confidence);
    }

    /// Under max-plus: replaces the places of lists by their order, equal numbers for equal lists.
    fn number_lists(&mut self) {
        let list = |entity: &EntityId, scores: &[u64]| scores[entity.index()] as usize - 1;
        let mut order: Vec<(usize, EntityId)> =
            self.reached.iter().map(|entity| (list(entity, &self.scores), *entity)).collect();
        // Confidences are numbers, never NaN, so that comparing slices of them is total.
        let compare =
            |a: usize, b: usize| self.lists[a].partial_cmp(&self.lists[b]).unwrap_or(std::cmp::Ordering::Equal);
        order.sort_by(|a, b| compare(a.0, b.0));
        let mut score = 0;
        let mut before = None;
        for (at, entity) in order {
            if before.is_none_or(|before| compare(before, at).is_ne()) {
                score += 1;
            }
            before = Some(at);
            self.scores[entity.index()] = score;
        }
    }
}
