//! Chores of the repository, run as `cargo xtask <chore>`.
//!
//! Each chore lives in its own module; this file only picks one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore reports to the terminal and is no library")]

mod world;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = match args.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => bail!("{USAGE}"),
    };
    match chore {
        "world" => world::run(rest),
        other => bail!("no chore is called `{other}`\n{USAGE}"),
    }
}

/// What is printed when no chore, or an unknown one, is named.
const USAGE: &str = "usage: cargo xtask world [--verify | --against DIR]";
