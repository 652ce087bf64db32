//! `ruge demo`: the whole job on the embedded graph.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::console::Console;
use crate::run::{self, RunArgs};

/// Run the whole job on the embedded graph, in about half a minute
///
/// Checks the graph, mines and grounds rules, trains a model without and with them, evaluates both and the rules alone,
/// predicts new facts with their reasons, and writes a report. The same as `ruge run demo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge demo
  ruge demo --out runs/first --force
  ruge demo --json --quiet")]
pub struct DemoArgs {
    /// The run folder
    #[arg(long, value_name = "DIR", default_value = "runs/demo")]
    out: PathBuf,
    /// Start again; without it, finished stages are skipped
    #[arg(long)]
    force: bool,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Runs `ruge demo`.
pub fn run(args: &DemoArgs, console: Console) -> Result<()> {
    let mut all = RunArgs::plain(Path::new("demo"), args.out.clone(), args.force);
    all.data.seed = Some(args.seed);
    run::run(&all, console)
}
