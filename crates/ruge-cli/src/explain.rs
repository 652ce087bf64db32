//! `ruge explain`: why a triple is held true.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ruge::explain::drawing::Drawing;
use ruge::explain::parts::{Summed, closing};
use ruge::explain::{ExplainOptions, Explainer, Explanation, Fact, GroundingEvidence, ModelSays};
use ruge::{Engine, ModelFile};
use ruge_kg::{Dataset, Side, Triple, visible};
use serde_json::Value;

use crate::console::Console;
use crate::open::GraphArgs;
use crate::rule_args::RuleArgs;
use crate::text::{Column, Table, counted, flowing, grouped, plural, wrapped};
use crate::truth_args::TruthArgs;
use crate::{output, shown};

/// Explain a triple: its truth and rank, the rules that conclude it, and their premises
///
/// First comes the answer in words, then what the score that ranks is made of: the model, each rule, evidence for and against.
/// A rule fires if its premises are training facts. Redundant rules are shown once. For models trained by soft labels, the
/// label is shown too (Eq. 9). If no rule fires, the most similar known facts are listed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge explain runs/demo Chad borders Niger
  ruge explain runs/demo Chad borders Niger --json
  ruge explain runs/demo Chad borders Niger --svg why.svg
  ruge explain runs/demo Chad borders Niger --dot | dot -Tpdf -o why.pdf
  ruge explain runs/plain Chad borders Niger --rules rules.tsv")]
pub struct ExplainArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Head, by name or label
    #[arg(value_name = "H")]
    head: String,
    /// Relation, by name
    #[arg(value_name = "R")]
    relation: String,
    /// Tail, by name or label
    #[arg(value_name = "T")]
    tail: String,
    /// Rules to use instead of the model's, in any format of `ruge rules convert`
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Number of groundings to show for each rule
    #[arg(long, value_name = "N", default_value_t = 3)]
    groundings: usize,
    /// Number of similar facts to show if no rule fires
    #[arg(long, value_name = "N", default_value_t = 5)]
    similar: usize,
    /// Which end is asked for where the score is taken apart [default: tail]
    #[arg(long, value_name = "tail|head", default_value = "tail", hide_default_value = true, value_parser = sides())]
    side: Side,
    /// Show all parts of the score and all rules, not the five largest
    #[arg(long)]
    all: bool,
    /// Print the evidence as a Graphviz graph
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    /// Draw the evidence to this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Overwrite an existing SVG file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    truth: TruthArgs,
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    reading: RuleArgs,
}

/// Runs `ruge explain MODEL H R T`.
pub fn run(args: &ExplainArgs, console: Console) -> Result<()> {
    let inputs = args.reading.files(args.rules.as_deref()).into_iter().chain([ModelFile::find(&args.model)]);
    output::refuse_inputs("--svg", args.svg.as_deref(), inputs.chain(args.truth.files()))?;
    if let Some(path) = &args.svg {
        output::refuse_to_replace(path, args.force)?;
    }
    let engine = crate::open::engine(&args.model, ruge::DeviceName::Cpu, console)?;
    let (engine, _) = args.graph.place(engine, console)?;
    let engine = args.truth.tell(engine, console)?;
    let triple = Triple {
        head: engine.entity(&args.head)?,
        relation: engine.relation(&args.relation)?,
        tail: engine.entity(&args.tail)?,
    };
    let explainer = explainer(&engine, args.rules.as_deref(), &args.reading, console)?;
    let options = ExplainOptions { groundings: args.groundings, similar: args.similar, side: args.side };
    let explanation = explainer.explain(triple, &options)?;
    if let Some(path) = &args.svg {
        let svg = Drawing::new(&explanation).svg();
        output::to_file(path, |out| Ok(std::io::Write::write_all(out, svg.as_bytes())?))?;
        if !console.json {
            console.note(&format!("drawn to {}", path.display()));
        }
    }
    if console.json {
        return console.json_result(&object(&explanation, &engine, args.svg.as_deref())?);
    }
    if args.dot {
        return console.data_result(&Drawing::new(&explanation).dot());
    }
    if explainer.rules().is_empty() && args.rules.is_none() {
        console.note("note: the model has no rules; give some with --rules");
    }
    console.result(&text(&explanation, args.all, &engine, console)?)
}

