//! `--device cuda`: it computes there, or says in one sentence why it cannot.

use ruge_cuda::Device;
use ruge_testing::{Missing, Need};

use crate::support::{json, ruge, stderr};

/// Whether this machine has a GPU that can be used.
pub fn is_there() -> Need<()> {
    Device::open().map(drop).map_err(|error| Missing::new("a GPU", error))
}

/// Whether it has none.
pub fn is_missing() -> Need<()> {
    match is_there() {
        Ok(()) => Err(Missing::new("a machine without a GPU", "run the tests on one, too")),
        Err(_) => Ok(()),
    }
}

const TRAIN: [&str; 8] = ["train", "demo", "--dim", "8", "--epochs", "2", "--device", "cuda"];

pub fn a_model_is_trained_and_ranked((): ()) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run").to_str().unwrap().to_string();
    json(&[&TRAIN[..], &["--json", "--out", &out]].concat());
    json(&["eval", &out, "--device", "cuda", "--json"]);
}

pub fn its_absence_is_explained((): ()) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run").to_str().unwrap().to_string();
    let output = ruge(&[&TRAIN[..], &["--out", &out]].concat());
    let words = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("CUDA") && words.contains("--device cpu"), "{words}");
    assert!(!words.contains("panicked"), "{words}");
}
