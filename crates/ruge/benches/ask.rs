//! One question to an opened model: `cargo bench -p ruge --bench ask -- MODEL`.
//!
//! Prints the median wall time of a prediction and of an explanation after the first one, which packs the entities and prepares
//! the rules, and what the opened model takes: by arithmetic (parameters once, one packed table) and as the system counts it.
#![allow(missing_docs, clippy::print_stdout)]

use std::time::Instant;

use ruge::explain::ExplainOptions;
use ruge::predict::{PredictOptions, Question};
use ruge::{Control, Engine};

/// Questions asked one by one.
const QUESTIONS: usize = 200;

/// Megabytes that the process holds, where the system tells.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> ruge::Result<()> {
    // `cargo test` runs benches, too, without an argument.
    let Some(path) = std::env::args().skip(1).find(|word| !word.starts_with("--")) else {
        println!("give a model: cargo bench -p ruge --bench ask -- runs/demo");
        return Ok(());
    };
    let before = resident();
    let started = Instant::now();
    let engine = Engine::open(path.as_ref())?;
    println!("opened in {:.0} ms", 1e3 * started.elapsed().as_secs_f64());
    let data = engine.data();
    let triples: Vec<_> = data.train().iter().step_by(data.train().len().div_ceil(QUESTIONS)).copied().collect();
    let predict = |at: usize| {
        let question = Question::Tail { head: triples[at].head, relation: triples[at].relation };
        engine.predict(&[question], &PredictOptions::default(), &Control::default()).map(|lists| lists[0].len())
    };
    let explain = |at: usize| engine.explain(triples[at], &ExplainOptions::default()).map(|found| found.rules.len());
    let opened = resident();
    predict(0)?;
    explain(0)?;
    let warm = resident();
    let timed = |ask: &dyn Fn(usize) -> ruge::Result<usize>| -> ruge::Result<f64> {
        let one = |at: usize| {
            let started = Instant::now();
            ask(at).map(|_| 1e3 * started.elapsed().as_secs_f64())
        };
        Ok(median((0..triples.len()).map(one).collect::<ruge::Result<_>>()?))
    };
    let (predicted, explained) = (timed(&predict)?, timed(&explain)?);
    println!("median of {} single questions: predict {predicted:.2} ms, explain {explained:.2} ms", triples.len());
    let parameters = engine.embeddings()?.map_or(0, |embeddings| embeddings.bytes()) as f64 / 1e6;
    let packed = engine.embeddings()?.map_or(0, |embeddings| embeddings.entities.bytes()) as f64 / 1e6;
    println!(
        "parameters {parameters:.0} MB, packed entities {packed:.0} MB; the process grew by {:.0} MB when it opened the model and \
         by {:.0} MB with the first questions",
        opened - before,
        warm - opened
    );
    Ok(())
}
