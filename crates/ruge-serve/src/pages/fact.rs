//! A fact: how true, what speaks for it, what against, and what its rank is made of.

use ruge::Cancel;
use ruge::Triple;
use ruge::explain::drawing::Drawing;
use ruge::explain::parts::{Summed, closing};
use ruge::explain::{ExplainOptions, Explanation, Fact, Premise, RuleEvidence};

use crate::ask::Ask;
use crate::html::{Html, Name, Number, Sentence, Truth, counted, url};
use crate::problem::Problem;
use crate::work::still_wanted;

use super::parts::{share_in_words, verdict};
use super::{Content, View};

/// Rules and parts of the score that are shown at first.
const RULES: usize = 6;
const PARTS: usize = 8;

/// The page of a fact.
pub fn show(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let snapshot = &view.snapshot;
    let triple = snapshot.triple(ask.needed("head")?, ask.needed("relation")?, ask.needed("tail")?)?;
    let told = snapshot.explainer.explain(triple, &ExplainOptions { groundings: 3, ..ExplainOptions::default() })?;
    still_wanted(cancel)?;
    let mut main = Html::of("<h1 class=\"statement\">{}</h1>\n", &[&view.statement(triple)]);
    main.put("{}", &[&answer(&told)]);
    if told.known.is_none() || view.app.reviews.of(&snapshot.fact(triple)).is_some() {
        main.put("{}", &[&view.decision(triple, false)]);
    }
    main.put(
        "<section aria-labelledby=\"for\">\n<h2 id=\"for\">What speaks for it</h2>\n{}</section>\n",
        &[&speaks_for(view, &told)],
    );
    main.put(
        "<section aria-labelledby=\"against\">\n<h2 id=\"against\">What speaks against it</h2>\n{}</section>\n",
        &[&against(view, &told)?],
    );
    main.put(
        "<section aria-labelledby=\"drawn\">\n<h2 id=\"drawn\">The evidence, drawn</h2>\n\
              <div class=\"evidence\" tabindex=\"0\" role=\"region\" aria-label=\"Drawing of the evidence\">",
        &[],
    );
    main.drawing(&Drawing::new(&told).svg_for_page());
    main.put("</div>\n</section>\n", &[]);
    main.put("{}", &[&rank(view, &told, triple)]);
    Ok(Content::new(view.said(triple), main).with_script("fact.js"))
}

fn answer(told: &Explanation) -> Html {
    let mut html = Html::new();
    match &told.known {
        Some(split) => {
            let split = if split == "train" { "the data" } else { split };
            html.put("<p class=\"answer\"><span class=\"tag good\">Known</span> It is listed in {}.</p>\n", &[&split]);
            html.put(
                "<p class=\"note\">If it were not listed, its truth would be estimated at {}: {}.</p>\n",
                &[&Truth(told.estimate), &verdict(told.estimate)],
            );
        }
        None => {
            let words = verdict(told.truth);
            let first = words[..1].to_uppercase();
            html.put(
                "<p class=\"answer\"><meter min=\"0\" max=\"1\" value=\"{}\" aria-hidden=\"true\"></meter> {}{}: <b>{}</b></p>\n",
                &[&Number(told.truth, 3), &first, &&words[1..], &Truth(told.truth)],
            );
            let in_cases = (told.truth * 100.0).round() as usize;
            html.put(
                "<p class=\"note\">Of 100 proposed facts with this truth, about {} are expected to be right.</p>\n",
                &[&in_cases],
            );
        }
    }
    html
}

fn speaks_for(view: &View, told: &Explanation) -> Html {
    let mut html = Html::new();
    if told.rules.is_empty() {
        html.put("<p>No rule concludes it. ", &[]);
        match told.rules_for_relation {
            0 => html.put("No rule concludes this relation at all.</p>\n", &[]),
            count => html.put(
                "The conditions of {} that conclude this relation are not listed.</p>\n",
                &[&counted(count, "rule", "rules")],
            ),
        };
        if told.similar.is_empty() {
            html.put("<p>No other fact of this relation is known.</p>\n", &[]);
        } else {
            html.put(
                "<p>What the model goes by are known facts that are most like it:</p>\n<ul class=\"statements\">\n",
                &[],
            );
            for similar in &told.similar {
                html.put("<li>{}</li>\n", &[&fact(view, &similar.fact)]);
            }
            html.put("</ul>\n", &[]);
        }
        return html;
    }
    let (first, rest) = told.rules.split_at(told.rules.len().min(RULES));
    html.put("<ol class=\"reasons\">\n", &[]);
    first.iter().enumerate().for_each(|(at, rule)| reason(&mut html, view, told, at, rule));
    html.put("</ol>\n", &[]);
    if !rest.is_empty() {
        html.put(
            "<details><summary>{} more</summary>\n<ol class=\"reasons\" start=\"{}\">\n",
            &[&counted(rest.len(), "rule", "rules"), &(RULES + 1)],
        );
        rest.iter().enumerate().for_each(|(at, rule)| reason(&mut html, view, told, RULES + at, rule));
        html.put("</ol></details>\n", &[]);
    }
    html
}

