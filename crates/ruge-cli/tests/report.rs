//! The report of a real run and a picture of evidence, as text; `needs/report.rs` looks at them in a browser.

use crate::support::pages::{SECTIONS, picture, report};

#[test]
fn the_report_of_a_run_is_whole() {
    let folder = tempfile::tempdir().expect("folder");
    let text = std::fs::read_to_string(report(folder.path())).expect("a report");
    for id in SECTIONS {
        assert!(text.contains(&format!("<section id=\"{id}\"")), "no section {id}");
    }
    let graphs = text.matches("class=\"evidence\"").count();
    assert!(graphs >= 3, "{graphs} evidence graphs");
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
