//! Rules as a model, and rules beside a model, as a user types it.

use crate::support::{json, ruge, stderr, text};

#[test]
fn rules_alone_are_a_model() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = json(&["train", "demo", "--model", "rules", "--out", &path("a"), "--json"]);
    assert!(run["rules"].as_u64() > Some(100) && run["epochs"] == 0, "{run}");
    assert!(run["fitted_numbers"].as_u64() > Some(0), "{run}");
    for file in ["spec.toml", "rules.tsv", "metrics.jsonl", "model.safetensors"] {
        assert!(folder.path().join("a").join(file).is_file(), "{file}");
    }
    let valid = json(&["eval", &path("a"), "--split", "valid", "--json"]);
    assert_eq!(valid["mrr"], run["valid_mrr"], "fitting and evaluation agree");
    let test = json(&["eval", &path("a"), "--json", "--threads", "1"]);
    assert!(test["mrr"].as_f64() > Some(0.3), "far above chance: {test}");
    let ranks = |of: &str| test[of]["mrr"].as_f64().expect("a number");
    let mean = test["mrr"].as_f64().expect("a number");
    assert!(ranks("pessimistic") < mean && mean < ranks("optimistic"), "rules tie, and ties are told");
    assert!(text(&["eval", &path("a")]).contains("rules: "), "the model is named");

    // The stored spec repeats it, to the bit, on another number of threads.
    json(&["train", "demo", "--spec", &path("a/spec.toml"), "--out", &path("b"), "--threads", "1", "--json"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).expect("a model");
    assert!(bytes("a") == bytes("b"), "the same spec gives another model");

    // From the rules as a file, nothing is mined; the numbers of the file decide.
    let rules = path("a/rules.tsv");
    let again = json(&["train", "demo", "--model", "rules", "--rules", &rules, "--out", &path("c"), "--json"]);
    assert_eq!((&again["rules"], &again["valid_mrr"]), (&run["rules"], &run["valid_mrr"]));

    let answers = json(&["predict", &path("a"), "--head", "France", "--relation", "has_capital", "--json"]);
    let first = &answers["answers"][0];
    assert!(first["truth"].as_f64().is_some_and(|truth| (0.0..=1.0).contains(&truth)), "{answers}");
    let fact = text(&["explain", &path("a"), "Paris", "capital_of", "France", "--json"]);
    assert!(fact.contains("groundings"), "{fact}");
    let found = json(&["complete", &path("a"), "--top", "5", "--json"]);
    assert_eq!(found["facts"].as_array().map(Vec::len), Some(5), "{found}");

    let wrong = ruge(&["train", "demo", "--model", "rules", "--guidance", "ruge", "--out", &path("d")]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    assert!(stderr(&wrong).contains("nothing to guide"), "{}", stderr(&wrong));
}

#[test]
fn rules_beside_a_model_are_a_model() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let fixed = ["train", "demo", "--dim", "16", "--epochs", "20", "--validate-every", "10", "--json"];
    json(&[&fixed[..], &["--out", &path("plain")]].concat());
    let combined = json(&["combine", &path("plain"), "--out", &path("both"), "--json"]);
    assert_eq!(combined["uses_rules"], true, "{combined}");
    assert!(combined["fitted_numbers"].as_u64() > Some(1), "{combined}");
    let mrr = |name: &str| json(&["eval", &path(name), "--json"])["mrr"].as_f64().expect("a number");
    let (before, after) = (mrr("plain"), mrr("both"));
    assert!(after > before + 0.02, "{before} before, {after} after");
    assert!(text(&["eval", &path("both")]).contains("combined with"), "the model is named");
    json(&["combine", &path("plain"), "--out", &path("twin"), "--threads", "1", "--json"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).expect("a model");
    assert!(bytes("both") == bytes("twin"), "the same model and rules give another combination");

    // How the rules were weighed stands in the spec, and the rules stand beside it.
    json(&["combine", &path("plain"), "--thorough", "--out", &path("thorough"), "--json"]);
    let spec = |name: &str| std::fs::read_to_string(folder.path().join(name).join("spec.toml")).expect("a spec");
    assert!(spec("thorough").contains("thorough = true") && !spec("both").contains("thorough"), "{}", spec("thorough"));
    let again =
        ["train", "demo", "--spec", &path("thorough/spec.toml"), "--epochs", "1", "--out", &path("anew"), "--json"];
    json(&again);
    assert!(spec("anew").contains("thorough = true"), "it is a spec like any other");
    let rules = path("both/rules.tsv");
    assert!(text(&["rules", "convert", &rules, "--to", "json", "--data", "demo"]).contains("confidence"));

    let answers = json(&["predict", &path("both"), "--head", "France", "--relation", "has_capital", "--json"]);
    assert_eq!(answers["answers"].as_array().map(Vec::len), Some(10), "{answers}");
    let why = json(&["explain", &path("both"), "Paris", "capital_of", "France", "--json"]);
    assert!(why["truth"].as_f64().is_some(), "{why}");
    assert_eq!(json(&["complete", &path("both"), "--top", "3", "--json"])["facts"].as_array().map(Vec::len), Some(3));

    let export = ruge(&["export", &path("both"), "--to", "npy"]);
    assert!(!export.status.success() && stderr(&export).contains("ranks by rules"), "{}", stderr(&export));
    let there = ruge(&["combine", &path("plain"), "--out", &path("both")]);
    assert_eq!(there.status.code(), Some(1));
    assert!(stderr(&there).contains("--force"), "{}", stderr(&there));
    json(&["train", "demo", "--model", "rules", "--out", &path("rules"), "--json"]);
    let alone = ruge(&["combine", &path("rules"), "--out", &path("x")]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(stderr(&alone).contains("rules alone"), "{}", stderr(&alone));
}
