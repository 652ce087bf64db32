//! `ruge predict`: the best answers to a question, or to a file of questions.

mod batch;
mod questions;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ruge::fold_in::NewFacts;
use ruge::predict::{Answer, PredictOptions, Question, Who};
use ruge::suggest::suggestion;
use ruge::{Control, Engine, ModelFile};
use ruge_kg::EntityId;
use serde_json::json;

use crate::console::Console;
use crate::device::DeviceArgs;
use crate::open::GraphArgs;
use crate::text::{Column, Table, decimal, grouped, wrapped};
use crate::truth_args::TruthArgs;
use crate::usage::UsageError;
use crate::{interrupt, output, progress, shown};

/// Answer questions by name: which tail, which head, which relation?
///
/// A question names two of head, relation and tail. Every entity (or relation) is scored in the open place. The best are
/// shown with their score and their truth, the estimated chance that an unlisted fact is true; listed facts are marked as
/// known.
///
/// --queries reads many questions. A line is either head, relation and tail separated by tabs with ? in the open place, or
/// a JSON object with two of the keys head, relation and tail. Answers are written as the questions come in, as
/// tab-separated columns (query rank head relation tail score truth known; query is the line number) or as JSON lines.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge predict runs/demo --head France --relation has_capital
  ruge predict runs/demo --relation has_capital --tail Paris --new
  ruge predict runs/demo --head France --tail Paris
  ruge predict runs/demo --queries questions.tsv --top 3 > answers.tsv
  ruge predict runs/demo --head France --relation borders --new --completeness 0.9
  ruge predict runs/demo --like France
  ruge predict runs/demo --with facts.tsv --head Atlantis --relation in_continent --typed")]
pub struct PredictArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Head, by name or label; omit it to ask for heads
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    head: Option<String>,
    /// Relation; omit it to ask for relations
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    relation: Option<String>,
    /// Tail, by name or label; omit it to ask for tails
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    tail: Option<String>,
    /// Number of answers per question
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Show new facts only: nothing from train, valid or test
    #[arg(long)]
    new: bool,
    /// Only entities in this file, one name per line
    #[arg(long, value_name = "FILE")]
    candidates: Option<PathBuf>,
    /// Only entities that occur in train at that end of the relation
    #[arg(long)]
    typed: bool,
    /// Facts about new entities: their vectors are fitted, other vectors stay, and rules are used too
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// List the entities nearest to this one, and its likely duplicates
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, conflicts_with_all = ["head", "relation", "tail", "new", "candidates", "typed"])]
    like: Option<String>,
    /// File of questions; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["head", "relation", "tail", "like"])]
    queries: Option<PathBuf>,
    /// Output format of --queries [default: tsv]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "queries")]
    to: Option<FormatArg>,
    /// Output file of --queries [default: stdout]
    #[arg(long, value_name = "FILE", requires = "queries")]
    out: Option<PathBuf>,
    /// Overwrite the file of --out
    #[arg(long, requires = "out")]
    force: bool,
    /// Skip and count bad lines of --queries instead of stopping
    #[arg(long, requires = "queries")]
    lenient: bool,
    #[command(flatten)]
    truth: TruthArgs,
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// How answers are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// A header, then one answer per line
    Tsv,
    /// One question per line, with its answers
    Jsonl,
}

/// Runs `ruge predict MODEL`.
pub fn run(args: &PredictArgs, console: Console) -> Result<()> {
    if args.top == 0 {
        bail!(UsageError("--top must be at least 1".into()));
    }
    // The command line itself lets this pass beside --head and the like, which --queries excludes.
    if args.queries.is_none() {
        let flags = [("--out", args.out.is_some()), ("--to", args.to.is_some()), ("--lenient", args.lenient)];
        if let Some((flag, _)) = flags.iter().find(|(_, given)| *given) {
            bail!(UsageError(format!(
                "{flag} belongs to --queries FILE; answers to a single question go to stdout (--json for programs)"
            )));
        }
    }
    let given = [&args.queries, &args.candidates, &args.with].into_iter().flatten().cloned();
    output::refuse_inputs("--out", args.out.as_deref(), given.chain([ModelFile::find(&args.model)]))?;
    let asked = [&args.head, &args.relation, &args.tail].into_iter().flatten().count();
    if args.queries.is_none() && args.like.is_none() && asked != 2 {
        let what = if asked == 3 {
            "--head, --relation and --tail together leave nothing to ask; omit one (`ruge explain` explains a triple)"
        } else {
            "give two of --head, --relation and --tail, or --queries FILE, or --like NAME"
        };
        bail!(UsageError(what.into()));
    }
    let spinner = progress::spinner(console, "loading the model");
    let engine = crate::open::engine(&args.model, args.device.name(), console)?;
    let (mut engine, _) = args.graph.place(engine, console)?;
    if let Some(path) = &args.with {
        let facts = NewFacts::read(&engine, path)?;
        if facts.entities.is_empty() {
            let name = path.display();
            console.note(&format!("note: {name}: the model knows all these entities; the facts only count as known"));
        }
        spinner.set_message("fitting the new entities");
        engine = engine.with_facts(&facts, &interrupt::control())?;
    }
    drop(spinner);
    let engine = args.truth.tell(engine, console)?;
    if let Some(name) = &args.like {
        return similar(args, &engine, name, console);
    }
    let candidates = match &args.candidates {
        Some(path) => Some(read_candidates(path, &engine)?),
        None => None,
    };
    let options =
        PredictOptions { top: args.top, new: args.new, candidates, typed: args.typed, by_rules: args.with.is_some() };
    if let Some(path) = &args.queries {
        return batch::run(args, path, &engine, &options, console);
    }
    let question = Question::named(&engine, args.head.as_deref(), args.relation.as_deref(), args.tail.as_deref())?;
    let (what, choice) = match question {
        Question::Relation { .. } => {
            if args.typed || args.candidates.is_some() {
                bail!(UsageError(
                    "--typed and --candidates filter entities, but this question asks for a relation".into()
                ));
            }
            ("relations", engine.data().relation_count())
        }
        _ => ("entities", engine.data().entity_count()),
    };
    if args.top > choice {
        console.note(&format!(
            "note: the model has {} {what}, so --top {} shows all of them",
            grouped(choice),
            args.top
        ));
    }
    let mut lists = engine.predict(&[question], &options, &Control::default())?;
    let answers = lists.pop().unwrap_or_default();
    if console.json {
        return console.json_result(&json!({"answers": answers, "assumes": engine.truth_assumes()?}));
    }
    console.result(&report(args, &engine, &answers, console)?)
}

