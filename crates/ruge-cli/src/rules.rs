//! `ruge rules verify` and `ruge rules convert`: what a rule file says, and the same in another notation.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use ruge_kg::{Names, Prefixes};
use ruge_rules::count::Counter;
use ruge_rules::io::{RuleFormat, Stated, read_relation_dictionary};
use ruge_rules::verify::{Kind, Verification, verify_under};
use ruge_rules::{RuleError, RuleFile, RuleRecord, RuleWriteOptions, words, write_rules};
use serde_json::json;

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::rule_args::RuleArgs;
use crate::text::{Column, Table, counted, flowing, grouped, wrapped};
use crate::{interrupt, output, progress};

/// What can be done with a rule file.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    Verify(VerifyArgs),
    Convert(ConvertArgs),
    Consistency(crate::consistency::ConsistencyArgs),
}

/// Recount every rule of a file and compare
///
/// For each rule: is its confidence the PCA confidence (and on which side), the standard or the smoothed one, or none of
/// them? For the file: which thresholds would produce it?
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge rules verify data/fb15k --rules data/fb15k/rules.tsv
  ruge rules verify demo --rules mine.txt --json")]
pub struct VerifyArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Rules, in any format of `ruge rules convert`
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    #[command(flatten)]
    reading: RuleArgs,
}

/// Convert a rule file to another format
///
/// Formats: native (ours, with all measures), ruge, amie, anyburl, amie-anyburl, rnnlogic, rpje, nne-aer, kale, prolog,
/// text (for people), json. If a format cannot express a rule, that is an error that names the rule.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge rules convert amie.log --to text
  ruge rules convert rules.tsv --to anyburl --data data/fb15k --out rules.txt

With --data the rules are counted, so formats with counts can be written.")]
pub struct ConvertArgs {
    /// Rule file to convert
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format
    #[arg(long, value_name = "FORMAT")]
    to: RuleFormat,
    /// Data to count the rules in; also gives the order of relations
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,
    /// Output file [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: RuleArgs,
}

/// Runs `ruge rules …`.
pub fn run(command: &RulesCommand, console: Console) -> Result<()> {
    match command {
        RulesCommand::Verify(args) => run_verify(args, console),
        RulesCommand::Convert(args) => run_convert(args, console),
        RulesCommand::Consistency(args) => crate::consistency::run(args, console),
    }
}

fn run_verify(args: &VerifyArgs, console: Console) -> Result<()> {
    let loaded = args.data.load_train(console)?;
    loaded.announce(console);
    let mut names = loaded.data.names().clone();
    let file = args.reading.read(&args.rules, &mut names, console)?;
    let bar = progress::work(console, "counting", file.rules.len() as u64);
    let follow = progress::follow(&bar);
    let control = interrupt::control().with_listener(&follow);
    let verification = verify_under(loaded.data.graph(), &file, &control)
        .map_err(interrupt::instead_of("stopped before all rules were counted"))?;
    bar.finish_and_clear();
    if console.json {
        console.json_result(&verify_json(&file, &verification, &names))
    } else {
        console.result(&verify_text(&file, &verification, &names, loaded.data.prefixes(), console))
    }
}

/// Rules shown one by one when something is wrong with them.
const SHOWN: usize = 20;

fn verify_json(file: &RuleFile, verification: &Verification, names: &Names) -> serde_json::Value {
    let mismatches: Vec<_> = verification
        .rules
        .iter()
        .filter(|rule| rule.is_mismatch())
        .map(|rule| {
            let record = &file.rules[rule.rule];
            json!({
                "line": record.line,
                "rule": words::formula(&record.rule, names),
                "stated": record.confidence.get(),
                "counts": rule.counts,
                "pca": rule.counts.map(|c| c.pca()),
                "std": rule.counts.map(|c| c.standard()),
                "wrong": rule.wrong.iter().map(|(what, said, is)| json!({"what": what, "stated": said, "counted": is})).collect::<Vec<_>>(),
            })
        })
        .collect();
    let equal = |kind| verification.equal.get(&kind).copied().unwrap_or(0);
    let ranges: serde_json::Map<String, serde_json::Value> =
        verification.ranges.iter().map(|(name, range)| (name.replace(' ', "_"), json!(range))).collect();
    json!({
        "rules": file.rules.len(),
        "matching_pca": verification.matching_pca(),
        "matching_std": verification.matching_std(),
        "matching_pca_subject": equal(Kind::PcaSubject),
        "matching_pca_object": equal(Kind::PcaObject),
        "matching_smoothed": equal(Kind::Smoothed),
        "mismatched": verification.mismatched(),
        "unreadable": file.bad.len(),
        "not_counted": verification.rules.iter().filter(|rule| rule.counts.is_none()).count(),
        "duplicates": file.duplicates.len(),
        "format": file.format.name(),
        "verdict": verification.verdict(),
        "ranges": ranges,
        "shapes": verification.shapes,
        "mismatches": mismatches,
    })
}

