//! Softmax training against its definition in `f64`, by finite differences; and the same bits on any number of threads.
#![allow(missing_docs)]

use ruge_embed::plan::SHUFFLE;
use ruge_embed::scoring::{ComplEx, DistMult, HolE, Reciprocal};
use ruge_embed::softmax::{Question, Questions, static_labels};
use ruge_embed::*;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Graph, RankQuery, Ranker, Side, Ties, Triple};

const ENTITIES: usize = 19;
const RELATIONS: usize = 3;

fn facts(n: u64) -> Vec<Triple> {
    let draw = |i, j, bound| random::below(random::draw(4, Stream(0x7e57), j, i), bound) as u32;
    let mut facts: Vec<Triple> = (0..n).map(|i| Triple::new(draw(i, 0, 19), draw(i, 1, 3), draw(i, 2, 19))).collect();
    facts.sort_unstable();
    facts.dedup();
    facts
}

type Rows = Vec<Vec<f64>>;

fn wide(table: &Table) -> Rows {
    (0..table.rows()).map(|i| table.row(i).iter().map(|&x| f64::from(x)).collect()).collect()
}

/// Σ |x|³, over complex pairs where `complex`.
fn cubes(row: &[f64], complex: bool) -> f64 {
    if complex {
        let (re, im) = row.split_at(row.len() / 2);
        re.iter().zip(im).map(|(x, y)| (x * x + y * y).sqrt().powi(3)).sum()
    } else {
        row.iter().map(|x| x.abs().powi(3)).sum()
    }
}

/// A batch and everything its loss depends on except parameters.
#[derive(Clone, Copy)]
struct Asked<'a> {
    questions: &'a [softmax::Question],
    answers: &'a [softmax::Answer],
    softmax: Softmax,
    step: u64,
    complex: bool,
    correlates: bool,
    reciprocal: bool,
    sample: Option<&'a [u32]>,
}

/// The loss of a batch as in the N3 paper, with the options of a spec.
fn loss(asked: &Asked<'_>, [entities, relations]: [&Rows; 2]) -> f64 {
    let Asked { questions, softmax, complex, reciprocal, sample, .. } = *asked;
    let [n3, l2, asking] = [softmax.n3, softmax.l2, softmax.relations].map(f64::from);
    let score = |h: &[f64], r: &[f64], t: &[f64]| -> f64 {
        let d = h.len();
        if asked.correlates {
            return (0..d).map(|k| r[k] * (0..d).map(|i| h[i] * t[(k + i) % d]).sum::<f64>()).sum();
        }
        if !complex {
            return (0..d).map(|i| h[i] * r[i] * t[i]).sum();
        }
        let d = d / 2;
        (0..d)
            .map(|i| {
                let (a, b, u, v, w, z) = (h[i], h[d + i], r[i], r[d + i], t[i], t[d + i]);
                a * u * w + b * u * z + a * v * z - b * v * w
            })
            .sum()
    };
    let mut sum = 0.0;
    for (at, question) in questions.iter().enumerate() {
        let row = &relations[question.triple.relation.index()];
        let half = row.len() / 2;
        let tail_asked = question.side == Side::Tail;
        let relation = match (reciprocal, tail_asked) {
            (false, _) => &row[..],
            (true, true) => &row[..half],
            (true, false) => &row[half..],
        };
        let given = &entities[question.given() as usize];
        let of = |e: &Vec<f64>| {
            if tail_asked || reciprocal { score(given, relation, e) } else { score(e, relation, given) }
        };
        let mut query = vec![1.0f32; given.len()];
        if let Some(dropout) = softmax.dropout(9, asked.step) {
            dropout.apply(at, &mut query);
        }
        let unit = |i: usize| (0..given.len()).map(|j| f64::from(i == j)).collect::<Vec<_>>();
        let query: Vec<f64> = query.iter().enumerate().map(|(i, &kept)| f64::from(kept) * of(&unit(i))).collect();
        let scores: Vec<f64> = entities.iter().map(|e| e.iter().zip(&query).map(|(x, q)| x * q).sum()).collect();
        let normal = match sample {
            None => scores.iter().map(|s| s.exp()).sum::<f64>().ln(),
            Some(sample) => {
                let drawn: Vec<f64> = sample
                    .iter()
                    .filter(|&&entity| entity != question.answer())
                    .map(|&entity| scores[entity as usize].exp())
                    .collect();
                let share = (scores.len() - 1) as f64 / drawn.len() as f64;
                (scores[question.answer() as usize].exp() + share * drawn.iter().sum::<f64>()).ln()
            }
        };
        let answer = &entities[question.answer() as usize];
        if asking > 0.0 {
            let (head, tail) = (&entities[question.triple.head.index()], &entities[question.triple.tail.index()]);
            let mut all: Vec<f64> = Vec::new();
            for row in relations {
                match reciprocal {
                    false => all.push(score(head, row, tail)),
                    true => {
                        let (from, to) = if tail_asked { (head, tail) } else { (tail, head) };
                        all.extend([score(from, &row[..half], to), score(from, &row[half..], to)]);
                    }
                }
            }
            let own = question.triple.relation.index();
            let own = if reciprocal { 2 * own + usize::from(!tail_asked) } else { own };
            let normal = all.iter().map(|s| s.exp()).sum::<f64>().ln();
            sum += f64::from(question.weight) * asking * (normal - all[own]);
        }
        let size = |row: &[f64]| n3 * cubes(row, complex) + l2 * row.iter().map(|x| x * x).sum::<f64>();
        let mut penalty = size(given) + size(relation);
        let several = question.among(asked.answers);
        let whole: f64 = several.iter().map(|x| f64::from(x.target)).sum();
        let of_answers = several.iter().map(|x| f64::from(x.target) / whole * size(&entities[x.entity as usize]));
        penalty += if several.is_empty() { size(answer) } else { of_answers.sum() };
        let smoothing = f64::from(softmax.smoothing);
        let mut targets = vec![smoothing / entities.len() as f64; entities.len()];
        for x in several {
            targets[x.entity as usize] += (1.0 - smoothing) * f64::from(x.target);
        }
        if several.is_empty() {
            targets[question.answer() as usize] += 1.0 - smoothing;
        }
        let wanted: f64 = targets.iter().zip(&scores).map(|(target, score)| target * score).sum();
        let all = match softmax.loss {
            AnswerLoss::Softmax => normal,
            AnswerLoss::Bce => scores.iter().map(|score| score.exp().ln_1p()).sum(),
        };
        sum += f64::from(question.weight) * (all - wanted + penalty);
    }
    sum / questions.len() as f64
}

