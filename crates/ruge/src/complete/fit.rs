//! From what is known of a candidate to its truth: a logistic regression of few parameters, then an isotonic one.
//!
//! A candidate's features are the model's calibrated log-odds, the logarithms of its two places, whether rules conclude it, the
//! best one's log-odds, the logarithm of their number, and how many training facts its relation has for each of its candidates.
//! The logistic regression makes one number of them, the *index*; where there are enough validation triples among the candidates the
//! isotonic regression then puts right where the logistic curve bends too much or too little.
//!
//! *The part that nobody looks at.* Candidates are labelled by valid. With test facts among them, which count as wrong, the
//! chance p to be in valid is a times the chance q to be held out at all, a being valid's share of the held-out triples. Of
//! candidates that stand in no part but one, with a share b of what was held out, q·b / (1 − q·(1 − b)) stand in that one:
//! that is the truth.

use rayon::prelude::*;
use ruge_kg::{RelationId, Triple};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::Candidate;
use crate::engine::Engine;

/// The number of features, the constant one included.
pub const FEATURES: usize = 8;

/// Fewest validation triples among the candidates for the isotonic step.
const ENOUGH: usize = 200;

/// Candidates per bin before the isotonic step: a single one is no rate.
const BIN: usize = 100;

/// Samples per partial sum: sums have a fixed order on any number of threads.
const CHUNK: usize = 16_384;

/// The truth of candidates, as fitted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CandidateTruth {
    /// Candidates it was fitted on.
    pub candidates: usize,
    /// How many of them are validation triples.
    pub facts: usize,
    /// Validation triples over all held-out triples.
    pub valid_share: f64,
    /// Weights of the features, in the order of the module's text, the constant first.
    pub weights: [f64; FEATURES],
    /// Knots (index, chance to be in valid) of the isotonic step; empty where it was left out.
    pub knots: Vec<(f64, f64)>,
    /// Per relation, the log of training facts over candidates.
    #[serde(skip)]
    density: FxHashMap<RelationId, f64>,
    /// Per relation, slope and intercept of the model's log-odds.
    #[serde(skip)]
    logits: FxHashMap<RelationId, (f64, f64)>,
}

impl CandidateTruth {
    /// Fits on candidates against valid; nothing where no validation triple is among them.
    pub(super) fn fit(engine: &Engine, candidates: &[Candidate]) -> Option<Self> {
        let data = engine.data();
        let valid: FxHashSet<Triple> = data.valid().iter().copied().collect();
        let labels: Vec<bool> = candidates.iter().map(|candidate| valid.contains(&candidate.triple)).collect();
        let facts = labels.iter().filter(|label| **label).count();
        if facts == 0 || facts == candidates.len() {
            return None;
        }
        let held_out =
            |triples: &[Triple]| triples.iter().filter(|triple| !data.graph().contains(**triple)).count() as f64;
        let (valid, test) = (held_out(data.valid()), held_out(data.test()));
        let mut counts: FxHashMap<RelationId, usize> = FxHashMap::default();
        for candidate in candidates {
            *counts.entry(candidate.triple.relation).or_default() += 1;
        }
        let density = |(&relation, &count): (&RelationId, &usize)| {
            let known = data.graph().facts(relation).len();
            (relation, ((known + 1) as f64 / (count + 1) as f64).ln())
        };
        let line = |&relation: &RelationId| {
            let own = engine.calibration().relations.get(&relation.0).unwrap_or(&engine.calibration().global);
            (relation, (f64::from(own.slope), f64::from(own.intercept)))
        };
        let mut fitted = Self {
            candidates: candidates.len(),
            facts,
            valid_share: valid / (valid + test),
            weights: [0.0; FEATURES],
            knots: Vec::new(),
            density: counts.iter().map(density).collect(),
            logits: counts.keys().map(line).collect(),
        };
        let rows: Vec<[f64; FEATURES]> = candidates.par_iter().map(|candidate| fitted.features(candidate)).collect();
        fitted.weights = logistic(&rows, &labels);
        if facts >= ENOUGH {
            let index: Vec<f64> = rows.par_iter().map(|row| dot(&fitted.weights, row)).collect();
            fitted.knots = isotonic(&index, &labels);
        }
        Some(fitted)
    }

    fn features(&self, candidate: &Candidate) -> [f64; FEATURES] {
        let relation = candidate.triple.relation;
        let (slope, intercept) = self.logits.get(&relation).copied().unwrap_or((1.0, 0.0));
        let by_rule = candidate.rules > 0;
        let confidence = if by_rule { logit(f64::from(candidate.confidence).clamp(0.01, 0.99)) } else { 0.0 };
        [
            1.0,
            (slope * f64::from(candidate.score) + intercept).clamp(-15.0, 15.0),
            f64::from(candidate.tail_place).ln(),
            f64::from(candidate.head_place).ln(),
            f64::from(u8::from(by_rule)),
            confidence,
            f64::from(candidate.rules.max(1)).ln(),
            self.density.get(&relation).copied().unwrap_or(0.0),
        ]
    }

