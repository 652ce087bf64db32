//! `ruge run` and `ruge demo` as a user types them: the whole job, skipped, repeated, killed, resumed, refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{command, json, kill_until_done, ruge, stderr, wait_for};
use serde_json::Value;

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Stages that were skipped; lines may be broken anywhere.
fn skipped(output: &Output) -> usize {
    stderr(output).split_whitespace().collect::<Vec<_>>().join(" ").matches("(finished before)").count()
}

fn succeed(args: &[&str]) -> Output {
    let output = ruge(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    output
}

/// A quick setting on the embedded graph: enough epochs to learn something, few enough to wait for.
const QUICK: [&str; 10] = ["run", "demo", "--dim", "16", "--epochs", "30", "--validate-every", "10", "--sample", "200"];

fn quick<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&QUICK[..], &["--out", out], more].concat()
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("folder"))
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_whole_job_then_nothing_left_to_do() {
    let place = Place::new();
    let out = place.at("run");
    let first = json(&quick(&out, &["--json"]));
    for file in [
        "spec.toml",
        "model.safetensors",
        "rules.tsv",
        "metrics.jsonl",
        "report.html",
        "unguided/model.safetensors",
        "guided/model.safetensors",
        "evaluated/model.safetensors",
        "evaluation.json",
        "proposals.json",
        "stages.json",
    ] {
        assert!(place.path("run").join(file).is_file(), "{file}");
    }
    let mrr = |object: &Value, key: &str| object[key]["mrr"].as_f64().unwrap_or_else(|| panic!("{key}: {object}"));
    assert!(mrr(&first, "ruge") > mrr(&first, "complex"), "{first}");
    assert!(mrr(&first, "with_rules") > mrr(&first, "ruge") + 0.01, "{first}");
    let systems = serde_json::json!({ "unguided": "complex", "guided": "ruge", "best": "with_rules" });
    assert_eq!(first["systems"], systems, "every result is stored once, under a name that is listed here");
    assert!(first["rules"].as_u64().unwrap() > 20 && first["rules_only"]["mrr"].as_f64().unwrap() > 0.1, "{first}");
    assert_eq!(first["finished"], true);
    assert_eq!(first["predictions"].as_array().unwrap().len(), 6, "three new, three held out");
    assert!(Path::new(first["report"].as_str().unwrap()).is_file());

    // What `eval` says of the models is what the run says.
    for (model, key) in
        [(out.clone(), "with_rules"), (place.at("run/unguided"), "complex"), (place.at("run/guided"), "ruge")]
    {
        let eval = json(&["eval", &model, "--json"]);
        assert_eq!(eval["ranks_sha256"], first[key]["ranks_sha256"], "{key}");
    }

    // Again: every stage is there, nothing is done, the story is the same.
    let again = succeed(&quick(&out, &[]));
    assert_eq!(skipped(&again), 12, "{}", stderr(&again));
    let story = stdout(&again);
    for part in [
        "entities",
        "if x ",
        "ComplEx alone",
        "ComplEx guided by rules",
        "rules when ranking",
        "those rules alone",
        "guiding rules alone",
        "because",
        "report.html",
    ] {
        assert!(story.contains(part), "{part}: {story}");
    }
    assert!(story.lines().all(|line| line.chars().count() <= 100), "{story}");

    // One stage alone, and from one stage on.
    let report = place.path("run/report.html");
    fs::remove_file(&report).unwrap();
    let only = succeed(&quick(&out, &["--only", "report"]));
    assert!(report.is_file() && stdout(&only).contains("kB"), "{}", stdout(&only));
    let from = succeed(&quick(&out, &["--from", "evaluate"]));
    assert_eq!(skipped(&from), 6, "{}", stderr(&from));

    // Other settings are named and refused; --resume goes on with the stored ones, without repeating them.
    let refused = ruge(&quick(&out, &["--rate", "0.2"]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("optimizer.entity-rate is 0.15 there and 0.2 here"), "{}", stderr(&refused));
    let resumed = json(&["run", "demo", "--out", &out, "--resume", "--json"]);
    assert_eq!(resumed["ruge"], first["ruge"]);

    // A damaged result is made again, and only what depends on it.
    fs::write(place.path("run/evaluation.json"), "{}").unwrap();
    let mended = succeed(&quick(&out, &[]));
    // The report reads it too, but it came out the same.
    assert_eq!(skipped(&mended), 11, "{}", stderr(&mended));
}

#[test]
#[cfg(unix)]
fn killed_at_any_moment_it_goes_on_to_the_same_bits() {
    let place = Place::new();
    let often = ["--checkpoint-every", "0", "--samples", "1"];
    succeed(&quick(&place.at("whole"), &often));
    let out = place.at("killed");
    let kills = kill_until_done(&quick(&out, &often), &[]);
    assert!(kills >= 2, "the run was over before it could be killed");
    succeed(&quick(&out, &often));
    for file in [
        "model.safetensors",
        "unguided/model.safetensors",
        "guided/model.safetensors",
        "evaluated/model.safetensors",
        "rules.tsv",
        "evaluation.json",
        "calibration.json",
        "consistency.json",
        "deploy.json",
        "predictions.json",
        "proposals.json",
    ] {
        let same = bytes(&place.path("whole").join(file)) == bytes(&place.path("killed").join(file));
        assert!(same, "{file} differs after {kills} kills");
    }
    let drafts = fs::read_dir(&out)
        .unwrap()
        .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with('.')));
    assert_eq!(drafts.count(), 0, "drafts of killed processes are swept");
}

