//! Matrix products with bounds checks, summed in the same order on every machine.
//!
//! The `gemm` crate multiplies. By default it also chooses the order of summation: by register width if few elements
//! have long sums, and by the size of the L1 cache if a sum has more than 512 products. So `order.rs` chooses the order
//! from the shapes alone, and `gemm` only gets blocks that it sums in one way on any machine: one product after the
//! other, fused. Everything else is summed in `order.rs`, as are the blocks on machines without fused multiply-add.
//!
//! A product uses one thread. Callers split the work at fixed positions, so no sum depends on the number of threads.

use super::Isa;
use super::order::{Order, Summed};

/// A matrix in a slice: element (i, j) is at i · row_stride + j · column_stride.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// The elements.
    pub data: &'a [f32],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Distance between rows.
    pub row_stride: usize,
    /// Distance between columns.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` rows of `columns` floats, `stride` apart.
    pub fn of_rows(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        Self { data, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// The transposed matrix.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// `count` columns from `first` on.
    pub(super) fn some_columns(self, first: usize, count: usize) -> Self {
        Self { data: &self.data[first * self.column_stride..], columns: count, ..self }
    }

    /// `count` rows from `first` on.
    pub fn some_rows(self, first: usize, count: usize) -> Self {
        self.transposed().some_columns(first, count).transposed()
    }

    fn fits(&self) -> bool {
        let last = |count: usize, stride: usize| count.saturating_sub(1) * stride;
        self.rows == 0
            || self.columns == 0
            || last(self.rows, self.row_stride) + last(self.columns, self.column_stride) < self.data.len()
    }
}

/// `out` = a · b, or `out` += a · b; `out` has rows of b's columns, `stride` apart. Panics if the shapes do not match.
pub fn multiply(isa: Isa, a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], stride: usize, add: bool) {
    product(isa, Order::of(a, b, a.rows), a, b, out, stride, add);
}

/// Like [`multiply`] for some rows of a matrix with `rows` rows, with the same bits as in the whole product.
pub fn multiply_part(isa: Isa, rows: usize, a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], stride: usize, add: bool) {
    product(isa, Order::of(a, b, rows), a, b, out, stride, add);
}

/// Like [`multiply`], with the same bits. If the last columns of `out` would fill only a quarter of a register tile,
/// they share a tile with columns of the previous one.
pub fn multiply_wide(isa: Isa, a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], stride: usize, add: bool) {
    /// Columns of a register tile with 512-bit registers, and of three quarters of one.
    const TILE: usize = 64;
    const TAIL: usize = 48;
    let (n, order) = (b.columns, Order::of(a, b, a.rows));
    if n < TILE || !(1..=TILE / 4).contains(&(n % TILE)) {
        return product(isa, order, a, b, out, stride, add);
    }
    let head = n - TAIL;
    product(isa, order, a, b.some_columns(0, head), out, stride, add);
    product(isa, order, a, b.some_columns(head, TAIL), &mut out[head..], stride, add);
}

fn product(isa: Isa, order: Order, a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], stride: usize, add: bool) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    assert_eq!(k, b.rows, "a's columns meet b's rows");
    if m == 0 || n == 0 {
        return;
    }
    assert!(
        a.fits() && b.fits() && n <= stride && (m - 1) * stride + n <= out.len(),
        "matrices lie inside their slices"
    );
    if k == 0 {
        if !add {
            out.chunks_mut(stride).take(m).for_each(|row| row[..n].fill(0.0));
        }
        return;
    }
    let Order::Blocks(block) = order else {
        return Summed { a, b, stride, add, order }.into(isa, out);
    };
    for first in (0..k).step_by(block) {
        let count = block.min(k - first);
        let (a, b, add) = (a.some_columns(first, count), b.some_rows(first, count), add || first > 0);
        // A narrow part or short end, which the crate would sum in a different order.
        if matches!(Order::of(a, b, m), Order::Blocks(_)) && isa.multiplies() {
            by_the_crate(isa, a, b, out, stride, add);
        } else {
            Summed { a, b, stride, add, order }.into(isa, out);
        }
    }
}