fn reason(html: &mut Html, view: &View, told: &Explanation, at: usize, rule: &RuleEvidence) {
    html.put("<li>\n", &[]);
    let words = view.snapshot.data().prefixes().shorten_all(&rule.words).into_owned();
    match view.snapshot.rule_of(&rule.rule) {
        Some(id) => html.put(
            "<p class=\"rule\"><a href=\"{}\">{}</a></p>\n",
            &[&url("rule", &[("id", &id.to_string())]), &Sentence(&words)],
        ),
        None => html.put("<p class=\"rule\">{}</p>\n", &[&Sentence(&words)]),
    };
    let least = if rule.at_least { "at least " } else { "" };
    html.put(
        "<p class=\"note\">Right {} ({}); here it applies in {}{}.",
        &[
            &share_in_words(rule.confidence),
            &Number(rule.confidence, 2),
            &least,
            &counted(rule.groundings, "way", "ways"),
        ],
    );
    if !rule.redundant.is_empty() {
        html.put(" {} the same.", &[&counted(rule.redundant.len(), "other rule says", "other rules say")]);
    }
    html.put("</p>\n<ul class=\"premises\">\n", &[]);
    for grounding in told.groundings.iter().filter(|grounding| grounding.rule_index == at) {
        html.put("<li>", &[]);
        for (place, premise) in grounding.premises.iter().enumerate() {
            html.put("{}{}", &[&if place == 0 { "" } else { " and " }, &holds(view, premise)]);
        }
        html.put("</li>\n", &[]);
    }
    html.put("</ul>\n</li>\n", &[]);
}

fn holds(view: &View, premise: &Premise) -> Html {
    let said = fact(view, &premise.fact);
    match premise.negated {
        true => Html::of("<em>not</em> {}", &[&said]),
        false => said,
    }
}

/// A fact by its names, as a sentence of links.
fn fact(view: &View, fact: &Fact) -> Html {
    match view.snapshot.triple(&fact.head, &fact.relation, &fact.tail) {
        Ok(triple) => view.statement(triple),
        Err(_) => Html::of("{} {} {}", &[&Name(&fact.head), &Name(&fact.relation), &Name(&fact.tail)]),
    }
}

fn against(view: &View, told: &Explanation) -> Result<Html, Problem> {
    let counted = told.parts.iter().filter(|part| part.value < 0.0 && part.kind != "model").map(|part| &part.words);
    let reasons: Vec<&String> = told.against.iter().chain(counted).collect();
    let mut html = Html::new();
    if reasons.is_empty() {
        html.put(
            "<p>No habit of the relation is broken, and nothing that this model counts speaks against it.</p>\n",
            &[],
        );
    } else {
        html.put("<ul class=\"counter\">\n", &[]);
        for reason in reasons {
            html.put("<li>{}</li>\n", &[reason]);
        }
        html.put("</ul>\n", &[]);
    }
    // A nearly complete graph is itself a reason against what it does not list.
    if told.known.is_none() {
        html.put("<p class=\"note\">{}</p>\n", &[&view.snapshot.assumes()]);
    }
    Ok(html)
}

fn rank(view: &View, told: &Explanation, triple: Triple) -> Html {
    let mut html = Html::of("<section aria-labelledby=\"rank\">\n<h2 id=\"rank\">Among all answers</h2>\n<ul>\n", &[]);
    let [head, relation, tail] = view.snapshot.fact(triple);
    let asked = [
        (
            told.rank,
            url("ask", &[("head", &head), ("relation", &relation)]),
            format!("{} {} …?", view.called(triple.head), view.relation_called(triple.relation)),
        ),
        (
            told.head_rank,
            url("ask", &[("relation", &relation), ("tail", &tail)]),
            format!("… {} {}?", view.relation_called(triple.relation), view.called(triple.tail)),
        ),
    ];
    for (rank, address, question) in asked {
        let digits = usize::from(rank.fract() != 0.0);
        html.put(
            "<li>Answer number <b>{}</b> of {} to <a href=\"{}\">{}</a></li>\n",
            &[&Number(rank, digits), &told.entities, &address, &Name(&question)],
        );
    }
    html.put("</ul>\n<p class=\"note\">Other known answers are not counted.</p>\n", &[]);
    if told.parts.len() > 1 {
        let Summed { shown, rest, sum } = Summed::of(&told.parts, PARTS);
        html.put("<h3>What the score is made of</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Parts of the score\"><table data-tsv>\n\
                  <thead><tr><th scope=\"col\" class=\"n\">Adds</th><th scope=\"col\">Because</th></tr></thead><tbody>\n", &[]);
        let row = |html: &mut Html, value: f64, words: &str| {
            let class = if value < 0.0 { "n minus" } else { "n plus" };
            html.put("<tr><td class=\"{}\">{}</td><td>{}</td></tr>\n", &[&class, &format!("{value:+.3}"), &words]);
        };
        for part in shown {
            row(&mut html, part.value, &view.snapshot.data().prefixes().shorten_all(&part.words));
        }
        if let Some((count, value)) = rest {
            row(&mut html, value, &format!("{count} smaller parts"));
        }
        html.put(
            "<tr class=\"sum\"><td class=\"n\">{}</td><td>{}</td></tr>\n</tbody></table></div>\n",
            &[&format!("{sum:+.3}"), &closing(told.side)],
        );
    }
    html.put("</section>\n", &[]);
    html
}
