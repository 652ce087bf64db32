//! GPU against CPU: same plan, same draws, same results up to rounding; and the same bits in every run.
//!
//! The test program can be built on one machine and run on another: it needs nothing but the CUDA libraries. Without a GPU
//! its tests are ignored, or fail if `RUGE_CUDA=required`.
#![allow(clippy::print_stderr, reason = "what differs within rounding is worth knowing")]

use std::process::ExitCode;
use std::sync::Mutex;

use ruge_cuda::{CudaModel, Device};
use ruge_embed::scoring::{ComplEx, DistMult, HolE, Reciprocal, RotatE, TransEL1, TransEL2};
use ruge_embed::*;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Filter, Graph, RankQuery, Ranker, Ties, Triple};
use ruge_testing::{Missing, Need, Tests};

/// One model at a time: tests share the GPU.
static CARD: Mutex<()> = Mutex::new(());

fn device() -> Need<Device> {
    Device::open().map_err(|error| {
        assert!(std::env::var("RUGE_CUDA").as_deref() != Ok("required"), "{error}");
        Missing::new("a GPU", error)
    })
}

fn main() -> ExitCode {
    let device = device();
    let gpu = || device.clone();
    Tests::default()
        .named("complex_trains_as_on_the_processor", gpu(), |gpu| {
            train_as_on_the_processor(&gpu, ComplEx::new, &[3, 21, 200])
        })
        .named("distmult_trains_as_on_the_processor", gpu(), |gpu| {
            train_as_on_the_processor(&gpu, DistMult::new, &[3, 21, 200])
        })
        .named("hole_trains_as_on_the_processor", gpu(), |gpu| {
            train_as_on_the_processor(&gpu, HolE::new, &[3, 21, 200])
        })
        .named("transe_l1_trains_as_on_the_processor", gpu(), |gpu| {
            train_as_on_the_processor(&gpu, TransEL1::new, &[3, 21, 200])
        })
        .named("transe_l2_trains_as_on_the_processor", gpu(), |gpu| {
            train_as_on_the_processor(&gpu, TransEL2::new, &[3, 21, 200])
        })
        .named("rotate_trains_as_on_the_processor", gpu(), |gpu| {
            train_as_on_the_processor(&gpu, RotatE::new, &[3, 21, 200])
        })
        .named("several_warps_train_as_on_the_processor", gpu(), |gpu| {
            train_as_on_the_processor(&gpu, ComplEx::new, &[600])
        })
        .named("many_warps_train_as_on_the_processor", gpu(), |gpu| {
            train_as_on_the_processor(&gpu, TransEL1::new, &[1500])
        })
        .test(gpu(), crowded_rows_are_added_up_by_many)
        .test(gpu(), rates_may_fall_between_epochs)
        .test(gpu(), adaptive_rules_agree_after_an_epoch)
        .test(gpu(), two_runs_and_a_resumed_one_give_the_same_bits)
        .test(gpu(), ranks_scores_and_best_answers_agree)
        .test(gpu(), softmax_agrees_with_the_processor)
        .test(gpu(), softmax_in_another_basis_agrees_with_the_processor)
        .test(gpu(), a_sample_of_candidates_agrees_with_the_processor)
        .test(gpu(), dropout_and_smoothing_agree_with_the_processor)
        .test(gpu(), every_answer_and_loss_agrees_with_the_processor)
        .run()
}

const ENTITIES: u64 = 300;
const RELATIONS: u64 = 7;

fn facts(n: u64, seed: u64) -> Vec<Triple> {
    let draw = |i, j, bound| random::below(random::draw(seed, Stream(0x7e57), j, i), bound) as u32;
    let mut facts: Vec<Triple> =
        (0..n).map(|i| Triple::new(draw(i, 0, ENTITIES), draw(i, 1, RELATIONS), draw(i, 2, ENTITIES))).collect();
    facts.sort_unstable();
    facts.dedup();
    facts
}

