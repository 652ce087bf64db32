//! PTransE: translations that also agree with relation paths (Lin et al. 2015, addition as composition).
//!
//! TransE asks that h + r ≈ t. PTransE asks as well that a relation r ≈ ρ₁ + ρ₂ wherever the path ρ₁, ρ₂ leads from h
//! to t and tends to mean r. Two numbers say how much a path counts: R(p|h,t), the share of a resource put at h that
//! arrives at t along p ([`paths`]), and P(r|p), how often the ends of p are linked by r ([`confidence`]). Training is in
//! [`train`], the two-stage ranking in [`rank`](mod@rank).
//!
//! | question | room |
//! |---|---|
//! | which edges are there to walk, and how is a resource split? | [`doubled`] |
//! | what does a path mean? | [`confidence`] |
//! | which paths join a training pair? | [`paths`] |
//! | where does a set of paths lead from one entity? | [`walk`] |
//! | how does it train and rank like any other model? | `model` |
//!
//! *Deviations from the reference program.* A batch's gradients are taken at its starting parameters there too, but the
//! norm constraint on relations is applied sixteen times in a batch, not after each sample, so that threads can share the
//! work and cannot change the result. Path features exist for every re-ranked candidate alike and come from the training triples
//! only; the reference reads them from a list of pairs that favours the true ones. The re-ranked block stands before all
//! other candidates even where a path term is negative. Paths of three steps are chosen by a cut-off on their confidence,
//! not by listed pairs. A corruption that cannot be found in 100 draws is left out instead of being drawn for ever.

pub mod confidence;
pub mod doubled;
mod gradient;
mod model;
pub mod paths;
pub mod rank;
pub mod train;
pub mod walk;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

pub use confidence::{Confidences, ThreeStepReport};
pub use doubled::Sequence;
pub use paths::{PathReport, Paths};
pub use rank::rank;
pub use train::PTransE;

use serde::{Deserialize, Serialize};

use crate::error::{EmbedError, Result};

/// The settings of PTransE; the defaults are those of the released program.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PTransEConfig {
    /// d, entries of a row.
    pub dimension: usize,
    /// δ of a triple; paths use 2δ.
    pub margin: f32,
    /// Learning rate, constant.
    pub rate: f32,
    /// Standard deviation of start values; the reference takes 1/d.
    pub deviation: f32,
    /// Batches of an epoch; each draws its share of the doubled training list, with replacement.
    pub batches: usize,
    /// The most relations in a path: 1, 2 or 3.
    pub path_length: usize,
    /// Paths with a normalised R(p|h,t) of at most this are dropped.
    pub drop: f64,
    /// Candidates of a query that are ranked again with their paths.
    pub rerank: usize,
    /// With 3 steps: a path of two is extended if P(r|p) exceeds this for some r, and so is a path of three kept.
    pub confidence_cut_off: f64,
}

impl Default for PTransEConfig {
    fn default() -> Self {
        Self {
            dimension: 100,
            margin: 1.0,
            rate: 0.001,
            deviation: 0.01,
            batches: 100,
            path_length: 2,
            drop: 0.01,
            rerank: 500,
            confidence_cut_off: 0.5,
        }
    }
}

impl PTransEConfig {
    /// Says which setting cannot be used, if one cannot.
    pub fn check(&self) -> Result<()> {
        let fail = |name, value: String, want| Err(EmbedError::Setting { name, value, want });
        if self.dimension == 0 {
            return fail("dimension", self.dimension.to_string(), "at least 1");
        }
        if !(self.margin.is_finite() && self.margin > 0.0) {
            return fail("margin", self.margin.to_string(), "a positive number");
        }
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return fail("rate", self.rate.to_string(), "a positive number");
        }
        if !(self.deviation.is_finite() && self.deviation > 0.0) {
            return fail("deviation", self.deviation.to_string(), "a positive number");
        }
        if self.batches == 0 {
            return fail("batches", self.batches.to_string(), "at least 1");
        }
        if !(1..=3).contains(&self.path_length) {
            return fail("path-length", self.path_length.to_string(), "1, 2 or 3");
        }
        if !(0.0..1.0).contains(&self.drop) {
            return fail("drop", self.drop.to_string(), "at least 0 and below 1");
        }
        if !(0.0..1.0).contains(&self.confidence_cut_off) {
            return fail("confidence-cut-off", self.confidence_cut_off.to_string(), "at least 0 and below 1");
        }
        Ok(())
    }
}
