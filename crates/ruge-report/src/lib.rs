//! The report of a run: one page that needs nothing but itself.
//!
//! A [`Report`] is a plain tree of names and numbers, so that whoever ran the experiment can fill it, store it as JSON, or
//! hand over half of it: every section is either given, missing for a stated reason, or left out. [`render`] turns it into
//! one HTML page without scripts, fonts or links to elsewhere, readable in light and dark, on a screen, a phone and paper.
//! [`sheet`] does the same for tables of experiments, [`search`] for a search. [`gather`] fills parts of the tree from what the other crates return, and [`published`] knows the figures of papers.
//!
//! This crate exists to keep the plotting library out of the others; inside, [`plot`] is the only module that knows it.

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

pub use html::grouped;
pub use page::render;
pub use report::*;
