//! Relations: what they link, and the rules about them.

use ruge::{Cancel, Triple};
use ruge_kg::RelationId;
use serde_json::Value as Json;

use crate::ask::Ask;
use crate::html::{Html, Name, Number, counted, url};
use crate::problem::Problem;

use super::entity::outside;
use super::model::bins;
use super::parts::{figures, share_in_words};
use super::{Content, MOST, View, rules};

/// Relations on a page; facts and rules shown for one.
const LISTED: usize = 200;
const FACTS: usize = 12;
const RULES: usize = 12;

/// All relations.
pub fn list(view: &View, ask: &Ask, _: &Cancel) -> Result<Content, Problem> {
    let start = ask.count("cursor", 0, MOST)?;
    let graph = view.snapshot.all.data().graph();
    let mut ids: Vec<RelationId> = graph.relations().collect();
    ids.sort_by_key(|&id| (std::cmp::Reverse(graph.facts(id).len()), id));
    let mut main = Html::of(
        "<h1>Relations</h1>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Relations\"><table data-tsv>\n<thead><tr>\
         <th scope=\"col\">Relation</th><th scope=\"col\" class=\"n\">Facts</th><th scope=\"col\">Links</th>\
         <th scope=\"col\" class=\"n\">Rules that conclude it</th></tr></thead><tbody>\n",
        &[],
    );
    for &id in ids.iter().skip(start).take(LISTED) {
        main.put(
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"whole\">{}</td><td class=\"n\">{}</td></tr>\n",
            &[
                &view.relation(id),
                &graph.facts(id).len(),
                &links(view, id),
                &view.snapshot.explainer.concluding(id).len(),
            ],
        );
    }
    main.put("</tbody></table></div>\n", &[]);
    if ids.len() > start + LISTED {
        let next = (start + LISTED).to_string();
        main.put("<p><a class=\"go\" href=\"{}\">Next page</a></p>\n", &[&url("relations", &[("cursor", &next)])]);
    }
    Ok(Content::new("Relations", main))
}

/// `many to one`.
fn links(view: &View, id: RelationId) -> String {
    crate::graph::counts(&view.snapshot, id)["cardinality"].as_str().unwrap_or_default().to_string()
}

/// One relation.
pub fn show(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let snapshot = &view.snapshot;
    let id = snapshot.engine.relation(ask.needed("name")?)?;
    let (name, called) = (snapshot.relation(id), view.relation_called(id));
    let told = crate::graph::counts(snapshot, id);
    let graph = snapshot.all.data().graph();
    let mut main = Html::of("<h1>{}</h1>\n", &[&Name(&called)]);
    if called != name {
        main.put("<p class=\"under\"><span class=\"id\">{}</span></p>\n", &[&outside(name)]);
    }
    if let Some(description) = snapshot.data().labels().relation_description(id) {
        main.put("<p class=\"lead\">{}</p>\n", &[&description]);
    }
    let figure = |key: &str| told[key].as_f64().unwrap_or(f64::NAN);
    let whole = |key: &str| told[key].as_u64().unwrap_or(0) as usize;
    main.put(
        "{}",
        &[&figures(&[
            (&whole("facts"), &"known facts"),
            (&whole("heads"), &"different subjects"),
            (&whole("tails"), &"different objects"),
            (&Number(figure("tails_per_head"), 1), &"objects for a subject"),
            (&Number(figure("heads_per_tail"), 1), &"subjects for an object"),
        ])],
    );
    main.put(
        "<p>It links {}. <a href=\"{}\">Ask</a> with it, or <a href=\"{}\">review</a> its proposed facts.</p>\n",
        &[
            &told["cardinality"].as_str().unwrap_or_default(),
            &url("ask", &[("relation", name)]),
            &url("review", &[("relation", name)]),
        ],
    );
    main.put("{}", &[&together(view, id, cancel)?]);
    main.put("{}", &[&believed(view, id)]);
    main.put(
        "<section aria-labelledby=\"some\">\n<h2 id=\"some\">Some of its facts</h2>\n<ul class=\"statements\">\n",
        &[],
    );
    let facts = graph.facts(id);
    for pair in facts.iter().step_by((facts.len() / FACTS).max(1)).take(FACTS) {
        main.put("<li>{}</li>\n", &[&view.statement(Triple { head: pair.key, relation: id, tail: pair.other })]);
    }
    main.put(
        "</ul>\n<p><a class=\"go\" href=\"{}\">All {}</a></p>\n</section>\n",
        &[&url("facts", &[("relation", name)]), &counted(facts.len(), "fact", "facts")],
    );
    let uses = |rule: &ruge_rules::Rule| rule.premise.iter().chain(&rule.negated).any(|atom| atom.relation == id);
    section(
        &mut main,
        "concluded",
        "Rules that conclude it",
        &crate::rules::places(snapshot, |rule| rule.head() == id),
        name,
    );
    section(&mut main, "used", "Rules that use it", &crate::rules::places(snapshot, uses), name);
    Ok(Content::new(called, main))
}

