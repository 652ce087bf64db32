//! Ranking by rules: alone, and in addition to any other [`Ranker`](ruge_kg::Ranker), without a vector in sight.
//!
//! A candidate's score is the other ranker's plus β times what the rules say: rules know paths and counts that vectors blur, and
//! vectors know everything no rule speaks of. How rules are summed, in which form they enter and how much they weigh is a
//! [`Setting`], fitted on validation for every relation and direction and shrunk to one for all ([`fit`](mod@fit)). Where rules do not
//! help, β is 0 and the ranks are the other ranker's own. Without another ranker β is 1 and the rules rank alone.
//!
//! | question | room |
//! |---|---|
//! | which rules have a chance to answer a query? | [`index`] |
//! | what do they say of each candidate? | `scores` |
//! | how many rules may rank? | `budget` |
//! | rules made ready, whatever the model | `prepared` |
//! | what does each rule weigh? | `learn` |
//! | what is a rule's new conclusion worth on validation? | [`validated`] |
//! | what speaks for or against a candidate besides rules? | [`evidence`] |
//! | what of it holds on a graph with other entities? | `transfer` |
//! | how are rules and another ranker summed, and does it help? | [`fit`](mod@fit) |
//! | the sum as a ranker | `combined` |
//! | rules alone with nothing fitted; rules first, a ranker for the rest | [`only`] |

mod budget;
mod combined;
pub mod evidence;
mod fit;
pub mod index;
mod learn;
pub mod only;
mod prepared;
mod scores;
mod setting;
mod transfer;
pub mod validated;

pub use combined::{Combined, Part, PartOf};
pub use fit::{Tried, fit};
pub use prepared::{Effort, LEAST, Learned, Prepared, Weighing};
pub use scores::{Heard, RuleScores, SMOOTHING, Sum, Weights, ranking_confidence};
pub use setting::{Form, GroupSetting, Hiding, Ranking, Setting};
pub use transfer::Transfer;
