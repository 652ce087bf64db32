//! Rules, and what each concludes rightly, wrongly, and where nobody knows.

use ruge::Cancel;
use ruge_rules::words;
use serde_json::{Value as Json, json};

use crate::ask::Ask;
use crate::html::{Html, Number, Sentence, Truth, Value, url};
use crate::problem::Problem;

use super::parts::{figures, share_in_words};
use super::{Content, MOST, View};

/// Rules on a page; instances of one.
const LISTED: usize = 50;
const EXAMPLES: usize = 12;

/// Rules by what they conclude and how sure they are.
pub fn list(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let text = |name: &str| -> Result<&str, Problem> { Ok(ask.text(name)?.map(str::trim).unwrap_or_default()) };
    let (head, words, sort) = (text("head")?, text("q")?, text("sort")?);
    let (least, support) = (text("min_confidence")?, text("min_support")?);
    let start = ask.count("cursor", 0, MOST)?;
    let mut wanted = Vec::new();
    for (name, value) in
        [("head", head), ("q", words), ("min_confidence", least), ("min_support", support), ("sort", sort)]
    {
        if !value.is_empty() {
            wanted.push((name, value));
        }
    }
    let asked: serde_json::Map<String, Json> =
        wanted.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    let found = crate::rules::found(&view.snapshot, &Ask::of(asked), cancel)?;
    let by_support = sort == "support";
    let chosen = |is: bool| if is { Html::of(" selected", &[]) } else { Html::new() };
    let mut main = Html::of(
        "<h1>Rules</h1>\n<p class=\"lead\">What usually holds in this graph, found by counting. A rule is a reason, not a law: each comes with \
         its counterexamples.</p>\n<form class=\"fields filter\" action=\"rules\">\n\
         <label>Concludes <input name=\"head\" value=\"{}\" autocomplete=\"off\" data-complete=\"relation\"></label>\n\
         <label>Contains <input name=\"q\" value=\"{}\"></label>\n\
         <label>Right at least <input name=\"min_confidence\" value=\"{}\" type=\"number\" min=\"0\" max=\"1\" step=\"0.01\" placeholder=\"0 to 1\"></label>\n\
         <label>Cases at least <input name=\"min_support\" value=\"{}\" type=\"number\" min=\"0\"></label>\n\
         <label>First <select name=\"sort\"><option value=\"confidence\"{}>most often right</option><option value=\"support\"{}>most cases</option></select></label>\n\
         <button>Show</button></form>\n",
        &[&Value(head), &Value(words), &Value(least), &Value(support), &chosen(!by_support), &chosen(by_support)],
    );
    main.put("<p class=\"note\">{}.</p>\n", &[&crate::html::counted(found.len(), "rule", "rules")]);
    let rows: Vec<Json> =
        found.iter().skip(start).take(LISTED).map(|&at| crate::rules::told(&view.snapshot, at)).collect();
    if !rows.is_empty() {
        main.put("{}", &[&table(&rows, "Rules")]);
    }
    if found.len() > start + LISTED {
        let next = (start + LISTED).to_string();
        let mut query = wanted.clone();
        query.push(("cursor", &next));
        main.put("<p><a class=\"go\" href=\"{}\">Next page</a></p>\n", &[&url("rules", &query)]);
    }
    Ok(Content::new("Rules", main))
}

/// Rules in words with their measures.
pub fn table(rules: &[Json], label: &str) -> Html {
    let mut html = Html::of(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table data-tsv class=\"rules\">\n<thead><tr>\
         <th scope=\"col\">Rule</th><th scope=\"col\" class=\"n\">Right</th><th scope=\"col\" class=\"n\">Cases</th></tr></thead><tbody>\n",
        &[&label],
    );
    for rule in rules {
        let address = url("rule", &[("id", &rule["id"].to_string())]);
        let words = rule["words"].as_str().unwrap_or_default();
        let support = rule["support"].as_u64().map(|support| support as usize);
        html.put(
            "<tr><td><a href=\"{}\">{}</a></td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            &[&address, &Sentence(words), &Number(rule["confidence"].as_f64().unwrap_or(f64::NAN), 2), &support],
        );
    }
    html.put("</tbody></table></div>\n", &[]);
    html
}

