//! All proposed facts as one table to work with: sorted, filtered and downloaded by a small script, and complete without it.
//!
//! The exact names are in an attribute of each row, as JSON, because what is shown has marks in the place of invisible
//! characters. The script is ours, and the page's policy knows it by its hash.

use std::collections::BTreeMap;

use ruge::complete::Proposal;
use ruge_kg::io::write::{Place, rdf_term};
use ruge_kg::visible;
use ruge_lab::export::facts::{BASE, said};
use serde::Serialize;
use serde_json::json;

use crate::html::Align::{Number, Text};
use crate::html::{Table, breakable, counted, decimal, escape, grouped, name, percent, truth};
use crate::report::{CompletenessRow, Proposed};
use crate::section::paragraph;
use crate::shown::Shown;

/// The script of the section.
pub const SCRIPT: &str = include_str!("../proposals.js");

/// Rules told with a fact.
const RULES: usize = 3;
/// Files to download: their name among formats, and for people.
const DOWNLOADS: [(&str, &str); 5] =
    [("tsv", "TSV"), ("csv", "CSV"), ("nt", "N-Triples"), ("rdf-star", "RDF-star"), ("cypher", "Cypher")];

/// Relations whose completeness is shown; the others are folded away.
const ROWS: usize = 8;

/// The table, its controls and what it means.
pub fn body(proposed: &Proposed, names: &Shown) -> String {
    let list = &proposed.facts;
    if list.is_empty() {
        return format!("<p class=\"missing\">No fact is proposed.</p>\n{}", paragraph(&proposed.assumes));
    }
    let mut out = format!(
        "<p>{} not listed, with a truth of {} or more: the estimated chance that each is true.</p>\n",
        counted(proposed.found.max(list.len()), "fact that is", "facts that are"),
        decimal(proposed.least),
    );
    out.extend(proposed.cut.iter().map(|sentence| paragraph(sentence)));
    out.push_str(&paragraph(&proposed.assumes));
    out.push_str(&completeness(&proposed.completeness));
    let relations = relations(list);
    out.push_str(&controls(&relations, names));
    out.push_str(&table(list, &relations, &proposed.assumes, names));
    out
}

/// How complete the relations are taken to be.
fn completeness(rows: &[CompletenessRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        ("Relation", Text),
        ("Proposed", Number),
        ("Listed of the true facts", Number),
        ("Nine times in ten", Number),
        ("Sure candidates", Number),
    ]);
    for row in rows {
        let [low, high] = row.interval.map(percent);
        table.row(vec![
            name(&row.relation, 44),
            grouped(row.proposals),
            percent(row.share),
            if row.given { "as given".into() } else { format!("{low} to {high}") },
            grouped(row.sure),
        ]);
    }
    table.folded("How complete each relation is taken to be", ROWS)
}

/// Relations in the order of their number of facts, with their place and that number.
fn relations(proposals: &[Proposal]) -> BTreeMap<&str, (usize, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for proposal in proposals {
        *counts.entry(&proposal.fact.relation).or_default() += 1;
    }
    let mut order: Vec<(&str, usize)> = counts.into_iter().collect();
    order.sort_by_key(|&(relation, count)| (std::cmp::Reverse(count), relation));
    order.into_iter().enumerate().map(|(place, (relation, count))| (relation, (place, count))).collect()
}

fn controls(relations: &BTreeMap<&str, (usize, usize)>, names: &Shown) -> String {
    let mut order: Vec<_> = relations.iter().collect();
    order.sort_by_key(|(_, (place, _))| *place);
    let options: String = order
        .iter()
        .map(|(relation, (place, count))| {
            let shown = visible::cut(names.relation(relation), 60);
            format!("<option value=\"{place}\">{} ({})</option>", escape(&shown), grouped(*count))
        })
        .collect();
    let buttons: String = DOWNLOADS
        .iter()
        .map(|(format, title)| format!("<button type=\"button\" data-format=\"{format}\">{title}</button>"))
        .collect();
    format!(
        "<div class=\"controls\" data-part=\"controls\" role=\"search\" aria-label=\"Proposed facts\" hidden>\
         <label>Relation <select data-part=\"relation\"><option value=\"\">all relations</option>{options}</select></label>\
         <label>Truth from <input data-part=\"truth\" type=\"number\" min=\"0\" max=\"1\" step=\"0.05\" placeholder=\"0\"></label>\
         <label>Name <input data-part=\"name\" type=\"search\" placeholder=\"part of a name\" autocomplete=\"off\"></label>\
         <p data-part=\"count\" aria-live=\"polite\"></p>\
         <p class=\"downloads\" data-part=\"downloads\">Download the list: {buttons}</p></div>\n"
    )
}

