//! Whether buffers and recorded launches made for one plan fit another.

use ruge_embed::evidence::Guidance;
use ruge_embed::optimizer::Projection;
use ruge_embed::plan::{Batching, Plan};
use ruge_embed::{Dealing, Negatives, Objective};

/// What must be equal for the recorded launches to fit a plan.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Fit {
    triples: (usize, usize),
    evidence: (usize, usize),
    batches: usize,
    batching: Batching,
    negatives: Negatives,
    objective: Objective,
    guidance: Guidance,
    dealing: Dealing,
    most_groundings: usize,
    inner_steps: usize,
    projection: Projection,
    seed: u64,
}

impl Fit {
    /// The requirements of a plan.
    pub fn of(plan: &Plan<'_>) -> Self {
        Self {
            triples: (plan.triples.as_ptr() as usize, plan.triples.len()),
            evidence: (std::ptr::from_ref(plan.evidence) as usize, plan.evidence.len()),
            batches: plan.batches,
            batching: plan.batching,
            negatives: plan.negatives,
            objective: plan.objective,
            guidance: plan.guidance,
            dealing: plan.dealing,
            most_groundings: plan.most_groundings,
            inner_steps: plan.inner_steps,
            projection: plan.projection,
            seed: plan.seed,
        }
    }
}
