//! What the stages found, as they leave it in the run folder: read back by the stages after them, by reports and by people.

use ruge_kg::Side;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ruge_embed::{Evaluation, Metrics};
use ruge_kg::Names;
use ruge_rules::rank::validated::Validated;
use ruge_rules::{RuleFormat, RuleReadOptions, RuleRecord, read_rules};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ledger::{Ledger, write_file};
use super::{Deployed, Job, Proposals, Sample, Stage};
use ruge::Engine;
use ruge::calibrate::{Reliability, Source};
use ruge::consistency::{Consistency, Doubtful};
use ruge::error::{Result, RugeError};

/// The second file of the stage that predicts.
pub(super) const PROPOSALS: &str = "proposals.json";

/// `check.json`: what is in the data.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// Entities of all splits.
    pub entities: usize,
    /// Relations of all splits.
    pub relations: usize,
    /// Distinct triples of train, valid and test.
    pub splits: [usize; 3],
    /// Held-out triples that also stand in train.
    pub overlap: usize,
    /// Held-out triples with an entity or a relation that train lacks.
    pub unseen: usize,
    /// Share of test that a strong pattern reads off train; nothing without test.
    pub copyable: Option<f64>,
    /// The largest relations, with their facts in train.
    pub largest: Vec<(String, usize)>,
}

/// `ground.json`: where the rules fire.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GroundingCounts {
    /// Rules that are grounded.
    pub rules: usize,
    /// Their groundings.
    pub groundings: usize,
    /// Distinct conclusions.
    pub unlabeled: usize,
    /// Of these, valid triples.
    pub in_valid: usize,
    /// Of these, test triples.
    pub in_test: usize,
    /// Groundings of each rule, in the order of `rules.tsv`.
    pub of_rule: Vec<usize>,
    /// What validation says of each rule; empty without validation triples.
    #[serde(default)]
    pub validated: Vec<Validated>,
}

/// How training went, by the model's own words.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Learned {
    /// Epochs done.
    pub epochs: u64,
    /// The epoch of the kept model.
    pub best_epoch: u64,
    /// Its validation MRR, if there was a validation.
    pub valid_mrr: Option<f64>,
}

impl Learned {
    /// As a model tells it.
    pub fn of(engine: &Engine) -> Self {
        let number = |key: &str| engine.notes().get(key).and_then(|text| text.parse().ok());
        Self {
            epochs: number("epochs").unwrap_or(0),
            best_epoch: number("best_epoch").unwrap_or(0),
            valid_mrr: engine.notes().get("valid_mrr").and_then(|text| text.parse().ok()),
        }
    }
}

/// The figures of one model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SystemResult {
    /// How it was trained.
    pub training: Learned,
    /// Filtered, both sides.
    pub filtered: Metrics,
    /// With known facts among the candidates.
    pub raw: Metrics,
    /// Filtered, by side.
    pub by_side: BTreeMap<Side, Metrics>,
    /// The mean over relations.
    pub macro_average: Metrics,
    /// Filtered, by the name of the relation.
    pub by_relation: BTreeMap<String, Metrics>,
    /// SHA-256 over all filtered ranks: two runs that agree here agree everywhere.
    pub ranks_sha256: String,
}

impl SystemResult {
    /// An evaluation with the user's own names.
    pub fn new(training: Learned, evaluation: Evaluation, names: &Names, ranks_sha256: String) -> Self {
        let by_relation = evaluation
            .by_relation
            .into_iter()
            .map(|(id, metrics)| (names.relations.name(id).to_string(), metrics))
            .collect();
        Self {
            training,
            filtered: evaluation.pooled,
            raw: evaluation.raw,
            by_side: evaluation.by_side,
            macro_average: evaluation.macro_average,
            by_relation,
            ranks_sha256,
        }
    }
}

/// `evaluation.json`: with and without guidance, and the rules alone, on the same queries.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// The part asked for: `test`, or `valid` where there is no test; nothing where there is neither.
    pub split: Option<String>,
    /// Without guidance.
    pub unguided: Option<SystemResult>,
    /// With it.
    pub guided: Option<SystemResult>,
    /// The rules that guided, without a model: the largest confidence decides.
    pub rules_only: Option<Metrics>,
    /// The guided model with rules beside it at ranking time, where they help on validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_rules: Option<WithRules>,
}

impl Comparison {
    /// Rules without a model: those for ranking where there are some, or those that guided.
    pub fn strongest_rules(&self) -> Option<&Metrics> {
        self.with_rules.as_ref().and_then(|found| found.alone.as_ref()).or(self.rules_only.as_ref())
    }
}

