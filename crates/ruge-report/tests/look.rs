//! The sample pages in a real browser.

mod browser;
mod sample;
#[path = "sample/search.rs"]
mod search;

use std::path::PathBuf;
use std::process::ExitCode;

use ruge_lab::export::facts::{BASE, FactFormat, text_with};
use ruge_report::search::render_search;
use ruge_testing::Tests;

fn main() -> ExitCode {
    let browser = browser::find();
    Tests::default()
        .test(browser.clone(), the_sample_page_is_whole_and_legible)
        .test(browser.clone(), proposed_facts_are_listed_by_a_script_that_the_policy_knows)
        .test(browser.clone(), downloads_have_the_bytes_that_the_program_writes)
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
        "evidence",
        "proposals",
        "predictions",
        "clean-up",
        "repeat",
    ];
    let plots = ["plot-confidence", "plot-curves", "plot-loss", "plot-relations", "plot-calibration", "plot-truths"];
    browser::check(&eyes, &page, &sections, &plots, 3);
}

fn sample_page(folder: &tempfile::TempDir) -> PathBuf {
    let page = folder.path().join("report.html");
    std::fs::write(&page, ruge_report::render(&sample::report())).unwrap();
    page
}

/// The page as it is: its own policy is in force.
fn proposed_facts_are_listed_by_a_script_that_the_policy_knows(eyes: PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let page = sample_page(&folder);
    let (dom, log) = browser::open(&eyes, &page, 1280, false);
    let said: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(said.is_empty(), "{said:?}");
    assert!(dom.contains("311 of 311 facts listed, the first 200 shown"), "the script ran");
    assert_eq!(dom.matches("<tr data-fact=").count(), 200);
    // Filtered and sorted as a reader would.
    let found = browser::ask(
        &eyes,
        &page,
        1280,
        false,
        "const part = name => document.querySelector('#proposals [data-part=' + name + ']');
         const rows = () => [...document.querySelectorAll('#proposals table.proposals tbody tr')].map(row => JSON.parse(row.dataset.fact));
         const set = (name, value) => { part(name).value = value; part(name).dispatchEvent(new Event('input')); };
         const click = e => e.dispatchEvent(new MouseEvent('click', { bubbles: true }));
         const answers = {};
         click(part('more'));
         answers.all = rows().length;
         const option = [...part('relation').options].find(o => o.text.includes('borders'));
         set('relation', option.value);
         answers.borders = rows().map(x => x[1]);
         set('truth', '0.3');
         answers.sure = rows().map(x => Number(x[3]));
         set('name', 'PLACE 1');
         answers.named = rows().map(x => x[0]);
         set('relation', ''); set('truth', ''); set('name', '');
         click(document.querySelector('th[data-sort=tail] button'));
         answers.sorted = rows().slice(0, 50).map(x => x[2]);
         answers.marked = document.querySelector('th[data-sort=tail]').getAttribute('aria-sort');
         set('name', 'nothing is called like this');
         answers.none = [rows().length, part('count').textContent, part('downloads').querySelector('button').disabled];
         tell(answers);",
    );
    let strings = |key: &str| -> Vec<String> { serde_json::from_value(found[key].clone()).unwrap() };
    assert_eq!(found["all"], 311);
    assert!(strings("borders").len() == 100 && strings("borders").iter().all(|name| name == "borders"));
    let sure: Vec<f64> = serde_json::from_value(found["sure"].clone()).unwrap();
    assert!(!sure.is_empty() && sure.len() < 100 && sure.iter().all(|truth| *truth >= 0.3), "{sure:?}");
    assert!(sure.is_sorted_by(|a, b| a >= b));
    assert!(!strings("named").is_empty() && strings("named").iter().all(|name| name.starts_with("place 1")));
    assert_eq!(found["marked"], "ascending");
    assert_ne!(strings("sorted").first(), strings("sorted").last());
    assert_eq!(found["none"], serde_json::json!([0, "0 of 311 facts listed", true]));
}

fn downloads_have_the_bytes_that_the_program_writes(eyes: PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let found = browser::ask(
        &eyes,
        &sample_page(&folder),
        1280,
        false,
        "let text = '', name = '';
         window.Blob = class { constructor(parts) { text = parts.join(''); } };
         URL.createObjectURL = () => '#';
         HTMLAnchorElement.prototype.click = function () { name = this.download; };
         const files = {};
         document.querySelectorAll('#proposals [data-format]').forEach(button => {
           button.dispatchEvent(new MouseEvent('click'));
           files[button.dataset.format] = [name, text];
         });
         tell(files);",
    );
    let list = sample::proposals();
    for (format, ending) in [
        (FactFormat::Tsv, "tsv"),
        (FactFormat::Csv, "csv"),
        (FactFormat::Nt, "nt"),
        (FactFormat::RdfStar, "ttl"),
        (FactFormat::Cypher, "cypher"),
    ] {
        let [name, file] = [0, 1].map(|at| found[format.name()][at].as_str().expect("a file"));
        assert_eq!(name, format!("proposals.{ending}"));
        let expected = text_with(format, BASE, &sample::proposed().assumes, &list);
        for (ours, theirs) in file.split('\n').zip(expected.split('\n')) {
            assert_eq!(ours, theirs, "{}", format.name());
        }
        assert_eq!(file.len(), expected.len());
    }
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