fn verify_text(
    file: &RuleFile,
    verification: &Verification,
    names: &Names,
    prefixes: &Prefixes,
    console: Console,
) -> String {
    let width = console.width();
    let (rules, bad) = (counted(file.rules.len(), "rule"), counted(file.bad.len(), "unreadable line"));
    let mut text = flowing(&format!("{rules} in {} notation, {bad}", file.format.name()), width);
    text.push_str(&wrapped(&verification.verdict(), width));
    let mut table = Table::new(&[Column::Left, Column::Right]);
    table.row(["PCA, functional side".to_string(), grouped(verification.matching_pca())]);
    for kind in Kind::ALL {
        table.row([kind.name().to_string(), grouped(verification.equal.get(&kind).copied().unwrap_or(0))]);
    }
    table.row(["none of these, or wrong counts".to_string(), grouped(verification.mismatched())]);
    text.push_str(&format!("\n{}\n{}", console.heading("The stated confidence equals"), table.render(width)));

    let mut table = Table::new(&[Column::Left, Column::Right, Column::Right]);
    table.head(["", "lowest", "highest"]);
    for (name, range) in &verification.ranges {
        let show = |value: f64| {
            if value.fract() == 0.0 && value > 1.0 { grouped(value as u64) } else { format!("{value:.6}") }
        };
        table.row([(*name).to_string(), show(range.lowest), show(range.highest)]);
    }
    text.push_str(&format!("\n{}\n{}", console.heading("What the data say"), table.render(width)));

    let mut table = Table::new(&[Column::Right, Column::Left]);
    for (shape, count) in &verification.shapes {
        table.row([grouped(*count), shape.pattern().to_string()]);
    }
    text.push_str(&format!("\n{}\n{}", console.heading("Premises, for a head h(x,y)"), table.render(width)));

    let wrong: Vec<_> = verification.rules.iter().filter(|rule| rule.is_mismatch()).collect();
    if !wrong.is_empty() {
        text.push_str(&format!("\n{}\n", console.heading("Mismatches")));
        for rule in wrong.iter().take(SHOWN) {
            let record = &file.rules[rule.rule];
            let counted = rule.counts.map_or_else(String::new, |c| {
                format!("PCA {:.6}, standard {:.6}, support {}, body {}", c.pca(), c.standard(), c.support, c.body)
            });
            text.push_str(&format!(
                "  line {}: stated {}, counted {counted}\n    {}\n",
                record.line,
                record.confidence.get(),
                prefixes.shorten_all(&words::formula(&record.rule, names))
            ));
            for (what, said, is) in &rule.wrong {
                text.push_str(&format!("    {what}: stated {said}, counted {is}\n"));
            }
        }
        if wrong.len() > SHOWN {
            text.push_str(&format!("  and {} more; --json lists them all\n", grouped(wrong.len() - SHOWN)));
        }
    }
    text
}

fn run_convert(args: &ConvertArgs, console: Console) -> Result<()> {
    let data = args.data.as_deref().map(DataArgs::plain);
    let inputs = data.iter().flat_map(DataArgs::files).chain(args.reading.files(Some(&args.file)));
    output::refuse_inputs("--out", args.out.as_deref(), inputs)?;
    let loaded = data.map(|data| data.load_train(console)).transpose()?;
    let mut names = loaded.as_ref().map_or_else(Names::default, |loaded| loaded.data.names().clone());
    let known = loaded.as_ref().map_or(0, |loaded| loaded.data.relation_count());
    let file = args.reading.read(&args.file, &mut names, console)?;
    let mut rules: Vec<RuleRecord> = file.rules;
    if let Some(loaded) = &loaded {
        let mut counter = Counter::new(loaded.data.entity_count());
        let control = interrupt::control();
        for record in &mut rules {
            record.counts = counter
                .count_under(loaded.data.graph(), &record.rule, &control)
                .map_err(interrupt::instead_of("stopped before all rules were counted; nothing was written"))?;
            // What the data say is written, not what the file says of other data.
            record.stated = record.counts.as_ref().map_or_else(|| record.stated, Stated::from);
        }
    }
    let relations = match &args.reading.relation_ids {
        Some(path) => Some(read_relation_dictionary(path)?),
        None if known > 0 => Some(names.relations.iter().take(known).map(|(_, name)| name.to_string()).collect()),
        None => None,
    };
    let options = RuleWriteOptions { comments: file.comments, relations };
    let write = |out: &mut dyn Write| {
        write_rules(out, args.to, &rules, &names, &options).map_err(|error| match error {
            RuleError::Unsayable { format, rule, needs_data: true, .. } if loaded.is_some() => {
                let reason = "its columns are counts, and this rule cannot be counted".into();
                RuleError::Unsayable { format, rule, reason, needs_data: false }
            }
            other => other,
        })
    };
    let count = rules.len();
    match &args.out {
        Some(path) => {
            output::to_file(path, |out| Ok(write(out)?))?;
            if !console.json {
                console.result(&format!("{} written to {}\n", counted(count, "rule"), path.display()))?;
            }
        }
        None => {
            let mut text = Vec::new();
            write(&mut text)?;
            if !console.json {
                return console.data_result(&String::from_utf8_lossy(&text));
            }
        }
    }
    if console.json {
        let done = json!({"rules": count, "unreadable": file.bad.len(), "from": file.format.name(), "to": args.to.name(), "out": args.out});
        return console.json_result(&done);
    }
    Ok(())
}
