//! The one distinction the exit code makes between errors: was it the way the command was typed?
//!
//! Scripts tell "you asked for something that does not exist" (exit code 2) from "it could not be done" (exit code
//! 1). A command that finds a mistake clap cannot see returns a [`UsageError`] inside its `anyhow::Error`; the
//! binary asks [`exit_code`] once, at its very end.

use std::fmt;
use std::io::{self, Write};

use ruge::RugeError;
use ruge_kg::KgError;

use crate::console;
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

/// A spec that cannot be is a mistake in what was typed; a file that cannot be read is not.
pub fn of_spec(error: RugeError) -> anyhow::Error {
    match error {
        RugeError::Setting { reason, .. } => UsageError(reason).into(),
        other => other.into(),
    }
}

/// Prints what clap has to say, help or a mistake, and tells the exit code. Help that could not be written is an error.
pub fn answer(error: &clap::Error) -> u8 {
    let typed = std::env::args_os().any(|word| word.to_string_lossy().contains(ruge_kg::visible::is_marked));
    let written = match typed {
        // A mistake repeats what was typed, which may be the name of a file (`ruge check *`): then without colours.
        true if error.use_stderr() => write!(io::stderr(), "{}", console::shown(&error.render().to_string())),
        _ => error.print().and_then(|()| io::stdout().flush()),
    };
    match written {
        Err(cause) if !error.use_stderr() && cause.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "error: cannot write to stdout: {cause}");
            1
        }
        _ => u8::try_from(error.exit_code()).unwrap_or(2),
    }
}

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
