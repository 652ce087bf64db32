//! The training plan: the contents of an epoch, as data.
//!
//! An epoch shuffles the observed triples, deals them round-robin into batches, draws negatives, and deals the
//! groundings of the evidence separately (the paper's Algorithm 1, as in the reference program). Every draw is a pure
//! function of (seed, stream, epoch, position).

use ruge_kg::random::{self, Stream};
use ruge_kg::{Cancelled, Control, Graph, Label, Triple};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::evidence::{Dealing, Evidence, Guidance};
use crate::negatives::Negatives;
use crate::objective::Objective;
use crate::optimizer::Projection;
use crate::softmax::{Example, Softmax};

/// The stream for the order of the positives.
pub const SHUFFLE: Stream = Stream(0x111);
/// The stream for the order of the groundings.
pub const GROUNDINGS: Stream = Stream(0x112);

/// How positives are assigned to batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Batching {
    /// Shuffled; position i goes to batch i mod batches, so each triple occurs once per epoch.
    #[default]
    Dealt,
    /// ⌊triples / batches⌋ drawn with replacement for each batch, as in `ttrouill/complex`.
    WithReplacement,
}

/// The contents of an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// 𝒪, the observed triples.
    pub triples: &'a [Triple],
    /// The same, indexed; used by filtered and Bernoulli negatives.
    pub graph: &'a Graph,
    /// Number of entities.
    pub entities: usize,
    /// Number of relations.
    pub relations: usize,
    /// Seed of every draw.
    pub seed: u64,
    /// Batches per epoch.
    pub batches: usize,
    /// How positives are assigned to batches.
    pub batching: Batching,
    /// How negatives are drawn.
    pub negatives: Negatives,
    /// Loss and penalty.
    pub objective: Objective,
    /// Groundings.
    pub evidence: &'a Evidence,
    /// How groundings are used.
    pub guidance: Guidance,
    /// How groundings are assigned to batches.
    pub dealing: Dealing,
    /// Maximum groundings per epoch; if there are more, every epoch draws a new sample.
    pub most_groundings: usize,
    /// τ: gradient steps per batch with the same soft labels.
    pub inner_steps: usize,
    /// Projection of rows besides gradient steps.
    pub projection: Projection,
    /// Factor on the learning rates.
    pub rate: f32,
    /// Softmax over all entities; replaces the negatives, objective, batches and guidance above.
    pub softmax: Option<Softmax>,
    /// Weighted triples for softmax training in addition to the observed ones.
    pub examples: &'a [Example],
    /// Hears of the batches of an epoch, and cancels it.
    pub control: Option<&'a Control<'a>>,
}

impl<'a> Plan<'a> {
    /// The paper's setting without guidance: 100 batches, ten negatives, logistic loss, L2 with weight 0.01.
    pub fn new(graph: &'a Graph, triples: &'a [Triple], seed: u64) -> Self {
        Self {
            triples,
            graph,
            entities: graph.entity_count(),
            relations: graph.relation_count(),
            seed,
            batches: 100,
            batching: Batching::default(),
            negatives: Negatives::default(),
            objective: Objective::default(),
            evidence: Evidence::nothing(),
            guidance: Guidance::None,
            dealing: Dealing::default(),
            most_groundings: usize::MAX,
            inner_steps: 1,
            projection: Projection::default(),
            rate: 1.0,
            softmax: None,
            examples: &[],
            control: None,
        }
    }

    /// Whether the epoch was cancelled. Its results are then invalid.
    pub fn is_cancelled(&self) -> bool {
        self.control.is_some_and(|control| control.is_cancelled())
    }

    /// Returns an error if the epoch was cancelled.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// Reports that `done` of `total` batches of the epoch are trained. Returns an error if the epoch was cancelled.
    pub fn advance(&self, done: usize, total: usize) -> Result<(), Cancelled> {
        self.check()?;
        if let Some(control) = self.control {
            control.progress(done, total);
        }
        Ok(())
    }

    /// Appends the weights of a batch's positives relative to their mean, if frequent queries count less
    /// ([`Objective::subsampling`]).
    pub fn subsample(&self, positives: impl Iterator<Item = Triple>, weights: &mut Vec<f32>) {
        let first = weights.len();
        let asked = |entity, label| 3 + self.graph.neighbours(entity, label).len();
        weights.extend(positives.map(|Triple { head, relation, tail }| {
            let count = asked(head, Label::forward(relation)) + asked(tail, Label::inverse(relation));
            1.0 / (count as f32).sqrt()
        }));
        let own = &mut weights[first..];
        let mean = own.iter().map(|&weight| f64::from(weight)).sum::<f64>() / own.len().max(1) as f64;
        own.iter_mut().for_each(|weight| *weight = (f64::from(*weight) / mean) as f32);
    }
}

/// The order of one epoch.
#[derive(Clone, Debug, Default)]
pub struct EpochOrder {
    /// The epoch, counted from 1.
    pub epoch: u64,
    positives: Vec<u32>,
    groundings: Vec<u32>,
    /// Where each batch's groundings end; empty if they are dealt round-robin.
    grounding_ends: Vec<u32>,
    batches: usize,
}

impl EpochOrder {
    /// Shuffles and assigns to batches.
    pub fn new(plan: &Plan<'_>, epoch: u64) -> Self {
        let n = plan.triples.len();
        let positives = match plan.batching {
            Batching::Dealt => random::permutation(n, plan.seed, SHUFFLE, epoch),
            Batching::WithReplacement => {
                let draws = n / plan.batches * plan.batches;
                let draw = |i| random::below(random::draw(plan.seed, SHUFFLE, epoch, i as u64), n as u64) as u32;
                (0..draws).map(draw).collect()
            }
        };
        let groundings = random::sample(plan.evidence.len(), plan.most_groundings, plan.seed, GROUNDINGS, epoch);
        let mut order = Self { epoch, positives, groundings, grounding_ends: Vec::new(), batches: plan.batches };
        if plan.dealing == Dealing::WithPremises {
            order.deal_with_premises(plan);
        }
        order
    }

