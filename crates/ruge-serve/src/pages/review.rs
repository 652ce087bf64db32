//! The queue: proposed facts one after the other, decided by keyboard, and how far truth has agreed so far.

use ruge::{Cancel, Triple};
use ruge_kg::RelationId;
use std::collections::BTreeMap;

use crate::ask::Ask;
use crate::decide::{Which, decided, open};
use crate::html::{Html, Name, Value, counted, url};
use crate::problem::Problem;
use crate::suggestions::State;
use crate::work::still_wanted;

use super::model::reliability;
use super::{Content, View};

/// Facts on a page.
const SHOWN: usize = 10;
/// More than there are.
const MOST_PAGES: usize = 1 << 30;

/// The queue, progress, reliability, downloads.
pub fn show(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let snapshot = &view.snapshot;
    let which = Which::of(ask, Which::Open)?;
    let relation = ask.text("relation")?.unwrap_or_default();
    let least = ask.text("min_truth")?.unwrap_or_default();
    let page = ask.count("page", 0, MOST_PAGES)?;
    let ask_open = {
        let fields = [("relation", relation), ("min_truth", least)];
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        Ask::of(fields.map(|(name, value)| (name.to_string(), (*value).into())).collect())
    };
    let waiting: Vec<(Triple, f64)> = open(view, &ask_open)?.into_iter().map(|(_, item)| item).collect();
    still_wanted(cancel)?;
    let mut main = Html::of("<h1>Review</h1>\n", &[]);
    main.put("{}", &[&progress(view, waiting.len())]);
    main.put("{}", &[&filters(view, relation, least)]);
    main.put("{}", &[&tabs(which, relation, least)]);
    let list: Vec<Triple> = match which {
        Which::Open => waiting.iter().map(|(triple, _)| *triple).collect(),
        _ => {
            let known = |(fact, _): &(crate::reviews::Names, _)| snapshot.triple(&fact[0], &fact[1], &fact[2]).ok();
            let wanted = (!relation.is_empty()).then(|| snapshot.engine.relation(relation)).transpose()?;
            let all = decided(view, which);
            all.iter().filter_map(known).filter(|triple| wanted.is_none_or(|id| id == triple.relation)).collect()
        }
    };
    let shown: Vec<Triple> = list.iter().copied().skip(page * SHOWN).take(SHOWN).collect();
    let truths = snapshot.engine.truths(&shown)?;
    main.put("<div id=\"queue\">\n", &[]);
    if shown.is_empty() {
        main.put("<p class=\"lead\">{}</p>\n", &[&empty(view, which)]);
    }
    main.put("<ol class=\"proposals cards\">\n", &[]);
    for (&triple, truth) in shown.iter().zip(truths) {
        still_wanted(cancel)?;
        let truth = view.app.reviews.of(&snapshot.fact(triple)).map_or(truth, |decision| decision.truth);
        main.put("{}", &[&view.proposal(triple, truth, "li")]);
    }
    main.put("</ol>\n", &[]);
    if list.len() > (page + 1) * SHOWN {
        let next = (page + 1).to_string();
        let mut query: Vec<(&str, &str)> =
            [("relation", relation), ("min_truth", least), ("state", ask.text("state")?.unwrap_or_default())]
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .collect();
        query.push(("page", &next));
        main.put("<p><a class=\"go\" rel=\"next\" href=\"{}\">Next page</a></p>\n", &[&url("review", &query)]);
    }
    main.put("</div>\n", &[]);
    main.put(
        "<section id=\"reliability\" aria-labelledby=\"agree\">\n<h2 id=\"agree\">How far truth can be believed</h2>\n\
              <p class=\"note\">Of the facts to which the model alone gives about the same truth, how many you accepted.</p>\n\
              <div id=\"bins\">{}</div>\n</section>\n",
        &[&reliability(view)],
    );
    main.put(
        "<section aria-labelledby=\"take\">\n<h2 id=\"take\">Take the decisions with you</h2>\n<p><a href=\"api/v1/decisions.tsv\" download=\"decisions.tsv\">decisions.tsv</a>, \
         as <code>ruge predict --feedback</code> reads it · <a href=\"api/v1/decisions.tsv?excel=true\" download=\"decisions-sheet.tsv\">for a spreadsheet</a> · \
         <a href=\"api/v1/decisions.nt\" download=\"accepted.nt\">accepted facts as N-Triples</a></p>\n</section>\n",
        &[],
    );
    Ok(Content::new("Review", main).with_script("review.js"))
}

