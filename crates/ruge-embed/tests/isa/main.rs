//! Every instruction set must give the same bits. `twins.rs` tests the same for the paper's trainer.

mod products;
mod softmax;

use std::process::ExitCode;

use ruge_embed::cpu::Isa;
use ruge_testing::{Missing, Need, Tests};

fn has(isa: Isa) -> Need<Isa> {
    let missing = || Missing::new(isa.name(), "run the tests on a processor that has it");
    Isa::available().find(|&found| found == isa).ok_or_else(missing)
}

fn main() -> ExitCode {
    let mut tests = Tests::default().test(has(Isa::Avx512), products::the_orders_are_those_of_the_crate_with_avx512);
    for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable] {
        let named = |what: &str| format!("{what}::{}", isa.name());
        // One set of bits for AVX2 and AVX-512, another without.
        let hole = if isa == Isa::Portable { Isa::Portable } else { Isa::Avx2 };
        tests = tests
            .named(&named("products_have_the_same_bits"), has(isa), products::same_bits)
            .named(&named("parts_of_a_product_have_the_bits_of_the_whole"), has(isa), products::parts)
            .named(&named("softmax_has_the_same_bits"), has(isa), softmax::same_bits)
            .named(&named("hole_has_the_same_bits"), (has(hole), has(isa)), |(reference, isa)| {
                softmax::hole_has_the_bits_of(reference, isa);
            });
    }
    tests.run()
}
