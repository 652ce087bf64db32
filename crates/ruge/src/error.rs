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
    Rules(#[from] ruge_rules::RuleError),
    /// Training failed.
    #[error(transparent)]
    Embed(#[from] ruge_embed::EmbedError),
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
    pub fn is_stopped(&self) -> bool {
        matches!(self, RugeError::Rules(ruge_rules::RuleError::Stopped))
    }

    /// Wraps an I/O error with the path it concerns.
    pub fn io(path: &std::path::Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, action, source }
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, RugeError>;
