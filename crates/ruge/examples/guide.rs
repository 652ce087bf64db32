//! Train the same model with and without guidance from rules, and compare.
//!
//! RUGE's idea: in every batch the rules look at what the model believes and say what it should believe of triples that nobody
//! has observed; the model then moves a little towards these soft labels. Rules are never taken for facts, so a wrong one does
//! little harm. A spec says everything about a training, and `train` does it in memory.
//!
//! ```text
//! cargo run --release -p ruge --example guide
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use ruge::evaluate::Questions;
use ruge::train::{TrainControl, TrainEvent};
use ruge::{Control, Dataset, Engine, ModelName, ReadOptions, Spec, assemble, train};

/// Trains two small models and ranks the test triples.
pub fn main() -> Result<(), Box<dyn Error>> {
    let alone = trained("none")?;
    let guided = trained("ruge")?;
    let (alone, guided) = (test_mrr(&alone)?, test_mrr(&guided)?);
    println!("test MRR: {alone:.3} without rules, {guided:.3} with them");
    assert!(guided > alone);
    Ok(())
}

/// A small ComplEx after a few epochs, under a guidance.
fn trained(guidance: &str) -> Result<Engine, Box<dyn Error>> {
    let (data, _) = Dataset::load("demo".as_ref(), &ReadOptions::default())?;

    // The paper's setting, made small: every field of a spec is a plain value. The same spec, data and seed give the same
    // bits, on any number of threads.
    let mut spec = Spec::paper(ModelName::ComplEx, guidance)?;
    spec.model.dimension = 32;
    spec.schedule.epochs = 20;
    spec.schedule.validate_every = 5;

    // The rules that the spec asks for: mined from train, or none for a guidance that takes none.
    let rules = assemble::rules(&spec, &data, &Control::default())?;

    // A control hears of progress, and may cancel from any thread.
    let hear = |event: &TrainEvent| match event {
        TrainEvent::Grounded(grounds) if grounds.rules > 0 => {
            println!("{} rules speak of {} unobserved triples", grounds.rules, grounds.unlabeled);
        }
        TrainEvent::Epoch(tick) => {
            if let Some(metrics) = &tick.metrics {
                println!("epoch {:>2}: loss {:.3}, validation MRR {:.3}", tick.epoch, tick.losses.labeled, metrics.mrr);
            }
        }
        _ => {}
    };
    let trained = train(&spec, &data, rules, &TrainControl::default().with_listener(&hear))?;
    println!("{guidance}: the model of epoch {} is kept", trained.outcome.best_epoch);
    Ok(trained.engine(data)?)
}

/// Every test triple asks two questions, for its head and for its tail; other known answers do not count as wrong.
fn test_mrr(engine: &Engine) -> Result<f64, Box<dyn Error>> {
    let questions = Questions::about(engine.data().test(), engine.data().filter());
    let ranks = questions.rank(engine.ranker(), &Control::default())?;
    Ok(questions.metrics(&ranks).mrr)
}
