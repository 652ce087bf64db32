//! The paper's tables and figure, cell by cell.
//!
//! [`cells`] reads which cells a table has, [`work`] fills one, [`record`] keeps what came out, and [`rows`] makes table
//! rows of records. A record whose setting is the cell's own is never made again, and a run that was killed goes on from its
//! last checkpoint, so that a table can be filled in pieces of any length.

pub mod cells;
pub mod record;
pub mod rows;
pub mod work;

pub use cells::{Cell, PaperTable, Published, RankBy, TableName, Task};
pub use record::{Figures, Record};
pub use rows::Row;
