//! From records to the tables people read: which columns, in which words, with which plots.

use ruge_lab::reproduce::record::{Figures, RuleCounts};
use ruge_lab::reproduce::{Cell, PaperTable, Published, Row, TableName};
use ruge_report::plot::{Ink, Series};
use ruge_report::sheet::{Sheet, SheetPlot, SheetRow};
use serde_json::{Value, json};

use crate::text::{grouped, percent};

/// The N of HITS@N that tables show.
const HITS: [u32; 4] = [1, 3, 5, 10];
/// Nothing to show.
const NOTHING: &str = "–";

/// A table with all that is recorded of it.
pub fn sheet(table: &PaperTable, rows: &[Row]) -> Sheet {
    let mut sheet = match table.name {
        TableName::Confidence => confidence(rows),
        TableName::Runtime => runtime(rows),
        TableName::Statistics => statistics(rows),
        TableName::LinkPrediction | TableName::Ablation | TableName::Best => metrics(rows),
    };
    sheet.id = table.name.name().into();
    sheet.title = table.title.clone();
    let notes = footnotes(&mut sheet);
    sheet.after.splice(0..0, notes);
    if !rows.is_empty() && rows.iter().all(|row| row.cell.quick) {
        let words =
            "The quick subset: everything below is the embedded graph in a small setting, not the paper's data.";
        sheet.before.push(words.into());
    } else if !table.note.is_empty() {
        sheet.before.push(table.note.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let missing: Vec<&str> =
        rows.iter().filter(|row| row.records.is_empty()).map(|row| row.cell.name.as_str()).collect();
    if !missing.is_empty() {
        sheet.after.push(format!("Not run: {}.", missing.join(", ")));
    }
    if rows.is_empty() {
        sheet.after.push("This table has no cells of this kind.".into());
    }
    sheet
}

/// Remarks are sentences: they go under the table, each once, and leave their numbers in its last column.
fn footnotes(sheet: &mut Sheet) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let Some(last) = sheet.columns.len().checked_sub(1) else { return notes };
    sheet.columns[last].0 = "note".into();
    for row in &mut sheet.rows {
        let Some(cell) = row.cells.get_mut(last).filter(|cell| !cell.is_empty()) else { continue };
        let place = notes.iter().position(|note| note == cell).unwrap_or_else(|| {
            notes.push(cell.clone());
            notes.len() - 1
        });
        *cell = format!("({})", place + 1);
    }
    notes.iter().enumerate().map(|(index, note)| format!("({}) {note}.", index + 1)).collect()
}

/// The rows as `--json` prints them: those with a record, and what the rules reach alone.
pub fn objects(rows: &[Row]) -> Vec<Value> {
    let mut objects: Vec<Value> = rows.iter().filter(|row| !row.records.is_empty()).map(Row::json).collect();
    for (row, alone) in rules_alone(rows) {
        objects.push(json!({
            "table": row.cell.table, "cell": row.cell.name, "method": ALONE, "dataset": row.cell.data,
            "mrr": alone.mrr, "med": alone.med, "hits": alone.hits, "seeds": [], "device": row.device(),
            "rules": counts_of(row).map(|counts| counts.rules),
            "seconds": null, "published": null, "quick": row.cell.quick,
        }));
    }
    objects
}

const ALONE: &str = "rules alone";

/// What rules reach without an embedding, once for each set of rules; of link-prediction rows alone.
fn rules_alone(rows: &[Row]) -> Vec<(&Row, &Figures)> {
    let mut found: Vec<(&Row, &Figures)> = Vec::new();
    for row in first_of_rules(rows).into_iter().filter(|row| row.cell.table == TableName::LinkPrediction) {
        found.extend(row.records.iter().find_map(|record| record.rules_only.as_ref()).map(|alone| (row, alone)));
    }
    found
}

/// Of the rows of a data set with the same rules, the first. Rules are the same where all counts are.
fn first_of_rules(rows: &[Row]) -> Vec<&Row> {
    let mut found: Vec<&Row> = Vec::new();
    for row in rows {
        let same = |other: &&Row| other.cell.data == row.cell.data && counts_of(other) == counts_of(row);
        if counts_of(row).is_some() && !found.iter().any(same) {
            found.push(row);
        }
    }
    found
}

/// A sheet without rows: columns of words, of numbers, and of words again.
fn empty(first: [&str; 2], numbers: &[&str], last: &[&str]) -> Sheet {
    let words = |name: &&str| (name.to_string(), false);
    let numbers = numbers.iter().map(|name| (name.to_string(), true));
    Sheet {
        columns: first.iter().map(words).chain(numbers).chain(last.iter().map(words)).collect(),
        ..Sheet::default()
    }
}

fn decimal(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(NOTHING.into(), |value| format!("{value:.4}"))
}

fn published_decimal(value: Option<f64>) -> String {
    value.map_or(NOTHING.into(), |value| format!("{value:.3}"))
}

fn rank(value: Option<f64>) -> String {
    match value {
        None => NOTHING.into(),
        Some(value) if value.fract() == 0.0 => grouped(value as u64),
        Some(value) => format!("{value:.1}"),
    }
}

fn seconds(value: Option<f64>) -> String {
    match value {
        None => NOTHING.into(),
        Some(value) if value < 0.1 => format!("{value:.4}"),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.1}"),
    }
}

