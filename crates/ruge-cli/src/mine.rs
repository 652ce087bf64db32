//! `ruge mine`: the rules that hold in a graph.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use ruge::suggest::suggestion;
use ruge_kg::{Dataset, Graph, RelationId};
use ruge_rules::io::decimal;
use ruge_rules::mine::RelationFilter;
use ruge_rules::{MineConfig, Mined, MinedRule, RuleFormat, RuleRecord, RuleWriteOptions, mine, words, write_rules};
use rustc_hash::FxHashSet;
use serde_json::json;

use crate::console::Console;
use crate::data_args::{DataArgs, Loaded};
use crate::run::quoted;
use crate::text::{Column, Table, counted, flowing, grouped};
use crate::usage::UsageError;
use crate::{interrupt, memory, minutes, output, progress};

/// Mine soft rules from the training triples
///
/// Closed Horn rules with AMIE's measures, complete and exact: support, head coverage, standard and PCA confidence. Only
/// train is used. Rules and their measures go to stdout, or to a file with --out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge mine demo --out rules.tsv
  ruge mine data/fb15k --preset ruge-fb15k --out rules.tsv
  ruge mine triples.tsv --min-pca 0.5 --min-support 20 --to anyburl
  ruge mine data/fb15k --preset inductive --out rules.tsv
  ruge mine data/fb15k --max-body 3 --min-hc 0.1 --time-limit 10m --out long.tsv")]
pub struct MineArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Named thresholds; flags override them
    #[arg(long, value_enum, value_name = "PRESET")]
    preset: Option<Preset>,
    /// Maximum number of atoms in a premise: 1, 2 or 3 [default: 2]
    #[arg(long, value_name = "N")]
    max_body: Option<usize>,
    /// Minimum PCA confidence [default: 0.8]
    #[arg(long, value_name = "X")]
    min_pca: Option<f64>,
    /// Minimum head coverage (support / facts of the head relation) [default: 0.01]
    #[arg(long, value_name = "X")]
    min_hc: Option<f64>,
    /// Minimum standard confidence [default: 0]
    #[arg(long, value_name = "X")]
    min_std: Option<f64>,
    /// Minimum support [default: 1; 5 for rules with constants]
    #[arg(long, value_name = "N")]
    min_support: Option<u64>,
    /// Minimum number of facts of a head relation [default: 100]
    #[arg(long, value_name = "N")]
    min_head_size: Option<u64>,
    /// Keep two-atom rules that are no better than one of their atoms alone
    #[arg(long)]
    no_skyline: bool,
    /// Bind different variables to different entities
    #[arg(long)]
    injective: bool,
    /// Also mine rules that name an entity, such as `h(x,c) <= r(x,d)`
    #[arg(long)]
    constants: bool,
    /// Use only these relations as heads: names separated by commas, or @FILE with one per line
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    heads: Option<String>,
    /// Do not use these relations as heads
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    exclude_heads: Option<String>,
    /// Use only these relations in premises
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    bodies: Option<String>,
    /// Do not use these relations in premises
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    exclude_bodies: Option<String>,
    /// Stop after this time (90s, 10m, 1h); rules of finished heads are written
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time_limit: Option<Duration>,
    /// The same in minutes. The rules say which heads are left out: without them, mining gives the same rules again
    #[arg(long, value_name = "M", value_parser = minutes::parse, conflicts_with = "time_limit")]
    minutes: Option<f64>,
    /// Output file [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Output format, see `ruge rules convert --help`
    #[arg(long, value_name = "FORMAT", default_value = "native")]
    to: RuleFormat,
}

/// Thresholds by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// AMIE's own: head coverage 0.01, PCA confidence 0.1
    Amie,
    /// Exactly the 454 rules published with the paper for FB15K
    RugeFb15k,
    /// The presumed thresholds of the rule file published for YAGO37
    RugeYago,
    /// For ranking: low thresholds, rules that name an entity, long paths
    Ranking,
    /// For graphs with other entities (`--graph`): like ranking, no rule names an entity, longer paths
    Inductive,
}

