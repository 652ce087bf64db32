//! Distance models with many negatives, as a user types them.

use crate::support::{json, kill_until_done, ruge, stderr};

fn train<'a>(out: &'a str, preset: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let small = ["train", "demo", "--preset", preset, "--dim", "24", "--negatives", "16", "--batch", "200", "--json"];
    // Adam and AdaGrad.
    let rate = if preset == "rotate" { "0.02" } else { "0.3" };
    [&small[..], &["--epochs", "16", "--validate-every", "8", "--rate", rate, "--out", out], more].concat()
}

#[test]
fn self_adversarial_presets_learn_and_repeat() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    for preset in ["transe", "rotate"] {
        let run = path(preset);
        let found = json(&train(&run, preset, &[]));
        // Chance is below .01 among these entities.
        assert!(found["valid_mrr"].as_f64().unwrap() > 0.1, "{preset}: {found}");
        let again = format!("{preset}-again");
        let stored = path(&format!("{preset}/spec.toml"));
        json(&["train", "demo", "--spec", &stored, "--json", "--out", &path(&again), "--threads", "1"]);
        let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
        assert!(bytes(preset) == bytes(&again), "{preset}: threads change nothing");
    }
    let spec = std::fs::read_to_string(path("rotate/spec.toml")).unwrap();
    assert!(spec.contains("size = 200") && spec.contains("kind = \"self-adversarial\""), "{spec}");
}

#[test]
fn a_killed_run_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (whole, killed) = (path("whole"), path("killed"));
    let every = ["--checkpoint-every", "0"];
    json(&train(&whole, "rotate", &every));
    kill_until_done(&train(&killed, "rotate", &every), &["--resume"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("whole") == bytes("killed"));
}

#[test]
fn distance_models_take_the_sampled_softmax() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let spec = path("softmax.toml");
    std::fs::write(&spec, "[objective.loss]\nkind = \"sampled-softmax\"\n").unwrap();
    let found = json(&train(&path("run"), "transe", &["--spec", &spec]));
    assert!(found["valid_mrr"].as_f64().unwrap() > 0.1, "{found}");
    std::fs::write(&spec, "[objective.loss]\nkind = \"sampled-softmax\"\n[negatives]\nsides = \"coin\"\n").unwrap();
    let output = ruge(&train(&path("refused"), "transe", &["--spec", &spec]));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("one-end"), "{}", stderr(&output));
}
