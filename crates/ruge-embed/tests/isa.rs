//! Every instruction set of the machine is forced, and must leave the bits of the others: softmax training, whose products of
//! matrices and Fourier transforms come from other crates, and the ranks that follow. `twins.rs` does the same for the paper's trainer.
#![allow(missing_docs, clippy::print_stdout)]

use ruge_embed::cpu::{Isa, IsaError};
use ruge_embed::scoring::{ComplEx, DistMult, HolE, Reciprocal};
use ruge_embed::*;
use ruge_kg::{Graph, Triple};

/// Says what is not tested here, once per test.
fn instruction_sets() -> Vec<Isa> {
    let found: Vec<Isa> = Isa::available().collect();
    for isa in [Isa::Avx512, Isa::Avx2] {
        if !found.contains(&isa) {
            println!("SKIPPED: this machine has no {}", isa.name());
        }
    }
    found
}

fn facts(entities: u32, count: u32) -> Vec<Triple> {
    (0..count).map(|i| Triple::new(i * 13 % entities, i % 2, (i * i + 7) % entities)).collect()
}

/// Bits of parameters and moments after two epochs, and ranks.
fn trained<F: ScoringFunction>(
    scoring: F,
    entities: u32,
    count: u32,
    softmax: Softmax,
    isa: Isa,
) -> (Vec<u32>, Vec<Rank>) {
    let facts = facts(entities, count);
    let graph = Graph::new(entities as usize, 2, &facts);
    let plan = Plan { softmax: Some(softmax), ..Plan::new(&graph, &facts, 3) };
    let start = Start::Normal { deviation: 0.1, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let embeddings = Embeddings::new(&scoring, entities as usize, 2, &init, 5);
    let mut model = CpuModel::new(scoring, embeddings, Optimizer::default()).with_isa(isa);
    (1..=2).for_each(|epoch| _ = model.epoch(&plan, epoch).expect("a finite loss"));
    let queries = RankQuery::both_sides(&facts[..facts.len().min(40)]);
    let options = RankOptions { isa, ..RankOptions::default() };
    let ranks = model.rank(&queries, None, &options, &|_, _| ()).expect("ranked");
    let state = model.state();
    let tables = std::iter::once(&state.embeddings).chain(&state.moments);
    let tables = tables.flat_map(|x| [x.entities.to_dense(), x.relations.to_dense()]).flatten();
    (tables.map(f32::to_bits).collect(), ranks)
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(work)
}

#[test]
fn softmax_has_the_same_bits_on_every_instruction_set() {
    let plain = Softmax { batch: 130, n3: 0.001, ..Softmax::default() };
    let all = Softmax { answers: Answers::All, smoothing: 0.1, dropout: 0.1, ..plain };
    // Rank, entities, facts: rows below and above 512 floats, which is a block of a sum; last chunks of many, few and one candidate;
    // last batches of many, two and one question.
    for (rank, entities, count, softmax) in [
        (9, 300, 90, plain),
        (24, 513, 131, Softmax { relations: 0.5, ..plain }),
        (280, 90, 66, Softmax { batch: 131, ..plain }),
        (280, 530, 33, plain),
        (70, 517, 65, Softmax { batch: 129, ..plain }),
        (20, 300, 90, Softmax { sample: 50, ..plain }),
        (20, 300, 90, Softmax { sample: 129, batch: 61, ..plain }),
        // Questions of this batch are fewer than 65 to a thread where there are more threads than one.
        (300, 300, 65, Softmax { sample: 50, ..plain }),
        (30, 300, 90, all),
        (30, 300, 90, Softmax { loss: AnswerLoss::Bce, smoothing: 0.0, ..all }),
    ] {
        let train = |isa: Isa, threads: usize| {
            on_threads(threads, || trained(Reciprocal(ComplEx::new(rank)), entities, count, softmax, isa))
        };
        let expected = train(Isa::Portable, 1);
        for isa in instruction_sets() {
            for threads in [1, 2, 5] {
                if isa == Isa::Portable && threads != 2 {
                    continue;
                }
                let same = train(isa, threads) == expected;
                assert!(same, "{isa:?}, {threads} threads: rank {rank}, {entities} entities, {softmax:?}");
            }
        }
    }
    let train = |isa: Isa| trained(DistMult::new(33), 300, 90, plain, isa);
    let expected = train(Isa::Portable);
    instruction_sets().into_iter().for_each(|isa| assert!(train(isa) == expected, "DistMult, {isa:?}"));
}

/// HolE's transforms are another crate's: one set of bits with AVX2 and AVX-512, another one without.
#[test]
fn hole_has_the_same_bits_with_avx2_and_avx512() {
    for (dimension, sample) in [(50, 0), (33, 0), (50, 40)] {
        let softmax = Softmax { batch: 70, n3: 0.001, sample, ..Softmax::default() };
        let train =
            |isa: Isa, threads: usize| on_threads(threads, || trained(HolE::on(dimension, isa), 300, 90, softmax, isa));
        let wide: Vec<Isa> = instruction_sets().into_iter().filter(|&isa| isa != Isa::Portable).collect();
        for &isa in &wide {
            for threads in [1, 2] {
                let same = train(isa, threads) == train(wide[0], 1);
                assert!(same, "{isa:?}, {threads} threads, dimension {dimension}, sample {sample}");
            }
        }
        assert!(train(Isa::Portable, 1) == train(Isa::Portable, 2), "portable, dimension {dimension}, sample {sample}");
    }
}

#[test]
fn an_instruction_set_is_chosen_once() {
    let widest = Isa::available().next().expect("at least the portable one");
    assert_eq!(Isa::detect(), widest);
    assert_eq!(Isa::limit(widest), Ok(()));
    if widest != Isa::Portable {
        assert_eq!(Isa::limit(Isa::Portable), Err(IsaError::Late(widest)));
        assert_eq!(Isa::detect(), widest);
    }
    for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable] {
        assert_eq!(isa.name().parse(), Ok(isa));
    }
    assert_eq!("sse".parse::<Isa>(), Err(IsaError::Unknown));
}
