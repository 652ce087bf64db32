//! The graph as it is listed: entities, facts, neighbours, relations.

use ruge::explain::{Fact, FactLabels};
use ruge::predict::{PredictOptions, Question};
use ruge::{Cancel, Control, Triple};
use ruge_kg::{EntityId, Label, RelationId};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::api::{Reply, counted, page};
use crate::ask::Ask;
use crate::problem::Problem;
use crate::snapshot::Snapshot;
use crate::work::still_wanted;

/// Relations of an entity for which new facts are looked for.
const ASKED: usize = 24;
/// Facts of a relation that are looked at for what holds with them, those that say something, and the share that does.
const LOOKED_AT: usize = 20_000;
const FEW: usize = 10;
const OFTEN: f64 = 0.5;
/// New facts told for each.
const NEW: usize = 3;

/// An entity: what is listed, and what is probably missing.
pub fn entity(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let id = snapshot.engine.entity(ask.needed("name")?)?;
    let limit = ask.limit(20, 1000)?;
    let (data, labels) = (snapshot.data(), snapshot.data().labels());
    let adjacency = snapshot.all.data().graph().adjacency();
    let named = |id: &EntityId| json!({"entity": snapshot.entity(*id), "label": labels.entity(*id)});
    let side = |label: Label| if label.is_inverse() { "head" } else { "tail" };
    let known: Vec<Value> = adjacency
        .runs(id)
        .map(|(label, others)| {
            json!({
                "relation": snapshot.relation(label.relation()), "asks_for": side(label), "count": others.len(),
                "entities": others.iter().take(limit).map(named).collect::<Vec<_>>(),
            })
        })
        .collect();
    let mut probable = Vec::new();
    if ask.flag("new", true)? {
        let asked: Vec<Label> = adjacency.labels(id).iter().copied().take(ASKED).collect();
        let question = |label: &Label| match label.is_inverse() {
            false => Question::Tail { head: id, relation: label.relation() },
            true => Question::Head { relation: label.relation(), tail: id },
        };
        let questions: Vec<Question> = asked.iter().map(question).collect();
        let options = PredictOptions { top: NEW, new: true, typed: true, ..PredictOptions::default() };
        let lists = snapshot.engine.predict(&questions, &options, &Control::new(cancel))?;
        for (label, answers) in asked.into_iter().zip(lists).filter(|(_, answers)| !answers.is_empty()) {
            let relation = snapshot.relation(label.relation());
            probable.push(json!({"relation": relation, "asks_for": side(label), "answers": answers}));
        }
    }
    Ok(Reply::json(&json!({
        "name": snapshot.entity(id), "label": labels.entity(id), "description": labels.description(id),
        "types": labels.types(id).collect::<Vec<_>>(), "facts": adjacency.degree(id),
        "known": known, "probable": probable, "entities": data.entity_count(),
    })))
}

/// Listed facts, with the part of the data that lists them.
pub fn facts(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let engine = &snapshot.engine;
    let head = ask.text("head")?.map(|name| engine.entity(name)).transpose()?;
    let relation = ask.text("relation")?.map(|name| engine.relation(name)).transpose()?;
    let tail = ask.text("tail")?.map(|name| engine.entity(name)).transpose()?;
    let data = snapshot.data();
    let fits = |triple: &Triple| {
        head.is_none_or(|it| it == triple.head)
            && relation.is_none_or(|it| it == triple.relation)
            && tail.is_none_or(|it| it == triple.tail)
    };
    let splits = [("train", data.train()), ("valid", data.valid()), ("test", data.test())];
    let all = splits.into_iter().flat_map(|(split, triples)| triples.iter().map(move |triple| (split, *triple)));
    let found = counted(all).filter(|(_, (_, triple))| fits(triple));
    let told = |(split, triple): (&'static str, Triple)| {
        let mut fact = json!(Fact::new(data.names(), triple));
        let labels = json!(FactLabels::of(data, triple));
        labels.as_object().into_iter().flatten().for_each(|(key, value)| fact[key] = value.clone());
        fact["split"] = split.into();
        fact
    };
    page(snapshot, ask, "facts", found, told)
}

