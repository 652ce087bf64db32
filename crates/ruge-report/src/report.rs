//! The contents of a report as plain data: names are as people read them, shares are in [0, 1], times are in seconds.
//!
//! Nothing here is computed or formatted, so the tree can be stored as JSON and rendered again.

use std::collections::BTreeMap;

use ruge::complete::Proposal;
use serde::{Deserialize, Serialize};

use crate::shown::Shown;

/// An optional part of the report.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part<T> {
    /// Present.
    Given(T),
    /// Absent, and the page says why.
    Missing(String),
    /// Not mentioned on the page.
    #[default]
    LeftOut,
}

impl<T> Part<T> {
    /// The part, if present.
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

/// The contents of the page, in order.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The title: usually the name of the data.
    pub title: String,
    /// The caller's summary in a few sentences. The page adds figures from the tables.
    pub summary: Vec<String>,
    /// The data audit.
    pub data: Part<DataAudit>,
    /// The rules.
    pub rules: Part<RuleSet>,
    /// Learning curves, one per system.
    pub curves: Part<Vec<Curve>>,
    /// Metrics of each system on the test triples.
    pub metrics: Part<MetricsTable>,
    /// The same by relation.
    pub relations: Part<Vec<RelationRow>>,
    /// Reliability of the truth values.
    pub calibration: Part<CalibrationCurve>,
    /// How far the model obeys the rules.
    pub consistency: Part<Consistency>,
    /// Which evidence counts beside model and rules.
    pub evidence: Part<EvidenceUse>,
    /// Proposed facts under the names that files have, and what their truth rests on.
    pub proposals: Part<Proposed>,
    /// How the names in them are shown.
    #[serde(default)]
    pub shown: Shown,
    /// Some predicted facts with their explanations.
    pub predictions: Part<Vec<Prediction>>,
    /// Suspicious facts in the data.
    pub clean_up: Part<CleanUp>,
    /// How to reproduce the run.
    pub repeat: Part<Repeat>,
}

/// Proposed facts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Proposed {
    /// The truest first.
    pub facts: Vec<Proposal>,
    /// How many were found.
    pub found: usize,
    /// The least truth that was looked for.
    pub least: f64,
    /// What was left out, and how to get it.
    pub cut: Vec<String>,
    /// What truth means and assumes.
    pub assumes: String,
    /// The completeness of relations, those with the most proposals first.
    pub completeness: Vec<CompletenessRow>,
}

/// The completeness of a relation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CompletenessRow {
    /// The relation.
    pub relation: String,
    /// Facts proposed for it.
    pub proposals: usize,
    /// The share of its true facts that are listed.
    pub share: f64,
    /// The ends of an interval that holds it nine times in ten.
    pub interval: [f64; 2],
    /// Sure candidates that it was estimated from.
    pub sure: usize,
    /// Whether the user gave it.
    pub given: bool,
}

/// The system of a row, curve or bar; it determines colours and comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// The guided model combined with rules and evidence at ranking time: the best model of a run that has one.
    Combined,
    /// The model with guidance.
    Guided,
    /// The same model without guidance.
    Unguided,
    /// The rules without a model.
    RulesAlone,
    /// Anything else.
    Other,
}

/// The data audit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DataAudit {
    /// Where the data were read from.
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

/// One finding about the data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Its severity.
    pub level: Level,
    /// The finding as a sentence.
    pub text: String,
}

/// Severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// No problem.
    Fine,
    /// Good to know.
    Note,
    /// Affects the figures below.
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

/// Two relations (or one with itself) that hold for the same entities.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PatternRow {
    /// `symmetric`, `inverse` or `duplicate`.
    pub kind: String,
    /// The first relation.
    pub first: String,
    /// The second; the first again if symmetric.
    pub second: String,
    /// Share of the first's facts in the pattern.
    pub share_of_first: f64,
    /// Share of the second's facts in the pattern.
    pub share_of_second: f64,
    /// Number of these facts.
    pub support: usize,
}

