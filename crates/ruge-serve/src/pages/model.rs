//! What the model is, and what its numbers mean.

use ruge::Cancel;

use crate::ask::Ask;
use crate::html::{Html, Name, Number, Put};
use crate::problem::Problem;
use crate::reviews::Bin;

use super::parts::figures;
use super::{Content, View};

/// Counts, meanings, settings.
pub fn show(view: &View, _: &Ask, _: &Cancel) -> Result<Content, Problem> {
    let (snapshot, engine) = (&view.snapshot, &view.snapshot.engine);
    let data = snapshot.data();
    let mut main = Html::of("<h1>The model</h1>\n", &[]);
    let counts = [
        (data.entity_count(), "entities"),
        (data.relation_count(), "relations"),
        (data.train().len(), "facts to learn from"),
        (data.valid().len(), "facts to choose by"),
        (data.test().len(), "facts to test by"),
        (snapshot.explainer.usable().len(), "rules"),
    ];
    let shown = counts.iter().filter(|(count, _)| *count > 0);
    let shown: Vec<(&dyn Put, &dyn Put)> = shown.map(|(count, word)| (count as &dyn Put, word as &dyn Put)).collect();
    main.put("{}", &[&figures(&shown)]);
    main.put(
        "<section aria-labelledby=\"truth\">\n<h2 id=\"truth\">What truth means</h2>\n<p>{}</p>\n",
        &[&snapshot.assumes()],
    );
    let [accepted, rejected, _] = view.app.reviews.counts();
    if accepted + rejected > 0 {
        main.put("<p>People judged {} facts here; {} of them were right. <a href=\"review#reliability\">How well truth agrees with them</a></p>\n", &[
            &(accepted + rejected),
            &accepted,
        ]);
    }
    main.put("</section>\n", &[]);
    if !snapshot.added.is_empty() {
        main.put(
            "<section aria-labelledby=\"added\">\n<h2 id=\"added\">Facts added here</h2>\n<ul class=\"statements\">\n",
            &[],
        );
        for [head, relation, tail] in snapshot.added.iter().rev().take(50) {
            if let Ok(triple) = snapshot.triple(head, relation, tail) {
                main.put("<li>{}</li>\n", &[&view.statement(triple)]);
            }
        }
        main.put("</ul>\n</section>\n", &[]);
    }
    if let Some(trouble) = view.app.live.trouble() {
        main.put("<p class=\"warn\" role=\"alert\">A newer model could not be used: {}</p>\n", &[&trouble]);
    }
    main.put("{}", &[&measured(view)]);
    main.put("<section aria-labelledby=\"notes\">\n<h2 id=\"notes\">How it was made</h2>\n<dl class=\"notes\">\n", &[]);
    main.put(
        "<div><dt>file</dt><dd><code>{}</code></dd></div>\n<div><dt>snapshot</dt><dd>{}</dd></div>\n",
        &[&snapshot.hash, &(snapshot.number as usize)],
    );
    for (key, value) in engine.notes() {
        // Figures are written with all their digits; here three say enough.
        let number = value.parse::<f64>().ok().filter(|number| number.fract() != 0.0);
        let rounded = number.map(|number| format!("{number:.3}"));
        let value = rounded.as_deref().unwrap_or(value);
        main.put("<div><dt>{}</dt><dd>{}</dd></div>\n", &[&key.replace('_', " "), &Name(value)]);
    }
    main.put("</dl>\n", &[]);
    let spec = serde_json::to_string_pretty(engine.spec()).unwrap_or_default();
    main.put(
        "<details><summary>All settings</summary>\n<pre tabindex=\"0\">{}</pre></details>\n</section>\n",
        &[&spec],
    );
    if accepted + rejected > 0 {
        main.put(
            "<section aria-labelledby=\"bins\">\n<h2 id=\"bins\">Truth against decisions</h2>\n{}</section>\n",
            &[&reliability(view)],
        );
    }
    Ok(Content::new("The model", main))
}

/// What its run measured, and where the whole report is.
fn measured(view: &View) -> Html {
    let run = &view.snapshot.run;
    let mut html = Html::new();
    if run.figures.is_none() && run.report.is_none() {
        return html;
    }
    html.put("<section aria-labelledby=\"run\">\n<h2 id=\"run\">How well it answers</h2>\n", &[]);
    if let Some(it) = &run.figures {
        html.put(
            "<p>Asked for facts of {} that it had not seen, it puts the right answer first in {} of 100 questions, and among the first ten \
             in {}.</p>\n",
            &[&it.split, &Number(it.whole.hits_at_1 * 100.0, 0), &Number(it.whole.hits_at_10 * 100.0, 0)],
        );
        html.put(
            "{}",
            &[&figures(&[
                (&it.whole.queries, &"questions"),
                (&Number(it.whole.mrr, 3), &"mean reciprocal rank"),
                (&Number(it.whole.hits_at_1, 3), &"Hits@1"),
                (&Number(it.whole.hits_at_10, 3), &"Hits@10"),
            ])],
        );
    }
    if run.report.is_some() {
        html.put("<p><a class=\"go\" href=\"report.html\">The whole report of its run</a></p>\n", &[]);
    }
    html.put("</section>\n", &[]);
    html
}

/// Of the facts judged at about the same truth, how many were accepted.
pub fn reliability(view: &View) -> Html {
    bins(&view.app.reviews.reliability())
}

/// The same of these.
pub fn bins(bins: &[Bin]) -> Html {
    if bins.is_empty() {
        return Html::of(
            "<p class=\"missing\">Nothing was judged yet. After some decisions, this shows how far truth can be believed.</p>\n",
            &[],
        );
    }
    let mut html = Html::of(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"By tenths of truth\"><table data-tsv>\n<thead><tr>\
         <th scope=\"col\">The model's truth</th><th scope=\"col\" class=\"n\">Judged</th><th scope=\"col\">You accepted</th></tr></thead><tbody>\n",
        &[],
    );
    for bin in bins.iter().rev() {
        let share = bin.accepted as f64 / bin.judged as f64;
        html.put(
            "<tr><td>{} to {}</td><td class=\"n\">{}</td><td><meter min=\"0\" max=\"1\" value=\"{}\" aria-hidden=\"true\"></meter> {} % <span class=\"note\">({} expected)</span></td></tr>\n",
            &[
                &Number(bin.from, 1),
                &Number(bin.to, 1),
                &bin.judged,
                &Number(share, 3),
                &Number(share * 100.0, 0),
                &Number(bin.mean_truth * 100.0, 0),
            ],
        );
    }
    html.put("</tbody></table></div>\n", &[]);
    html
}
