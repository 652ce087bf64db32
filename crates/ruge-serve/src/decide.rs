//! Proposed facts and what people say about them, and facts that they add.

use ruge::explain::FactLabels;
use ruge::{Cancel, Triple};
use ruge_kg::io::write::{BASE, Place, rdf_term};
use ruge_kg::visible;
use ruge_rules::words;
use serde_json::{Value, json};

use crate::api::{Reply, page};
use crate::ask::Ask;
use crate::pages::View;
use crate::problem::Problem;
use crate::reviews::{Decision, Names, Verdict, now};

/// Bytes of a remark or a reviewer's name.
const NOTE: usize = 2000;

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

/// The queue: proposed facts that wait for a decision, in falling truth. The truth is that of before any decision.
pub fn open<'v>(view: &'v View, ask: &Ask) -> Result<impl Iterator<Item = (usize, (Triple, f64))> + 'v, Problem> {
    let snapshot = &view.snapshot;
    let name = ask.text("relation")?.filter(|name| !name.is_empty());
    let relation = name.map(|name| snapshot.engine.relation(name)).transpose()?;
    let least = ask.share("min_truth")?;
    let suggestions = view.app.live.suggestions();
    let list: Vec<(Triple, f64)> = suggestions.of(snapshot).copied().collect();
    let fits = move |(_, (triple, truth)): &(usize, (Triple, f64))| {
        relation.is_none_or(|relation| relation == triple.relation)
            && *truth >= least
            && !snapshot.data().filter().contains(*triple)
            && !view.app.reviews.is_decided(&snapshot.fact(*triple))
    };
    Ok(list.into_iter().enumerate().filter(fits))
}

/// Proposed facts, or those that were decided.
pub fn suggestions(view: &View, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let snapshot = &view.snapshot;
    let which = Which::of(ask, Which::Open)?;
    // Before the list: what is ready by then is in it.
    let state = json!(view.app.live.suggestions().told()).to_string();
    let mut reply = match which {
        Which::Open => {
            page(snapshot, ask, "suggestions", open(view, ask)?, |(triple, truth)| told(view, triple, truth))?
        }
        _ => {
            let decided = decided(view, which).into_iter().enumerate();
            page(snapshot, ask, "suggestions", decided, |(fact, decision)| decision_told(&fact, &decision))?
        }
    };
    reply.body.truncate(reply.body.len() - 1);
    reply.body.push_str(&format!(",\"search\":{state}}}"));
    Ok(reply)
}

fn told(view: &View, triple: Triple, truth: f64) -> Value {
    let snapshot = &view.snapshot;
    let [head, relation, tail] = snapshot.fact(triple);
    let mut object = json!(FactLabels::of(snapshot.data(), triple));
    // What decisions of others changed since.
    let now = snapshot.engine.truths(&[triple]).map_or(truth, |truths| truths[0]);
    (object["head"], object["relation"], object["tail"]) = (head.into(), relation.into(), tail.into());
    object["truth"] = now.into();
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

fn short<'a>(ask: &'a Ask, name: &str) -> Result<Option<&'a str>, Problem> {
    let text = ask.text(name)?.map(str::trim).filter(|text| !text.is_empty());
    match text {
        Some(text) if text.len() > NOTE => Err(Problem::refused(format!("{name:?} is too long")).limit(NOTE)),
        text => Ok(text),
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
    let reviewer = short(ask, "reviewer")?.or(view.reviewer.as_deref()).map(str::to_string);
    let note = short(ask, "note")?.map(str::to_string);
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

/// What would end a field or a line, written so that it does not.
fn field(name: &str) -> String {
    name.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
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

/// The facts that a request adds or removes.
pub fn facts_of(ask: &Ask) -> Result<Vec<Names>, Problem> {
    let list = ask.list("facts", 1000)?.ok_or_else(|| Problem::bad("\"facts\" is missing"))?;
    let fact = |value: &Value| {
        let names = ["head", "relation", "tail"].map(|key| value[key].as_str().map(str::trim).unwrap_or_default());
        match names.iter().any(|name| name.is_empty() || name.len() > 10_000) {
            true => {
                Err(Problem::bad("a fact is an object of three strings that are not empty: head, relation and tail"))
            }
            false => Ok(names.map(str::to_string)),
        }
    };
    list.iter().map(fact).collect()
}
