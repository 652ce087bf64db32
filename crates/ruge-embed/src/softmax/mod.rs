//! Softmax over all entities (1vsAll) with the N3 penalty: a newer trainer than the paper's.
//!
//! Every training triple asks two questions, (h, r, ?) and (?, r, t). The loss of a question is the cross-entropy of
//! its answer against *all* entities, so no negatives are drawn. The penalty is the cubed modulus of the three rows the
//! question touches (Lacroix et al. 2018). A third question, (h, ?, t), is optional (Chen et al. 2021). Rules enter as
//! [`Example`]s, additional weighted questions: an unlabeled conclusion has weight w · s, where s is the noisy-or or
//! the maximum of the confidences of its groundings.
//!
//! This module defines the contents of an epoch as data; [`step`] runs it on the CPU.

mod ask;
mod query;
mod rows;
mod sample;
pub(crate) mod step;
mod targets;

pub use rows::{TouchedRow, list_touched};

use std::borrow::Cow;

use rayon::prelude::*;
use ruge_kg::random::Stream;
use ruge_kg::{Triple, random};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::plan::{Plan, SHUFFLE};
use ruge_kg::Side;

/// Settings of softmax training.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Softmax {
    /// Questions per batch.
    pub batch: usize,
    /// Weight of the N3 penalty.
    pub n3: f32,
    /// Weight of the third question, (h, ?, t), answered among all relations; 0 disables it.
    pub relations: f32,
    /// Candidate entities per batch, drawn again for every batch; 0 for all. The drawn ones are weighted to stand for
    /// the others, so the loss estimates the same softmax.
    #[serde(skip_serializing_if = "is_unset")]
    pub sample: usize,
    /// Weight of a squared penalty on the same rows, in addition to the cubed one.
    #[serde(skip_serializing_if = "is_unset")]
    pub l2: f32,
    /// Dropout probability of the entries of a query in training; the others are scaled up.
    #[serde(skip_serializing_if = "is_unset")]
    pub dropout: f32,
    /// Label smoothing: the share of a question's target spread over all entities.
    #[serde(skip_serializing_if = "is_unset")]
    pub smoothing: f32,
    /// Loss between scores and targets.
    #[serde(skip_serializing_if = "is_unset")]
    pub loss: AnswerLoss,
    /// Whether a question has one of its answers, or all of them at once.
    #[serde(skip_serializing_if = "is_unset")]
    pub answers: Answers,
}

fn is_unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Loss between scores and targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerLoss {
    /// Cross-entropy of the softmax over all entities.
    #[default]
    Softmax,
    /// Binary cross-entropy per entity, summed.
    Bce,
}

/// Which of its answers a question has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// One at a time: the question occurs once per answer in an epoch (1vsAll).
    #[default]
    One,
    /// All answers known in training; the question occurs once per epoch (KvsAll). Softmax divides its target.
    All,
}

impl Default for Softmax {
    fn default() -> Self {
        Self {
            batch: 1000,
            n3: 0.0025,
            relations: 0.0,
            sample: 0,
            l2: 0.0,
            dropout: 0.0,
            smoothing: 0.0,
            loss: AnswerLoss::default(),
            answers: Answers::default(),
        }
    }
}

/// The stream for candidate entities.
pub const CANDIDATES: Stream = Stream(0x116);
/// The stream for dropout.
pub const DROPOUT: Stream = Stream(0x117);

/// Dropout of query entries in a batch: a pure function of (seed, step, question in the batch, entry).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dropout {
    /// Seed of every draw.
    pub seed: u64,
    /// The step, counted from 1.
    pub step: u64,
    /// The probability in units of 2⁻²⁴.
    pub threshold: u32,
    /// Factor on the remaining entries.
    pub scale: f32,
}

impl Dropout {
    /// Applies dropout to a question's query, or to its gradient.
    pub fn apply(&self, question: usize, query: &mut [f32]) {
        let first = (question * query.len()) as u64;
        for (entry, at) in query.iter_mut().zip(first..) {
            let drawn = (random::draw(self.seed, DROPOUT, self.step, at) >> 40) as u32;
            *entry = if drawn < self.threshold { 0.0 } else { *entry * self.scale };
        }
    }
}

