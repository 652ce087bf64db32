//! The one distinction the exit code makes between errors: was it the way the command was typed?
//!
//! Scripts tell "you asked for something that does not exist" (exit code 2) from "it could not be done" (exit code
//! 1). A command that finds a mistake clap cannot see returns a [`UsageError`] inside its `anyhow::Error`; the
//! binary asks [`exit_code`] once, at its very end.

use std::fmt;

/// A mistake in what was typed, in words that say what to type instead.
#[derive(Debug)]
pub struct UsageError(
    /// The whole message, ready to be shown.
    pub String,
);

impl fmt::Display for UsageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// 2 when a [`UsageError`] is anywhere in the chain, otherwise 1.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if error.chain().any(|cause| cause.is::<UsageError>()) { 2 } else { 1 }
}
