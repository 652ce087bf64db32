//! `ruge check`: what is in a graph, and whether it is fit to be learnt from and judged on.

mod json;
pub mod report;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use ruge::constraints::{Constraints, Habit, Habits, Violation};

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::{output, progress};

/// Show what is in a graph, and whether it is fit for training and evaluation
///
/// Counts, duplicates, names missing from train, degrees, relation patterns (symmetric, inverse, duplicate), and leakage:
/// how much of valid and test can be copied from train; habits, such as relations with one value per head; listed facts that
/// violate a constraint (--constraints). Reading stops at a malformed line; --lenient skips and counts malformed lines.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge check demo
  ruge check data/fb15k
  ruge check triples.tsv.gz --columns htr --lenient
  ruge check edges.csv --columns subject,predicate,object
  ruge check ontology.owl --labels labels.tsv
  ruge check data/wn18 --json | jq .leakage.test
  ruge check demo --suggest-constraints laws.txt
  ruge check demo --constraints laws.txt")]
pub struct CheckArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Constraints that facts must obey, one per line; listed facts that violate one are reported
    #[arg(long, value_name = "FILE")]
    constraints: Option<PathBuf>,
    /// Write the habits of the relations to this file, as constraints to go through
    #[arg(long, value_name = "FILE")]
    suggest_constraints: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "suggest_constraints")]
    force: bool,
}

/// What the facts say about constraints.
pub struct Laws {
    /// What nearly all facts do.
    habits: Vec<Habit>,
    /// Facts that violate a constraint; nothing where none was given.
    violations: Option<Vec<Violation>>,
}

/// Runs `ruge check DATA`.
pub fn run(args: &CheckArgs, console: Console) -> Result<()> {
    let suggested = args.suggest_constraints.as_deref();
    let inputs = args.constraints.iter().cloned().chain([args.data.data.clone()]);
    output::refuse_inputs("--suggest-constraints", suggested, inputs)?;
    if let Some(path) = suggested {
        output::refuse_to_replace(path, args.force)?;
    }
    let loaded = args.data.load(console)?;
    let constraints = match &args.constraints {
        Some(path) => {
            let constraints = Constraints::read(path, &loaded.data)?;
            if constraints.is_empty() {
                console.note(&format!("note: {}: the file has no constraints", path.display()));
            }
            Some(constraints)
        }
        None => None,
    };
    let started = Instant::now();
    let spinner = progress::spinner(console, "counting");
    let stats = ruge_kg::describe(&loaded.data);
    let habits = Habits::listed(&loaded.data);
    let laws = Laws {
        habits: habits.list(&loaded.data),
        violations: constraints.map(|constraints| constraints.violations(&loaded.data)),
    };
    spinner.finish_and_clear();
    tracing::info!("counted in {:.3} s", started.elapsed().as_secs_f64());
    if let Some(path) = suggested {
        let text = habits.suggest(&loaded.data);
        output::to_file(path, |out| Ok(std::io::Write::write_all(out, text.as_bytes())?))?;
        console.note(&format!("suggested constraints written to {}", path.display()));
    }
    if console.json {
        loaded.announce(console);
        let mut object = json::object(&args.data.data, &loaded, &stats);
        object["habits"] = serde_json::to_value(&laws.habits).context("cannot write JSON")?;
        object["violations"] = serde_json::to_value(&laws.violations).context("cannot write JSON")?;
        return console.json_result(&object);
    }
    console.result(&report::text(&args.data.data, &loaded, &stats, &laws, console))
}