impl MineArgs {
    fn config(&self, data: &Dataset) -> Result<MineConfig> {
        let mut config = match self.preset {
            None => MineConfig::default(),
            Some(Preset::Amie) => MineConfig::amie(),
            Some(Preset::RugeFb15k) => MineConfig::ruge_fb15k(),
            Some(Preset::RugeYago) => MineConfig::ruge_yago(),
            Some(preset @ (Preset::Ranking | Preset::Inductive)) => {
                let (triples, graph) = (data.train().len(), data.graph());
                match preset {
                    Preset::Inductive => MineConfig::inductive(triples, graph.entity_count(), graph.relation_count()),
                    _ => MineConfig::ranking(triples, graph.entity_count(), graph.relation_count()).at_hubs_of(graph),
                }
            }
        };
        let set = |place: &mut f64, value: Option<f64>| *place = value.unwrap_or(*place);
        set(&mut config.min_pca, self.min_pca);
        set(&mut config.min_head_coverage, self.min_hc);
        set(&mut config.min_std, self.min_std);
        config.max_body = self.max_body.unwrap_or(config.max_body);
        config.min_head_size = self.min_head_size.unwrap_or(config.min_head_size);
        if let Some(support) = self.min_support {
            config.min_support = support;
            config.min_constant_support = support;
        }
        config.skyline &= !self.no_skyline;
        config.injective |= self.injective;
        config.constants |= self.constants;
        config.heads = filter(data, &self.heads, &self.exclude_heads)?;
        config.bodies = filter(data, &self.bodies, &self.exclude_bodies)?;
        config.check().map_err(|error| UsageError(error.to_string()))?;
        config.memory = ruge::memory::mining(config.memory);
        Ok(config)
    }
}

fn filter(data: &Dataset, include: &Option<String>, exclude: &Option<String>) -> Result<RelationFilter> {
    Ok(RelationFilter {
        include: include.as_ref().map(|names| relations(data, names)).transpose()?,
        exclude: exclude.as_ref().map(|names| relations(data, names)).transpose()?.unwrap_or_default(),
    })
}

/// `a,b,c` or `@FILE`, each a relation of the data.
fn relations(data: &Dataset, list: &str) -> Result<FxHashSet<RelationId>> {
    let text = match list.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| UsageError(format!("{path}: {error}")))?,
        None => list.replace(',', "\n"),
    };
    let vocabulary = &data.names().relations;
    let find = |name: &str| {
        vocabulary.id(name).ok_or_else(|| {
            let hint = suggestion(name, vocabulary.iter().map(|(_, name)| name));
            UsageError(format!("the data have no relation {name:?}{hint}")).into()
        })
    };
    text.lines().map(str::trim).filter(|name| !name.is_empty()).map(find).collect()
}

/// `90`, `90s`, `10m`, `1.5h`.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let scale = match unit {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("give a time as in 90s, 10m or 1.5h".into()),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| "give a time as in 90s, 10m or 1.5h")? * scale;
    Duration::try_from_secs_f64(seconds).map_err(|_| "give a time that is finite and not negative".into())
}

/// Runs `ruge mine DATA`.
pub fn run(args: &MineArgs, console: Console) -> Result<()> {
    let started = Instant::now();
    let lists = [&args.heads, &args.exclude_heads, &args.bodies, &args.exclude_bodies];
    let lists = lists.into_iter().flatten().filter_map(|list| list.strip_prefix('@')).map(PathBuf::from);
    output::refuse_inputs("--out", args.out.as_deref(), args.data.files().into_iter().chain(lists))?;
    let loaded = args.data.load_train(console)?;
    let control = interrupt::control();
    loaded.announce(console);
    let config = args.config(&loaded.data)?;
    let bar = progress::work(console, "mining", 1);
    let follow = progress::follow(&bar);
    // A limit beyond the end of time is none.
    let limit = args.time_limit.or(args.minutes.map(minutes::duration));
    let deadline = limit.and_then(|limit| started.checked_add(limit));
    if let Some(limit) = limit {
        let limit = minutes::said(limit);
        console.note(&format!("heads that are not searched after {limit} are left out, and named in the rules"));
    }
    let control = control.until(deadline).with_listener(&follow);
    let mining = Instant::now();
    let mined = mine(loaded.data.graph(), &config, &control);
    bar.finish_and_clear();
    tracing::info!("mined in {:.3} s", mining.elapsed().as_secs_f64());
    tracing::info!(
        "{} common-neighbour probes; the sum over head facts of the smaller degree is {}",
        grouped(mined.probes),
        grouped(mined.ideal_probes)
    );
    if let Some(limit) = mined.over_memory {
        bail!(
            "{}: with these thresholds, candidates and rules exceed {:.1} GB of memory; {} of {} heads were searched\n  \
             remedy: raise --min-support, --min-hc or --min-pca, or mine fewer relations at a time with --heads",
            args.data.data.display(),
            limit as f64 / 1e9,
            mined.finished.len(),
            mined.finished.len() + mined.unfinished.len(),
        );
    }
    write(args, &config, &loaded, &mined, console)?;
    let seconds = started.elapsed().as_secs_f64();
    report(args, &config, &loaded, &mined, seconds, console)?;
    if let Some(note) = small_heads(&config, loaded.data.graph()) {
        console.note(&note);
    }
    unfinished(&loaded, &mined, interrupt::came(), console)
}

