//! The models of `ruge-embed` on one NVIDIA GPU, detected at run time.
//!
//! Building this crate does not require CUDA: driver, compiler (NVRTC) and cuBLAS are loaded by name when a [`Device`]
//! is opened, and a machine without them gets an error that says so. The kernels in `kernels/` are compiled for the
//! model's shape when training starts. [`CudaModel`] is an ordinary [`ruge_embed::Model`] with the same plan, draws and
//! state, so checkpoints and model files work on CPU and GPU alike.
//!
//! *Same bits in every run.* A step has two passes, as on the CPU: teams of threads write the results of each slot,
//! then the owner of each row adds its contributions in a fixed order. There are no atomic float additions.

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
