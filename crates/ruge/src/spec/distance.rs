//! Distance models as they are trained today: many negatives, the hard ones weighing more.

use ruge_embed::{Cap, Init, Loss, Objective, Optimizer, Penalty, Plateau, Projection, Sides, Start, UpdateRule};

use super::{NegativesSpec, Pull, Spec};
use crate::error::{Result, RugeError};

impl Spec {
    /// Self-adversarial negatives at one end, frequent questions weighed down, start values within the margin γ (Sun et al.
    /// 2019). Returns the training, of which numbers may be changed; only what is trained against negatives can be trained like this.
    pub fn set_self_adversarial(&mut self, gamma: f32, temperature: f32) -> Option<&mut NegativesSpec> {
        let start = Start::Spread { sum: gamma + 2.0 };
        self.init = Init { entities: start, relations: start, shared: false };
        self.optimizer.cap = Cap::None;
        let training = self.negatives_mut()?;
        let loss = Loss::SelfAdversarial { temperature };
        training.objective = Objective { shift: gamma, subsampling: true, ..Objective::ranking(loss) };
        (training.negatives.sides, training.negatives.keep_original) = (Sides::OneEnd, true);
        training.projection = Projection::None;
        Some(training)
    }

    /// RotatE's own setting on FB15k-237, at twice the rate for half the steps. Phases begin anywhere on the circle, and move by as much as the authors' do, who
    /// keep them in units of the start values of entities.
    pub fn set_rotate(&mut self) {
        if let Some(training) = self.set_self_adversarial(9.0, 1.0) {
            (training.negatives.count, training.batches.size) = (256, Some(1024));
            // Known facts among the negatives would be the hardest of them, and weigh most.
            training.negatives.filtered = true;
        }
        self.model.dimension = 1000;
        self.init.relations = Start::Uniform { bound: std::f32::consts::PI, unit: false };
        let rule = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
        self.optimizer = Optimizer { rule, entity_rate: 1e-4, relation_rate: 0.0286, cap: Cap::None };
        (self.schedule.epochs, self.schedule.validate_every, self.schedule.patience) = (200, 8, Some(3));
        // The authors divide the rate by ten at half time. Small cuts as soon as a validation brings nothing are worth more: most is learned
        // at the rates in between.
        self.schedule.plateau = Some(Plateau { factor: 0.4, patience: 1 });
    }

    /// TransE as it reaches .672 on FB15k after 24,000 steps of 1,000, and more when it is given more: L1.
    pub fn set_transe(&mut self) {
        if let Some(training) = self.set_self_adversarial(16.0, 1.0) {
            (training.negatives.count, training.batches.size) = (200, Some(1000));
        }
        self.model.dimension = 400;
        let rule = UpdateRule::AdaGrad { epsilon: 1e-10, inside: false };
        self.optimizer = Optimizer { rule, entity_rate: 0.01, relation_rate: 0.01, cap: Cap::None };
        (self.schedule.epochs, self.schedule.validate_every, self.schedule.patience) = (200, 10, Some(4));
    }

    pub(super) fn check_schedule(&self) -> Result<()> {
        let Some(plateau) = self.schedule.plateau else { return Ok(()) };
        let refuse = |message: String| Err(RugeError::spec(message));
        if !(plateau.factor > 0.0 && plateau.factor < 1.0) || plateau.patience == 0 {
            let wanted = "schedule.plateau.factor lies between 0 and 1, and its patience is at least 1";
            return refuse(format!("{wanted}; not {} and {}", plateau.factor, plateau.patience));
        }
        if self.schedule.validate_every == 0 {
            return refuse("schedule.plateau needs validation; schedule.validate-every must be at least 1".into());
        }
        match self.schedule.patience {
            Some(patience) if patience <= plateau.patience => refuse(format!(
                "the run would stop after {patience} validations, before schedule.plateau lowers a rate; raise schedule.patience"
            )),
            _ => Ok(()),
        }
    }
}

/// Most gradient steps on one batch.
const MOST_INNER_STEPS: usize = 10_000;

