//! `ruge train` and `ruge eval` as a user types them: real processes, killed and resumed.

use std::path::Path;

use crate::support::{json, kill_until_done, ruge, stderr};
use serde_json::Value;

/// A small, quick setting on the embedded graph.
const SMALL: [&str; 9] = ["train", "demo", "--dim", "16", "--validate-every", "10", "--guidance", "ruge", "--json"];

fn small<'a>(out: &'a str, epochs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], &["--out", out, "--epochs", epochs], more].concat()
}

#[test]
fn guidance_helps_and_the_run_folder_says_how() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let plain = json(&[
        "train",
        "demo",
        "--dim",
        "16",
        "--epochs",
        "30",
        "--validate-every",
        "10",
        "--json",
        "--out",
        &path("a"),
    ]);
    let guided = json(&small(&path("b"), "30", &[]));
    assert!(guided["valid_mrr"].as_f64().unwrap() > plain["valid_mrr"].as_f64().unwrap(), "{guided} {plain}");
    for file in ["spec.toml", "rules.tsv", "metrics.jsonl", "model.safetensors"] {
        assert!(folder.path().join("b").join(file).is_file(), "{file}");
    }
    let curve = std::fs::read_to_string(folder.path().join("b/metrics.jsonl")).unwrap();
    assert_eq!(curve.lines().count(), 30);
    // The stored spec alone repeats the run, to the bit.
    let again =
        json(&["train", "demo", "--spec", &path("b/spec.toml"), "--json", "--out", &path("c"), "--threads", "1"]);
    assert_eq!(again["valid_mrr"], guided["valid_mrr"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("b") == bytes("c"), "the same spec on another number of threads gives another model");

    let test = json(&["eval", &path("b"), "--json"]);
    for key in ["mrr", "med", "hits", "head", "tail", "queries", "seconds", "raw", "rules_only"] {
        assert!(!test[key].is_null(), "{key}: {test}");
    }
    let valid = json(&["eval", &path("b"), "--split", "valid", "--json"]);
    assert_eq!(valid["mrr"], guided["valid_mrr"], "training and evaluation agree");
    let same = json(&["eval", &path("b/model.safetensors"), "demo", "--json", "--threads", "1"]);
    assert_eq!(same["ranks_sha256"], test["ranks_sha256"]);
}

#[test]
fn no_rules_is_no_guidance() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("none.tsv"), "# no rules at all\n").unwrap();
    json(&small(&path("a"), "30", &["--rules", &path("none.tsv")]));
    // Lines that are no rules are told, and only they are left out.
    std::fs::write(path("odd.tsv"), "?b  has_capital  ?a   => ?a  capital_of  ?b\t1\n?b  has_capital\t1\n").unwrap();
    let odd = ruge(&small(&path("odd"), "1", &["--rules", &path("odd.tsv")]));
    assert!(odd.status.success() && stderr(&odd).contains("line 2 skipped"), "{}", stderr(&odd));
    json(&["train", "demo", "--dim", "16", "--epochs", "30", "--validate-every", "10", "--json", "--out", &path("b")]);
    let curve = |name: &str| -> Vec<(Value, Value)> {
        let text = std::fs::read_to_string(folder.path().join(name).join("metrics.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|v| (v["loss"].clone(), v["valid_mrr"].clone()))
            .collect()
    };
    assert_eq!(curve("a"), curve("b"));
}

#[test]
#[cfg(unix)]
fn a_killed_run_resumes_to_the_same_bits() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let often = ["--checkpoint-every", "0"];
    let whole = json(&small(&path("whole"), "60", &often));
    let out = path("killed");
    kill_until_done(&small(&out, "60", &often), &["--resume"]);
    for name in [".checkpoint.safetensors.4194305-0.tmp", ".checkpoint.safetensors.mine.tmp"] {
        std::fs::write(folder.path().join("killed").join(name), "half of one").unwrap();
    }
    let resumed = json(&small(&out, "60", &[&often[..], &["--resume"]].concat()));
    assert_eq!((&resumed["best_epoch"], &resumed["valid_mrr"]), (&whole["best_epoch"], &whole["valid_mrr"]));
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("whole") == bytes("killed"), "the resumed model differs");
    let curve = std::fs::read_to_string(folder.path().join("killed/metrics.jsonl")).unwrap();
    assert_eq!(curve.lines().count(), 60, "one line per epoch, none twice");
    let files = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let drafts: Vec<String> = files.filter(|name| name.starts_with('.')).collect();
    assert_eq!(drafts, [".checkpoint.safetensors.mine.tmp"], "drafts of killed processes go, the user's files stay");
}