/// What usually holds with it.
fn together(view: &View, id: RelationId, cancel: &Cancel) -> Result<Html, Problem> {
    let (patterns, looked_at) = crate::graph::patterns(&view.snapshot, id, cancel)?;
    let mut html = Html::new();
    if patterns.is_empty() {
        return Ok(html);
    }
    html.put("<section aria-labelledby=\"with\">\n<h2 id=\"with\">What holds with it</h2>\n<ul>\n", &[]);
    for pattern in &patterns {
        let share = share_in_words(pattern.share);
        let other = pattern.label.relation();
        match (pattern.label.is_inverse(), other == id) {
            (true, true) => html.put("<li>The same in the other direction, {}</li>\n", &[&share]),
            (true, false) => html.put("<li>{} in the other direction, {}</li>\n", &[&view.relation(other), &share]),
            (false, _) => html.put("<li>{} between the same two, {}</li>\n", &[&view.relation(other), &share]),
        };
    }
    html.put("</ul>\n<p class=\"note\">Counted on {} of its facts.</p>\n</section>\n", &[&looked_at]);
    Ok(html)
}

/// How well questions about it are answered, and how far its truths agree with decisions.
fn believed(view: &View, id: RelationId) -> Html {
    let name = view.snapshot.relation(id);
    let figures = view.snapshot.run.figures.as_ref();
    let measured = figures.and_then(|it| Some((&it.split, it.by_relation.get(name)?)));
    let judged = view.app.reviews.reliability_of(|[_, relation, _]| relation == name);
    let mut html = Html::new();
    if measured.is_none() && judged.is_empty() {
        return html;
    }
    html.put("<section aria-labelledby=\"well\">\n<h2 id=\"well\">How far answers can be believed</h2>\n", &[]);
    if let Some((split, it)) = measured {
        html.put(
            "<p>Asked for facts of {} that it had not seen, the model put the right answer first in {} of 100 questions, and among the first \
             ten in {} (mean reciprocal rank {}, {}).</p>\n",
            &[
                split,
                &Number(it.hits_at_1 * 100.0, 0),
                &Number(it.hits_at_10 * 100.0, 0),
                &Number(it.mrr, 3),
                &counted(it.queries, "question", "questions"),
            ],
        );
    }
    if !judged.is_empty() {
        html.put("<h3>Truth against decisions</h3>\n{}", &[&bins(&judged)]);
    }
    html.put("</section>\n", &[]);
    html
}

fn section(main: &mut Html, id: &str, title: &str, list: &[Json], name: &str) {
    main.put("<section aria-labelledby=\"{}\">\n<h2 id=\"{}\">{}</h2>\n", &[&id, &id, &title]);
    if list.is_empty() {
        main.put("<p class=\"missing\">There are none.</p>\n", &[]);
    } else {
        main.put("{}", &[&rules::table(&list[..list.len().min(RULES)], &format!("Table: {title}"))]);
    }
    if list.len() > RULES && id == "concluded" {
        main.put("<p><a class=\"go\" href=\"{}\">All of them</a></p>\n", &[&url("rules", &[("head", name)])]);
    }
    main.put("</section>\n", &[]);
}
