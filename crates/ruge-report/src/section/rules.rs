//! The best rules in words, and the confidences of all rules.

use crate::html::Align::{Number, Text};
use crate::html::{Table, breakable, counted, decimal, escape, grouped, percent};
use crate::plot;
use crate::report::{RuleRow, RuleSet};
use crate::section::figure;

/// Counts, the best rules, the histogram of confidences.
pub fn body(rules: &RuleSet) -> String {
    let [one, two, more] = rules.by_length;
    let mut said = vec![counted(rules.count, "rule", "rules")];
    if one + two + more > 0 {
        let mut parts = vec![format!("{} with one premise", grouped(one)), format!("{} with two", grouped(two))];
        if more > 0 {
            parts.push(format!("{} with more", grouped(more)));
        }
        said.push(format!("({})", parts.join(", ")));
    }
    if !rules.source.is_empty() {
        said.push(escape(&rules.source));
    }
    let mut out = format!("<p>{}.</p>\n", said.join(" "));
    if let (Some(groundings), Some(unlabeled)) = (rules.groundings, rules.unlabeled) {
        out.push_str(&format!(
            "<p>They hold at {} places in the training triples whose conclusion is not known yet, and conclude {} distinct new \
             triples.",
            grouped(groundings),
            grouped(unlabeled)
        ));
        if let Some(in_test) = rules.in_test.filter(|_| unlabeled > 0) {
            out.push_str(&format!(
                " {} of these ({}) are test triples, which neither mining nor training ever reads.",
                grouped(in_test),
                percent(in_test as f64 / unlabeled as f64)
            ));
        }
        out.push_str("</p>\n");
    }
    if rules.best.is_empty() {
        out.push_str("<p class=\"missing\">No rule was found.</p>\n");
    } else {
        out.push_str(&format!("<h3>The best {}</h3>\n{}", rules.best.len(), best(&rules.best)));
    }
    let histogram = &rules.confidences;
    let drawing = plot::histogram("Histogram of rule confidences", "confidence", &histogram.edges, &histogram.counts);
    out.push_str(&figure("plot-confidence", "How many rules have which confidence", "", drawing.as_ref(), ""));
    out
}

fn best(rows: &[RuleRow]) -> String {
    let mut table = Table::new([
        ("Rule", Text),
        ("Confidence", Number),
        ("<abbr title=\"known facts the rule predicts\">Support</abbr>", Number),
        ("<abbr title=\"share of the relation's known facts the rule predicts\">Coverage</abbr>", Number),
        ("<abbr title=\"share of all its predictions that are known facts\">Standard</abbr>", Number),
        ("<abbr title=\"how many of its new conclusions are validation triples\">Valid</abbr>", Number),
    ]);
    let none = || "–".to_string();
    for row in rows {
        let formula = if row.formula.is_empty() {
            String::new()
        } else {
            format!("<span class=\"formula\">{}</span>", escape(&row.formula))
        };
        table.row(vec![
            format!("<div class=\"words\">{}{formula}</div>", breakable(&row.words)),
            decimal(row.confidence),
            row.support.map_or_else(none, grouped),
            row.head_coverage.map_or_else(none, decimal),
            row.standard.map_or_else(none, decimal),
            row.valid.map_or_else(none, |[in_valid, all]| format!("{} of {}", grouped(in_valid), grouped(all))),
        ]);
    }
    table.folded("The best rules", 12)
}
