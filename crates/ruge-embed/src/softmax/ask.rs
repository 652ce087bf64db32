//! Answering questions among many rows: scores, softmax, and both products with the gradient of the scores.
//!
//! Candidates are split into chunks and questions into blocks, both at fixed positions, and only the scores of one
//! block exist at a time. One task owns a chunk's scores and its part of the gradient; sums over chunks are in order.
//! So the bits do not depend on the number of threads.

use rayon::prelude::*;
use ruge_kg::Control;

use crate::cpu::matrix::{Matrix, multiply};
use crate::cpu::{Isa, Kernel, row};
use crate::softmax::targets::{Logistic, Targets};
use crate::table::Table;

/// Candidates whose scores one task owns.
pub(super) const CHUNK: usize = 512;
/// Floats between the scores of consecutive questions within a chunk: a power of two would cause cache conflicts.
const APART: usize = CHUNK + 16;
/// Questions scored at a time.
const BLOCK: usize = 256;
/// Questions whose query gradients one task owns: whole register tiles of six rows, and few enough for a product that
/// reads the candidates in place.
const STRIP: usize = 48;

/// Candidate rows, `stride` floats apart within a chunk.
pub(super) struct Candidates<'a> {
    pub data: &'a [f32],
    pub width: usize,
    pub stride: usize,
    /// The start of each chunk in `data`, and its number of rows.
    pub chunks: Vec<(usize, usize)>,
}

impl<'a> Candidates<'a> {
    /// Consecutive rows from `offset` on, in chunks.
    pub fn rows(offset: usize, rows: usize, stride: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..rows.div_ceil(CHUNK)).map(move |chunk| (offset + chunk * CHUNK * stride, CHUNK.min(rows - chunk * CHUNK)))
    }

    fn chunk(&self, chunk: usize) -> Matrix<'a> {
        let (from, rows) = self.chunks[chunk];
        Matrix::of_rows(&self.data[from..], rows, self.width, self.stride)
    }
}

pub(super) struct Asked<'a> {
    pub queries: &'a Table,
    /// Positions of the answers, counted in whole chunks.
    pub answers: &'a [u32],
    /// Weight of each question's loss.
    pub weights: &'a [f32],
    /// Targets, if they are more than one answer.
    pub targets: Option<Targets<'a>>,
    /// Cancels the work; the gradients are then invalid.
    pub control: Option<&'a Control<'a>>,
}

