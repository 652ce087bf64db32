//! Softmax training as a user types it, and everything else that must hold for such a model.

use crate::support::{json, kill_until_done, ruge, stderr, text};

fn train<'a>(out: &'a str, preset: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let small = ["train", "demo", "--preset", preset, "--dim", "16", "--n3", "0.02", "--sample", "200", "--json"];
    [&small[..], &["--out", out], more].concat()
}

#[test]
fn a_softmax_model_is_a_model_like_any_other() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = path("run");
    let found = json(&train(&run, "complex-n3-rules", &["--epochs", "8", "--validate-every", "4"]));
    assert!(found["rules"].as_u64().unwrap() > 10 && found["valid_mrr"].as_f64().unwrap() > 0.3, "{found}");
    // The stored spec alone repeats the run, to the bit, on another number of threads.
    let again =
        json(&["train", "demo", "--spec", &path("run/spec.toml"), "--json", "--out", &path("b"), "--threads", "1"]);
    assert_eq!(again["valid_mrr"], found["valid_mrr"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("run") == bytes("b"), "threads change nothing");

    let test = json(&["eval", &run, "--json"]);
    assert!(test["mrr"].as_f64().unwrap() > 0.3, "{test}");
    assert_eq!(json(&["eval", &run, "--split", "valid", "--json"])["mrr"], found["valid_mrr"]);
    let answers = json(&["predict", &run, "--relation", "capital_of", "--tail", "France", "--json"]);
    assert!(answers.to_string().contains("Paris"), "{answers}");
    // Scores of two relations do not compare, truths do.
    let relations = json(&["predict", &run, "--head", "France", "--tail", "Spain", "--top", "8", "--json"]);
    let truths: Vec<f64> =
        relations["answers"].as_array().unwrap().iter().map(|answer| answer["truth"].as_f64().unwrap()).collect();
    assert!(truths.is_sorted_by(|a, b| a >= b), "{relations}");
    // A new entity is held to what is said of it by the loss that the others were held to.
    std::fs::write(path("facts.tsv"), "Newtown\tlocated_in\tFrance\nNewtown\tin_continent\tEurope\n").unwrap();
    let facts = path("facts.tsv");
    for (relation, tail) in [("located_in", "France"), ("in_continent", "Europe")] {
        let asked = json(&["predict", &run, "--with", &facts, "--head", "Newtown", "--relation", relation, "--json"]);
        let best = &asked["answers"][0];
        assert!(best["entity"] == tail && best["truth"].as_f64().unwrap() > 0.3, "{asked}");
    }
    // φ of such a model is the share of listed answers; a listed fact is known.
    let told = json(&["explain", &run, "Paris", "located_in", "France", "--json"]);
    let [truth, phi] = ["truth", "model_truth"].map(|key| told[key].as_f64().unwrap());
    assert!(truth == 1.0 && (0.0..=1.0).contains(&phi) && told["known"] == "train", "{told}");
    let why = text(&["explain", &run, "Paris", "located_in", "France"]);
    assert!(why.contains("truth") && why.contains("located_in"), "{why}");
    json(&["complete", &run, "--top", "5", "--out", &path("new.tsv"), "--json"]);
    text(&["export", &run, "--to", "npy", "--out", &path("npy")]);
    let about = std::fs::read_to_string(path("npy/about.json")).unwrap();
    assert!(about.contains("r⁻¹"), "{about}");
    // PyKEEN's inverse triples; experiments/pykeen asks PyKEEN itself.
    text(&["export", &run, "--to", "pykeen", "--out", &path("pykeen")]);
    let about = std::fs::read_to_string(path("pykeen/about.json")).unwrap();
    assert!(about.contains("\"reciprocal\": true"), "{about}");
    let expected = std::fs::read_to_string(path("pykeen/expected.tsv")).unwrap();
    assert!(expected.lines().count() > 10, "{expected}");
}

#[test]
fn a_killed_softmax_run_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (whole, killed) = (path("whole"), path("killed"));
    let epochs = ["--epochs", "20", "--validate-every", "10", "--checkpoint-every", "0"];
    json(&train(&whole, "distmult-n3", &epochs));
    kill_until_done(&train(&killed, "distmult-n3", &epochs), &["--resume"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("whole") == bytes("killed"));
}

#[test]
fn every_option_of_the_trainer_repeats_and_resumes() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let spec = path("spec.toml");
    let text = "[softmax]\nloss = \"bce\"\nanswers = \"all\"\nsmoothing = 0.05\ndropout = 0.1\nl2 = 0.0001\nbatch = 200\n\
                [schedule]\nepochs = 8\nvalidate-every = 1\n[schedule.plateau]\nfactor = 0.5\npatience = 1\n";
    std::fs::write(&spec, text).unwrap();
    let train = |out: &str, more: &[&str]| {
        let small =
            ["train", "demo", "--preset", "complex-n3", "--spec", &spec, "--dim", "16", "--rate", "1.5", "--json"];
        [&small[..], &["--checkpoint-every", "0", "--out", out], more].concat().into_iter().map(str::to_owned).collect()
    };
    let run = |args: Vec<String>| json(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let found = run(train(&path("whole"), &[]));
    // Eight epochs at a rate so large that it must fall; chance is below .01.
    assert!(found["valid_mrr"].as_f64().unwrap() > 0.04, "{found}");
    assert!(std::fs::read_to_string(path("whole/metrics.jsonl")).unwrap().contains("\"rate\":0.5"), "rates fell");
    run(train(&path("one"), &["--threads", "1"]));
    let killed = path("killed");
    let args: Vec<String> = train(&killed, &[]);
    kill_until_done(&args.iter().map(String::as_str).collect::<Vec<_>>(), &["--resume"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("whole") == bytes("one") && bytes("whole") == bytes("killed"));

    std::fs::write(&spec, "[softmax]\nanswers = \"all\"\nsample = 100\n").unwrap();
    let args: Vec<String> = train(&path("refused"), &[]);
    let output = ruge(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("softmax.sample"), "{}", stderr(&output));
}

#[test]
fn what_does_not_go_together_is_told() {
    for (args, words) in [
        (&["train", "demo", "--preset", "complex-n3", "--negatives", "5"][..], "softmax"),
        (&["train", "demo", "--n3", "0.1"], "--preset complex-n3"),
        (&["train", "demo", "--weight", "0.1"], "--guidance examples"),
        (&["train", "demo", "--model", "transe", "--guidance", "examples"], "transe"),
        (&["train", "demo", "--preset", "complex-n3", "--batch", "0"], "at least 1"),
        (&["train", "demo", "--preset", "complex-n4"], "complex-n3"),
    ] {
        let output = ruge(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    }
}
