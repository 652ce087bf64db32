//! Soft rules over a knowledge graph: mined, read, verified, grounded.
//!
//! This crate knows graphs and never vectors: any rules may guide any scoring function, and only the crate `ruge` brings
//! the two together.

pub mod atom;
pub mod error;
pub mod io;
pub mod measure;
pub mod rule;
pub mod words;

pub use atom::{Atom, Term, Variable};
pub use error::RuleError;
pub use io::{RuleFile, RuleFormat, RuleReadOptions, RuleRecord, RuleWriteOptions, read_rules, write_rules};
pub use measure::{Counts, Side};
pub use rule::{Confidence, Rule, Shape, SoftRule};
