//! Fitting what evidence weighs, on validation triples.
//!
//! Every validation query keeps its best candidates under the ranker as it is. A softmax over them, of τ times that score plus
//! the evidence, gives the chance of the answer; τ and the weights maximise it. The problem is convex and small, so Newton's
//! method solves it in a few steps: first for weights shared by all queries, then for every relation and direction, drawn back
//! to the shared ones. Divided by τ the weights are in the units of the score.
//!
//! *Helping or not.* Validation is halved; each half is ranked by what was fitted on the other. Features are added one at a
//! time, the best first, as long as one helps. The last set must gain more than one standard error over no evidence, or there is
//! none. It is then fitted on both halves.
//!
//! *Facts that nobody listed.* Test facts, and true facts outside the data, count as wrong here. Where a query has many answers, such
//! facts stand at the top of its list, the score seems worth less than it is, and evidence more. So evidence must also gain on
//! queries with so few known answers that hardly another is to be expected. On FB15K this is what keeps it off.

use std::collections::BTreeMap;

use rayon::prelude::*;
use ruge_kg::rank::Hide;
use ruge_kg::{Cancelled, Control, EntityId, Filter, RankError, RankQuery, Ranker, RelationId, Side, TopOptions};

use super::{Bins, Counts, DEGREES, Evidence, Feature, Group, GroupWeights, LINKS, ROLES, WEIGHTS, bin};
use crate::rank::fit::{Tried, clearly_above, half, mean};

/// Candidates of a query that are looked at, the best first: so many, and on small graphs as many more as make
/// [`ALL_CANDIDATES`] of all queries together. There that is nearly every entity, so that those no rule reaches are told apart, too.
const CANDIDATES: usize = 200;
/// Candidates of all queries together on a small graph; more only where each has its least.
const ALL_CANDIDATES: usize = 2_000_000;
/// Facts of a small graph, at most.
const SMALL: usize = 50_000;
/// How strongly the weights of a relation and direction are held to the shared ones, and those to zero.
const HELD: f64 = 3.0;
/// The same for τ.
const HELD_SCALE: f64 = 0.3;
/// The least τ.
const LEAST_SCALE: f64 = 0.05;
/// Questions that shared weights are fitted on, at most.
const SHARED: usize = 6_000;
/// Unlisted answers of a question that may be expected where it counts as clean.
const HARDLY_ANOTHER: f64 = 0.5;
/// Newton's steps, at most.
const STEPS: usize = 8;
/// A step that lowers the loss by less than this is the last.
const ENOUGH: f64 = 1e-3;
/// Candidates less likely than this do not count.
const UNLIKELY: f64 = 1e-7;
/// Numbers of a group: τ, then the weights.
const NUMBERS: usize = 1 + WEIGHTS;
/// The place of a feature that a candidate does not have.
const NOTHING: u8 = NUMBERS as u8;

type Numbers = [f64; NUMBERS];
type Key = (RelationId, Side);
/// Places among the numbers of what is counted about a candidate.
type Places = [u8; 5];

/// Evidence that helps, or none, and what was tried.
pub struct Fitted {
    /// Weights, if evidence helps.
    pub evidence: Option<Evidence>,
    /// Sets of features in the order of being tried.
    pub tried: Vec<Tried>,
    /// Numbers that validation decided.
    pub numbers: usize,
}

/// Fits evidence in addition to a ranker, by queries whose answers it has not seen. Candidates that `known` has are left out; for
/// each of them, so many (`unlisted`) true ones are expected that nobody listed.
pub fn fit(
    ranker: &dyn Ranker,
    counts: &Counts,
    queries: &[RankQuery],
    (known, unlisted): (&Filter, f64),
    allowed: &[Feature],
    control: &Control<'_>,
) -> Result<Fitted, RankError> {
    if allowed.is_empty() {
        return Ok(Fitted { evidence: None, tried: Vec::new(), numbers: 0 });
    }
    let questions = Questions::ask(ranker, counts, queries, (known, unlisted), control)?;
    Ok(questions.choose(allowed, control)?)
}

