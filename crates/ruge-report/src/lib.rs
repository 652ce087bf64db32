//! The report of a run: one self-contained HTML page.
//!
//! A [`Report`] is a plain tree of names and numbers that the caller fills and may store as JSON. Every section is
//! given, missing for a stated reason, or left out. [`render`] turns it into one HTML page without fonts or external
//! links, and with one small script if facts are proposed, readable in light and dark, on a screen, a phone and paper. [`sheet`] does the same for tables of
//! experiments, [`search`] for a search. [`gather`] fills parts of the tree from the values of the other crates, and
//! [`published`] has figures from papers.
//!
//! This crate keeps the plotting library out of the others; inside it, only [`plot`] uses the library.

mod evidence;
pub mod gather;
mod html;
mod page;
pub mod plot;
pub mod published;
pub mod report;
pub mod run;
pub mod search;
mod section;
pub mod sheet;
pub mod shown;

pub use html::grouped;
pub use page::render;
pub use report::*;
