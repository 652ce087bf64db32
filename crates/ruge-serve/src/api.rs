//! The answers of a model as HTTP gives them: the values of the command line's `--json`.

use ruge::explain::ExplainOptions;
use ruge::explain::drawing::Drawing;
use ruge::predict::{PredictOptions, Question};
use ruge::{Cancel, Control, Triple};
use ruge_kg::{EntityId, Side};
use serde_json::{Value, json};

use crate::ask::Ask;
use crate::problem::Problem;
use crate::snapshot::Snapshot;

/// Answers to one question at most.
const TOP: usize = 1000;
/// Candidates of one question at most.
const CANDIDATES: usize = 100_000;
/// Triples scored at once at most.
const TRIPLES: usize = 10_000;

/// An answer, ready to be sent.
#[derive(Clone, Debug)]
pub struct Reply {
    /// `Content-Type`.
    pub kind: &'static str,
    /// What is sent.
    pub body: String,
}

impl Reply {
    /// As JSON; characters that would disturb a terminal are escaped.
    pub fn json(value: &Value) -> Self {
        Self { kind: "application/json", body: ruge_kg::visible::json(&value.to_string()).into_owned() }
    }
}

/// Some of a long list: what comes behind the cursor, and the next cursor. Places number the whole list.
pub fn page<T>(
    snapshot: &Snapshot,
    ask: &Ask,
    name: &str,
    items: impl Iterator<Item = (usize, T)>,
    told: impl Fn(T) -> Value,
) -> Result<Reply, Problem> {
    let limit = ask.count("limit", 50, 1000)?.max(1);
    let start = match ask.text("cursor")? {
        None => 0,
        Some(cursor) => {
            let (graph, place) = cursor.rsplit_once('-').unwrap_or_default();
            let place = place.parse::<usize>().ok().filter(|_| graph == snapshot.graph);
            place.ok_or_else(|| {
                Problem::refused("the cursor is not of this graph").remedy("ask again without a cursor")
            })?
        }
    };
    let mut items = items.skip_while(|(place, _)| *place < start);
    let mut page = Vec::with_capacity(limit);
    let mut next = None;
    for (place, item) in items.by_ref() {
        if page.len() == limit {
            next = Some(format!("{}-{place}", snapshot.graph));
            break;
        }
        page.push(told(item));
    }
    Ok(Reply::json(&json!({name: page, "next": next})))
}

/// The model itself.
pub fn model(snapshot: &Snapshot, _: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let (engine, data) = (&snapshot.engine, snapshot.data());
    Ok(Reply::json(&json!({
        "spec": engine.spec(), "hash": snapshot.hash, "snapshot": snapshot.number, "version": env!("CARGO_PKG_VERSION"),
        "entities": data.entity_count(), "relations": data.relation_count(), "train": data.train().len(),
        "valid": data.valid().len(), "test": data.test().len(), "rules": engine.rules().len(), "added_facts": snapshot.added.len(),
        "judged": snapshot.judged, "notes": engine.notes(),
        "calibration": engine.calibration(), "assumes": engine.truth_assumes()?,
        "limits": {"top": TOP, "candidates": CANDIDATES, "triples": TRIPLES, "body": crate::app::BODY,
                   "line": crate::batch::LINE, "seconds": crate::app::SECONDS},
    })))
}

/// Names by what was typed.
pub fn search(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let typed = ask.needed("q")?;
    let kinds = match ask.text("kind")?.unwrap_or("entity,relation") {
        "entity" => [true, false],
        "relation" => [false, true],
        "entity,relation" | "relation,entity" => [true, true],
        other => return Err(Problem::bad(format!("kind is entity, relation or entity,relation, not {other:?}"))),
    };
    let limit = ask.count("limit", 10, 100)?;
    let hits = snapshot.names.search(snapshot.all.data(), typed, kinds, limit);
    Ok(Reply::json(&json!({"q": typed, "hits": hits})))
}

