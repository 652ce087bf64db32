//! Truth between 0 and 1 for expressions of ∧, ∨, ¬ and ⇒: Eq. (3)–(6) of the paper.
//!
//! An expression is built over leaves of any kind, triples for the paper, and its truth π is computed from the truths of
//! its leaves. The paper combines them by the product t-norm:
//!
//! | expression | product | Łukasiewicz | Gödel |
//! |---|---|---|---|
//! | a ∧ b | π(a)π(b) | max(0, π(a) + π(b) − 1) | min |
//! | a ∨ b | π(a) + π(b) − π(a)π(b) | min(1, π(a) + π(b)) | max |
//! | ¬a | 1 − π(a) | 1 − π(a) | 1 − π(a) |
//! | a ⇒ b | π(a)π(b) − π(a) + 1 | min(1, 1 − π(a) + π(b)) | max(1 − π(a), π(b)) |
//!
//! In all three, ∨ is the dual of ∧ (De Morgan) and a ⇒ b is ¬a ∨ b. Where all leaves are true or false, all three are
//! classical logic. That is what rules with ∨ and ¬ in their premises rest on: see [`Expression::alternatives`].
//!
//! The paper's example, a rule grounded for one person:
//!
//! ```
//! use ruge_rules::fuzzy::{Expression, TNorm, truth_of};
//!
//! let born = Expression::Atom("BornInCountry(Kahlo, Mexico)");
//! let nation = Expression::Atom("Nationality(Kahlo, Mexico)");
//! let grounding = born.implies(nation);
//! let truth = |triple: &&str| if triple.starts_with("Born") { 0.75 } else { 0.5 };
//! // 0.75 · 0.5 − 0.75 + 1
//! assert_eq!(truth_of(&grounding, &truth, TNorm::Product), 0.625);
//! assert_eq!(truth_of(&grounding, &truth, TNorm::Lukasiewicz), 0.75);
//! assert_eq!(truth_of(&grounding, &truth, TNorm::Godel), 0.5);
//! ```

use serde::{Deserialize, Serialize};

/// An expression over leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression<L> {
    /// A leaf.
    Atom(L),
    /// ¬
    Not(Box<Expression<L>>),
    /// ∧; of nothing, true.
    And(Vec<Expression<L>>),
    /// ∨; of nothing, false.
    Or(Vec<Expression<L>>),
    /// ⇒
    Implies(Box<Expression<L>>, Box<Expression<L>>),
}

/// How truths combine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TNorm {
    /// a · b, the paper's.
    #[default]
    Product,
    /// max(0, a + b − 1).
    Lukasiewicz,
    /// min(a, b).
    Godel,
}

impl TNorm {
    /// a ∧ b, Eq. (3).
    pub fn and(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Product => a * b,
            Self::Lukasiewicz => (a + b - 1.0).max(0.0),
            Self::Godel => a.min(b),
        }
    }

    /// a ∨ b, Eq. (4).
    pub fn or(self, a: f64, b: f64) -> f64 {
        match self {
            // Rounding may leave a hair above 1.
            Self::Product => (a + b - a * b).clamp(0.0, 1.0),
            Self::Lukasiewicz => (a + b).min(1.0),
            Self::Godel => a.max(b),
        }
    }

    /// a ⇒ b, Eq. (6).
    pub fn implies(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Product => (a * b - a + 1.0).clamp(0.0, 1.0),
            Self::Lukasiewicz => (1.0 - a + b).min(1.0),
            Self::Godel => (1.0 - a).max(b),
        }
    }
}

/// π: the truth of an expression, given the truths of its leaves, which lie in [0, 1].
pub fn truth_of<L>(expression: &Expression<L>, truth_of_leaf: &impl Fn(&L) -> f64, t_norm: TNorm) -> f64 {
    let truth = |part: &Expression<L>| truth_of(part, truth_of_leaf, t_norm);
    match expression {
        Expression::Atom(leaf) => truth_of_leaf(leaf),
        // Eq. (5).
        Expression::Not(part) => 1.0 - truth(part),
        Expression::And(parts) => parts.iter().map(truth).fold(1.0, |a, b| t_norm.and(a, b)),
        Expression::Or(parts) => parts.iter().map(truth).fold(0.0, |a, b| t_norm.or(a, b)),
        Expression::Implies(premise, conclusion) => t_norm.implies(truth(premise), truth(conclusion)),
    }
}

