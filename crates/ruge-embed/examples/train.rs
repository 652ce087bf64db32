//! Trains ComplEx in the paper's setting on a data set and prints the filtered MRR of the first validation triples.
//!
//! `cargo run --release -p ruge-embed --example train -- FOLDER [EPOCHS] [TRIPLES]`
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Instant;

use ruge_embed::scoring::ComplEx;
use ruge_embed::*;
use ruge_kg::{Control, Dataset, RankQuery, Ranker, ReadOptions, Ties};

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = arguments.get(1).map_or("demo", String::as_str);
    let number = |at: usize, default: usize| arguments.get(at).and_then(|x| x.parse().ok()).unwrap_or(default);
    let (data, _) = Dataset::load(Path::new(folder), &ReadOptions::default())?;
    let scoring = ComplEx::new(200);
    let start = Embeddings::new(&scoring, data.entity_count(), data.relation_count(), &Init::default(), 1);
    let mut model = CpuModel::new(scoring, start, Optimizer::default());
    let plan = Plan::new(data.graph(), data.train(), 1);
    let queries = RankQuery::both_sides(&data.valid()[..data.valid().len().min(number(3, 1_000))]);
    for epoch in 1..=number(2, 20) as u64 {
        let clock = Instant::now();
        let losses = model.epoch(&plan, epoch)?;
        print!("epoch {epoch}: {:.2} s, loss {:.4}", clock.elapsed().as_secs_f64(), losses.labeled);
        if epoch.is_multiple_of(5) {
            let ranks = model.rank(&queries, Some(data.filter()), &Control::default())?;
            let metrics = Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &HITS);
            print!(", MRR {:.4}, Hits@1 {:.4}, Hits@10 {:.4}", metrics.mrr, metrics.hits[&1], metrics.hits[&10]);
        }
        println!();
    }
    Ok(())
}
