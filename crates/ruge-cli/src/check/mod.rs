//! `ruge check`: what is in a graph, and whether it is fit to be learnt from and judged on.

mod json;
mod report;

use std::time::Instant;

use anyhow::Result;
use clap::Args;

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::progress;

/// Show what is in a graph, and whether it is fit for training and evaluation
///
/// Counts, duplicates, names missing from train, degrees, relation patterns (symmetric, inverse, duplicate), and leakage:
/// how much of valid and test can be copied from train. Reading stops at a malformed line; --lenient skips and counts
/// malformed lines.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge check demo
  ruge check data/fb15k
  ruge check triples.tsv.gz --columns htr --lenient
  ruge check data/wn18 --json | jq .leakage.test")]
pub struct CheckArgs {
    #[command(flatten)]
    data: DataArgs,
}

/// Runs `ruge check DATA`.
pub fn run(args: &CheckArgs, console: Console) -> Result<()> {
    let loaded = args.data.load(console)?;
    let started = Instant::now();
    let spinner = progress::spinner(console, "counting");
    let stats = ruge_kg::describe(&loaded.data);
    spinner.finish_and_clear();
    tracing::info!("counted in {:.3} s", started.elapsed().as_secs_f64());
    if console.json {
        loaded.announce(console);
        return console.json_result(&json::object(&args.data.data, &loaded, &stats));
    }
    console.result(&report::text(&args.data.data, &loaded, &stats, console))
}
