//! PTransE's leaves of a [`Spec`], and those it does not leave open.
//!
//! It is a system of its own: it draws its corruptions, starts its rows and holds them in the unit ball by rules of its
//! own. So a spec may change seed, dimension, margin, learning rate, number of batches, deviation of start values,
//! schedule and all of `[guidance]`; any other leaf must stay as it is, or it would be stored and have no effect.

use ruge_embed::{
    Batching, Cap, Init, Loss, Negatives, Objective, Optimizer, PTransEConfig, Projection, Sides, Start, UpdateRule,
};

use super::{BatchSpec, GuidanceSpec, ModelName, ModelSpec, Norm, RulesSpec, Spec};
use crate::error::{Result, RugeError};

impl GuidanceSpec {
    /// PTransE as its authors released it.
    pub(crate) fn ptranse() -> Self {
        let PTransEConfig { path_length, drop, rerank, confidence_cut_off, .. } = PTransEConfig::default();
        Self::PTransE { path_length, drop, rerank, confidence_cut_off }
    }
}

impl Spec {
    /// The released program's setting (spec §8).
    pub(crate) fn set_ptranse(&mut self) {
        let config = PTransEConfig::default();
        self.model =
            ModelSpec { name: ModelName::TransE, dimension: config.dimension, norm: Norm::L1, reciprocal: false };
        self.objective = Objective::ranking(Loss::PairwiseRanking { margin: config.margin });
        // One corruption a sample, never a fact: a quarter of them heads, a quarter tails, half relations.
        self.negatives = Negatives { count: 1, sides: Sides::Coin, keep_original: false, filtered: true };
        let start = Start::Normal { deviation: config.deviation, unit: false };
        self.init = Init { entities: start, relations: start, shared: false };
        self.optimizer =
            Optimizer { rule: UpdateRule::Sgd, entity_rate: config.rate, relation_rate: config.rate, cap: Cap::None };
        self.batches =
            BatchSpec { count: config.batches, size: None, positives: Batching::WithReplacement, inner_steps: 1 };
        self.projection = Projection::None;
    }

    /// What PTransE runs with, where this spec asks for it.
    pub fn ptranse(&self) -> Result<Option<PTransEConfig>> {
        let GuidanceSpec::PTransE { path_length, drop, rerank, confidence_cut_off } = self.guidance else {
            return Ok(None);
        };
        if self.model.name != ModelName::TransE {
            return Err(RugeError::spec(format!(
                "ptranse adds relation paths to transe and is not defined for {}\n  remedy: set model.name to transe",
                self.model.name.name()
            )));
        }
        let mut fixed = Self::paper(ModelName::TransE, "ptranse")?;
        (fixed.init.entities, fixed.init.relations) = (self.init.entities, self.init.entities);
        let deviation = match self.init.entities {
            Start::Normal { deviation, unit: false } => Some(deviation),
            _ => None,
        };
        let margin = match self.objective.loss {
            Loss::PairwiseRanking { margin } => Some(margin),
            _ => None,
        };
        fixed.objective.loss = self.objective.loss;
        let rate = self.optimizer.entity_rate;
        (fixed.optimizer.entity_rate, fixed.optimizer.relation_rate) = (rate, rate);
        let same_batches = self.batches == BatchSpec { count: self.batches.count, ..fixed.batches };
        // How rules beside it are weighed is nothing to it.
        let beside = RulesSpec { thorough: self.rules.thorough, ..RulesSpec::default() };
        let (Some(deviation), Some(margin)) = (deviation.filter(|_| self.init == fixed.init), margin) else {
            return Err(closed("init and objective.loss (one normal distribution, pairwise ranking)"));
        };
        for (same, what) in [
            (self.model.norm == fixed.model.norm, "model.norm (L1)"),
            (self.negatives == fixed.negatives, "negatives (one corruption of head, tail or relation)"),
            (self.objective == fixed.objective, "objective.penalty and objective.shift (none)"),
            (self.optimizer == fixed.optimizer, "optimizer (plain descent with one rate)"),
            (same_batches, "batches.positives, batches.size and batches.inner-steps (with replacement, none, 1)"),
            (self.projection == fixed.projection, "projection (none)"),
            (self.rules == beside, "rules (none: its paths come from the training triples)"),
        ] {
            if !same {
                return Err(closed(what));
            }
        }
        let (dimension, batches) = (self.model.dimension, self.batches.count);
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
}

fn closed(what: &str) -> RugeError {
    RugeError::spec(format!("ptranse has fixed {what}; remove it from the spec"))
}
