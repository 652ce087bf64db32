//! Softmax over a sample of candidates: one thread takes a strip of questions from rows to gradients in its cache.
//!
//! Strips depend on the number of threads, sums do not: a question is summed over chunks of candidates and a candidate
//! over parts of the questions, both split at fixed positions, and products have a fixed order of summation.

use rayon::prelude::*;

use super::Question;
use super::ask::{Exponentials, Slopes};
use super::query::{Asking, Backward, Queries, Run};
use crate::cpu::matrix::{Matrix, multiply, multiply_part, multiply_wide};
use crate::cpu::{Isa, Kernel};
use crate::scoring::ScoringFunction;
use crate::table::Table;

/// Candidates per partial sum of a question.
const CHUNK: usize = 512;
/// The same for a small sample.
const SMALL_CHUNK: usize = 128;
/// Questions per partial sum of a candidate's gradient.
const PART: usize = 256;
/// Maximum scores at a time, unless one part has more.
const SCORES: usize = 1 << 20;
/// Rows per register tile, and minimum tiles per strip.
const TILE: usize = 6;
const TILES: usize = 8;
/// Products with fewer columns may be summed in another order if they also have few rows.
const NARROW: usize = 8;

/// A question's answer, separate from the sample.
#[derive(Clone, Copy, Default)]
pub(super) struct Own {
    /// Its index in the sample, if it was drawn; it is skipped there.
    pub place: Option<u32>,
    /// Weight of its loss.
    pub weight: f32,
    pub score: f32,
    pub d_score: f32,
    pub loss: f64,
}

pub(super) struct Sample<'a> {
    pub rows: &'a Table,
    pub count: usize,
    /// Entities they stand for, without the answer.
    pub others: usize,
    pub isa: Isa,
}

/// The gradients of a batch: by question, and by candidate.
pub(super) struct Gradients<'a> {
    pub queries: &'a mut Table,
    pub d_queries: &'a mut Table,
    pub d_given: &'a mut [f32],
    pub d_relations: &'a mut Table,
    pub d_candidates: &'a mut Table,
}

struct Strip<'a> {
    run: Run<'a>,
    own: &'a mut [Own],
    queries: &'a mut [f32],
    scores: &'a mut [f32],
    d_queries: &'a mut [f32],
    d_given: &'a mut [f32],
    d_relations: &'a mut [f32],
}

