//! `ruge reproduce` as a user types it, on tables small enough to fill in seconds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;

fn ruge(args: &[&str], at: &Path) -> Output {
    let mut command = Command::cargo_bin("ruge").expect("built");
    command.args(args).current_dir(at).stdin(Stdio::null()).output().expect("runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(args: &[&str], at: &Path) -> Value {
    let output = ruge(&[args, &["--json"]].concat(), at);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 1, "one object: {text}");
    serde_json::from_str(&text).expect("JSON")
}

const SPEC: &str = "[model]\nname = \"complex\"\ndimension = 8\n[schedule]\nepochs = 4\nvalidate-every = 2\n";

const TABLE: &str = r#"
title = "A small table"
note = "Not the paper's."

[[cell]]
name = "complex"
method = "ComplEx"
data = "demo"
spec = "complex.toml"
seeds = [0, 1]
published = { mrr = 0.69, med = 1, hits = { 1 = 0.598 } }

[[cell]]
name = "ruge"
method = "RUGE"
data = "demo"
spec = "complex.toml"
change = { guidance = { kind = "ruge", slackness = 0.1 } }

[[cell]]
name = "grid"
method = "DistMult"
data = "demo"
spec = "complex.toml"
tie = { "optimizer.relation-rate" = "optimizer.entity-rate" }
[cell.change]
model.name = "distmult"
model.dimension = [4, 8]
optimizer.entity-rate = [0.1, 0.5]
schedule.epochs = 2

[[cell]]
name = "first"
method = "rule hit first"
data = "demo"
spec = "complex.toml"
rank-by = "rules-first"

[[cell]]
name = "missing"
method = "ComplEx"
data = "fb15k"
spec = "complex.toml"

[[cell]]
name = "quick"
method = "RUGE, labels once"
data = "demo"
spec = "complex.toml"
quick = true
change = { guidance = { kind = "static", label = "hard" } }
"#;

/// A folder with a table of ours, to run in.
fn world() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    let experiments = folder.path().join("experiments");
    std::fs::create_dir(&experiments).expect("folder");
    std::fs::write(experiments.join("complex.toml"), SPEC).expect("written");
    std::fs::write(experiments.join("link-prediction.toml"), TABLE).expect("written");
    folder
}

fn record(at: &Path, name: &str) -> PathBuf {
    at.join("experiments/records/link-prediction").join(name)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a record")).expect("JSON")
}

#[test]
fn a_table_is_filled_once_shown_and_verified() {
    let world = world();
    let at = world.path();
    let cells = ["reproduce", "link-prediction", "complex", "ruge", "first"];
    let filled = json(&cells, at);
    let rows = filled["rows"].as_array().expect("rows");
    let of = |method: &str| rows.iter().find(|row| row["method"] == method).expect("a row");
    for key in ["method", "dataset", "mrr", "med", "hits", "seeds", "device", "seconds", "published"] {
        assert!(!of("ComplEx")[key].is_null(), "{key}: {filled}");
    }
    assert_eq!(of("ComplEx")["seeds"], serde_json::json!([0, 1]));
    assert!(of("ComplEx")["mrr_spread"].as_f64().unwrap() > 0.0 && of("ComplEx")["hits"]["10"].is_number());
    assert!(of("RUGE")["rules"]["groundings"].as_u64().unwrap() > 0, "{filled}");
    assert!(of("rules alone")["mrr"].as_f64().unwrap() > 0.1, "{filled}");
    assert!(of("rule hit first")["mrr"].as_f64().unwrap() > of("ComplEx")["mrr"].as_f64().unwrap(), "{filled}");

    let path = record(at, "ruge-seed0.json");
    let written = read(&path);
    for key in ["commit", "device", "time", "rank_by", "curve", "ranks_sha256", "spec", "data_sha256", "head", "tail"] {
        assert!(!written[key].is_null(), "{key}: {written}");
    }
    assert_eq!(written["curve"].as_array().unwrap().len(), 2);
    // What is recorded is not run again: a mark left in a record stays.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"commit\": \"", "\"commit\": \"marked-")).unwrap();
    json(&cells, at);
    assert!(read(&path)["commit"].as_str().unwrap().starts_with("marked-"));
    // A changed spec makes it outdated.
    let shown = ruge(&["reproduce", "link-prediction", "--recorded", "--markdown", "t.md", "--html", "t.html"], at);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("published") && shown.contains("0.690") && !shown.contains("other settings"), "{shown}");
    assert!(shown.contains("Not run: grid, missing."), "{shown}");
    assert!(std::fs::read_to_string(at.join("t.md")).unwrap().contains("| ComplEx | demo | "));
    let page = std::fs::read_to_string(at.join("t.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Validation MRR on demo"));

    let verified = json(&["reproduce", "link-prediction", "--verify", "ruge", "complex"], at);
    let verified = verified["verified"].as_array().unwrap();
    assert_eq!(verified.len(), 3, "{verified:?}");
    assert!(verified.iter().all(|v| v["agrees"] == true && v["ranks_sha256"] == v["recorded_ranks_sha256"]));
    assert!(verified.iter().all(|v| v["current"] == true), "{verified:?}");
    // The record is what is verified, whatever the cell has become.
    std::fs::write(at.join("experiments/complex.toml"), SPEC.replace("= 8", "= 9")).unwrap();
    let output = ruge(&["reproduce", "link-prediction", "--verify", "ruge"], at);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(words.contains("agrees: the same ranks") && words.contains("the cell has other settings now"), "{words}");
    std::fs::write(at.join("experiments/complex.toml"), SPEC).unwrap();
    let digest = written["ranks_sha256"].as_str().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(digest, "0000")).unwrap();
    let output = ruge(&["reproduce", "link-prediction", "--verify", "ruge"], at);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("DIFFERS"), "{}", stderr(&output));

    std::fs::write(at.join("experiments/complex.toml"), SPEC.replace("= 8", "= 9")).unwrap();
    let shown = ruge(&["reproduce", "link-prediction", "ruge", "--recorded"], at);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("other settings"));
}

