//! Row-major matrix products by cuBLAS.

use cudarc::cublas::result::gemm_ex;
use cudarc::cublas::sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
use cudarc::cublas::sys::cublasGemmAlgo_t::CUBLAS_GEMM_DFALT;
use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::sys::cudaDataType::{CUDA_R_16F, CUDA_R_32F};

use crate::device::{Buffer, Device};
use crate::error::{Doing, Result};
use crate::softmax::padded;

/// Number format of a factor. Sums always have 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    /// 32 bits.
    Full,
    /// 16 bits, eleven of them significant, for the tensor cores. Not used for ranking.
    Half,
}

impl Number {
    /// Bytes per number.
    pub fn bytes(self) -> usize {
        match self {
            Number::Full => 4,
            Number::Half => 2,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    address: u64,
    stride: usize,
    number: Number,
    transposed: bool,
}

impl Matrix {
    /// Rows `stride` numbers apart.
    pub fn rows(address: u64, stride: usize) -> Self {
        Self { address, stride, number: Number::Full, transposed: false }
    }

    /// The same with another number format.
    pub fn of(self, number: Number) -> Self {
        Self { number, ..self }
    }

    /// The transposed matrix.
    pub fn transposed(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }
}

/// Rows, columns, and the length of the sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub rows: usize,
    pub columns: usize,
    pub inner: usize,
}

/// The target of a product: the address of its first row, and the distance between rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub address: u64,
    pub stride: usize,
    /// Factor on the product.
    pub scale: f32,
    /// Whether to add to the current content.
    pub add: bool,
}

impl Out {
    /// A plain product.
    pub fn rows(address: u64, stride: usize) -> Self {
        Self { address, stride, scale: 1.0, add: false }
    }
}

impl Device {
    /// `out` = a · b.
    ///
    /// # Safety
    /// All three matrices must be in memory of this GPU that outlives the call, with the rows and columns of `size`.
    pub(crate) unsafe fn multiply(
        &self,
        size: Size,
        a: Matrix,
        b: Matrix,
        out: Out,
        doing: &'static str,
    ) -> Result<()> {
        let Size { rows, columns, inner } = size;
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let turned = |x: Matrix| if x.transposed { CUBLAS_OP_T } else { CUBLAS_OP_N };
        let kind = |x: Matrix| if x.number == Number::Half { CUDA_R_16F } else { CUDA_R_32F };
        let old = if out.add { 1.0f32 } else { 0.0 };
        // cuBLAS is column-major, so we compute the transposed product: bᵀ before aᵀ.
        // SAFETY: the caller guarantees the matrices; the scalars live until the call returns.
        unsafe {
            gemm_ex(
                *self.blas.handle(),
                turned(b),
                turned(a),
                columns as i32,
                rows as i32,
                inner as i32,
                std::ptr::from_ref(&out.scale).cast(),
                b.address as *const _,
                kind(b),
                b.stride as i32,
                a.address as *const _,
                kind(a),
                a.stride as i32,
                std::ptr::from_ref(&old).cast(),
                out.address as *mut _,
                CUDA_R_32F,
                out.stride as i32,
                CUBLAS_COMPUTE_32F,
                CUBLAS_GEMM_DFALT,
            )
        }
        .doing(doing)
    }
}

/// Wall seconds of each of a batch's three products, in 16 bits: the lower bound of a step, for benchmarks.
pub fn measure_products(
    device: &Device,
    batch: usize,
    entities: usize,
    width: usize,
    repeats: usize,
) -> Result<[f64; 3]> {
    let (stride, number) = (padded(entities), Number::Half);
    let (table, queries) = (device.zeros::<u16>(stride * width)?, device.zeros::<u16>(batch * width)?);
    let slopes = device.zeros::<u16>(batch * stride)?;
    let (back, scores) = (device.zeros::<f32>(batch * width)?, device.zeros::<f32>(batch * stride)?);
    let gradients = device.zeros::<f32>(stride * width)?;
    let rows = |buffer: &Buffer<u16>, stride: usize| Matrix::rows(buffer.address, stride).of(number);
    let of = |rows: usize, columns: usize, inner: usize| Size { rows, columns, inner };
    let products = [
        (of(batch, stride, width), rows(&queries, width), rows(&table, width).transposed(), (&scores, stride)),
        (of(batch, width, stride), rows(&slopes, stride), rows(&table, width), (&back, width)),
        (of(stride, width, batch), rows(&slopes, stride).transposed(), rows(&queries, width), (&gradients, width)),
    ];
    let mut seconds = [0.0; 3];
    for (seconds, (size, a, b, (out, stride))) in seconds.iter_mut().zip(products) {
        // SAFETY: the buffers were created for these sizes and live until the GPU has finished.
        let once = || unsafe { device.multiply(size, a, b, Out::rows(out.address, stride), "measuring") };
        once()?;
        device.wait()?;
        let started = std::time::Instant::now();
        for _ in 0..repeats {
            once()?;
        }
        device.wait()?;
        *seconds = started.elapsed().as_secs_f64() / repeats.max(1) as f64;
    }
    Ok(seconds)
}
