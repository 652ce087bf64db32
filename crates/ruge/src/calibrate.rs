//! From a score to a truth value that can be believed: "of the answers with truth 0.7, seven in ten are facts".
//!
//! *What truth means.* Every validation triple asks two questions, (?, r, t) and (h, r, ?). What `ruge predict` would show
//! for them, the ten best entities that form no other known fact, is the population: an answer counts as a fact if it is the
//! validation triple, and as wrong otherwise. So truth is the chance that an answer among the first ten is a fact that
//! somebody listed. Facts nobody listed count as wrong, which makes truths cautious; and the questions asked are such that
//! have an answer, so for a question that has none every truth is too high.
//!
//! *How it is fitted.* In two steps. First φ(r, η) = σ(aᵣ η + bᵣ): a global (a, b) maximises the likelihood of all answers,
//! with Platt's targets (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2). With scores in standard units over all answers, each relation
//! then maximises Σ ln p(answer) − τ/2 ((aᵣ − a)² + (bᵣ − b)²), a normal prior around the global fit whose strength τ =
//! [`PRIOR`] is that of about four undecided answers. A relation without answers has the global fit. A slope below a tenth
//! of the global one would turn the order of answers round or blur it, so such a relation keeps the global slope. Second,
//! a [`Bend`] over φ, one for all relations: isotonic regression on bins of answers, because log-odds are not a straight
//! line in the score.
//!
//! Measured on 5,000 test triples of FB15K (RUGE, d = 100; ECE and Brier score): the objective's own φ .533 and .420, one
//! logistic for all .050 and .061, isotonic for all .002 and .050, logistic by relation .013 and .042, with the bend .003
//! and .041; τ from ¼ to 2 makes no difference beyond the third digit. On CoDEx-S (ComplEx, d = 100), in the same order: .197 and
//! .103, .018 and .048, .003 and .046, .006 and .044, .002 and .044. These figures come from a separate
//! program with the same method, looking for the ten among the first 100 answers (FB15K) or 200 (CoDEx-S);
//! `examples/reliability.rs` asks all of them.
//!
//! At most [`MOST`] validation triples are asked, drawn by the seed. All sums run in the order of the triples, so a fit has the
//! same bits on any number of threads. Without validation triples there is nothing to learn from: truth is then the
//! training objective's own φ = σ(η + shift), and [`Calibration::source`] says so.

use std::collections::BTreeMap;

use crate::error::Result;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Dataset, Hide, RankQuery, Ranker, RelationId, TopOptions, Triple};
use serde::{Deserialize, Serialize};

/// Answers per question: as many as `ruge predict` shows.
pub const SHOWN: usize = 10;
/// Held-out triples asked at most.
pub const MOST: usize = 10_000;
/// τ: how firmly a relation's fit is held to the global one.
pub const PRIOR: f64 = 1.0;
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
    fn is_finite(self) -> bool {
        self.slope.is_finite() && self.intercept.is_finite()
    }

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
    /// What bends the logistic curves to what was seen.
    #[serde(default)]
    pub bend: Bend,
}

impl Calibration {
    /// The objective's own φ = σ(η + shift), for models without validation triples.
    pub fn plain(shift: f32) -> Self {
        let global = Logistic { slope: 1.0, intercept: shift };
        Self { source: Source::Objective, global, relations: BTreeMap::new(), bend: Bend::default() }
    }

    /// Fits on the validation triples; nothing if there are none, or if no answer could be scored.
    pub fn fit(model: &dyn Ranker, data: &Dataset, seed: u64, control: &Control<'_>) -> Result<Option<Self>> {
        let answers = answers(model, data, data.valid(), seed, control)?;
        Ok(Self::of(&answers, 2 * data.valid().len().min(MOST)))
    }

    /// Fits on answers; `questions` is only told on.
    pub fn of(answers: &[Judged], questions: usize) -> Option<Self> {
        Self::with_prior(answers, questions, PRIOR)
    }

