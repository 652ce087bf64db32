//! RotatE (Sun et al. 2019): η = −Σ |h ∘ r − t| over ℂᵈ, where r = e^{iθ} is a rotation.
//!
//! A relation row holds its d phases θ. Sine and cosine are short polynomials: they vectorise and give the same bits on
//! every machine, which the system's mathematics library does not guarantee.

use super::{Comparator, ScoringFunction};

/// RotatE with `dimension` complex entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotatE {
    dimension: usize,
}

impl RotatE {
    /// The model over ℂᵈ.
    pub fn new(dimension: usize) -> Self {
        Self { dimension }
    }
}

/// (sin x, cos x) to about 1e-7 for |x| up to some thousands: reduction by multiples of π/2, then Taylor polynomials
/// whose truncation on [−π/4, π/4] is below the rounding of `f32`.
#[inline(always)]
pub(crate) fn sin_cos(x: f32) -> (f32, f32) {
    // π/2 in three pieces, so that `x − turns·π/2` keeps its low bits.
    const HIGH: f32 = 1.570_312_5;
    const MIDDLE: f32 = 4.837_513e-4;
    const LOW: f32 = 7.549_79e-8;
    let turns = (x * std::f32::consts::FRAC_2_PI).round_ties_even();
    let y = (-turns).mul_add(LOW, (-turns).mul_add(MIDDLE, (-turns).mul_add(HIGH, x)));
    let square = y * y;
    let sine = (1.0 / 362_880.0f32)
        .mul_add(square, -1.0 / 5040.0)
        .mul_add(square, 1.0 / 120.0)
        .mul_add(square, -1.0 / 6.0)
        .mul_add(square * y, y);
    let cosine = (1.0 / 40_320.0f32)
        .mul_add(square, -1.0 / 720.0)
        .mul_add(square, 1.0 / 24.0)
        .mul_add(square, -0.5)
        .mul_add(square, 1.0);
    let quarter = turns as i32;
    let (sine, cosine) = if quarter & 1 == 0 { (sine, cosine) } else { (cosine, sine) };
    let sine = if quarter & 2 == 0 { sine } else { -sine };
    let cosine = if (quarter + 1) & 2 == 0 { cosine } else { -cosine };
    (sine, cosine)
}

impl ScoringFunction for RotatE {
    const NAME: &'static str = "rotate";
    const COMPARATOR: Comparator = Comparator::NegModulus;

    fn dimension(&self) -> usize {
        self.dimension
    }
    #[inline(always)]
    fn entity_width(&self) -> usize {
        2 * self.dimension
    }
    #[inline(always)]
    fn relation_width(&self) -> usize {
        self.dimension
    }
    fn entity_parts(&self) -> usize {
        2
    }

    #[inline(always)]
    fn tail_query(&self, head: &[f32], relation: &[f32], query: &mut [f32]) {
        let d = self.dimension;
        let (h_re, h_im) = head[..2 * d].split_at(d);
        let (q_re, q_im) = query[..2 * d].split_at_mut(d);
        let relation = &relation[..d];
        for i in 0..d {
            let (sine, cosine) = sin_cos(relation[i]);
            q_re[i] = h_re[i].mul_add(cosine, -(h_im[i] * sine));
            q_im[i] = h_re[i].mul_add(sine, h_im[i] * cosine);
        }
    }
    /// |h ∘ r − t| = |h − conj(r) ∘ t|, since r is a rotation.
    #[inline(always)]
    fn head_query(&self, relation: &[f32], tail: &[f32], query: &mut [f32]) {
        let d = self.dimension;
        let (t_re, t_im) = tail[..2 * d].split_at(d);
        let (q_re, q_im) = query[..2 * d].split_at_mut(d);
        let relation = &relation[..d];
        for i in 0..d {
            let (sine, cosine) = sin_cos(relation[i]);
            q_re[i] = t_re[i].mul_add(cosine, t_im[i] * sine);
            q_im[i] = t_im[i].mul_add(cosine, -(t_re[i] * sine));
        }
    }
    #[inline(always)]
    fn tail_query_backward(
        &self,
        head: &[f32],
        relation: &[f32],
        d_query: &[f32],
        d_head: &mut [f32],
        d_relation: &mut [f32],
    ) {
        let d = self.dimension;
        let (h_re, h_im) = head[..2 * d].split_at(d);
        let (q_re, q_im) = d_query[..2 * d].split_at(d);
        let (out_re, out_im) = d_head[..2 * d].split_at_mut(d);
        let (relation, d_relation) = (&relation[..d], &mut d_relation[..d]);
        for i in 0..d {
            let (sine, cosine) = sin_cos(relation[i]);
            out_re[i] += q_re[i].mul_add(cosine, q_im[i] * sine);
            out_im[i] += q_im[i].mul_add(cosine, -(q_re[i] * sine));
            // ∂q/∂θ = i q: (re, im) becomes (−im, re).
            let re = h_re[i].mul_add(cosine, -(h_im[i] * sine));
            let im = h_re[i].mul_add(sine, h_im[i] * cosine);
            d_relation[i] += q_im[i].mul_add(re, -(q_re[i] * im));
        }
    }
    #[inline(always)]
    fn head_query_backward(
        &self,
        relation: &[f32],
        tail: &[f32],
        d_query: &[f32],
        d_relation: &mut [f32],
        d_tail: &mut [f32],
    ) {
        let d = self.dimension;
        let (t_re, t_im) = tail[..2 * d].split_at(d);
        let (q_re, q_im) = d_query[..2 * d].split_at(d);
        let (out_re, out_im) = d_tail[..2 * d].split_at_mut(d);
        let (relation, d_relation) = (&relation[..d], &mut d_relation[..d]);
        for i in 0..d {
            let (sine, cosine) = sin_cos(relation[i]);
            out_re[i] += q_re[i].mul_add(cosine, -(q_im[i] * sine));
            out_im[i] += q_re[i].mul_add(sine, q_im[i] * cosine);
            // ∂q/∂θ = −i q: (re, im) becomes (im, −re).
            let re = t_re[i].mul_add(cosine, t_im[i] * sine);
            let im = t_im[i].mul_add(cosine, -(t_re[i] * sine));
            d_relation[i] += q_re[i].mul_add(im, -(q_im[i] * re));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sin_cos;

    #[test]
    fn sine_and_cosine_are_close_to_the_truth() {
        for i in -40_000..40_000 {
            let x = i as f32 * 1e-3;
            let (sine, cosine) = sin_cos(x);
            let (exact_sine, exact_cosine) = f64::from(x).sin_cos();
            assert!((f64::from(sine) - exact_sine).abs() < 3e-7, "sin {x}: {sine} for {exact_sine}");
            assert!((f64::from(cosine) - exact_cosine).abs() < 3e-7, "cos {x}: {cosine} for {exact_cosine}");
        }
    }
}
