//! Knowledge graphs: triples, names, indexes, data sets, and every file format they come in.
//!
//! This crate knows nothing about rules or vectors. It turns files into an immutable [`Graph`] over dense ids, with the
//! indexes that mining, grounding, training and ranking need.
//!
//! ```
//! use ruge_kg::{Dataset, Names};
//!
//! let mut names = Names::default();
//! let train = vec![names.triple("Paris", "capital_of", "France"), names.triple("France", "borders", "Spain")];
//! let data = Dataset::new(names, train, vec![], vec![]);
//! assert_eq!(data.graph().len(), 2);
//! assert_eq!(data.show(data.train()[0]), ["Paris", "capital_of", "France"]);
//! ```

pub mod control;
pub mod dataset;
pub mod demo;
pub mod error;
pub mod graph;
pub mod io;
pub mod labels;
pub mod load;
pub mod memory;
pub mod pagerank;
pub mod prefixes;
pub mod random;
pub mod rank;
pub mod stats;
pub mod triple;
pub mod visible;
pub mod vocabulary;

pub use control::{Cancel, Cancelled, Control, Work};
pub use dataset::Dataset;
pub use error::{KgError, Problem, Reason};
pub use graph::{Adjacency, Edge, Filter, Graph, Pair};
pub use io::{ColumnChoice, Columns, Format, GraphChoice, Header, Literals, ReadOptions};
pub use labels::Labels;
pub use load::{LoadReport, Warning};
pub use pagerank::PageRank;
pub use prefixes::Prefixes;
pub use rank::{Hide, Place, Rank, RankError, RankQuery, Ranker, Scored, Side, Ties, TopOptions};
pub use stats::{Stats, describe};
pub use triple::{EntityId, Id, Label, RelationId, Triple};
pub use vocabulary::{Names, Vocabulary};