    /// The index of a candidate: the more, the truer.
    pub fn index(&self, candidate: &Candidate) -> f64 {
        dot(&self.weights, &self.features(candidate))
    }

    /// The truth of a candidate that stands in no part of the data but perhaps one with a share `part` of what was held out.
    pub fn truth(&self, candidate: &Candidate, part: f64) -> f64 {
        let index = self.index(candidate);
        let chance = if self.knots.is_empty() { sigmoid(index) } else { interpolate(&self.knots, index) };
        let held_out = (chance / self.valid_share).clamp(0.0, 1.0);
        let rest = 1.0 - held_out * (1.0 - part);
        if rest > 0.0 { (held_out * part / rest).clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn logit(p: f64) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    (p / (1.0 - p)).ln()
}

fn dot(weights: &[f64; FEATURES], row: &[f64; FEATURES]) -> f64 {
    weights.iter().zip(row).map(|(w, x)| w * x).sum()
}

/// Maximises the likelihood, less a weak penalty that settles features without meaning, by Newton's method with halved steps.
fn logistic(rows: &[[f64; FEATURES]], labels: &[bool]) -> [f64; FEATURES] {
    const PENALTY: f64 = 1.0;
    let facts = labels.iter().filter(|label| **label).count() as f64;
    let mut at = [0.0; FEATURES];
    at[0] = logit(facts / labels.len() as f64);
    let cost = |weights: &[f64; FEATURES]| {
        let sums: Vec<f64> = rows
            .par_chunks(CHUNK)
            .zip(labels.par_chunks(CHUNK))
            .map(|(rows, labels)| {
                let term = |(row, &label): (&[f64; FEATURES], &bool)| {
                    let z = dot(weights, row);
                    z.max(0.0) + (-z.abs()).exp().ln_1p() - if label { z } else { 0.0 }
                };
                rows.iter().zip(labels).map(term).sum::<f64>()
            })
            .collect();
        sums.iter().sum::<f64>() + 0.5 * PENALTY * weights[1..].iter().map(|w| w * w).sum::<f64>()
    };
    let mut now = cost(&at);
    for _ in 0..50 {
        let sums: Vec<Slope> = rows
            .par_chunks(CHUNK)
            .zip(labels.par_chunks(CHUNK))
            .map(|(rows, labels)| Slope::of(&at, rows, labels))
            .collect();
        let mut slope = Slope::default();
        sums.iter().for_each(|other| slope.add(other));
        for (k, weight) in at.iter().enumerate().skip(1) {
            slope.gradient[k] += PENALTY * weight;
            slope.hessian[k][k] += PENALTY;
        }
        slope.hessian[0][0] += 1e-9;
        let step = solve(slope.hessian, slope.gradient);
        let mut size = 1.0;
        let better = loop {
            let next: [f64; FEATURES] = std::array::from_fn(|k| at[k] - size * step[k]);
            let then = cost(&next);
            if then < now {
                break Some((next, then));
            }
            size *= 0.5;
            if size < 1e-6 {
                break None;
            }
        };
        let Some((next, then)) = better else { break };
        let gained = now - then;
        (at, now) = (next, then);
        if gained < 1e-9 * (1.0 + now) {
            break;
        }
    }
    at
}

/// Gradient and Hessian of the cost.
#[derive(Default)]
struct Slope {
    gradient: [f64; FEATURES],
    hessian: [[f64; FEATURES]; FEATURES],
}

impl Slope {
    fn of(weights: &[f64; FEATURES], rows: &[[f64; FEATURES]], labels: &[bool]) -> Self {
        let mut slope = Self::default();
        for (row, &label) in rows.iter().zip(labels) {
            let chance = sigmoid(dot(weights, row));
            let (error, weight) = (chance - f64::from(u8::from(label)), chance * (1.0 - chance));
            for i in 0..FEATURES {
                slope.gradient[i] += error * row[i];
                for j in 0..FEATURES {
                    slope.hessian[i][j] += weight * row[i] * row[j];
                }
            }
        }
        slope
    }

    fn add(&mut self, other: &Self) {
        for i in 0..FEATURES {
            self.gradient[i] += other.gradient[i];
            for j in 0..FEATURES {
                self.hessian[i][j] += other.hessian[i][j];
            }
        }
    }
}

/// Gauss's elimination with pivots; a column without any gives 0.
#[allow(clippy::needless_range_loop)] // Two rows of one matrix at a time.
fn solve(mut a: [[f64; FEATURES]; FEATURES], mut b: [f64; FEATURES]) -> [f64; FEATURES] {
    for k in 0..FEATURES {
        let pivot = (k..FEATURES).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs())).unwrap_or(k);
        a.swap(k, pivot);
        b.swap(k, pivot);
        if a[k][k] == 0.0 {
            continue;
        }
        for i in k + 1..FEATURES {
            let factor = a[i][k] / a[k][k];
            for j in k..FEATURES {
                a[i][j] -= factor * a[k][j];
            }
            b[i] -= factor * b[k];
        }
    }
    let mut x = [0.0; FEATURES];
    for k in (0..FEATURES).rev() {
        let rest: f64 = (k + 1..FEATURES).map(|j| a[k][j] * x[j]).sum();
        x[k] = if a[k][k] == 0.0 { 0.0 } else { (b[k] - rest) / a[k][k] };
    }
    x
}

