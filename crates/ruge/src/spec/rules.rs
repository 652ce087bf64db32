//! Where the rules of a run come from: a file, or mining with these thresholds.

use ruge_rules::MineConfig;
use ruge_rules::rank::Weighing;
use ruge_rules::rank::evidence::Features;
use serde::{Deserialize, Serialize};

use crate::error::{Result, RugeError};

/// Where rules come from.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RulesSpec {
    /// A rule file; without one the rules are mined from the training triples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How they are mined.
    #[serde(default)]
    pub mine: MinePreset,
    /// Least PCA confidence when mining, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_pca: Option<f64>,
    /// Least standard confidence when mining, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_std: Option<f64>,
    /// Least head coverage when mining, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_hc: Option<f64>,
    /// Most atoms of a premise when mining, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<usize>,
    /// Least support when mining, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_support: Option<u64>,
    /// Least number of facts of a relation to be concluded, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_head_size: Option<u64>,
    /// Most conclusions that mined rules may have together, as a share of the training triples: the surest rules stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_conclusions: Option<f64>,
    /// Rules below this confidence, as mined or read, are left out.
    #[serde(default)]
    pub min_confidence: f64,
    /// The confidence of every rule, instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// What a rule's confidence is in guidance.
    #[serde(default, skip_serializing_if = "Weigh::is_default")]
    pub weigh: Weigh,
    /// Whether rules for ranking are weighed with more than twice the usual effort.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thorough: bool,
    /// Rules that rank in addition to a model: `auto` mines them, `none` does without, anything else is a rule file.
    #[serde(default, skip_serializing_if = "RankingRules::is_default")]
    pub ranking: RankingRules,
    /// Evidence about candidates that may count where rules rank.
    #[serde(default, skip_serializing_if = "Features::is_default")]
    pub evidence: Features,
    /// Groundings of an epoch at most; of more, every epoch takes a random share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_groundings: Option<usize>,
}

impl RulesSpec {
    /// The thresholds of mining.
    pub fn config(&self) -> MineConfig {
        self.laid_over(self.mine.config())
    }

    /// The same for a graph of so many triples, entities and relations: the preset for ranking looks for long paths and rare rules as
    /// far as time and memory allow.
    pub fn config_for(&self, [triples, entities, relations]: [usize; 3]) -> MineConfig {
        self.laid_over(match self.mine {
            MinePreset::Ranking => MineConfig::ranking(triples, entities, relations),
            MinePreset::Inductive => MineConfig::inductive(triples, entities, relations),
            _ => self.mine.config(),
        })
    }

    fn laid_over(&self, mut config: MineConfig) -> MineConfig {
        config.min_pca = self.min_pca.unwrap_or(config.min_pca);
        config.min_std = self.min_std.unwrap_or(config.min_std);
        config.min_head_coverage = self.min_hc.unwrap_or(config.min_head_coverage);
        config.max_body = self.max_body.unwrap_or(config.max_body);
        config.min_support = self.min_support.unwrap_or(config.min_support);
        config.min_head_size = self.min_head_size.unwrap_or(config.min_head_size);
        config
    }

    /// How rules for ranking are weighed.
    pub fn weighing(&self) -> Weighing {
        Weighing { evidence: self.evidence, ..Weighing::of(self.thorough) }
    }

    /// What concerns ranking with rules alone, and not training.
    pub fn at_ranking(&self) -> Self {
        let Self { thorough, ranking, evidence, .. } = self.clone();
        Self { thorough, ranking, evidence, ..Self::default() }
    }

    /// What concerns training, and not ranking with rules: models that differ only in the latter are the same.
    pub fn in_training(&self) -> Self {
        let Self { thorough, ranking, evidence, .. } = Self::default();
        Self { thorough, ranking, evidence, ..self.clone() }
    }

    /// Whether anything is said about mining.
    fn says_how_to_mine(&self) -> bool {
        let Self { min_pca, min_std, min_hc, max_body, min_support, min_head_size, max_conclusions, .. } = self;
        [min_pca, min_std, min_hc, max_conclusions].iter().any(|x| x.is_some())
            || [min_support, min_head_size].iter().any(|x| x.is_some())
            || max_body.is_some()
    }

    /// The same rules from a file: nothing is mined.
    pub fn from_file(self, file: String) -> Self {
        let Self { mine, min_confidence, confidence, weigh, thorough, ranking, evidence, most_groundings, .. } = self;
        let file = Some(file);
        let kept = Self { mine, min_confidence, confidence, weigh, thorough, ranking, evidence, ..Self::default() };
        Self { file, most_groundings, ..kept }
    }

