//! The first pass of a step: scores, losses and the vectors of each slot, computed from frozen rows.
//!
//! A positive shares its two queries with all its negatives, so each negative costs one comparison and one addition to
//! a sum: with q_t from (h, r), tails t₀ … t_k and their d_scores c, the gradient by (h, r) is the adjoint of the query
//! applied to Σ c ∂score/∂q. The gradient of a negative's own row, c · ∂score/∂t_k, is left to the row's owner in the
//! [second pass](crate::update), which reads q_t from the slot.

use ruge_kg::{Control, Side, Triple};

use crate::batch::{Batch, Examples};
use crate::cpu::{Isa, Kernel, prefetch, row};
use crate::fuzzy::TNorm;
use crate::guidance::Supports;
use crate::incidence::{HEAD_GRADIENT, HEAD_QUERY, PARTS, Segment, TAIL_GRADIENT, TAIL_QUERY};
use crate::objective::Pull;
use crate::scoring::ScoringFunction;
use crate::table::Table;

/// The pull on the unlabeled triples of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aims<'a> {
    /// Cross-entropy towards soft labels computed from these groundings, with the given weight.
    Supports(&'a Supports, TNorm, f32, f32),
    /// Cross-entropy towards given soft labels, with the given weight.
    Labels(&'a [f32], f32),
    /// Given ∂loss/∂η.
    DScores(&'a [f32]),
}

pub(crate) struct Pass<'a, F> {
    pub scoring: &'a F,
    /// Rows as scored.
    pub entities: &'a Table,
    /// Rows as scored.
    pub relations: &'a Table,
    pub batch: &'a Batch,
    pub pull: Pull,
    pub aims: Aims<'a>,
    pub stride: usize,
    pub relation_stride: usize,
    pub isa: Isa,
    /// Cancels the pass; its output is then invalid.
    pub control: Option<&'a Control<'a>>,
}

/// The output of the first pass, for a run of segments.
pub(crate) struct Places<'a> {
    /// PARTS rows per slot.
    pub slots: &'a mut [f32],
    /// A d_score per negative.
    pub d_scores: &'a mut [f32],
    /// A relation gradient per segment.
    pub partials: &'a mut [f32],
    /// A loss per segment: labeled, unlabeled.
    pub losses: &'a mut [[f64; 2]],
}

/// Minimum slots for which splitting the work pays off.
const GRAIN: u32 = 64;

impl<F: ScoringFunction> Pass<'_, F> {
    /// Processes segments in parallel; the output does not depend on how the work is split.
    pub fn run(&self, segments: &[Segment], places: Places<'_>) {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return };
        if self.control.is_some_and(|control| control.is_cancelled()) {
            return;
        }
        if segments.len() == 1 || last.to - first.from <= GRAIN {
            return self.isa.run(RunPass { pass: self, segments, places });
        }
        let middle = segments.len() / 2;
        let (left, right) = segments.split_at(middle);
        let positives = self.batch.examples.positives.len() as u32;
        let slots = (right[0].from - first.from) as usize;
        let labeled = (right[0].from.min(positives) - first.from.min(positives)) as usize;
        let (left_slots, right_slots) = places.slots.split_at_mut(slots * PARTS * self.stride);
        let (left_d, right_d) = places.d_scores.split_at_mut(labeled * self.batch.examples.stride);
        let (left_partials, right_partials) = places.partials.split_at_mut(middle * self.relation_stride);
        let (left_losses, right_losses) = places.losses.split_at_mut(middle);
        rayon::join(
            || {
                let places =
                    Places { slots: left_slots, d_scores: left_d, partials: left_partials, losses: left_losses };
                self.run(left, places);
            },
            || {
                let places =
                    Places { slots: right_slots, d_scores: right_d, partials: right_partials, losses: right_losses };
                self.run(right, places);
            },
        );
    }

    #[inline(always)]
    fn entity(&self, entity: ruge_kg::EntityId) -> &[f32] {
        self.entities.row(entity.index())
    }
}

struct RunPass<'p, 'a, F> {
    pass: &'p Pass<'a, F>,
    segments: &'p [Segment],
    places: Places<'p>,
}

