//! Evidence for unobserved triples, as plain data.
//!
//! A grounding says "if these premises hold, that conclusion should hold", with a confidence. This crate does not know
//! which rule it comes from. The current truth values of the premises give the unlabeled conclusions *soft labels*, Eq.
//! (9), towards which the embeddings are then pulled, Eq. (10).

use ruge_kg::Triple;
use serde::{Deserialize, Serialize};

use crate::fuzzy::{Step, TNorm};

/// Groundings as flat arrays: ragged premises, one conclusion and one confidence each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    ends: Vec<u32>,
    premises: Vec<Triple>,
    conclusions: Vec<Triple>,
    confidences: Vec<f32>,
    formula_ends: Vec<u32>,
    formulas: Vec<Step>,
}

impl Evidence {
    /// Empty evidence.
    pub fn nothing() -> &'static Self {
        static NOTHING: Evidence = Evidence {
            ends: Vec::new(),
            premises: Vec::new(),
            conclusions: Vec::new(),
            confidences: Vec::new(),
            formula_ends: Vec::new(),
            formulas: Vec::new(),
        };
        &NOTHING
    }

    /// Adds a grounding whose premise is the conjunction of all its triples.
    pub fn push(&mut self, premises: &[Triple], conclusion: Triple, confidence: f32) {
        self.push_formula(premises, &[], conclusion, confidence);
    }

    /// Adds a grounding whose premise is any formula of ∧, ∨ and ¬ over its triples; an empty one is their conjunction.
    ///
    /// Panics if the formula does not reduce to one value or refers to a missing premise.
    pub fn push_formula(&mut self, premises: &[Triple], formula: &[Step], conclusion: Triple, confidence: f32) {
        let mut depth = usize::from(formula.is_empty());
        for step in formula {
            match *step {
                Step::Premise(at) => assert!((at as usize) < premises.len(), "the formula names premise {at}"),
                Step::Not => assert!(depth >= 1, "¬ needs a value"),
                Step::And | Step::Or => assert!(depth >= 2, "∧ and ∨ need two values"),
            }
            depth = match step {
                Step::Premise(_) => depth + 1,
                Step::Not => depth,
                Step::And | Step::Or => depth - 1,
            };
        }
        assert_eq!(depth, 1, "a formula comes down to one value");
        self.formulas.extend_from_slice(formula);
        self.formula_ends.push(u32::try_from(self.formulas.len()).expect("at most 2^32 steps"));
        self.premises.extend_from_slice(premises);
        self.ends.push(u32::try_from(self.premises.len()).expect("at most 2^32 premises"));
        self.conclusions.push(conclusion);
        self.confidences.push(confidence);
    }

    /// Number of groundings.
    pub fn len(&self) -> usize {
        self.conclusions.len()
    }

    /// Whether there are no groundings.
    pub fn is_empty(&self) -> bool {
        self.conclusions.is_empty()
    }

    /// Removes all groundings and keeps the memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.premises.clear();
        self.conclusions.clear();
        self.confidences.clear();
        self.formulas.clear();
        self.formula_ends.clear();
    }

    /// The premise formula of a grounding; empty for a plain conjunction.
    pub fn formula(&self, grounding: usize) -> &[Step] {
        let from = if grounding == 0 { 0 } else { self.formula_ends[grounding - 1] as usize };
        &self.formulas[from..self.formula_ends[grounding] as usize]
    }

    /// Adds a grounding from another collection.
    pub fn push_from(&mut self, other: &Self, grounding: usize) {
        let formula = other.formula(grounding);
        self.premises.extend_from_slice(other.premises(grounding));
        self.ends.push(self.premises.len() as u32);
        self.conclusions.push(other.conclusion(grounding));
        self.confidences.push(other.confidence(grounding));
        self.formulas.extend_from_slice(formula);
        self.formula_ends.push(self.formulas.len() as u32);
    }

    /// The premises of a grounding.
    pub fn premises(&self, grounding: usize) -> &[Triple] {
        let from = if grounding == 0 { 0 } else { self.ends[grounding - 1] as usize };
        &self.premises[from..self.ends[grounding] as usize]
    }

    /// All premises, grounding by grounding.
    pub fn all_premises(&self) -> &[Triple] {
        &self.premises
    }

    /// The conclusion of a grounding.
    pub fn conclusion(&self, grounding: usize) -> Triple {
        self.conclusions[grounding]
    }

    /// The conclusions, one per grounding, including repetitions.
    pub fn conclusions(&self) -> &[Triple] {
        &self.conclusions
    }

    /// The confidence of a grounding.
    pub fn confidence(&self, grounding: usize) -> f32 {
        self.confidences[grounding]
    }
}

