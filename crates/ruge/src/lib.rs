//! Where rules and embeddings meet.
//!
//! Rules never hear of vectors and embeddings never hear of rules; this crate knows both. A [`spec`] says everything about
//! a run, [`assemble`] turns it into running objects, [`run`] trains and keeps the run on disk, and [`model_file`] is the
//! one self-contained file that comes out. [`loaded`] opens it for questions, with truth values from [`calibrate`].
//! [`rules_only`] ranks by the rules alone: the row beside every guided one. Experiments are run by the crate `ruge-lab`.

pub mod assemble;
pub mod calibrate;
pub mod classify;
pub mod combine;
pub mod complete;
pub mod consistency;
pub mod error;
pub mod evaluate;
pub mod explain;
pub mod fold_in;
pub mod identity;
pub mod like;
pub mod loaded;
pub mod memory;
pub mod model_file;
pub mod nearest;
pub mod predict;
pub mod rules_only;
pub mod run;
pub mod sealed_json;
pub mod spec;
pub mod validated;
pub mod workplace;

pub use calibrate::{Calibration, Reliability};
pub use error::{Result, RugeError};
pub use loaded::Loaded;
pub use model_file::ModelFile;
pub use spec::{DeviceName, GuidanceSpec, MinePreset, ModelName, Spec};
