//! Where rules and embeddings meet: find the facts that are missing from a knowledge graph, with reasons.
//!
//! Train a model under the guidance of rules, open it as an [`Engine`], ask it, and ask why:
//!
//! ```
//! use ruge::explain::ExplainOptions;
//! use ruge::predict::{PredictOptions, Question};
//! use ruge::{Control, Dataset, ModelName, ReadOptions, Spec, Triple, assemble, train};
//!
//! # fn main() -> ruge::Result<()> {
//! // The embedded graph; a path of your own works as well.
//! let (data, _) = Dataset::load("demo".as_ref(), &ReadOptions::default())?;
//! let mut spec = Spec::paper(ModelName::ComplEx, "ruge")?;
//! (spec.model.dimension, spec.schedule.epochs) = (16, 5); // small, for an example
//! let rules = assemble::rules(&spec, &data, &Control::default())?; // mined from train
//! let engine = train(&spec, &data, rules, &Control::default())?.engine(data)?;
//!
//! let question = Question::named(&engine, Some("Brussels"), Some("located_in"), None)?;
//! let answers = engine.predict(&[question], &PredictOptions::default(), &Control::default())?;
//! for answer in &answers[0] {
//!     println!("{} {:.2}", answer.name, answer.truth);
//! }
//!
//! let fact = Triple {
//!     head: engine.entity("Brussels")?,
//!     relation: engine.relation("located_in")?,
//!     tail: engine.entity("Flanders")?,
//! };
//! let why = engine.explain(fact, &ExplainOptions::default())?;
//! assert_eq!(why.rules[0].words, "if x capital_of y then x located_in y");
//! # Ok(())
//! # }
//! ```
//!
//! Rules never hear of vectors and embeddings never hear of rules; this crate knows both. A [`spec`] says everything about
//! a training, [`assemble`] turns it into running objects, and [`train()`] trains in memory. A [`run`] does the same in a folder
//! from which it can go on, and [`model_file`] is the one self-contained file that comes out. An [`Engine`] opens it for
//! questions, with truth values from [`calibrate`]. Everything that takes time takes a [`Control`], which cancels it and hears
//! of its progress.
//!
//! The examples in the folder `examples` are short essays: `check`, `mine`, `guide`, `ask` and `own_scoring`.

pub mod assemble;
pub mod budget;
pub mod calibrate;
pub mod classify;
pub mod combine;
pub mod complete;
pub mod consistency;
pub mod constraints;
pub mod engine;
pub mod error;
pub mod evaluate;
pub mod explain;
pub mod fold_in;
pub mod identity;
pub mod memory;
pub mod model_file;
pub mod names;
pub mod predict;
pub mod prepare;
pub mod run;
pub mod sealed_json;
pub mod similar;
pub mod spec;
pub mod suggest;
pub mod train;
pub mod truth;
pub mod unseen;
pub mod workplace;

pub use calibrate::{Calibration, Reliability};
pub use engine::{Engine, OpenOptions};
pub use error::{Result, RugeError};
pub use model_file::ModelFile;
pub use ruge_kg::{Cancel, Control, Dataset, ReadOptions, Triple};
pub use spec::{DeviceName, GuidanceSpec, MinePreset, ModelName, Spec};
pub use train::{Trained, train};