#[test]
#[cfg(unix)]
fn a_model_may_come_through_a_pipe() {
    let folder = tempfile::tempdir().expect("folder");
    let out = folder.path().join("run").to_string_lossy().into_owned();
    json(&small(&out, "2", &[]));
    let whole = json(&["eval", &out, "--json"]);
    let piped = std::process::Command::new("sh")
        .args(["-c", "cat \"$1/model.safetensors\" | \"$0\" eval /dev/stdin --json"])
        .args([env!("CARGO_BIN_EXE_ruge"), &out])
        .output()
        .expect("sh");
    let piped: Value = serde_json::from_slice(&piped.stdout).expect("JSON");
    assert_eq!(piped["filtered"], whole["filtered"]);
}

#[test]
fn what_can_go_wrong() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    json(&small(&path("run"), "2", &[]));
    let model = std::fs::read(folder.path().join("run/model.safetensors")).unwrap();
    std::fs::write(path("cut.safetensors"), &model[..model.len() / 2]).unwrap();
    let mut flipped = model.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    std::fs::write(path("flipped.safetensors"), &flipped).unwrap();
    std::fs::write(path("bad.toml"), "[model]\ndimenson = 5\n").unwrap();
    std::fs::write(path("kind.toml"), "seed = 1\n[model]\ndimension = \"x\"\n").unwrap();
    let kind = path("kind.toml");
    let (cut, flip, bad, run) = (path("cut.safetensors"), path("flipped.safetensors"), path("bad.toml"), path("run"));
    let out = path("new");
    for (args, code, say) in [
        (vec!["eval", &cut], 1, "cut off or damaged"),
        (vec!["eval", &flip], 1, "damaged"),
        (vec!["eval", "nowhere"], 1, "nowhere"),
        (vec!["eval", &bad], 1, "not a usable model file"),
        (vec!["train", "demo", "--out", &run], 1, "--resume"),
        (vec!["train", "demo", "--spec", &bad, "--out", &out], 2, "did you mean `dimension`?"),
        (vec!["train", "demo", "--spec", &bad, "--out", &out], 2, "bad.toml:2: model: unknown field"),
        (vec!["train", "demo", "--spec", &kind, "--out", &out], 2, "kind.toml:3: model.dimension: invalid type"),
        (vec!["train", "demo", "--min-conf", "0.5", "--out", &out], 2, "--min-conf would be ignored"),
        (vec!["train", "demo", "--norm", "l2", "--out", &out], 2, "--norm"),
        (vec!["train", "demo", "--model", "rules", "--dim", "7", "--out", &out], 2, "--dim: rules alone"),
        (
            vec!["train", "demo", "--model", "rules", "--epochs", "5", "--rate", "0.1", "--out", &out],
            2,
            "--epochs, --rate: rules alone",
        ),
        (vec!["train", "demo", "--rules", "x.tsv", "--out", &out], 2, "--guidance"),
        (vec!["train", "demo", "--rate", "nan", "--out", &out], 2, "finite"),
        (vec!["train", "demo", "--dim", "0", "--out", &out], 2, "dimension"),
        (
            vec!["train", "demo", "--model", "complex", "--rate", "1e30", "--dim", "8", "--epochs", "5", "--out", &out],
            1,
            "diverged",
        ),
        (vec!["train", "demo", "--out", &run, "--resume", "--dim", "77"], 1, "other settings"),
    ] {
        let output = ruge(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(say), "{args:?}: {}", stderr(&output));
    }
    assert!(Path::new(&run).join("model.safetensors").is_file(), "nothing was lost");
}

