//! An explanation in a sentence or two: how true, who says so, what speaks against it.

use super::Explanation;

/// What to call a truth.
fn verdict(truth: f64) -> &'static str {
    match truth {
        _ if truth >= 0.9 => "Very probably true",
        _ if truth >= 0.6 => "Probably true",
        _ if truth >= 0.4 => "Undecided",
        _ if truth >= 0.1 => "Probably not true",
        _ => "Very probably not true",
    }
}

/// Points against that are named.
const SHOWN: usize = 2;

impl Explanation {
    pub(super) fn say(&self, all_rules: usize) -> String {
        let mut text = match &self.known {
            Some(split) => format!("Known: it is listed in {split}."),
            None => format!("{} ({:.2}).", verdict(self.truth), self.truth),
        };
        text.push_str(&format!(" {}", self.who(all_rules)));
        let counted = self.parts.iter().filter(|part| part.kind == "evidence" && part.value < 0.0);
        let against: Vec<&str> = self
            .against
            .iter()
            .map(String::as_str)
            .chain(counted.map(|part| part.words.as_str()))
            .take(SHOWN)
            .collect();
        if !against.is_empty() {
            text.push_str(&format!(" Against it: {}.", against.join("; ")));
        }
        text
    }

    /// Which rules conclude it; where none does, why.
    fn who(&self, all_rules: usize) -> String {
        let fired = self.fired();
        let relation = &self.fact.relation;
        if fired > 0 {
            let verb = if fired == 1 { "1 rule concludes" } else { &format!("{fired} rules conclude") };
            return format!("{verb} it.");
        }
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