/// Answers all questions. Returns Σ weight · loss and writes the gradients by queries and candidates, in whole chunks.
pub(super) fn ask(
    asked: &Asked<'_>,
    candidates: &Candidates<'_>,
    scores: &mut Vec<f32>,
    d_queries: &mut Table,
    d_candidates: &mut Table,
    isa: Isa,
) -> f64 {
    let (width, stride) = (candidates.width, asked.queries.stride());
    let (chunks, count) = (candidates.chunks.len(), asked.answers.len());
    let mut loss = 0.0f64;
    scores.resize(chunks * APART * BLOCK.min(count), 0.0);
    let mut parts = vec![ChunkSum::default(); chunks * BLOCK.min(count)];
    for from in (0..count).step_by(BLOCK) {
        if asked.control.is_some_and(|control| control.is_cancelled()) {
            return loss;
        }
        let m = BLOCK.min(count - from);
        let (answers, weights) = (&asked.answers[from..from + m], &asked.weights[from..from + m]);
        let queries = Matrix::of_rows(&asked.queries.as_slice()[from * stride..], m, width, stride);
        // Scores are stored chunk by chunk, m rows each, as are their partial sums.
        let (scores, parts) = (&mut scores[..chunks * APART * m], &mut parts[..chunks * m]);
        let sizes = &candidates.chunks;
        scores.par_chunks_mut(APART * m).zip(parts.par_chunks_mut(m)).enumerate().for_each(
            |(chunk, (scores, parts))| {
                multiply(isa, queries, candidates.chunk(chunk).transposed(), scores, APART, false);
                for (at, ((scores, part), &answer)) in
                    scores.chunks_exact_mut(APART).zip(parts).zip(answers).enumerate()
                {
                    if let Some(targets) = &asked.targets {
                        let scores = &mut scores[..sizes[chunk].1];
                        let answer_score = targets.wanted(from + at, chunk, scores);
                        let (largest, sum) = match targets.binary {
                            true => (0.0, isa.run(Logistic { scores })),
                            false => isa.run(Exponentials { scores }),
                        };
                        *part = ChunkSum { largest, sum, answer_score, factor: 0.0 };
                        continue;
                    }
                    let mut answer_score = 0.0;
                    if answer as usize / CHUNK == chunk {
                        answer_score = scores[answer as usize % CHUNK];
                    }
                    let (largest, sum) = isa.run(Exponentials { scores: &mut scores[..sizes[chunk].1] });
                    *part = ChunkSum { largest, sum, answer_score, factor: 0.0 };
                }
            },
        );
        for at in 0..m {
            // Far fewer than the scores, so in `f64`.
            let mut own = parts[answers[at] as usize / CHUNK * m + at].answer_score;
            let of_question = || (0..chunks).map(|chunk| parts[chunk * m + at]);
            if let Some(targets) = &asked.targets {
                own = of_question().map(|part| part.answer_score).sum();
                if targets.binary {
                    let sum: f64 = of_question().map(|part| f64::from(part.sum)).sum();
                    loss += f64::from(weights[at]) * (sum - f64::from(own));
                    (0..chunks).for_each(|chunk| parts[chunk * m + at].factor = weights[at]);
                    continue;
                }
            }
            let largest = of_question().map(|part| part.largest).fold(f32::NEG_INFINITY, f32::max);
            let top = f64::from(largest);
            // A part whose scores are all −∞ has the factor e^−∞ = 0.
            let factor = |part: ChunkSum| (f64::from(part.largest) - top).exp();
            let sum: f64 = of_question().map(|part| f64::from(part.sum) * factor(part)).sum();
            loss += f64::from(weights[at]) * (sum.ln() + top - f64::from(own));
            for chunk in 0..chunks {
                let part = &mut parts[chunk * m + at];
                part.factor = (f64::from(weights[at]) * factor(*part) / sum) as f32;
            }
        }
        let d_stride = d_candidates.stride();
        let each = scores.par_chunks_mut(APART * m).zip(parts.par_chunks(m));
        each.zip(d_candidates.as_mut_slice().par_chunks_mut(CHUNK * d_stride)).enumerate().for_each(
            |(chunk, ((scores, parts), d_candidates))| {
                for (at, (scores, part)) in scores.chunks_exact_mut(APART).zip(parts).enumerate() {
                    let scores = &mut scores[..sizes[chunk].1];
                    isa.run(Slopes { scores, factor: part.factor });
                    if let Some(targets) = &asked.targets {
                        targets.subtract(from + at, chunk, weights[at], scores);
                    } else if answers[at] as usize / CHUNK == chunk {
                        scores[answers[at] as usize % CHUNK] -= weights[at];
                    }
                }
                let slopes = Matrix::of_rows(scores, m, sizes[chunk].1, APART).transposed();
                multiply(isa, slopes, queries, d_candidates, d_stride, from > 0);
            },
        );
        let scores: &[f32] = scores;
        d_queries.as_mut_slice()[from * stride..(from + m) * stride]
            .par_chunks_mut(STRIP * stride)
            .enumerate()
            .for_each(|(strip, d_queries)| {
                let (first, n) = (strip * STRIP, STRIP.min(m - strip * STRIP));
                for chunk in 0..chunks {
                    let slopes = Matrix::of_rows(&scores[(chunk * m + first) * APART..], n, sizes[chunk].1, APART);
                    multiply(isa, slopes, candidates.chunk(chunk), d_queries, stride, chunk > 0);
                }
            });
    }
    loss
}

/// A chunk's summary for one question.
#[derive(Clone, Copy, Default)]
struct ChunkSum {
    largest: f32,
    /// Σ exp(score − largest)
    sum: f32,
    /// The answer's score, if the answer is in this chunk.
    answer_score: f32,
    /// The factor from exp(score − largest) to ∂loss/∂score.
    factor: f32,
}

/// eˣ for x ≤ 0 to about 2e-7, 0 below −87. Short enough to vectorise, with the same bits everywhere.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding 1.5 · 2²³ rounds to an integer, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // As a comparison it is one instruction; NaN becomes −87.
    let y = if x > -87.0 { x } else { -87.0 };
    let shifted = y.mul_add(std::f32::consts::LOG2_E, ROUND);
    let turns = shifted - ROUND;
    // ln 2 in two pieces keeps the low bits of x − turns · ln 2.
    let y = (-turns).mul_add(-2.121_944_4e-4, (-turns).mul_add(0.693_359_4, y));
    let power = (1.0f32 / 5040.0)
        .mul_add(y, 1.0 / 720.0)
        .mul_add(y, 1.0 / 120.0)
        .mul_add(y, 1.0 / 24.0)
        .mul_add(y, 1.0 / 6.0)
        .mul_add(y, 0.5)
        .mul_add(y * y, y + 1.0);
    // Between 2⁻¹²⁶ and 1, so turns can be added to the exponent.
    let scaled = f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23));
    if x > -87.0 { scaled } else { 0.0 }
}

/// Turns scores into exp(score − largest); returns the largest and the sum.
pub(super) struct Exponentials<'a> {
    pub scores: &'a mut [f32],
}

impl Kernel for Exponentials<'_> {
    type Output = (f32, f32);
    #[inline(always)]
    fn run(self) -> Self::Output {
        let (chunks, rest) = self.scores.as_chunks_mut::<16>();
        let mut lanes = [f32::NEG_INFINITY; 16];
        for chunk in &*chunks {
            for i in 0..16 {
                lanes[i] = if chunk[i] > lanes[i] { chunk[i] } else { lanes[i] };
            }
        }
        let largest = lanes.iter().chain(&*rest).fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let mut sums = [0.0f32; 16];
        for chunk in chunks {
            for i in 0..16 {
                chunk[i] = exp(chunk[i] - largest);
                sums[i] += chunk[i];
            }
        }
        for (sum, score) in sums.iter_mut().zip(rest) {
            *score = exp(*score - largest);
            *sum += *score;
        }
        (largest, row::fold(sums))
    }
}