#[test]
fn every_model_learns_something() {
    let folder = tempfile::tempdir().expect("folder");
    for (model, guidance) in [
        ("distmult", "ruge"),
        ("hole", "ruge"),
        ("transe", "none"),
        ("transe", "ruge"),
        ("transe", "kale"),
        ("rotate", "ruge"),
    ] {
        let out = folder.path().join(format!("{model}-{guidance}")).to_string_lossy().into_owned();
        let args = [
            "train",
            "demo",
            "--model",
            model,
            "--guidance",
            guidance,
            "--dim",
            "16",
            "--epochs",
            "40",
            "--json",
            "--out",
            &out,
        ];
        let run = json(&args);
        let by_chance = 0.003;
        assert!(run["valid_mrr"].as_f64().unwrap() > 5.0 * by_chance, "{model} under {guidance}: {run}");
    }
}

/// A rule file may speak of things the data do not have: told, left out, and the rest of it guides.
#[test]
fn rules_about_unknown_names_are_told_and_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (rules, out) = (folder.path().join("rules.txt"), folder.path().join("run"));
    let text = "borders(x,y) => borders(y,x)  0.9\n\
                borders(x,y) => adjoins(x,y)  0.8\n\
                in_continent(x,\"Atlantis\") => borders(x,\"Mars\")  0.7\n";
    std::fs::write(&rules, text).expect("written");
    let (rules, out) = (rules.to_string_lossy(), out.to_string_lossy());
    let output = ruge(&small(&out, "2", &["--rules", &rules]));
    let words = stderr(&output);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("2 rules name relations or entities the data do not have"), "{words}");
    assert!(words.contains("adjoins"), "{words}");
    for args in
        [&["eval", &*out][..], &["explain", &out, "France", "borders", "Germany"], &["rules", "consistency", &out]]
    {
        let output = ruge(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }
}

/// A graph of two relations, one the inverse of the other: too few facts for the usual thresholds of mining.
fn pairs(from: usize, to: usize) -> String {
    (from..to).map(|i| format!("a{i}\tabove\tb{i}\nb{i}\tbelow\ta{i}\na{i}\tabove\tb{}\n", i + 1)).collect()
}

#[test]
fn a_run_that_no_rule_guides_says_so_and_what_to_do() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("pairs.tsv"), pairs(0, 30)).unwrap();
    let (data, out) = (path("pairs.tsv"), path("run"));
    let train = |more: &[&str]| {
        let all = [&["train", &data, "--dim", "4", "--epochs", "1", "--force", "--out", &out], more].concat();
        let output = ruge(&all);
        assert!(output.status.success(), "{all:?}: {}", stderr(&output));
        stderr(&output)
    };
    for guided in [&["--guidance", "ruge"][..], &["--guidance", "kale"], &["--preset", "complex-n3-rules"]] {
        let words = train(guided);
        for said in ["no rule was found", "nothing guides", "min-head-size (now 100", "--spec", "--rules"] {
            assert!(words.contains(said), "{guided:?}: {said:?} is missing: {words}");
        }
    }
    // The remedy is one.
    std::fs::write(path("low.toml"), "[rules]\nmin-head-size = 5\nmin-pca = 0.3\n").unwrap();
    let words = train(&["--guidance", "ruge", "--spec", &path("low.toml")]);
    assert!(words.contains("groundings") && !words.contains("no rule was found"), "{words}");
    let words = train(&["--guidance", "ruge", "--spec", &path("low.toml"), "--min-conf", "1"]);
    assert!(words.contains("rules is left") && words.contains("--min-conf"), "{words}");
    std::fs::write(path("none.tsv"), "# no rules at all\n").unwrap();
    let words = train(&["--guidance", "ruge", "--rules", &path("none.tsv")]);
    assert!(words.contains("none.tsv holds no rule"), "{words}");
    assert!(!train(&[]).contains("guides"), "nothing was to guide it");
}

