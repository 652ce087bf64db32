//! The plain twin: every formula of the paper in `f64`, one triple at a time, as on paper.
//!
//! Nothing here is fast or shared with the fast path, so that the two can be compared. Rows are `Vec<f64>` of
//! parameters; complex rows hold real parts first.

use ruge_kg::Triple;

/// A table of parameter rows.
pub type Rows = Vec<Vec<f64>>;

/// The scoring functions, by their textbook definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scoring {
    ComplEx,
    DistMult,
    HolE,
    TransEL1,
    TransEL2,
    RotatE,
}

impl Scoring {
    /// η of three parameter rows.
    pub fn score(self, h: &[f64], r: &[f64], t: &[f64]) -> f64 {
        let d = h.len();
        match self {
            Self::ComplEx => {
                let d = d / 2;
                let sum = |m: usize| {
                    let (a, b, u, v, w, z) = (h[m], h[d + m], r[m], r[d + m], t[m], t[d + m]);
                    a * u * w + b * u * z + a * v * z - b * v * w
                };
                (0..d).map(sum).sum()
            }
            Self::DistMult => (0..d).map(|m| h[m] * r[m] * t[m]).sum(),
            Self::HolE => (0..d).map(|k| r[k] * (0..d).map(|i| h[i] * t[(i + k) % d]).sum::<f64>()).sum(),
            Self::TransEL1 => -(0..d).map(|m| (h[m] + r[m] - t[m]).abs()).sum::<f64>(),
            Self::TransEL2 => -(0..d).map(|m| (h[m] + r[m] - t[m]).powi(2)).sum::<f64>().sqrt(),
            Self::RotatE => {
                let d = d / 2;
                let modulus = |m: usize| {
                    let (sine, cosine) = r[m].sin_cos();
                    let re = h[m] * cosine - h[d + m] * sine - t[m];
                    let im = h[m] * sine + h[d + m] * cosine - t[d + m];
                    re.hypot(im)
                };
                -(0..d).map(modulus).sum::<f64>()
            }
        }
    }

    /// ∂η/∂h, ∂η/∂r, ∂η/∂t.
    pub fn gradient(self, h: &[f64], r: &[f64], t: &[f64]) -> [Vec<f64>; 3] {
        let d = h.len();
        let mut g = [vec![0.0; h.len()], vec![0.0; r.len()], vec![0.0; t.len()]];
        match self {
            Self::ComplEx => {
                let d = d / 2;
                for m in 0..d {
                    let (a, b, u, v, w, z) = (h[m], h[d + m], r[m], r[d + m], t[m], t[d + m]);
                    (g[0][m], g[0][d + m]) = (u * w + v * z, u * z - v * w);
                    (g[2][m], g[2][d + m]) = (u * a - v * b, u * b + v * a);
                    (g[1][m], g[1][d + m]) = (a * w + b * z, a * z - b * w);
                }
            }
            Self::DistMult => {
                for m in 0..d {
                    (g[0][m], g[1][m], g[2][m]) = (r[m] * t[m], h[m] * t[m], h[m] * r[m]);
                }
            }
            Self::HolE => {
                for k in 0..d {
                    for i in 0..d {
                        let j = (i + k) % d;
                        g[1][k] += h[i] * t[j];
                        g[0][i] += r[k] * t[j];
                        g[2][j] += r[k] * h[i];
                    }
                }
            }
            Self::TransEL1 | Self::TransEL2 => {
                let distance = -self.score(h, r, t);
                for m in 0..d {
                    let x = h[m] + r[m] - t[m];
                    let slope = if self == Self::TransEL2 {
                        x / distance
                    } else if x == 0.0 {
                        0.0
                    } else {
                        x.signum()
                    };
                    (g[0][m], g[1][m], g[2][m]) = (-slope, -slope, slope);
                }
            }
            Self::RotatE => {
                let d = d / 2;
                for m in 0..d {
                    let (sine, cosine) = r[m].sin_cos();
                    let (q_re, q_im) = (h[m] * cosine - h[d + m] * sine, h[m] * sine + h[d + m] * cosine);
                    let (re, im) = (q_re - t[m], q_im - t[d + m]);
                    let modulus = re.hypot(im);
                    let (re, im) = (re / modulus, im / modulus);
                    (g[0][m], g[0][d + m]) = (-(re * cosine + im * sine), -(im * cosine - re * sine));
                    (g[2][m], g[2][d + m]) = (re, im);
                    g[1][m] = -(im * q_re - re * q_im);
                }
            }
        }
        g
    }
}

