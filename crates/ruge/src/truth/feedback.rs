//! Facts judged by a person correct truths: log-odds are moved along a line, and by relation.
//!
//! With n judgements, logit p' = a·logit p + b + bᵣ. All three are held to (1, 0, 0) by normal priors, so that a few judgements move
//! truths a little and fifty move them to where they should be. Without judgements nothing changes.

use std::collections::BTreeMap;
use std::path::Path;

use ruge_kg::{Dataset, RelationId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::numbers::{line, sigmoid};
use super::{Judgement, MOST};
use crate::engine::Engine;
use crate::error::{Result, RugeError};
use crate::names;
use ruge_kg::Triple;

/// How firmly slope and intercept are held.
const PRIOR: [f64; 2] = [6.0, 0.5];
/// How firmly the intercept of a relation is held.
const OWN: f64 = 1.0;

/// What judgements change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Feedback {
    line: [f64; 2],
    relations: BTreeMap<u32, f64>,
    /// Judged facts: they are as true as judged.
    #[serde(skip)]
    judged: FxHashMap<Triple, bool>,
}

impl Feedback {
    /// From judgements and the truths that the judged facts had.
    pub fn of(judgements: &[Judgement], truths: &[f64]) -> Self {
        let odds = |truth: &f64| {
            let truth = truth.clamp(1e-4, 1.0 - 1e-4);
            (truth / (1.0 - truth)).ln()
        };
        let samples: Vec<(f64, bool)> =
            truths.iter().map(odds).zip(judgements.iter().map(|judgement| judgement.holds)).collect();
        let shared = if samples.is_empty() { [1.0, 0.0] } else { line(&samples, PRIOR) };
        let mut by_relation: BTreeMap<u32, Vec<(f64, bool)>> = BTreeMap::new();
        for (judgement, &(odds, holds)) in judgements.iter().zip(&samples) {
            let moved = shared[0] * odds + shared[1];
            by_relation.entry(judgement.triple.relation.0).or_default().push((moved, holds));
        }
        // A slope of its own would need many judgements of one relation.
        let own = |samples: &[(f64, bool)]| line(samples, [1e9, OWN])[1];
        let relations = by_relation.iter().map(|(&relation, samples)| (relation, own(samples))).collect();
        let judged = judgements.iter().map(|judgement| (judgement.triple, judgement.holds)).collect();
        Self { line: shared, relations, judged }
    }

    /// Whether a person has judged the fact, and how.
    pub fn judged(&self, triple: Triple) -> Option<bool> {
        self.judged.get(&triple).copied()
    }

    /// Facts judged.
    pub fn len(&self) -> usize {
        self.judged.len()
    }

    /// Whether nothing was judged.
    pub fn is_empty(&self) -> bool {
        self.judged.is_empty()
    }

    /// The corrected truth.
    pub fn correct(&self, triple: Triple, truth: f64) -> f64 {
        if let Some(holds) = self.judged(triple) {
            return f64::from(u8::from(holds));
        }
        if truth <= 0.0 || self.is_empty() {
            return truth;
        }
        let truth = truth.clamp(1e-6, MOST);
        let odds = self.line[0] * (truth / (1.0 - truth)).ln() + self.line[1] + self.own(triple.relation);
        sigmoid(odds).min(MOST)
    }

    fn own(&self, relation: RelationId) -> f64 {
        self.relations.get(&relation.0).copied().unwrap_or(0.0)
    }
}

/// Reads judgements: head, relation, tail and `true` or `false`, separated by tabs. A later line about the same fact counts.
///
/// A name with a tab or an end of line in it is written with `\t`, `\n` or `\r`, a backslash twice, and `\#` begins one that would else
/// be a remark. A name that is known only as it stands is taken so.
pub fn read(path: &Path, engine: &Engine) -> Result<Vec<Judgement>> {
    read_about(path, engine.data())
}

/// The same by the names of a graph.
pub fn read_about(path: &Path, data: &Dataset) -> Result<Vec<Judgement>> {
    let text = std::fs::read_to_string(path).map_err(RugeError::io(path, "read"))?;
    let mut found: Vec<Judgement> = Vec::new();
    let mut places: FxHashMap<Triple, usize> = FxHashMap::default();
    for (line, text) in text.lines().enumerate() {
        let bad = |reason: String| RugeError::Facts { path: path.to_path_buf(), line: line as u64 + 1, reason };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_end_matches('\r');
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = text.split('\t').collect();
        let &[head, relation, tail, verdict, ..] = fields.as_slice() else {
            return Err(bad(format!(
                "{} fields instead of 4; write head, relation, tail and true or false, separated by tabs",
                fields.len()
            )));
        };
        let holds = match verdict.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => true,
            "false" | "0" | "no" => false,
            // A line of column names.
            "label" | "holds" | "verdict" | "judgement" if line == 0 => continue,
            other => return Err(bad(format!("{other:?} is neither true nor false"))),
        };
        let triple = Triple {
            head: named(head, |name| names::entity(data, name)).map_err(|error| bad(error.to_string()))?,
            relation: named(relation, |name| names::relation(data, name)).map_err(|error| bad(error.to_string()))?,
            tail: named(tail, |name| names::entity(data, name)).map_err(|error| bad(error.to_string()))?,
        };
        match places.get(&triple) {
            Some(&at) => found[at] = Judgement { triple, holds },
            None => {
                places.insert(triple, found.len());
                found.push(Judgement { triple, holds });
            }
        }
    }
    Ok(found)
}

/// What a field names: without its escapes, or as it stands.
fn named<T>(field: &str, find: impl Fn(&str) -> Result<T>) -> Result<T> {
    if field.contains('\\')
        && let Ok(found) = find(&without_escapes(field))
    {
        return Ok(found);
    }
    find(field)
}

fn without_escapes(field: &str) -> String {
    let (mut name, mut characters) = (String::with_capacity(field.len()), field.chars());
    while let Some(character) = characters.next() {
        name.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    name
}
