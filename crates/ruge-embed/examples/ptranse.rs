//! Trains PTransE on a data set and prints its paths, its speed and the filtered MRR of the first validation triples.
//!
//! `cargo run --release -p ruge-embed --example ptranse -- FOLDER [EPOCHS] [TRIPLES] [MAX_PATH] [CUT_OFF] [RATE]`
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Instant;

use ruge_embed::{HITS, Metrics, PTransE, PTransEConfig};
use ruge_kg::{Control, Dataset, RankQuery, Ranker, ReadOptions, Ties};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = arguments.get(1).map_or("demo", String::as_str);
    let number = |at: usize, default: usize| arguments.get(at).and_then(|x| x.parse().ok()).unwrap_or(default);
    let (data, _) = Dataset::load(Path::new(folder), &ReadOptions::default())?;
    let mut config = PTransEConfig { path_length: number(4, 2), ..PTransEConfig::default() };
    if let Some(cut_off) = arguments.get(5) {
        config.confidence_cut_off = cut_off.parse()?;
    }
    if let Some(rate) = arguments.get(6) {
        config.rate = rate.parse()?;
    }
    let clock = Instant::now();
    let mut model = PTransE::new(data.shared_graph(), config, 1)?;
    let mib = model.paths().bytes() >> 20;
    println!("paths: {:.2} s, {mib} MiB, {:#?}", clock.elapsed().as_secs_f64(), model.paths().report());
    let queries = RankQuery::both_sides(&data.valid()[..data.valid().len().min(number(3, 500))]);
    for epoch in 1..=number(2, 5) as u64 {
        let clock = Instant::now();
        let loss = model.epoch(epoch, &Control::default())?;
        print!("epoch {epoch}: {:.2} s, loss {loss:.4}", clock.elapsed().as_secs_f64());
        let clock = Instant::now();
        let ranks = model.rank(&queries, Some(data.filter()), &Control::default())?;
        let metrics = Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &HITS);
        let (mrr, first, ten) = (metrics.mrr, metrics.hits[&1], metrics.hits[&10]);
        println!(", MRR {mrr:.4}, Hits@1 {first:.4}, Hits@10 {ten:.4} in {:.2} s", clock.elapsed().as_secs_f64());
    }
    Ok(())
}
