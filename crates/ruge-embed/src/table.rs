//! Tables of float rows, padded and aligned to cache lines.

use std::fmt;

/// Floats per cache line; rows start at multiples of it.
pub const LINE: usize = 16;

/// A dense table of `f32` rows. Each row starts on a cache line; its padding is zero and stays zero.
pub struct Table {
    rows: usize,
    width: usize,
    stride: usize,
    /// One line longer than needed, so that an aligned start exists.
    storage: Vec<f32>,
    start: usize,
}

impl Table {
    /// A table of zeros.
    pub fn zeros(rows: usize, width: usize) -> Self {
        let stride = width.next_multiple_of(LINE).max(LINE);
        let storage = vec![0.0f32; rows * stride + LINE];
        // An offset of at most one line; if alignment is impossible, any start will do.
        let start = storage.as_ptr().align_offset(4 * LINE).min(LINE);
        Self { rows, width, stride, storage, start }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Floats per row, without padding.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Floats from one row to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        4 * self.storage.len()
    }

    /// One row.
    #[inline(always)]
    pub fn row(&self, index: usize) -> &[f32] {
        let from = self.start + index * self.stride;
        &self.storage[from..from + self.width]
    }

    /// One row, mutable.
    #[inline(always)]
    pub fn row_mut(&mut self, index: usize) -> &mut [f32] {
        let from = self.start + index * self.stride;
        &mut self.storage[from..from + self.width]
    }

    /// All rows with their padding, `stride` floats each.
    #[inline(always)]
    pub fn as_slice(&self) -> &[f32] {
        &self.storage[self.start..self.start + self.rows * self.stride]
    }

    /// All rows with their padding, mutable; padding must stay zero.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.storage[self.start..self.start + self.rows * self.stride]
    }

    /// The rows concatenated without padding.
    pub fn to_dense(&self) -> Vec<f32> {
        (0..self.rows).flat_map(|row| self.row(row).iter().copied()).collect()
    }

    /// A table from concatenated rows without padding. Panics if `dense` is not rows × width long.
    pub fn from_dense(rows: usize, width: usize, dense: &[f32]) -> Self {
        assert_eq!(dense.len(), rows * width, "a table of {rows} rows of {width} floats");
        let mut table = Self::zeros(rows, width);
        for (index, row) in dense.chunks_exact(width.max(1)).enumerate() {
            table.row_mut(index).copy_from_slice(row);
        }
        table
    }

    /// Copies another table of the same shape, without allocating.
    pub fn copy_from(&mut self, other: &Self) {
        self.as_mut_slice().copy_from_slice(other.as_slice());
    }

    /// Whether every number is finite.
    pub fn is_finite(&self) -> bool {
        self.as_slice().iter().all(|x| x.is_finite())
    }
}

impl Clone for Table {
    fn clone(&self) -> Self {
        let mut table = Self::zeros(self.rows, self.width);
        table.copy_from(self);
        table
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.width == other.width && self.as_slice() == other.as_slice()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table of {} rows of {} floats", self.rows, self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_start_on_cache_lines_and_survive_copies() {
        let dense: Vec<f32> = (0..21).map(|x| x as f32).collect();
        let table = Table::from_dense(3, 7, &dense).clone();
        assert_eq!(table.to_dense(), dense);
        assert_eq!(table.row(1), [7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0]);
        assert_eq!(table.row(2).as_ptr() as usize % 64, 0);
    }
}
