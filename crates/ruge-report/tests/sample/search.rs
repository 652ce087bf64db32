//! A search page with a given number of trials, every fourth of which failed.

use ruge_report::plot::Across;
use ruge_report::search::{SearchLeaf, SearchPage, SearchTrial};

/// Markup in a name: it must be shown as text.
pub const EVIL: &str = "<script>alert(1)</script>";

/// The page; its figures are invented.
pub fn page(trials: usize) -> SearchPage {
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
