//! Products of matrices, by the `gemm` crate, over slices that were checked.
//!
//! One thread per product: whoever splits the work splits it at fixed places, so that no sum depends on the number of threads.

/// A matrix in a slice: element (i, j) stands at i · row_stride + j · column_stride.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Where the elements stand.
    pub data: &'a [f32],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Distance of two rows.
    pub row_stride: usize,
    /// Distance of two columns.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` rows of `columns` floats, `stride` apart.
    pub fn of_rows(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        Self { data, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// The same elements, rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    fn fits(&self) -> bool {
        let last = |count: usize, stride: usize| count.saturating_sub(1) * stride;
        self.rows == 0
            || self.columns == 0
            || last(self.rows, self.row_stride) + last(self.columns, self.column_stride) < self.data.len()
    }
}

/// `out` = a · b, or `out` += a · b; `out` has rows of b's columns, `stride` apart. Panics where shapes do not fit.
pub fn multiply(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], stride: usize, add: bool) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    assert_eq!(k, b.rows, "a's columns meet b's rows");
    if m == 0 || n == 0 {
        return;
    }
    assert!(
        a.fits() && b.fits() && n <= stride && (m - 1) * stride + n <= out.len(),
        "matrices lie inside their slices"
    );
    // SAFETY: the assertions above keep every element of the three matrices inside its slice, and `out` is borrowed
    // mutably, so it overlaps neither of the others.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            stride as isize,
            add,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_by_hand() {
        let a: Vec<f32> = (1..=6).map(|x| x as f32).collect();
        let b: Vec<f32> = (1..=8).map(|x| x as f32).collect();
        let mut out = vec![10.0; 6];
        // 2 × 3 times (2 × 3)ᵀ, rows of `out` three apart.
        let left = Matrix::of_rows(&a, 2, 3, 3);
        let right = Matrix::of_rows(&b, 2, 3, 4).transposed();
        multiply(left, right, &mut out, 3, false);
        assert_eq!(out, [14.0, 38.0, 10.0, 32.0, 92.0, 10.0]);
        multiply(left, right, &mut out, 3, true);
        assert_eq!(out, [28.0, 76.0, 10.0, 64.0, 184.0, 10.0]);
    }
}
