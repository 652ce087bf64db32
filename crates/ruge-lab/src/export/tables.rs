//! The rules and their groundings as tab-separated tables.

use std::io::Write;

use ruge_kg::{Names, Triple};
use ruge_rules::io::decimal;
use ruge_rules::{Groundings, Rule, RuleFormat, RuleRecord, RuleWriteOptions, ground, write_rules};

use super::Target;
use ruge::error::Result;

/// The rules of a model that its own names can say.
pub fn sayable<'t>(target: &Target<'t>) -> Vec<&'t RuleRecord> {
    let rules = target.engine.rules();
    target.sayable().map(|at| &rules[at]).collect()
}

/// Where rules hold in the training triples.
pub fn groundings(target: &Target<'_>, rules: &[&RuleRecord]) -> Groundings {
    let horn: Vec<Rule> = rules.iter().map(|record| record.rule.clone()).collect();
    ground(target.engine.data().graph(), &horn)
}

/// `rules.tsv` in our own format, and `groundings.tsv` with the columns of `ruge ground`.
pub fn write(target: &Target<'_>, with_groundings: bool) -> Result<()> {
    target.check_lines("a table of text")?;
    let rules = sayable(target);
    let names = target.engine.data().names();
    let records: Vec<RuleRecord> = rules.iter().map(|record| (*record).clone()).collect();
    let mut text = Vec::new();
    write_rules(&mut text, RuleFormat::Native, &records, names, &RuleWriteOptions::default())?;
    target.put("rules.tsv", |out| out.write_all(&text))?;
    if !with_groundings {
        return Ok(());
    }
    let groundings = groundings(target, &rules);
    target.put("groundings.tsv", |out| {
        // Rules are counted from 1, in the order of rules.tsv.
        writeln!(out, "#rule\tconfidence\thead\trelation\ttail\tpremises")?;
        for grounding in 0..groundings.len() {
            let rule = groundings.rule(grounding);
            write!(out, "{}\t{}", rule + 1, decimal(rules[rule].confidence.get()))?;
            let conclusion = groundings.unlabeled()[groundings.conclusion(grounding)];
            for triple in std::iter::once(&conclusion).chain(groundings.premises(grounding)) {
                write_triple(out, names, *triple, "")?;
            }
            for triple in groundings.negated(grounding) {
                write_triple(out, names, *triple, "!")?;
            }
            writeln!(out)?;
        }
        Ok(())
    })
}

fn write_triple(out: &mut dyn Write, names: &Names, triple: Triple, sign: &str) -> std::io::Result<()> {
    let [head, tail] = [triple.head, triple.tail].map(|id| names.entities.name(id));
    write!(out, "\t{head}\t{sign}{}\t{tail}", names.relations.name(triple.relation))
}
