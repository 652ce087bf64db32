//! `ruge run --seeds N`: the same run with several seeds, their means and deviations, and whether the difference may be chance.

use std::f64::consts::FRAC_PI_2;
use std::path::PathBuf;

use anyhow::{Result, bail};
use ruge::Spec;
use ruge_embed::Metrics;
use ruge_lab::pipeline::{Comparison, Findings, ledger};
use serde_json::{Value, json};

use super::{RunArgs, take};
use crate::console::Console;
use crate::data_args::Loaded;
use crate::eval::figures;
use crate::text::{Column, Table, counted, decimal, wrapped};

/// Runs every seed in a folder of its own, one after another; those that are finished are skipped. The data are split once, by `--seed`.
pub fn run(args: &RunArgs, seeds: u64, loaded: &Loaded, spec: &Spec, console: Console) -> Result<()> {
    let out = args.out();
    if out.join(ledger::FILE).exists() || out.join("run.json").exists() {
        bail!(
            "{}: it holds a single run; runs of several seeds need a folder of their own\n  remedy: give another --out",
            out.display()
        );
    }
    let mut all: Vec<(u64, PathBuf, Findings)> = Vec::new();
    for seed in (0..seeds).map(|more| spec.seed + more) {
        let folder = out.join(format!("seed-{seed}"));
        console.note(&format!("\nSeed {seed}: {} of {seeds}", all.len() + 1));
        let spec = Spec { seed, ..spec.clone() };
        // One model to deploy is enough.
        let (findings, _) = take(args, loaded, spec, &folder, all.is_empty() && !args.evaluate_only, seeds, console)?;
        all.push((seed, folder, findings));
    }
    let Some((rows, differences)) = compared(&all, spec) else {
        bail!("{}: there are no held-out triples, so seeds cannot be compared", args.data.data.display());
    };
    if console.json {
        return console.json_result(&written(&all, &rows, &differences));
    }
    let mut table = Table::new(&[Column::Name, Column::Right, Column::Right, Column::Right]);
    table.head(["mean ± deviation", "MRR", "H@1", "H@10"]);
    for Row { name, metrics, .. } in rows.iter().filter(|row| row.metrics.len() == all.len()) {
        let cell = |value: &dyn Fn(&Metrics) -> f64| {
            let Spread { mean, deviation } = Spread::of(&metrics.iter().map(value).collect::<Vec<_>>());
            format!("{} ± {}", decimal(mean, 3), decimal(deviation, 3))
        };
        let hits = |n: u32| move |it: &Metrics| it.hits.get(&n).copied().unwrap_or(0.0);
        table.row([name.clone(), cell(&|it| it.mrr), cell(&hits(1)), cell(&hits(10))]);
    }
    let width = console.width().min(100);
    let heading = console.heading(&format!("Over {}", counted(all.len(), "seed")));
    let first = all[0].1.display();
    console.result(&format!(
        "\n{heading}\n{}{}  {}\n  next: ruge predict {first} --head NAME --relation NAME\n",
        table.render(width),
        wrapped(&verdict(&differences), width),
        out.join("seed-*/report.html").display()
    ))
}

/// The systems over all seeds, and by how much the best is better than the one without rules; nothing where no triples are held out.
fn compared(all: &[(u64, PathBuf, Findings)], spec: &Spec) -> Option<(Vec<Row>, Vec<f64>)> {
    let none = Comparison::default();
    let compared: Vec<&Comparison> = all.iter().map(|(.., found)| found.comparison.as_ref().unwrap_or(&none)).collect();
    if compared.iter().any(|comparison| comparison.split.is_none()) {
        return None;
    }
    let best: Vec<f64> = compared.iter().filter_map(|comparison| best(comparison)).map(|best| best.mrr).collect();
    let alone: Vec<f64> = compared.iter().filter_map(|it| it.unguided.as_ref()).map(|it| it.filtered.mrr).collect();
    let differences = best.iter().zip(&alone).map(|(best, alone)| best - alone).collect();
    Some((rows(&compared, spec), differences))
}

/// What `--json` prints of runs with several seeds; nothing where no triples are held out.
pub fn object(all: &[(u64, PathBuf, Findings)], spec: &Spec) -> Option<Value> {
    compared(all, spec).map(|(rows, differences)| written(all, &rows, &differences))
}

/// A system, with its figures for each seed that has it: under the name that a single run has for it, and in words where the table
/// shows it.
struct Row {
    key: String,
    name: String,
    metrics: Vec<Metrics>,
}

/// The best model of a run, as validation chose it.
fn best(comparison: &Comparison) -> Option<&Metrics> {
    let result = comparison.with_rules.as_ref().map(|found| &found.result).or(comparison.guided.as_ref());
    result.map(|result| &result.filtered)
}