#[test]
fn a_grid_keeps_the_best_on_validation_and_goes_on_where_it_was() {
    let world = world();
    let at = world.path();
    let none = json(&["reproduce", "link-prediction", "grid", "--minutes", "0"], at);
    assert_eq!((none["unfinished"].as_bool(), none["rows"].as_array().unwrap().len()), (Some(true), 0));
    let filled = json(&["reproduce", "link-prediction", "--only", "grid"], at);
    let path = record(at, "grid-seed0.json");
    let whole = read(&path);
    let points = whole["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    let best = points.iter().max_by(|a, b| a["valid_mrr"].as_f64().partial_cmp(&b["valid_mrr"].as_f64()).unwrap());
    assert_eq!(best.unwrap()["valid_mrr"], whole["valid"]["mrr"]);
    assert_eq!(best.unwrap()["leaves"]["model.dimension"], whole["spec"]["model"]["dimension"]);
    assert_eq!(whole["spec"]["optimizer"]["relation-rate"], whole["spec"]["optimizer"]["entity-rate"]);
    assert_eq!(filled["rows"][0]["mrr"], whole["test"]["mrr"]);
    // As if it had been stopped before the last point.
    let mut partial = whole.clone();
    partial["complete"] = false.into();
    partial["points"].as_array_mut().unwrap().truncate(3);
    std::fs::write(&path, partial.to_string()).unwrap();
    let output = ruge(&["reproduce", "link-prediction", "grid"], at);
    assert!(
        stderr(&output).contains("point 4 of 4") && !stderr(&output).contains("point 3 of 4"),
        "{}",
        stderr(&output)
    );
    let again = read(&path);
    assert_eq!((&again["complete"], &again["test"]), (&Value::Bool(true), &whole["test"]));
    assert_eq!(again["points"].as_array().unwrap().len(), 4);
}

#[test]
fn mistakes_are_told() {
    let world = world();
    let at = world.path();
    let unknown = ruge(&["reproduce", "link-prediction", "rugee"], at);
    assert_eq!(unknown.status.code(), Some(2));
    let said = stderr(&unknown);
    assert!(said.contains("did you mean \"ruge\"") && said.contains("complex, ruge, grid"), "{said}");
    let missing = ruge(&["reproduce", "link-prediction", "missing"], at);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("ruge data get fb15k"), "{}", stderr(&missing));
    let elsewhere = ruge(&["reproduce", "best", "--experiments", "nowhere"], at);
    assert_eq!(elsewhere.status.code(), Some(2));
    assert!(stderr(&elsewhere).contains("--experiments"), "{}", stderr(&elsewhere));
    assert_eq!(ruge(&["reproduce", "everything"], at).status.code(), Some(2));
    let unrecorded = ruge(&["reproduce", "link-prediction", "ruge", "--verify"], at);
    assert!(stderr(&unrecorded).contains("run the cell first"), "{}", stderr(&unrecorded));
}

#[test]
fn the_quick_subset_runs_what_it_says() {
    let world = world();
    let quick = json(&["reproduce", "link-prediction", "--quick"], world.path());
    assert_eq!(quick["rows"][0]["method"], "RUGE, labels once");
    assert_eq!(quick["rows"][0]["quick"], true);
}

#[test]
fn what_the_project_has_recorded_is_shown() {
    let experiments = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let world = tempfile::tempdir().expect("folder");
    let shown = json(&["reproduce", "--recorded", "--experiments", experiments], world.path());
    let rows = shown["rows"].as_array().unwrap();
    let ruge = rows.iter().find(|row| row["cell"] == "fb15k-ruge").expect("RUGE on FB15K is recorded");
    assert!((ruge["mrr"].as_f64().unwrap() - 0.7627).abs() < 0.005, "{ruge}");
    assert_eq!(ruge["published"]["mrr"], 0.768);
}
