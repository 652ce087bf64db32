//! Where rules and embeddings meet.
//!
//! Rules never hear of vectors and embeddings never hear of rules; this crate knows both. A [`spec`] says everything about
//! a run, [`assemble`] turns it into running objects, [`run`] trains and keeps the run on disk, and [`model_file`] is the
//! one self-contained file that comes out. An [`Engine`] opens it for questions, with truth values from [`calibrate`]. Everything
//! that takes time takes a [`Control`], which cancels it and hears of its progress.

pub mod assemble;
pub mod calibrate;
pub mod classify;
pub mod combine;
pub mod complete;
pub mod consistency;
pub mod engine;
pub mod error;
pub mod evaluate;
pub mod explain;
pub mod fold_in;
pub mod identity;
pub mod memory;
pub mod model_file;
pub mod predict;
pub mod run;
pub mod sealed_json;
pub mod similar;
pub mod spec;
pub mod suggest;
pub mod train;
pub mod workplace;

pub use calibrate::{Calibration, Reliability};
pub use engine::{Engine, OpenOptions};
pub use error::{Result, RugeError};
pub use model_file::ModelFile;
pub use ruge_kg::{Cancel, Control};
pub use spec::{DeviceName, GuidanceSpec, MinePreset, ModelName, Spec};
pub use train::{Trained, train};