impl Softmax {
    /// The dropout of a step; `None` if there is none.
    pub fn dropout(&self, seed: u64, step: u64) -> Option<Dropout> {
        let threshold = (f64::from(self.dropout) * f64::from(1 << 24)) as u32;
        (threshold > 0).then(|| Dropout { seed, step, threshold, scale: 1.0 / (1.0 - self.dropout) })
    }

    /// Whether questions are plain: softmax with one answer.
    pub fn is_plain(&self) -> bool {
        (self.loss, self.answers, self.smoothing) == (AnswerLoss::Softmax, Answers::One, 0.0)
    }

    /// Penalty factors for a row of weight 1 in a batch with this many questions: on |x| x, and on x.
    pub fn penalty(&self, questions: usize) -> [f32; 2] {
        [3.0 * self.n3 / questions as f32, 2.0 * self.l2 / questions as f32]
    }

    /// The sampled entities of a batch, sorted; `None` if all are candidates. `step` counts from 1.
    pub fn candidates(&self, entities: usize, seed: u64, step: u64) -> Option<Vec<u32>> {
        (1..entities).contains(&self.sample).then(|| {
            let mut drawn = random::sample(entities, self.sample, seed, CANDIDATES, step);
            drawn.sort_unstable();
            drawn
        })
    }
}

/// An unobserved triple and its weight relative to an observed one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Example {
    /// The triple.
    pub triple: Triple,
    /// Its weight.
    pub weight: f32,
}

/// A question with its answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Question {
    /// The triple, including its answer.
    pub triple: Triple,
    /// The hidden end.
    pub side: Side,
    /// Its weight; 1 for observed triples.
    pub weight: f32,
    /// The range of its answers in [`Questions::answers`]; empty if its triple holds the only one.
    pub answers: [u32; 2],
}

/// An answer and the target of its score; all other targets are 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// The entity.
    pub entity: u32,
    /// 1, or a share of it.
    pub target: f32,
}

impl Question {
    /// Its answers among those of the epoch.
    pub fn among<'a>(&self, answers: &'a [Answer]) -> &'a [Answer] {
        &answers[self.answers[0] as usize..self.answers[1] as usize]
    }

    /// The known end.
    pub fn given(&self) -> u32 {
        match self.side {
            Side::Tail => self.triple.head.0,
            Side::Head => self.triple.tail.0,
        }
    }

    /// The hidden end.
    pub fn answer(&self) -> u32 {
        match self.side {
            Side::Tail => self.triple.tail.0,
            Side::Head => self.triple.head.0,
        }
    }
}

/// All questions of an epoch in order; batches are consecutive.
///
/// Of questions with one answer only the order is kept, four bytes each instead of 28: a batch is made from the plan's triples
/// when it is needed.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    all: All,
    answers: Vec<Answer>,
    batch: usize,
}

#[derive(Clone, Debug)]
enum All {
    /// Places among the plan's questions: two for each triple, then two for each example.
    Order(Vec<u32>),
    /// The questions themselves, since those with all their answers are in no list of the plan.
    Made(Vec<Question>),
}

impl Default for All {
    fn default() -> Self {
        Self::Order(Vec::new())
    }
}

impl Questions {
    /// Shuffles; every draw is a pure function of (seed, epoch, position).
    pub fn new(plan: &Plan<'_>, softmax: &Softmax, epoch: u64) -> Self {
        if softmax.answers == Answers::All {
            return Self::with_all_answers(plan, softmax, epoch);
        }
        let count = 2 * (plan.triples.len() + plan.examples.len());
        let order = random::permutation(count, plan.seed, SHUFFLE, epoch);
        Self { all: All::Order(order), answers: Vec::new(), batch: softmax.batch.max(1) }
    }

