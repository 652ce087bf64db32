//! Fuzzy truth values of formulas of ∧, ∨ and ¬: Eq. (3)–(6) of the paper.
//!
//! The truth π of a formula is computed from the truths of its premises. The paper combines them by the product t-norm:
//!
//! | formula | product | Łukasiewicz | Gödel |
//! |---|---|---|---|
//! | a ∧ b, Eq. (3) | π(a)π(b) | max(0, π(a) + π(b) − 1) | min |
//! | a ∨ b, Eq. (4) | π(a) + π(b) − π(a)π(b) | min(1, π(a) + π(b)) | max |
//! | ¬a, Eq. (5) | 1 − π(a) | 1 − π(a) | 1 − π(a) |
//! | a ⇒ b, Eq. (6) | π(a)π(b) − π(a) + 1 | min(1, 1 − π(a) + π(b)) | max(1 − π(a), π(b)) |
//!
//! In all three, ∨ is the dual of ∧ (De Morgan) and a ⇒ b is ¬a ∨ b. Implications are never evaluated themselves:
//! training uses its violation 1 − π(a ⇒ b), whose best response is [`TNorm::soft_label`] in closed form.

use serde::{Deserialize, Serialize};

/// A step of a premise formula in postfix order, over the truths of the grounding's premises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Pushes the truth of the premise at this index.
    Premise(u32),
    /// ¬: 1 − a.
    Not,
    /// ∧ of the last two.
    And,
    /// ∨ of the last two.
    Or,
}

