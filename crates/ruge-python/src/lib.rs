//! The Python package's native part: conversions, no logic.
//!
//! The public classes are Python, in `python/ruge`; they are thin, typed and documented there. This crate is `ruge._core`, which is
//! private: graphs, rules and models as frozen classes around shared values of the libraries. Answers cross the border as the
//! JSON that the command line prints. Everything that takes time goes through [`job`], which frees the interpreter, listens for
//! Ctrl-C and lets no panic through.

mod builder;
mod columns;
mod combine;
mod errors;
mod foreign;
mod graph;
mod job;
mod model;
mod rules;
mod search;
mod settings;
mod told;
mod train;
mod whole;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Does what the words ask for, as the command `ruge`; returns its exit code.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> PyResult<u8> {
    job::here(py, || Ok(ruge_cli::main_of(words.into_iter())))
}

/// Writes a file, complete or not at all; an existing one is kept unless `force` is given.
#[pyfunction]
fn write_file(py: Python<'_>, path: PathBuf, text: String, force: bool) -> PyResult<()> {
    job::short(py, || {
        errors::Fault::refuse_to_replace(&path, force)?;
        ruge_kg::io::write::replace_file(&path, |mut file| {
            file.write_all(text.as_bytes()).map_err(ruge::RugeError::io(&path, "write"))?;
            Ok::<_, ruge::RugeError>((file, ()))
        })?;
        Ok(())
    })
}

/// The native part of the package `ruge`; use the package instead.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::builder::Builder;
    #[pymodule_export]
    use super::columns::Column;
    #[pymodule_export]
    use super::combine::combine;
    #[pymodule_export]
    use super::foreign::{adopt, import_folder};
    #[pymodule_export]
    use super::graph::Graph;
    #[pymodule_export]
    use super::job::settle;
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    use super::model::{Model, Vectors, load};
    #[pymodule_export]
    use super::rules::{Rules, mine, read_rules};
    #[pymodule_export]
    use super::search::search;
    #[pymodule_export]
    use super::train::train;
    #[pymodule_export]
    use super::whole::run;
    #[pymodule_export]
    use super::write_file;

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
