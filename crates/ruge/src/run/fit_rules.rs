//! Rules as a model: nothing is trained, how they are summed is fitted on validation.

use std::collections::BTreeMap;
use std::time::Instant;

use ruge_embed::StopReason;
use ruge_kg::{Control, RankError};
use ruge_rules::RuleRecord;
use ruge_rules::rank::{Combined, Effort, Prepared, fit};

use super::curve::{self, Line};
use super::{Outcome, Run};
use crate::assemble;
use crate::calibrate::Calibration;
use crate::error::Result;
use crate::evaluate::Questions;
use crate::model_file::{Contents, ModelFile};

impl Run<'_> {
    /// Weighs the rules and leaves them as a model.
    pub(super) fn fit_rules(&mut self, rules: Vec<RuleRecord>, control: &Control<'_>) -> Result<Outcome> {
        let (spec, data) = (self.spec, self.data);
        let rules = assemble::left_in(spec, data, rules);
        self.take_rules(&rules)?;
        let folder = &self.folder;
        let started = Instant::now();
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
        let fitted = Prepared::new(rules, data, Effort::of(spec.rules.thorough), control)
            .and_then(|prepared| fit(None, &prepared, data, control).map(|ranking| (prepared, ranking)));
        let (prepared, ranking) = match fitted {
            Err(RankError::Cancelled(_)) => {
                self.is_new = false;
                return Ok(outcome);
            }
            fitted => fitted?,
        };
        let (rules, weights) = (&prepared.rules, prepared.weights(&ranking));
        let model = Combined::new(None, prepared.scores(), &ranking);
        let seconds = started.elapsed().as_secs_f64();
        let mut line = Line { seconds: Some(seconds), ..Line::default() };
        if !data.valid().is_empty() {
            let questions = Questions::about(data.valid(), data.filter());
            line = line.validated(&questions.metrics(&questions.rank(&model, control)?), true);
        }
        let valid_mrr = line.valid_mrr;
        self.is_new = false;
        folder.write(curve::FILE, line.text().as_bytes())?;
        let mut words = BTreeMap::from([("epochs".to_string(), "0".to_string())]);
        words.extend(valid_mrr.map(|mrr| ("valid_mrr".to_string(), mrr.to_string())));
        let calibration = Calibration::fit(&model, data, spec.seed, control)?;
        let contents = Contents {
            spec,
            embeddings: None,
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
