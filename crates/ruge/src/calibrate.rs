//! From a score to a truth value that can be believed: "of the answers with truth 0.7, seven in ten are facts".
//!
//! *What truth means.* Every validation triple asks two questions, (?, r, t) and (h, r, ?). What `ruge predict` would show
//! for them, the ten best entities that form no other known fact, is the population: an answer counts as a fact if it is the
//! validation triple, and as wrong otherwise. So truth is the chance that an answer among the first ten is a fact that
//! somebody listed. Facts nobody listed count as wrong, which makes truths cautious; and the questions asked are such that
//! have an answer, so for a question that has none every truth is too high.
//!
//! *How it is fitted.* φ(r, η) = σ(aᵣ η + bᵣ). A global (a, b) maximises the likelihood of all answers, with Platt's
//! targets (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2). With x the score in standard units over all answers, each relation then
//! maximises Σ ln p(answer) − τ/2 ((aᵣ − a)² + (bᵣ − b)²): a normal prior around the global fit, whose strength τ =
//! [`PRIOR`] is that of about 4τ undecided answers. A relation without answers has the global fit. A slope below a
//! tenth of the global one would turn the order of answers round or blur it, so such a relation keeps the global slope.
//!
//! At most [`MOST`] validation triples are asked, drawn by the seed. All sums run in the order of the triples, so a fit has the
//! same bits on any number of threads. Without validation triples there is nothing to learn from: truth is then the
//! training objective's own φ = σ(η + shift), and [`Calibration::source`] says so.

use std::collections::BTreeMap;

use crate::error::Result;
use ruge_embed::top::Hide;
use ruge_embed::{Model, RankQuery, TopOptions};
use ruge_kg::random::{self, Stream};
use ruge_kg::{Dataset, RelationId, Triple};
use serde::{Deserialize, Serialize};

/// Answers per question: as many as `ruge predict` shows.
pub const SHOWN: usize = 10;
/// Held-out triples asked at most.
pub const MOST: usize = 10_000;
/// τ: how firmly a relation's fit is held to the global one.
pub const PRIOR: f64 = 4.0;
/// Which held-out triples are asked, where there are more than [`MOST`].
const QUESTIONS: Stream = Stream(0x601);

/// σ(slope · score + intercept).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Logistic {
    /// How fast truth grows with the score.
    pub slope: f32,
    /// Log-odds at score 0.
    pub intercept: f32,
}

impl Logistic {
    /// The truth of a score; NaN is not true at all.
    pub fn truth(self, score: f32) -> f64 {
        let truth = sigmoid(f64::from(self.slope) * f64::from(score) + f64::from(self.intercept));
        if truth.is_nan() { 0.0 } else { truth }
    }
}

/// What a calibration was learnt from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum Source {
    /// Answers to questions from the validation triples.
    Validation {
        /// Questions asked.
        questions: usize,
        /// Answers that are facts.
        facts: usize,
        /// Answers that are not.
        others: usize,
    },
    /// Nothing: there are no validation triples, and truth is the objective's φ.
    Objective,
}

/// Scores turned into truth values, by relation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// What it was learnt from.
    pub source: Source,
    /// For relations without a fit of their own.
    pub global: Logistic,
    /// By relation id.
    pub relations: BTreeMap<u32, Logistic>,
}

impl Calibration {
    /// The objective's own φ = σ(η + shift), for models without validation triples.
    pub fn plain(shift: f32) -> Self {
        let global = Logistic { slope: 1.0, intercept: shift };
        Self { source: Source::Objective, global, relations: BTreeMap::new() }
    }

    /// Fits on the validation triples; nothing if there are none, or if no answer could be scored.
    pub fn fit(model: &dyn Model, data: &Dataset, seed: u64) -> Result<Option<Self>> {
        let answers = answers(model, data, data.valid(), seed)?;
        Ok(Self::of(&answers, 2 * data.valid().len().min(MOST)))
    }