/// The model's own rules, or those of a file.
pub fn explainer(engine: &Engine, file: Option<&Path>, reading: &RuleArgs, console: Console) -> Result<Explainer> {
    let Some(path) = file else { return Ok(Explainer::new(engine)) };
    let data = engine.data();
    let mut names = data.names().clone();
    let file = reading.read(path, &mut names, console)?;
    let explainer = Explainer::with_rules(engine, file.rules);
    let lost = explainer.rules().len() - explainer.usable().len();
    if lost > 0 {
        let rules = counted(lost, "rule");
        console.note(&format!("note: {rules} of {} cannot fire in this model's graph", path.display()));
    }
    Ok(explainer)
}

fn object(explanation: &Explanation, engine: &Engine, svg: Option<&Path>) -> Result<Value> {
    let mut object = serde_json::to_value(explanation).context("cannot write the explanation as JSON")?;
    object["rules_fired"] = explanation.fired().into();
    object["grounding_count"] = explanation.grounding_count().into();
    object["assumes"] = engine.truth_assumes()?.into();
    let relation = engine.relation(&explanation.fact.relation)?;
    object["completeness"] = serde_json::to_value(engine.completeness(relation)?).context("cannot write JSON")?;
    if let Some(path) = svg {
        object["svg"] = path.display().to_string().into();
    }
    Ok(object)
}

fn sides() -> impl TypedValueParser<Value = Side> {
    PossibleValuesParser::new(["tail", "head"]).map(|typed| if typed == "head" { Side::Head } else { Side::Tail })
}

/// Columns below which names have no room side by side.
pub const NARROW: usize = 60;

/// A heading, of several lines where it is too long.
fn headed(text: &str, console: Console) -> String {
    let text = visible::line(text);
    match text.chars().count() <= console.width() {
        true => console.heading(&text) + "\n",
        false => flowing(&text, console.width()).lines().map(|line| console.heading(line) + "\n").collect(),
    }
}

/// Parts of a score that are shown, unless all are asked for.
const PARTS: usize = 5;

/// What the score is made of, for and against.
fn parts(explanation: &Explanation, all: bool, data: &Dataset, console: Console) -> String {
    let shown = if all { explanation.parts.len() } else { PARTS };
    let Summed { shown, rest, sum } = Summed::of(&explanation.parts, shown);
    let mut table = Table::new(&[Column::Right, Column::Left, Column::Text]);
    for part in shown {
        let sign = if part.value < 0.0 { "against" } else { "for" };
        table.row([format!("{:+.3}", part.value), sign.to_string(), shown::text(data, &part.words)]);
    }
    if let Some((count, value)) = rest {
        table.row([format!("{value:+.3}"), String::new(), format!("{count} smaller parts; --all shows them")]);
    }
    table.row([format!("{sum:+.3}"), "=".into(), closing(explanation.side).to_string()]);
    format!("\n{}\n{}", console.heading("What its score is made of"), table.render(console.width()))
}

