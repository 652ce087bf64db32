//! A spec says everything about a run: model, objective, optimiser, guidance, rules, schedule, seed.
//!
//! It is a plain value. [`Spec::paper`] gives the paper's setting for a model and a guidance; a TOML file and command-line
//! flags change leaves of it; [`assemble`](crate::assemble) turns it into running objects. The resolved spec is stored with
//! every run, so that the run can be repeated from it.

use ruge_embed::{
    Batching, Cap, Dealing, Init, Loss, Negatives, Objective, Optimizer, PTransEConfig, Penalty, Projection, Schedule,
    Sides, Softmax, Start, StaticLabel, TNorm, UpdateRule,
};
use serde::{Deserialize, Serialize};

use crate::error::{Result, RugeError};

mod distance;
mod file;
mod numbers;
mod place;
mod preset;
mod resolve;
mod rules;
mod training;

pub use place::open;
pub use preset::Preset;
pub use resolve::{Base, Overrides, Request, SpecText};
pub use rules::{MinePreset, RankingRules, RulesSpec, Weigh};
pub use training::{ExamplesSpec, NegativesSpec, PTransESpec, Pull, SoftmaxSpec, Training};

use file::{SpecFile, ptranse_init, ptranse_optimizer};

/// Everything about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "SpecFile", try_from = "SpecFile")]
pub struct Spec {
    /// Seed of every draw.
    pub seed: u64,
    /// η.
    pub model: ModelSpec,
    /// Start values.
    pub init: Init,
    /// How it is trained, and what besides the observed triples pulls on the embeddings.
    pub training: Training,
    /// Update rule, rates, cap.
    pub optimizer: Optimizer,
    /// Epochs and validation.
    pub schedule: Schedule,
    /// Where the rules come from, for guidances that have some.
    pub rules: RulesSpec,
    /// Where it computes. The same spec gives the same bits on one device, and the same up to rounding on another.
    pub device: DeviceName,
}

/// A device by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceName {
    /// The processor.
    #[default]
    Cpu,
    /// The first NVIDIA card.
    Cuda,
}

/// A scoring function by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelName {
    /// Re⟨h, r, t̄⟩
    ComplEx,
    /// ⟨h, r, t⟩
    DistMult,
    /// r · (h ⋆ t)
    HolE,
    /// −‖h + r − t‖
    TransE,
    /// −‖h ∘ r − t‖, |r| = 1
    RotatE,
    /// No vectors at all: what the rules say.
    Rules,
}

impl ModelName {
    /// All of them.
    pub const ALL: [ModelName; 6] = [
        ModelName::ComplEx,
        ModelName::DistMult,
        ModelName::HolE,
        ModelName::TransE,
        ModelName::RotatE,
        ModelName::Rules,
    ];

    /// The model of this name.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|model| model.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            RugeError::spec(format!("unknown model {name:?}; use one of {names}"))
        })
    }

    /// As its authors write it.
    pub fn title(self) -> &'static str {
        match self {
            ModelName::ComplEx => "ComplEx",
            ModelName::DistMult => "DistMult",
            ModelName::HolE => "HolE",
            ModelName::TransE => "TransE",
            ModelName::RotatE => "RotatE",
            ModelName::Rules => "rules alone",
        }
    }

    /// As written in specs.
    pub fn name(self) -> &'static str {
        match self {
            ModelName::ComplEx => "complex",
            ModelName::DistMult => "distmult",
            ModelName::HolE => "hole",
            ModelName::TransE => "transe",
            ModelName::RotatE => "rotate",
            ModelName::Rules => "rules",
        }
    }
}

/// Which distance a translation model takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Sum of absolute values.
    #[default]
    L1,
    /// Euclidean.
    L2,
}

