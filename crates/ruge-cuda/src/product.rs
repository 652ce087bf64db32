//! Products of matrices by cuBLAS, told in rows: every table of ours holds a row after the other.

use cudarc::cublas::result::sgemm;
use cudarc::cublas::sys::cublasMath_t::{CUBLAS_DEFAULT_MATH, CUBLAS_TF32_TENSOR_OP_MATH};
use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::sys::cublasSetMathMode;

use crate::device::Device;
use crate::error::{Doing, Result};

/// A matrix on the card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    address: u64,
    stride: usize,
    transposed: bool,
}

impl Matrix {
    /// Rows `stride` floats apart.
    pub fn rows(address: u64, stride: usize) -> Self {
        Self { address, stride, transposed: false }
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

impl Device {
    /// `out` = a · b; `out` is the address of its first row, its rows are `stride` floats apart.
    ///
    /// # Safety
    /// All three matrices lie in memory of this card that outlives the call, with the rows and columns that `size` says.
    pub(crate) unsafe fn multiply(
        &self,
        size: Size,
        a: Matrix,
        b: Matrix,
        out: (u64, usize),
        doing: &'static str,
    ) -> Result<()> {
        // SAFETY: the caller's word.
        unsafe { self.multiply_onto(false, size, a, b, out, doing) }
    }

    /// The same, or `out` += a · b.
    ///
    /// # Safety
    /// As for [`Device::multiply`].
    pub(crate) unsafe fn multiply_onto(
        &self,
        add: bool,
        size: Size,
        a: Matrix,
        b: Matrix,
        out: (u64, usize),
        doing: &'static str,
    ) -> Result<()> {
        let Size { rows, columns, inner } = size;
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let turned = |x: Matrix| if x.transposed { CUBLAS_OP_T } else { CUBLAS_OP_N };
        let (one, old) = (1.0f32, if add { 1.0f32 } else { 0.0 });
        // cuBLAS counts columns first, so it is asked for the transposed product: bᵀ before aᵀ.
        // SAFETY: the caller vouches for the matrices; the scalars live until the call returns.
        unsafe {
            sgemm(
                *self.blas.handle(),
                turned(b),
                turned(a),
                columns as i32,
                rows as i32,
                inner as i32,
                &one,
                b.address as *const f32,
                b.stride as i32,
                a.address as *const f32,
                a.stride as i32,
                &old,
                out.0 as *mut f32,
                out.1 as i32,
            )
        }
        .doing(doing)
    }

    /// Lets products round their factors to ten bits for the tensor cores, or not. Ranking never does.
    pub(crate) fn set_rounding(&self, rounded: bool) -> Result<()> {
        let mode = if rounded { CUBLAS_TF32_TENSOR_OP_MATH } else { CUBLAS_DEFAULT_MATH };
        // SAFETY: the handle lives as long as the device.
        unsafe { cublasSetMathMode(*self.blas.handle(), mode) }.result().doing("choosing the precision")
    }
}