/// Queries with their best candidates and what is counted about them.
struct Questions {
    keys: Vec<Key>,
    /// Where the candidates of each question end; it has none where the answer is not among the best.
    ends: Vec<usize>,
    /// Scores in units of their spread; the answer comes first.
    scores: Vec<f32>,
    features: Vec<Places>,
    /// Whether a question has so few known answers that hardly another, unlisted one is to be expected.
    clean: Vec<bool>,
    /// The spread.
    unit: f64,
}

impl Questions {
    fn ask(
        ranker: &dyn Ranker,
        counts: &Counts,
        queries: &[RankQuery],
        (known, unlisted): (&Filter, f64),
        control: &Control<'_>,
    ) -> Result<Self, RankError> {
        let wide = if counts.graph().len() <= SMALL { ALL_CANDIDATES / queries.len().max(1) } else { 0 };
        let candidates = wide.max(CANDIDATES);
        let options = TopOptions { hide: Hide::OtherKnown(known), ..TopOptions::new(candidates) };
        let lists = ranker.top(queries, &options, control)?;
        let key = |at: usize| (queries[at].triple.relation, queries[at].side);
        let mut order: Vec<usize> = (0..queries.len()).collect();
        order.sort_by_key(|&at| key(at));
        let groups: Vec<&[usize]> = order.chunk_by(|&a, &b| key(a) == key(b)).collect();
        let found: Vec<Vec<Vec<(f32, Places)>>> = groups
            .par_iter()
            .map_init(Bins::default, |bins, group| {
                let (relation, side) = key(group[0]);
                counts.bins(relation, side, true, bins);
                let of = |&at: &usize| {
                    let query = &queries[at];
                    let Some(own) = lists[at].iter().position(|one| one.entity == query.answer()) else {
                        return vec![];
                    };
                    let places = |entity| places(counts, bins, query.given(), entity);
                    let mut list: Vec<_> = lists[at].iter().map(|one| (one.score, places(one.entity))).collect();
                    list.swap(0, own);
                    list
                };
                group.iter().map(of).collect()
            })
            .collect();
        let found = crate::rank::scores::in_place(
            &order.iter().map(|&at| at as u32).collect::<Vec<_>>(),
            found.into_iter().flatten().collect(),
        );
        let clean = queries.iter().map(|query| query.known(known).len() as f64 * unlisted < HARDLY_ANOTHER).collect();
        let mut all = Self { keys: vec![], ends: vec![], scores: vec![], features: vec![], clean, unit: 1.0 };
        for (at, list) in found.into_iter().enumerate() {
            all.keys.push(key(at));
            all.scores.extend(list.iter().map(|one| one.0));
            all.features.extend(list.iter().map(|one| one.1));
            all.ends.push(all.scores.len());
        }
        all.normalise();
        Ok(all)
    }

    /// Scores become multiples of their mean spread among the candidates of a question, so that one prior suits every ranker.
    fn normalise(&mut self) {
        let spread = |scores: &[f32]| {
            let n = scores.len() as f64;
            let mean = scores.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
            (scores.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n).sqrt()
        };
        let lists = || (0..self.keys.len()).map(|at| &self.scores[self.of(at)]).filter(|scores| scores.len() > 1);
        let unit = lists().map(spread).sum::<f64>() / lists().count().max(1) as f64;
        if unit > 0.0 && unit.is_finite() {
            self.unit = unit;
        }
        self.scores.iter_mut().for_each(|score| *score = (f64::from(*score) / self.unit) as f32);
    }

    /// Candidates of a question, as a range.
    fn of(&self, question: usize) -> std::ops::Range<usize> {
        question.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[question]
    }

