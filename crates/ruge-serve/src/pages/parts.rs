//! Pieces that several pages have: names as links, facts as sentences, truths, reasons, decisions.

use ruge::Triple;
use ruge_kg::{EntityId, RelationId, visible};

use crate::html::{Html, Name, Number, Put, Truth, url};
use crate::reviews::{Decision, Verdict};
use crate::snapshot::Because;

use super::View;

impl View {
    /// An entity as people call it.
    pub fn called(&self, id: EntityId) -> String {
        let data = self.snapshot.data();
        match data.labels().entity(id) {
            Some(label) => label.to_string(),
            None => data.prefixes().shorten(self.snapshot.entity(id)).into_owned(),
        }
    }

    /// A relation as people call it.
    pub fn relation_called(&self, id: RelationId) -> String {
        let data = self.snapshot.data();
        match data.labels().relation(id) {
            Some(label) => label.to_string(),
            None => data.prefixes().shorten(self.snapshot.relation(id)).into_owned(),
        }
    }

    /// The address of an entity's page.
    pub fn entity_url(&self, id: EntityId) -> String {
        url("entity", &[("name", self.snapshot.entity(id))])
    }

    /// The address of a fact's page.
    pub fn fact_url(&self, triple: Triple) -> String {
        let [head, relation, tail] = self.snapshot.fact(triple);
        url("fact", &[("head", &head), ("relation", &relation), ("tail", &tail)])
    }

    /// An entity as a link.
    pub fn entity(&self, id: EntityId) -> Html {
        Html::of("<a href=\"{}\">{}</a>", &[&self.entity_url(id), &Name(&self.called(id))])
    }

    /// A relation as a link.
    pub fn relation(&self, id: RelationId) -> Html {
        let address = url("relation", &[("name", self.snapshot.relation(id))]);
        Html::of("<a class=\"rel\" href=\"{}\">{}</a>", &[&address, &Name(&self.relation_called(id))])
    }

    /// A fact as a sentence of links.
    pub fn statement(&self, triple: Triple) -> Html {
        let (head, tail) = (self.entity(triple.head), self.entity(triple.tail));
        Html::of("{} {} {}", &[&head, &self.relation(triple.relation), &tail])
    }

    /// A fact as plain text, of bounded length.
    pub fn said(&self, triple: Triple) -> String {
        let (head, tail) = (self.called(triple.head), self.called(triple.tail));
        [head, self.relation_called(triple.relation), tail].map(|name| visible::cut(&name, 60)).join(" ")
    }

    /// Why: the best rule in words, with the facts it concludes from.
    pub fn because(&self, triple: Triple, because: Option<&Because>) -> Html {
        let Some(Because { rule, confidence, premises }) = because else {
            let address = self.fact_url(triple);
            return Html::of("No rule concludes it: it resembles known facts. <a href=\"{}\">More</a>", &[&address]);
        };
        let mut html = Html::of("because ", &[]);
        for (at, &premise) in premises.iter().enumerate() {
            html.put("{}{}", &[&if at == 0 { "" } else { " and " }, &self.statement(premise)]);
        }
        let address = url("rule", &[("id", &rule.to_string())]);
        html.put("; <a href=\"{}\">this rule</a> is right {}", &[&address, &share_in_words(*confidence)]);
        html
    }

    /// A proposed fact with its truth, its reason, and what can be said about it.
    pub fn proposal(&self, triple: Triple, truth: f64, tag: &'static str) -> Html {
        let because = self.snapshot.because(triple);
        let mut html = Html::of("<{} class=\"proposal\">\n", &[&tag]);
        html.put("<p class=\"statement\">{}</p>\n", &[&self.statement(triple)]);
        html.put("<p class=\"truth\">{}</p>\n", &[&meter(truth)]);
        html.put("<p class=\"why\">{}.</p>\n", &[&self.because(triple, because.as_ref())]);
        for against in self.snapshot.all.against(triple).iter().take(2) {
            html.put("<p class=\"against\">Against it: {}.</p>\n", &[against]);
        }
        html.put("{}</{}>\n", &[&self.decision(triple, true), &tag]);
        html
    }

