//! The report of a real run and a picture of evidence, as text; `needs/report.rs` looks at them in a browser.

use crate::support::pages::{SECTIONS, SMALL, picture, report};
use crate::support::{ruge, stderr};

#[test]
fn the_report_of_a_run_is_whole() {
    let folder = tempfile::tempdir().expect("folder");
    let page = report(folder.path());
    let text = std::fs::read_to_string(&page).expect("a report");
    for id in SECTIONS {
        assert!(text.contains(&format!("<section id=\"{id}\"")), "no section {id}");
    }
    let graphs = text.matches("class=\"evidence\"").count();
    assert!(graphs >= 3, "{graphs} evidence graphs");
    assert!(text.matches("<tr data-fact=").count() > 5, "proposed facts");
    for words in ["MRR of the best model", "numbers were fitted on validation"] {
        assert!(text.contains(words), "no {words:?}");
    }
    // Proposals that somebody has changed are made again before a page is.
    let run = page.parent().expect("a folder");
    std::fs::write(run.join("proposals.json"), "[{}]").expect("written");
    let output = ruge(&[&SMALL[..], &["--out", run.to_str().expect("a path"), "--only", "report"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("stage predict is not finished"), "{}", stderr(&output));
}

#[test]
fn a_hostile_name_is_text_in_a_picture_of_the_evidence() {
    let folder = tempfile::tempdir().expect("folder");
    let drawn = std::fs::read_to_string(picture(folder.path())).expect("a picture");
    for word in ["<script", "<img", "\"onload", "\u{202e}", " style=\""] {
        assert!(!drawn.contains(word), "{word} in {drawn}");
    }
    assert!(drawn.contains("⟨U+202E⟩"), "{drawn}");
}
