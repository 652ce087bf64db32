//! What a report says, as plain data: names are the user's strings, shares lie in [0, 1], times are in seconds.
//!
//! Nothing here is computed and nothing is formatted, so the tree can be stored as JSON beside the page and rendered again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A part of the report that may not be there.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part<T> {
    /// It is there.
    Given(T),
    /// It is not there, and the page says why.
    Missing(String),
    /// The page does not mention it.
    #[default]
    LeftOut,
}

impl<T> Part<T> {
    /// What is there.
    pub fn given(&self) -> Option<&T> {
        match self {
            Part::Given(value) => Some(value),
            _ => None,
        }
    }
}

impl<T> From<T> for Part<T> {
    fn from(value: T) -> Self {
        Part::Given(value)
    }
}

/// Everything the page shows, in the order it shows it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// What the run is called: the name of the data, as a rule.
    pub title: String,
    /// The outcome in a few sentences of the caller's own. The page adds what the tables below say.
    pub summary: Vec<String>,
    /// What is in the data.
    pub data: Part<DataAudit>,
    /// The rules.
    pub rules: Part<RuleSet>,
    /// How training went, a curve per system.
    pub curves: Part<Vec<Curve>>,
    /// How good each system is on the test triples.
    pub metrics: Part<MetricsTable>,
    /// The same by relation.
    pub relations: Part<Vec<RelationRow>>,
    /// How far truth values can be trusted.
    pub calibration: Part<CalibrationCurve>,
    /// How far the model obeys the rules.
    pub consistency: Part<Consistency>,
    /// Some predicted facts with their reasons.
    pub predictions: Part<Vec<Prediction>>,
    /// Facts of the data that look wrong.
    pub clean_up: Part<CleanUp>,
    /// How to do it again.
    pub repeat: Part<Repeat>,
}

/// Which of the systems a row, a curve or a bar belongs to; it decides colours and what is compared with what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// The model with guidance.
    Guided,
    /// The same model without.
    Unguided,
    /// The rules without a model.
    RulesAlone,
    /// Anything else.
    Other,
}

/// What is in the data.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DataAudit {
    /// Where they were read from.
    pub source: String,
    /// Entities of all splits.
    pub entities: usize,
    /// Relations of all splits.
    pub relations: usize,
    /// Distinct triples of train, valid, test.
    pub splits: [usize; 3],
    /// What a reader should know before trusting the figures.
    pub findings: Vec<Finding>,
    /// The largest relations.
    pub largest: Vec<RelationSize>,
    /// Relations that mirror one another, strongest first.
    pub patterns: Vec<PatternRow>,
}

/// One thing found in the data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What it is, as a sentence.
    pub text: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// Good to know.
    Note,
    /// Figures below are to be read with it in mind.
    Warning,
}

/// A relation and its facts in train.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RelationSize {
    /// Its name.
    pub relation: String,
    /// Its facts.
    pub facts: usize,
    /// 1-1, 1-N, N-1 or N-N.
    pub class: String,
}

/// Two relations (or one with itself) that say the same of the same entities.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PatternRow {
    /// `symmetric`, `inverse` or `duplicate`.
    pub kind: String,
    /// The first relation.
    pub first: String,
    /// The second; the first again if symmetric.
    pub second: String,
    /// Share of the first's facts that take part.
    pub share_of_first: f64,
    /// Share of the second's.
    pub share_of_second: f64,
    /// How many do.
    pub support: usize,
}

/// The rules of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleSet {
    /// Where they come from: `mined from train`, a file.
    pub source: String,
    /// All of them.
    pub count: usize,
    /// With a body of one atom, of two, of more.
    pub by_length: [usize; 3],
    /// Groundings in train.
    pub groundings: Option<usize>,
    /// Distinct conclusions: the unlabeled triples.
    pub unlabeled: Option<usize>,
    /// How many of the conclusions are test triples.
    pub in_test: Option<usize>,
    /// The best of them.
    pub best: Vec<RuleRow>,
    /// How many rules have which confidence.
    pub confidences: Histogram,
}

/// One rule.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleRow {
    /// `if x has_capital y then y capital_of x`
    pub words: String,
    /// `has_capital(x,y) ⇒ capital_of(y,x)`
    pub formula: String,
    /// λ
    pub confidence: f64,
    /// Facts it predicts that hold.
    pub support: Option<u64>,
    /// Share of the head relation's facts it predicts.
    pub head_coverage: Option<f64>,
    /// Share of all its predictions that are known.
    pub standard: Option<f64>,
}

/// Counts between edges: bucket `i` holds what lies between edge `i` and the next, that edge left out but for the last bucket.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// One more than counts, rising.
    pub edges: Vec<f64>,
    /// How many.
    pub counts: Vec<u64>,
}

/// The validation of one system over its epochs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// What it is called: `ComplEx guided by 57 rules`.
    pub name: String,
    /// Which system it is.
    pub system: System,
    /// (epoch, validation MRR)
    pub valid_mrr: Vec<(u64, f64)>,
    /// (epoch, mean loss of labeled triples)
    pub loss: Vec<(u64, f64)>,
    /// The epoch of the kept model.
    pub best_epoch: Option<u64>,
}

/// All systems on the same test triples.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricsTable {
    /// Which triples were asked for: `test`.
    pub split: String,
    /// A row per system.
    pub rows: Vec<MetricsRow>,
    /// What papers report on these data: filled by [`published::of`](crate::published::of).
    pub published: Vec<Published>,
}

