//! Numbers that mean nothing where they stand, told before anything runs: a NaN would be found as a loss that diverged, a
//! negative ε as a model that learns nothing.

use ruge_embed::{Cap, Start, UpdateRule};

use super::Spec;
use crate::error::{Result, RugeError};

impl Spec {
    /// Refuses numbers that cannot be stored, wherever they stand: a spec is kept as TOML, whose integers have 63 bits and a sign, and
    /// a number that is not finite means nothing anywhere.
    pub(super) fn check_storable(&self) -> Result<()> {
        let failed =
            |error: &dyn std::fmt::Display| RugeError::spec(format!("the spec cannot be written down: {error}"));
        let json = serde_json::to_value(self).map_err(|error| failed(&error))?;
        integers("", &json)?;
        // JSON has no word for what is not finite; TOML has.
        let toml = toml::Value::try_from(self).map_err(|error| failed(&error))?;
        floats("", &toml)
    }

    pub(super) fn check_numbers(&self) -> Result<()> {
        let refuse = |message: String| Err(RugeError::spec(message));
        let above = |x: f32| x.is_finite() && x > 0.0;
        match self.optimizer.rule {
            UpdateRule::Adam { beta1, beta2, epsilon } => {
                for (leaf, beta) in [("beta1", beta1), ("beta2", beta2)] {
                    if !(0.0..1.0).contains(&beta) {
                        return refuse(format!("optimizer.rule.{leaf} lies from 0 to below 1, not {beta}"));
                    }
                }
                if !above(epsilon) {
                    return refuse(format!("optimizer.rule.epsilon must be finite and above 0, not {epsilon}"));
                }
            }
            UpdateRule::AdaGrad { epsilon, .. } if !above(epsilon) => {
                return refuse(format!("optimizer.rule.epsilon must be finite and above 0, not {epsilon}"));
            }
            UpdateRule::AdaGrad { .. } | UpdateRule::Sgd => {}
        }
        if let Cap::Row { norm } | Cap::Matrix { norm } = self.optimizer.cap
            && !above(norm)
        {
            return refuse(format!(
                "optimizer.cap.norm must be finite and above 0, not {norm}; for no cap write per = \"none\""
            ));
        }
        for (rows, start) in [("entities", self.init.entities), ("relations", self.init.relations)] {
            let (leaf, size) = match start {
                Start::Normal { deviation, .. } => ("deviation", deviation),
                Start::Uniform { bound, .. } => ("bound", bound),
                Start::Spread { sum } => ("sum", sum),
            };
            if !(size.is_finite() && size >= 0.0) {
                return refuse(format!("init.{rows}.{leaf} must be finite and not negative, not {size}"));
            }
        }
        match self.schedule.patience {
            Some(0) => refuse("schedule.patience must be at least 1; remove it to run all epochs".into()),
            _ => Ok(()),
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// Refuses integers beyond what TOML can hold.
fn integers(path: &str, value: &serde_json::Value) -> Result<()> {
    use serde_json::Value;
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| integers(&below(path, key), value)),
        Value::Array(list) => list.iter().try_for_each(|value| integers(path, value)),
        Value::Number(number) if number.as_u64().is_some_and(|number| i64::try_from(number).is_err()) => {
            Err(RugeError::spec(format!("{path} is {number}; the maximum is {}", i64::MAX)))
        }
        _ => Ok(()),
    }
}

/// Refuses numbers that are not finite.
fn floats(path: &str, value: &toml::Value) -> Result<()> {
    use toml::Value;
    match value {
        Value::Table(table) => table.iter().try_for_each(|(key, value)| floats(&below(path, key), value)),
        Value::Array(list) => list.iter().try_for_each(|value| floats(path, value)),
        Value::Float(number) if !number.is_finite() => {
            Err(RugeError::spec(format!("{path} is {number}; it must be a finite number")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ExamplesSpec, ModelName, Preset, SoftmaxSpec, Training};

    /// Every leaf of a JSON value by its path, to be changed.
    fn leaves(path: &str, value: &serde_json::Value, found: &mut Vec<(String, serde_json::Value)>) {
        match value {
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, value)| leaves(&below(path, key), value, found))
            }
            value => found.push((path.to_string(), value.clone())),
        }
    }

    fn with(json: &serde_json::Value, path: &str, leaf: serde_json::Value) -> Option<Spec> {
        let mut json = json.clone();
        let place = json.pointer_mut(&format!("/{}", path.replace('.', "/")))?;
        *place = leaf;
        serde_json::from_value(json).ok()
    }

    #[test]
    fn no_integer_beyond_what_can_be_stored_passes_anywhere() {
        let mut changed = std::collections::BTreeSet::new();
        let mut specs = vec![Spec::default(), Preset::ComplexN3.spec().expect("a preset")];
        specs[0].schedule.patience = Some(3);
        specs[0].schedule.validation_triples = Some(3);
        specs[0].negatives_mut().expect("the paper has some").batches.size = Some(3);
        specs[0].rules.most_groundings = Some(3);
        specs[0].rules.min_support = Some(3);
        specs[0].rules.min_head_size = Some(3);
        specs[0].rules.max_body = Some(2);
        specs.push(Spec::paper(ModelName::TransE, "ptranse").expect("a system"));
        for spec in specs {
            assert!(spec.check_storable().is_ok());
            let json = serde_json::to_value(&spec).expect("it is plain data");
            let mut found = Vec::new();
            leaves("", &json, &mut found);
            for (path, leaf) in found.into_iter().filter(|(_, leaf)| leaf.is_u64()) {
                for (number, passes) in [(i64::MAX as u64, true), (1 << 63, false), (u64::MAX, false)] {
                    let Some(spec) = with(&json, &path, number.into()) else { continue };
                    // What this training does not have is not kept.
                    if !serde_json::to_string(&spec).expect("plain data").contains(&number.to_string()) {
                        continue;
                    }
                    let told = spec.check_storable();
                    assert_eq!(told.is_ok(), passes, "{path} = {number}");
                    if let Err(error) = told {
                        let words = format!("{path} is {number}; the maximum is 9223372036854775807");
                        assert_eq!(error.to_string(), words);
                        assert!(spec.check().is_err());
                    } else if spec.check().is_ok() {
                        // What passes can be read back.
                        assert_eq!(Spec::from_toml(&spec.to_toml(), "x").expect("it was just written"), spec, "{path}");
                    }
                    changed.insert(path.clone());
                }
                assert!(!leaf.is_null());
            }
        }
        for leaf in ["seed", "schedule.patience", "schedule.epochs", "batches.size", "softmax.batch", "guidance.rerank"]
        {
            assert!(changed.contains(leaf), "{leaf} was not among {changed:?}");
        }
    }

    #[test]
    fn what_is_not_finite_is_told_by_its_place() {
        let mut spec = Spec::default();
        spec.rules.min_confidence = f64::NAN;
        assert_eq!(
            spec.check_storable().unwrap_err().to_string(),
            "rules.min-confidence is NaN; it must be a finite number"
        );
        let mut spec = Preset::ComplexN3.spec().expect("a preset");
        spec.softmax_mut().expect("the preset has one").softmax.l2 = f32::INFINITY;
        assert!(spec.check().unwrap_err().to_string().contains("softmax.l2 is inf"));
        let examples = ExamplesSpec { weight: f32::NEG_INFINITY, least: 0.0, label: Default::default() };
        spec.training = Training::Softmax(SoftmaxSpec { softmax: Default::default(), examples: Some(examples) });
        assert!(spec.check().unwrap_err().to_string().contains("guidance.weight is -inf"));
        let mut spec = Spec::default();
        spec.negatives_mut().expect("the paper has some").batches.inner_steps = u32::MAX as usize;
        assert!(spec.check().unwrap_err().to_string().contains("batches.inner-steps"));
    }

    #[test]
    fn numbers_that_mean_nothing_are_told_by_their_place() {
        let told = |text: &str| match Spec::from_toml(text, "x").and_then(|spec| spec.check()) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        let adam = "[optimizer.rule]\nkind = \"adam\"\n";
        for (text, words) in [
            (format!("{adam}beta1 = 1.5"), "rule.beta1"),
            (format!("{adam}beta1 = nan"), "rule.beta1"),
            (format!("{adam}beta2 = 1.0"), "rule.beta2"),
            (format!("{adam}epsilon = 0.0"), "rule.epsilon"),
            ("[optimizer.rule]\nkind = \"ada-grad\"\nepsilon = -1.0".into(), "rule.epsilon"),
            ("[optimizer.cap]\nper = \"row\"\nnorm = -1.0".into(), "cap.norm"),
            ("[init.entities]\ndistribution = \"normal\"\ndeviation = -0.3".into(), "init.entities.deviation"),
            ("[init.relations]\ndistribution = \"uniform\"\nbound = nan".into(), "init.relations.bound"),
            ("[objective]\nshift = nan".into(), "objective.shift"),
            ("[schedule]\npatience = 0".into(), "schedule.patience"),
            ("[rules]\nmin-confidence = nan".into(), "min-confidence"),
            ("[rules]\nmin-confidence = 1.5".into(), "min-confidence"),
        ] {
            assert!(told(&text).contains(words), "{text}: {:?}", told(&text));
        }
        for good in [adam, "[optimizer.rule]\nkind = \"ada-grad\"", "[optimizer.rule]\nkind = \"sgd\""] {
            assert_eq!(told(good), "", "{good}");
        }
        let loss = "[negatives]\nsides = \"one-end\"\n[objective.loss]\nkind = \"self-adversarial\"\n";
        assert_eq!(told(loss), "");
    }
}
