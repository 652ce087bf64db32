//! Rules: a premise of atoms, a conclusion, and a confidence.

use ruge_kg::{RelationId, Triple};
use serde::{Deserialize, Serialize};

use crate::atom::{Atom, Term, Variable};

/// premise ⇒ conclusion. The premise keeps its original order.
///
/// Atoms of the premise may be negated. The world is closed over the training graph: ¬r(a,b) holds if r(a,b) is not a
/// training triple. Mined rules have no negation.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// The conclusion.
    pub conclusion: Atom,
    /// Atoms that must all hold.
    pub premise: Vec<Atom>,
    /// Atoms that must not hold. The rule is safe only if `premise` binds their variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub negated: Vec<Atom>,
}

impl Rule {
    /// A Horn rule: without negation.
    pub fn new(conclusion: Atom, premise: Vec<Atom>) -> Self {
        Self { conclusion, premise, negated: Vec::new() }
    }

    /// The relation that the rule predicts.
    pub fn head(&self) -> RelationId {
        self.conclusion.relation
    }

    /// All atoms, conclusion first, negated ones last.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        std::iter::once(&self.conclusion).chain(&self.premise).chain(&self.negated)
    }

    /// Whether all variables and constants of a grounding have different values.
    pub fn keeps_apart(&self, conclusion: Triple, premises: &[Triple]) -> bool {
        let named = || {
            let facts = [conclusion].into_iter().chain(premises.iter().copied());
            self.atoms().zip(facts).flat_map(|(atom, fact)| atom.terms().into_iter().zip([fact.head, fact.tail]))
        };
        named()
            .enumerate()
            .all(|(at, (term, entity))| named().take(at).all(|(other, same)| other == term || same != entity))
    }

    /// One more than the largest variable number.
    pub fn variable_count(&self) -> usize {
        self.atoms().flat_map(|atom| atom.variables()).map(|v| v.index() + 1).max().unwrap_or(0)
    }

    /// Whether every variable of the conclusion and of the negated atoms is in the premise, so that the rule can be
    /// grounded.
    pub fn is_safe(&self) -> bool {
        let bound = |variable| self.premise.iter().any(|atom| atom.variables().any(|v| v == variable));
        self.negated.iter().chain([&self.conclusion]).flat_map(|atom| atom.variables()).all(bound)
    }

    /// Whether every variable occurs in at least two atoms.
    pub fn is_closed(&self) -> bool {
        let uses = |variable| self.atoms().filter(|atom| atom.variables().any(|v| v == variable)).count();
        self.atoms().flat_map(|atom| atom.variables()).all(|variable| uses(variable) >= 2)
    }

    /// Whether the rule contains an entity.
    pub fn has_constants(&self) -> bool {
        self.atoms().any(|atom| atom.terms().iter().any(|term| matches!(term, Term::Constant(_))))
    }

    /// The rule with variables numbered by first appearance: conclusion, premise, then the negated atoms.
    pub fn renumbered(&self) -> Self {
        let mut seen: Vec<Variable> = Vec::new();
        // X and Y are reserved for the conclusion's arguments even if these are entities.
        let mut first = [None, None];
        for (place, term) in self.conclusion.terms().into_iter().enumerate() {
            first[place] = term.variable();
        }
        let mut number = |variable: Variable| -> Variable {
            if first[0] == Some(variable) {
                return Variable::X;
            }
            if first[1] == Some(variable) {
                return Variable::Y;
            }
            let at = seen.iter().position(|&v| v == variable).unwrap_or_else(|| {
                seen.push(variable);
                seen.len() - 1
            });
            Variable(2 + at as u8)
        };
        let mut renumber = |atom: &Atom| Atom {
            relation: atom.relation,
            subject: atom.subject.variable().map_or(atom.subject, |v| number(v).into()),
            object: atom.object.variable().map_or(atom.object, |v| number(v).into()),
        };
        let conclusion = renumber(&self.conclusion);
        let premise = self.premise.iter().map(&mut renumber).collect();
        Self { conclusion, premise, negated: self.negated.iter().map(renumber).collect() }
    }

    /// A form that two rules share exactly if they differ only in variable names and the order of premises.
    ///
    /// It is the smallest of all orders of the premise, each renumbered. Premises of more than six atoms, including
    /// negated ones, keep their order.
    pub fn canonical(&self) -> Self {
        let mut best = self.renumbered();
        if self.premise.len() + self.negated.len() > 6 {
            return best;
        }
        permute(&mut self.premise.clone(), 0, &mut |premise| {
            permute(&mut self.negated.clone(), 0, &mut |negated| {
                let (premise, negated) = (premise.to_vec(), negated.to_vec());
                let candidate = Rule { conclusion: self.conclusion, premise, negated }.renumbered();
                if candidate < best {
                    best = candidate;
                }
            });
        });
        best
    }

    /// The kind of body.
    pub fn shape(&self) -> Shape {
        let rule = self.renumbered();
        let (x, y, z) = (Term::from(Variable::X), Term::from(Variable::Y), Term::from(Variable::Z));
        if rule.has_constants() {
            return Shape::Constant;
        }
        if !rule.negated.is_empty() {
            return Shape::Other;
        }
        match rule.premise[..] {
            [atom] if atom.terms() == [x, y] => Shape::SameDirection,
            [atom] if atom.terms() == [y, x] && atom.relation == rule.head() => Shape::Symmetry,
            [atom] if atom.terms() == [y, x] => Shape::Inverse,
            [a, b] => {
                let has = |atom: Atom, term| atom.terms().contains(&term);
                if has(a, x) && has(a, y) && has(b, x) && has(b, y) {
                    return Shape::SamePair;
                }
                // Put the atom at x first.
                let (a, b) = if has(a, x) { (a, b) } else { (b, a) };
                match (a.terms(), b.terms()) {
                    ([s, o], [t, p]) if [s, o, t, p] == [x, z, z, y] => Shape::Chain,
                    ([s, o], [t, p]) if [s, o, t, p] == [z, x, y, z] => Shape::InverseChain,
                    ([s, o], [t, p]) if [s, o, t, p] == [z, x, z, y] => Shape::CommonSubject,
                    ([s, o], [t, p]) if [s, o, t, p] == [x, z, y, z] => Shape::CommonObject,
                    _ => Shape::Other,
                }
            }
            [_, _, _] if rule.is_closed() => Shape::LongPath,
            _ => Shape::Other,
        }
    }
}

