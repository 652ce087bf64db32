//! What can go wrong on a card, said so that a reader can act on it.

/// Results of this crate.
pub type Result<T> = std::result::Result<T, CudaError>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// A library of CUDA is not on this machine.
    #[error(
        "no CUDA on this machine: {library} was not found; use `--device cpu`, or install NVIDIA's driver (libcuda) and \
         the CUDA 13 run-time libraries (libnvrtc, libcublas) where the system's linker finds them"
    )]
    Missing {
        /// The library.
        library: &'static str,
    },
    /// There is a driver but no card.
    #[error("CUDA is installed, but it sees no card ({reason}); use `--device cpu`, or check `nvidia-smi`")]
    NoCard {
        /// What the driver says.
        reason: String,
    },
    /// The model does not fit.
    #[error(
        "the card has {free} of memory free and this run needs {needed}: {parts}; lower --dim or --negatives, use more \
         batches, free the card of other programs, or use `--device cpu`"
    )]
    Memory {
        /// Needed in all.
        needed: String,
        /// Free now.
        free: String,
        /// What it is needed for.
        parts: String,
    },
    /// A call to the driver or to cuBLAS failed.
    #[error(
        "the card failed while {doing}: {reason}; if another program uses it, wait for that; otherwise the last checkpoint \
         is good: continue with --resume, or with `--device cpu`"
    )]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// What CUDA says.
        reason: String,
    },
    /// NVRTC refused a kernel: a fault of ours.
    #[error("the kernels did not compile, which is a fault of this program; please report it\n{log}")]
    Compile {
        /// The compiler's words.
        log: String,
    },
    /// What was asked for is not built for the card.
    #[error("{what} is not available on the card; use `--device cpu`")]
    Unsupported {
        /// What was asked for.
        what: String,
    },
}

/// Says what was being done when CUDA failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T>;
}

impl<T, E: std::fmt::Debug> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|error| CudaError::Failed { doing, reason: format!("{error:?}") })
    }
}

/// Bytes for people.
pub(crate) fn bytes(count: usize) -> String {
    let count = count as f64;
    if count >= 1e9 { format!("{:.2} GB", count / 1e9) } else { format!("{:.1} MB", count / 1e6) }
}
