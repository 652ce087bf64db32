//! Settings sized to the data, for `ruge run`: what someone who has tuned a few graphs would try first.
//!
//! `ruge train` keeps the paper's setting, which is right for FB15K and takes a thousand epochs. A graph of ten thousand triples
//! wants other numbers, and a first result within minutes. [`sized`] is the only place that decides them; everything it sets
//! is a leaf of the spec, printed with the run and overridable.
//!
//! *Softmax, guided by examples*: what ComplEx, DistMult and HolE get unless another guidance is asked for.
//!
//! | setting | value | why |
//! |---|---|---|
//! | dimension | 100 · (train / 10,000)^⅓ in tens, 30 to 200; on a card five times as much | rows need facts to be learnt from; a card has the time |
//! | candidates | a sample of 500, 1,000 from 100,000 triples; on a card all, of more than 200,000 a sample of 10,000 | as good as all of them, and a fraction of the work |
//! | batch | 200 questions; 1,000 from 100,000 triples | small graphs have few steps otherwise |
//! | rate | 0.15; 0.1 from 100,000 triples | AdaGrad's, which falls by itself |
//! | N3 | 0.1 below three facts an entity, 0.03 below eight, 0.02 from eight, 0.01 from twenty-five; from 100,000 triples 0.05 and 0.01; 0.005 from 400,000 | the more facts, the less is to be held down |
//! | weight of examples | 0.5; on a card 0.3 | larger models need less pressing |
//! | their labels | the surest rule of each conclusion, confidences measured on validation | rules that say the same thing in other words count once; PCA confidence overstates rules of relations with many answers |
//! | epochs | 100, validated every 3, patience 5; 30 from 100,000 triples | the model without rules peaks before; both get the same budget |
//!
//! *Self-adversarial negatives*: what TransE and RotatE get, alone or with soft labels. On a card, from 50,000 triples on, their presets.
//!
//! | setting | value | why |
//! |---|---|---|
//! | dimension | as above; 200 at most | |
//! | negatives | 64, 32 from 50,000 triples; known facts are drawn again | the hard ones weigh most, and known facts would be the hardest |
//! | γ | RotatE 0.06 · dimension, 3 to 9; TransE 6 | distances grow with the dimension |
//! | batch | 200, 500 from 20,000 triples, 1,000 from 50,000 | |
//! | rate | RotatE (Adam) 0.005, phases 0.06; from 50,000 triples 0.001 and 0.03. TransE (AdaGrad) 0.1 | large graphs have more steps, and at the higher rate learn little until it falls |
//! | its fall | by 0.4 after two validations without a better one | most is learned at the rates in between |
//! | epochs | 100, validated every 5, patience 6; 40 and every 4 from 50,000 triples | |
//!
//! *The paper's trainer*, ComplEx, DistMult and HolE with `--guidance ruge`, `static` or `kale`, and KALE and PTransE on TransE:
//!
//! | setting | value | why |
//! |---|---|---|
//! | dimension | 60 · (train / 10,000)^⅓ in tens, 20 to 200 | 200 is the paper's |
//! | start values | deviation 0.1 | the paper's 1 must be unlearnt first: a third of the epochs on small graphs |
//! | negatives | 20; 10 from 100,000 triples | more of them help small graphs and cost little there |
//! | batches | one per 100 triples, at most 100; on tiny graphs up to 10 of at least 10 triples | the paper's number, without batches of a handful |
//! | learning rate | 0.5 | the paper's |
//! | L2 | 0.015 | weak enough for rules to be learnt, strong enough for a peak within the epochs |
//! | slackness C | 0.01 | the paper's |
//! | epochs | 400, validated every 10, patience 6 | the model without rules peaks before; both get the same budget |
//!
//! *Rules*, for both:
//!
//! | setting | value | why |
//! |---|---|---|
//! | confidence | PCA ≥ 0.5 and standard ≥ 0.4 | the two together keep the conclusions that turn out true |
//! | support | ≥ a thousandth of train, 2 to 10; heads of a hundredth of train, 5 to 100 facts | a rule seen twice may be chance |
//! | conclusions | at most a quarter as many as training triples, the surest rules first | of a graph split 8:1:1 about so many facts are missing; on dense graphs rules conclude far more, mostly wrong ones |
//! | beside the model | weighed thoroughly from 40,000 to 100,000 triples | smaller graphs are asked whole anyway, on larger ones it doubles the time |
//! | validation | on at most 5,000 triples | each costs two queries per triple |
//!
//! The values were chosen on the validation part of the embedded graph and then tried on others; `experiments/README.md` holds the
//! table.

