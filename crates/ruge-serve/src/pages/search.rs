//! What was found by name.

use ruge::Cancel;

use crate::ask::Ask;
use crate::html::{Html, Name, counted, url};
use crate::problem::Problem;
use crate::work::still_wanted;

use super::{Content, View};

/// Names that are listed.
const SHOWN: usize = 50;

/// Names and labels like what was typed.
pub fn show(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let typed = ask.text("q")?.unwrap_or_default().trim();
    if typed.is_empty() {
        let main = Html::of(
            "<h1>Search</h1>\n<p class=\"lead\">Type a name, or the beginning of one, in the field above.</p>\n",
            &[],
        );
        return Ok(Content::new("Search", main));
    }
    still_wanted(cancel)?;
    let snapshot = &view.snapshot;
    let hits = snapshot.names.search(snapshot.all.data(), typed, [true, true], SHOWN);
    let mut main = Html::of("<h1>“{}”</h1>\n", &[&Name(typed)]);
    if hits.is_empty() {
        main.put(
            "<p class=\"lead\">No name is like this. Try fewer letters: the beginning of a word is enough.</p>\n\
             <p><a href=\"relations\">All relations</a></p>\n",
            &[],
        );
    } else {
        main.put("<ul class=\"hits\">\n", &[]);
        for hit in &hits {
            let address = url(hit.kind, &[("name", &hit.name)]);
            let label = hit.label.as_ref().unwrap_or(&hit.name);
            let name = hit.label.as_ref().map(|_| Html::of(" <span class=\"id\">{}</span>", &[&Name(&hit.name)]));
            let errors = (hit.errors > 0).then(|| Html::of(", spelled differently", &[]));
            main.put(
                "<li><a href=\"{}\">{}</a>{} <span class=\"note\">{}, {}{}</span></li>\n",
                &[&address, &Name(label), &name, &hit.kind, &counted(hit.facts, "fact", "facts"), &errors],
            );
        }
        main.put("</ul>\n", &[]);
    }
    Ok(Content::new(format!("“{}”", ruge_kg::visible::cut(typed, 40)), main))
}
