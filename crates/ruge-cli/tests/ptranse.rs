//! `--guidance ptranse` as a user types it: trained, killed, resumed, evaluated through the file.

use ruge_kg::{Control, RankQuery, Ranker, Ties};
use std::path::Path;

use crate::support::{json, kill_until_done, ruge, stderr};
use ruge::ModelFile;
use ruge_embed::{HITS, Metrics, Model, PTransE, PTransEConfig, State};

/// A small, quick setting on the embedded graph.
fn small<'a>(out: &'a str, epochs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["train", "demo", "--model", "transe", "--guidance", "ptranse", "--dim", "16", "--rate", "0.01"];
    [&fixed[..], &["--validate-every", "10", "--json", "--out", out, "--epochs", epochs], more].concat()
}

#[test]
fn the_run_folder_repeats_and_evaluates_as_the_library_does() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = json(&small(&path("a"), "20", &["--path-length", "3", "--rerank", "100"]));
    for file in ["spec.toml", "metrics.jsonl", "checkpoint.safetensors", "model.safetensors"] {
        assert!(folder.path().join("a").join(file).is_file(), "{file}");
    }
    assert!(!folder.path().join("a/rules.tsv").exists(), "there are no rules to list");
    let curve = std::fs::read_to_string(folder.path().join("a/metrics.jsonl")).unwrap();
    assert_eq!(curve.lines().count(), 20);
    let cut = &run["paths"]["three_steps"];
    assert!(cut["sequences_kept"].as_u64() > Some(0) && cut["sequences_dropped"].as_u64() > Some(0), "{run}");
    assert!(run["valid_mrr"].as_f64().unwrap() > 0.05, "far above chance: {run}");

    // The stored spec alone repeats the run, to the bit, on another number of threads.
    json(&["train", "demo", "--spec", &path("a/spec.toml"), "--json", "--out", &path("b"), "--threads", "1"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("a") == bytes("b"), "the same spec gives another model");

    let valid = json(&["eval", &path("a"), "--split", "valid", "--json"]);
    assert_eq!(valid["mrr"], run["valid_mrr"], "training and evaluation agree");
    let test = json(&["eval", &path("a/model.safetensors"), "--json", "--threads", "1"]);
    assert_eq!(test["paths"], run["paths"]);
    let told = String::from_utf8(ruge(&["eval", &path("a")]).stdout).unwrap();
    assert!(told.contains("paths of up to 3 steps") && told.contains("the cut-off at 0.5"), "{told}");

    // The library, from settings written out here and the rows of the file, ranks the same.
    let file = ModelFile::read(Path::new(&path("a/model.safetensors"))).unwrap();
    let config = PTransEConfig { dimension: 16, rate: 0.01, path_length: 3, rerank: 100, ..PTransEConfig::default() };
    let mut model = PTransE::new(file.data.shared_graph(), config, 0).unwrap();
    let state = State { embeddings: file.embeddings.clone().unwrap(), moments: Vec::new(), steps: 0 };
    model.restore(state.clone()).unwrap();
    let ranks =
        model.rank(&RankQuery::both_sides(file.data.test()), Some(file.data.filter()), &Control::default()).unwrap();
    let metrics = Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &HITS);
    assert_eq!(test["mrr"].as_f64(), Some(metrics.mrr));
    assert_eq!(test["mean_rank"].as_f64(), Some(metrics.mean_rank));

    // Without the second stage the ranks are others, so the paths had their say.
    let mut plain = PTransE::new(file.data.shared_graph(), PTransEConfig { rerank: 0, ..config }, 0).unwrap();
    plain.restore(state).unwrap();
    let ranks =
        plain.rank(&RankQuery::both_sides(file.data.test()), Some(file.data.filter()), &Control::default()).unwrap();
    assert!(Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &HITS).mrr < metrics.mrr);
}

