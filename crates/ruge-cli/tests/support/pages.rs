//! Pages and pictures that the program makes, for those who read their text and those who look at them.

use std::path::{Path, PathBuf};

use super::text;

/// The sections of a report, in order.
pub const SECTIONS: [&str; 13] = [
    "summary",
    "data",
    "rules",
    "training",
    "results",
    "relations",
    "calibration",
    "consistency",
    "evidence",
    "proposals",
    "predictions",
    "clean-up",
    "repeat",
];

/// A small run.
pub const SMALL: [&str; 11] =
    ["run", "demo", "--dim", "16", "--epochs", "20", "--validate-every", "5", "--sample", "200", "--quiet"];

/// The report of a small run.
pub fn report(folder: &Path) -> PathBuf {
    let out = folder.join("run");
    let folder = out.to_str().expect("a path");
    text(&[&SMALL[..], &["--out", folder]].concat());
    out.join("report.html")
}

/// A picture of the evidence for a fact whose names are hostile.
pub fn picture(folder: &Path) -> PathBuf {
    let at = |name: &str| folder.join(name).to_str().expect("a path").to_string();
    let hostile = "</text><script>x()</script><img src=x onerror=x()>\"onload='x()' \u{202e}";
    let graph: String = (0..12).map(|i| format!("{hostile}\tr{hostile}\te{i}\ne{i}\tback\t{hostile}\n")).collect();
    std::fs::write(at("graph.tsv"), graph).expect("written");
    let model = at("run");
    text(&["train", &at("graph.tsv"), "--model", "complex", "--dim", "4", "--epochs", "1", "--quiet", "--out", &model]);
    let (picture, relation) = (at("why.svg"), format!("r{hostile}"));
    text(&["explain", &model, hostile, &relation, "e1", "--svg", &picture]);
    picture.into()
}