/// One to three premises each, conclusions that repeat, some reflexive, some with a formula.
fn evidence(facts: &[Triple]) -> Evidence {
    let mut evidence = Evidence::default();
    for (i, window) in facts.windows(3).enumerate().take(500) {
        let i = i as u32;
        let conclusion = Triple::new(i % 50, i % 3, i % 7);
        let premises = &window[..1 + i as usize % 3];
        let confidence = 0.8 + 0.0003 * i as f32;
        if i % 6 == 5 {
            let formula = [Step::Premise(0), Step::Not, Step::Premise(1), Step::Or, Step::Premise(2), Step::And];
            evidence.push_formula(premises, &formula, conclusion, confidence);
        } else {
            evidence.push(premises, conclusion, confidence);
        }
    }
    evidence
}

/// Thousands of conclusions that share a few tails and relations: too many for one owner.
fn crowd(facts: &[Triple]) -> Evidence {
    let mut evidence = Evidence::default();
    for i in 0..6300u32 {
        let conclusion = Triple::new(i % 300, i / 300 % 7, i / 2100);
        evidence.push(&facts[i as usize % facts.len()..][..1], conclusion, 0.6 + 0.00005 * i as f32);
    }
    evidence
}

type Change<'c> = &'c dyn Fn(&mut Plan<'_>, &mut Optimizer);

struct Pair {
    card: State,
    processor: State,
    losses: [Vec<Losses>; 2],
}

fn train<F: ScoringFunction + Clone>(device: &Device, scoring: &F, epochs: u64, change: Change<'_>) -> Pair {
    train_with(device, scoring, epochs, &evidence, change)
}

fn train_with<F: ScoringFunction + Clone>(
    device: &Device,
    scoring: &F,
    epochs: u64,
    evidence: &dyn Fn(&[Triple]) -> Evidence,
    change: Change<'_>,
) -> Pair {
    let facts = facts(3000, 3);
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &facts);
    let evidence = evidence(&facts);
    let mut plan = Plan { batches: 7, evidence: &evidence, ..Plan::new(&graph, &facts, 9) };
    // SGD: AdaGrad would magnify the rounding of tiny gradients.
    let mut optimizer = Optimizer { rule: UpdateRule::Sgd, entity_rate: 0.3, relation_rate: 0.2, cap: Cap::None };
    change(&mut plan, &mut optimizer);
    let start = Start::Normal { deviation: 0.4, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let embeddings = Embeddings::new(scoring, ENTITIES as usize, RELATIONS as usize, &init, 5);
    let mut card = CudaModel::new(device.clone(), scoring, &embeddings, optimizer).unwrap();
    let mut processor = CpuModel::new(scoring.clone(), embeddings, optimizer);
    let mut losses = [Vec::new(), Vec::new()];
    for epoch in 1..=epochs {
        losses[0].push(card.epoch(&plan, epoch).unwrap());
        losses[1].push(processor.epoch(&plan, epoch).unwrap());
    }
    Pair { card: card.state().unwrap().clone(), processor: processor.state().clone(), losses }
}

fn difference(a: &Table, b: &Table) -> f64 {
    let pairs = a.to_dense().into_iter().zip(b.to_dense());
    pairs
        .map(|(x, y)| f64::from((x - y).abs() / (1.0 + y.abs())))
        .fold(0.0, |worst, x| if x > worst || x.is_nan() { x } else { worst })
}

fn agree<F: ScoringFunction + Clone>(device: &Device, scoring: &F, what: &str, change: Change<'_>) {
    agree_on(device, scoring, what, &evidence, change);
}

fn agree_on<F: ScoringFunction + Clone>(
    device: &Device,
    scoring: &F,
    what: &str,
    evidence: &dyn Fn(&[Triple]) -> Evidence,
    change: Change<'_>,
) {
    let pair = train_with(device, scoring, 3, evidence, change);
    let hinge = ["injection", "pairwise"].iter().any(|name| what.starts_with(name));
    for (card, processor) in pair.losses[0].iter().zip(&pair.losses[1]) {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
        assert!(
            close(card.labeled, processor.labeled) && close(card.unlabeled, processor.unlabeled),
            "{} {what}: losses {card:?} for {processor:?}",
            F::NAME
        );
    }
    let tables = |state: &State| {
        let all: Vec<Table> = std::iter::once(&state.embeddings)
            .chain(&state.moments)
            .flat_map(|x| [x.entities.clone(), x.relations.clone()])
            .collect();
        all
    };
    for (at, (card, processor)) in tables(&pair.card).iter().zip(&tables(&pair.processor)).enumerate() {
        let (card, processor) = (card.to_dense(), processor.to_dense());
        let far = |(x, y): (&f32, &f32)| (x - y).abs() > 2e-4 * (1.0 + y.abs()) || x.is_nan();
        let apart = card.iter().zip(&processor).filter(|&pair| far(pair)).count();
        // A pair within rounding of the margin has a gradient on one device only; a few rows then differ.
        let allowed = if hinge { card.len() / 5 + 2 * scoring.entity_width() } else { 0 };
        assert!(apart <= allowed, "{} {what}: {apart} of {} numbers of table {at} differ", F::NAME, card.len());
    }
    assert_eq!(pair.card.steps, pair.processor.steps);
}

fn soft(t_norm: TNorm) -> Guidance {
    Guidance::SoftLabels { slackness: 0.3, t_norm }
}

fn every_change<F: ScoringFunction + Clone>(device: &Device, scoring: &F) {
    agree(device, scoring, "unguided", &|_, _| ());
    agree(device, scoring, "soft labels", &|plan, _| plan.guidance = soft(TNorm::Product));
    agree(device, scoring, "Łukasiewicz, two steps, with premises", &|plan, _| {
        plan.guidance = soft(TNorm::Lukasiewicz);
        plan.inner_steps = 2;
        plan.dealing = Dealing::WithPremises;
    });
    agree(device, scoring, "fixed labels", &|plan, _| plan.guidance = Guidance::FixedLabels);
    agree(device, scoring, "injection", &|plan, optimizer| {
        (optimizer.entity_rate, optimizer.relation_rate) = (0.01, 0.01);
        plan.guidance = Guidance::Injection { weight: 0.05, margin: 0.1 };
        plan.objective.loss = Loss::TruthRanking { margin: 0.1 };
        plan.objective.penalty = Penalty::None;
        plan.projection = Projection::UnitRowsAfterStep;
    });
    agree(device, scoring, "pairwise, Bernoulli, filtered, row cap", &|plan, optimizer| {
        (optimizer.entity_rate, optimizer.relation_rate) = (0.01, 0.01);
        plan.objective.loss = Loss::PairwiseRanking { margin: 1.0 };
        plan.projection = Projection::UnitEntitiesBeforeBatch;
        plan.negatives = Negatives { sides: Sides::Bernoulli, filtered: true, ..Negatives::default() };
        optimizer.cap = Cap::Row { norm: 0.05 };
    });
    agree(device, scoring, "self-adversarial, one end, subsampled", &|plan, optimizer| {
        (optimizer.entity_rate, optimizer.relation_rate) = (0.05, 0.03);
        plan.objective = Objective {
            loss: Loss::SelfAdversarial { temperature: 0.5 },
            shift: 3.0,
            subsampling: true,
            ..plan.objective
        };
        plan.negatives = Negatives { count: 33, sides: Sides::OneEnd, ..Negatives::default() };
        plan.guidance = soft(TNorm::Product);
    });
    agree(device, scoring, "self-adversarial, halves", &|plan, optimizer| {
        (optimizer.entity_rate, optimizer.relation_rate) = (0.05, 0.03);
        plan.objective.loss = Loss::SelfAdversarial { temperature: 0.0 };
        // More than two chunks, one of them with heads and tails.
        plan.negatives.count = 150;
    });
    agree(device, scoring, "sampled softmax", &|plan, optimizer| {
        (optimizer.entity_rate, optimizer.relation_rate) = (0.05, 0.03);
        plan.objective = Objective { loss: Loss::SampledSoftmax, subsampling: true, ..plan.objective };
        plan.negatives = Negatives { count: 128, sides: Sides::OneEnd, filtered: true, ..Negatives::default() };
    });
    agree(device, scoring, "coin, keep, matrix cap, with replacement", &|plan, optimizer| {
        plan.negatives = Negatives { count: 3, sides: Sides::Coin, filtered: false, keep_original: true };
        plan.batching = Batching::WithReplacement;
        plan.guidance = soft(TNorm::Godel);
        optimizer.cap = Cap::Matrix { norm: 0.05 };
    });
}

/// Small rows, odd ones, and rows with several entries per thread. Compiling takes most of the time, so each model is a
/// separate test and processes can share the work.
fn train_as_on_the_processor<F: ScoringFunction + Clone>(device: &Device, model: fn(usize) -> F, dimensions: &[usize]) {
    let _one = CARD.lock();
    dimensions.iter().for_each(|&dimension| every_change(device, &model(dimension)));
}

fn crowded_rows_are_added_up_by_many(device: Device) {
    let _one = CARD.lock();
    let soft_labels: Change<'_> = &|plan, _| {
        plan.batches = 1;
        plan.guidance = soft(TNorm::Product);
    };
    agree_on(&device, &ComplEx::new(21), "soft labels, crowded", &crowd, soft_labels);
    agree_on(&device, &ComplEx::new(600), "soft labels, crowded", &crowd, soft_labels);
    agree_on(&device, &TransEL1::new(40), "soft labels, crowded", &crowd, soft_labels);
    agree_on(&device, &HolE::new(21), "soft labels, crowded, matrix cap", &crowd, &|plan, optimizer| {
        soft_labels(plan, optimizer);
        optimizer.cap = Cap::Matrix { norm: 0.05 };
    });
}

