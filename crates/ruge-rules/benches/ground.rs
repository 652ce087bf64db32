//! Benchmark: grounding speed after loading. Nothing is asserted.
//!
//! `cargo bench -p ruge-rules --bench ground` grounds the rules published for FB15K and rules mined here, if the
//! benchmark folder exists (see `ruge_testing::data`).

#![allow(clippy::print_stdout, reason = "a benchmark reports to the terminal")]

use std::time::Instant;

use ruge_kg::{Dataset, Graph, ReadOptions};
use ruge_rules::{MineConfig, Rule, RuleReadOptions, ground, mine, read_rules};

fn main() {
    for (name, rule_file) in [("fb15k", Some("rules.tsv")), ("yago37-core3", Some("rules.tsv")), ("fb15k-237", None)] {
        let path = match ruge_testing::data(name) {
            Ok(path) => path,
            Err(missing) => {
                println!("{name} is not measured: {missing}");
                continue;
            }
        };
        let (data, _) = Dataset::load(&path, &ReadOptions::default()).expect("the benchmark is readable");
        if let Some(file) = rule_file {
            let mut names = data.names().clone();
            let file = read_rules(&path.join(file), &RuleReadOptions::default(), &mut names).expect("readable");
            let rules: Vec<Rule> = file.rules.into_iter().map(|record| record.rule).collect();
            measure(&format!("{name}, published rules"), data.graph(), &rules);
        }
        let mined = mine(data.graph(), &MineConfig::default(), &Default::default());
        let rules: Vec<Rule> = mined.rules.into_iter().map(|rule| rule.rule).collect();
        measure(&format!("{name}, mined at PCA 0.8"), data.graph(), &rules);
    }
}

fn measure(name: &str, graph: &Graph, rules: &[Rule]) {
    let mut best = f64::INFINITY;
    let mut counts = (0, 0);
    for _ in 0..5 {
        let started = Instant::now();
        let groundings = ground(graph, rules);
        best = best.min(started.elapsed().as_secs_f64());
        counts = (groundings.len(), groundings.unlabeled().len());
    }
    println!("{name:<34} {:>6} rules {:>9} groundings {:>9} unlabeled {best:>8.3} s", rules.len(), counts.0, counts.1);
}
