//! How a gradient row updates a parameter row: AdaGrad with its row cap, SGD, Adam.
//!
//! Rows that no triple of the batch touches do not change and keep their state, so updating only touched rows equals
//! the dense loop of the reference.

use serde::{Deserialize, Serialize};

use crate::cpu::row;

/// Maximum norm of a gradient.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "per", deny_unknown_fields)]
pub enum Cap {
    /// No maximum.
    None,
    /// Per row, with real and imaginary halves separately: the "gradient normalisation" of the paper.
    Row {
        /// The maximum.
        norm: f32,
    },
    /// Per matrix, as in `ttrouill/complex`.
    Matrix {
        /// The maximum.
        norm: f32,
    },
}

/// Update rule of a row.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum UpdateRule {
    /// A ← A + g²; θ ← θ − γ g / (√A + ε), A starts at 0.
    AdaGrad {
        /// ε
        #[serde(default = "small")]
        epsilon: f32,
        /// Whether ε is inside the root, √(A + ε).
        #[serde(default)]
        inside: bool,
    },
    /// θ ← θ − γ g.
    Sgd,
    /// Adam with bias correction; moments of untouched rows do not change.
    Adam {
        /// Decay of the first moment.
        #[serde(default = "first")]
        beta1: f32,
        /// Decay of the second moment.
        #[serde(default = "second")]
        beta2: f32,
        /// ε, outside the root.
        #[serde(default = "small")]
        epsilon: f32,
    },
}

fn small() -> f32 {
    1e-8
}

fn first() -> f32 {
    0.9
}

fn second() -> f32 {
    0.999
}

/// Update rule, rates and cap.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Optimizer {
    /// The update rule.
    pub rule: UpdateRule,
    /// γ of entity rows.
    pub entity_rate: f32,
    /// γ of relation rows.
    pub relation_rate: f32,
    /// The cap on gradients.
    pub cap: Cap,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self {
            rule: UpdateRule::AdaGrad { epsilon: 1e-8, inside: false },
            entity_rate: 0.5,
            relation_rate: 0.5,
            cap: Cap::Row { norm: 1.0 },
        }
    }
}

impl Optimizer {
    /// The same with learning rates multiplied by `rate`.
    pub fn slowed(&self, rate: f32) -> Self {
        Self { entity_rate: self.entity_rate * rate, relation_rate: self.relation_rate * rate, ..*self }
    }

    /// Number of state tables besides the parameters.
    pub fn state_tables(&self) -> usize {
        match self.rule {
            UpdateRule::Sgd => 0,
            UpdateRule::AdaGrad { .. } => 1,
            UpdateRule::Adam { .. } => 2,
        }
    }
}

/// Projection of rows besides gradient steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Projection {
    /// None.
    #[default]
    None,
    /// TransE: entity rows are divided by their L2 norm before each batch.
    UnitEntitiesBeforeBatch,
    /// KALE: all rows are divided by their L2 norm after each step.
    UnitRowsAfterStep,
}

/// An optimiser's constants for one table and one step.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    rule: UpdateRule,
    rate: f32,
    row_cap: Option<f32>,
    parts: usize,
    /// Adam's 1/(1 − βᵗ).
    corrections: [f32; 2],
}

impl Move {
    /// For rows of `parts` equal parts, at the `step`-th step, counted from 1.
    pub fn new(optimizer: &Optimizer, rate: f32, parts: usize, step: u64) -> Self {
        let row_cap = match optimizer.cap {
            Cap::Row { norm } => Some(norm),
            Cap::None | Cap::Matrix { .. } => None,
        };
        let corrections = match optimizer.rule {
            UpdateRule::Adam { beta1, beta2, .. } => {
                [beta1, beta2].map(|beta| (1.0 / (1.0 - f64::from(beta).powf(step as f64))) as f32)
            }
            _ => [1.0; 2],
        };
        Self { rule: optimizer.rule, rate, row_cap, parts, corrections }
    }

    /// Whether a row without a gradient is unchanged.
    #[inline(always)]
    pub fn rests(&self) -> bool {
        !matches!(self.rule, UpdateRule::Adam { .. })
    }

    /// Caps the gradient row and updates the parameter row; state rows are empty if the rule has none.
    #[inline(always)]
    pub fn apply(&self, gradient: &mut [f32], parameters: &mut [f32], first: &mut [f32], second: &mut [f32]) {
        if let Some(cap) = self.row_cap {
            for part in gradient.chunks_exact_mut(gradient.len() / self.parts) {
                let squares = row::sum_of_squares(part);
                if squares > cap * cap {
                    row::scale(part, cap / squares.sqrt());
                }
            }
        }
        let rate = self.rate;
        match self.rule {
            UpdateRule::AdaGrad { epsilon, inside: false } => {
                for ((x, a), &g) in parameters.iter_mut().zip(first).zip(&*gradient) {
                    *a = g.mul_add(g, *a);
                    *x -= rate * g / (a.sqrt() + epsilon);
                }
            }
            UpdateRule::AdaGrad { epsilon, inside: true } => {
                for ((x, a), &g) in parameters.iter_mut().zip(first).zip(&*gradient) {
                    *a = g.mul_add(g, *a);
                    *x -= rate * g / (*a + epsilon).sqrt();
                }
            }
            UpdateRule::Sgd => row::add_scaled(parameters, -rate, gradient),
            UpdateRule::Adam { beta1, beta2, epsilon } => {
                for (((x, m), v), &g) in parameters.iter_mut().zip(first).zip(second).zip(&*gradient) {
                    *m = beta1.mul_add(*m, (1.0 - beta1) * g);
                    *v = beta2.mul_add(*v, (1.0 - beta2) * (g * g));
                    *x -= rate * (*m * self.corrections[0]) / ((*v * self.corrections[1]).sqrt() + epsilon);
                }
            }
        }
    }
}
