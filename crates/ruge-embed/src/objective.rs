//! What training minimises: a loss over labeled triples and a penalty on the rows they touch.
//!
//! A loss meets a model only through one number per triple, `d_score` = ∂loss/∂η. The sigmoid is the reference's, cut
//! off at ±10: a triple fitted beyond that pulls no more.

use serde::{Deserialize, Serialize};

/// Scores beyond which the sigmoid is 0 or 1.
pub const CUT: f32 = 10.0;

/// φ: the truth value of a score.
#[inline(always)]
pub fn truth(score: f32) -> f32 {
    if score > CUT {
        1.0
    } else if score < -CUT {
        0.0
    } else {
        1.0 / (1.0 + (-score).exp())
    }
}

/// What is summed over the labeled triples of a batch.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Loss {
    /// Mean cross-entropy of φ against labels 1 and 0, Eq. (7).
    Logistic,
    /// Mean over pairs of max(0, margin − η⁺ + η⁻).
    PairwiseRanking {
        /// δ
        margin: f32,
    },
    /// KALE's: sum over pairs of max(0, margin − I⁺ + I⁻), with truth I = 1 + η / (3 √d).
    TruthRanking {
        /// δ
        margin: f32,
    },
}

/// What holds parameters small.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Penalty {
    /// Nothing.
    #[default]
    None,
    /// weight/d · (‖h‖² + ‖r‖² + ‖t‖²) for each *occurrence* of a triple, inside the mean of its loss.
    L2 {
        /// The paper's λ.
        weight: f32,
    },
}

/// Loss and penalty.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// Over labeled triples.
    pub loss: Loss,
    /// On the rows they touch.
    #[serde(default)]
    pub penalty: Penalty,
    /// φ = σ(shift + η): distance models score at most 0 and need one, others leave it at 0.
    #[serde(default)]
    pub shift: f32,
}

impl Default for Objective {
    fn default() -> Self {
        Self { loss: Loss::Logistic, penalty: Penalty::L2 { weight: 0.01 }, shift: 0.0 }
    }
}

/// An [`Objective`] with its constants worked out for a model and a batch.
#[derive(Clone, Copy, Debug)]
pub struct Pull {
    loss: Loss,
    shift: f32,
    /// What one triple or pair weighs.
    pub weight: f32,
    /// Factor from η to I.
    scale: f32,
}

impl Pull {
    /// For a batch of `labeled` triples of which `pairs` are negatives.
    pub fn new(objective: &Objective, dimension: usize, labeled: usize, pairs: usize) -> Self {
        let (n, scale) = match objective.loss {
            Loss::Logistic => (labeled, 1.0),
            Loss::PairwiseRanking { .. } => (pairs, 1.0),
            Loss::TruthRanking { .. } => (1, truth_scale(dimension)),
        };
        Self { loss: objective.loss, shift: objective.shift, weight: 1.0 / n.max(1) as f32, scale }
    }

    /// Turns the scores of one positive and its negatives into `d_score`s, in place; returns the loss, unweighted.
    #[inline(always)]
    pub fn labeled(&self, positive: &mut f32, negatives: &mut [f32]) -> f64 {
        match self.loss {
            Loss::Logistic => {
                let mut loss = Softplus::new();
                let x = self.shift + *positive;
                *positive = (loss.add(-x) - 1.0) * self.weight;
                for score in negatives {
                    *score = (1.0 - loss.add(self.shift + *score)) * self.weight;
                }
                loss.sum()
            }
            Loss::PairwiseRanking { margin } | Loss::TruthRanking { margin } => {
                let (mut loss, mut active) = (0.0, 0u32);
                let limit = margin - self.scale * *positive;
                let d_score = self.scale * self.weight;
                for score in negatives {
                    let hinge = self.scale.mul_add(*score, limit);
                    let on = hinge > 0.0;
                    loss += if on { f64::from(hinge) } else { 0.0 };
                    active += u32::from(on);
                    *score = if on { d_score } else { 0.0 };
                }
                *positive = -(active as f32) * d_score;
                loss
            }
        }
    }

    /// φ of a score.
    #[inline(always)]
    pub fn truth(&self, score: f32) -> f32 {
        truth(self.shift + score)
    }

    /// `d_score` of one triple with a soft label, Eq. (10), and its loss, unweighted.
    #[inline(always)]
    pub fn soft(&self, score: f32, label: f32, weight: f32) -> (f32, f64) {
        let x = self.shift + score;
        let truth = truth(x);
        // −s ln φ − (1 − s) ln(1 − φ), both logarithms through softplus.
        let (x, s) = (f64::from(x), f64::from(label));
        let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
        ((truth - label) * weight, s * softplus(-x) + (1.0 - s) * softplus(x))
    }
}

/// Factor from η to KALE's truth I = 1 + scale · η.
pub fn truth_scale(dimension: usize) -> f32 {
    1.0 / (3.0 * (dimension as f32).sqrt())
}

/// Σ ln(1 + eˣ), with one logarithm for many terms: the bounded factors 1 + e^(−|x|) are multiplied first.
struct Softplus {
    linear: f64,
    product: f64,
}

impl Softplus {
    #[inline(always)]
    fn new() -> Self {
        Self { linear: 0.0, product: 1.0 }
    }

    /// Adds softplus(x) and returns φ(−x). Beyond the cut the exponential, below 5e-5, is left out of the loss.
    #[inline(always)]
    fn add(&mut self, x: f32) -> f32 {
        self.linear += f64::from(x.max(0.0));
        if x.abs() > CUT {
            return f32::from(x < 0.0);
        }
        let small = (-x.abs()).exp();
        self.product *= f64::from(1.0 + small);
        if self.product > 1e200 {
            self.linear += self.product.ln();
            self.product = 1.0;
        }
        let large = 1.0 / (1.0 + small);
        if x < 0.0 { large } else { small * large }
    }

    #[inline(always)]
    fn sum(&self) -> f64 {
        self.linear + self.product.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logistic_pulls_towards_the_labels() {
        let pull = Pull::new(&Objective::default(), 2, 4, 3);
        let (mut positive, mut negatives) = (0.5f32, [-1.0f32, 3.0, 12.0]);
        let loss = pull.labeled(&mut positive, &mut negatives);
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        assert!((positive - (sigmoid(0.5) - 1.0) / 4.0).abs() < 1e-7);
        assert!((negatives[1] - sigmoid(3.0) / 4.0).abs() < 1e-7);
        assert_eq!(negatives[2], 0.25);
        let softplus = |x: f64| x.exp().ln_1p();
        let expected = softplus(-0.5) + softplus(-1.0) + softplus(3.0) + softplus(12.0);
        assert!((loss - expected).abs() < 1e-4, "{loss} for {expected}");
    }

    #[test]
    fn ranking_pulls_only_within_the_margin() {
        let objective = Objective { loss: Loss::PairwiseRanking { margin: 1.0 }, ..Objective::default() };
        let pull = Pull::new(&objective, 2, 3, 2);
        let (mut positive, mut negatives) = (-2.0f32, [-2.5f32, -4.0]);
        assert_eq!(pull.labeled(&mut positive, &mut negatives), 0.5);
        assert_eq!((positive, negatives), (-0.5, [0.5, 0.0]));
    }
}
