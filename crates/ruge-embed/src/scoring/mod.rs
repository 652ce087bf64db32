//! η: how a model scores a triple.
//!
//! A scoring function is a *relation operator* and a *comparator*: the operator turns head and relation into a query
//! vector, and the comparator scores it against the tail (or relation and tail into a query for the head). This makes
//! training and ranking fast for all models: a positive and its negatives share their queries, and ranking all entities
//! is one query against a table.
//!
//! A model is pure mathematics over slices: no ids, no storage, no allocation. It implements the two operators and
//! their adjoints; [`score`](ScoringFunction::score) and [`backward`](ScoringFunction::backward) follow. Only HolE
//! scores in a different basis from its parameters, hence [`Transform`].

use serde::{Deserialize, Serialize};

use crate::cpu::row;

mod complex;
mod distmult;
mod fourier;
mod hole;
mod reciprocal;
mod rotate;
mod transe;

pub use complex::ComplEx;
pub use distmult::DistMult;
pub use hole::HolE;
pub use reciprocal::Reciprocal;
pub use rotate::RotatE;
pub use transe::{TransE, TransEL1, TransEL2};

/// How a query vector is scored against a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparator {
    /// Inner product.
    Dot,
    /// Negated L1 distance.
    NegL1,
    /// Negated L2 distance.
    NegL2,
    /// Negated sum of the moduli of the complex differences; the first half of a row holds the real parts.
    NegModulus,
}

impl Comparator {
    /// From scores as summed by ranking to η. L2 distances are ranked squared, which is the same order without the
    /// root, except for neighbours that the root rounds to the same number.
    pub(crate) fn roots<'s>(self, scores: impl Iterator<Item = &'s mut f32>) {
        if self == Comparator::NegL2 {
            scores.for_each(|score| *score = -(-*score).sqrt());
        }
    }
}

/// η as mathematics over three rows.
///
/// Mark the methods `#[inline(always)]`: they are inlined into kernels.
pub trait ScoringFunction: Send + Sync + 'static {
    /// The name in specs, files and tables.
    const NAME: &'static str;
    /// The comparator of queries and candidates.
    const COMPARATOR: Comparator;

    /// d as counted by the paper: complex entries for complex models. The L2 penalty is divided by it.
    fn dimension(&self) -> usize;
    /// Floats per entity row, as scored.
    fn entity_width(&self) -> usize;
    /// Floats per relation row, as scored.
    fn relation_width(&self) -> usize;

    /// Writes q such that `COMPARATOR(q, tail)` is the score of (head, relation, tail).
    fn tail_query(&self, head: &[f32], relation: &[f32], query: &mut [f32]);
    /// Writes q such that `COMPARATOR(q, head)` is the score of (head, relation, tail).
    fn head_query(&self, relation: &[f32], tail: &[f32], query: &mut [f32]);
    /// Given ∂/∂q of a tail query, adds ∂/∂head and ∂/∂relation.
    fn tail_query_backward(
        &self,
        head: &[f32],
        relation: &[f32],
        d_query: &[f32],
        d_head: &mut [f32],
        d_relation: &mut [f32],
    );
    /// Given ∂/∂q of a head query, adds ∂/∂relation and ∂/∂tail.
    fn head_query_backward(
        &self,
        relation: &[f32],
        tail: &[f32],
        d_query: &[f32],
        d_relation: &mut [f32],
        d_tail: &mut [f32],
    );

    /// Whether (h, ?, t) can be answered by a dot product: scores are linear in the relation row.
    const ASKS_RELATIONS: bool = false;
    /// Writes q such that q · r is the score of (head, relation, tail) for one side's relation row r. Needs
    /// `ASKS_RELATIONS`.
    #[inline(always)]
    fn relation_query(&self, _head: &[f32], _tail: &[f32], _query: &mut [f32]) {}
    /// Given ∂/∂q of a relation query, adds ∂/∂head and ∂/∂tail.
    #[inline(always)]
    fn relation_query_backward(
        &self,
        _head: &[f32],
        _tail: &[f32],
        _d_query: &[f32],
        _d_head: &mut [f32],
        _d_tail: &mut [f32],
    ) {
    }

    /// Number of equal parts of a parameter row for the row cap: real and imaginary halves are capped separately.
    fn entity_parts(&self) -> usize {
        1
    }
    /// The same for relation rows.
    fn relation_parts(&self) -> usize {
        1
    }
    /// Relation rows per relation: 2 with reciprocal relations.
    fn relation_sides(&self) -> usize {
        1
    }
    /// The transform, if scoring uses a different basis from the parameters.
    fn transform(&self) -> Option<&dyn Transform> {
        None
    }

    /// η of three rows as scored. Allocates; hot loops keep their own query buffer.
    fn score(&self, head: &[f32], relation: &[f32], tail: &[f32]) -> f32 {
        let mut query = vec![0.0; self.entity_width()];
        self.tail_query(head, relation, &mut query);
        row::compare(Self::COMPARATOR, &query, tail)
    }

    /// Adds `d_score · ∂η/∂row` to each gradient row. Allocates; hot loops share queries.
    fn backward(&self, [head, relation, tail]: [&[f32]; 3], d_score: f32, gradients: [&mut [f32]; 3]) {
        let [d_head, d_relation, d_tail] = gradients;
        let mut query = vec![0.0; self.entity_width()];
        let mut d_query = vec![0.0; self.entity_width()];
        self.tail_query(head, relation, &mut query);
        row::add_d_query(Self::COMPARATOR, d_score, &query, tail, &mut d_query);
        row::add_d_candidate(Self::COMPARATOR, d_score, &query, tail, d_tail);
        self.tail_query_backward(head, relation, &d_query, d_head, d_relation);
    }
}

/// A linear map from parameter rows to scored rows, with its adjoint for gradients.
pub trait Transform: Send + Sync {
    /// Floats of an entity's parameter row.
    fn entity_width(&self) -> usize;
    /// Floats of a relation's parameter row.
    fn relation_width(&self) -> usize;
    /// Buffers for one thread.
    fn scratch(&self) -> Scratch;
    /// The scored image of an entity's parameters.
    fn entity(&self, parameters: &[f32], image: &mut [f32], scratch: &mut Scratch);
    /// The scored image of a relation's parameters.
    fn relation(&self, parameters: &[f32], image: &mut [f32], scratch: &mut Scratch);
    /// The gradient by an entity's parameters, from the gradient by its image.
    fn entity_adjoint(&self, d_image: &[f32], d_parameters: &mut [f32], scratch: &mut Scratch);
    /// The gradient by a relation's parameters, from the gradient by its image.
    fn relation_adjoint(&self, d_image: &[f32], d_parameters: &mut [f32], scratch: &mut Scratch);
}

/// Buffers of a [`Transform`]: one per thread, reused for all rows.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    pub(crate) real: Vec<f32>,
    pub(crate) spectrum: Vec<realfft::num_complex::Complex<f32>>,
    pub(crate) work: Vec<realfft::num_complex::Complex<f32>>,
}

/// Floats of an entity's parameter row.
pub fn entity_parameters(scoring: &impl ScoringFunction) -> usize {
    scoring.transform().map_or_else(|| scoring.entity_width(), |transform| transform.entity_width())
}

/// Floats of a relation's parameter row.
pub fn relation_parameters(scoring: &impl ScoringFunction) -> usize {
    scoring.transform().map_or_else(|| scoring.relation_width(), |transform| transform.relation_width())
}

#[cfg(test)]
mod laws;
