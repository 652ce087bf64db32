//! A question with one open place, and its best answers.

use ruge::predict::{PredictOptions, Question, Who};
use ruge::{Cancel, Control};

use crate::ask::Ask;
use crate::html::{Html, Name, Value};
use crate::problem::Problem;

use super::parts::meter;
use super::{Content, View};

/// The question as a form, and its answers.
pub fn show(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let text = |name: &str| -> Result<Option<&str>, Problem> {
        Ok(ask.text(name)?.map(str::trim).filter(|text| !text.is_empty() && *text != "?"))
    };
    let (head, relation, tail) = (text("head")?, text("relation")?, text("tail")?);
    let given = [head, relation, tail].iter().flatten().count();
    let new = ask.flag("new", given == 0)?;
    let typed = ask.flag("typed", given == 0)?;
    let top = ask.count("top", 20, 1000)?.max(1);
    let mut main = Html::of(
        "<h1>Ask</h1>\n<p class=\"lead\">Fill in two of the three fields. The third is what you ask for.</p>\n<form class=\"question\" action=\"ask\">\n",
        &[],
    );
    for (name, label, value, kind) in [
        ("head", "Subject", head, "entity"),
        ("relation", "Relation", relation, "relation"),
        ("tail", "Object", tail, "entity"),
    ] {
        main.put(
            "<label>{}<input name=\"{}\" value=\"{}\" placeholder=\"?\" autocomplete=\"off\" data-complete=\"{}\" maxlength=\"10000\"></label>\n",
            &[&label, &name, &Value(value.unwrap_or_default()), &kind],
        );
    }
    let checked = |is: bool| if is { Html::of(" checked", &[]) } else { Html::new() };
    main.put(
        "<p class=\"choices\"><label><input type=\"checkbox\" name=\"new\" value=\"true\"{}> only facts that are not listed</label>\n\
         <label><input type=\"checkbox\" name=\"typed\" value=\"true\"{}> only what stands there in some known fact</label></p>\n\
         <button>Ask</button>\n</form>\n",
        &[&checked(new), &checked(typed)],
    );
    if given > 0 {
        match given {
            2 => {
                let question = Question::named(&view.snapshot.engine, head, relation, tail)?;
                main.put(
                    "{}",
                    &[&answers(
                        view,
                        question,
                        &PredictOptions { top, new, typed, ..PredictOptions::default() },
                        cancel,
                    )?],
                );
            }
            _ => {
                main.put("<p class=\"warn\" role=\"alert\">Leave exactly one field empty.</p>\n", &[]);
            }
        }
    }
    Ok(Content::new("Ask", main))
}

fn answers(view: &View, question: Question, options: &PredictOptions, cancel: &Cancel) -> Result<Html, Problem> {
    // Relations are all looked at: there is nothing to filter.
    let of_relation = matches!(question, Question::Relation { .. });
    let options = PredictOptions { typed: options.typed && !of_relation, ..options.clone() };
    let engine = &view.snapshot.engine;
    let answers = engine.predict(&[question], &options, &Control::new(cancel))?.pop().unwrap_or_default();
    let mut html = Html::of("<h2 id=\"answers\">Answers</h2>\n", &[]);
    if answers.is_empty() {
        html.put("<p class=\"missing\">There is none. Ask without the filters.</p>\n", &[]);
        return Ok(html);
    }
    html.put(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"answers\"><table data-tsv class=\"answers\">\n<thead><tr>\
         <th scope=\"col\" class=\"n\">#</th><th scope=\"col\">Answer</th><th scope=\"col\">Truth</th><th scope=\"col\"><span class=\"unseen\">Reasons</span></th>\
         </tr></thead><tbody>\n",
        &[],
    );
    for (at, answer) in answers.iter().enumerate() {
        let Some(triple) = question.answered(answer.who) else { continue };
        let name = match answer.who {
            Who::Entity(id) => view.entity(id),
            Who::Relation(id) => view.relation(id),
        };
        let truth =
            if answer.known { Html::of("<span class=\"tag good\">known</span>", &[]) } else { meter(answer.truth) };
        html.put("<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td><td><a href=\"{}\">Why?<span class=\"unseen\"> {}</span></a></td></tr>\n", &[
            &(at + 1),
            &name,
            &truth,
            &view.fact_url(triple),
            &Name(&view.said(triple)),
        ]);
    }
    html.put("</tbody></table></div>\n", &[]);
    html.put("<p class=\"note\">{}</p>\n", &[&engine.truth_assumes()?]);
    Ok(html)
}