fn text(explanation: &Explanation, all_parts: bool, engine: &Engine, console: Console) -> Result<String> {
    let (width, data) = (console.width(), engine.data());
    let places = |fact: &Fact| {
        [shown::entity(data, &fact.head), shown::relation(data, &fact.relation), shown::entity(data, &fact.tail)]
    };
    let mut text = headed(&places(&explanation.fact).join("  "), console);
    text.push_str(&format!("{}\n", wrapped(&visible::line(&shown::text(data, &explanation.sentence)), width)));
    let mut table = Table::new(&[Column::Left, Column::Text]);
    let all = grouped(explanation.entities);
    let truth = match explanation.known {
        Some(_) => format!("known ({:.3} if it were not listed)", explanation.estimate),
        None => format!("{:.3}", explanation.truth),
    };
    table
        .row(["truth".into(), truth])
        .row([
            "rank".into(),
            format!("{} of {all} tails, {} of {all} heads", rank(explanation.rank), rank(explanation.head_rank)),
        ])
        .row([
            "known".into(),
            explanation.known.as_ref().map_or_else(|| "no".into(), |split| format!("yes, in {split}")),
        ]);
    // Where the model alone ranks, its ranks are those above.
    if let Some(model) = explanation.model.filter(|_| explanation.parts.len() > 1) {
        table.row(["the model alone".into(), alone(model, &all)]);
    }
    text.push_str(&table.render(width));
    if explanation.parts.len() > 1 {
        text.push_str(&parts(explanation, all_parts, data, console));
    }
    let shown = if all_parts { explanation.rules.len() } else { PARTS };
    for (index, rule) in explanation.rules.iter().enumerate().take(shown) {
        let count = match (rule.groundings, rule.at_least) {
            (1, _) => "1 grounding".to_string(),
            (n, false) => format!("{} groundings", grouped(n)),
            (n, true) => format!("at least {} groundings", grouped(n)),
        };
        text.push_str(&format!("\n{}", headed(&format!("{}. {}", index + 1, shown::text(data, &rule.words)), console)));
        let label = match explanation.soft_label {
            Some(_) => format!(", moves the soft label by {:.4}", rule.push),
            None => String::new(),
        };
        let own = rule.counts_as.map_or_else(String::new, |own| format!(" (counts as {own:.3})"));
        text.push_str(&wrapped(&format!("confidence {:.3}{own}, {count}{label}", rule.confidence), width));
        let shown: Vec<&GroundingEvidence> = explanation.groundings.iter().filter(|g| g.rule_index == index).collect();
        let mut table = Table::new(&[Column::Left, Column::Name, Column::Name, Column::Name, Column::Right]);
        // Names cut to a few letters say nothing: on a narrow terminal each premise is a sentence.
        let (is_narrow, mut sentences) = (width < NARROW, String::new());
        for grounding in &shown {
            for (place, premise) in grounding.premises.iter().enumerate() {
                let word = match (place, premise.negated) {
                    (0, false) => "since",
                    (0, true) => "since not",
                    (_, false) => "and",
                    (_, true) => "and not",
                };
                let [head, relation, tail] = places(&premise.fact);
                let truth = if premise.known { "known".into() } else { format!("φ {:.3}", premise.model_truth) };
                if is_narrow {
                    let sentence = format!("{word} {head} {relation} {tail}: {truth}");
                    sentences.push_str(&wrapped(&visible::line(&sentence), width));
                } else {
                    table.row([word.to_string(), head, relation, tail, truth]);
                }
            }
        }
        text.push_str(&if is_narrow { sentences } else { table.render(width) });
        let hidden = rule.groundings - shown.len();
        if hidden > 0 {
            let more =
                format!("and {} more {}; --groundings N shows more", grouped(hidden), plural(hidden, "grounding"));
            text.push_str(&wrapped(&more, width));
        }
        if !rule.redundant.is_empty() {
            let verb = if rule.redundant.len() == 1 { "rule that says" } else { "rules that say" };
            let same = format!("and {} more {verb} the same; --json lists all", rule.redundant.len());
            text.push_str(&wrapped(&same, width));
        }
    }
    if explanation.rules.len() > shown {
        let more = explanation.rules.len() - shown;
        let what = if more == 1 {
            "more rule concludes it; --all shows it"
        } else {
            "more rules conclude it; --all shows them"
        };
        text.push_str(&format!("\n{}", flowing(&format!("{} {what}", grouped(more)), width)));
    }
    if let Some(label) = &explanation.soft_label {
        let why = match (label.in_training, explanation.known.as_deref()) {
            (true, _) => "as in training, all groundings together",
            (false, Some("train")) => "if it were not observed; it is, so its label is 1",
            (false, _) => "as training would give",
        };
        text.push_str(&format!(
            "\nSoft label {:.3}, from the model's own {:.3} (C = {}, {}), {why}\n",
            label.after,
            label.before,
            label.slackness,
            format!("{:?}", label.t_norm).to_lowercase()
        ));
    }
    if !explanation.similar.is_empty() {
        let mut table = Table::new(&[Column::Right, Column::Name, Column::Name, Column::Name]);
        table.head(["similarity", "head", "relation", "tail"]);
        for similar in &explanation.similar {
            let [head, relation, tail] = places(&similar.fact);
            table.row([format!("{:.3}", similar.similarity), head, relation, tail]);
        }
        text.push_str(&format!("\n{}\n{}", console.heading("The most similar known facts"), table.render(width)));
    }
    text.push_str(&format!("\n{}", wrapped(&engine.truth_assumes()?, width)));
    Ok(text)
}

/// Whether the model agrees, and why so.
fn alone(model: ModelSays, all: &str) -> String {
    let verdict = if model.agrees { "agrees" } else { "does not agree" };
    format!("{verdict}: rank {} of {all} tails, {} of {all} heads", rank(model.rank), rank(model.head_rank))
}

/// Ranks are whole but for ties.
fn rank(rank: f64) -> String {
    if rank.fract() == 0.0 { grouped(rank as u64) } else { format!("{rank:.1}") }
}
