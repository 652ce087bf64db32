//! Errors on a GPU.

use cudarc::cublas::result::CublasError;
use cudarc::cublas::sys::cublasStatus_t;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::CUresult;

/// Results of this crate.
pub type Result<T, E = CudaError> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// A CUDA library is missing.
    #[error(
        "no CUDA on this machine: {library} was not found\n  remedy: install NVIDIA's driver (libcuda) and the CUDA 13 run-time \
         libraries (libnvrtc, libcublas) where the system's linker finds them"
    )]
    Missing {
        /// The library.
        library: &'static str,
    },
    /// There is a driver but no GPU.
    #[error("CUDA is installed, but finds no GPU ({reason})\n  remedy: check `nvidia-smi`")]
    NoCard {
        /// The driver's message.
        reason: String,
    },
    /// The driver is older than the other libraries, or is not the one the system is running.
    #[error(
        "the NVIDIA driver of this machine does not work ({reason})\n  remedy: update it (CUDA 13 needs driver 580 or newer), or \
         restart the machine if it was just updated"
    )]
    Driver {
        /// Details.
        reason: String,
    },
    /// The model does not fit.
    #[error(
        "the GPU has {free} of memory free and this run needs {needed}: {parts}\n  remedy: {remedy}, or stop other programs on \
         the GPU"
    )]
    Memory {
        /// Total bytes needed.
        needed: String,
        /// Free bytes.
        free: String,
        /// What it is needed for.
        parts: String,
        /// Settings that reduce it.
        remedy: &'static str,
    },
    /// Memory that was free when the run was measured is no longer available.
    #[error(
        "GPU memory is full: {asked} for {doing} is not available{free}; the last checkpoint is good; where no other program \
         uses the GPU, model.dimension is too high"
    )]
    Full {
        /// Bytes requested.
        asked: String,
        /// The operation.
        doing: &'static str,
        /// Bytes left, as the end of a phrase.
        free: String,
    },
    /// The GPU stopped responding, or dropped this program's context.
    #[error("the GPU was lost while {doing}: {reason}; the last checkpoint is good")]
    Lost {
        /// The operation.
        doing: &'static str,
        /// CUDA's message.
        reason: String,
    },
    /// A kernel accessed invalid memory: a bug, which would recur on a retry.
    #[error(
        "a kernel failed while {doing}: {reason}, which is a bug in ruge; please report it with the command; the last \
         checkpoint is good"
    )]
    Fault {
        /// The operation.
        doing: &'static str,
        /// CUDA's message.
        reason: String,
    },
    /// A call to the driver or to cuBLAS failed.
    #[error("the GPU failed while {doing}: {reason}; the last checkpoint is good")]
    Failed {
        /// The operation.
        doing: &'static str,
        /// CUDA's message.
        reason: String,
    },
    /// NVRTC rejected a kernel: a bug.
    #[error("the kernels did not compile, which is a bug in ruge; please report it\n{log}")]
    Compile {
        /// The compiler's log.
        log: String,
    },
    /// The caller cancelled.
    #[error(transparent)]
    Cancelled(#[from] ruge_kg::Cancelled),
    /// The request is not supported on a GPU.
    #[error("{what} is not available on a GPU")]
    Unsupported {
        /// The request.
        what: String,
    },
}

impl CudaError {
    /// Whether another model on this GPU would fail too: a GPU that failed stays broken for this process, but one that
    /// is too small may fit another model.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Memory { .. } | Self::Full { .. } | Self::Unsupported { .. } | Self::Cancelled(_))
    }
}

/// Adds the operation to a CUDA error.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T>;
}

impl<T, E: Failure> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|error| {
            let reason = error.words();
            match error.kind() {
                Kind::Memory => CudaError::Full { asked: "memory".into(), doing, free: String::new() },
                Kind::Lost => CudaError::Lost { doing, reason },
                Kind::Fault => CudaError::Fault { doing, reason },
                Kind::Driver => CudaError::Driver { reason },
                Kind::Other => CudaError::Failed { doing, reason },
            }
        })
    }
}