use std::ops::Range;

use ruge_embed::{Cap, Optimizer, Penalty, Plateau, Start, StaticLabel, UpdateRule};
use ruge_kg::Dataset;

use ruge::error::Result;
use ruge::spec::{DeviceName, GuidanceSpec, ModelName, SoftmaxSpec, Spec, Training, Weigh};

/// The counts that settings depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Training triples.
    pub train: usize,
    /// Validation triples.
    pub valid: usize,
    /// Entities.
    pub entities: usize,
}

impl Size {
    /// Of a data set.
    pub fn of(data: &Dataset) -> Self {
        Self { train: data.train().len(), valid: data.valid().len(), entities: data.graph().entity_count() }
    }
}

/// Validation triples looked at every time, at most.
const VALIDATED: usize = 5_000;

/// What rules do unless something is said: they give examples to models that softmax can train, and soft labels to others.
pub fn usual_guidance(model: ModelName) -> &'static str {
    match model {
        ModelName::ComplEx | ModelName::DistMult | ModelName::HolE => "examples",
        _ => "ruge",
    }
}

/// The settings for a model and a guidance on data of this size.
///
/// In the paper's trainer HolE keeps the start values, penalty and rates that [`Spec::paper`] has for it: those belong to the scoring
/// function, not to the data.
pub fn sized(size: Size, model: ModelName, guidance: &str, device: DeviceName) -> Result<Spec> {
    let mut spec = Spec::paper(model, guidance)?;
    spec.device = device;
    let train = size.train.max(1);
    if spec.softmax().is_some() {
        size_softmax(&mut spec, train, size.entities);
    } else if matches!(model, ModelName::TransE | ModelName::RotatE)
        && !matches!(spec.guidance(), GuidanceSpec::Kale { .. } | GuidanceSpec::PTransE { .. })
    {
        size_distance(&mut spec, train);
        if size.valid == 0 {
            spec.schedule.plateau = None;
        }
    } else {
        size_sampled(&mut spec, train);
    }
    spec.rules.min_pca = Some(0.5);
    spec.rules.min_std = Some(0.4);
    spec.rules.max_conclusions = Some(0.25);
    spec.rules.thorough = THOROUGHLY.contains(&train);
    spec.rules.min_support = Some((train as u64 / 1000).clamp(2, 10));
    spec.rules.min_head_size = Some((train as u64 / 100).clamp(5, 100));
    spec.schedule.validation_triples = (size.valid > VALIDATED).then_some(VALIDATED);
    Ok(spec)
}

/// Training triples from which on, and up to which, rules beside the model are weighed with all the effort there is.
const THOROUGHLY: Range<usize> = 40_000..100_000;

/// Entities from which on a card too is asked about a sample: every step would move gigabytes otherwise.
const MANY: usize = 200_000;

/// The trainer that came after the paper.
fn size_softmax(spec: &mut Spec, train: usize, entities: usize) {
    spec.set_softmax();
    let (large, card) = (train >= 100_000, spec.device == DeviceName::Cuda);
    spec.model.dimension = dimension(train) * if card { 5 } else { 1 };
    let in_place = spec.model.name != ModelName::HolE;
    if let Some(SoftmaxSpec { softmax, examples }) = spec.softmax_mut() {
        softmax.batch = if large { 1000 } else { 200 };
        softmax.n3 = match train {
            0..400_000 if train >= 25 * entities => 0.01,
            0..100_000 if train >= 8 * entities => 0.02,
            0..100_000 if train < 3 * entities => 0.1,
            0..100_000 => 0.03,
            100_000..400_000 => 0.05,
            _ => 0.005,
        };
        let sample = match (card, large) {
            (false, false) => 500,
            (false, true) => 1000,
            // In another basis a card knows no samples.
            (true, _) if entities > MANY && in_place => 10_000,
            (true, _) => 0,
        };
        softmax.sample = if sample >= entities { 0 } else { sample };
        if let Some(examples) = examples {
            (examples.weight, examples.label) = (if card { 0.3 } else { 0.5 }, StaticLabel::Max);
        }
    }
    let rate = if large { 0.1 } else { 0.15 };
    (spec.optimizer.entity_rate, spec.optimizer.relation_rate) = (rate, rate);
    spec.rules.weigh = Weigh::Validated;
    spec.schedule.epochs = if large { 30 } else { 100 };
    spec.schedule.validate_every = 3;
    spec.schedule.patience = Some(5);
}

