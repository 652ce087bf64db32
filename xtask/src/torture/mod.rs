//! `cargo xtask torture`: attacks the program with kills, faults, signals, flipped bits and extreme inputs.
//!
//! This code does not use the libraries: it runs the program as a user does, inspects the files it leaves, and compares
//! them with an undisturbed run. Every case has a name and is determined by the seed, so the line printed with a
//! failure reproduces it; its folder is kept under `target/torture`.
//!
//! | part | attack | requirement |
//! |---|---|---|
//! | `kills` | a fault at the n-th call that changes the file system, kills at random times | nothing lost, next command ends as if undisturbed |
//! | `refusals` | commands that must fail, over finished results | nothing is changed |
//! | `twins` | two processes that write to one folder | the complete result of one of them |
//! | `signals` | SIGINT, SIGTERM, SIGHUP while training | exit code 130, 143, 129; `--resume` gives the same bits |
//! | `flips` | one bit flipped in a file of the program | refused, or the same result |
//! | `inputs` | mutated files for every reader | an answer or one message; no panic, no hang, bounded memory |
//! | `bombs` | small files that stand for large ones | the same |
//! | `graphs` | degenerate graphs | the same |
//! | `flags` | extreme numbers | the same, and models that can be read |
//! | `bits` | threads, instruction sets | the same tensors |

mod bits;
mod bombs;
mod case;
mod flags;
mod flips;
mod graphs;
mod inputs;
mod jobs;
mod kills;
mod mutate;
mod process;
mod random;
mod refusals;
mod results;
mod seeds;
mod shim;
mod signals;
mod twins;
mod world;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::test::target;
use case::{Table, Yard};

/// A part of the attack: its name, its share of the time, its function.
struct Part {
    name: &'static str,
    share: f64,
    attack: fn(&Yard<'_>) -> Result<()>,
}

/// In order of importance for a short attack.
const PARTS: &[Part] = &[
    Part { name: "kills", share: 0.3, attack: kills::attack },
    Part { name: "refusals", share: 0.02, attack: refusals::attack },
    Part { name: "twins", share: 0.05, attack: twins::attack },
    Part { name: "signals", share: 0.07, attack: signals::attack },
    Part { name: "flips", share: 0.17, attack: flips::attack },
    Part { name: "bits", share: 0.03, attack: bits::attack },
    Part { name: "graphs", share: 0.08, attack: graphs::attack },
    Part { name: "flags", share: 0.1, attack: flags::attack },
    Part { name: "inputs", share: 0.15, attack: inputs::attack },
    Part { name: "bombs", share: 0.05, attack: bombs::attack },
];

/// Minimum time of a requested part.
const LEAST: Duration = Duration::from_secs(3);

pub struct Options {
    /// Total time.
    pub minutes: f64,
    /// The seed of every choice.
    pub seed: u64,
    /// Run one part only.
    pub only: Option<String>,
    /// Run only cases whose names start with this.
    pub case: Option<String>,
    /// The program under attack.
    pub ruge: Option<PathBuf>,
    /// Print the table as one JSON object.
    pub json: bool,
}

pub const USAGE: &str = "torture [--minutes N] [--seed S] [--only PART] [--case NAME] [--ruge PATH] [--json]";

/// Parses the arguments and runs the attack.
pub fn run(arguments: &[String]) -> Result<()> {
    attack(&parse(arguments)?)
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { minutes: 10.0, seed: 1, only: None, case: None, ruge: None, json: false };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{flag} needs a value\nusage: cargo xtask {USAGE}"));
        match flag.as_str() {
            "--minutes" => options.minutes = value()?.parse().context("--minutes is a number")?,
            "--seed" => options.seed = value()?.parse().context("--seed is a whole number")?,
            "--only" => options.only = Some(value()?.clone()),
            "--case" => options.case = Some(value()?.clone()),
            "--ruge" => options.ruge = Some(PathBuf::from(value()?)),
            "--json" => options.json = true,
            other => bail!("`{other}` is no flag of torture\nusage: cargo xtask {USAGE}"),
        }
    }
    if let Some(only) = &options.only {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        ensure!(names.contains(&only.as_str()), "no part is called `{only}`; there are {}", names.join(", "));
    }
    Ok(options)
}

/// Runs the requested parts, prints the table, and fails if anything failed.
pub fn attack(options: &Options) -> Result<()> {
    let program = match &options.ruge {
        Some(path) => path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?,
        None => built()?,
    };
    let began = Instant::now();
    let whole = Duration::from_secs_f64(options.minutes * 60.0);
    let parts: Vec<&Part> =
        PARTS.iter().filter(|part| options.only.as_ref().is_none_or(|only| only == part.name)).collect();
    let table = Table::default();
    let mut shares_left: f64 = parts.iter().map(|part| part.share).sum();
    for part in parts {
        // Unused time goes to the later parts.
        let time = whole.saturating_sub(began.elapsed()).mul_f64(part.share / shares_left).max(LEAST);
        shares_left -= part.share;
        eprintln!("── torture: {} (at most {:.0} s, seed {})", part.name, time.as_secs_f64(), options.seed);
        let yard = Yard::new(part.name, &program, options, time, &table)?;
        (part.attack)(&yard).with_context(|| format!("the attack `{}` could not be carried out", part.name))?;
    }
    if options.json {
        println!("{}", table.json(options))
    } else {
        print!("{table}")
    }
    let failures = table.failures();
    ensure!(failures == 0, "{failures} failures; the lines above repeat each, the folders are under target/torture");
    Ok(())
}

/// The program of the workspace: the one built by the tests, or a release build, whichever is newer.
fn built() -> Result<PathBuf> {
    let target = target();
    let name = format!("ruge{}", std::env::consts::EXE_SUFFIX);
    let age = |path: &PathBuf| path.metadata().and_then(|found| found.modified()).ok();
    ["debug", "release"]
        .iter()
        .map(|profile| target.join(profile).join(&name))
        .filter(|path| path.is_file())
        .max_by_key(age)
        .context("no program to attack\n  remedy: cargo build, or name one with --ruge")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