/// Relations that no rule can conclude, because they have too few facts: on a small graph nearly all of them.
fn small_heads(config: &MineConfig, graph: &Graph) -> Option<String> {
    let wanted = |relation: &RelationId| {
        config.heads.include.as_ref().is_none_or(|heads| heads.contains(relation))
            && !config.heads.exclude.contains(relation)
    };
    let sizes: Vec<u64> = graph.relations().filter(wanted).map(|relation| graph.facts(relation).len() as u64).collect();
    let small = sizes.iter().filter(|&&size| size < config.min_head_size).count();
    // Rare relations of a large graph are left out on purpose.
    (2 * small > sizes.len()).then(|| {
        format!(
            "note: {small} of {} {} fewer than {} facts, so no rule concludes them; --min-head-size N lowers this",
            counted(sizes.len(), "relation"),
            if small == 1 { "has" } else { "have" },
            grouped(config.min_head_size as usize)
        )
    })
}

/// What was applied, for the top of the file.
fn applied(args: &MineArgs, config: &MineConfig) -> String {
    let switch = |on: bool| if on { "on" } else { "off" };
    format!(
        "ruge {} mine {}: premises of at most {} atoms, PCA confidence >= {}, head coverage >= {}, standard confidence >= {}, \
         support >= {}, heads of at least {} facts, skyline {}, {} semantics{}{}",
        env!("CARGO_PKG_VERSION"),
        args.data.data.display(),
        config.max_body,
        decimal(config.min_pca),
        decimal(config.min_head_coverage),
        decimal(config.min_std),
        config.min_support,
        config.min_head_size,
        switch(config.skyline),
        if config.injective { "injective" } else { "homomorphism" },
        if config.constants {
            format!(", constants with support >= {}", config.min_constant_support)
        } else {
            String::new()
        },
        if config.shapes == ruge_rules::mine::Shapes::All {
            ""
        } else {
            ", of two-atom premises only directed chains of other relations"
        },
    )
}

fn write(args: &MineArgs, config: &MineConfig, loaded: &Loaded, mined: &Mined, console: Console) -> Result<()> {
    if args.out.is_none() && console.json {
        return Ok(());
    }
    let names = loaded.data.names();
    let records: Vec<RuleRecord> =
        mined.rules.iter().map(|rule| RuleRecord::counted(rule.rule.clone(), rule.counts)).collect();
    let mut comments = vec![applied(args, config)];
    if !mined.unfinished.is_empty() {
        comments.push(format!("stopped early: {} not in this file", counted(mined.unfinished.len(), "head")));
        // Whoever mines all heads but these gets the same rules without a clock.
        let names = unfinished_names(&loaded.data, mined);
        match names.iter().any(|name| name.contains([',', '\n', '\r'])) || names[0].starts_with('@') {
            false => {
                comments.push(format!("the same rules without a clock: --exclude-heads {}", quoted(&names.join(","))))
            }
            true => {
                comments.push("the same rules without a clock: --exclude-heads @FILE, with these lines in FILE".into());
                comments.extend(names.iter().map(|name| name.to_string()));
            }
        }
    }
    let relations = names.relations.iter().map(|(_, name)| name.to_string()).collect();
    let options = RuleWriteOptions { comments, relations: Some(relations) };
    match &args.out {
        Some(path) => output::to_file(path, |out| Ok(write_rules(out, args.to, &records, names, &options)?)),
        None => {
            let mut text = Vec::new();
            write_rules(&mut text, args.to, &records, names, &options)?;
            console.data_result(&String::from_utf8_lossy(&text))
        }
    }
}

