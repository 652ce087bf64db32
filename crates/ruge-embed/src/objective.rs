//! The objective: a loss over labeled triples and a penalty on the rows they touch.
//!
//! A loss acts on a model only through one number per triple, `d_score` = ∂loss/∂η. The sigmoid is clipped at ±10 as in
//! the reference: a triple with a larger score has no gradient.

use serde::{Deserialize, Serialize};

/// Scores beyond this have a sigmoid of 0 or 1.
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

/// Loss over the labeled triples of a batch.
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
    /// ½ (−ln φ(η⁺) − Σ p ln φ(−η⁻)), mean over positives, where p is the softmax of temperature · η over a positive's
    /// negatives, held constant: hard negatives weigh more (Sun et al. 2019). At 0 all weigh the same.
    SelfAdversarial {
        /// The temperature.
        #[serde(default = "one")]
        temperature: f32,
    },
    /// Mean cross-entropy of a positive against its negatives, each weighted by the number of entities it stands for:
    /// an estimate of the softmax over all entities, for any model. Requires all negatives of a positive at one end.
    SampledSoftmax,
}

fn one() -> f32 {
    1.0
}

/// Regularisation of parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Penalty {
    /// None.
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
    /// Loss over labeled triples.
    pub loss: Loss,
    /// Penalty on the rows they touch.
    #[serde(default)]
    pub penalty: Penalty,
    /// φ = σ(shift + η). Distance models score at most 0 and need a shift; others use 0.
    #[serde(default)]
    pub shift: f32,
    /// Whether a positive is weighted by 1/√(count of (h, r) + count of (r, t)), relative to the mean of its batch,
    /// with counts starting at 4: frequent queries count less per triple (Sun et al. 2019).
    #[serde(default, skip_serializing_if = "is_false")]
    pub subsampling: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Default for Objective {
    fn default() -> Self {
        Self { loss: Loss::Logistic, penalty: Penalty::L2 { weight: 0.01 }, shift: 0.0, subsampling: false }
    }
}

impl Objective {
    /// A loss without penalty.
    pub fn ranking(loss: Loss) -> Self {
        Self { loss, penalty: Penalty::None, ..Self::default() }
    }
}

/// An [`Objective`] with its constants computed for a model and a batch.
#[derive(Clone, Copy, Debug)]
pub struct Pull {
    loss: Loss,
    shift: f32,
    /// Weight of one triple, pair or positive.
    pub weight: f32,
    /// Weight of one occurrence of a triple in the penalty.
    pub occurrence: f32,
    /// Factor from η to I.
    scale: f32,
    /// Logarithm of how many entities a negative stands for.
    share: f32,
}

impl Pull {
    /// For a batch of `labeled` triples, `pairs` of them negatives, in a graph with this many `entities`.
    pub fn new(objective: &Objective, dimension: usize, labeled: usize, pairs: usize, entities: usize) -> Self {
        let positives = labeled - pairs;
        let (n, occurrences, scale) = match objective.loss {
            Loss::Logistic => (labeled, labeled, 1.0),
            Loss::PairwiseRanking { .. } => (pairs, pairs, 1.0),
            Loss::TruthRanking { .. } => (1, 1, truth_scale(dimension)),
            Loss::SelfAdversarial { .. } | Loss::SampledSoftmax => (positives, labeled, 1.0),
        };
        let [weight, occurrence] = [n, occurrences].map(|n| 1.0 / n.max(1) as f32);
        let share = share(entities, pairs / positives.max(1));
        Self { loss: objective.loss, shift: objective.shift, weight, occurrence, scale, share }
    }

