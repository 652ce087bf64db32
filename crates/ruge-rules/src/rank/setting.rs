//! What rules count when they rank: the numbers that validation decides.

use std::collections::BTreeMap;

use ruge_kg::{RelationId, Side};
use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::fit::Tried;
use super::scores::{SMOOTHING, Sum};

/// How a sum of log-doubts becomes a rule score.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As it is, −ln(1 − p): grows without end as evidence adds up.
    #[default]
    Evidence,
    /// p itself.
    Probability,
}

impl Form {
    /// The rule score of a sum.
    pub fn score(self, sum: f64) -> f64 {
        match self {
            Form::Evidence => sum,
            Form::Probability => -(-sum).exp_m1(),
        }
    }
}

/// What rules count in the queries of one relation and direction, or in all.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Setting {
    /// γ: what each further rule counts, relative to the one before.
    pub discount: f64,
    /// Whether rules that name an entity have a say.
    pub constants: bool,
    /// Whether rules weigh what was learned from train facts instead of what was counted.
    #[serde(default)]
    pub learned: bool,
    /// Probability or evidence.
    pub form: Form,
    /// β.
    pub weight: f64,
}

impl Setting {
    /// Rules alone, nothing fitted: the best rule decides, the others break ties.
    pub const ALONE: Setting =
        Setting { discount: 0.5, constants: true, learned: false, form: Form::Evidence, weight: 1.0 };

    /// How the rules are summed.
    pub fn sum(&self) -> Sum {
        Sum { discount: self.discount, constants: self.constants, learned: self.learned }
    }
}

/// What rules may not see of a train fact while their weights are learned from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hiding {
    /// The fact.
    #[default]
    Fact,
    /// Every fact that links the same two entities: for graphs that were split so that no held-out pair is linked in train.
    Pair,
}

/// A fitted combination: all that ranking needs beside the rules and the model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ranking {
    /// What is added to the size of a rule's body for its confidence.
    pub smoothing: f64,
    /// Whether no entity stands for two variables where rules are applied; older files know no such thing.
    #[serde(default)]
    pub injective: bool,
    /// What was hidden while weights were learned.
    #[serde(default)]
    pub hiding: Hiding,
    /// For relations and directions not named below.
    pub global: Setting,
    /// By relation and direction, where it differs.
    pub settings: Vec<GroupSetting>,
    /// What was tried, and what it gave on the half of validation it was not fitted on.
    #[serde(default)]
    pub tried: Vec<Tried>,
    /// Numbers that validation decided: one per choice that was made.
    pub fitted: usize,
    /// Evidence for and against candidates, where it helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Sets of features that were tried, and what they gave on the half of validation they were not fitted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence_tried: Vec<Tried>,
    /// Whether candidates that rules leave equal are told apart by their nearness to the known end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub near: bool,
    /// The same rules without the model, fitted by themselves: what of a combination is theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Box<Ranking>>,
}

/// The setting of one relation and direction.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GroupSetting {
    /// The relation, by id.
    pub relation: u32,
    /// The hidden end.
    pub side: Side,
    /// What rules count there.
    #[serde(flatten)]
    pub setting: Setting,
}

impl Ranking {
    /// The same setting for all.
    pub fn of(global: Setting) -> Self {
        Self {
            smoothing: SMOOTHING,
            injective: true,
            hiding: Hiding::default(),
            global,
            settings: Vec::new(),
            tried: Vec::new(),
            fitted: 0,
            evidence: None,
            evidence_tried: Vec::new(),
            near: false,
            alone: None,
        }
    }

    /// Settings by relation and direction.
    pub(super) fn table(&self) -> BTreeMap<(RelationId, Side), Setting> {
        self.settings.iter().map(|group| ((RelationId(group.relation), group.side), group.setting)).collect()
    }

    /// Whether learned weights count anywhere.
    pub fn uses_weights(&self) -> bool {
        let uses = |setting: &Setting| setting.learned && setting.weight > 0.0;
        let alone = self.alone.as_ref().is_some_and(|alone| alone.uses_weights());
        alone || uses(&self.global) || self.settings.iter().any(|group| uses(&group.setting))
    }

    /// Validation MRR of what was taken, each half by what was fitted on the other; with evidence, among the best answers alone.
    pub fn valid_mrr(&self) -> Option<f64> {
        let taken = |tried: &[Tried]| tried.iter().find(|tried| tried.taken).map(|tried| tried.mrr);
        taken(&self.evidence_tried).or_else(|| taken(&self.tried))
    }

    /// Whether it changes the ranks of the other ranker.
    pub fn counts(&self) -> bool {
        self.uses_rules() || self.evidence.is_some()
    }

    /// Whether rules count anywhere.
    pub fn uses_rules(&self) -> bool {
        self.global.weight > 0.0 || self.settings.iter().any(|group| group.setting.weight > 0.0)
    }
}
