//! The report of a real run, in a real browser.

#[path = "../../ruge-report/tests/browser/mod.rs"]
mod browser;

use std::process::Stdio;

use crate::support::text;
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

/// A picture opened by itself: its own policy is in force, its own style applies, and a hostile name is text.
#[test]
fn a_picture_of_the_evidence_runs_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a path").to_string();
    let hostile = "</text><script>x()</script><img src=x onerror=x()>\"onload='x()' \u{202e}";
    let graph: String = (0..12).map(|i| format!("{hostile}\tr{hostile}\te{i}\ne{i}\tback\t{hostile}\n")).collect();
    std::fs::write(at("graph.tsv"), graph).expect("written");
    let model = at("run");
    text(&["train", &at("graph.tsv"), "--model", "complex", "--dim", "4", "--epochs", "1", "--quiet", "--out", &model]);
    let (picture, relation) = (at("why.svg"), format!("r{hostile}"));
    text(&["explain", &model, hostile, &relation, "e1", "--svg", &picture]);
    let drawn = std::fs::read_to_string(&picture).expect("a picture");
    for word in ["<script", "<img", "\"onload", "\u{202e}", " style=\""] {
        assert!(!drawn.contains(word), "{word} in {drawn}");
    }
    assert!(drawn.contains("⟨U+202E⟩"), "{drawn}");
    let Some(eyes) = browser::find() else { return browser::skipped("a picture of the evidence in a browser") };
    let spoken = |text: &str| {
        std::fs::write(&picture, text).expect("written");
        let (dom, log) = browser::open(&eyes, std::path::Path::new(&picture), 800, false);
        (dom, log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_string).collect::<Vec<_>>())
    };
    assert_eq!(spoken(&drawn).1, Vec::<String>::new(), "its own style is known to its policy");
    // Should a name ever become markup.
    let slipped = "<text id=\"victim\"/><script>document.getElementById('victim').textContent = 'taken'</script></svg>";
    let (dom, said) = spoken(&drawn.replace("</svg>", slipped));
    assert!(!dom.contains(">taken<") && said.iter().any(|line| line.contains("Content Security Policy")), "{said:?}");
    let (dom, _) = spoken(&drawn.replace("</svg>", slipped).replace("Content-Security-Policy", "other"));
    assert!(dom.contains(">taken<"), "without the policy the script runs: {dom}");
}
