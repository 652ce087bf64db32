//! Triple classification: is it a fact, yes or no?
//!
//! Positives are the held-out triples, negatives come from outside, best from people who have verified that they are false.
//! A triple counts as a fact if its score reaches its relation's threshold, the one that is right most often on validation;
//! among equally good ones the nearest to the global threshold. A relation without validation triples of both kinds takes
//! the global one. Truths, for the Brier score and the precision-recall curve over all relations together, are fitted on the
//! same validation triples as in [`calibrate`](crate::calibrate): a logistic curve per relation, shrunk to a global one.

use std::collections::BTreeMap;

use ruge_kg::{Ranker, RelationId, Triple};
use serde::Serialize;

use crate::calibrate::{Calibration, Judged};
use crate::error::{Result, RugeError};

/// A triple with what is known about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Labeled {
    /// The triple.
    pub triple: Triple,
    /// Whether it is a fact.
    pub fact: bool,
}

impl Labeled {
    /// Facts, then others.
    pub fn both(facts: &[Triple], others: &[Triple]) -> Vec<Self> {
        let label =
            |triples: &[Triple], fact| triples.iter().map(move |&triple| Self { triple, fact }).collect::<Vec<_>>();
        [label(facts, true), label(others, false)].concat()
    }
}

/// How often it was right.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Scores {
    /// Facts asked.
    pub positives: usize,
    /// Others asked.
    pub negatives: usize,
    /// Share of right decisions.
    pub accuracy: f64,
    /// Share of facts among those taken for facts.
    pub precision: f64,
    /// Share of facts that were taken for facts.
    pub recall: f64,
    /// Harmonic mean of precision and recall.
    pub f1: f64,
    /// Area under the precision-recall curve, as average precision: Σ (Rₙ − Rₙ₋₁) Pₙ over falling truths, equals together.
    pub auc_pr: f64,
    /// Mean squared difference of truth and fact.
    pub brier: f64,
}

/// All relations together, and each by itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Classification {
    /// All triples together.
    pub pooled: Scores,
    /// By relation.
    pub by_relation: BTreeMap<RelationId, Scores>,
    /// The score from which on a triple counts as a fact, for relations without one of their own.
    pub threshold: f32,
    /// The same by relation.
    pub thresholds: BTreeMap<RelationId, f32>,
}

/// One decision.
#[derive(Clone, Copy)]
struct Decision {
    taken: bool,
    truth: f64,
    fact: bool,
}

/// Learns thresholds on `valid` and decides about `test`.
pub fn classify(model: &dyn Ranker, valid: &[Labeled], test: &[Labeled]) -> Result<Classification> {
    let valid = scored(model, valid)?;
    let calibration = Calibration::of(&valid, valid.len());
    let calibration =
        calibration.ok_or_else(|| RugeError::refused("there are no validation triples to learn thresholds from"))?;
    let pairs = |answers: &[&Judged]| answers.iter().map(|x| (x.score, x.fact)).collect::<Vec<_>>();
    let threshold = best_threshold(&mut pairs(&valid.iter().collect::<Vec<_>>()), 0.0);
    let mut by_relation: BTreeMap<RelationId, Vec<&Judged>> = BTreeMap::new();
    valid.iter().for_each(|answer| by_relation.entry(answer.relation).or_default().push(answer));
    let both_kinds = |answers: &[&Judged]| answers.iter().any(|x| x.fact) && answers.iter().any(|x| !x.fact);
    let thresholds: BTreeMap<RelationId, f32> = by_relation
        .into_iter()
        .filter(|(_, answers)| both_kinds(answers))
        .map(|(relation, answers)| (relation, best_threshold(&mut pairs(&answers), threshold)))
        .collect();
    let mut decisions: BTreeMap<RelationId, Vec<Decision>> = BTreeMap::new();
    for Judged { relation, score, fact } in scored(model, test)? {
        let taken = score >= *thresholds.get(&relation).unwrap_or(&threshold);
        let truth = calibration.truth(relation, score);
        decisions.entry(relation).or_default().push(Decision { taken, truth, fact });
    }
    let all: Vec<Decision> = decisions.values().flatten().copied().collect();
    Ok(Classification {
        pooled: Scores::of(all),
        by_relation: decisions.into_iter().map(|(relation, list)| (relation, Scores::of(list))).collect(),
        threshold,
        thresholds,
    })
}

fn scored(model: &dyn Ranker, labeled: &[Labeled]) -> Result<Vec<Judged>> {
    let triples: Vec<Triple> = labeled.iter().map(|x| x.triple).collect();
    let mut scores = vec![0.0; triples.len()];
    model.score(&triples, &mut scores)?;
    let answer = |(x, score): (&Labeled, f32)| Judged { relation: x.triple.relation, score, fact: x.fact };
    Ok(labeled.iter().zip(scores).map(answer).collect())
}

