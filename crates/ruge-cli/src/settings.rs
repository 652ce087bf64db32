//! The flags that say how to train, for `ruge train` and `ruge run`: one of a name means the same in both.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ruge::ModelName;
use ruge::spec::{MinePreset, Norm, Overrides, Preset, Request, SpecText};
use ruge_embed::TNorm;
use ruge_rules::rank::evidence::Features;

use crate::device::DeviceArg;

/// What may be said about training besides its data.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct SettingsArgs {
    /// TOML file with settings, such as the spec.toml of another run
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// Named set of settings; --spec and flags override it
    #[arg(long, value_name = "NAME", value_parser = presets(|_| true), conflicts_with_all = ["model", "guidance"])]
    pub preset: Option<Preset>,
    /// Scoring function [default: complex]
    #[arg(long, value_name = "NAME", value_parser = models())]
    pub model: Option<ModelName>,
    /// What guides training besides the triples [default: none]
    #[arg(long, value_name = "NAME", value_parser = guidances(|_| true))]
    pub guidance: Option<String>,
    /// Rules to use, in any format of `ruge rules convert` [default: mined from train]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// How rules are mined, as by `ruge mine --preset` [default: ranking for rules alone, else default]
    #[arg(long, value_name = "PRESET", value_parser = mining())]
    mine: Option<MinePreset>,
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
    /// Rules that rank in addition to the model: `auto` (mined from train), `none`, or a rule file [default: auto]
    #[arg(long, value_name = "auto|none|FILE")]
    ranking_rules: Option<String>,
    /// Evidence that may count where rules rank [default: all]
    #[arg(long, value_name = "WHICH", value_parser = evidence())]
    evidence: Option<Features>,
    /// Embedding dimension (complex numbers for complex models)
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Distance of TransE
    #[arg(long, value_name = "NORM", value_parser = choice(vec![(Norm::L1, "l1", ""), (Norm::L2, "l2", "")]))]
    norm: Option<Norm>,
    /// Negatives per positive
    #[arg(long, value_name = "N")]
    negatives: Option<usize>,
    /// Mini-batches per epoch
    #[arg(long, value_name = "N")]
    batches: Option<usize>,
    /// Gradient steps per batch
    #[arg(long, value_name = "N")]
    inner_steps: Option<usize>,
    /// Questions per softmax batch; positives per batch if the spec sets batches.size
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Number of candidate entities per softmax batch; 0 for all
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Weight of the N3 penalty (softmax training)
    #[arg(long, value_name = "X")]
    n3: Option<f32>,
    /// Weight of the L2 penalty; 0 for none
    #[arg(long, value_name = "X")]
    l2: Option<f32>,
    /// Learning rate of entities and relations
    #[arg(long, value_name = "X")]
    rate: Option<f32>,
    /// Margin of a ranking loss
    #[arg(long, value_name = "X")]
    margin: Option<f32>,
    /// Slackness penalty C of the guidance
    #[arg(long, value_name = "X")]
    slackness: Option<f32>,
    /// T-norm: how truth values combine
    #[arg(long, value_name = "NAME", value_parser = t_norms())]
    t_norm: Option<TNorm>,
    /// Weight of a rule's conclusion relative to an observed triple (guidance examples)
    #[arg(long, value_name = "X")]
    weight: Option<f32>,
    /// Maximum number of relations in a path of PTransE: 1, 2 or 3
    #[arg(long, value_name = "N")]
    path_length: Option<usize>,
    /// Number of candidates per query that PTransE re-ranks by their paths
    #[arg(long, value_name = "N")]
    rerank: Option<usize>,
    /// Confidence that PTransE's paths of three steps must exceed
    #[arg(long, value_name = "X")]
    confidence_cut_off: Option<f64>,
    /// Maximum number of epochs of a model
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Validate every N epochs; 0 for never
    #[arg(long, value_name = "N")]
    validate_every: Option<u64>,
    /// Stop after N validations without improvement; rates that a preset lowers later are lowered before that
    #[arg(long, value_name = "N")]
    patience: Option<u64>,
    /// Device [default: cpu]
    #[arg(long, value_enum, value_name = "DEVICE")]
    device: Option<DeviceArg>,
}