fn check<F: ScoringFunction + Clone>(scoring: F, complex: bool, reciprocal: bool, softmax: Softmax) {
    let facts = facts(60);
    let graph = Graph::new(ENTITIES, RELATIONS, &facts);
    let mut evidence = Evidence::default();
    for (i, pair) in facts.windows(2).enumerate().take(20) {
        evidence.push(pair, Triple::new(i as u32 % 5, i as u32 % 3, i as u32 % 7), 0.7);
    }
    let mut examples = static_labels(&evidence, StaticLabel::NoisyOr);
    examples.iter_mut().for_each(|example| example.weight *= 0.4);
    let plan = Plan { softmax: Some(softmax), examples: &examples, ..Plan::new(&graph, &facts, 9) };
    let start = Start::Normal { deviation: 0.5, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let embeddings = Embeddings::new(&scoring, ENTITIES, RELATIONS, &init, 5);
    let (mut entities, mut relations) = (wide(&embeddings.entities), wide(&embeddings.relations));
    let optimizer = Optimizer { rule: UpdateRule::Sgd, entity_rate: 0.3, relation_rate: 0.2, cap: Cap::None };
    let mut model = CpuModel::new(scoring, embeddings, optimizer);
    let found = model.epoch(&plan, 1).unwrap();

    let questions = Questions::new(&plan, &softmax, 1);
    if softmax.answers == Answers::One {
        assert_eq!(questions.len(), 2 * (facts.len() + examples.len()));
    } else {
        let mut asked: Vec<_> = facts.iter().chain(examples.iter().map(|x| &x.triple)).collect();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(questions.answers().len(), 2 * asked.len());
        assert!(questions.len() < 2 * asked.len());
    }
    let mut expected = 0.0;
    for (batch, step) in questions.batches(&plan).zip(1..) {
        let sample = softmax.candidates(ENTITIES, plan.seed, step);
        let sample = sample.as_deref();
        let answers = questions.answers();
        let correlates = F::NAME == HolE::NAME;
        let asked = Asked { questions: &batch, answers, softmax, step, complex, correlates, reciprocal, sample };
        let value = |entities: &Rows, relations: &Rows| loss(&asked, [entities, relations]);
        let bare = Asked { softmax: Softmax { n3: 0.0, l2: 0.0, relations: 0.0, ..softmax }, ..asked };
        expected += loss(&bare, [&entities, &relations]) / questions.batch_count() as f64;
        let mut moved = [entities.clone(), relations.clone()];
        for (which, rate) in [(0, 0.3), (1, 0.2)] {
            let rows = if which == 0 { entities.len() } else { relations.len() };
            for row in 0..rows {
                for column in 0..(if which == 0 { &entities } else { &relations })[row].len() {
                    let mut at = |step: f64| {
                        let table = if which == 0 { &mut entities } else { &mut relations };
                        table[row][column] += step;
                        let value = value(&entities, &relations);
                        let table = if which == 0 { &mut entities } else { &mut relations };
                        table[row][column] -= step;
                        value
                    };
                    let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                    moved[which][row][column] -= rate * slope;
                }
            }
        }
        let [e, r] = moved;
        (entities, relations) = (e, r);
    }
    assert!((found.labeled - expected).abs() < 1e-5, "{softmax:?}: loss {} for {expected}", found.labeled);
    let state = model.state();
    for (found, expected) in
        [(wide(&state.embeddings.entities), &entities), (wide(&state.embeddings.relations), &relations)]
    {
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < 2e-5, "{softmax:?}: {found} for {expected}");
        }
    }
}

