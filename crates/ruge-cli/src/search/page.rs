//! A search as the page tells it.

use ruge::DeviceName;
use ruge_lab::search::importance::importance;
use ruge_lab::search::{Domain, Halving, Method, Parameter, Space, State, Trial, ranked};
use ruge_report::plot::Across;
use ruge_report::search::{SearchLeaf, SearchPage, SearchTrial};
use toml::Value;

use super::{Report, short_names, shown};

/// The page of a search.
pub fn page(report: &Report<'_>, space: &Space, trials: &[Trial], is_done: bool, best_spec: String) -> SearchPage {
    let shares = importance(space, trials);
    let leaves: Vec<SearchLeaf> = space
        .parameters
        .iter()
        .zip(short_names(space))
        .zip(shares)
        .map(|((Parameter { leaf, domain }, short), importance)| SearchLeaf {
            path: leaf.clone(),
            short,
            domain: words(domain),
            across: across(domain),
            importance,
        })
        .collect();
    let with_result = ranked(trials);
    let rest = trials.iter().filter(|trial| trial.valid_mrr().is_none());
    let device = match report.device {
        Some(DeviceName::Cuda) => " --device cuda",
        Some(DeviceName::Cpu) => " --device cpu",
        None => "",
    };
    let out = report.home.display();
    let data = report.data.display();
    let spec = report.spec.map_or_else(|| "SPACE.toml".into(), |spec| spec.display().to_string());
    SearchPage {
        title: data.to_string(),
        method: method(space),
        is_done,
        trials: with_result.into_iter().chain(rest).map(|trial| row(space, trial)).collect(),
        leaves,
        commands: vec![
            format!("ruge search {data} --spec {spec}{device} --out {out}"),
            format!("ruge search {data}{device} --out {out} --resume --trials {}", 2 * trials.len().max(1)),
            format!("ruge train {data} --spec {} --out runs/best", report.best_file().display()),
        ],
        best_spec,
        space: space.to_toml(),
        version: env!("RUGE_VERSION").into(),
    }
}

fn method(space: &Space) -> String {
    let settings = &space.settings;
    let how = match settings.method {
        Method::Grid => "every combination of the listed values",
        Method::Random => "random points",
        Method::Sobol => "points of a scrambled Sobol sequence, spread evenly",
        Method::Tpe => {
            "points of a Sobol sequence first, then points that look like the best trials and unlike the others (TPE)"
        }
    };
    let leaves = match space.parameters.len() {
        1 => "one setting".to_string(),
        many => format!("{many} settings"),
    };
    let halving = match settings.halving {
        None => String::new(),
        Some(Halving { first, factor }) => format!(
            " Every trial was trained for {first} epochs; one in {factor} continued for {factor} times as many, and so on \
             (successive halving)."
        ),
    };
    format!("Searched over {leaves}: {how}. At most {} trials, seed {}.{halving}", space.trials(), settings.seed)
}

fn words(domain: &Domain) -> String {
    match domain {
        Domain::Choice { values, .. } => {
            format!("One of {}.", values.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Domain::Range { low, high, log, step, .. } => {
            let scale = if *log { ", on a logarithmic scale" } else { "" };
            let step = step.map_or_else(String::new, |step| format!(", in steps of {step}"));
            format!("From {low} to {high}{step}{scale}.")
        }
    }
}

fn across(domain: &Domain) -> Across {
    match domain {
        Domain::Choice { values, ordered: false } => Across::Names(values.iter().map(shown).collect()),
        domain if domain.is_log() => Across::Powers,
        _ => Across::Numbers,
    }
}

/// Where a value lies on its axis: names at 0, 1, 2 and so on.
fn place(domain: &Domain, value: &Value) -> f64 {
    match domain {
        Domain::Choice { values, ordered: false } => {
            values.iter().position(|other| other == value).map_or(f64::NAN, |at| at as f64)
        }
        _ => value.as_float().or(value.as_integer().map(|whole| whole as f64)).unwrap_or(f64::NAN),
    }
}

fn row(space: &Space, trial: &Trial) -> SearchTrial {
    let places = space.parameters.iter().zip(&trial.point);
    SearchTrial {
        number: trial.number,
        state: trial.state.name().into(),
        is_whole: trial.state == State::Finished,
        mrr: trial.valid_mrr(),
        epochs: trial.rungs.last().map(|rung| (rung.best_epoch, rung.epochs)),
        seconds: trial.seconds,
        values: places.map(|(parameter, value)| (shown(value), place(&parameter.domain, value))).collect(),
        curve: trial.curve.clone(),
        error: trial.error.clone(),
    }
}
