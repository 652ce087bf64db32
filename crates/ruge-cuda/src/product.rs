//! Products of matrices by cuBLAS, told in rows: every table of ours holds a row after the other.

use cudarc::cublas::result::gemm_ex;
use cudarc::cublas::sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
use cudarc::cublas::sys::cublasGemmAlgo_t::CUBLAS_GEMM_DFALT;
use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::sys::cudaDataType::{CUDA_R_16F, CUDA_R_32F};

use crate::device::Device;
use crate::error::{Doing, Result};

/// How the numbers of a factor are held. Sums are always of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    /// 32 bits.
    Full,
    /// 16 bits, eleven of them significant, for the tensor cores. Ranking never rounds.
    Half,
}

impl Number {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Number::Full => 4,
            Number::Half => 2,
        }
    }
}

/// A matrix on the card.
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

    /// The same of other numbers.
    pub fn of(self, number: Number) -> Self {
        Self { number, ..self }
    }

    /// The same, rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }
}

/// Rows, columns, and what is summed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub rows: usize,
    pub columns: usize,
    pub inner: usize,
}

/// Where a product goes: the address of its first row, and how far apart rows are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub address: u64,
    pub stride: usize,
    /// What the product is multiplied by.
    pub scale: f32,
    /// Whether it is added to what is there.
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
    /// All three matrices lie in memory of this card that outlives the call, with the rows and columns that `size` says.
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
        // cuBLAS counts columns first, so it is asked for the transposed product: bᵀ before aᵀ.
        // SAFETY: the caller vouches for the matrices; the scalars live until the call returns.
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
