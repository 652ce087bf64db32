use super::super::matrix::{Matrix, multiply};
use super::*;

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
        // Empty sums.
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
        // Values near the product and near half a unit in its last place, where double rounding goes wrong.
        let near = f32::from_bits((a * b).to_bits() ^ (next() & 7)) * f32::from(-1i8);
        check(a, b, near);
        check(a, b, near * 2f32.powi((next() % 60) as i32 - 30));
    }
}