fn count(value: Option<u64>) -> String {
    value.map_or(NOTHING.into(), grouped)
}

/// What a reader must know about a row.
fn remark(row: &Row) -> String {
    let mut words: Vec<String> = Vec::new();
    if row.records.iter().any(|record| record.earlier) {
        words.push("earlier result, with the spec of that time".into());
    } else if !row.records.is_empty() && !row.current {
        words.push("recorded with other settings than the cell has now".into());
    }
    if let Some(other) = &row.cell.alone_of {
        let taken = row.records.iter().filter(|record| record.cell == *other).map(|record| record.seed.to_string());
        let taken: Vec<String> = taken.collect();
        if !taken.is_empty() {
            let seeds = if taken.len() == 1 { "seed" } else { "seeds" };
            words.push(format!("{seeds} {} from {other}, which also ranked its model alone", taken.join(", ")));
        }
    }
    if let Some(record) = row.records.iter().find(|record| !record.complete) {
        words.push(format!("grid unfinished, {} points tried", record.points.len()));
    } else if let Some(record) = row.records.iter().find(|record| !record.points.is_empty()) {
        words.push(format!("best of {} points on validation", record.points.len()));
    }
    if !row.cell.note.is_empty() {
        words.push(row.cell.note.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    words.join("; ")
}

fn epochs(row: &Row) -> String {
    let of = |record: &ruge_lab::reproduce::Record| match record.best_epoch {
        best if best == record.epochs => grouped(best),
        best => format!("{} of {}", grouped(best), grouped(record.epochs)),
    };
    row.records.first().map_or(NOTHING.into(), of)
}

fn published_metrics(published: &Published) -> SheetRow {
    let mut cells = vec!["  published".into(), String::new(), published_decimal(published.mrr), String::new()];
    cells.push(rank(published.med));
    cells.extend(HITS.iter().map(|n| published_decimal(published.hits.get(&n.to_string()).copied())));
    SheetRow { cells, published: true }
}

/// MRR, MED and HITS of every system.
fn metrics(rows: &[Row]) -> Sheet {
    let mut sheet = empty(
        ["method", "data"],
        &["MRR", "spread", "MED", "H@1", "H@3", "H@5", "H@10", "seeds", "epoch"],
        &["remark"],
    );
    let alone = rules_alone(rows);
    for (index, row) in rows.iter().enumerate() {
        if row.cell.optional && row.records.is_empty() {
            continue;
        }
        let mut cells = vec![row.cell.method.clone(), row.cell.data.clone(), decimal(row.mrr()), decimal(row.spread())];
        cells.push(rank(row.med()));
        cells.extend(HITS.iter().map(|n| decimal(row.hits(*n))));
        cells.extend([row.records.len().to_string(), epochs(row), remark(row)]);
        sheet.rows.push(SheetRow { cells, published: false });
        sheet.rows.extend(row.cell.published.as_ref().filter(|p| p.mrr.is_some()).map(published_metrics));
        // The rules alone close the rows of their data set.
        if rows.get(index + 1).is_none_or(|next| next.cell.data != row.cell.data) {
            for (of, figures) in alone.iter().filter(|(of, _)| of.cell.data == row.cell.data) {
                let name = counts_of(of).map_or(ALONE.into(), |counts| format!("{} {ALONE}", grouped(counts.rules)));
                let mut cells = vec![name, row.cell.data.clone(), decimal(Some(figures.mrr)), NOTHING.into()];
                cells.push(rank(Some(figures.med)));
                cells.extend(HITS.iter().map(|n| decimal(figures.hits.get(&n.to_string()).copied())));
                let note = "the highest confidence decides, ties by mean rank; not trained";
                cells.extend(["".into(), "".into(), note.into()]);
                sheet.rows.push(SheetRow { cells, published: false });
            }
        }
    }
    sheet.plots = curves(rows);
    sheet.after.extend(held_out_words(rows));
    sheet
}

/// Validation curves of the first data set that has any: guided and unguided, and others behind them.
fn curves(rows: &[Row]) -> Vec<SheetPlot> {
    let has_curve = |row: &&Row| row.records.first().is_some_and(|record| record.curve.len() > 1);
    let Some(data) = rows.iter().find(has_curve).map(|row| row.cell.data.clone()) else { return Vec::new() };
    let shown: Vec<&Row> = rows.iter().filter(has_curve).filter(|row| row.cell.data == data).collect();
    let mut series = Vec::new();
    let mut others = [(Ink::Plain, false), (Ink::Guided, true), (Ink::Unguided, true), (Ink::Plain, true)].into_iter();
    // More lines than can be told apart are not drawn.
    for row in shown.iter().take(7) {
        let record = &row.records[0];
        let (ink, dashed) = match row.cell.method.as_str() {
            "RUGE" => (Ink::Guided, false),
            "ComplEx" => (Ink::Unguided, false),
            _ => others.next().unwrap_or((Ink::Faint, true)),
        };
        let points = record.curve.iter().map(|&(epoch, mrr)| (epoch as f64, mrr)).collect();
        let best = record.curve.iter().find(|(epoch, _)| *epoch == record.best_epoch);
        let said = |mrr: f64| format!("{}, epoch {}: {mrr:.4}", row.cell.method, record.best_epoch);
        let marks = best.map(|&(epoch, mrr)| (epoch as f64, mrr, said(mrr))).into_iter().collect();
        series.push(Series { name: row.cell.method.clone(), ink, dashed, points, marks });
    }
    vec![SheetPlot {
        title: format!("Validation MRR on {data}"),
        x_label: "epoch".into(),
        caption: "The dot is the epoch that validation chose.".into(),
        series,
    }]
}

/// How many conclusions are held-out facts must be said wherever guided results are shown.
fn held_out_words(rows: &[Row]) -> Vec<String> {
    let counted = first_of_rules(rows).into_iter().filter_map(|row| counts_of(row).map(|counts| (row, counts)));
    counted
        .filter(|(_, counts)| counts.unlabeled > 0)
        .map(|(row, counts)| {
            format!(
                "On {} {} of the {} conclusions of {} rules ({}) are valid or test triples, though neither mining nor training reads one.",
                row.cell.data,
                grouped(counts.in_valid + counts.in_test),
                grouped(counts.unlabeled),
                grouped(counts.rules),
                percent(counts.held_out()),
            )
        })
        .collect()
}

fn counts_of(row: &Row) -> Option<RuleCounts> {
    row.records.iter().find_map(|record| record.rules)
}

/// The threshold figure.
fn confidence(rows: &[Row]) -> Sheet {
    let mut sheet = empty(
        ["rules", "data"],
        &["θ", "count", "groundings", "per epoch", "held out", "MRR", "H@1", "H@10", "epoch"],
        &["remark"],
    );
    for row in rows.iter().filter(|row| !row.records.is_empty()) {
        let counts = counts_of(row);
        let cells = vec![
            row.cell.method.clone(),
            row.cell.data.clone(),
            row.cell.x.map_or(String::new(), |x| format!("{x:.2}")),
            count(counts.map(|c| c.rules)),
            count(counts.map(|c| c.groundings)),
            counts.map_or(NOTHING.into(), |c| grouped(c.per_epoch.unwrap_or(c.groundings))),
            counts.map_or(NOTHING.into(), |c| percent(c.held_out())),
            decimal(row.mrr()),
            decimal(row.hits(1)),
            decimal(row.hits(10)),
            epochs(row),
            remark(row),
        ];
        sheet.rows.push(SheetRow { cells, published: false });
    }
    let baseline = rows.iter().find(|row| row.cell.x.is_none()).and_then(Row::mrr);
    let lines = sweeps(rows);
    let bounds = lines.iter().flat_map(|(_, points)| points).map(|point| point.0);
    let (low, high) = bounds.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
    let mut series: Vec<Series> = Vec::new();
    for (index, (name, points)) in lines.iter().enumerate() {
        let marks = points.iter().map(|&(x, mrr)| (x, mrr, format!("{name}, θ = {x:.2}: {mrr:.4}"))).collect();
        let ink = if index == 0 { Ink::Guided } else { Ink::Plain };
        series.push(Series { name: name.clone(), ink, dashed: index > 0, points: points.clone(), marks });
    }
    if let Some(mrr) = baseline.filter(|_| low < high) {
        let points = vec![(low, mrr), (high, mrr)];
        series.push(Series { name: "ComplEx".into(), ink: Ink::Unguided, dashed: false, points, marks: Vec::new() });
    }
    if !series.is_empty() {
        sheet.plots.push(SheetPlot {
            title: "Test MRR against the confidence threshold".into(),
            x_label: "least confidence θ".into(),
            caption: "One seed; every point with the same number of epochs.".into(),
            series,
        });
    }
    let paper = rows.iter().any(|row| row.cell.data == "fb15k");
    for (name, points) in &lines {
        sheet.after.extend(claims(name, points, baseline, paper));
    }
    sheet
}

/// The points of each reading, by rising threshold.
fn sweeps(rows: &[Row]) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for row in rows {
        let (Some(x), Some(mrr)) = (row.cell.x, row.mrr()) else { continue };
        match lines.iter_mut().find(|(name, _)| *name == row.cell.method) {
            Some((_, points)) => points.push((x, mrr)),
            None => lines.push((row.cell.method.clone(), vec![(x, mrr)])),
        }
    }
    lines.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines
}

/// What a line shows; on the `paper`'s data also where it agrees with what the paper says of its figure.
fn claims(name: &str, points: &[(f64, f64)], baseline: Option<f64>, paper: bool) -> Option<String> {
    let best = points.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| points.len() > 2)?;
    let at = |x: f64| points.iter().find(|point| (point.0 - x).abs() < 1e-9);
    let mut text = format!("{name}: the best of {} thresholds is {:.2} with MRR {:.4}", points.len(), best.0, best.1);
    match at(0.8).filter(|_| paper) {
        Some(claimed) if claimed.0 == best.0 => text.push_str(", as the paper says"),
        Some(claimed) => {
            let behind = best.1 - claimed.1;
            text.push_str(&format!("; the paper's best, 0.80, has {:.4}, {behind:.4} less", claimed.1));
        }
        None => {}
    }
    if let Some(baseline) = baseline {
        let list = |points: Vec<&(f64, f64)>| {
            points.iter().map(|point| format!("{:.2}", point.0)).collect::<Vec<_>>().join(", ")
        };
        let (above, below): (Vec<_>, Vec<_>) = points.iter().partition(|point| point.1 > baseline);
        text.push_str(&match (above.is_empty(), below.is_empty()) {
            (_, true) => format!(". Every threshold is above ComplEx ({baseline:.4})"),
            (true, _) => format!(". No threshold is above ComplEx ({baseline:.4})"),
            _ => format!(". Above ComplEx ({baseline:.4}): {}; not above it: {}", list(above), list(below)),
        });
        if paper {
            text.push_str("; the paper says it is above from 0.35 to 0.9");
        }
    }
    Some(text + ".")
}

