//! `ruge complete`: new facts for a graph.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ruge::calibrate::Reliability;
use ruge::complete::{CompleteOptions, Completion, Measured, ProposalRule, complete, measure};
use ruge::explain::Fact;
use ruge::{Engine, ModelFile};
use ruge_kg::{Dataset, visible};
use ruge_lab::export::facts::{self, FactFormat, FactWriter};
use serde_json::{Value, json};

use crate::console::Console;
use crate::device::DeviceArgs;
use crate::explain::{NARROW, explainer};
use crate::open::GraphArgs;
use crate::rule_args::RuleArgs;
use crate::text::{Column, Table, counted, flowing, grouped, wrapped};
use crate::truth_args::TruthArgs;
use crate::usage::UsageError;
use crate::{interrupt, memory, output, progress, shown};

/// Propose new facts, each with its truth and its rules
///
/// Candidates are the best answers of rules and model for every (head, relation) and (relation, tail) that is listed, and for
/// entities like those. Listed facts are not proposed. Truth is the estimated chance that an unlisted fact is true; it is the
/// same in `predict` and `explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge complete runs/demo
  ruge complete runs/demo --relation borders --min-truth 0.5
  ruge complete runs/demo --min-truth 0.9 --out new.nt
  ruge complete runs/demo --completeness 0.9 --feedback judged.tsv --constraints rules-of-the-world.txt
  ruge complete runs/demo --top 1000 --to cypher | cypher-shell
  ruge complete runs/demo --min-truth 0.8 --to rdf-star --base http://example.org/id/ --out new.ttl
  ruge complete runs/demo --measure --json

By default the 100 facts with the highest truth are proposed; with --min-truth alone, all facts that
reach it. The name of --out sets the format: .tsv, .csv, .jsonl, .nt, .ttl (rdf-star) or .cypher.
In N-Triples and RDF-star, IRIs stay as they are; other names become IRIs under --base, percent-encoded.")]
pub struct CompleteArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Propose facts of this relation only
    #[arg(long, value_name = "R", allow_hyphen_values = true)]
    relation: Option<String>,
    /// Minimum truth of a proposed fact
    #[arg(long, value_name = "X", value_parser = share)]
    min_truth: Option<f64>,
    /// Maximum number of facts to propose
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Number of answers to consider for each question, of the model and of the rules
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    per_query: u16,
    /// Rules to use instead of the model's, in any format of `ruge rules convert`
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Output format [default: by the name of --out, or a table]
    #[arg(long, visible_alias = "format", value_enum, value_name = "FORMAT")]
    to: Option<FormatArg>,
    /// Base of the IRIs of names that are no IRIs, in N-Triples and RDF-star
    #[arg(long, value_name = "IRI", default_value = facts::BASE, value_parser = base)]
    base: String,
    /// Output file [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Propose nothing; measure on test what truth is reckoned from: the chance of a candidate to be a test fact
    #[arg(long, conflicts_with_all = ["out", "to", "top", "min_truth"])]
    measure: bool,
    #[command(flatten)]
    truth: TruthArgs,
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    reading: RuleArgs,
}

/// How proposed facts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// head, relation, tail, truth, rules, separated by tabs
    Tsv,
    /// The same, separated by commas
    Csv,
    /// One JSON object per line
    Jsonl,
    /// N-Triples, facts only
    Nt,
    /// Turtle in which each fact is quoted and has its truth: << s p o >> <urn:x-ruge:truth> 0.87 .
    RdfStar,
    /// One MERGE statement per fact
    Cypher,
}

impl From<FormatArg> for FactFormat {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Tsv => FactFormat::Tsv,
            FormatArg::Csv => FactFormat::Csv,
            FormatArg::Jsonl => FactFormat::Jsonl,
            FormatArg::Nt => FactFormat::Nt,
            FormatArg::RdfStar => FactFormat::RdfStar,
            FormatArg::Cypher => FactFormat::Cypher,
        }
    }
}

