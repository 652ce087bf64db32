//! `ruge train`: embeddings, with or without guidance from rules.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ruge::run::{self, Mode, Run, TrainControl, TrainEvent};
use ruge::spec::{Base, Norm, RulesSpec};
use ruge::{DeviceName, GuidanceSpec, ModelName, Spec, assemble};
use ruge_embed::{Loss, Penalty, StopReason, TNorm};
use ruge_kg::Dataset;
use ruge_rules::RuleRecord;
use ruge_rules::words::is_sayable;
use serde_json::json;

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::device::DeviceArg;
use crate::path_words::path_words;
use crate::preset::PresetArg;
use crate::rule_args::RuleArgs;
use crate::softmax_args::SoftmaxArgs;
use crate::text::grouped;
use crate::usage::UsageError;
use crate::{interrupt, memory, progress};

/// Train an embedding model, with or without guidance from rules
///
/// Defaults are the paper's settings. --spec overrides them with a TOML file, and flags override both. The resolved spec is
/// stored with the run. The model that is best on validation is kept.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge train demo --dim 50 --epochs 100 --out runs/demo
  ruge train data/fb15k --guidance ruge --rules data/fb15k/rules.tsv --out runs/ruge
  ruge train data/fb15k --model transe --guidance ptranse --path-length 3 --out runs/ptranse
  ruge train data/fb15k --spec experiments/fb15k/ruge.toml --seed 1 --out runs/ruge-1
  ruge train data/fb15k --out runs/ruge --resume")]
pub struct TrainArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Scoring function [default: complex]
    #[arg(long, value_enum, value_name = "NAME")]
    model: Option<ModelArg>,
    /// What guides training besides the triples [default: none]
    #[arg(long, value_enum, value_name = "NAME")]
    guidance: Option<GuidanceArg>,
    /// Rules to use, in any format of `ruge rules convert` [default: mined from train]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Ignore rules below this confidence
    #[arg(long, value_name = "X")]
    min_conf: Option<f64>,
    /// TOML file with settings
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Named set of settings
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["model", "guidance"])]
    preset: Option<PresetArg>,
    #[command(flatten)]
    softmax: SoftmaxArgs,
    /// Maximum number of epochs
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Embedding dimension (complex numbers for complex models)
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Negatives per positive
    #[arg(long, value_name = "N")]
    negatives: Option<usize>,
    /// Learning rate of entities and relations
    #[arg(long, value_name = "X")]
    rate: Option<f32>,
    /// Weight of the L2 penalty; 0 for none
    #[arg(long, value_name = "X")]
    l2: Option<f32>,
    /// Margin of a ranking loss
    #[arg(long, value_name = "X")]
    margin: Option<f32>,
    /// Slackness penalty C of the guidance
    #[arg(long, value_name = "X")]
    slackness: Option<f32>,
    /// T-norm: how truth values combine
    #[arg(long, value_enum, value_name = "NAME")]
    t_norm: Option<TNormArg>,
    /// Maximum number of relations in a path of PTransE: 1, 2 or 3
    #[arg(long, value_name = "N")]
    path_length: Option<usize>,
    /// Number of candidates per query that PTransE re-ranks by their paths
    #[arg(long, value_name = "N")]
    rerank: Option<usize>,
    /// Confidence that PTransE's paths of three steps must exceed
    #[arg(long, value_name = "X")]
    confidence_cut_off: Option<f64>,
    /// Gradient steps per batch
    #[arg(long, value_name = "N")]
    inner_steps: Option<usize>,
    /// Mini-batches per epoch
    #[arg(long, value_name = "N")]
    batches: Option<usize>,
    /// Distance of TransE
    #[arg(long, value_enum, value_name = "NORM")]
    norm: Option<NormArg>,
    /// Validate every N epochs; 0 for never
    #[arg(long, value_name = "N")]
    validate_every: Option<u64>,
    /// Stop after N validations without improvement
    #[arg(long, value_name = "N")]
    patience: Option<u64>,
    /// Device [default: cpu]
    #[arg(long, value_enum, value_name = "DEVICE")]
    device: Option<DeviceArg>,
    /// The run folder [default: runs/DATA-MODEL-GUIDANCE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace an existing run when the new one is finished
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Minimum seconds between two checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    checkpoint_every: u64,
    /// Continue from the last checkpoint in the run folder
    #[arg(long)]
    resume: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModelArg {
    Complex,
    Distmult,
    Hole,
    Transe,
    Rotate,
    /// Rules alone: mined or from a file, fitted on validation; nothing is trained
    Rules,
}

