//! What facts may not be: constraints that a user states, and habits that the listed facts have.
//!
//! A constraint is obeyed: a fact that would violate it is not true, and `check` reports listed facts that do. A habit is what
//! nearly all listed facts do: a country has one capital, nobody borders itself. It does not forbid anything, because truth has it
//! in its numbers already ([`truth`](crate::truth)). It is named where it speaks against a fact.
//!
//! [`Habits`] finds habits, and [`Habits::suggest`] writes them as such a file for a person to go through.
//!
//! Constraints are lines of a text file, words separated by tabs or, in names without blanks, by blanks:
//!
//! ```text
//! functional          capital_of
//! inverse-functional  capital_of
//! irreflexive         borders
//! asymmetric          located_in
//! type-relation       instance_of
//! domain              capital_of   City
//! range               capital_of   Country
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use ruge_kg::{Dataset, EntityId, RelationId, Triple};
use serde::Serialize;

use crate::error::{Result, RugeError};
use crate::suggest::suggestion;

mod habits;

pub use habits::{Habit, HabitKind, Habits};

/// Constraints of a user.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Constraints {
    relations: BTreeMap<RelationId, Kinds>,
    /// The relation that says what type an entity has.
    types: Option<RelationId>,
}

/// What must hold of a relation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Kinds {
    functional: bool,
    inverse_functional: bool,
    irreflexive: bool,
    asymmetric: bool,
    domain: Vec<EntityId>,
    range: Vec<EntityId>,
}

/// A listed fact that violates a constraint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Violation {
    /// Head, relation and tail.
    pub fact: [String; 3],
    /// `train`, `valid` or `test`.
    pub split: &'static str,
    /// Which constraint, and why.
    pub reason: String,
}

/// Names that relations of types often have, if none is given.
const TYPES: [&str; 6] = [
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
    "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
    "rdf:type",
    "type",
    "instance_of",
    "is_a",
];

impl Constraints {
    /// Reads a file of constraints.
    pub fn read(path: &Path, data: &Dataset) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(RugeError::io(path, "read"))?;
        Self::parse(&text, data).map_err(|(line, reason)| RugeError::Facts { path: path.to_path_buf(), line, reason })
    }

    /// The same from text. Errors have a line and a reason.
    pub fn parse(text: &str, data: &Dataset) -> std::result::Result<Self, (u64, String)> {
        let names = data.names();
        let types = TYPES.iter().find_map(|name| names.relations.id(name));
        let mut found = Self { relations: BTreeMap::new(), types };
        let mut first_class = 0;
        for (at, line) in text.lines().enumerate() {
            let at = at as u64 + 1;
            let line = line.strip_prefix('\u{feff}').unwrap_or(line).trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = match line.contains('\t') {
                true => line.split('\t').map(str::trim).filter(|word| !word.is_empty()).collect(),
                false => line.split_whitespace().collect(),
            };
            let relation = |name: &str| {
                let all = names.relations.iter().map(|(_, name)| name);
                names.relations.id(name).ok_or_else(|| (at, unknown("relation", name, suggestion(name, all))))
            };
            let entity = |name: &str| {
                let all = names.entities.iter().map(|(_, name)| name);
                names.entities.id(name).ok_or_else(|| (at, unknown("entity", name, suggestion(name, all))))
            };
            match words.as_slice() {
                ["functional", r] => found.of(relation(r)?).functional = true,
                ["inverse-functional", r] => found.of(relation(r)?).inverse_functional = true,
                ["irreflexive", r] => found.of(relation(r)?).irreflexive = true,
                ["asymmetric", r] => found.of(relation(r)?).asymmetric = true,
                ["type-relation", r] => found.types = Some(relation(r)?),
                [end @ ("domain" | "range"), r, class] => {
                    let (kinds, class) = (found.of(relation(r)?), entity(class)?);
                    if *end == "domain" {
                        kinds.domain.push(class)
                    } else {
                        kinds.range.push(class)
                    }
                    first_class = if first_class == 0 { at } else { first_class };
                }
                _ => {
                    let kinds = "functional, inverse-functional, irreflexive or asymmetric and a relation; domain or range, a \
                                 relation and a class; or type-relation and a relation";
                    return Err((at, format!("{line:?} is no constraint; write {kinds}, separated by tabs")));
                }
            }
        }
        if found.types.is_none() && first_class > 0 {
            let reason = "domain and range need a relation that gives types; add a line: type-relation NAME";
            return Err((first_class, reason.into()));
        }
        Ok(found)
    }

    fn of(&mut self, relation: RelationId) -> &mut Kinds {
        self.relations.entry(relation).or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// Why a triple may not be added to the listed facts.
    pub fn forbid(&self, data: &Dataset, triple: Triple) -> Option<String> {
        let kinds = self.relations.get(&triple.relation)?;
        let Triple { head, relation, tail } = triple;
        let known = data.filter();
        let name = |entity: EntityId| data.called_entity(entity);
        let called = data.called_relation(relation);
        let other = |others: &[EntityId], than: EntityId| others.iter().copied().find(|&other| other != than);
        if kinds.irreflexive && head == tail {
            return Some(format!("{called} is irreflexive"));
        }
        if kinds.functional
            && let Some(other) = other(known.tails(head, relation), tail)
        {
            return Some(format!("{called} is functional, and {} already has {}", name(head), name(other)));
        }
        if kinds.inverse_functional
            && let Some(other) = other(known.heads(relation, tail), head)
        {
            return Some(format!("{called} is inverse-functional, and {} already has {}", name(tail), name(other)));
        }
        if kinds.asymmetric && known.contains(Triple { head: tail, relation, tail: head }) {
            return Some(format!("{called} is asymmetric, and the reverse is listed"));
        }
        let wrong = |entity: EntityId, classes: &[EntityId]| {
            let types = self.types.map_or(&[][..], |types| known.tails(entity, types));
            // An entity without a type is not known to be of the wrong one.
            !classes.is_empty() && !types.is_empty() && !classes.iter().any(|class| types.contains(class))
        };
        for (entity, classes, end) in [(head, &kinds.domain, "domain"), (tail, &kinds.range, "range")] {
            if wrong(entity, classes) {
                let classes: Vec<String> = classes.iter().map(|&class| name(class)).collect();
                return Some(format!("the {end} of {called} is {}, and {} is not", classes.join(" or "), name(entity)));
            }
        }
        None
    }

    /// Listed facts that violate a constraint, in the order of train, valid and test.
    pub fn violations(&self, data: &Dataset) -> Vec<Violation> {
        let all = [("train", data.train()), ("valid", data.valid()), ("test", data.test())];
        let of = |(split, &triple): (&'static str, &Triple)| {
            let reason = self.forbid(data, triple)?;
            Some(Violation { fact: data.show(triple).map(str::to_string), split, reason })
        };
        all.into_iter().flat_map(|(split, triples)| triples.iter().map(move |x| (split, x))).filter_map(of).collect()
    }
}

