//! What can go wrong between a spec and a finished run, said so that a reader can act on it.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RugeError {
    /// The graph could not be read.
    #[error(transparent)]
    Kg(#[from] ruge_kg::KgError),
    /// The rules could not be read or written.
    #[error(transparent)]
    Rules(ruge_rules::RuleError),
    /// Training failed.
    #[error(transparent)]
    Embed(ruge_embed::EmbedError),
    /// Ranking failed.
    #[error(transparent)]
    Rank(ruge_kg::RankError),
    /// The caller asked to stop, or the time was up.
    #[error(transparent)]
    Cancelled(#[from] ruge_kg::Cancelled),
    /// The card could not be used.
    #[error(transparent)]
    Cuda(#[from] ruge_cuda::CudaError),
    /// A spec that says nothing sensible.
    #[error("{0}")]
    Spec(String),
    /// A file could not be read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: std::io::Error,
    },
    /// A file that is no model of ours, or a damaged one.
    #[error("{}: not a usable model file: {reason}", path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A name that the model does not have.
    #[error("the model has no {kind} called {name:?}{hint}")]
    UnknownName {
        /// Entity or relation.
        kind: &'static str,
        /// What was typed.
        name: String,
        /// The nearest names, or nothing.
        hint: String,
    },
    /// A fact that cannot be taken in.
    #[error("{}:{line}: {reason}", path.display())]
    Facts {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// Why not.
        reason: String,
    },
    /// A run folder that is in the way, or not what it should be.
    #[error("{}: {reason}", path.display())]
    Run {
        /// The folder.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
}

impl RugeError {
    /// Whether nothing went wrong but that the caller asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, RugeError::Cancelled(_))
    }

    /// Wraps an I/O error with the path it concerns.
    pub fn io(path: &std::path::Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, action, source }
    }
}

/// A cancellation is the same whichever room it was noticed in.
macro_rules! from_room {
    ($($error:ty, $cancelled:path, $variant:ident;)+) => {$(
        impl From<$error> for RugeError {
            fn from(error: $error) -> Self {
                match error {
                    $cancelled(cancelled) => Self::Cancelled(cancelled),
                    other => Self::$variant(other),
                }
            }
        }
    )+};
}

from_room! {
    ruge_rules::RuleError, ruge_rules::RuleError::Cancelled, Rules;
    ruge_embed::EmbedError, ruge_embed::EmbedError::Cancelled, Embed;
    ruge_kg::RankError, ruge_kg::RankError::Cancelled, Rank;
}

/// Results of this crate.
pub type Result<T, E = RugeError> = std::result::Result<T, E>;
