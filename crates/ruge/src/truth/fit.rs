//! How truth is learned: which candidates are validation triples?
//!
//! 1. Candidates ([`candidates`](crate::complete::candidates)) of at most [`QUESTIONS`] questions, none of them in train, are looked at.
//! 2. A logistic regression makes one number of their features, the *index*. A line for each relation corrects it, held to (1, 0)
//!    by a prior. Features of relations are counted on train: how many values facts of the relation have beside them, compared
//!    with candidates, says what a second value is worth (nothing, if the relation is a function).
//! 3. An isotonic regression turns the index into q. It is fitted on indices that each come from a fit on the other four fifths of the
//!    candidates, because an index that knows its own label looks surer than it is.
//! 4. The completeness comes from the same indices: the share of validation triples among the surest.

use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Dataset, Filter, Label, RelationId, Triple};
use ruge_rules::rank::evidence::bin;
use rustc_hash::FxHashSet;

use super::completeness::NINE_IN_TEN;
use super::numbers::{dot, isotonic, line, logistic};
use super::{Estimate, FEATURES, LEAST_COMPLETE, MOST_COMPLETE, Observed, OfRelation, ROLES, Truth, Witness, features};
use crate::complete::candidates::{gather, sample};
use crate::error::Result;

/// Questions asked at most; a few more where there are very many relations.
pub const QUESTIONS: usize = 12_000;
/// Answers to each.
const PER_QUERY: usize = 10;
/// Parts of the candidates, each judged by a fit on the others.
const FOLDS: u64 = 5;
/// How firmly a relation's slope and intercept are held to 1 and 0.
const PRIOR: [f64; 2] = [10.0, 1.0];
/// Expected facts of a bin of the isotonic step: a twentieth of all, within these bounds. Small bins make the surest look surer than
/// they are, because the rate never falls.
const BIN: (f64, f64) = (15.0, 60.0);
/// Fewest candidates of a bin.
const BIN_SIZE: usize = 30;
/// Fewest validation triples among the candidates for the isotonic step.
const ENOUGH: usize = 50;
/// Shares of the validation triples that are looked at for the completeness, the surest first.
const SUREST: [f64; 2] = [0.2, 0.3];
/// Standard errors that are added to that share: even the surest candidates are not all true.
const CAUTION: f64 = 0.5;
/// Imagined sure candidates of a relation that are in valid as often as those of all relations.
const IMAGINED: f64 = 150.0;
/// Largest part of a feature by counts.
const MOST_ROLE: f64 = 8.0;
/// Candidates of a block of quantiles, at least.
const BLOCK: usize = 25;
const FOLD: Stream = Stream(0x702);

impl Truth {
    /// Fits on the validation triples; nothing if none of them is among the candidates.
    pub fn fit(witness: &Witness<'_>, data: &Dataset, seed: u64, control: &Control<'_>) -> Result<Option<Self>> {
        let graph = witness.graph;
        if data.valid().is_empty() {
            return Ok(None);
        }
        let train = Filter::beside(data.graph(), &[]);
        let questions = sample(graph, QUESTIONS, seed);
        let triples = gather(witness, &questions, PER_QUERY, &train, control)?.triples;
        let valid: FxHashSet<Triple> = data.valid().iter().copied().collect();
        let labels: Vec<bool> = triples.iter().map(|triple| valid.contains(triple)).collect();
        let facts = labels.iter().filter(|label| **label).count();
        if facts == 0 || facts == labels.len() {
            return Ok(None);
        }
        control.check()?;
        let seen = witness.observe(&triples)?;
        control.check()?;
        let held_out = |triples: &[Triple]| triples.iter().filter(|triple| !graph.contains(**triple)).count();
        let listed = [graph.len(), held_out(data.valid()), held_out(data.test())];
        let mut fitted = Self {
            candidates: triples.len(),
            facts,
            listed,
            completeness: Estimate { share: 1.0, low: 1.0, high: 1.0 },
            weights: [0.0; FEATURES],
            units: [[0.0, 1.0]; FEATURES],
            relations: Default::default(),
            knots: Vec::new(),
            shift: Vec::new(),
        };
        for same in places_by_relation(&triples) {
            let relation = triples[same.start].relation;
            fitted.relations.insert(relation.0, OfRelation::counted(witness, relation, &seen[same]));
        }
        fitted.learn(&triples, &seen, &labels, seed);
        Ok(Some(fitted))
    }

