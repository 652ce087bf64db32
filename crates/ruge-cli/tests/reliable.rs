//! Nothing lost, nothing broken accepted: runs that are replaced, locked, stopped by signals, and continued with something else than
//! they were begun with; files of earlier programs.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{command, json, ruge, stderr, wait_for};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }
}

fn families() -> String {
    fixture("families")
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).to_string_lossy().into_owned()
}

/// A run of a second or so that says something after every epoch.
fn small<'a>(out: &'a str, epochs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let settings = ["--dim", "8", "--validate-every", "5", "--json"];
    [&["train", "demo", "--out", out, "--epochs", epochs][..], &settings, more].concat()
}

/// The tensors of a model file, without what stands next to them.
fn tensors(model: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(model.join("model.safetensors")).expect("a model");
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, data) = bytes[8..].split_at(header);
    let header: Value = serde_json::from_slice(header).expect("a header");
    let tensor = |name: &str| {
        let place = |at: usize| header[name]["data_offsets"][at].as_u64().expect("an offset") as usize;
        data[place(0)..place(1)].to_vec()
    };
    ["entities", "relations", "train", "entity_names"].map(tensor).into()
}

fn refused(args: &[&str], code: i32, words: &[&str]) {
    let output = ruge(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
}

#[test]
fn files_of_0_1_0_are_opened_with_a_note_and_continued() {
    for (model, mrr) in [("four", 0.12797895926892092), ("combined", 0.4365106298929828), ("rules", 0.5109401709401709)]
    {
        let output = ruge(&["eval", &fixture(&format!("0.1.0/{model}")), "--json"]);
        assert!(stderr(&output).contains("earlier version"), "{model}: {}", stderr(&output));
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(found["mrr"].as_f64(), Some(mrr), "{model}");
    }
    let place = Place::new();
    fs::create_dir(place.path("two")).unwrap();
    for file in ["checkpoint.safetensors", "metrics.jsonl", "model.safetensors", "spec.toml"] {
        fs::copy(Path::new(&fixture("0.1.0/two")).join(file), place.path("two").join(file)).unwrap();
    }
    json(&["train", &families(), "--out", &place.at("two"), "--resume", "--epochs", "4", "--json"]);
    assert!(tensors(&place.path("two")) == tensors(Path::new(&fixture("0.1.0/four"))));
    assert!(stderr(&ruge(&["eval", &place.at("two")])).is_empty(), "what is written now is of this version");
}

#[test]
fn a_run_is_continued_with_what_it_was_begun_with() {
    let place = Place::new();
    let (out, rules) = (place.at("run"), place.at("r.tsv"));
    fs::write(&rules, "?b  has_capital  ?a   => ?a  capital_of  ?b\t1\n").unwrap();
    let train =
        ["train", "demo", "--preset", "complex-n3-rules", "--dim", "8", "--rules", &rules, "--out", &out, "--json"];
    json(&[&train[..], &["--epochs", "2"]].concat());
    let resume = ["train", "demo", "--out", &out, "--resume", "--epochs", "3", "--json"];
    fs::write(&rules, "?a  has_capital  ?b   => ?b  located_in  ?a\t1\n").unwrap();
    refused(&resume, 1, &["other rules", "--force"]);
    fs::write(&rules, "?b  has_capital  ?a   => ?a  capital_of  ?b\t1\n").unwrap();
    for name in ["spec.toml", "rules.tsv"] {
        let good = fs::read(place.path("run").join(name)).unwrap();
        fs::write(place.path("run").join(name), [&good[..], b"# my own\n"].concat()).unwrap();
        refused(&resume, 1, &[name, "was changed"]);
        fs::write(place.path("run").join(name), good).unwrap();
    }
    refused(&[&resume[..], &["--seed", "1"]].concat(), 1, &["other settings"]);
    assert_eq!(json(&resume)["epochs"], 3);
    let ledger = place.path("run/run.json");
    let text = fs::read_to_string(&ledger).unwrap();
    fs::write(&ledger, text.replace("\"numerics\": 1", "\"numerics\": 2")).unwrap();
    refused(&resume, 1, &["run.json", "checksum"]);
}

#[test]
fn nothing_to_resume_is_an_error() {
    let place = Place::new();
    let space = place.at("space.toml");
    fs::write(&space, "[model]\ndimension = [2, 3]\n").unwrap();
    for (command, args) in [("train", vec![]), ("run", vec![]), ("search", vec!["--spec", &space])] {
        let out = place.at(command);
        let args = [&[command, "demo", "--out", &out, "--resume"][..], &args].concat();
        refused(&args, 1, &["to resume", "leave out --resume"]);
        assert!(!place.path(command).exists(), "{command} left a folder");
    }
}

#[test]
fn a_run_stays_until_its_replacement_is_finished() {
    let place = Place::new();
    let out = place.at("run");
    json(&small(&out, "5", &[]));
    fs::write(place.path("run/notes.txt"), "mine").unwrap();
    let old = tensors(&place.path("run"));
    refused(
        &small(&out, "5", &["--force", "--guidance", "ruge", "--rules", &place.at("absent.tsv")]),
        1,
        &["absent.tsv"],
    );
    assert!(tensors(&place.path("run")) == old, "a run that could not begin replaced another");
    json(&["eval", &out, "--json"]);

    let mut child = start(&small(&out, "200", &["--force", "--seed", "1", "--checkpoint-every", "0"]));
    wait_for(&place.path("run/.ruge-next/checkpoint.safetensors"));
    child.kill().expect("killed");
    child.wait().expect("waited");
    assert!(tensors(&place.path("run")) == old);
    refused(&small(&out, "5", &[]), 1, &["unfinished", "--resume", "--force"]);
    let resumed = json(&["train", "demo", "--out", &out, "--resume", "--json"]);
    assert_eq!(resumed["epochs"], 200);
    refused(&["train", "demo", "--out", &out, "--resume", "--epochs", "7"], 1, &["200 epochs already", "--epochs 200"]);
    assert!(tensors(&place.path("run")) != old && !place.path("run/.ruge-next").exists());
    assert_eq!(fs::read_to_string(place.path("run/notes.txt")).unwrap(), "mine");
    json(&["eval", &out, "--json"]);
}

fn start(args: &[&str]) -> Child {
    command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs")
}

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn every_signal_saves_and_the_run_ends_with_the_same_bits() {
    let place = Place::new();
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let out = place.at(signal);
        // Only a signal makes it write a checkpoint.
        let mut child = start(&small(&out, "1000000", &["--guidance", "ruge", "--checkpoint-every", "100000"]));
        wait_for(&place.path(signal).join("metrics.jsonl"));
        refused(&small(&out, "40", &["--guidance", "ruge", "--force"]), 1, &["another ruge process is working"]);
        send(&child, signal);
        assert_eq!(child.wait().expect("ends").code(), Some(code), "{signal}");
        assert!(place.path(signal).join("checkpoint.safetensors").is_file(), "{signal} saved nothing");
        let stopped = fs::read_to_string(place.path(signal).join("metrics.jsonl")).unwrap().lines().count();
        let epochs = stopped.next_multiple_of(5) + 5;
        let epochs = epochs.to_string();
        json(&["train", "demo", "--out", &out, "--resume", "--epochs", &epochs, "--json"]);
        let twin = place.at(&format!("twin{signal}"));
        json(&small(&twin, &epochs, &["--guidance", "ruge"]));
        assert!(tensors(&place.path(signal)) == tensors(Path::new(&twin)), "{signal}");
    }
}

