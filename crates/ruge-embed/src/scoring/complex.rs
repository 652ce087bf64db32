//! ComplEx (Trouillon et al. 2016): η = Re⟨h, r, conj(t)⟩ over ℂᵈ, the model of the paper, Eq. (1).
//!
//! Rows hold d real parts, then d imaginary parts. With h = a + ib, r = u + iv, t = w + iz the score is
//! Σ (a u w + b u z + a v z − b v w); the queries are q_t = h ∘ r and q_h = conj(r) ∘ t.

use super::{Comparator, ScoringFunction};

/// ComplEx with `dimension` complex entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComplEx {
    dimension: usize,
}

impl ComplEx {
    /// The model over ℂᵈ.
    pub fn new(dimension: usize) -> Self {
        Self { dimension }
    }
}

/// out = x ∘ y, or x ∘ conj(y); each row real parts first.
#[inline(always)]
pub(super) fn product<const CONJUGATE: bool>(d: usize, x: &[f32], y: &[f32], out: &mut [f32]) {
    let (x_re, x_im) = x[..2 * d].split_at(d);
    let (y_re, y_im) = y[..2 * d].split_at(d);
    let (out_re, out_im) = out[..2 * d].split_at_mut(d);
    for i in 0..d {
        let y_im = if CONJUGATE { -y_im[i] } else { y_im[i] };
        out_re[i] = x_re[i].mul_add(y_re[i], -(x_im[i] * y_im));
        out_im[i] = x_re[i].mul_add(y_im, x_im[i] * y_re[i]);
    }
}

/// out += x ∘ conj(y), or out += x ∘ y.
#[inline(always)]
pub(super) fn add_product<const CONJUGATE: bool>(d: usize, x: &[f32], y: &[f32], out: &mut [f32]) {
    let (x_re, x_im) = x[..2 * d].split_at(d);
    let (y_re, y_im) = y[..2 * d].split_at(d);
    let (out_re, out_im) = out[..2 * d].split_at_mut(d);
    for i in 0..d {
        let y_im = if CONJUGATE { -y_im[i] } else { y_im[i] };
        out_re[i] = x_re[i].mul_add(y_re[i], (-x_im[i]).mul_add(y_im, out_re[i]));
        out_im[i] = x_re[i].mul_add(y_im, x_im[i].mul_add(y_re[i], out_im[i]));
    }
}

impl ScoringFunction for ComplEx {
    const NAME: &'static str = "complex";
    const COMPARATOR: Comparator = Comparator::Dot;

    fn dimension(&self) -> usize {
        self.dimension
    }
    #[inline(always)]
    fn entity_width(&self) -> usize {
        2 * self.dimension
    }
    #[inline(always)]
    fn relation_width(&self) -> usize {
        2 * self.dimension
    }
    fn entity_parts(&self) -> usize {
        2
    }
    fn relation_parts(&self) -> usize {
        2
    }

    #[inline(always)]
    fn tail_query(&self, head: &[f32], relation: &[f32], query: &mut [f32]) {
        product::<false>(self.dimension, head, relation, query);
    }
    #[inline(always)]
    fn head_query(&self, relation: &[f32], tail: &[f32], query: &mut [f32]) {
        product::<true>(self.dimension, tail, relation, query);
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
        add_product::<true>(self.dimension, d_query, relation, d_head);
        add_product::<true>(self.dimension, d_query, head, d_relation);
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
        // q = t ∘ conj(r) is linear in conj(r), so the gradient by r is the conjugate of dq ∘ conj(t): t ∘ conj(dq).
        add_product::<false>(self.dimension, d_query, relation, d_tail);
        add_product::<true>(self.dimension, tail, d_query, d_relation);
    }

    const ASKS_RELATIONS: bool = true;
    #[inline(always)]
    fn relation_query(&self, head: &[f32], tail: &[f32], query: &mut [f32]) {
        // r enters t ∘ conj(h) as h enters t ∘ conj(r).
        self.head_query(head, tail, query);
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
        self.head_query_backward(head, tail, d_query, d_head, d_tail);
    }
}
