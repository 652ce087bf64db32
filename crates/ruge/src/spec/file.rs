//! A [`Spec`] as it is written: one flat table, whatever the training.
//!
//! Files, models and recorded results keep this form, so it does not follow the types. Settings that a training does not have
//! are written with the values below, and what a file says about them is not kept.

use ruge_embed::{
    Batching, Cap, Init, Loss, Negatives, Objective, Optimizer, Penalty, Projection, Schedule, Sides, Softmax, Start,
    UpdateRule,
};
use serde::{Deserialize, Serialize};

use super::training::{ExamplesSpec, NegativesSpec, PTransESpec, SoftmaxSpec, Training, closed};
use super::{BatchSpec, DeviceName, GuidanceSpec, ModelName, ModelSpec, RulesSpec, Spec};
use crate::error::{Result, RugeError};

/// A spec as files have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Spec", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SpecFile {
    pub seed: u64,
    pub model: ModelSpec,
    pub init: Init,
    pub batches: BatchSpec,
    pub negatives: Negatives,
    pub objective: Objective,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softmax: Option<Softmax>,
    pub optimizer: Optimizer,
    pub projection: Projection,
    pub schedule: Schedule,
    pub guidance: GuidanceSpec,
    pub rules: RulesSpec,
    #[serde(default)]
    pub device: DeviceName,
}

impl From<Spec> for SpecFile {
    fn from(spec: Spec) -> Self {
        let guidance = spec.guidance();
        let Spec { seed, model, init, training, optimizer, schedule, rules, device } = spec;
        let (written, softmax) = match training {
            Training::Negatives(training) => (training, None),
            Training::Softmax(SoftmaxSpec { softmax, .. }) => {
                let objective = Objective { penalty: Penalty::None, ..Objective::default() };
                (NegativesSpec { objective, ..NegativesSpec::default() }, Some(softmax))
            }
            Training::PTransE(training) => (of_ptranse(&training), None),
            Training::Rules => (NegativesSpec::default(), None),
        };
        let NegativesSpec { batches, negatives, objective, projection, guidance: _ } = written;
        Self {
            seed,
            model,
            init,
            batches,
            negatives,
            objective,
            softmax,
            optimizer,
            projection,
            schedule,
            guidance,
            rules,
            device,
        }
    }
}

/// What the released program does, in the words of training against negatives.
fn of_ptranse(training: &PTransESpec) -> NegativesSpec {
    NegativesSpec {
        batches: BatchSpec {
            count: training.batches,
            size: None,
            positives: Batching::WithReplacement,
            inner_steps: 1,
        },
        // One corruption a sample, never a fact: a quarter of them heads, a quarter tails, half relations.
        negatives: Negatives { count: 1, sides: Sides::Coin, keep_original: false, filtered: true },
        objective: Objective::ranking(Loss::PairwiseRanking { margin: training.margin }),
        ..NegativesSpec::default()
    }
}

/// The start values of PTransE.
pub(super) fn ptranse_init(deviation: f32) -> Init {
    let start = Start::Normal { deviation, unit: false };
    Init { entities: start, relations: start, shared: false }
}

/// How PTransE descends.
pub(super) fn ptranse_optimizer(rate: f32) -> Optimizer {
    Optimizer { rule: UpdateRule::Sgd, entity_rate: rate, relation_rate: rate, cap: Cap::None }
}

/// Whether hard negatives weigh more: losses that came after the paper.
pub(super) fn weighs_negatives(loss: Loss) -> bool {
    matches!(loss, Loss::SelfAdversarial { .. } | Loss::SampledSoftmax)
}

impl TryFrom<SpecFile> for Spec {
    type Error = RugeError;

    fn try_from(file: SpecFile) -> Result<Self> {
        let training = file.training()?;
        let SpecFile { seed, model, init, optimizer, schedule, rules, device, .. } = file;
        Ok(Self { seed, model, init, training, optimizer, schedule, rules, device })
    }
}

impl SpecFile {
    /// Whether rules have a part in it: in guidance, or as the model.
    pub fn takes_rules(&self) -> bool {
        self.guidance.takes_rules() || self.model.name == ModelName::Rules
    }