    /// Turns the scores of one positive and its negatives into `d_score`s, in place; returns the loss. Both are scaled
    /// by `relative`, the positive's weight relative to the mean; the loss is not divided by the number of positives.
    #[inline(always)]
    pub fn labeled(&self, positive: &mut f32, negatives: &mut [f32], relative: f32) -> f64 {
        let weight = self.weight * relative;
        let loss = match self.loss {
            Loss::Logistic => {
                let mut loss = Softplus::new();
                let x = self.shift + *positive;
                *positive = (loss.add(-x) - 1.0) * weight;
                for score in negatives {
                    *score = (1.0 - loss.add(self.shift + *score)) * weight;
                }
                loss.sum()
            }
            Loss::PairwiseRanking { margin } | Loss::TruthRanking { margin } => {
                let (mut loss, mut active) = (0.0, 0u32);
                let limit = margin - self.scale * *positive;
                let d_score = self.scale * weight;
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
            Loss::SelfAdversarial { temperature } => {
                let (d_positive, mut loss) = softplus(-(self.shift + *positive));
                *positive = -0.5 * weight * d_positive;
                let largest = temperature * negatives.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
                let hardness = |score: f32| temperature.mul_add(score, -largest).exp();
                let sum: f32 = negatives.iter().map(|&score| hardness(score)).sum();
                for score in negatives {
                    let share = hardness(*score) / sum;
                    let (slope, own) = softplus(self.shift + *score);
                    loss += f64::from(share) * own;
                    *score = 0.5 * weight * share * slope;
                }
                0.5 * loss
            }
            Loss::SampledSoftmax => {
                let largest = negatives.iter().fold(*positive - self.share, |a, &b| a.max(b));
                let own = (*positive - self.share - largest).exp();
                let sum: f32 = own + negatives.iter().map(|&score| (score - largest).exp()).sum::<f32>();
                for score in negatives {
                    *score = weight * (*score - largest).exp() / sum;
                }
                let loss = f64::from(sum).ln() + f64::from(largest) + f64::from(self.share) - f64::from(*positive);
                *positive = weight * (own / sum - 1.0);
                loss
            }
        };
        loss * f64::from(relative)
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

/// Logarithm of how many entities other than the answer each of `drawn` negatives stands for.
pub fn share(entities: usize, drawn: usize) -> f32 {
    (entities.saturating_sub(1).max(1) as f32 / drawn.max(1) as f32).ln()
}

/// ln(1 + eˣ) and its slope, without clipping: Adam takes a full step for any gradient, however small.
#[inline(always)]
fn softplus(x: f32) -> (f32, f64) {
    let small = (-x.abs()).exp();
    let large = 1.0 / (1.0 + small);
    (if x < 0.0 { small * large } else { large }, f64::from(x.max(0.0)) + f64::from(small).ln_1p())
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

    /// Adds softplus(x) and returns φ(−x). Beyond the clip the exponential, below 5e-5, is left out of the loss.
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
        let pull = Pull::new(&Objective::default(), 2, 4, 3, 10);
        let (mut positive, mut negatives) = (0.5f32, [-1.0f32, 3.0, 12.0]);
        let loss = pull.labeled(&mut positive, &mut negatives, 1.0);
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
        let pull = Pull::new(&objective, 2, 3, 2, 10);
        let (mut positive, mut negatives) = (-2.0f32, [-2.5f32, -4.0]);
        assert_eq!(pull.labeled(&mut positive, &mut negatives, 1.0), 0.5);
        assert_eq!((positive, negatives), (-0.5, [0.5, 0.0]));
    }

    /// The loss of one positive in f64, with given weights of the negatives if those are constants.
    fn exact(loss: Loss, shift: f64, scores: &[f64], shares: &[f64]) -> f64 {
        let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
        match loss {
            Loss::SelfAdversarial { .. } => {
                let negatives = scores[1..].iter().zip(shares).map(|(score, share)| share * softplus(shift + score));
                0.5 * (softplus(-(shift + scores[0])) + negatives.sum::<f64>())
            }
            _ => {
                let others = 9.0 / (scores.len() - 1) as f64;
                let sum = scores[0].exp() + others * scores[1..].iter().map(|score| score.exp()).sum::<f64>();
                sum.ln() - scores[0]
            }
        }
    }

    #[test]
    fn slopes_are_those_of_the_loss() {
        let losses = [
            Loss::SelfAdversarial { temperature: 0.7 },
            Loss::SelfAdversarial { temperature: 0.0 },
            Loss::SampledSoftmax,
        ];
        for (loss, spread) in losses.into_iter().flat_map(|loss| [(loss, 1.0), (loss, 9.0)]) {
            let objective = Objective { loss, shift: 3.0, ..Objective::default() };
            // Two positives of three negatives each, among ten entities.
            let pull = Pull::new(&objective, 2, 8, 6, 10);
            let scores = [-2.5f32, -4.0, 1.5, -3.0].map(|score| spread * score);
            let (mut d_positive, mut d_negatives) = (scores[0], [scores[1], scores[2], scores[3]]);
            let found = pull.labeled(&mut d_positive, &mut d_negatives, 1.5);
            let wide = scores.map(f64::from);
            let temperature =
                if let Loss::SelfAdversarial { temperature } = loss { f64::from(temperature) } else { 0.0 };
            let hard: Vec<f64> = wide[1..].iter().map(|score| (temperature * score).exp()).collect();
            let shares: Vec<f64> = hard.iter().map(|one| one / hard.iter().sum::<f64>()).collect();
            let expected = 1.5 * exact(loss, 3.0, &wide, &shares);
            assert!((found - expected).abs() < 1e-5 * (1.0 + expected), "{loss:?}: {found} for {expected}");
            for (at, slope) in [d_positive].into_iter().chain(d_negatives).enumerate() {
                let moved = |by: f64| {
                    let mut scores = wide;
                    scores[at] += by;
                    exact(loss, 3.0, &scores, &shares)
                };
                let expected = 1.5 / 2.0 * (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((f64::from(slope) - expected).abs() < 1e-6, "{loss:?} at {at}: {slope} for {expected}");
            }
        }
    }
}
