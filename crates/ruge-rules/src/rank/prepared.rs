//! Rules made ready to rank with, which takes most of the time and no model: how many may take part, how far rare ones are trusted,
//! what each weighs.

use std::sync::Arc;

use ruge_kg::{Control, Dataset, RankError, RankQuery, Triple};
use serde::{Deserialize, Serialize};

use super::evidence::Features;
use super::fit::{Grid, some};
use super::{Hiding, Ranking, RuleScores, SMOOTHING, Weights, budget, ranking_confidence};
use crate::io::RuleRecord;

type Result<T> = std::result::Result<T, RankError>;

/// How much is asked before rules are weighed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Effort {
    /// Questions about train, at most, that weights are learned from. None at all leave them as counted.
    pub questions: usize,
    /// Validation triples, at most, that the rest is fitted on.
    pub triples: usize,
}

impl Effort {
    /// Enough for most.
    pub const USUAL: Self = Self { questions: 60_000, triples: 10_000 };
    /// More than twice the time, for graphs of many relations.
    pub const THOROUGH: Self = Self { questions: 200_000, triples: 20_000 };

    /// One or the other.
    pub fn of(thorough: bool) -> Self {
        if thorough { Self::THOROUGH } else { Self::USUAL }
    }
}

/// How rules are weighed, and which evidence may count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weighing {
    /// How much is asked.
    pub effort: Effort,
    /// Features that may be taken.
    pub evidence: Features,
    /// Steps that all this may take, about: rules that cost the most for what they are worth are left out.
    pub steps: Option<u64>,
}

impl Weighing {
    /// The usual effort, or more, with every feature.
    pub fn of(thorough: bool) -> Self {
        Self { effort: Effort::of(thorough), evidence: Features::All, steps: None }
    }
}

/// Rules of less confidence have no say beside a model: they reach the most candidates, cost the most, and tell the least.
pub const LEAST: f64 = 0.01;

/// What may be added to the sizes of bodies.
pub(super) const SMOOTHINGS: [f64; 8] = [2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 200.0, 500.0];
/// Validation triples that choose among them.
pub(super) const FEW: usize = 1_000;

/// What was learned about rules besides their weights.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Learned {
    /// What is added to the sizes of bodies.
    pub smoothing: f64,
    /// What was hidden while weights were learned.
    pub hiding: Hiding,
    /// How many rules more there were than the budget allows.
    pub over_budget: usize,
    /// What was affordable of the effort that was wanted.
    pub effort: Effort,
}

/// Rules ready to rank with, alone or beside any model of a graph: filed by what validation says of rare ones, their weights
/// learned. None of this depends on a model, so that many share it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// In the order given.
    pub rules: Vec<RuleRecord>,
    /// How many more there were than the budget allows.
    pub over_budget: usize,
    pub(super) scores: Arc<RuleScores>,
    pub(super) smoothing: f64,
    pub(super) hiding: Hiding,
    weighing: Weighing,
    /// What was affordable of the effort that was wanted.
    pub(super) effort: Effort,
}

impl Prepared {
    /// For rules, alone or beside a model, as they are. The control hears of questions asked.
    pub fn new(rules: Vec<RuleRecord>, data: &Dataset, weighing: Weighing, control: &Control<'_>) -> Result<Self> {
        let (mut rules, mut over_budget) = budget::within(rules, data.graph());
        let mut effort = weighing.effort;
        if let Some(steps) = weighing.steps {
            let found = budget::affordable(rules, data, effort, steps, control)?;
            (rules, effort) = (found.rules, found.effort);
            over_budget += found.dropped;
        }
        let file = |smoothing: f64| RuleScores::new(data.shared_graph(), &rules, smoothing, true);
        if data.valid().is_empty() {
            let scores = Arc::new(file(SMOOTHING));
            let (smoothing, hiding) = (SMOOTHING, Hiding::Fact);
            return Ok(Self { rules, over_budget, scores, smoothing, hiding, weighing, effort });
        }
        // Without links as evidence nothing may follow from how pairs were split.
        let hiding = if weighing.evidence == Features::All { hiding(data) } else { Hiding::Fact };
        // How far to trust rare rules is a matter of the graph, and is chosen with the rules alone, one sum for all.
        let few = RankQuery::both_sides(&some(data.valid(), FEW));
        let mut best = (f64::NEG_INFINITY, SMOOTHING);
        if rules.iter().any(|record| record.counts.is_some()) {
            for smoothing in SMOOTHINGS {
                let rules = file(smoothing);
                let grid = Grid::new(None, &rules, &few, false, hiding)?;
                let gains = grid.gains(None, &rules, &few, data.filter(), control)?;
                let mean = |setting: usize| gains.iter().map(|gains| f64::from(gains[setting])).sum::<f64>();
                let found = (0..grid.settings.len()).map(mean).fold(f64::NEG_INFINITY, f64::max);
                if found > best.0 {
                    best = (found, smoothing);
                }
            }
        }
        let mut scores = file(best.1);
        if effort.questions > 0 {
            scores.learn(&rules, best.1, (data.train(), effort.questions), hiding, control)?;
        }
        Ok(Self { rules, over_budget, scores: Arc::new(scores), smoothing: best.1, hiding, weighing, effort })
    }

    /// The same rules with weights learned from another number of questions, as if it had been wanted from the start: for whoever has
    /// to stop at some time and keeps the last that was finished.
    pub fn relearned(&self, data: &Dataset, questions: usize, control: &Control<'_>) -> Result<Self> {
        let effort = Effort { questions, ..self.effort };
        let mut scores = RuleScores::new(data.shared_graph(), &self.rules, self.smoothing, true);
        if questions > 0 && !data.valid().is_empty() {
            scores.learn(&self.rules, self.smoothing, (data.train(), questions), self.hiding, control)?;
        }
        Ok(Self { scores: Arc::new(scores), ..self.clone() }.of_effort(effort))
    }