    /// Scores of the candidates of a question with evidence.
    fn scored(&self, question: usize, numbers: &Numbers, out: &mut Vec<f64>) {
        let mut weights = [0.0; NUMBERS + 1];
        weights[..NUMBERS].copy_from_slice(numbers);
        out.clear();
        let range = self.of(question);
        out.extend(self.scores[range.clone()].iter().zip(&self.features[range]).map(|(&score, places)| {
            numbers[0] * f64::from(score) + places.iter().map(|&at| weights[usize::from(at)]).sum::<f64>()
        }));
    }

    /// The reciprocal rank of the answer among its candidates; 0 where it is not one of them.
    fn reciprocal(&self, question: usize, numbers: &Numbers, out: &mut Vec<f64>) -> f32 {
        self.scored(question, numbers, out);
        let Some((&answer, others)) = out.split_first() else { return 0.0 };
        let better = others.iter().filter(|&&other| other > answer).count() as f32;
        let equal = others.iter().filter(|&&other| other == answer).count() as f32;
        1.0 / (1.0 + better + 0.5 * equal)
    }

    /// Adds −ln of the answer's chance with its first and second derivatives.
    fn differentiate(&self, question: usize, numbers: &Numbers, mask: &Mask, into: &mut Curve, out: &mut Vec<f64>) {
        self.scored(question, numbers, out);
        let Some(&answer) = out.first() else { return };
        let top = out.iter().copied().fold(f64::MIN, f64::max);
        out.iter_mut().for_each(|score| *score = (*score - top).exp());
        let total: f64 = out.iter().sum();
        into.loss += total.ln() - (answer - top);
        let mut mean = [0.0; NUMBERS];
        let range = self.of(question);
        into.slope[0] -= f64::from(self.scores[range.start]);
        let own = self.features[range.start].iter().map(|&at| usize::from(at));
        own.filter(|&at| mask[at]).for_each(|at| into.slope[at] -= 1.0);
        for (chance, index) in out.iter().zip(range) {
            let chance = chance / total;
            if chance < UNLIKELY {
                continue;
            }
            let (score, places) = (f64::from(self.scores[index]), &self.features[index]);
            mean[0] += chance * score;
            into.curvature[0][0] += chance * score * score;
            for (nth, one) in places.iter().map(|&at| usize::from(at)).enumerate().filter(|(_, at)| mask[*at]) {
                mean[one] += chance;
                into.curvature[one][0] += chance * score;
                // Places of a candidate rise from one feature to the next.
                for two in places[..=nth].iter().map(|&at| usize::from(at)).filter(|&at| mask[at]) {
                    into.curvature[one][two] += chance;
                }
            }
        }
        for one in (0..NUMBERS).filter(|&at| mean[at] != 0.0) {
            into.slope[one] += mean[one];
            (0..=one).for_each(|two| into.curvature[one][two] -= mean[one] * mean[two]);
        }
    }

    /// The numbers that make the answers of some questions likeliest, held to `prior`.
    fn solve(&self, questions: &[u32], mask: &Mask, prior: &Numbers) -> Numbers {
        let (mut numbers, mut step) = (*prior, [0.0; NUMBERS]);
        let mut best = (f64::INFINITY, numbers);
        for _ in 0..STEPS {
            // Chunks of a fixed size are summed in order, so that threads change nothing.
            let parts: Vec<Curve> = questions
                .par_chunks(512)
                .map(|some| {
                    let (mut curve, mut out) = (Curve::new(), Vec::new());
                    some.iter().for_each(|&at| self.differentiate(at as usize, &numbers, mask, &mut curve, &mut out));
                    curve
                })
                .collect();
            let mut curve = Curve::new();
            parts.iter().for_each(|part| curve.add(part));
            for at in 0..NUMBERS {
                let (away, held) = (numbers[at] - prior[at], if at == 0 { HELD_SCALE } else { HELD });
                curve.loss += 0.5 * held * away * away;
                curve.slope[at] += held * away;
                curve.curvature[at][at] += held;
            }
            if curve.loss < best.0 {
                best = (curve.loss, numbers);
                step = curve.step();
                if step.iter().zip(&curve.slope).map(|(step, slope)| step * slope).sum::<f64>() < ENOUGH {
                    break;
                }
            } else {
                // Too far: half as much from where it was.
                step.iter_mut().for_each(|step| *step *= 0.5);
                numbers = best.1;
            }
            numbers.iter_mut().zip(&step).for_each(|(number, step)| *number -= step);
        }
        // Weights in units of a score that counts for nothing, or less, would have no meaning.
        best.1[0] = best.1[0].max(LEAST_SCALE);
        best.1
    }