/// How truth values combine.
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
    /// The truth of a conjunction; 1 if it is empty.
    pub fn conjunction(self, truths: impl ExactSizeIterator<Item = f32>) -> f32 {
        let spare = truths.len() as f32 - 1.0;
        match self {
            Self::Product => truths.product(),
            Self::Lukasiewicz => (truths.sum::<f32>() - spare).clamp(0.0, 1.0),
            Self::Godel => truths.fold(1.0, f32::min),
        }
    }

    /// π: the truth of a formula, given the truths of its premises; an empty formula is their conjunction.
    pub fn truth_of(self, formula: &[Step], truths: &[f32], stack: &mut Vec<f32>) -> f32 {
        if formula.is_empty() {
            return self.conjunction(truths.iter().copied());
        }
        stack.clear();
        for step in formula {
            let mut pop = || stack.pop().unwrap_or(0.0);
            let value = match *step {
                Step::Premise(at) => truths[at as usize],
                Step::Not => 1.0 - pop(),
                Step::And => self.and(pop(), pop()),
                Step::Or => self.or(pop(), pop()),
            };
            stack.push(value);
        }
        // Rounding may leave the value slightly below 0 or above 1.
        stack.pop().unwrap_or(0.0).clamp(0.0, 1.0)
    }

    fn and(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Product => a * b,
            Self::Lukasiewicz => (a + b - 1.0).max(0.0),
            Self::Godel => a.min(b),
        }
    }

    fn or(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Product => a + b - a * b,
            Self::Lukasiewicz => (a + b).min(1.0),
            Self::Godel => a.max(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T_NORMS: [TNorm; 3] = [TNorm::Product, TNorm::Lukasiewicz, TNorm::Godel];
    const PREMISES: usize = 4;

    fn of(t_norm: TNorm, formula: &[Step], truths: &[f32]) -> f32 {
        t_norm.truth_of(formula, truths, &mut Vec::new())
    }

    fn not(formula: &[Step]) -> Vec<Step> {
        [formula, &[Step::Not]].concat()
    }

    fn both(a: &[Step], b: &[Step], step: Step) -> Vec<Step> {
        [a, b, &[step]].concat()
    }

    fn formulas() -> impl Strategy<Value = Vec<Step>> {
        let premise = (0..PREMISES as u32).prop_map(|at| vec![Step::Premise(at)]);
        premise.prop_recursive(4, 24, 2, |inner| {
            prop_oneof![
                inner.clone().prop_map(|formula| not(&formula)),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| both(&a, &b, Step::And)),
                (inner.clone(), inner).prop_map(|(a, b)| both(&a, &b, Step::Or)),
            ]
        })
    }

    fn truths() -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0f32], PREMISES)
    }

    fn classical(formula: &[Step], world: u32) -> bool {
        let mut stack: Vec<bool> = Vec::new();
        for step in formula {
            let mut pop = || stack.pop().expect("a whole formula");
            let value = match *step {
                Step::Premise(at) => world >> at & 1 == 1,
                Step::Not => !pop(),
                Step::And => pop() & pop(),
                Step::Or => pop() | pop(),
            };
            stack.push(value);
        }
        stack[0]
    }

    proptest! {
        #[test]
        fn truth_stays_between_false_and_true(formula in formulas(), truths in truths()) {
            for t_norm in T_NORMS {
                let truth = of(t_norm, &formula, &truths);
                prop_assert!((0.0..=1.0).contains(&truth), "{t_norm:?}: {truth}");
            }
        }

        #[test]
        fn where_all_is_true_or_false_it_is_classical_logic(formula in formulas()) {
            for world in 0..1 << PREMISES {
                let truths: Vec<f32> = (0..PREMISES).map(|at| f32::from((world >> at & 1) as u8)).collect();
                let expected = f32::from(u8::from(classical(&formula, world)));
                for t_norm in T_NORMS {
                    prop_assert_eq!(of(t_norm, &formula, &truths), expected, "{:?} in {:b}", t_norm, world);
                }
            }
        }

        #[test]
        fn de_morgan(a in formulas(), b in formulas(), truths in truths()) {
            let (na, nb) = (not(&a), not(&b));
            let same = [
                (not(&both(&a, &b, Step::And)), both(&na, &nb, Step::Or)),
                (not(&both(&a, &b, Step::Or)), both(&na, &nb, Step::And)),
                (not(&na), a),
            ];
            for (left, right) in &same {
                for t_norm in T_NORMS {
                    let [left, right] = [left, right].map(|side| of(t_norm, side, &truths));
                    prop_assert!((left - right).abs() < 1e-5, "{t_norm:?}: {left} is not {right}");
                }
            }
        }

        /// a ⇒ b is ¬a ∨ b, and gives the violations that soft labels minimise.
        #[test]
        fn implication(a in 0.0..=1.0f32, b in 0.0..=1.0f32) {
            let implies = [Step::Premise(0), Step::Not, Step::Premise(1), Step::Or];
            for (t_norm, violation) in [(TNorm::Product, a * (1.0 - b)), (TNorm::Lukasiewicz, (a - b).max(0.0))] {
                prop_assert!((1.0 - of(t_norm, &implies, &[a, b]) - violation).abs() < 1e-6);
            }
            prop_assert_eq!(of(TNorm::Godel, &implies, &[a, b]), (1.0 - a).max(b));
        }

        /// The t-norm axioms: commutative, associative, monotone, with unit 1.
        #[test]
        fn they_are_t_norms(a in 0.0..=1.0f32, b in 0.0..=1.0f32, c in 0.0..=1.0f32) {
            for t in T_NORMS {
                prop_assert_eq!(t.and(a, b), t.and(b, a));
                prop_assert!((t.and(t.and(a, b), c) - t.and(a, t.and(b, c))).abs() < 1e-6);
                prop_assert!(t.and(a.min(c), b) <= t.and(a.max(c), b));
                prop_assert!((t.and(a, 1.0) - a).abs() < 1e-6 && (t.or(a, 0.0) - a).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn formulas_by_hand() {
        let truths = [0.75f32, 0.5];
        assert_eq!(T_NORMS.map(|t_norm| t_norm.conjunction(truths.iter().copied())), [0.375, 0.25, 0.5]);
        assert_eq!(TNorm::Lukasiewicz.conjunction([].into_iter()), 1.0);
        // ¬(a ∧ b) ∨ a
        let steps = [Step::Premise(0), Step::Premise(1), Step::And, Step::Not, Step::Premise(0), Step::Or];
        assert_eq!(T_NORMS.map(|t_norm| of(t_norm, &steps, &truths)), [0.90625, 1.0, 0.75]);
        // The paper's example: BornInCountry(x, y) ⇒ Nationality(x, y) as ¬a ∨ b.
        let implies = [Step::Premise(0), Step::Not, Step::Premise(1), Step::Or];
        assert_eq!(T_NORMS.map(|t_norm| of(t_norm, &implies, &truths)), [0.625, 0.75, 0.5]);
    }
}