impl NegativesSpec {
    /// Refuses numbers that mean nothing, and losses that these negatives do not suit.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(RugeError::spec(message));
        let Self { batches, negatives, objective, .. } = self;
        if batches.count == 0 || batches.size == Some(0) || batches.inner_steps == 0 {
            return refuse("batches.count, batches.size and batches.inner-steps must be at least 1".into());
        }
        if batches.inner_steps > MOST_INNER_STEPS {
            return refuse(format!("batches.inner-steps is {}; use 1 to {MOST_INNER_STEPS}", batches.inner_steps));
        }
        if let Penalty::L2 { weight } = objective.penalty
            && !(weight.is_finite() && weight >= 0.0)
        {
            return refuse(format!("objective.penalty.weight must be finite and not negative, not {weight}"));
        }
        if !objective.shift.is_finite() {
            return refuse(format!("objective.shift must be finite, not {}", objective.shift));
        }
        match objective.loss {
            Loss::SelfAdversarial { temperature } if !(temperature.is_finite() && temperature >= 0.0) => {
                return refuse(format!(
                    "objective.loss.temperature must be finite and not negative, not {temperature}"
                ));
            }
            Loss::SampledSoftmax if negatives.sides != Sides::OneEnd => {
                return refuse(
                    "the sampled softmax asks one question of a positive; set negatives.sides = \"one-end\"".into(),
                );
            }
            Loss::SelfAdversarial { .. } | Loss::SampledSoftmax if negatives.per_positive() == 0 => {
                return refuse(
                    "this loss compares a positive with its negatives; negatives.count must be at least 1".into(),
                );
            }
            _ => {}
        }
        match self.guidance {
            Pull::Ruge { slackness, .. } if !(slackness.is_finite() && slackness >= 0.0) => {
                refuse(format!("guidance.slackness must be finite and not negative, not {slackness}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Preset;

    #[test]
    fn losses_are_refused_where_they_make_no_sense() {
        let error =
            |text: &str| Spec::from_toml(text, "x").and_then(|spec| spec.check()).map_err(|error| error.to_string());
        let softmax = "[objective.loss]\nkind = \"sampled-softmax\"\n";
        assert!(error(softmax).unwrap_err().contains("one-end"));
        assert!(error(&format!("{softmax}[negatives]\nsides = \"one-end\"\n")).is_ok());
        let adversarial =
            |temperature: &str| format!("[objective.loss]\nkind = \"self-adversarial\"\ntemperature = {temperature}\n");
        assert!(error(&adversarial("1.0")).is_ok());
        assert!(error(&adversarial("-1.0")).unwrap_err().contains("temperature"));
        assert!(error(&format!("{}[negatives]\ncount = 1\n", adversarial("1.0"))).unwrap_err().contains("at least 1"));
        assert!(error(&format!("[softmax]\n{}", adversarial("1.0"))).unwrap_err().contains("[softmax]"));
        assert!(error("[softmax]\n[batches]\nsize = 100\n").unwrap_err().contains("batches.size"));
        assert!(error("[batches]\nsize = 0\n").is_err());
    }

    #[test]
    fn a_plateau_needs_validations_to_look_at() {
        let schedule = |text: &str| {
            let plateau = "[schedule.plateau]\nfactor = 0.1\npatience = 3\n";
            Spec::from_toml(&format!("[schedule]\n{text}\n{plateau}"), "x").unwrap().check()
        };
        assert!(schedule("validate-every = 2").is_ok() && schedule("patience = 4").is_ok());
        assert!(schedule("validate-every = 0").unwrap_err().to_string().contains("validate-every"));
        assert!(schedule("patience = 3").unwrap_err().to_string().contains("schedule.patience"));
        let text = "[schedule.plateau]\nfactor = 1.5\npatience = 3\n";
        assert!(Spec::from_toml(text, "x").unwrap().check().is_err());
    }

    #[test]
    fn presets_of_distance_models_print_and_read_back() {
        for preset in [Preset::Rotate, Preset::Transe] {
            let spec = preset.spec().unwrap();
            let text = spec.to_toml();
            assert_eq!(Spec::from_toml(&text, "x").unwrap(), spec, "{text}");
            assert!(text.contains("subsampling = true") && text.contains("sides = \"one-end\""), "{text}");
            spec.check().unwrap();
        }
        // The files of other graphs differ from the presets in numbers alone; these are the presets.
        let read = |name: &str| {
            let path = format!("{}/../../experiments/{name}-adversarial.toml", env!("CARGO_MANIFEST_DIR"));
            let spec = Spec::from_toml(&std::fs::read_to_string(path).unwrap(), name).unwrap();
            spec.check().unwrap();
            spec
        };
        assert_eq!(read("fb15k-237/rotate"), Preset::Rotate.spec().unwrap());
        assert_eq!(read("fb15k/transe"), Preset::Transe.spec().unwrap());
        for name in ["fb15k/rotate", "wn18/rotate", "wn18/transe", "wn18rr/rotate", "wn18rr/transe"] {
            assert!(read(name).negatives().unwrap().objective.subsampling, "{name}");
        }
    }
}
