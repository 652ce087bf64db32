//! The order of summation in matrix products, and its implementation in plain Rust.
//!
//! The orders are those of the `gemm` crate with 512-bit registers, which produced all recorded results. Where the
//! crate's order depends on its register width, [`Summed`] implements it for every instruction set.

use super::matrix::Matrix;
use super::row::{Lanes, fold};
use super::{Isa, Kernel};

/// How an element, a sum of products, is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Few elements with contiguous factors: sixteen lanes, folded after every 1024 products.
    Lanes,
    /// At most two products, each rounded and added to the element.
    Pairs,
    /// One row of factors: products fused into the element one after the other.
    Straight,
    /// One row or one column of contiguous factors: eight times sixteen lanes.
    Wide,
    /// Everything else: blocks of this many products, fused one by one from zero, then added to the element.
    Blocks(usize),
}

impl Order {
    /// Maximum products per block.
    const BLOCK: usize = 512;

    /// The order for a · b, where a is part of a matrix with `rows` rows.
    pub fn of(a: Matrix<'_>, b: Matrix<'_>, rows: usize) -> Self {
        let (k, n) = (a.columns, b.columns);
        let side_by_side = a.column_stride == 1 && b.row_stride == 1;
        if side_by_side && rows * n <= 256 {
            Self::Lanes
        } else if k <= 2 {
            Self::Pairs
        } else if rows == 1 && b.column_stride == 1 {
            Self::Straight
        } else if side_by_side && (rows == 1 || n == 1) {
            Self::Wide
        } else if rows <= 64 && n <= 64 {
            Self::Blocks(Self::BLOCK)
        } else {
            // Blocks of about equal size.
            Self::Blocks(k.div_ceil(k.div_ceil(Self::BLOCK)))
        }
    }
}

/// A product to sum in plain Rust; for [`Order::Blocks`], one block of it. The shapes are checked.
pub(super) struct Summed<'a> {
    pub a: Matrix<'a>,
    pub b: Matrix<'a>,
    /// Distance between rows of the result.
    pub stride: usize,
    pub add: bool,
    pub order: Order,
}

impl Summed<'_> {
    /// Computes the product into `out`.
    pub fn into(self, isa: Isa, out: &mut [f32]) {
        // If the CPU fuses, the compiler uses its instruction; elsewhere the library function is slow.
        if isa == Isa::Portable && cfg!(target_arch = "x86_64") {
            isa.run(Sum::<true> { of: self, out });
        } else {
            isa.run(Sum::<false> { of: self, out });
        }
    }
}

struct Sum<'a, const SOFT: bool> {
    of: Summed<'a>,
    out: &'a mut [f32],
}

impl<const SOFT: bool> Kernel for Sum<'_, SOFT> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Summed { a, b, stride, add, order } = self.of;
        let (k, n) = (a.columns, b.columns);
        for (i, out) in self.out.chunks_mut(stride).take(a.rows).enumerate() {
            let out = &mut out[..n];
            match order {
                Order::Lanes | Order::Wide => {
                    for (j, out) in out.iter_mut().enumerate() {
                        let x = &a.data[i * a.row_stride..][..k];
                        let y = &b.data[j * b.column_stride..][..k];
                        let before = add.then_some(*out);
                        *out = if order == Order::Lanes {
                            lanes::<SOFT>(x, y, before)
                        } else {
                            wide::<SOFT>(x, y, before)
                        };
                    }
                }
                Order::Pairs => {
                    for p in 0..k {
                        let x = a.data[i * a.row_stride + p * a.column_stride];
                        for (j, out) in out.iter_mut().enumerate() {
                            let term = x * b.data[p * b.row_stride + j * b.column_stride];
                            *out = if add || p > 0 { *out + term } else { term };
                        }
                    }
                }
                Order::Straight | Order::Blocks(_) => {
                    for (from, out) in out.chunks_mut(16).enumerate() {
                        chain::<SOFT>(a, b, i, 16 * from, out, add, order == Order::Straight);
                    }
                }
            }
        }
    }
}

