//! The settings of a run: sized to the data, a spec file's leaves over them, flags over both.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ruge::{DeviceName, GuidanceSpec, ModelName, Spec};
use ruge_embed::Penalty;
use ruge_lab::recipe::{self, Size};

use crate::device::DeviceArg;
use crate::preset::PresetArg;
use crate::softmax_args::SoftmaxArgs;
use crate::usage::UsageError;

/// What may be said about a run besides its data.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings (default: sized to the data)")]
pub struct Settings {
    /// TOML file with settings, such as the spec.toml of another run
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Scoring function [default: complex]
    #[arg(long, value_name = "NAME", value_parser = model)]
    model: Option<ModelName>,
    /// How rules guide training [default: examples for complex and distmult, ruge for others]
    #[arg(long, value_enum, value_name = "NAME")]
    guidance: Option<GuidanceArg>,
    /// Named set of settings instead of one sized to the data; flags override it
    #[arg(long, value_parser = preset(), value_name = "NAME", conflicts_with_all = ["spec", "model", "guidance"])]
    preset: Option<PresetArg>,
    #[command(flatten)]
    softmax: SoftmaxArgs,
    /// Rules to use, in any format of `ruge rules convert` [default: mined from train]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Ignore rules below this confidence
    #[arg(long, value_name = "X")]
    min_conf: Option<f64>,
    /// Minimum PCA confidence of a mined rule
    #[arg(long, value_name = "X")]
    min_pca: Option<f64>,
    /// Minimum head coverage of a mined rule
    #[arg(long, value_name = "X")]
    min_hc: Option<f64>,
    /// Minimum standard confidence of a mined rule
    #[arg(long, value_name = "X")]
    min_std: Option<f64>,
    /// Minimum support of a mined rule
    #[arg(long, value_name = "N")]
    min_support: Option<u64>,
    /// Maximum number of conclusions of all mined rules, per training triple; the most confident rules are kept
    #[arg(long, value_name = "X")]
    max_conclusions: Option<f64>,
    /// Maximum number of atoms in the premise of a mined rule: 1, 2 or 3
    #[arg(long, value_name = "N")]
    max_body: Option<usize>,
    /// Embedding dimension (complex numbers for complex models)
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Negatives per positive
    #[arg(long, value_name = "N")]
    negatives: Option<usize>,
    /// Mini-batches per epoch
    #[arg(long, value_name = "N")]
    batches: Option<usize>,
    /// Learning rate of entities and relations
    #[arg(long, value_name = "X")]
    rate: Option<f32>,
    /// Weight of the L2 penalty; 0 for none
    #[arg(long, value_name = "X")]
    l2: Option<f32>,
    /// Slackness penalty C of the guidance
    #[arg(long, value_name = "X")]
    slackness: Option<f32>,
    /// Maximum number of epochs, for each of the two models
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Validate every N epochs; 0 for never
    #[arg(long, value_name = "N")]
    validate_every: Option<u64>,
    /// Stop after N validations without improvement
    #[arg(long, value_name = "N")]
    patience: Option<u64>,
    /// Device [default: cpu]
    #[arg(long, value_enum, value_name = "DEVICE")]
    device: Option<DeviceArg>,
}

/// Guidances that have rules; without rules there is nothing to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GuidanceArg {
    /// Conclusions as weighted training triples of softmax
    Examples,
    /// The paper's: soft labels, updated in every step
    Ruge,
    /// Soft labels that never change
    Static,
    /// Groundings as an additional loss
    Kale,
}

/// The presets that have rules: without them there is nothing to compare.
fn preset() -> impl TypedValueParser<Value = PresetArg> {
    let with_rules = |preset: &&PresetArg| preset.0.spec().is_ok_and(|spec| spec.guidance.takes_rules());
    let all = PresetArg::value_variants().iter().filter(with_rules);
    PossibleValuesParser::new(all.filter_map(PresetArg::to_possible_value))
        .try_map(|name| PresetArg::from_str(&name, false))
}

fn model(name: &str) -> Result<ModelName, String> {
    ModelName::ALL.into_iter().find(|model| model.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ModelName::ALL.iter().map(|model| model.name()).collect();
        format!("use one of {}", names.join(", "))
    })
}

impl Settings {
    /// Whether anything was said at all.
    pub fn are_given(&self) -> bool {
        let Self {
            spec,
            model,
            guidance,
            preset,
            rules,
            min_conf,
            min_pca,
            min_hc,
            min_std,
            max_conclusions,
            min_support,
            max_body,
            ..
        } = self;
        let Self { dim, negatives, batches, rate, l2, slackness, epochs, validate_every, patience, device, .. } = self;
        spec.is_some()
            || model.is_some()
            || guidance.is_some()
            || preset.is_some()
            || rules.is_some()
            || device.is_some()
            || self.softmax.are_given()
            || [min_conf, min_pca, min_hc, min_std, max_conclusions].iter().any(|x| x.is_some())
            || [rate, l2, slackness].iter().any(|x| x.is_some())
            || [max_body, dim, negatives, batches].iter().any(|x| x.is_some())
            || [min_support, epochs, validate_every, patience].iter().any(|x| x.is_some())
    }