/// Turns exp(score − largest) into ∂loss/∂score, except for the answer.
pub(super) struct Slopes<'a> {
    pub scores: &'a mut [f32],
    pub factor: f32,
}

impl Kernel for Slopes<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for score in self.scores {
            let slope = *score * self.factor;
            // Products of smaller ones with row entries are denormal, which is slow on many CPUs.
            *score = if slope < 1e-30 { 0.0 } else { slope };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_close_and_end_at_zero() {
        for i in 0..=870_000 {
            let x = -i as f32 / 1e4;
            let (got, want) = (f64::from(exp(x)), f64::from(x).exp());
            assert!(x <= -87.0 || (got / want - 1.0).abs() < 3e-7, "exp({x}) is {got:e}, not {want:e}");
        }
        assert_eq!([exp(0.0), exp(-87.0), exp(-1e30), exp(f32::NEG_INFINITY)], [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn exponentials_of_a_row_are_the_same_on_every_instruction_set() {
        for length in [0, 1, 15, 16, 17, 511] {
            let scores: Vec<f32> = (0..length).map(|i| ((i * 37) % 101) as f32 / 3.0 - 20.0).collect();
            let of = |isa: Isa| {
                let mut scores = scores.clone();
                let (largest, sum) = isa.run(Exponentials { scores: &mut scores });
                (largest, sum.to_bits(), scores)
            };
            let (largest, sum, row) = of(Isa::Portable);
            assert_eq!(largest, scores.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let want: f64 = scores.iter().map(|&score| f64::from(score - largest).exp()).sum();
            assert!((f64::from(f32::from_bits(sum)) - want).abs() <= 1e-5 * want);
            for isa in Isa::available() {
                assert_eq!(of(isa), (largest, sum, row.clone()), "{isa:?}, {length}");
            }
        }
    }

    /// Three chunks and two blocks against the definition in `f64`, with scores so far apart that some hardly count.
    #[test]
    fn sums_over_chunks_and_blocks_follow_the_definition() {
        let (count, among, width) = (300, 1100, 5);
        let fill = |rows: usize, salt: usize| {
            let entry = |i: usize| ((i * 7919 + salt) % 1009) as f32 / 250.0 - 2.0;
            Table::from_dense(rows, width, &(0..rows * width).map(entry).collect::<Vec<f32>>())
        };
        let (queries, rows) = (fill(count, 3), fill(among, 71));
        let weights: Vec<f32> = (0..count).map(|i| 0.5 + (i % 3) as f32).collect();
        let answers: Vec<u32> = (0..count).map(|i| (i * 37 % among) as u32).collect();
        let candidates = Candidates {
            data: rows.as_slice(),
            width,
            stride: rows.stride(),
            chunks: Candidates::rows(0, among, rows.stride()).collect(),
        };
        let asked = Asked { queries: &queries, answers: &answers, weights: &weights, targets: None, control: None };
        let (mut d_queries, mut d_rows) =
            (Table::zeros(count, width), Table::zeros(among.next_multiple_of(CHUNK), width));
        let found = ask(&asked, &candidates, &mut Vec::new(), &mut d_queries, &mut d_rows, Isa::detect());

        let wide = |row: &[f32]| row.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let mut loss = 0.0;
        let mut d_all = vec![vec![0.0f64; width]; among];
        for i in 0..count {
            let (query, weight, answer) = (wide(queries.row(i)), f64::from(weights[i]), answers[i] as usize);
            let score = |j: usize| wide(rows.row(j)).iter().zip(&query).map(|(x, y)| x * y).sum::<f64>();
            let sum = (0..among).map(|j| score(j).exp()).sum::<f64>();
            loss += weight * (sum.ln() - score(answer));
            let mut d_query = vec![0.0f64; width];
            for (j, d_row) in d_all.iter_mut().enumerate() {
                let slope = weight * (score(j).exp() / sum - f64::from(u8::from(j == answer)));
                d_query.iter_mut().zip(wide(rows.row(j))).for_each(|(d, x)| *d += slope * x);
                d_row.iter_mut().zip(&query).for_each(|(d, x)| *d += slope * x);
            }
            let close = |(&found, &want): (&f32, &f64)| (f64::from(found) - want).abs() < 1e-4 * (1.0 + want.abs());
            assert!(d_queries.row(i).iter().zip(&d_query).all(close), "query {i}");
        }
        assert!((found - loss).abs() < 1e-5 * loss.abs(), "loss {found} for {loss}");
        for (j, want) in d_all.iter().enumerate() {
            let close = |(&x, &y): (&f32, &f64)| (f64::from(x) - y).abs() < 1e-3 * (1.0 + y.abs());
            assert!(d_rows.row(j).iter().zip(want).all(close), "candidate {j}: {:?} for {want:?}", d_rows.row(j));
        }
    }
}
