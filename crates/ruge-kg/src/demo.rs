//! The embedded demo graph: countries, capitals, borders, languages, rivers.
//!
//! `cargo xtask world` builds it from the hand-written tables in `fixtures/world`. It is released under CC0. It is
//! split like any single file, with a fixed seed, so that everyone sees the same train, valid and test.

/// All facts, tab-separated, in a fixed order.
pub const WORLD: &str = include_str!("demo/world.tsv");

/// Shares held out for valid and test.
pub const HELD_OUT: [f64; 2] = [0.1, 0.1];

/// Seed of the split.
pub const SEED: u64 = 2018;
