//! Soft rules over a knowledge graph: mined, read, verified, grounded.
//!
//! This crate knows graphs and never vectors: any rules may guide any scoring function, and only the crate `ruge` brings
//! the two together.

pub mod apply;
pub mod atom;
pub mod count;
pub mod error;
mod expression;
pub mod ground;
pub mod io;
mod join;
pub mod measure;
pub mod mine;
pub mod rank;
pub mod rule;
pub mod verify;

pub mod words;

pub use atom::{Atom, Term, Variable};
pub use error::RuleError;
pub use ground::{GroundLimit, Groundings, ground, ground_within};
pub use io::{
    RuleFile, RuleFormat, RuleReadOptions, RuleRecord, RuleWriteOptions, Take, parse_rules, read_rules,
    read_rules_about, write_rules,
};
pub use measure::{Counts, Side};
pub use mine::{MineConfig, Mined, MinedRule, mine};
pub use rule::{Confidence, Rule, Shape, SoftRule};
