//! The flags every command understands, and what they set in motion before it runs.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use clap::{ArgAction, Args};
use ruge_embed::cpu::Isa;
use ruge_kg::visible;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;

use crate::console::colours;
use crate::memory;
use crate::usage::UsageError;

/// Flags of every command; they may stand before or after its name.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Number of threads; does not change results [default: one per core]
    #[arg(long, value_name = "N", global = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Print the result as one JSON object
    #[arg(long, global = true)]
    pub json: bool,
    /// Print errors only: no notes, no progress
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log to stderr; repeat for more detail. RUGE_LOG=debug does the same
    #[arg(long, short, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// Bytes of stack of a thread: what the first thread of a program usually has.
const STACK: usize = 8 << 20;

/// Runs a command with the logs and on the threads that the flags ask for. Threads are a pool of this command alone; without
/// `--threads` it has those that rayon starts by itself.
pub fn within(globals: &GlobalArgs, command: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    start(globals)?;
    let command = || {
        let (threads, isa) = (rayon::current_num_threads(), Isa::detect().name());
        tracing::debug!(threads, isa, version = env!("RUGE_VERSION"), "starting");
        command()
    };
    let Some(threads) = globals.threads else { return command() };
    rayon::ThreadPoolBuilder::new()
        .num_threads(usize::from(threads))
        .stack_size(STACK)
        .build()
        .with_context(|| format!("cannot start {threads} threads; give a smaller --threads"))?
        .install(command)
}

/// Sets up logs and the instruction set.
fn start(globals: &GlobalArgs) -> Result<()> {
    let level = match (globals.quiet, globals.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    // Only our own crates grow talkative with -v; RUGE_LOG takes the full syntax of tracing's filters.
    let default = format!("warn,ruge={level},ruge_kg={level},ruge_rules={level},ruge_embed={level}");
    let filter = match std::env::var("RUGE_LOG") {
        Ok(wish) if !wish.is_empty() => EnvFilter::try_new(&wish).map_err(|error| {
            UsageError(format!(
                "RUGE_LOG={wish} is not a log filter: {error}\n  remedy: set RUGE_LOG=info, or unset it"
            ))
        })?,
        _ => EnvFilter::new(default),
    };
    // What is logged may hold names; the colours around it are not ours to check, so they are left as they come.
    let fields = debug_fn(|out, field, value| {
        let text = format!("{value:?}");
        match field.name() {
            "message" => write!(out, "{}", visible::text(&text)),
            name => write!(out, "{name}={}", visible::text(&text)),
        }
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .fmt_fields(fields.delimited(" "))
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && colours())
        .init();
    match std::env::var("RUGE_ISA") {
        Ok(wish) if !wish.is_empty() => {
            wish.parse().and_then(Isa::limit).map_err(|error| {
                UsageError(format!(
                    "RUGE_ISA={wish}: {error}\n  remedy: unset RUGE_ISA to use the widest this machine has"
                ))
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// The last word of a run, for those who asked with -v.
pub fn finish() {
    if let Some(megabytes) = memory::peak_mb() {
        tracing::info!("peak memory {megabytes:.1} MB");
    }
}
