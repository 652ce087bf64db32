//! Learning curves, the table of metrics, and metrics by relation.

use std::collections::BTreeSet;

use crate::html::Align::{Number, Text};
use crate::html::{Align, Table, breakable, counted, decimal, escape, grouped, maybe, name, rank};
use crate::plot::{self, Axes, Ink, Pair, Series};
use crate::report::{Curve, MetricsRow, MetricsTable, Published, RelationRow, System};
use crate::section::{change, class, figure, legend};

/// Relations in the bar plot; the table has more.
const BARS: usize = 14;
/// Relations in the table.
const ROWS: usize = 60;

fn ink(system: System) -> Ink {
    match system {
        System::Combined | System::Guided => Ink::Guided,
        System::Unguided => Ink::Unguided,
        System::RulesAlone | System::Other => Ink::Plain,
    }
}

/// Validation MRR and loss over epochs.
pub fn curves(curves: &[Curve]) -> String {
    let line = |curve: &Curve, points: &[(u64, f64)], mark: bool| {
        let points: Vec<(f64, f64)> = points.iter().map(|&(epoch, value)| (epoch as f64, value)).collect();
        let best = curve.best_epoch.map(|epoch| epoch as f64).filter(|_| mark);
        let marks = points
            .iter()
            .filter(|(epoch, _)| Some(*epoch) == best)
            .map(|&(epoch, value)| (epoch, value, format!("{}: kept at epoch {epoch}, {value:.4}", curve.name)))
            .collect();
        Series {
            name: curve.name.clone(),
            ink: ink(curve.system),
            dashed: curve.system == System::Unguided,
            points,
            marks,
        }
    };
    let keys: Vec<(String, &str)> = curves
        .iter()
        .map(|curve| {
            let dashed = if curve.system == System::Unguided { " dashed" } else { "" };
            (format!("{}{dashed}", class(curve.system)), curve.name.as_str())
        })
        .collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|(class, name)| (class.as_str(), *name)).collect();
    let series: Vec<Series> = curves.iter().map(|curve| line(curve, &curve.valid_mrr, true)).collect();
    let mrr = plot::lines("Validation MRR by epoch", "epoch", &series, Axes::Plain);
    let series: Vec<Series> = curves.iter().map(|curve| line(curve, &curve.loss, false)).collect();
    let loss = plot::lines("Training loss by epoch", "epoch", &series, Axes::Logarithmic);
    let mut out = figure(
        "plot-curves",
        "Validation MRR",
        &legend(&keys),
        mrr.as_ref(),
        "The dot marks the best epoch on the validation triples, whose model was kept.",
    );
    if mrr.is_none() {
        out.push_str("<p class=\"missing\">There was no validation, so there is no curve.</p>\n");
    }
    out.push_str(&figure("plot-loss", "Loss of the labeled triples", &legend(&keys), loss.as_ref(), ""));
    let kept: Vec<String> = curves
        .iter()
        .filter_map(|curve| {
            let last = curve.valid_mrr.last().map(|&(epoch, _)| epoch).max(curve.loss.last().map(|&(epoch, _)| epoch));
            Some(format!("{}: epoch {} of {} was kept", curve.name, curve.best_epoch?, last?))
        })
        .collect();
    if !kept.is_empty() {
        out.push_str(&format!("<p class=\"note\">{}.</p>\n", escape(&kept.join("; "))));
    }
    out
}

/// One row per system, with published figures below.
pub fn table(metrics: &MetricsTable) -> String {
    let tops: BTreeSet<u32> = metrics.rows.iter().flat_map(|row| row.hits.keys().copied()).collect();
    let mut columns: Vec<(String, Align)> = vec![
        ("System".into(), Text),
        ("MRR".into(), Number),
        ("<abbr title=\"median rank\">MED</abbr>".into(), Number),
    ];
    columns.extend(
        tops.iter()
            .map(|top| (format!("<abbr title=\"share of answers among the first {top}\">H@{top}</abbr>"), Number)),
    );
    columns.push(("Mean rank".into(), Number));
    let best = |of: &dyn Fn(&MetricsRow) -> f64| metrics.rows.iter().map(of).fold(f64::MIN, f64::max);
    let strong = |value: f64, best: f64| {
        if value == best && metrics.rows.len() > 1 { format!("<b>{}</b>", decimal(value)) } else { decimal(value) }
    };
    let mut table = Table::new(columns.clone());
    for row in &metrics.rows {
        let spread = row.spread.map_or_else(String::new, |(deviation, seeds)| {
            format!(" <abbr title=\"standard deviation over {seeds} seeds\">± {}</abbr>", decimal(deviation))
        });
        let mut cells = vec![
            format!("<div class=\"words\">{}</div>", breakable(&row.name)),
            strong(row.mrr, best(&|row| row.mrr)) + &spread,
            rank(row.median),
        ];
        let share = |row: &MetricsRow, top: &u32| row.hits.get(top).copied().unwrap_or(f64::NAN);
        cells.extend(tops.iter().map(|top| strong(share(row, top), best(&|row| share(row, top)))));
        cells.push(if row.mean_rank.is_finite() { format!("{:.1}", row.mean_rank) } else { "–".into() });
        table.classed(class(row.system), cells);
        if let Some(paper) = metrics.published.iter().find(|paper| paper.method == row.method) {
            table.classed("published", published(paper, &tops, "published: "));
        }
    }
    let queries = metrics.rows.iter().map(|row| row.queries).max().unwrap_or(0);
    let mut out = format!(
        "<p>Each {} triple is asked from both ends, {} in all; the rank of the true answer among all entities counts, \
         other known answers left out.</p>\n{}",
        escape(if metrics.split.is_empty() { "test" } else { &metrics.split }),
        counted(queries, "question", "questions"),
        table.render("Metrics")
    );
    let others: Vec<&Published> =
        metrics.published.iter().filter(|paper| metrics.rows.iter().all(|row| row.method != paper.method)).collect();
    if !others.is_empty() {
        let mut table = Table::new(columns);
        for paper in others {
            table.classed("published", published(paper, &tops, ""));
        }
        out.push_str(&format!(
            "<details><summary>Other published figures</summary>\n{}</details>\n",
            table.render("Other published figures")
        ));
    }
    if metrics.rows.iter().any(|row| row.system == System::RulesAlone) {
        out.push_str(
            "<p class=\"note\">Rules alone rank without any model: rules that guided by the most confident one that concludes a candidate, \
             rules for ranking by what they weigh together, fitted on validation.</p>\n",
        );
    }
    out
}