    /// The same, to be fitted on another number of validation triples.
    #[must_use]
    pub fn fitted_on(self, triples: usize) -> Self {
        let effort = Effort { triples, ..self.effort };
        self.of_effort(effort)
    }

    fn of_effort(self, effort: Effort) -> Self {
        Self { effort, weighing: Weighing { effort, ..self.weighing }, ..self }
    }

    /// For rules beside a model: those below [`LEAST`] are left out.
    pub fn beside(
        mut rules: Vec<RuleRecord>,
        data: &Dataset,
        weighing: Weighing,
        control: &Control<'_>,
    ) -> Result<Self> {
        rules.retain(|record| ranking_confidence(record, SMOOTHING) >= LEAST);
        Self::new(rules, data, weighing, control)
    }

    /// The same from rules that were kept and what was learned of them: to the bit what they were.
    pub fn restored(
        rules: Vec<RuleRecord>,
        data: &Dataset,
        weighing: Weighing,
        learned: Learned,
        weights: &[[f32; 2]],
    ) -> Self {
        let Learned { smoothing, hiding, over_budget, effort } = learned;
        let scores = RuleScores::new(data.shared_graph(), &rules, smoothing, true).with_weights(weights);
        Self { rules, over_budget, scores: Arc::new(scores), smoothing, hiding, weighing, effort }
    }

    /// What was learned besides weights.
    pub fn learned(&self) -> Learned {
        let Self { smoothing, hiding, over_budget, effort, .. } = *self;
        Learned { smoothing, hiding, over_budget, effort }
    }

    /// How they were weighed, and will be.
    pub fn weighing(&self) -> Weighing {
        self.weighing
    }

    /// The rules as filed.
    pub fn scores(&self) -> Arc<RuleScores> {
        Arc::clone(&self.scores)
    }

    /// What was learned, if the ranking uses it.
    pub fn weights(&self, ranking: &Ranking) -> Option<Weights> {
        ranking.uses_weights().then(|| self.scores.weights(self.rules.len()))
    }
}

/// Whether held-out pairs are linked as train pairs are. Where train facts often have a second fact on their pair and validation
/// facts hardly ever do, the data were split by pairs: rules must then learn from train facts whose whole pair is hidden.
fn hiding(data: &Dataset) -> Hiding {
    let linked = |triples: &[Triple], itself: usize| {
        let links = |t: &&Triple| data.graph().links_between(t.head, t.tail).len() > itself;
        triples.iter().filter(links).count() as f64 / triples.len().max(1) as f64
    };
    let (train, valid) = (linked(&some(data.train(), SAMPLED), 1), linked(data.valid(), 0));
    let expected = train * data.valid().len() as f64;
    if expected >= ENOUGH_PAIRS && valid < SPLIT_BY_PAIRS * train { Hiding::Pair } else { Hiding::Fact }
}

/// Train facts that are looked at for links.
const SAMPLED: usize = 50_000;
/// Linked validation pairs that must be expected before their absence says anything.
const ENOUGH_PAIRS: f64 = 20.0;
/// The share of those, of what train leads to expect, below which data count as split by pairs.
const SPLIT_BY_PAIRS: f64 = 0.1;

#[cfg(test)]
mod tests {
    use ruge_kg::Names;

    use super::*;

    /// Forty pairs with two facts each in train, and validation facts between pairs of which so many are linked in train.
    fn pairs(linked_in_valid: u32) -> Dataset {
        let mut names = Names::default();
        (0..200).for_each(|at| {
            names.entities.intern(&format!("e{at}"));
        });
        ["r", "s", "t"].iter().for_each(|name| {
            names.relations.intern(name);
        });
        let train = (0..40).flat_map(|at| [Triple::new(at, 0, 100 + at), Triple::new(at, 1, 100 + at)]).collect();
        let new = |at: u32| Triple::new(at, 2, if at < linked_in_valid { 100 + at } else { 140 + at % 60 });
        Dataset::new(names, train, (0..40).map(new).collect(), vec![])
    }

    #[test]
    fn a_split_by_pairs_is_seen_where_validation_pairs_are_never_linked() {
        assert_eq!(hiding(&pairs(0)), Hiding::Pair);
        assert_eq!(hiding(&pairs(3)), Hiding::Pair, "less than a tenth of what train leads to expect");
        assert_eq!(hiding(&pairs(20)), Hiding::Fact);
    }

    #[test]
    fn nothing_follows_from_links_that_train_has_not_or_that_validation_is_too_small_for() {
        let mut few = pairs(0);
        let valid = few.valid()[..10].to_vec();
        few = Dataset::new(few.names().clone(), few.train().to_vec(), valid, vec![]);
        assert_eq!(hiding(&few), Hiding::Fact, "ten linked pairs are too few to miss");
        let single: Vec<Triple> = few.train().iter().copied().step_by(2).collect();
        let lone = Dataset::new(few.names().clone(), single, pairs(0).valid().to_vec(), vec![]);
        assert_eq!(hiding(&lone), Hiding::Fact, "no train pair has a second fact either");
    }

    #[test]
    fn without_links_as_evidence_the_split_is_not_used() {
        let data = pairs(0);
        let weighing = |evidence| Weighing { evidence, ..Weighing::of(false) };
        let hidden = |evidence| {
            let prepared = Prepared::new(vec![], &data, weighing(evidence), &Control::default()).expect("no rules");
            prepared.learned().hiding
        };
        assert_eq!(hidden(Features::All), Hiding::Pair);
        assert_eq!(hidden(Features::NoLink), Hiding::Fact);
        assert_eq!(hidden(Features::None), Hiding::Fact);
    }
}
