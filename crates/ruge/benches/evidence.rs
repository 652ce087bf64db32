//! What evidence costs at ranking time: `cargo bench -p ruge --bench evidence -- MODEL`.
//!
//! MODEL is one of `ruge combine`. Its test triples are ranked with evidence and without, in turns, so that whatever else the machine
//! does hits both. Where the model has no evidence, weights of its own choice count for every feature: the cost is the same. Then
//! evidence is fitted on validation, as `ruge combine` does.
#![allow(missing_docs, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use ruge::evaluate::Questions;
use ruge::{Control, Engine};
use ruge_kg::{RankQuery, Ranker};
use ruge_rules::rank::evidence::{Counts, Evidence, Feature, WEIGHTS, fit};
use ruge_rules::rank::{Combined, Effort, Ranking, RuleScores};

/// Turns of each.
const TURNS: usize = 5;

fn main() -> ruge::Result<()> {
    // `cargo test` runs benches, too, without an argument.
    let Some(path) = std::env::args().skip(1).find(|word| !word.starts_with("--")) else {
        println!("give a combined model: cargo bench -p ruge --bench evidence -- runs/combined");
        return Ok(());
    };
    let engine = Engine::open(path.as_ref())?;
    let (data, contents) = (engine.data(), engine.contents()?);
    let Some(ranking) = contents.ranking else {
        println!("this model does not rank with rules or evidence; make one with `ruge combine`");
        return Ok(());
    };
    let scores = RuleScores::new(data.shared_graph(), contents.rules, ranking.smoothing, ranking.injective);
    let scores = Arc::new(scores.with_weights(contents.weights.unwrap_or_default()));
    let base = || engine.shared_model().map(|model| model as Arc<dyn Ranker>);
    let own = Evidence { features: Feature::ALL.to_vec(), shared: [0.1; WEIGHTS], groups: Vec::new() };
    let evidence = Some(ranking.evidence.clone().unwrap_or(own));
    let features: Vec<&str> = evidence.iter().flat_map(|of| &of.features).map(|feature| feature.name()).collect();
    let ranker = |evidence| Combined::new(base(), Arc::clone(&scores), &Ranking { evidence, ..ranking.clone() });
    let (with, without) = (ranker(evidence), ranker(None));
    let questions = Questions::about(data.test(), data.filter());
    let timed = |ranker: &Combined| -> ruge::Result<f64> {
        let started = Instant::now();
        questions.rank(ranker, &Control::default())?;
        Ok(started.elapsed().as_secs_f64())
    };
    timed(&without)?;
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        seconds[0].push(timed(&without)?);
        seconds[1].push(timed(&with)?);
    }
    // The best of several is the one that was disturbed the least.
    let [without_best, with_best] = seconds.map(|times| times.into_iter().fold(f64::INFINITY, f64::min));
    let count = questions.queries.len();
    println!("{count} test queries, {} rules, evidence: {}", contents.rules.len(), features.join(", "));
    println!("without evidence {without_best:.3} s, with {with_best:.3} s: {:.3} times", with_best / without_best);
    let some = data.valid().iter().step_by(data.valid().len().div_ceil(Effort::USUAL.triples).max(1));
    let queries = RankQuery::both_sides(&some.copied().collect::<Vec<_>>());
    let unlisted = data.valid().len() as f64 / data.train().len().max(1) as f64;
    let started = Instant::now();
    let (counts, known) = (Counts::new(data.shared_graph()), (data.choosing_filter(), unlisted));
    let fitted = fit::fit(&without, &counts, &queries, known, &Feature::ALL, &Control::default())?;
    println!(
        "fitting on {} queries {:.1} s, {} numbers",
        queries.len(),
        started.elapsed().as_secs_f64(),
        fitted.numbers
    );
    Ok(())
}
