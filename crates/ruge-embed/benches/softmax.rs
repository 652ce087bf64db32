//! Benchmark: an epoch of softmax training on the CPU, compared with its lower bound: the three matrix products of
//! every batch by the `gemm` crate alone, in the same run and with the same shapes.
//!
//! `cargo bench -p ruge-embed --bench softmax -- [RANK] [BATCH] [SAMPLE] [ISA]` (200, 1000, 1000, the widest): ComplEx
//! with reciprocal relations on random triples of FB15K's size. A tenth of an epoch is run and extrapolated. CPU
//! seconds; the bound and the step alternate and the best of each counts, so that other load affects both.
#![allow(missing_docs, clippy::print_stdout)]

mod support;

use std::hint::black_box;

use rayon::prelude::*;
use ruge_embed::cpu::Isa;
use ruge_embed::cpu::matrix::{Matrix, multiply};
use ruge_embed::scoring::{ComplEx, Reciprocal};
use ruge_embed::*;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Graph, Triple};

const ENTITIES: usize = 14_951;
const RELATIONS: usize = 1_345;
const TRIPLES: usize = 483_142;
/// The fraction of an epoch that is run.
const PART: usize = 10;
const ROUNDS: u64 = 5;

/// Small ids are popular, as in real graphs.
fn facts(count: usize) -> Vec<Triple> {
    let draw = |i: usize, j: u64, bound: usize| {
        let x = random::unit(random::draw(1, Stream(1), j, i as u64));
        (x * x * bound as f64) as u32
    };
    (0..count).map(|i| Triple::new(draw(i, 0, ENTITIES), draw(i, 1, RELATIONS), draw(i, 2, ENTITIES))).collect()
}

fn table(rows: usize, width: usize) -> Table {
    let mut table = Table::zeros(rows, width);
    for row in 0..rows {
        for (k, x) in table.row_mut(row).iter_mut().enumerate() {
            *x = random::unit(random::draw(1, Stream(2), row as u64, k as u64)) as f32 - 0.5;
        }
    }
    table
}

/// The matrices of a batch, for one thread: queries, candidates, scores, and both gradients.
struct Batch {
    queries: Table,
    candidates: Table,
    scores: Table,
    d_queries: Table,
    d_candidates: Table,
}

impl Batch {
    fn new(batch: usize, sample: usize, width: usize) -> Self {
        let (queries, candidates) = (table(batch, width), table(sample, width));
        // A stride that is not a power of two avoids cache conflicts between rows.
        let scores = Table::zeros(batch, sample + 16);
        Self { d_queries: queries.clone(), d_candidates: candidates.clone(), queries, candidates, scores }
    }

    /// Scores, and their products with candidates and with queries, one call each.
    fn products(&mut self) {
        let isa = Isa::detect();
        let rows = |table: &Table| (table.rows(), table.width(), table.stride());
        let (batch, width, stride) = rows(&self.queries);
        let sample = self.candidates.rows();
        let queries = Matrix::of_rows(self.queries.as_slice(), batch, width, stride);
        let candidates = Matrix::of_rows(self.candidates.as_slice(), sample, width, stride);
        let apart = self.scores.stride();
        multiply(isa, queries, candidates.transposed(), self.scores.as_mut_slice(), apart, false);
        let slopes = Matrix::of_rows(self.scores.as_slice(), batch, sample, apart);
        multiply(isa, slopes, candidates, self.d_queries.as_mut_slice(), stride, false);
        multiply(isa, slopes.transposed(), queries, self.d_candidates.as_mut_slice(), stride, false);
        black_box(&mut self.d_queries);
        black_box(&mut self.d_candidates);
    }
}

fn spent(work: impl FnOnce()) -> f64 {
    let before = support::cpu_seconds();
    work();
    support::cpu_seconds() - before
}

fn main() {
    if let Some(isa) = std::env::args().find_map(|word| word.parse::<Isa>().ok()) {
        Isa::limit(isa).expect("chosen before any model");
    }
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (rank, batch, sample) = (number(0, 200), number(1, 1000), number(2, 1000));
    let triples = facts(TRIPLES / PART);
    let graph = Graph::new(ENTITIES, RELATIONS, &triples);
    let scoring = Reciprocal(ComplEx::new(rank));
    let start = Start::Normal { deviation: 1e-3, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let rule = UpdateRule::AdaGrad { epsilon: 1e-10, inside: false };
    let optimizer = Optimizer { rule, entity_rate: 0.1, relation_rate: 0.1, cap: Cap::None };
    let embeddings = Embeddings::new(&scoring, ENTITIES, RELATIONS, &init, 5);
    let softmax = Softmax { batch, sample, ..Softmax::default() };
    let plan = Plan { softmax: Some(softmax), ..Plan::new(&graph, &triples, 9) };
    let mut model = CpuModel::new(scoring, embeddings, optimizer);

    let among = if (1..ENTITIES).contains(&sample) { sample } else { ENTITIES };
    let batches = (2 * triples.len()).div_ceil(batch);
    let threads = rayon::current_num_threads();
    let mut alone: Vec<Batch> = (0..threads).map(|_| Batch::new(batch, among, 2 * rank)).collect();
    let each = batches.div_ceil(threads);
    let (mut floor, mut step) = (f64::INFINITY, f64::INFINITY);
    for epoch in 1..=ROUNDS {
        let products = spent(|| alone.par_iter_mut().for_each(|batch| (0..each).for_each(|_| batch.products())));
        floor = floor.min(products / (threads * each) as f64);
        let epoch = spent(|| {
            model.epoch(&plan, epoch).expect("a finite loss");
        });
        step = step.min(epoch / batches as f64);
    }
    let rate = |seconds: f64| 12.0 * (batch * among * rank) as f64 / seconds / 1e9;
    let whole = (2 * TRIPLES).div_ceil(batch) as f64;
    println!(
        "rank {rank}, batches of {batch}, {among} candidates, {threads} threads; processor time of a batch, and of an epoch"
    );
    println!("products alone {:6.2} ms  {:6.1} s  {:5.1} GFLOP/s a core", 1e3 * floor, floor * whole, rate(floor));
    println!("step           {:6.2} ms  {:6.1} s  {:5.1} GFLOP/s a core", 1e3 * step, step * whole, rate(step));
    println!("the step runs at {:.0} % of the products' rate", 100.0 * floor / step);
}