/// The sigmoid of the reference, clipped at ±10.
pub fn sigmoid(x: f64) -> f64 {
    match x {
        x if x > 10.0 => 1.0,
        x if x < -10.0 => 0.0,
        x => 1.0 / (1.0 + (-x).exp()),
    }
}

/// One grounding: premises, conclusion, confidence.
pub type Grounding = (Vec<Triple>, Triple, f64);

/// Parameters and AdaGrad sums of one model, with the settings of the reference.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Twin {
    pub scoring: Scoring,
    pub entities: Rows,
    pub relations: Rows,
    pub entity_sums: Rows,
    pub relation_sums: Rows,
    /// Parts of an entity and of a relation row, for the row cap.
    pub parts: [usize; 2],
    /// d as counted by the paper.
    pub dimension: usize,
    pub rates: [f64; 2],
    pub l2: f64,
    pub slackness: f64,
}

impl Twin {
    /// A model before its first step.
    pub fn new(scoring: Scoring, entities: Rows, relations: Rows) -> Self {
        let complex = matches!(scoring, Scoring::ComplEx | Scoring::RotatE);
        let zeros = |rows: &Rows| rows.iter().map(|row| vec![0.0; row.len()]).collect();
        Self {
            dimension: entities[0].len() / if complex { 2 } else { 1 },
            parts: [if complex { 2 } else { 1 }, if scoring == Scoring::ComplEx { 2 } else { 1 }],
            entity_sums: zeros(&entities),
            relation_sums: zeros(&relations),
            scoring,
            entities,
            relations,
            rates: [0.5, 0.5],
            l2: 0.0,
            slackness: 0.01,
        }
    }

    /// η of a triple.
    pub fn score(&self, x: Triple) -> f64 {
        let (h, r, t) = (x.head.index(), x.relation.index(), x.tail.index());
        self.scoring.score(&self.entities[h], &self.relations[r], &self.entities[t])
    }

    /// φ of a triple.
    pub fn truth(&self, x: Triple) -> f64 {
        sigmoid(self.score(x))
    }

    /// Eq. (9) under the product t-norm: distinct conclusions, in order of appearance, with their soft labels.
    pub fn soft_labels(&self, groundings: &[Grounding]) -> Vec<(Triple, f64)> {
        let mut labels: Vec<(Triple, f64)> = Vec::new();
        for (premises, conclusion, confidence) in groundings {
            let push = self.slackness * confidence * premises.iter().map(|&x| self.truth(x)).product::<f64>();
            match labels.iter_mut().find(|(x, _)| x == conclusion) {
                Some((_, s)) => *s += push,
                None => labels.push((*conclusion, self.truth(*conclusion) + push)),
            }
        }
        labels.iter_mut().for_each(|(_, s)| *s = s.clamp(0.0, 1.0));
        labels
    }

    /// The gradient of Eq. (10): labeled triples with labels 0 and 1, unlabeled ones with soft labels.
    pub fn gradient(&self, labeled: &[(Triple, f64)], unlabeled: &[(Triple, f64)]) -> [Rows; 2] {
        let mut gradients = self.zeros();
        for (part, n) in [(labeled, labeled.len()), (unlabeled, unlabeled.len())] {
            for &(x, y) in part {
                self.add_pull(&mut gradients, x, (self.truth(x) - y) / n as f64, 1.0 / n as f64);
            }
        }
        gradients
    }