fn rates_may_fall_between_epochs(device: Device) {
    let _one = CARD.lock();
    let facts = facts(3000, 3);
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &facts);
    let optimizer = Optimizer { rule: UpdateRule::Sgd, entity_rate: 0.3, relation_rate: 0.2, cap: Cap::None };
    let start = Start::Normal { deviation: 0.4, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let scoring = ComplEx::new(24);
    let embeddings = Embeddings::new(&scoring, ENTITIES as usize, RELATIONS as usize, &init, 5);
    for softmax in [None, Some(Softmax { batch: 512, ..Softmax::default() })] {
        let card = CudaModel::new(device.clone(), &scoring, &embeddings, optimizer).unwrap();
        let mut card = card.in_full_precision();
        let mut processor = CpuModel::new(scoring, embeddings.clone(), optimizer);
        for (epoch, rate) in [(1, 1.0), (2, 1.0), (3, 0.5), (4, 0.5), (5, 0.125)] {
            let plan = Plan { batches: 7, rate, softmax, ..Plan::new(&graph, &facts, 9) };
            card.epoch(&plan, epoch).unwrap();
            processor.epoch(&plan, epoch).unwrap();
        }
        let (found, expected) = (Model::state(&card).unwrap(), processor.state());
        let apart = difference(&found.embeddings.entities, &expected.embeddings.entities);
        assert!(apart < 2e-4, "{softmax:?}: rows are {apart} apart");
    }
}

