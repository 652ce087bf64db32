//! The one distinction the exit code makes between errors: was it the way the command was typed?
//!
//! Scripts tell "you asked for something that does not exist" (exit code 2) from "it could not be done" (exit code
//! 1). A command that finds a mistake clap cannot see returns a [`UsageError`] inside its `anyhow::Error`; the
//! binary asks [`exit_code`] once, at its very end.

use std::fmt;

use ruge::RugeError;
use ruge_kg::KgError;

use crate::interrupt::Interrupted;

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

/// 128 plus the signal for an [`Interrupted`] command, 2 when a [`UsageError`], or a library's word for one, is anywhere in the
/// chain, otherwise 1.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let is_usage = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<UsageError>()
            || matches!(cause.downcast_ref(), Some(KgError::Option(_)))
            || matches!(cause.downcast_ref(), Some(RugeError::UnknownName { .. }))
    };
    let interrupted = error.chain().find_map(|cause| cause.downcast_ref::<Interrupted>());
    match interrupted {
        Some(interrupted) => interrupted.exit_code(),
        None if error.chain().any(is_usage) => 2,
        None => 1,
    }
}
