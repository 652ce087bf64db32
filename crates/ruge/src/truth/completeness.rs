//! Completeness: the share of true facts that are listed, of all relations and of each; estimated, or as a user says.
//!
//! What is estimated is c, the share of true candidates that are in valid, from the surest candidates (see
//! [`fit`](mod@super::fit)). The completeness goes with it. That of a relation is drawn towards that of all: it counts its own sure
//! candidates, and a number of imagined ones that are as the others are. Its interval has both uncertainties in it.

use std::collections::BTreeMap;
use std::path::Path;

use ruge_kg::{Dataset, RelationId};
use serde::{Deserialize, Serialize};

use super::Truth;
use crate::error::{Result, RugeError};
use crate::names;

/// Standard errors to both sides that hold nine in ten.
pub(super) const NINE_IN_TEN: f64 = 1.645;

/// What a completeness is estimated to be.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// The share of true facts that are listed.
    pub share: f64,
    /// The ends of an interval that holds it nine times in ten, by the counts alone.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The completeness of one relation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompletenessOf {
    /// The relation.
    pub relation: String,
    /// The share of its true facts that are listed, and an interval. As given by a user, it has none.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Candidates of the relation among the surest, by which it was estimated; with none of them, it is that of all relations.
    pub sure: usize,
    /// Whether a user gave it.
    pub given: bool,
}

/// Of a file that has none.
pub(super) fn unknown() -> f64 {
    0.5
}

/// The share of true facts that are listed, as a user says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Completeness {
    /// Of all relations; none leaves the estimate.
    pub all: Option<f64>,
    /// Of single relations.
    pub relations: BTreeMap<RelationId, f64>,
}

impl Completeness {
    pub(super) fn of(&self, relation: RelationId) -> Option<f64> {
        self.relations.get(&relation).copied().or(self.all)
    }
}

impl Completeness {
    /// Reads a file: a relation, a tab and its share per line; `*` stands for all others.
    pub fn read(path: &Path, data: &Dataset) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(RugeError::io(path, "read"))?;
        let mut found = Self::default();
        for (at, line) in text.lines().enumerate() {
            let bad = |reason: String| RugeError::Facts { path: path.to_path_buf(), line: at as u64 + 1, reason };
            let line = line.strip_prefix('\u{feff}').unwrap_or(line).trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, share)) = line.rsplit_once('\t').and_then(|(name, text)| Some((name, share(text)?))) else {
                return Err(bad(
                    "write a relation, a tab, and a share above 0 and below 1; * stands for all relations".into(),
                ));
            };
            match name {
                "*" => found.all = Some(share),
                name => {
                    let relation = names::relation(data, name).map_err(|error| bad(error.to_string()))?;
                    found.relations.insert(relation, share);
                }
            }
        }
        Ok(found)
    }
}

/// A share of the true facts: above 0 and below 1.
pub fn share(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0)
}

impl Truth {
    /// The completeness of a relation: as given, or as estimated.
    pub fn completeness_of_relation(
        &self,
        relation: RelationId,
        given: Option<&Completeness>,
    ) -> (Estimate, usize, bool) {
        let own = self.relations.get(&relation.0);
        let sure = own.map_or(0, |own| own.sure);
        if let Some(share) = given.and_then(|given| given.of(relation)) {
            return (Estimate { share, low: share, high: share }, sure, true);
        }
        let estimate = own.map_or(self.completeness, |own| {
            let [least, most] = self.bounds();
            let of = |visible: f64| self.completeness_of(visible.clamp(least, most));
            let margin = NINE_IN_TEN * own.error;
            Estimate { share: of(own.visible), low: of(own.visible - margin), high: of(own.visible + margin) }
        });
        (estimate, sure, false)
    }
}