impl Isa {
    /// Whether the `gemm` crate has fused kernels for this instruction set.
    fn multiplies(self) -> bool {
        self != Self::Portable || cfg!(target_arch = "aarch64")
    }
}

/// The product as summed by the `gemm` crate. Up to 512 products per element are one sum, whatever the caches. Public
/// for the test that compares it with [`multiply`].
#[doc(hidden)]
pub fn by_the_crate(isa: Isa, a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], stride: usize, add: bool) {
    let (m, n) = (a.rows, b.columns);
    assert!(
        a.columns == b.rows && a.fits() && b.fits() && n <= stride && (m.max(1) - 1) * stride + n <= out.len(),
        "matrices lie inside their slices"
    );
    let kernel = kernel(isa);
    // The crate's tiles run along columns, ours along rows, so we compute the transposed product.
    // SAFETY: the assertion above keeps every element of the three matrices inside its slice; `out` is borrowed
    // mutably, so it overlaps neither of the others; `kernel` returns functions for supported instruction sets only.
    unsafe {
        kernel(
            n,
            m,
            a.columns,
            out.as_mut_ptr(),
            stride as isize,
            1,
            add,
            b.data.as_ptr(),
            b.row_stride as isize,
            b.column_stride as isize,
            a.data.as_ptr(),
            a.row_stride as isize,
            a.column_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm_common::Parallelism::None,
        );
    }
}

/// m, n, k; the result with its column and row strides, and whether to add to it; both matrices with theirs; two
/// factors; three unused conjugations; threads.
type Product = unsafe fn(
    usize,
    usize,
    usize,
    *mut f32,
    isize,
    isize,
    bool,
    *const f32,
    isize,
    isize,
    *const f32,
    isize,
    isize,
    f32,
    f32,
    bool,
    bool,
    bool,
    gemm_common::Parallelism,
);

/// The crate's product for an instruction set. Panics if the machine does not support it.
fn kernel(isa: Isa) -> Product {
    assert!(isa.is_supported(), "the machine has no {isa:?}");
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => with_avx2,
        // The widest of the machine: AVX-512, which was detected, or NEON.
        _ => gemm_f32::gemm::f32::get_gemm_fn(),
    }
}

/// The crate's product in 256-bit registers, even if it would choose wider ones.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::too_many_arguments)]
unsafe fn with_avx2(
    m: usize,
    n: usize,
    k: usize,
    out: *mut f32,
    out_cs: isize,
    out_rs: isize,
    add: bool,
    a: *const f32,
    a_cs: isize,
    a_rs: isize,
    b: *const f32,
    b_cs: isize,
    b_rs: isize,
    alpha: f32,
    beta: f32,
    conj_out: bool,
    conj_a: bool,
    conj_b: bool,
    threads: gemm_common::Parallelism,
) {
    use gemm_f32::microkernel::fma::f32::{H_M, H_N, H_UKR, MR_DIV_N, NR, UKR};
    const LANES: usize = 8;
    let simd = gemm_common::simd::V3::try_new().expect("AVX2 and FMA were found");
    // SAFETY: the caller guarantees pointers and strides; the token proves that the instructions exist.
    unsafe {
        gemm_common::gemm::gemm_basic_generic::<_, f32, LANES, { MR_DIV_N * LANES }, NR, MR_DIV_N, H_M, H_N>(
            simd,
            m,
            n,
            k,
            out,
            out_cs,
            out_rs,
            add,
            a,
            a_cs,
            a_rs,
            b,
            b_cs,
            b_rs,
            alpha,
            beta,
            conj_out,
            conj_a,
            conj_b,
            |x, y, z| x * y + z,
            &UKR,
            &H_UKR,
            false,
            threads,
        );
    }
}
