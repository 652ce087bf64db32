//! Rules as JSON: one object with a list of rules, full names, and counts if known.
//!
//! ```json
//! {"format": "ruge-rules", "version": 1, "comments": [], "rules": [
//! {"rule": "capital_of(x,y) => has_capital(y,x)", "confidence": 0.9,
//!  "premise": [{"relation": "capital_of", "subject": {"variable": "y"}, "object": {"variable": "x"}}],
//!  "conclusion": {"relation": "has_capital", "subject": {"variable": "x"}, "object": {"variable": "y"}},
//!  "stated": {"pca": 0.9}, "counts": null}
//! ]}
//! ```
//!
//! `rule` is for people; readers use `premise`, `negated` (absent if empty) and `conclusion`. A bare list is accepted
//! too.

use std::path::Path;

use ruge_kg::Names;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::raw::{Fault, RawAtom, RawRecord, RawRule, RawTerm};
use super::{RuleRecord, Stated, text};
use crate::atom::{Atom, Term};
use crate::error::RuleError;
use crate::measure::Counts;

#[derive(Serialize, Deserialize)]
struct JsonRule {
    #[serde(default)]
    rule: String,
    #[serde(default = "hard")]
    confidence: f64,
    premise: Vec<JsonAtom>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    negated: Vec<JsonAtom>,
    conclusion: JsonAtom,
    #[serde(default)]
    stated: Stated,
    #[serde(default)]
    counts: Option<Counts>,
}

fn hard() -> f64 {
    1.0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonAtom {
    relation: String,
    subject: JsonTerm,
    object: JsonTerm,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JsonTerm {
    Variable(String),
    Entity(String),
}

/// The comments and the elements of the list.
pub(crate) fn elements(bytes: &[u8], path: &Path) -> Result<(Vec<String>, Vec<Value>), RuleError> {
    let wrong = |line, column, message: String| RuleError::Json { path: path.to_path_buf(), line, column, message };
    let none = || wrong(1, 1, "neither a list of rules nor an object with a list `rules`".into());
    match serde_json::from_slice(bytes).map_err(|error| wrong(error.line(), error.column(), error.to_string()))? {
        Value::Array(rules) => Ok((vec![], rules)),
        Value::Object(mut object) => {
            let comments = object.remove("comments").and_then(|value| serde_json::from_value(value).ok());
            match object.remove("rules") {
                Some(Value::Array(rules)) => Ok((comments.unwrap_or_default(), rules)),
                _ => Err(none()),
            }
        }
        _ => Err(none()),
    }
}

pub(crate) fn element(value: Value) -> Result<RawRecord<'static>, Fault> {
    let JsonRule { confidence, premise, negated, conclusion, stated, counts, .. } =
        serde_json::from_value(value).map_err(|error| Fault::new("not a rule", error.to_string()))?;
    let term = |term: JsonTerm| match term {
        JsonTerm::Variable(name) => RawTerm::Variable(name.into()),
        JsonTerm::Entity(name) => RawTerm::Constant(name.into()),
    };
    let atom = |atom: JsonAtom| RawAtom {
        relation: atom.relation.into(),
        subject: term(atom.subject),
        object: term(atom.object),
    };
    let rule = RawRule {
        premise: premise.into_iter().map(atom).collect(),
        negated: negated.into_iter().map(atom).collect(),
        conclusion: atom(conclusion),
    };
    Ok(RawRecord { rule, confidence: Some(confidence), stated, counts })
}

/// The whole file, one rule per line.
pub(crate) fn write(rules: &[RuleRecord], names: &Names, comments: &[String]) -> Result<String, serde_json::Error> {
    let mut out = format!(
        "{{\"format\": \"ruge-rules\", \"version\": 1, \"comments\": {}, \"rules\": [\n",
        serde_json::to_string(comments)?
    );
    for (at, record) in rules.iter().enumerate() {
        out.push_str(&serde_json::to_string(&json(record, names))?);
        out.push_str(if at + 1 < rules.len() { ",\n" } else { "\n" });
    }
    out.push_str("]}\n");
    Ok(out)
}

fn json(record: &RuleRecord, names: &Names) -> JsonRule {
    let term = |term: Term| match term {
        Term::Variable(variable) => JsonTerm::Variable(variable.name()),
        Term::Constant(entity) => JsonTerm::Entity(names.entities.name(entity).to_string()),
    };
    let atom = |atom: &Atom| JsonAtom {
        relation: names.relations.name(atom.relation).to_string(),
        subject: term(atom.subject),
        object: term(atom.object),
    };
    JsonRule {
        rule: text::show(&record.rule, names, &text::PLAIN),
        confidence: record.confidence.get(),
        premise: record.rule.premise.iter().map(atom).collect(),
        negated: record.rule.negated.iter().map(atom).collect(),
        conclusion: atom(&record.rule.conclusion),
        stated: record.stated,
        counts: record.counts,
    }
}
