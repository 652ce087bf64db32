//! Proposed facts and what people say about them, and facts that they add.

use std::hash::BuildHasher as _;

use ruge::explain::FactLabels;
use ruge::{Cancel, Triple};
use ruge_kg::io::write::{BASE, Place, rdf_term};
use ruge_kg::visible;
use ruge_rules::words;
use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

use crate::api::{At, Reply, page};
use crate::ask::Ask;
use crate::pages::View;
use crate::problem::Problem;
use crate::reviews::{Decision, Names, Verdict, now};
use crate::work::still_wanted;

/// Characters of a remark.
pub const NOTE: usize = 2000;
/// Characters of a reviewer's name, which is kept with every decision and every fact.
pub const NAME: usize = 200;
/// Facts that are added or removed at once.
const FACTS: usize = 1000;

/// Which proposed facts are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Those without a decision.
    Open,
    /// Those with this one.
    Decided(Verdict),
    /// Accepted and rejected ones.
    Judged,
}

impl Which {
    /// As it is written in a query.
    pub fn of(ask: &Ask, default: Self) -> Result<Self, Problem> {
        match ask.text("state")? {
            None => Ok(default),
            Some("open") => Ok(Self::Open),
            Some("accepted") => Ok(Self::Decided(Verdict::Accept)),
            Some("rejected") => Ok(Self::Decided(Verdict::Reject)),
            Some("skipped") => Ok(Self::Decided(Verdict::Skip)),
            Some("judged") => Ok(Self::Judged),
            Some(other) => {
                let choices = "open, accepted, rejected, skipped or judged";
                Err(Problem::bad(format!("state is {choices}, not {:?}", visible::cut(other, 40))))
            }
        }
    }

    fn fits(self, verdict: Verdict) -> bool {
        match self {
            Self::Open => false,
            Self::Decided(wanted) => wanted == verdict,
            Self::Judged => verdict != Verdict::Skip,
        }
    }
}

/// A proposed fact with its place in the queue and its truth.
pub type Proposed = (At, (Triple, f64));

/// The queue: proposed facts that wait for a decision, in falling truth, as the decisions so far correct it.
pub fn open(view: &View, ask: &Ask) -> Result<Vec<Proposed>, Problem> {
    let snapshot = &view.snapshot;
    let name = ask.text("relation")?.filter(|name| !name.is_empty());
    let relation = name.map(|name| snapshot.engine.relation(name)).transpose()?;
    let least = ask.share("min_truth")?;
    let suggestions = view.app.live.suggestions();
    let mut list: Vec<Proposed> = Vec::new();
    for (at, &(triple, truth)) in suggestions.of(snapshot).enumerate() {
        if relation.is_some_and(|relation| relation != triple.relation) {
            continue;
        }
        let truth = snapshot.corrected(triple, truth);
        let is_open =
            || !snapshot.data().filter().contains(triple) && !view.app.reviews.is_decided(&snapshot.fact(triple));
        if truth >= least && is_open() {
            // The bits of numbers from 0 on are in their order.
            list.push((At::from(!truth.to_bits()) << 64 | at as At, (triple, truth)));
        }
    }
    list.sort_unstable_by_key(|(place, _)| *place);
    Ok(list)
}

/// Proposed facts, or those that were decided.
pub fn suggestions(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let snapshot = &view.snapshot;
    let which = Which::of(ask, Which::Open)?;
    // Before the list: what is ready by then is in it.
    let state = json!(view.app.live.suggestions().told()).to_string();
    let mut reply = match which {
        Which::Open => {
            let open = open(view, ask)?;
            still_wanted(cancel)?;
            page(snapshot, ask, "suggestions", open.into_iter(), |(triple, truth)| told(view, triple, truth))?
        }
        _ => {
            let mut decided: Vec<(At, (Names, Decision))> =
                decided(view, which).into_iter().map(|item| (place_of(&item), item)).collect();
            decided.sort_by_key(|(place, _)| *place);
            let told = |(fact, decision): (Names, Decision)| decision_told(&fact, &decision);
            page(snapshot, ask, "suggestions", decided.into_iter(), told)?
        }
    };
    reply.body.truncate(reply.body.len() - 1);
    reply.body.push_str(&format!(",\"search\":{state}}}"));
    Ok(reply)
}

/// The latest first; what was decided in the same second in any order, but always the same.
fn place_of((fact, decision): &(Names, Decision)) -> At {
    At::from(!decision.at) << 64 | At::from(FxBuildHasher.hash_one(fact))
}

fn told(view: &View, triple: Triple, truth: f64) -> Value {
    let snapshot = &view.snapshot;
    let [head, relation, tail] = snapshot.fact(triple);
    let mut object = json!(FactLabels::of(snapshot.data(), triple));
    (object["head"], object["relation"], object["tail"]) = (head.into(), relation.into(), tail.into());
    object["truth"] = truth.into();
    if let Some(because) = snapshot.because(triple) {
        let (rule, names) = (&snapshot.reasons.rules()[because.rule].rule, snapshot.data().names());
        object["rule"] = json!({
            "id": because.rule, "rule": words::formula(rule, names), "words": words::sentence(rule, names),
            "confidence": because.confidence,
            "premises": because.premises.iter().map(|&it| snapshot.fact(it)).collect::<Vec<_>>(),
        });
    }
    object
}

