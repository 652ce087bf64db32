//! The command line of ruge: one file per command, and this table of contents. The binary `ruge` calls [`main`], and so
//! can any other program that wants to be `ruge`.
//!
//! Libraries return values and errors; this crate is where they become text. Results go to stdout, everything else to
//! stderr. To add a command: write its file with an `Args` struct and a `run(&args, console)`, and give it a line in
//! `mod`, in [`Command`] and in [`run()`].

mod check;
mod classify;
mod combine;
mod complete;
mod completions;
mod consistency;
mod console;
mod data;
mod data_args;
mod demo;
mod device;
mod eval;
mod explain;
mod export;
mod globals;
mod ground;
mod help;
mod import;
mod interrupt;
mod memory;
mod mine;
pub mod minutes;
mod open;
mod output;
mod path_words;
mod predict;
mod progress;
mod remedy;
mod reproduce;
mod rule_args;
mod rules;
mod run;
mod search;
mod serve;
mod settings;
mod shown;
mod text;
mod train;
mod truth_args;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use console::Console;
use globals::GlobalArgs;

// For other programs that run the whole job: its settings, and what `ruge run --json` prints.
pub use run::{object as run_object, seeds_object, spec as run_spec};

/// The version, as `ruge --version` prints it.
pub const VERSION: &str = env!("RUGE_VERSION");

/// Finds the facts that are missing from a knowledge graph, with reasons for and against each
#[derive(Debug, Parser)]
#[command(name = "ruge", version = env!("RUGE_VERSION"), after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    globals: GlobalArgs,
}

const EXAMPLES: &str = "Examples:
  ruge demo                                            the whole job on the embedded graph
  ruge run my-triples.tsv --out runs/mine              the whole job on your own triples
  ruge predict runs/mine --head NAME --relation NAME   ask it
  ruge explain runs/mine HEAD RELATION TAIL            why?
  ruge complete runs/mine --top 100                    new facts for the graph
  ruge serve runs/mine --open                          all of that in a browser

DATA is `demo`, a folder with train, valid and test, or one file: head, relation and tail on each line, separated by tabs, or RDF. \
MODEL is the folder of a run, or a model.safetensors. See `ruge COMMAND --help` for details.";

/// What `ruge` can do, in the order a newcomer needs it.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Mine(mine::MineArgs),
    /// Verify rule files against data, convert them, compare them with a model
    #[command(
        subcommand,
        after_help = "Examples:\n  ruge rules verify data/fb15k --rules data/fb15k/rules.tsv\n  ruge rules convert rules.tsv --to json\n  ruge rules consistency runs/demo"
    )]
    Rules(rules::RulesCommand),
    Ground(ground::GroundArgs),
    Train(train::TrainArgs),
    Combine(combine::CombineArgs),
    Eval(eval::EvalArgs),
    Predict(predict::PredictArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Explain(explain::ExplainArgs),
    Complete(complete::CompleteArgs),
    Serve(serve::ServeArgs),
    Search(search::SearchArgs),
    Reproduce(reproduce::ReproduceArgs),
    /// List and download public benchmark sets
    #[command(subcommand, after_help = "Examples:\n  ruge data list\n  ruge data get fb15k-237")]
    Data(data::DataCommand),
    Completions(completions::CompletionsArgs),
}

fn run(command: Command, console: Console) -> anyhow::Result<()> {
    match command {
        Command::Demo(args) => demo::run(&args, console),
        Command::Run(args) => run::run(&args, console),
        Command::Check(args) => check::run(&args, console),
        Command::Mine(args) => mine::run(&args, console),
        Command::Rules(command) => rules::run(&command, console),
        Command::Ground(args) => ground::run(&args, console),
        Command::Train(args) => train::run(&args, console),
        Command::Combine(args) => combine::run(&args, console),
        Command::Eval(args) => eval::run(&args, console),
        Command::Predict(args) => predict::run(&args, console),
        Command::Export(args) => export::run(&args, console),
        Command::Import(args) => import::run(&args, console),
        Command::Explain(args) => explain::run(&args, console),
        Command::Complete(args) => complete::run(&args, console),
        Command::Serve(args) => serve::run(&args, console),
        Command::Search(args) => search::run(&args, console),
        Command::Reproduce(args) => reproduce::run(&args, console),
        Command::Data(command) => data::run(command, console),
        Command::Completions(args) => completions::run(&args, Cli::command(), console),
    }
}

/// Does what the words that the program was called with ask for; the exit code says how it went.
pub fn main() -> ExitCode {
    ExitCode::from(main_of(std::env::args_os()))
}

/// The same for these words, the first of which is the program's name.
pub fn main_of(words: impl Iterator<Item = OsString>) -> u8 {
    // A number may be negative, and be told so, instead of being taken for a flag.
    let command = help::grouped(Cli::command()).mut_subcommands(|command| command.allow_negative_numbers(true));
    let cli = match command.try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage::answer(&error),
    };
    let console = Console::new(&cli.globals);
    if console.quiet {
        interrupt::stay_quiet();
    }
    let outcome = globals::within(&cli.globals, || run(cli.command, console));
    globals::finish();
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            let error = interrupt::told(error);
            console.error(&error);
            usage::exit_code(&error)
        }
    }
}
