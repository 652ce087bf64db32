//! Truth: the estimated chance that a fact which is not listed is true.
//!
//! *One number, one meaning.* Truth is a function of the triple alone: its scores in both directions, the rules that conclude
//! it, and how many values its two ends already have for the relation ([`observe`]). `predict`, `explain`, `complete` and `run`
//! all ask [`Engine::truths`](crate::Engine::truths). A listed fact has no truth: it is known.
//!
//! *How it is learned.* Candidates that are not in train are labelled by the validation triples. A fit ([`fit`](mod@fit)) gives the
//! chance q that a candidate is one of them. True candidates are more than those: test triples, and facts that nobody listed. If
//! C is the *completeness*, the share of true facts that are listed, and N facts are listed, V of them in valid and T in test,
//! then N (1 − C) / C true facts are missing, and a share c = V / (V + T + N (1 − C) / C) of the true candidates is in valid. So a
//! candidate is true with chance q / c (Elkan and Noto, KDD 2008). Given that it is in neither valid nor test, that is
//!
//! p = q (1/c − a) / (1 − q a),  a = 1 + T / V.
//!
//! *Completeness* is estimated where q levels off: the surest candidates are all true, so a share c of them is in valid. This holds
//! if held-out and missing facts are alike, and if some candidates are sure. If none are, C is too low and truths are too high. A
//! user who knows better says so ([`Completeness`]); nothing is trained again. Facts judged by a person correct the number, too
//! ([`feedback`]).

use std::collections::BTreeMap;

use ruge_kg::{Control, Dataset, Ranker, RelationId, Triple};
use ruge_rules::RuleRecord;
use ruge_rules::rank::evidence::bin;
use ruge_rules::rank::{RuleScores, SMOOTHING};
use ruge_rules::words::is_sayable;
use serde::{Deserialize, Serialize};

pub mod completeness;
pub mod feedback;
pub mod fit;
mod numbers;
pub mod observe;
pub mod told;

use crate::error::Result;
pub use completeness::{Completeness, CompletenessOf, Estimate};
use numbers::{dot, interpolate, sigmoid};
pub use observe::{Observed, Witness};

/// Features of a candidate, the constant included.
pub const FEATURES: usize = 13;
/// Bins of the number of other values: 0, 1, 2, 3–4, 5–8, 9–16, more.
pub const ROLES: usize = 7;
/// Nothing unlisted is called more certain.
pub const MOST: f64 = 0.99;
/// How far an index of a model that has seen more facts is moved to where it was before: of what more facts make surer, a little is truer.
/// Set on six small graphs with facts removed; docs/prediction.md has the figures.
const CARRIED: f64 = 0.8;
/// An estimate says at least that half is listed: a model that is sure of nothing is no sign of many missing facts.
const LEAST_COMPLETE: f64 = 0.5;
/// An estimate says at most that so much is listed: with nothing missing, there would be nothing to propose.
const MOST_COMPLETE: f64 = 0.995;

/// The fitted truth of a model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Truth {
    /// Candidates it was fitted on.
    pub candidates: usize,
    /// How many of them are validation triples.
    pub facts: usize,
    /// Listed facts: in train, in valid, in test.
    pub listed: [usize; 3],
    /// Estimated completeness, by which truth is reckoned unless a user says otherwise.
    pub completeness: Estimate,
    /// Weights of the features in standard units, the constant first.
    weights: [f64; FEATURES],
    /// Mean and deviation of each feature.
    units: [[f64; 2]; FEATURES],
    /// By relation id.
    relations: BTreeMap<u32, OfRelation>,
    /// Knots (index, q), ascending; empty if there were too few facts, and q is the logistic function.
    knots: Vec<[f64; 2]>,
    /// Where the indices of another witness lie among those it was fitted on, ascending; empty for the same witness.
    #[serde(default)]
    shift: Vec<[f64; 2]>,
}

/// What differs by relation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct OfRelation {
    /// Slope and intercept over the shared index.
    line: [f64; 2],
    /// Mean score of candidates, as tails and as heads.
    means: [f64; 2],
    /// Logarithm of listed facts over candidates.
    density: f64,
    /// Per end and bin of other values: how much likelier it is among facts than among candidates, as a logarithm.
    roles: [[f64; ROLES]; 2],
    /// Estimated share of true candidates that are in valid.
    visible: f64,
    /// Its standard error.
    #[serde(default = "completeness::unknown")]
    error: f64,
    /// Candidates of the relation among the surest, by which it was estimated.
    #[serde(default)]
    sure: usize,
}

impl Truth {
    /// The truth of a triple that is not listed, by what is seen of it.
    pub fn of(&self, relation: RelationId, seen: &Observed, given: Option<&Completeness>) -> f64 {
        let chance = self.chance(relation, seen);
        let visible = match given.and_then(|given| given.of(relation)) {
            Some(share) => self.visible(share),
            None => self.relations.get(&relation.0).map_or(self.visible(self.completeness.share), |own| own.visible),
        };
        self.unlisted(chance, visible)
    }

    /// The same without what differs from the estimate of all relations: used to order candidates of equal truth.
    pub fn index(&self, relation: RelationId, seen: &Observed) -> f64 {
        let row = self.row(relation, seen);
        let [slope, intercept] = self.relations.get(&relation.0).map_or([1.0, 0.0], |own| own.line);
        slope * dot(&self.weights, &row) + intercept
    }

