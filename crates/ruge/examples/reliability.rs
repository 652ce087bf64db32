//! How far truth values can be believed: ways of fitting them on validation, compared on test.
//!
//! `cargo run --release -p ruge --example reliability -- MODEL`
#![allow(clippy::print_stdout)]

use ruge::calibrate::{Judged, Reliability, answers};
use ruge::{Calibration, Control, Engine};

/// Isotonic regression by pooling neighbours that stand in the wrong order: (least input, share of facts), ascending.
fn isotonic(mut samples: Vec<(f64, bool)>) -> Vec<(f64, f64)> {
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut pools: Vec<(f64, f64, f64)> = Vec::new();
    for (input, fact) in samples {
        pools.push((input, f64::from(u8::from(fact)), 1.0));
        while let [.., before, last] = pools.as_slice() {
            if before.1 / before.2 < last.1 / last.2 {
                break;
            }
            let merged = (before.0, before.1 + last.1, before.2 + last.2);
            pools.pop();
            pools.pop();
            pools.push(merged);
        }
    }
    pools.into_iter().map(|(input, facts, n)| (input, facts / n)).collect()
}

fn look_up(curve: &[(f64, f64)], input: f64) -> f64 {
    let at = curve.partition_point(|&(least, _)| least <= input);
    curve.get(at.saturating_sub(1)).map_or(0.0, |&(_, share)| share)
}

fn show(name: &str, test: &[Judged], truth: impl Fn(&Judged) -> f64) {
    let found = Reliability::of(test.iter().map(|x| (truth(x), x.fact)));
    let loss = |x: &Judged| {
        let truth = truth(x).clamp(1e-6, 1.0 - 1e-6);
        if x.fact { -truth.ln() } else { -(1.0 - truth).ln() }
    };
    let loss = test.iter().map(loss).sum::<f64>() / test.len().max(1) as f64;
    println!("{name:32} Brier {:.4}  ECE {:.4}  log loss {loss:.4}", found.brier, found.ece);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a model")?;
    let engine = Engine::open(path.as_ref())?;
    let data = engine.data();
    let start = std::time::Instant::now();
    let valid = answers(engine.ranker(), data, data.valid(), engine.spec().seed, &Control::default())?;
    let seconds = start.elapsed().as_secs_f64();
    let test = answers(engine.ranker(), data, data.test(), engine.spec().seed, &Control::default())?;
    let facts = |list: &[Judged]| list.iter().filter(|x| x.fact).count();
    println!(
        "valid {} answers, {} facts, in {seconds:.1} s; test {}, {}",
        valid.len(),
        facts(&valid),
        test.len(),
        facts(&test)
    );
    let shift = engine.spec().shift();
    show("the objective's own", &test, |x| Calibration::plain(shift).truth(x.relation, x.score));
    let steps = isotonic(valid.iter().map(|x| (f64::from(x.score), x.fact)).collect());
    let global = Calibration::of(&valid, 0).ok_or("no answers")?.global;
    show("logistic, global", &test, |x| global.truth(x.score));
    show("isotonic, global", &test, |x| look_up(&steps, f64::from(x.score)));
    for prior in [0.25, 1.0, 4.0, 16.0] {
        let fitted = Calibration::with_prior(&valid, 0, prior).ok_or("no answers")?;
        show("  with the bend", &test, |x| fitted.truth(x.relation, x.score));
        let straight = Calibration { bend: Default::default(), ..fitted };
        show(&format!("logistic by relation, prior {prior}"), &test, |x| straight.truth(x.relation, x.score));
    }
    let stored = Reliability::of(test.iter().map(|x| (engine.listed_share(x.relation, x.score), x.fact)));
    println!("as stored, by truth:");
    for bucket in &stored.curve {
        println!(
            "  {:.1}–{:.1} {:8} answers, mean truth {:.3}, facts {:.3}",
            bucket.from, bucket.to, bucket.count, bucket.expected, bucket.facts
        );
    }
    Ok(())
}