/// Distance models as they are trained today.
fn size_distance(spec: &mut Spec, train: usize) {
    let (large, rotate) = (train >= 50_000, spec.model.name == ModelName::RotatE);
    if large && spec.device == DeviceName::Cuda {
        return if rotate { spec.set_rotate() } else { spec.set_transe() };
    }
    let dimension = dimension(train);
    let gamma = if rotate { (0.06 * dimension as f32).clamp(3.0, 9.0) } else { 6.0 };
    if let Some(training) = spec.set_self_adversarial(gamma, 1.0) {
        training.negatives.count = if large { 32 } else { 64 };
        training.negatives.filtered = true;
        training.batches.size = Some(match train {
            0..20_000 => 200,
            20_000..50_000 => 500,
            _ => 1000,
        });
    }
    spec.model.dimension = dimension;
    let (rule, entity_rate, relation_rate) = if rotate {
        spec.init.relations = Start::Uniform { bound: std::f32::consts::PI, unit: false };
        let (entities, phases) = if large { (0.001, 0.03) } else { (0.005, 0.06) };
        (UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }, entities, phases)
    } else {
        (UpdateRule::AdaGrad { epsilon: 1e-10, inside: false }, 0.1, 0.1)
    };
    spec.optimizer = Optimizer { rule, entity_rate, relation_rate, cap: Cap::None };
    (spec.schedule.epochs, spec.schedule.validate_every) = if large { (40, 4) } else { (100, 5) };
    spec.schedule.patience = Some(6);
    spec.schedule.plateau = Some(Plateau { factor: 0.4, patience: 2 });
}

/// The paper's trainer.
fn size_sampled(spec: &mut Spec, train: usize) {
    let model = spec.model.name;
    spec.model.dimension = tens(60.0 * (train as f64 / 10_000.0).cbrt()).clamp(20, 200);
    let batches = (train / 100).max((train / 10).min(10)).clamp(1, 100);
    match &mut spec.training {
        Training::Negatives(training) => {
            training.batches.count = batches;
            if matches!(model, ModelName::ComplEx | ModelName::DistMult) {
                training.negatives.count = if train < 100_000 { 20 } else { 10 };
                let start = Start::Normal { deviation: 0.1, unit: false };
                (spec.init.entities, spec.init.relations) = (start, start);
                training.objective.penalty = Penalty::L2 { weight: 0.015 };
            }
        }
        Training::PTransE(training) => training.batches = batches,
        Training::Softmax(_) | Training::Rules => {}
    }
    spec.schedule.epochs = 400;
    spec.schedule.validate_every = 10;
    spec.schedule.patience = Some(6);
}

/// What a processor has the time for.
fn dimension(train: usize) -> usize {
    tens(100.0 * (train as f64 / 10_000.0).cbrt()).clamp(30, 200)
}

