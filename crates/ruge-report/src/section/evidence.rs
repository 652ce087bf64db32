//! Evidence: which counts speak for and against a candidate, and what they weigh.

use crate::html::Align::{Number, Text};
use crate::html::{Table, decimal, escape, grouped, name};
use crate::report::{Effect, EvidenceUse};

/// The features, what was tried, and weights by relation.
pub fn body(evidence: &EvidenceUse) -> String {
    let fitted = format!(
        "{} fitted on validation, those of the rules included.",
        match evidence.fitted {
            1 => "1 number was".to_string(),
            count => format!("{} numbers were", grouped(count)),
        }
    );
    let mut out = match evidence.features.is_empty() {
        true => {
            format!("<p>Counts for and against candidates do not help on validation, and are not used. {fitted}</p>\n")
        }
        false => format!(
            "<p>Rules only speak for a candidate. These counts, taken on train, may also speak against it. {fitted}</p>\n"
        ),
    };
    let mut table = Table::new([("Evidence", Text), ("What it asks", Text)]);
    for (feature, asks) in &evidence.features {
        table.row(vec![escape(feature), format!("<div class=\"words\">{}</div>", escape(asks))]);
    }
    if !table.is_empty() {
        out.push_str(&table.render("Evidence that counts"));
    }
    if !evidence.tried.is_empty() {
        let mut table = Table::new([("Tried on validation", Text), ("MRR among the best answers", Number), ("", Text)]);
        for row in &evidence.tried {
            let taken = if row.taken { "taken" } else { "" };
            let class = if row.taken { "guided" } else { "" };
            table.classed(class, vec![escape(&row.what), decimal(row.mrr), taken.into()]);
        }
        out.push_str(&format!("<h3>With and without</h3>\n{}", table.render("Evidence tried on validation")));
        out.push_str("<p class=\"note\">Each half of validation is ranked by what was fitted on the other half.</p>\n");
    }
    if !evidence.rows.is_empty() {
        let mut table = Table::new([("Relation", Text), ("Asked for", Text), ("Strongest evidence", Text)]);
        for row in &evidence.rows {
            table.row(vec![name(&row.relation, 60), escape(&row.asked), effects(&row.effects)]);
        }
        out.push_str("<h3>What counts for a relation</h3>\n");
        out.push_str(&table.folded("Evidence by relation", 10));
    }
    if !evidence.shared.is_empty() {
        out.push_str(&format!("<p class=\"note\">Other relations: {}</p>\n", effects(&evidence.shared)));
    }
    out
}

/// What each adds, with its sign.
fn effects(list: &[Effect]) -> String {
    if list.is_empty() {
        return "–".into();
    }
    let items: String =
        list.iter().map(|effect| format!("<li>{} {}</li>", signed(effect.value), escape(&effect.words))).collect();
    format!("<ul class=\"effects\">{items}</ul>")
}

/// `+0.50` or `−2.50`, coloured by sign.
pub fn signed(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".into(),
        _ if value < 0.0 => format!("<span class=\"down\">−{:.2}</span>", -value),
        _ => format!("<span class=\"up\">+{value:.2}</span>"),
    }
}
