//! Benchmark: exact filtered ranking at FB15K's size, as a share of the machine's multiply-add rate in the same run;
//! and the ten best answers to the same queries, as a share of the ranking rate.
#![allow(missing_docs, clippy::print_stdout)]

mod support;

use std::hint::black_box;
use std::time::Instant;

use ruge_embed::cpu::Isa;
use ruge_embed::rank::{Candidates, Packing};
use ruge_embed::scoring::{ComplEx, RotatE, TransEL1};
use ruge_embed::{ScoringFunction, Table};
use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Filter, Hide, RankQuery, TopOptions, Triple};

const ENTITIES: usize = 14_951;
const RELATIONS: usize = 1_345;

fn table(rows: usize, width: usize) -> Table {
    let mut table = Table::zeros(rows, width);
    for row in 0..rows {
        for (k, x) in table.row_mut(row).iter_mut().enumerate() {
            *x = random::unit(random::draw(1, Stream(2), row as u64, k as u64)) as f32 - 0.5;
        }
    }
    table
}

fn measure<F: ScoringFunction>(scoring: &F, facts: &[Triple], known: &Filter, peak: f64) {
    let (e, r) = (table(ENTITIES, scoring.entity_width()), table(RELATIONS, scoring.relation_width()));
    let queries = RankQuery::both_sides(facts);
    let (start, cpu) = (Instant::now(), support::cpu_seconds());
    let packing = Packing::default();
    let candidates = Candidates { scoring, entities: &e, relations: &r, packing: &packing, isa: Isa::detect() };
    let control = Control::default();
    let ranks = candidates.rank(&queries, Some(known), &control).expect("nobody cancels");
    let seconds = start.elapsed().as_secs_f64();
    let share = (support::cpu_seconds() - cpu) / seconds / rayon::current_num_threads() as f64;
    let flops = 2.0 * queries.len() as f64 * ENTITIES as f64 * scoring.entity_width() as f64;
    let mean = ranks.iter().map(|rank| f64::from(rank.raw.better)).sum::<f64>() / ranks.len() as f64;
    println!(
        "{:10} {} queries in {seconds:.2} s: {:.0} GFLOP/s, {:.0} % of the peak with {:.0} % of the cores; {:.1} s for FB15K's test (mean rank {mean:.0})",
        F::NAME,
        queries.len(),
        flops / seconds / 1e9,
        100.0 * flops / seconds / peak,
        100.0 * share,
        seconds * 118_142.0 / queries.len() as f64,
    );
    // CPU time, alternating, so that other load disturbs neither.
    let options = TopOptions { hide: Hide::Known(known), ..TopOptions::new(10) };
    let spent = |work: &dyn Fn()| {
        let before = support::cpu_seconds();
        work();
        support::cpu_seconds() - before
    };
    let (mut ranking, mut answering) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..3 {
        ranking = ranking.min(spent(&|| {
            black_box(candidates.rank(&queries, Some(known), &control).is_ok());
        }));
        answering = answering.min(spent(&|| {
            black_box(candidates.top(&queries, &options, &control).is_ok());
        }));
    }
    println!(
        "{:10} the ten best: {answering:.2} processor seconds, ranking {ranking:.2}: {:.0} % of its rate",
        "",
        100.0 * ranking / answering
    );
}

fn main() {
    let triples: usize = std::env::args().filter_map(|x| x.parse().ok()).next().unwrap_or(6_000);
    let draw = |i: usize, j: u64, bound: usize| {
        // Squaring makes small ids popular, as in real graphs.
        let x = random::unit(random::draw(1, Stream(1), j, i as u64));
        (x * x * bound as f64) as u32
    };
    let facts: Vec<Triple> =
        (0..590_000).map(|i| Triple::new(draw(i, 0, ENTITIES), draw(i, 1, RELATIONS), draw(i, 2, ENTITIES))).collect();
    let known = Filter::new(ENTITIES, RELATIONS, &[&facts]);
    let peak = support::fma_peak();
    measure(&ComplEx::new(200), &facts[..triples], &known, peak);
    measure(&TransEL1::new(100), &facts[..triples], &known, peak);
    measure(&RotatE::new(200), &facts[..triples / 4], &known, peak);
}