#[test]
#[cfg(unix)]
fn a_killed_run_resumes_to_the_same_bits() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let often = ["--checkpoint-every", "0"];
    json(&small(&path("whole"), "30", &often));
    let out = path("killed");
    kill_until_done(&small(&out, "30", &often), &["--resume"]);
    // What is left to do is done; of the flags, none is needed any more.
    json(&["train", "demo", "--out", &out, "--resume", "--json"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("whole") == bytes("killed"), "the resumed model differs");
    let curve = std::fs::read_to_string(folder.path().join("killed/metrics.jsonl")).unwrap();
    assert_eq!(curve.lines().count(), 30, "one line per epoch, none twice");
    let other = ruge(&["train", "demo", "--out", &out, "--resume", "--path-length", "3"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("other settings"), "{}", stderr(&other));
}

#[test]
fn what_ptranse_does_not_take_is_told() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let out = path("run");
    for (file, text) in [
        ("unknown.toml", "[guidance]\nkind = \"ptranse\"\npath-lenght = 3\n"),
        ("model.toml", "[guidance]\nkind = \"ptranse\"\n[model]\nname = \"hole\"\n"),
        ("loss.toml", "[guidance]\nkind = \"ptranse\"\n[objective.loss]\nkind = \"logistic\"\n"),
    ] {
        std::fs::write(path(file), text).unwrap();
    }
    let (unknown, model, loss) = (path("unknown.toml"), path("model.toml"), path("loss.toml"));
    let ptranse = ["train", "demo", "--guidance", "ptranse", "--out", &out];
    for (more, code, say) in [
        (vec!["--model", "complex"], 2, "not defined for complex"),
        (vec!["--model", "rotate"], 2, "model.name (--model) to transe"),
        (vec!["--path-length", "4"], 2, "1, 2 or 3"),
        (vec!["--device", "cuda"], 2, "on the CPU only"),
        (vec!["--rules", "x.tsv"], 2, "--rules would be ignored"),
        (vec!["--negatives", "10"], 2, "negatives"),
        (vec!["--l2", "0.1"], 2, "objective.penalty"),
        (vec!["--norm", "l2"], 2, "model.norm"),
        (vec!["--spec", &unknown], 2, "did you mean `path-length`?"),
        (vec!["--spec", &model], 2, "not defined for hole"),
        (vec!["--spec", &loss], 2, "objective.loss"),
        (vec!["--rate", "1e38", "--dim", "4", "--epochs", "9"], 1, "diverged"),
    ] {
        let args = [&ptranse[..], &more].concat();
        let output = ruge(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(say), "{args:?}: {}", stderr(&output));
    }
    let output = ruge(&["train", "demo", "--guidance", "ruge", "--path-length", "3", "--out", &out]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("belong to --guidance ptranse"), "{}", stderr(&output));
}

#[test]
fn a_graph_without_longer_paths_trains_and_ranks() {
    // Every entity has one edge: no path but the edge itself and its way back and forth.
    let folder = tempfile::tempdir().expect("folder");
    let write = |name: &str, facts: &[&str]| std::fs::write(folder.path().join(name), facts.join("\n")).unwrap();
    write("train.tsv", &["a\tr\tb", "c\ts\td"]);
    write("valid.tsv", &["a\ts\td"]);
    write("test.tsv", &["c\tr\tb"]);
    let (data, out) = (folder.path().to_string_lossy().into_owned(), folder.path().join("run"));
    let out = out.to_string_lossy().into_owned();
    for length in ["1", "3"] {
        let settings = ["--guidance", "ptranse", "--path-length", length, "--dim", "4", "--epochs", "3", "--force"];
        let run = json(&[&["train", &data, "--json", "--out", &out], &settings[..]].concat());
        assert_eq!(run["epochs"], 3, "{run}");
        let test = json(&["eval", &out, "--json"]);
        assert_eq!(test["queries"], 2, "{test}");
        assert!(test["mrr"].as_f64().unwrap() > 0.0);
    }
}
