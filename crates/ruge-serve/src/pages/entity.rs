//! An entity: what is known of it, what is probably missing, what it is near.

use ruge::predict::{PredictOptions, Question, Who};
use ruge::{Cancel, Control, Triple};
use ruge_kg::{EntityId, Label};
use rustc_hash::FxHashSet;

use crate::ask::Ask;
use crate::html::{Html, Name, Number, counted, url};
use crate::problem::Problem;
use crate::work::still_wanted;

use super::neighbourhood::{Group, Member, draw};
use super::{Content, MOST, View};

/// Relations for which new facts are looked for, and answers to each.
const ASKED: usize = 24;
const ANSWERS: usize = 3;
/// Proposals shown, and the least truth of one.
const PROPOSALS: usize = 12;
const LEAST: f64 = 0.05;
/// Neighbours drawn, and names listed for a relation.
const DRAWN: usize = 40;
const LISTED: usize = 12;
/// Names near to it.
const NEAR: usize = 8;
/// Facts on a page of facts.
const FACTS: usize = 200;

/// The page of an entity.
pub fn show(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Content, Problem> {
    let id = view.snapshot.engine.entity(ask.needed("name")?)?;
    let snapshot = &view.snapshot;
    let (data, labels) = (snapshot.data(), snapshot.data().labels());
    let (name, called) = (snapshot.entity(id), view.called(id));
    let adjacency = snapshot.all.data().graph().adjacency();
    let mut main = Html::of("<h1>{}</h1>\n", &[&Name(&called)]);
    let types: Vec<&str> = labels.types(id).collect();
    if called != name || !types.is_empty() {
        main.put("<p class=\"under\">", &[]);
        if called != name {
            main.put("<span class=\"id\">{}</span> ", &[&outside(name)]);
        }
        for kind in &types {
            main.put("<span class=\"tag\">{}</span> ", &[&Name(&data.prefixes().shorten(kind))]);
        }
        main.put("</p>\n", &[]);
    }
    if let Some(description) = labels.description(id) {
        main.put("<p class=\"lead\">{}</p>\n", &[&description]);
    }
    let known = adjacency.degree(id);
    let relations = adjacency.labels(id).len();
    main.put(
        "<p class=\"note\">{} in {}.</p>\n",
        &[&counted(known, "known fact", "known facts"), &counted(relations, "role", "roles")],
    );
    let proposed = proposals(view, id, cancel)?;
    // A graph that lists nearly everything leaves nothing probable.
    let title = match proposed.first() {
        Some((_, truth)) if *truth < 0.5 => "Perhaps also",
        _ => "Probably also",
    };
    main.put("<section aria-labelledby=\"maybe\">\n<h2 id=\"maybe\">{}</h2>\n", &[&title]);
    if proposed.is_empty() {
        main.put(
            "<p class=\"missing\">Nothing that is not listed has a chance of {} or more.</p>\n",
            &[&Number(LEAST, 2)],
        );
    } else {
        main.put("<ol class=\"proposals\">\n", &[]);
        for &(triple, truth) in proposed.iter().take(PROPOSALS) {
            still_wanted(cancel)?;
            main.put("{}", &[&view.proposal(triple, truth, "li")]);
        }
        main.put("</ol>\n", &[]);
    }
    main.put("</section>\n", &[]);
    if known > 0 || !proposed.is_empty() {
        main.put("<section aria-labelledby=\"graph\">\n<h2 id=\"graph\">Neighbourhood</h2>\n", &[]);
        main.put("{}", &[&drawing(view, id, &proposed)]);
        main.put("</section>\n", &[]);
    }
    main.put("<section aria-labelledby=\"known\">\n<h2 id=\"known\">Known facts</h2>\n", &[]);
    if known == 0 {
        main.put("<p class=\"missing\">No fact about it is listed.</p>\n", &[]);
    }
    main.put("<dl class=\"known\">\n", &[]);
    for (label, others) in adjacency.runs(id) {
        let relation = view.relation(label.relation());
        // The asked entity stands where it stands in the fact.
        match label.is_inverse() {
            false => main.put("<div><dt>{}</dt><dd>", &[&relation]),
            true => main.put(
                "<div><dt><span class=\"turned\">…</span> {} <span class=\"turned\">{}</span></dt><dd>",
                &[&relation, &Name(&called)],
            ),
        };
        for (at, &other) in others.iter().take(LISTED).enumerate() {
            let triple = oriented(id, label, other);
            main.put("{}<span class=\"item\">{}<a class=\"why-link\" href=\"{}\" aria-label=\"About the fact {}\">i</a></span>", &[
                &if at == 0 { "" } else { ", " },
                &view.entity(other),
                &view.fact_url(triple),
                &view.said(triple),
            ]);
        }
        if others.len() > LISTED {
            let relation = snapshot.relation(label.relation());
            let side = if label.is_inverse() { "tail" } else { "head" };
            let address = url("facts", &[(side, name), ("relation", relation)]);
            main.put(" <a class=\"go\" href=\"{}\">and {} more</a>", &[&address, &(others.len() - LISTED)]);
        }
        main.put("</dd></div>\n", &[]);
    }
    main.put("</dl>\n</section>\n", &[]);
    still_wanted(cancel)?;
    main.put("{}", &[&near(view, id)]);
    Ok(Content::new(called, main).with_script("graph.js"))
}

/// A name as a link, where it is an address on the web.
pub fn outside(name: &str) -> Html {
    let is_web = name.starts_with("http://") || name.starts_with("https://");
    match is_web {
        true => Html::of("<a rel=\"noreferrer noopener external\" href=\"{}\">{}</a>", &[&name, &Name(name)]),
        false => Html::of("{}", &[&Name(name)]),
    }
}

fn oriented(id: EntityId, label: Label, other: EntityId) -> Triple {
    let relation = label.relation();
    match label.is_inverse() {
        false => Triple { head: id, relation, tail: other },
        true => Triple { head: other, relation, tail: id },
    }
}

/// Facts about it that are not listed, in falling truth: answers to what its known facts suggest, and what was found before.
fn proposals(view: &View, id: EntityId, cancel: &Cancel) -> Result<Vec<(Triple, f64)>, Problem> {
    let snapshot = &view.snapshot;
    let labels = snapshot.all.data().graph().adjacency().labels(id);
    let question = |label: &Label| match label.is_inverse() {
        false => Question::Tail { head: id, relation: label.relation() },
        true => Question::Head { relation: label.relation(), tail: id },
    };
    let questions: Vec<Question> = labels.iter().take(ASKED).map(question).collect();
    let options = PredictOptions { top: ANSWERS, new: true, typed: true, ..PredictOptions::default() };
    let lists = snapshot.engine.predict(&questions, &options, &Control::new(cancel))?;
    let mut found: Vec<(Triple, f64)> = Vec::new();
    for (question, answers) in questions.iter().zip(lists) {
        let triples = answers.iter().filter_map(|answer| match answer.who {
            Who::Entity(_) => Some((question.answered(answer.who)?, answer.truth)),
            Who::Relation(_) => None,
        });
        found.extend(triples);
    }
    let suggestions = view.app.live.suggestions();
    let about = |(triple, _): &&(Triple, f64)| triple.head == id || triple.tail == id;
    let stored: Vec<Triple> = suggestions.of(snapshot).filter(about).map(|(triple, _)| *triple).collect();
    let stored: Vec<Triple> = stored.into_iter().filter(|&triple| !snapshot.data().filter().contains(triple)).collect();
    found.extend(stored.iter().copied().zip(snapshot.engine.truths(&stored)?));
    // What was rejected or accepted stays where it was, so that it can be undone.
    let shown = |triple: Triple, truth: f64| match view.app.reviews.of(&snapshot.fact(triple)) {
        Some(decision) => decision.truth,
        None => truth,
    };
    found.iter_mut().for_each(|(triple, truth)| *truth = shown(*triple, *truth));
    found.retain(|(triple, truth)| *truth >= LEAST && triple.head != triple.tail);
    found.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
    let mut seen = FxHashSet::default();
    found.retain(|(triple, _)| seen.insert(*triple));
    Ok(found)
}

/// Its neighbours by relation, proposed ones among them.
fn drawing(view: &View, id: EntityId, proposed: &[(Triple, f64)]) -> Html {
    let snapshot = &view.snapshot;
    let runs: Vec<(Label, &[EntityId])> = snapshot.all.data().graph().adjacency().runs(id).collect();
    // Every relation gets its share, so that one of a hundred thousand neighbours does not hide the others.
    let mut taken = vec![0usize; runs.len()];
    let mut left = DRAWN;
    while left > 0 {
        let before = left;
        for (count, (_, others)) in taken.iter_mut().zip(&runs) {
            if left > 0 && *count < others.len() {
                (*count, left) = (*count + 1, left - 1);
            }
        }
        if before == left {
            break;
        }
    }
    let member = |other: EntityId, truth: Option<f64>| Member {
        name: view.called(other),
        address: view.entity_url(other),
        truth,
    };
    let mut groups: Vec<Group> = Vec::new();
    let mut drawn = 0;
    for ((label, others), count) in runs.iter().zip(taken).filter(|(_, count)| *count > 0) {
        let mut members: Vec<Member> = others[..count].iter().map(|&other| member(other, None)).collect();
        drawn += count;
        for &(triple, truth) in proposed.iter().take(PROPOSALS) {
            let other = if label.is_inverse() { triple.head } else { triple.tail };
            if oriented(id, *label, other) == triple {
                members.push(member(other, Some(truth)));
            }
        }
        let relation = snapshot.relation(label.relation());
        let side = if label.is_inverse() { "tail" } else { "head" };
        groups.push(Group {
            relation: view.relation_called(label.relation()),
            address: url("facts", &[(side, snapshot.entity(id)), ("relation", relation)]),
            is_inverse: label.is_inverse(),
            members,
            more: others.len() - count,
        });
    }
    let all: usize = runs.iter().map(|(_, others)| others.len()).sum();
    let mut html = draw(&view.called(id), &groups);
    html.put("<p class=\"note\">", &[]);
    if drawn < all {
        html.put("{} of {} known facts. ", &[&drawn, &all]);
    }
    if groups.iter().any(|group| group.members.iter().any(|member| member.truth.is_some())) {
        html.put("Dashed lines are proposed facts with their truth. ", &[]);
    }
    html.put("Every name is a link.</p>\n", &[]);
    html
}

/// What is near to it, and what may be the same.
fn near(view: &View, id: EntityId) -> Html {
    // Rules alone know nothing near.
    let Ok(near) = view.snapshot.engine.similar(id, NEAR) else { return Html::new() };
    let mut html =
        Html::of("<section aria-labelledby=\"near\">\n<h2 id=\"near\">Similar</h2>\n<ul class=\"names\">\n", &[]);
    for other in &near {
        html.put("<li>{} <span class=\"note\">{}</span></li>\n", &[&view.entity(other.id), &Number(other.cosine, 2)]);
    }
    html.put("</ul>\n<p class=\"note\">By the angle between their vectors: 1 would be the same direction.</p>\n", &[]);
    let duplicates: Vec<_> = near.iter().filter(|other| other.duplicate).collect();
    if !duplicates.is_empty() {
        html.put("<h3>Possibly the same</h3>\n<ul>\n", &[]);
        for other in duplicates {
            html.put(
                "<li>{}: {} shared</li>\n",
                &[&view.entity(other.id), &counted(other.shared, "fact is", "facts are")],
            );
        }
        html.put("</ul>\n", &[]);
    }
    html.put("</section>\n", &[]);
    html
}

/// Listed facts, page by page.
pub fn facts(view: &View, ask: &Ask, _: &Cancel) -> Result<Content, Problem> {
    let snapshot = &view.snapshot;
    let named = |name: &str| -> Result<Option<&str>, Problem> { Ok(ask.text(name)?.filter(|text| !text.is_empty())) };
    let head = named("head")?.map(|name| snapshot.engine.entity(name)).transpose()?;
    let relation = named("relation")?.map(|name| snapshot.engine.relation(name)).transpose()?;
    let tail = named("tail")?.map(|name| snapshot.engine.entity(name)).transpose()?;
    let start = ask.count("cursor", 0, MOST)?;
    let graph = snapshot.all.data().graph();
    let fits = |triple: &Triple| {
        head.is_none_or(|id| id == triple.head)
            && relation.is_none_or(|id| id == triple.relation)
            && tail.is_none_or(|id| id == triple.tail)
    };
    let about = |id: EntityId| {
        graph
            .adjacency()
            .runs(id)
            .flat_map(move |(label, others)| others.iter().map(move |&other| oriented(id, label, other)))
    };
    let found: Vec<Triple> = match (head, tail, relation) {
        (Some(id), ..) | (None, Some(id), _) => about(id).filter(fits).skip(start).take(FACTS + 1).collect(),
        (None, None, Some(relation)) => {
            let pairs = graph.facts(relation).iter().skip(start).take(FACTS + 1);
            pairs.map(|pair| Triple { head: pair.key, relation, tail: pair.other }).collect()
        }
        _ => graph.triples().skip(start).take(FACTS + 1).collect(),
    };
    let mut title = Html::of("Known facts", &[]);
    for (word, part) in [(" with ", head), (" with ", tail)] {
        if let Some(id) = part {
            title.put("{}{}", &[&word, &view.entity(id)]);
        }
    }
    if let Some(id) = relation {
        title.put(" of {}", &[&view.relation(id)]);
    }
    let mut main = Html::of("<h1>{}</h1>\n", &[&title]);
    if found.is_empty() {
        main.put("<p class=\"missing\">There are none.</p>\n", &[]);
    }
    main.put("<ul class=\"statements\">\n", &[]);
    for &triple in found.iter().take(FACTS) {
        main.put(
            "<li>{} <a class=\"why-link\" href=\"{}\" aria-label=\"About this fact\">i</a></li>\n",
            &[&view.statement(triple), &view.fact_url(triple)],
        );
    }
    main.put("</ul>\n", &[]);
    if found.len() > FACTS {
        let next = (start + FACTS).to_string();
        let mut query: Vec<(&str, &str)> = Vec::new();
        for name in ["head", "relation", "tail"] {
            if let Some(text) = named(name)? {
                query.push((name, text));
            }
        }
        query.push(("cursor", &next));
        main.put("<p><a class=\"go\" href=\"{}\">Next page</a></p>\n", &[&url("facts", &query)]);
    }
    Ok(Content::new("Known facts", main))
}
