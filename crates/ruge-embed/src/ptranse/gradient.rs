//! The gradients of a batch: from each sampled triple and each of its paths.
//!
//! Entities move by integer multiples of the rate, since the gradient of an L1 norm is a sign; relations also by the
//! weights of paths. A [`Part`] of a batch collects both for its samples, with fixed parameters.

use ruge_kg::{EntityId, Label};

use super::train::{Corruption, PTransE, Sample};
use crate::cpu::{Kernel, row};
use crate::{Embeddings, Table};

/// The gradients of one part of a batch.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) loss: f64,
    pub(super) relations: Table,
    pub(super) touched: Vec<bool>,
    /// Sampled relation rows, which are kept within the unit ball.
    pub(super) sampled: Vec<bool>,
    /// Entities, and for each of d entries the integer multiple of the rate to subtract.
    pub(super) entities: Vec<u32>,
    pub(super) moves: Vec<i8>,
    /// Per sample, the end of its moves and the entities to keep within the unit ball.
    pub(super) samples: Vec<(usize, [Option<EntityId>; 3])>,
    sum: Vec<f32>,
    difference: Vec<f32>,
    of_relation: Vec<f32>,
    of_corruption: Vec<f32>,
}

impl Part {
    pub(super) fn new(labels: usize, dimension: usize) -> Self {
        let buffer = || vec![0.0; dimension];
        Self {
            loss: 0.0,
            relations: Table::zeros(labels, dimension),
            touched: vec![false; labels],
            sampled: vec![false; labels],
            entities: Vec::new(),
            moves: Vec::new(),
            samples: Vec::new(),
            sum: buffer(),
            difference: buffer(),
            of_relation: buffer(),
            of_corruption: buffer(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.loss = 0.0;
        for (index, touched) in self.touched.iter_mut().enumerate().filter(|x| *x.1) {
            self.relations.row_mut(index).fill(0.0);
            *touched = false;
        }
        self.entities.clear();
        self.moves.clear();
        self.samples.clear();
        self.sampled.fill(false);
    }

    #[inline(always)]
    fn relation(&mut self, row: usize) -> &mut [f32] {
        self.touched[row] = true;
        self.relations.row_mut(row)
    }

    #[inline(always)]
    fn push_entity(&mut self, entity: EntityId, moves: impl Iterator<Item = f32>) {
        self.entities.push(entity.0);
        self.moves.extend(moves.map(|x| x as i8));
    }
}

/// The gradients of the samples at some positions.
pub(super) struct SampleGradients<'a> {
    pub(super) model: &'a PTransE,
    pub(super) part: &'a mut Part,
    pub(super) epoch: u64,
    pub(super) positions: std::ops::Range<usize>,
}

impl Kernel for SampleGradients<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for position in self.positions {
            let sample = self.model.sample(self.epoch, position);
            let (head, label, tail) = self.model.paths.triple(sample.link);
            triple_term(self.model, &sample, self.part);
            path_terms(self.model, &sample, self.part);
            let other = match sample.corruption {
                Some(Corruption::Head(other) | Corruption::Tail(other)) => Some(other),
                _ => None,
            };
            self.part.samples.push((self.part.entities.len(), [Some(head), Some(tail), other]));
            self.part.sampled[self.model.paths.doubled().row(label)] = true;
        }
    }
}

/// [δ + E(h,r,t) − E(corrupted)]₊.
#[inline(always)]
fn triple_term(model: &PTransE, sample: &Sample, part: &mut Part) {
    let Some(corruption) = sample.corruption else { return };
    let Embeddings { entities, relations } = &model.state.embeddings;
    let doubled = model.paths.doubled();
    let (head, label, tail) = model.paths.triple(sample.link);
    let (mut other_head, mut other_label, mut other_tail) = (head, label, tail);
    match corruption {
        Corruption::Head(other) => other_head = other,
        Corruption::Tail(other) => other_tail = other,
        Corruption::Relation(other) => other_label = other,
    }
    let offset = |offsets: &mut [f32], head: EntityId, label: Label, tail: EntityId| {
        let rows = entities.row(head.index()).iter().zip(relations.row(doubled.row(label)));
        for (x, ((&h, &r), &t)) in offsets.iter_mut().zip(rows.zip(entities.row(tail.index()))) {
            *x = t - h - r;
        }
    };
    let (mut true_signs, mut false_signs) = (std::mem::take(&mut part.sum), std::mem::take(&mut part.difference));
    offset(&mut true_signs, head, label, tail);
    offset(&mut false_signs, other_head, other_label, other_tail);
    let loss = model.config.margin + size(&true_signs) - size(&false_signs);
    if loss > 0.0 {
        part.loss += f64::from(loss);
        true_signs.iter_mut().chain(&mut false_signs).for_each(|x| *x = sign(*x));
        let signs = || true_signs.iter().zip(&false_signs);
        // With s the sign of t − h − r, E falls by s along h and r and grows by s along t.
        let both = || signs().map(|(&yes, &no)| no - yes);
        match corruption {
            Corruption::Head(other) => {
                part.push_entity(head, true_signs.iter().map(|yes| -yes));
                part.push_entity(other, false_signs.iter().copied());
                part.push_entity(tail, both().map(|x| -x));
                part.relation(doubled.row(label)).iter_mut().zip(both()).for_each(|(g, x)| *g += x);
            }
            Corruption::Tail(other) => {
                part.push_entity(tail, true_signs.iter().copied());
                part.push_entity(other, false_signs.iter().map(|no| -no));
                part.push_entity(head, both());
                part.relation(doubled.row(label)).iter_mut().zip(both()).for_each(|(g, x)| *g += x);
            }
            Corruption::Relation(other) => {
                part.push_entity(head, both());
                part.push_entity(tail, both().map(|x| -x));
                part.relation(doubled.row(label)).iter_mut().zip(&true_signs).for_each(|(g, yes)| *g -= yes);
                part.relation(doubled.row(other)).iter_mut().zip(&false_signs).for_each(|(g, no)| *g += no);
            }
        }
    }
    (part.sum, part.difference) = (true_signs, false_signs);
}