/// One of several by name, each with a line about it or none.
fn choice<T: Clone + Send + Sync + 'static>(
    all: Vec<(T, &'static str, &'static str)>,
) -> impl TypedValueParser<Value = T> {
    let value = |name: &'static str, help: &'static str| match help {
        "" => PossibleValue::new(name),
        help => PossibleValue::new(name).help(help),
    };
    let values: Vec<PossibleValue> = all.iter().map(|(_, name, help)| value(name, help)).collect();
    PossibleValuesParser::new(values).try_map(move |typed| {
        all.iter().find(|(_, name, _)| *name == typed).map(|(one, ..)| one.clone()).ok_or("no such name")
    })
}

/// The presets that are wanted.
pub fn presets(wanted: fn(&Preset) -> bool) -> impl TypedValueParser<Value = Preset> {
    choice(Preset::ALL.into_iter().filter(wanted).map(|preset| (preset, preset.name(), preset.words())).collect())
}

/// The guidances that are wanted.
pub fn guidances(wanted: fn(&str) -> bool) -> impl TypedValueParser<Value = String> {
    let all = [
        ("none", "The triples alone"),
        ("ruge", "The paper's: soft labels, updated in every step"),
        ("static", "Soft labels that never change"),
        ("examples", "Conclusions as weighted training triples of softmax"),
        ("kale", "Groundings as an additional loss"),
        ("ptranse", "Relation paths instead of rules"),
    ];
    choice(
        all.into_iter().filter(|(name, _)| wanted(name)).map(|(name, help)| (name.to_string(), name, help)).collect(),
    )
}

fn models() -> impl TypedValueParser<Value = ModelName> {
    let help = |model: ModelName| match model {
        ModelName::Rules => "Rules alone: mined or from a file, fitted on validation; nothing is trained",
        _ => "",
    };
    choice(ModelName::ALL.map(|model| (model, model.name(), help(model))).to_vec())
}

/// Which evidence may count.
pub fn evidence() -> impl TypedValueParser<Value = Features> {
    choice(vec![
        (Features::All, "all", "Whatever helps on validation"),
        (Features::NoLink, "no-link", "The same without links between candidate and known end"),
        (Features::None, "none", "None"),
    ])
}

fn mining() -> impl TypedValueParser<Value = MinePreset> {
    choice(vec![
        (MinePreset::Default, "default", "PCA confidence 0.8, head coverage 0.01"),
        (MinePreset::Amie, "amie", "AMIE's own thresholds"),
        (MinePreset::RugeFb15k, "ruge-fb15k", "As the rules published with the paper for FB15K"),
        (MinePreset::Ranking, "ranking", "Low thresholds, rules that name an entity, long paths"),
        (MinePreset::Inductive, "inductive", "For graphs with other entities: no rule names one, longer paths"),
    ])
}

fn t_norms() -> impl TypedValueParser<Value = TNorm> {
    choice(vec![(TNorm::Product, "product", ""), (TNorm::Lukasiewicz, "lukasiewicz", ""), (TNorm::Godel, "godel", "")])
}

impl SettingsArgs {
    /// Whether anything was said at all.
    pub fn are_given(&self) -> bool {
        *self != Self::default()
    }

    /// Whether the size of the model was said, here or in a file.
    pub fn fixes_dimension(&self) -> bool {
        self.dim.is_some() || self.spec.is_some()
    }

    /// As the library is asked, with the seed that was typed.
    pub fn request(&self, seed: Option<u64>) -> Result<Request> {
        let said = self.clone();
        let settings = Overrides {
            mark: "--",
            seed,
            device: said.device.map(Into::into),
            model: said.model,
            guidance: said.guidance,
            rules: said.rules.map(|file| file.display().to_string()),
            mine: said.mine,
            min_conf: said.min_conf,
            min_pca: said.min_pca,
            min_hc: said.min_hc,
            min_std: said.min_std,
            min_support: said.min_support,
            max_conclusions: said.max_conclusions,
            ranking_rules: said.ranking_rules.clone(),
            evidence: said.evidence,
            max_body: said.max_body,
            dim: said.dim,
            norm: said.norm,
            negatives: said.negatives,
            batches: said.batches,
            inner_steps: said.inner_steps,
            batch: said.batch,
            sample: said.sample,
            n3: said.n3,
            l2: said.l2,
            rate: said.rate,
            margin: said.margin,
            slackness: said.slackness,
            t_norm: said.t_norm,
            weight: said.weight,
            path_length: said.path_length,
            rerank: said.rerank,
            confidence_cut_off: said.confidence_cut_off,
            epochs: said.epochs,
            validate_every: said.validate_every,
            patience: said.patience,
        };
        Ok(Request { preset: said.preset, text: self.spec.as_deref().map(SpecText::read).transpose()?, settings })
    }
}
