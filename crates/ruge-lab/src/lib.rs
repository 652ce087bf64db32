//! The laboratory: what runs experiments with `ruge`.
//!
//! [`pipeline`] does the whole job of `ruge run`, stage by stage, with settings that [`recipe`] sizes to the data. [`search`] finds
//! settings, [`reproduce`] fills the tables of the paper, [`export`] writes a model in the formats of other programs, and [`import`] reads theirs. [`leaves`] is
//! what tables and search spaces have in common: specs with settings left open.
//!
//! It is a crate of its own so that SQLite, Sobol sequences and Parquet stay out of `ruge`, which every edge calls.

pub mod export;
pub mod import;
pub mod leaves;
pub mod pipeline;
pub mod recipe;
pub mod reproduce;
pub mod search;
