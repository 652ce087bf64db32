//! Knowledge graph embeddings: scoring functions, training, exact ranking.
//!
//! This crate knows graphs and never rules. What rules have to say reaches it as neutral evidence: unlabeled
//! triples, the triples that speak for them, and weights.

pub mod cpu;
pub mod metrics;
pub mod rank;
pub mod scoring;
pub mod table;
#[doc(hidden)]
pub mod twin;

pub use metrics::{Category, Evaluation, HITS, Metrics};
pub use rank::{Place, Rank, RankOptions, RankQuery, Side, Ties, rank};
pub use scoring::{Comparator, ScoringFunction};
pub use table::Table;
