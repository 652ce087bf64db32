//! What `ruge eval` prints.

use ruge::evaluate::{Interval, Sample};
use ruge::{Engine, GuidanceSpec, ModelName};
use ruge_embed::{Evaluation, Metrics};
use ruge_kg::Side;

use super::{EvalArgs, Rows, Unseen, paths};
use crate::console::Console;
use crate::path_words::path_words;
use crate::text::{Column, Table, counted, flowing, grouped};

/// The tables of an evaluation.
pub(super) fn report(
    args: &EvalArgs,
    engine: &Engine,
    evaluation: &Evaluation,
    rows: &Rows<'_>,
    seconds: f64,
    split: &str,
    console: Console,
) -> String {
    let width = console.width();
    let spec = engine.spec();
    let guided = match spec.guidance() {
        GuidanceSpec::None => String::new(),
        GuidanceSpec::PTransE { path_length, rerank, .. } => {
            format!(" guided by ptranse (paths of up to {path_length} steps, {} candidates re-ranked)", grouped(rerank))
        }
        // The rules of the file are those beside it, then.
        _ if engine.ranking().is_some() => format!(" guided by {}", spec.guidance().name()),
        _ => format!(" guided by {} ({})", spec.guidance().name(), counted(engine.rules().len(), "rule")),
    };
    let beside = match engine.ranking() {
        Some(ranking) if spec.model.name != ModelName::Rules && ranking.uses_rules() => {
            format!(" combined with {}", counted(engine.rules().len(), "rule"))
        }
        _ => String::new(),
    };
    let model = match spec.model.name {
        ModelName::Rules => counted(engine.rules().len(), "rule"),
        name => format!("{} of dimension {}{guided}{beside}", name.name(), spec.model.dimension),
    };
    let asked = grouped(evaluation.pooled.queries);
    let asked = rows.sampled.map_or_else(|| asked.clone(), |(sample, _)| format!("{asked} of {}", grouped(sample.of)));
    let mut text = flowing(&format!("{model}: {asked} {split} queries in {seconds:.2} s"), width) + "\n";
    if let Some(report) = paths(engine) {
        text.insert_str(text.len() - 1, &format!("{}\n", path_words(&report).join("\n")));
    }
    let mut columns = vec![Column::Left, Column::Right, Column::Right];
    columns.extend(args.hits.iter().map(|_| Column::Right));
    columns.push(Column::Right);
    let mut table = Table::new(&columns);
    let mut head = vec![String::new(), "MRR".into(), "MED".into()];
    head.extend(args.hits.iter().map(|n| format!("H@{n}")));
    head.push("mean rank".into());
    table.head(head);
    let cells_of = |name: String, metrics: &Metrics| {
        let mut cells = vec![name, format!("{:.4}", metrics.mrr), format!("{:.1}", metrics.median)];
        cells.extend(args.hits.iter().map(|n| format!("{:.4}", metrics.hits.get(n).unwrap_or(&0.0))));
        cells.push(format!("{:.1}", metrics.mean_rank));
        cells
    };
    table.row(cells_of("filtered".into(), &evaluation.pooled));
    if let Some((_, intervals)) = rows.sampled {
        // A median and a mean rank have no interval: ranks have no bound that would hold them.
        let half = |interval: &Interval| format!("±{:.4}", interval.half);
        let mut cells = vec!["  95 %".to_string(), half(&intervals.mrr), String::new()];
        cells.extend(args.hits.iter().map(|top| intervals.hits.get(top).map_or_else(String::new, half)));
        cells.push(String::new());
        table.row(cells);
    }
    let mut row = |name: String, metrics: &Metrics| {
        table.row(cells_of(name, metrics));
    };
    for (side, metrics) in &evaluation.by_side {
        row(format!("  {}", if *side == Side::Head { "heads" } else { "tails" }), metrics);
    }
    if let Some(metrics) = rows.rules_only {
        row("rules alone".into(), metrics);
    }
    if let Some(unseen) = rows.unseen {
        row("PageRank".into(), &unseen.pagerank);
    }
    row("raw".into(), &evaluation.raw);
    row("mean over relations".into(), &evaluation.macro_average);
    for (category, side, metrics) in &evaluation.by_category {
        let category = serde_json::to_value(category).ok().and_then(|value| value.as_str().map(str::to_string));
        let side = if *side == Side::Head { "heads" } else { "tails" };
        row(format!("  {} {side}", category.unwrap_or_default()), metrics);
    }
    text.push_str(&table.render(width));
    if let Some((sample, intervals)) = rows.sampled {
        text.push_str(&format!("\nMRR {}\n", estimate(&intervals.mrr, sample)));
    }
    if let Some(Unseen { hits10_of_50, pagerank_of_50, .. }) = rows.unseen {
        let sampled = rows.sampled.map_or("nothing is sampled", |_| "no candidate is sampled");
        text.push_str(&format!(
            "\nHits@10 among 50 random negatives: {hits10_of_50:.4}, PageRank {pagerank_of_50:.4} (expected value from the full rank; {sampled})\n"
        ));
    }
    if args.by_relation {
        let mut table = Table::new(&[Column::Name, Column::Right, Column::Right, Column::Right]);
        table.head(["relation", "queries", "MRR", "mean rank"]);
        let mut relations: Vec<_> = evaluation.by_relation.iter().collect();
        relations.sort_by_key(|(_, metrics)| std::cmp::Reverse(metrics.queries));
        for (relation, metrics) in relations {
            table.row([
                engine.data().called_relation(*relation),
                match rows.sampled {
                    Some((sample, _)) => format!(
                        "{} of {}",
                        grouped(metrics.queries),
                        grouped(sample.by_relation.get(relation).copied().unwrap_or_default())
                    ),
                    None => grouped(metrics.queries),
                },
                format!("{:.4}", metrics.mrr),
                format!("{:.1}", metrics.mean_rank),
            ]);
        }
        let heading = match rows.sampled {
            Some(_) => "By relation (of the drawn queries alone, without intervals)",
            None => "By relation",
        };
        text.push_str(&format!("\n{}\n{}", console.heading(heading), table.render(width)));
    }
    text
}

/// An estimate with its interval: `0.4263 ± 0.0081 (95 %, 10,000 of 1.2 M queries)`.
fn estimate(interval: &Interval, sample: &Sample) -> String {
    let Interval { mean, half } = interval;
    format!("{mean:.4} ± {half:.4} (95 %, {} of {} queries)", grouped(sample.len()), short(sample.of))
}

/// A number as a reader remembers it: exact below a hundred thousand.
fn short(count: usize) -> String {
    match count {
        ..100_000 => grouped(count),
        100_000..1_000_000 => format!("{:.0} k", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", count as f64 / 1e6),
        _ => format!("{:.1} G", count as f64 / 1e9),
    }
}
