//! A search as the page tells it.

use ruge_lab::search::importance::importance;
use ruge_lab::search::space::shown;
use ruge_lab::search::{Domain, Halving, Method, Parameter, Space, State, Trial, ranked};
use toml::Value;

use super::{SearchLeaf, SearchPage, SearchTrial};
use crate::plot::Across;

impl SearchPage {
    /// What trials say; title, commands, the best spec and the version are left for the caller to say.
    pub fn of(space: &Space, trials: &[Trial], is_done: bool) -> Self {
        let leaf = |((Parameter { leaf, domain }, short), importance): ((&Parameter, String), Option<f64>)| {
            SearchLeaf { path: leaf.clone(), short, domain: words(domain), across: across(domain), importance }
        };
        let named = space.parameters.iter().zip(space.short_names());
        let rest = trials.iter().filter(|trial| trial.valid_mrr().is_none());
        Self {
            method: method(space),
            is_done,
            trials: ranked(trials).into_iter().chain(rest).map(|trial| row(space, trial)).collect(),
            leaves: named.zip(importance(space, trials)).map(leaf).collect(),
            space: space.to_toml(),
            ..Self::default()
        }
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