/// A model with rules beside it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WithRules {
    /// How many rules.
    pub rules: usize,
    /// The figures.
    pub result: SystemResult,
    /// The same rules without the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Metrics>,
}

/// `calibration.json`: how far truth values can be believed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Trust {
    /// What the guided model's calibration was learnt from.
    pub source: Source,
    /// The part it was tried on; nothing where no held-out triples are left to try it on.
    pub split: Option<String>,
    /// The guided model's truths.
    pub guided: Option<Reliability>,
    /// The unguided model's.
    pub unguided: Option<Reliability>,
    /// The guided model's φ before calibration.
    pub before: Option<Reliability>,
}

/// `consistency.json`: how far the models obey the rules, and what in train neither rules nor model believe.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Obedience {
    /// Rule by rule; nothing without rules.
    pub consistency: Option<Consistency>,
    /// Training triples to look at, the least believed first.
    pub doubtful: Vec<Doubtful>,
    /// How many there are in all.
    pub doubtful_count: usize,
}

/// All of it, as far as it is there.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Where its files are.
    pub out: PathBuf,
    /// The run folder, for people.
    pub home: PathBuf,
    /// Where the data were read from.
    pub source: String,
    /// The resolved spec, as TOML.
    pub spec: String,
    /// What is finished, and how long it took.
    pub ledger: Ledger,
    /// What is in the data.
    pub checked: Option<Checked>,
    /// The rules.
    pub rules: Vec<RuleRecord>,
    /// Where they fire.
    pub grounded: Option<GroundingCounts>,
    /// How good the models are.
    pub comparison: Option<Comparison>,
    /// How far truths can be believed.
    pub trust: Option<Trust>,
    /// How far rules are obeyed.
    pub obedience: Option<Obedience>,
    /// The model to deploy.
    pub deployed: Option<Deployed>,
    /// Predicted facts with reasons.
    pub samples: Option<Vec<Sample>>,
    /// New facts worth a look.
    pub proposals: Option<Proposals>,
}

impl Findings {
    /// Reads what the stages of a job have left.
    pub fn read(job: &Job<'_>) -> Result<Self> {
        let out = &job.out;
        let ledger = Ledger::read(out)?.unwrap_or_default();
        let done = |stage: Stage| ledger.stages.get(stage.name()).is_some_and(|entry| entry.finished);
        Ok(Self {
            checked: stored(out, Stage::Check, done(Stage::Check))?,
            rules: if done(Stage::Mine) { rules(out, job)? } else { Vec::new() },
            grounded: stored(out, Stage::Ground, done(Stage::Ground))?,
            comparison: stored(out, Stage::Evaluate, done(Stage::Evaluate))?,
            trust: stored(out, Stage::Calibrate, done(Stage::Calibrate))?,
            obedience: stored(out, Stage::Consistency, done(Stage::Consistency))?,
            deployed: stored(out, Stage::Deploy, done(Stage::Deploy))?,
            samples: stored(out, Stage::Predict, done(Stage::Predict))?,
            proposals: stored_as(&out.join(PROPOSALS), Stage::Predict, done(Stage::Predict))?,
            source: job.source.clone(),
            spec: job.spec.to_toml(),
            out: out.clone(),
            home: job.home.clone(),
            ledger,
        })
    }
}

/// The rules that the run goes by. They are always read from their file, so that a resumed run has the very same numbers.
pub(super) fn rules(out: &Path, job: &Job<'_>) -> Result<Vec<RuleRecord>> {
    let options = RuleReadOptions { format: Some(RuleFormat::Native), ..RuleReadOptions::default() };
    let mut names = job.data.names().clone();
    Ok(read_rules(&out.join("rules.tsv"), &options, &mut names)?.rules)
}

fn stored<T: DeserializeOwned>(out: &Path, stage: Stage, finished: bool) -> Result<Option<T>> {
    stored_as(&out.join(stage.outputs()[0]), stage, finished)
}

fn stored_as<T: DeserializeOwned>(path: &Path, stage: Stage, finished: bool) -> Result<Option<T>> {
    if !finished {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(RugeError::io(path, "read"))?;
    serde_json::from_str(&text).map(Some).map_err(|error| RugeError::Stage {
        path: path.to_path_buf(),
        stage: stage.name(),
        reason: format!("it is damaged ({error}) and has to be made again"),
    })
}

/// Leaves a stage's result.
pub(super) fn store<T: Serialize>(out: &Path, stage: Stage, result: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(result).expect("a result is plain data");
    write_file(&out.join(stage.outputs()[0]), text.as_bytes())
}
