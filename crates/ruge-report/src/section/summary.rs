//! The summary: the outcome in a sentence, and the figures behind it.

use crate::html::{counted, decimal, escape, grouped, percent};
use crate::report::{MetricsRow, Report, System};
use crate::section::{change, paragraph};

/// The caller's sentences, then figures from the sections below.
pub fn body(report: &Report) -> String {
    let mut out = String::new();
    let rows = report.metrics.given().map_or(&[][..], |table| &table.rows);
    let row = |system: System| rows.iter().find(|row| row.system == system);
    let systems = [System::Combined, System::Guided, System::Unguided].map(row);
    if let Some(sentence) = outcome(systems, report) {
        out.push_str(&format!("<p class=\"lead\">{sentence}</p>\n"));
    }
    report.summary.iter().for_each(|sentence| out.push_str(&paragraph(sentence)));
    out.push_str(&figures(report, systems));
    if out.is_empty() {
        out.push_str("<p class=\"missing\">Nothing was measured in this run.</p>\n");
    }
    out
}

/// The best model first: rules that also rank, if there are such, or rules that guided.
type Systems<'r> = [Option<&'r MetricsRow>; 3];

fn outcome([combined, guided, unguided]: Systems<'_>, report: &Report) -> Option<String> {
    let split = report.metrics.given().map_or("test", |table| table.split.as_str());
    let of = if split.is_empty() { "test".to_string() } else { escape(split) };
    if let (Some(best), Some(unguided)) = (combined, unguided) {
        let verdict = match ((best.mrr - unguided.mrr) * 1000.0).round() {
            gain if gain > 0.0 => "Rules help",
            gain if gain < 0.0 => "Rules cost more than they give here",
            _ => "Rules make no difference here",
        };
        let before = guided.map_or_else(String::new, |row| format!(", with guidance alone {}", decimal(row.mrr)));
        let counts = report.evidence.given().is_some_and(|evidence| !evidence.features.is_empty());
        let beside = if counts { "rules and evidence" } else { "more rules" };
        return Some(format!(
            "{verdict}: the best model, guided by rules and combined with {beside} at ranking time, reaches a {of} MRR of \
             <b>{}</b>; the same model without rules reaches {}{before}.",
            decimal(best.mrr),
            decimal(unguided.mrr)
        ));
    }
    match (guided, unguided) {
        (Some(guided), Some(unguided)) => {
            let rules = report.rules.given().map(|rules| counted(rules.count, "rule", "rules"));
            let verdict = match ((guided.mrr - unguided.mrr) * 1000.0).round() {
                gain if gain > 0.0 => "Guidance helps",
                gain if gain < 0.0 => "Guidance costs more than it gives here",
                _ => "Guidance makes no difference here",
            };
            Some(format!(
                "{verdict}: guided by {}, the model reaches a {of} MRR of <b>{}</b>; the same model without them reaches {}.",
                rules.unwrap_or_else(|| "the rules".into()),
                decimal(guided.mrr),
                decimal(unguided.mrr)
            ))
        }
        (Some(only), None) | (None, Some(only)) => {
            Some(format!("{} reaches a {of} MRR of <b>{}</b>.", escape(&only.name), decimal(only.mrr)))
        }
        (None, None) => None,
    }
}

fn figures(report: &Report, [combined, guided, unguided]: Systems<'_>) -> String {
    let mut items: Vec<(String, String)> = Vec::new();
    let best = combined.or(guided);
    if let Some(row) = best {
        items.push((
            decimal(row.mrr),
            if combined.is_some() { "MRR of the best model" } else { "MRR with rules" }.into(),
        ));
    }
    if let Some(row) = unguided {
        items.push((decimal(row.mrr), "MRR without rules".into()));
    }
    if let (Some(best), Some(unguided)) = (best, unguided) {
        items.push((change(Some(best.mrr), Some(unguided.mrr)), "gained by the rules".into()));
    }
    if let Some(share) = best.or(unguided).and_then(|row| row.hits.get(&10)) {
        items.push((percent(*share), "answers among the first ten".into()));
    }
    if let Some(rules) = report.rules.given() {
        items.push((grouped(rules.count), "rules".into()));
    }
    if let Some(proposals) = report.proposals.given() {
        items.push((
            grouped(proposals.found.max(proposals.facts.len())),
            "<a href=\"#proposals\">proposed facts</a>".into(),
        ));
    }
    if let Some(data) = report.data.given() {
        let triples: usize = data.splits.iter().sum();
        items.push((grouped(triples), format!("facts about {}", counted(data.entities, "entity", "entities"))));
    }
    if items.is_empty() {
        return String::new();
    }
    let items: String =
        items.iter().map(|(value, label)| format!("<li><b>{value}</b><span>{label}</span></li>")).collect();
    format!("<ul class=\"figures\">{items}</ul>\n")
}