    /// Where a form on this page leads back to; pages of very long names are left.
    pub fn way_back(&self) -> &str {
        if self.here.len() <= 2000 { &self.here } else { "review" }
    }

    /// What was decided about a fact, and buttons to decide.
    pub fn decision(&self, triple: Triple, with_link: bool) -> Html {
        let fact = self.snapshot.fact(triple);
        let decision = self.app.reviews.of(&fact);
        let link = with_link.then(|| Html::of("<a class=\"more\" href=\"{}\">Details</a>", &[&self.fact_url(triple)]));
        if self.app.read_only {
            let told = decision.map(|decision| decided(&decision));
            return Html::of("<p class=\"decide\">{}{}</p>\n", &[&told, &link]);
        }
        let [head, relation, tail] = &fact;
        let address =
            url("decide", &[("head", head), ("relation", relation), ("tail", tail), ("back", self.way_back())]);
        let what = self.said(triple);
        let mut html = Html::of("<form class=\"decide\" method=\"post\" action=\"{}\">", &[&address]);
        let button = |verdict: &str, name: &str| {
            Html::of(
                "<button name=\"decision\" value=\"{}\" class=\"{}\">{}<span class=\"unseen\">: {}</span></button>",
                &[&verdict, &verdict, &name, &what],
            )
        };
        let skip = self.here.starts_with("review").then(|| button("skip", "Skip"));
        match decision {
            None => html.put("{}{}{}", &[&button("accept", "Accept"), &button("reject", "Reject"), &skip]),
            Some(decision) => html.put("{}{}", &[&decided(&decision), &button("undo", "Undo")]),
        };
        html.put("{}</form>\n", &[&link]);
        html
    }
}

/// What was decided, by whom.
fn decided(decision: &Decision) -> Html {
    let (class, word) = match decision.decision {
        Verdict::Accept => ("accepted", "Accepted"),
        Verdict::Reject => ("rejected", "Rejected"),
        Verdict::Skip => ("skipped", "Skipped"),
    };
    let by = decision.reviewer.as_ref().map(|name| Html::of(" by {}", &[&Name(name)]));
    let note = decision.note.as_ref().map(|note| Html::of(": {}", &[note]));
    Html::of("<span class=\"decided {}\">{}{}{}</span> ", &[&class, &word, &by, &note])
}

/// A truth as a bar, a word and a figure.
pub fn meter(truth: f64) -> Html {
    let words = verdict(truth);
    Html::of(
        "<meter min=\"0\" max=\"1\" value=\"{}\" aria-hidden=\"true\"></meter> {}: <b>{}</b>",
        &[&Number(truth, 3), &words, &Truth(truth)],
    )
}

/// What to call a truth.
pub fn verdict(truth: f64) -> &'static str {
    match truth {
        _ if truth >= 0.9 => "very probably true",
        _ if truth >= 0.6 => "probably true",
        _ if truth >= 0.4 => "undecided",
        _ if truth >= 0.1 => "unlikely",
        _ => "very unlikely",
    }
}

/// A confidence as people say it.
pub fn share_in_words(confidence: f64) -> String {
    let hundredths = (confidence * 100.0).round();
    match hundredths as u32 {
        _ if confidence >= 1.0 => "in every case that could be checked".into(),
        100 => "in more than 99 of 100 cases".into(),
        0 => "in less than 1 of 100 cases".into(),
        cases => format!("in {cases} of 100 cases"),
    }
}

/// A list of figures, each with a word below.
pub fn figures(list: &[(&dyn Put, &dyn Put)]) -> Html {
    let mut html = Html::of("<ul class=\"figures\">\n", &[]);
    for (figure, word) in list {
        html.put("<li><b>{}</b><span>{}</span></li>\n", &[figure, word]);
    }
    html.put("</ul>\n", &[]);
    html
}
