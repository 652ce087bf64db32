//! Softmax over all entities (1vsAll), with the N3 penalty: the trainer that came after the paper.
//!
//! Every training triple asks two questions, (h, r, ?) and (?, r, t). The loss of a question is the cross-entropy of its
//! answer against *all* entities, so there are no negatives to draw; the penalty is the cubed modulus of the three rows
//! the question touches (Lacroix et al. 2018). A third question, (h, ?, t), may be asked beside the two (Chen et al. 2021).
//! Rules enter as [`Example`]s, further questions with weights of their own: an unlabeled conclusion weighs w · s, where s
//! is the noisy-or or the largest of the confidences of its groundings.
//!
//! What an epoch consists of is here, as data; [`step`] does it on the processor.

mod ask;
mod query;
mod rows;
mod sample;
pub(crate) mod step;
mod targets;

pub use rows::{TouchedRow, list_touched};

use rayon::prelude::*;
use ruge_kg::random::Stream;
use ruge_kg::{Triple, random};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::plan::{Plan, SHUFFLE};
use ruge_kg::Side;

/// What is minimised.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Softmax {
    /// Questions of a batch.
    pub batch: usize,
    /// Weight of the N3 penalty.
    pub n3: f32,
    /// Weight of a third question, (h, ?, t), answered among all relations; 0 leaves it out.
    pub relations: f32,
    /// Entities that a batch's questions are answered among, drawn anew for every batch; 0 for all. The others are made
    /// up for by the weight of those drawn, so the loss estimates the same softmax.
    #[serde(skip_serializing_if = "is_unset")]
    pub sample: usize,
    /// Weight of a squared penalty beside the cubed one, on the same rows.
    #[serde(skip_serializing_if = "is_unset")]
    pub l2: f32,
    /// The chance that an entry of a query is left out in training; the others are scaled up for it.
    #[serde(skip_serializing_if = "is_unset")]
    pub dropout: f32,
    /// The share of a question's target that goes to all entities alike.
    #[serde(skip_serializing_if = "is_unset")]
    pub smoothing: f32,
    /// What scores are held against their targets by.
    #[serde(skip_serializing_if = "is_unset")]
    pub loss: AnswerLoss,
    /// Whether a question comes with one of its answers, or once with all of them.
    #[serde(skip_serializing_if = "is_unset")]
    pub answers: Answers,
}

fn is_unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What scores are held against their targets by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerLoss {
    /// Cross-entropy of the softmax over all entities.
    #[default]
    Softmax,
    /// Binary cross-entropy of every entity, summed.
    Bce,
}

/// With which of its answers a question comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// One at a time: as often in an epoch as it has answers (1vsAll).
    #[default]
    One,
    /// Once an epoch, with all that training knows (KvsAll). Softmax divides its target among them.
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

/// Which entities a batch's questions are answered among.
pub const CANDIDATES: Stream = Stream(0x116);
/// Which entries of a query are left out.
pub const DROPOUT: Stream = Stream(0x117);

/// Entries left out of the queries of a batch: a pure function of (seed, step, question in the batch, entry).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dropout {
    /// Seed of every draw.
    pub seed: u64,
    /// The step, counted from 1.
    pub step: u64,
    /// The chance in 2²⁴ths.
    pub threshold: u32,
    /// What the others are multiplied by.
    pub scale: f32,
}

impl Dropout {
    /// Leaves entries out of a question's query, or of the gradient by it.
    pub fn apply(&self, question: usize, query: &mut [f32]) {
        let first = (question * query.len()) as u64;
        for (entry, at) in query.iter_mut().zip(first..) {
            let drawn = (random::draw(self.seed, DROPOUT, self.step, at) >> 40) as u32;
            *entry = if drawn < self.threshold { 0.0 } else { *entry * self.scale };
        }
    }
}

impl Softmax {
    /// Which entries a step leaves out; nothing where it leaves out none.
    pub fn dropout(&self, seed: u64, step: u64) -> Option<Dropout> {
        let threshold = (f64::from(self.dropout) * f64::from(1 << 24)) as u32;
        (threshold > 0).then(|| Dropout { seed, step, threshold, scale: 1.0 / (1.0 - self.dropout) })
    }

    /// Whether a question is the plain one: the softmax of its one answer.
    pub fn is_plain(&self) -> bool {
        (self.loss, self.answers, self.smoothing) == (AnswerLoss::Softmax, Answers::One, 0.0)
    }

    /// What pulls on a row of weight 1 in a batch of so many questions: times |x| x, and times x.
    pub fn penalty(&self, questions: usize) -> [f32; 2] {
        [3.0 * self.n3 / questions as f32, 2.0 * self.l2 / questions as f32]
    }

    /// The entities of a batch's sample, sorted; nothing where all of them are candidates. `step` counts from 1.
    pub fn candidates(&self, entities: usize, seed: u64, step: u64) -> Option<Vec<u32>> {
        (1..entities).contains(&self.sample).then(|| {
            let mut drawn = random::sample(entities, self.sample, seed, CANDIDATES, step);
            drawn.sort_unstable();
            drawn
        })
    }
}

/// A triple that nobody has observed, and what it weighs beside one that somebody has.
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
    /// The triple, its answer included.
    pub triple: Triple,
    /// The end asked for.
    pub side: Side,
    /// What it weighs; 1 for observed triples.
    pub weight: f32,
    /// Where its answers stand in [`Questions::answers`]; nowhere if its triple holds the only one.
    pub answers: [u32; 2],
}

