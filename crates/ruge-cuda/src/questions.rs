//! The questions of an epoch as flat arrays: made by the host while the card works on the epoch before.

use rayon::prelude::*;
use ruge_embed::Plan;
use ruge_embed::rank::Side;
use ruge_embed::softmax::{Answer, Question, Questions, Softmax, Touches};

use crate::order::{Pair, Quad};
use crate::softmax::padded;

/// A batch in the arrays of its epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Range {
    pub questions: [usize; 2],
    pub entities: [usize; 2],
    pub relations: [usize; 2],
}

/// The questions of an epoch as the card wants them.
#[derive(Default)]
pub(crate) struct EpochQuestions {
    pub epoch: u64,
    pub batches: Vec<Range>,
    /// (given, answer, relation, side)
    pub questions: Vec<Quad>,
    pub answers: Vec<u32>,
    /// Relations by their place among the candidates, one side's after the other's.
    pub relations: Vec<u32>,
    pub weights: Vec<f32>,
    /// Where each question's targets begin, and the last one's end; empty where questions are plain.
    pub target_ends: Vec<u32>,
    /// (entity, bits of what its score should become)
    pub targets: Vec<Pair>,
    /// (row, from, to, bits of its weight in the penalty): slots of a row stand in [from, to).
    pub touched_entities: Vec<Quad>,
    pub entity_slots: Vec<u32>,
    pub touched_relations: Vec<Quad>,
    pub relation_slots: Vec<u32>,
}

/// One batch on its way into [`EpochQuestions`]; places of slots count from the batch's own first.
struct Part {
    entities: Vec<Quad>,
    entity_slots: Vec<u32>,
    relations: Vec<Quad>,
    relation_slots: Vec<u32>,
}

impl Part {
    fn new(questions: &[Question], answers: &[Answer], asks_relations: bool, sides: u32) -> Self {
        let mut touches = Touches::default();
        touches.build(questions, answers, asks_relations, false);
        let mut entities = Vec::with_capacity(touches.entity_weights.len());
        let mut at = 0;
        for &(entity, weight) in &touches.entity_weights {
            let from = at;
            while touches.ends.get(at).is_some_and(|end| end.0 == entity) {
                at += 1;
            }
            entities.push(Quad(entity, from as u32, at as u32, weight.to_bits()));
        }
        let half = |question: &Question| {
            question.triple.relation.0 * sides + u32::from(sides == 2 && question.side == Side::Head)
        };
        let mut by_relation: Vec<(u32, u32)> = questions.iter().map(half).zip(0..).collect();
        by_relation.sort_unstable();
        let (mut relations, mut from) = (Vec::new(), 0);
        for run in by_relation.chunk_by(|x, y| x.0 == y.0) {
            let weight: f32 = run.iter().map(|&(_, at)| questions[at as usize].weight).sum();
            relations.push(Quad(run[0].0, from, from + run.len() as u32, weight.to_bits()));
            from += run.len() as u32;
        }
        Self {
            entities,
            entity_slots: touches.ends.iter().map(|end| end.1).collect(),
            relations,
            relation_slots: by_relation.iter().map(|pair| pair.1).collect(),
        }
    }
}

impl EpochQuestions {
    /// The order of an epoch.
    pub fn new(plan: &Plan<'_>, softmax: &Softmax, epoch: u64, sides: u32) -> Self {
        let behind = padded(plan.relations) as u32;
        let all = Questions::new(plan, softmax, epoch);
        let batches: Vec<&[Question]> = all.batches().collect();
        let asks = softmax.relations > 0.0;
        let parts: Vec<Part> = batches.par_iter().map(|batch| Part::new(batch, all.answers(), asks, sides)).collect();
        let mut found = Self { epoch, ..Self::default() };
        if !softmax.is_plain() {
            found.target_ends.push(0);
        }
        for (batch, part) in batches.into_iter().zip(parts) {
            let first = found.questions.len();
            if !softmax.is_plain() {
                let before = found.targets.len() as u32;
                let (ends, targets) = Questions::targets(batch, all.answers());
                found.target_ends.extend(ends[1..].iter().map(|end| before + end));
                found.targets.extend(targets.iter().map(|answer| Pair(answer.entity, answer.target.to_bits())));
            }
            for question in batch {
                let side = u32::from(question.side == Side::Head);
                let relation = question.triple.relation.0;
                found.questions.push(Quad(question.given(), question.answer(), relation, side));
                found.answers.push(question.answer());
                found.relations.push(relation + if sides == 2 { side * behind } else { 0 });
                found.weights.push(question.weight);
            }
            let shifted = |list: Vec<Quad>, by: usize| {
                list.into_iter().map(move |x| Quad(x.0, x.1 + by as u32, x.2 + by as u32, x.3))
            };
            let (entities, relations) = (found.touched_entities.len(), found.touched_relations.len());
            found.touched_entities.extend(shifted(part.entities, found.entity_slots.len()));
            found.touched_relations.extend(shifted(part.relations, found.relation_slots.len()));
            found.entity_slots.extend(part.entity_slots);
            found.relation_slots.extend(part.relation_slots);
            found.batches.push(Range {
                questions: [first, found.questions.len()],
                entities: [entities, found.touched_entities.len()],
                relations: [relations, found.touched_relations.len()],
            });
        }
        found
    }
}
