//! PTransE: translations that also agree with relation paths (Lin et al. 2015, addition as composition).
//!
//! TransE wants h + r ≈ t. PTransE also wants r ≈ ρ₁ + ρ₂ if the path ρ₁, ρ₂ leads from h to t and tends to mean r. Two
//! numbers weight a path: R(p|h,t), the share of a resource at h that arrives at t along p ([`paths`]), and P(r|p), how
//! often the ends of p are linked by r ([`confidence`]). See [`train`] and the two-stage [`rank`](mod@rank).
//!
//! | question | module |
//! |---|---|
//! | which edges exist, and how is a resource split? | [`doubled`] |
//! | what does a path mean? | [`confidence`] |
//! | which paths join a training pair? | [`paths`] |
//! | where does a set of paths lead from one entity? | [`walk`] |
//! | how does it train and rank like any other model? | `model` |
//!
//! *Deviations from the reference program.* As there, a batch's gradients are taken at its starting parameters, but the
//! norm constraint on relations is applied sixteen times per batch, not after each sample, so that threads can share
//! the work without changing the result. Path features are computed for every re-ranked candidate, from the training
//! triples only; the reference reads them from a list of pairs that favours the true ones. The re-ranked block precedes
//! all other candidates even if a path term is negative. Paths of three steps are selected by a cut-off on their
//! confidence, not by listed pairs. A corruption that is not found in 100 draws is skipped.

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
    /// d, the entries of a row.
    pub dimension: usize,
    /// δ of a triple; paths use 2δ.
    pub margin: f32,
    /// Learning rate, constant.
    pub rate: f32,
    /// Standard deviation of initial values; the reference uses 1/d.
    pub deviation: f32,
    /// Batches per epoch; each samples its share of the doubled training list with replacement.
    pub batches: usize,
    /// Maximum relations in a path: 1, 2 or 3.
    pub path_length: usize,
    /// Paths with a normalised R(p|h,t) of at most this are dropped.
    pub drop: f64,
    /// Candidates of a query that are re-ranked with their paths.
    pub rerank: usize,
    /// With 3 steps: a path of two is extended, and a path of three kept, if P(r|p) exceeds this for some r.
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
    /// Returns an error for an invalid setting.
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
