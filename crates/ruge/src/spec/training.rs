//! How a model comes to its numbers, as a sum: each kind of training has the settings it looks at and no others.
//!
//! So a softmax cannot carry negatives that it never draws, rules alone cannot be guided, and only what is trained against
//! negatives has groundings for a guidance to pull with.

use ruge_embed::{
    Batching, Dealing, Loss, Negatives, Objective, PTransEConfig, Projection, Softmax, Start, StaticLabel, TNorm,
};

use super::{BatchSpec, FixedLabel, GuidanceSpec, ModelName, Norm, Spec};
use crate::error::{Result, RugeError};

/// How a model is trained.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Training {
    /// Observed triples against drawn ones: the paper's, and self-adversarial or sampled softmax where the loss says so.
    Negatives(NegativesSpec),
    /// Questions answered among all entities, or a sample of them.
    Softmax(SoftmaxSpec),
    /// TransE that also agrees with relation paths, in training and in ranking.
    PTransE(PTransESpec),
    /// Nothing is trained: rules alone.
    Rules,
}

/// Training against negatives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NegativesSpec {
    /// Mini-batches.
    pub batches: BatchSpec,
    /// α and how negatives are drawn.
    pub negatives: Negatives,
    /// Loss and penalty.
    pub objective: Objective,
    /// What is done to rows besides gradient steps.
    pub projection: Projection,
    /// What groundings do.
    pub guidance: Pull,
}

/// What groundings do in training against negatives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pull {
    /// Nothing: the observed triples alone.
    None,
    /// Soft labels again in every batch, and a pull towards them.
    Ruge {
        /// C
        slackness: f32,
        /// How truths combine.
        t_norm: TNorm,
        /// Which groundings go with which batch.
        dealing: Dealing,
    },
    /// The same pull towards labels that are set once.
    Static {
        /// What the label of a conclusion is.
        label: FixedLabel,
    },
    /// A ranking loss of their own, injected once.
    Kale {
        /// Weight of the rule loss.
        weight: f32,
        /// δ of the rule loss.
        margin: f32,
    },
}

/// Training by softmax.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SoftmaxSpec {
    /// Questions and penalties.
    pub softmax: Softmax,
    /// Conclusions of rules as further training triples.
    pub examples: Option<ExamplesSpec>,
}

/// Conclusions of rules as training triples with weights below 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExamplesSpec {
    /// Weight of a conclusion of soft label 1, relative to an observed triple.
    pub weight: f32,
    /// Conclusions with a soft label below this are left out.
    pub least: f32,
    /// How groundings become a soft label.
    pub label: StaticLabel,
}

/// What PTransE leaves open besides dimension, start values and rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PTransESpec {
    /// Batches of an epoch.
    pub batches: usize,
    /// Margin of its ranking loss.
    pub margin: f32,
    /// The most relations in a path: 1, 2 or 3.
    pub path_length: usize,
    /// Paths with at most this share of a pair's resource are dropped.
    pub drop: f64,
    /// Candidates of a query that are ranked again with their paths.
    pub rerank: usize,
    /// With 3 steps: what P(r|p) must exceed for a path to be extended, and kept.
    pub confidence_cut_off: f64,
}

impl Default for NegativesSpec {
    fn default() -> Self {
        Self {
            batches: BatchSpec { count: 100, size: None, positives: Batching::Dealt, inner_steps: 1 },
            negatives: Negatives::default(),
            objective: Objective::default(),
            projection: Projection::None,
            guidance: Pull::None,
        }
    }
}

impl Default for PTransESpec {
    fn default() -> Self {
        let PTransEConfig { batches, margin, path_length, drop, rerank, confidence_cut_off, .. } =
            PTransEConfig::default();
        Self { batches, margin, path_length, drop, rerank, confidence_cut_off }
    }
}

impl GuidanceSpec {
    /// What groundings do under it, in training against negatives.
    pub(super) fn pull(self) -> Pull {
        match self {
            GuidanceSpec::None | GuidanceSpec::Examples { .. } | GuidanceSpec::PTransE { .. } => Pull::None,
            GuidanceSpec::Ruge { slackness, t_norm, dealing } => Pull::Ruge { slackness, t_norm, dealing },
            GuidanceSpec::Static { label } => Pull::Static { label },
            GuidanceSpec::Kale { weight, margin } => Pull::Kale { weight, margin },
        }
    }
}

impl Training {
    /// The same without rules in it.
    pub fn unguided(self) -> Self {
        match self {
            Training::Negatives(with) => Training::Negatives(NegativesSpec { guidance: Pull::None, ..with }),
            Training::Softmax(with) => Training::Softmax(SoftmaxSpec { examples: None, ..with }),
            other => other,
        }
    }

    /// Whether scores are only compared with each other, so that a constant more or less makes no difference.
    pub fn only_compares(&self) -> bool {
        match self {
            Training::Negatives(training) => training.objective.loss == Loss::SampledSoftmax,
            Training::Softmax(_) | Training::Rules => true,
            Training::PTransE(_) => false,
        }
    }

