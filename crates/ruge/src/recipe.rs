//! Settings sized to the data, for `ruge run`: what someone who has tuned a few graphs would try first.
//!
//! `ruge train` keeps the paper's setting, which is right for FB15K and takes a thousand epochs. A graph of ten thousand triples
//! wants other numbers, and a first result within minutes. [`sized`] is the only place that decides them; everything it sets
//! is a leaf of the spec, printed with the run and overridable.
//!
//! | setting | value | why |
//! |---|---|---|
//! | dimension | 60 · (train / 10,000)^⅓ in tens, 20 to 200 | rows need facts to be learnt from; 200 is the paper's |
//! | start values | deviation 0.1 | the paper's 1 must be unlearnt first: a third of the epochs on small graphs |
//! | negatives | 20; 10 from 100,000 triples | more of them help small graphs and cost little there |
//! | batches | one per 100 triples, at most 100; on tiny graphs up to 10 of at least 10 triples | the paper's number, without batches of a handful |
//! | learning rate | 0.5 | the paper's |
//! | L2 | 0.015 | weak enough for rules to be learnt, strong enough for a peak within the epochs |
//! | slackness C | 0.01 | the paper's |
//! | rules | PCA ≥ 0.5 and standard confidence ≥ 0.4 | PCA confidence alone overstates rules of relations with many answers; the two together keep the conclusions that turn out true |
//! | | support ≥ a thousandth of train, 2 to 10; heads of a hundredth of train, 5 to 100 facts | a rule seen twice may be chance |
//! | | at most a quarter as many conclusions as training triples, the surest rules first | of a graph split 8:1:1 about so many facts are missing; on dense graphs rules conclude far more, mostly wrong ones |
//! | epochs | 400, validated every 10, patience 6 | the model without rules peaks before; both get the same budget |
//! | validation | on at most 5,000 triples | each costs two queries per triple every ten epochs |
//!
//! The values were chosen on the validation part of the embedded graph and then tried on others; `experiments/README.md` holds the
//! table.

use ruge_embed::{Penalty, Start};
use ruge_kg::Dataset;

use crate::error::Result;
use crate::spec::{GuidanceSpec, ModelName, Spec};

/// The counts that settings depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Training triples.
    pub train: usize,
    /// Validation triples.
    pub valid: usize,
}

impl Size {
    /// Of a data set.
    pub fn of(data: &Dataset) -> Self {
        Self { train: data.train().len(), valid: data.valid().len() }
    }
}

/// Validation triples looked at every time, at most.
const VALIDATED: usize = 5_000;

/// The settings for a model and a guidance on data of this size.
///
/// Models other than ComplEx and DistMult keep the start values, penalty and rates that [`Spec::paper`] has for them: those
/// belong to the scoring function, not to the data.
pub fn sized(size: Size, model: ModelName, guidance: &str) -> Result<Spec> {
    let mut spec = Spec::paper(model, guidance)?;
    let train = size.train.max(1);
    spec.model.dimension = dimension(train);
    spec.batches.count = (train / 100).max((train / 10).min(10)).clamp(1, 100);
    if matches!(model, ModelName::ComplEx | ModelName::DistMult) && !matches!(spec.guidance, GuidanceSpec::Kale { .. })
    {
        spec.negatives.count = if train < 100_000 { 20 } else { 10 };
        let start = Start::Normal { deviation: 0.1, unit: false };
        (spec.init.entities, spec.init.relations) = (start, start);
        spec.objective.penalty = Penalty::L2 { weight: 0.015 };
    }
    spec.rules.min_pca = Some(0.5);
    spec.rules.min_std = Some(0.4);
    spec.rules.max_conclusions = Some(0.25);
    spec.rules.min_support = Some((train as u64 / 1000).clamp(2, 10));
    spec.rules.min_head_size = Some((train as u64 / 100).clamp(5, 100));
    spec.schedule.epochs = 400;
    spec.schedule.validate_every = 10;
    spec.schedule.patience = Some(6);
    spec.schedule.validation_triples = (size.valid > VALIDATED).then_some(VALIDATED);
    Ok(spec)
}

/// 60 at 10,000 triples, growing with the cube root: eight times the facts carry twice the numbers.
fn dimension(train: usize) -> usize {
    let ideal = 60.0 * (train as f64 / 10_000.0).cbrt();
    ((ideal / 10.0).round() as usize * 10).clamp(20, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(train: usize, valid: usize) -> Spec {
        sized(Size { train, valid }, ModelName::ComplEx, "ruge").unwrap()
    }

    #[test]
    fn settings_grow_with_the_data() {
        let dimensions =
            [1, 100, 9_521, 86_835, 272_115, 483_142, 10_000_000].map(|train| of(train, 0).model.dimension);
        assert_eq!(dimensions, [20, 20, 60, 120, 180, 200, 200]);
        let batches = [1, 99, 950, 9_521, 483_142].map(|train| of(train, 0).batches.count);
        assert_eq!(batches, [1, 9, 10, 95, 100]);
        assert_eq!((of(9_521, 0).negatives.count, of(483_142, 0).negatives.count), (20, 10));
        let rules = |train: usize| of(train, 0).rules;
        assert_eq!((rules(300).min_support, rules(300).min_head_size), (Some(2), Some(5)));
        assert_eq!((rules(9_521).min_support, rules(9_521).min_head_size), (Some(9), Some(95)));
        assert_eq!((rules(90_000).min_support, rules(90_000).min_head_size), (Some(10), Some(100)));
    }

    #[test]
    fn every_system_gets_settings_that_can_run() {
        for model in ModelName::ALL.into_iter().filter(|model| *model != ModelName::Rules) {
            for guidance in ["none", "ruge"] {
                for train in [0, 1, 50, 10_000, 1_000_000] {
                    let spec = sized(Size { train, valid: 7_000 }, model, guidance).unwrap();
                    assert!(spec.check().is_ok(), "{model:?} {guidance} {train}");
                    assert_eq!(spec.schedule.validation_triples, Some(5_000));
                }
            }
        }
        let kale = sized(Size { train: 10_000, valid: 0 }, ModelName::TransE, "kale").unwrap();
        assert_eq!((kale.negatives.count, kale.schedule.validation_triples), (2, None), "its own negatives stay");
        assert!(sized(Size { train: 1, valid: 1 }, ModelName::TransE, "magic").is_err());
    }

    #[test]
    fn other_models_keep_their_own_start() {
        let sized = sized(Size { train: 10_000, valid: 0 }, ModelName::RotatE, "ruge").unwrap();
        let paper = Spec::paper(ModelName::RotatE, "ruge").unwrap();
        assert_eq!((sized.init, sized.objective, sized.optimizer), (paper.init, paper.objective, paper.optimizer));
    }
}
