//! Predicted facts, each with its explanation and evidence graph.

use crate::evidence;
use crate::html::{breakable, decimal, escape, isolated, rank, truth};
use crate::report::{Fact, Prediction, Standing};

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
        tag("", format!("truth {text}"));
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
    if let Some(note) = &prediction.note {
        out.push_str(&format!("<p class=\"note\">{}</p>\n", escape(note)));
    }
    if let Some(graph) = evidence::draw(prediction) {
        out.push_str(&format!("<div class=\"evidence\" id=\"evidence-{}\">{graph}</div>\n", index + 1));
    }
    out.push_str("</article>\n");
    out
}

fn said(fact: &Fact) -> String {
    let text = format!("{} {} {}", isolated(&fact.head), isolated(&fact.relation), isolated(&fact.tail));
    if fact.negated { format!("it is not known that {text}") } else { text }
}
