//! The Python package's native part: conversions, no logic.
//!
//! The public classes are Python, in `python/ruge`; they are thin, typed and documented there. This crate is `ruge._core`, which is
//! private: graphs, rules and models as frozen classes around shared values of the libraries. Answers cross the border as the
//! JSON that the command line prints. Everything that takes time goes through [`job`], which frees the interpreter, listens for
//! Ctrl-C and lets no panic through.

mod errors;
mod graph;
mod job;
mod model;
mod rules;
mod settings;
mod train;

use pyo3::prelude::*;

/// Does what the words ask for, as the command `ruge`; returns its exit code.
#[pyfunction]
fn main(words: Vec<String>) -> u8 {
    ruge_cli::main_of(words.into_iter().map(Into::into))
}

/// The native part of the package `ruge`; use the package instead.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::graph::{Builder, Graph};
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    use super::model::{Model, Vectors, load};
    #[pymodule_export]
    use super::rules::{Rules, mine, read_rules};
    #[pymodule_export]
    use super::train::train;

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