    /// The same for another witness, such as a model that was trained on more facts: its indices are mapped to those of the first,
    /// quantile by quantile, over the same unlisted candidates. More facts make rules and model surer of what is false, too; the order is
    /// the new witness's, how many are how true is the old one's.
    pub fn carried_over(
        &self,
        before: &Witness<'_>,
        after: &Witness<'_>,
        listed: &Filter,
        seed: u64,
        control: &Control<'_>,
    ) -> Result<Self> {
        // Candidates of the first witness alone: those that the second one chose are truer than the first one knows.
        let questions = sample(before.graph, QUESTIONS, seed);
        let triples = gather(before, &questions, PER_QUERY, listed, control)?.triples;
        let indices = |witness: &Witness<'_>| -> Result<Vec<f64>> {
            let seen = witness.observe(&triples)?;
            let of = |(triple, seen): (&Triple, &Observed)| self.index(triple.relation, seen);
            let mut indices: Vec<f64> = triples.iter().zip(&seen).map(of).collect();
            indices.sort_by(|a, b| b.total_cmp(a));
            Ok(indices)
        };
        let (new, old) = (indices(after)?, indices(before)?);
        control.check()?;
        Ok(Self { shift: quantiles(&new, &old), ..self.clone() })
    }

    fn learn(&mut self, triples: &[Triple], seen: &[Observed], labels: &[bool], seed: u64) {
        let raw = |(triple, seen): (&Triple, &Observed)| features(self.relations.get(&triple.relation.0), seen);
        let rows: Vec<[f64; FEATURES]> = triples.iter().zip(seen).map(raw).collect();
        self.units = units(&rows);
        let rows: Vec<[f64; FEATURES]> =
            triples.iter().zip(seen).map(|(triple, seen)| self.row(triple.relation, seen)).collect();
        let fold = |at: usize| random::draw(seed, FOLD, 0, at as u64) % FOLDS;
        let groups = places_by_relation(triples);
        // The index of every candidate by a fit that does not know its label.
        let mut unseen = vec![0.0; rows.len()];
        for part in 0..FOLDS {
            let weights = logistic(&rows, labels, &|at| fold(at) != part);
            for same in &groups {
                let [slope, intercept] = own_line(&weights, &rows, labels, same.clone(), |at| fold(at) != part);
                for at in same.clone().filter(|&at| fold(at) == part) {
                    unseen[at] = slope * dot(&weights, &rows[at]) + intercept;
                }
            }
        }
        self.weights = logistic(&rows, labels, &|_| true);
        for same in &groups {
            let own = own_line(&self.weights, &rows, labels, same.clone(), |_| true);
            if let Some(relation) = self.relations.get_mut(&triples[same.start].relation.0) {
                relation.line = own;
            }
        }
        let judged: Vec<(f64, bool)> = unseen.iter().copied().zip(labels.iter().copied()).collect();
        if self.facts >= ENOUGH {
            self.knots = isotonic(&judged, (self.facts as f64 / 20.0).clamp(BIN.0, BIN.1), BIN_SIZE);
        }
        self.estimate(&judged, triples);
    }

    /// The least c that is believed, and the greatest there can be. Too few listed facts, or a model that is sure of nothing, would make
    /// everything true.
    pub(super) fn bounds(&self) -> [f64; 2] {
        let most = self.listed[1] as f64 / ((self.listed[1] + self.listed[2]) as f64).max(1.0);
        [self.visible(LEAST_COMPLETE).min(most), most]
    }

    /// The completeness, of all relations and of each, from the surest candidates.
    fn estimate(&mut self, judged: &[(f64, bool)], triples: &[Triple]) {
        let mut order: Vec<usize> = (0..judged.len()).collect();
        order.sort_by(|&a, &b| judged[b].0.total_cmp(&judged[a].0).then(a.cmp(&b)));
        let [floor, most] = self.bounds();
        let mut wanted: Vec<f64> = SUREST.iter().map(|share| (share * self.facts as f64).max(10.0)).collect();
        wanted.reverse();
        let (mut facts, mut best, mut sure) = (0.0, (f64::MIN, 0.0), 0);
        for (count, &at) in order.iter().enumerate() {
            facts += f64::from(u8::from(judged[at].1));
            while wanted.last().is_some_and(|&least| facts >= least) {
                wanted.pop();
                let size = (count + 1) as f64;
                let (share, error) = share(facts, size);
                // Rather too large than too small: then truths are too low, not too high.
                let share = share + CAUTION * error;
                if share > best.0 {
                    best = (share, error);
                }
                sure = count + 1;
            }
        }
        let (visible, error) = match best {
            (at, error) if at > f64::MIN => (at.clamp(floor, most), error),
            // Too few to say anything.
            _ => (share(facts, judged.len() as f64).0.clamp(floor, most), 0.5),
        };
        let of = |visible: f64| self.completeness_of(visible.clamp(floor, most));
        let estimate = Estimate {
            share: of(visible),
            low: of(visible - NINE_IN_TEN * error),
            high: of(visible + NINE_IN_TEN * error),
        };
        let least = self.visible(MOST_COMPLETE);
        let mut counts: std::collections::BTreeMap<u32, (f64, f64)> = Default::default();
        for &at in &order[..sure] {
            let (facts, size) = counts.entry(triples[at].relation.0).or_default();
            *facts += f64::from(u8::from(judged[at].1));
            *size += 1.0;
        }
        for (relation, own) in &mut self.relations {
            let (facts, size) = counts.get(relation).copied().unwrap_or_default();
            let share = (facts + IMAGINED * visible) / (size + IMAGINED);
            own.visible = share.clamp(floor, least.max(floor));
            // What its own count leaves open, and what the share of all does.
            let counted = share * (1.0 - share) / (size + IMAGINED + 1.0);
            own.error = (counted + (IMAGINED / (size + IMAGINED) * error).powi(2)).sqrt();
            own.sure = size as usize;
        }
        self.completeness = estimate;
    }
}