/// Constraints are read for data as well as for models, so the message blames neither.
fn unknown(kind: &str, name: &str, near: String) -> String {
    format!("there is no {kind} called {name:?}{near}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::ReadOptions;

    fn demo() -> Dataset {
        Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded").0
    }

    fn triple(data: &Dataset, [h, r, t]: [&str; 3]) -> Triple {
        let entity = |name: &str| data.names().entities.id(name).expect(name);
        Triple { head: entity(h), relation: data.names().relations.id(r).expect(r), tail: entity(t) }
    }

    #[test]
    fn constraints_forbid_and_report() {
        let data = demo();
        let text = "# a comment\nfunctional\tcapital_of\ninverse-functional capital_of\nirreflexive borders\nasymmetric located_in\n";
        let constraints = Constraints::parse(text, &data).unwrap();
        let forbid = |fact: [&str; 3]| constraints.forbid(&data, triple(&data, fact));
        assert!(forbid(["Espoo", "capital_of", "Finland"]).unwrap().contains("Helsinki"));
        assert!(forbid(["Finland", "borders", "Finland"]).unwrap().contains("irreflexive"));
        assert_eq!(forbid(["Helsinki", "capital_of", "Finland"]), None);
        assert_eq!(forbid(["Espoo", "located_in", "Finland"]), None);
        for violation in constraints.violations(&data) {
            assert!(violation.reason.contains(&violation.fact[1]), "{violation:?}");
        }
    }

    #[test]
    fn broken_lines_are_named() {
        let data = demo();
        let error = |text: &str| Constraints::parse(text, &data).unwrap_err();
        assert_eq!(error("functional capital_of\nfunctonal borders").0, 2);
        assert!(error("functional capital_off").1.contains("capital_of"));
        assert!(error("domain capital_of Atlantis-on-Sea").1.contains("entity"));
        // The line to blame is the one that asks for types.
        let mut names = ruge_kg::Names::default();
        let train = vec![names.triple("a", "r", "b")];
        let untyped = Dataset::new(names, train, vec![], vec![]);
        let (line, reason) = Constraints::parse("# no types here\nfunctional r\nrange r b", &untyped).unwrap_err();
        assert!(line == 3 && reason.contains("type-relation"), "{line}: {reason}");
    }
}
