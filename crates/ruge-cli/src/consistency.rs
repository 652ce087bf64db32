//! `ruge rules consistency`: does the model hold what its rules conclude?

use ruge_kg::{Dataset, Side};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ruge::consistency::{Agreement, CRITERION, Consistency, Doubtful, consistency, doubtful};
use ruge::constraints::Constraints;
use serde_json::json;

use crate::check::report::broken_laws;
use crate::console::Console;
use crate::explain::explainer;
use crate::rule_args::RuleArgs;
use crate::text::{Column, Table, counted, flowing, grouped, percent, plural, wrapped};
use crate::{interrupt, progress, shown};

/// Compare a model with its rules, and list training triples that neither believes
///
/// A rule of confidence λ demands of each grounding that the model hold the conclusion at least λ times as true as the
/// premises together. Shows the share of groundings that meet the demand, next to the share for the model without guidance
/// if the run has one (`unguided/model.safetensors`). With --constraints, listed facts that violate one are listed, too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge rules consistency runs/demo
  ruge rules consistency runs/guided --unguided runs/plain --json
  ruge rules consistency runs/plain --rules rules.tsv --top 50
  ruge rules consistency runs/demo --constraints laws.txt")]
pub struct ConsistencyArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Model without guidance to compare with [default: that of the run, if any]
    #[arg(long, value_name = "MODEL")]
    unguided: Option<PathBuf>,
    /// Rules to use instead of the model's, in any format of `ruge rules convert`
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Number of rules and doubtful triples to show; --json has all rules
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Constraints that facts must obey, one per line; listed facts that violate one are reported
    #[arg(long, value_name = "FILE")]
    constraints: Option<PathBuf>,
    #[command(flatten)]
    reading: RuleArgs,
}

/// Runs `ruge rules consistency MODEL`.
pub fn run(args: &ConsistencyArgs, console: Console) -> Result<()> {
    let engine = crate::open::engine(&args.model, ruge::DeviceName::Cpu, console)?;
    let unguided = args.unguided.clone().or_else(|| twin(&args.model));
    let unguided = unguided.map(|path| crate::open::engine(&path, ruge::DeviceName::Cpu, console)).transpose()?;
    // The model of a whole run has learned from all listed facts, the one beside it from train alone: nobody asked to compare these.
    let is_asked = args.unguided.is_some();
    let unguided = unguided.filter(|other| is_asked || other.data().train() == engine.data().train());
    let explainer = explainer(&engine, args.rules.as_deref(), &args.reading, console)?;
    if explainer.usable().is_empty() {
        bail!("{}: the model has no rules to compare with; give some with --rules FILE", args.model.display());
    }
    let constraints = match &args.constraints {
        Some(path) => Some(Constraints::read(path, engine.data())?),
        None => None,
    };
    let spinner = progress::spinner(console, "comparing");
    let control = interrupt::control();
    let stopped = "stopped before the comparison was done";
    let found = consistency(&explainer, unguided.as_ref(), &control).map_err(interrupt::instead_of(stopped))?;
    let (count, list) = doubtful(&explainer, args.top, &control).map_err(interrupt::instead_of(stopped))?;
    let violations = constraints.map(|constraints| constraints.violations(engine.data()));
    spinner.finish_and_clear();
    if console.json {
        let mut object = serde_json::to_value(&found).context("cannot write JSON")?;
        object["violations"] = serde_json::to_value(&violations).context("cannot write JSON")?;
        object["doubtful"] = json!({"criterion": CRITERION, "count": count, "triples": list});
        return console.json_result(&object);
    }
    let mut text = text(args, &found, (count, &list), engine.data(), console);
    if let Some(violations) = &violations {
        let heading = console.heading("Facts that violate a constraint");
        text.push_str(&format!("\n{heading}\n{}", broken_laws(violations, console)));
    }
    console.result(&text)
}

/// The model without guidance beside a guided one.
fn twin(model: &Path) -> Option<PathBuf> {
    let folder = if model.is_dir() { model } else { model.parent()? };
    let twin = folder.join("unguided").join("model.safetensors");
    twin.is_file().then_some(twin)
}

fn text(
    args: &ConsistencyArgs,
    found: &Consistency,
    (count, list): (usize, &[Doubtful]),
    data: &Dataset,
    console: Console,
) -> String {
    let width = console.width();
    let shares = |model: &Agreement, unguided: &Option<Agreement>| {
        [percent(model.share), unguided.map_or_else(|| "–".into(), |other| percent(other.share))]
    };
    let [model, unguided] = shares(&found.model, &found.unguided);
    let mut text = format!(
        "{} of {}; the model meets the demand of {model}",
        counted(found.groundings, "grounding"),
        counted(found.rules.len(), "rule")
    );
    if found.unguided.is_some() {
        text.push_str(&format!(", without guidance {unguided}"));
    }
    text = flowing(&text, width);
    text.push_str(&format!("{}\n", wrapped(&found.definition, width)));
    let twin = found.unguided.is_some();
    let mut columns = vec![Column::Right; if twin { 4 } else { 3 }];
    columns.push(Column::Text);
    let mut table = Table::new(&columns);
    let row = |cells: [String; 5]| {
        cells.into_iter().enumerate().filter(move |(at, _)| twin || *at != 3).map(|(_, cell)| cell)
    };
    table.head(row(["groundings", "conf.", "met", "unguided", "rule"].map(str::to_string)));
    let mut rules: Vec<_> = found.rules.iter().collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.groundings));
    for rule in rules.iter().take(args.top) {
        let [model, unguided] = shares(&rule.model, &rule.unguided);
        table.row(row([
            grouped(rule.groundings),
            format!("{:.3}", rule.confidence),
            model,
            unguided,
            shown::rule(data, &rule.rule),
        ]));
    }
    text.push_str(&table.render(width));
    if rules.len() > args.top {
        let more = rules.len() - args.top;
        text.push_str(&format!("  and {} more {}; --top N shows more\n", grouped(more), plural(more, "rule")));
    }
    text.push_str(&format!("\n{}\n{}\n", console.heading("Possible mistakes in train"), wrapped(CRITERION, width)));
    if list.is_empty() {
        text.push_str("  none\n");
        return text;
    }
    let mut table = Table::new(&[Column::Right, Column::Right, Column::Name, Column::Name, Column::Name, Column::Text]);
    table.head(["doubt", "if unlisted", "head", "relation", "tail", "rules say"]);
    for triple in list {
        let (mut head, mut tail) = (shown::entity(data, &triple.fact.head), shown::entity(data, &triple.fact.tail));
        // Marked is the end that rules would put another in place of.
        let marked = if triple.side == Side::Head { &mut head } else { &mut tail };
        marked.push_str(" (?)");
        table.row([
            format!("{:.2}", triple.doubt),
            format!("{:.3}", triple.estimate),
            head,
            shown::relation(data, &triple.fact.relation),
            tail,
            triple.instead.iter().map(|name| shown::entity(data, name)).collect::<Vec<_>>().join(", "),
        ]);
    }
    text.push_str(&table.render(width));
    if count > list.len() {
        text.push_str(&format!("  and {} more; --top N shows more\n", grouped(count - list.len())));
    }
    text
}