fn published(paper: &Published, tops: &BTreeSet<u32>, before: &str) -> Vec<String> {
    let mut cells = vec![
        format!("<div class=\"words\">{before}{} ({})</div>", escape(&paper.name), escape(&paper.source)),
        decimal(paper.mrr),
        paper.median.map_or_else(|| "–".into(), rank),
    ];
    cells.extend(tops.iter().map(|top| maybe(paper.hits.get(top).copied())));
    cells.push("–".into());
    cells
}

/// MRR of the most frequent relations: the best model, and the same without rules.
pub fn relations(rows: &[RelationRow]) -> String {
    let mut rows: Vec<&RelationRow> = rows.iter().collect();
    rows.sort_by(|a, b| b.queries.cmp(&a.queries).then_with(|| a.relation.cmp(&b.relation)));
    let both = |row: &&RelationRow| row.best().is_some() && row.unguided.is_some();
    let pairs: Vec<Pair> = rows
        .iter()
        .copied()
        .filter(both)
        .take(BARS)
        .map(|row| Pair {
            name: row.relation.clone(),
            guided: row.best().unwrap_or(0.0),
            unguided: row.unguided.unwrap_or(0.0),
            said: format!(
                "{}: {} with rules, {} without ({})",
                row.relation,
                maybe(row.best()),
                maybe(row.unguided),
                counted(row.queries, "question", "questions")
            ),
        })
        .collect();
    let drawing = plot::pairs("MRR by relation, with and without rules", "MRR", &pairs);
    let combined = rows.iter().any(|row| row.combined.is_some());
    let with = if combined { "best model: rules guide and rank" } else { "with rules" };
    let keys = legend(&[("guided", with), ("unguided", "without rules")]);
    let title = match pairs.len() {
        1 => "MRR of the relation asked for".to_string(),
        count => format!("MRR of the {count} relations asked for most"),
    };
    let mut out = figure("plot-relations", &title, &keys, drawing.as_ref(), "");
    let mut columns = vec![("Relation", Text), ("Questions", Number), ("Rules", Number)];
    if combined {
        columns.push(("Best model", Number));
    }
    columns.extend([(if combined { "Guided" } else { "With rules" }, Number), ("Without", Number), ("Change", Number)]);
    let mut table = Table::new(columns);
    for row in rows.iter().take(ROWS) {
        let mut cells =
            vec![name(&row.relation, 60), grouped(row.queries), row.rules.map_or_else(|| "–".into(), grouped)];
        if combined {
            cells.push(maybe(row.combined));
        }
        cells.extend([maybe(row.guided), maybe(row.unguided), change(row.best(), row.unguided)]);
        table.row(cells);
    }
    if table.is_empty() {
        return "<p class=\"missing\">No relation was asked for.</p>\n".into();
    }
    let (better, worse) = rows.iter().filter(|row| both(row)).fold((0, 0), |(better, worse), row| {
        let gain = row.best().unwrap_or(0.0) - row.unguided.unwrap_or(0.0);
        (better + usize::from(gain > 0.0005), worse + usize::from(gain < -0.0005))
    });
    if !pairs.is_empty() {
        out.push_str(&format!(
            "<p>{} better on {} and worse on {} than the model without rules.</p>\n",
            if combined { "The best model is" } else { "With guidance the model is" },
            counted(better, "relation", "relations"),
            grouped(worse)
        ));
    }
    let shown = if rows.len() > ROWS { format!("The {ROWS} relations asked for most") } else { "All relations".into() };
    out.push_str(&format!(
        "<details><summary>{shown}, in numbers</summary>\n{}</details>\n",
        table.render("MRR by relation")
    ));
    out
}
