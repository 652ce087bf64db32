//! The data audit: what is in the data, and what to keep in mind.

use crate::html::Align::{Number, Text};
use crate::html::{Table, escape, grouped, name, percent};
use crate::report::{DataAudit, Level};
use crate::section::paragraph;

/// Counts, findings, the largest relations, relations that mirror one another.
pub fn body(data: &DataAudit) -> String {
    let [train, valid, test] = data.splits.map(grouped);
    let mut out =
        paragraph(&if data.source.is_empty() { String::new() } else { format!("Read from {}.", data.source) });
    let counts = [
        (grouped(data.entities), "entities"),
        (grouped(data.relations), "relations"),
        (train, "training triples"),
        (valid, "validation triples"),
        (test, "test triples"),
    ];
    let counts: String =
        counts.iter().map(|(value, label)| format!("<li><b>{value}</b><span>{label}</span></li>")).collect();
    out.push_str(&format!("<ul class=\"figures\">{counts}</ul>\n"));
    if !data.findings.is_empty() {
        let items: String = data
            .findings
            .iter()
            .map(|finding| {
                let level = match finding.level {
                    Level::Fine => "fine",
                    Level::Note => "note",
                    Level::Warning => "warning",
                };
                format!("<li class=\"{level}\">{}</li>", escape(&finding.text))
            })
            .collect();
        out.push_str(&format!("<ul class=\"findings\">{items}</ul>\n"));
    }
    if !data.largest.is_empty() {
        let mut table = Table::new([("Relation", Text), ("Facts in train", Number), ("Kind", Text)]);
        for row in &data.largest {
            table.row(vec![name(&row.relation, 60), grouped(row.facts), escape(&row.class)]);
        }
        out.push_str(&format!("<h3>Largest relations</h3>\n{}", table.render("Largest relations")));
    }
    if !data.patterns.is_empty() {
        let columns = [("Kind", Text), ("r", Text), ("s", Text), ("of r", Number), ("of s", Number), ("Facts", Number)];
        let mut table = Table::new(columns);
        for row in &data.patterns {
            table.row(vec![
                escape(&row.kind),
                name(&row.first, 44),
                if row.first == row.second { "itself".into() } else { name(&row.second, 44) },
                percent(row.share_of_first),
                percent(row.share_of_second),
                grouped(row.support),
            ]);
        }
        out.push_str("<h3>Relations that mirror each other</h3>\n");
        out.push_str("<p class=\"note\">Symmetric: r(x,y) and r(y,x). Inverse: r(x,y) and s(y,x). Duplicate: r(x,y) and s(x,y).</p>\n");
        out.push_str(&table.render("Relations that mirror each other"));
    }
    out
}
