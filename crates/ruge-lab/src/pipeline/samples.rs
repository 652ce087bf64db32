//! Some predicted facts with their reasons: new ones, and held-out ones that guidance found.
//!
//! *New* facts stand in no part of the data. They are the truest proposals of [`complete`](ruge::complete), one of each
//! relation; those that a rule speaks for come first. On a large graph only the relations that rules say most about are asked. *Held-out*
//! facts are test triples that a rule concludes, and for which guidance helped most: they show what the rules taught, and they
//! are chosen for that, so they say nothing about how often it happens. The evaluation does.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use ruge_kg::{RankQuery, RelationId, Side, Ties, Triple};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::bench::Bench;
use super::{Job, Stage, Stagehand};
use ruge::Engine;
use ruge::complete::{CompleteOptions, Proposal, complete};
use ruge::error::Result;
use ruge::explain::{ExplainOptions, Explainer, Explanation};
use ruge::truth::CompletenessOf;

/// Training triples up to which facts are proposed for the whole graph.
pub const ALL_RELATIONS_UP_TO: usize = 100_000;
/// A proposal of less truth is not worth showing.
const WORTH_SHOWING: f64 = 0.1;
/// Proposals kept for the report; some 800 bytes of a page each.
const MOST_KEPT: usize = 10_000;
/// Held-out triples looked at.
const LOOKED_AT: usize = 5_000;

/// What is known about a predicted fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It stands in no part of the data.
    New,
    /// A test triple: never trained on, and true.
    InTest,
}

/// A predicted fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// What is known about it.
    pub standing: Standing,
    /// The chance that it is true; 1 for a held-out fact, which is known.
    pub truth: f64,
    /// Its truth, its ranks, and the rules that speak for it. The `estimate` of a held-out fact is the chance that it would have if it were
    /// not listed.
    pub explanation: Explanation,
    /// That chance by the unguided model.
    #[serde(alias = "truth_unguided")]
    pub estimate_unguided: f64,
    /// The rank of its tail under the unguided model.
    pub rank_unguided: f64,
}

/// A fact to show.
struct Chosen {
    standing: Standing,
    triple: Triple,
}

/// `proposals.json`: new facts worth a look.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Proposals {
    /// The least truth of a proposal.
    pub min_truth: f64,
    /// How many reach it.
    pub count: usize,
    /// The relations that facts were proposed for, on a graph that is too large for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// What truth means and assumes.
    pub assumes: String,
    /// The completeness of each relation, by which truth was reckoned.
    #[serde(default)]
    pub completeness: Vec<CompletenessOf>,
    /// The surest of them.
    pub facts: Vec<Proposal>,
}

/// Chooses `job.samples` new facts and as many held-out ones; and all proposals, as far as they are kept.
pub(super) fn choose(job: &Job<'_>, bench: &Bench<'_>, watcher: &Stagehand<'_>) -> Result<(Vec<Sample>, Proposals)> {
    let told = job.told.read(job.data)?;
    let without = &told.tell(bench.unguided()?)?;
    let with = &told.tell(bench.evaluated()?)?;
    let deployed = &told.tell(bench.deployed()?)?;
    // What the rules conclude.
    let concluded = bench.guides(&watcher.control.quiet())?.groundings.unlabeled();
    let proposing = Explainer::new(deployed);
    let (mut chosen, proposals) = new_facts(job, &proposing, concluded, watcher)?;
    let explaining = Explainer::new(with);
    chosen.extend(held_out(job, without, with, concluded, watcher)?);
    let mut samples = Vec::new();
    for Chosen { standing, triple } in chosen {
        let explainer = if standing == Standing::New { &proposing } else { &explaining };
        // How long it took is not part of the result.
        let explanation = Explanation { seconds: 0.0, ..explainer.explain(triple, &ExplainOptions::default())? };
        let estimate_unguided = without.estimates(&[triple])?[0];
        let rank_unguided = ranks(without, &[triple], watcher)?[0];
        samples.push(Sample { standing, truth: explanation.truth, explanation, estimate_unguided, rank_unguided });
    }
    Ok((samples, proposals))
}

/// Filtered ranks of tails.
fn ranks(engine: &Engine, triples: &[Triple], watcher: &Stagehand<'_>) -> Result<Vec<f64>> {
    let queries: Vec<RankQuery> = triples.iter().map(|&triple| RankQuery { triple, side: Side::Tail }).collect();
    let ranks = engine.ranker().rank(&queries, Some(engine.data().filter()), &watcher.control.quiet())?;
    Ok(ranks.iter().map(|rank| rank.filtered.rank(Ties::Mean)).collect())
}

