//! Finding the GPU, compiling kernels, moving memory.

use std::sync::Arc;

use cudarc::cublas::CudaBlas;
use cudarc::driver::result::DriverError;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits,
};
use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts};

use crate::error::{CudaError, Doing, Failure, Kind, Result, bytes};
use crate::source::{self, Constants, Program};

/// An open GPU.
#[derive(Clone)]
pub struct Device {
    context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) blas: Arc<CudaBlas>,
    architecture: &'static str,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device {}", self.name())
    }
}

impl Device {
    /// Opens the first GPU.
    pub fn open() -> Result<Self> {
        present("libcuda", cudarc::driver::sys::is_culib_present)?;
        let driver = driver_version()?;
        if driver < LEAST_DRIVER {
            return Err(too_old(driver, LEAST_DRIVER));
        }
        opened(cudarc::driver::result::init())?;
        present("libnvrtc", cudarc::nvrtc::sys::is_culib_present)?;
        // A driver accepts the output of compilers of its own major version. Within one it may or may not, and reports
        // that when the first kernel is loaded.
        let compiler = compiler_version()?;
        if driver / 1000 < compiler / 1000 {
            return Err(too_old(driver, compiler));
        }
        present("libcublas", cudarc::cublas::sys::is_culib_present)?;
        let context = opened(CudaContext::new(0))?;
        // SAFETY: everything below runs in order on one stream, so no events between streams are needed.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().doing("opening a stream")?;
        let blas = Arc::new(CudaBlas::new(stream.clone()).doing("opening cuBLAS")?);
        let (major, minor) = context.compute_capability().doing("asking for its kind")?;
        if (major, minor) < LEAST_CARD {
            let name = context.name().unwrap_or_default();
            let what = format!("computing on {name}, whose capability is {major}.{minor} and not 7.5 at least,");
            return Err(CudaError::Unsupported { what });
        }
        let architecture = source::architecture((major, minor), compiler);
        Ok(Self { context, stream, blas, architecture })
    }

    /// The GPU's name.
    pub fn name(&self) -> String {
        self.context.name().unwrap_or_else(|_| "unknown GPU".into())
    }

    /// Free bytes.
    pub fn free(&self) -> Result<usize> {
        Ok(self.context.mem_get_info().doing("asking for free memory")?.0)
    }

    /// Waits for all work.
    pub fn wait(&self) -> Result<()> {
        self.stream.synchronize().doing("computing")
    }

    pub(crate) fn compile(&self, constants: &Constants, part: Program) -> Result<Kernels> {
        let ptx = compile(&source::program(constants, part), self.architecture)?;
        Ok(Kernels { module: self.context.load_module(ptx).doing("loading kernels")? })
    }

    /// Rejects a request that does not fit in memory, with the sizes of its parts.
    pub(crate) fn require(&self, parts: &[(&str, usize)], remedy: &'static str) -> Result<()> {
        let (needed, free) = (parts.iter().map(|part| part.1).sum::<usize>(), self.free()?);
        if needed <= free {
            return Ok(());
        }
        let used = parts.iter().filter(|part| part.1 > 0);
        let words: Vec<String> = used.map(|(what, size)| format!("{what} {}", bytes(*size))).collect();
        Err(CudaError::Memory { needed: bytes(needed), free: bytes(free), parts: words.join(", "), remedy })
    }

    /// Explains an allocation that failed although the memory was measured as free.
    fn allocated<T>(&self, size: usize, result: std::result::Result<T, DriverError>) -> Result<T> {
        match result {
            Err(error) if error.kind() == Kind::Memory => Err(CudaError::Full {
                asked: bytes(size),
                doing: "a buffer",
                free: self.free().map_or(String::new(), |free| format!(", {} free", bytes(free))),
            }),
            other => other.doing("allocating memory"),
        }
    }