#[test]
#[cfg(unix)]
fn an_interruption_keeps_what_is_finished_and_says_how_to_go_on() {
    let place = Place::new();
    let out = place.at("run");
    let args = [
        &["run", "demo", "--dim", "16", "--epochs", "100000", "--patience", "100000", "--checkpoint-every", "0"][..],
        &["--out", &out],
    ]
    .concat();
    let child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    // Half an epoch is given up, so there must be a checkpoint before it.
    wait_for(&place.path("run/unguided/checkpoint.safetensors"));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let output = child.wait_with_output().expect("ends");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("stopping: saving what is finished")
            && said.contains("interrupted in stage train-unguided")
            && said.contains("continue with: ruge run demo"),
        "{said}"
    );
    assert!(place.path("run/rules.tsv").is_file() && place.path("run/unguided/checkpoint.safetensors").is_file());
}

/// A family in which nothing follows from anything, and one file that is split.
fn write_graphs(place: &Place) {
    let fact = |i: usize, relation: &str, j: usize| format!("e{i}\t{relation}\te{j}\n");
    let random: String = (0..300).map(|i| fact(i * 7 % 50, ["likes", "knows"][i % 2], (i * i * 13 + 5) % 47)).collect();
    fs::write(place.path("random.tsv"), random).unwrap();
    fs::create_dir(place.path("only-train")).unwrap();
    let pairs = |i: usize| format!("{}{}", fact(i, "above", i + 40), fact(i + 40, "below", i));
    let train: String =
        (0..40).map(pairs).collect::<String>() + &(80..90).map(|i| fact(i, "above", i + 40)).collect::<String>();
    fs::write(place.path("only-train/train.tsv"), train).unwrap();
}

#[test]
fn data_without_held_out_parts_and_data_without_rules() {
    let place = Place::new();
    write_graphs(&place);
    let out = place.at("bare");
    let bare = succeed(&["run", &place.at("only-train"), "--out", &out, "--epochs", "20"]);
    assert!(stderr(&bare).contains("no held-out triples at all"), "{}", stderr(&bare));
    let story = stdout(&bare);
    assert!(story.contains("nothing can be compared") && story.contains("if x above y then y below x"), "{story}");
    assert!(place.path("bare/report.html").is_file());
    assert_eq!(
        json(&["run", &place.at("only-train"), "--out", &out, "--epochs", "20", "--json"])["ruge"]["mrr"],
        Value::Null
    );

    let file = place.at("random.tsv");
    let args = ["run", &file, "--out", &place.at("none"), "--epochs", "20", "--min-std", "0.9"].map(str::to_string);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = succeed(&args);
    assert!(stdout(&output).contains("No rule guides"), "{}", stdout(&output));
    assert!(stderr(&output).contains("no rule passes the thresholds"), "{}", stderr(&output));
    let object = json(&[&args[..], &["--json"]].concat());
    assert_eq!((&object["rules"], &object["ruge"]["mrr"]), (&Value::from(0), &object["complex"]["mrr"]));
    json(&["eval", &place.at("none"), "--json"]);
}