    /// Every question once. A question from weighted triples only has the sum of their weights, at most 1.
    fn with_all_answers(plan: &Plan<'_>, softmax: &Softmax, epoch: u64) -> Self {
        let observed = plan.triples.iter().map(|&triple| (triple, 1.0));
        let weighted = observed.chain(plan.examples.iter().map(|example| (example.triple, example.weight)));
        let mut asked: Vec<Question> = weighted
            .flat_map(|(triple, weight)| {
                [Side::Tail, Side::Head].map(|side| Question { triple, side, weight, answers: [0; 2] })
            })
            .collect();
        let key = |x: &Question| (x.side == Side::Head, x.triple.relation, x.given());
        // Of equal answers the heavier is first and is kept.
        let order = |x: &Question, y: &Question| {
            (key(x), x.answer()).cmp(&(key(y), y.answer())).then(y.weight.total_cmp(&x.weight))
        };
        asked.par_sort_unstable_by(order);
        asked.dedup_by_key(|x| (key(x), x.answer()));
        let groups: Vec<&[Question]> = asked.chunk_by(|x, y| key(x) == key(y)).collect();
        let (mut all, mut answers) = (Vec::with_capacity(groups.len()), Vec::with_capacity(asked.len()));
        for place in random::permutation(groups.len(), plan.seed, SHUFFLE, epoch) {
            let group = groups[place as usize];
            let sum: f32 = group.iter().map(|x| x.weight).sum();
            let weight = sum.min(1.0);
            let from = answers.len() as u32;
            answers.extend(group.iter().map(|x| Answer {
                entity: x.answer(),
                target: match softmax.loss {
                    AnswerLoss::Softmax => x.weight / sum,
                    AnswerLoss::Bce => (x.weight / weight).min(1.0),
                },
            }));
            all.push(Question { weight, answers: [from, answers.len() as u32], ..group[0] });
        }
        Self { all: All::Made(all), answers, batch: softmax.batch.max(1) }
    }

    /// Answers of the questions with all their answers.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The targets of a batch: the start of each question's answers and the end of the last, and the answers.
    pub fn targets(questions: &[Question], answers: &[Answer]) -> (Vec<u32>, Vec<Answer>) {
        let (mut ends, mut own) = (vec![0], Vec::with_capacity(questions.len()));
        for question in questions {
            match question.among(answers) {
                [] => own.push(Answer { entity: question.answer(), target: 1.0 }),
                several => own.extend_from_slice(several),
            }
            ends.push(own.len() as u32);
        }
        (ends, own)
    }

    /// Number of questions.
    pub fn len(&self) -> usize {
        match &self.all {
            All::Order(order) => order.len(),
            All::Made(all) => all.len(),
        }
    }

    /// Whether there are no questions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of batches.
    pub fn batch_count(&self) -> usize {
        self.len().div_ceil(self.batch.max(1))
    }

    /// The questions of a batch; `plan` is the one that the order was made for. Panics if there is no such batch.
    pub fn batch(&self, plan: &Plan<'_>, index: usize) -> Cow<'_, [Question]> {
        let from = index * self.batch;
        let range = from..from.saturating_add(self.batch).min(self.len());
        match &self.all {
            All::Order(order) => order[range].iter().map(|&place| question_at(plan, place)).collect(),
            All::Made(all) => Cow::Borrowed(&all[range]),
        }
    }

    /// The batches, in order; `plan` is the one that the order was made for.
    pub fn batches<'q>(&'q self, plan: &'q Plan<'_>) -> impl ExactSizeIterator<Item = Cow<'q, [Question]>> {
        (0..self.batch_count()).map(|index| self.batch(plan, index))
    }
}

/// The question at a place of a plan: for the tail of the first triple, for its head, for the tail of the second, …; those of
/// the examples are last.
fn question_at(plan: &Plan<'_>, place: u32) -> Question {
    let (index, side) = (place as usize / 2, if place.is_multiple_of(2) { Side::Tail } else { Side::Head });
    match index.checked_sub(plan.triples.len()) {
        None => Question { triple: plan.triples[index], side, weight: 1.0, answers: [0; 2] },
        Some(at) => {
            let Example { triple, weight } = plan.examples[at];
            Question { triple, side, weight, answers: [0; 2] }
        }
    }
}

