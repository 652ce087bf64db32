//! Names as people read them: with their labels, and IRIs in their short form. Output for programs keeps the user's own strings.

use std::collections::BTreeMap;

use ruge::complete::Proposal;
use ruge_kg::Dataset;
use ruge_rules::words;
use serde::{Deserialize, Serialize};

/// An entity by its name: `Germany (Q183)`, `ex:berlin`, or the name as it is.
pub fn entity(data: &Dataset, name: &str) -> String {
    data.names().entities.id(name).map_or_else(|| text(data, name), |id| data.called_entity(id))
}

/// A relation by its name.
pub fn relation(data: &Dataset, name: &str) -> String {
    data.names().relations.id(name).map_or_else(|| text(data, name), |id| data.called_relation(id))
}

/// A sentence with names in it.
pub fn text(data: &Dataset, text: &str) -> String {
    data.prefixes().shorten_all(text).into_owned()
}

/// A rule from its formula: in words where its relations have labels, which a formula has no room for; else the formula.
pub fn rule(data: &Dataset, formula: &str) -> String {
    let is_labelled = data.graph().relations().any(|id| data.labels().relation(id).is_some());
    let told = if is_labelled { words::told_formula(formula, data) } else { None };
    told.unwrap_or_else(|| text(data, formula))
}

/// How the names and rules of proposed facts are shown, by what they are called in files; what is shown as it is has no entry.
///
/// A page keeps both: people read the one, downloads have the other.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Shown {
    /// Entities.
    pub entities: BTreeMap<String, String>,
    /// Relations.
    pub relations: BTreeMap<String, String>,
    /// Rules, by their formulas.
    pub rules: BTreeMap<String, String>,
}

impl Shown {
    /// Of what the proposals name.
    pub fn of(proposals: &[Proposal], data: &Dataset) -> Self {
        let mut shown = Self::default();
        let note = |map: &mut BTreeMap<String, String>, name: &str, show: fn(&Dataset, &str) -> String| {
            if !map.contains_key(name) {
                map.insert(name.to_string(), show(data, name));
            }
        };
        for proposal in proposals {
            note(&mut shown.entities, &proposal.fact.head, entity);
            note(&mut shown.relations, &proposal.fact.relation, relation);
            note(&mut shown.entities, &proposal.fact.tail, entity);
            proposal.rules.iter().for_each(|found| note(&mut shown.rules, &found.rule, rule));
        }
        for map in [&mut shown.entities, &mut shown.relations, &mut shown.rules] {
            map.retain(|name, shown| name != shown);
        }
        shown
    }

    /// An entity.
    pub fn entity<'n>(&'n self, name: &'n str) -> &'n str {
        self.entities.get(name).map_or(name, String::as_str)
    }

    /// A relation.
    pub fn relation<'n>(&'n self, name: &'n str) -> &'n str {
        self.relations.get(name).map_or(name, String::as_str)
    }

    /// A rule.
    pub fn rule<'n>(&'n self, formula: &'n str) -> &'n str {
        self.rules.get(formula).map_or(formula, String::as_str)
    }
}