    /// The spec for data of this size. A seed that was typed wins over one in a file.
    pub fn resolve(&self, size: Size, seed: Option<u64>) -> Result<Spec> {
        let usage = |error: ruge::RugeError| UsageError(error.to_string());
        let text = match &self.spec {
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path).with_context(|| format!("{name}: cannot read the spec"))?;
                Some((name, text))
            }
            None => None,
        };
        // What the file says about model and guidance decides which defaults the rest of it is laid over.
        let (mut name, mut guidance, mut names_rules) = (ModelName::ComplEx, None, false);
        let mut device = DeviceName::Cpu;
        if let Some((file, text)) = &text {
            let table: toml::Table = toml::from_str(text).map_err(|error| UsageError(format!("{file}: {error}")))?;
            let leaf = |section: &str, key: &str| table.get(section)?.get(key)?.as_str().map(str::to_string);
            if let Some(wanted) = leaf("model", "name") {
                name =
                    model(&wanted).map_err(|use_| UsageError(format!("{file}: unknown model {wanted:?}; {use_}")))?;
            }
            guidance = leaf("guidance", "kind");
            if table.get("device").and_then(|device| device.as_str()) == Some("cuda") {
                device = DeviceName::Cuda;
            }
            // Thresholds for mining would contradict a rule file.
            names_rules = leaf("rules", "file").is_some();
        }
        name = self.model.unwrap_or(name);
        device = self.device.map_or(device, DeviceName::from);
        if name == ModelName::Rules {
            bail!(UsageError(
                "`ruge run` compares a model with and without rules; for rules alone use `ruge train DATA --model rules`".into()
            ));
        }
        let guidance = match self.guidance {
            Some(GuidanceArg::Examples) => "examples".into(),
            Some(GuidanceArg::Ruge) => "ruge".into(),
            Some(GuidanceArg::Static) => "static".into(),
            Some(GuidanceArg::Kale) => "kale".into(),
            None => guidance.unwrap_or_else(|| recipe::usual_guidance(name).to_string()),
        };
        if guidance == "none" {
            bail!(UsageError(
                "guidance is \"none\" in the spec, but `ruge run` compares models with and without rules; use `ruge train` for one model"
                    .into()
            ));
        }
        let mut spec = match self.preset {
            Some(PresetArg(preset)) => {
                let spec = preset.spec().map_err(usage)?;
                name = spec.model.name;
                spec
            }
            None => recipe::sized(size, name, &guidance, device).map_err(usage)?,
        };
        if let Some((file, text)) = &text {
            if names_rules {
                spec.rules = Default::default();
            }
            spec = spec.overlaid_file(text, file).map_err(usage)?;
        }
        spec.model.name = name;
        spec.seed = seed.unwrap_or(spec.seed);
        self.lay_over(&mut spec)?;
        spec.check().map_err(usage)?;
        Ok(spec)
    }

    fn lay_over(&self, spec: &mut Spec) -> Result<()> {
        let set = |place: &mut usize, value: Option<usize>| *place = value.unwrap_or(*place);
        set(&mut spec.model.dimension, self.dim);
        if spec.softmax.is_some() && (self.negatives.is_some() || self.batches.is_some()) {
            bail!(UsageError(
                "--negatives and --batches are for the paper's trainer; add --guidance ruge to use it".into()
            ));
        }
        self.softmax.lay_over(spec)?;
        set(&mut spec.negatives.count, self.negatives);
        set(&mut spec.batches.count, self.batches);
        if self.batches.is_some() {
            spec.batches.size = None;
        }
        spec.device = self.device.map_or(spec.device, DeviceName::from);
        spec.schedule.epochs = self.epochs.unwrap_or(spec.schedule.epochs);
        spec.schedule.validate_every = self.validate_every.unwrap_or(spec.schedule.validate_every);
        if self.validate_every == Some(0) {
            spec.schedule.plateau = None;
        }
        if self.validate_every == Some(0) && self.patience.is_some() {
            bail!(UsageError(
                "--patience counts validations, and --validate-every 0 turns them off; remove one of them".into()
            ));
        }
        spec.schedule.patience = self.patience.or(spec.schedule.patience);
        if let Some(patience) = self.patience {
            // Rates fall before a run ends, or not at all.
            spec.schedule.plateau = spec.schedule.plateau.filter(|_| patience > 1);
            spec.schedule.plateau.iter_mut().for_each(|plateau| plateau.patience = plateau.patience.min(patience - 1));
        }
        if let Some(rate) = self.rate {
            (spec.optimizer.entity_rate, spec.optimizer.relation_rate) = (rate, rate);
        }
        match self.l2 {
            Some(weight) if spec.softmax.is_some() => {
                spec.softmax.iter_mut().for_each(|softmax| softmax.l2 = weight);
            }
            Some(0.0) => spec.objective.penalty = Penalty::None,
            Some(weight) => spec.objective.penalty = Penalty::L2 { weight },
            None => {}
        }
        match (&mut spec.guidance, self.slackness) {
            (GuidanceSpec::Ruge { slackness, .. }, Some(wanted)) => *slackness = wanted,
            (_, Some(_)) => bail!(UsageError("--slackness needs --guidance ruge".into())),
            _ => {}
        }
        if let Some(file) = &self.rules {
            spec.rules = std::mem::take(&mut spec.rules).from_file(file.display().to_string());
        }
        let rules = &mut spec.rules;
        let mining = [self.min_pca, self.min_hc, self.min_std, self.max_conclusions].iter().any(Option::is_some);
        if self.rules.is_some() && (mining || self.min_support.is_some() || self.max_body.is_some()) {
            bail!(UsageError(
                "mining thresholds do not apply to --rules FILE; use --min-conf to filter its rules".into()
            ));
        }
        rules.min_confidence = self.min_conf.unwrap_or(rules.min_confidence);
        rules.min_pca = self.min_pca.or(rules.min_pca);
        rules.min_hc = self.min_hc.or(rules.min_hc);
        rules.min_std = self.min_std.or(rules.min_std);
        rules.max_conclusions = self.max_conclusions.or(rules.max_conclusions);
        rules.min_support = self.min_support.or(rules.min_support);
        rules.max_body = self.max_body.or(rules.max_body);
        Ok(())
    }
}