fn decision_told([head, relation, tail]: &Names, decision: &Decision) -> Value {
    let mut object = json!(decision);
    (object["head"], object["relation"], object["tail"]) =
        (head.as_str().into(), relation.as_str().into(), tail.as_str().into());
    object
}

/// Decisions of a kind, the latest first.
pub fn decided(view: &View, which: Which) -> Vec<(Names, Decision)> {
    let mut all = view.app.reviews.all();
    all.retain(|(_, decision)| which.fits(decision.decision));
    all
}

/// The fact that a request names, by its own names in the model, with its triple.
fn named(view: &View, ask: &Ask) -> Result<(Names, Triple), Problem> {
    let snapshot = &view.snapshot;
    let triple = snapshot.triple(ask.needed("head")?, ask.needed("relation")?, ask.needed("tail")?)?;
    Ok((snapshot.fact(triple), triple))
}

fn short<'a>(ask: &'a Ask, name: &str, most: usize) -> Result<Option<&'a str>, Problem> {
    match ask.text(name)? {
        Some(text) if text.chars().count() > most => Err(Problem::refused(format!("{name:?} is too long")).limit(most)),
        text => Ok(text.map(str::trim).filter(|text| !text.is_empty())),
    }
}

/// Keeps a decision.
pub fn decide(view: &View, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let verdict = ask.needed("decision")?;
    let verdict = Verdict::parse(verdict).ok_or_else(|| Problem::bad("decision is accept, reject or skip"))?;
    let (fact, triple) = named(view, ask)?;
    let snapshot = &view.snapshot;
    // Whatever was decided before, in whatever order: the truth by the model alone.
    let truth = snapshot.plain.engine().estimates(&[triple])?[0];
    let reviewer = short(ask, "reviewer", NAME)?.or(view.reviewer.as_deref()).map(str::to_string);
    let note = short(ask, "note", NOTE)?.map(str::to_string);
    let decision = Decision { decision: verdict, truth, note, reviewer, at: now(), model: snapshot.hash.clone() };
    view.app.reviews.decide(&fact, decision.clone())?;
    view.app.live.decided();
    Ok(Reply::json(&decision_told(&fact, &decision)))
}

/// Takes a decision back.
pub fn undo(view: &View, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let (fact, _) = named(view, ask)?;
    let was_there = view.app.reviews.undo(&fact, view.reviewer.as_deref())?;
    view.app.live.decided();
    let [head, relation, tail] = fact;
    Ok(Reply::json(&json!({"head": head, "relation": relation, "tail": tail, "undone": was_there})))
}

/// Of the facts judged at about the same truth, how many were accepted.
pub fn reliability(view: &View, _: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let [accepted, rejected, skipped] = view.app.reviews.counts();
    Ok(Reply::json(&json!({
        "accepted": accepted, "rejected": rejected, "skipped": skipped, "bins": view.app.reviews.reliability(),
    })))
}

/// Decisions as `--feedback FILE` reads them: head, relation, tail, and whether it is true.
pub fn as_tsv(view: &View, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let guarded = ask.flag("excel", false)?;
    let mut lines = decided(view, Which::of(ask, Which::Judged)?);
    lines.retain(|(_, decision)| decision.decision != Verdict::Skip);
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut body = String::new();
    for (fact, decision) in lines {
        for name in &fact {
            // A program for sheets would reckon with what begins so.
            if guarded && name.starts_with(['=', '+', '-', '@']) {
                body.push('\'');
            }
            body.push_str(&field(name));
            body.push('\t');
        }
        body.push_str(if decision.decision == Verdict::Accept { "true\n" } else { "false\n" });
    }
    Ok(Reply { kind: "text/tab-separated-values; charset=utf-8", body })
}

/// What would end a field or a line, or hide one, written so that it does not; `--feedback` reads it back.
fn field(name: &str) -> String {
    let name = name.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r");
    if name.starts_with(['#', '\u{feff}']) { format!("\\{name}") } else { name }
}

/// Accepted facts as N-Triples.
pub fn as_nt(view: &View, _: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let mut accepted = decided(view, Which::Decided(Verdict::Accept));
    accepted.sort_by(|(a, _), (b, _)| a.cmp(b));
    let line = |([head, relation, tail], _): &(Names, Decision)| {
        let terms = [(head, Place::Subject), (relation, Place::Predicate), (tail, Place::Object)];
        let [head, relation, tail] = terms.map(|(name, place)| rdf_term(name, place, BASE));
        format!("{head} {relation} {tail} .\n")
    };
    Ok(Reply { kind: "application/n-triples", body: accepted.iter().map(line).collect() })
}

/// The facts that a request adds or removes, and who says so.
pub fn facts_of(ask: &Ask, by: Option<String>) -> Result<(Vec<Names>, Option<String>), Problem> {
    let reviewer = short(ask, "reviewer", NAME)?.map(str::to_string).or(by);
    let list = ask.list("facts", FACTS)?.ok_or_else(|| Problem::bad("\"facts\" is missing"))?;
    let fact = |value: &Value| {
        let names = ["head", "relation", "tail"].map(|key| value[key].as_str().map(str::trim).unwrap_or_default());
        match names.iter().any(|name| name.is_empty() || name.len() > 10_000) {
            true => {
                Err(Problem::bad("a fact is an object of three strings that are not empty: head, relation and tail"))
            }
            false => Ok(names.map(str::to_string)),
        }
    };
    Ok((list.iter().map(fact).collect::<Result<_, Problem>>()?, reviewer))
}