    /// The training that these settings mean together, or why they mean none.
    fn training(&self) -> Result<Training> {
        let Self { batches, negatives, objective, projection, .. } = *self;
        if self.softmax.is_some() || self.model.name == ModelName::Rules {
            if weighs_negatives(objective.loss) || objective.subsampling || batches.size.is_some() {
                let leaves = "objective.loss, objective.subsampling and batches.size";
                return refuse(format!("{leaves} are for training with negatives; remove them, or remove [softmax]"));
            }
            if self.softmax.is_some() && projection != Projection::None {
                return refuse("softmax training has no projection and no cap on matrices".into());
            }
        }
        let examples = match self.guidance {
            GuidanceSpec::Examples { weight, least, label } => Some(ExamplesSpec { weight, least, label }),
            _ => None,
        };
        if let Some(softmax) = self.softmax {
            return match self.guidance {
                GuidanceSpec::None | GuidanceSpec::Examples { .. } => {
                    Ok(Training::Softmax(SoftmaxSpec { softmax, examples }))
                }
                other => refuse(format!(
                    "softmax training is guided by examples, not by {}; use guidance examples",
                    other.name()
                )),
            };
        }
        match self.guidance {
            GuidanceSpec::None if self.model.name == ModelName::Rules => Ok(Training::Rules),
            GuidanceSpec::PTransE { .. } => self.ptranse().map(Training::PTransE),
            GuidanceSpec::Examples { .. } => {
                refuse("guidance by examples needs softmax training; add a section [softmax]".into())
            }
            other => {
                let guidance = other.pull();
                Ok(Training::Negatives(NegativesSpec { batches, negatives, objective, projection, guidance }))
            }
        }
    }

    /// PTransE is a system of its own: it draws its corruptions and holds rows in the unit ball by rules of its own. What it
    /// does not leave open must stay as it is, or it would be stored and have no effect.
    fn ptranse(&self) -> Result<PTransESpec> {
        let (GuidanceSpec::PTransE { path_length, drop, rerank, confidence_cut_off }, Loss::PairwiseRanking { margin }) =
            (self.guidance, self.objective.loss)
        else {
            return Err(closed("init and objective.loss (one normal distribution, pairwise ranking)"));
        };
        let batches = self.batches.count;
        let training = PTransESpec { batches, margin, path_length, drop, rerank, confidence_cut_off };
        let fixed = of_ptranse(&training);
        for (same, what) in [
            (self.negatives == fixed.negatives, "negatives (one corruption of head, tail or relation)"),
            (self.objective == fixed.objective, "objective.penalty and objective.shift (none)"),
            (
                self.batches == fixed.batches,
                "batches.positives, batches.size and batches.inner-steps (with replacement, none, 1)",
            ),
            (self.projection == fixed.projection, "projection (none)"),
        ] {
            if !same {
                return Err(closed(what));
            }
        }
        Ok(training)
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(RugeError::spec(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_training_does_not_have_is_not_kept() {
        let plain = Spec::from_toml("[softmax]\n", "x").unwrap();
        let more = "[softmax]\n[negatives]\ncount = 3\n[batches]\ncount = 7\n[objective]\nshift = 2.0\n";
        let spec = Spec::from_toml(more, "x").unwrap();
        assert_eq!((spec.to_toml(), spec.shift()), (plain.to_toml(), 0.0));
        let alone = Spec::from_toml("[model]\nname = \"rules\"\n[negatives]\ncount = 3\n", "x").unwrap();
        assert_eq!(alone.training, Training::Rules);
        assert_eq!(alone, Spec::paper(ModelName::Rules, "none").unwrap());
        let read = |text: &str| Spec::from_toml(text, "x").map_err(|error| error.to_string());
        assert!(read("[softmax]\n[guidance]\nkind = \"ruge\"\nslackness = 0.1\n").unwrap_err().contains("examples"));
        assert!(read("[guidance]\nkind = \"examples\"\nweight = 0.1\n").is_ok(), "softmax is what it needs");
        assert!(Spec::default().overlaid("[guidance]\nkind = \"examples\"\nweight = 0.1\n", "x").is_err());
    }
}