/// Seconds.
fn runtime(rows: &[Row]) -> Sheet {
    let mut sheet = empty(["method", "data"], &["extraction s", "grounding s", "epoch s"], &["device", "remark"]);
    for row in rows {
        let cells = vec![
            row.cell.method.clone(),
            row.cell.data.clone(),
            seconds(row.mean(|record| record.seconds.paths.or(record.seconds.mining))),
            seconds(row.mean(|record| record.seconds.grounding)),
            seconds(row.mean(|record| record.seconds.median_epoch.or(record.seconds.epoch))),
            row.device(),
            remark(row),
        ];
        sheet.rows.push(SheetRow { cells, published: false });
        if let Some(paper) = &row.cell.published {
            let cells = vec![
                "  published".into(),
                String::new(),
                seconds(paper.extraction),
                seconds(paper.grounding),
                seconds(paper.epoch),
                "not described".into(),
            ];
            sheet.rows.push(SheetRow { cells, published: true });
        }
    }
    sheet.after.extend(ratios(rows));
    sheet
}

/// What rules cost: an epoch of RUGE against one of ComplEx, on the same device.
fn ratios(rows: &[Row]) -> Vec<String> {
    let epoch = |row: &Row| row.mean(|record| record.seconds.median_epoch);
    let is = |row: &&Row, method: &str| row.cell.method == method;
    let mut words = Vec::new();
    for guided in rows.iter().filter(|row| is(row, "RUGE")) {
        let twin = |other: &Cell| other.data == guided.cell.data && other.device == guided.cell.device;
        let plain = rows.iter().find(|row| is(row, "ComplEx") && twin(&row.cell));
        if let (Some(with), Some(without)) = (epoch(guided), plain.and_then(epoch)) {
            let (data, device) = (&guided.cell.data, guided.device());
            let published = match data.as_str() {
                "fb15k" => "; the paper's figures give 1.24",
                _ => "",
            };
            words.push(format!("RUGE / ComplEx on {data} ({device}): {:.2} per epoch{published}.", with / without));
        }
    }
    words
}

