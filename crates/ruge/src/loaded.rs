//! A model opened for questions: predicting, explaining, completing and reporting all begin here.

use std::path::Path;

use ruge_embed::objective::truth as sigmoid;
use ruge_embed::{Loss, Model};
use ruge_kg::{EntityId, RelationId, Triple};
use ruge_rules::{RuleRecord, SoftRule};

use crate::calibrate::Calibration;
use crate::combine::Ranking;
use crate::error::{Result, RugeError};
use crate::model_file::ModelFile;
use crate::nearest::suggestion;
use crate::spec::{DeviceName, ModelName};

/// Relations named where none is near to what was typed.
const SHOWN: usize = 8;

/// A model file with all that answering needs.
pub struct Loaded {
    /// Names, triples, spec, rules as records.
    pub file: ModelFile,
    /// The model, ready to score.
    pub model: Box<dyn Model>,
    /// The rules in the order of `file.rules`; they may name entities and relations that no triple has.
    pub rules: Vec<SoftRule>,
    /// Scores to truth values; fitted now if the file has none.
    pub calibration: Calibration,
}

impl Loaded {
    /// Opens MODEL: a run folder or a model.safetensors.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_on(path, DeviceName::Cpu)
    }

    /// The same, computing on a device.
    pub fn open_on(path: &Path, device: DeviceName) -> Result<Self> {
        let file = ModelFile::find(path);
        let read = ModelFile::read(&file)?;
        Self::on(read, device).map_err(|error| match error {
            RugeError::Embed(error) => RugeError::ModelFile {
                reason: format!("its tables do not fit its spec: {error}; train it again"),
                path: file,
            },
            other => other,
        })
    }

    /// From a file that was read.
    pub fn new(file: ModelFile) -> Result<Self> {
        Self::on(file, DeviceName::Cpu)
    }

    fn on(file: ModelFile, device: DeviceName) -> Result<Self> {
        let model = file.model_on(device)?;
        let rules = file.rules.iter().map(RuleRecord::soft).collect();
        let calibration = match &file.calibration {
            Some(calibration) => calibration.clone(),
            None => Calibration::fit(&*model, &file.data, file.spec.seed)?
                .unwrap_or_else(|| Calibration::plain(file.spec.objective.shift)),
        };
        Ok(Self { file, model, rules, calibration })
    }

    /// The entity of that name, or an error that names the nearest ones.
    pub fn entity(&self, name: &str) -> Result<EntityId> {
        let names = &self.file.data.names().entities;
        names.id(name).ok_or_else(|| unknown("entity", name, names.iter().map(|(_, name)| name)))
    }

    /// The relation of that name, or an error that names the nearest ones.
    pub fn relation(&self, name: &str) -> Result<RelationId> {
        let names = &self.file.data.names().relations;
        names.id(name).ok_or_else(|| match unknown("relation", name, names.iter().map(|(_, name)| name)) {
            // Relations are few, so that some of them help where none is near.
            RugeError::UnknownName { kind, name, hint } if hint.is_empty() => {
                let some: Vec<String> = names.iter().take(SHOWN).map(|(_, name)| format!("{name:?}")).collect();
                let more = names.len().saturating_sub(some.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                RugeError::UnknownName { kind, name, hint: format!("; it has {}{more}", some.join(", ")) }
            }
            error => error,
        })
    }

    /// η of a triple.
    pub fn score(&self, triple: Triple) -> Result<f32> {
        let mut score = [0.0];
        self.model.score(&[triple], &mut score)?;
        Ok(score[0])
    }

    /// φ of a score, the truth that rules reckon with: σ(η + shift) where training was told to make it one. Softmax and rules beside a model only
    /// compare answers, any constant more or less would do, and there calibration says what a score is worth.
    pub fn phi(&self, relation: RelationId, score: f32) -> f32 {
        let spec = &self.file.spec;
        let compares = spec.softmax.is_some()
            || spec.model.name == ModelName::Rules
            || spec.objective.loss == Loss::SampledSoftmax
            || self.file.ranking.as_ref().is_some_and(Ranking::uses_rules);
        if compares { self.truth(relation, score) as f32 } else { sigmoid(spec.objective.shift + score) }
    }

    /// The calibrated truth of a score under a relation.
    pub fn truth(&self, relation: RelationId, score: f32) -> f64 {
        self.calibration.truth(relation, score)
    }
}

fn unknown<'n>(kind: &'static str, name: &str, names: impl Iterator<Item = &'n str>) -> RugeError {
    RugeError::UnknownName { kind, name: name.to_string(), hint: suggestion(name, names) }
}
