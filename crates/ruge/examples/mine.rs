//! Mine rules, write them down, read them back, and check every number in the file.
//!
//! A soft rule is a sentence such as "if x has_capital y then y capital_of x", with a confidence. Mining counts exactly:
//! support, head coverage, standard and PCA confidence are those of AMIE. So whoever gets a rule file, from here or from
//! another program, can count again and say which confidence its numbers are.
//!
//! ```text
//! cargo run --release -p ruge --example mine
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use ruge::{Control, Dataset, ReadOptions};
use ruge_rules::verify::verify;
use ruge_rules::words::sentence;
use ruge_rules::{
    MineConfig, RuleFormat, RuleReadOptions, RuleRecord, RuleWriteOptions, ground, mine, parse_rules, write_rules,
};

/// Mines the embedded graph and verifies what was found.
pub fn main() -> Result<(), Box<dyn Error>> {
    let (data, _) = Dataset::load("demo".as_ref(), &ReadOptions::default())?;

    // Only train is mined: a rule that has seen the test triples would be told the answers.
    let config = MineConfig { min_pca: 0.8, min_support: 10, ..MineConfig::default() };
    let mined = mine(data.graph(), &config, &Control::default());
    println!("{} rules", mined.rules.len());

    // Sorted by support, the first few say what the graph is about.
    let mut rules = mined.rules;
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.counts.support));
    for rule in rules.iter().take(5) {
        println!("{:.2}  {:>4}  {}", rule.counts.pca(), rule.counts.support, sentence(&rule.rule, data.names()));
    }

    // A rule file is text, in one of twelve formats; AMIE's is another word here.
    let records: Vec<_> = rules.into_iter().map(|rule| RuleRecord::counted(rule.rule, rule.counts)).collect();
    let mut text = Vec::new();
    write_rules(&mut text, RuleFormat::Native, &records, data.names(), &RuleWriteOptions::default())?;
    let mut names = data.names().clone();
    let file = parse_rules(std::str::from_utf8(&text)?, &RuleReadOptions::default(), &mut names)?;
    println!("{} lines read back, {} of them bad", file.rules.len() + file.bad.len(), file.bad.len());

    // The data decide whether the numbers are right, and which confidence they are.
    let verification = verify(data.graph(), &file);
    println!("{}", verification.verdict());
    assert_eq!(verification.mismatched(), 0);

    // Grounding applies the rules: what follows from train, and is not in it.
    let horn: Vec<_> = file.rules.iter().map(|record| record.rule.clone()).collect();
    let groundings = ground(data.graph(), &horn);
    let hits = groundings.overlap(data.test());
    println!("{} new triples follow, {hits} of them are test triples", groundings.unlabeled().len());
    assert!(hits > 0);
    Ok(())
}