    /// Fits on answers; `questions` is only told on.
    pub fn of(answers: &[Answer], questions: usize) -> Option<Self> {
        let answers: Vec<Answer> = answers.iter().copied().filter(|answer| answer.score.is_finite()).collect();
        if answers.is_empty() {
            return None;
        }
        let units = Units::of(&answers);
        let facts = answers.iter().filter(|answer| answer.fact).count();
        let others = answers.len() - facts;
        let targets = [1.0 / (others as f64 + 2.0), (facts as f64 + 1.0) / (facts as f64 + 2.0)];
        let global =
            fit([1.0, -1.0], None, answers.iter().map(|x| (units.of_score(x.score), targets[usize::from(x.fact)])));
        // A model no better than chance: one truth for all.
        let global =
            if global[0] < 0.0 { [0.0, logit(targets[1] * facts as f64 / answers.len() as f64)] } else { global };
        let mut by_relation: BTreeMap<RelationId, Vec<(f64, f64)>> = BTreeMap::new();
        for answer in &answers {
            let label = f64::from(u8::from(answer.fact));
            by_relation.entry(answer.relation).or_default().push((units.of_score(answer.score), label));
        }
        let own = |samples: &[(f64, f64)]| {
            let fitted = fit(global, Some(Prior { at: global, free: [true, true] }), samples.iter().copied());
            if fitted[0] >= 0.1 * global[0] {
                return fitted;
            }
            fit(global, Some(Prior { at: global, free: [false, true] }), samples.iter().copied())
        };
        Some(Self {
            source: Source::Validation { questions, facts, others },
            global: units.logistic(global),
            relations: by_relation
                .iter()
                .map(|(relation, samples)| (relation.0, units.logistic(own(samples))))
                .collect(),
        })
    }

    /// The truth of a score under a relation.
    pub fn truth(&self, relation: RelationId, score: f32) -> f64 {
        self.relations.get(&relation.0).unwrap_or(&self.global).truth(score)
    }

    /// How far truths can be believed on held-out triples, asked as in fitting.
    pub fn reliability(
        &self,
        model: &dyn Model,
        data: &Dataset,
        held_out: &[Triple],
        seed: u64,
    ) -> Result<Reliability> {
        let answers = answers(model, data, held_out, seed)?;
        Ok(Reliability::of(answers.iter().map(|x| (self.truth(x.relation, x.score), x.fact))))
    }
}

/// One answer to a question about a held-out triple.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// The relation asked for.
    pub relation: RelationId,
    /// η.
    pub score: f32,
    /// Whether it is the held-out triple.
    pub fact: bool,
}

/// The first [`SHOWN`] answers to both questions of each held-out triple, known facts other than itself left out.
pub fn answers(model: &dyn Model, data: &Dataset, held_out: &[Triple], seed: u64) -> Result<Vec<Answer>> {
    let asked: Vec<Triple> = if held_out.len() > MOST {
        let mut chosen = random::permutation(held_out.len(), seed, QUESTIONS, 0);
        chosen.truncate(MOST);
        chosen.sort_unstable();
        chosen.into_iter().map(|index| held_out[index as usize]).collect()
    } else {
        held_out.to_vec()
    };
    let queries = RankQuery::both_sides(&asked);
    let options = TopOptions { hide: Hide::OtherKnown(data.filter()), ..TopOptions::new(SHOWN) };
    let lists = model.top(&queries, &options, &|_, _| ())?;
    let mut triples = Vec::new();
    let mut answers = Vec::new();
    for (query, list) in queries.iter().zip(&lists) {
        for found in list {
            triples.push(query.answered(found.entity));
            let fact = found.entity == query.answer();
            answers.push(Answer { relation: query.triple.relation, score: 0.0, fact });
        }
    }
    // Scored anew, triple by triple: ranking may compare squares, and sums in another order.
    let mut scores = vec![0.0; triples.len()];
    model.score(&triples, &mut scores)?;
    for (answer, score) in answers.iter_mut().zip(scores) {
        answer.score = score;
    }
    Ok(answers)
}

/// How well truth values agree with what is so.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reliability {
    /// Answers looked at.
    pub answers: usize,
    /// Mean squared difference of truth and fact.
    pub brier: f64,
    /// Expected calibration error: |mean truth − share of facts|, averaged over buckets by their size.
    pub ece: f64,
    /// Ten buckets of equal width, from [0, 0.1) to [0.9, 1].
    pub curve: Vec<Bucket>,
}

/// Answers of similar truth.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Bucket {
    /// Least truth.
    pub from: f64,
    /// Truths below, the last bucket's 1 included.
    pub to: f64,
    /// Answers in it.
    pub count: usize,
    /// Their mean truth; 0 in an empty bucket.
    pub truth: f64,
    /// The share of facts among them; 0 in an empty bucket.
    pub facts: f64,
}