impl<F: ScoringFunction> Kernel for RunPass<'_, '_, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { pass, segments, places } = self;
        let examples = &pass.batch.examples;
        let positives = examples.positives.len();
        let (width, relation_width) = (pass.scoring.entity_width(), pass.scoring.relation_width());
        // Sums over negatives: the only allocation of this pass, once per run of segments.
        let mut sums = vec![0.0f32; 2 * width];
        let (d_tail_query, d_head_query) = sums.split_at_mut(width);
        let mut slots = places.slots.chunks_exact_mut(PARTS * pass.stride);
        let mut d_scores = places.d_scores;
        let partials = places.partials.chunks_exact_mut(pass.relation_stride);
        for ((segment, partial), loss) in segments.iter().zip(partials).zip(places.losses) {
            let d_relation = &mut partial[..relation_width];
            d_relation.fill(0.0);
            *loss = [0.0; 2];
            for slot in segment.from as usize..segment.to as usize {
                let vectors = slots.next().expect("places for every slot of the segments");
                let parts = split(vectors, pass.stride, width);
                if slot < positives {
                    let (own, rest) = d_scores.split_at_mut(examples.stride);
                    d_scores = rest;
                    loss[0] += positive(pass, slot, parts, own, d_tail_query, d_head_query, d_relation);
                } else {
                    loss[1] += unlabeled(pass, slot - positives, parts, d_head_query, d_tail_query, d_relation);
                }
            }
        }
    }
}

#[inline(always)]
fn split(vectors: &mut [f32], stride: usize, width: usize) -> [&mut [f32]; PARTS] {
    let (a, rest) = vectors.split_at_mut(stride);
    let (b, rest) = rest.split_at_mut(stride);
    let (c, d) = rest.split_at_mut(stride);
    [&mut a[..width], &mut b[..width], &mut c[..width], &mut d[..width]]
}

#[inline(always)]
fn positive<F: ScoringFunction>(
    pass: &Pass<'_, F>,
    slot: usize,
    parts: [&mut [f32]; PARTS],
    d_scores: &mut [f32],
    d_tail_query: &mut [f32],
    d_head_query: &mut [f32],
    d_relation: &mut [f32],
) -> f64 {
    const { assert!(TAIL_QUERY == 0 && HEAD_QUERY == 1 && HEAD_GRADIENT == 2 && TAIL_GRADIENT == 3) };
    let [tail_query, head_query, d_head, d_tail] = parts;
    let examples = &pass.batch.examples;
    let Triple { head, relation, tail } = examples.positives[slot];
    let (head, tail) = (pass.entity(head), pass.entity(tail));
    let relation = pass.relations.row(relation.index());
    let (heads, tails) = examples.negatives(slot);
    let scoring = pass.scoring;

    fetch_next(pass, examples, slot);
    scoring.tail_query(head, relation, tail_query);
    let mut d_positive = row::compare(F::COMPARATOR, tail_query, tail);
    let (d_heads, d_tails) = d_scores.split_at_mut(heads.len());
    if !heads.is_empty() {
        scoring.head_query(relation, tail, head_query);
    }
    for (score, &entity) in d_heads.iter_mut().zip(heads) {
        *score = row::compare(F::COMPARATOR, head_query, pass.entity(entity));
    }
    for (score, &entity) in d_tails.iter_mut().zip(tails) {
        *score = row::compare(F::COMPARATOR, tail_query, pass.entity(entity));
    }
    let loss = pass.pull.labeled(&mut d_positive, d_scores, examples.weight(slot));

    let (d_heads, d_tails) = d_scores.split_at(heads.len());
    d_head.fill(0.0);
    d_tail.fill(0.0);
    d_tail_query.fill(0.0);
    let mut pulled = d_positive != 0.0;
    if pulled {
        row::add_d_query(F::COMPARATOR, d_positive, tail_query, tail, d_tail_query);
        row::add_d_candidate(F::COMPARATOR, d_positive, tail_query, tail, d_tail);
    }
    for (&d_score, &entity) in d_tails.iter().zip(tails) {
        // Well-fitted triples have a gradient of exactly 0, so their rows need not be read again.
        if d_score != 0.0 {
            row::add_d_query(F::COMPARATOR, d_score, tail_query, pass.entity(entity), d_tail_query);
            pulled = true;
        }
    }
    if pulled {
        scoring.tail_query_backward(head, relation, d_tail_query, d_head, d_relation);
    }
    if d_heads.iter().any(|&d_score| d_score != 0.0) {
        d_head_query.fill(0.0);
        for (&d_score, &entity) in d_heads.iter().zip(heads) {
            if d_score != 0.0 {
                row::add_d_query(F::COMPARATOR, d_score, head_query, pass.entity(entity), d_head_query);
            }
        }
        scoring.head_query_backward(relation, tail, d_head_query, d_relation, d_tail);
    }
    loss
}