/// Which answers are wanted.
pub fn wishes(snapshot: &Snapshot, ask: &Ask) -> Result<PredictOptions, Problem> {
    let names = match ask.list("candidates", CANDIDATES)? {
        None => None,
        Some(list) => {
            let entity = |name: &Value| match name.as_str() {
                Some(name) => Ok(snapshot.engine.entity(name)?),
                None => Err(Problem::bad("a candidate is not a string")),
            };
            Some(list.iter().map(entity).collect::<Result<Vec<EntityId>, Problem>>()?)
        }
    };
    let top = ask.count("top", 10, TOP)?;
    if top == 0 {
        return Err(Problem::refused("\"top\" must be at least 1"));
    }
    let (new, typed) = (ask.flag("new", false)?, ask.flag("typed", false)?);
    Ok(PredictOptions { top, new, typed, candidates: names, by_rules: false })
}

/// The best answers to a question.
pub fn predict(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let engine = &snapshot.engine;
    let options = wishes(snapshot, ask)?;
    let question = Question::named(engine, ask.text("head")?, ask.text("relation")?, ask.text("tail")?)?;
    if matches!(question, Question::Relation { .. }) && (options.typed || options.candidates.is_some()) {
        return Err(Problem::refused("typed and candidates filter entities, but this question asks for a relation"));
    }
    let answers = engine.predict(&[question], &options, &Control::new(cancel))?.pop().unwrap_or_default();
    answered(snapshot, &answers)
}

/// Answers as they are sent.
pub fn answered(snapshot: &Snapshot, answers: &[ruge::predict::Answer]) -> Result<Reply, Problem> {
    Ok(Reply::json(&json!({"answers": answers, "assumes": snapshot.assumes()?})))
}

/// Truth and score of given triples.
pub fn score(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let list = ask.list("triples", TRIPLES)?.ok_or_else(|| Problem::bad("\"triples\" is missing"))?;
    let triple = |value: &Value| match [&value["head"], &value["relation"], &value["tail"]].map(Value::as_str) {
        [Some(head), Some(relation), Some(tail)] => Ok(snapshot.triple(head, relation, tail)?),
        _ => Err(Problem::bad("a triple is an object of three strings: head, relation and tail")),
    };
    let triples = list.iter().map(triple).collect::<Result<Vec<Triple>, Problem>>()?;
    let mut scores = vec![0.0; triples.len()];
    snapshot.engine.scores(&triples, &mut scores).map_err(ruge::RugeError::from)?;
    let (truths, known) = (snapshot.engine.truths(&triples)?, snapshot.data().filter());
    let told = |((&triple, score), truth): ((&Triple, f32), f64)| {
        let [head, relation, tail] = snapshot.data().show(triple);
        json!({"head": head, "relation": relation, "tail": tail, "score": score, "truth": truth, "known": known.contains(triple)})
    };
    let told: Vec<Value> = triples.iter().zip(scores).zip(truths).map(told).collect();
    Ok(Reply::json(&json!({"triples": told})))
}

fn explanation(snapshot: &Snapshot, ask: &Ask) -> Result<ruge::explain::Explanation, Problem> {
    let triple = snapshot.triple(ask.needed("head")?, ask.needed("relation")?, ask.needed("tail")?)?;
    let side = match ask.text("side")? {
        None | Some("tail") => Side::Tail,
        Some("head") => Side::Head,
        Some(other) => return Err(Problem::bad(format!("side is tail or head, not {other:?}"))),
    };
    let options =
        ExplainOptions { groundings: ask.count("groundings", 3, 100)?, similar: ask.count("similar", 5, 100)?, side };
    Ok(snapshot.explainer.explain(triple, &options)?)
}

/// Why a triple is held true.
pub fn explain(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let explanation = explanation(snapshot, ask)?;
    let mut object = json!(explanation);
    object["rules_fired"] = explanation.fired().into();
    object["grounding_count"] = explanation.grounding_count().into();
    object["assumes"] = snapshot.assumes()?.into();
    Ok(Reply::json(&object))
}

/// The same as a drawing.
pub fn explain_svg(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    Ok(Reply { kind: "image/svg+xml", body: Drawing::new(&explanation(snapshot, ask)?).svg() })
}

/// Entities near another, and likely duplicates.
pub fn similar(snapshot: &Snapshot, ask: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let name = ask.needed("name")?;
    let near = snapshot.engine.similar(snapshot.engine.entity(name)?, ask.count("top", 10, TOP)?)?;
    Ok(Reply::json(&json!({"like": name, "nearest": near})))
}
