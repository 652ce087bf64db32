//! What is seen of a triple: all that its truth depends on.

use rayon::prelude::*;
use ruge_kg::{EntityId, Filter, Graph, Label, RankQuery, Ranker, Side, Triple};
use ruge_rules::rank::{Heard, RuleScores, Sum};

use crate::error::Result;

/// What is seen of one triple.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Observed {
    /// η asked as (h, r, ?) and as (?, r, t).
    pub scores: [f32; 2],
    /// Confidence for ranking of the best rule that concludes it; 0 where none does.
    pub best_rule: f32,
    /// What all rules that conclude it sum up to: Σ −ln(1 − confidence).
    pub rule_sum: f32,
    /// The same by the weights that rules learned from train, where they did.
    pub learned_sum: f32,
    /// Other tails that the graph lists for (h, r), and other heads for (r, t).
    pub others: [u32; 2],
}

/// Who is asked about triples: what ranks, the rules, and the graph of facts.
#[derive(Clone, Copy)]
pub struct Witness<'w> {
    /// What ranks.
    pub ranker: &'w dyn Ranker,
    /// The trained model by itself, if there is one. What rules and evidence count beside it was fitted on validation: the sum
    /// would look surer on validation triples than it is.
    pub model: Option<&'w dyn Ranker>,
    /// The rules.
    pub rules: &'w RuleScores,
    /// The facts of train, by which it was made.
    pub graph: &'w Graph,
    /// Listed facts, where there are more: a second value is one whichever part of the data has the first.
    pub listed: Option<&'w Filter>,
}

/// The best rule alone and all rules, as counted; all rules, as learned.
const WAYS: [Sum; 3] = [
    Sum { discount: 0.0, constants: true, learned: false },
    Sum { discount: 1.0, constants: true, learned: false },
    Sum { discount: 1.0, constants: true, learned: true },
];

/// Questions that share their working memory.
const SHARE: usize = 8;

impl Witness<'_> {
    /// What is seen of each triple.
    pub fn observe(&self, triples: &[Triple]) -> Result<Vec<Observed>> {
        let mut seen = vec![Observed::default(); triples.len()];
        for (place, side) in [Side::Tail, Side::Head].into_iter().enumerate() {
            let queries: Vec<RankQuery> = triples.iter().map(|&triple| RankQuery { triple, side }).collect();
            let mut scores = vec![0.0; queries.len()];
            if let Some(model) = self.model {
                model.score_answers(&queries, &mut scores)?;
            }
            for (seen, score) in seen.iter_mut().zip(scores) {
                // A score that is no number is the lowest.
                seen.scores[place] = if score.is_nan() { f32::MIN } else { score };
            }
        }
        self.hear(triples, &mut seen);
        for (seen, &triple) in seen.iter_mut().zip(triples) {
            let Triple { head, relation, tail } = triple;
            let (values, itself) = match self.listed {
                Some(listed) => ([listed.tails(head, relation), listed.heads(relation, tail)], listed.contains(triple)),
                None => {
                    let of = |entity: EntityId, label: Label| self.graph.neighbours(entity, label);
                    let values = [of(head, Label::forward(relation)), of(tail, Label::inverse(relation))];
                    (values, self.graph.contains(triple))
                }
            };
            seen.others = values.map(|values| values.len() as u32 - u32::from(itself));
        }
        Ok(seen)
    }

    /// What the rules say. Triples of the same head and relation are one question.
    fn hear(&self, triples: &[Triple], seen: &mut [Observed]) {
        let mut order: Vec<usize> = (0..triples.len()).collect();
        let key = |at: &usize| (triples[*at].relation, triples[*at].head);
        order.sort_by_key(key);
        let groups: Vec<&[usize]> = order.chunk_by(|a, b| key(a) == key(b)).collect();
        let heard: Vec<Vec<[f32; 3]>> = groups
            .par_iter()
            .with_min_len(SHARE)
            .map_init(
                || Heard::new(&WAYS),
                |heard, group| {
                    self.rules.ask(&RankQuery { triple: triples[group[0]], side: Side::Tail }, heard);
                    let of = |at: &usize| match heard.place(triples[*at].tail) {
                        Some(place) => std::array::from_fn(|way| heard.sum(place, way) as f32),
                        None => [0.0; 3],
                    };
                    group.iter().map(of).collect()
                },
            )
            .collect();
        for (&at, [best, sum, learned]) in groups.into_iter().flatten().zip(heard.into_iter().flatten()) {
            seen[at].best_rule = 1.0 - (-best).exp();
            seen[at].rule_sum = sum;
            seen[at].learned_sum = learned;
        }
    }
}
