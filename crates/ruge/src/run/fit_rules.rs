//! Rules as a model: nothing is trained, how they are summed is fitted on validation.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ruge_embed::{Model, StopReason};
use ruge_rules::{RuleRecord, Watch};

use super::curve::{self, Line};
use super::{Outcome, Run};
use crate::assemble;
use crate::calibrate::Calibration;
use crate::combine::{self, Combined, Effort, Prepared};
use crate::error::Result;
use crate::evaluate::Questions;
use crate::model_file::{Contents, ModelFile};

impl Run<'_> {
    /// Weighs the rules and leaves them as a model.
    pub(super) fn fit_rules(&mut self, rules: Vec<RuleRecord>, stop: &AtomicBool) -> Result<Outcome> {
        let (spec, data) = (self.spec, self.data);
        let rules = assemble::left_in(spec, data, rules);
        self.take_rules(&rules)?;
        let folder = &self.folder;
        let started = Instant::now();
        let watch = Watch { stop: Some(stop), ..Watch::default() };
        let mut outcome = Outcome {
            epochs: 0,
            best_epoch: 0,
            valid_mrr: None,
            fitted: None,
            seconds_per_epoch: 0.0,
            rules: rules.len(),
            groundings: 0,
            ground_seconds: 0.0,
            path_seconds: 0.0,
            paths: None,
            stop: StopReason::Asked,
            model: self.place.home().join("model.safetensors"),
        };
        let Some(prepared) = Prepared::new(rules, data, Effort::of(spec.rules.thorough), &watch)? else {
            self.is_new = false;
            return Ok(outcome);
        };
        let ranking = combine::fit(None, &prepared, data)?;
        let (rules, weights) = (&prepared.rules, prepared.weights(&ranking));
        let model = Combined::rules_alone(prepared.scores(), &ranking);
        let seconds = started.elapsed().as_secs_f64();
        let mut line = Line { seconds: Some(seconds), ..Line::default() };
        if !data.valid().is_empty() {
            let questions = Questions::about(data.valid(), data.filter());
            line = line.validated(&questions.metrics(&questions.rank(&model, &|_| ())?), true);
        }
        let valid_mrr = line.valid_mrr;
        self.is_new = false;
        folder.write(curve::FILE, line.text().as_bytes())?;
        let mut words = BTreeMap::from([("epochs".to_string(), "0".to_string())]);
        words.extend(valid_mrr.map(|mrr| ("valid_mrr".to_string(), mrr.to_string())));
        let calibration = Calibration::fit(&model, data, spec.seed)?;
        let contents = Contents {
            spec,
            embeddings: &model.state()?.embeddings,
            data,
            rules,
            notes: &words,
            calibration: calibration.as_ref(),
            ranking: Some(&ranking),
            weights: weights.as_deref(),
        };
        ModelFile::write(&folder.file("model.safetensors"), &contents)?;
        (outcome.valid_mrr, outcome.fitted) = (valid_mrr, Some(ranking.fitted));
        (outcome.rules, outcome.stop) = (rules.len(), StopReason::Epochs);
        Ok(outcome)
    }
}
