//! Softmax training, whose matrix products and Fourier transforms come from other crates, and the resulting ranks.

use std::sync::OnceLock;

use ruge_embed::cpu::Isa;
use ruge_embed::scoring::{ComplEx, DistMult, HolE, Reciprocal};
use ruge_embed::*;
use ruge_kg::{Control, Graph, Rank, RankQuery, Ranker, Triple};

/// Bits of parameters and moments, and ranks.
type Trained = (Vec<u32>, Vec<Rank>);

fn facts(entities: u32, count: u32) -> Vec<Triple> {
    (0..count).map(|i| Triple::new(i * 13 % entities, i % 2, (i * i + 7) % entities)).collect()
}

fn trained<F: ScoringFunction>(scoring: F, entities: u32, count: u32, softmax: Softmax, isa: Isa) -> Trained {
    let facts = facts(entities, count);
    let graph = Graph::new(entities as usize, 2, &facts);
    let plan = Plan { softmax: Some(softmax), ..Plan::new(&graph, &facts, 3) };
    let start = Start::Normal { deviation: 0.1, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let embeddings = Embeddings::new(&scoring, entities as usize, 2, &init, 5);
    let mut model = CpuModel::new(scoring, embeddings, Optimizer::default()).with_isa(isa);
    (1..=2).for_each(|epoch| _ = model.epoch(&plan, epoch).expect("a finite loss"));
    let queries = RankQuery::both_sides(&facts[..facts.len().min(40)]);
    let ranks = model.rank(&queries, None, &Control::default()).expect("ranked");
    let state = model.state();
    let tables = std::iter::once(&state.embeddings).chain(&state.moments);
    let tables = tables.flat_map(|x| [x.entities.to_dense(), x.relations.to_dense()]).flatten();
    (tables.map(f32::to_bits).collect(), ranks)
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(work)
}

/// Rank, entities, facts: rows below and above 512 floats, the block size of a sum; last chunks of many, few and one
/// candidate; last batches of many, two and one question.
fn cases() -> [(usize, u32, u32, Softmax); 10] {
    let plain = plain();
    let all = Softmax { answers: Answers::All, smoothing: 0.1, dropout: 0.1, ..plain };
    [
        (9, 300, 90, plain),
        (24, 513, 131, Softmax { relations: 0.5, ..plain }),
        (280, 90, 66, Softmax { batch: 131, ..plain }),
        (280, 530, 33, plain),
        (70, 517, 65, Softmax { batch: 129, ..plain }),
        (20, 300, 90, Softmax { sample: 50, ..plain }),
        (20, 300, 90, Softmax { sample: 129, batch: 61, ..plain }),
        // With more than one thread, each has fewer than 65 questions of this batch.
        (300, 300, 65, Softmax { sample: 50, ..plain }),
        (30, 300, 90, all),
        (30, 300, 90, Softmax { loss: AnswerLoss::Bce, smoothing: 0.0, ..all }),
    ]
}

fn plain() -> Softmax {
    Softmax { batch: 130, n3: 0.001, ..Softmax::default() }
}

fn complex((rank, entities, count, softmax): (usize, u32, u32, Softmax), isa: Isa, threads: usize) -> Trained {
    on_threads(threads, || trained(Reciprocal(ComplEx::new(rank)), entities, count, softmax, isa))
}

/// The same bits as portable code on one thread.
pub fn same_bits(isa: Isa) {
    static EXPECTED: OnceLock<Vec<Trained>> = OnceLock::new();
    let expected = EXPECTED.get_or_init(|| cases().map(|case| complex(case, Isa::Portable, 1)).into());
    for (case, expected) in cases().into_iter().zip(expected) {
        let threads: &[usize] = if isa == Isa::Portable { &[2] } else { &[1, 2, 5] };
        for &threads in threads {
            assert!(complex(case, isa, threads) == *expected, "{isa:?}, {threads} threads: {case:?}");
        }
    }
    let train = |isa: Isa| trained(DistMult::new(33), 300, 90, plain(), isa);
    assert!(train(isa) == train(Isa::Portable), "DistMult, {isa:?}");
}

/// HolE's transforms come from another crate: one set of bits with AVX2 and AVX-512, another without.
pub fn hole_has_the_bits_of(reference: Isa, isa: Isa) {
    for (dimension, sample) in [(50, 0), (33, 0), (50, 40)] {
        let softmax = Softmax { batch: 70, n3: 0.001, sample, ..Softmax::default() };
        let train =
            |isa: Isa, threads: usize| on_threads(threads, || trained(HolE::on(dimension, isa), 300, 90, softmax, isa));
        let expected = train(reference, 1);
        for threads in [1, 2] {
            assert!(train(isa, threads) == expected, "{threads} threads, dimension {dimension}, sample {sample}");
        }
    }
}
