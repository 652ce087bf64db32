//! `ruge combine`: a trained model with rules beside it at ranking time.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use ruge::assemble;
use ruge::combine::{combine, refuse};
use ruge::run::Mode;
use ruge::spec::{MinePreset, RulesSpec};
use ruge_rules::RuleRecord;
use ruge_rules::rank::{Effort, Prepared};
use ruge_rules::words::is_sayable;
use serde_json::json;

use crate::console::Console;
use crate::device::DeviceArgs;
use crate::rule_args::RuleArgs;
use crate::text::{Column, Table, grouped};
use crate::usage::UsageError;
use crate::{interrupt, progress};

/// Combine a trained model with rules at ranking time
///
/// A candidate's score is that of the model plus a weight times that of the rules. The weight, and how rules are summed, are
/// fitted on the model's validation triples, by relation and direction if there are enough data. Rules that do not help get
/// weight zero. The result is a model like any other: eval, predict, explain and complete take it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge combine runs/complex --out runs/complex-rules
  ruge combine runs/complex --rules rules.tsv --out runs/complex-rules
  ruge eval runs/complex-rules")]
pub struct CombineArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Rules to use [default: mined from train, as by `ruge mine --preset ranking`]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Learn from 200,000 questions instead of 60,000, and fit on 20,000 validation triples instead of 10,000
    #[arg(long)]
    thorough: bool,
    /// Output folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace an existing run when the new one is finished
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    reading: RuleArgs,
}

/// Runs `ruge combine MODEL`.
pub fn run(args: &CombineArgs, console: Console) -> Result<()> {
    let engine = crate::open::engine(&args.model, args.device.name(), console)?;
    let data = engine.data();
    let mode = if args.force { Mode::Force } else { Mode::Fresh };
    let usage = |error| match error {
        ruge::RugeError::Refused(message) => UsageError(message).into(),
        other => anyhow::Error::from(other),
    };
    refuse(engine.spec(), data, &args.out, mode).map_err(usage)?;
    let rules: Vec<RuleRecord> = match &args.rules {
        Some(path) => {
            let mut names = data.names().clone();
            let mut rules = args.reading.read(path, &mut names, console)?.rules;
            let all = rules.len();
            rules.retain(|record| is_sayable(&record.rule, data.names()));
            if rules.len() < all {
                let lost = all - rules.len();
                console.note(&format!("note: {lost} rules name relations or entities the data do not have; ignored"));
            }
            rules
        }
        None => {
            let bar = progress::work(console, "mining rules", 1);
            let follow = progress::follow(&bar);
            let wanted = RulesSpec { mine: MinePreset::Ranking, ..RulesSpec::default() };
            assemble::rules_of(&wanted, data, &interrupt::control().with_listener(&follow))?
        }
    };
    if rules.is_empty() {
        bail!("no rules were found to combine with the model; give a file with --rules");
    }
    let prepared = {
        let bar = progress::work(console, "weighing rules", 1);
        let follow = progress::follow(&bar);
        let control = interrupt::control().with_listener(&follow);
        let interrupted = interrupt::instead_of("interrupted; nothing was written or replaced");
        Prepared::beside(rules, data, Effort::of(args.thorough), &control).map_err(interrupted)?
    };
    let outcome = {
        let _spinner = progress::spinner(console, "fitting on validation");
        combine(&engine, &prepared, &args.out, mode, &interrupt::control()).map_err(usage)?
    };
    let ranking = &outcome.ranking;
    if console.json {
        return console.json_result(&json!({
            "rules": outcome.rules, "uses_rules": ranking.uses_rules(), "fitted_numbers": ranking.fitted,
            "tried": ranking.tried, "global": ranking.global, "own_settings": ranking.settings.len(),
            "model": outcome.model,
        }));
    }
    let mut table = Table::new(&[Column::Left, Column::Right, Column::Left]);
    table.row(["how rules are used", "validation MRR", ""]);
    for tried in &ranking.tried {
        let taken = if tried.taken { "taken" } else { "" };
        table.row([tried.what.clone(), format!("{:.4}", tried.mrr), taken.into()]);
    }
    let said = if ranking.uses_rules() {
        format!("combined with {} rules; {} numbers were fitted", grouped(outcome.rules), grouped(ranking.fitted))
    } else {
        "the rules do not help this model: they get weight zero".to_string()
    };
    console.result(&format!(
        "{}\n{said}\nMRR is cross-validated: each half of validation is ranked with what was fitted on the other.\nwritten to {}; next: ruge eval {}\n",
        table.render(console.width()),
        args.out.display(),
        args.out.display()
    ))
}
