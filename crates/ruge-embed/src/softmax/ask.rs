//! Questions answered among many rows: scores, softmax, and both products with the scores' gradient.
//!
//! Candidates are cut into chunks and questions into blocks, both at fixed places, and only a block's scores exist at a time. A
//! chunk's scores and its part of the gradient have one owner; sums over chunks run in their order. So the bits do not
//! depend on the number of threads.

use rayon::prelude::*;

use crate::cpu::matrix::{Matrix, multiply};
use crate::cpu::{Isa, Kernel, row};
use crate::table::Table;

/// Candidates whose scores have one owner.
pub(super) const CHUNK: usize = 512;
/// Questions scored at a time.
const BLOCK: usize = 256;
/// Questions whose query gradients have one owner.
pub(super) const STRIP: usize = 32;

/// Rows that answers are sought among, `stride` floats apart within a chunk.
pub(super) struct Candidates<'a> {
    pub data: &'a [f32],
    pub width: usize,
    pub stride: usize,
    /// Where each chunk begins in `data`, and how many rows it has, CHUNK at most.
    pub chunks: Vec<(usize, usize)>,
}

impl<'a> Candidates<'a> {
    /// Rows in their order from `offset` on.
    pub fn rows(offset: usize, rows: usize, stride: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..rows.div_ceil(CHUNK)).map(move |chunk| (offset + chunk * CHUNK * stride, CHUNK.min(rows - chunk * CHUNK)))
    }

    fn chunk(&self, chunk: usize) -> Matrix<'a> {
        let (from, rows) = self.chunks[chunk];
        Matrix::of_rows(&self.data[from..], rows, self.width, self.stride)
    }
}

/// A batch of questions.
pub(super) struct Asked<'a> {
    pub queries: &'a Table,
    /// Places of the answers, CHUNK to a chunk; beyond all chunks where an answer is no candidate.
    pub answers: &'a [u32],
    /// What each question's loss is multiplied by.
    pub weights: &'a [f32],
    /// Where candidates are a sample, the answers' own scores: each answer then stands beside the sample, not in it.
    pub own: Option<Own<'a>>,
}

/// Answers beside a sample.
pub(super) struct Own<'a> {
    pub scores: &'a [f32],
    /// Entities that the sample stands for, the answer not counted.
    pub others: usize,
}

/// Answers them all; returns Σ weight · loss and leaves the gradients by queries and by candidates, CHUNK rows to a chunk, and
/// by the answers' own scores where those stand beside a sample.
pub(super) fn ask(
    asked: &Asked<'_>,
    candidates: &Candidates<'_>,
    scores: &mut Vec<f32>,
    d_queries: &mut Table,
    d_candidates: &mut Table,
    d_own: &mut Vec<f32>,
    isa: Isa,
) -> f64 {
    let (width, stride) = (candidates.width, asked.queries.stride());
    let (chunks, count) = (candidates.chunks.len(), asked.answers.len());
    let mut loss = 0.0f64;
    let drawn: usize = candidates.chunks.iter().map(|chunk| chunk.1).sum();
    d_own.clear();
    scores.resize(chunks * CHUNK * BLOCK.min(count), 0.0);
    for from in (0..count).step_by(BLOCK) {
        let m = BLOCK.min(count - from);
        let (answers, weights) = (&asked.answers[from..from + m], &asked.weights[from..from + m]);
        let queries = Matrix::of_rows(&asked.queries.as_slice()[from * stride..], m, width, stride);
        // Scores stand chunk by chunk, m rows of CHUNK each.
        let scores = &mut scores[..chunks * CHUNK * m];
        scores.par_chunks_mut(CHUNK * m).enumerate().for_each(|(chunk, scores)| {
            multiply(queries, candidates.chunk(chunk).transposed(), scores, CHUNK, false);
        });
        let sizes = &candidates.chunks;
        if asked.own.is_some() {
            for (at, &answer) in answers.iter().enumerate().filter(|(_, answer)| (**answer as usize) < chunks * CHUNK) {
                scores[(answer as usize / CHUNK * m + at) * CHUNK + answer as usize % CHUNK] = f32::NEG_INFINITY;
            }
        }
        let mut normals: Vec<(f32, f32, f64)> = (0..m)
            .into_par_iter()
            .map(|at| isa.run(Normal { scores, m, at, sizes, answer: answers[at] as usize }))
            .collect();
        if let Some(own) = &asked.own {
            for (at, normal) in normals.iter_mut().enumerate() {
                let own_score = own.scores[from + at];
                let hit = usize::from((answers[at] as usize) < chunks * CHUNK);
                // Everyone drawn speaks for so many.
                let share = (own.others as f64 / (drawn - hit).max(1) as f64).ln();
                let (largest, own_score) = (f64::from(normal.0) + share, f64::from(own_score));
                let top = largest.max(own_score);
                let own_part = (own_score - top).exp();
                let sum = f64::from(normal.1) * (largest - top).exp() + own_part;
                *normal = ((top - share) as f32, sum as f32, sum.ln() + top - own_score);
                d_own.push(weights[at] * (own_part / sum - 1.0) as f32);
            }
        }
        loss += weights.iter().zip(&normals).map(|(weight, normal)| f64::from(*weight) * normal.2).sum::<f64>();
        scores.par_chunks_mut(CHUNK * m).enumerate().for_each(|(chunk, scores)| {
            for (at, (scores, normal)) in scores.chunks_exact_mut(CHUNK).zip(&normals).enumerate() {
                let scores = &mut scores[..sizes[chunk].1];
                isa.run(Slopes { scores, largest: normal.0, factor: weights[at] / normal.1 });
                if asked.own.is_none() && answers[at] as usize / CHUNK == chunk {
                    scores[answers[at] as usize % CHUNK] -= weights[at];
                }
            }
        });
        let scores: &[f32] = scores;
        let d_stride = d_candidates.stride();
        d_candidates.as_mut_slice().par_chunks_mut(CHUNK * d_stride).take(chunks).enumerate().for_each(
            |(chunk, d_candidates)| {
                let slopes = Matrix::of_rows(&scores[chunk * CHUNK * m..], m, sizes[chunk].1, CHUNK).transposed();
                multiply(slopes, queries, d_candidates, d_stride, from > 0);
            },
        );
        d_queries.as_mut_slice()[from * stride..(from + m) * stride]
            .par_chunks_mut(STRIP * stride)
            .enumerate()
            .for_each(|(strip, d_queries)| {
                let (first, n) = (strip * STRIP, STRIP.min(m - strip * STRIP));
                for chunk in 0..chunks {
                    let slopes = Matrix::of_rows(&scores[(chunk * m + first) * CHUNK..], n, sizes[chunk].1, CHUNK);
                    multiply(slopes, candidates.chunk(chunk), d_queries, stride, chunk > 0);
                }
            });
    }
    loss
}