/// The settings that matter, a label and a sentence each.
pub fn words(spec: &Spec) -> Vec<(&'static str, String)> {
    let penalty = match spec.objective.penalty {
        Penalty::L2 { weight } => format!(", L2 {weight}"),
        Penalty::None => String::new(),
    };
    let unless = if spec.is_of_the_paper() { "" } else { ", unless validation is better without" };
    let guidance = match spec.guidance {
        GuidanceSpec::Ruge { slackness, .. } => format!("ruge, slackness {slackness}{unless}"),
        GuidanceSpec::Examples { weight, .. } => {
            format!("conclusions as examples of weight {weight}{unless}")
        }
        other => format!("{}{unless}", other.name()),
    };
    let patience = spec.schedule.patience.map_or_else(String::new, |n| format!(", patience {n}"));
    let part = spec.schedule.validation_triples.map_or_else(String::new, |n| format!(" on {n} triples"));
    let config = spec.rules.config();
    let most = spec.rules.max_conclusions.map_or_else(String::new, |share| {
        format!("; the most confident ones, up to {share} conclusions per training triple")
    });
    let rules = match &spec.rules.file {
        Some(file) => format!("from {file}, confidence {} or more", spec.rules.min_confidence),
        None => format!(
            "at most {} atoms; at least PCA confidence {}, standard confidence {}, head coverage {}, support {}, {} facts of the \
             head{most}",
            config.max_body,
            config.min_pca,
            config.min_std,
            config.min_head_coverage,
            config.min_support,
            config.min_head_size
        ),
    };
    let (model, rate) = (spec.model, spec.optimizer.entity_rate);
    let batches = match spec.batches.size {
        Some(size) => format!("batches of {size}"),
        None => format!("{} batches", spec.batches.count),
    };
    let training = match spec.softmax {
        Some(softmax) => {
            let among = match softmax.sample {
                0 => "all entities".to_string(),
                sample => format!("{sample} sampled entities"),
            };
            format!("softmax over {among}, batches of {} questions, rate {rate}, N3 {}", softmax.batch, softmax.n3)
        }
        None => {
            let hard = if spec.is_of_the_paper() { "" } else { ", hard ones weighted more" };
            format!("{} negatives{hard}, {batches}, rate {rate}{penalty}", spec.negatives.count)
        }
    };
    let schedule = spec.schedule;
    vec![
        ("model", format!("{}, dimension {}", model.name.name(), model.dimension)),
        ("training", training),
        ("epochs", format!("at most {}, validated every {}{part}{patience}", schedule.epochs, schedule.validate_every)),
        ("rules", rules),
        ("guidance", guidance),
        ("seed", spec.seed.to_string()),
    ]
}