impl Sample<'_> {
    fn chunk(&self) -> usize {
        if self.count <= CHUNK { SMALL_CHUNK } else { CHUNK }
    }

    /// Floats between the scores of consecutive questions: an odd number of cache lines avoids cache conflicts.
    fn apart(&self) -> usize {
        16 * (self.count.div_ceil(16) | 1)
    }

    fn candidates(&self, from: usize, count: usize) -> Matrix<'_> {
        let stride = self.rows.stride();
        Matrix::of_rows(&self.rows.as_slice()[from * stride..], count, self.rows.width(), stride)
    }

    /// Processes a batch; returns Σ weight · loss. `meanwhile` runs on a thread that would otherwise wait.
    pub fn ask<F: ScoringFunction>(
        &self,
        asking: &Asking<'_, F>,
        questions: &[Question],
        own: &mut [Own],
        scores: &mut Vec<f32>,
        gradients: Gradients<'_>,
        meanwhile: impl FnOnce() + Send,
    ) -> f64 {
        let Gradients { queries, d_queries, d_given, d_relations, d_candidates } = gradients;
        let (apart, width) = (self.apart(), self.rows.width());
        let (stride, relation_stride) = (queries.stride(), d_relations.stride());
        let ask = |asked: usize, strip: Strip<'_>| {
            let Strip { run, own, queries, scores, d_queries, d_given, d_relations } = strip;
            self.isa.run(Queries { asking, run, queries, stride, own: Some(own) });
            let rows = Matrix::of_rows(queries, own.len(), width, stride);
            self.answer(asked, rows, own, scores, d_queries, stride);
            let own = Some(&*own);
            self.isa.run(Backward { asking, run, own, d_queries, d_given, stride, d_relations, relation_stride });
        };
        let smallest = (self.count - 1) % self.chunk() + 1;
        // Whole parts, so that no sum depends on the number of questions in a block.
        let block = PART * (SCORES / (PART * apart)).max(1);
        scores.resize(block.min(questions.len()) * apart, 0.0);
        let mut meanwhile = Some(meanwhile);
        for (from, questions) in (0..).step_by(block).zip(questions.chunks(block)) {
            let count = questions.len();
            let rows = |table| &mut Table::as_mut_slice(table)[from * stride..(from + count) * stride];
            let (mut queries_left, mut d_queries) = (rows(queries), rows(d_queries));
            let mut d_given = &mut d_given[from * stride..(from + count) * stride];
            let mut d_relations = &mut d_relations.as_mut_slice()[from * relation_stride..];
            let (mut own, mut scores_left, mut first) = (&mut own[from..from + count], &mut scores[..count * apart], 0);
            let mut strips = Vec::new();
            for end in ends(count, smallest, rayon::current_num_threads()) {
                let rows = end - first;
                strips.push(Strip {
                    run: Run { questions: &questions[first..end], first: from + first },
                    own: take(&mut own, rows),
                    queries: take(&mut queries_left, rows * stride),
                    scores: take(&mut scores_left, rows * apart),
                    d_queries: take(&mut d_queries, rows * stride),
                    d_given: take(&mut d_given, rows * stride),
                    d_relations: take(&mut d_relations, rows * relation_stride),
                });
                first = end;
            }
            let meanwhile = meanwhile.take();
            let ask = &|strip: Strip<'_>| ask(count, strip);
            rayon::scope(|scope| {
                let mut strips = strips.into_iter();
                let first = strips.next();
                strips.for_each(|strip| scope.spawn(move |_| ask(strip)));
                // Run last, by the first idle thread.
                meanwhile.into_iter().for_each(|work| scope.spawn(|_| work()));
                first.into_iter().for_each(ask);
            });
            let queries = Matrix::of_rows(&queries.as_slice()[from * stride..], count, width, stride);
            self.pull(queries, &scores[..count * apart], d_candidates, from > 0);
        }
        own.iter().map(|own| own.loss).sum()
    }

    /// From queries to the gradients by queries, by scores and by the answers' own scores. `asked` is the number of all
    /// questions.
    fn answer(
        &self,
        asked: usize,
        queries: Matrix<'_>,
        own: &mut [Own],
        scores: &mut [f32],
        d_queries: &mut [f32],
        stride: usize,
    ) {
        let (apart, chunk) = (self.apart(), self.chunk());
        // Chunk by chunk: its rows stay in the cache with the queries.
        for from in (0..self.count).step_by(chunk) {
            let candidates = self.candidates(from, chunk.min(self.count - from)).transposed();
            multiply_part(self.isa, asked, queries, candidates, &mut scores[from..], apart, false);
        }
        self.isa.run(Softmaxes { own, scores, apart, count: self.count, chunk, others: self.others });
        for from in (0..self.count).step_by(chunk) {
            let size = chunk.min(self.count - from);
            let slopes = Matrix::of_rows(&scores[from..], queries.rows, size, apart);
            multiply_wide(self.isa, slopes, self.candidates(from, size), d_queries, stride, from > 0);
        }
    }

    /// The gradients by candidates, or a block's contribution to them, from those by its scores.
    fn pull(&self, queries: Matrix<'_>, slopes: &[f32], d_candidates: &mut Table, add: bool) {
        let (apart, stride) = (self.apart(), d_candidates.stride());
        let (mut rows, mut first) = (d_candidates.as_mut_slice(), 0);
        let ends = ends(self.count, queries.columns, rayon::current_num_threads());
        let pieces: Vec<(usize, usize, &mut [f32])> = ends
            .into_iter()
            .map(|end| {
                let from = std::mem::replace(&mut first, end);
                (from, end - from, take(&mut rows, (end - from) * stride))
            })
            .collect();
        pieces.into_par_iter().with_max_len(1).for_each(|(from, size, d_rows)| {
            for first in (0..queries.rows).step_by(PART) {
                let count = PART.min(queries.rows - first);
                let slopes = Matrix::of_rows(&slopes[first * apart + from..], count, size, apart);
                let queries = Matrix { data: &queries.data[first * queries.row_stride..], rows: count, ..queries };
                multiply(self.isa, slopes.transposed(), queries, d_rows, stride, add || first > 0);
            }
        });
    }
}

