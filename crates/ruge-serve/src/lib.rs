//! A model as an HTTP API: search, known facts, predictions, reasons, rules.
//!
//! Answers are the values that the command line prints with `--json`: both ask the same [`Engine`](ruge::Engine). A request
//! passes the guard (`guard.rs`), is looked up in one table (`table.rs`, which also gives `/openapi.json`), and is worked on by a
//! pool of threads behind a bounded queue (`work.rs`). The network's own threads never compute. This is the only crate that
//! knows tokio.
//!
//! Nothing in a request is ever a path of the file system, and nothing here runs without a check of the `Host` header.

mod api;
mod app;
mod ask;
mod batch;
mod graph;
mod guard;
mod names;
mod openapi;
mod problem;
mod rules;
mod serve;
mod snapshot;
mod table;
mod work;

pub use app::{App, Settings};
pub use guard::Guard;
pub use serve::{DEFAULT, ServeError, bind, serve};
