//! Every trainer leaves the same tensors and ranks with AVX2 and AVX-512, on any number of threads; without either, all but
//! HolE do.

use std::path::Path;
use std::process::Output;

use ruge_embed::cpu::Isa;
use ruge_testing::{Missing, Need};

use crate::support::{command, stderr};

/// Stands for a file with the settings of softmax over a sample.
const SPEC: &str = "a spec";

/// The instruction set, if this machine has it.
pub fn has(isa: Isa) -> Need<Isa> {
    let missing = || Missing::new(isa.name(), "run the tests on a processor that has it");
    Isa::available().find(|&found| found == isa).ok_or_else(missing)
}

/// `ruge ARGS` under a set.
fn with(isa: Isa, args: &[&str]) -> Output {
    command(args).env("RUGE_ISA", isa.name()).output().expect("runs")
}

/// The model file and the ranks of its test triples.
fn trained(isa: Isa, threads: &str, settings: &[&str]) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().expect("folder");
    let run = folder.path().join("run").to_string_lossy().into_owned();
    let spec = folder.path().join("spec.toml").to_string_lossy().into_owned();
    std::fs::write(&spec, "[softmax]\nsample = 50\nbatch = 130\n").expect("written");
    let settings: Vec<&str> = settings.iter().map(|&word| if word == SPEC { &spec } else { word }).collect();
    let common = ["train", "demo", "--out", &run, "--json", "-q", "--threads", threads, "--seed", "3"];
    let output = with(isa, &[&common[..], &settings].concat());
    assert!(output.status.success(), "{isa:?} {settings:?}: {}", stderr(&output));
    let ranked = with(isa, &["eval", &run, "--json", "-q", "--threads", threads]);
    assert!(ranked.status.success(), "{isa:?} {settings:?}: {}", stderr(&ranked));
    let ranked: serde_json::Value = serde_json::from_slice(&ranked.stdout).expect("one JSON object");
    let model = std::fs::read(Path::new(&run).join("model.safetensors")).expect("a model");
    (model, ranked["ranks_sha256"].as_str().expect("a hash").to_owned())
}

/// The settings of every trainer.
fn trainers() -> Vec<Vec<&'static str>> {
    let small = ["--dim", "12", "--epochs", "2"];
    let softmax = |preset| ["--preset", preset];
    let trainers = [
        vec!["--model", "complex"],
        vec!["--model", "distmult"],
        vec!["--model", "transe"],
        vec!["--model", "rotate"],
        vec!["--guidance", "ruge"],
        vec!["--guidance", "ptranse", "--model", "transe"],
        softmax("complex-n3").to_vec(),
        [&softmax("complex-n3")[..], &["--sample", "50", "--batch", "130"]].concat(),
        softmax("distmult-n3").to_vec(),
        softmax("rotate").to_vec(),
        softmax("transe").to_vec(),
        vec!["--model", "hole"],
        vec!["--model", "hole", "--spec", SPEC],
    ];
    trainers.into_iter().map(|trainer| [&trainer[..], &small[..]].concat()).collect()
}

pub fn every_trainer_gives_the_same_on_avx512_as_on_avx2((avx512, avx2): (Isa, Isa)) {
    for settings in trainers() {
        assert!(trained(avx512, "2", &settings) == trained(avx2, "1", &settings), "{settings:?}");
    }
}

pub fn every_trainer_gives_the_same_on_any_number_of_threads(avx2: Isa) {
    for settings in trainers() {
        assert!(trained(avx2, "2", &settings) == trained(avx2, "1", &settings), "{settings:?}");
    }
}

pub fn every_trainer_gives_the_same_without_either(avx2: Isa) {
    for settings in trainers() {
        // Among all entities it takes a minute there; ruge-embed's own tests do it on fewer.
        let long = settings[0] == "--preset" && settings[1].ends_with("n3") && !settings.contains(&"--sample");
        if long {
            continue;
        }
        // Its transforms have bits of their own there: documented in docs/reliability.md.
        let reference = if settings.contains(&"hole") { Isa::Portable } else { avx2 };
        assert!(trained(Isa::Portable, "2", &settings) == trained(reference, "1", &settings), "{settings:?}");
    }
}