/// Sixteen lanes, folded after every 1024 products.
#[inline(always)]
fn lanes<const SOFT: bool>(x: &[f32], y: &[f32], mut before: Option<f32>) -> f32 {
    for (x, y) in x.chunks(1024).zip(y.chunks(1024)) {
        let mut sums: Lanes = [0.0; 16];
        let (x_chunks, x_rest) = x.as_chunks::<16>();
        let (y_chunks, y_rest) = y.as_chunks::<16>();
        for (x, y) in x_chunks.iter().zip(y_chunks) {
            add_products::<SOFT>(&mut sums, x, y);
        }
        if !x_rest.is_empty() {
            let mut rest = [[0.0; 16]; 2];
            rest[0][..x_rest.len()].copy_from_slice(x_rest);
            rest[1][..y_rest.len()].copy_from_slice(y_rest);
            add_products::<SOFT>(&mut sums, &rest[0], &rest[1]);
        }
        let sum = fold(sums);
        before = Some(before.map_or(sum, |before| before + sum));
    }
    before.unwrap_or(0.0)
}

/// Eight times sixteen lanes, added in pairs; then sixteen lanes, added one by one; then the last products.
#[inline(always)]
fn wide<const SOFT: bool>(x: &[f32], y: &[f32], before: Option<f32>) -> f32 {
    let (x_chunks, x_rest) = x.as_chunks::<16>();
    let (y_chunks, y_rest) = y.as_chunks::<16>();
    let (x_eights, x_chunks) = x_chunks.as_chunks::<8>();
    let (y_eights, y_chunks) = y_chunks.as_chunks::<8>();
    let mut eight: [Lanes; 8] = [[0.0; 16]; 8];
    for (x, y) in x_eights.iter().zip(y_eights) {
        for lane in 0..8 {
            add_products::<SOFT>(&mut eight[lane], &x[lane], &y[lane]);
        }
    }
    for distance in [1, 2, 4] {
        for first in (0..8).step_by(2 * distance) {
            let other = eight[first + distance];
            eight[first].iter_mut().zip(other).for_each(|(sum, more)| *sum += more);
        }
    }
    let mut sums = eight[0];
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        add_products::<SOFT>(&mut sums, x, y);
    }
    let mut sum = sums[0];
    for lane in &sums[1..] {
        sum += lane;
    }
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        sum = fused::<SOFT>(x, y, sum);
    }
    before.map_or(sum, |before| sum + before)
}

#[inline(always)]
fn add_products<const SOFT: bool>(sums: &mut Lanes, x: &[f32; 16], y: &[f32; 16]) {
    for i in 0..16 {
        sums[i] = fused::<SOFT>(x[i], y[i], sums[i]);
    }
}

/// Up to sixteen elements of a row, product after product, starting from zero or from the current value.
#[inline(always)]
fn chain<const SOFT: bool>(
    a: Matrix<'_>,
    b: Matrix<'_>,
    row: usize,
    column: usize,
    out: &mut [f32],
    add: bool,
    straight: bool,
) {
    let mut sums: Lanes = [0.0; 16];
    let mut factors: Lanes = [0.0; 16];
    let first = usize::from(straight && !add);
    for (sum, (j, &out)) in sums.iter_mut().zip(out.iter().enumerate()) {
        if straight {
            // The first product is not added to a zero, to keep its sign.
            *sum = if add { out } else { a.data[row * a.row_stride] * b.data[(column + j) * b.column_stride] };
        }
    }
    for p in first..a.columns {
        let x = a.data[row * a.row_stride + p * a.column_stride];
        for (j, factor) in factors[..out.len()].iter_mut().enumerate() {
            *factor = b.data[p * b.row_stride + (column + j) * b.column_stride];
        }
        for i in 0..16 {
            sums[i] = fused::<SOFT>(x, factors[i], sums[i]);
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = if add && !straight { *out + sum } else { sum };
    }
}

/// a · b + c, rounded once.
#[inline(always)]
fn fused<const SOFT: bool>(a: f32, b: f32, c: f32) -> f32 {
    if SOFT { fused_by_doubles(a, b, c) } else { a.mul_add(b, c) }
}

/// Fused multiply-add without hardware support. The product is exact in `f64`; the sum is rounded to odd there (if it
/// is inexact, its last bit is set), so only the second rounding counts (Boldo and Melquiond 2008).
#[inline(always)]
fn fused_by_doubles(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // The exact error of the rounded sum (Knuth's two-sum).
    let of_c = sum - product;
    let missing = (product - (sum - of_c)) + (c - of_c);
    let bits = sum.to_bits();
    let inexact = missing != 0.0 && sum.is_finite() && bits & 1 == 0;
    let outwards = (missing > 0.0) == (sum > 0.0);
    let odd = if outwards { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact { odd } else { bits }) as f32
}

#[cfg(test)]
#[path = "order/tests.rs"]
mod tests;