/// The score that parts facts from others with fewest mistakes; of several such, the nearest to `near`.
fn best_threshold(scores: &mut [(f32, bool)], near: f32) -> f32 {
    scores.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(&(lowest, _)) = scores.first() else { return near };
    // Everyone is taken for a fact: as many right as there are facts.
    let mut right = scores.iter().filter(|(_, fact)| *fact).count();
    let mut best = (right, if near <= lowest { near } else { lowest });
    let mut at = 0;
    while at < scores.len() {
        let score = scores[at].0;
        while at < scores.len() && scores[at].0 == score {
            right = if scores[at].1 { right - 1 } else { right + 1 };
            at += 1;
        }
        // Any threshold up to the next score decides alike.
        let next = scores.get(at).map_or(f32::INFINITY, |&(next, _)| next);
        let middle = if next.is_finite() { 0.5 * score + 0.5 * next } else { score + score.abs().max(1.0) };
        let threshold = if near > score && near <= next { near } else { middle };
        if right > best.0 || (right == best.0 && (threshold - near).abs() < (best.1 - near).abs()) {
            best = (right, threshold);
        }
        if score.is_nan() {
            break;
        }
    }
    best.1
}

impl Scores {
    fn of(mut decisions: Vec<Decision>) -> Self {
        let count = |wanted: &dyn Fn(&Decision) -> bool| decisions.iter().filter(|x| wanted(x)).count();
        let (positives, taken) = (count(&|x| x.fact), count(&|x| x.taken));
        let (found, right) = (count(&|x| x.fact && x.taken), count(&|x| x.fact == x.taken));
        let share = |part: usize, of: usize| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let (precision, recall) = (share(found, taken), share(found, positives));
        let squares: f64 = decisions.iter().map(|x| (x.truth - f64::from(u8::from(x.fact))).powi(2)).sum();
        let n = decisions.len();
        let negatives = n - positives;
        decisions.sort_by(|a, b| b.truth.total_cmp(&a.truth));
        let (mut auc_pr, mut seen, mut hits, mut recalled) = (0.0, 0, 0, 0.0);
        for equals in decisions.chunk_by(|a, b| a.truth == b.truth) {
            seen += equals.len();
            hits += equals.iter().filter(|x| x.fact).count();
            let recall = share(hits, positives);
            auc_pr += (recall - recalled) * share(hits, seen);
            recalled = recall;
        }
        Self {
            positives,
            negatives,
            accuracy: share(right, n),
            precision,
            recall,
            f1: if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 },
            auc_pr,
            brier: squares / n.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_makes_fewest_mistakes() {
        let parted = [(-2.0, false), (-1.0, false), (1.0, true), (3.0, true)];
        assert_eq!(best_threshold(&mut parted.clone(), 0.0), 0.0);
        assert_eq!(best_threshold(&mut parted.clone(), 9.0), 0.0);
        assert_eq!(best_threshold(&mut parted.clone(), 0.5), 0.5);
        // One mistake whichever way: of the two places, the nearer one.
        let mixed = [(0.0, false), (1.0, true), (2.0, false), (3.0, true)];
        assert_eq!(best_threshold(&mut mixed.clone(), 0.6), 0.6);
        assert_eq!(best_threshold(&mut mixed.clone(), 2.9), 2.9);
        assert!(best_threshold(&mut [(1.0, false), (2.0, false)], 0.0) > 2.0);
        assert!(best_threshold(&mut [(1.0, true), (2.0, true)], 5.0) <= 1.0);
        assert_eq!(best_threshold(&mut [], 5.0), 5.0);
    }

    #[test]
    fn scores_of_a_few_decisions() {
        let decision = |truth: f64, fact| Decision { taken: truth >= 0.5, truth, fact };
        let found =
            Scores::of(vec![decision(0.9, true), decision(0.8, false), decision(0.6, true), decision(0.1, true)]);
        assert_eq!((found.positives, found.negatives), (3, 1));
        assert!((found.accuracy - 0.5).abs() < 1e-12);
        assert!((found.precision - 2.0 / 3.0).abs() < 1e-12 && (found.recall - 2.0 / 3.0).abs() < 1e-12);
        assert!((found.f1 - 2.0 / 3.0).abs() < 1e-12);
        assert!((found.auc_pr - (1.0 + 2.0 / 3.0 + 3.0 / 4.0) / 3.0).abs() < 1e-12);
        assert!((found.brier - (0.01 + 0.64 + 0.16 + 0.81) / 4.0).abs() < 1e-12);
        // Equals count together: no order among them is invented.
        let tied = Scores::of(vec![decision(0.5, false), decision(0.5, true)]);
        assert!((tied.auc_pr - 0.5).abs() < 1e-12);
        assert_eq!(Scores::of(Vec::new()), Scores::default());
    }
}
