//! Bring your own scoring function, and train and rank with everything else that is here.
//!
//! A scoring function is mathematics over three rows of numbers: a query made of head and relation that meets the tail, one made
//! of relation and tail that meets the head, and the gradients of both. Batches, negatives, optimisers, exact ranking and threads
//! are not its business.
//!
//! SimplE (Kazemi and Poole 2018) serves as the example. An entity has two vectors, s as a subject and o as an object; a relation
//! has one for each direction: η = ½ (⟨h.s, r, t.o⟩ + ⟨t.s, r⁻¹, h.o⟩).
//!
//! ```text
//! cargo run --release -p ruge --example own_scoring
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;

use ruge::evaluate::Questions;
use ruge::{Control, Dataset, ReadOptions};
use ruge_embed::{
    Comparator, CpuModel, Embeddings, Init, Optimizer, Plan, Progress, Schedule, ScoringFunction, Validation, train,
};

/// SimplE with vectors of `dimension` numbers.
#[derive(Clone, Copy)]
struct SimplE {
    dimension: usize,
}

/// out = ½ x ∘ y
#[inline(always)]
fn half_product(x: &[f32], y: &[f32], out: &mut [f32]) {
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *out = 0.5 * x * y;
    }
}

/// out += ½ x ∘ y
#[inline(always)]
fn add_half_product(x: &[f32], y: &[f32], out: &mut [f32]) {
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *out += 0.5 * x * y;
    }
}

// Rows are the two vectors end to end, (s, o) and (r, r⁻¹). Small methods that inline become one loop each.
impl ScoringFunction for SimplE {
    const NAME: &'static str = "simple";
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
    /// The optimiser caps the length of either vector, not of both together.
    fn entity_parts(&self) -> usize {
        2
    }
    fn relation_parts(&self) -> usize {
        2
    }

    /// ½ (r⁻¹ ∘ h.o, r ∘ h.s): its product with (t.s, t.o) is η.
    #[inline(always)]
    fn tail_query(&self, head: &[f32], relation: &[f32], query: &mut [f32]) {
        let ((s, o), (r, inverse)) = (head.split_at(self.dimension), relation.split_at(self.dimension));
        let (to_s, to_o) = query.split_at_mut(self.dimension);
        half_product(inverse, o, to_s);
        half_product(r, s, to_o);
    }
    /// ½ (r ∘ t.o, r⁻¹ ∘ t.s): its product with (h.s, h.o) is η.
    #[inline(always)]
    fn head_query(&self, relation: &[f32], tail: &[f32], query: &mut [f32]) {
        let ((s, o), (r, inverse)) = (tail.split_at(self.dimension), relation.split_at(self.dimension));
        let (to_s, to_o) = query.split_at_mut(self.dimension);
        half_product(r, o, to_s);
        half_product(inverse, s, to_o);
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
        let ((s, o), (r, inverse)) = (head.split_at(self.dimension), relation.split_at(self.dimension));
        let (of_s, of_o) = d_query.split_at(self.dimension);
        let ((d_s, d_o), (d_r, d_inverse)) =
            (d_head.split_at_mut(self.dimension), d_relation.split_at_mut(self.dimension));
        add_half_product(of_s, inverse, d_o);
        add_half_product(of_s, o, d_inverse);
        add_half_product(of_o, r, d_s);
        add_half_product(of_o, s, d_r);
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
        let ((s, o), (r, inverse)) = (tail.split_at(self.dimension), relation.split_at(self.dimension));
        let (of_s, of_o) = d_query.split_at(self.dimension);
        let ((d_s, d_o), (d_r, d_inverse)) =
            (d_tail.split_at_mut(self.dimension), d_relation.split_at_mut(self.dimension));
        add_half_product(of_s, r, d_o);
        add_half_product(of_s, o, d_r);
        add_half_product(of_o, inverse, d_s);
        add_half_product(of_o, s, d_inverse);
    }
}

/// The law that a scoring function must keep: both queries give the same score.
fn check_law(simple: SimplE, table: &Embeddings) {
    let (head, tail, relation) = (table.entities.row(0), table.entities.row(1), table.relations.row(0));
    let mut query = vec![0.0; simple.entity_width()];
    simple.head_query(relation, tail, &mut query);
    let score: f32 = query.iter().zip(head).map(|(q, h)| q * h).sum();
    assert!((score - simple.score(head, relation, tail)).abs() < 1e-3);
}

/// Trains SimplE on the embedded graph.
pub fn main() -> Result<(), Box<dyn Error>> {
    let (data, _) = Dataset::load("demo".as_ref(), &ReadOptions::default())?;
    let simple = SimplE { dimension: 32 };
    let start = Embeddings::new(&simple, data.entity_count(), data.relation_count(), &Init::default(), 0);
    check_law(simple, &start);

    // The plan says what an epoch consists of, the schedule how long to go on; both begin as in the paper.
    let plan = Plan {
        entities: data.entity_count(),
        relations: data.relation_count(),
        ..Plan::new(data.graph(), data.train(), 0)
    };
    let schedule = Schedule { epochs: 20, validate_every: 5, ..Schedule::default() };
    let validation = Validation { triples: data.valid(), known: Some(data.filter()) };
    let mut model = CpuModel::new(simple, start, Optimizer::default());
    let (mut progress, control) = (Progress::default(), Control::default());
    train(&mut model, &plan, &schedule, Some(validation), &mut progress, &control, &mut |event| {
        if let Some(metrics) = event.metrics {
            println!("epoch {:>2}: validation MRR {:.3}", event.progress.epoch, metrics.mrr);
        }
        Ok(ControlFlow::Continue(()))
    })?;

    // It ranks like any other model, over all entities and exactly.
    let questions = Questions::about(data.test(), data.filter());
    let metrics = questions.metrics(&questions.rank(&model, &control)?);
    println!("test MRR {:.3}, hits@10 {:.3}", metrics.mrr, metrics.hits[&10]);
    assert!(metrics.mrr > 0.2);
    Ok(())
}
