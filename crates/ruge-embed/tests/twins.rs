//! The fast path against the plain twin on random graphs, for every model; and the same bits on any number of threads
//! and instruction set, with or without empty evidence.
#![allow(missing_docs, clippy::type_complexity)]

use ruge_embed::cpu::Isa;
use ruge_embed::scoring::{ComplEx, DistMult, HolE, RotatE, TransEL1, TransEL2};
use ruge_embed::twin::{Rows, Scoring, Twin};
use ruge_embed::*;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Graph, RankQuery, TopOptions, Triple};

const ENTITIES: u64 = 23;
const RELATIONS: u64 = 4;

fn facts(n: u64, seed: u64) -> Vec<Triple> {
    let draw = |i, j, bound| random::below(random::draw(seed, Stream(0x7e57), j, i), bound) as u32;
    let mut facts: Vec<Triple> =
        (0..n).map(|i| Triple::new(draw(i, 0, ENTITIES), draw(i, 1, RELATIONS), draw(i, 2, ENTITIES))).collect();
    facts.sort_unstable();
    facts.dedup();
    facts
}

/// One to three premises each, conclusions that repeat, some reflexive.
fn evidence(facts: &[Triple]) -> Evidence {
    let mut evidence = Evidence::default();
    for (i, window) in facts.windows(3).enumerate().take(30) {
        let conclusion = Triple::new(i as u32 % 5, i as u32 % 3, i as u32 % 7);
        evidence.push(&window[..1 + i % 3], conclusion, 0.8 + 0.005 * i as f32);
    }
    evidence
}

fn wide(table: &Table) -> Rows {
    (0..table.rows()).map(|i| table.row(i).iter().map(|&x| f64::from(x)).collect()).collect()
}

fn optimizer() -> Optimizer {
    // SGD: AdaGrad would magnify the rounding of tiny gradients.
    Optimizer { rule: UpdateRule::Sgd, entity_rate: 0.3, relation_rate: 0.2, cap: Cap::None }
}

fn check<F: ScoringFunction + Clone>(scoring: F, twin_scoring: Scoring) {
    check_guided(scoring, twin_scoring, Guidance::SoftLabels { slackness: 0.3, t_norm: TNorm::Product });
}