/// The truest proposals of [`complete`], one of each relation before a second of any; those with a rule first.
fn new_facts(
    job: &Job<'_>,
    explainer: &Explainer,
    concluded: &[Triple],
    watcher: &Stagehand<'_>,
) -> Result<(Vec<Chosen>, Proposals)> {
    let options = CompleteOptions { top: None, min_truth: WORTH_SHOWING, ..CompleteOptions::default() };
    let follow = watcher.hearing(Stage::Predict, "");
    let control = watcher.control.heard_by(&follow);
    let mut truths: FxHashMap<Triple, f64> = FxHashMap::default();
    let mut kept = Proposals { min_truth: WORTH_SHOWING, ..Proposals::default() };
    let relations = match job.data.train().len() <= ALL_RELATIONS_UP_TO {
        true => vec![None],
        // Proposing for every relation of a large graph would take as long as training it.
        false => {
            let chosen = promising(job, concluded);
            let name = |&relation: &RelationId| job.data.names().relations.name(relation).to_string();
            kept.only = Some(chosen.iter().map(name).collect());
            chosen.into_iter().map(Some).collect()
        }
    };
    kept.assumes = explainer.engine().truth_assumes()?;
    kept.completeness = explainer.engine().completeness_by_relation()?;
    for relation in relations {
        let found = complete(explainer, &CompleteOptions { relation, ..options }, &control)?;
        truths.extend(found.triples());
        kept.count += found.len();
        kept.facts.extend(found.proposals(0..found.len().min(MOST_KEPT))?);
    }
    kept.facts.sort_by(|a, b| b.truth.total_cmp(&a.truth));
    kept.facts.truncate(MOST_KEPT);
    let concluded: FxHashSet<Triple> = concluded.iter().copied().collect();
    let (by_rules, others): (Vec<_>, Vec<_>) =
        truths.iter().map(|(&triple, &truth)| (truth, triple)).partition(|(_, triple)| concluded.contains(triple));
    let mut chosen = varied(by_rules, job.samples);
    chosen.extend(varied(others, job.samples - chosen.len()));
    let chosen = chosen.into_iter().map(|triple| Chosen { standing: Standing::New, triple });
    Ok((chosen.collect(), kept))
}

/// The relations for which rules conclude most.
fn promising(job: &Job<'_>, concluded: &[Triple]) -> Vec<RelationId> {
    let mut counts: BTreeMap<RelationId, usize> = BTreeMap::new();
    for triple in concluded {
        *counts.entry(triple.relation).or_default() += 1;
    }
    if counts.is_empty() {
        counts.extend(job.data.graph().relations().map(|relation| (relation, job.data.graph().facts(relation).len())));
    }
    let mut order: Vec<(usize, RelationId)> = counts.into_iter().map(|(relation, count)| (count, relation)).collect();
    order.sort_by_key(|&(count, relation)| (Reverse(count), relation));
    order.into_iter().take(job.samples).map(|(_, relation)| relation).collect()
}

/// The best first, but one of each relation before a second of any.
fn varied(mut scored: Vec<(f64, Triple)>, count: usize) -> Vec<Triple> {
    let best_first = |a: &(f64, Triple), b: &(f64, Triple)| -> Ordering { b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)) };
    scored.sort_by(best_first);
    let mut seen: FxHashMap<RelationId, usize> = FxHashMap::default();
    let mut turns: Vec<(usize, f64, Triple)> = scored
        .into_iter()
        .map(|(value, triple)| {
            let turn = seen.entry(triple.relation).or_default();
            *turn += 1;
            (*turn, value, triple)
        })
        .collect();
    turns.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    turns.into_iter().take(count).map(|(_, _, triple)| triple).collect()
}

/// Test triples that rules conclude and whose tails guidance moved up most.
fn held_out(
    job: &Job<'_>,
    without: &Engine,
    with: &Engine,
    concluded: &[Triple],
    watcher: &Stagehand<'_>,
) -> Result<Vec<Chosen>> {
    let concluded: FxHashSet<Triple> = concluded.iter().copied().collect();
    let asked: Vec<Triple> =
        job.data.test().iter().copied().filter(|triple| concluded.contains(triple)).take(LOOKED_AT).collect();
    let gains: Vec<(f64, Triple)> = ranks(with, &asked, watcher)?
        .into_iter()
        .zip(ranks(without, &asked, watcher)?)
        .zip(&asked)
        .map(|((with, without), &triple)| (1.0 / with - 1.0 / without, triple))
        .filter(|(gain, _)| *gain > 0.0)
        .collect();
    let chosen = varied(gains, job.samples).into_iter();
    Ok(chosen.map(|triple| Chosen { standing: Standing::InTest, triple }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_take_turns() {
        let scored = vec![
            (0.9, Triple::new(0, 0, 1)),
            (0.8, Triple::new(0, 0, 2)),
            (0.3, Triple::new(0, 1, 2)),
            (0.7, Triple::new(0, 0, 3)),
        ];
        let chosen = varied(scored.clone(), 3);
        assert_eq!(chosen, [Triple::new(0, 0, 1), Triple::new(0, 1, 2), Triple::new(0, 0, 2)]);
        assert_eq!(varied(scored, 9).len(), 4);
    }
}
