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
mod rows;
pub(crate) mod step;

use ruge_kg::random::Stream;
use ruge_kg::{Triple, random};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::plan::{Plan, SHUFFLE};
use crate::rank::Side;

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
    #[serde(skip_serializing_if = "is_zero")]
    pub sample: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Default for Softmax {
    fn default() -> Self {
        Self { batch: 1000, n3: 0.0025, relations: 0.0, sample: 0 }
    }
}

/// Which entities a batch's questions are answered among.
pub const CANDIDATES: Stream = Stream(0x116);

impl Softmax {
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
}

impl Question {
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
    batch: usize,
}

impl Questions {
    /// Shuffles; every draw is a pure function of (seed, epoch, position).
    pub fn new(plan: &Plan<'_>, softmax: &Softmax, epoch: u64) -> Self {
        let n = plan.triples.len();
        let question = |place: u32| {
            let (index, side) = (place as usize / 2, if place.is_multiple_of(2) { Side::Tail } else { Side::Head });
            match index.checked_sub(n) {
                None => Question { triple: plan.triples[index], side, weight: 1.0 },
                Some(at) => Question { triple: plan.examples[at].triple, side, weight: plan.examples[at].weight },
            }
        };
        let order = random::permutation(2 * (n + plan.examples.len()), plan.seed, SHUFFLE, epoch);
        Self { all: order.into_iter().map(question).collect(), batch: softmax.batch.max(1) }
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

impl Touches {
    /// Sorts out a batch.
    pub fn build(&mut self, questions: &[Question], asks_relations: bool, sampled: bool) {
        self.ends.clear();
        self.ends.extend(questions.iter().zip(0..).map(|(question, at)| (question.given(), at)));
        if asks_relations {
            let behind = questions.len() as u32;
            self.ends.extend(questions.iter().zip(behind..).map(|(question, at)| (question.answer(), at)));
        }
        self.ends.sort_unstable();
        self.answers.clear();
        if sampled {
            self.answers.extend(questions.iter().zip(0..).map(|(question, at)| (question.answer(), at)));
            self.answers.sort_unstable();
        }
        self.relations.clear();
        self.relations.extend(questions.iter().zip(0..).map(|(question, at)| (question.triple.relation.0, at)));
        self.relations.sort_unstable();
        let mut ends: Vec<(u32, u32)> = Vec::with_capacity(2 * questions.len());
        for (question, at) in questions.iter().zip(0..) {
            ends.extend([(question.triple.head.0, at), (question.triple.tail.0, at)]);
        }
        ends.sort_unstable();
        self.entity_weights.clear();
        for run in ends.chunk_by(|x, y| x.0 == y.0) {
            let weight = run.iter().map(|&(_, at)| questions[at as usize].weight).sum();
            self.entity_weights.push((run[0].0, weight));
        }
    }
}
