//! What the score that ranks is made of: the model, each rule as ranking counts it, evidence for and against.

use ruge_kg::{RankQuery, Side};
use ruge_rules::rank::evidence::{EvidencePart, Feature};
use ruge_rules::rank::{Combined, Part, PartOf};
use ruge_rules::{RuleRecord, words};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::weigh::Fired;
use super::{Explainer, Fact};
use crate::engine::Engine;
use crate::error::Result;

/// Files of older programs name no side.
pub(super) fn tail() -> Side {
    Side::Tail
}

/// A part of a score.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ScorePart {
    /// `model`, `rule` or `evidence`.
    pub kind: String,
    /// What it adds to the score; below zero it speaks against the triple.
    pub value: f64,
    /// The same, for readers that look for a weight.
    pub weight: f64,
    /// In words.
    pub words: String,
    /// The rule as a formula.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Its confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// What was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<Feature>,
    /// How many facts were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// The largest parts of a score, the others together, and their sum: what a reader adds up.
#[derive(Clone, PartialEq, Debug)]
pub struct Summed<'p> {
    /// The largest.
    pub shown: &'p [ScorePart],
    /// How many others there are, and what they add; nothing where there are none.
    pub rest: Option<(usize, f64)>,
    /// All of them together: the score.
    pub sum: f64,
}

impl<'p> Summed<'p> {
    /// Shows `most` of them.
    pub fn of(parts: &'p [ScorePart], most: usize) -> Self {
        let (shown, rest) = parts.split_at(most.min(parts.len()));
        let add = |parts: &[ScorePart]| parts.iter().map(|part| part.value).sum::<f64>();
        Self { shown, rest: (!rest.is_empty()).then(|| (rest.len(), add(rest))), sum: add(parts) }
    }
}

/// What the sum of the parts is, in words.
pub fn closing(side: Side) -> &'static str {
    match side {
        Side::Head => "the score that ranks it among heads",
        Side::Tail => "the score that ranks it among tails",
    }
}

/// The parts of a triple's score where one end is asked for, the largest first. They add up to the score, up to rounding.
pub fn parts(engine: &Engine, query: &RankQuery, score: f32) -> Result<Vec<ScorePart>> {
    let mut parts = match engine.combined() {
        Some(combined) => of_combined(engine, combined, query)?,
        None => vec![model(f64::from(score))],
    };
    parts.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
    Ok(parts)
}

/// Rules that fire, by what they add to the score where ranking counts them; others as they were.
pub(super) fn by_share(mut fired: Vec<Fired>, parts: &[ScorePart], explainer: &Explainer) -> Vec<Fired> {
    let names = explainer.engine().data().names();
    let shares: FxHashMap<&str, f64> =
        parts.iter().filter_map(|part| Some((part.rule.as_deref()?, part.value))).collect();
    if !shares.is_empty() {
        let share = |fired: &Fired| {
            let formula = words::formula(&explainer.rules()[fired.rule].rule, names);
            shares.get(formula.as_str()).copied().unwrap_or(0.0)
        };
        fired.sort_by_cached_key(|fired| std::cmp::Reverse(ordered(share(fired))));
    }
    fired
}

/// A number that can be compared.
fn ordered(value: f64) -> i64 {
    (value * 1e9) as i64
}

fn of_combined(engine: &Engine, combined: &Combined, query: &RankQuery) -> Result<Vec<ScorePart>> {
    let (data, triple) = (engine.data(), query.triple);
    let fact = Fact {
        head: data.called_entity(triple.head),
        relation: data.called_relation(triple.relation),
        tail: data.called_entity(triple.tail),
    };
    let said = combined.parts(query)?.into_iter().filter(|part| part.value != 0.0);
    Ok(said
        .map(|Part { of, value }| match of {
            PartOf::Model => model(value),
            PartOf::Rule(place) => rule(engine, &engine.rules()[place], value),
            PartOf::Near => plain("evidence", value, "how near the two are in the graph (PageRank)".into()),
            PartOf::Evidence(part) => evidence(&part, query.side, &fact, value),
        })
        .collect())
}

fn plain(kind: &str, value: f64, words: String) -> ScorePart {
    let kind = kind.to_string();
    ScorePart { kind, value, weight: value, words, rule: None, confidence: None, feature: None, count: None }
}

fn model(value: f64) -> ScorePart {
    plain("model", value, "the embedding's own score".into())
}

fn rule(engine: &Engine, RuleRecord { rule, confidence, .. }: &RuleRecord, value: f64) -> ScorePart {
    let formula = Some(words::formula(rule, engine.data().names()));
    ScorePart {
        rule: formula,
        confidence: Some(confidence.get()),
        ..plain("rule", value, words::told(rule, engine.data()))
    }
}

fn evidence(part: &EvidencePart, side: Side, fact: &Fact, value: f64) -> ScorePart {
    let Fact { head, relation, tail } = fact;
    let (who, place, other) = match side {
        Side::Head => (head, "head", tail),
        Side::Tail => (tail, "tail", head),
    };
    let facts = |count: usize| if count == 1 { "1 fact".to_string() } else { format!("{count} facts") };
    let words = match (part.feature, part.count) {
        (Feature::Role, 0) => format!("no known fact has {who} as {place} of {relation}"),
        (Feature::Role, count) => format!("{who} already is the {place} of {} of {relation}", facts(count)),
        (Feature::Link, 0) => format!("{who} and {other} are the same"),
        (Feature::Link, count) => format!("{} already link {who} and {other}", facts(count)),
        (Feature::Degree, count) => format!("{who} is part of {} in all", facts(count)),
        (Feature::Type, _) => format!("{who} compared with other {place}s of {relation}, by the relations they have"),
    };
    ScorePart { feature: Some(part.feature), count: Some(part.count), ..plain("evidence", value, words) }
}