impl TNorm {
    /// s(x_u): Eq. (9) for one conclusion of truth `truth`, given (truth of premises, confidence) of its groundings in
    /// order of descending truth.
    ///
    /// Product: the violation a(1 − s) is linear in s, so the sum of the pulls is the exact minimiser. Łukasiewicz: the
    /// violation max(0, a − s) is zero from s = a on, so the label rises from one premise truth to the next. Gödel: not
    /// convex; the gradient is taken at s = `truth`.
    #[inline]
    pub fn soft_label(self, truth: f32, groundings: &[(f32, f32)], slackness: f32) -> f32 {
        let label = match self {
            Self::Product => groundings.iter().fold(truth, |s, &(a, confidence)| s + slackness * confidence * a),
            Self::Lukasiewicz => lukasiewicz(truth, groundings, slackness),
            Self::Godel => groundings
                .iter()
                .filter(|&&(a, _)| truth > 1.0 - a)
                .fold(truth, |s, &(_, confidence)| s + slackness * confidence),
        };
        label.clamp(0.0, 1.0)
    }
}

/// The minimiser of ½(s − φ)² + C Σ λ max(0, a − s): its slope s − φ − C Σ_{a > s} λ changes sign once.
fn lukasiewicz(truth: f32, groundings: &[(f32, f32)], slackness: f32) -> f32 {
    let mut label = truth;
    for &(a, confidence) in groundings {
        if label >= a {
            return label;
        }
        label += slackness * confidence;
        if label >= a {
            return a;
        }
    }
    label
}

/// How evidence is used.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Guidance {
    /// Not at all.
    #[default]
    None,
    /// RUGE: soft labels recomputed in every batch, Eq. (9), and a pull towards them, Eq. (10).
    SoftLabels {
        /// C
        slackness: f32,
        /// How truth values combine.
        #[serde(default)]
        t_norm: TNorm,
    },
    /// A pull, Eq. (10), towards constant labels: the confidence of a conclusion's most confident grounding. Premises
    /// are ignored. This is RUGE without its iteration.
    FixedLabels,
    /// KALE: a grounding should be truer, by a margin, than its copy with another relation in the conclusion.
    Injection {
        /// Weight of the rule loss.
        weight: f32,
        /// δ
        margin: f32,
    },
}

/// How groundings are assigned to batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dealing {
    /// Shuffled and dealt round-robin, each once per epoch: the reference program.
    #[default]
    Shuffled,
    /// To the batch that contains all their premises, if any: the paper's wording.
    WithPremises,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Product and Łukasiewicz labels minimise ½(s − φ)² + C Σ λ · violation over [0, 1].
        #[test]
        fn soft_labels_minimise_their_problem(
            truth in 0.0f32..1.0,
            slackness in 0.001f32..1.0,
            mut groundings in prop::collection::vec((0.0f32..1.0, 0.1f32..1.0), 0..5),
        ) {
            groundings.sort_unstable_by(|x, y| y.0.total_cmp(&x.0));
            for t_norm in [TNorm::Product, TNorm::Lukasiewicz] {
                let problem = |s: f64, groundings: &[(f32, f32)]| {
                    let violations: f64 = groundings.iter().map(|&(a, confidence)| {
                        let a = f64::from(a);
                        let violation = if t_norm == TNorm::Product { a * (1.0 - s) } else { (a - s).max(0.0) };
                        f64::from(confidence) * violation
                    }).sum();
                    0.5 * (s - f64::from(truth)).powi(2) + f64::from(slackness) * violations
                };
                let label = f64::from(t_norm.soft_label(truth, &groundings, slackness));
                let found = problem(label, &groundings);
                for i in 0..=2000 {
                    let other = problem(f64::from(i) / 2000.0, &groundings);
                    prop_assert!(found <= other + 1e-6, "{t_norm:?}: {label} gives {found}, {i}/2000 gives {other}");
                }
            }
        }
    }

    #[test]
    fn a_label_of_godel_by_hand() {
        assert_eq!(TNorm::Godel.soft_label(0.5, &[(0.75, 1.0), (0.25, 1.0)], 0.125), 0.625);
    }
}