impl Reliability {
    /// Of truths with what is so, summed in the order given.
    pub fn of(answers: impl IntoIterator<Item = (f64, bool)>) -> Self {
        const BUCKETS: usize = 10;
        let bound = |index: usize| index as f64 / BUCKETS as f64;
        let mut curve: Vec<Bucket> =
            (0..BUCKETS).map(|i| Bucket { from: bound(i), to: bound(i + 1), ..Bucket::default() }).collect();
        let (mut count, mut squares) = (0usize, 0.0);
        for (truth, fact) in answers {
            let label = f64::from(u8::from(fact));
            count += 1;
            squares += (truth - label).powi(2);
            let bucket = &mut curve[((truth * BUCKETS as f64) as usize).min(BUCKETS - 1)];
            bucket.count += 1;
            bucket.truth += truth;
            bucket.facts += label;
        }
        let n = count.max(1) as f64;
        let mut ece = 0.0;
        for bucket in &mut curve {
            ece += (bucket.truth - bucket.facts).abs() / n;
            let size = bucket.count.max(1) as f64;
            bucket.truth /= size;
            bucket.facts /= size;
        }
        Self { answers: count, brier: squares / n, ece, curve }
    }
}

/// Scores in standard units, so that slopes of different models compare and Newton's steps are well scaled.
#[derive(Clone, Copy, Debug)]
struct Units {
    mean: f64,
    deviation: f64,
}

impl Units {
    fn of(answers: &[Answer]) -> Self {
        let n = answers.len() as f64;
        let mean = answers.iter().map(|x| f64::from(x.score)).sum::<f64>() / n;
        let variance = answers.iter().map(|x| (f64::from(x.score) - mean).powi(2)).sum::<f64>() / n;
        Self { mean, deviation: if variance > 0.0 { variance.sqrt() } else { 1.0 } }
    }

    fn of_score(self, score: f32) -> f64 {
        (f64::from(score) - self.mean) / self.deviation
    }

    /// [slope, intercept] over standard units as a function of the score.
    fn logistic(self, [slope, intercept]: [f64; 2]) -> Logistic {
        let slope = slope / self.deviation;
        Logistic { slope: slope as f32, intercept: (intercept - slope * self.mean) as f32 }
    }
}