/// The scoring function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelSpec {
    /// Its name.
    pub name: ModelName,
    /// d; complex entries for complex models.
    pub dimension: usize,
    /// TransE's distance.
    #[serde(default)]
    pub norm: Norm,
    /// Whether (?, r, t) is asked as (t, r⁻¹, ?), with a row of its own for r⁻¹.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reciprocal: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// How an epoch is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BatchSpec {
    /// Batches of an epoch.
    pub count: usize,
    /// Positives of a batch, which then decides how many batches there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    /// How positives come into them.
    #[serde(default)]
    pub positives: Batching,
    /// τ: gradient steps per batch.
    pub inner_steps: usize,
}

/// Guidance by name, with its constants.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum GuidanceSpec {
    /// The observed triples alone.
    None,
    /// Soft labels anew in every batch, and a pull towards them.
    Ruge {
        /// C
        slackness: f32,
        /// How truths combine.
        #[serde(default)]
        t_norm: TNorm,
        /// Which groundings go with which batch.
        #[serde(default)]
        dealing: Dealing,
    },
    /// The same pull towards labels that are set once and never change: rules without iteration.
    Static {
        /// What the label of a conclusion is.
        #[serde(default)]
        label: FixedLabel,
    },
    /// Conclusions as further training triples with weights below 1, for softmax.
    Examples {
        /// What a conclusion of soft label 1 weighs beside an observed triple.
        weight: f32,
        /// Conclusions with a soft label below this are left out: many doubtful triples do more harm than a few sure ones do good.
        #[serde(default)]
        least: f32,
        /// How groundings become a soft label.
        #[serde(default)]
        label: StaticLabel,
    },
    /// Groundings as a ranking loss of their own, injected once.
    Kale {
        /// Weight of the rule loss.
        weight: f32,
        /// δ of the rule loss.
        margin: f32,
    },
    /// Relation paths instead of rules: TransE that also agrees with them, in training and in ranking.
    #[serde(rename = "ptranse")]
    PTransE {
        /// The most relations in a path: 1, 2 or 3.
        path_length: usize,
        /// Paths with at most this share of a pair's resource are dropped.
        drop: f64,
        /// Candidates of a query that are ranked again with their paths.
        rerank: usize,
        /// With 3 steps: what P(r|p) must exceed for a path to be extended, and kept.
        confidence_cut_off: f64,
    },
}

/// The label of a conclusion that never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FixedLabel {
    /// 1: the conclusion counts as a fact.
    Hard,
    /// 1 − Π (1 − λ) over its groundings.
    #[default]
    Confidence,
}

impl GuidanceSpec {
    /// The guidance of this name, with the constants of its paper.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "none" => GuidanceSpec::None,
            "ruge" => GuidanceSpec::Ruge { slackness: 0.01, t_norm: TNorm::Product, dealing: Dealing::Shuffled },
            "static" => GuidanceSpec::Static { label: FixedLabel::Confidence },
            "examples" => GuidanceSpec::Examples { weight: 0.3, least: 0.0, label: StaticLabel::NoisyOr },
            "kale" => GuidanceSpec::Kale { weight: 0.1, margin: 0.2 },
            "ptranse" => Training::PTransE(PTransESpec::default()).guidance(),
            other => {
                let message = format!("unknown guidance {other:?}; use none, ruge, static, examples, kale or ptranse");
                return Err(RugeError::spec(message));
            }
        })
    }

    /// Whether rules have a part in it.
    pub fn takes_rules(self) -> bool {
        !matches!(self, GuidanceSpec::None | GuidanceSpec::PTransE { .. })
    }

    /// As its authors write it.
    pub fn title(self) -> String {
        match self {
            GuidanceSpec::Examples { .. } => "rules as examples".into(),
            other => other.name().to_uppercase(),
        }
    }

    /// As written in specs.
    pub fn name(self) -> &'static str {
        match self {
            GuidanceSpec::None => "none",
            GuidanceSpec::Ruge { .. } => "ruge",
            GuidanceSpec::Static { .. } => "static",
            GuidanceSpec::Examples { .. } => "examples",
            GuidanceSpec::Kale { .. } => "kale",
            GuidanceSpec::PTransE { .. } => "ptranse",
        }
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self::paper(ModelName::ComplEx, "none").expect("the paper has this system")
    }
}