/// Rules, groundings, unlabeled triples.
fn statistics(rows: &[Row]) -> Sheet {
    let mut sheet = empty(
        ["rules", "data"],
        &["count", "groundings", "unlabeled", "in valid", "in test", "held out", "alone: MRR", "H@1", "H@10"],
        &["remark"],
    );
    for row in rows {
        let counts = counts_of(row);
        let alone = row.records.iter().find_map(|record| record.rules_only.as_ref());
        let hits = |n: &str| decimal(alone.and_then(|alone| alone.hits.get(n).copied()));
        let cells = vec![
            row.cell.method.clone(),
            row.cell.data.clone(),
            count(counts.map(|c| c.rules)),
            count(counts.map(|c| c.groundings)),
            count(counts.map(|c| c.unlabeled)),
            count(counts.map(|c| c.in_valid)),
            count(counts.map(|c| c.in_test)),
            counts.map_or(NOTHING.into(), |c| percent(c.held_out())),
            decimal(alone.map(|alone| alone.mrr)),
            hits("1"),
            hits("10"),
            remark(row),
        ];
        sheet.rows.push(SheetRow { cells, published: false });
        if let Some(paper) = &row.cell.published {
            let mut cells = vec!["  published".into(), String::new()];
            cells.extend([paper.rules, paper.groundings, paper.unlabeled].map(count));
            sheet.rows.push(SheetRow { cells, published: true });
        }
        sheet.after.extend(examples(row));
    }
    sheet
}

