//! `ruge combine`: a trained model with rules beside it at ranking time.

mod time;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use ruge::assemble;
use ruge::combine::{combine, refuse};
use ruge::run::Mode;
use ruge::spec::{RankingRules, RulesSpec};
use ruge_kg::Dataset;
use ruge_rules::rank::evidence::Features;
use ruge_rules::rank::{Effort, Hiding, Prepared, Tried, Weighing};
use ruge_rules::words::is_sayable;
use ruge_rules::{RuleFormat, RuleRecord, RuleWriteOptions, write_rules};
use serde_json::json;

use crate::console::Console;
use crate::device::DeviceArgs;
use crate::rule_args::RuleArgs;
use crate::run::quoted;
use crate::text::{Column, Table, counted, flowing, grouped};
use crate::usage::UsageError;
use crate::{interrupt, minutes, output, progress};
use time::Clock;

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
    /// Learn from QUESTIONS questions and fit on TRIPLES validation triples; with 0 questions, rules weigh what was counted
    #[arg(long, value_name = "QUESTIONS,TRIPLES", value_parser = effort, conflicts_with = "thorough")]
    effort: Option<Effort>,
    /// End within about M minutes: rules, questions and validation triples that the time is not enough for are left out
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

/// `60000,10000`.
fn effort(text: &str) -> Result<Effort, String> {
    let numbers = text.split_once(',').map(|(questions, triples)| (questions.trim().parse(), triples.trim().parse()));
    match numbers {
        Some((Ok(questions), Ok(triples))) if triples > 0 => Ok(Effort { questions, triples }),
        _ => Err("give a number of questions and a number of validation triples, as in 60000,10000".into()),
    }
}

/// Runs `ruge combine MODEL`.
pub fn run(args: &CombineArgs, console: Console) -> Result<()> {
    let clock = args.minutes.map(Clock::new);
    if let Some(clock) = &clock {
        console.note(&clock.plan());
    }
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
                let name = if lost == 1 { "names" } else { "name" };
                let rules = counted(lost, "rule");
                console.note(&format!("note: {rules} {name} relations or entities the data do not have; ignored"));
            }
            rules
        }
        None => match clock.filter(|_| args.ranking_rules != "none") {
            Some(clock) => clock.mine(data, console)?,
            None => {
                let bar = progress::work(console, "mining rules", 1);
                let follow = progress::follow(&bar);
                let wanted = RulesSpec { ranking: args.ranking_rules.clone().into(), ..RulesSpec::default() };
                assemble::ranking_rules(&wanted, data, &interrupt::control().with_listener(&follow))?
            }
        },
    };
    if rules.is_empty() && args.ranking_rules != "none" {
        console.note("note: no rules were found to combine with the model; evidence alone is tried");
    }
    let mut weighing = Weighing { evidence: args.evidence.unwrap_or_default(), ..Weighing::of(args.thorough) };
    weighing.effort = args.effort.unwrap_or(weighing.effort);
    let weigh = |rules: Vec<RuleRecord>| {
        let bar = progress::work(console, "weighing rules", 1);
        let follow = progress::follow(&bar);
        Prepared::beside(rules, data, weighing, &interrupt::control().with_listener(&follow))
            .map_err(interrupt::instead_of("interrupted; nothing was written or replaced"))
    };
    let prepared = match clock {
        None => weigh(rules)?,
        Some(clock) => {
            let prepared = match clock.weigh(rules, data, weighing, console)? {
                Some(prepared) => prepared,
                None => {
                    console.note("note: time is up before rules were filed: none is used, evidence alone is tried");
                    weigh(Vec::new())?
                }
            };
            clock.size(&engine, prepared, console)?
        }
    };
    let outcome = {
        let _spinner = progress::spinner(console, "fitting on validation");
        combine(&engine, &prepared, &args.out, mode, &interrupt::control()).map_err(usage)?
    };
    if prepared.over_budget > 0 {
        let dropped = match prepared.over_budget {
            1 => "the weakest rule was".to_string(),
            count => format!("{} of the weakest rules were", grouped(count)),
        };
        console.note(&format!("note: {dropped} not used: more per relation than its facts can weigh"));
    }
    let ranking = &outcome.ranking;
    let repeat = clock.map(|_| repeat(args, &prepared, weighing, wanted.as_deref(), data)).transpose()?;
    if console.json {
        return console.json_result(&json!({
            "repeat": repeat,
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
        table.head([heading, "validation MRR", ""]);
        for tried in tried {
            let taken = if tried.taken { "taken" } else { "" };
            table.row([tried.what.clone(), format!("{:.4}", tried.mrr), taken.into()]);
        }
        if tried.is_empty() { String::new() } else { table.render(console.width()) + "\n" }
    };
    let rules = match (outcome.rules, ranking.uses_rules()) {
        (0, _) => "no rules".to_string(),
        (rules, true) => format!("combined with {}", counted(rules, "rule")),
        (1, false) => "the rule does not help this model: it gets weight zero".to_string(),
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
        Hiding::Pair => "No validation pair is linked in train: rules were weighed with all links of a pair hidden.",
        Hiding::Fact => "",
    };
    let fitted = match ranking.fitted {
        1 => "1 number was".to_string(),
        count => format!("{} numbers were", grouped(count)),
    };
    let width = console.width();
    let said = [
        format!("{rules}; {evidence}; {fitted} fitted"),
        pairs.to_string(),
        "MRR is cross-validated: each half of validation is ranked with what was fitted on the other.".to_string(),
        "For evidence it counts the best 200 answers, known facts of train and validation left out.".to_string(),
    ];
    let said: String = said.iter().filter(|line| !line.is_empty()).map(|line| flowing(line, width)).collect();
    console.result(&format!(
        "{}{}{said}{}written to {}; next: ruge eval {}\n",
        rows("how rules are used", &ranking.tried),
        rows("evidence", &ranking.evidence_tried),
        repeat.map_or_else(String::new, |repeat| format!("the same without a clock: {repeat}\n")),
        args.out.display(),
        args.out.display()
    ))
}

/// The command that gives the same model without a clock, written at the top of the spec as well. The rules that came of it stand
/// beside the spec, however many they are, unless they are those of a file.
fn repeat(
    args: &CombineArgs,
    prepared: &Prepared,
    wanted: Weighing,
    file: Option<&Path>,
    data: &Dataset,
) -> Result<String> {
    let own = args.out.join("rules.tsv");
    if file.is_none() && !prepared.rules.is_empty() && !own.exists() {
        output::to_file(&own, |out| {
            let options = RuleWriteOptions::default();
            Ok(write_rules(out, RuleFormat::Native, &prepared.rules, data.names(), &options)?)
        })?;
    }
    let evidence = match wanted.evidence {
        Features::All => "",
        Features::NoLink => " --evidence no-link",
        Features::None => " --evidence none",
    };
    let command = format!(
        "ruge combine {} {}{evidence} --out {}",
        quoted(&args.model.display().to_string()),
        time::flags(prepared, file.unwrap_or(&own)),
        quoted(&format!("{}-again", args.out.display()))
    );
    let path = args.out.join("spec.toml");
    let spec = std::fs::read_to_string(&path).with_context(|| format!("{}: cannot read", path.display()))?;
    let text = format!("# the same without a clock: {command}\n{spec}");
    output::to_file(&path, |file| {
        file.write_all(text.as_bytes()).with_context(|| format!("{}: cannot write", path.display()))
    })?;
    Ok(command)
}
