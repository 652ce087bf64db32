//! Soft rules over a knowledge graph: mined, read, verified, grounded.
//!
//! This crate knows graphs but not vectors: any rules can guide any scoring function, and only `ruge` combines them.
//!
//! ```
//! use ruge_kg::{Control, Dataset, ReadOptions};
//! use ruge_rules::words::sentence;
//! use ruge_rules::{MineConfig, ground, mine};
//!
//! # fn main() -> Result<(), ruge_kg::KgError> {
//! // The embedded graph; a path of your own works as well.
//! let (data, _) = Dataset::load("demo".as_ref(), &ReadOptions::default())?;
//! let mined = mine(data.graph(), &MineConfig::default(), &Control::default());
//! let best = mined.rules.iter().max_by_key(|rule| rule.counts.support).expect("it has some");
//! println!("{} (confidence {:.2})", sentence(&best.rule, data.names()), best.counts.pca());
//!
//! // What follows from the graph, and is not in it.
//! let groundings = ground(data.graph(), std::slice::from_ref(&best.rule));
//! for triple in groundings.unlabeled() {
//!     println!("{}", data.show(*triple).join(" "));
//! }
//! assert!(best.counts.pca() >= 0.8 && !groundings.is_empty());
//! # Ok(())
//! # }
//! ```

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
