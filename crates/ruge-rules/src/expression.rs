//! Expressions of ∧, ∨ and ¬ in premises, and the Horn rules they stand for.
//!
//! (a ∨ b) ⇒ h is (a ⇒ h) ∧ (b ⇒ h), so a rule with ∨ in its premise becomes one Horn rule per alternative:
//! [`Expression::alternatives`]. The fuzzy truth of a premise is computed from embeddings (`ruge_embed::fuzzy`).

/// An expression over leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression<L> {
    /// A leaf.
    Atom(L),
    /// ¬
    Not(Box<Expression<L>>),
    /// ∧; true if empty.
    And(Vec<Expression<L>>),
    /// ∨; false if empty.
    Or(Vec<Expression<L>>),
}

/// One way for an expression to be true: some leaves hold, some do not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative<L> {
    /// Leaves that must hold.
    pub holds: Vec<L>,
    /// Leaves that must not hold.
    pub fails: Vec<L>,
}

impl<L: Clone + PartialEq> Expression<L> {
    /// The disjunctive normal form: in classical logic the expression is true exactly when one of these is.
    ///
    /// Contradictory alternatives and duplicate leaves are removed; a plain conjunction stays as written. `None` if
    /// there are more than `most`, which a few nested expressions can cause.
    pub fn alternatives(&self, most: usize) -> Option<Vec<Alternative<L>>> {
        let mut plain = Alternative { holds: vec![], fails: vec![] };
        let mut found = if self.literals(&mut plain) { vec![plain] } else { self.ways(true, most)? };
        found.retain(|way| way.holds.iter().all(|leaf| !way.fails.contains(leaf)));
        Some(found)
    }

    /// Collects a conjunction of leaves and negated leaves; false if the expression is not one.
    fn literals(&self, into: &mut Alternative<L>) -> bool {
        match self {
            Self::Atom(leaf) => into.holds.push(leaf.clone()),
            Self::Not(part) => match &**part {
                Self::Atom(leaf) => into.fails.push(leaf.clone()),
                _ => return false,
            },
            Self::And(parts) => return parts.iter().all(|part| part.literals(into)),
            Self::Or(parts) => return parts.len() == 1 && parts[0].literals(into),
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

    const LEAVES: usize = 4;

    fn expressions() -> impl Strategy<Value = Expression<usize>> {
        let leaf = (0..LEAVES).prop_map(Expression::Atom);
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|part| Expression::Not(Box::new(part))),
                prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::And),
                prop::collection::vec(inner, 0..4).prop_map(Expression::Or),
            ]
        })
    }

    fn classical(expression: &Expression<usize>, world: u32) -> bool {
        match expression {
            Expression::Atom(leaf) => world >> leaf & 1 == 1,
            Expression::Not(part) => !classical(part, world),
            Expression::And(parts) => parts.iter().all(|part| classical(part, world)),
            Expression::Or(parts) => parts.iter().any(|part| classical(part, world)),
        }
    }

    fn not(part: Expression<usize>) -> Expression<usize> {
        Expression::Not(Box::new(part))
    }

    proptest! {
        #[test]
        fn an_expression_is_true_where_an_alternative_is(expression in expressions()) {
            let Some(alternatives) = expression.alternatives(100_000) else { return Ok(()) };
            for world in 0..1 << LEAVES {
                let is = |leaf: &usize| world >> leaf & 1 == 1;
                let way = |way: &Alternative<usize>| way.holds.iter().all(is) && !way.fails.iter().any(is);
                prop_assert_eq!(alternatives.iter().any(way), classical(&expression, world), "in {:b}", world);
            }
        }
    }

    #[test]
    fn alternatives_by_hand() {
        let leaf = Expression::Atom;
        // (a ∨ b) ∧ ¬(c ∧ a): the alternative a ∧ ¬a is removed.
        let premise =
            Expression::And(vec![Expression::Or(vec![leaf(0), leaf(1)]), not(Expression::And(vec![leaf(2), leaf(0)]))]);
        let way = |holds: &[usize], fails: &[usize]| Alternative { holds: holds.to_vec(), fails: fails.to_vec() };
        let expected = vec![way(&[0], &[2]), way(&[1], &[2]), way(&[1], &[0])];
        assert_eq!(premise.alternatives(4), Some(expected));
        assert_eq!(premise.alternatives(3), None);
        assert_eq!(Expression::And(vec![leaf(0), not(leaf(0))]).alternatives(4), Some(vec![]));
    }
}