/// What a failure means for the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Memory,
    Lost,
    Fault,
    Driver,
    Other,
}

/// An error of a CUDA library.
pub(crate) trait Failure {
    fn kind(&self) -> Kind;
    fn words(&self) -> String;
    /// Whether there is no GPU.
    fn is_absence(&self) -> bool {
        false
    }
}

impl Failure for DriverError {
    fn is_absence(&self) -> bool {
        matches!(self.0, CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_INVALID_DEVICE)
    }

    fn kind(&self) -> Kind {
        use CUresult::*;
        match self.0 {
            CUDA_ERROR_OUT_OF_MEMORY => Kind::Memory,
            // After any of these every call of this process fails: its context is gone.
            CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_NO_DEVICE
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_EXTERNAL_DEVICE
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_MPS_CLIENT_TERMINATED
            | CUDA_ERROR_SYSTEM_NOT_READY
            | CUDA_ERROR_UNKNOWN => Kind::Lost,
            CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_MISALIGNED_ADDRESS => Kind::Fault,
            CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
            | CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
            | CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER
            | CUDA_ERROR_STUB_LIBRARY
            | CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | CUDA_ERROR_JIT_COMPILER_NOT_FOUND => Kind::Driver,
            _ => Kind::Other,
        }
    }

    fn words(&self) -> String {
        if self.0 == CUresult::CUDA_ERROR_STUB_LIBRARY {
            return "a stub of the toolkit was found in its place; take its folder out of LD_LIBRARY_PATH".into();
        }
        match self.error_string() {
            Ok(words) => format!("{}, {:?}", words.to_string_lossy(), self.0),
            Err(_) => format!("{:?}", self.0),
        }
    }
}

impl Failure for CublasError {
    fn kind(&self) -> Kind {
        match self.0 {
            cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => Kind::Memory,
            _ => Kind::Other,
        }
    }

    fn words(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A human-readable byte count.
pub(crate) fn bytes(count: usize) -> String {
    let count = count as f64;
    match count {
        1e9.. => format!("{:.2} GB", count / 1e9),
        1e6.. => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.1} kB", count / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: CUresult) -> CudaError {
        // Names only: without a driver there is no description, and asking for one would look for a driver.
        struct Named(DriverError);
        impl Failure for Named {
            fn kind(&self) -> Kind {
                self.0.kind()
            }
            fn words(&self) -> String {
                format!("{:?}", self.0.0)
            }
        }
        Err::<(), _>(Named(DriverError(code))).doing("counting ranks").unwrap_err()
    }

    #[test]
    fn bytes_are_told_in_their_own_size() {
        assert_eq!([40, 2_500_000, 3_000_000_000].map(bytes), ["0.0 kB", "2.5 MB", "3.00 GB"]);
    }

    #[test]
    fn failures_are_told_apart_by_what_to_do() {
        let lost = said(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE);
        assert!(matches!(lost, CudaError::Lost { .. }) && lost.is_lasting());
        assert!(
            lost.to_string().contains("ECC_UNCORRECTABLE") && lost.to_string().contains("checkpoint is good"),
            "{lost}"
        );
        let full = said(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        assert!(matches!(full, CudaError::Full { .. }) && !full.is_lasting());
        assert!(full.to_string().contains("model.dimension"), "{full}");
        let fault = said(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert!(matches!(fault, CudaError::Fault { .. }) && fault.to_string().contains("report"), "{fault}");
        let driver = said(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
        assert!(matches!(driver, CudaError::Driver { .. }) && driver.to_string().contains("update it"), "{driver}");
        assert!(matches!(said(CUresult::CUDA_ERROR_INVALID_VALUE), CudaError::Failed { .. }));
    }
}
