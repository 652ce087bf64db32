//! The questions of an epoch as flat arrays, prepared by the host while the GPU works on the previous ones.
//!
//! A long epoch is split into groups of batches, so that neither host nor GPU holds the rows and samples of all.

use std::borrow::Cow;

use rayon::prelude::*;
use ruge_embed::Plan;
use ruge_embed::softmax::{Answer, Answers, Question, Questions, Softmax, TouchedRow, Touches, list_touched};
use ruge_kg::Side;

use crate::order::{Pair, Quad};
use crate::softmax::padded;

/// A batch in the arrays of its epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Range {
    pub questions: [usize; 2],
    pub entities: [usize; 2],
    pub relations: [usize; 2],
}

/// Batches per group: as many as touch four million rows.
pub(crate) fn batches_of_group(softmax: &Softmax, entities: usize, batch: usize) -> usize {
    // For questions with all their answers, the number of touched rows is not known in advance.
    if softmax.answers == Answers::All {
        return usize::MAX;
    }
    ((1 << 22) / (2 * batch.max(1) + softmax.sample.min(entities))).max(1)
}

/// Which batches of which epoch, and the number of steps before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Group {
    pub epoch: u64,
    /// The first batch, counted within the epoch.
    pub first: usize,
    pub steps: u64,
}

/// The questions of a group of batches.
#[derive(Default)]
pub(crate) struct EpochQuestions {
    pub group: Group,
    pub batches: Vec<Range>,
    /// (given, answer, relation, side)
    pub questions: Vec<Quad>,
    pub answers: Vec<u32>,
    /// Relations by their index among the candidates, one side after the other.
    pub relations: Vec<u32>,
    pub weights: Vec<f32>,
    /// The start of each question's targets, and the end of the last; empty for plain questions.
    pub target_ends: Vec<u32>,
    /// (entity, bits of the target of its score)
    pub targets: Vec<Pair>,
    /// (row, from, to, bits of its weight in the penalty): the slots of a row are [from, to).
    pub touched_entities: Vec<Quad>,
    pub entity_slots: Vec<u32>,
    pub touched_relations: Vec<Quad>,
    pub relation_slots: Vec<u32>,
    /// With a sample: the drawn entities, batch by batch.
    pub drawn: Vec<u32>,
    /// By question, its answer's index among the drawn entities, or `u32::MAX`.
    pub places: Vec<u32>,
    /// By touched row, (index among the drawn + 1, from, to, 0): the questions it answers are [from, to).
    pub parts: Vec<Quad>,
    pub answer_slots: Vec<u32>,
}

/// One batch to be added to [`EpochQuestions`]; slots count from the start of the batch.
#[derive(Default)]
struct BatchQuestions {
    drawn: Vec<u32>,
    places: Vec<u32>,
    parts: Vec<Quad>,
    answer_slots: Vec<u32>,
    entities: Vec<Quad>,
    entity_slots: Vec<u32>,
    relations: Vec<Quad>,
    relation_slots: Vec<u32>,
}

impl BatchQuestions {
    fn new(
        questions: &[Question],
        answers: &[Answer],
        drawn: Option<Vec<u32>>,
        asks_relations: bool,
        sides: u32,
    ) -> Self {
        let mut touches = Touches::default();
        touches.build(questions, answers, asks_relations, drawn.is_some());
        // If all entities are candidates, those that no question names have only their gradient as candidates.
        let mut rows = Vec::new();
        list_touched(&touches, Some(drawn.as_deref().unwrap_or_default()), 0, &mut rows);
        let entity = |row: &TouchedRow| Quad(row.entity, row.ends[0], row.ends[1], row.weight.to_bits());
        let part =
            |row: &TouchedRow| Quad(row.candidate.map_or(0, |place| place + 1), row.answers[0], row.answers[1], 0);
        let sampled = match &drawn {
            None => Self::default(),
            Some(drawn) => {
                let place = |answer: u32| drawn.binary_search(&answer).map_or(u32::MAX, |place| place as u32);
                Self {
                    places: questions.iter().map(|question| place(question.answer())).collect(),
                    parts: rows.iter().map(part).collect(),
                    answer_slots: touches.answers.iter().map(|answer| answer.1).collect(),
                    ..Self::default()
                }
            }
        };
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
            drawn: drawn.unwrap_or_default(),
            entities: rows.iter().map(entity).collect(),
            entity_slots: touches.ends.iter().map(|end| end.1).collect(),
            relations,
            relation_slots: by_relation.iter().map(|pair| pair.1).collect(),
            ..sampled
        }
    }
}

