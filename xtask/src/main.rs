//! Chores of the repository, run as `cargo xtask <chore>`.
//!
//! Each chore lives in its own module; this file only picks one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore reports to the terminal and is no library")]

mod directions;
mod kernels;
mod python;
mod test;
mod tidy;
#[cfg(unix)]
mod torture;
mod world;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let (chore, rest) = match args.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => bail!("{USAGE}"),
    };
    match (chore, rest) {
        ("test", []) => test::run(),
        ("tidy", []) => tidy::run().and_then(|()| directions::run()),
        ("python", []) => python::run().map(|outcome| match outcome {
            test::Outcome::NotRun(why) => println!("{why}"),
            _ => println!("the Python package holds"),
        }),
        #[cfg(unix)]
        ("torture", rest) => torture::run(rest),
        ("world", rest) => world::run(rest),
        (other, _) => bail!("no chore is called `{other}`, or not with these arguments\n{USAGE}"),
    }
}

const USAGE: &str =
    "usage: cargo xtask test | tidy | python | torture [--minutes N] [--only PART] | world [--verify | --against DIR]";

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lives in the root of the repository")
}