fn adaptive_rules_agree_after_an_epoch(device: Device) {
    let _one = CARD.lock();
    let rules = [
        UpdateRule::AdaGrad { epsilon: 1e-8, inside: false },
        UpdateRule::AdaGrad { epsilon: 1e-4, inside: true },
        UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-4 },
    ];
    for rule in rules {
        let change = |_: &mut Plan<'_>, optimizer: &mut Optimizer| {
            *optimizer = Optimizer { rule, entity_rate: 0.05, relation_rate: 0.05, cap: Cap::Row { norm: 1.0 } };
        };
        let pair = train(&device, &ComplEx::new(40), 1, &change);
        let worst = difference(&pair.card.embeddings.entities, &pair.processor.embeddings.entities);
        assert!(worst < 5e-3, "{rule:?}: entities differ by {worst}");
        let (card, processor) = (pair.losses[0][0].labeled, pair.losses[1][0].labeled);
        assert!((card - processor).abs() < 1e-4 * processor, "{rule:?}: loss {card} for {processor}");
    }
}

fn two_runs_and_a_resumed_one_give_the_same_bits(device: Device) {
    let _one = CARD.lock();
    let facts = facts(3000, 3);
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &facts);
    let evidence = evidence(&facts);
    let plan = Plan { batches: 7, evidence: &evidence, guidance: soft(TNorm::Product), ..Plan::new(&graph, &facts, 9) };
    fn runs<F: ScoringFunction>(device: &Device, scoring: &F, plan: &Plan<'_>) {
        let start = || Embeddings::new(scoring, ENTITIES as usize, RELATIONS as usize, &Init::default(), 5);
        let cap = if plan.softmax.is_some() { Cap::None } else { Optimizer::default().cap };
        let optimizer = Optimizer { cap, ..Optimizer::default() };
        let fresh = || CudaModel::new(device.clone(), scoring, &start(), optimizer).unwrap();
        let mut whole = fresh();
        let mut again = fresh();
        for epoch in 1..=6 {
            whole.epoch(plan, epoch).unwrap();
            again.epoch(plan, epoch).unwrap();
        }
        assert_eq!(whole.state().unwrap(), again.state().unwrap(), "{}", F::NAME);
        let mut first = fresh();
        for epoch in 1..=3 {
            first.epoch(plan, epoch).unwrap();
        }
        let mut second = fresh();
        second.restore(first.state().unwrap().clone()).unwrap();
        for epoch in 4..=6 {
            second.epoch(plan, epoch).unwrap();
        }
        assert_eq!(whole.state().unwrap(), second.state().unwrap(), "{} resumed", F::NAME);
        // Back to the third epoch, while the seventh's questions are loaded.
        second.restore(first.state().unwrap().clone()).unwrap();
        for epoch in 4..=6 {
            second.epoch(plan, epoch).unwrap();
        }
        assert_eq!(whole.state().unwrap(), second.state().unwrap(), "{} taken back", F::NAME);
        let other = Embeddings::new(&ComplEx::new(7), 2, 2, &Init::default(), 5);
        let other = CpuModel::new(ComplEx::new(7), other, Optimizer::default());
        assert!(second.restore(other.state().clone()).is_err());
    }
    runs(&device, &ComplEx::new(50), &plan);
    runs(&device, &HolE::new(50), &plan);
    runs(&device, &RotatE::new(50), &plan);
    let loss = Loss::SelfAdversarial { temperature: 0.5 };
    let negatives = Negatives { count: 200, sides: Sides::OneEnd, ..Negatives::default() };
    let weighed = Plan { objective: Objective { loss, shift: 3.0, ..plan.objective }, negatives, ..plan };
    runs(&device, &RotatE::new(300), &weighed);
    runs(&device, &TransEL2::new(300), &weighed);
    for sample in [0, 50] {
        let softmax = Some(Softmax { sample, dropout: 0.2, ..plain() });
        runs(&device, &Reciprocal(ComplEx::new(50)), &Plan { softmax, ..Plan::new(&graph, &facts, 9) });
    }
}