impl Spec {
    /// The paper's setting of a system; where nothing was published, what its reference code or this house settled on.
    pub fn paper(model: ModelName, guidance: &str) -> Result<Self> {
        let guidance = GuidanceSpec::named(guidance)?;
        let mut spec = Self {
            seed: 0,
            model: ModelSpec { name: model, dimension: 200, norm: Norm::L1, reciprocal: false },
            init: Init::default(),
            training: Training::Rules,
            optimizer: Optimizer::default(),
            schedule: Schedule::default(),
            rules: RulesSpec::default(),
            device: DeviceName::Cpu,
        };
        let mut training = NegativesSpec::default();
        match model {
            ModelName::ComplEx | ModelName::DistMult => {}
            ModelName::Rules if guidance == GuidanceSpec::None => spec.rules.mine = MinePreset::Ranking,
            // Some guidances bring a model of their own; for others `check` refuses.
            ModelName::Rules => {}
            ModelName::HolE => {
                // The score sums d² products, so start values shrink with d (spec §7).
                let start = Start::Normal { deviation: 0.41, unit: false };
                spec.init = Init { entities: start, relations: start, shared: false };
            }
            ModelName::TransE => spec.transe(&mut training),
            ModelName::RotatE => {
                // Not in the paper: a distance model under the paper's logistic loss needs a shift.
                training.objective = Objective { penalty: Penalty::None, shift: 12.0, ..Objective::default() };
                let start = Start::Uniform { bound: 0.1, unit: false };
                let phases = Start::Uniform { bound: std::f32::consts::PI, unit: false };
                spec.init = Init { entities: start, relations: phases, shared: false };
                spec.optimizer.entity_rate = 0.05;
                spec.optimizer.relation_rate = 0.05;
            }
        }
        training.guidance = guidance.pull();
        match guidance {
            GuidanceSpec::PTransE { .. } => spec.set_ptranse(),
            GuidanceSpec::Examples { weight, least, label } => {
                spec.set_softmax();
                let examples = Some(ExamplesSpec { weight, least, label });
                spec.training = Training::Softmax(SoftmaxSpec { softmax: Softmax::default(), examples });
            }
            GuidanceSpec::None if model == ModelName::Rules => {}
            GuidanceSpec::Kale { .. } => {
                spec.kale(&mut training);
                spec.training = Training::Negatives(training);
            }
            _ => {
                if guidance != GuidanceSpec::None && model == ModelName::TransE {
                    // A negated distance never exceeds 0: shifted so that truths use all of [0, 1].
                    training.objective.shift = 4.0;
                }
                spec.training = Training::Negatives(training);
            }
        }
        Ok(spec)
    }

    /// `ttrouill/complex`'s TransE (spec §6).
    fn transe(&mut self, training: &mut NegativesSpec) {
        self.model.dimension = 100;
        training.objective = Objective::ranking(Loss::PairwiseRanking { margin: 2.0 });
        training.negatives = Negatives { count: 1, sides: Sides::Coin, keep_original: true, filtered: false };
        training.projection = Projection::UnitEntitiesBeforeBatch;
        self.init.relations = Start::Normal { deviation: 1.0, unit: true };
        self.optimizer = Optimizer {
            rule: UpdateRule::AdaGrad { epsilon: 1e-8, inside: true },
            entity_rate: 0.01,
            relation_rate: 0.01,
            cap: Cap::Matrix { norm: 1.0 },
        };
    }

    /// KALE's joint model (spec §9): sums instead of means, all rows of length 1.
    fn kale(&mut self, training: &mut NegativesSpec) {
        self.model = ModelSpec { name: ModelName::TransE, dimension: 100, norm: Norm::L1, reciprocal: false };
        training.objective = Objective::ranking(Loss::TruthRanking { margin: 0.2 });
        training.negatives = Negatives { count: 2, sides: Sides::Halves, keep_original: false, filtered: false };
        training.projection = Projection::UnitRowsAfterStep;
        let start = Start::Uniform { bound: 1.0, unit: true };
        self.init = Init { entities: start, relations: start, shared: false };
        self.optimizer = Optimizer {
            rule: UpdateRule::AdaGrad { epsilon: 1e-8, inside: false },
            entity_rate: 0.1,
            relation_rate: 0.1,
            cap: Cap::Row { norm: 1.0 },
        };
    }

