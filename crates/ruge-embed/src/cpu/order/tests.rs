use super::super::matrix::{Matrix, by_the_crate, multiply, multiply_part, multiply_wide};
use super::*;

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

/// Every order, with whole and broken lanes, tiles and blocks: m, k, n.
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

/// a · b with b's rows along the sum (as scores are made) or not (as gradients are).
fn with_operands(m: usize, k: usize, n: usize, work: impl Fn(Matrix<'_>, Matrix<'_>)) {
    let (a, b) = (fill(m * (k + 3) + 5, 1), fill(n.max(k) * (n.max(k) + 5), 2));
    let rows = Matrix::of_rows(&a, m, k, k + 3);
    work(rows, Matrix::of_rows(&b, n, k, k + 5).transposed());
    work(rows, Matrix::of_rows(&b, k, n, n + 5));
    let turned = fill(k * (m + 3), 1);
    work(Matrix::of_rows(&turned, k, m, m + 3).transposed(), Matrix::of_rows(&b, k, n, n + 5));
}

#[test]
fn products_have_the_same_bits_on_every_instruction_set() {
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
                for isa in Isa::available() {
                    let order = Order::of(a, b, m);
                    assert!(of(isa, false) == expected, "{isa:?}: {m} x {k} x {n}, add {add}, {order:?}");
                    assert!(of(isa, true) == expected, "{isa:?}: {m} x {k} x {n}, add {add}, {order:?}, wide");
                }
            }
        });
    }
}

/// What recorded results were made with: the crate left to itself on a machine with AVX-512 and a usual first cache.
#[test]
#[allow(clippy::print_stdout, reason = "what is not tested is said")]
fn the_orders_are_those_of_the_crate_with_avx512() {
    if !Isa::available().any(|isa| isa == Isa::Avx512) {
        println!("SKIPPED: this machine has no AVX-512");
        return;
    }
    for (m, k, n) in SHAPES {
        with_operands(m, k, n, |a, b| {
            for add in [false, true] {
                let (mut own, mut found) = (fill(m * (n + 16), 3), fill(m * (n + 16), 3));
                by_the_crate(Isa::Avx512, a, b, &mut own, n + 16, add);
                multiply(Isa::Avx512, a, b, &mut found, n + 16, add);
                assert!(bits(&own) == bits(&found), "{m} x {k} x {n}, add {add}, {:?}", Order::of(a, b, m));
            }
        });
    }
}

#[test]
fn parts_of_a_product_have_the_bits_of_the_whole() {
    let (m, k, n) = (130, 600, 50);
    with_operands(m, k, n, |a, b| {
        for isa in Isa::available() {
            let (mut whole, mut parts) = (vec![0.0; m * n], vec![0.0; m * n]);
            multiply(isa, a, b, &mut whole, n, false);
            for (first, count) in [(0, 4), (4, 1), (5, 60), (65, 65)] {
                let part = a.some_rows(first, count);
                multiply_part(isa, m, part, b, &mut parts[first * n..], n, false);
            }
            assert!(bits(&whole) == bits(&parts), "{isa:?}");
        }
    });
}

#[test]
fn products_by_hand() {
    let a: Vec<f32> = (1..=6).map(|x| x as f32).collect();
    let b: Vec<f32> = (1..=8).map(|x| x as f32).collect();
    for isa in Isa::available() {
        let mut out = vec![10.0; 6];
        // 2 × 3 times (2 × 3)ᵀ, rows of `out` three apart.
        let left = Matrix::of_rows(&a, 2, 3, 3);
        let right = Matrix::of_rows(&b, 2, 3, 4).transposed();
        multiply(isa, left, right, &mut out, 3, false);
        assert_eq!(out, [14.0, 38.0, 10.0, 32.0, 92.0, 10.0]);
        multiply(isa, left, right, &mut out, 3, true);
        assert_eq!(out, [28.0, 76.0, 10.0, 64.0, 184.0, 10.0]);
        // Nothing to sum.
        let (left, right) = (Matrix::of_rows(&a, 2, 0, 3), Matrix::of_rows(&b, 0, 3, 4));
        multiply(isa, left, right, &mut out, 3, true);
        assert_eq!(out, [28.0, 76.0, 10.0, 64.0, 184.0, 10.0]);
        multiply(isa, left, right, &mut out, 3, false);
        assert_eq!(out, [0.0; 6]);
    }
}

#[test]
fn fusing_by_doubles_rounds_once() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::MIN_POSITIVE, 1e-45, -1e-45, f32::MAX, f32::INFINITY, f32::NAN, 1.000_000_1];
    let check = |a: f32, b: f32, c: f32| {
        let (found, want) = (fused_by_doubles(a, b, c), a.mul_add(b, c));
        assert!(found.to_bits() == want.to_bits() || (found.is_nan() && want.is_nan()), "{a:e} * {b:e} + {c:e}");
    };
    for a in special {
        for b in special {
            special.iter().for_each(|&c| check(a, b, c));
        }
    }
    for _ in 0..400_000 {
        let (a, b) = (f32::from_bits(next()), f32::from_bits(next()));
        check(a, b, f32::from_bits(next()));
        // Near the product, and near half a last place of it: where rounding twice goes wrong.
        let near = f32::from_bits((a * b).to_bits() ^ (next() & 7)) * f32::from(-1i8);
        check(a, b, near);
        check(a, b, near * 2f32.powi((next() % 60) as i32 - 30));
    }
}
