//! Ask a model: what is missing, how true is it, and why?
//!
//! An `Engine` is a model opened for questions. It is cheap to clone, and any number of threads may ask it. Here it is trained
//! in memory; `Engine::open` takes a run folder or a model file instead.
//!
//! ```text
//! cargo run --release -p ruge --example ask
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use ruge::explain::ExplainOptions;
use ruge::predict::{PredictOptions, Question};
use ruge::{Control, Dataset, ModelName, ReadOptions, Spec, assemble, train};

/// Trains a small model and asks it a few things.
pub fn main() -> Result<(), Box<dyn Error>> {
    let (data, _) = Dataset::load("demo".as_ref(), &ReadOptions::default())?;
    let mut spec = Spec::paper(ModelName::ComplEx, "ruge")?;
    (spec.model.dimension, spec.schedule.epochs) = (32, 20);
    let rules = assemble::rules(&spec, &data, &Control::default())?;
    let engine = train(&spec, &data, rules, &Control::default())?.engine(data)?;

    // A question is a triple with one place open. Names that do not exist are errors that suggest the nearest.
    let question = Question::named(&engine, Some("Brussels"), Some("located_in"), None)?;
    let options = PredictOptions { top: 5, by_rules: true, ..PredictOptions::default() };
    let answers = engine.predict(&[question], &options, &Control::default())?.remove(0);
    for answer in &answers {
        let known = if answer.known { "known" } else { "new" };
        // Truth is calibrated on validation: of answers with 0.8, about 80 % hold.
        println!("Brussels located_in {:<20} truth {:.2}  {known}", answer.name.as_str(), answer.truth);
    }

    // An explanation names the rules that conclude a triple, with the facts they start from.
    let best = answers.iter().find(|answer| answer.rule.is_some()).ok_or("no rule speaks for any answer")?;
    let triple = question.answered(best.who).ok_or("an entity answers a question for a tail")?;
    let why = engine.explain(triple, &ExplainOptions::default())?;
    println!("{}", why.sentence);
    for grounding in &why.groundings {
        let facts: Vec<String> = grounding
            .premises
            .iter()
            .map(|premise| format!("{} {} {}", premise.fact.head, premise.fact.relation, premise.fact.tail))
            .collect();
        println!("  {:.2}  {}  because {}", grounding.confidence, grounding.rule, facts.join(" and "));
    }
    assert!(!why.groundings.is_empty());

    // Entities that play a similar part are near each other.
    for near in engine.similar(engine.entity("Brussels")?, 3)? {
        println!("near Brussels: {} ({:.2})", near.entity, near.cosine);
    }
    Ok(())
}
