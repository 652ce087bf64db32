//! Names as people read them: with their labels, and IRIs in their short form, as in a report.

pub use ruge_report::shown::{entity, relation, rule, text};
