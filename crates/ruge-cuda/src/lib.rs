//! The models of `ruge-embed` on one NVIDIA card, found at run time and absent without harm.
//!
//! Nothing of CUDA is needed to build this crate: driver, compiler (NVRTC) and cuBLAS are loaded by name when a
//! [`Device`] is opened, and a machine without them gets a sentence that says so. The kernels in `kernels/` are compiled
//! for the model's shape when training begins. [`CudaModel`] is a [`ruge_embed::Model`] like any other: same plan, same
//! draws, same state, so checkpoints and model files move between processor and card.
//!
//! *Same bits, run after run.* A step has two passes, as on the processor: teams of threads leave what each slot found,
//! then the owner of each row adds up what touches it in a fixed order. There is no atomic addition of floats anywhere.

#![allow(unsafe_code, reason = "launching kernels is unsafe by nature; every launch says what it relies on")]

mod crowd;
mod device;
mod error;
mod evidence;
mod fit;
mod fold;
mod gradients;
mod model;
mod order;
mod product;
mod questions;
mod rank;
mod sample;
mod softmax;
mod source;
mod training;

pub use device::Device;
pub use error::{CudaError, Result};
pub use model::{CudaModel, constants};
pub use product::measure_products;
pub use source::{Constants, RowShape, compile_kernels};