/// How the groundings of a conclusion become its static soft label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StaticLabel {
    /// 1 − Π (1 − λ): groundings as independent causes.
    #[default]
    NoisyOr,
    /// The largest λ: rules that say the same count once.
    Max,
}

/// Static soft labels of the distinct conclusions, in order of first appearance.
pub fn static_labels(evidence: &Evidence, label: StaticLabel) -> Vec<Example> {
    let mut places: FxHashMap<Triple, usize> = FxHashMap::default();
    let mut doubts: Vec<(Triple, f64)> = Vec::new();
    for (grounding, &conclusion) in evidence.conclusions().iter().enumerate() {
        let place = *places.entry(conclusion).or_insert_with(|| {
            doubts.push((conclusion, 1.0));
            doubts.len() - 1
        });
        let (doubt, before) = (1.0 - f64::from(evidence.confidence(grounding)), doubts[place].1);
        doubts[place].1 = match label {
            StaticLabel::NoisyOr => before * doubt,
            StaticLabel::Max => before.min(doubt),
        };
    }
    doubts.into_iter().map(|(triple, doubt)| Example { triple, weight: (1.0 - doubt) as f32 }).collect()
}

/// The transpose of a batch: questions by known entity and by relation, and the penalty weight of each row.
#[derive(Clone, Debug, Default)]
pub struct Touches {
    /// (entity, slot), sorted: a question's slot for its known end and, after those of all questions, the one for its
    /// answer, if relations are asked for.
    pub ends: Vec<(u32, u32)>,
    /// (relation, question), sorted.
    pub relations: Vec<(u32, u32)>,
    /// (entity, penalty weight), sorted by entity.
    pub entity_weights: Vec<(u32, f32)>,
    /// (entity, question it answers), sorted; filled if candidates are sampled.
    pub answers: Vec<(u32, u32)>,
}

/// The order of pairs as one number, which is faster to compare.
fn in_order(&(row, touch): &(u32, u32)) -> u64 {
    u64::from(row) << 32 | u64::from(touch)
}

impl Touches {
    /// Builds the transpose of a batch.
    pub fn build(&mut self, questions: &[Question], answers: &[Answer], asks_relations: bool, sampled: bool) {
        self.ends.clear();
        self.ends.extend(questions.iter().zip(0..).map(|(question, at)| (question.given(), at)));
        if asks_relations {
            let behind = questions.len() as u32;
            self.ends.extend(questions.iter().zip(behind..).map(|(question, at)| (question.answer(), at)));
        }
        self.ends.sort_unstable_by_key(in_order);
        self.answers.clear();
        if sampled {
            self.answers.extend(questions.iter().zip(0..).map(|(question, at)| (question.answer(), at)));
            self.answers.sort_unstable_by_key(in_order);
        }
        self.relations.clear();
        self.relations.extend(questions.iter().zip(0..).map(|(question, at)| (question.triple.relation.0, at)));
        self.relations.sort_unstable_by_key(in_order);
        let mut ends: Vec<(u32, u32, f32)> = Vec::with_capacity(2 * questions.len());
        for (question, at) in questions.iter().zip(0..) {
            ends.push((question.given(), at, question.weight));
            match question.among(answers) {
                [] => ends.push((question.answer(), at, question.weight)),
                // Together they have the weight of one.
                several => {
                    let sum: f32 = several.iter().map(|x| x.target).sum();
                    ends.extend(several.iter().map(|x| (x.entity, at, question.weight * x.target / sum)));
                }
            }
        }
        ends.sort_unstable_by_key(|end| in_order(&(end.0, end.1)));
        self.entity_weights.clear();
        for run in ends.chunk_by(|x, y| x.0 == y.0) {
            self.entity_weights.push((run[0].0, run.iter().map(|end| end.2).sum()));
        }
    }
}