    /// A gradient of zeros.
    pub fn zeros(&self) -> [Rows; 2] {
        [&self.entities, &self.relations].map(|rows| rows.iter().map(|row| vec![0.0; row.len()]).collect())
    }

    /// Adds `d_score · ∂η` and the L2 pull of one occurrence.
    pub fn add_pull(&self, gradients: &mut [Rows; 2], x: Triple, d_score: f64, occurrence: f64) {
        let (h, r, t) = (x.head.index(), x.relation.index(), x.tail.index());
        let rows = [&self.entities[h], &self.relations[r], &self.entities[t]];
        let partial = self.scoring.gradient(rows[0], rows[1], rows[2]);
        let l2 = 2.0 * self.l2 / self.dimension as f64 * occurrence;
        for (role, (kind, index)) in [(0, h), (1, r), (0, t)].into_iter().enumerate() {
            for (m, g) in gradients[kind][index].iter_mut().enumerate() {
                *g += d_score * partial[role][m] + l2 * rows[role][m];
            }
        }
    }

    /// Row cap at 1 for each part, then AdaGrad.
    pub fn step(&mut self, gradients: &[Rows; 2]) {
        let tables = [(&mut self.entities, &mut self.entity_sums), (&mut self.relations, &mut self.relation_sums)];
        for (kind, (rows, sums)) in tables.into_iter().enumerate() {
            for ((row, sum), gradient) in rows.iter_mut().zip(sums).zip(&gradients[kind]) {
                let part = row.len() / self.parts[kind];
                for start in (0..row.len()).step_by(part) {
                    let norm = gradient[start..start + part].iter().map(|g| g * g).sum::<f64>().sqrt();
                    for m in start..start + part {
                        let g = gradient[m] * (1.0 / norm).min(1.0);
                        sum[m] += g * g;
                        if g != 0.0 {
                            row[m] -= self.rates[kind] * g / (sum[m].sqrt() + 1e-8);
                        }
                    }
                }
            }
        }
    }

    /// The gradient of KALE's loss: hinge pairs of triples and of rule groundings, truths 1 + η / (3 √d).
    pub fn kale_gradient(
        &self,
        pairs: &[[Triple; 2]],
        rules: &[[Vec<Triple>; 2]],
        margin: f64,
        weight: f64,
    ) -> [Rows; 2] {
        let scale = 1.0 / (3.0 * (self.dimension as f64).sqrt());
        let truth = |x: Triple| 1.0 + scale * self.score(x);
        let formula = |atoms: &[Triple]| {
            let (conclusion, premises) = atoms.split_last().expect("a grounding has a conclusion");
            premises.iter().map(|&x| truth(x)).product::<f64>() * (truth(*conclusion) - 1.0) + 1.0
        };
        let mut gradients = self.zeros();
        for &[positive, negative] in pairs {
            if margin - truth(positive) + truth(negative) > 0.0 {
                self.add_pull(&mut gradients, positive, -scale, 0.0);
                self.add_pull(&mut gradients, negative, scale, 0.0);
            }
        }
        for [positive, negative] in rules {
            if margin - formula(positive) + formula(negative) > 0.0 {
                for (atoms, sign) in [(positive, -1.0), (negative, 1.0)] {
                    let last = atoms.len() - 1;
                    for (at, &x) in atoms.iter().enumerate() {
                        let others: f64 =
                            (0..last).filter(|&other| other != at).map(|other| truth(atoms[other])).product();
                        let factor = if at == last { others } else { others * (truth(atoms[last]) - 1.0) };
                        self.add_pull(&mut gradients, x, sign * weight * scale * factor, 0.0);
                    }
                }
            }
        }
        gradients
    }

    /// Divides every row by its L2 norm.
    pub fn normalise(&mut self) {
        for row in self.entities.iter_mut().chain(&mut self.relations) {
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            row.iter_mut().for_each(|x| *x /= norm);
        }
    }
}
