//! The page of a search: whole, legible, and safe from what users write.

mod browser;

use ruge_report::plot::Across;
use ruge_report::search::{SearchLeaf, SearchPage, SearchTrial, render_search};

const EVIL: &str = "<script>alert(1)</script>";

fn page(trials: usize) -> SearchPage {
    let leaf = |path: &str, across: Across, importance| SearchLeaf {
        path: path.into(),
        short: path.rsplit('.').next().unwrap_or(path).into(),
        domain: "From 1 to 2.".into(),
        across,
        importance,
    };
    let names = vec!["complex".to_string(), format!("{EVIL} costs $x$")];
    let trial = |number: usize| {
        let mrr = 0.4 / number as f64;
        let failed = number.is_multiple_of(4);
        SearchTrial {
            number,
            state: if failed { "failed" } else { "finished" }.into(),
            is_whole: number % 3 == 1,
            mrr: (!failed).then_some(mrr),
            epochs: (!failed).then_some((20, 30)),
            seconds: 1.5,
            values: vec![
                (names[number % 2].clone(), (number % 2) as f64),
                ("0.5".into(), 0.1 * number as f64),
                ("9".into(), 9.0),
            ],
            curve: if failed { vec![] } else { vec![(10, mrr / 2.0), (20, mrr), (30, f64::NAN)] },
            error: failed.then(|| format!("training diverged in {EVIL}")),
        }
    };
    let mut trials: Vec<SearchTrial> = (1..=trials).map(trial).collect();
    trials.sort_by_key(|trial| trial.mrr.is_none());
    SearchPage {
        title: "demo & more".into(),
        method: "By chance.".into(),
        is_done: true,
        leaves: vec![
            leaf("model.name", Across::Names(names.clone()), Some(0.1)),
            leaf("optimizer.entity-rate", Across::Powers, Some(0.6)),
            leaf("model.dimension", Across::Numbers, Some(f64::NAN)),
        ],
        trials,
        commands: vec!["ruge search demo".into()],
        best_spec: "[model]\n".into(),
        space: "[search]\n".into(),
        version: "0".into(),
    }
}

#[test]
fn it_is_whole_and_nothing_of_the_users_becomes_markup() {
    let text = render_search(&page(20));
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
    assert!(!text.contains(EVIL) && text.contains("&lt;script&gt;"));
    assert!(text.contains("demo &amp; more") && !text.contains("NaN\""), "a coordinate that is none");
    assert_eq!(text.matches("<svg").count(), 2 * 5, "curves, importance and three leaves, for a desk and a phone");
    assert!(text.find("plot-leaf-1").unwrap() < text.find("plot-leaf-0").unwrap(), "what matters most comes first");
    let empty = render_search(&page(0));
    assert!(
        empty.contains("No trial has a result yet") && !empty.contains("<svg class=\"plot\" viewBox=\"0 0 760 250\"")
    );
    let failed = SearchPage { trials: page(4).trials.split_off(3), ..page(4) };
    assert!(render_search(&failed).contains("1 trial failed"));
}

#[test]
fn a_browser_shows_it_at_a_desk_and_on_a_phone() {
    let Some(eyes) = browser::find() else {
        return browser::skipped("the page of a search in a browser");
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, render_search(&page(20))).unwrap();
    let sections = ["summary", "best", "curves", "leaves", "trials", "failed", "repeat"];
    let plots = ["plot-curves", "plot-importance", "plot-leaf-1", "plot-leaf-0", "plot-leaf-2"];
    browser::check(&eyes, &file, &sections, &plots, 0);
}
