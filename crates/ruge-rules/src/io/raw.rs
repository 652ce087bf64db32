//! A rule as written on a line, before names become ids.
//!
//! Readers produce these, so that a bad line adds nothing to the vocabulary, and a writer can read its own line back
//! without touching the vocabulary.

use std::borrow::Cow;

use ruge_kg::{EntityId, RelationId};

use super::Stated;
use crate::atom::{Atom, Term, Variable};
use crate::measure::Counts;
use crate::rule::Rule;

/// Maximum atoms in a premise: no miner writes longer rules, but damaged files contain them.
const MAX_ATOMS: usize = 32;

/// Why a line is not a rule: a short name for counting, and the full reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: &'static str,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn new(kind: &'static str, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }

    /// A fault described by its kind alone.
    pub(crate) fn plain(kind: &'static str) -> Self {
        Self::new(kind, kind)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RawTerm<'a> {
    Variable(Cow<'a, str>),
    Constant(Cow<'a, str>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RawAtom<'a> {
    pub(crate) relation: Cow<'a, str>,
    pub(crate) subject: RawTerm<'a>,
    pub(crate) object: RawTerm<'a>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RawRule<'a> {
    pub(crate) premise: Vec<RawAtom<'a>>,
    pub(crate) negated: Vec<RawAtom<'a>>,
    pub(crate) conclusion: RawAtom<'a>,
}

#[derive(Clone, Debug)]
pub(crate) struct RawRecord<'a> {
    pub(crate) rule: RawRule<'a>,
    /// The confidence in the format's sense.
    pub(crate) confidence: Option<f64>,
    pub(crate) stated: Stated,
    pub(crate) counts: Option<Counts>,
}

impl<'a> RawRecord<'a> {
    /// A rule of a format with at most one number.
    pub(crate) fn simple(rule: RawRule<'a>, confidence: Option<f64>) -> Self {
        Self { rule, confidence, stated: Stated::default(), counts: None }
    }
}

pub(crate) enum Line<'a> {
    Rule(Box<RawRecord<'a>>),
    /// Several rules: the alternatives of one premise.
    Rules(Vec<RawRecord<'a>>),
    Comment(&'a str),
    /// Not meant to be a rule, and why.
    Skip(&'static str),
}

impl RawRule<'_> {
    /// The rule over ids. The two closures map names to ids; if one returns `None`, the result is `Ok(None)`.
    pub(crate) fn build(
        &self,
        relation: &mut dyn FnMut(&str) -> Option<RelationId>,
        entity: &mut dyn FnMut(&str) -> Option<EntityId>,
    ) -> Result<Option<Rule>, Fault> {
        let premises = self.premise.len() + self.negated.len();
        if premises > MAX_ATOMS {
            let reason = format!("{premises} premises; at most {MAX_ATOMS} are read");
            return Err(Fault::new("too many premises", reason));
        }
        // 33 atoms have at most 66 variables, well within a byte.
        let mut variables: Vec<&str> = Vec::new();
        let mut atoms = Vec::with_capacity(1 + premises);
        for raw in std::iter::once(&self.conclusion).chain(&self.premise).chain(&self.negated) {
            let mut places = Vec::with_capacity(2);
            for place in [&raw.subject, &raw.object] {
                places.push(match place {
                    RawTerm::Constant(name) => match entity(name) {
                        Some(id) => Term::Constant(id),
                        None => return Ok(None),
                    },
                    RawTerm::Variable(name) => {
                        let at = variables.iter().position(|v| *v == name.as_ref()).unwrap_or_else(|| {
                            variables.push(name);
                            variables.len() - 1
                        });
                        Term::Variable(Variable(at as u8))
                    }
                });
            }
            let Some(relation) = relation(&raw.relation) else { return Ok(None) };
            atoms.push(Atom { relation, subject: places[0], object: places[1] });
        }
        let conclusion = atoms.remove(0);
        let negated = atoms.split_off(self.premise.len());
        Ok(Some(Rule { conclusion, premise: atoms, negated }.renumbered()))
    }
}

/// A step of a chain: the relation, and whether it is inverse.
pub(crate) type Step = (RelationId, bool);

/// The premise as a walk x → z1 → … → y that visits every inner variable once, if it is one.
pub(crate) fn chain(rule: &Rule) -> Option<Vec<Step>> {
    let order = chain_order(rule)?;
    let mut at = rule.conclusion.subject;
    let mut steps = Vec::with_capacity(order.len());
    for index in order {
        let atom = rule.premise[index];
        let against = atom.subject != at;
        steps.push((atom.relation, against));
        at = if against { atom.subject } else { atom.object };
    }
    Some(steps)
}

/// The premises in the order of the walk from the conclusion's subject to its object.
pub(crate) fn chain_order(rule: &Rule) -> Option<Vec<usize>> {
    let (start, end) = (rule.conclusion.subject, rule.conclusion.object);
    if rule.has_constants() || start == end || rule.premise.is_empty() || !rule.negated.is_empty() {
        return None;
    }
    let mut order: Vec<usize> = Vec::with_capacity(rule.premise.len());
    let mut visited = vec![start];
    let mut at = start;
    while order.len() < rule.premise.len() {
        let mut next = None;
        for (index, atom) in rule.premise.iter().enumerate() {
            if !order.contains(&index) && atom.terms().contains(&at) {
                if next.is_some() {
                    return None; // a branch
                }
                next = Some((index, if atom.subject == at { atom.object } else { atom.subject }));
            }
        }
        let (index, to) = next?;
        if visited.contains(&to) || at == end {
            return None; // a loop, or a walk past y
        }
        order.push(index);
        visited.push(to);
        at = to;
    }
    (at == end).then_some(order)
}

/// The rule with its premises in the order of the walk, if it is a walk.
pub(crate) fn in_chain_order(rule: &Rule) -> Rule {
    match chain_order(rule) {
        Some(order) => {
            let premise = order.into_iter().map(|index| rule.premise[index]).collect();
            Rule::new(rule.conclusion, premise).renumbered()
        }
        None => rule.renumbered(),
    }
}

/// The rule in natural reading order, and its variables in order of appearance: a walk starts at the end from which its
/// relations point forward; other premises keep their order.
pub(crate) fn natural(rule: &Rule) -> (Rule, Vec<Variable>) {
    let mut rule = in_chain_order(rule);
    if chain(&rule).is_some_and(|steps| steps[0].1 && steps[steps.len() - 1].1) {
        rule.premise.reverse();
    }
    let mut order = Vec::new();
    for variable in rule.premise.iter().chain([&rule.conclusion]).chain(&rule.negated).flat_map(|atom| atom.variables())
    {
        if !order.contains(&variable) {
            order.push(variable);
        }
    }
    (rule, order)
}

/// A key that two rules share exactly if they are the same rule. Walks have one order, so only other rules need the
/// costly search of [`Rule::canonical`].
pub(crate) fn key(rule: &Rule) -> Rule {
    if chain_order(rule).is_some() { in_chain_order(rule) } else { rule.canonical() }
}

/// A number as AMIE writes it: at most nine decimals, no trailing zeros, `1` for one.
pub fn decimal(value: f64) -> String {
    let text = format!("{value:.9}");
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_string() } else { text.to_string() }
}

/// Parses a finite number.
pub(crate) fn number(text: &str, what: &str) -> Result<f64, Fault> {
    text.trim()
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .ok_or_else(|| Fault::new("not a number", format!("the {what} {text:?} is not a number")))
}

/// A count; negative means missing, as in AMIE.
pub(crate) fn count(text: &str, what: &str) -> Result<Option<u64>, Fault> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('-') {
        return Ok(None);
    }
    if let Ok(value) = text.parse::<u64>() {
        return Ok(Some(value));
    }
    // AMIE+ prints some counts as 11.0.
    match number(text, what)? {
        value if value.fract() == 0.0 && value < 9e15 => Ok(Some(value as u64)),
        _ => Err(Fault::new("not a count", format!("the {what} {text:?} is not a whole number"))),
    }
}

/// A ratio; negative means missing, above 1 is an error.
pub(crate) fn ratio(text: &str, what: &str) -> Result<Option<f64>, Fault> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    match number(text, what)? {
        value if value < 0.0 => Ok(None),
        value if value > 1.0 => Err(Fault::new("outside [0, 1]", format!("the {what} {text} lies outside [0, 1]"))),
        value => Ok(Some(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(conclusion: (u8, u8), premise: &[(u8, u8)]) -> Rule {
        let atom = |(s, o): (u8, u8)| Atom::new(RelationId(0), Variable(s), Variable(o));
        Rule::new(atom(conclusion), premise.iter().map(|&p| atom(p)).collect())
    }

    #[test]
    fn walks_and_what_is_none() {
        assert_eq!(chain_order(&rule((0, 1), &[(2, 1), (0, 2)])), Some(vec![1, 0]));
        assert_eq!(chain(&rule((0, 1), &[(1, 0)])), Some(vec![(RelationId(0), true)]));
        for branching in [&[(0, 1), (0, 1)][..], &[(0, 2), (0, 1)], &[(0, 0), (0, 1)], &[(0, 1), (1, 2)], &[(0, 2)]] {
            assert_eq!(chain_order(&rule((0, 1), branching)), None, "{branching:?}");
        }
        assert_eq!(chain_order(&rule((0, 0), &[(0, 2), (2, 0)])), None);
    }

    #[test]
    fn numbers_as_the_published_files_have_them() {
        assert_eq!(decimal(0.9930795847750865), "0.993079585");
        assert_eq!((decimal(1.0), decimal(0.8), decimal(0.0)), ("1".into(), "0.8".into(), "0".into()));
        assert_eq!(count("-1", "body size"), Ok(None));
        assert_eq!(count("11.0", "body size"), Ok(Some(11)));
        assert_eq!(ratio("-848.000000", "standard confidence"), Ok(None));
        assert!(ratio("1.5", "confidence").is_err() && ratio("NaN", "confidence").is_err());
    }
}