/// Rounded to tens. Dimensions grow with the cube root: eight times the facts carry twice the numbers.
fn tens(ideal: f64) -> usize {
    (ideal / 10.0).round() as usize * 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(spec: &Spec) -> usize {
        spec.negatives().unwrap().negatives.count
    }

    fn of(train: usize, valid: usize) -> Spec {
        sized(Size { train, valid, entities: 2000 }, ModelName::ComplEx, "ruge", DeviceName::Cpu).unwrap()
    }

    #[test]
    fn softmax_grows_with_the_data_and_the_device() {
        let of = |train: usize, entities: usize, device: DeviceName| {
            sized(Size { train, valid: 0, entities }, ModelName::ComplEx, "examples", device).unwrap()
        };
        let on_processor = |train: usize| of(train, 2000, DeviceName::Cpu);
        assert_eq!([100, 9_521, 86_835, 483_142].map(|train| on_processor(train).model.dimension), [30, 100, 200, 200]);
        assert_eq!(of(483_142, 15_000, DeviceName::Cuda).model.dimension, 1000);
        let sample = |train: usize, entities: usize, device| of(train, entities, device).softmax().unwrap().sample;
        assert_eq!(sample(9_521, 2000, DeviceName::Cpu), 500);
        assert_eq!(sample(5_216, 135, DeviceName::Cpu), 0, "all of a few entities");
        assert_eq!(sample(483_142, 15_000, DeviceName::Cpu), 1000);
        assert_eq!(sample(483_142, 15_000, DeviceName::Cuda), 0);
        assert_eq!(sample(9_000_000, 1_000_000, DeviceName::Cuda), 10_000);
        let thorough = |train: usize| on_processor(train).rules.thorough;
        assert_eq!([9_521, 86_835, 272_115].map(thorough), [false, true, false]);
        let n3 = |train: usize, entities: usize| of(train, entities, DeviceName::Cpu).softmax().unwrap().n3;
        assert_eq!([n3(9_521, 2000), n3(32_888, 2034), n3(5_216, 135), n3(86_835, 40_943)], [0.03, 0.02, 0.01, 0.1]);
        assert_eq!([n3(99_999, 1000), n3(100_000, 1000), n3(272_115, 14_505)], [0.01, 0.01, 0.05]);
        assert!(on_processor(50_000).softmax().unwrap().n3 > on_processor(483_142).softmax().unwrap().n3);
    }

    #[test]
    fn settings_grow_with_the_data() {
        let dimensions =
            [1, 100, 9_521, 86_835, 272_115, 483_142, 10_000_000].map(|train| of(train, 0).model.dimension);
        assert_eq!(dimensions, [20, 20, 60, 120, 180, 200, 200]);
        let batches = [1, 99, 950, 9_521, 483_142].map(|train| of(train, 0).negatives().unwrap().batches.count);
        assert_eq!(batches, [1, 9, 10, 95, 100]);
        assert_eq!([9_521, 483_142].map(|train| drawn(&of(train, 0))), [20, 10]);
        let rules = |train: usize| of(train, 0).rules;
        assert_eq!((rules(300).min_support, rules(300).min_head_size), (Some(2), Some(5)));
        assert_eq!((rules(9_521).min_support, rules(9_521).min_head_size), (Some(9), Some(95)));
        assert_eq!((rules(90_000).min_support, rules(90_000).min_head_size), (Some(10), Some(100)));
    }

    #[test]
    fn every_system_gets_settings_that_can_run() {
        for model in ModelName::ALL.into_iter().filter(|model| *model != ModelName::Rules) {
            for guidance in ["none", "ruge", usual_guidance(model)] {
                for train in [0, 1, 50, 10_000, 1_000_000] {
                    let size = Size { train, valid: 7_000, entities: 500 };
                    let spec = sized(size, model, guidance, DeviceName::Cpu).unwrap();
                    assert!(spec.check().is_ok(), "{model:?} {guidance} {train}");
                    assert_eq!(spec.schedule.validation_triples, Some(5_000));
                }
            }
        }
        let size = Size { train: 10_000, valid: 0, entities: 500 };
        let kale = sized(size, ModelName::TransE, "kale", DeviceName::Cpu).unwrap();
        assert_eq!((drawn(&kale), kale.schedule.validation_triples), (2, None), "its own negatives stay");
        assert!(sized(size, ModelName::TransE, "magic", DeviceName::Cpu).is_err());
    }

    #[test]
    fn other_models_keep_their_own_start() {
        let size = Size { train: 10_000, valid: 0, entities: 500 };
        let sized = sized(size, ModelName::HolE, "ruge", DeviceName::Cpu).unwrap();
        let paper = Spec::paper(ModelName::HolE, "ruge").unwrap();
        let objective = |spec: &Spec| spec.negatives().unwrap().objective;
        assert_eq!((sized.init, sized.optimizer), (paper.init, paper.optimizer));
        assert_eq!(objective(&sized), objective(&paper));
    }

    #[test]
    fn distances_meet_many_negatives() {
        let of = |train, valid, device| {
            sized(Size { train, valid, entities: 500 }, ModelName::RotatE, "ruge", device).unwrap()
        };
        let small = of(10_000, 100, DeviceName::Cpu);
        assert_eq!((small.model.dimension, small.shift(), drawn(&small)), (100, 6.0, 64));
        assert!(small.schedule.plateau.is_some() && !small.is_of_the_paper());
        assert!(of(10_000, 0, DeviceName::Cpu).schedule.plateau.is_none(), "nothing to look at");
        assert_eq!(drawn(&of(483_142, 100, DeviceName::Cpu)), 32);
        assert_eq!(of(483_142, 100, DeviceName::Cuda).model.dimension, 1000, "the preset");
        let hole =
            sized(Size { train: 900_000, valid: 9, entities: 300_000 }, ModelName::HolE, "examples", DeviceName::Cuda);
        assert!(hole.unwrap().check().is_ok());
    }
}
