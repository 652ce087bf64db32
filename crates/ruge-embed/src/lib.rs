//! Knowledge graph embeddings: scoring functions, training, exact ranking.
//!
//! This crate knows graphs and never rules. What rules have to say reaches it as neutral [`evidence`]: triples nobody has
//! observed, the triples that speak for them, and weights.
//!
//! | question | room |
//! |---|---|
//! | how is a triple scored? | [`scoring`]: one file per model |
//! | what does an epoch consist of? | [`plan`], [`batch`], [`negatives`], [`evidence`] |
//! | how true is a formula of premises? | [`fuzzy`] |
//! | what is minimised, and how? | [`objective`], [`optimizer`] |
//! | where do the numbers live and move? | [`model`], with `pass` and `update`, its two passes, and [`cpu`] |
//! | how do relation paths train and rank? | [`ptranse`], a model of its own |
//! | when does it stop, and how does it resume? | [`trainer`], [`checkpoint`] |
//! | how good is it? | [`rank`](mod@rank), [`metrics`] |
//! | what does it answer? | [`top`] |

/// The version of the arithmetic: raised by every change after which the same spec, data and seed give other bits. A run that was
/// begun under another number is not continued, whatever the version of the program.
pub const NUMERICS: u32 = 1;

pub mod batch;
pub mod checkpoint;
pub mod cpu;
pub mod embeddings;
pub mod error;
pub mod evidence;
pub mod fuzzy;
mod guidance;
pub mod incidence;
pub mod metrics;
pub mod model;
pub mod negatives;
pub mod objective;
pub mod optimizer;
mod pass;
pub mod plan;
pub mod ptranse;
pub mod rank;
pub mod scoring;
pub mod softmax;
pub mod table;
pub mod tensor_file;
mod top;
pub mod trainer;
#[doc(hidden)]
pub mod twin;
mod update;

pub use batch::{Batch, Examples};
pub use embeddings::{Embeddings, Init, Start};
pub use error::{EmbedError, Result};
pub use evidence::{Dealing, Evidence, Guidance};
pub use fuzzy::{Step, TNorm};
pub use metrics::{Category, Evaluation, HITS, Metrics};
pub use model::{CpuModel, Losses, Model, OnProcessor, State};
pub use negatives::{Negatives, Sides};
pub use objective::{Loss, Objective, Penalty};
pub use optimizer::{Cap, Optimizer, Projection, UpdateRule};
pub use plan::{Batching, Plan};
pub use ptranse::{PTransE, PTransEConfig, PathReport, Paths};
pub use scoring::{Comparator, ScoringFunction};
pub use softmax::{AnswerLoss, Answers, Example, Softmax, StaticLabel};
pub use table::Table;
pub use trainer::{Event, Plateau, Progress, Schedule, StopReason, Validation, train};