    /// q: the chance that a candidate which is not in train is a validation triple.
    fn chance(&self, relation: RelationId, seen: &Observed) -> f64 {
        let index = self.index(relation, seen);
        let index = match self.shift.is_empty() {
            true => index,
            false => index + CARRIED * (interpolate(&self.shift, index) - index),
        };
        if self.knots.is_empty() { sigmoid(index) } else { interpolate(&self.knots, index) }
    }

    /// c: the share of true candidates that are in valid.
    fn visible(&self, completeness: f64) -> f64 {
        let [train, valid, test] = self.listed.map(|count| count as f64);
        let missing = (train + valid + test) * (1.0 - completeness) / completeness;
        valid / (valid + test + missing).max(f64::MIN_POSITIVE)
    }

    /// The completeness that goes with c.
    fn completeness_of(&self, visible: f64) -> f64 {
        let [train, valid, test] = self.listed.map(|count| count as f64);
        let missing = (valid / visible - valid - test).max(0.0);
        let all = train + valid + test;
        (all / (all + missing)).min(MOST_COMPLETE)
    }

    fn unlisted(&self, chance: f64, visible: f64) -> f64 {
        let held_out = 1.0 + self.listed[2] as f64 / (self.listed[1] as f64).max(1.0);
        let chance = chance.min(visible);
        let rest = 1.0 - chance * held_out;
        if rest <= 0.0 {
            return 0.0;
        }
        (chance * (1.0 / visible - held_out) / rest).clamp(0.0, MOST)
    }

    /// The chance that a candidate which is in neither train nor valid is a test triple: what can be checked without a person.
    pub fn in_test(&self, relation: RelationId, seen: &Observed) -> f64 {
        let chance = self.chance(relation, seen);
        let ratio = self.listed[2] as f64 / (self.listed[1] as f64).max(1.0);
        if chance >= 1.0 { 1.0 } else { (chance * ratio / (1.0 - chance)).clamp(0.0, 1.0) }
    }

    /// The features of a triple in standard units.
    fn row(&self, relation: RelationId, seen: &Observed) -> [f64; FEATURES] {
        let mut row = features(self.relations.get(&relation.0), seen);
        for (value, [mean, deviation]) in row.iter_mut().zip(self.units) {
            *value = (*value - mean) / deviation;
        }
        row
    }

    /// What truth assumes, in a sentence.
    pub fn assumes(&self, given: Option<&Completeness>) -> String {
        // Facts are proposed, so that not all can be listed.
        let percent = |share: f64| match (100.0 * share).round() {
            100.0.. if share < 1.0 => "more than 99".to_string(),
            rounded => format!("{rounded:.0}"),
        };
        let set = given.filter(|given| **given != Completeness::default());
        let share = match set {
            Some(Completeness { all: Some(share), relations }) => {
                let own = if relations.is_empty() {
                    String::new()
                } else {
                    let differ = if relations.len() == 1 { "relation differs" } else { "relations differ" };
                    format!(" ({} {differ})", relations.len())
                };
                format!("{} % of the true facts are listed{own}, as given", percent(*share))
            }
            Some(given) => {
                let relations = ruge_kg::visible::plural(given.relations.len(), "relation");
                format!("as many facts are listed as given for {} {relations}", given.relations.len())
            }
            None => {
                let Estimate { share, low, high } = self.completeness;
                let range = format!("{:.0} to {:.0}", 100.0 * low, 100.0 * high);
                format!(
                    "{} % of the true facts are listed (estimated: {range} %; it differs by relation)",
                    percent(share)
                )
            }
        };
        format!(
            "Truth is the estimated chance that a fact which is not listed is true. It assumes that {share}, and that missing facts \
             are like those held out for validation."
        )
    }
}

/// What is reckoned with, before standard units.
fn features(own: Option<&OfRelation>, seen: &Observed) -> [f64; FEATURES] {
    let by_rule = seen.best_rule > 0.0;
    let confidence = f64::from(seen.best_rule).clamp(0.01, 0.99);
    let [tail, head] = seen.scores.map(f64::from);
    let means = own.map_or([tail, head], |own| own.means);
    let role = |end: usize| own.map_or(0.0, |own| own.roles[end][bin(seen.others[end] as usize, ROLES)]);
    [
        1.0,
        tail,
        head,
        means[0],
        means[1],
        f64::from(u8::from(by_rule)),
        if by_rule { (confidence / (1.0 - confidence)).ln() } else { 0.0 },
        f64::from(seen.rule_sum).ln_1p(),
        f64::from(seen.learned_sum).max(0.0).ln_1p(),
        f64::from(seen.learned_sum),
        role(0),
        role(1),
        own.map_or(0.0, |own| own.density),
    ]
}

/// Rules of a model that ranks without them, ready to be asked: as they would rank.
pub(crate) fn rule_scores(data: &Dataset, rules: &[RuleRecord]) -> RuleScores {
    let known: Vec<RuleRecord> =
        rules.iter().filter(|record| is_sayable(&record.rule, data.names())).cloned().collect();
    RuleScores::new(data.shared_graph(), &known, SMOOTHING, true)
}

/// Fits the truth of a model that ranks without rules.
pub(crate) fn of_model(
    ranker: &dyn Ranker,
    rules: &[RuleRecord],
    data: &Dataset,
    seed: u64,
    control: &Control<'_>,
) -> Result<Option<Truth>> {
    let rules = rule_scores(data, rules);
    Truth::fit(
        &Witness { ranker, model: Some(ranker), rules: &rules, graph: data.graph(), listed: None },
        data,
        seed,
        control,
    )
}

/// A fact judged by a person.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// The fact.
    pub triple: Triple,
    /// Whether it is true.
    pub holds: bool,
}
