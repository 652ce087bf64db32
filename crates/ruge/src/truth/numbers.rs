//! The arithmetic of fits: logistic regression with a small penalty, lines by relation, isotonic regression.
//!
//! Sums have a fixed order on any number of threads.

use rayon::prelude::*;

use super::FEATURES;

/// Samples per partial sum.
const CHUNK: usize = 16_384;
/// Keeps weights of features that say the same from growing without end.
const RIDGE: f64 = 0.1;

type Row = [f64; FEATURES];

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(super) fn dot(a: &Row, b: &Row) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Gradient and second derivatives of the loss.
#[derive(Clone, Copy)]
struct Sums {
    loss: f64,
    gradient: Row,
    hessian: [Row; FEATURES],
}

/// Weights that maximise the likelihood of the labels, by Newton's method with halved steps. `of` says which rows count.
pub(super) fn logistic(rows: &[Row], labels: &[bool], of: &(dyn Fn(usize) -> bool + Sync)) -> Row {
    let sums = |weights: &Row| -> Sums {
        let parts: Vec<Sums> = rows
            .par_chunks(CHUNK)
            .zip(labels.par_chunks(CHUNK))
            .enumerate()
            .map(|(chunk, (rows, labels))| {
                let mut sums = Sums { loss: 0.0, gradient: [0.0; FEATURES], hessian: [[0.0; FEATURES]; FEATURES] };
                for (at, (row, &label)) in rows.iter().zip(labels).enumerate() {
                    if of(chunk * CHUNK + at) {
                        sums.add(row, label, weights);
                    }
                }
                sums
            })
            .collect();
        let mut all = Sums { loss: 0.0, gradient: [0.0; FEATURES], hessian: [[0.0; FEATURES]; FEATURES] };
        for part in parts {
            all.loss += part.loss;
            for i in 0..FEATURES {
                all.gradient[i] += part.gradient[i];
                for j in 0..FEATURES {
                    all.hessian[i][j] += part.hessian[i][j];
                }
            }
        }
        for (i, weight) in weights.iter().enumerate() {
            all.loss += 0.5 * RIDGE * weight * weight;
            all.gradient[i] += RIDGE * weight;
            all.hessian[i][i] += RIDGE;
        }
        all
    };
    let mut weights = [0.0; FEATURES];
    let mut now = sums(&weights);
    for _ in 0..100 {
        let step = solve(now.hessian, now.gradient);
        let mut size = 1.0;
        let better = loop {
            let next: Row = std::array::from_fn(|i| weights[i] - size * step[i]);
            let then = sums(&next);
            if then.loss < now.loss {
                break Some((next, then));
            }
            size *= 0.5;
            if size < 1e-6 {
                break None;
            }
        };
        let Some((next, then)) = better else { break };
        let gained = now.loss - then.loss;
        (weights, now) = (next, then);
        if gained < 1e-10 * (1.0 + now.loss.abs()) {
            break;
        }
    }
    weights
}

impl Sums {
    fn add(&mut self, row: &Row, label: bool, weights: &Row) {
        let z = dot(weights, row);
        let chance = sigmoid(z);
        let target = f64::from(u8::from(label));
        self.loss += z.max(0.0) + (-z.abs()).exp().ln_1p() - target * z;
        let (error, weight) = (chance - target, chance * (1.0 - chance));
        for (i, value) in row.iter().enumerate() {
            self.gradient[i] += error * value;
            let scaled = weight * value;
            self.hessian[i].iter_mut().zip(row).for_each(|(sum, value)| *sum += scaled * value);
        }
    }
}

