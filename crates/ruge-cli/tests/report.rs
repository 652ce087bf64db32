//! The report of a real run, in a real browser.

#[path = "../../ruge-report/tests/browser/mod.rs"]
mod browser;

use std::process::Stdio;

use assert_cmd::cargo::CommandCargoExt;

const SECTIONS: [&str; 11] = [
    "summary",
    "data",
    "rules",
    "training",
    "results",
    "relations",
    "calibration",
    "consistency",
    "predictions",
    "clean-up",
    "repeat",
];
const PLOTS: [&str; 6] =
    ["plot-confidence", "plot-curves", "plot-loss", "plot-relations", "plot-calibration", "plot-truths"];

#[test]
fn the_report_of_a_run_is_whole_and_legible() {
    let folder = tempfile::tempdir().expect("folder");
    let out = folder.path().join("run");
    let output = std::process::Command::cargo_bin("ruge")
        .expect("built")
        .args(["run", "demo", "--dim", "16", "--epochs", "20", "--validate-every", "5", "--sample", "200", "--quiet"])
        .arg("--out")
        .arg(&out)
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = out.join("report.html");
    let text = std::fs::read_to_string(&page).expect("a report");
    for id in SECTIONS {
        assert!(text.contains(&format!("<section id=\"{id}\"")), "no section {id}");
    }
    let graphs = text.matches("class=\"evidence\"").count();
    assert!(graphs >= 3, "{graphs} evidence graphs");
    match browser::find() {
        None => browser::skipped("the report of a run in a browser"),
        Some(eyes) => browser::check(&eyes, &page, &SECTIONS, &PLOTS, graphs),
    }
}
