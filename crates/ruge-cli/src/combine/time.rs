//! `ruge combine --minutes`: as many rules, questions and validation triples as the time is enough for.
//!
//! What is finished is kept: rules of the heads that were searched, and weights from the last round of questions; each round asks
//! several times as many as the one before. What the clock decided is then two numbers and a rule file, with which the same command
//! gives the same model without a clock.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use ruge::{Engine, RugeError, assemble};
use ruge_kg::Dataset;
use ruge_rules::RuleRecord;
use ruge_rules::rank::{Effort, Prepared, Weighing};

use crate::console::Console;
use crate::run::quoted;
use crate::text::{counted, grouped};
use crate::{interrupt, minutes, progress};

/// Shares of the time after which mining ends, and weighing: the rest is for the final fit.
const MINED: f64 = 0.4;
const WEIGHED: f64 = 0.7;
/// Questions of the first round, and how many times as many the next one asks.
const FIRST: usize = 2_000;
const MORE: usize = 4;
/// Validation triples that are fitted on in any case.
const LEAST: usize = 1_000;
/// Times that the fit that is tried is done over in the end: with the model, without it, truth, and what nobody foresaw.
const FITS: f64 = 4.0;

/// The time that a combination has.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    minutes: f64,
}

impl Clock {
    /// Starts now.
    pub fn new(minutes: f64) -> Self {
        Self { started: Instant::now(), minutes }
    }

    fn after(&self, share: f64) -> Option<Instant> {
        self.started.checked_add(minutes::duration(self.minutes).mul_f64(share))
    }

    /// What will be done, before it is.
    pub fn plan(&self) -> String {
        let at = |share: f64| minutes::said(minutes::duration(self.minutes).mul_f64(share));
        format!(
            "rules are mined for at most {}, weighed until {} have passed, and then fitted on validation; what is finished by then counts",
            at(MINED),
            at(WEIGHED)
        )
    }

    /// Mines rules for ranking until it is time to weigh them. What is left out is told.
    pub fn mine(&self, data: &Dataset, console: Console) -> Result<Vec<RuleRecord>> {
        let bar = progress::work(console, "mining rules", 1);
        let follow = progress::follow(&bar);
        let control = interrupt::control().until(self.after(MINED)).with_listener(&follow);
        let (rules, unfinished) = assemble::ranking_rules_until(data, &control)?;
        bar.finish_and_clear();
        if interrupt::came() {
            return Err(interrupt::error("interrupted; nothing was written or replaced"));
        }
        if !unfinished.is_empty() {
            console.note(&format!(
                "note: time for mining is up: {} kept; {} of {} not searched for rules",
                match rules.len() {
                    1 => "1 rule is".into(),
                    count => format!("{} rules are", grouped(count)),
                },
                grouped(unfinished.len()),
                counted(data.graph().relations().count(), "relation"),
            ));
        }
        Ok(rules)
    }

    /// Weighs rules as well as the time allows; nothing where it is up before they are even filed.
    pub fn weigh(
        &self,
        rules: Vec<RuleRecord>,
        data: &Dataset,
        weighing: Weighing,
        console: Console,
    ) -> Result<Option<Prepared>> {
        let bar = progress::work(console, "weighing rules", 1);
        let follow = progress::follow(&bar);
        let until = self.after(WEIGHED);
        let control = interrupt::control().until(until).with_listener(&follow);
        let plain = Weighing { effort: Effort { questions: 0, ..weighing.effort }, ..weighing };
        let Some(mut best) = finished(Prepared::beside(rules, data, plain, &control))? else { return Ok(None) };
        // More questions than there are facts and ends are all of them.
        let (wanted, all) = (weighing.effort.questions, 2 * data.train().len());
        let enough = wanted.min(all);
        let mut questions = FIRST.min(enough);
        while questions > 0 {
            let begun = Instant::now();
            let as_said = if questions == enough { wanted } else { questions };
            match finished(best.relearned(data, as_said, &control))? {
                Some(found) => best = found,
                None => break,
            }
            if questions == enough {
                return Ok(Some(best));
            }
            questions = next(questions, enough, begun.elapsed(), until);
        }
        bar.finish_and_clear();
        console.note(&match best.learned().effort.questions {
            0 => "note: time for weighing is up: rules weigh what was counted".to_string(),
            asked => {
                format!(
                    "note: time for weighing is up: weights are learned from {} of {} questions",
                    grouped(asked),
                    grouped(enough)
                )
            }
        });
        Ok(Some(best))
    }

    /// The same rules, to be fitted on as many validation triples as the rest of the time is enough for.
    pub fn size(&self, engine: &Engine, prepared: Prepared, console: Console) -> Result<Prepared> {
        let wanted = prepared.learned().effort.triples.min(engine.data().valid().len());
        if wanted <= LEAST {
            return Ok(prepared);
        }
        let (_spinner, until) = (progress::spinner(console, "trying a fit"), self.after(1.0));
        let few = prepared.clone().fitted_on(LEAST);
        let taken = match ruge::combine::tried(engine, &few, &interrupt::control().until(until)) {
            Err(error) if error.is_cancelled() && !interrupt::came() => None,
            taken => Some(taken.map_err(interrupt::instead_of("interrupted; nothing was written or replaced"))?),
        };
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let enough = taken.map_or(LEAST, |taken| {
            (LEAST as f64 * left.as_secs_f64() / (FITS * taken.as_secs_f64()).max(1e-9)) as usize
        });
        if enough >= wanted {
            return Ok(prepared);
        }
        let triples = enough.max(LEAST);
        console.note(&format!(
            "note: time is short: fitted on {} of {}",
            grouped(triples),
            counted(wanted, "validation triple")
        ));
        Ok(prepared.fitted_on(triples))
    }
}

/// Questions of the next round; none where there is no time for many more.
fn next(asked: usize, enough: usize, taken: Duration, until: Option<Instant>) -> usize {
    let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
    let affordable = (0.9 * asked as f64 * left.as_secs_f64() / taken.as_secs_f64().max(1e-9)) as usize;
    let questions = (MORE * asked).min(enough).min(affordable);
    if questions == enough || questions > asked + asked / 2 { questions } else { 0 }
}

/// Nothing where time was up.
fn finished<T, E: Into<RugeError>>(done: std::result::Result<T, E>) -> Result<Option<T>> {
    match done.map_err(Into::into) {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_cancelled() && !interrupt::came() => Ok(None),
        Err(error) => Err(interrupt::instead_of("interrupted; nothing was written or replaced")(error)),
    }
}

/// The flags that repeat a combination without a clock.
pub fn flags(prepared: &Prepared, rules: &Path) -> String {
    if prepared.rules.is_empty() {
        return "--ranking-rules none".into();
    }
    let Effort { questions, triples } = prepared.weighing().effort;
    let effort = match (Effort { questions, triples }) {
        Effort::USUAL => String::new(),
        Effort::THOROUGH => " --thorough".into(),
        _ => format!(" --effort {questions},{triples}"),
    };
    format!("--ranking-rules {}{effort}", quoted(&rules.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_grow_and_end() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let far = Some(now + Duration::from_secs(100_000));
        assert_eq!(next(2_000, 60_000, second, far), 8_000);
        assert_eq!(next(20_000, 60_000, second, far), 60_000);
        assert_eq!(next(50_000, 60_000, second, far), 60_000);
        assert_eq!(next(2_000, 60_000, second, Some(now)), 0, "no time is left");
        assert_eq!(next(2_000, 60_000, second, None), 8_000);
    }
}