/// Gauss's elimination with pivots; a column without any gives 0.
#[allow(clippy::needless_range_loop)] // Two rows of one matrix at a time.
fn solve(mut a: [Row; FEATURES], mut b: Row) -> Row {
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

/// Slope and intercept of log-odds over an index, held to (1, 0) by a normal prior of these strengths. A slope below a tenth would
/// blur the order or turn it round.
pub(super) fn line(samples: &[(f64, bool)], strength: [f64; 2]) -> [f64; 2] {
    let mut at = [1.0, 0.0];
    for _ in 0..25 {
        let mut gradient = [strength[0] * (at[0] - 1.0), strength[1] * at[1]];
        let mut hessian = [strength[0], 0.0, strength[1]];
        for &(x, label) in samples {
            let chance = sigmoid(at[0] * x + at[1]);
            let (error, weight) = (chance - f64::from(u8::from(label)), chance * (1.0 - chance));
            gradient[0] += error * x;
            gradient[1] += error;
            hessian[0] += weight * x * x;
            hessian[1] += weight * x;
            hessian[2] += weight;
        }
        let determinant = hessian[0] * hessian[2] - hessian[1] * hessian[1];
        if determinant.is_nan() || determinant <= 0.0 {
            break;
        }
        let step = [
            (hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant,
            (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant,
        ];
        // Far from the goal Newton's steps may be wild.
        let size = 1.0 / (step[0].abs() + 0.5 * step[1].abs()).max(1.0);
        at = [at[0] - size * step[0], at[1] - size * step[1]];
        if step[0].abs() + step[1].abs() < 1e-9 {
            break;
        }
    }
    if at.iter().all(|x| x.is_finite()) { [at[0].max(0.1), at[1]] } else { [1.0, 0.0] }
}

/// Pools neighbours until the rate never falls. Samples are first put into bins of at least `least` samples and `mass` expected
/// facts: a single one is no rate. Knots are at the mean index of each bin.
pub(super) fn isotonic(samples: &[(f64, bool)], mass: f64, least: usize) -> Vec<[f64; 2]> {
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    order.par_sort_by(|&a, &b| samples[a as usize].0.total_cmp(&samples[b as usize].0).then(a.cmp(&b)));
    #[derive(Clone, Copy, Default)]
    struct Bin {
        index: f64,
        expected: f64,
        facts: f64,
        size: f64,
    }
    let add = |to: &mut Bin, x: &Bin| {
        to.index += x.index;
        to.expected += x.expected;
        to.facts += x.facts;
        to.size += x.size;
    };
    let (mut bins, mut bin): (Vec<Bin>, Bin) = (Vec::new(), Bin::default());
    for &at in &order {
        let (index, label) = samples[at as usize];
        add(&mut bin, &Bin { index, expected: sigmoid(index), facts: f64::from(u8::from(label)), size: 1.0 });
        if bin.expected >= mass && bin.size >= least as f64 {
            bins.push(std::mem::take(&mut bin));
        }
    }
    match bins.last_mut() {
        Some(last) => add(last, &bin),
        None => return Vec::new(),
    }
    let mut pools: Vec<(Bin, Vec<f64>)> = Vec::new();
    for bin in bins {
        pools.push((bin, vec![bin.index / bin.size]));
        while let [.., (before, _), (last, _)] = pools.as_slice() {
            if before.facts * last.size < last.facts * before.size {
                break;
            }
            if let (Some((last, places)), Some((before, kept))) = (pools.pop(), pools.last_mut()) {
                add(before, &last);
                kept.extend(places);
            }
        }
    }
    pools.iter().flat_map(|(pool, at)| at.iter().map(|&index| [index, pool.facts / pool.size])).collect()
}

/// Straight between knots, level beyond them.
pub(super) fn interpolate(knots: &[[f64; 2]], x: f64) -> f64 {
    let after = knots.partition_point(|knot| knot[0] <= x);
    match (after.checked_sub(1).map(|at| knots[at]), knots.get(after)) {
        (Some([x0, y0]), Some(&[x1, y1])) if x1 > x0 => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some([_, y]), _) | (None, Some(&[_, y])) => y,
        (None, None) => 0.0,
    }
}