    pub(crate) fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, count: usize) -> Result<Buffer<T>> {
        let slice = self.allocated(count * size_of::<T>(), self.stream.alloc_zeros(count.max(1)))?;
        Ok(Buffer::new(slice, &self.stream))
    }

    /// Uninitialised memory: every float is written before it is read.
    pub(crate) fn room(&self, count: usize) -> Result<Buffer<f32>> {
        // SAFETY: any bits are a valid float.
        let slice = self.allocated(4 * count, unsafe { self.stream.alloc::<f32>(count.max(1)) })?;
        Ok(Buffer::new(slice, &self.stream))
    }

    pub(crate) fn copy<T: DeviceRepr + ValidAsZeroBits>(&self, host: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.zeros(host.len())?;
        self.put(host, &mut buffer)?;
        Ok(buffer)
    }

    /// Copies to the start of a buffer.
    pub(crate) fn put<T: DeviceRepr>(&self, host: &[T], buffer: &mut Buffer<T>) -> Result<()> {
        if host.is_empty() {
            return Ok(());
        }
        let mut view = buffer.slice.slice_mut(..host.len());
        self.stream.memcpy_htod(host, &mut view).doing("copying to the GPU")
    }

    /// Copies the start of a buffer to the host and waits for it.
    pub(crate) fn get<T: DeviceRepr>(&self, buffer: &Buffer<T>, host: &mut [T]) -> Result<()> {
        if host.is_empty() {
            return Ok(());
        }
        let view = buffer.slice.slice(..host.len());
        self.stream.memcpy_dtoh(&view, host).doing("copying from the GPU")?;
        self.wait()
    }

    pub(crate) fn clear<T: DeviceRepr + ValidAsZeroBits>(&self, buffer: &mut Buffer<T>) -> Result<()> {
        self.stream.memset_zeros(&mut buffer.slice).doing("clearing memory")
    }
}

/// Explains a failure to start the driver or to open a GPU.
fn opened<T>(result: std::result::Result<T, DriverError>) -> Result<T> {
    match result {
        Err(error) if error.is_absence() => Err(CudaError::NoCard { reason: error.words() }),
        other => other.doing("opening the GPU"),
    }
}

/// The oldest compute capability that the compilers of CUDA 13 support.
const LEAST_CARD: (i32, i32) = (7, 5);

/// Drivers before CUDA 12 lack functions used here.
const LEAST_DRIVER: i32 = 12_000;

fn present(library: &'static str, look: unsafe fn() -> bool) -> Result<()> {
    // SAFETY: this only tries to load a library by name.
    if unsafe { look() } { Ok(()) } else { Err(CudaError::Missing { library }) }
}

/// The newest CUDA version the driver supports, as 1000 · major + 10 · minor.
fn driver_version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: the driver writes one number; this call needs no initialisation.
    unsafe { cudarc::driver::sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .doing("asking for the driver's version")?;
    Ok(version)
}

/// The compiler's version in the same form.
fn compiler_version() -> Result<i32> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the compiler writes two numbers.
    match unsafe { cudarc::nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor) } {
        cudarc::nvrtc::sys::nvrtcResult::NVRTC_SUCCESS => Ok(1000 * major + 10 * minor),
        other => Err(CudaError::Failed { doing: "asking for NVRTC's version", reason: format!("{other:?}") }),
    }
}

fn too_old(driver: i32, needed: i32) -> CudaError {
    let words = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
    let reason = format!("it knows CUDA {}, and CUDA {} is needed", words(driver), words(needed));
    CudaError::Driver { reason }
}

/// Compiles a program for an architecture such as `compute_90`; needs NVRTC but no GPU.
pub(crate) fn compile(program: &str, architecture: &'static str) -> Result<cudarc::nvrtc::Ptx> {
    let options =
        CompileOptions { arch: Some(architecture), options: vec!["--std=c++17".into()], ..Default::default() };
    compile_ptx_with_opts(program, options).map_err(|error| CudaError::Compile {
        log: match error {
            CompileError::CompileError { log, .. } => log.to_string_lossy().into_owned(),
            other => format!("{other:?}"),
        },
    })
}

/// A recorded epoch. Only the model that owns the graph uses it.
pub(crate) struct Recorded(pub CudaGraph);

// SAFETY: graphs must not be used by two threads at once; this one is accessed only through `&mut CudaModel`.
unsafe impl Send for Recorded {}
// SAFETY: as above; nothing accesses it through a shared reference.
unsafe impl Sync for Recorded {}

pub(crate) struct Kernels {
    module: Arc<CudaModule>,
}

impl Kernels {
    pub fn get(&self, name: &str) -> Result<CudaFunction> {
        self.module.load_function(name).doing("finding a kernel")
    }
}

/// Memory on the GPU, with its address for kernels.
pub(crate) struct Buffer<T> {
    pub slice: CudaSlice<T>,
    pub address: u64,
}

impl<T> Buffer<T> {
    fn new(slice: CudaSlice<T>, stream: &Arc<CudaStream>) -> Self {
        let address = slice.device_ptr(stream).0;
        Self { slice, address }
    }
}
