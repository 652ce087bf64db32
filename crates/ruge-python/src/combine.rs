//! `ruge combine`, in this process.

use std::path::PathBuf;
use std::time::Instant;

use pyo3::prelude::*;
use ruge::combine::{combine as put_together, refuse};
use ruge::run::Mode;
use ruge::spec::RulesSpec;
use ruge::{Engine, assemble};
use ruge_cli::minutes::duration;
use ruge_kg::{RankError, Work};
use ruge_rules::rank::evidence::Features;
use ruge_rules::rank::{Effort, Prepared, Weighing};
use ruge_rules::words::is_sayable;
use ruge_rules::{RuleReadOptions, RuleRecord, read_rules_about};

use crate::errors::Fault;
use crate::job::{self, INFO, WARNING};
use crate::model::Model;
use crate::rules::Rules;

/// Combines a model with rules and evidence at ranking time. `ranking_rules` is auto, none or a file; `rules` are given as such.
#[pyfunction]
#[pyo3(signature = (model, ranking_rules, rules, evidence, thorough, effort, minutes, out, force, threads, progress))]
#[allow(clippy::too_many_arguments)]
pub fn combine(
    py: Python<'_>,
    model: &Model,
    ranking_rules: String,
    rules: Option<&Rules>,
    evidence: Option<String>,
    thorough: bool,
    effort: Option<(usize, usize)>,
    minutes: Option<f64>,
    out: PathBuf,
    force: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Model> {
    let engine = model.engine.clone();
    let given = rules.map(Rules::shared);
    let deadline = minutes.and_then(|minutes| Instant::now().checked_add(duration(minutes)));
    job::write(py, threads, progress.as_ref(), move |job| {
        let data = engine.data();
        let mode = if force { Mode::Force } else { Mode::Fresh };
        refuse(engine.spec(), data, &out, mode)?;
        let follow = |stage: &'static str| move |work: &Work| job.tell(stage, work.done, work.total, String::new());
        let (mining, weighing_up) = (follow("mining rules"), follow("weighing rules"));
        let control = || ruge::Control::new(&job.cancel);
        let mut names = data.names().clone();
        let mut rules: Vec<RuleRecord> = match (given, ranking_rules.as_str()) {
            (Some(given), _) => {
                let (rules, lost) = given.about(data)?;
                tell_lost(job, lost);
                rules
            }
            (None, "auto" | "none") => {
                let wanted = RulesSpec { ranking: ranking_rules.clone().into(), ..RulesSpec::default() };
                match assemble::ranking_rules(&wanted, data, &control().until(deadline).with_listener(&mining)) {
                    Err(error) if error.is_cancelled() && !job.cancel.is_cancelled() => {
                        tell_late(job, "mined");
                        Vec::new()
                    }
                    rules => rules?,
                }
            }
            (None, path) => read_rules_about(path.as_ref(), &RuleReadOptions::default(), &mut names)?.0.rules,
        };
        let all = rules.len();
        rules.retain(|record| is_sayable(&record.rule, data.names()));
        tell_lost(job, all - rules.len());
        let evidence = match evidence.as_deref() {
            None => Features::default(),
            Some(name) => serde_json::from_value(name.into())
                .map_err(|_| Fault::setting(format!("evidence is \"all\", \"no-link\" or \"none\", not {name:?}")))?,
        };
        let mut weighing = Weighing { evidence, ..Weighing::of(thorough) };
        if let Some((questions, triples)) = effort {
            weighing.effort = Effort { questions, triples };
        }
        let until = control().until(deadline).with_listener(&weighing_up);
        let prepared = match Prepared::beside(rules, data, weighing, &until) {
            Err(RankError::Cancelled(_)) if !job.cancel.is_cancelled() => {
                tell_late(job, "weighed");
                Prepared::beside(Vec::new(), data, weighing, &control())
            }
            prepared => prepared,
        };
        let prepared = prepared.map_err(ruge::RugeError::from)?;
        job.tell("fitting on validation", 0, 0, String::new());
        let outcome = put_together(&engine, &prepared, &out, mode, &control())?;
        job.log(INFO, format!("{} rules beside the model, {} numbers fitted", outcome.rules, outcome.ranking.fitted));
        Ok(Model::new(Engine::open(&out)?))
    })
}

/// Says that time was up before rules were ready.
fn tell_late(job: &job::Job, done: &str) {
    job.log(
        WARNING,
        format!("time is up before all rules were {done}: none is used, as with ranking_rules=\"none\"; evidence alone is tried"),
    );
}

/// Says how many rules are about other names.
pub fn tell_lost(job: &job::Job, lost: usize) {
    if lost > 0 {
        job.log(WARNING, format!("{lost} rules name relations or entities the data do not have; ignored"));
    }
}

/// Says how many triples are about other names.
pub fn tell_lost_triples(job: &job::Job, lost: usize) {
    if lost > 0 {
        job.log(WARNING, format!("{lost} triples name entities or relations the model does not know; left out"));
    }
}