impl EpochQuestions {
    /// At most `most` batches of an epoch's questions.
    pub fn new(plan: &Plan<'_>, softmax: &Softmax, all: &Questions, (group, most): (Group, usize), sides: u32) -> Self {
        let behind = padded(plan.relations) as u32;
        let places = group.first..all.batch_count().min(group.first.saturating_add(most));
        let batches: Vec<Cow<'_, [Question]>> = places.into_par_iter().map(|at| all.batch(plan, at)).collect();
        let asks = softmax.relations > 0.0;
        let part = |(at, batch): (usize, &Cow<'_, [Question]>)| {
            let drawn = softmax.candidates(plan.entities, plan.seed, group.steps + 1 + at as u64);
            BatchQuestions::new(batch, all.answers(), drawn, asks, sides)
        };
        let parts: Vec<BatchQuestions> = batches.par_iter().enumerate().map(part).collect();
        let mut found = Self { group, ..Self::default() };
        if !softmax.is_plain() {
            found.target_ends.push(0);
        }
        for (batch, part) in batches.iter().zip(parts) {
            let first = found.questions.len();
            if !softmax.is_plain() {
                let before = found.targets.len() as u32;
                let (ends, targets) = Questions::targets(batch, all.answers());
                found.target_ends.extend(ends[1..].iter().map(|end| before + end));
                found.targets.extend(targets.iter().map(|answer| Pair(answer.entity, answer.target.to_bits())));
            }
            for question in batch.iter() {
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
            found.parts.extend(shifted(part.parts, found.answer_slots.len()));
            found.answer_slots.extend(part.answer_slots);
            found.drawn.extend(part.drawn);
            found.places.extend(part.places);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Counts;
    use ruge_embed::Example;
    use ruge_kg::{Graph, Triple};

    /// Every batch of an epoch, in groups of `most`, against the CPU's step-by-step preparation.
    fn check(softmax: Softmax, most: usize) {
        let facts: Vec<Triple> = (0..157).map(|i| Triple::new(i % 40, i % 3, (i * 7 + 1) % 40)).collect();
        let graph = Graph::new(40, 3, &facts);
        let examples = [Example { triple: Triple::new(1, 2, 3), weight: 0.5 }; 3];
        let plan = Plan { examples: &examples, ..Plan::new(&graph, &facts, 9) };
        let all = Questions::new(&plan, &softmax, 4);
        let batch = softmax.batch.min(all.len());
        let counts = Counts { entities: 40, questions: all.len().min(most.saturating_mul(batch)), batch };
        let (mut first, mut asked) = (0, 0);
        let expected: Vec<Cow<'_, [Question]>> = all.batches(&plan).collect();
        while first < expected.len() {
            let group = Group { epoch: 4, first, steps: 100 + first as u64 };
            let found = EpochQuestions::new(&plan, &softmax, &all, (group, most), 2);
            assert!(!found.batches.is_empty() && found.batches.len() <= most);
            assert!(
                found.touched_entities.len() <= counts.touched(&softmax) && found.questions.len() <= counts.questions
            );
            let sample = counts.sample(&softmax);
            assert_eq!(found.drawn.len(), sample.unwrap_or(0) * found.batches.len());
            assert_eq!(found.parts.len(), if sample.is_some() { found.touched_entities.len() } else { 0 });
            for (at, range) in found.batches.iter().enumerate() {
                let questions = &expected[first + at];
                assert_eq!(range.questions[1] - range.questions[0], questions.len());
                let mut named: Vec<u32> = questions.iter().flat_map(|x| [x.given(), x.answer()]).collect();
                let rows = &found.touched_entities[range.entities[0]..range.entities[1]];
                if let Some(size) = sample {
                    let drawn = softmax.candidates(40, 9, 101 + (first + at) as u64).unwrap();
                    assert_eq!(found.drawn[at * size..][..size], drawn);
                    for (question, &place) in questions.iter().zip(&found.places[range.questions[0]..]) {
                        let drawn_at = drawn.iter().position(|&entity| entity == question.answer());
                        assert_eq!(place, drawn_at.map_or(u32::MAX, |place| place as u32));
                    }
                    for (row, part) in rows.iter().zip(&found.parts[range.entities[0]..]) {
                        assert_eq!(
                            drawn.iter().position(|&entity| entity == row.0).map_or(0, |x| x as u32 + 1),
                            part.0
                        );
                        let answers = &found.answer_slots[part.1 as usize..part.2 as usize];
                        assert!(answers.iter().all(|&slot| questions[slot as usize].answer() == row.0));
                        let all = questions.iter().filter(|question| question.answer() == row.0).count();
                        assert_eq!(answers.len(), all, "every question that it answers");
                    }
                    named.extend(drawn);
                }
                named.sort_unstable();
                named.dedup();
                assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<u32>>(), named);
                for row in rows {
                    let slots = &found.entity_slots[row.1 as usize..row.2 as usize];
                    assert!(slots.iter().all(|&slot| questions[slot as usize].given() == row.0));
                    assert_eq!(slots.len(), questions.iter().filter(|question| question.given() == row.0).count());
                }
            }
            first += found.batches.len();
            asked += found.questions.len();
        }
        assert_eq!(asked, 2 * (157 + 3));
    }

    #[test]
    fn groups_hold_what_their_batches_touch_and_draw() {
        // The last batch is short; one batch may contain everything; a sample of all entities is no sample.
        for batch in [1, 7, 64, 1000] {
            for sample in [0, 1, 9, 39, 40, 100] {
                for most in [1, 3, usize::MAX] {
                    check(Softmax { batch, sample, ..Softmax::default() }, most);
                }
            }
        }
    }

    #[test]
    fn groups_are_bounded_however_long_an_epoch_is() {
        let softmax = Softmax { sample: 10_000, ..Softmax::default() };
        assert_eq!(batches_of_group(&softmax, 5_000_000, 1000), 349);
        assert_eq!(batches_of_group(&softmax, 5_000, 1000), 599, "no more than there are");
        assert_eq!(batches_of_group(&softmax, 5_000_000, 1 << 24), 1);
        assert_eq!(batches_of_group(&Softmax { answers: Answers::All, ..softmax }, 9, 9), usize::MAX);
    }
}