#[test]
fn a_softmax_epoch_follows_its_gradient() {
    for relations in [0.0, 0.7] {
        for sample in [0, 7] {
            let softmax = Softmax { batch: 37, n3: 0.03, relations, sample, ..Softmax::default() };
            check(ComplEx::new(3), true, false, softmax);
            check(DistMult::new(5), false, false, softmax);
            check(Reciprocal(ComplEx::new(4)), true, true, softmax);
            check(Reciprocal(DistMult::new(4)), false, true, softmax);
        }
    }
}

#[test]
fn rows_that_are_scored_in_another_basis_follow_it_too() {
    let plain = Softmax { batch: 37, n3: 0.03, l2: 0.02, ..Softmax::default() };
    for (dimension, sample) in [(5, 0), (6, 0), (5, 7)] {
        check(HolE::new(dimension), false, false, Softmax { sample, ..plain });
    }
    check(HolE::new(4), false, false, Softmax { smoothing: 0.2, answers: Answers::All, ..plain });
    check(HolE::new(4), false, false, Softmax { loss: AnswerLoss::Bce, ..plain });
}

#[test]
fn every_option_follows_its_gradient() {
    let plain = Softmax { batch: 37, n3: 0.03, l2: 0.02, dropout: 0.3, ..Softmax::default() };
    check(ComplEx::new(3), true, false, plain);
    check(Reciprocal(DistMult::new(4)), false, true, Softmax { sample: 7, relations: 0.7, ..plain });
    for loss in [AnswerLoss::Softmax, AnswerLoss::Bce] {
        for answers in [Answers::One, Answers::All] {
            let softmax = Softmax { smoothing: 0.2, loss, answers, ..plain };
            check(ComplEx::new(3), true, false, softmax);
            check(Reciprocal(ComplEx::new(4)), true, true, Softmax { smoothing: 0.0, ..softmax });
            check(DistMult::new(5), false, false, Softmax { dropout: 0.0, ..softmax });
        }
    }
}

#[test]
fn dropout_leaves_out_its_share() {
    let softmax = Softmax { dropout: 0.25, ..Softmax::default() };
    let dropped = |step: u64| {
        let mut rows = vec![1.0f32; 40_000];
        let dropout = softmax.dropout(3, step).unwrap();
        rows.chunks_exact_mut(100).enumerate().for_each(|(question, row)| dropout.apply(question, row));
        rows
    };
    let rows = dropped(1);
    let out = rows.iter().filter(|&&x| x == 0.0).count();
    assert!((9_700..10_300).contains(&out), "{out} of 40,000");
    assert!(rows.iter().all(|&x| x == 0.0 || x == 4.0 / 3.0) && rows == dropped(1) && rows != dropped(2));
    assert!(Softmax::default().dropout(3, 1).is_none());
}

#[test]
fn threads_change_nothing_and_reciprocal_models_learn_both_sides() {
    let plain = Softmax { batch: 700, n3: 0.001, relations: 0.5, ..Softmax::default() };
    learns(plain, 12, 0.9);
    learns(Softmax { sample: 600, ..plain }, 20, 0.9);
    // Large enough that a batch is scored in four blocks.
    learns(Softmax { sample: 1400, batch: 2000, ..plain }, 30, 0.9);
    let all = Softmax { relations: 0.0, answers: Answers::All, smoothing: 0.1, dropout: 0.1, ..plain };
    learns(all, 16, 0.3);
    learns(Softmax { loss: AnswerLoss::Bce, smoothing: 0.0, ..all }, 30, 0.5);
}

/// Strips depend on the number of threads; a last chunk of one or a few candidates must not change the bits.
#[test]
fn samples_of_any_size_have_the_same_bits_on_any_number_of_threads() {
    let facts = round(1500);
    let graph = Graph::new(1500, 2, &facts);
    for (sample, rank) in [(1, 8), (5, 8), (129, 8), (513, 8), (519, 3), (700, 24)] {
        let softmax = Softmax { batch: 701, n3: 0.001, sample, ..Softmax::default() };
        let plan = Plan { softmax: Some(softmax), ..Plan::new(&graph, &facts, 3) };
        let scoring = DistMult::new(rank);
        let train = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let start = Start::Normal { deviation: 0.1, unit: false };
                let init = Init { entities: start, relations: start, shared: false };
                let embeddings = Embeddings::new(&scoring, 1500, 2, &init, 5);
                let mut model = CpuModel::new(scoring, embeddings, Optimizer::default());
                model.epoch(&plan, 1).unwrap();
                model
            })
        };
        let one = train(1);
        for threads in [2, 5, 16] {
            assert!(one.state() == train(threads).state(), "{threads} threads, a sample of {sample}, rank {rank}");
        }
    }
}