fn report(args: &PredictArgs, engine: &Engine, answers: &[Answer], console: Console) -> Result<String> {
    // As they are called, whichever way they were typed.
    let data = engine.data();
    let entity = |name: &Option<String>| match name {
        Some(name) => engine.entity(name).map_or_else(|_| name.clone(), |id| data.called_entity(id)),
        None => "?".into(),
    };
    let relation = match &args.relation {
        Some(name) => engine.relation(name).map_or_else(|_| name.clone(), |id| data.called_relation(id)),
        None => "?".into(),
    };
    let question = format!("{}  {relation}  {}", entity(&args.head), entity(&args.tail));
    let mut text = format!("{}\n\n", console.heading(&question));
    if answers.is_empty() {
        let why = if args.typed || args.candidates.is_some() || args.new { "; the filters exclude all" } else { "" };
        return Ok(format!("{text}  no answer{why}\n"));
    }
    let by_rules = answers.iter().any(|answer| answer.rule.is_some());
    let mut columns = vec![Column::Right, Column::Name, Column::Right, Column::Right];
    let mut head = vec!["rank", "answer", "score", "truth"];
    if by_rules {
        columns.push(Column::Text);
        head.push("concluded by");
    }
    let mut table = Table::new(&columns);
    table.head(head);
    for (at, answer) in answers.iter().enumerate() {
        let mut cells = vec![
            (at + 1).to_string(),
            match answer.who {
                Who::Entity(id) => data.called_entity(id),
                Who::Relation(id) => data.called_relation(id),
            },
            decimal(answer.score.into(), 3),
            if answer.known { "known".to_string() } else { format!("{:.3}", answer.truth) },
        ];
        cells.extend(answer.rule.as_ref().map(|rule| shown::rule(data, rule)));
        table.row(cells);
    }
    text.push_str(&table.render(console.width()));
    text.push_str(&format!("\n{}", wrapped(&engine.truth_assumes()?, console.width())));
    Ok(text)
}

/// A list of entities, one name a line.
fn read_candidates(path: &Path, engine: &Engine) -> Result<Vec<EntityId>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: cannot read the candidates", path.display()))?;
    let names = &engine.data().names().entities;
    let mut list = Vec::new();
    for (line, name) in text.lines().enumerate().filter(|(_, name)| !name.trim().is_empty()) {
        let name = name.trim_end_matches('\r');
        match names.id(name) {
            Some(entity) => list.push(entity),
            None => {
                let hint = suggestion(name, names.iter().map(|(_, name)| name));
                bail!("{}:{}: the model has no entity called {name:?}{hint}", path.display(), line + 1);
            }
        }
    }
    if list.is_empty() {
        bail!("{}: the file has no candidates; write one entity name per line", path.display());
    }
    Ok(list)
}

fn similar(args: &PredictArgs, engine: &Engine, name: &str, console: Console) -> Result<()> {
    let near = engine.similar(engine.entity(name)?, args.top)?;
    let others = engine.data().entity_count().saturating_sub(1);
    if args.top > others {
        console.note(&format!(
            "note: the model has {} other entities, so --top {} shows all",
            grouped(others),
            args.top
        ));
    }
    if console.json {
        return console.json_result(&json!({"like": name, "nearest": near}));
    }
    let mut table = Table::new(&[Column::Right, Column::Name, Column::Right, Column::Right, Column::Left]);
    table.head(["rank", "entity", "cosine", "shared facts", ""]);
    for (at, x) in near.iter().enumerate() {
        table.row([
            (at + 1).to_string(),
            shown::entity(engine.data(), &x.entity),
            format!("{:.3}", x.cosine),
            format!("{} ({:.0} %)", grouped(x.shared), 100.0 * x.overlap),
            if x.duplicate { "likely duplicate" } else { "" }.to_string(),
        ]);
    }
    let called = engine.data().called_entity(engine.entity(name)?);
    console.result(&format!("{}\n\n{}", console.heading(&format!("like {called}")), table.render(console.width())))
}