/// Σ_p R(p|h,t)·(0.99·P(r|p) + 0.01)·[2δ + E(p,r) − E(p,r′)]₊.
#[inline(always)]
fn path_terms(model: &PTransE, sample: &Sample, part: &mut Part) {
    let Some(other) = sample.path_relation else { return };
    let relations = &model.state.embeddings.relations;
    let doubled = model.paths.doubled();
    let (_, label, _) = model.paths.triple(sample.link);
    let (yes_row, no_row) = (doubled.row(label), doubled.row(other));
    let (yes, no) = (relations.row(yes_row), relations.row(no_row));
    let features = model.paths.features(sample.link);
    let known = model.paths.known(sample.link);
    let sequences = model.paths.confidences().sequences();
    let (mut sum, mut difference) = (std::mem::take(&mut part.sum), std::mem::take(&mut part.difference));
    part.of_relation.fill(0.0);
    part.of_corruption.fill(0.0);
    for (at, (&number, &resource)) in features.numbers.iter().zip(features.resources).enumerate() {
        let sequence = sequences[number as usize];
        add_rows(&mut sum, relations, sequence.labels().map(|step| doubled.row(step)));
        let weight = resource * (0.99 * known.get(at).copied().unwrap_or(0.0) + 0.01);
        let loss = 2.0 * model.config.margin + distance(yes, &sum) - distance(no, &sum);
        if loss <= 0.0 {
            continue;
        }
        part.loss += f64::from(weight) * f64::from(loss);
        // One length, known before the loop, removes bounds checks.
        let n = sum.len();
        let (yes, no, sum) = (&yes[..n], &no[..n], &sum[..n]);
        let (of_relation, of_corruption) = (&mut part.of_relation[..n], &mut part.of_corruption[..n]);
        let difference = &mut difference[..n];
        for k in 0..n {
            let up = weight * sign(yes[k] - sum[k]);
            let down = weight * sign(no[k] - sum[k]);
            of_relation[k] += up;
            of_corruption[k] -= down;
            difference[k] = down - up;
        }
        for step in sequence.labels() {
            part.relation(doubled.row(step)).iter_mut().zip(&*difference).for_each(|(g, x)| *g += x);
        }
    }
    (part.sum, part.difference) = (sum, difference);
    for (row, from_relation) in [(yes_row, true), (no_row, false)] {
        part.touched[row] = true;
        let buffer = if from_relation { &part.of_relation } else { &part.of_corruption };
        part.relations.row_mut(row).iter_mut().zip(buffer).for_each(|(g, x)| *g += x);
    }
}

/// Σ_{ρ∈p} ρ.
#[inline(always)]
pub(super) fn add_rows(sum: &mut [f32], relations: &Table, mut rows: impl Iterator<Item = usize>) {
    if let Some(first) = rows.next() {
        sum.copy_from_slice(relations.row(first));
    }
    for row in rows {
        sum.iter_mut().zip(relations.row(row)).for_each(|(x, y)| *x += y);
    }
}

/// The sign of a subgradient; 0 counts as −1, as in the reference.
#[inline(always)]
fn sign(x: f32) -> f32 {
    if x > 0.0 { 1.0 } else { -1.0 }
}

/// ‖a − b‖₁, in the order of summation of [`row`].
#[inline(always)]
pub(super) fn distance(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<16>();
    let (b_chunks, b_rest) = b.as_chunks::<16>();
    let mut lanes: row::Lanes = [0.0; 16];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for i in 0..16 {
            lanes[i] += (a[i] - b[i]).abs();
        }
    }
    for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[i] += (a - b).abs();
    }
    row::fold(lanes)
}

/// ‖a‖₁, in the same order.
#[inline(always)]
fn size(a: &[f32]) -> f32 {
    sum(a, f32::abs)
}

/// Scales a row to norm 1 if it is longer.
pub(super) fn bound(values: &mut [f32]) {
    // Not fused: outside kernels, a fused product may be a library call.
    let norm = sum(values, |x| x * x).sqrt();
    if norm > 1.0 {
        values.iter_mut().for_each(|x| *x /= norm);
    }
}

#[inline(always)]
fn sum(a: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = a.as_chunks::<16>();
    let mut lanes: row::Lanes = [0.0; 16];
    for chunk in chunks {
        for i in 0..16 {
            lanes[i] += f(chunk[i]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(x);
    }
    row::fold(lanes)
}