fn permute(atoms: &mut Vec<Atom>, fixed: usize, visit: &mut impl FnMut(&[Atom])) {
    if fixed + 1 >= atoms.len() {
        return visit(atoms);
    }
    for other in fixed..atoms.len() {
        atoms.swap(fixed, other);
        permute(atoms, fixed + 1, visit);
        atoms.swap(fixed, other);
    }
}

/// Kinds of premise for a conclusion h(x,y).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// r(x,y)
    SameDirection,
    /// r(y,x), with r other than h
    Inverse,
    /// h(y,x)
    Symmetry,
    /// r1(x,z), r2(z,y)
    Chain,
    /// r2(y,z), r1(z,x)
    InverseChain,
    /// r1(z,x), r2(z,y)
    CommonSubject,
    /// r1(x,z), r2(y,z)
    CommonObject,
    /// two atoms over x and y
    SamePair,
    /// three closed atoms
    LongPath,
    /// with an entity
    Constant,
    /// anything else
    Other,
}

impl Shape {
    /// The premise as a pattern.
    pub fn pattern(self) -> &'static str {
        match self {
            Shape::SameDirection => "r(x,y)",
            Shape::Inverse => "r(y,x), r ≠ h",
            Shape::Symmetry => "h(y,x)",
            Shape::Chain => "r1(x,z), r2(z,y)",
            Shape::InverseChain => "r2(y,z), r1(z,x)",
            Shape::CommonSubject => "r1(z,x), r2(z,y)",
            Shape::CommonObject => "r1(x,z), r2(y,z)",
            Shape::SamePair => "r1 and r2 over {x,y}",
            Shape::LongPath => "three atoms",
            Shape::Constant => "with constants",
            Shape::Other => "other",
        }
    }
}

/// Confidence of a rule: a number in [0, 1].
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Confidence(f64);

impl Confidence {
    /// A rule without exceptions.
    pub const HARD: Confidence = Confidence(1.0);

    /// `None` outside [0, 1], NaN included.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Confidence {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        Self::new(value).ok_or_else(|| format!("a confidence must be in [0, 1], not {value}"))
    }
}

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> f64 {
        confidence.0
    }
}

