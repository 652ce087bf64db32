//! What the stages of one process share: rules are read and grounded once, and each model is opened once.
//!
//! Everything here is read from the run folder when it is first asked for. A stage asks only for what stages before it left, so
//! nothing goes stale while the stages are taken in their order.

use std::cell::OnceCell;
use std::time::Instant;

use ruge::Engine;
use ruge::assemble;
use ruge::error::Result;
use ruge::explain::Explainer;
use ruge::run::Guides;
use ruge_kg::Control;
use ruge_rules::{Groundings, RuleRecord};

use super::Job;
use super::findings;

/// The rules and models of a run.
pub(super) struct Bench<'j> {
    job: Job<'j>,
    rules: OnceCell<Vec<RuleRecord>>,
    guides: OnceCell<Guides>,
    unguided: OnceCell<Engine>,
    guided: OnceCell<Engine>,
    evaluated: OnceCell<Engine>,
    deployed: OnceCell<Engine>,
}

impl<'j> Bench<'j> {
    /// Of a job; nothing is read yet.
    pub fn new(job: Job<'j>) -> Self {
        Self {
            job,
            rules: OnceCell::new(),
            guides: OnceCell::new(),
            unguided: OnceCell::new(),
            guided: OnceCell::new(),
            evaluated: OnceCell::new(),
            deployed: OnceCell::new(),
        }
    }

    /// The rules of `rules.tsv`, which alone says which rules guide.
    pub fn rules(&self) -> Result<&[RuleRecord]> {
        once(&self.rules, || findings::rules(&self.job.out, &self.job)).map(Vec::as_slice)
    }

    /// The same with their groundings.
    pub fn guides(&self, control: &Control<'_>) -> Result<&Guides> {
        once(&self.guides, || {
            let horn: Vec<_> = self.rules()?.iter().map(|record| record.rule.clone()).collect();
            let started = Instant::now();
            let groundings = assemble::groundings(self.job.data, &horn, control)?;
            self.weighed(groundings, started.elapsed().as_secs_f64())
        })
    }

    /// The file rounds what rules weigh, so it is measured again. Which of them guide is not asked again.
    fn weighed(&self, groundings: Groundings, seconds: f64) -> Result<Guides> {
        let mut rules = self.rules()?.to_vec();
        assemble::weigh(&self.job.spec, self.job.data, &mut rules, &groundings);
        Ok(Guides { rules, groundings, seconds })
    }

    /// Takes over the groundings of the stage that wrote `rules.tsv`, if the file holds the rules that were grounded.
    pub fn take_groundings(&self, rules: &[RuleRecord], groundings: Groundings, seconds: f64) -> Result<()> {
        if self.rules()?.iter().map(|record| &record.rule).eq(rules.iter().map(|record| &record.rule)) {
            once(&self.guides, || self.weighed(groundings, seconds))?;
        }
        Ok(())
    }

    /// The model without guidance.
    pub fn unguided(&self) -> Result<&Engine> {
        once(&self.unguided, || Engine::open(&self.job.out.join("unguided")))
    }

    /// The model with it.
    pub fn guided(&self) -> Result<&Engine> {
        once(&self.guided, || Engine::open(&self.job.out.join("guided")))
    }

    /// The model that figures describe: the guided one, with rules and evidence where validation gains by them.
    pub fn evaluated(&self) -> Result<&Engine> {
        once(&self.evaluated, || Engine::open(&self.job.out.join("evaluated")))
    }

    /// The model to deploy; the evaluated one where the run only evaluates.
    pub fn deployed(&self) -> Result<&Engine> {
        match self.job.deploys {
            true => once(&self.deployed, || Engine::open(&self.job.out.join("model.safetensors"))),
            false => self.evaluated(),
        }
    }

    /// Groundings of an explainer's usable rules: those of the run where they are the same rules.
    pub fn with_groundings<T>(
        &self,
        explainer: &Explainer,
        control: &Control<'_>,
        then: impl FnOnce(&Groundings) -> Result<T>,
    ) -> Result<T> {
        let guides = self.guides(control)?;
        let rules = || explainer.usable().iter().map(|&at| &explainer.rules()[at].rule);
        if rules().eq(guides.rules.iter().map(|record| &record.rule)) {
            return then(&guides.groundings);
        }
        let horn: Vec<_> = rules().cloned().collect();
        then(&assemble::groundings(self.job.data, &horn, control)?)
    }
}

/// The content of a cell, made now if it is empty.
fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}
