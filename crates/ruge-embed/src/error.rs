//! Errors of training and of model files.

use std::path::PathBuf;

use ruge_kg::{Cancelled, RankError};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The loss is not a finite number.
    #[error(
        "training diverged in epoch {epoch}: the loss is {loss}, with learning rates {entity_rate} (entities) and \
         {relation_rate} (relations); try rates ten times smaller, a row cap on the gradients, or smaller start values"
    )]
    Diverged {
        /// The epoch, counted from 1.
        epoch: u64,
        /// Mean loss of the epoch.
        loss: f64,
        /// γ of entity rows.
        entity_rate: f32,
        /// γ of relation rows.
        relation_rate: f32,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not a valid checkpoint.
    #[error("{}: not a usable checkpoint: {reason}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The model's device failed.
    #[error("{source}")]
    Device {
        /// The error of the device's crate.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Whether another model on this device would fail too.
        lasting: bool,
    },
    /// Ranking failed.
    #[error(transparent)]
    Rank(RankError),
    /// The caller cancelled, or the deadline passed.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A setting of PTransE is out of range.
    #[error("ptranse: {name} = {value}, but it must be {want}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        want: &'static str,
    },
    /// PTransE packs a path into 64 bits, which bounds the number of relations.
    #[error("ptranse: the graph has {found} relations, paths can tell {limit} apart")]
    TooManyRelations {
        /// In the graph.
        found: usize,
        /// The maximum.
        limit: usize,
    },
    /// A stored state does not fit this model.
    #[error("the stored state has {what} of {found}, the model expects {expected}")]
    Shape {
        /// What disagrees.
        what: &'static str,
        /// In the stored state.
        found: String,
        /// In the model.
        expected: String,
    },
}

impl From<RankError> for EmbedError {
    fn from(error: RankError) -> Self {
        match error {
            RankError::Cancelled(cancelled) => Self::Cancelled(cancelled),
            other => Self::Rank(other),
        }
    }
}

/// Results of this crate.
pub type Result<T, E = EmbedError> = std::result::Result<T, E>;
