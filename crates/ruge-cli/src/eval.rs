//! `ruge eval`: how good a model is, by exact filtered ranking.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use ruge::evaluate::{Questions, in_ids_of, ranks_sha256};
use ruge::model_file::ModelFile;
use ruge::{Engine, GuidanceSpec, ModelName, OpenOptions};
use ruge_embed::{Evaluation, Metrics, PathReport};
use ruge_kg::{Dataset, PageRank, Rank, Side, Ties, Triple, load};
use ruge_rules::rank::only::RulesOnly;
use ruge_rules::{RuleRecord, SoftRule};
use serde_json::{Value, json};

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::device::DeviceArgs;
use crate::open::GraphArgs;
use crate::path_words::path_words;
use crate::text::{Column, Table, counted, flowing, grouped};
use crate::usage::UsageError;
use crate::{interrupt, memory, progress};

/// Rank the true answer of every held-out triple among all entities
///
/// Both sides of every triple are ranked; candidates that form another known fact are ignored (filtered). Ties get their
/// mean rank by default. With DATA, the model is evaluated on other data, and the known facts are those of DATA. The model
/// must know all its names, and must not have been trained on the triples in question.
///
/// With --graph, the questions are about a graph with entities of its own. Its train holds the facts that rules start from.
/// Two more figures are shown: Hits@10 among 50 negatives, and the ranking by personalised PageRank as a baseline.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge eval runs/ruge
  ruge eval runs/ruge --split valid --by-relation
  ruge eval runs/ruge/model.safetensors data/fb15k --json
  ruge eval runs/rules --graph data/other
  ruge eval runs/codex --classify data/codex-s")]
pub struct EvalArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Other data to evaluate on [default: the data stored in the model]
    #[arg(value_name = "DATA", conflicts_with = "graph")]
    data: Option<PathBuf>,
    /// Split to evaluate on
    #[arg(long, value_enum, value_name = "SPLIT", default_value_t = SplitArg::Test)]
    split: SplitArg,
    /// Also show figures by relation
    #[arg(long)]
    by_relation: bool,
    /// Rank of equal scores
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = TiesArg::Mean)]
    ties: TiesArg,
    /// N of Hits@N
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 3, 5, 10])]
    hits: Vec<u32>,
    /// Classify facts against these verified negatives instead of ranking: a folder with valid_negatives and
    /// test_negatives, or the test file with the valid file next to it
    #[arg(long, value_name = "NEGATIVES", conflicts_with_all = ["split", "ties", "hits"])]
    classify: Option<PathBuf>,
    /// Memory for entity vectors, in MB
    #[arg(long, value_name = "MB", default_value_t = 1024)]
    memory: usize,
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SplitArg {
    Test,
    Valid,
    Train,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TiesArg {
    Mean,
    Optimistic,
    Pessimistic,
}

/// Runs `ruge eval MODEL`.
pub fn run(args: &EvalArgs, console: Console) -> Result<()> {
    if args.hits.contains(&0) {
        bail!(UsageError("--hits: N must be at least 1".into()));
    }
    let packing = Some(args.memory.saturating_mul(1 << 20));
    // Of a run, the model that has not seen the held-out facts.
    let model = ModelFile::evaluated(&args.model);
    let engine = crate::open::with(&model, &OpenOptions { device: args.device.name(), packing }, console)?;
    let (engine, graph) = args.graph.place(engine, console)?;
    if let Some(given) = &graph {
        refuse_unknown(args, &engine, given, console)?;
    }
    let other = match &args.data {
        // Classification has no --split: it learns from valid and is judged on test.
        Some(path) if args.classify.is_some() => {
            other_data(path, &[SplitArg::Valid, SplitArg::Test], engine.data(), console)?
        }
        Some(path) => other_data(path, &[args.split], engine.data(), console)?,
        None => None,
    };
    let data = other.as_ref().unwrap_or(engine.data());
    if let Some(negatives) = &args.classify {
        return crate::classify::run(negatives, &engine, data, console);
    }
    let (name, triples) = args.split.of(data);
    let saw_all = engine.notes().get("trained_on").is_some_and(|on| on == "all");
    if saw_all && !matches!(args.split, SplitArg::Train) {
        bail!(
            "{}: this model was trained on every listed fact, {name} included, so it knows the answers\n  remedy: evaluate the \
             run folder, or evaluated/model.safetensors in it",
            args.model.display()
        );
    }
    if triples.is_empty() {
        bail!("the data have no {name} triples; choose another --split");
    }
    // Other data were warned about when they were read.
    if other.is_none() && matches!(args.split, SplitArg::Test) {
        for warning in load::of_test(data, triples) {
            console.note(&format!("warning: {warning}"));
        }
    }
    let ties = match args.ties {
        TiesArg::Mean => Ties::Mean,
        TiesArg::Optimistic => Ties::Optimistic,
        TiesArg::Pessimistic => Ties::Pessimistic,
    };
    let questions = Questions { ties, hits: args.hits.clone(), ..Questions::about(triples, data.filter()) };
    let count = questions.queries.len();
    let bar = progress::work(console, "ranking", count as u64);
    let started = Instant::now();
    let follow = progress::follow(&bar);
    let ranked = questions.rank(engine.ranker(), &interrupt::control().with_listener(&follow));
    let stopped = format!("stopped after {} of {count} queries", bar.position());
    let ranks = ranked.map_err(interrupt::instead_of(&stopped))?;
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let evaluation = questions.evaluation(&ranks, engine.data().graph());
    let stopped = "stopped while ranking by the rules alone";
    let rules_only = rules_only(&engine, &questions).map_err(interrupt::instead_of(stopped))?;
    let digest = ranks_sha256(&ranks);
    let unseen = match graph {
        Some(_) => Some(Unseen::of(&engine, &questions, &ranks).map_err(interrupt::instead_of(stopped))?),
        None => None,
    };
    if console.json {
        let mut object = object(args, &engine, &evaluation, seconds, name, &digest);
        if let Some(metrics) = &rules_only {
            object["rules_only"] = figures(metrics);
        }
        if let Some(paths) = paths(&engine) {
            object["paths"] = json!(paths);
        }
        if let Some(unseen) = &unseen {
            object["hits10_of_50"] = unseen.hits10_of_50.into();
            object["pagerank"] = figures(&unseen.pagerank);
            object["pagerank"]["hits10_of_50"] = unseen.pagerank_of_50.into();
        }
        console.json_result(&object)
    } else {
        let rows = Rows { rules_only: rules_only.as_ref(), unseen: unseen.as_ref() };
        console.result(&report(args, &engine, &evaluation, &rows, seconds, name, console))
    }
}

/// Figures for a graph that the model has never seen.
struct Unseen {
    hits10_of_50: f64,
    pagerank: Metrics,
    pagerank_of_50: f64,
}

/// Rows of the table that not every evaluation has.
struct Rows<'a> {
    rules_only: Option<&'a Metrics>,
    unseen: Option<&'a Unseen>,
}

