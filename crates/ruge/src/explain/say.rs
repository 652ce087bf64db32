//! An explanation in a sentence or two: how true, who says so, what speaks against it.

use ruge_kg::{Rank, Ties};
use serde::{Deserialize, Serialize};

use super::Explanation;

/// Facts of less truth are rather not true.
const UNDECIDED: f64 = 0.4;

/// What to call a truth.
fn verdict(truth: f64) -> &'static str {
    match truth {
        _ if truth >= 0.9 => "Very probably true",
        _ if truth >= 0.6 => "Probably true",
        _ if truth >= UNDECIDED => "Undecided",
        _ if truth >= 0.1 => "Probably not true",
        _ => "Very probably not true",
    }
}

/// Points against that are named.
const SHOWN: usize = 2;
/// A model agrees with a triple that is among so many first answers.
const FIRST: usize = 10;

/// What the trained model by itself says about a triple.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModelSays {
    /// Filtered rank of the tail.
    pub rank: f64,
    /// Filtered rank of the head.
    pub head_rank: f64,
    /// Whether it agrees: the triple is among its first ten answers to one of the two questions, and in the first tenth of all entities.
    pub agrees: bool,
}

impl ModelSays {
    /// By filtered ranks, tail and head, among so many entities.
    pub(super) fn of(ranks: &[Rank], entities: usize) -> Self {
        let [rank, head_rank] = [0, 1].map(|at| ranks[at].filtered.rank(Ties::Mean));
        let first = (entities / 10).clamp(1, FIRST) as f64;
        Self { rank, head_rank, agrees: rank.min(head_rank) <= first }
    }
}

impl Explanation {
    pub(super) fn say(&self, all_rules: usize) -> String {
        let said = match &self.known {
            Some(split) => format!("Known (listed in {split})"),
            None => format!("{} ({:.2})", verdict(self.truth), self.truth),
        };
        let mut text = format!("{said}{}", self.who());
        let counted = self.parts.iter().filter(|part| part.kind == "evidence" && part.value < 0.0);
        let against: Vec<&str> = self
            .against
            .iter()
            .map(String::as_str)
            .chain(counted.map(|part| part.words.as_str()))
            .take(SHOWN)
            .collect();
        if !against.is_empty() {
            text.push_str(&format!("; against it: {}", against.join("; ")));
        }
        text.push('.');
        if self.fired() == 0 {
            text.push_str(&format!(" {}", self.why_no_rule(all_rules)));
        }
        text
    }

    /// Who holds it true: rules, the model, both or neither. If it is probably not true, they do so in vain.
    fn who(&self) -> String {
        let fired = self.fired();
        let rules = if fired == 1 { "1 rule".to_string() } else { format!("{fired} rules") };
        let s = if fired == 1 { "s" } else { "" };
        let agrees = self.model.map(|model| model.agrees);
        if self.known.is_none() && self.truth < UNDECIDED {
            return match (fired, agrees) {
                (0, Some(true)) => ", although the model speaks for it; no rule does".into(),
                (0, _) => ": neither a rule nor a model speaks for it".into(),
                (_, Some(true)) => format!(", although {rules} and the model speak for it"),
                (_, Some(false)) => format!(", although {rules} speak{s} for it; the model does not"),
                (_, None) => format!(", although {rules} conclude{s} it"),
            };
        }
        match (fired, agrees) {
            (0, Some(true)) => ": the model agrees, but no rule".into(),
            (0, _) => ": neither a rule nor a model speaks for it".into(),
            (_, Some(true)) => format!(": {rules} and the model agree"),
            (_, Some(false)) => format!(": {rules}, but not the model"),
            (_, None) => format!(": {rules} conclude{s} it"),
        }
    }

    fn why_no_rule(&self, all_rules: usize) -> String {
        let relation = &self.fact.relation;
        let why = match (all_rules, self.rules_for_relation) {
            (0, _) => "the model has no rules".to_string(),
            (_, 0) => format!("none of the {all_rules} rules concludes {relation}"),
            (_, 1) => format!("the premises of the one rule that concludes {relation} are not listed"),
            (_, n) => format!("the premises of the {n} rules that conclude {relation} are not listed"),
        };
        let instead = match self.similar.is_empty() {
            true => "No other fact of the relation is known.",
            false => "The model's belief rests on its vectors alone; the most similar known facts are listed instead.",
        };
        format!("No rule concludes it: {why}. {instead}")
    }
}
