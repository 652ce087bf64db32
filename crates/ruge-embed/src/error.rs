//! What can go wrong while training, said so that a reader can act on it.

use std::path::PathBuf;

use ruge_kg::{Cancelled, RankError};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The loss is no number any more.
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
        /// What the system says.
        source: std::io::Error,
    },
    /// A file is no checkpoint, or is broken.
    #[error("{}: not a usable checkpoint: {reason}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The device a model lives on failed.
    #[error("{source}")]
    Device {
        /// What happened, in the words of the device's own crate.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Whether another model on this device would meet it too.
        lasting: bool,
    },
    /// Ranking failed.
    #[error(transparent)]
    Rank(RankError),
    /// The caller asked to stop, or the time was up.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A setting of PTransE is out of range.
    #[error("ptranse: {name} = {value}, but it must be {want}")]
    Setting {
        /// Which one.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        want: &'static str,
    },
    /// PTransE packs a path into 64 bits, which bounds the number of relations.
    #[error("ptranse: the graph has {found} relations, paths can tell {limit} apart")]
    TooManyRelations {
        /// In the graph.
        found: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A stored state does not belong to this model.
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