fn base(text: &str) -> Result<String, String> {
    match facts::is_base(text) {
        true => Ok(text.to_string()),
        false => Err("give an absolute IRI, such as http://example.org/id/".into()),
    }
}

/// A number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("give a truth from 0 to 1".into()),
    }
}

/// Opposed facts that are named below the table.
const OPPOSED: usize = 5;

/// Facts put into words at a time.
const PIECE: usize = 4096;

/// Runs `ruge complete MODEL`.
pub fn run(args: &CompleteArgs, console: Console) -> Result<()> {
    let format = format(args)?;
    if args.top == Some(0) {
        bail!(UsageError("--top must be at least 1".into()));
    }
    let inputs = args.reading.files(args.rules.as_deref()).into_iter().chain([ModelFile::find(&args.model)]);
    output::refuse_inputs("--out", args.out.as_deref(), inputs.chain(args.truth.files()))?;
    if let Some(path) = &args.out {
        output::refuse_to_replace(path, args.force)?;
    }
    // In the folder of a run, only the evaluated model has facts that it has not seen.
    let model = if args.measure { ModelFile::evaluated(&args.model) } else { args.model.clone() };
    let engine = crate::open::engine(&model, args.device.name(), console)?;
    let (engine, _) = args.graph.place(engine, console)?;
    let engine = args.truth.tell(engine, console)?;
    let relation = args.relation.as_deref().map(|name| engine.relation(name)).transpose()?;
    let explainer = explainer(&engine, args.rules.as_deref(), &args.reading, console)?;
    let top = args.top.or(if args.min_truth.is_some() || args.measure { None } else { Some(100) });
    let options = CompleteOptions {
        relation,
        per_query: usize::from(args.per_query),
        min_truth: args.min_truth.unwrap_or(0.0),
        top,
    };
    let bar = progress::work(console, "asking the model", 1);
    let follow = progress::follow(&bar);
    let control = interrupt::control().with_listener(&follow);
    let stopped = "stopped before all candidates were found; nothing was written";
    let started = Instant::now();
    if args.measure {
        if engine.data().test().is_empty() {
            bail!("the model has no test triples to measure on");
        }
        let measured = measure(&explainer, &options, &control).map_err(interrupt::instead_of(stopped))?;
        bar.finish_and_clear();
        return tell_measured(&measured, started.elapsed().as_secs_f64(), console);
    }
    let completion = complete(&explainer, &options, &control).map_err(interrupt::instead_of(stopped))?;
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    if completion.per_query < options.per_query {
        console.note(&format!(
            "note: {} answers per query are used, not {}: memory or the number of entities allows no more",
            completion.per_query, options.per_query
        ));
    }
    if let Some(path) = &args.out {
        let format = format.unwrap_or(FactFormat::Tsv);
        output::to_file(path, |out| write(out, path, format, &args.base, &engine, &completion))?;
    }
    if !console.json && (args.out.is_some() || format.is_some()) {
        console.note(&completion.assumes);
    }
    if console.json {
        return console.json_result(&object(args, &completion, seconds)?);
    }
    match (&args.out, format) {
        (Some(path), _) => {
            console.result(&format!("{} written to {}\n", counted(completion.len(), "fact"), path.display()))
        }
        (None, Some(format)) => {
            let mut out = std::io::BufWriter::new(console.data_out());
            let name = Path::new("stdout");
            match write(&mut out, name, format, &args.base, &engine, &completion)
                .and_then(|()| out.flush().context("cannot write to stdout"))
            {
                // A reader that has seen enough is not an error.
                Err(error) if is_broken_pipe(&error) => Ok(()),
                other => other,
            }
        }
        (None, None) => console.result(&table(&completion, seconds, engine.data(), console)?),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// The format wanted, or the one the file's name tells.
fn format(args: &CompleteArgs) -> Result<Option<FactFormat>> {
    let wanted = args.to.map(FactFormat::from);
    let (None, Some(path)) = (wanted, &args.out) else { return Ok(wanted) };
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    match FactFormat::of_ending(ending) {
        Some(format) => Ok(Some(format)),
        None => {
            let formats = FactFormat::ALL.map(FactFormat::name).join(", ");
            bail!(UsageError(format!(
                "{}: the file name does not determine the format; add --to with one of {formats}",
                path.display()
            )))
        }
    }
}

/// Writes all proposed facts, piece by piece.
fn write(
    out: &mut dyn Write,
    path: &Path,
    format: FactFormat,
    base: &str,
    engine: &Engine,
    completion: &Completion,
) -> Result<()> {
    let failed = || format!("{}: cannot write", path.display());
    let mut writer = FactWriter::new(out, format, base).with_context(failed)?;
    writer.remark(&completion.assumes).with_context(failed)?;
    if !format.has_rules() {
        for (triple, truth) in completion.triples() {
            writer.fact(&Fact::new(engine.data().names(), triple), truth, &[]).with_context(failed)?;
        }
        writer.finish().with_context(failed)?;
        return Ok(());
    }
    for from in (0..completion.len()).step_by(PIECE) {
        if interrupt::came() {
            bail!(interrupt::error(format!("{}: stopped while writing", path.display())));
        }
        for proposal in completion.proposals(from..completion.len().min(from + PIECE))? {
            writer.proposal(&proposal).with_context(failed)?;
        }
    }
    writer.finish().with_context(failed)?;
    Ok(())
}

fn object(args: &CompleteArgs, completion: &Completion, seconds: f64) -> Result<Value> {
    let facts = serde_json::to_value(completion.proposals(0..completion.len())?).context("cannot write JSON")?;
    Ok(json!({
        "facts": facts,
        "candidates": completion.candidates,
        "from_rules": completion.from_rules,
        "queries": completion.queries,
        "per_query": completion.per_query,
        "completeness": completion.completeness,
        "completeness_by_relation": completion.completeness_by_relation,
        "assumes": completion.assumes,
        "hidden": ["train", "valid", "test"],
        "seconds": seconds,
        "peak_memory_mb": memory::peak_mb(),
        "out": args.out,
    }))
}

fn table(completion: &Completion, seconds: f64, data: &Dataset, console: Console) -> Result<String> {
    let width = console.width();
    let mut text = flowing(
        &format!(
            "{} of {} ({} from rules), from {} in {seconds:.1} s",
            grouped(completion.len()),
            counted(completion.candidates, "candidate"),
            grouped(completion.from_rules),
            counted(completion.queries, "query")
        ),
        width,
    );
    text.push('\n');
    if completion.is_empty() {
        text.push_str("  no fact reaches --min-truth; lower it\n");
        return Ok(text);
    }
    // Rules are long and repeat: each is told once, below, by its number.
    let mut rules: Vec<(String, f64)> = Vec::new();
    let mut number = |rule: &ProposalRule| {
        let at = rules.iter().position(|(known, _)| *known == rule.rule).unwrap_or_else(|| {
            rules.push((rule.rule.clone(), rule.confidence));
            rules.len() - 1
        });
        (at + 1).to_string()
    };
    // Names cut to a few letters say nothing: on a narrow terminal each fact is a sentence.
    let is_narrow = width < NARROW;
    let mut table = match is_narrow {
        true => Table::new(&[Column::Right, Column::Text]),
        false => Table::new(&[Column::Right, Column::Name, Column::Name, Column::Name, Column::Left]),
    };
    match is_narrow {
        true => table.head(["truth", "fact (rules)"]),
        false => table.head(["truth", "head", "relation", "tail", "rules"]),
    };
    let mut opposed = Vec::new();
    for proposal in completion.proposals(0..completion.len())? {
        if !proposal.against.is_empty() {
            opposed.push(format!(
                "{} {} {}: {}",
                shown::entity(data, &proposal.fact.head),
                shown::relation(data, &proposal.fact.relation),
                shown::entity(data, &proposal.fact.tail),
                shown::text(data, &proposal.against.join("; "))
            ));
        }
        let mut numbers: Vec<String> = proposal.rules.iter().take(3).map(&mut number).collect();
        if proposal.rule_count > numbers.len() {
            numbers.push("…".into());
        }
        let numbers = if numbers.is_empty() { "–".into() } else { numbers.join(", ") };
        let truth = format!("{:.3}", proposal.truth);
        let (head, tail) = (shown::entity(data, &proposal.fact.head), shown::entity(data, &proposal.fact.tail));
        let relation = shown::relation(data, &proposal.fact.relation);
        match is_narrow {
            true => table.row([truth, format!("{head} {relation} {tail} ({numbers})")]),
            false => table.row([truth, head, relation, tail, numbers]),
        };
    }
    text.push_str(&table.render(width));
    if !rules.is_empty() {
        let mut table = Table::new(&[Column::Right, Column::Right, Column::Text]);
        table.head(["rule", "conf.", ""]);
        for (index, (rule, confidence)) in rules.iter().enumerate() {
            table.row([(index + 1).to_string(), format!("{confidence:.3}"), shown::rule(data, rule)]);
        }
        text.push_str(&format!("\n{}", table.render(width)));
    }
    if !opposed.is_empty() {
        text.push_str(&format!("\n{}\n", console.heading("What speaks against some of them")));
        for line in opposed.iter().take(OPPOSED) {
            text.push_str(&wrapped(&visible::line(line), width));
        }
        if opposed.len() > OPPOSED {
            text.push_str(&format!("  and {} more; --json lists all\n", opposed.len() - OPPOSED));
        }
    }
    text.push_str(&format!("\n{}", wrapped(&format!("{} Listed facts are not proposed.", completion.assumes), width)));
    Ok(text)
}

fn tell_measured(measured: &Measured, seconds: f64, console: Console) -> Result<()> {
    if console.json {
        let mut object = serde_json::to_value(measured).context("cannot write JSON")?;
        object["ece"] = measured.all.ece.into();
        object["seconds"] = seconds.into();
        object["peak_memory_mb"] = json!(memory::peak_mb());
        return console.json_result(&object);
    }
    let width = console.width();
    let mut text = format!(
        "{} candidates, {} of the {} test facts among them, in {seconds:.1} s\n\n",
        grouped(measured.all.answers),
        grouped(measured.found),
        grouped(measured.test)
    );
    let mut table = Table::new(&[Column::Left, Column::Right, Column::Right, Column::Right]);
    table.head(["", "candidates", "ECE", "Brier"]);
    for (name, part) in [
        ("all", &measured.all),
        ("chance of 0.1 or more", &measured.from_a_tenth),
        ("chance of 0.5 or more", &measured.from_a_half),
    ] {
        table.row([name.into(), grouped(part.answers), format!("{:.4}", part.ece), format!("{:.4}", part.brier)]);
    }
    text.push_str(&table.render(width));
    text.push_str(&format!(
        "\n{}\n{}",
        console.heading("By the chance to be a test fact"),
        curve(&measured.all, width)
    ));
    text.push_str(&format!("\n{}", wrapped(&measured.sentence, width)));
    console.result(&text)
}

fn curve(reliability: &Reliability, width: usize) -> String {
    let mut table = Table::new(&[Column::Left, Column::Right, Column::Right, Column::Right]);
    table.head(["bucket", "candidates", "mean chance", "share in test"]);
    for bucket in &reliability.curve {
        let none = bucket.count == 0;
        let number = |value: f64| if none { "–".to_string() } else { format!("{value:.3}") };
        table.row([
            format!("{:.1} to {:.1}", bucket.from, bucket.to),
            grouped(bucket.count),
            number(bucket.expected),
            number(bucket.facts),
        ]);
    }
    table.render(width)
}