/// The rules of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleSet {
    /// Their origin: `mined from train`, or a file.
    pub source: String,
    /// Number of rules.
    pub count: usize,
    /// Number with a body of one atom, of two, of more.
    pub by_length: [usize; 3],
    /// Groundings in train.
    pub groundings: Option<usize>,
    /// Distinct conclusions: the unlabeled triples.
    pub unlabeled: Option<usize>,
    /// Number of conclusions that are test triples.
    pub in_test: Option<usize>,
    /// The best rules.
    pub best: Vec<RuleRow>,
    /// Distribution of the confidences.
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
    /// Known facts that it predicts.
    pub support: Option<u64>,
    /// Share of the head relation's facts it predicts.
    pub head_coverage: Option<f64>,
    /// Share of its predictions that are known.
    pub standard: Option<f64>,
    /// How many of its new conclusions are validation triples, and how many there are; nothing where validation is silent.
    #[serde(default)]
    pub valid: Option<[usize; 2]>,
}

/// Counts between edges: bucket `i` covers edge `i` up to, but excluding, the next; the last includes its upper edge.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// Edges, ascending; one more than counts.
    pub edges: Vec<f64>,
    /// Counts.
    pub counts: Vec<u64>,
}

/// The learning curve of one system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// Its name: `ComplEx guided by 57 rules`.
    pub name: String,
    /// The system.
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
    /// The evaluated split: `test`.
    pub split: String,
    /// One row per system.
    pub rows: Vec<MetricsRow>,
    /// Published figures for these data, from [`published::of`](crate::published::of).
    pub published: Vec<Published>,
}

/// Filtered ranking metrics of one system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MetricsRow {
    /// `ComplEx guided by RUGE`, `rules alone`.
    pub name: String,
    /// The system.
    pub system: System,
    /// The name used in papers, in lower case, to look up their figures: `complex`, `ruge`.
    pub method: String,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// Standard deviation of the MRR over seeds, and their number, if several were run.
    pub spread: Option<(f64, usize)>,
    /// Median rank.
    pub median: f64,
    /// Mean rank.
    pub mean_rank: f64,
    /// Share of ranks ≤ N, by N.
    pub hits: BTreeMap<u32, f64>,
    /// Number of queries.
    pub queries: usize,
}

/// Figures of a paper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Published {
    /// The method, lower case.
    pub method: String,
    /// The authors' spelling.
    pub name: String,
    /// The source of the figures.
    pub source: String,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// Median rank.
    pub median: Option<f64>,
    /// Share of ranks ≤ N, by N, as published.
    pub hits: BTreeMap<u32, f64>,
}

/// One relation with both systems.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RelationRow {
    /// Its name.
    pub relation: String,
    /// Test queries with it.
    pub queries: usize,
    /// Rules that conclude it.
    pub rules: Option<usize>,
    /// MRR of the best model: with rules and evidence at ranking time. Nothing where there is no such model.
    #[serde(default)]
    pub combined: Option<f64>,
    /// MRR with guidance.
    pub guided: Option<f64>,
    /// MRR without guidance.
    pub unguided: Option<f64>,
}

impl RelationRow {
    /// MRR of the best model there is.
    pub fn best(&self) -> Option<f64> {
        self.combined.or(self.guided)
    }
}

/// Evidence for and against candidates, as fitted on validation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EvidenceUse {
    /// The features that count, each with the question that it asks.
    pub features: Vec<(String, String)>,
    /// Numbers fitted on validation for the whole ranking.
    pub fitted: usize,
    /// What was tried.
    pub tried: Vec<TriedRow>,
    /// What counts where a relation and direction has no weights of its own.
    pub shared: Vec<Effect>,
    /// The largest relations.
    pub rows: Vec<EvidenceRow>,
}

/// A way of ranking that was tried on validation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TriedRow {
    /// In words.
    pub what: String,
    /// Validation MRR, on the half it was not fitted on.
    pub mrr: f64,
    /// Whether it was taken.
    pub taken: bool,
}

/// What evidence counts for one relation, where one end is asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EvidenceRow {
    /// The relation.
    pub relation: String,
    /// `head` or `tail`.
    pub asked: String,
    /// The strongest effects.
    pub effects: Vec<Effect>,
}

