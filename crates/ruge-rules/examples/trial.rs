#![allow(missing_docs, clippy::print_stdout)]
use std::time::Instant;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let what = std::env::args().nth(2).unwrap_or_default();
    let t = Instant::now();
    let (data, _) = ruge_kg::Dataset::load(path.as_ref(), &Default::default()).unwrap();
    println!("load {:?} {} train", t.elapsed(), data.train().len());
    let config = match what.as_str() {
        "long" => ruge_rules::MineConfig { max_body: 3, min_head_coverage: 0.1, ..Default::default() },
        "const" => ruge_rules::MineConfig { constants: true, ..Default::default() },
        _ => ruge_rules::MineConfig::default(),
    };
    let t = Instant::now();
    let progress = |d: u64, a: u64| println!("{d}/{a} {:?}", t.elapsed());
    let watch = ruge_rules::Watch { progress: Some(&progress), ..Default::default() };
    let mined = ruge_rules::mine(data.graph(), &config, &watch);
    println!("{:?} rules {} probes {} ideal {}", t.elapsed(), mined.rules.len(), mined.probes, mined.ideal_probes);
    for n in 1..4 {
        println!("{n} atoms {}", mined.rules.iter().filter(|r| r.rule.premise.len() == n).count());
    }
    println!(
        "{}",
        std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmHWM")).unwrap()
    );
}
