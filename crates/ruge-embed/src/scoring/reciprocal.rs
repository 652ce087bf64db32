//! Reciprocal relations (Lacroix et al. 2018): (?, r, t) is asked as (t, r⁻¹, ?), with a separate row for r⁻¹.
//!
//! A relation row holds the row of r followed by that of r⁻¹. The score of a triple is that of its tail query.

use super::{Comparator, ScoringFunction, Transform};

/// Another scoring function with reciprocal relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reciprocal<F>(pub F);

impl<F: ScoringFunction> Reciprocal<F> {
    #[inline(always)]
    fn halves<'r>(&self, relation: &'r [f32]) -> (&'r [f32], &'r [f32]) {
        let width = self.0.relation_width();
        (&relation[..width], &relation[width..2 * width])
    }
}

impl<F: ScoringFunction> ScoringFunction for Reciprocal<F> {
    const NAME: &'static str = F::NAME;
    const COMPARATOR: Comparator = F::COMPARATOR;

    fn dimension(&self) -> usize {
        self.0.dimension()
    }
    #[inline(always)]
    fn entity_width(&self) -> usize {
        self.0.entity_width()
    }
    #[inline(always)]
    fn relation_width(&self) -> usize {
        2 * self.0.relation_width()
    }
    fn entity_parts(&self) -> usize {
        self.0.entity_parts()
    }
    fn relation_parts(&self) -> usize {
        2 * self.0.relation_parts()
    }
    fn relation_sides(&self) -> usize {
        2
    }
    fn transform(&self) -> Option<&dyn Transform> {
        assert!(self.0.transform().is_none(), "models that score in another basis have no reciprocal relations");
        None
    }

    #[inline(always)]
    fn tail_query(&self, head: &[f32], relation: &[f32], query: &mut [f32]) {
        self.0.tail_query(head, self.halves(relation).0, query);
    }
    #[inline(always)]
    fn head_query(&self, relation: &[f32], tail: &[f32], query: &mut [f32]) {
        self.0.tail_query(tail, self.halves(relation).1, query);
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
        let width = self.0.relation_width();
        self.0.tail_query_backward(head, self.halves(relation).0, d_query, d_head, &mut d_relation[..width]);
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
        let width = self.0.relation_width();
        let d_inverse = &mut d_relation[width..2 * width];
        self.0.tail_query_backward(tail, self.halves(relation).1, d_query, d_tail, d_inverse);
    }

    const ASKS_RELATIONS: bool = F::ASKS_RELATIONS;
    #[inline(always)]
    fn relation_query(&self, head: &[f32], tail: &[f32], query: &mut [f32]) {
        self.0.relation_query(head, tail, query);
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
        self.0.relation_query_backward(head, tail, d_query, d_head, d_tail);
    }
}