/// (f, λ): a rule that holds with some confidence. 1 is a hard rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SoftRule {
    /// f.
    pub rule: Rule,
    /// λ.
    pub confidence: Confidence,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn atom(relation: u32, subject: u8, object: u8) -> Atom {
        Atom::new(RelationId(relation), Variable(subject), Variable(object))
    }

    #[test]
    fn entities_that_stand_for_two_are_seen() {
        let path = Rule::new(atom(0, 0, 1), vec![atom(1, 0, 2), atom(2, 2, 1)]);
        let ways = |z: u32| [Triple::new(7, 1, z), Triple::new(z, 2, 8)];
        assert!(path.keeps_apart(Triple::new(7, 0, 8), &ways(9)));
        assert!(!path.keeps_apart(Triple::new(7, 0, 8), &ways(8)), "z is y");
        let [x, constant] = [Term::from(Variable(0)), Term::Constant(ruge_kg::EntityId(5))];
        let named = Rule::new(Atom::new(RelationId(0), x, constant), vec![atom(1, 0, 2)]);
        assert!(named.keeps_apart(Triple::new(7, 0, 5), &[Triple::new(7, 1, 9)]));
        assert!(!named.keeps_apart(Triple::new(7, 0, 5), &[Triple::new(7, 1, 5)]), "y is the constant");
        let twice = Rule::new(atom(0, 0, 1), vec![atom(1, 0, 1), atom(2, 1, 0)]);
        assert!(twice.keeps_apart(Triple::new(7, 0, 8), &[Triple::new(7, 1, 8), Triple::new(8, 2, 7)]));
    }

    #[test]
    fn names_and_order_do_not_matter() {
        let a = Rule::new(atom(0, 0, 1), vec![atom(1, 0, 5), atom(2, 5, 1)]);
        let b = Rule::new(atom(0, 3, 4), vec![atom(2, 9, 4), atom(1, 3, 9)]);
        assert_eq!(a.canonical(), b.canonical());
        let c = Rule::new(atom(0, 0, 1), vec![atom(1, 5, 0), atom(2, 5, 1)]);
        assert_ne!(a.canonical(), c.canonical());
        assert_eq!((a.shape(), b.shape(), c.shape()), (Shape::Chain, Shape::Chain, Shape::CommonSubject));
    }

    #[test]
    fn negation_is_part_of_a_rule() {
        let horn = Rule::new(atom(0, 0, 1), vec![atom(1, 0, 2), atom(2, 2, 1)]);
        let rule = Rule { negated: vec![atom(3, 1, 0), atom(1, 2, 0)], ..horn.clone() };
        assert_ne!(rule.canonical(), horn.canonical());
        let turned = Rule {
            premise: vec![atom(2, 7, 1), atom(1, 0, 7)],
            negated: vec![atom(1, 7, 0), atom(3, 1, 0)],
            ..horn.clone()
        };
        assert_eq!(rule.canonical(), turned.canonical());
        assert!(rule.is_safe() && rule.shape() == Shape::Other);
        assert!(!Rule { negated: vec![atom(3, 1, 4)], ..horn.clone() }.is_safe(), "nobody binds the variable 4");
        let json = serde_json::to_string(&horn).expect("JSON");
        assert!(!json.contains("negated"), "{json}");
        for rule in [horn, rule] {
            let json = serde_json::to_string(&rule).expect("JSON");
            assert_eq!(serde_json::from_str::<Rule>(&json).expect("a rule"), rule);
        }
    }

    proptest! {
        #[test]
        fn canonical_is_idempotent_and_blind_to_order(
            atoms in proptest::collection::vec((0u32..3, 0u8..4, 0u8..4), 1..4), turn in 0usize..4,
        ) {
            let premise: Vec<Atom> = atoms.iter().map(|&(r, s, o)| atom(r, s, o)).collect();
            let rule = Rule::new(atom(0, 0, 1), premise);
            let mut turned = rule.clone();
            let n = turned.premise.len();
            turned.premise.rotate_left(turn % n);
            prop_assert_eq!(rule.canonical(), turned.canonical());
            prop_assert_eq!(rule.canonical(), rule.canonical().canonical());
        }
    }

    #[test]
    fn a_confidence_beyond_one_cannot_be_said() {
        assert!(Confidence::new(1.3).is_none() && Confidence::new(f64::NAN).is_none());
        assert_eq!(Confidence::new(0.5).map(Confidence::get), Some(0.5));
    }
}
