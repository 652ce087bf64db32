//! DistMult (Yang et al. 2015): η = Σ h r t over ℝᵈ, symmetric in head and tail.

use super::{Comparator, ScoringFunction};

/// DistMult with rows of `dimension` floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistMult {
    dimension: usize,
}

impl DistMult {
    /// The model over ℝᵈ.
    pub fn new(dimension: usize) -> Self {
        Self { dimension }
    }
}

/// out += x ∘ y.
#[inline(always)]
fn add_product(x: &[f32], y: &[f32], out: &mut [f32]) {
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *out = x.mul_add(y, *out);
    }
}

impl ScoringFunction for DistMult {
    const NAME: &'static str = "distmult";
    const COMPARATOR: Comparator = Comparator::Dot;

    fn dimension(&self) -> usize {
        self.dimension
    }
    #[inline(always)]
    fn entity_width(&self) -> usize {
        self.dimension
    }
    #[inline(always)]
    fn relation_width(&self) -> usize {
        self.dimension
    }

    #[inline(always)]
    fn tail_query(&self, head: &[f32], relation: &[f32], query: &mut [f32]) {
        for ((q, &h), &r) in query.iter_mut().zip(head).zip(relation) {
            *q = h * r;
        }
    }
    #[inline(always)]
    fn head_query(&self, relation: &[f32], tail: &[f32], query: &mut [f32]) {
        self.tail_query(tail, relation, query);
    }
    #[inline(always)]
    fn tail_query_backward(
        &self,
        head: &[f32],
        relation: &[f32],
        d_query: &[f32],
        d_head: &mut [f32],
        d_relation: &mut [f32],
    ) {
        add_product(d_query, relation, d_head);
        add_product(d_query, head, d_relation);
    }
    #[inline(always)]
    fn head_query_backward(
        &self,
        relation: &[f32],
        tail: &[f32],
        d_query: &[f32],
        d_relation: &mut [f32],
        d_tail: &mut [f32],
    ) {
        self.tail_query_backward(tail, relation, d_query, d_tail, d_relation);
    }

    const ASKS_RELATIONS: bool = true;
    #[inline(always)]
    fn relation_query(&self, head: &[f32], tail: &[f32], query: &mut [f32]) {
        self.tail_query(head, tail, query);
    }
    #[inline(always)]
    fn relation_query_backward(
        &self,
        head: &[f32],
        tail: &[f32],
        d_query: &[f32],
        d_head: &mut [f32],
        d_tail: &mut [f32],
    ) {
        self.tail_query_backward(head, tail, d_query, d_head, d_tail);
    }
}