/// Rules that were found and left out, and rules of a file that the data cannot have, are told for what they are.
#[test]
fn rules_that_fell_away_are_told() {
    let place = Place::new();
    write_graphs(&place);
    let both = |i: usize| format!("e{i}\tmeets\tf{i}\nf{i}\tmeets\te{i}\n");
    let meetings: String = (0..40).map(both).chain((40..50).map(|i| format!("e{i}\tmeets\tf{i}\n"))).collect();
    fs::create_dir(place.path("meetings")).unwrap();
    fs::write(place.path("meetings/train.tsv"), meetings).unwrap();
    let few = ["--epochs", "2", "--max-conclusions", "0.01"];
    let output = succeed(&[&["run", &place.at("meetings"), "--out", &place.at("none")][..], &few].concat());
    assert!(stderr(&output).contains("raise rules.max-conclusions (--max-conclusions)"), "{}", stderr(&output));

    fs::write(place.path("some.rules"), "above(x,y) => below(y,x) 0.9\nabov(x,y) => below(y,x) 0.8\n").unwrap();
    let data = place.at("only-train");
    let output =
        succeed(&["run", &data, "--out", &place.at("some"), "--epochs", "2", "--rules", &place.at("some.rules")]);
    let said = stderr(&output);
    assert!(said.contains("some.rules:2: no training triple has the relation \"abov\"; did you mean"), "{said}");
    assert!(said.contains("1 of 2 rules names relations"), "{said}");
    assert!(stdout(&output).contains("One rule"), "{}", stdout(&output));
    assert!(!stdout(&output).contains("--by-relation"), "there is nothing to evaluate on: {}", stdout(&output));
}

/// Rules that press a hundred times too hard do harm; validation sees it and leaves them away.
#[test]
fn rules_that_do_not_help_step_aside() {
    let place = Place::new();
    let out = place.at("run");
    let output = succeed(&quick(&out, &["--weight", "100"]));
    assert!(stderr(&output).contains("rules are not used"), "{}", stderr(&output));
    let object = json(&quick(&out, &["--weight", "100", "--json"]));
    assert_eq!(object["ruge"]["mrr"], object["complex"]["mrr"]);
    // What was asked for is remembered, though the model has another weight.
    let resumed = json(&["run", "demo", "--out", &out, "--resume", "--json"]);
    assert_eq!(resumed["ruge"], object["ruge"]);
    // The model says what it is: a spec that gives these bits.
    let spec = fs::read_to_string(place.path("run/spec.toml")).unwrap();
    assert!(spec.contains("weight = 0.0"), "{spec}");
    let curves = ["run/metrics.jsonl", "run/unguided/metrics.jsonl"].map(|file| bytes(&place.path(file)));
    assert_ne!(curves[0], curves[1], "the curve with rules is kept for people to see");
}

#[test]
fn the_papers_systems_stay() {
    let place = Place::new();
    for (name, args) in [
        ("preset", &["--preset", "ruge-paper"][..]),
        ("guidance", &["--guidance", "ruge", "--negatives", "2"]),
        ("model", &["--model", "transe", "--guidance", "kale"]),
    ] {
        let out = place.at(name);
        let small = ["run", "demo", "--dim", "8", "--epochs", "2", "--validate-every", "1", "--json", "--out", &out];
        json(&[&small[..], args].concat());
        let spec = fs::read_to_string(place.path(name).join("spec.toml")).unwrap();
        let kind = if name == "model" { "kind = \"kale\"" } else { "kind = \"ruge\"" };
        assert!(spec.contains(kind) && !spec.contains("[softmax]") && !spec.contains("self-adversarial"), "{spec}");
        let ranks = fs::read_to_string(place.path(name).join("evaluation.json")).unwrap();
        assert!(!ranks.contains("with_rules"), "rules at ranking time are not the paper's");
    }
}