    fn deal_with_premises(&mut self, plan: &Plan<'_>) {
        let mut by_batch: Vec<Vec<u32>> = vec![Vec::new(); plan.batches];
        let mut batch_of = FxHashMap::default();
        for batch in 0..plan.batches {
            batch_of.extend(self.positives(plan, batch).map(|(_, index)| (plan.triples[index], batch)));
        }
        for grounding in std::mem::take(&mut self.groundings) {
            let mut batches =
                plan.evidence.premises(grounding as usize).iter().map(|premise| batch_of.get(premise).copied());
            if let Some(Some(batch)) = batches.next()
                && batches.all(|other| other == Some(batch))
            {
                by_batch[batch].push(grounding);
            }
        }
        self.grounding_ends.push(0);
        for batch in by_batch {
            self.groundings.extend(batch);
            self.grounding_ends.push(self.groundings.len() as u32);
        }
    }

    /// Positions of a batch's positives, each with its index among the triples.
    pub fn positives<'s>(&'s self, plan: &Plan<'_>, batch: usize) -> impl Iterator<Item = (usize, usize)> + 's {
        let (from, to, step) = match plan.batching {
            Batching::Dealt => (batch, self.positives.len(), plan.batches),
            Batching::WithReplacement => {
                let size = self.positives.len() / plan.batches;
                (batch * size, (batch + 1) * size, 1)
            }
        };
        (from..to).step_by(step).map(|position| (position, self.positives[position] as usize))
    }

    /// The index of a position's triple.
    #[inline]
    pub fn index(&self, position: usize) -> usize {
        self.positives[position] as usize
    }

    /// The groundings of a batch.
    pub fn groundings<'s>(&'s self, batch: usize) -> impl Iterator<Item = usize> + 's {
        let (from, to, step) = match self.grounding_ends.get(batch..batch + 2) {
            Some(ends) => (ends[0] as usize, ends[1] as usize, 1),
            None => (batch, self.groundings.len(), self.batches.max(1)),
        };
        (from..to).step_by(step).map(|at| self.groundings[at] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;

    fn circle() -> Vec<Triple> {
        (0..40).map(|i| Triple::new(i, i % 3, (i + 1) % 40)).collect()
    }

    #[test]
    fn every_triple_and_every_grounding_comes_once_an_epoch() {
        let facts = circle();
        let graph = Graph::new(40, 3, &facts);
        let mut evidence = Evidence::default();
        for pair in facts.windows(2) {
            evidence.push(pair, pair[0].reversed(), 0.9);
        }
        let guidance = Guidance::SoftLabels { slackness: 0.1, t_norm: Default::default() };
        let plan = Plan { batches: 7, evidence: &evidence, guidance, ..Plan::new(&graph, &facts, 3) };
        let gather = |epoch| {
            let order = EpochOrder::new(&plan, epoch);
            let mut batch = Batch::default();
            let (mut positives, mut conclusions) = (Vec::new(), Vec::new());
            for index in 0..7 {
                batch.prepare(&plan, &order, index);
                positives.extend_from_slice(&batch.examples.positives);
                conclusions.extend_from_slice(batch.evidence.conclusions());
            }
            (positives, conclusions)
        };
        let ((mut positives, mut conclusions), other) = (gather(1), gather(2));
        assert_ne!(positives, other.0, "epochs differ");
        positives.sort_unstable();
        assert_eq!(positives, facts);
        conclusions.sort_unstable();
        conclusions.dedup();
        assert_eq!(conclusions.len(), 39);
    }

    #[test]
    fn an_epoch_may_take_a_share_of_the_groundings() {
        let facts = circle();
        let graph = Graph::new(40, 3, &facts);
        let mut evidence = Evidence::default();
        facts.iter().for_each(|fact| evidence.push(&[*fact], fact.reversed(), 0.9));
        let plan = Plan { batches: 7, evidence: &evidence, most_groundings: 10, ..Plan::new(&graph, &facts, 3) };
        let chosen = |epoch| {
            let order = EpochOrder::new(&plan, epoch);
            let mut chosen: Vec<usize> = (0..7).flat_map(|batch| order.groundings(batch).collect::<Vec<_>>()).collect();
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        assert_eq!(chosen(1).len(), 10);
        assert_ne!(chosen(1), chosen(2), "another share in every epoch");
        assert_eq!(chosen(1), chosen(1));
    }

    #[test]
    fn groundings_may_go_with_their_premises() {
        let facts = circle();
        let graph = Graph::new(40, 3, &facts);
        let mut evidence = Evidence::default();
        for (i, pair) in facts.windows(2).enumerate() {
            evidence.push(&pair[..1 + i % 2], pair[0].reversed(), 0.9);
        }
        let guidance = Guidance::SoftLabels { slackness: 0.1, t_norm: Default::default() };
        let dealing = Dealing::WithPremises;
        let plan = Plan { batches: 3, evidence: &evidence, guidance, dealing, ..Plan::new(&graph, &facts, 3) };
        let order = EpochOrder::new(&plan, 1);
        let (mut batch, mut single) = (Batch::default(), 0);
        for index in 0..3 {
            batch.prepare(&plan, &order, index);
            for grounding in 0..batch.evidence.len() {
                let premises = batch.evidence.premises(grounding);
                single += usize::from(premises.len() == 1);
                assert!(premises.iter().all(|premise| batch.examples.positives.contains(premise)));
            }
        }
        assert_eq!(single, 20, "a grounding of one premise always finds its batch");
    }
}