fn rows(compared: &[&Comparison], spec: &Spec) -> Vec<Row> {
    let (name, model) = (spec.model.name.name(), spec.model.name.title());
    let of = |key: &str, name: String, metrics: &dyn Fn(&Comparison) -> Option<Metrics>| Row {
        key: key.to_string(),
        name,
        metrics: compared.iter().filter_map(|comparison| metrics(comparison)).collect(),
    };
    let mut rows = vec![
        of(name, format!("{model} alone"), &|it| it.unguided.as_ref().map(|it| it.filtered.clone())),
        of("ruge", format!("{model} guided by rules"), &|it| it.guided.as_ref().map(|it| it.filtered.clone())),
    ];
    // Where every seed ranks with rules, or none does, the best is one of those that have a name.
    let with_rules = compared.iter().filter(|it| it.with_rules.is_some()).count();
    let title = "the best by validation".to_string();
    match with_rules {
        0 => {}
        count if count == compared.len() => rows.push(of("with_rules", title, &|it| best(it).cloned())),
        _ => rows.push(of("best", title, &|it| best(it).cloned())),
    }
    rows.push(of("rules_only", "the guiding rules alone".into(), &|it| it.rules_only.clone()));
    let alone = |it: &Comparison| it.with_rules.as_ref().and_then(|found| found.alone.clone());
    rows.push(of("ranking_rules_only", "the ranking rules alone".into(), &alone));
    rows
}

fn written(all: &[(u64, PathBuf, Findings)], rows: &[Row], differences: &[f64]) -> Value {
    let spread = |values: Vec<f64>| {
        let Spread { mean, deviation } = Spread::of(&values);
        json!({ "mean": mean, "deviation": deviation, "values": values })
    };
    let system = |row: &Row| {
        let mrr = spread(row.metrics.iter().map(|it| it.mrr).collect());
        (row.key.clone(), json!({ "mrr": mrr, "runs": row.metrics.iter().map(figures).collect::<Vec<_>>() }))
    };
    let best = rows.iter().map(|row| row.key.as_str()).find(|key| ["with_rules", "best"].contains(key));
    let mut object = json!({
        "seeds": all.iter().map(|(seed, ..)| seed).collect::<Vec<_>>(),
        "runs": all.iter().map(|(_, folder, _)| folder).collect::<Vec<_>>(),
        "systems": { "unguided": rows[0].key, "guided": "ruge", "best": best.unwrap_or("ruge") },
        "gain": { "mrr": spread(differences.to_vec()), "p": chance(differences), "test": "paired t-test over seeds" },
    });
    for (key, found) in rows.iter().filter(|row| !row.metrics.is_empty()).map(system) {
        object[key] = found;
    }
    object
}

/// Whether rules help, as far as the seeds can tell.
fn verdict(differences: &[f64]) -> String {
    let Spread { mean, deviation } = Spread::of(differences);
    let gain = format!("{} ± {}", decimal(mean, 3), decimal(deviation, 3));
    let head = format!("Rules change MRR by {gain}, the best model compared with the one without rules.");
    match chance(differences) {
        None => {
            format!("{head} The difference is the same for all seeds, or there is one seed only: no test is possible.")
        }
        Some(p) => {
            let shown = if p < 0.001 { "< 0.001".to_string() } else { format!("= {}", decimal(p, 3)) };
            let means = match p < 0.05 {
                true => "seeds alone hardly explain it",
                false => "seeds alone may explain it; more seeds would tell",
            };
            format!("{head} Paired t-test over {}: p {shown}, so {means}.", counted(differences.len(), "seed"))
        }
    }
}

/// A mean and the deviation of single values from it (n − 1).
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
    }
}

/// The two-sided p of a t-test that the mean is zero; nothing where the values do not vary.
fn chance(values: &[f64]) -> Option<f64> {
    let Spread { mean, deviation } = Spread::of(values);
    if values.len() < 2 || deviation < 1e-12 {
        return None;
    }
    let t = mean.abs() / (deviation / (values.len() as f64).sqrt());
    Some(beyond(t, values.len() as i32 - 1))
}

/// The chance that Student's t with so many degrees of freedom is further from zero than `t`. With t = √ν tan θ its density is
/// proportional to cos^(ν − 1) θ.
fn beyond(t: f64, freedom: i32) -> f64 {
    let integral = |from: f64, to: f64| {
        const STEPS: i32 = 2000;
        let step = (to - from) / f64::from(STEPS);
        let height = |at: i32| (from + step * f64::from(at)).cos().max(0.0).powi(freedom - 1);
        let weight = |at: i32| if at == 0 || at == STEPS { 1.0 } else { f64::from(2 + 2 * (at % 2)) };
        (0..=STEPS).map(|at| weight(at) * height(at)).sum::<f64>() * step / 3.0
    };
    integral((t / f64::from(freedom).sqrt()).atan(), FRAC_PI_2) / integral(0.0, FRAC_PI_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_is_as_in_the_tables() {
        for (t, freedom, p) in [(12.706, 1, 0.05), (4.303, 2, 0.05), (2.776, 4, 0.05), (9.925, 2, 0.01), (0.0, 3, 1.0)]
        {
            assert!((beyond(t, freedom) - p).abs() < 1e-4, "{t}, {freedom}: {}", beyond(t, freedom));
        }
    }

    #[test]
    fn a_difference_is_tested_where_it_varies() {
        assert_eq!((chance(&[0.1]), chance(&[0.1, 0.1, 0.1])), (None, None));
        let p = chance(&[0.10, 0.11, 0.09]).unwrap();
        assert!(p < 0.01, "{p}");
        assert!(chance(&[0.1, -0.1, 0.02]).unwrap() > 0.5);
        assert!(verdict(&[0.10, 0.11, 0.09]).contains("0.100 ± 0.010"));
        let Spread { mean, deviation } = Spread::of(&[1.0, 2.0, 3.0]);
        assert_eq!((mean, deviation), (2.0, 1.0));
    }
}