    /// Fits a set of features on the questions that `takes` lets in.
    fn fit(&self, features: &[Feature], takes: impl Fn(usize) -> bool) -> Numbering {
        let mut mask = [false; NUMBERS + 1];
        mask[0] = true;
        features.iter().flat_map(|feature| feature.range()).for_each(|at| mask[1 + at] = true);
        let all: Vec<u32> = (0..self.keys.len() as u32).filter(|&at| takes(at as usize)).collect();
        let some: Vec<u32> = all.iter().copied().step_by(all.len().div_ceil(SHARED).max(1)).collect();
        let mut start = [0.0; NUMBERS];
        start[0] = 1.0;
        let shared = self.solve(&some, &mask, &start);
        let mut groups: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
        for at in all {
            groups.entry(self.keys[at as usize]).or_default().push(at);
        }
        let groups: Vec<(Key, Vec<u32>)> = groups.into_iter().collect();
        let solved = groups.par_iter().map(|(key, questions)| (*key, self.solve(questions, &mask, &shared)));
        Numbering { shared, groups: solved.collect() }
    }

    /// The reciprocal rank of every question by what the other half decides.
    fn crossed(&self, features: &[Feature]) -> Vec<f32> {
        let fits = [0, 1].map(|of| self.fit(features, |at| half(at) != of));
        let of = |out: &mut Vec<f64>, at: usize| self.reciprocal(at, fits[half(at)].of(&self.keys[at]), out);
        (0..self.keys.len()).into_par_iter().map_init(Vec::new, of).collect()
    }

    /// Adds features as long as they help.
    fn choose(&self, allowed: &[Feature], control: &Control<'_>) -> Result<Fitted, Cancelled> {
        let mut plain = [0.0; NUMBERS];
        plain[0] = 1.0;
        let of = |out: &mut Vec<f64>, at: usize| self.reciprocal(at, &plain, out);
        let none: Vec<f32> = (0..self.keys.len()).into_par_iter().map_init(Vec::new, of).collect();
        let mut gains = none.clone();
        let row = |features: &[Feature], gains: &[f32]| {
            let names: Vec<&str> = features.iter().map(|feature| feature.name()).collect();
            let what = if names.is_empty() { "no evidence".into() } else { names.join(", ") };
            Tried { what, mrr: mean(gains), taken: false }
        };
        let mut tried = vec![row(&[], &none)];
        let (mut features, mut taken): (Vec<Feature>, usize) = (Vec::new(), 0);
        loop {
            let mut best: Option<(Vec<Feature>, Vec<f32>, usize)> = None;
            for &one in allowed.iter().filter(|one| !features.contains(one)) {
                control.check()?;
                let mut set = features.clone();
                set.push(one);
                set.sort_unstable();
                let found = self.crossed(&set);
                tried.push(row(&set, &found));
                if best.as_ref().is_none_or(|(_, before, _)| mean(&found) > mean(before)) {
                    best = Some((set, found, tried.len() - 1));
                }
            }
            match best {
                Some((set, found, place)) if mean(&found) > mean(&gains) => {
                    (features, gains, taken) = (set, found, place);
                }
                _ => break,
            }
        }
        let clean = |gains: &[f32]| -> Vec<f32> {
            gains.iter().zip(&self.clean).filter(|(_, clean)| **clean).map(|(gain, _)| *gain).collect()
        };
        if !clearly_above(&gains, &none) || !clearly_above(&clean(&gains), &clean(&none)) {
            (features, taken) = (Vec::new(), 0);
        }
        tried[taken].taken = true;
        if features.is_empty() {
            return Ok(Fitted { evidence: None, tried, numbers: 1 });
        }
        let Numbering { shared, groups } = self.fit(&features, |_| true);
        let weights = |numbers: &Numbers| -> GroupWeights {
            std::array::from_fn(|at| (numbers[1 + at] / numbers[0] * self.unit) as f32)
        };
        let own = features.iter().map(|feature| feature.range().len()).sum::<usize>();
        let numbers = 1 + (1 + groups.len()) * (1 + own);
        let group = |(&(relation, side), numbers): (&Key, &Numbers)| Group {
            relation: relation.0,
            side,
            weights: weights(numbers),
        };
        let groups = groups.iter().map(group).collect();
        Ok(Fitted { evidence: Some(Evidence { features, shared: weights(&shared), groups }), tried, numbers })
    }
}