    /// PTransE as its authors released it (spec §8).
    fn set_ptranse(&mut self) {
        let config = PTransEConfig::default();
        self.model =
            ModelSpec { name: ModelName::TransE, dimension: config.dimension, norm: Norm::L1, reciprocal: false };
        (self.init, self.optimizer) = (ptranse_init(config.deviation), ptranse_optimizer(config.rate));
        self.training = Training::PTransE(PTransESpec::default());
    }

    /// Refuses what cannot run.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(RugeError::spec(message));
        self.check_storable()?;
        if !(1..=20_000).contains(&self.model.dimension) {
            return refuse(format!("model.dimension is {}; use 1 to 20,000", self.model.dimension));
        }
        let rates = [self.optimizer.entity_rate, self.optimizer.relation_rate];
        if rates.iter().any(|rate| !rate.is_finite() || *rate < 0.0) {
            return refuse(format!("learning rates must be finite and not negative, not {rates:?}"));
        }
        self.rules.check()?;
        self.check_numbers()?;
        self.check_schedule()?;
        self.check_model()?;
        match &self.training {
            Training::Negatives(training) => training.check(),
            Training::Softmax(training) => self.check_softmax(training),
            Training::PTransE(_) if self.device == DeviceName::Cuda => {
                refuse("ptranse runs on the CPU only\n  remedy: set device to cpu".into())
            }
            Training::PTransE(_) => self.ptranse().map(|_| ()),
            Training::Rules if self.device != DeviceName::Cpu => {
                refuse("rules alone have nothing to guide and run on the CPU; remove guidance and device".into())
            }
            Training::Rules => Ok(()),
        }
    }

    /// Whether rules have a part in it: in guidance, or as the model.
    pub fn takes_rules(&self) -> bool {
        self.guidance().takes_rules() || self.training == Training::Rules
    }

    /// As TOML, every leaf spelled out.
    pub fn to_toml(&self) -> String {
        // Through JSON: it writes an f32 by its own shortest digits, TOML by those of the f64 next to it.
        let json = serde_json::to_string(self).expect("a spec is plain data");
        let json: serde_json::Value = serde_json::from_str(&json).expect("what we print we can read");
        toml::to_string(&to_toml_value(&json)).expect("a spec is plain data")
    }

    /// The spec a JSON object means, as [`Spec::from_toml`]; leaves it does not have are those of the paper.
    pub fn from_json(json: &serde_json::Value, name: &str) -> Result<Self> {
        let text = toml::to_string(&to_toml_value(json));
        Self::from_toml(&text.map_err(|error| RugeError::spec(format!("{name}: {error}")))?, name)
    }
}

/// Tables are merged leaf by leaf; a table that names another kind of thing replaces the old one whole.
pub fn lay_over(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => {
                let changed = |kind: &&str| new.get(*kind).is_some_and(|value| old.get(*kind) != Some(value));
                if place::KINDS.iter().any(changed) {
                    *old = new;
                } else {
                    lay_over(old, new);
                }
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

fn to_toml_value(json: &serde_json::Value) -> toml::Value {
    use serde_json::Value;
    match json {
        Value::Null => toml::Value::String(String::new()),
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.to_string().parse::<f64>().unwrap_or(f64::NAN).into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => toml::Value::Array(list.iter().map(to_toml_value).collect()),
        Value::Object(map) => toml::Value::Table(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), to_toml_value(value)))
                .collect(),
        ),
    }
}