/// One rule with its instances.
pub fn show(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let snapshot = &view.snapshot;
    let at = crate::rules::chosen(snapshot, ask)?;
    let record = &snapshot.explainer.rules()[at];
    let data = snapshot.data();
    let sentence = data.prefixes().shorten_all(&words::sentence(&record.rule, data.names())).into_owned();
    let formula = data.prefixes().shorten_all(&words::formula(&record.rule, data.names())).into_owned();
    let confidence = record.mined_confidence();
    let mut main = Html::of(
        "<h1 class=\"sentence\">{}</h1>\n<p class=\"formula\">{}</p>\n",
        &[&Sentence(&sentence), &Sentence(&formula)],
    );
    main.put("<p class=\"lead\">It is right {}.", &[&share_in_words(confidence)]);
    if let Some(counts) = record.counts {
        main.put(
            " It concludes {} of the {} facts of {}.",
            &[&(counts.support as usize), &(counts.head as usize), &view.relation(record.rule.head())],
        );
    }
    main.put("</p>\n", &[]);
    if let Some(counts) = record.counts {
        main.put(
            "{}",
            &[&figures(&[
                (&Number(confidence, 3), &"confidence: of the cases that can be checked"),
                (&Number(counts.standard(), 3), &"standard confidence: of all cases"),
                (&Number(counts.head_coverage(), 3), &"head coverage: of the facts it is about"),
                (&(counts.support as usize), &"support: cases in which it is right"),
            ])],
        );
    }
    if let Some(other) = record.other_confidence() {
        main.put("<p class=\"note\">In this model it counts as {}.</p>\n", &[&Number(other, 3)]);
    }
    for (kind, title, none, what) in [
        ("example", "Examples", "No listed fact follows from it.", "Listed facts that the rule concludes."),
        (
            "counterexample",
            "Counterexamples",
            "There is none.",
            "What it concludes is not listed, though other facts of this kind are. Some may be true all the same: a graph has holes.",
        ),
        (
            "open",
            "Where nobody knows",
            "There is nothing open.",
            "Nothing of this kind is listed, so that these can be new facts.",
        ),
    ] {
        let (found, whole) = crate::rules::instances(snapshot, at, kind, EXAMPLES, cancel)?;
        main.put(
            "<section aria-labelledby=\"{}\">\n<h2 id=\"{}\">{}</h2>\n<p class=\"note\">{}</p>\n",
            &[&kind, &kind, &title, &what],
        );
        if found.is_empty() {
            main.put("<p class=\"missing\">{}</p>\n", &[&none]);
        }
        let truths = snapshot.engine.truths(&found)?;
        main.put("<ul class=\"instances\">\n", &[]);
        for (&triple, truth) in found.iter().zip(truths) {
            main.put("<li>{}", &[&view.statement(triple)]);
            if kind != "example" {
                main.put(" <a class=\"note\" href=\"{}\">truth {}</a>", &[&view.fact_url(triple), &Truth(truth)]);
            }
            let premises = crate::rules::premises(snapshot, at, triple);
            let (holds, absent) = premises.split_at(record.rule.premise.len().min(premises.len()));
            main.put("<span class=\"from\">because ", &[]);
            for (place, &premise) in holds.iter().enumerate() {
                main.put("{}{}", &[&if place == 0 { "" } else { " and " }, &view.statement(premise)]);
            }
            for &premise in absent {
                main.put(" and <em>not</em> {}", &[&view.statement(premise)]);
            }
            main.put("</span></li>\n", &[]);
        }
        main.put("</ul>\n", &[]);
        if !whole {
            let id = at.to_string();
            let more = url("api/v1/rule/examples", &[("id", &id), ("kind", kind), ("limit", "1000")]);
            main.put("<p class=\"note\">There are more. <a href=\"{}\">Up to 1,000 as JSON</a></p>\n", &[&more]);
        }
        main.put("</section>\n", &[]);
    }
    Ok(Content::new(sentence, main))
}
