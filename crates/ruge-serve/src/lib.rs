//! A model in a browser and as an HTTP API: search, known and proposed facts, reasons, rules, reviews.
//!
//! Answers are the values that the command line prints with `--json`: both ask the same [`Engine`](ruge::Engine). A request
//! passes the guard (`guard.rs`), is looked up in one of two tables, of endpoints (`table.rs`, which also gives `/openapi.json`) and of pages
//! (`pages/mod.rs`), and is worked on by a pool of threads behind a bounded queue (`work.rs`). The network's own threads never
//! compute. What changes the model makes the next snapshot (`live.rs`); what people decide is kept in SQLite (`reviews.rs`). This is the
//! only crate that knows tokio.
//!
//! Nothing in a request is ever a path of the file system, and nothing here runs without a check of the `Host` header.

mod api;
mod app;
mod ask;
mod assets;
mod batch;
mod decide;
mod graph;
mod guard;
mod html;
mod live;
mod names;
mod openapi;
mod pages;
mod problem;
mod reviews;
mod rules;
mod run;
mod schemas;
mod seats;
mod serve;
mod snapshot;
mod suggestions;
mod table;
mod together;
mod work;

pub use app::{App, Settings};
pub use guard::Guard;
pub use serve::{DEFAULT, ServeError, bind, serve};