/// A normal prior of precision [`PRIOR`] around a point; what is not free stays there.
#[derive(Clone, Copy)]
struct Prior {
    at: [f64; 2],
    free: [bool; 2],
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn logit(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

/// Maximises Σ t ln φ + (1 − t) ln (1 − φ) over φ = σ(a x + b), minus the prior, by Newton's method with halved steps.
fn fit(start: [f64; 2], prior: Option<Prior>, samples: impl Iterator<Item = (f64, f64)> + Clone) -> [f64; 2] {
    let free = prior.map_or([true, true], |prior| prior.free);
    let cost = |[a, b]: [f64; 2]| -> f64 {
        let term = |(x, target): (f64, f64)| {
            let z = a * x + b;
            z.max(0.0) + (-z.abs()).exp().ln_1p() - target * z
        };
        let distance = |prior: Prior| (a - prior.at[0]).powi(2) + (b - prior.at[1]).powi(2);
        samples.clone().map(term).sum::<f64>() + prior.map_or(0.0, |prior| 0.5 * PRIOR * distance(prior))
    };
    let mut at = start;
    let mut now = cost(at);
    for _ in 0..100 {
        let (mut gradient, mut hessian) = ([0.0; 2], [1e-9, 0.0, 1e-9]);
        for (x, target) in samples.clone() {
            let truth = sigmoid(at[0] * x + at[1]);
            let (error, weight) = (truth - target, truth * (1.0 - truth));
            gradient[0] += error * x;
            gradient[1] += error;
            hessian[0] += weight * x * x;
            hessian[1] += weight * x;
            hessian[2] += weight;
        }
        if let Some(prior) = prior {
            for side in 0..2 {
                gradient[side] += PRIOR * (at[side] - prior.at[side]);
                hessian[2 * side] += PRIOR;
            }
        }
        let step = match free {
            [true, true] => {
                let determinant = hessian[0] * hessian[2] - hessian[1] * hessian[1];
                [
                    (hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant,
                    (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant,
                ]
            }
            [first, second] => [
                if first { gradient[0] / hessian[0] } else { 0.0 },
                if second { gradient[1] / hessian[2] } else { 0.0 },
            ],
        };
        let mut size = 1.0;
        let better = loop {
            let next = [at[0] - size * step[0], at[1] - size * step[1]];
            let then = cost(next);
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
        if gained < 1e-12 * (1.0 + now.abs()) {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: Stream = Stream(0x7e59);

    /// Answers whose chance of being a fact is known: σ(slope · score + intercept) by relation.
    fn answers(relation: u32, n: u64, slope: f64, intercept: f64) -> Vec<Answer> {
        let unit = |i, j| random::unit(random::draw(3, DRAWS, u64::from(relation) * 2 + j, i));
        (0..n)
            .map(|i| {
                let score = 8.0 * unit(i, 0) - 4.0;
                let fact = unit(i, 1) < sigmoid(slope * score + intercept);
                Answer { relation: RelationId(relation), score: score as f32, fact }
            })
            .collect()
    }

    #[test]
    fn a_known_truth_is_found_again() {
        let all = [answers(0, 20_000, 1.5, -2.0), answers(1, 20_000, 0.8, 0.5), answers(2, 5, 0.8, 0.5)].concat();
        let fitted = Calibration::of(&all, 0).unwrap();
        for (relation, slope, intercept) in [(0, 1.5, -2.0), (1, 0.8, 0.5)] {
            for score in [-3.0f32, 0.0, 2.0] {
                let expected = sigmoid(slope * f64::from(score) + intercept);
                let found = fitted.truth(RelationId(relation), score);
                assert!((found - expected).abs() < 0.02, "{found} for {expected} at {score}");
            }
        }
        // Five answers move a relation a little, none at all not at all.
        let (few, none, global) = (fitted.relations[&2], fitted.truth(RelationId(9), 1.0), fitted.global);
        assert_eq!(none, global.truth(1.0));
        assert!(few != global && (few.truth(0.0) - global.truth(0.0)).abs() < 0.2, "{few:?} and {global:?}");
        let facts = all.iter().map(|x| (fitted.truth(x.relation, x.score), x.fact));
        let reliability = Reliability::of(facts);
        assert!(reliability.ece < 0.01, "{reliability:?}");
        assert_eq!(reliability.curve.iter().map(|bucket| bucket.count).sum::<usize>(), all.len());
    }

    #[test]
    fn truth_grows_with_the_score_whatever_the_answers() {
        // In relation 1 high scores are wrong, and in relation 2 everything is a fact.
        let all = [answers(0, 2_000, 2.0, 0.0), answers(1, 2_000, -2.0, 0.0), answers(2, 300, 0.0, 50.0)].concat();
        let fitted = Calibration::of(&all, 0).unwrap();
        for logistic in fitted.relations.values().chain([&fitted.global]) {
            assert!(logistic.slope > 0.0, "{fitted:?}");
        }
        assert!(fitted.truth(RelationId(2), 0.0) > 0.9, "{fitted:?}");
        // Hopeless everywhere: one truth, the share of facts.
        let hopeless = Calibration::of(&answers(1, 4_000, -1.0, -1.0), 0).unwrap();
        assert_eq!(hopeless.global.slope, 0.0);
        assert!((hopeless.global.truth(3.0) - 0.34).abs() < 0.05, "{hopeless:?}");
    }

    #[test]
    fn odd_answers_do_no_harm() {
        assert_eq!(Calibration::of(&[], 0), None);
        let nan = Answer { relation: RelationId(0), score: f32::NAN, fact: true };
        assert_eq!(Calibration::of(&[nan], 0), None);
        let one = Calibration::of(&[Answer { score: 1.0, ..nan }, nan], 0).unwrap();
        assert!(one.global.slope.is_finite() && one.global.intercept.is_finite(), "{one:?}");
        let truth = one.truth(RelationId(0), f32::NAN);
        assert_eq!(truth, 0.0);
        let plain = Calibration::plain(4.0);
        assert!((plain.truth(RelationId(0), -4.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_calibration_survives_its_text() {
        let fitted = Calibration::of(&answers(0, 500, 1.5, -2.0), 7).unwrap();
        let text = serde_json::to_string(&fitted).unwrap();
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), fitted);
    }

    #[test]
    fn reliability_of_a_few_answers() {
        let found = Reliability::of([(0.05, false), (0.95, true), (1.0, true), (0.25, true)]);
        assert!((found.brier - (0.0025 + 0.0025 + 0.5625) / 4.0).abs() < 1e-12);
        assert!((found.ece - (0.05 + 0.05 + 0.75) / 4.0).abs() < 1e-12);
        assert_eq!((found.curve[9].count, found.curve[9].facts), (2, 1.0));
        assert_eq!(Reliability::of([]).ece, 0.0);
    }
}