    /// The same with another τ.
    pub fn with_prior(answers: &[Judged], questions: usize, prior: f64) -> Option<Self> {
        let answers: Vec<Judged> = answers.iter().copied().filter(|answer| answer.score.is_finite()).collect();
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
            let fitted =
                fit(global, Some(Prior { at: global, free: [true, true], strength: prior }), samples.iter().copied());
            if fitted[0] >= 0.1 * global[0] {
                return fitted;
            }
            fit(global, Some(Prior { at: global, free: [false, true], strength: prior }), samples.iter().copied())
        };
        let mut relations: BTreeMap<u32, Logistic> =
            by_relation.iter().map(|(relation, samples)| (relation.0, units.logistic(own(samples)))).collect();
        let source = Source::Validation { questions, facts, others };
        let global = units.logistic(global);
        // Scores that hardly differ ask for a slope beyond all numbers, which says nothing and cannot be stored.
        relations.retain(|_, logistic| logistic.is_finite());
        if !global.is_finite() {
            return None;
        }
        let mut fitted = Self { source, global, relations, bend: Bend::default() };
        fitted.bend = Bend::fit(answers.iter().map(|x| (fitted.logistic(x.relation).truth(x.score), x.fact)));
        Some(fitted)
    }

    /// The truth of a score under a relation.
    pub fn truth(&self, relation: RelationId, score: f32) -> f64 {
        self.bend.apply(self.logistic(relation).truth(score))
    }

    /// The curve of a relation, before the bend.
    fn logistic(&self, relation: RelationId) -> Logistic {
        *self.relations.get(&relation.0).unwrap_or(&self.global)
    }

    /// How far truths can be believed on held-out triples, asked as in fitting.
    pub fn reliability(
        &self,
        model: &dyn Ranker,
        data: &Dataset,
        held_out: &[Triple],
        seed: u64,
        control: &Control<'_>,
    ) -> Result<Reliability> {
        let answers = answers(model, data, held_out, seed, control)?;
        Ok(Reliability::of(answers.iter().map(|x| (self.truth(x.relation, x.score), x.fact))))
    }
}

/// A rising curve from [0, 1] to [0, 1] through knots, straight between them; without knots, the identity.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bend {
    /// Truth before and after, both ascending.
    pub knots: Vec<[f32; 2]>,
}

/// How much of the straight line is left in a bend: where it is flat, a higher score still has a higher truth.
const STRAIGHT: f64 = 0.02;
/// Facts and answers that a bin of the bend expects at least.
const BIN: f64 = 25.0;

impl Bend {
    /// Isotonic regression: answers are sorted by truth and cut into bins of at least [`BIN`] answers and expected facts, a
    /// hundred bins at most; neighbours whose shares of facts do not rise are pooled.
    fn fit(answers: impl Iterator<Item = (f64, bool)>) -> Self {
        let mut answers: Vec<(f64, bool)> = answers.collect();
        answers.sort_by(|a, b| a.0.total_cmp(&b.0));
        let facts = answers.iter().filter(|(_, fact)| *fact).count() as f64;
        let least = BIN.max(facts / 100.0);
        let mut bins: Vec<Bin> = Vec::new();
        let mut bin = Bin::default();
        for (truth, fact) in answers {
            bin.add(&Bin { truth, facts: f64::from(u8::from(fact)), count: 1.0 });
            if bin.truth >= least && bin.count >= least {
                bins.push(std::mem::take(&mut bin));
            }
        }
        match bins.last_mut() {
            Some(last) => last.add(&bin),
            // Too few to bend anything.
            None => return Self::default(),
        }
        let mut pools: Vec<(Bin, Vec<f64>)> = Vec::new();
        for bin in bins {
            pools.push((bin, vec![bin.truth / bin.count]));
            while let [.., (before, _), (last, _)] = pools.as_slice()
                && before.facts / before.count >= last.facts / last.count
                && let Some((last, places)) = pools.pop()
                && let Some((before, kept)) = pools.last_mut()
            {
                before.add(&last);
                kept.extend(places);
            }
        }
        let knots = pools
            .iter()
            .flat_map(|(pool, places)| places.iter().map(|&place| [place as f32, (pool.facts / pool.count) as f32]));
        Self { knots: [[0.0, 0.0]].into_iter().chain(knots).chain([[1.0, 1.0]]).collect() }
    }

    /// The bent truth.
    pub fn apply(&self, truth: f64) -> f64 {
        let after = self.knots.partition_point(|knot| f64::from(knot[0]) <= truth);
        let (Some(right), Some(left)) = (self.knots.get(after), self.knots.get(after.wrapping_sub(1))) else {
            return truth;
        };
        let [from, to] = [left, right].map(|knot| knot.map(f64::from));
        let bent = from[1] + (to[1] - from[1]) * (truth - from[0]) / (to[0] - from[0]);
        (1.0 - STRAIGHT) * bent + STRAIGHT * truth
    }
}

/// Sums over some answers.
#[derive(Clone, Copy, Default)]
struct Bin {
    truth: f64,
    facts: f64,
    count: f64,
}

impl Bin {
    fn add(&mut self, other: &Bin) {
        self.truth += other.truth;
        self.facts += other.facts;
        self.count += other.count;
    }
}

/// One answer to a question about a held-out triple.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// The relation asked for.
    pub relation: RelationId,
    /// η.
    pub score: f32,
    /// Whether it is the held-out triple.
    pub fact: bool,
}