#[test]
fn train_run_and_search_do_not_mix_in_one_folder() {
    let place = Place::new();
    let (out, space) = (place.at("run"), place.at("space.toml"));
    let run = ["run", "demo", "--dim", "8", "--epochs", "2", "--out", &out, "--quiet"];
    assert!(ruge(&run).status.success());
    let old = tensors(&place.path("run"));
    refused(&["train", "demo", "--out", &out, "--resume"], 1, &["ruge run"]);
    let mut child = start(&small(&out, "100000", &["--force", "--checkpoint-every", "0"]));
    wait_for(&place.path("run/.ruge-next/checkpoint.safetensors"));
    child.kill().expect("killed");
    child.wait().expect("waited");
    fs::write(&space, "[model]\ndimension = [2, 3]\n").unwrap();
    refused(&run, 1, &["unfinished result of `train`", "`ruge train … --resume`"]);
    refused(
        &["search", "demo", "--spec", &space, "--out", &out],
        1,
        &["unfinished result of `train`", "`ruge train … --resume`"],
    );
    assert!(tensors(&place.path("run")) == old && place.path("run/.ruge-next/checkpoint.safetensors").exists());
    json(&small(&out, "2", &["--force"]));
    let left: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name == "stages.json" || name == "report.html"), "of the run before: {left:?}");

    // What a user put into a folder is not written over, and what could not begin leaves nothing.
    fs::create_dir(place.path("mine")).unwrap();
    fs::write(place.path("mine/rules.tsv"), "?b  has_capital  ?a   => ?a  capital_of  ?b\t1\n").unwrap();
    let rules = place.at("mine/rules.tsv");
    refused(&small(&place.at("mine"), "1", &["--guidance", "ruge", "--rules", &rules]), 1, &["rules.tsv is in it"]);
    refused(
        &small(&place.at("new"), "1", &["--guidance", "ruge", "--rules", &place.at("absent.tsv")]),
        1,
        &["absent.tsv"],
    );
    assert!(!place.path("new").exists());
}