/// For "unknown field `x`, expected one of `a`, `b`": which of them was probably meant.
pub fn hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(typed) = quoted.next().filter(|_| message.starts_with("unknown")) else { return String::new() };
    let near = |name: &str| strsim::jaro_winkler(typed, name);
    match quoted.max_by(|a, b| near(a).total_cmp(&near(b))) {
        Some(name) if near(name) > 0.75 => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_prints_and_reads_back() {
        for model in ModelName::ALL {
            for guidance in ["none", "ruge", "static", "examples", "kale", "ptranse"] {
                let spec = Spec::paper(model, guidance).unwrap();
                let text = spec.to_toml();
                let asks = matches!(model, ModelName::ComplEx | ModelName::DistMult | ModelName::HolE);
                let alone = spec.model.name == ModelName::Rules;
                let runs = (asks || guidance != "examples") && (!alone || guidance == "none");
                assert_eq!(spec.check().is_ok(), runs, "{text}");
                if !runs {
                    continue;
                }
                assert_eq!(spec.overlaid(&text, "x").unwrap(), spec, "{text}");
                assert_eq!(Spec::default().overlaid(&text, "x").unwrap(), spec, "{text}");
                assert_eq!(Spec::from_toml(&text, "x").unwrap(), spec, "{text}");
            }
        }
        assert!(Spec::default().to_toml().contains("weight = 0.01\n"), "{}", Spec::default().to_toml());
    }

    #[test]
    fn a_leaf_changes_and_the_rest_stays() {
        let spec = Spec::default().overlaid("seed = 3\n[model]\ndimension = 50\n", "x").unwrap();
        assert_eq!((spec.seed, spec.model.dimension, spec.model.name), (3, 50, ModelName::ComplEx));
        assert_eq!(spec.schedule, Spec::default().schedule);
    }

    #[test]
    fn unknown_keys_are_told_with_a_suggestion() {
        let error = Spec::default().overlaid("[model]\ndimenson = 50\n", "my.toml").unwrap_err().to_string();
        assert!(error.contains("my.toml") && error.contains("did you mean `dimension`?"), "{error}");
        assert!(Spec::default().overlaid("[guidance]\nkind = \"rule\"\n", "x").is_err());
        assert!(Spec::default().overlaid("seed = ", "my.toml").unwrap_err().to_string().contains("my.toml"));
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |text: &str| Spec::default().overlaid(text, "x").and_then(|spec| spec.check()).is_err();
        assert!(refused("[model]\ndimension = 0\n"));
        assert!(refused("[optimizer]\nentity-rate = nan\n"));
        assert!(refused("[guidance]\nkind = \"kale\"\nweight = 0.1\nmargin = 0.2\n"), "kale on complex");
        assert!(refused(
            "[guidance]\nkind = \"ptranse\"\npath-length = 2\ndrop = 0.01\nrerank = 500\nconfidence-cut-off = 0.5\n"
        ));
        assert!(refused("[rules]\nmin-pca = 1.5\n") && refused("[rules]\nmost-groundings = 0\n"));
        assert!(refused("[rules]\nmin-pca = 0.5\nfile = \"rules.tsv\"\n"), "a file is not mined");
        let ptranse = Spec::paper(ModelName::TransE, "ptranse").unwrap();
        let refused = |text: &str| ptranse.overlaid(text, "x").and_then(|spec| spec.check()).is_err();
        assert!(refused("[guidance]\npath-length = 4\n"));
        assert!(refused("[guidance]\ndrop = 1.0\n"));
        assert!(refused("projection = \"unit-rows-after-step\"\n"), "it would be stored and do nothing");
        assert!(refused("[optimizer]\nentity-rate = 0.1\n"), "there is one rate");
        assert!(refused("[rules]\nfile = \"rules.tsv\"\n"));
        assert!(!refused("[rules]\nthorough = true\n"), "rules may stand beside it");
        assert!(!refused("[guidance]\npath-length = 3\n[model]\ndimension = 50\n[batches]\ncount = 50\n"));
        assert!(Spec::paper(ModelName::ComplEx, "amie").is_err());
    }
}