/// Filtered ranking metrics of one system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MetricsRow {
    /// `ComplEx guided by RUGE`, `rules alone`.
    pub name: String,
    /// Which system it is.
    pub system: System,
    /// The name papers use, lower case, to find their figures: `complex`, `ruge`.
    pub method: String,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// Standard deviation of the MRR over seeds, and their number, where several were run.
    pub spread: Option<(f64, usize)>,
    /// Median rank.
    pub median: f64,
    /// Mean rank.
    pub mean_rank: f64,
    /// Share of ranks ≤ N, by N.
    pub hits: BTreeMap<u32, f64>,
    /// Queries asked.
    pub queries: usize,
}

/// Figures of a paper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Published {
    /// The method, lower case.
    pub method: String,
    /// As its authors write it.
    pub name: String,
    /// Where the figures stand.
    pub source: String,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// Median rank.
    pub median: Option<f64>,
    /// Share of ranks ≤ N, by N, as far as published.
    pub hits: BTreeMap<u32, f64>,
}

/// One relation under both systems.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RelationRow {
    /// Its name.
    pub relation: String,
    /// Test queries with it.
    pub queries: usize,
    /// Rules that conclude it.
    pub rules: Option<usize>,
    /// MRR with guidance.
    pub guided: Option<f64>,
    /// MRR without.
    pub unguided: Option<f64>,
}

/// Predicted truth against what turned out true.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CalibrationCurve {
    /// What was asked, and what counts as wrong, in a sentence.
    pub about: String,
    /// Buckets by predicted truth, rising.
    pub bins: Vec<ReliabilityBin>,
    /// The same before calibration, if known.
    pub before: Vec<ReliabilityBin>,
    /// Mean squared distance between truth value and outcome.
    pub brier: Option<f64>,
    /// Expected calibration error over the buckets.
    pub ece: Option<f64>,
    /// The Brier score before calibration.
    pub brier_before: Option<f64>,
    /// The expected calibration error before calibration.
    pub ece_before: Option<f64>,
}

/// A bucket of predictions of like truth.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Their mean predicted truth.
    pub predicted: f64,
    /// The share of them that turned out true.
    pub observed: f64,
    /// How many they are.
    pub count: u64,
}

/// How far a model obeys its rules.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Consistency {
    /// Share of all groundings whose conclusion the guided model holds at least as true as the rule demands.
    pub guided: Option<f64>,
    /// The same without guidance.
    pub unguided: Option<f64>,
    /// By rule.
    pub rows: Vec<ConsistencyRow>,
}

/// One rule's share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConsistencyRow {
    /// The rule in words.
    pub words: String,
    /// λ
    pub confidence: f64,
    /// Its groundings.
    pub groundings: usize,
    /// Share of them obeyed with guidance.
    pub guided: Option<f64>,
    /// The same without.
    pub unguided: Option<f64>,
}

/// A triple by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Fact {
    /// Head.
    pub head: String,
    /// Relation.
    pub relation: String,
    /// Tail.
    pub tail: String,
    /// A premise that holds because the triple is *not* known.
    #[serde(default)]
    pub negated: bool,
}

impl Fact {
    /// A triple that is known or claimed.
    pub fn new(head: impl Into<String>, relation: impl Into<String>, tail: impl Into<String>) -> Self {
        Self { head: head.into(), relation: relation.into(), tail: tail.into(), negated: false }
    }
}

/// What is known about a predicted fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// In none of the splits.
    New,
    /// Held out for testing, so known to be true.
    InTest,
    /// Held out for validation.
    InValid,
    /// A training triple.
    InTrain,
}

/// A predicted fact and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Prediction {
    /// The fact.
    pub fact: Fact,
    /// What is known about it.
    pub standing: Standing,
    /// Its truth value, calibrated where there is a calibration.
    pub truth: Option<f64>,
    /// Its truth value under the unguided model.
    pub truth_unguided: Option<f64>,
    /// Its filtered rank among all tails.
    pub rank: Option<f64>,
    /// The same under the unguided model.
    pub rank_unguided: Option<f64>,
    /// The rules that conclude it.
    pub rules: Vec<Firing>,
    /// Without a rule: the most similar known facts.
    pub similar: Vec<Fact>,
    /// Anything else worth a sentence.
    pub note: Option<String>,
}

/// A rule that fires.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Firing {
    /// The rule in words.
    pub words: String,
    /// λ
    pub confidence: f64,
    /// How much it moved the soft label.
    pub push: Option<f64>,
    /// Its premises, grounded.
    pub premises: Vec<Fact>,
}

/// Training triples that neither the rules nor the model find plausible.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CleanUp {
    /// How they were chosen, in a sentence.
    pub about: String,
    /// The worst first.
    pub rows: Vec<Suspect>,
}

/// A training triple to look at.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Suspect {
    /// The triple.
    pub fact: Fact,
    /// Its truth value.
    pub truth: f64,
    /// What speaks against it.
    pub why: String,
}

/// What is needed to do it again.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Repeat {
    /// What to type.
    pub commands: Vec<String>,
    /// (name, TOML) of each spec, fully resolved.
    pub specs: Vec<(String, String)>,
    /// The program that made it.
    pub version: String,
    /// The seed of every draw.
    pub seed: u64,
    /// SHA-256 over names and triples.
    pub data_hash: String,
    /// (stage, seconds)
    pub stages: Vec<(String, f64)>,
    /// Anything else that was the case: threads, device, operating system.
    pub notes: Vec<(String, String)>,
}