/// eˣ for x ≤ 0 to about 2e-7, 0 below −87: short enough to vectorise, and the same bits everywhere.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.max(-87.0);
    let turns = (x * std::f32::consts::LOG2_E).round_ties_even();
    // ln 2 in two pieces keeps the low bits of x − turns · ln 2.
    let y = (-turns).mul_add(-2.121_944_4e-4, (-turns).mul_add(0.693_359_4, x));
    let power = (1.0f32 / 5040.0)
        .mul_add(y, 1.0 / 720.0)
        .mul_add(y, 1.0 / 120.0)
        .mul_add(y, 1.0 / 24.0)
        .mul_add(y, 1.0 / 6.0)
        .mul_add(y, 0.5)
        .mul_add(y * y, y + 1.0);
    let scaled = power * f32::from_bits(((turns as i32 + 127) << 23) as u32);
    if x <= -87.0 { 0.0 } else { scaled }
}

/// The largest score of a question, Σ exp(score − largest), and its loss.
struct Normal<'a> {
    scores: &'a [f32],
    m: usize,
    at: usize,
    sizes: &'a [(usize, usize)],
    answer: usize,
}

impl Kernel for Normal<'_> {
    type Output = (f32, f32, f64);
    #[inline(always)]
    fn run(self) -> Self::Output {
        let parts = || {
            self.scores
                .chunks_exact(CHUNK * self.m)
                .zip(self.sizes)
                .map(|(scores, &(_, rows))| &scores[self.at * CHUNK..][..rows])
        };
        let mut largest = [f32::NEG_INFINITY; 16];
        for part in parts() {
            for lanes in part.chunks(16) {
                for (best, &score) in largest.iter_mut().zip(lanes) {
                    *best = best.max(score);
                }
            }
        }
        let largest = largest.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let mut sums = [0.0f32; 16];
        for part in parts() {
            for lanes in part.chunks(16) {
                for (sum, &score) in sums.iter_mut().zip(lanes) {
                    *sum += exp(score - largest);
                }
            }
        }
        let sum = row::fold(sums);
        let place = (self.answer / CHUNK * self.m + self.at) * CHUNK + self.answer % CHUNK;
        let own = self.scores.get(place).copied().unwrap_or(0.0);
        (largest, sum, f64::from(sum).ln() + f64::from(largest) - f64::from(own))
    }
}

/// Turns scores into ∂loss/∂score, but for the answer.
struct Slopes<'a> {
    scores: &'a mut [f32],
    largest: f32,
    factor: f32,
}

impl Kernel for Slopes<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for score in self.scores {
            *score = exp(*score - self.largest) * self.factor;
        }
    }
}
