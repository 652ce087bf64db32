//! How the cost of an epoch grows: a series for each quantity in which the paper's cost is linear, and for threads.
//!
//! Each point is a guided ComplEx epoch that differs in one quantity from the common setting. It measures CPU time, the
//! minimum of a few epochs, since the machine may be shared, and fits a line by least squares. Part of a batch's cost
//! does not grow with its triples (every touched row is updated once per step), so the line may start above zero.

use std::time::Instant;

use ruge_embed::scoring::ComplEx;
use ruge_embed::{
    CpuModel, Embeddings, Evidence, Guidance, Init, Model, Negatives, Optimizer, Plan, ScoringFunction, TNorm,
};
use ruge_kg::{Graph, Triple};

#[derive(Clone, Copy)]
struct Setting {
    dimension: usize,
    negatives: usize,
    triples: usize,
    groundings: usize,
    inner_steps: usize,
}

/// Epochs per point; the fastest counts.
const EPOCHS: u64 = 4;

/// Measures all series over at most `facts`; `evidence` builds groundings from some of them.
pub fn run(entities: usize, relations: usize, facts: &[Triple], evidence: fn(&[Triple], usize) -> Evidence) {
    let shared =
        Setting { dimension: 100, negatives: 10, triples: facts.len().min(60_000), groundings: 12_000, inner_steps: 1 };
    let cost = |setting: Setting| {
        let facts = &facts[..setting.triples];
        let graph = Graph::new(entities, relations, facts);
        let evidence = evidence(facts, setting.groundings);
        let guidance = Guidance::SoftLabels { slackness: 0.01, t_norm: TNorm::Product };
        let plan = Plan {
            negatives: Negatives { count: setting.negatives, ..Negatives::default() },
            evidence: &evidence,
            guidance,
            inner_steps: setting.inner_steps,
            ..Plan::new(&graph, facts, 1)
        };
        epoch(ComplEx::new(setting.dimension), &plan)
    };
    println!(
        "ComplEx, guided; d {}, {} negatives, {} triples, {} groundings, τ {}, {entities} entities; {} threads; load {}",
        shared.dimension,
        shared.negatives,
        shared.triples,
        shared.groundings,
        shared.inner_steps,
        rayon::current_num_threads(),
        load()
    );
    let values =
        |values: &[usize], most: usize| -> Vec<usize> { values.iter().copied().filter(|&x| x <= most).collect() };
    let any = usize::MAX;
    series("d", &values(&[50, 100, 200, 400, 800], any), |dimension| cost(Setting { dimension, ..shared }).0);
    series("α", &values(&[2, 5, 10, 20, 50], any), |negatives| cost(Setting { negatives, ..shared }).0);
    let triples = values(&[30_000, 60_000, 120_000, 240_000, 480_000], facts.len());
    series("triples", &triples, |triples| cost(Setting { triples, ..shared }).0);
    let groundings = values(&[0, 30_000, 60_000, 120_000, 240_000], any);
    series("unlabeled", &groundings, |groundings| cost(Setting { groundings, ..shared }).0);
    series("τ", &values(&[1, 2, 4, 8], any), |inner_steps| cost(Setting { inner_steps, ..shared }).0);
    threads(|| cost(Setting { triples: facts.len().min(120_000), ..shared }));
    println!("load at the end {}", load());
}

/// CPU and wall seconds of the fastest epoch.
fn epoch<F: ScoringFunction>(scoring: F, plan: &Plan<'_>) -> (f64, f64) {
    let embeddings = Embeddings::new(&scoring, plan.entities, plan.relations, &Init::default(), 1);
    let mut model = CpuModel::new(scoring, embeddings, Optimizer::default());
    let mut least = (f64::INFINITY, f64::INFINITY);
    for number in 1..=EPOCHS {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        model.epoch(plan, number).expect("a finite loss");
        least.0 = least.0.min(cpu_seconds() - cpu);
        least.1 = least.1.min(start.elapsed().as_secs_f64());
    }
    least
}

/// Prints a table of one quantity and the fitted line.
fn series(name: &str, values: &[usize], cost: impl Fn(usize) -> f64) {
    let points: Vec<(f64, f64)> = values.iter().map(|&value| (value as f64, cost(value))).collect();
    let (start, slope, r2) = line(&points);
    println!("\n| {name} | processor ms per epoch | the line | ns per unit |\n|---|---|---|---|");
    for &(x, seconds) in &points {
        println!(
            "| {x} | {:.1} | {:.1} | {} |",
            seconds * 1e3,
            (start + slope * x) * 1e3,
            if x > 0.0 { format!("{:.0}", seconds / x * 1e9) } else { "–".to_owned() }
        );
    }
    println!("{name}: {:.1} ms + {:.0} ns per unit, R² = {r2:.4}", start * 1e3, slope * 1e9);
}

/// Wall and CPU time by number of threads.
fn threads(cost: impl Fn() -> (f64, f64) + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("\n| threads | wall ms | processor ms | speed-up |\n|---|---|---|---|");
    let mut one = f64::NAN;
    for threads in (0..8).map(|power| 1 << power).take_while(|&threads| threads <= 2 * cores) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
        let (cpu, wall) = pool.install(&cost);
        one = if threads == 1 { wall } else { one };
        println!("| {threads} | {:.1} | {:.1} | {:.2} |", wall * 1e3, cpu * 1e3, one / wall);
    }
    println!("there are {cores} cores");
}

/// Intercept, slope and R² of the least-squares line.
fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(a, b)| of(a - x, b - y)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|a, _| a * a), sum(&|a, b| a * b), sum(&|_, b| b * b));
    let slope = xy / xx;
    (y - slope * x, slope, xy * xy / (xx * yy))
}

/// CPU seconds of all threads, finer than the ticks of `/proc/self/stat`.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("schedstat")).ok();
    tasks.filter_map(of).filter_map(|text| text.split_whitespace().next()?.parse::<f64>().ok()).sum::<f64>() / 1e9
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