#[test]
fn another_split_of_a_file_is_other_data() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("pairs.tsv"), pairs(0, 40)).unwrap();
    let (data, out) = (path("pairs.tsv"), path("run"));
    json(&["train", &data, "--dim", "4", "--epochs", "1", "--seed", "1", "--out", &out, "--json"]);
    let resumed = ruge(&["train", &data, "--out", &out, "--resume"]);
    assert_eq!(resumed.status.code(), Some(1));
    assert!(stderr(&resumed).contains("(and --seed, if it is split)"), "{}", stderr(&resumed));
    let seen = ruge(&["eval", &out, &data]);
    assert_eq!(seen.status.code(), Some(1));
    let words = stderr(&seen);
    assert!(words.contains("was trained on") && words.contains("--seed") && words.contains("omit DATA"), "{words}");
}

#[test]
fn other_data_are_evaluated_under_the_names_of_the_model() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let write = |name: &str, train: &str, test: &str| {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(&format!("{name}/train.tsv")), train).unwrap();
        std::fs::write(path(&format!("{name}/test.tsv")), test).unwrap();
    };
    let (train, test) = (pairs(0, 30), "a3\tabove\tb7\na5\tabove\tb9\na8\tabove\tb1\n");
    let backwards = |text: &str| text.lines().rev().fold(String::new(), |all, line| all + line + "\n");
    write("own", &train, test);
    write("same", &backwards(&train), test);
    write("more", &train, "a3\tabove\tb8\n");
    write("known", &train.replacen("a4\tabove\tb4\n", "", 1), "a4\tabove\tb4\n");
    write("foreign", &train, "a3\tabove\tb99\n");
    let out = path("run");
    json(&["train", &path("own"), "--dim", "4", "--epochs", "3", "--out", &out, "--json"]);
    let own = json(&["eval", &out, "--json"]);
    // The same triples in another order have other ids, and the same ranks.
    let same = json(&["eval", &out, &path("same"), "--by-relation", "--json"]);
    assert_eq!((&same["ranks_sha256"], &same["by_category"]), (&own["ranks_sha256"], &own["by_category"]));
    assert_eq!(same["by_relation"]["above"]["queries"], 6, "{same}");
    assert_eq!(json(&["eval", &out, &path("more"), "--json"])["queries"], 2);
    for (data, say) in [("known", "trained on 1 of these 1 test triples"), ("foreign", "no entity called \"b99\"")] {
        let output = ruge(&["eval", &out, &path(data)]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(say), "{data}: {}", stderr(&output));
    }
}

#[test]
fn a_preset_lowers_no_rates_where_nothing_is_validated() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::create_dir(path("data")).unwrap();
    std::fs::write(path("data/train.tsv"), pairs(0, 30)).unwrap();
    std::fs::write(path("plateau.toml"), "[schedule.plateau]\nfactor = 0.4\npatience = 1\n").unwrap();
    let (data, out, plateau) = (path("data"), path("run"), path("plateau.toml"));
    let args = ["train", &data, "--preset", "rotate", "--dim", "4", "--epochs", "1", "--out", &out];
    let output = ruge(&args);
    assert!(output.status.success() && stderr(&output).contains("rates stay as they are"), "{}", stderr(&output));
    assert!(!std::fs::read_to_string(path("run/spec.toml")).unwrap().contains("plateau"), "what is stored was done");
    let again = ruge(&[&args[..], &["--resume"]].concat());
    assert!(again.status.success(), "{}", stderr(&again));
    let own = ruge(&[&args[..], &["--force", "--spec", &plateau]].concat());
    assert_eq!(own.status.code(), Some(2));
    assert!(stderr(&own).contains("leave it out of the spec"), "{}", stderr(&own));
}