impl Unseen {
    fn of(engine: &Engine, questions: &Questions<'_>, ranks: &[Rank]) -> ruge::Result<Self> {
        let of_50 = |ranks: &[Rank]| {
            let hits = ranks.iter().map(|rank| rank.filtered.hit_among(50, 10, questions.ties));
            hits.sum::<f64>() / ranks.len().max(1) as f64
        };
        let by_pagerank = questions.rank(&PageRank::new(engine.data().shared_graph()), &interrupt::control())?;
        Ok(Self {
            hits10_of_50: of_50(ranks),
            pagerank: questions.metrics(&by_pagerank),
            pagerank_of_50: of_50(&by_pagerank),
        })
    }
}

/// Refuses questions about relations that the model does not know, and says how many entities no fact is about.
fn refuse_unknown(args: &EvalArgs, engine: &Engine, given: &Dataset, console: Console) -> Result<()> {
    let (split, triples) = args.split.of(given);
    let path = args.graph.graph.as_deref().unwrap_or(Path::new(""));
    let unknown = |triple: &&Triple| engine.relation(given.names().relations.name(triple.relation)).is_err();
    if let Some(first) = triples.iter().find(unknown) {
        let asked = triples.iter().filter(unknown).count();
        let place = format!("{}: {} of {} {split} triples", path.display(), grouped(asked), grouped(triples.len()));
        let error = engine.relation(given.names().relations.name(first.relation)).err();
        let words = error.map_or_else(String::new, |error| error.to_string());
        bail!(
            "{place} ask about relations that the model does not know: {words}\n  remedy: remove these triples, or rename the relation"
        );
    }
    let ends = || triples.iter().flat_map(|triple| [triple.head, triple.tail]);
    let mut new: Vec<_> = ends().filter(|&entity| engine.data().graph().degree(entity) == 0).collect();
    new.sort_unstable();
    new.dedup();
    if !new.is_empty() && !matches!(args.split, SplitArg::Train) {
        console.note(&format!(
            "note: {} in no train fact that the model knows, so no rule reaches {}",
            match new.len() {
                1 => "1 entity of the questions is".into(),
                count => format!("{} entities of the questions are", grouped(count)),
            },
            if new.len() == 1 { "it" } else { "them" }
        ));
    }
    Ok(())
}

