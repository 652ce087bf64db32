//! Benchmark: mining speed from plain text. Prints time, CPU time, memory and probes; asserts nothing.
//!
//! ```text
//! cargo bench -p ruge-rules --bench mine            # FB15K and yago37-core3 if the benchmark folder is there
//! cargo bench -p ruge-rules --bench mine -- --scale # synthetic graphs of 0.3, 1, 3, 10 million triples, and hubs
//! ```
//!
//! Each case runs in a separate process, so that peak memory is measured per case.

#![allow(clippy::print_stdout, reason = "a benchmark reports to the terminal")]

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ruge_kg::random::{Stream, below, draw, unit};
use ruge_kg::{Dataset, Graph, ReadOptions, Triple};
use ruge_rules::{MineConfig, Mined, mine};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.first().map(String::as_str) {
        Some("--case") => return case(&args[1], args.get(2).map(String::as_str)),
        Some("--scale") => {
            header();
            for size in ["300000", "1000000", "3000000", "10000000"] {
                child(&["--case", "synthetic", size]);
            }
            child(&["--case", "hubs", "2000000"]);
            return;
        }
        _ => {}
    }
    header();
    for name in ["fb15k", "fb15k-237", "wn18", "yago37-core3"] {
        let folder = match ruge_testing::data(name) {
            Ok(folder) => folder,
            Err(missing) => {
                println!("{name} is not measured: {missing}");
                continue;
            }
        };
        // Plain text, unpacked once outside the measurement.
        let plain = tempfile::tempdir().expect("a temporary folder");
        let mut names = ruge_kg::Names::default();
        let file = ruge_kg::io::read_file(&folder.join("train.txt.gz"), &mut names, &ReadOptions::default());
        let triples = file.expect("the benchmark is readable").triples;
        let path = plain.path().join("train.txt");
        ruge_kg::io::write::write_triples(&path, ruge_kg::Format::Tsv, &names, triples.iter().copied())
            .expect("the temporary folder is writable");
        let path = plain.path().to_string_lossy().into_owned();
        for preset in ["default", "amie", "ruge-fb15k"] {
            child(&["--case", &path, preset]);
        }
    }
}

fn header() {
    println!(
        "{:<34} {:>8} {:>8} {:>8} {:>8} {:>7} {:>11} {:>11}",
        "case", "rules", "wall s", "mine s", "CPU s", "MB", "probes", "ideal"
    );
}

fn child(args: &[&str]) {
    let program = std::env::current_exe().expect("this program has a path");
    let status = Command::new(program).args(args).status().expect("this program runs again");
    assert!(status.success(), "a case failed");
}

/// One measurement, in a separate process.
fn case(what: &str, option: Option<&str>) {
    let started = Instant::now();
    let (name, mined, mining) = match what {
        "synthetic" | "hubs" => {
            let size: u64 = option.and_then(|text| text.parse().ok()).expect("a number of triples");
            let graph = if what == "hubs" { hubs(size) } else { synthetic(size) };
            let now = Instant::now();
            let mined = run(&graph, &MineConfig::default());
            (format!("{what} {size}"), mined, now.elapsed())
        }
        folder => {
            let options = ReadOptions { train_only: true, ..ReadOptions::default() };
            let (data, _) = Dataset::load(Path::new(folder), &options).expect("readable");
            let config = match option {
                Some("amie") => MineConfig::amie(),
                Some("ruge-fb15k") => MineConfig::ruge_fb15k(),
                _ => MineConfig::default(),
            };
            let now = Instant::now();
            let mined = run(data.graph(), &config);
            (format!("{} triples, {}", data.train().len(), option.unwrap_or("default")), mined, now.elapsed())
        }
    };
    println!(
        "{name:<34} {:>8} {:>8.3} {:>8.3} {:>8.2} {:>7.0} {:>11} {:>11}",
        mined.rules.len(),
        started.elapsed().as_secs_f64(),
        mining.as_secs_f64(),
        cpu_seconds(),
        peak_mb(),
        mined.probes,
        mined.ideal_probes
    );
}

fn run(graph: &Graph, config: &MineConfig) -> Mined {
    mine(graph, config, &Default::default())
}

/// Entities by a power law: the k-th of n is drawn in proportion to k^-0.5 (the first then has 1/√n of all ends); 200
/// relations likewise. Every third triple copies an earlier one, reversed, under its partner relation, so there are
/// rules.
fn synthetic(triples: u64) -> Graph {
    let entities = (triples / 20).max(1000);
    let pick = |stream: u64, at: u64, n: u64| -> u32 {
        let u = unit(draw(1, Stream(stream), 0, at));
        // Inverse of the distribution function of k^-0.5 on [0, n].
        ((u.powf(2.0) * n as f64) as u64).min(n - 1) as u32
    };
    let mut list: Vec<Triple> = Vec::with_capacity(triples as usize);
    for at in 0..triples {
        if at % 3 == 2 {
            let old = list[below(draw(1, Stream(4), 0, at), at) as usize];
            list.push(Triple::new(old.tail.0, (old.relation.0 ^ 1) % 200, old.head.0));
        } else {
            list.push(Triple::new(pick(1, at, entities), pick(2, at, 200), pick(3, at, entities)));
        }
    }
    Graph::new(entities as usize, 200, &list)
}

/// Half of the triples lead to one of ten hubs (of degree 100,000 each at 2 million triples), the others are uniform: a
/// miner that joins along paths cannot finish.
fn hubs(triples: u64) -> Graph {
    let entities = 200_000u32;
    let list: Vec<Triple> = (0..triples)
        .map(|at| {
            let head = below(draw(2, Stream(1), 0, at), u64::from(entities)) as u32;
            let tail = if at % 2 == 0 {
                (at / 2 % 10) as u32
            } else {
                below(draw(2, Stream(2), 0, at), u64::from(entities)) as u32
            };
            Triple::new(head, below(draw(2, Stream(3), 0, at), 20) as u32, tail)
        })
        .collect();
    Graph::new(entities as usize, 20, &list)
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<f64> = after.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // After the name: the state is not a number, so user and system time are the 11th and 12th numbers, in 1/100 s.
    ticks.get(10).zip(ticks.get(11)).map_or(f64::NAN, |(user, system)| (user + system) / 100.0)
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).map_or(f64::NAN, |kb| kb / 1000.0)
}