fn report(
    args: &MineArgs,
    config: &MineConfig,
    loaded: &Loaded,
    mined: &Mined,
    seconds: f64,
    console: Console,
) -> Result<()> {
    let atoms = |n: usize| mined.rules.iter().filter(|rule| rule.rule.premise.len() == n).count();
    let constants = mined.rules.iter().filter(|rule| rule.rule.has_constants()).count();
    if console.json {
        let name = |id: &RelationId| loaded.data.names().relations.name(*id).to_string();
        return console.json_result(&json!({
            "rules": mined.rules.len(),
            "one_atom": atoms(1),
            "two_atom": atoms(2),
            "three_atom": atoms(3),
            "with_constants": constants,
            "seconds": seconds,
            "peak_memory_mb": memory::peak_mb(),
            "heads": mined.finished.len(),
            "unfinished_heads": mined.unfinished.iter().map(name).collect::<Vec<_>>(),
            "probes": mined.probes,
            "ideal_probes": mined.ideal_probes,
            "applied": {
                "max_body": config.max_body, "min_pca": config.min_pca, "min_head_coverage": config.min_head_coverage,
                "min_std": config.min_std, "min_support": config.min_support, "min_head_size": config.min_head_size,
                "skyline": config.skyline, "injective": config.injective, "constants": config.constants,
            },
            "out": args.out,
        }));
    }
    let counts = format!(
        "{} ({} with one atom, {} with two{}{}) from {} in {seconds:.2} s",
        counted(mined.rules.len(), "rule"),
        grouped(atoms(1)),
        grouped(atoms(2)),
        if config.max_body > 2 { format!(", {} with three", grouped(atoms(3))) } else { String::new() },
        if config.constants { format!("; {} with constants", grouped(constants)) } else { String::new() },
        counted(mined.finished.len(), "head"),
    );
    let Some(path) = &args.out else {
        console.note(&counts);
        return Ok(());
    };
    let mut text = flowing(&format!("{counts}, written to {}", path.display()), console.width());
    if !mined.rules.is_empty() {
        text.push_str(&format!("\n{}\n", console.heading("The best-supported rules")));
        text.push_str(&best(loaded, &mined.rules, console));
    }
    console.result(&text)
}

fn unfinished_names<'d>(data: &'d Dataset, mined: &Mined) -> Vec<&'d str> {
    mined.unfinished.iter().map(|&id| data.names().relations.name(id)).collect()
}

/// Rules an overview shows.
const SHOWN: usize = 10;

/// A table of the rules that are right most surely: by Wilson's lower bound, one per head.
fn best(loaded: &Loaded, rules: &[MinedRule], console: Console) -> String {
    let mut order: Vec<&MinedRule> = rules.iter().collect();
    let key = |rule: &MinedRule| ruge_rules::measure::wilson_lower(rule.counts.support, rule.counts.pca_body());
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let mut heads = FxHashSet::default();
    let mut table = Table::new(&[Column::Right, Column::Right, Column::Right, Column::Text]);
    table.head(["support", "PCA", "std", "rule"]);
    for rule in order.into_iter().filter(|rule| heads.insert(rule.rule.head())).take(SHOWN) {
        table.row([
            grouped(rule.counts.support),
            format!("{:.3}", rule.counts.pca()),
            format!("{:.3}", rule.counts.standard()),
            words::told(&rule.rule, &loaded.data),
        ]);
    }
    table.render(console.width())
}

/// Says which heads were not searched. A time limit is what the user asked for; an interruption is not success.
fn unfinished(loaded: &Loaded, mined: &Mined, interrupted: bool, console: Console) -> Result<()> {
    if mined.unfinished.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> =
        mined.unfinished.iter().take(SHOWN).map(|&id| loaded.data.names().relations.name(id)).collect();
    let more = mined.unfinished.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!(
        "stopped early: {} of {} {} not searched: {}{more}",
        mined.unfinished.len(),
        counted(mined.unfinished.len() + mined.finished.len(), "head"),
        if mined.unfinished.len() == 1 { "was" } else { "were" },
        names.join(", ")
    );
    if interrupted {
        return Err(interrupt::error(message));
    }
    console.note(&format!("note: {message}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "x", "-1s", "3d", "nan"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