impl SplitArg {
    fn of(self, data: &Dataset) -> (&'static str, &[Triple]) {
        match self {
            SplitArg::Test => ("test", data.test()),
            SplitArg::Valid => ("valid", data.valid()),
            SplitArg::Train => ("train", data.train()),
        }
    }
}

/// Other data than the model's, in the model's ids; nothing where they are the same. Refuses names the model does not know, and
/// questions whose answers it was trained on.
fn other_data(path: &Path, asked: &[SplitArg], own: &Dataset, console: Console) -> Result<Option<Dataset>> {
    let loaded = DataArgs::plain(path).load(console)?;
    let given = &loaded.data;
    let remedy = "remedy: omit DATA to evaluate on the triples stored in the model";
    let found = in_ids_of(own, given).map_err(|error| anyhow!("{}: {error}\n  {remedy}", path.display()))?;
    let Some(data) = found else { return Ok(None) };
    for split in asked.iter().filter(|split| !matches!(split, SplitArg::Train)) {
        let (name, triples) = split.of(&data);
        let seen = triples.iter().filter(|triple| own.graph().contains(**triple)).count();
        if seen > 0 {
            bail!(
                "{}: the model was trained on {} of these {} {name} triples, so it knows the answers{}\n  {remedy}",
                path.display(),
                grouped(seen),
                grouped(triples.len()),
                if path.is_file() { "; a single file is split with --seed 0" } else { "" }
            );
        }
    }
    loaded.announce(console);
    console.note("note: evaluating on data other than the model's training data; known facts are those of DATA");
    Ok(Some(data))
}

/// What the rules of a guided model reach without it: the highest confidence decides, ties count as for the model.
fn rules_only(engine: &Engine, questions: &Questions<'_>) -> ruge::Result<Option<Metrics>> {
    let ranks = match engine.rules_alone() {
        Some(alone) => questions.rank(&alone, &interrupt::control())?,
        // Where rules alone are the model, the row is its own.
        None if engine.rules().is_empty() || engine.ranking().is_some() => return Ok(None),
        None => {
            let rules: Vec<SoftRule> = engine.rules().iter().map(RuleRecord::soft).collect();
            // They conclude from what the model was trained on.
            questions.rank_by_rules(&RulesOnly::new(engine.data().graph(), &rules), &interrupt::control())?
        }
    };
    Ok(Some(questions.metrics(&ranks)))
}

/// What training found of relation paths, as the model file has it.
fn paths(engine: &Engine) -> Option<PathReport> {
    serde_json::from_str(engine.notes().get("paths")?).ok()
}

/// The figures of a ranking as scripts know them.
pub fn figures(metrics: &Metrics) -> Value {
    json!({
        "mrr": metrics.mrr, "med": metrics.median, "hits": metrics.hits, "mean_rank": metrics.mean_rank,
        "adjusted_mean_rank_index": metrics.adjusted_mean_rank_index, "queries": metrics.queries,
    })
}

fn object(args: &EvalArgs, engine: &Engine, evaluation: &Evaluation, seconds: f64, split: &str, digest: &str) -> Value {
    let side = |side: Side| evaluation.by_side.get(&side).map_or(Value::Null, figures);
    let mut object = figures(&evaluation.pooled);
    object["head"] = side(Side::Head);
    object["tail"] = side(Side::Tail);
    object["seconds"] = seconds.into();
    object["split"] = split.into();
    object["raw"] = figures(&evaluation.raw);
    object["optimistic"] = figures(&evaluation.optimistic);
    object["pessimistic"] = figures(&evaluation.pessimistic);
    object["macro"] = figures(&evaluation.macro_average);
    object["by_category"] = evaluation
        .by_category
        .iter()
        .map(|(category, side, metrics)| json!({"category": category, "side": side, "metrics": figures(metrics)}))
        .collect();
    object["ranks_sha256"] = digest.into();
    object["peak_memory_mb"] = json!(memory::peak_mb());
    if args.by_relation {
        let names = &engine.data().names().relations;
        object["by_relation"] = evaluation
            .by_relation
            .iter()
            .map(|(relation, metrics)| (names.name(*relation).to_string(), figures(metrics)))
            .collect::<serde_json::Map<_, _>>()
            .into();
    }
    object
}

