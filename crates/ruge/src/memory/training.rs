//! What training takes: tables, a batch, and what is known beforehand of everything else that a setting can blow up.
//!
//! The arithmetic follows the trainer of `ruge-embed` and leaves out what no setting moves. Each part names the setting that lowers it,
//! so that the error can.

use ruge_embed::incidence::PARTS;
use ruge_embed::rank::PACKING;
use ruge_embed::scoring::{entity_parameters, relation_parameters};
use ruge_embed::softmax::Answers;
use ruge_embed::{PTransEConfig, ScoringFunction, Table};

use super::{Need, Share};
use crate::error::{Result, RugeError};
use crate::spec::{NegativesSpec, Pull, SoftmaxSpec, Spec, Training};

/// Widths of rows in floats, padding included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// A row of an entity and of a relation, as trained.
    pub(crate) rows: [u64; 2],
    /// The same as scored, where that is another basis.
    pub(crate) images: [u64; 2],
    /// A query, and a gradient of a relation.
    pub(crate) query: [u64; 2],
}

impl Shape {
    /// That of a scoring function.
    pub(crate) fn of(scoring: &impl ScoringFunction) -> Self {
        let query = [scoring.entity_width(), scoring.relation_width()].map(stride);
        Self {
            rows: [entity_parameters(scoring), relation_parameters(scoring)].map(stride),
            images: if scoring.transform().is_some() { query } else { [0; 2] },
            query,
        }
    }
}

fn stride(width: usize) -> u64 {
    Table::zeros(0, width).stride() as u64
}

/// How much there is to train on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) entities: u64,
    pub(crate) relations: u64,
    pub(crate) triples: u64,
    /// Validation triples.
    pub(crate) valid: u64,
    pub(crate) groundings: u64,
    /// Premises of all groundings.
    pub(crate) premises: u64,
    /// Weighted triples besides the observed ones.
    pub(crate) examples: u64,
}

const FLOAT: u64 = 4;
/// Bytes of a triple.
const TRIPLE: u64 = 12;
/// Bytes of the place of a question of softmax training, and of the question itself, of which two batches are made at a time.
const PLACE: u64 = 4;
const QUESTION: u64 = 28;

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor))
}

fn sum(terms: &[u64]) -> u64 {
    terms.iter().fold(0, |sum, &term| sum.saturating_add(term))
}

/// Bytes of a table of so many rows for entities and relations.
fn tables(sizes: &Sizes, [entity, relation]: [u64; 2]) -> u64 {
    sum(&[product(&[FLOAT, sizes.entities, entity]), product(&[FLOAT, sizes.relations, relation])])
}

/// What training on the processor takes.
pub(crate) fn training(spec: &Spec, shape: &Shape, sizes: &Sizes) -> Result<Need> {
    let dim = "lower model.dimension";
    let parameters = tables(sizes, shape.rows);
    let mut need =
        Need::new(format!("training a model of dimension {} for {} entities", spec.model.dimension, sizes.entities));
    need.add("parameters", sum(&[parameters, tables(sizes, shape.images)]), dim);
    need.add("the optimiser", product(&[parameters, spec.optimizer.state_tables() as u64]), dim);
    if spec.schedule.validate_every > 0 && sizes.valid > 0 {
        need.add("the best model so far", parameters, dim);
        let panels = product(&[FLOAT, sizes.entities, shape.query[0]]).min(PACKING as u64);
        need.add("ranking in validations", panels, dim);
    }
    if spec.takes_rules() {
        let evidence = sum(&[product(&[sizes.groundings, 4 * TRIPLE]), product(&[sizes.premises, TRIPLE])]);
        need.add("groundings", evidence, "lower rules.max-conclusions, or raise rules.min-confidence");
    }
    match &spec.training {
        Training::Softmax(SoftmaxSpec { softmax, .. }) => {
            let questions = 2 * (sizes.triples + sizes.examples);
            let batch = questions.min(softmax.batch as u64);
            let vectors = 4 + u64::from(softmax.relations > 0.0);
            let rows = product(&[FLOAT, batch, vectors, shape.query[0].max(shape.query[1])]);
            need.add(
                "the questions of a batch",
                sum(&[rows, product(&[batch, 64 + 2 * QUESTION])]),
                "lower softmax.batch",
            );
            let sampled = (1..sizes.entities).contains(&(softmax.sample as u64));
            let among = if sampled { softmax.sample as u64 } else { sizes.entities };
            // Questions are scored a few hundred at a time.
            let scored = batch.min(256);
            let gradients = product(&[FLOAT, among, shape.query[0], 1 + u64::from(sampled)]);
            let scores = product(&[FLOAT, among + among / 16, scored]).max(if sampled { FLOAT << 20 } else { 0 });
            let remedy = if sampled { "lower softmax.sample" } else { "set softmax.sample" };
            need.add("candidates and their scores", sum(&[gradients, scores]), remedy);
            // Questions with one answer are made batch by batch from their places; those with all are kept.
            let each = if softmax.answers == Answers::One { PLACE } else { 40 };
            need.add("the order of an epoch", product(&[questions, each]), "train on fewer triples");
        }
        Training::Negatives(training) => {
            let most = spec.rules.most_groundings.map_or(u64::MAX, |most| most as u64);
            negatives(training, shape, sizes, most, &mut need)?
        }
        Training::PTransE(_) | Training::Rules => {}
    }
    Ok(need)
}