/// Ranks agree unless two scores are within rounding of each other.
fn ranks_agree<F: ScoringFunction + Clone>(device: &Device, scoring: &F) {
    let facts = facts(3000, 3);
    let filter = Filter::new(ENTITIES as usize, RELATIONS as usize, &[&facts]);
    let embeddings = Embeddings::new(scoring, ENTITIES as usize, RELATIONS as usize, &Init::default(), 5);
    let card = CudaModel::new(device.clone(), scoring, &embeddings, Optimizer::default()).unwrap();
    let processor = CpuModel::new(scoring.clone(), embeddings, Optimizer::default());
    let queries = RankQuery::both_sides(&facts[..700]);
    let found = card.rank(&queries, Some(&filter), &Control::default()).unwrap();
    let expected = processor.rank(&queries, Some(&filter), &Control::default()).unwrap();
    let mut differ = 0;
    for ((query, found), expected) in queries.iter().zip(&found).zip(&expected) {
        assert_eq!((found.filtered.others, found.raw.others), (expected.filtered.others, expected.raw.others));
        if found != expected {
            differ += 1;
            let mut scores = vec![0.0; ENTITIES as usize];
            processor.score_all(*query, &mut scores).unwrap();
            let own = scores[query.answer().index()];
            let near = scores.iter().filter(|&&score| (score - own).abs() <= 1e-4 * (1.0 + own.abs())).count();
            let off = found.raw.rank(Ties::Mean) - expected.raw.rank(Ties::Mean);
            assert!(off.abs() < near as f64, "{}: rank off by {off}, {near} scores near", F::NAME);
        }
    }
    eprintln!("{}: {differ} of {} ranks differ, each within rounding", F::NAME, queries.len());
    assert!(differ * 50 < queries.len(), "{}: {differ} ranks differ", F::NAME);
    let (mut card_scores, mut scores) = (vec![0.0; 700], vec![0.0; 700]);
    Ranker::score(&card, &facts[..700], &mut card_scores).unwrap();
    processor.score(&facts[..700], &mut scores);
    for (a, b) in card_scores.iter().zip(&scores) {
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{}: {a} for {b}", F::NAME);
    }
    let row = ENTITIES as usize;
    let [mut found, mut expected] = [(); 2].map(|()| vec![0.0; queries.len() * row]);
    card.score_many(&queries, &mut found).unwrap();
    Ranker::score_many(&processor, &queries, &mut expected).unwrap();
    for (found, expected) in found.chunks(row).zip(expected.chunks(row)) {
        // Rounding errors scale with the terms of a sum, not with a score near zero.
        let largest = expected.iter().fold(1.0f32, |largest, score| largest.max(score.abs()));
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= 1e-5 * largest, "{}: {a} for {b} where scores reach {largest}", F::NAME);
        }
    }
    let options = ruge_kg::TopOptions::new(5);
    let top = card.top(&queries[..50], &options, &Control::default()).unwrap();
    for (query, list) in queries.iter().zip(&top) {
        let mut all = vec![0.0; ENTITIES as usize];
        card.score_all(*query, &mut all).unwrap();
        // One query and a block of queries are summed in different orders.
        for (found, expected) in list.iter().zip(ruge_kg::rank::select(&all, query, &options)) {
            let close = (found.score - expected.score).abs() <= 1e-4 * (1.0 + expected.score.abs());
            assert!(close, "{}: {found:?} for {expected:?}", F::NAME);
        }
        assert_eq!(list.len(), 5);
    }
}