/// The first [`SHOWN`] answers to both questions of each held-out triple, known facts other than itself left out.
pub fn answers(
    model: &dyn Ranker,
    data: &Dataset,
    held_out: &[Triple],
    seed: u64,
    control: &Control<'_>,
) -> Result<Vec<Judged>> {
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
    let lists = model.top(&queries, &options, control)?;
    let mut triples = Vec::new();
    let mut answers = Vec::new();
    for (query, list) in queries.iter().zip(&lists) {
        for found in list {
            triples.push(query.answered(found.entity));
            let fact = found.entity == query.answer();
            answers.push(Judged { relation: query.triple.relation, score: 0.0, fact });
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

/// Answers of similar chance.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Bucket {
    /// Least chance.
    pub from: f64,
    /// Chances below, the last bucket's 1 included.
    pub to: f64,
    /// Answers in it.
    pub count: usize,
    /// Their mean chance; 0 in an empty bucket.
    #[serde(alias = "truth")]
    pub expected: f64,
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
            bucket.expected += truth;
            bucket.facts += label;
        }
        let n = count.max(1) as f64;
        let mut ece = 0.0;
        for bucket in &mut curve {
            ece += (bucket.expected - bucket.facts).abs() / n;
            let size = bucket.count.max(1) as f64;
            bucket.expected /= size;
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
    fn of(answers: &[Judged]) -> Self {
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

/// A normal prior around a point; what is not free stays there.
#[derive(Clone, Copy)]
struct Prior {
    strength: f64,
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
        samples.clone().map(term).sum::<f64>() + prior.map_or(0.0, |prior| 0.5 * prior.strength * distance(prior))
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
                gradient[side] += prior.strength * (at[side] - prior.at[side]);
                hessian[2 * side] += prior.strength;
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
    fn answers(relation: u32, n: u64, slope: f64, intercept: f64) -> Vec<Judged> {
        let unit = |i, j| random::unit(random::draw(3, DRAWS, u64::from(relation) * 2 + j, i));
        (0..n)
            .map(|i| {
                let score = 8.0 * unit(i, 0) - 4.0;
                let fact = unit(i, 1) < sigmoid(slope * score + intercept);
                Judged { relation: RelationId(relation), score: score as f32, fact }
            })
            .collect()
    }

    #[test]
    fn scores_that_hardly_differ_give_no_truth_that_cannot_be_stored() {
        let answer = |score: f32, fact: bool| Judged { relation: RelationId(0), score, fact };
        let tiny = f32::from_bits(1);
        let answers: Vec<Judged> = (0..40).map(|i| answer(if i % 2 == 0 { tiny } else { 0.0 }, i % 2 == 0)).collect();
        if let Some(fitted) = Calibration::of(&answers, 40) {
            let text = serde_json::to_string(&fitted).unwrap();
            assert_eq!(serde_json::from_str::<Calibration>(&text).ok(), Some(fitted), "{text}");
        }
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
        let (few, none, global) = (fitted.relations[&2], fitted.logistic(RelationId(9)), fitted.global);
        assert_eq!(none, global);
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
        assert_eq!(hopeless.global.slope, 0.0, "{hopeless:?}");
        assert!((hopeless.global.truth(3.0) - 0.34).abs() < 0.05, "{hopeless:?}");
    }

    #[test]
    fn odd_answers_do_no_harm() {
        assert_eq!(Calibration::of(&[], 0), None);
        let nan = Judged { relation: RelationId(0), score: f32::NAN, fact: true };
        assert_eq!(Calibration::of(&[nan], 0), None);
        let one = Calibration::of(&[Judged { score: 1.0, ..nan }, nan], 0).unwrap();
        assert!(one.global.slope.is_finite() && one.global.intercept.is_finite(), "{one:?}");
        let truth = one.truth(RelationId(0), f32::NAN);
        assert_eq!(truth, 0.0);
        let plain = Calibration::plain(4.0);
        assert!((plain.truth(RelationId(0), -4.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_logistic_curve_is_bent_to_what_was_seen() {
        // Truth rises in a step: a fact from score 1 on, one in ten below.
        let unit = |i: u64, j: u64| random::unit(random::draw(3, DRAWS, 90 + j, i));
        let step: Vec<Judged> = (0..20_000)
            .map(|i| {
                let score = 8.0 * unit(i, 0) - 4.0;
                let fact = unit(i, 1) < if score >= 1.0 { 0.95 } else { 0.1 };
                Judged { relation: RelationId(0), score: score as f32, fact }
            })
            .collect();
        let fitted = Calibration::of(&step, 0).unwrap();
        let truth = |score: f32| fitted.truth(RelationId(0), score);
        assert!((truth(-2.0) - 0.1).abs() < 0.03 && (truth(0.5) - 0.1).abs() < 0.05, "{fitted:?}");
        assert!((truth(1.5) - 0.95).abs() < 0.04 && (truth(3.0) - 0.95).abs() < 0.04, "{fitted:?}");
        let rising = (-400..400).map(|i| truth(i as f32 / 100.0)).collect::<Vec<_>>();
        assert!(rising.windows(2).all(|pair| pair[0] < pair[1]), "strictly");
        let ends = [f32::NEG_INFINITY, f32::INFINITY].map(truth);
        assert_eq!(ends, [0.0, 1.0]);
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