/// An answer and what its score should become, the targets of all others being 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// The entity.
    pub entity: u32,
    /// 1, or a share of it.
    pub target: f32,
}

impl Question {
    /// Its answers among those of its epoch.
    pub fn among<'a>(&self, answers: &'a [Answer]) -> &'a [Answer] {
        &answers[self.answers[0] as usize..self.answers[1] as usize]
    }

    /// The end that is given.
    pub fn given(&self) -> u32 {
        match self.side {
            Side::Tail => self.triple.head.0,
            Side::Head => self.triple.tail.0,
        }
    }

    /// The end that is asked for.
    pub fn answer(&self) -> u32 {
        match self.side {
            Side::Tail => self.triple.tail.0,
            Side::Head => self.triple.head.0,
        }
    }
}

/// All questions of an epoch in their order; batches are consecutive.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    all: Vec<Question>,
    answers: Vec<Answer>,
    batch: usize,
}

impl Questions {
    /// Shuffles; every draw is a pure function of (seed, epoch, position).
    pub fn new(plan: &Plan<'_>, softmax: &Softmax, epoch: u64) -> Self {
        if softmax.answers == Answers::All {
            return Self::with_all_answers(plan, softmax, epoch);
        }
        let n = plan.triples.len();
        let question = |place: u32| {
            let (index, side) = (place as usize / 2, if place.is_multiple_of(2) { Side::Tail } else { Side::Head });
            match index.checked_sub(n) {
                None => Question { triple: plan.triples[index], side, weight: 1.0, answers: [0; 2] },
                Some(at) => {
                    let Example { triple, weight } = plan.examples[at];
                    Question { triple, side, weight, answers: [0; 2] }
                }
            }
        };
        let order = random::permutation(2 * (n + plan.examples.len()), plan.seed, SHUFFLE, epoch);
        Self { all: order.into_iter().map(question).collect(), answers: Vec::new(), batch: softmax.batch.max(1) }
    }

    /// Every question once. One that only weighted triples ask weighs as much as they do together, up to 1.
    fn with_all_answers(plan: &Plan<'_>, softmax: &Softmax, epoch: u64) -> Self {
        let observed = plan.triples.iter().map(|&triple| (triple, 1.0));
        let weighted = observed.chain(plan.examples.iter().map(|example| (example.triple, example.weight)));
        let mut asked: Vec<Question> = weighted
            .flat_map(|(triple, weight)| {
                [Side::Tail, Side::Head].map(|side| Question { triple, side, weight, answers: [0; 2] })
            })
            .collect();
        let key = |x: &Question| (x.side == Side::Head, x.triple.relation, x.given());
        // Of equal answers the heavier comes first and stays.
        let order = |x: &Question, y: &Question| {
            (key(x), x.answer()).cmp(&(key(y), y.answer())).then(y.weight.total_cmp(&x.weight))
        };
        asked.par_sort_unstable_by(order);
        asked.dedup_by_key(|x| (key(x), x.answer()));
        let groups: Vec<&[Question]> = asked.chunk_by(|x, y| key(x) == key(y)).collect();
        let mut found = Self { all: Vec::new(), answers: Vec::with_capacity(asked.len()), batch: softmax.batch.max(1) };
        for place in random::permutation(groups.len(), plan.seed, SHUFFLE, epoch) {
            let group = groups[place as usize];
            let sum: f32 = group.iter().map(|x| x.weight).sum();
            let weight = sum.min(1.0);
            let from = found.answers.len() as u32;
            found.answers.extend(group.iter().map(|x| Answer {
                entity: x.answer(),
                target: match softmax.loss {
                    AnswerLoss::Softmax => x.weight / sum,
                    AnswerLoss::Bce => (x.weight / weight).min(1.0),
                },
            }));
            found.all.push(Question { weight, answers: [from, found.answers.len() as u32], ..group[0] });
        }
        found
    }

    /// Answers of those questions that come with all of theirs.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The targets of a batch: where each question's answers begin and the last one's end, and the answers.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The batches, one after the other.
    pub fn batches(&self) -> impl ExactSizeIterator<Item = &[Question]> {
        self.all.chunks(self.batch)
    }
}

/// How the groundings of a conclusion become its static soft label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StaticLabel {
    /// 1 − Π (1 − λ): groundings as independent causes.
    #[default]
    NoisyOr,
    /// The largest λ: rules that say the same thing in other words count once.
    Max,
}

/// Static soft labels of the distinct conclusions, in the order of first appearance.
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

/// Who touches which row in a batch: questions by given entity and by relation, and what each row weighs in the penalty.
#[derive(Clone, Debug, Default)]
pub struct Touches {
    /// (entity, slot), sorted: a question's slot for its given end, and behind those of all questions the one for its answer,
    /// where relations are asked for.
    pub ends: Vec<(u32, u32)>,
    /// (relation, question), sorted.
    pub relations: Vec<(u32, u32)>,
    /// (entity, weight of its penalty), sorted by entity.
    pub entity_weights: Vec<(u32, f32)>,
    /// (entity, question it answers), sorted; filled where candidates are sampled.
    pub answers: Vec<(u32, u32)>,
}

/// The order of pairs as one number, which is faster to compare.
fn in_order(&(row, touch): &(u32, u32)) -> u64 {
    u64::from(row) << 32 | u64::from(touch)
}

impl Touches {
    /// Sorts out a batch.
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
                // Together they weigh as much as one.
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