/// Which numbers are fitted; the place beyond them stands for features that are missing.
type Mask = [bool; NUMBERS + 1];

/// Where what is counted about a candidate stands among the numbers, in rising order.
fn places(counts: &Counts, bins: &Bins, known: EntityId, entity: EntityId) -> Places {
    let at = entity.index();
    let linked = !counts.graph().links_between(known, entity).is_empty();
    let link = |is: bool, place: usize| if is { (1 + ROLES + place) as u8 } else { NOTHING };
    let (degrees, types) = (1 + ROLES + LINKS, 1 + ROLES + LINKS + DEGREES);
    [
        1 + bins.roles[at],
        link(linked, 0),
        link(entity == known, 1),
        (degrees + bin(counts.graph().degree(entity), DEGREES)) as u8,
        types as u8 + bins.types[at],
    ]
}

/// A loss with its first and second derivatives; of the second, the lower half.
struct Curve {
    loss: f64,
    slope: Numbers,
    curvature: Box<[Numbers; NUMBERS]>,
}

impl Curve {
    fn new() -> Self {
        Self { loss: 0.0, slope: [0.0; NUMBERS], curvature: Box::new([[0.0; NUMBERS]; NUMBERS]) }
    }

    fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.slope.iter_mut().zip(&other.slope).for_each(|(sum, more)| *sum += more);
        let rows = self.curvature.as_flattened_mut().iter_mut().zip(other.curvature.as_flattened());
        rows.for_each(|(sum, more)| *sum += more);
    }

    /// Newton's step, by a Cholesky factor: holding to a prior makes the curvature positive definite.
    fn step(&self) -> Numbers {
        let mut lower = self.curvature.clone();
        for row in 0..NUMBERS {
            for column in 0..=row {
                let before: f64 = (0..column).map(|k| lower[row][k] * lower[column][k]).sum();
                let left = lower[row][column] - before;
                lower[row][column] = if row == column { left.max(1e-12).sqrt() } else { left / lower[column][column] };
            }
        }
        let mut step = self.slope;
        for row in 0..NUMBERS {
            let before: f64 = (0..row).map(|k| lower[row][k] * step[k]).sum();
            step[row] = (step[row] - before) / lower[row][row];
        }
        for row in (0..NUMBERS).rev() {
            let after: f64 = (row + 1..NUMBERS).map(|k| lower[k][row] * step[k]).sum();
            step[row] = (step[row] - after) / lower[row][row];
        }
        step
    }
}

/// Shared numbers, and those of every group.
struct Numbering {
    shared: Numbers,
    groups: BTreeMap<Key, Numbers>,
}

impl Numbering {
    fn of(&self, key: &Key) -> &Numbers {
        self.groups.get(key).unwrap_or(&self.shared)
    }
}