/// What a count adds to the score of a candidate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Effect {
    /// The count, in words.
    pub words: String,
    /// What it adds; below zero it speaks against the candidate.
    pub value: f64,
}

/// Predicted truth against observed outcomes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CalibrationCurve {
    /// What was predicted and what counts as false, in a sentence.
    pub about: String,
    /// Buckets by predicted truth, ascending.
    pub bins: Vec<ReliabilityBin>,
    /// The same before calibration, if known.
    pub before: Vec<ReliabilityBin>,
    /// Mean squared difference between truth value and outcome.
    pub brier: Option<f64>,
    /// Expected calibration error over the buckets.
    pub ece: Option<f64>,
    /// The Brier score before calibration.
    pub brier_before: Option<f64>,
    /// The expected calibration error before calibration.
    pub ece_before: Option<f64>,
}

/// A bucket of predictions with similar truth.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Their mean predicted truth.
    pub predicted: f64,
    /// The share that was true.
    pub observed: f64,
    /// Their number.
    pub count: u64,
}

/// How far a model obeys its rules.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Consistency {
    /// Share of groundings whose conclusion the guided model scores at least as true as the rule demands.
    pub guided: Option<f64>,
    /// The same without guidance.
    pub unguided: Option<f64>,
    /// By rule.
    pub rows: Vec<ConsistencyRow>,
}

/// Consistency of one rule.
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
    /// The same without guidance.
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
    /// Whether it is a negated premise: it holds because the triple is *not* known.
    #[serde(default)]
    pub negated: bool,
}

impl Fact {
    /// A known or predicted triple.
    pub fn new(head: impl Into<String>, relation: impl Into<String>, tail: impl Into<String>) -> Self {
        Self { head: head.into(), relation: relation.into(), tail: tail.into(), negated: false }
    }
}

/// Whether a predicted fact is known.
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

/// A predicted fact with its explanation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Prediction {
    /// The fact.
    pub fact: Fact,
    /// Whether it is known.
    pub standing: Standing,
    /// The chance that it is true; of a known fact, the chance that it would have if it were not listed.
    pub truth: Option<f64>,
    /// The same under the unguided model.
    pub truth_unguided: Option<f64>,
    /// Its filtered rank among all tails.
    pub rank: Option<f64>,
    /// The same under the unguided model.
    pub rank_unguided: Option<f64>,
    /// The rules that conclude it.
    pub rules: Vec<Firing>,
    /// The most similar known facts, if no rule fires.
    pub similar: Vec<Fact>,
    /// What speaks against it: constraints and habits that it would break.
    #[serde(default)]
    pub against: Vec<String>,
    /// What the score that ranks it is made of, the largest part first.
    #[serde(default)]
    pub parts: Vec<Effect>,
    /// What the parts add up to, in words.
    #[serde(default)]
    pub closing: String,
    /// A note, as a sentence.
    pub note: Option<String>,
}

/// A rule that fires.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Firing {
    /// The rule in words.
    pub words: String,
    /// λ
    pub confidence: f64,
    /// Its effect on the soft label.
    pub push: Option<f64>,
    /// Its premises, grounded.
    pub premises: Vec<Fact>,
}

/// Training triples that neither the rules nor the model find plausible.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CleanUp {
    /// How they were selected, in a sentence.
    pub about: String,
    /// Worst first.
    pub rows: Vec<Suspect>,
}

/// A suspicious training triple.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Suspect {
    /// The triple.
    pub fact: Fact,
    /// The chance that it would have if it were not listed.
    pub truth: f64,
    /// The evidence against it.
    pub why: String,
}

/// What is needed to reproduce the run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Repeat {
    /// The commands.
    pub commands: Vec<String>,
    /// (name, TOML) of each resolved spec.
    pub specs: Vec<(String, String)>,
    /// The program version.
    pub version: String,
    /// The seed of every draw.
    pub seed: u64,
    /// SHA-256 over names and triples.
    pub data_hash: String,
    /// (stage, seconds)
    pub stages: Vec<(String, f64)>,
    /// Other conditions: threads, device, operating system.
    pub notes: Vec<(String, String)>,
}
