//! The report of a real run and a picture of evidence, in a real browser.

#[path = "../../../ruge-report/tests/browser/mod.rs"]
pub mod browser;

use std::path::PathBuf;

use crate::support::pages::{SECTIONS, picture, report};

const PLOTS: [&str; 6] =
    ["plot-confidence", "plot-curves", "plot-loss", "plot-relations", "plot-calibration", "plot-truths"];

pub fn the_report_of_a_run_is_legible(eyes: PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let page = report(folder.path());
    let graphs = std::fs::read_to_string(&page).expect("a report").matches("class=\"evidence\"").count();
    browser::check(&eyes, &page, &SECTIONS, &PLOTS, graphs);
}

/// A picture opened by itself: its own policy is in force, and its own style applies.
pub fn a_picture_of_the_evidence_runs_nothing(eyes: PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let picture = picture(folder.path());
    let drawn = std::fs::read_to_string(&picture).expect("a picture");
    let spoken = |text: &str| {
        std::fs::write(&picture, text).expect("written");
        let (dom, log) = browser::open(&eyes, &picture, 800, false);
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