    pub(super) fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(RugeError::spec(message));
        if self.file.is_some() && self.says_how_to_mine() {
            return refuse(
                "rules.min-pca, min-std, min-hc and the like are about mining, but rules.file names a file; use \
                 rules.min-confidence"
                    .into(),
            );
        }
        if self.max_conclusions.is_some_and(|share| !(share.is_finite() && share >= 0.0)) {
            return refuse("rules.max-conclusions must be finite and not negative".into());
        }
        if let Err(error) = self.config().check() {
            return refuse(format!("rules: {error}"));
        }
        if !(0.0..=1.0).contains(&self.min_confidence) {
            return refuse(format!("rules.min-confidence lies in [0, 1], not {}", self.min_confidence));
        }
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return refuse("rules.confidence lies in [0, 1]".into());
        }
        if self.weigh == Weigh::Validated && self.confidence.is_some() {
            return refuse(
                "rules.weigh = \"validated\" measures what rules.confidence fixes; remove one of them".into(),
            );
        }
        if self.most_groundings == Some(0) {
            return refuse("rules.most-groundings is at least 1; for training without rules use guidance none".into());
        }
        Ok(())
    }
}

/// Rules that rank in addition to a model.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum RankingRules {
    /// Mined from train for the purpose.
    #[default]
    Auto,
    /// None; evidence may still count.
    None,
    /// Those of a file.
    File(String),
}

impl RankingRules {
    fn is_default(&self) -> bool {
        *self == Self::Auto
    }
}

impl From<String> for RankingRules {
    fn from(text: String) -> Self {
        match text.as_str() {
            "auto" => Self::Auto,
            "none" => Self::None,
            _ => Self::File(text),
        }
    }
}

impl From<RankingRules> for String {
    fn from(rules: RankingRules) -> Self {
        match rules {
            RankingRules::Auto => "auto".into(),
            RankingRules::None => "none".into(),
            RankingRules::File(path) => path,
        }
    }
}

/// What the confidence of a rule is in guidance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weigh {
    /// Its own, as mined or read.
    #[default]
    Confidence,
    /// The share of its new conclusions that are true, measured on validation (see [`validated`](ruge_rules::rank::validated)).
    Validated,
}

impl Weigh {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A way of mining by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MinePreset {
    /// PCA confidence 0.8, head coverage 0.01.
    #[default]
    Default,
    /// The recipe of the rules published for FB15K.
    RugeFb15k,
    /// AMIE's own thresholds.
    Amie,
    /// Everything worth ranking by: low thresholds, rules that name an entity, long paths.
    Ranking,
    /// The same for graphs with other entities: no rule names one, longer paths.
    Inductive,
}

impl MinePreset {
    /// The thresholds.
    pub fn config(self) -> MineConfig {
        match self {
            MinePreset::Default => MineConfig::default(),
            MinePreset::RugeFb15k => MineConfig::ruge_fb15k(),
            MinePreset::Amie => MineConfig::amie(),
            MinePreset::Ranking => MineConfig::ranking(0, 0, 0),
            MinePreset::Inductive => MineConfig::inductive(0, 0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_stand_over_the_preset() {
        let rules = RulesSpec { mine: MinePreset::Amie, min_support: Some(7), ..RulesSpec::default() };
        let config = rules.config();
        assert_eq!((config.min_pca, config.min_support, config.max_body), (0.1, 7, 2));
        assert!(rules.check().is_ok());
        let ranking = RulesSpec { mine: MinePreset::Ranking, ..RulesSpec::default() };
        let (small, large) = (ranking.config_for([100_000, 40_000, 11]), ranking.config_for([500_000, 15_000, 1345]));
        assert!(small.long < large.long && small.min_constant_support < large.min_constant_support);
        assert_eq!((small.max_body, large.max_body), (3, 2));
        let longest = |triples, entities| ranking.config_for([triples, entities, 25]).max_body;
        assert_eq!([longest(8_544, 104), longest(32_888, 2_034), longest(500_000, 40_000)], [2, 3, 2]);
        assert!(small.constants && rules.config_for([500_000, 15_000, 1345]).long.is_none());
        assert!(small.walks.is_some() && large.walks.is_none() && ranking.config_for([5_000, 100, 11]).walks.is_none());
        let file = RulesSpec { file: Some("x".into()), ..rules.clone() };
        assert!(file.check().is_err(), "a file is not mined");
        assert!(rules.from_file("x".into()).check().is_ok());
        assert!(RulesSpec { max_conclusions: Some(f64::NAN), ..RulesSpec::default() }.check().is_err());
    }
}
