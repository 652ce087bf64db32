//! Rules, with what they conclude rightly, wrongly, and where nobody knows.

use ruge::explain::Fact;
use ruge::{Cancel, RugeError, Triple};
use ruge_kg::EntityId;
use ruge_rules::apply::{Application, Walker};
use ruge_rules::ground::ground_conclusion;
use ruge_rules::{Rule, Side, words};
use serde_json::{Value, json};

use crate::api::{Reply, counted, page};
use crate::ask::Ask;
use crate::problem::Problem;
use crate::snapshot::Snapshot;
use crate::work::still_wanted;

/// Rules, by what they conclude and use, strongest first.
pub fn rules(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    page(snapshot, ask, "rules", counted(found(snapshot, ask, cancel)?.into_iter()), |at| told(snapshot, at))
}

/// Places of the rules that are asked for, in order.
pub fn found(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Vec<usize>, Problem> {
    let head = ask.text("head")?.map(|name| snapshot.engine.relation(name)).transpose()?;
    let body = ask.text("body")?.map(|name| snapshot.engine.relation(name)).transpose()?;
    let (words_asked, least) = (ask.text("q")?.map(str::to_lowercase), ask.share("min_confidence")?);
    let support = ask.count("min_support", 0, usize::MAX)? as u64;
    let by_support = match ask.text("sort")? {
        None | Some("confidence") => false,
        Some("support") => true,
        Some(other) => return Err(Problem::bad(format!("sort is confidence or support, not {other:?}"))),
    };
    let rules = snapshot.explainer.rules();
    let supported = |at: usize| rules[at].counts.map_or(0, |counts| counts.support);
    let fits = |at: &usize| {
        let record = &rules[*at];
        let uses = |body| record.rule.premise.iter().chain(&record.rule.negated).any(|atom| atom.relation == body);
        let says =
            |asked: &String| words::sentence(&record.rule, snapshot.data().names()).to_lowercase().contains(asked);
        head.is_none_or(|head| record.rule.head() == head)
            && body.is_none_or(uses)
            && record.mined_confidence() >= least
            && supported(*at) >= support
            && words_asked.as_ref().is_none_or(says)
    };
    let usable = snapshot.explainer.usable().iter().copied();
    let mut found: Vec<usize> = usable.filter(|at| !cancel.is_cancelled() && fits(at)).collect();
    still_wanted(cancel)?;
    let confidence = |at: usize| rules[at].mined_confidence();
    found.sort_by(|&a, &b| {
        let (by_confidence, by_count) = (confidence(b).total_cmp(&confidence(a)), supported(b).cmp(&supported(a)));
        let order = if by_support { by_count.then(by_confidence) } else { by_confidence.then(by_count) };
        order.then(a.cmp(&b))
    });
    Ok(found)
}

/// One rule.
pub fn rule(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    Ok(Reply::json(&told(snapshot, chosen(snapshot, ask)?)))
}

/// Conclusions of a rule: listed facts, counterexamples, or open ones.
pub fn examples(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let at = chosen(snapshot, ask)?;
    let limit = ask.limit(20, 1000)?;
    let wanted = ask.text("kind")?.unwrap_or("example");
    if !["example", "counterexample", "open"].contains(&wanted) {
        return Err(Problem::bad("kind is example, counterexample or open"));
    }
    let (found, whole) = instances(snapshot, at, wanted, limit, cancel)?;
    let truths = snapshot.engine.truths(&found)?;
    let (record, names) = (&snapshot.explainer.rules()[at], snapshot.data().names());
    let example = |(&triple, truth): (&Triple, f64)| {
        let premises = premises(snapshot, at, triple);
        let (holds, absent) = premises.split_at(record.rule.premise.len().min(premises.len()));
        let facts = |triples: &[Triple]| triples.iter().map(|&it| Fact::new(names, it)).collect::<Vec<_>>();
        let mut told = json!(Fact::new(names, triple));
        told["truth"] = truth.into();
        told["premises"] = json!(facts(holds));
        told["absent"] = json!(facts(absent));
        told
    };
    let examples: Vec<Value> = found.iter().zip(truths).map(example).collect();
    Ok(Reply::json(&json!({"rule": told(snapshot, at), "kind": wanted, "examples": examples, "all": whole})))
}

/// Premises from which a rule concludes a triple, in one way; then those that must be absent.
pub fn premises(snapshot: &Snapshot, at: usize, triple: Triple) -> Vec<Triple> {
    let rule = &snapshot.explainer.rules()[at].rule;
    ground_conclusion(snapshot.all.data().graph(), rule, triple, 1).pop().unwrap_or_default()
}

/// Conclusions of a kind, at most so many, and whether these are all.
///
/// A conclusion that is not listed counts against the rule if its subject (or object, by the side that the measure keeps) has listed
/// facts of the relation: this is PCA confidence, and a graph with holes makes some of them true all the same.
pub fn instances(
    snapshot: &Snapshot,
    at: usize,
    wanted: &str,
    limit: usize,
    cancel: &Cancel,
) -> Result<(Vec<Triple>, bool), Problem> {
    let record = &snapshot.explainer.rules()[at];
    let (data, head) = (snapshot.all.data(), record.rule.head());
    let (graph, listed) = (data.graph(), data.filter());
    let side = record.counts.map_or(Side::Subject, |counts| counts.side);
    let kind = |triple: Triple| match (listed.contains(triple), side) {
        (true, _) => "example",
        (_, Side::Subject) if !listed.tails(triple.head, head).is_empty() => "counterexample",
        (_, Side::Object) if !listed.heads(head, triple.tail).is_empty() => "counterexample",
        _ => "open",
    };
    let application = Application::new(graph, &record.rule).map_err(|why| Problem::refused(why.reason()))?;
    let (mut walker, mut found, mut whole) = (Walker::default(), Vec::new(), true);
    for subject in graph.entities() {
        still_wanted(cancel)?;
        let mut objects: Vec<EntityId> = Vec::new();
        application.objects(graph, subject, &mut walker, &mut |object| objects.push(object));
        objects.sort_unstable();
        objects.dedup();
        let triples = objects.into_iter().map(|tail| Triple { head: subject, relation: head, tail });
        found.extend(triples.filter(|&triple| kind(triple) == wanted));
        if found.len() > limit {
            whole = false;
            break;
        }
    }
    found.truncate(limit);
    Ok((found, whole))
}

/// The rules that satisfy a condition, strongest first, at most a hundred.
pub fn places(snapshot: &Snapshot, fits: impl Fn(&Rule) -> bool) -> Vec<Value> {
    let rules = snapshot.explainer.rules();
    let mut found: Vec<usize> =
        snapshot.explainer.usable().iter().copied().filter(|&at| fits(&rules[at].rule)).collect();
    found.sort_by(|&a, &b| rules[b].mined_confidence().total_cmp(&rules[a].mined_confidence()).then(a.cmp(&b)));
    found.into_iter().take(100).map(|at| told(snapshot, at)).collect()
}

/// The rule that a request names.
pub fn chosen(snapshot: &Snapshot, ask: &Ask) -> Result<usize, Problem> {
    ask.needed("id")?;
    let at = ask.count("id", 0, usize::MAX)?;
    match snapshot.explainer.usable().contains(&at) {
        true => Ok(at),
        false => Err(RugeError::Refused(format!("the model has no rule {at}")).into()),
    }
}

/// A rule with its measures.
pub fn told(snapshot: &Snapshot, at: usize) -> Value {
    let (record, names) = (&snapshot.explainer.rules()[at], snapshot.data().names());
    json!({
        "id": at, "rule": words::formula(&record.rule, names), "words": words::sentence(&record.rule, names),
        "head": snapshot.relation(record.rule.head()),
        "body": record.rule.premise.iter().map(|atom| snapshot.relation(atom.relation)).collect::<Vec<_>>(),
        "confidence": record.mined_confidence(), "counts_as": record.other_confidence(),
        "support": record.counts.map(|counts| counts.support),
        "head_coverage": record.counts.map(|counts| counts.head_coverage()),
        "standard_confidence": record.counts.map(|counts| counts.standard()),
    })
}