/// JSON in an attribute. Invisible characters are escapes of JSON, so the marks of the page do not reach them.
fn attribute(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("names and numbers");
    escape(&visible::json(&text))
}

/// How names stand in RDF: an IRI, another term, or a name that becomes an IRI.
fn kinds(proposal: &Proposal) -> String {
    let fact = &proposal.fact;
    let kind = |(name, place): (&String, Place)| match rdf_term(name, place, BASE) {
        term if term == format!("<{name}>") => 'i',
        term if term == *name => 't',
        _ => 'p',
    };
    [(&fact.head, Place::Subject), (&fact.relation, Place::Predicate), (&fact.tail, Place::Object)]
        .map(kind)
        .iter()
        .collect()
}

fn table(proposals: &[Proposal], relations: &BTreeMap<&str, (usize, usize)>, assumes: &str, names: &Shown) -> String {
    let mut rules: BTreeMap<String, usize> = BTreeMap::new();
    let mut texts: Vec<String> = Vec::new();
    let mut rows = String::new();
    for proposal in proposals {
        let fact = &proposal.fact;
        let fired: Vec<usize> = proposal
            .rules
            .iter()
            .map(|rule| {
                let text = said(std::slice::from_ref(rule));
                *rules.entry(text).or_insert_with_key(|text| {
                    texts.push(text.clone());
                    texts.len() - 1
                })
            })
            .collect();
        let (place, _) = relations.get(fact.relation.as_str()).copied().unwrap_or_default();
        let exact = json!([
            fact.head,
            fact.relation,
            fact.tail,
            format!("{:.4}", proposal.truth),
            kinds(proposal),
            fired,
            place
        ]);
        rows.push_str(&format!(
            "<tr data-fact=\"{}\"><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            attribute(&exact),
            truth(proposal.truth),
            name(names.entity(&fact.head), 44),
            name(names.relation(&fact.relation), 44),
            name(names.entity(&fact.tail), 44),
            why(proposal, names)
        ));
    }
    let heads: String =
        [("truth", "Truth", " class=\"n\""), ("head", "Head", ""), ("relation", "Relation", ""), ("tail", "Tail", "")]
            .iter()
            .map(|(key, title, class)| format!("<th scope=\"col\" data-sort=\"{key}\"{class}>{title}</th>"))
            .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Proposed facts\">\
         <table class=\"proposals\" data-about=\"{}\"><thead><tr>{heads}<th scope=\"col\">Why</th></tr></thead><tbody>\n{rows}\
         </tbody></table></div>\n<button type=\"button\" class=\"more\" data-part=\"more\" hidden>Show all</button>\n",
        attribute(&json!([BASE, texts, assumes]))
    )
}

