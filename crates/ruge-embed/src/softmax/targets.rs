//! Targets beyond a single answer: several answers at once, label smoothing, or binary cross-entropy.

use super::Answer;
use super::ask::{CHUNK, exp};
use crate::cpu::{Kernel, row};

#[derive(Clone, Copy)]
pub(super) struct Targets<'a> {
    /// The start of each question's answers, and the end of the last.
    pub ends: &'a [u32],
    /// By question, then by entity.
    pub answers: &'a [Answer],
    /// Label smoothing: the share of each target spread over all candidates.
    pub smoothing: f32,
    /// Number of candidates.
    pub candidates: usize,
    /// Whether the loss is binary cross-entropy.
    pub binary: bool,
}

impl Targets<'_> {
    /// A question's answers within a chunk.
    fn of(&self, question: usize, chunk: usize) -> &[Answer] {
        let all = &self.answers[self.ends[question] as usize..self.ends[question + 1] as usize];
        let place = |row: usize| all.partition_point(|answer| (answer.entity as usize) < row);
        &all[place(chunk * CHUNK)..place((chunk + 1) * CHUNK)]
    }

    /// Σ target · score over a chunk.
    pub fn wanted(&self, question: usize, chunk: usize, scores: &[f32]) -> f32 {
        let own = self.of(question, chunk).iter();
        let own: f64 = own.map(|x| f64::from(x.target) * f64::from(scores[x.entity as usize % CHUNK])).sum();
        if self.smoothing == 0.0 {
            return own as f32;
        }
        let (smoothing, all) = (f64::from(self.smoothing), scores.iter().map(|&x| f64::from(x)).sum::<f64>());
        ((1.0 - smoothing) * own + smoothing / self.candidates as f64 * all) as f32
    }

    /// Subtracts the targets from a chunk's slopes.
    pub fn subtract(&self, question: usize, chunk: usize, weight: f32, slopes: &mut [f32]) {
        if self.smoothing > 0.0 {
            let even = weight * self.smoothing / self.candidates as f32;
            slopes.iter_mut().for_each(|slope| *slope -= even);
        }
        for answer in self.of(question, chunk) {
            slopes[answer.entity as usize % CHUNK] -= weight * (1.0 - self.smoothing) * answer.target;
        }
    }
}

/// Turns scores into σ(score); returns Σ ln(1 + e^score).
pub(super) struct Logistic<'a> {
    pub scores: &'a mut [f32],
}

impl Kernel for Logistic<'_> {
    type Output = f32;
    #[inline(always)]
    fn run(self) -> f32 {
        debug_assert!(self.scores.len() <= CHUNK);
        // One logarithm per lane: of CHUNK candidates each lane has 32, whose factors are between 1 and 2.
        let (mut linear, mut product) = ([0.0f32; 16], [1.0f32; 16]);
        for lanes in self.scores.chunks_mut(16) {
            for (i, score) in lanes.iter_mut().enumerate() {
                let small = exp(-score.abs());
                let large = 1.0 / (1.0 + small);
                linear[i] += if *score > 0.0 { *score } else { 0.0 };
                product[i] *= 1.0 + small;
                // NaN stays NaN, so that divergence is reported.
                *score = if *score < 0.0 {
                    small * large
                } else if *score >= 0.0 {
                    large
                } else {
                    f32::NAN
                };
            }
        }
        (f64::from(row::fold(linear)) + product.iter().map(|&x| f64::from(x).ln()).sum::<f64>()) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Isa;

    #[test]
    fn logistic_is_close_and_the_same_on_every_instruction_set() {
        for length in [1, 15, 16, 17, 512] {
            let scores: Vec<f32> = (0..length).map(|i| ((i * 37) % 101) as f32 / 3.0 - 17.0).collect();
            let of = |isa: Isa| {
                let mut scores = scores.clone();
                (isa.run(Logistic { scores: &mut scores }).to_bits(), scores)
            };
            let (sum, truths) = of(Isa::Portable);
            let expected: f64 = scores.iter().map(|&x| f64::from(x).exp().ln_1p()).sum();
            assert!((f64::from(f32::from_bits(sum)) - expected).abs() < 1e-5 * (1.0 + expected));
            for (truth, &score) in truths.iter().zip(&scores) {
                assert!((f64::from(*truth) - 1.0 / (1.0 + f64::from(-score).exp())).abs() < 1e-6);
            }
            Isa::available().for_each(|isa| assert_eq!(of(isa), (sum, truths.clone()), "{isa:?}"));
        }
    }

    #[test]
    fn targets_are_found_by_chunk() {
        let answers = [3, CHUNK as u32 + 1, 2].map(|entity| Answer { entity, target: 0.5 });
        let targets = Targets { ends: &[0, 2, 3], answers: &answers, smoothing: 0.1, candidates: 600, binary: false };
        let scores = [1.0, 2.0, 3.0, 4.0];
        let even = 0.1 / 600.0 * 10.0;
        assert!((targets.wanted(0, 0, &scores) - (0.9 * 2.0 + even)).abs() < 1e-6);
        assert!((targets.wanted(0, 1, &scores) - (0.9 * 1.0 + even)).abs() < 1e-6);
        assert!((targets.wanted(1, 1, &scores) - even).abs() < 1e-6);
        let mut slopes = [0.0; 4];
        targets.subtract(1, 0, 2.0, &mut slopes);
        assert!((slopes[2] + 0.9 + 0.2 / 600.0).abs() < 1e-6 && (slopes[1] + 0.2 / 600.0).abs() < 1e-6);
    }
}