/// One way for an expression to be true: some leaves hold, some do not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative<L> {
    /// What must hold.
    pub holds: Vec<L>,
    /// What must not.
    pub fails: Vec<L>,
}

impl<L> Expression<L> {
    /// `self` ⇒ `conclusion`.
    pub fn implies(self, conclusion: Self) -> Self {
        Self::Implies(Box::new(self), Box::new(conclusion))
    }
}

impl<L: Clone + PartialEq> Expression<L> {
    /// The disjunctive normal form: in classical logic the expression is true exactly when one of these is.
    ///
    /// (a ∨ b) ⇒ h is (a ⇒ h) ∧ (b ⇒ h), so a rule with ∨ in its premise is a Horn rule per alternative. Alternatives
    /// that contradict themselves are left out, and what alternatives have twice is there once; a plain conjunction stays
    /// as it is written. `None` where there are more than `most`, which a few nested expressions can bring about.
    pub fn alternatives(&self, most: usize) -> Option<Vec<Alternative<L>>> {
        let mut plain = Alternative { holds: vec![], fails: vec![] };
        let mut found = if self.literals(&mut plain) { vec![plain] } else { self.ways(true, most)? };
        found.retain(|way| way.holds.iter().all(|leaf| !way.fails.contains(leaf)));
        Some(found)
    }

    /// Collects a conjunction of leaves and negated leaves; false if it is none.
    fn literals(&self, into: &mut Alternative<L>) -> bool {
        match self {
            Self::Atom(leaf) => into.holds.push(leaf.clone()),
            Self::Not(part) => match &**part {
                Self::Atom(leaf) => into.fails.push(leaf.clone()),
                _ => return false,
            },
            Self::And(parts) => return parts.iter().all(|part| part.literals(into)),
            Self::Or(parts) => return parts.len() == 1 && parts[0].literals(into),
            Self::Implies(..) => return false,
        }
        true
    }

    /// The ways in which the expression takes this value.
    fn ways(&self, value: bool, most: usize) -> Option<Vec<Alternative<L>>> {
        match self {
            Self::Atom(leaf) => {
                let (mut holds, mut fails) = (vec![], vec![]);
                if value { &mut holds } else { &mut fails }.push(leaf.clone());
                Some(vec![Alternative { holds, fails }])
            }
            Self::Not(part) => part.ways(!value, most),
            Self::And(parts) if value => all(parts.iter().map(|part| part.ways(true, most)), most),
            Self::And(parts) => any(parts.iter().map(|part| part.ways(false, most)), most),
            Self::Or(parts) if value => any(parts.iter().map(|part| part.ways(true, most)), most),
            Self::Or(parts) => all(parts.iter().map(|part| part.ways(false, most)), most),
            Self::Implies(premise, conclusion) => {
                let parts = [premise.ways(!value, most), conclusion.ways(value, most)].into_iter();
                if value { any(parts, most) } else { all(parts, most) }
            }
        }
    }
}

type Ways<L> = Option<Vec<Alternative<L>>>;

fn any<L>(parts: impl Iterator<Item = Ways<L>>, most: usize) -> Ways<L> {
    let mut found = Vec::new();
    for part in parts {
        found.extend(part?);
        if found.len() > most {
            return None;
        }
    }
    Some(found)
}

fn all<L: Clone + PartialEq>(parts: impl Iterator<Item = Ways<L>>, most: usize) -> Ways<L> {
    let mut found = vec![Alternative { holds: vec![], fails: vec![] }];
    for part in parts {
        let part = part?;
        if found.len() * part.len() > most {
            return None;
        }
        found = found.iter().flat_map(|way| part.iter().map(move |more| way.and(more))).collect();
    }
    Some(found)
}