fn progress(view: &View, waiting: usize) -> Html {
    let [accepted, rejected, skipped] = view.app.reviews.counts();
    let suggestions = view.app.live.suggestions();
    let mut html = Html::of(
        "<p class=\"progress\" id=\"progress\"><b>{}</b> accepted · <b>{}</b> rejected · <b>{}</b> skipped · <b>{}</b> to do</p>\n",
        &[&accepted, &rejected, &skipped, &waiting],
    );
    if let State::Working(_) = suggestions.state {
        html.put("<p class=\"note\">New facts are still being looked for: {}.</p>\n", &[&suggestions.told()]);
    }
    if !view.app.read_only {
        let name = view.reviewer.as_deref().unwrap_or_default();
        html.put(
            "<details class=\"who\"><summary>{}{}</summary><form class=\"fields\" method=\"post\" action=\"{}\"><label>Your name, kept with \
             each decision <input name=\"reviewer\" value=\"{}\" autocomplete=\"name\" maxlength=\"100\"></label><button>Keep</button></form></details>\n",
            &[
                &if name.is_empty() { "Say who you are" } else { "You are " },
                &Name(name),
                &url("reviewer", &[("back", &view.here)]),
                &Value(name),
            ],
        );
    }
    html
}

fn filters(view: &View, relation: &str, least: &str) -> Html {
    let suggestions = view.app.live.suggestions();
    let mut counts: BTreeMap<RelationId, usize> = BTreeMap::new();
    for (triple, _) in suggestions.of(&view.snapshot) {
        *counts.entry(triple.relation).or_default() += 1;
    }
    let mut html = Html::of(
        "<form class=\"fields filter\" action=\"review\"><label>Relation <select name=\"relation\"><option value=\"\">all</option>",
        &[],
    );
    let mut names: Vec<(RelationId, usize)> = counts.into_iter().collect();
    names.sort_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
    for (id, count) in names {
        let name = view.snapshot.relation(id);
        let selected = if name == relation { Html::of(" selected", &[]) } else { Html::new() };
        html.put(
            "<option value=\"{}\"{}>{} ({})</option>",
            &[&Value(name), &selected, &view.relation_called(id), &count],
        );
    }
    html.put("</select></label><label>Truth at least <select name=\"min_truth\">", &[]);
    for (value, word) in [("", "any"), ("0.9", "0.9"), ("0.8", "0.8"), ("0.5", "0.5"), ("0.2", "0.2")] {
        let selected = if value == least { Html::of(" selected", &[]) } else { Html::new() };
        html.put("<option value=\"{}\"{}>{}</option>", &[&value, &selected, &word]);
    }
    html.put("</select></label><button>Show</button></form>\n", &[]);
    html
}

fn tabs(which: Which, relation: &str, least: &str) -> Html {
    use crate::reviews::Verdict::{Accept, Reject, Skip};
    let mut html = Html::of("<nav class=\"tabs\" aria-label=\"Decisions\"><ul>", &[]);
    for (state, word, of) in [
        ("", "To do", Which::Open),
        ("accepted", "Accepted", Which::Decided(Accept)),
        ("rejected", "Rejected", Which::Decided(Reject)),
        ("skipped", "Skipped", Which::Decided(Skip)),
    ] {
        let query: Vec<(&str, &str)> = [("relation", relation), ("min_truth", least), ("state", state)]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let current = if of == which { Html::of(" aria-current=\"page\"", &[]) } else { Html::new() };
        html.put("<li><a href=\"{}\"{}>{}</a></li>", &[&url("review", &query), &current, &word]);
    }
    html.put("</ul></nav>\n", &[]);
    html
}

fn empty(view: &View, which: Which) -> String {
    match (which, &view.app.live.suggestions().state) {
        (Which::Open, State::Working(_)) => {
            "Nothing yet. New facts are being looked for; reload the page in a while.".into()
        }
        (Which::Open, State::Failed(reason)) => format!("Looking for new facts failed: {reason}."),
        (Which::Open, State::Off) => "This server does not look for new facts.".into(),
        (Which::Open, State::Ready) => {
            let judged: usize = view.app.reviews.counts().iter().sum();
            format!("Nothing is left to do here. {} so far.", counted(judged, "decision", "decisions"))
        }
        _ => "Nothing here.".into(),
    }
}