    /// What besides the observed triples has a part in it, by name and with its constants.
    pub fn guidance(&self) -> GuidanceSpec {
        match *self {
            Training::Rules => GuidanceSpec::None,
            Training::Negatives(NegativesSpec { guidance, .. }) => match guidance {
                Pull::None => GuidanceSpec::None,
                Pull::Ruge { slackness, t_norm, dealing } => GuidanceSpec::Ruge { slackness, t_norm, dealing },
                Pull::Static { label } => GuidanceSpec::Static { label },
                Pull::Kale { weight, margin } => GuidanceSpec::Kale { weight, margin },
            },
            Training::Softmax(SoftmaxSpec { examples, .. }) => match examples {
                None => GuidanceSpec::None,
                Some(ExamplesSpec { weight, least, label }) => GuidanceSpec::Examples { weight, least, label },
            },
            Training::PTransE(PTransESpec { path_length, drop, rerank, confidence_cut_off, .. }) => {
                GuidanceSpec::PTransE { path_length, drop, rerank, confidence_cut_off }
            }
        }
    }
}

impl Spec {
    /// What besides the observed triples pulls on the embeddings.
    pub fn guidance(&self) -> GuidanceSpec {
        self.training.guidance()
    }

    /// Training against negatives, where it is that.
    pub fn negatives(&self) -> Option<&NegativesSpec> {
        match &self.training {
            Training::Negatives(training) => Some(training),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn negatives_mut(&mut self) -> Option<&mut NegativesSpec> {
        match &mut self.training {
            Training::Negatives(training) => Some(training),
            _ => None,
        }
    }

    /// Training by softmax, where it is that.
    pub fn softmax(&self) -> Option<&Softmax> {
        match &self.training {
            Training::Softmax(training) => Some(&training.softmax),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn softmax_mut(&mut self) -> Option<&mut SoftmaxSpec> {
        match &mut self.training {
            Training::Softmax(training) => Some(training),
            _ => None,
        }
    }

    /// φ = σ(shift + η).
    pub fn shift(&self) -> f32 {
        self.negatives().map_or(0.0, |training| training.objective.shift)
    }

    /// Whether facts are learned as in the paper, not by what came after it: softmax, or negatives of which the hard ones weigh more.
    pub fn is_of_the_paper(&self) -> bool {
        match &self.training {
            Training::Negatives(training) => !super::file::weighs_negatives(training.objective.loss),
            Training::Softmax(_) => false,
            Training::PTransE(_) | Training::Rules => true,
        }
    }

    /// What PTransE runs with, where this spec asks for it.
    pub fn ptranse(&self) -> Result<Option<PTransEConfig>> {
        let Training::PTransE(training) = self.training else { return Ok(None) };
        let deviation = match self.init.entities {
            Start::Normal { deviation, unit: false } if self.init == super::ptranse_init(deviation) => deviation,
            _ => return Err(closed("init and objective.loss (one normal distribution, pairwise ranking)")),
        };
        let rate = self.optimizer.entity_rate;
        // How rules beside it are weighed is nothing to it.
        let beside = self.rules.at_ranking();
        for (same, what) in [
            (self.model.norm == Norm::L1, "model.norm (L1)"),
            (self.optimizer == super::ptranse_optimizer(rate), "optimizer (plain descent with one rate)"),
            (self.rules == beside, "rules (none: its paths come from the training triples)"),
        ] {
            if !same {
                return Err(closed(what));
            }
        }
        let PTransESpec { batches, margin, path_length, drop, rerank, confidence_cut_off } = training;
        let dimension = self.model.dimension;
        let config = PTransEConfig {
            dimension,
            margin,
            rate,
            deviation,
            batches,
            path_length,
            drop,
            rerank,
            confidence_cut_off,
        };
        config.check().map_err(|error| RugeError::spec(error.to_string()))?;
        Ok(Some(config))
    }

    /// Refuses a model that cannot be trained like this.
    pub(super) fn check_model(&self) -> Result<()> {
        let (name, refuse) = (self.model.name.name(), |message: String| Err(RugeError::spec(message)));
        let in_place = matches!(self.model.name, ModelName::ComplEx | ModelName::DistMult);
        let dot = in_place || self.model.name == ModelName::HolE;
        match &self.training {
            _ if self.model.reciprocal && !in_place && (dot || self.softmax().is_none()) => {
                refuse(format!("model.reciprocal is for complex and distmult, not for {name}"))
            }
            Training::Softmax(_) if !dot => refuse(format!(
                "softmax over all entities is for complex, distmult and hole, not for {name}; objective.loss.kind = \
                 \"sampled-softmax\" compares a positive with its negatives in any model"
            )),
            Training::Softmax(_) => Ok(()),
            _ if self.model.reciprocal => {
                refuse("model.reciprocal needs softmax training; add a section [softmax], or remove it".into())
            }
            Training::Negatives(NegativesSpec { guidance: Pull::Kale { .. }, .. })
                if self.model.name != ModelName::TransE =>
            {
                refuse(format!("kale is defined for transe, not for {name}"))
            }
            Training::PTransE(_) if self.model.name != ModelName::TransE => refuse(format!(
                "ptranse adds relation paths to transe and is not defined for {name}\n  remedy: set model.name to transe"
            )),
            training if (self.model.name == ModelName::Rules) != (*training == Training::Rules) => {
                refuse("rules alone have nothing to guide and run on the CPU; remove guidance and device".into())
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn closed(what: &str) -> RugeError {
    RugeError::spec(format!("ptranse has fixed {what}; remove it from the spec"))
}
