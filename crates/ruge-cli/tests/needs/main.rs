//! The command line where it needs more than the repository: benchmark data, a GPU, an instruction set, a
//! browser, a program.

#[path = "../support/mod.rs"]
mod support;

mod gpu;
mod isa;
mod report;
mod sets;
mod terminal;

use std::process::ExitCode;

use ruge_embed::cpu::Isa;
use ruge_testing::{Tests, data, program};

fn main() -> ExitCode {
    let mut tests = Tests::default()
        .test(gpu::is_there(), gpu::a_model_is_trained_and_ranked)
        .test(gpu::is_missing(), gpu::its_absence_is_explained)
        .test((isa::has(Isa::Avx512), isa::has(Isa::Avx2)), isa::every_trainer_gives_the_same_on_avx512_as_on_avx2)
        .test(isa::has(Isa::Avx2), isa::every_trainer_gives_the_same_on_any_number_of_threads)
        .test(isa::has(Isa::Avx2), isa::every_trainer_gives_the_same_without_either);
    let browser = report::browser::find();
    tests = tests
        .test(browser.clone(), report::the_report_of_a_run_is_legible)
        .test(browser, report::a_picture_of_the_evidence_runs_nothing);
    if cfg!(target_os = "linux") {
        let script = program("script", &["script"], "install util-linux");
        tests = tests.test(script, terminal::a_terminal_gets_marks_and_our_bold);
    }
    for (name, counts) in sets::PUBLISHED {
        let body = move |folder: std::path::PathBuf| sets::published_counts(&folder, counts);
        tests = tests.named(&format!("sets::published_counts::{name}"), data(name), body);
    }
    let kale = |folder: std::path::PathBuf| sets::kales_rules_are_read(&folder);
    tests = tests.named("sets::kales_rules_are_read", data("wn18"), kale);
    for name in sets::VERIFIED {
        let body = |folder: std::path::PathBuf| sets::is_verified(&folder);
        tests = tests.named(&format!("sets::is_verified::{name}"), data(name), body);
    }
    tests.run()
}