/// Which of the rules a reader would look for are among ours.
fn examples(row: &Row) -> Option<String> {
    let of = row.records.iter().map(|record| &record.examples).find(|examples| !examples.is_empty())?;
    let words = |rule: &str| rule.split_whitespace().collect::<Vec<_>>().join(" ");
    let found: Vec<String> = of
        .iter()
        .filter_map(|example| Some(format!("{} ({:.3})", words(&example.rule), example.confidence?)))
        .collect();
    let missing: Vec<String> = of.iter().filter(|x| x.confidence.is_none()).map(|x| words(&x.rule)).collect();
    let mut text = format!("{}, {}: of {} expected rules ", row.cell.data, row.cell.method, of.len());
    match found.is_empty() {
        true => text.push_str("none is found"),
        false => text.push_str(&format!("these are found (confidence here): {}", found.join("; "))),
    }
    if !missing.is_empty() && !found.is_empty() {
        text.push_str(&format!("; not found: {}", missing.join("; ")));
    }
    Some(text + ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_off_the_points() {
        let points = [(0.3, 0.68), (0.5, 0.71), (0.8, 0.76), (0.9, 0.75)];
        let text = claims("recipe", &points, Some(0.69), true).unwrap();
        assert!(text.contains("is 0.80 with MRR 0.7600, as the paper says"), "{text}");
        assert!(text.contains("Above ComplEx (0.6900): 0.50, 0.80, 0.90; not above it: 0.30"), "{text}");
        let text = claims("amie", &[(0.5, 0.7), (0.8, 0.6), (0.9, 0.5)], Some(0.8), true).unwrap();
        assert!(text.contains("0.80, has 0.6000, 0.1000 less") && text.contains("No threshold is above"), "{text}");
        assert_eq!(claims("one", &points[..1], None, true), None);
    }

    #[test]
    fn remarks_go_under_the_table() {
        let row = |note: &str| SheetRow { cells: vec!["m".into(), note.into()], published: false };
        let mut sheet = empty(["method", "remark"], &[], &[]);
        sheet.rows = vec![row("a"), row(""), row("b"), row("a")];
        assert_eq!(footnotes(&mut sheet), ["(1) a.", "(2) b."]);
        let shown: Vec<&str> = sheet.rows.iter().map(|row| row.cells[1].as_str()).collect();
        assert_eq!(shown, ["(1)", "", "(2)", "(1)"]);
        assert!(footnotes(&mut Sheet::default()).is_empty());
    }

    #[test]
    fn numbers_keep_their_place() {
        assert_eq!([seconds(Some(0.0123)), seconds(Some(4.04)), seconds(None)], ["0.0123", "4.04", "–"]);
        assert_eq!([rank(Some(1.0)), rank(Some(2.5)), rank(None)], ["1", "2.5", "–"]);
        assert_eq!(decimal(Some(f64::NAN)), "–");
    }
}
