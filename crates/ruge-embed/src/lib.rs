//! Knowledge graph embeddings: scoring functions, training, exact ranking.
//!
//! This crate knows graphs but not rules. Rules reach it as plain [`evidence`]: unobserved triples, the triples that
//! support them, and weights.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use ruge_embed::scoring::ComplEx;
//! use ruge_embed::{Embeddings, HITS, Init, Metrics, OnProcessor, Optimizer, Plan, Progress, Schedule, train};
//! use ruge_kg::{Control, Graph, RankQuery, Ties, Triple};
//!
//! # fn main() -> ruge_embed::Result<()> {
//! // A ring: everyone has one successor.
//! let ring: Vec<Triple> = (0..30).map(|i| Triple::new(i, 0, (i + 1) % 30)).collect();
//! let graph = Graph::new(30, 1, &ring);
//!
//! let scoring = ComplEx::new(16);
//! let start = Embeddings::new(&scoring, 30, 1, &Init::default(), 0);
//! let mut model = scoring.on_processor(start, Optimizer::default());
//! let plan = Plan { batches: 5, ..Plan::new(&graph, &ring, 0) };
//! let schedule = Schedule { epochs: 200, ..Schedule::default() };
//! train(&mut *model, &plan, &schedule, None, &mut Progress::default(), &Control::default(), &mut |_| {
//!     Ok(ControlFlow::Continue(()))
//! })?;
//!
//! let ranks = model.rank(&RankQuery::both_sides(&ring), None, &Control::default())?;
//! let metrics = Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &HITS);
//! assert!(metrics.mrr > 0.9, "it has learned who follows whom");
//! # Ok(())
//! # }
//! ```
//!
//! To add a scoring function, implement [`ScoringFunction`]; the example `own_scoring` in the crate `ruge` trains one.
//!
//! | question | module |
//! |---|---|
//! | how is a triple scored? | [`scoring`]: one file per model |
//! | what does an epoch consist of? | [`plan`], [`batch`], [`negatives`], [`evidence`] |
//! | how true is a formula of premises? | [`fuzzy`] |
//! | what is minimised, and how? | [`objective`], [`optimizer`] |
//! | where are parameters stored and updated? | [`model`], with its passes `pass` and `update`, and [`cpu`] |
//! | how do relation paths train and rank? | [`ptranse`], a separate model |
//! | when does it stop, and how does it resume? | [`trainer`], [`checkpoint`] |
//! | how good is it? | [`rank`](mod@rank), [`metrics`] |
//! | what does it answer? | [`top`] |

/// The version of the arithmetic. Raise it with every change after which the same spec, data and seed give different
/// bits. A run started under another number is not continued, whatever the program version.
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
pub use metrics::{Evaluation, HITS, Metrics};
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