fn check_guided<F: ScoringFunction + Clone>(scoring: F, twin_scoring: Scoring, guidance: Guidance) {
    let facts = facts(60, 2);
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &facts);
    let evidence = evidence(&facts);
    let plan = Plan {
        batches: 3,
        evidence: &evidence,
        guidance,
        objective: Objective { penalty: Penalty::L2 { weight: 0.05 }, ..Objective::default() },
        ..Plan::new(&graph, &facts, 9)
    };
    let start = Start::Normal { deviation: 0.4, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let embeddings = Embeddings::new(&scoring, ENTITIES as usize, RELATIONS as usize, &init, 5);
    let mut twin = Twin {
        l2: 0.05,
        slackness: 0.3,
        ..Twin::new(twin_scoring, wide(&embeddings.entities), wide(&embeddings.relations))
    };
    let mut model = CpuModel::new(scoring, embeddings, optimizer());
    let order = plan::EpochOrder::new(&plan, 1);
    for index in 0..3 {
        let mut batch = Batch::default();
        batch.prepare(&plan, &order, index);
        let mut labeled = Vec::new();
        for (i, &x) in batch.examples.positives.iter().enumerate() {
            labeled.push((x, 1.0));
            let (heads, tails) = batch.examples.negatives(i);
            labeled.extend(heads.iter().map(|&head| (Triple { head, ..x }, 0.0)));
            labeled.extend(tails.iter().map(|&tail| (Triple { tail, ..x }, 0.0)));
        }
        assert_eq!(labeled.len(), 11 * batch.examples.positives.len());
        let groundings: Vec<_> = (0..batch.evidence.len())
            .map(|g| {
                let confidence = f64::from(batch.evidence.confidence(g));
                (batch.evidence.premises(g).to_vec(), batch.evidence.conclusion(g), confidence)
            })
            .collect();
        let mut soft = twin.soft_labels(&groundings);
        if guidance == Guidance::FixedLabels {
            let best = |x: Triple| {
                let own = groundings.iter().filter(|(_, conclusion, _)| *conclusion == x);
                own.map(|&(.., confidence)| confidence).fold(0.0, f64::max)
            };
            soft.iter_mut().for_each(|(x, label)| *label = best(*x));
        }
        assert_eq!(soft.len(), batch.unlabeled.len());
        let gradient = twin.gradient(&labeled, &soft);
        for (rows, (gradient, rate)) in
            [&mut twin.entities, &mut twin.relations].into_iter().zip(gradient.iter().zip([0.3, 0.2]))
        {
            for (row, gradient) in rows.iter_mut().zip(gradient) {
                row.iter_mut().zip(gradient).for_each(|(x, g)| *x -= rate * g);
            }
        }
        model.train(&plan, &batch);
        let Embeddings { entities, relations } = &model.state().embeddings;
        for (found, expected) in [(wide(entities), &twin.entities), (wide(relations), &twin.relations)] {
            for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                assert!((found - expected).abs() < 2e-5, "{twin_scoring:?}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn labels_may_be_fixed() {
    check_guided(ComplEx::new(8), Scoring::ComplEx, Guidance::FixedLabels);
    check_guided(HolE::new(8), Scoring::HolE, Guidance::FixedLabels);
}

#[test]
fn every_model_trains_as_its_twin() {
    for d in [3, 8, 21] {
        check(ComplEx::new(d), Scoring::ComplEx);
        check(DistMult::new(d), Scoring::DistMult);
        check(HolE::new(d), Scoring::HolE);
        check(TransEL1::new(d), Scoring::TransEL1);
        check(TransEL2::new(d), Scoring::TransEL2);
        check(RotatE::new(d), Scoring::RotatE);
    }
}

/// Losses over a positive and all its negatives, against the plain gradient: the pull on each triple, in `f64`.
fn check_against_many<F: ScoringFunction + Clone>(scoring: F, twin_scoring: Scoring, loss: Loss) {
    let facts = facts(60, 2);
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &facts);
    let objective = Objective { loss, shift: 1.5, subsampling: true, penalty: Penalty::L2 { weight: 0.05 } };
    let negatives = Negatives { count: 6, sides: Sides::OneEnd, ..Negatives::default() };
    let plan = Plan { batches: 3, objective, negatives, ..Plan::new(&graph, &facts, 9) };
    let start = Start::Normal { deviation: 0.4, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let embeddings = Embeddings::new(&scoring, ENTITIES as usize, RELATIONS as usize, &init, 5);
    let mut twin =
        Twin { l2: 0.05, ..Twin::new(twin_scoring, wide(&embeddings.entities), wide(&embeddings.relations)) };
    let mut model = CpuModel::new(scoring, embeddings, optimizer());
    let order = plan::EpochOrder::new(&plan, 1);
    for index in 0..3 {
        let mut batch = Batch::default();
        batch.prepare(&plan, &order, index);
        let positives = &batch.examples.positives;
        let count = |same: &dyn Fn(&Triple) -> bool| 3.0 + facts.iter().filter(|x| same(x)).count() as f64;
        let frequency = |x: &Triple| {
            count(&|y| (y.head, y.relation) == (x.head, x.relation))
                + count(&|y| (y.tail, y.relation) == (x.tail, x.relation))
        };
        let weights: Vec<f64> = positives.iter().map(|x| frequency(x).powf(-0.5)).collect();
        let sum: f64 = weights.iter().sum();
        let (mut gradient, mut expected) = (twin.zeros(), 0.0);
        let occurrence = 1.0 / (7 * positives.len()) as f64;
        for (i, &x) in positives.iter().enumerate() {
            let (heads, tails) = batch.examples.negatives(i);
            let replaced = heads.iter().map(|&head| Triple { head, ..x });
            let replaced: Vec<Triple> = replaced.chain(tails.iter().map(|&tail| Triple { tail, ..x })).collect();
            assert_eq!(replaced.len(), 6);
            let own = weights[i] / sum;
            let (score, scores) = (twin.score(x), replaced.iter().map(|&x| twin.score(x)).collect::<Vec<_>>());
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let (d_own, d_scores): (f64, Vec<f64>) = match loss {
                Loss::SelfAdversarial { temperature } => {
                    let hard = |score: f64| (f64::from(temperature) * score).exp();
                    let all: f64 = scores.iter().map(|&score| hard(score)).sum();
                    let of = |score: &f64| hard(*score) / all;
                    let negatives = scores.iter().map(|score| -of(score) * sigmoid(-1.5 - score).ln()).sum::<f64>();
                    expected += own * 0.5 * (-sigmoid(1.5 + score).ln() + negatives);
                    let slopes = scores.iter().map(|score| 0.5 * of(score) * sigmoid(1.5 + score)).collect();
                    (0.5 * (sigmoid(1.5 + score) - 1.0), slopes)
                }
                _ => {
                    // Each of six stands for the 22 entities other than the answer.
                    let share = 22.0 / 6.0;
                    let all = score.exp() + share * scores.iter().map(|score| score.exp()).sum::<f64>();
                    expected += own * (all.ln() - score);
                    (score.exp() / all - 1.0, scores.iter().map(|score| share * score.exp() / all).collect())
                }
            };
            twin.add_pull(&mut gradient, x, own * d_own, occurrence);
            for (&x, d_score) in replaced.iter().zip(d_scores) {
                twin.add_pull(&mut gradient, x, own * d_score, occurrence);
            }
        }
        let tables = [&mut twin.entities, &mut twin.relations].into_iter().zip(gradient.iter().zip([0.3, 0.2]));
        for (rows, (gradient, rate)) in tables {
            for (row, gradient) in rows.iter_mut().zip(gradient) {
                row.iter_mut().zip(gradient).for_each(|(x, g)| *x -= rate * g);
            }
        }
        let found = model.train(&plan, &batch).labeled;
        assert!((found - expected).abs() < 1e-5 * expected, "{twin_scoring:?} {loss:?}: loss {found} for {expected}");
        let Embeddings { entities, relations } = &model.state().embeddings;
        for (found, expected) in [(wide(entities), &twin.entities), (wide(relations), &twin.relations)] {
            for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                assert!((found - expected).abs() < 2e-5, "{twin_scoring:?} {loss:?}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn positives_stand_against_all_their_negatives() {
    for loss in [Loss::SelfAdversarial { temperature: 0.5 }, Loss::SampledSoftmax] {
        check_against_many(ComplEx::new(8), Scoring::ComplEx, loss);
        check_against_many(HolE::new(8), Scoring::HolE, loss);
        check_against_many(TransEL1::new(21), Scoring::TransEL1, loss);
        check_against_many(TransEL2::new(21), Scoring::TransEL2, loss);
        check_against_many(RotatE::new(8), Scoring::RotatE, loss);
    }
}

/// Bits of all state that training changes, after a few epochs.
fn digest<F: ScoringFunction>(scoring: F, change: &dyn Fn(&mut Plan<'_>, &mut Optimizer), isa: Isa) -> Vec<u32> {
    let facts = facts(400, 3);
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &facts);
    let evidence = evidence(&facts);
    let mut plan = Plan { batches: 3, evidence: &evidence, ..Plan::new(&graph, &facts, 9) };
    let mut optimizer = Optimizer::default();
    change(&mut plan, &mut optimizer);
    let embeddings = Embeddings::new(&scoring, ENTITIES as usize, RELATIONS as usize, &Init::default(), 5);
    let mut model = CpuModel::new(scoring, embeddings, optimizer).with_isa(isa);
    for epoch in 1..=3 {
        model.epoch(&plan, epoch).unwrap();
    }
    let state = model.state();
    let tables = std::iter::once(&state.embeddings).chain(&state.moments);
    tables.flat_map(|x| [x.entities.to_dense(), x.relations.to_dense()]).flatten().map(f32::to_bits).collect()
}

fn guided(plan: &mut Plan<'_>, _: &mut Optimizer) {
    plan.guidance = Guidance::SoftLabels { slackness: 0.1, t_norm: TNorm::Lukasiewicz };
    plan.inner_steps = 2;
}

fn ranked(plan: &mut Plan<'_>, optimizer: &mut Optimizer) {
    plan.objective.loss = Loss::PairwiseRanking { margin: 1.0 };
    plan.projection = Projection::UnitEntitiesBeforeBatch;
    plan.negatives = Negatives { sides: Sides::Bernoulli, filtered: true, ..Negatives::default() };
    optimizer.cap = Cap::Matrix { norm: 1.0 };
}

fn self_adversarial(plan: &mut Plan<'_>, optimizer: &mut Optimizer) {
    plan.objective = Objective { loss: Loss::SelfAdversarial { temperature: 0.5 }, shift: 2.0, ..Objective::default() };
    plan.objective.subsampling = true;
    plan.negatives = Negatives { count: 7, sides: Sides::OneEnd, ..Negatives::default() };
    optimizer.rule = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
}

fn adaptive(plan: &mut Plan<'_>, optimizer: &mut Optimizer) {
    plan.batching = Batching::WithReplacement;
    plan.guidance = Guidance::Injection { weight: 0.1, margin: 0.2 };
    optimizer.rule = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
}

#[test]
fn same_bits_on_any_thread_count_and_instruction_set() {
    let changes: [&(dyn Fn(&mut Plan<'_>, &mut Optimizer) + Sync); 4] =
        [&guided, &ranked, &self_adversarial, &adaptive];
    for change in changes {
        macro_rules! same_bits {
            ($($scoring:expr),*) => {$(
                let expected = digest($scoring, change, Isa::Portable);
                for isa in Isa::available() {
                    assert_eq!(digest($scoring, change, isa), expected, "{isa:?}");
                }
                for threads in [1, 2, 5] {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    let found = pool.install(|| digest($scoring, change, Isa::detect()));
                    assert_eq!(found, expected, "{threads} threads");
                }
            )*};
        }
        same_bits!(
            ComplEx::new(9),
            DistMult::new(16),
            HolE::new(10),
            TransEL1::new(7),
            TransEL2::new(7),
            RotatE::new(5)
        );
    }
}

#[test]
fn without_evidence_guidance_changes_no_bit() {
    let silent = |plan: &mut Plan<'_>, _: &mut Optimizer| {
        plan.guidance = Guidance::SoftLabels { slackness: 0.1, t_norm: TNorm::Product };
        plan.evidence = Evidence::nothing();
    };
    let none = |_: &mut Plan<'_>, _: &mut Optimizer| {};
    assert_eq!(digest(ComplEx::new(9), &silent, Isa::detect()), digest(ComplEx::new(9), &none, Isa::detect()));
    assert_ne!(digest(ComplEx::new(9), &guided, Isa::detect()), digest(ComplEx::new(9), &none, Isa::detect()));
}

#[test]
fn divergence_is_named() {
    let facts = facts(60, 2);
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &facts);
    let plan = Plan { batches: 2, ..Plan::new(&graph, &facts, 9) };
    let scoring = ComplEx::new(4);
    let embeddings = Embeddings::new(&scoring, ENTITIES as usize, RELATIONS as usize, &Init::default(), 5);
    let optimizer = Optimizer { rule: UpdateRule::Sgd, entity_rate: 1e30, relation_rate: 1e30, cap: Cap::None };
    let mut model = CpuModel::new(scoring, embeddings, optimizer);
    let error = (1..50).find_map(|epoch| model.epoch(&plan, epoch).err()).expect("such rates diverge");
    let message = error.to_string();
    assert!(message.contains("epoch") && message.contains("1e30") || message.contains("1000000"), "{message}");
}

/// A triple has one score, however it is computed: alone, in a row of all entities, among many rows, among the best.
fn one_score<F: ScoringFunction + Clone>(scoring: F) {
    let facts = facts(60, 2);
    let start = Start::Normal { deviation: 0.4, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let embeddings = Embeddings::new(&scoring, ENTITIES as usize, RELATIONS as usize, &init, 5);
    let model: &dyn Model = &CpuModel::new(scoring, embeddings, optimizer());
    let queries = RankQuery::both_sides(&facts[..20]);
    let all = ENTITIES as usize;
    let mut rows = vec![0.0; queries.len() * all];
    model.score_many(&queries, &mut rows).unwrap();
    let best = model.top(&queries, &TopOptions::new(all), &Control::default()).unwrap();
    for ((query, row), best) in queries.iter().zip(rows.chunks(all)).zip(&best) {
        let [mut alone, mut together] = [vec![0.0; all], vec![0.0; all]];
        let triples: Vec<Triple> =
            (0..ENTITIES as u32).map(|entity| query.answered(ruge_kg::EntityId(entity))).collect();
        model.score(&triples, &mut alone).unwrap();
        model.score_all(*query, &mut together).unwrap();
        for entity in 0..all {
            let close = |score: f32| (score - alone[entity]).abs() <= 1e-5 * (1.0 + alone[entity].abs());
            let found = best.iter().find(|scored| scored.entity.index() == entity).unwrap().score;
            assert!(close(row[entity]) && close(together[entity]) && close(found), "{}: {}", F::NAME, alone[entity]);
        }
    }
}

#[test]
fn a_triple_has_one_score() {
    one_score(ComplEx::new(5));
    one_score(DistMult::new(7));
    one_score(HolE::new(6));
    one_score(TransEL1::new(9));
    one_score(TransEL2::new(9));
    one_score(RotatE::new(5));
}