impl<L: Clone + PartialEq> Alternative<L> {
    fn and(&self, more: &Self) -> Self {
        let mut both = self.clone();
        for (list, more) in [(&mut both.holds, &more.holds), (&mut both.fails, &more.fails)] {
            for leaf in more {
                if !list.contains(leaf) {
                    list.push(leaf.clone());
                }
            }
        }
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T_NORMS: [TNorm; 3] = [TNorm::Product, TNorm::Lukasiewicz, TNorm::Godel];
    const LEAVES: usize = 4;

    fn expressions() -> impl Strategy<Value = Expression<usize>> {
        let leaf = (0..LEAVES).prop_map(Expression::Atom);
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|part| Expression::Not(Box::new(part))),
                prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::And),
                prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::Or),
                (inner.clone(), inner).prop_map(|(a, b)| a.implies(b)),
            ]
        })
    }

    fn truths() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0f64], LEAVES)
    }

    fn classical(expression: &Expression<usize>, world: u32) -> bool {
        match expression {
            Expression::Atom(leaf) => world >> leaf & 1 == 1,
            Expression::Not(part) => !classical(part, world),
            Expression::And(parts) => parts.iter().all(|part| classical(part, world)),
            Expression::Or(parts) => parts.iter().any(|part| classical(part, world)),
            Expression::Implies(a, b) => !classical(a, world) || classical(b, world),
        }
    }

    fn not(part: Expression<usize>) -> Expression<usize> {
        Expression::Not(Box::new(part))
    }

    proptest! {
        #[test]
        fn truth_stays_between_false_and_true(expression in expressions(), truths in truths()) {
            for t_norm in T_NORMS {
                let truth = truth_of(&expression, &|&leaf| truths[leaf], t_norm);
                prop_assert!((0.0..=1.0).contains(&truth), "{t_norm:?}: {truth}");
            }
        }

        #[test]
        fn where_all_is_true_or_false_it_is_classical_logic(expression in expressions()) {
            let alternatives = expression.alternatives(100_000);
            for world in 0..1 << LEAVES {
                let expected = classical(&expression, world);
                for t_norm in T_NORMS {
                    let truth = truth_of(&expression, &|&leaf| f64::from(world >> leaf & 1), t_norm);
                    prop_assert_eq!(truth, f64::from(u8::from(expected)), "{:?} in {:b}", t_norm, world);
                }
                let is = |leaf: &usize| world >> leaf & 1 == 1;
                let way = |way: &Alternative<usize>| way.holds.iter().all(is) && !way.fails.iter().any(is);
                if let Some(alternatives) = &alternatives {
                    prop_assert_eq!(alternatives.iter().any(way), expected, "alternatives in {:b}", world);
                }
            }
        }

        #[test]
        fn de_morgan_and_implication(a in expressions(), b in expressions(), truths in truths()) {
            let (and, or) = (Expression::And(vec![a.clone(), b.clone()]), Expression::Or(vec![a.clone(), b.clone()]));
            let (na, nb) = (not(a.clone()), not(b.clone()));
            let same = [
                (not(and), Expression::Or(vec![na.clone(), nb.clone()])),
                (not(or), Expression::And(vec![na.clone(), nb])),
                (a.clone().implies(b.clone()), Expression::Or(vec![na.clone(), b])),
                (not(na), a),
            ];
            for (left, right) in &same {
                for t_norm in T_NORMS {
                    let [left, right] = [left, right].map(|side| truth_of(side, &|&leaf| truths[leaf], t_norm));
                    prop_assert!((left - right).abs() < 1e-12, "{t_norm:?}: {left} is not {right}");
                }
            }
        }

        /// What every t-norm is: commutative, associative, monotone, with 1 as its unit.
        #[test]
        fn they_are_t_norms(a in 0.0..=1.0f64, b in 0.0..=1.0f64, c in 0.0..=1.0f64) {
            for t in T_NORMS {
                prop_assert_eq!(t.and(a, b), t.and(b, a));
                prop_assert!((t.and(t.and(a, b), c) - t.and(a, t.and(b, c))).abs() < 1e-12);
                prop_assert!(t.and(a.min(c), b) <= t.and(a.max(c), b));
                prop_assert!((t.and(a, 1.0) - a).abs() < 1e-12 && (t.or(a, 0.0) - a).abs() < 1e-12);
                prop_assert!(t.implies(a, b) >= t.implies(a.max(c), b) - 1e-12);
            }
        }
    }

    #[test]
    fn alternatives_by_hand() {
        let leaf = Expression::Atom;
        // (a ∨ b) ∧ ¬(c ∧ a): the alternative a ∧ ¬a is none.
        let premise =
            Expression::And(vec![Expression::Or(vec![leaf(0), leaf(1)]), not(Expression::And(vec![leaf(2), leaf(0)]))]);
        let way = |holds: &[usize], fails: &[usize]| Alternative { holds: holds.to_vec(), fails: fails.to_vec() };
        let expected = vec![way(&[0], &[2]), way(&[1], &[2]), way(&[1], &[0])];
        assert_eq!(premise.alternatives(4), Some(expected));
        assert_eq!(premise.alternatives(3), None);
        assert_eq!(Expression::And(vec![leaf(0), not(leaf(0))]).alternatives(4), Some(vec![]));
    }
}
