//! Numbers that mean nothing where they stand, told before anything runs: a NaN would be found as a loss that diverged, a
//! negative ε as a model that learns nothing.

use ruge_embed::{Cap, Rule, Start};

use super::Spec;
use crate::error::{Result, RugeError};

impl Spec {
    pub(super) fn check_numbers(&self) -> Result<()> {
        let refuse = |message: String| Err(RugeError::Spec(message));
        let above = |x: f32| x.is_finite() && x > 0.0;
        match self.optimizer.rule {
            Rule::Adam { beta1, beta2, epsilon } => {
                for (leaf, beta) in [("beta1", beta1), ("beta2", beta2)] {
                    if !(0.0..1.0).contains(&beta) {
                        return refuse(format!("optimizer.rule.{leaf} lies from 0 to below 1, not {beta}"));
                    }
                }
                if !above(epsilon) {
                    return refuse(format!("optimizer.rule.epsilon must be finite and above 0, not {epsilon}"));
                }
            }
            Rule::AdaGrad { epsilon, .. } if !above(epsilon) => {
                return refuse(format!("optimizer.rule.epsilon must be finite and above 0, not {epsilon}"));
            }
            Rule::AdaGrad { .. } | Rule::Sgd => {}
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
        if !self.objective.shift.is_finite() {
            return refuse(format!("objective.shift must be finite, not {}", self.objective.shift));
        }
        match self.schedule.patience {
            Some(0) => refuse("schedule.patience is at least 1; leave it away for all epochs".into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
