//! What a user tells a model without training it again: how complete the graph is, which facts hold, what may not be; and other data
//! to be judged on.

use std::path::PathBuf;

use ruge::Engine;
use ruge::constraints::Constraints;
use ruge::evaluate::in_ids_of;
use ruge::truth::{Completeness, Judgement, feedback};
use ruge_kg::{Dataset, Triple};

use crate::errors::{Fault, Result};

/// Told how complete the graph is.
pub fn completeness(engine: &Engine, all: Option<f64>, relations: Vec<(String, f64)>) -> Result<Engine> {
    let checked = |share: f64| {
        let fits = share > 0.0 && share < 1.0;
        fits.then_some(share).ok_or_else(|| {
            Fault::setting(format!("completeness is {share}\n  remedy: give a share above 0 and below 1, such as 0.9"))
        })
    };
    let mut given = Completeness { all: all.map(checked).transpose()?, ..Completeness::default() };
    for (name, share) in relations {
        given.relations.insert(engine.relation(&name)?, checked(share)?);
    }
    Ok(engine.with_completeness(given))
}

/// Corrected by judged facts.
pub fn feedback(
    engine: &Engine,
    path: Option<PathBuf>,
    judged: Vec<((String, String, String), bool)>,
) -> Result<Engine> {
    let mut all = match path {
        Some(path) => feedback::read(&path, engine)?,
        None => Vec::new(),
    };
    for ((head, relation, tail), holds) in judged {
        let triple =
            Triple { head: engine.entity(&head)?, relation: engine.relation(&relation)?, tail: engine.entity(&tail)? };
        // The last word about a fact counts.
        all.retain(|other| other.triple != triple);
        all.push(Judgement { triple, holds });
    }
    Ok(engine.with_feedback(&all)?)
}

/// Under constraints.
pub fn constraints(engine: &Engine, path: Option<PathBuf>, text: Option<String>) -> Result<Engine> {
    let given = match (path, text) {
        (Some(path), _) => Constraints::read(&path, engine.data())?,
        (None, text) => Constraints::parse(&text.unwrap_or_default(), engine.data())
            .map_err(|(line, reason)| Fault::setting(format!("line {line} of the constraints: {reason}")))?,
    };
    Ok(engine.with_constraints(given))
}

/// Other data in the model's ids; nothing where they are its own. Refuses questions whose answers it was trained on.
pub fn other_data(given: &Dataset, split: &str, engine: &Engine) -> Result<Option<Dataset>> {
    let own = engine.data();
    let Some(data) = in_ids_of(own, given)? else { return Ok(None) };
    let asked = if split == "train" { &[] } else { data.split(split).unwrap_or(&[]) };
    let seen = asked.iter().filter(|triple| own.graph().contains(**triple)).count();
    match seen {
        0 => Ok(Some(data)),
        _ => Err(Fault::setting(format!(
            "the model was trained on {seen} of these {} {split} triples, so it knows the answers\n  remedy: leave data= out to \
             evaluate on the triples stored in the model",
            asked.len()
        ))),
    }
}
