//! TransE (Bordes et al. 2013): η = −‖h + r − t‖, with the L1 or the L2 norm.
//!
//! A projection before each batch keeps entity rows at norm 1; it belongs to the training plan, not to η.

use super::{Comparator, ScoringFunction};

/// TransE with rows of `dimension` floats and the norm of order `ORDER`, 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransE<const ORDER: u8> {
    dimension: usize,
}

/// TransE with the L1 norm.
pub type TransEL1 = TransE<1>;
/// TransE with the L2 norm.
pub type TransEL2 = TransE<2>;

impl<const ORDER: u8> TransE<ORDER> {
    /// The model over ℝᵈ.
    pub fn new(dimension: usize) -> Self {
        Self { dimension }
    }
}

/// out += c · x for c = ±1.
#[inline(always)]
fn add(c: f32, x: &[f32], out: &mut [f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out += c * x;
    }
}

impl<const ORDER: u8> ScoringFunction for TransE<ORDER> {
    const NAME: &'static str = match ORDER {
        1 => "transe-l1",
        2 => "transe-l2",
        _ => panic!("TransE knows the norms 1 and 2"),
    };
    const COMPARATOR: Comparator = if ORDER == 1 { Comparator::NegL1 } else { Comparator::NegL2 };

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
            *q = h + r;
        }
    }
    #[inline(always)]
    fn head_query(&self, relation: &[f32], tail: &[f32], query: &mut [f32]) {
        for ((q, &r), &t) in query.iter_mut().zip(relation).zip(tail) {
            *q = t - r;
        }
    }
    #[inline(always)]
    fn tail_query_backward(
        &self,
        _head: &[f32],
        _relation: &[f32],
        d_query: &[f32],
        d_head: &mut [f32],
        d_relation: &mut [f32],
    ) {
        add(1.0, d_query, d_head);
        add(1.0, d_query, d_relation);
    }
    #[inline(always)]
    fn head_query_backward(
        &self,
        _relation: &[f32],
        _tail: &[f32],
        d_query: &[f32],
        d_relation: &mut [f32],
        d_tail: &mut [f32],
    ) {
        add(-1.0, d_query, d_relation);
        add(1.0, d_query, d_tail);
    }
}
