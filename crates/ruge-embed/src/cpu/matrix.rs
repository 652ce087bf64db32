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

    fn some_columns(self, first: usize, count: usize) -> Self {
        Self { data: &self.data[first * self.column_stride..], columns: count, ..self }
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

/// As [`multiply`], to the same bits. Where `out`'s last columns would fill a quarter of a register tile, they share another tile
/// with columns of the one before.
pub fn multiply_wide(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], stride: usize, add: bool) {
    /// Columns of a tile in registers of 512 bits, and of three quarters of one.
    const TILE: usize = 64;
    const TAIL: usize = 48;
    let n = b.columns;
    if n < TILE || !(1..=TILE / 4).contains(&(n % TILE)) {
        return multiply(a, b, out, stride, add);
    }
    let head = n - TAIL;
    multiply(a, b.some_columns(0, head), out, stride, add);
    multiply(a, b.some_columns(head, TAIL), &mut out[head..], stride, add);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_products_are_the_same() {
        for (m, k, n) in [(60, 30, 80), (7, 512, 400), (9, 5, 66), (50, 9, 64), (3, 4, 8)] {
            let fill =
                |count: usize, salt: usize| (0..count).map(move |i| ((i * 7919 + salt) % 101) as f32 / 7.0 - 6.0);
            let (a, b): (Vec<f32>, Vec<f32>) = (fill(m * k, 1).collect(), fill(k * (n + 3), 2).collect());
            let (a, b) = (Matrix::of_rows(&a, m, k, k), Matrix::of_rows(&b, k, n, n + 3));
            for add in [false, true] {
                let mut plain: Vec<f32> = fill(m * (n + 1), 3).collect();
                let mut wide = plain.clone();
                multiply(a, b, &mut plain, n + 1, add);
                multiply_wide(a, b, &mut wide, n + 1, add);
                assert_eq!(plain, wide, "{m} x {k} x {n}");
            }
        }
    }

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