/// A batch of positives with their negatives, and of conclusions.
fn negatives(training: &NegativesSpec, shape: &Shape, sizes: &Sizes, most: u64, need: &mut Need) -> Result<()> {
    let NegativesSpec { batches: cut, negatives, guidance, .. } = training;
    let triples = sizes.triples.max(1);
    let batches = match cut.size {
        Some(size) => triples.div_ceil(size.max(1) as u64),
        None => (cut.count as u64).clamp(1, triples),
    };
    let positives = triples.div_ceil(batches);
    let each = negatives.per_positive() as u64;
    let drawn = product(&[positives, each]);
    let smaller = match cut.size {
        Some(_) => "lower negatives.count or batches.size",
        None => "lower negatives.count, or raise batches.count",
    };
    // Places within a batch are numbered in 32 bits.
    if drawn.saturating_add(positives) > u64::from(u32::MAX / PARTS as u32) {
        return Err(RugeError::setting(
            "negatives.count",
            format!(
                "a batch of {positives} positives with {each} negatives each is larger than can be trained on\n  remedy: {smaller}"
            ),
        ));
    }
    // Drawn twice, since the next batch is made meanwhile, each with its place in two lists; once the pull of each.
    need.add(
        format!("the negatives of a batch ({positives} positives × {each})"),
        product(&[drawn, 2 * 16 + FLOAT]),
        smaller,
    );
    let guided = match guidance {
        Pull::Kale { .. } => sum(&[sizes.premises, 2 * sizes.groundings]),
        _ => sizes.groundings,
    };
    let unlabeled = guided.min(most).div_ceil(batches);
    let slot = product(&[PARTS as u64, FLOAT, shape.query[0]]) + 64;
    let size = match cut.size {
        Some(_) => "lower batches.size",
        None => "raise batches.count",
    };
    need.add(format!("the {positives} positives of a batch"), product(&[positives, slot]), size);
    need.add("the groundings of a batch", product(&[unlabeled, slot]), "set rules.most-groundings");
    need.add("the order of an epoch", product(&[triples + sizes.groundings, 8]), "train on fewer triples");
    Ok(())
}

/// What PTransE takes besides its paths, which are found as they are needed.
pub(crate) fn ptranse(config: &PTransEConfig, sizes: &Sizes) -> Need {
    // Gradients of relations, added up in as many parts.
    const SUMS: u64 = 16;
    let row = stride(config.dimension);
    let labels = 2 * sizes.relations;
    let mut need =
        Need::new(format!("training ptranse of dimension {} for {} entities", config.dimension, sizes.entities));
    let dim = "lower model.dimension";
    need.add("parameters", product(&[2, FLOAT, sizes.entities + labels, row]), dim);
    need.add("the gradients of relations", product(&[SUMS, FLOAT, labels, row]), dim);
    let links = (2 * sizes.triples).max(1);
    let batch = (links / (config.batches as u64).clamp(1, links)).max(1);
    let samples = product(&[batch, 3 * config.dimension as u64 + 64]);
    need.add(format!("the {batch} samples of a batch"), samples, "raise batches.count");
    need
}

impl Need {
    /// One part of it alone.
    pub(crate) fn only(mut self, what: &str) -> Self {
        self.parts.retain(|part| part.what == what);
        self
    }

    /// All but one part of it.
    pub(crate) fn without(mut self, what: &str) -> Self {
        self.parts.retain(|part| part.what != what);
        self
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, what: impl Into<String>, bytes: u64, remedy: &'static str) {
        self.parts.push(Share { what: what.into(), bytes, remedy });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ModelName, Preset};
    use ruge_embed::scoring::ComplEx;

    const FB15K: Sizes = Sizes {
        entities: 14_951,
        relations: 1_345,
        triples: 483_142,
        valid: 50_000,
        groundings: 0,
        premises: 0,
        examples: 0,
    };

