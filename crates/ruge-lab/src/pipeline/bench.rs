//! What the stages of one process share: rules are read and grounded once, and each model is opened once.
//!
//! Everything here is read from the run folder when it is first asked for. A stage asks only for what stages before it left, so
//! nothing goes stale while the stages are taken in their order.

use std::cell::OnceCell;
use std::time::Instant;

use ruge::assemble;
use ruge::error::Result;
use ruge::loaded::Loaded;
use ruge::run::Grounded;
use ruge_rules::{Groundings, RuleRecord, SoftRule, Watch};

use super::Job;
use super::findings;

/// The rules and models of a run.
pub(super) struct Bench<'j> {
    job: &'j Job<'j>,
    rules: OnceCell<Vec<RuleRecord>>,
    guides: OnceCell<Grounded>,
    unguided: OnceCell<Loaded>,
    guided: OnceCell<Loaded>,
}

impl<'j> Bench<'j> {
    /// Of a job; nothing is read yet.
    pub fn new(job: &'j Job<'j>) -> Self {
        Self {
            job,
            rules: OnceCell::new(),
            guides: OnceCell::new(),
            unguided: OnceCell::new(),
            guided: OnceCell::new(),
        }
    }

    /// The rules of `rules.tsv`, which alone says which rules guide and what they weigh.
    pub fn rules(&self) -> Result<&[RuleRecord]> {
        once(&self.rules, || findings::rules(&self.job.out, self.job)).map(Vec::as_slice)
    }

    /// The same with their groundings.
    pub fn guides(&self) -> Result<&Grounded> {
        once(&self.guides, || {
            let started = Instant::now();
            let rules = self.rules()?.to_vec();
            let groundings = assemble::groundings(self.job.data, &horn(&rules), &Watch::default())?;
            Ok(Grounded { rules, groundings, seconds: started.elapsed().as_secs_f64() })
        })
    }

    /// Takes over the groundings of the stage that wrote `rules.tsv`, if the file says the same as what was grounded.
    pub fn take_groundings(&self, rules: Vec<RuleRecord>, groundings: Groundings, seconds: f64) -> Result<()> {
        if self.rules()? == rules {
            let _ = self.guides.set(Grounded { rules, groundings, seconds });
        }
        Ok(())
    }

    /// The model without guidance.
    pub fn unguided(&self) -> Result<&Loaded> {
        once(&self.unguided, || Loaded::open(&self.job.out.join("unguided")))
    }

    /// The model with it.
    pub fn guided(&self) -> Result<&Loaded> {
        once(&self.guided, || Loaded::open(&self.job.out))
    }

    /// Groundings of these rules: those of the run where they are the same rules.
    pub fn with_groundings<T>(&self, rules: &[SoftRule], then: impl FnOnce(&Groundings) -> Result<T>) -> Result<T> {
        let guides = self.guides()?;
        if rules.iter().map(|rule| &rule.rule).eq(guides.rules.iter().map(|record| &record.rule)) {
            return then(&guides.groundings);
        }
        let horn: Vec<_> = rules.iter().map(|rule| rule.rule.clone()).collect();
        then(&assemble::groundings(self.job.data, &horn, &Watch::default())?)
    }
}

fn horn(rules: &[RuleRecord]) -> Vec<ruge_rules::Rule> {
    rules.iter().map(|record| record.rule.clone()).collect()
}

/// The content of a cell, made now if it is empty.
fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}