/// Pools neighbours until the rate never falls (PAV); a knot at the mean index of each pool.
fn isotonic(index: &[f64], labels: &[bool]) -> Vec<(f64, f64)> {
    let mut order: Vec<u32> = (0..index.len() as u32).collect();
    order.par_sort_by(|&a, &b| index[a as usize].total_cmp(&index[b as usize]).then(a.cmp(&b)));
    struct Pool {
        index: f64,
        facts: f64,
        size: f64,
    }
    let mut pools: Vec<Pool> = Vec::new();
    let bins = (order.len() / BIN).max(1);
    for bin in 0..bins {
        let members = &order[order.len() * bin / bins..order.len() * (bin + 1) / bins];
        let sum = members.iter().map(|&at| index[at as usize]).sum();
        let facts = members.iter().filter(|&&at| labels[at as usize]).count() as f64;
        pools.push(Pool { index: sum, facts, size: members.len() as f64 });
        while let [.., before, last] = &pools[..] {
            if before.facts * last.size < last.facts * before.size {
                break;
            }
            let last = pools.pop();
            if let (Some(pool), Some(last)) = (pools.last_mut(), last) {
                pool.index += last.index;
                pool.facts += last.facts;
                pool.size += last.size;
            }
        }
    }
    pools.iter().map(|pool| (pool.index / pool.size, pool.facts / pool.size)).collect()
}

/// Straight between knots, level beyond them.
fn interpolate(knots: &[(f64, f64)], x: f64) -> f64 {
    let after = knots.partition_point(|knot| knot.0 <= x);
    match (after.checked_sub(1).map(|at| knots[at]), knots.get(after)) {
        (Some((x0, y0)), Some(&(x1, y1))) if x1 > x0 => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, y)), _) | (None, Some(&(_, y))) => y,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_never_fall() {
        let index: Vec<f64> = (0..1000).map(f64::from).collect();
        // One in two between 300 and 400, fewer after, all from 900 on.
        let labels: Vec<bool> =
            (0..1000).map(|i| i >= 900 || (300..400).contains(&i) && i % 2 == 0 || i % 10 == 0).collect();
        let knots = isotonic(&index, &labels);
        assert!(knots.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{knots:?}");
        assert_eq!(knots.last().map(|knot| knot.1), Some(1.0));
        // Interpolation meets the knots, stays between them and level beyond.
        for &(x, y) in &knots {
            assert!((interpolate(&knots, x) - y).abs() < 1e-12);
        }
        assert_eq!(interpolate(&knots, -5.0), knots[0].1);
        assert_eq!(interpolate(&knots, 5000.0), 1.0);
        assert_eq!(interpolate(&[], 1.0), 0.0);
    }

    #[test]
    fn known_weights_are_found_again() {
        use ruge_kg::random::{Stream, draw, unit};
        let wanted = [-1.0, 2.0, -0.5, 0.0, 1.0, 0.0, 0.3, 0.0];
        let rows: Vec<[f64; FEATURES]> = (0..40_000u64)
            .map(|i| {
                let mut row = [1.0; FEATURES];
                for (k, x) in row.iter_mut().enumerate().skip(1) {
                    *x = 4.0 * unit(draw(1, Stream(0x7e57), k as u64, i)) - 2.0;
                }
                row[7] = 0.0;
                row
            })
            .collect();
        let labels: Vec<bool> = rows
            .iter()
            .enumerate()
            .map(|(i, row)| unit(draw(2, Stream(0x7e57), 0, i as u64)) < sigmoid(dot(&wanted, row)))
            .collect();
        let found = logistic(&rows, &labels);
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 0.07, "{found} for {wanted}");
        }
    }

    #[test]
    fn linear_systems_are_solved() {
        let mut a = [[0.0; FEATURES]; FEATURES];
        for (k, row) in a.iter_mut().enumerate() {
            row[k] = 2.0;
            row[(k + 1) % FEATURES] = 1.0;
        }
        a.swap(0, 3);
        let x: [f64; FEATURES] = std::array::from_fn(|k| k as f64 - 2.0);
        let b = std::array::from_fn(|i| (0..FEATURES).map(|j| a[i][j] * x[j]).sum());
        for (found, wanted) in solve(a, b).into_iter().zip(x) {
            assert!((found - wanted).abs() < 1e-9);
        }
    }
}
