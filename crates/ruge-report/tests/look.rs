//! The sample pages in a real browser.

mod browser;
mod sample;
#[path = "sample/search.rs"]
mod search;

use std::path::PathBuf;
use std::process::ExitCode;

use ruge_report::search::render_search;
use ruge_testing::Tests;

fn main() -> ExitCode {
    let browser = browser::find();
    Tests::default()
        .test(browser.clone(), the_sample_page_is_whole_and_legible)
        .test(browser.clone(), nothing_runs_and_nothing_is_styled_that_the_policy_does_not_know)
        .test(browser.clone(), a_page_that_is_too_wide_and_too_pale_is_caught)
        .test(browser, the_page_of_a_search_is_whole_and_legible)
        .run()
}

fn the_sample_page_is_whole_and_legible(eyes: PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    std::fs::write(&page, ruge_report::render(&sample::report())).unwrap();
    let sections = [
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
    let plots = ["plot-confidence", "plot-curves", "plot-loss", "plot-relations", "plot-calibration", "plot-truths"];
    browser::check(&eyes, &page, &sections, &plots, 3);
}

/// If a name ever became markup, the page's policy would still block it.
fn nothing_runs_and_nothing_is_styled_that_the_policy_does_not_know(eyes: PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let text = ruge_report::render(&sample::report());
    let evil = "<main><script>document.title = 'taken'</script><img src=\"x\" onerror=\"document.title = 'taken'\">\
                <p id=\"p\" style=\"color: red\">x</p><style>p { color: red }</style>";
    for (policy, taken) in [(true, false), (false, true)] {
        let mut text = text.replacen("<main>", evil, 1);
        assert!(text.contains(evil));
        if !policy {
            text = text.replacen("Content-Security-Policy", "Other", 1);
        }
        std::fs::write(&page, text).unwrap();
        let (dom, log) = browser::open(&eyes, &page, 800, false);
        assert_eq!(dom.contains("<title>taken</title>"), taken, "with a policy: {policy}");
        // The script, the attributes, the style: each is blocked by name.
        assert_eq!(log.matches("Content Security Policy").count() >= 4, policy, "{log}");
    }
}

/// Tests the checker itself: a faulty page is detected.
fn a_page_that_is_too_wide_and_too_pale_is_caught(eyes: PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("bad.html");
    let body =
        "<main><section id=\"a\"><p style=\"width:900px;height:40px;color:#ccc\">pale and wide</p></section></main>";
    std::fs::write(&page, format!("<!doctype html><title>x</title><body style=\"background:#fff\">{body}</body>"))
        .unwrap();
    let found = browser::look(&eyes, &page, 400, false);
    assert!(found["overflow"].as_f64().unwrap() > 400.0, "{found}");
    assert_eq!(found["wide"], serde_json::json!(["P"]), "{found}");
    assert!(found["contrast"].as_f64().unwrap() < 2.0, "{found}");
    assert_eq!(found["sections"], serde_json::json!(["a"]));
    std::fs::write(&page, format!("<!doctype html><title>x</title><body>{body}<script>nothing()</script></body>"))
        .unwrap();
    let spoken = std::panic::catch_unwind(|| browser::look(&eyes, &page, 400, false));
    assert!(spoken.is_err(), "an error on the console is heard");
}

fn the_page_of_a_search_is_whole_and_legible(eyes: PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, render_search(&search::page(20))).unwrap();
    let sections = ["summary", "best", "curves", "leaves", "trials", "failed", "repeat"];
    let plots = ["plot-curves", "plot-importance", "plot-leaf-1", "plot-leaf-0", "plot-leaf-2"];
    browser::check(&eyes, &file, &sections, &plots, 0);
}