/// The rules that conclude it, and what speaks against it.
fn why(proposal: &Proposal, names: &Shown) -> String {
    let mut label = match proposal.rule_count {
        0 => "no rule".to_string(),
        count => counted(count, "rule", "rules"),
    };
    if proposal.rules.is_empty() && proposal.against.is_empty() {
        return format!("<span class=\"note\">{label}</span>");
    }
    let mut inside: String = proposal
        .rules
        .iter()
        .take(RULES)
        .map(|rule| {
            format!(
                "<li>{} <span class=\"note\">(confidence {})</span></li>",
                breakable(names.rule(&rule.rule)),
                decimal(rule.confidence)
            )
        })
        .collect();
    if !inside.is_empty() {
        let more = proposal.rule_count.saturating_sub(proposal.rules.len().min(RULES));
        if more > 0 {
            inside.push_str(&format!("<li class=\"note\">and {} more</li>", grouped(more)));
        }
        inside = format!("<ul>{inside}</ul>");
    }
    if !proposal.against.is_empty() {
        label.push_str(", against");
        let reasons: Vec<String> = proposal.against.iter().map(|reason| escape(reason)).collect();
        inside.push_str(&format!("<p class=\"against\">Against it: {}.</p>", reasons.join("; ")));
    }
    format!("<details><summary>{label}</summary>{inside}</details>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge::complete::ProposalRule;
    use ruge::explain::Fact;

    fn proposal(head: &str, rules: usize, against: &[&str]) -> Proposal {
        let rule = |at: usize| ProposalRule { rule: format!("r{at}(x,y) ⇒ s(x,y)"), confidence: 0.9 };
        Proposal {
            fact: Fact { head: head.into(), relation: "s".into(), tail: "http://example.org/b".into() },
            labels: Default::default(),
            truth: 0.75,
            rules: (0..rules.min(5)).map(rule).collect(),
            rule_count: rules,
            against: against.iter().map(|reason| reason.to_string()).collect(),
            score: 0.0,
        }
    }

    #[test]
    fn reasons_are_on_demand_and_names_are_exact() {
        let facts = vec![proposal("a\u{202e}\n<b>", 7, &["already listed"]), proposal("c", 0, &[])];
        let page = body(&Proposed { facts, ..Proposed::default() }, &Shown::default());
        assert!(page.contains("<summary>7 rules, against</summary>") && page.contains("and 4 more"), "{page}");
        assert!(page.contains("Against it: already listed."), "{page}");
        assert!(page.contains("<span class=\"note\">no rule</span>"), "{page}");
        assert!(page.contains("&quot;a\\u202e\\n&lt;b&gt;&quot;") && page.contains("&quot;ppi&quot;"), "{page}");
        assert!(!page.contains('\u{202e}') && page.contains("a⟨U+202E⟩⟨LF⟩&lt;b&gt;"), "{page}");
    }

    #[test]
    fn what_was_cut_and_what_is_assumed_is_said() {
        let row = |relation: &str, given| CompletenessRow {
            relation: relation.into(),
            proposals: 1,
            share: 0.9,
            interval: [0.85, 0.95],
            sure: 12,
            given,
        };
        let proposed = Proposed {
            facts: vec![proposal("a", 1, &[])],
            found: 12_345,
            least: 0.1,
            cut: vec!["Only 1 is here.".into()],
            assumes: "It assumes <much>.".into(),
            completeness: vec![row("s", false), row("t", true)],
        };
        let page = body(&proposed, &Shown::default());
        for said in ["12,345 facts", "Only 1 is here.", "It assumes &lt;much&gt;.", "85", "as given"] {
            assert!(page.contains(said), "{said}: {page}");
        }
        let none = Proposed { assumes: "It assumes.".into(), ..Proposed::default() };
        assert!(body(&none, &Shown::default()).contains("It assumes."));
    }

    #[test]
    fn names_are_shown_with_labels_and_downloaded_without() {
        let shown = Shown {
            entities: [("c".to_string(), "Graz (c)".to_string())].into(),
            relations: [("s".to_string(), "lies in (s)".to_string())].into(),
            rules: [("r0(x,y) ⇒ s(x,y)".to_string(), "if x near y then x lies in y".to_string())].into(),
        };
        let facts = vec![proposal("c", 1, &[])];
        let page = body(&Proposed { facts, ..Proposed::default() }, &shown);
        assert!(page.contains("[&quot;c&quot;,&quot;s&quot;,&quot;http://example.org/b&quot;,"), "{page}");
        assert!(
            page.contains("0.900 r0(x,y) ⇒ s(x,y)") && page.contains("<li>if x near y then x lies in y "),
            "{page}"
        );
        assert!(page.contains(">Graz (c)</bdi>") && page.contains(">lies in (s) (1)</option>"), "{page}");
    }

    #[test]
    fn the_script_fits_in_a_page() {
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--"), "or the element ends there");
        assert_eq!(visible::text(SCRIPT), SCRIPT, "or the hash is not that of the page's script");
    }
}