/// Some neighbours of an entity, and how many there are besides.
pub fn neighbours(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let id = snapshot.engine.entity(ask.needed("name")?)?;
    let limit = ask.limit(40, 1000)?;
    let only: Option<RelationId> = ask.text("relation")?.map(|name| snapshot.engine.relation(name)).transpose()?;
    let adjacency = snapshot.all.data().graph().adjacency();
    let runs: Vec<(Label, &[EntityId])> =
        adjacency.runs(id).filter(|(label, _)| only.is_none_or(|only| only == label.relation())).collect();
    // Every relation gets its share, so that one of a hundred thousand neighbours does not hide the others.
    let mut taken = vec![0usize; runs.len()];
    let mut left = limit;
    while left > 0 {
        let before = left;
        for (count, (_, others)) in taken.iter_mut().zip(&runs) {
            if left > 0 && *count < others.len() {
                *count += 1;
                left -= 1;
            }
        }
        if before == left {
            break;
        }
    }
    let (mut nodes, mut edges, mut more) = (vec![id], Vec::new(), Vec::new());
    for (&count, &(label, others)) in taken.iter().zip(&runs) {
        let relation = snapshot.relation(label.relation());
        for &other in &others[..count] {
            let (head, tail) = if label.is_inverse() { (other, id) } else { (id, other) };
            edges.push(json!({"head": snapshot.entity(head), "relation": relation, "tail": snapshot.entity(tail)}));
            nodes.push(other);
        }
        if count < others.len() {
            let side = if label.is_inverse() { "head" } else { "tail" };
            more.push(json!({"relation": relation, "asks_for": side, "count": others.len() - count}));
        }
    }
    nodes[1..].sort_unstable();
    nodes.dedup();
    let labels = snapshot.data().labels();
    let node = |&id: &EntityId| json!({"entity": snapshot.entity(id), "label": labels.entity(id)});
    let nodes: Vec<Value> = nodes.iter().map(node).collect();
    let shown = edges.len();
    let all: usize = runs.iter().map(|(_, others)| others.len()).sum();
    Ok(Reply::json(&json!({"nodes": nodes, "edges": edges, "left_out": more, "shown": shown, "facts": all})))
}

/// All relations with their counts.
pub fn relations(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let graph = snapshot.all.data().graph();
    page(snapshot, ask, "relations", counted(graph.relations()), |id| counts(snapshot, id))
}

/// One relation.
pub fn relation(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let id = snapshot.engine.relation(ask.needed("name")?)?;
    let mut told = counts(snapshot, id);
    let data = snapshot.data();
    told["description"] = json!(data.labels().relation_description(id));
    let graph = snapshot.all.data().graph();
    let some = graph.facts(id).iter().take(10);
    let fact =
        |pair: &ruge_kg::Pair| Fact::new(data.names(), Triple { head: pair.key, relation: id, tail: pair.other });
    told["some_facts"] = json!(some.map(fact).collect::<Vec<_>>());
    let (patterns, _) = patterns(snapshot, id, cancel)?;
    let pattern = |it: &Pattern| {
        let relation = snapshot.relation(it.label.relation());
        json!({"relation": relation, "reversed": it.label.is_inverse(), "share": it.share})
    };
    told["patterns"] = json!(patterns.iter().map(pattern).collect::<Vec<_>>());
    let figures = snapshot.run.figures.as_ref();
    told["measured"] = json!(figures.and_then(|it| it.by_relation.get(snapshot.relation(id))));
    told["concluded_by"] = json!(crate::rules::places(snapshot, |rule| rule.head() == id));
    told["used_by"] = json!(crate::rules::places(snapshot, |rule| rule
        .premise
        .iter()
        .chain(&rule.negated)
        .any(|atom| atom.relation == id)));
    Ok(Reply::json(&told))
}

/// A relation that holds where another does.
pub struct Pattern {
    /// The relation, turned round where it holds the other way.
    pub label: Label,
    /// Of the facts looked at, how many it goes with.
    pub share: f64,
}

/// What usually holds together with a relation, in either direction: the same relation if it is symmetric. So many facts are looked at, spread
/// over all of them; reflexive ones are left out, as they are their own reverse.
pub fn patterns(snapshot: &Snapshot, id: RelationId, cancel: &Cancel) -> Result<(Vec<Pattern>, usize), Problem> {
    let graph = snapshot.all.data().graph();
    let facts = graph.facts(id);
    let (mut counts, mut looked_at): (FxHashMap<Label, usize>, usize) = (FxHashMap::default(), 0);
    for (at, pair) in facts.iter().step_by((facts.len() / LOOKED_AT).max(1)).enumerate() {
        if at % 1024 == 0 {
            still_wanted(cancel)?;
        }
        if pair.key == pair.other {
            continue;
        }
        looked_at += 1;
        for edge in graph.links_between(pair.key, pair.other).iter().filter(|edge| edge.label != Label::forward(id)) {
            *counts.entry(edge.label).or_default() += 1;
        }
    }
    let share = |count: usize| count as f64 / looked_at.max(1) as f64;
    let mut found: Vec<Pattern> =
        counts.into_iter().map(|(label, count)| Pattern { label, share: share(count) }).collect();
    found.retain(|pattern| pattern.share >= OFTEN && looked_at >= FEW);
    found.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.label.cmp(&b.label)));
    Ok((found, looked_at))
}

/// What is counted of a relation.
pub fn counts(snapshot: &Snapshot, id: RelationId) -> Value {
    let graph = snapshot.all.data().graph();
    let (facts, heads, tails) = (graph.facts(id).len(), graph.distinct_heads(id), graph.distinct_tails(id));
    let mean = |of: usize| facts as f64 / of.max(1) as f64;
    // The usual threshold of the literature.
    let many = |mean: f64| if mean >= 1.5 { "many" } else { "one" };
    json!({
        "name": snapshot.relation(id), "label": snapshot.data().labels().relation(id), "facts": facts, "heads": heads, "tails": tails,
        "tails_per_head": mean(heads), "heads_per_tail": mean(tails),
        "cardinality": format!("{} to {}", many(mean(tails)), many(mean(heads))),
        "rules": snapshot.explainer.concluding(id).len(),
    })
}
