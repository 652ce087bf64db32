//! An epoch of ComplEx and of RUGE in the paper's setting (d = 200, ten negatives, 100 batches), against the time in which
//! the machine could move the 48 GB that a plain implementation moves, at the triad rate measured in the same run.
//!
//! Arguments: `--data FOLDER` for a real data set, `--dimension N`, `--negatives N`, `--epochs N`, `--threads N`.
#![allow(missing_docs, clippy::print_stdout)]

mod support;

use std::path::PathBuf;
use std::time::Instant;

use ruge_embed::scoring::ComplEx;
use ruge_embed::*;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Dataset, Graph, ReadOptions, Triple};

fn argument<T: std::str::FromStr>(name: &str) -> Option<T> {
    let mut arguments = std::env::args();
    arguments.find(|x| x == name)?;
    arguments.next()?.parse().ok()
}

/// As many triples as FB15K has, small ids popular.
fn synthetic() -> (usize, usize, Vec<Triple>) {
    let (entities, relations, triples) = (14_951, 1_345, 483_142);
    let draw = |i: u64, j: u64, bound: usize| {
        let x = random::unit(random::draw(1, Stream(1), j, i));
        (x * x * bound as f64) as u32
    };
    let facts = (0..triples).map(|i| Triple::new(draw(i, 0, entities), draw(i, 1, relations), draw(i, 2, entities)));
    (entities, relations, facts.collect())
}

/// As many groundings as FB15K and its published rules give, one premise in five cases of six.
fn groundings(facts: &[Triple]) -> Evidence {
    let mut evidence = Evidence::default();
    let draw =
        |i: usize, j: u64| facts[random::below(random::draw(2, Stream(1), j, i as u64), facts.len() as u64) as usize];
    for i in 0..96_724 {
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
    let (dimension, count) = (argument("--dimension").unwrap_or(200), argument("--negatives").unwrap_or(10));
    let epochs = argument("--epochs").unwrap_or(3);
    let (entities, relations, facts) = match argument::<PathBuf>("--data") {
        None => synthetic(),
        Some(path) => {
            let (data, _) = Dataset::load(&path, &ReadOptions::default()).expect("a data set");
            (data.entity_count(), data.relation_count(), data.train().to_vec())
        }
    };
    let graph = Graph::new(entities, relations, &facts);
    let evidence = groundings(&facts);
    let triad = support::triad();
    let floor = 48e9 / triad;
    println!("triad {:.1} GB/s on {} threads: 48 GB in {floor:.2} s", triad / 1e9, rayon::current_num_threads());
    for guidance in [Guidance::None, Guidance::SoftLabels { slackness: 0.01, t_norm: TNorm::Product }] {
        let plan = Plan {
            negatives: Negatives { count, ..Negatives::default() },
            evidence: &evidence,
            guidance,
            ..Plan::new(&graph, &facts, 1)
        };
        let scoring = ComplEx::new(dimension);
        let embeddings = Embeddings::new(&scoring, entities, relations, &Init::default(), 1);
        let mut model = CpuModel::new(scoring, embeddings, Optimizer::default());
        let parameters = model.state().embeddings.bytes();
        for epoch in 1..=epochs {
            let (start, cpu) = (Instant::now(), support::cpu_seconds());
            let losses = model.epoch(&plan, epoch).expect("a finite loss");
            let seconds = start.elapsed().as_secs_f64();
            let cpu = support::cpu_seconds() - cpu;
            let name = if guidance == Guidance::None { "complex" } else { "ruge" };
            println!(
                "{name:8} epoch {epoch}: {seconds:.2} s, {:.2} of the floor; {cpu:.2} processor seconds; loss {:.4} {:.4}; {:.2} times parameters, state and gradients",
                seconds / floor,
                losses.labeled,
                losses.unlabeled,
                model.bytes() as f64 / (3.0 * parameters as f64),
            );
        }
    }
}
