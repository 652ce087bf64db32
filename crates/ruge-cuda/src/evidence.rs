//! Groundings and sampling shares on the GPU: created once, never changed.

use cudarc::driver::DeviceRepr;
use ruge_embed::Sides;
use ruge_embed::evidence::Evidence;
use ruge_embed::fuzzy::Step;
use ruge_embed::plan::Plan;

use crate::device::{Buffer, Device};
use crate::error::Result;
use crate::order::Quad;

/// `struct Evidence` of the kernels.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct EvidencePointers([u64; 5]);

// SAFETY: addresses in C layout, as in the kernels.
unsafe impl DeviceRepr for EvidencePointers {}

pub(crate) struct EvidenceBuffers {
    premise_ends: Buffer<u32>,
    premises: Buffer<Quad>,
    confidences: Buffer<f32>,
    formula_ends: Buffer<u32>,
    formulas: Buffer<u32>,
}

impl EvidenceBuffers {
    /// Copies the groundings of a plan.
    pub fn new(device: &Device, evidence: &Evidence) -> Result<Self> {
        let (mut premise_ends, mut formula_ends, mut formulas) = (vec![0u32], vec![0u32], Vec::new());
        let mut confidences = Vec::with_capacity(evidence.len());
        for grounding in 0..evidence.len() {
            premise_ends.push(premise_ends[grounding] + evidence.premises(grounding).len() as u32);
            formulas.extend(evidence.formula(grounding).iter().map(|step| match *step {
                Step::Not => 0,
                Step::And => 1,
                Step::Or => 2,
                Step::Premise(at) => 3 + at,
            }));
            formula_ends.push(formulas.len() as u32);
            confidences.push(evidence.confidence(grounding));
        }
        let premises: Vec<Quad> =
            evidence.all_premises().iter().map(|x| Quad(x.head.0, x.relation.0, x.tail.0, 0)).collect();
        Ok(Self {
            premise_ends: device.copy(&premise_ends)?,
            premises: device.copy(&premises)?,
            confidences: device.copy(&confidences)?,
            formula_ends: device.copy(&formula_ends)?,
            formulas: device.copy(&formulas)?,
        })
    }

    /// The arguments for kernels.
    pub fn pointers(&self) -> EvidencePointers {
        EvidencePointers([
            self.premise_ends.address,
            self.premises.address,
            self.confidences.address,
            self.formula_ends.address,
            self.formulas.address,
        ])
    }
}

/// The maximum number of premises of a grounding, and the maximum stack depth of a formula.
pub(crate) fn deepest(evidence: &Evidence) -> (usize, usize) {
    let (mut premises, mut stack) = (1, 1);
    for grounding in 0..evidence.len() {
        premises = premises.max(evidence.premises(grounding).len());
        let mut depth = 0usize;
        for step in evidence.formula(grounding) {
            match step {
                Step::Premise(_) => depth += 1,
                Step::Not => {}
                Step::And | Step::Or => depth -= 1,
            }
            stack = stack.max(depth);
        }
    }
    (premises, stack)
}

/// The probability that a negative replaces the head, by relation; below 0 for halves, above 1 if one coin decides for
/// all negatives of a positive.
pub(crate) fn head_shares(plan: &Plan<'_>) -> Vec<f64> {
    let of = |relation: u32| match plan.negatives.sides {
        Sides::Halves => -1.0,
        Sides::Coin => 0.5,
        Sides::OneEnd => 2.0,
        Sides::Bernoulli => {
            let relation = ruge_kg::RelationId(relation);
            let heads = plan.graph.distinct_heads(relation).max(1) as f64;
            let tails = plan.graph.distinct_tails(relation).max(1) as f64;
            tails / (heads + tails)
        }
    };
    (0..plan.relations as u32).map(of).collect()
}
