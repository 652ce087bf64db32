//! Benchmark: an epoch of ComplEx and RUGE in the paper's setting (d = 200, ten negatives, 100 batches), compared with
//! the time the machine needs to move the 48 GB that a plain implementation moves, at the triad rate of this run.
//!
//! Arguments: `--data FOLDER` (or the variable `RUGE_DATA`) for a real data set, `--model NAME`, `--dimension N`,
//! `--negatives N`, `--epochs N`, `--threads N`. `--scaling` measures how the cost grows with d, α, triples, unlabeled
//! triples, τ and threads; it takes a few minutes.
#![allow(missing_docs, clippy::print_stdout)]

mod scaling;
mod support;

use std::path::PathBuf;
use std::time::Instant;

use ruge_embed::scoring::{ComplEx, DistMult, HolE, RotatE, TransEL1};
use ruge_embed::*;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Dataset, Graph, ReadOptions, Triple};

fn argument<T: std::str::FromStr>(name: &str) -> Option<T> {
    let mut arguments = std::env::args();
    arguments.find(|x| x == name)?;
    arguments.next()?.parse().ok()
}

/// As many triples as FB15K, with small ids more popular.
fn synthetic() -> (usize, usize, Vec<Triple>) {
    let (entities, relations, triples) = (14_951, 1_345, 483_142);
    let draw = |i: u64, j: u64, bound: usize| {
        let x = random::unit(random::draw(1, Stream(1), j, i));
        (x * x * bound as f64) as u32
    };
    let facts = (0..triples).map(|i| Triple::new(draw(i, 0, entities), draw(i, 1, relations), draw(i, 2, entities)));
    (entities, relations, facts.collect())
}

/// `count` groundings; five in six have one premise, as with FB15K and its published rules.
fn groundings(facts: &[Triple], count: usize) -> Evidence {
    let mut evidence = Evidence::default();
    let draw =
        |i: usize, j: u64| facts[random::below(random::draw(2, Stream(1), j, i as u64), facts.len() as u64) as usize];
    for i in 0..count {
        let (premise, other) = (draw(i, 0), draw(i, 1));
        let conclusion = Triple { relation: other.relation, ..premise.reversed() };
        if i % 6 == 0 {
            evidence.push(&[premise, other], conclusion, 0.9);
        } else {
            evidence.push(&[premise], conclusion, 0.9);
        }
    }
    evidence
}

fn main() {
    if let Some(threads) = argument("--threads") {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("the first pool");
    }
    let dimension = argument("--dimension").unwrap_or(200);
    let named = std::env::var_os("RUGE_DATA").map(|folder| PathBuf::from(folder).join("fb15k"));
    let (entities, relations, facts) = match argument("--data").or(named) {
        None => synthetic(),
        Some(path) => {
            let (data, _) = Dataset::load(&path, &ReadOptions::default()).expect("a data set");
            (data.entity_count(), data.relation_count(), data.train().to_vec())
        }
    };
    if std::env::args().any(|argument| argument == "--scaling") {
        return scaling::run(entities, relations, &facts, groundings);
    }
    let graph = Graph::new(entities, relations, &facts);
    let model: String = argument("--model").unwrap_or_else(|| "complex".to_owned());
    match model.as_str() {
        "complex" => measure(ComplEx::new(dimension), &graph, &facts),
        "distmult" => measure(DistMult::new(dimension), &graph, &facts),
        "hole" => measure(HolE::new(dimension), &graph, &facts),
        "transe" => measure(TransEL1::new(dimension), &graph, &facts),
        "rotate" => measure(RotatE::new(dimension), &graph, &facts),
        other => println!("no model {other}; there are complex, distmult, hole, transe and rotate"),
    }
}

/// Unguided and guided epochs alternate, so that other load affects both.
fn measure<F: ScoringFunction + Clone>(scoring: F, graph: &Graph, facts: &[Triple]) {
    let evidence = groundings(facts, 96_724);
    let triad = support::triad();
    let floor = 48e9 / triad;
    println!("triad {:.1} GB/s on {} threads: 48 GB in {floor:.2} s", triad / 1e9, rayon::current_num_threads());
    let plain = Plan {
        negatives: Negatives { count: argument("--negatives").unwrap_or(10), ..Negatives::default() },
        evidence: &evidence,
        ..Plan::new(graph, facts, 1)
    };
    let guidance = Guidance::SoftLabels { slackness: 0.01, t_norm: TNorm::Product };
    let plans = [("unguided", plain), ("guided", Plan { guidance, ..plain })];
    let (entities, relations) = (graph.entity_count(), graph.relation_count());
    let mut models = plans.map(|_| {
        let embeddings = Embeddings::new(&scoring, entities, relations, &Init::default(), 1);
        CpuModel::new(scoring.clone(), embeddings, Optimizer::default())
    });
    let mut processor = [f64::INFINITY; 2];
    for epoch in 1..=argument("--epochs").unwrap_or(3) {
        for (which, (name, plan)) in plans.iter().enumerate() {
            let model = &mut models[which];
            let (start, cpu) = (Instant::now(), support::cpu_seconds());
            let losses = model.epoch(plan, epoch).expect("a finite loss");
            let seconds = start.elapsed().as_secs_f64();
            let cpu = support::cpu_seconds() - cpu;
            processor[which] = processor[which].min(cpu);
            println!(
                "{name:8} epoch {epoch}: {seconds:.2} s, {:.2} of the floor; {cpu:.2} processor seconds; loss {:.4} {:.4}; \
                 {:.2} times parameters, state and gradients",
                seconds / floor,
                losses.labeled,
                losses.unlabeled,
                model.bytes() as f64 / (3.0 * model.state().embeddings.bytes() as f64),
            );
        }
    }
    println!(
        "guidance costs {:.1} %; {:.2} processor seconds on {} quiet cores would be {:.2} of the floor",
        100.0 * (processor[1] / processor[0] - 1.0),
        processor[1],
        rayon::current_num_threads(),
        processor[1] / rayon::current_num_threads() as f64 / floor
    );
}