fn report(
    args: &EvalArgs,
    engine: &Engine,
    evaluation: &Evaluation,
    rows: &Rows<'_>,
    seconds: f64,
    split: &str,
    console: Console,
) -> String {
    let width = console.width();
    let spec = engine.spec();
    let guided = match spec.guidance() {
        GuidanceSpec::None => String::new(),
        GuidanceSpec::PTransE { path_length, rerank, .. } => {
            format!(" guided by ptranse (paths of up to {path_length} steps, {} candidates re-ranked)", grouped(rerank))
        }
        // The rules of the file are those beside it, then.
        _ if engine.ranking().is_some() => format!(" guided by {}", spec.guidance().name()),
        _ => format!(" guided by {} ({})", spec.guidance().name(), counted(engine.rules().len(), "rule")),
    };
    let beside = match engine.ranking() {
        Some(ranking) if spec.model.name != ModelName::Rules && ranking.uses_rules() => {
            format!(" combined with {}", counted(engine.rules().len(), "rule"))
        }
        _ => String::new(),
    };
    let model = match spec.model.name {
        ModelName::Rules => counted(engine.rules().len(), "rule"),
        name => format!("{} of dimension {}{guided}{beside}", name.name(), spec.model.dimension),
    };
    let queries = grouped(evaluation.pooled.queries);
    let mut text = flowing(&format!("{model}: {queries} {split} queries in {seconds:.2} s"), width) + "\n";
    if let Some(report) = paths(engine) {
        text.insert_str(text.len() - 1, &format!("{}\n", path_words(&report).join("\n")));
    }
    let mut columns = vec![Column::Left, Column::Right, Column::Right];
    columns.extend(args.hits.iter().map(|_| Column::Right));
    columns.push(Column::Right);
    let mut table = Table::new(&columns);
    let mut head = vec![String::new(), "MRR".into(), "MED".into()];
    head.extend(args.hits.iter().map(|n| format!("H@{n}")));
    head.push("mean rank".into());
    table.head(head);
    let mut row = |name: String, metrics: &Metrics| {
        let mut cells = vec![name, format!("{:.4}", metrics.mrr), format!("{:.1}", metrics.median)];
        cells.extend(args.hits.iter().map(|n| format!("{:.4}", metrics.hits.get(n).unwrap_or(&0.0))));
        cells.push(format!("{:.1}", metrics.mean_rank));
        table.row(cells);
    };
    row("filtered".into(), &evaluation.pooled);
    for (side, metrics) in &evaluation.by_side {
        row(format!("  {}", if *side == Side::Head { "heads" } else { "tails" }), metrics);
    }
    if let Some(metrics) = rows.rules_only {
        row("rules alone".into(), metrics);
    }
    if let Some(unseen) = rows.unseen {
        row("PageRank".into(), &unseen.pagerank);
    }
    row("raw".into(), &evaluation.raw);
    row("mean over relations".into(), &evaluation.macro_average);
    for (category, side, metrics) in &evaluation.by_category {
        let category = serde_json::to_value(category).ok().and_then(|value| value.as_str().map(str::to_string));
        let side = if *side == Side::Head { "heads" } else { "tails" };
        row(format!("  {} {side}", category.unwrap_or_default()), metrics);
    }
    text.push_str(&table.render(width));
    if let Some(Unseen { hits10_of_50, pagerank_of_50, .. }) = rows.unseen {
        let line = format!(
            "\nHits@10 among 50 random negatives: {hits10_of_50:.4}, PageRank {pagerank_of_50:.4} (expected value from the full rank; nothing is sampled)\n"
        );
        text.push_str(&line);
    }
    if args.by_relation {
        let mut table = Table::new(&[Column::Name, Column::Right, Column::Right, Column::Right]);
        table.head(["relation", "queries", "MRR", "mean rank"]);
        let mut relations: Vec<_> = evaluation.by_relation.iter().collect();
        relations.sort_by_key(|(_, metrics)| std::cmp::Reverse(metrics.queries));
        for (relation, metrics) in relations {
            table.row([
                engine.data().called_relation(*relation),
                grouped(metrics.queries),
                format!("{:.4}", metrics.mrr),
                format!("{:.1}", metrics.mean_rank),
            ]);
        }
        text.push_str(&format!("\n{}\n{}", console.heading("By relation"), table.render(width)));
    }
    text
}
