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
use crate::work::still_wanted;

/// The kind of a drawing.
pub const SVG: &str = "image/svg+xml";

/// Answers to one question at most.
const TOP: usize = 1000;
/// Candidates of one question at most.
const CANDIDATES: usize = 100_000;
/// Triples of one request at most, and those that are scored before it is asked whether anybody waits.
const TRIPLES: usize = 10_000;
const SCORED: usize = 256;

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

/// A place in a list: its order, and nothing else. The same item keeps it while others come and go.
pub type At = u128;

/// Some of a long list: what comes from the cursor on, and the next cursor. Places rise.
pub fn page<T>(
    snapshot: &Snapshot,
    ask: &Ask,
    name: &str,
    items: impl Iterator<Item = (At, T)>,
    told: impl Fn(T) -> Value,
) -> Result<Reply, Problem> {
    let limit = ask.limit(50, 1000)?;
    let start = match ask.text("cursor")? {
        None => 0,
        Some(cursor) => {
            let (graph, place) = cursor.rsplit_once('-').unwrap_or_default();
            let place = At::from_str_radix(place, 16).ok().filter(|_| graph == snapshot.graph);
            place.ok_or_else(|| {
                Problem::refused("the cursor is not of this graph").remedy("ask again without a cursor")
            })?
        }
    };
    let mut page = Vec::new();
    let mut next = None;
    for (place, item) in items.skip_while(|(place, _)| *place < start) {
        if page.len() == limit {
            next = Some(format!("{}-{place:x}", snapshot.graph));
            break;
        }
        page.push(told(item));
    }
    Ok(Reply::json(&json!({name: page, "next": next})))
}

/// Items with their places in a list that stays as it is.
pub fn counted<T>(items: impl Iterator<Item = T>) -> impl Iterator<Item = (At, T)> {
    items.enumerate().map(|(place, item)| (place as At, item))
}

/// The model itself.
pub fn model(snapshot: &Snapshot, _: &Ask, _: &Cancel) -> Result<Reply, Problem> {
    let (engine, data) = (&snapshot.engine, snapshot.data());
    Ok(Reply::json(&json!({
        "spec": engine.spec(), "hash": snapshot.hash, "snapshot": snapshot.number, "version": env!("CARGO_PKG_VERSION"),
        "entities": data.entity_count(), "relations": data.relation_count(), "train": data.train().len(),
        "valid": data.valid().len(), "test": data.test().len(), "rules": engine.rules().len(), "added_facts": snapshot.added.len(),
        "judged": snapshot.judged, "notes": engine.notes(),
        "calibration": engine.calibration(), "assumes": snapshot.assumes(),
        "limits": {"top": TOP, "candidates": CANDIDATES, "triples": TRIPLES, "body": crate::app::BODY,
                   "line": crate::batch::LINE, "seconds": crate::app::SECONDS},
    })))
}

/// Names by what was typed.
pub fn search(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let typed = ask.needed("q")?;
    let kinds = match ask.text("kind")?.unwrap_or("entity,relation") {
        "entity" => [true, false],
        "relation" => [false, true],
        "entity,relation" | "relation,entity" => [true, true],
        other => return Err(Problem::bad(format!("kind is entity, relation or entity,relation, not {other:?}"))),
    };
    let limit = ask.limit(10, 100)?;
    still_wanted(cancel)?;
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
    Ok(Reply::json(&json!({"answers": answers, "assumes": snapshot.assumes()})))
}

/// Truth and score of given triples.
pub fn score(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let list = ask.list("triples", TRIPLES)?.ok_or_else(|| Problem::bad("\"triples\" is missing"))?;
    let triple = |value: &Value| match [&value["head"], &value["relation"], &value["tail"]].map(Value::as_str) {
        [Some(head), Some(relation), Some(tail)] => Ok(snapshot.triple(head, relation, tail)?),
        _ => Err(Problem::bad("a triple is an object of three strings: head, relation and tail")),
    };
    let triples = list.iter().map(triple).collect::<Result<Vec<Triple>, Problem>>()?;
    let known = snapshot.data().filter();
    let mut told = Vec::with_capacity(triples.len());
    for some in triples.chunks(SCORED) {
        still_wanted(cancel)?;
        let mut scores = vec![0.0; some.len()];
        snapshot.engine.scores(some, &mut scores).map_err(ruge::RugeError::from)?;
        for ((&triple, score), truth) in some.iter().zip(scores).zip(snapshot.engine.truths(some)?) {
            let [head, relation, tail] = snapshot.data().show(triple);
            told.push(json!({
                "head": head, "relation": relation, "tail": tail, "score": score, "truth": truth,
                "known": known.contains(triple),
            }));
        }
    }
    Ok(Reply::json(&json!({"triples": told})))
}

fn explanation(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<ruge::explain::Explanation, Problem> {
    let triple = snapshot.triple(ask.needed("head")?, ask.needed("relation")?, ask.needed("tail")?)?;
    let side = match ask.text("side")? {
        None | Some("tail") => Side::Tail,
        Some("head") => Side::Head,
        Some(other) => return Err(Problem::bad(format!("side is tail or head, not {other:?}"))),
    };
    let options =
        ExplainOptions { groundings: ask.count("groundings", 3, 100)?, similar: ask.count("similar", 5, 100)?, side };
    still_wanted(cancel)?;
    let told = snapshot.explainer.explain(triple, &options)?;
    still_wanted(cancel)?;
    Ok(told)
}

/// Why a triple is held true.
pub fn explain(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let explanation = explanation(snapshot, ask, cancel)?;
    let mut object = json!(explanation);
    object["rules_fired"] = explanation.fired().into();
    object["grounding_count"] = explanation.grounding_count().into();
    Ok(Reply::json(&object))
}

/// The same as a drawing.
pub fn explain_svg(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    Ok(Reply { kind: SVG, body: Drawing::new(&explanation(snapshot, ask, cancel)?).svg() })
}

/// Entities near another, and likely duplicates.
pub fn similar(snapshot: &Snapshot, ask: &Ask, cancel: &Cancel) -> Result<Reply, Problem> {
    let name = ask.needed("name")?;
    still_wanted(cancel)?;
    let near = snapshot.engine.similar(snapshot.engine.entity(name)?, ask.count("top", 10, TOP)?)?;
    Ok(Reply::json(&json!({"like": name, "nearest": near})))
}