#[test]
fn other_models_learn_as_they_do_today() {
    let place = Place::new();
    let fact = |i: usize, relation: &str, j: usize| format!("e{i}\t{relation}\te{j}\n");
    let pairs = |i: usize| format!("{}{}", fact(i, "above", i + 90), fact(i + 90, "below", i));
    fs::write(place.path("pairs.tsv"), (0..90).map(pairs).collect::<String>()).unwrap();
    for (model, says) in [("rotate", "self-adversarial"), ("transe", "self-adversarial"), ("hole", "[softmax]")] {
        // Rates that fall after two validations must not stand in the way of a run that ends after one.
        let (file, out) = (place.at("pairs.tsv"), place.at(model));
        let args = ["run", &file, "--model", model, "--epochs", "6", "--validate-every", "1", "--patience", "1"];
        let object = json(&[&args[..], &["--out", &out, "--json"]].concat());
        let spec = fs::read_to_string(place.path(model).join("unguided/spec.toml")).unwrap();
        assert!(spec.contains(says) && !spec.contains("plateau"), "{spec}");
        assert_eq!(object["finished"], true, "{model}: {object}");
        assert!(place.path(model).join("evaluated/rules.tsv").is_file(), "rules beside it at ranking time");
    }
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let place = Place::new();
    fs::create_dir(place.path("letters")).unwrap();
    fs::write(place.path("letters/letter.txt"), "Dear").unwrap();
    fs::write(place.path("file"), "x").unwrap();
    fs::write(place.path("bad.toml"), "[model]\ndimenson = 5\n").unwrap();
    fs::write(place.path("bad.tsv"), "a\tb\tc\nd\te\n").unwrap();
    succeed(&["train", "demo", "--dim", "8", "--epochs", "1", "--out", &place.at("trained")]);
    let model = bytes(&place.path("trained/model.safetensors"));
    let [letters, file, trained, new] = ["letters", "file", "trained", "new"].map(|name| place.at(name));
    let [bad, tsv] = ["bad.toml", "bad.tsv"].map(|name| place.at(name));
    for (args, code, say) in [
        (vec!["run", "demo", "--out", &letters], 1, "not a run folder"),
        (vec!["run", "demo", "--out", &letters, "--force"], 1, "letter.txt"),
        (vec!["demo", "--out", &letters], 1, "not a run folder"),
        (vec!["run", "demo", "--out", &file], 1, "it is a file"),
        (vec!["run", "demo", "--out", &trained], 1, "ruge train"),
        (vec!["run", "demo", "--out", &new, "--only", "evaluate"], 1, "stage check is not finished"),
        (vec!["run", "demo", "--out", &new, "--only", "train"], 2, "train-unguided"),
        (vec!["run", "demo", "--out", &new, "--evaluate-only", "--only", "deploy"], 1, "only evaluates"),
        (vec!["run", "demo", "--out", &new, "--only", "mine", "--from", "mine"], 2, "cannot be used with"),
        (vec!["run", "demo", "--out", &new, "--spec", &bad], 2, "did you mean `dimension`?"),
        (vec!["run", "demo", "--out", &new, "--spec", &bad], 2, "bad.toml:2"),
        (vec!["run", "demo", "--out", &new, "--model", "rules"], 2, "ruge train DATA --model rules"),
        (vec!["run", "demo", "--out", &new, "--model", "complexx"], 2, "complex"),
        (vec!["run", "demo", "--out", &new, "--negatives", "3"], 2, "--guidance ruge"),
        (vec!["run", "demo", "--out", &new, "--guidance", "ruge", "--n3", "0.1"], 2, "softmax"),
        (vec!["run", "demo", "--out", &new, "--guidance", "ruge", "--weight", "1"], 2, "--guidance examples"),
        (
            vec!["run", "demo", "--out", &new, "--preset", "complex-n3"],
            2,
            "possible values: ruge-paper, complex-n3-rules",
        ),
        (vec!["run", "demo", "--out", &new, "--preset", "ruge-paper", "--model", "transe"], 2, "cannot be used with"),
        (vec!["run", "demo", "--out", &new, "--min-pca", "1.5"], 2, "PCA"),
        (vec!["run", "demo", "--out", &new, "--rules", "x.tsv", "--min-pca", "0.5"], 2, "thresholds"),
        (vec!["run", "demo", "--out", &new, "--rules", "no-such-file.tsv"], 1, "no-such-file.tsv"),
        (vec!["run", &tsv, "--out", &new], 1, "bad.tsv:2"),
        (vec!["run", "nowhere", "--out", &new], 1, "nowhere"),
    ] {
        let output = ruge(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(say), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(bytes(&place.path("letters/letter.txt")), b"Dear");
    assert_eq!(fs::read_dir(&letters).unwrap().count(), 1, "nothing was added");
    assert!(bytes(&place.path("trained/model.safetensors")) == model);
}