fn ranks_scores_and_best_answers_agree(device: Device) {
    let _one = CARD.lock();
    for d in [5, 33, 100] {
        ranks_agree(&device, &ComplEx::new(d));
        ranks_agree(&device, &DistMult::new(d));
        ranks_agree(&device, &HolE::new(d));
        ranks_agree(&device, &TransEL1::new(d));
        ranks_agree(&device, &TransEL2::new(d));
        ranks_agree(&device, &RotatE::new(d));
    }
}

/// Softmax against the CPU, step by step, and the same bits in two runs on tensor cores.
fn softmax<F: ScoringFunction + Clone>(device: &Device, scoring: &F, softmax: Softmax, rule: UpdateRule) {
    let facts = facts(3000, 3);
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &facts);
    let examples = ruge_embed::softmax::static_labels(&evidence(&facts), StaticLabel::NoisyOr);
    let plan = Plan { softmax: Some(softmax), examples: &examples, ..Plan::new(&graph, &facts, 9) };
    let optimizer = Optimizer { rule, entity_rate: 0.1, relation_rate: 0.2, cap: Cap::None };
    let start = Start::Normal { deviation: 0.4, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let embeddings = Embeddings::new(scoring, ENTITIES as usize, RELATIONS as usize, &init, 5);
    let card = || CudaModel::new(device.clone(), scoring, &embeddings, optimizer).unwrap();
    let mut exact = card().in_full_precision();
    let mut processor = CpuModel::new(scoring.clone(), embeddings.clone(), optimizer);
    // Questions with all their answers are never grouped.
    let groups = if softmax.answers == Answers::One { 3 } else { usize::MAX };
    let [mut one, mut other] = [card(), card().in_groups_of(groups)];
    for epoch in 1..=3 {
        let found = exact.epoch(&plan, epoch).unwrap().labeled;
        let expected = processor.epoch(&plan, epoch).unwrap().labeled;
        assert!((found - expected).abs() < 1e-4 * expected, "{}: loss {found} for {expected}", F::NAME);
        let rounded = one.epoch(&plan, epoch).unwrap();
        assert!((rounded.labeled - expected).abs() < 1e-2 * expected, "{}: {rounded:?} for {expected}", F::NAME);
        assert_eq!(rounded, other.epoch(&plan, epoch).unwrap());
    }
    assert_eq!(Model::state(&one).unwrap(), Model::state(&other).unwrap());
    let (card, own) = (Model::state(&exact).unwrap(), processor.state());
    assert_eq!(card.steps, own.steps);
    for (found, expected) in
        [(&card.embeddings.entities, &own.embeddings.entities), (&card.embeddings.relations, &own.embeddings.relations)]
    {
        let apart = difference(found, expected);
        assert!(apart < 2e-4, "{} {softmax:?} {rule:?}: rows are {apart} apart", F::NAME);
    }
    let queries = RankQuery::both_sides(&facts[..200]);
    let filter = Filter::new(ENTITIES as usize, RELATIONS as usize, &[&facts]);
    let ranks = |model: &dyn Model| model.rank(&queries, Some(&filter), &Control::default()).unwrap();
    let differ = ranks(&exact).iter().zip(ranks(&processor)).filter(|(a, b)| *a != b).count();
    assert!(differ < 20, "{}: {differ} of {} ranks differ", F::NAME, queries.len());
}

