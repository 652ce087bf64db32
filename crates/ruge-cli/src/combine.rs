//! `ruge combine`: a trained model with rules beside it at ranking time.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use ruge::assemble;
use ruge::combine::{combine, refuse};
use ruge::run::Mode;
use ruge::spec::{RankingRules, RulesSpec};
use ruge_kg::RankError;
use ruge_rules::RuleRecord;
use ruge_rules::rank::evidence::Features;
use ruge_rules::rank::{Hiding, Prepared, Tried, Weighing};
use ruge_rules::words::is_sayable;
use serde_json::json;

use crate::console::Console;
use crate::device::DeviceArgs;
use crate::rule_args::RuleArgs;
use crate::text::{Column, Table, grouped};
use crate::usage::UsageError;
use crate::{interrupt, minutes, progress};

/// Combine a trained model with rules and evidence at ranking time
///
/// A candidate's score is that of the model, plus a weight times that of the rules, plus evidence for or against it: how often
/// it already stands in this role, whether it is already linked to the known end, its degree, its type. All weights are fitted on
/// the model's validation triples, by relation and direction if there are enough data. What does not help gets weight zero. The
/// result is a model like any other: eval, predict, explain and complete take it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge combine runs/complex --out runs/complex-rules
  ruge combine runs/complex --ranking-rules rules.tsv --out runs/complex-rules
  ruge combine runs/complex --ranking-rules none --out runs/complex-evidence
  ruge eval runs/complex-rules")]
pub struct CombineArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Rules to use: `auto` (mined from train, as by `ruge mine --preset ranking`), `none`, or a rule file
    #[arg(long, value_name = "auto|none|FILE", default_value = "auto")]
    ranking_rules: String,
    /// Rule file; the same as --ranking-rules FILE
    #[arg(long, value_name = "FILE", conflicts_with = "ranking_rules")]
    rules: Option<PathBuf>,
    /// Evidence that may count [default: all]
    #[arg(long, value_name = "all|no-link|none", value_parser = crate::settings::evidence())]
    evidence: Option<Features>,
    /// Learn from 200,000 questions instead of 60,000, and fit on 20,000 validation triples instead of 10,000
    #[arg(long)]
    thorough: bool,
    /// Give rules up that are not mined and weighed after M minutes: evidence alone is then fitted, as with --ranking-rules none
    #[arg(long, value_name = "M", value_parser = minutes::parse)]
    minutes: Option<f64>,
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

/// That time was up before rules were ready.
fn too_late(done: &str) -> String {
    format!(
        "note: time is up before all rules were {done}: none is used, as with --ranking-rules none; evidence alone is tried"
    )
}

/// Runs `ruge combine MODEL`.
pub fn run(args: &CombineArgs, console: Console) -> Result<()> {
    let deadline = args.minutes.and_then(|minutes| Instant::now().checked_add(minutes::duration(minutes)));
    let engine = crate::open::engine(&args.model, args.device.name(), console)?;
    let data = engine.data();
    let mode = if args.force { Mode::Force } else { Mode::Fresh };
    let usage = |error| match error {
        ruge::RugeError::Refused(message) => UsageError(message).into(),
        other => anyhow::Error::from(other),
    };
    refuse(engine.spec(), data, &args.out, mode).map_err(usage)?;
    let wanted = match &args.rules {
        Some(path) => Some(path.clone()),
        None => match RankingRules::from(args.ranking_rules.clone()) {
            RankingRules::File(path) => Some(path.into()),
            _ => None,
        },
    };
    let rules: Vec<RuleRecord> = match &wanted {
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
            let wanted = RulesSpec { ranking: args.ranking_rules.clone().into(), ..RulesSpec::default() };
            let control = interrupt::control().until(deadline).with_listener(&follow);
            match assemble::ranking_rules(&wanted, data, &control) {
                Err(error) if error.is_cancelled() && !interrupt::came() => {
                    console.note(&too_late("mined"));
                    Vec::new()
                }
                rules => rules?,
            }
        }
    };
    if rules.is_empty() && args.ranking_rules != "none" {
        console.note("note: no rules were found to combine with the model; evidence alone is tried");
    }
    let weighing = Weighing { evidence: args.evidence.unwrap_or_default(), ..Weighing::of(args.thorough) };
    let prepared = {
        let bar = progress::work(console, "weighing rules", 1);
        let follow = progress::follow(&bar);
        let control = interrupt::control().until(deadline).with_listener(&follow);
        let interrupted = interrupt::instead_of("interrupted; nothing was written or replaced");
        let prepared = match Prepared::beside(rules, data, weighing, &control) {
            Err(RankError::Cancelled(_)) if !interrupt::came() => {
                console.note(&too_late("weighed"));
                Prepared::beside(Vec::new(), data, weighing, &interrupt::control())
            }
            prepared => prepared,
        };
        prepared.map_err(interrupted)?
    };
    let outcome = {
        let _spinner = progress::spinner(console, "fitting on validation");
        combine(&engine, &prepared, &args.out, mode, &interrupt::control()).map_err(usage)?
    };
    if prepared.over_budget > 0 {
        let dropped = grouped(prepared.over_budget);
        console.note(&format!(
            "note: {dropped} of the weakest rules were not used: more per relation than its facts can weigh"
        ));
    }
    let ranking = &outcome.ranking;
    if console.json {
        return console.json_result(&json!({
            "rules": outcome.rules, "uses_rules": ranking.uses_rules(), "fitted_numbers": ranking.fitted,
            "numbers_fitted": ranking.fitted, "valid_mrr": ranking.valid_mrr(), "hiding": ranking.hiding,
            "tried": ranking.tried, "global": ranking.global, "own_settings": ranking.settings.len(),
            "evidence": ranking.evidence.as_ref().map(|evidence| &evidence.features),
            "evidence_tried": ranking.evidence_tried, "over_budget": prepared.over_budget,
            "model": outcome.model,
        }));
    }
    let rows = |heading: &str, tried: &[Tried]| {
        let mut table = Table::new(&[Column::Left, Column::Right, Column::Left]);
        table.row([heading, "validation MRR", ""]);
        for tried in tried {
            let taken = if tried.taken { "taken" } else { "" };
            table.row([tried.what.clone(), format!("{:.4}", tried.mrr), taken.into()]);
        }
        if tried.is_empty() { String::new() } else { table.render(console.width()) + "\n" }
    };
    let rules = match (outcome.rules, ranking.uses_rules()) {
        (0, _) => "no rules".to_string(),
        (rules, true) => format!("combined with {} rules", grouped(rules)),
        (_, false) => "the rules do not help this model: they get weight zero".to_string(),
    };
    let evidence = match &ranking.evidence {
        Some(evidence) => {
            let names: Vec<&str> = evidence.features.iter().map(|feature| feature.name()).collect();
            format!("evidence: {}", names.join(", "))
        }
        None => "no evidence".to_string(),
    };
    let pairs = match ranking.hiding {
        Hiding::Pair => "No validation pair is linked in train: rules were weighed with all links of a pair hidden.\n",
        Hiding::Fact => "",
    };
    let fitted = grouped(ranking.fitted);
    console.result(&format!(
        "{}{}{rules}; {evidence}; {fitted} numbers were fitted\n{pairs}MRR is cross-validated: each half of validation is ranked \
         with what was fitted on the other.\nFor evidence it counts the best 200 answers, known facts of train and validation left \
         out.\nwritten to {}; next: ruge eval {}\n",
        rows("how rules are used", &ranking.tried),
        rows("evidence", &ranking.evidence_tried),
        args.out.display(),
        args.out.display()
    ))
}
