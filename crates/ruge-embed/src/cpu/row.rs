//! Row arithmetic: small functions that inline into kernels.
//!
//! *Order of summation.* Element `i` goes to lane `i mod 16`; each lane adds its elements in order with fused
//! multiply-add; [`fold`] then adds lanes at distance 8, 4, 2, 1. Everything else here is element by element.

use crate::scoring::Comparator;

/// Sixteen running sums.
pub type Lanes = [f32; 16];

/// Adds up the lanes: distance 8, then 4, 2, 1.
#[inline(always)]
pub fn fold(lanes: Lanes) -> f32 {
    let mut eight = [0.0; 8];
    for i in 0..8 {
        eight[i] = lanes[i] + lanes[i + 8];
    }
    let four = [eight[0] + eight[4], eight[1] + eight[5], eight[2] + eight[6], eight[3] + eight[7]];
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Sums `f(lane, a, b)` over two rows in the stated order.
#[inline(always)]
fn sum(a: &[f32], b: &[f32], f: impl Fn(f32, f32, f32) -> f32) -> f32 {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let (a_chunks, a_rest) = a.as_chunks::<16>();
    let (b_chunks, b_rest) = b.as_chunks::<16>();
    let mut lanes: Lanes = [0.0; 16];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for i in 0..16 {
            lanes[i] = f(lanes[i], a[i], b[i]);
        }
    }
    for (i, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[i] = f(lanes[i], a, b);
    }
    fold(lanes)
}

/// a · b.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |lane, a, b| a.mul_add(b, lane))
}

/// ‖a‖².
#[inline(always)]
pub fn sum_of_squares(a: &[f32]) -> f32 {
    sum(a, a, |lane, a, _| a.mul_add(a, lane))
}

/// y += c · x.
#[inline(always)]
pub fn add_scaled(y: &mut [f32], c: f32, x: &[f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = c.mul_add(x, *y);
    }
}

/// x *= c.
#[inline(always)]
pub fn scale(x: &mut [f32], c: f32) {
    for x in x {
        *x *= c;
    }
}

/// Divides the row by its L2 norm; a zero row is unchanged.
#[inline(always)]
pub fn normalise(row: &mut [f32]) {
    let norm = sum_of_squares(row).sqrt();
    if norm > 0.0 {
        for x in row {
            *x /= norm;
        }
    }
}

/// The score of a query vector and a candidate.
#[inline(always)]
pub fn compare(comparator: Comparator, query: &[f32], candidate: &[f32]) -> f32 {
    match comparator {
        Comparator::Dot => dot(query, candidate),
        Comparator::NegL1 => -sum(query, candidate, |lane, q, e| lane + (q - e).abs()),
        Comparator::NegL2 => -squared_distance(query, candidate).sqrt(),
        Comparator::NegModulus => {
            let half = query.len() / 2;
            let (q_re, q_im) = query.split_at(half);
            let (e_re, e_im) = candidate.split_at(half);
            let mut lanes: Lanes = [0.0; 16];
            for start in (0..half).step_by(16) {
                let end = half.min(start + 16);
                let (q_re, q_im, e_re, e_im) =
                    (&q_re[start..end], &q_im[start..end], &e_re[start..end], &e_im[start..end]);
                for i in 0..end - start {
                    let (re, im) = (q_re[i] - e_re[i], q_im[i] - e_im[i]);
                    lanes[i] += im.mul_add(im, re * re).sqrt();
                }
            }
            -fold(lanes)
        }
    }
}

/// ‖query − candidate‖².
#[inline(always)]
fn squared_distance(query: &[f32], candidate: &[f32]) -> f32 {
    sum(query, candidate, |lane, q, e| {
        let difference = q - e;
        difference.mul_add(difference, lane)
    })
}

/// Adds `c · ∂score/∂query` to `d_query`.
#[inline(always)]
pub fn add_d_query(comparator: Comparator, c: f32, query: &[f32], candidate: &[f32], d_query: &mut [f32]) {
    match comparator {
        Comparator::Dot => add_scaled(d_query, c, candidate),
        _ => add_d_distance(comparator, -c, query, candidate, d_query),
    }
}

/// Adds `c · ∂score/∂candidate` to `d_candidate`.
#[inline(always)]
pub fn add_d_candidate(comparator: Comparator, c: f32, query: &[f32], candidate: &[f32], d_candidate: &mut [f32]) {
    match comparator {
        Comparator::Dot => add_scaled(d_candidate, c, query),
        _ => add_d_distance(comparator, c, query, candidate, d_candidate),
    }
}

/// Adds `c · ∂distance/∂query`; the derivative by the candidate is its negative.
#[inline(always)]
fn add_d_distance(comparator: Comparator, c: f32, query: &[f32], candidate: &[f32], out: &mut [f32]) {
    match comparator {
        Comparator::Dot => unreachable!("a dot product is no distance"),
        Comparator::NegL1 => {
            for ((out, &q), &e) in out.iter_mut().zip(query).zip(candidate) {
                // sign(0) = 0, as in the reference.
                let difference = q - e;
                let sign = f32::from(difference > 0.0) - f32::from(difference < 0.0);
                *out = c.mul_add(sign, *out);
            }
        }
        Comparator::NegL2 => {
            let distance = squared_distance(query, candidate).sqrt();
            if distance > 0.0 {
                let c = c / distance;
                for ((out, &q), &e) in out.iter_mut().zip(query).zip(candidate) {
                    *out = c.mul_add(q - e, *out);
                }
            }
        }
        Comparator::NegModulus => {
            let half = query.len() / 2;
            let (q_re, q_im) = query.split_at(half);
            let (e_re, e_im) = candidate[..2 * half].split_at(half);
            let (out_re, out_im) = out[..2 * half].split_at_mut(half);
            for i in 0..half {
                let (re, im) = (q_re[i] - e_re[i], q_im[i] - e_im[i]);
                let modulus = im.mul_add(im, re * re).sqrt();
                let c = if modulus > 0.0 { c / modulus } else { 0.0 };
                out_re[i] = c.mul_add(re, out_re[i]);
                out_im[i] = c.mul_add(im, out_im[i]);
            }
        }
    }
}
