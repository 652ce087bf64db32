//! Matrix products.

use ruge_embed::cpu::Isa;
use ruge_embed::cpu::matrix::{Matrix, by_the_crate, multiply, multiply_part, multiply_wide};

fn fill(count: usize, salt: usize) -> Vec<f32> {
    let entry = |i: usize| {
        let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt as u64 * 0x1234_5677);
        ((x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 / (1 << 22) as f32 - 2.0
    };
    (0..count).map(entry).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Every order, with whole and partial lanes, tiles and blocks: m, k, n.
const SHAPES: [(usize, usize, usize); 22] = [
    (1, 1, 1),
    (5, 7, 9),
    (16, 40, 16),
    (3, 2100, 80),
    (16, 1300, 16),
    (1, 600, 512),
    (1, 130, 512),
    (1, 1025, 300),
    (300, 700, 1),
    (300, 129, 1),
    (48, 1, 100),
    (48, 2, 100),
    (40, 30, 64),
    (40, 514, 60),
    (64, 1025, 64),
    (64, 1500, 63),
    (60, 513, 80),
    (130, 1026, 50),
    (97, 601, 33),
    (7, 512, 400),
    (256, 400, 512),
    (50, 9, 66),
];

/// a · b with b's rows along the sum (as for scores) or not (as for gradients).
fn with_operands(m: usize, k: usize, n: usize, work: impl Fn(Matrix<'_>, Matrix<'_>)) {
    let (a, b) = (fill(m * (k + 3) + 5, 1), fill(n.max(k) * (n.max(k) + 5), 2));
    let rows = Matrix::of_rows(&a, m, k, k + 3);
    work(rows, Matrix::of_rows(&b, n, k, k + 5).transposed());
    work(rows, Matrix::of_rows(&b, k, n, n + 5));
    let turned = fill(k * (m + 3), 1);
    work(Matrix::of_rows(&turned, k, m, m + 3).transposed(), Matrix::of_rows(&b, k, n, n + 5));
}

/// The same bits as portable code.
pub fn same_bits(isa: Isa) {
    for (m, k, n) in SHAPES {
        with_operands(m, k, n, |a, b| {
            for add in [false, true] {
                let of = |isa: Isa, wide: bool| {
                    let mut out = fill(m * (n + 16), 3);
                    let how = if wide { multiply_wide } else { multiply };
                    how(isa, a, b, &mut out, n + 16, add);
                    bits(&out)
                };
                let expected = of(Isa::Portable, false);
                assert!(of(isa, false) == expected, "{m} x {k} x {n}, add {add}");
                assert!(of(isa, true) == expected, "{m} x {k} x {n}, add {add}, wide");
            }
        });
    }
}

/// The orders of the recorded results: those of the unmodified crate on a machine with AVX-512 and a usual L1 cache.
pub fn the_orders_are_those_of_the_crate_with_avx512(isa: Isa) {
    for (m, k, n) in SHAPES {
        with_operands(m, k, n, |a, b| {
            for add in [false, true] {
                let (mut own, mut found) = (fill(m * (n + 16), 3), fill(m * (n + 16), 3));
                by_the_crate(isa, a, b, &mut own, n + 16, add);
                multiply(isa, a, b, &mut found, n + 16, add);
                assert!(bits(&own) == bits(&found), "{m} x {k} x {n}, add {add}");
            }
        });
    }
}

/// Parts of a product have the bits of the whole.
pub fn parts(isa: Isa) {
    let (m, k, n) = (130, 600, 50);
    with_operands(m, k, n, |a, b| {
        let (mut whole, mut parts) = (vec![0.0; m * n], vec![0.0; m * n]);
        multiply(isa, a, b, &mut whole, n, false);
        for (first, count) in [(0, 4), (4, 1), (5, 60), (65, 65)] {
            let part = a.some_rows(first, count);
            multiply_part(isa, m, part, b, &mut parts[first * n..], n, false);
        }
        assert!(bits(&whole) == bits(&parts));
    });
}
