//! Knowledge graphs.