impl From<ModelArg> for ModelName {
    fn from(model: ModelArg) -> Self {
        match model {
            ModelArg::Complex => ModelName::ComplEx,
            ModelArg::Distmult => ModelName::DistMult,
            ModelArg::Hole => ModelName::HolE,
            ModelArg::Transe => ModelName::TransE,
            ModelArg::Rotate => ModelName::RotatE,
            ModelArg::Rules => ModelName::Rules,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GuidanceArg {
    None,
    Ruge,
    /// Like ruge, with soft labels that never change
    Static,
    /// Conclusions as weighted training triples of softmax
    Examples,
    Kale,
    Ptranse,
}

impl GuidanceArg {
    fn name(self) -> &'static str {
        match self {
            GuidanceArg::None => "none",
            GuidanceArg::Ruge => "ruge",
            GuidanceArg::Static => "static",
            GuidanceArg::Examples => "examples",
            GuidanceArg::Kale => "kale",
            GuidanceArg::Ptranse => "ptranse",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TNormArg {
    Product,
    Lukasiewicz,
    Godel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NormArg {
    L1,
    L2,
}

impl TrainArgs {
    /// The spec: the paper's, the file's leaves over it, the flags over both. And whether its plateau is one the user asked for.
    fn resolve(&self) -> Result<(Spec, bool)> {
        let text = match &self.spec {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                Some((
                    path.display().to_string(),
                    read.with_context(|| format!("{}: cannot read the spec", path.display()))?,
                ))
            }
            None => None,
        };
        let usage = |error: ruge::RugeError| UsageError(error.to_string());
        // What the file says about model, guidance and trainer decides which defaults the rest of it is laid over.
        let mut base = Base::default();
        let mut own_plateau = self.preset.is_none();
        if let Some((name, text)) = &text {
            let table: toml::Table = toml::from_str(text).map_err(|error| UsageError(format!("{name}: {error}")))?;
            base = Base::of(&table, name).map_err(usage)?;
            own_plateau |= table.get("schedule").is_some_and(|schedule| schedule.get("plateau").is_some());
        }
        base.model = self.model.map(ModelName::from).or(base.model);
        base.guidance = self.guidance.map(|g| g.name().to_string()).or(base.guidance);
        let mut spec = match self.preset {
            Some(PresetArg(preset)) => preset.spec(),
            None => base.spec(),
        }
        .map_err(|error| match &text {
            Some((name, _)) if self.guidance.is_none() => UsageError(format!("{name}: {error}")),
            _ => usage(error),
        })?;
        // A file says itself what rules weigh, or leaves it at what was once the default.
        if self.guidance == Some(GuidanceArg::Examples) && text.is_none() {
            spec.set_examples();
        }
        if let Some((name, text)) = &text {
            spec = spec.overlaid_file(text, name).map_err(usage)?;
        }
        self.flags(&mut spec)?;
        spec.check().map_err(usage)?;
        Ok((spec, own_plateau))
    }

    fn flags(&self, spec: &mut Spec) -> Result<()> {
        spec.seed = self.data.seed.unwrap_or(spec.seed);
        spec.device = self.device.map_or(spec.device, DeviceName::from);
        if let Some(model) = self.model {
            spec.model.name = model.into();
        }
        self.refuse_idle(spec)?;
        let set = |place: &mut usize, value: Option<usize>| *place = value.unwrap_or(*place);
        set(&mut spec.model.dimension, self.dim);
        set(&mut spec.negatives.count, self.negatives);
        set(&mut spec.batches.count, self.batches);
        if self.batches.is_some() {
            spec.batches.size = None;
        }
        set(&mut spec.batches.inner_steps, self.inner_steps);
        spec.schedule.epochs = self.epochs.unwrap_or(spec.schedule.epochs);
        spec.schedule.validate_every = self.validate_every.unwrap_or(spec.schedule.validate_every);
        if self.validate_every == Some(0) && self.patience.is_some() {
            bail!(UsageError(
                "--patience counts validations, and --validate-every 0 turns them off; remove one of them".into()
            ));
        }
        spec.schedule.patience = self.patience.or(spec.schedule.patience);
        if let Some(rate) = self.rate {
            spec.optimizer.entity_rate = rate;
            spec.optimizer.relation_rate = rate;
        }
        match self.l2 {
            Some(0.0) => spec.objective.penalty = Penalty::None,
            Some(weight) => spec.objective.penalty = Penalty::L2 { weight },
            None => {}
        }
        if let Some(new) = self.margin {
            match &mut spec.objective.loss {
                Loss::PairwiseRanking { margin } | Loss::TruthRanking { margin } => *margin = new,
                // Its margin is where the sigmoid turns.
                Loss::SelfAdversarial { .. } => spec.objective.shift = new,
                Loss::Logistic | Loss::SampledSoftmax => {
                    bail!(UsageError("--margin needs a ranking loss; this spec has another loss".into()))
                }
            }
        }
        if let Some(norm) = self.norm {
            spec.model.norm = if norm == NormArg::L1 { Norm::L1 } else { Norm::L2 };
        }
        if let Some(file) = &self.rules {
            spec.rules.file = Some(file.display().to_string());
        }
        spec.rules.min_confidence = self.min_conf.unwrap_or(spec.rules.min_confidence);
        if let GuidanceSpec::Ruge { slackness, t_norm, .. } = &mut spec.guidance {
            *slackness = self.slackness.unwrap_or(*slackness);
            *t_norm = match self.t_norm {
                None => *t_norm,
                Some(TNormArg::Product) => TNorm::Product,
                Some(TNormArg::Lukasiewicz) => TNorm::Lukasiewicz,
                Some(TNormArg::Godel) => TNorm::Godel,
            };
        } else if self.slackness.is_some() || self.t_norm.is_some() {
            bail!(UsageError("--slackness and --t-norm need --guidance ruge".into()));
        }
        let sampled = [self.negatives, self.batches, self.inner_steps].iter().any(Option::is_some);
        if let Some(softmax) = &mut spec.softmax {
            if sampled {
                let flags = "--negatives, --batches and --inner-steps";
                bail!(UsageError(format!(
                    "{flags} are for training with negatives; this spec trains by softmax (use --batch, --sample)"
                )));
            }
            // The trainer's own, over the rows of a batch.
            if let Some(weight) = self.l2 {
                (softmax.l2, spec.objective.penalty) = (weight, Penalty::None);
            }
        }
        self.softmax.lay_over(spec)?;
        if let GuidanceSpec::PTransE { path_length, rerank, confidence_cut_off, .. } = &mut spec.guidance {
            set(path_length, self.path_length);
            set(rerank, self.rerank);
            *confidence_cut_off = self.confidence_cut_off.unwrap_or(*confidence_cut_off);
        } else if self.path_length.is_some() || self.rerank.is_some() || self.confidence_cut_off.is_some() {
            let flags = "--path-length, --rerank and --confidence-cut-off";
            bail!(UsageError(format!("{flags} belong to --guidance ptranse")));
        }
        Ok(())
    }

    /// Refuses flags that this model or guidance would never look at.
    fn refuse_idle(&self, spec: &Spec) -> Result<()> {
        if spec.model.name == ModelName::Rules {
            let flags = [
                ("--dim", self.dim.is_some()),
                ("--epochs", self.epochs.is_some()),
                ("--negatives", self.negatives.is_some()),
                ("--rate", self.rate.is_some()),
                ("--l2", self.l2.is_some()),
                ("--margin", self.margin.is_some()),
                ("--inner-steps", self.inner_steps.is_some()),
                ("--batches", self.batches.is_some()),
                ("--validate-every", self.validate_every.is_some()),
                ("--patience", self.patience.is_some()),
            ];
            let given: Vec<&str> = flags.iter().filter(|(_, given)| *given).map(|(flag, _)| *flag).collect();
            if !given.is_empty() {
                let (flags, them) = (given.join(", "), if given.len() == 1 { "it" } else { "them" });
                bail!(UsageError(format!(
                    "{flags}: rules alone (--model rules) have no vectors and train nothing; remove {them}"
                )));
            }
        }
        if self.norm.is_some() && spec.model.name != ModelName::TransE {
            let name = spec.model.name.name();
            bail!(UsageError(format!("--norm is the distance of transe, but the model is {name}; remove it")));
        }
        let given = if self.rules.is_some() { "--rules" } else { "--min-conf" };
        if (self.rules.is_some() || self.min_conf.is_some()) && !spec.takes_rules() {
            let guidance = match (spec.softmax.is_some(), self.preset.is_some()) {
                (true, true) => "use --preset complex-n3-rules",
                (false, true) => "use --preset ruge-paper",
                (true, false) => "add --guidance examples, or use --model rules",
                (false, false) => "add --guidance ruge or kale, or use --model rules",
            };
            bail!(UsageError(format!("{given} would be ignored without guidance by rules; {guidance}")));
        }
        Ok(())
    }
}

/// Why no rule guides, and what to do about it; `found` were mined or read.
fn no_rules(spec: &Spec, found: usize, data: &Dataset) -> String {
    let idle = match spec.model.name {
        ModelName::Rules => "so the model is empty",
        _ => "so nothing guides the training",
    };
    let RulesSpec { file, min_confidence, max_conclusions, .. } = &spec.rules;
    if found > 0 {
        return format!(
            "note: none of {} rules is left, {idle}: they are below the minimum confidence ({min_confidence}), or name \
             relations or entities the data do not have\n  remedy: lower --min-conf, or give other rules with --rules FILE",
            grouped(found)
        );
    }
    if let Some(file) = file {
        return format!("note: {file} holds no rule, {idle}\n  remedy: give other rules with --rules FILE, or none");
    }
    let config = spec.rules.config_for([data.train().len(), data.entity_count(), data.relation_count()]);
    let share = max_conclusions.map_or_else(String::new, |share| format!(", or raise max-conclusions (now {share})"));
    format!(
        "note: no rule was found, {idle}\n  remedy: lower the mining thresholds in section [rules] of a --spec file: min-head-size \
         (now {}; the minimum number of facts of a head relation), min-pca ({}), min-hc ({}), min-support ({}){share}\n  \
         or give rules with --rules FILE",
        config.min_head_size, config.min_pca, config.min_head_coverage, config.min_support,
    )
}

/// Runs `ruge train DATA`.
pub fn run(args: &TrainArgs, console: Console) -> Result<()> {
    let mode = match (args.force, args.resume) {
        (true, _) => Mode::Force,
        (_, true) => Mode::Resume,
        _ => Mode::Fresh,
    };
    // A run that goes on is led by its stored spec. Flags stay leaves of it: one that says something else is told later.
    let typed = args.model.is_some() || args.guidance.is_some() || args.spec.is_some() || args.preset.is_some();
    let resumed = |out: &Path| -> Result<Option<Spec>> {
        if mode != Mode::Resume {
            return Ok(None);
        }
        let mut spec = run::stored_spec(out)?;
        if typed {
            return Ok(None);
        }
        args.flags(&mut spec)?;
        spec.check().map_err(|error| UsageError(error.to_string()))?;
        Ok(Some(spec))
    };
    let (mut spec, mut own_plateau) = match args.out.as_deref().map(resumed).transpose()?.flatten() {
        Some(spec) => (spec, true),
        None => args.resolve()?,
    };
    let stem = args.data.data.file_name().map_or("data".into(), |name| name.to_string_lossy().into_owned());
    let name = || format!("runs/{stem}-{}-{}", spec.model.name.name(), spec.guidance.name());
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(name()));
    if args.out.is_none()
        && let Some(stored) = resumed(&out)?
    {
        (spec, own_plateau) = (stored, true);
    }
    let loaded = args.data.load(console)?;
    loaded.announce(console);
    let data = &loaded.data;
    if spec.schedule.plateau.is_some() && data.valid().is_empty() {
        if own_plateau {
            bail!(UsageError(
                "schedule.plateau needs validation, but the data have no validation triples; leave it out of the spec, or \
                 put some triples into a file `valid`"
                    .into()
            ));
        }
        spec.schedule.plateau = None;
        console.note(
            "note: the data have no validation triples, so learning rates stay as they are; the preset lowers them when \
             validation stops improving",
        );
    }

    let control: TrainControl<'_> = interrupt::control();
    // The folder is ours, and holds the whole spec, before the long work begins.
    let run = Run::open(&spec, data, &out, mode)?;
    if run.replaces() {
        console.note(&format!("note: the run in {} is kept until this one is finished", out.display()));
    }
    if run.is_of_earlier_program() {
        console.note(
            "note: the run was started by an earlier version of ruge, which did not store its rules; give the same ones",
        );
    }
    let read = || -> Result<Vec<RuleRecord>> {
        Ok(match &spec.rules.file {
            // Read here and not by `assemble`, so that lines that are no rules are told.
            Some(file) if spec.takes_rules() => {
                let mut names = data.names().clone();
                let rules = RuleArgs::plain().read(Path::new(file), &mut names, console)?.rules;
                let lost = rules.iter().filter(|record| !is_sayable(&record.rule, data.names())).count();
                if lost > 0 {
                    let what = if lost == 1 { "rule names" } else { "rules name" };
                    console.note(&format!("note: {lost} {what} relations or entities the data do not have; ignored"));
                }
                rules
            }
            _ => {
                let _spinner = progress::spinner(console, "mining rules");
                assemble::rules(&spec, data, &control.quiet())?
            }
        })
    };
    let rules = match read() {
        Ok(rules) => rules,
        Err(error) => {
            run.withdraw();
            return Err(error);
        }
    };
    let found = rules.len();
    if spec.model.name == ModelName::Rules && found == 0 {
        console.note(&no_rules(&spec, found, data));
    }
    let bar = progress::work(console, "training", spec.schedule.epochs);
    let hear = |event: &TrainEvent| match event {
        TrainEvent::Grounded(found) if found.rules > 0 => {
            let text = format!(
                "{} rules give {} groundings of {} unlabeled triples ({} in valid, {} in test)",
                grouped(found.rules),
                grouped(found.groundings),
                grouped(found.unlabeled),
                grouped(found.in_valid),
                grouped(found.in_test),
            );
            bar.suspend(|| console.note(&text));
        }
        TrainEvent::Grounded(_) if spec.guidance.takes_rules() => {
            bar.suspend(|| console.note(&no_rules(&spec, found, data)));
        }
        TrainEvent::Grounded(_) => {}
        TrainEvent::Paths(report) => {
            let text = path_words(report).join("\n");
            bar.suspend(|| console.note(&text));
        }
        TrainEvent::Epoch(tick) => {
            bar.set_position(tick.epoch);
            bar.set_message(format!("training, loss {:.4}, {:.2} s an epoch", tick.losses.labeled, tick.seconds));
            if let Some(metrics) = &tick.metrics {
                let best = if tick.improved { ", best so far" } else { "" };
                let text = format!(
                    "epoch {:>5}  loss {:.4}  validation MRR {:.4}  hits@1 {:.3}  hits@10 {:.3}{best}",
                    tick.epoch,
                    tick.losses.labeled,
                    metrics.mrr,
                    metrics.hits.get(&1).unwrap_or(&0.0),
                    metrics.hits.get(&10).unwrap_or(&0.0),
                );
                bar.suspend(|| console.note(&text));
            }
        }
    };
    let run = run.checkpoint_every(Duration::from_secs(args.checkpoint_every));
    let outcome = run.train(rules, &control.with_listener(&hear))?;
    bar.finish_and_clear();
    if outcome.stop == StopReason::Asked {
        let done = match outcome.epochs {
            0 => "before the end of the first epoch".to_string(),
            epochs => format!("after epoch {}, which is saved", grouped(epochs)),
        };
        return Err(interrupt::error(format!("interrupted {done}; continue with --resume")));
    }
    if console.json {
        let mut object = json!({
            "epochs": outcome.epochs,
            "best_epoch": outcome.best_epoch,
            "valid_mrr": outcome.valid_mrr,
            "seconds_per_epoch": outcome.seconds_per_epoch,
            "rules": outcome.rules,
            "groundings": outcome.groundings,
            "stopped_by": outcome.stop,
            "model": out.join("model.safetensors"),
            "peak_memory_mb": memory::peak_mb(),
        });
        if let Some(paths) = outcome.paths {
            object["paths"] = json!(paths);
        }
        if let Some(fitted) = outcome.fitted {
            object["fitted_numbers"] = json!(fitted);
        }
        console.json_result(&object)?;
    } else {
        let mrr = outcome.valid_mrr.map_or_else(String::new, |mrr| format!(", validation MRR {mrr:.4}"));
        if spec.model.name == ModelName::Rules {
            let fitted = outcome.fitted.filter(|_| outcome.valid_mrr.is_some()).map_or_else(String::new, |fitted| {
                format!(", on which {} number{} fitted", grouped(fitted), if fitted == 1 { " was" } else { "s were" })
            });
            return console.result(&format!(
                "{} rules{mrr}{fitted}\nwritten to {}; next: ruge eval {}\n",
                grouped(outcome.rules),
                out.display(),
                out.display()
            ));
        }
        console.result(&format!(
            "{} epoch{} at {:.2} s; best epoch {}{mrr}\nwritten to {}; next: ruge eval {}\n",
            grouped(outcome.epochs),
            if outcome.epochs == 1 { "" } else { "s" },
            outcome.seconds_per_epoch,
            grouped(outcome.best_epoch),
            out.display(),
            out.display()
        ))?;
    }
    Ok(())
}
