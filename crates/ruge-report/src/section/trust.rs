//! How far to trust the results: calibration, consistency with the rules, suspicious facts.

use crate::html::Align::{Number, Text};
use crate::html::{Table, breakable, decimal, grouped, maybe, name, percent, truth};
use crate::plot::{self, Axes, Ink, Series};
use crate::report::{CalibrationCurve, CleanUp, Consistency, ReliabilityBin};
use crate::section::{figure, legend, paragraph, points};

/// Rows of a table before it is collapsed.
const ROWS: usize = 12;

/// The reliability curve, Brier score and calibration error, and the distribution of truth values.
pub fn calibration(calibration: &CalibrationCurve) -> String {
    let mut out = paragraph(&calibration.about);
    let line = |name: &str, ink: Ink, dashed: bool, bins: &[ReliabilityBin]| {
        let bins = bins.iter().filter(|bin| bin.count > 0);
        let marks: Vec<(f64, f64, String)> = bins
            .map(|bin| {
                let said = format!(
                    "{name}: said {:.3}, came true {:.3} ({} predictions)",
                    bin.predicted,
                    bin.observed,
                    grouped(bin.count)
                );
                (bin.predicted, bin.observed, said)
            })
            .collect();
        let points = marks.iter().map(|(x, y, _)| (*x, *y)).collect();
        Series { name: name.into(), ink, dashed, points, marks }
    };
    let diagonal = Series {
        name: "perfect".into(),
        ink: Ink::Faint,
        dashed: true,
        points: vec![(0.0, 0.0), (1.0, 1.0)],
        marks: Vec::new(),
    };
    let mut series = vec![diagonal, line("calibrated", Ink::Guided, false, &calibration.bins)];
    let mut keys = vec![("faint", "perfect"), ("guided", "calibrated")];
    if !calibration.before.is_empty() {
        series.push(line("before calibration", Ink::Unguided, true, &calibration.before));
        keys.push(("unguided dashed", "before calibration"));
    }
    if series.iter().skip(1).all(|series| series.points.is_empty()) {
        return out + "<p class=\"missing\">There are no predictions to compare with the truth.</p>\n";
    }
    let mut table = Table::new([("", Text), ("Brier score", Number), ("Calibration error", Number)]);
    if calibration.brier.is_some() || calibration.ece.is_some() {
        table.row(vec!["calibrated".into(), maybe(calibration.brier), maybe(calibration.ece)]);
    }
    if calibration.brier_before.is_some() || calibration.ece_before.is_some() {
        table.row(vec!["before".into(), maybe(calibration.brier_before), maybe(calibration.ece_before)]);
    }
    if !table.is_empty() {
        out.push_str(&table.render("Calibration"));
        out.push_str(
            "<p class=\"note\">Both are better when smaller. The calibration error is the mean distance between the share said \
             and the share that is listed.</p>\n",
        );
    }
    let drawing = plot::lines(
        "Reliability curve: predicted share against the share that is listed",
        "predicted share",
        &series,
        Axes::Unit,
    );
    let caption = "Points on the dashed line are calibrated: of the answers given a share of 0.8, 80 % are listed.";
    out.push_str(&figure(
        "plot-calibration",
        "Share that is listed, by predicted share",
        &legend(&keys),
        drawing.as_ref(),
        caption,
    ));
    let (edges, counts) = spread(&calibration.bins);
    let drawing = plot::histogram("Histogram of predicted shares", "predicted share", &edges, &counts);
    out.push_str(&figure("plot-truths", "How many answers have which predicted share", "", drawing.as_ref(), ""));
    out
}

/// Ten equal buckets of [0, 1]; a prediction is in the bucket of its bin's mean.
fn spread(bins: &[ReliabilityBin]) -> (Vec<f64>, Vec<u64>) {
    let mut counts = vec![0; 10];
    for bin in bins.iter().filter(|bin| bin.predicted.is_finite()) {
        counts[((bin.predicted * 10.0).floor() as usize).min(9)] += bin.count;
    }
    ((0..=10).map(|edge| f64::from(edge) / 10.0).collect(), counts)
}

/// The share of groundings obeyed, by rule.
pub fn consistency(consistency: &Consistency) -> String {
    let mut out = String::from(
        "<p>A grounding is obeyed if the model holds its conclusion at least as true as the rule demands.</p>\n",
    );
    if let (Some(guided), Some(unguided)) = (consistency.guided, consistency.unguided) {
        out.push_str(&format!(
            "<p>With guidance the model obeys <b>{}</b> of all groundings, without it {}.</p>\n",
            percent(guided),
            percent(unguided)
        ));
    }
    let columns = [
        ("Rule", Text),
        ("Confidence", Number),
        ("Groundings", Number),
        ("With rules", Number),
        ("Without", Number),
        ("<abbr title=\"in points of a hundred\">Change</abbr>", Number),
    ];
    let mut table = Table::new(columns);
    let share = |share: Option<f64>| share.map_or_else(|| "–".into(), percent);
    for row in &consistency.rows {
        table.row(vec![
            format!("<div class=\"words\">{}</div>", breakable(&row.words)),
            decimal(row.confidence),
            grouped(row.groundings),
            share(row.guided),
            share(row.unguided),
            points(row.guided, row.unguided),
        ]);
    }
    if table.is_empty() {
        out.push_str("<p class=\"missing\">No rule has a grounding.</p>\n");
    } else {
        out.push_str(&table.folded("Obedience by rule", ROWS));
    }
    out
}

/// Suspicious training triples.
pub fn clean_up(list: &CleanUp) -> String {
    let mut out = paragraph(&list.about);
    if list.rows.is_empty() {
        out.push_str("<p>Nothing stands out: no training triple is doubted by both the rules and the model.</p>\n");
        return out;
    }
    let mut table = Table::new([
        ("Head", Text),
        ("Relation", Text),
        ("Tail", Text),
        ("If unlisted", Number),
        ("Evidence against it", Text),
    ]);
    for row in &list.rows {
        table.row(vec![
            name(&row.fact.head, 40),
            name(&row.fact.relation, 40),
            name(&row.fact.tail, 40),
            truth(row.truth),
            format!("<div class=\"words\">{}</div>", breakable(&row.why)),
        ]);
    }
    out.push_str(&table.folded("Training triples worth a second look", ROWS));
    out
}