    /// The error of a spec on a machine with 16 GB.
    fn told(spec: &Spec, sizes: Sizes) -> String {
        let shape = Shape::of(&ComplEx::new(spec.model.dimension));
        match training(spec, &shape, &sizes).and_then(|need| need.within(16_000_000_000)) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn everything_that_a_setting_can_blow_up_is_counted() {
        let spec = |change: &dyn Fn(&mut Spec)| {
            let mut spec = Spec::default();
            change(&mut spec);
            spec
        };
        let softmax = |change: &dyn Fn(&mut Spec)| {
            let mut spec = Preset::ComplexN3.spec().expect("a preset");
            change(&mut spec);
            spec
        };
        assert_eq!(told(&spec(&|_| ()), FB15K), "");
        assert_eq!(told(&softmax(&|_| ()), FB15K), "");
        let million = Sizes { entities: 5_000_000, ..FB15K };
        let grounded = Sizes { groundings: 150_000_000, premises: 300_000_000, ..FB15K };
        for (spec, sizes, words) in [
            (spec(&|spec| drawn(spec).negatives.count = 40_000_000), FB15K, "negatives.count"),
            (spec(&|spec| drawn(spec).negatives.count = usize::MAX), FB15K, "negatives.count"),
            (spec(&|spec| drawn(spec).negatives.count = 100_000), FB15K, "negatives.count"),
            (spec(&|spec| (drawn(spec).batches.count, spec.model.dimension) = (1, 2_000)), FB15K, "batches.count"),
            (
                spec(&|spec| (drawn(spec).batches.size, spec.model.dimension) = (Some(usize::MAX), 2_000)),
                FB15K,
                "batches.size",
            ),
            (spec(&|spec| spec.model.dimension = 20_000), million, "model.dimension"),
            (spec(&|spec| spec.model.dimension = 20_000), FB15K, ""),
            (softmax(&|spec| softmax_of(spec).batch = usize::MAX), Sizes { triples: 20_000_000, ..FB15K }, ".batch"),
            (softmax(&|spec| spec.model.dimension = 1), Sizes { entities: 50_000_000, ..FB15K }, "softmax.sample"),
            (
                softmax(&|spec| softmax_of(spec).sample = 30_000_000),
                Sizes { entities: 50_000_000, ..FB15K },
                "softmax.",
            ),
            (
                Spec::paper(ModelName::ComplEx, "ruge").expect("a system"),
                Sizes { groundings: 400_000_000, premises: 800_000_000, ..grounded },
                "rules.min-confidence",
            ),
        ] {
            let told = told(&spec, sizes);
            assert_eq!(told.is_empty(), words.is_empty(), "{told}");
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    fn softmax_of(spec: &mut Spec) -> &mut ruge_embed::Softmax {
        &mut spec.softmax_mut().expect("the preset has one").softmax
    }

    fn drawn(spec: &mut Spec) -> &mut NegativesSpec {
        spec.negatives_mut().expect("the paper has some")
    }

    #[test]
    fn the_arithmetic_is_that_of_the_trainer() {
        let shape = Shape::of(&ComplEx::new(8));
        assert_eq!((shape.rows, shape.images), ([16, 16], [0, 0]));
        let sizes = Sizes { entities: 100, relations: 10, triples: 1000, ..Sizes::default() };
        let spec = Spec { model: crate::spec::ModelSpec { dimension: 8, ..Spec::default().model }, ..Spec::default() };
        let need = training(&spec, &shape, &sizes).expect("it is small");
        let bytes = |what: &str| need.parts.iter().find(|part| part.what.contains(what)).map(|part| part.bytes);
        assert_eq!(bytes("parameters"), Some(4 * 16 * 110));
        assert_eq!(bytes("optimiser"), Some(4 * 16 * 110));
        let softmax = Preset::ComplexN3.spec().expect("a preset");
        let need = training(&softmax, &shape, &sizes).expect("it is small");
        let order = need.parts.iter().find(|part| part.what.contains("order")).map(|part| part.bytes);
        assert_eq!(order, Some(2 * 4 * 1000), "eight bytes per triple");
        assert_eq!(QUESTION, size_of::<ruge_embed::softmax::Question>() as u64);
        // A hundred batches of ten positives with ten negatives.
        assert_eq!(bytes("negatives"), Some(10 * 10 * 36));
        assert_eq!(bytes("positives of a batch"), Some(10 * (4 * 4 * 16 + 64)));
    }

    #[test]
    fn ptranse_has_its_own_arithmetic() {
        let told = |config: PTransEConfig, sizes: &Sizes| {
            ptranse(&config, sizes).within(16_000_000_000).err().map_or(String::new(), |error| error.to_string())
        };
        assert_eq!(told(PTransEConfig::default(), &FB15K), "");
        assert_eq!(told(PTransEConfig { batches: usize::MAX, ..PTransEConfig::default() }, &FB15K), "");
        let wide = PTransEConfig { dimension: 20_000, ..PTransEConfig::default() };
        assert!(told(wide, &Sizes { relations: 13_450, ..FB15K }).contains("model.dimension"));
        let one = PTransEConfig { batches: 1, dimension: 10_000, ..PTransEConfig::default() };
        assert!(told(one, &FB15K).contains("batches.count"), "{}", told(one, &FB15K));
    }
}
