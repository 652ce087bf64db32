//! Predicted facts, each with its explanation and evidence graph.

use crate::evidence;
use crate::html::Align::{Number, Text};
use crate::html::{Table, breakable, counted, decimal, escape, isolated, rank, truth};
use crate::report::{Effect, Fact, Prediction, Standing};
use crate::section::evidence::signed;

/// A card per prediction.
pub fn body(predictions: &[Prediction]) -> String {
    if predictions.is_empty() {
        return "<p class=\"missing\">Nothing new was predicted.</p>\n".into();
    }
    predictions.iter().enumerate().map(card).collect()
}

fn card((index, prediction): (usize, &Prediction)) -> String {
    let Fact { head, relation, tail, .. } = &prediction.fact;
    let mut out = format!(
        "<article class=\"fact\"><h3>{} <i>{}</i> {}</h3>\n<ul class=\"tags\">",
        isolated(head),
        isolated(relation),
        isolated(tail)
    );
    let mut tag = |class: &str, text: String| out.push_str(&format!("<li class=\"{class}\">{text}</li>"));
    match prediction.standing {
        Standing::New => tag("", "new: in none of the splits".into()),
        Standing::InTest => tag("yes", "✓ true: held out for testing".into()),
        Standing::InValid => tag("yes", "✓ true: held out for validation".into()),
        Standing::InTrain => tag("", "known from training".into()),
    }
    let compared = |with: Option<f64>, without: Option<f64>, show: &dyn Fn(f64) -> String| {
        let without = without.map_or_else(String::new, |value| format!(" (without rules {})", show(value)));
        with.map(|value| format!("{}{without}", show(value)))
    };
    if let Some(text) = compared(prediction.truth, prediction.truth_unguided, &truth) {
        tag(
            "",
            match prediction.standing {
                Standing::New => format!("truth {text}"),
                // What is listed is known, and has no chance.
                _ => format!("if it were not listed: {text}"),
            },
        );
    }
    if let Some(text) = compared(prediction.rank, prediction.rank_unguided, &rank) {
        tag("", format!("rank {text}"));
    }
    out.push_str("</ul>\n");
    if prediction.rules.is_empty() {
        out.push_str("<p>No rule concludes it.");
        if !prediction.similar.is_empty() {
            out.push_str(" The most similar known facts:</p>\n<ul class=\"because\">");
            for fact in &prediction.similar {
                out.push_str(&format!("<li>{}</li>", said(fact)));
            }
            out.push_str("</ul>\n");
        } else {
            out.push_str("</p>\n");
        }
    } else {
        out.push_str("<ol class=\"because\">");
        for firing in &prediction.rules {
            let push =
                firing.push.map_or_else(String::new, |push| format!(", moved the soft label by {}", decimal(push)));
            let premises: Vec<String> = firing.premises.iter().map(said).collect();
            let because = match premises.is_empty() {
                true => String::new(),
                false => format!("<small>because {}</small>", premises.join(", and ")),
            };
            out.push_str(&format!(
                "<li>{} <span class=\"note\">(confidence {}{push})</span>{because}</li>",
                breakable(&firing.words),
                decimal(firing.confidence)
            ));
        }
        out.push_str("</ol>\n");
    }
    if !prediction.against.is_empty() {
        let reasons: Vec<String> = prediction.against.iter().map(|reason| escape(reason)).collect();
        out.push_str(&format!("<p class=\"against\">Against it: {}.</p>\n", reasons.join("; ")));
    }
    out.push_str(&parts(prediction));
    if let Some(note) = &prediction.note {
        out.push_str(&format!("<p class=\"note\">{}</p>\n", escape(note)));
    }
    if let Some(graph) = evidence::draw(prediction) {
        out.push_str(&format!("<div class=\"evidence\" id=\"evidence-{}\">{graph}</div>\n", index + 1));
    }
    out.push_str("</article>\n");
    out
}

/// Parts of a score that are shown; the others are summed.
const PARTS: usize = 5;

/// What the score is made of, for and against, with its sum. A score of one part is that part.
fn parts(prediction: &Prediction) -> String {
    let list = &prediction.parts;
    if list.len() < 2 {
        return String::new();
    }
    let mut table = Table::new([("Adds", Number), ("", Text), ("What its score is made of", Text)]);
    let (shown, rest) = list.split_at(PARTS.min(list.len()));
    let words = |text: &str| format!("<div class=\"words\">{}</div>", breakable(text));
    for part in shown {
        let sign = if part.value < 0.0 { "against" } else { "for" };
        table.row(vec![signed(part.value), sign.into(), words(&part.words)]);
    }
    let sum = |list: &[Effect]| list.iter().map(|part| part.value).sum::<f64>();
    if !rest.is_empty() {
        table.row(vec![signed(sum(rest)), String::new(), counted(rest.len(), "smaller part", "smaller parts")]);
    }
    table.classed("sum", vec![signed(sum(list)), "=".into(), words(&prediction.closing)]);
    table.render("What its score is made of")
}

fn said(fact: &Fact) -> String {
    let text = format!("{} {} {}", isolated(&fact.head), isolated(&fact.relation), isolated(&fact.tail));
    if fact.negated { format!("it is not known that {text}") } else { text }
}
