//! Where rules and embeddings meet.
//!
//! Rules never hear of vectors and embeddings never hear of rules; this crate knows both. It turns a [`spec`] into models
//! and guidance, trains, and keeps what came out on disk.

pub mod guidance;
pub mod rules_only;