/// Where one list, in falling order, has what the other has: mean values of blocks that grow from the top, ascending.
fn quantiles(from: &[f64], to: &[f64]) -> Vec<[f64; 2]> {
    let (mut knots, mut at): (Vec<[f64; 2]>, usize) = (Vec::new(), 0);
    while at < from.len() {
        let end = (at + BLOCK.max(at / 4)).min(from.len());
        let mean = |values: &[f64]| values[at..end].iter().sum::<f64>() / (end - at) as f64;
        knots.push([mean(from), mean(to)]);
        at = end;
    }
    knots.reverse();
    knots.dedup_by(|a, b| a[0] <= b[0]);
    knots
}

/// A share and its standard error, drawn a little to one half (Wilson).
fn share(facts: f64, size: f64) -> (f64, f64) {
    let share = (facts + 0.5) / (size + 1.0);
    (share, (share * (1.0 - share) / (size + 1.0)).sqrt())
}

impl OfRelation {
    /// What is counted of a relation: scores and other values of its candidates, other values of its facts.
    fn counted(witness: &Witness<'_>, relation: RelationId, seen: &[Observed]) -> Self {
        let n = seen.len() as f64;
        let mean = |side: usize| seen.iter().map(|seen| f64::from(seen.scores[side])).sum::<f64>() / n;
        let graph = witness.graph;
        let mut roles = [[0.0; ROLES]; 2];
        for (end, label) in [Label::forward(relation), Label::inverse(relation)].into_iter().enumerate() {
            let (mut facts, mut candidates) = ([0.5; ROLES], [0.5; ROLES]);
            for same in graph.pairs(label).chunk_by(|a, b| a.key == b.key) {
                facts[bin(same.len() - 1, ROLES)] += same.len() as f64;
            }
            for seen in seen {
                candidates[bin(seen.others[end] as usize, ROLES)] += 1.0;
            }
            let [all_facts, all_candidates] = [facts, candidates].map(|counts| counts.iter().sum::<f64>());
            for (role, (fact, candidate)) in roles[end].iter_mut().zip(facts.iter().zip(candidates)) {
                *role = ((fact / all_facts).ln() - (candidate / all_candidates).ln()).clamp(-MOST_ROLE, MOST_ROLE);
            }
        }
        let density = ((graph.facts(relation).len() + 1) as f64 / (n + 1.0)).ln();
        Self { line: [1.0, 0.0], means: [mean(0), mean(1)], density, roles, visible: 1.0, error: 0.0, sure: 0 }
    }
}

/// Triples stand in order of their relations: where each begins and ends.
fn places_by_relation(triples: &[Triple]) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    triples
        .chunk_by(|a, b| a.relation == b.relation)
        .map(|same| {
            at += same.len();
            at - same.len()..at
        })
        .collect()
}

fn own_line(
    weights: &[f64; FEATURES],
    rows: &[[f64; FEATURES]],
    labels: &[bool],
    same: std::ops::Range<usize>,
    of: impl Fn(usize) -> bool,
) -> [f64; 2] {
    let samples: Vec<(f64, bool)> = same.filter(|&at| of(at)).map(|at| (dot(weights, &rows[at]), labels[at])).collect();
    line(&samples, PRIOR)
}

/// Mean and deviation of each feature; the constant stays as it is.
fn units(rows: &[[f64; FEATURES]]) -> [[f64; 2]; FEATURES] {
    let n = rows.len() as f64;
    std::array::from_fn(|feature| {
        let mean = rows.iter().map(|row| row[feature]).sum::<f64>() / n;
        let variance = rows.iter().map(|row| (row[feature] - mean).powi(2)).sum::<f64>() / n;
        if feature > 0 && variance > 0.0 { [mean, variance.sqrt()] } else { [0.0, 1.0] }
    })
}