fn take<'a, T>(from: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (some, others) = std::mem::take(from).split_at_mut(count);
    *from = others;
    some
}

/// The ends of strips of `rows`: one strip per thread unless they get too small, of whole tiles except the last. A
/// single strip for products with so few columns that the number of rows could change the bits.
fn ends(rows: usize, columns: usize, threads: usize) -> Vec<usize> {
    let tiles = rows.div_ceil(TILE);
    let strips = if columns < NARROW { 1 } else { (tiles / TILES).clamp(1, threads.max(1)) };
    (1..=strips).map(|strip| (tiles * strip / strips * TILE).min(rows)).collect()
}

/// Turns a strip's scores into their gradient; computes losses and the gradients by the answers' own scores.
struct Softmaxes<'a> {
    own: &'a mut [Own],
    scores: &'a mut [f32],
    apart: usize,
    count: usize,
    chunk: usize,
    others: usize,
}

impl Kernel for Softmaxes<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut parts = vec![(0.0f32, 0.0f32); self.count.div_ceil(self.chunk)];
        let mut factors = vec![0.0f64; parts.len()];
        // The number of entities each drawn one stands for, by whether the answer was drawn.
        let shares = [0, 1].map(|hit| (self.others as f64 / self.count.saturating_sub(hit).max(1) as f64).ln());
        for (own, scores) in self.own.iter_mut().zip(self.scores.chunks_exact_mut(self.apart)) {
            let scores = &mut scores[..self.count];
            if let Some(place) = own.place {
                scores[place as usize] = f32::NEG_INFINITY;
            }
            for (part, scores) in parts.iter_mut().zip(scores.chunks_mut(self.chunk)) {
                *part = Exponentials { scores }.run();
            }
            // Far fewer than the scores, so in `f64`.
            let share = shares[usize::from(own.place.is_some())];
            let largest = parts.iter().map(|part| part.0).fold(f32::NEG_INFINITY, f32::max);
            let top = (f64::from(largest) + share).max(f64::from(own.score));
            // A part whose scores are all −∞ has the factor e^−∞ = 0.
            let factor = |largest: f32| (f64::from(largest) + share - top).exp();
            let own_part = (f64::from(own.score) - top).exp();
            for (part, factor_of) in parts.iter().zip(&mut factors) {
                *factor_of = factor(part.0);
            }
            let sum: f64 =
                parts.iter().zip(&factors).map(|(part, factor)| f64::from(part.1) * factor).sum::<f64>() + own_part;
            let weight = f64::from(own.weight);
            own.d_score = own.weight * (own_part / sum - 1.0) as f32;
            own.loss = weight * (sum.ln() + top - f64::from(own.score));
            for (factor, scores) in factors.iter().zip(scores.chunks_mut(self.chunk)) {
                Slopes { scores, factor: (weight * factor / sum) as f32 }.run();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several chunks, parts and strips against the definition in `f64`, with scores so far apart that some hardly
    /// count.
    #[test]
    fn sums_over_chunks_and_parts_follow_the_definition() {
        let (count, width, others) = (300, 5, 5000);
        let fill = |rows: usize, salt: usize| {
            let entry = |i: usize| ((i * 7919 + salt) % 1009) as f32 / 250.0 - 2.0;
            Table::from_dense(rows, width, &(0..rows * width).map(entry).collect::<Vec<f32>>())
        };
        for among in [1100, 300] {
            let (queries, rows) = (fill(count, 3), fill(among, 71));
            // Every third answer is not a candidate.
            let place = |i: usize| (!i.is_multiple_of(3)).then_some((i * 37 % among) as u32);
            let of = |i: usize| Own {
                place: place(i),
                weight: 0.5 + (i % 3) as f32,
                score: (i % 7) as f32 - 3.0,
                ..Own::default()
            };
            let mut own: Vec<Own> = (0..count).map(of).collect();
            let sample = Sample { rows: &rows, count: among, others, isa: Isa::detect() };
            let (mut d_queries, mut d_rows) = (Table::zeros(count, width), Table::zeros(among, width));
            let mut scores = vec![0.0; count * sample.apart()];
            let asked = Matrix::of_rows(queries.as_slice(), count, width, queries.stride());
            let stride = queries.stride();
            sample.answer(count, asked, &mut own, &mut scores, d_queries.as_mut_slice(), stride);
            sample.pull(asked, &scores, &mut d_rows, false);

            let wide = |row: &[f32]| row.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
            let mut d_all = vec![vec![0.0f64; width]; among];
            let close = |found: f32, want: f64| (f64::from(found) - want).abs() < 1e-4 * (1.0 + want.abs());
            for (i, found) in own.iter().enumerate() {
                let (query, weight) = (wide(queries.row(i)), f64::from(found.weight));
                let drawn = among - usize::from(found.place.is_some());
                let part = |j: usize| {
                    let score = wide(rows.row(j)).iter().zip(&query).map(|(x, y)| x * y).sum::<f64>();
                    if found.place == Some(j as u32) { 0.0 } else { others as f64 / drawn as f64 * score.exp() }
                };
                let own_part = f64::from(found.score).exp();
                let sum = (0..among).map(part).sum::<f64>() + own_part;
                let mut d_query = vec![0.0f64; width];
                for (j, d_row) in d_all.iter_mut().enumerate() {
                    let slope = weight * part(j) / sum;
                    d_query.iter_mut().zip(wide(rows.row(j))).for_each(|(d, x)| *d += slope * x);
                    d_row.iter_mut().zip(&query).for_each(|(d, x)| *d += slope * x);
                }
                assert!(d_queries.row(i).iter().zip(&d_query).all(|(&x, &y)| close(x, y)), "query {i}");
                assert!(close(found.d_score, weight * (own_part / sum - 1.0)), "answer of {i}");
                let loss = weight * (sum.ln() - f64::from(found.score));
                assert!((found.loss - loss).abs() < 1e-5 * loss.abs(), "loss {} for {loss}", found.loss);
            }
            for (j, want) in d_all.iter().enumerate() {
                let close = |(&x, &y): (&f32, &f64)| (f64::from(x) - y).abs() < 1e-3 * (1.0 + y.abs());
                assert!(d_rows.row(j).iter().zip(want).all(close), "candidate {j}: {:?} for {want:?}", d_rows.row(j));
            }
        }
    }

    #[test]
    fn strips_are_whole_tiles_and_none_is_tiny() {
        assert_eq!(ends(1000, 1000, 2), [498, 1000]);
        for (rows, columns, threads) in [(1000, 1000, 1), (991, 400, 16), (97, 3, 64), (5, 1000, 8), (1000, 2, 7)] {
            let ends = ends(rows, columns, threads);
            assert_eq!(ends.last(), Some(&rows));
            let mut from = 0;
            for &end in &ends {
                assert!(end == rows || end.is_multiple_of(TILE));
                assert!(ends.len() == 1 || (end - from > TILE * (TILES - 1) && columns >= NARROW), "{ends:?}");
                from = end;
            }
        }
    }
}