fn round(n: u32) -> Vec<Triple> {
    (0..n).flat_map(|i| [Triple::new(i, 0, (i + 1) % n), Triple::new(i, 1, (i * 7) % n)]).collect()
}

fn learns(softmax: Softmax, epochs: u64, least: f64) {
    // Enough entities for several chunks, enough questions for several blocks.
    let n = 1500u32;
    let facts = round(n);
    let graph = Graph::new(n as usize, 2, &facts);
    let plan = Plan { softmax: Some(softmax), ..Plan::new(&graph, &facts, 3) };
    let scoring = Reciprocal(ComplEx::new(24));
    let start = Start::Normal { deviation: 0.1, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let optimizer = Optimizer {
        rule: UpdateRule::AdaGrad { epsilon: 1e-10, inside: false },
        entity_rate: 0.3,
        relation_rate: 0.3,
        cap: Cap::None,
    };
    let train = |threads: usize, epochs: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut model = CpuModel::new(scoring, Embeddings::new(&scoring, n as usize, 2, &init, 5), optimizer);
            (1..=epochs).for_each(|epoch| _ = model.epoch(&plan, epoch).unwrap());
            model
        })
    };
    assert_eq!(train(1, 2).state(), train(3, 2).state());
    let model = train(2, epochs);
    let queries = RankQuery::both_sides(&facts[..400]);
    let ranks = model.rank(&queries, None, &Control::default()).unwrap();
    for side in [Side::Head, Side::Tail] {
        let of_side = ranks.iter().zip(&queries).filter(|(_, query)| query.side == side).map(|(rank, _)| rank.raw);
        let mrr = Metrics::of(of_side, Ties::Mean, &HITS).mrr;
        assert!(mrr > least, "{softmax:?} {side:?}: MRR {mrr} on what it was trained on");
    }
}

#[test]
fn labels_of_conclusions() {
    let fact = Triple::new(0, 0, 1);
    let [one, other] = [Triple::new(1, 0, 0), Triple::new(2, 0, 2)];
    let mut evidence = Evidence::default();
    for (conclusion, confidence) in [(one, 0.5), (other, 0.75), (one, 0.5)] {
        evidence.push(&[fact], conclusion, confidence);
    }
    let weights = |label| static_labels(&evidence, label).iter().map(|x| (x.triple, x.weight)).collect::<Vec<_>>();
    assert_eq!(weights(StaticLabel::NoisyOr), [(one, 0.75), (other, 0.75)]);
    assert_eq!(weights(StaticLabel::Max), [(one, 0.5), (other, 0.75)]);
}

#[test]
fn batches_are_consecutive_parts_of_one_shuffled_order() {
    let facts = facts(60);
    let graph = Graph::new(ENTITIES, RELATIONS, &facts);
    let examples = [Example { triple: Triple::new(1, 2, 3), weight: 0.5 }, Example { triple: facts[4], weight: 0.25 }];
    let plan = Plan { examples: &examples, ..Plan::new(&graph, &facts, 9) };
    // The definition: every triple asks for its tail, then for its head, and the examples after all triples.
    let weighted = facts.iter().map(|&triple| Example { triple, weight: 1.0 }).chain(examples);
    let all: Vec<Question> = weighted
        .flat_map(|Example { triple, weight }| {
            [Side::Tail, Side::Head].map(|side| Question { triple, side, weight, answers: [0; 2] })
        })
        .collect();
    for epoch in [1, 2, 77] {
        let order = random::permutation(all.len(), plan.seed, SHUFFLE, epoch);
        let expected: Vec<Question> = order.iter().map(|&place| all[place as usize]).collect();
        for batch in [1, 7, 64, 1000, usize::MAX] {
            let questions = Questions::new(&plan, &Softmax { batch, ..Softmax::default() }, epoch);
            assert_eq!((questions.len(), questions.batch_count()), (all.len(), all.len().div_ceil(batch)));
            let batches: Vec<_> = questions.batches(&plan).collect();
            assert!(batches.iter().rev().skip(1).all(|questions| questions.len() == batch));
            assert_eq!(batches.concat(), expected, "epoch {epoch}, batches of {batch}");
        }
    }
    assert_eq!(Questions::default().batch_count(), 0);
}
