//! The first page.

use std::time::{SystemTime, UNIX_EPOCH};

use ruge::Cancel;
use ruge_kg::EntityId;

use crate::ask::Ask;
use crate::html::{Html, Put, counted};
use crate::problem::Problem;
use crate::suggestions::State;
use crate::work::still_wanted;

use super::parts::figures;
use super::{Content, View};

/// Suggestions that are shown.
const SHOWN: usize = 10;

/// Search, the model in a few figures, the strongest suggestions.
pub fn show(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let snapshot = &view.snapshot;
    let data = snapshot.data();
    let facts = data.train().len() + data.valid().len() + data.test().len();
    let mut main = Html::of(
        "<div class=\"hero\">\n<h1>What is probably missing, and why</h1>\n\
         <p class=\"lead\">This graph has {} and {}. A model that learned from them and from {} rules proposes what is not listed, \
         with reasons that you can check.</p>\n\
         <form class=\"big\" action=\"search\"><label for=\"big\" class=\"unseen\">Search for an entity or a relation</label>\
         <input id=\"big\" name=\"q\" type=\"search\" placeholder=\"Search for an entity or a relation\" autocomplete=\"off\" autofocus \
         data-complete=\"entity,relation\" data-go=\"\" maxlength=\"400\"><button>Search</button></form>\n\
         <p class=\"note\">Typing errors are forgiven. <a href=\"{}\">Show me something</a></p>\n</div>\n",
        &[
            &counted(data.entity_count(), "entity", "entities"),
            &counted(facts, "fact", "facts"),
            &snapshot.explainer.usable().len(),
            &some_entity(view),
        ],
    );
    let waiting = crate::decide::open(view, ask)?;
    still_wanted(cancel)?;
    let suggestions = view.app.live.suggestions();
    let [accepted, rejected, _] = view.app.reviews.counts();
    let is_known = !waiting.is_empty() || !matches!(suggestions.state, State::Working(_));
    let count = waiting.len();
    let to_do: &dyn Put = if is_known { &count } else { &"…" };
    main.put(
        "{}",
        &[&figures(&[
            (&facts, &"known facts"),
            (&snapshot.explainer.usable().len(), &"rules"),
            (to_do, &"proposed facts to review"),
            (&(accepted + rejected), &"facts judged so far"),
        ])],
    );
    main.put("<section aria-labelledby=\"strongest\">\n<h2 id=\"strongest\">Strongest proposals</h2>\n", &[]);
    match &suggestions.state {
        State::Working(_) => main.put(
            "<p class=\"note\">New facts are being looked for ({}). Reload the page to see them.</p>\n",
            &[&suggestions.told()],
        ),
        State::Failed(reason) => main.put("<p class=\"warn\">Looking for new facts failed: {}.</p>\n", &[reason]),
        State::Off => main.put("<p class=\"note\">This server does not look for new facts.</p>\n", &[]),
        State::Ready if waiting.is_empty() => main.put("<p class=\"note\">Nothing waits for a decision.</p>\n", &[]),
        State::Ready => &mut main,
    };
    let shown: Vec<ruge::Triple> = waiting.iter().take(SHOWN).map(|(_, (triple, _))| *triple).collect();
    let truths = snapshot.engine.truths(&shown)?;
    if !shown.is_empty() {
        main.put("<ol class=\"proposals\">\n", &[]);
        for (&triple, truth) in shown.iter().zip(truths) {
            still_wanted(cancel)?;
            main.put("{}", &[&view.proposal(triple, truth, "li")]);
        }
        main.put("</ol>\n<p><a class=\"go\" href=\"review\">Review them one by one</a></p>\n", &[]);
    }
    main.put("</section>\n", &[]);
    Ok(Content::new("Home", main))
}

/// The address of some entity that has facts.
fn some_entity(view: &View) -> String {
    let graph = view.snapshot.all.data().graph();
    let count = graph.entity_count().max(1);
    // Any will do; the clock picks one, and the next with facts is taken.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let first = (nanos / 1000) as usize % count;
    let ids = (0..count).map(|step| EntityId(((first + step) % count) as u32));
    let known = ids.clone().find(|&id| id.index() < graph.entity_count() && graph.degree(id) > 0);
    known.map_or("./".into(), |id| view.entity_url(id))
}
