//! Rule hit first, embedding for the rest: what rules and a model reach together without one teaching the other.
//!
//! A candidate that a rule reaches stands before all that none reaches. Among those reached the highest confidence
//! decides; the model orders equals, and everyone else. Only candidates that rules reach are scored anew: for the rest the
//! model's own ranks are corrected by what moved past them.

use rayon::prelude::*;
use ruge_kg::{Control, EntityId, Filter, Place, Rank, RankError, RankQuery, Ranker};

use super::{Aggregation, Board, RulesOnly};

/// Queries answered at a time: their candidates are scored by one call, which suits a card.
const CHUNK: usize = 4096;

/// Who stands where the rules have spoken, for queries that differ in their answers only.
struct Hits {
    /// (candidate, bits of its confidence), known ones left out unless they are asked for.
    reached: Vec<(EntityId, u64)>,
    /// By query: the bits of its answer's confidence; 0 where no rule reaches it.
    answers: Vec<u64>,
}

impl RulesOnly<'_> {
    /// Ranks every query's answer, rules first. `alone` are the model's own ranks of the same queries. Filtered ranks
    /// alone are told; the raw ones are the model's.
    pub fn rank_first(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        model: &dyn Ranker,
        alone: &[Rank],
        control: &Control<'_>,
    ) -> Result<Vec<Rank>, RankError> {
        let key = |query: &RankQuery| (query.triple.relation, query.side, query.given());
        let mut order: Vec<usize> = (0..queries.len()).collect();
        order.sort_by_key(|&index| key(&queries[index]));
        let groups: Vec<&[usize]> = order.chunk_by(|&a, &b| key(&queries[a]) == key(&queries[b])).collect();
        let mut ranks = alone.to_vec();
        for chunk in groups.chunks(CHUNK) {
            control.check()?;
            let hits: Vec<Hits> = chunk
                .par_iter()
                .map_init(
                    || Board::new(self.graph.entity_count()),
                    |board, group| {
                        let asked: Vec<RankQuery> = group.iter().map(|&index| queries[index]).collect();
                        self.hits(&asked, known, board)
                    },
                )
                .collect();
            // Candidates first, then the answers themselves, so that both are scored by the same arithmetic.
            let mut triples = Vec::new();
            for (group, hits) in chunk.iter().zip(&hits) {
                let asked = &queries[group[0]];
                triples.extend(hits.reached.iter().map(|&(entity, _)| asked.answered(entity)));
                triples.extend(group.iter().map(|&index| queries[index].triple));
            }
            let mut scores = vec![0.0; triples.len()];
            model.score(&triples, &mut scores)?;
            let mut from = 0;
            for (group, hits) in chunk.iter().zip(&hits) {
                let (reached, answers) = scores[from..].split_at(hits.reached.len());
                for (at, &index) in group.iter().enumerate() {
                    let answer = queries[index].answer();
                    ranks[index].filtered =
                        place(hits, reached, answer, hits.answers[at], answers[at], alone[index].filtered);
                }
                from += hits.reached.len() + group.len();
            }
        }
        Ok(ranks)
    }

    fn hits(&self, queries: &[RankQuery], known: Option<&Filter>, board: &mut Board) -> Hits {
        let Some(first) = queries.first() else { return Hits { reached: Vec::new(), answers: Vec::new() } };
        board.clear();
        self.fill(queries, first, Aggregation::Max, board);
        let known = known.map_or(&[][..], |filter| first.known(filter));
        let open = |entity: &&EntityId| known.binary_search(entity).is_err();
        let reached = board.reached.iter().filter(open).map(|&entity| (entity, board.score(entity))).collect();
        Hits { reached, answers: queries.iter().map(|query| board.score(query.answer())).collect() }
    }
}

/// The place of an answer among the candidates that rules reach and, where none reaches it, among the rest.
fn place(hits: &Hits, scores: &[f32], answer: EntityId, confidence: u64, score: f32, alone: Place) -> Place {
    let others = hits.reached.iter().zip(scores).filter(|((entity, _), _)| *entity != answer);
    let (mut better, mut equal) = (0u32, 0u32);
    if confidence > 0 {
        for (&(_, theirs), &their_score) in others {
            let level = theirs == confidence;
            better += u32::from(theirs > confidence || (level && their_score > score));
            equal += u32::from(level && their_score == score);
        }
        return Place { better, equal, ..alone };
    }
    // All that are reached stand before it; those the model had put there already must not count twice.
    let (mut before, mut beside) = (0u32, 0u32);
    for (_, &their_score) in others {
        better += 1;
        before += u32::from(their_score > score);
        beside += u32::from(their_score == score);
    }
    equal = alone.equal.saturating_sub(beside);
    Place { better: better + alone.better.saturating_sub(before), equal, ..alone }
}
