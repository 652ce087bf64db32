//! `ruge ground`: where the rules fire.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow};
use clap::Args;
use ruge_kg::{Names, Triple, Work};
use ruge_rules::ground::{Grounded, StreamReport, Streaming, Visit, stream_within};
use ruge_rules::io::decimal;
use ruge_rules::{Rule, RuleError, words};
use serde_json::json;

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::rule_args::RuleArgs;
use crate::text::{counted, grouped, percent};
use crate::{interrupt, memory, output, progress};

/// List every valid grounding of a rule file, and the unlabeled triples it concludes
///
/// A grounding is valid if all its premises are training triples and its conclusion is not. The distinct conclusions
/// are the unlabeled triples that guided training learns from.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge ground data/fb15k --rules data/fb15k/rules.tsv
  ruge ground demo --rules rules.tsv --min-conf 0.9 --out groundings.tsv

The output file has one grounding per line: the number of the rule, its confidence, head, relation
and tail of the conclusion, then head, relation and tail of each premise. The relation of a negated
premise has a `!` before it.")]
pub struct GroundArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Rules, in any format of `ruge rules convert`
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    /// Ignore rules below this confidence
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    min_conf: f64,
    /// Output file of the groundings [default: none]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Memory for counting distinct conclusions (512MB, 4GB); a temporary file is used beyond it
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = size)]
    memory: usize,
    /// Maximum number of groundings of all rules together; more are an error
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    max_groundings: u64,
    #[command(flatten)]
    reading: RuleArgs,
}

/// `512MB`, `4GB`, `1000000`.
fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let scale = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        _ => return Err("give a size as in 512MB or 4GB".into()),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number >= 0.0 && number * scale < 1e18 => Ok((number * scale) as usize),
        _ => Err("give a size as in 512MB or 4GB".into()),
    }
}

/// Runs `ruge ground DATA --rules FILE`.
pub fn run(args: &GroundArgs, console: Console) -> Result<()> {
    let inputs = args.data.files().into_iter().chain(args.reading.files(Some(&args.rules)));
    output::refuse_inputs("--out", args.out.as_deref(), inputs)?;
    let loaded = args.data.load(console)?;
    loaded.announce(console);
    let data = &loaded.data;
    let mut names = data.names().clone();
    let file = args.reading.read(&args.rules, &mut names, console)?;
    let chosen: Vec<_> = file.rules.iter().filter(|record| record.confidence.get() >= args.min_conf).collect();
    let rules: Vec<Rule> = chosen.iter().map(|record| record.rule.clone()).collect();

    let started = Instant::now();
    let spinner = progress::spinner(console, "grounding");
    let folder = args.out.as_ref().and_then(|path| path.parent()).filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(std::env::temp_dir, PathBuf::from);
    let held_out = [data.valid(), data.test()];
    let follow = |work: &Work| spinner.set_message(format!("grounding: {} so far", grouped(work.done)));
    let control = interrupt::control().with_listener(&follow);
    let bounds = Streaming { memory: args.memory, folder: &folder, most: args.max_groundings, control: &control };
    let ground = |visit: &mut Visit<'_>| {
        stream_within(data.graph(), &rules, &bounds, &held_out, visit).map_err(|error| match error {
            RuleError::Cancelled(_) => interrupt::error("stopped; no file was written"),
            RuleError::TooManyGroundings { rule, .. } => anyhow!(
                "{}:{}: more than {} groundings; this rule exceeds the limit:\n    {}\n  remedy: remove the rule or \
                 shorten its premise, or allow more with --max-groundings",
                args.rules.display(),
                chosen[rule].line,
                grouped(args.max_groundings),
                crate::shown::text(data, &words::formula(&chosen[rule].rule, &names))
            ),
            RuleError::Grounding(error) => anyhow!(error)
                .context(format!("grounding stopped while writing (temporary files are in {})", folder.display())),
            other => other.into(),
        })
    };
    let report = match &args.out {
        None => ground(&mut |_| Ok(()))?,
        Some(path) => output::to_file(path, |out| {
            writeln!(out, "#rule\tconfidence\thead\trelation\ttail\tpremises")?;
            ground(&mut |Grounded { rule, premises, negated, conclusion }| {
                write!(out, "{}\t{}", chosen[rule].line, decimal(chosen[rule].confidence.get()))?;
                for triple in std::iter::once(&conclusion).chain(premises) {
                    write_triple(out, &names, *triple, "")?;
                }
                for triple in negated {
                    write_triple(out, &names, *triple, "!")?;
                }
                writeln!(out)
            })
        })?,
    };
    spinner.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    for (rule, reason) in &report.not_grounded {
        let record = chosen[*rule];
        console.note(&format!(
            "note: {}:{}: not grounded: {}: {}",
            args.rules.display(),
            record.line,
            reason.reason(),
            crate::shown::text(data, &words::formula(&record.rule, &names))
        ));
    }
    tell(args, rules.len(), &report, held_out.map(<[Triple]>::len), seconds, console)
}

fn write_triple(out: &mut dyn Write, names: &Names, triple: Triple, sign: &str) -> std::io::Result<()> {
    let [head, tail] = [triple.head, triple.tail].map(|id| names.entities.name(id));
    write!(out, "\t{head}\t{sign}{}\t{tail}", names.relations.name(triple.relation))
}

fn tell(
    args: &GroundArgs,
    rules: usize,
    report: &StreamReport,
    held_out: [usize; 2],
    seconds: f64,
    console: Console,
) -> Result<()> {
    if console.json {
        return console.json_result(&json!({
            "rules": rules,
            "groundings": report.groundings,
            "unlabeled": report.unlabeled,
            "in_valid": report.overlaps[0],
            "in_test": report.overlaps[1],
            "seconds": seconds,
            "repeated": report.repeated,
            "not_grounded": report.not_grounded.len(),
            "spilled_runs": report.spilled,
            "peak_memory_mb": memory::peak_mb(),
            "out": args.out,
        }));
    }
    let share =
        |part: u64, whole: u64| if whole == 0 { "none".to_string() } else { percent(part as f64 / whole as f64) };
    let mut text = format!(
        "{}, {}, {} in {seconds:.2} s\n",
        counted(rules, "rule"),
        counted(report.groundings as usize, "grounding"),
        counted(report.unlabeled as usize, "unlabeled triple")
    );
    for (name, overlap, size) in [("valid", report.overlaps[0], held_out[0]), ("test", report.overlaps[1], held_out[1])]
    {
        text.push_str(&format!(
            "{} of them {} in {name}: {} of the unlabeled, {} of {name}\n",
            grouped(overlap),
            if overlap == 1 { "is" } else { "are" },
            share(overlap, report.unlabeled),
            share(overlap, size as u64)
        ));
    }
    if report.repeated > 0 {
        text.push_str(&match report.repeated {
            1 => "1 grounding came from two rules and is counted once\n".into(),
            count => format!("{} groundings came from two rules and are counted once\n", grouped(count)),
        });
    }
    if let Some(path) = &args.out {
        text.push_str(&format!("written to {}\n", path.display()));
    }
    console.result(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("512MB"), Ok(512_000_000));
        assert_eq!(size("1.5g"), Ok(1_500_000_000));
        assert!(size("much").is_err() && size("-1GB").is_err() && size("3TB").is_err());
    }
}