/// AdaGrad divides by the size of the first gradients, which may be rounding errors; a large ε prevents that.
const ADAGRAD: UpdateRule = UpdateRule::AdaGrad { epsilon: 1e-2, inside: false };

fn plain() -> Softmax {
    Softmax { batch: 512, n3: 0.01, ..Softmax::default() }
}

fn softmax_agrees_with_the_processor(device: Device) {
    let _one = CARD.lock();
    let asking = Softmax { relations: 0.5, ..plain() };
    softmax(&device, &Reciprocal(ComplEx::new(24)), plain(), UpdateRule::Sgd);
    softmax(&device, &Reciprocal(ComplEx::new(300)), asking, ADAGRAD);
    softmax(&device, &ComplEx::new(24), asking, UpdateRule::Sgd);
    softmax(
        &device,
        &Reciprocal(DistMult::new(37)),
        asking,
        UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-2 },
    );
    softmax(&device, &DistMult::new(40), plain(), ADAGRAD);
}

fn softmax_in_another_basis_agrees_with_the_processor(device: Device) {
    let _one = CARD.lock();
    softmax(&device, &HolE::new(24), plain(), UpdateRule::Sgd);
    softmax(&device, &HolE::new(101), Softmax { l2: 0.01, dropout: 0.2, ..plain() }, ADAGRAD);
    let all = Softmax { loss: AnswerLoss::Bce, answers: Answers::All, ..plain() };
    softmax(&device, &HolE::new(37), all, UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-2 });
}

fn a_sample_of_candidates_agrees_with_the_processor(device: Device) {
    let _one = CARD.lock();
    let drawn = |sample| Softmax { sample, ..plain() };
    softmax(&device, &Reciprocal(ComplEx::new(24)), drawn(50), UpdateRule::Sgd);
    // More than half of all entities, so that most answers are drawn too.
    softmax(&device, &Reciprocal(ComplEx::new(300)), Softmax { relations: 0.5, l2: 0.01, ..drawn(200) }, ADAGRAD);
    let adam = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-2 };
    softmax(&device, &DistMult::new(37), Softmax { dropout: 0.2, ..drawn(33) }, adam);
    // One candidate, which may be the answer.
    softmax(&device, &ComplEx::new(40), drawn(1), UpdateRule::Sgd);
}

fn dropout_and_smoothing_agree_with_the_processor(device: Device) {
    let _one = CARD.lock();
    let dropped = Softmax { dropout: 0.3, l2: 0.02, relations: 0.5, ..plain() };
    softmax(&device, &Reciprocal(ComplEx::new(24)), dropped, UpdateRule::Sgd);
    softmax(&device, &ComplEx::new(300), Softmax { relations: 0.0, smoothing: 0.2, ..dropped }, UpdateRule::Sgd);
}

fn every_answer_and_loss_agrees_with_the_processor(device: Device) {
    let _one = CARD.lock();
    for loss in [AnswerLoss::Softmax, AnswerLoss::Bce] {
        for answers in [Answers::One, Answers::All] {
            let all = Softmax { loss, answers, smoothing: 0.1, ..plain() };
            softmax(&device, &Reciprocal(ComplEx::new(24)), all, UpdateRule::Sgd);
            softmax(&device, &DistMult::new(40), Softmax { smoothing: 0.0, dropout: 0.2, ..all }, ADAGRAD);
        }
    }
}