/// Prefetches the rows of the next positive.
#[inline(always)]
fn fetch_next<F: ScoringFunction>(pass: &Pass<'_, F>, examples: &Examples, slot: usize) {
    if let Some(next) = examples.positives.get(slot + 1) {
        let (heads, tails) = examples.negatives(slot + 1);
        prefetch(pass.entity(next.tail));
        for &entity in heads.iter().chain(tails) {
            prefetch(pass.entity(entity));
        }
    }
}

/// An unlabeled triple. No other triple uses its query, which is not kept.
#[inline(always)]
fn unlabeled<F: ScoringFunction>(
    pass: &Pass<'_, F>,
    at: usize,
    parts: [&mut [f32]; PARTS],
    query: &mut [f32],
    d_query: &mut [f32],
    d_relation: &mut [f32],
) -> f64 {
    let [.., d_head, d_tail] = parts;
    if let Some(next) = pass.batch.unlabeled.get(at + 1) {
        prefetch(pass.entity(next.head));
        prefetch(pass.entity(next.tail));
    }
    let Triple { head, relation, tail } = pass.batch.unlabeled[at];
    let (head, tail) = (pass.entity(head), pass.entity(tail));
    let relation = pass.relations.row(relation.index());
    pass.scoring.tail_query(head, relation, query);
    let (d_score, loss) = match pass.aims {
        Aims::Supports(supports, t_norm, slackness, weight) => {
            let score = row::compare(F::COMPARATOR, query, tail);
            let label = t_norm.soft_label(pass.pull.truth(score), supports.of(at), slackness);
            pass.pull.soft(score, label, weight)
        }
        Aims::Labels(labels, weight) => {
            let score = row::compare(F::COMPARATOR, query, tail);
            pass.pull.soft(score, labels[at], weight)
        }
        Aims::DScores(d_scores) => (d_scores[at], 0.0),
    };
    d_head.fill(0.0);
    d_tail.fill(0.0);
    if d_score != 0.0 {
        d_query.fill(0.0);
        row::add_d_query(F::COMPARATOR, d_score, query, tail, d_query);
        row::add_d_candidate(F::COMPARATOR, d_score, query, tail, d_tail);
        pass.scoring.tail_query_backward(head, relation, d_query, d_head, d_relation);
    }
    loss
}

pub(crate) struct Scores<'a, F> {
    pub scoring: &'a F,
    pub entities: &'a Table,
    pub relations: &'a Table,
    pub triples: &'a [Triple],
    /// The end that is asked for; scoring functions with reciprocal relations score the two differently.
    pub side: Side,
    pub scores: &'a mut [f32],
}

impl<F: ScoringFunction> Kernel for Scores<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut query = vec![0.0; self.scoring.entity_width()];
        for (at, (score, x)) in self.scores.iter_mut().zip(self.triples).enumerate() {
            if let Some(next) = self.triples.get(at + 1) {
                prefetch(self.entities.row(next.head.index()));
                prefetch(self.entities.row(next.tail.index()));
            }
            let (head, tail) = (self.entities.row(x.head.index()), self.entities.row(x.tail.index()));
            let relation = self.relations.row(x.relation.index());
            let answer = match self.side {
                Side::Tail => {
                    self.scoring.tail_query(head, relation, &mut query);
                    tail
                }
                Side::Head => {
                    self.scoring.head_query(relation, tail, &mut query);
                    head
                }
            };
            *score = row::compare(F::COMPARATOR, &query, answer);
        }
    }
}
