//! The binary `ruge`.

mod data;
mod usage;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Knowledge graph embedding with iterative guidance from soft rules.
#[derive(Parser)]
#[command(name = "ruge", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What `ruge` can do.
#[derive(Subcommand)]
enum Command {
    /// Lists and downloads public benchmark sets, checksummed.
    #[command(subcommand)]
    Data(data::DataCommand),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Data(command) => data::run(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do when stderr itself is gone.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(usage::exit_code(&error))
        }
    }
}
