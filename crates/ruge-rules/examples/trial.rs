#![allow(missing_docs, clippy::print_stdout)]
use std::time::Instant;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let t = Instant::now();
    let (data, _) = ruge_kg::Dataset::load(path.as_ref(), &Default::default()).unwrap();
    println!("load {:?} {} train", t.elapsed(), data.train().len());
    for config in [
        ruge_rules::MineConfig::default(),
        ruge_rules::MineConfig { skyline: false, ..Default::default() },
        ruge_rules::MineConfig::amie(),
        ruge_rules::MineConfig { min_head_coverage: 0.5, skyline: false, ..Default::default() },
        ruge_rules::MineConfig { min_head_coverage: 0.5, ..Default::default() },
        ruge_rules::MineConfig::ruge_fb15k(),
    ] {
        let t = Instant::now();
        let mined = ruge_rules::mine(data.graph(), &config, &Default::default());
        println!("{:?} rules {} probes {} ideal {}", t.elapsed(), mined.rules.len(), mined.probes, mined.ideal_probes);
    }
}
