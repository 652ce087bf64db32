//! One mini-batch as plain data: labeled triples with their negatives, unlabeled ones with their evidence, and the
//! transpose: which rows each triple touches.
//!
//! All of it is a pure function of (plan, epoch, batch), so a batch can be prepared while another trains, on any thread.

use ruge_kg::random::{self, Stream};
use ruge_kg::{EntityId, RelationId, Triple};

use crate::evidence::{Evidence, Guidance};
use crate::incidence::Incidence;
use crate::plan::{EpochOrder, Plan};

/// The stream for the replacement relations of KALE's corrupted groundings.
pub const CORRUPTIONS: Stream = Stream(0x115);

/// ℒ of one batch: positives and their negatives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examples {
    /// The positives, sorted by relation, so that a relation's row stays in the cache.
    pub positives: Vec<Triple>,
    /// `stride` entities per positive: first those that replace the head, then those that replace the tail.
    pub negatives: Vec<EntityId>,
    /// Number of head replacements among each positive's negatives.
    pub heads: Vec<u32>,
    /// Negatives per positive.
    pub stride: usize,
    /// Weight of each positive relative to their mean; empty if all are equal.
    pub weights: Vec<f32>,
}

impl Examples {
    /// The negatives of a positive: replacements of its head, replacements of its tail.
    #[inline(always)]
    pub fn negatives(&self, positive: usize) -> (&[EntityId], &[EntityId]) {
        self.negatives[positive * self.stride..(positive + 1) * self.stride].split_at(self.heads[positive] as usize)
    }

    /// Weight of a positive relative to the mean.
    #[inline(always)]
    pub fn weight(&self, positive: usize) -> f32 {
        self.weights.get(positive).copied().unwrap_or(1.0)
    }

    /// Number of positives and negatives.
    pub fn labeled(&self) -> usize {
        self.positives.len() * (1 + self.stride)
    }
}

/// A batch ready for training.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The labeled part.
    pub examples: Examples,
    /// Unlabeled triples, sorted by relation: distinct conclusions with soft labels, atoms with injection.
    pub unlabeled: Vec<Triple>,
    /// The groundings assigned to this batch.
    pub evidence: Evidence,
    /// Per grounding, its indexes into `unlabeled`. Soft labels: its conclusion. Injection: its premises, its
    /// conclusion and the corrupted conclusion, grounding by grounding.
    pub places: Vec<u32>,
    /// The transpose: contributions to each row.
    pub incidence: Incidence,
    order: Vec<(u32, u32, u32)>,
    sorted: Vec<u32>,
    atoms: Vec<Triple>,
}

impl Batch {
    /// Fills this batch, reusing its memory.
    pub fn prepare(&mut self, plan: &Plan<'_>, order: &EpochOrder, batch: usize) {
        self.fill_examples(plan, order, batch);
        self.prepare_unlabeled(plan, order, batch);
        self.incidence.build(plan.entities, plan.relations, &self.examples, &self.unlabeled);
    }

    /// Fills only the unlabeled part, for devices that sample and transpose themselves.
    pub fn prepare_unlabeled(&mut self, plan: &Plan<'_>, order: &EpochOrder, batch: usize) {
        self.evidence.clear();
        if plan.guidance != Guidance::None {
            for grounding in order.groundings(batch) {
                self.evidence.push_from(plan.evidence, grounding);
            }
        }
        self.fill_unlabeled(plan, order, batch);
    }

    /// A batch with given content, for tests and for callers that sample themselves. Sorts the positives.
    pub fn of(plan: &Plan<'_>, examples: Examples, evidence: Evidence) -> Self {
        let mut batch = Self { examples, evidence, ..Self::default() };
        batch.fill_unlabeled(plan, &EpochOrder::default(), 0);
        batch.incidence.build(plan.entities, plan.relations, &batch.examples, &batch.unlabeled);
        batch
    }

    fn fill_examples(&mut self, plan: &Plan<'_>, order: &EpochOrder, batch: usize) {
        self.order.clear();
        self.order.extend(order.positives(plan, batch).map(|(position, index)| {
            let triple = plan.triples[index];
            (triple.relation.0, triple.head.0, position as u32)
        }));
        // Positions are distinct, so the order is total even with an unstable sort.
        self.order.sort_unstable();
        let examples = &mut self.examples;
        examples.positives.clear();
        examples.negatives.clear();
        examples.heads.clear();
        examples.stride = plan.negatives.per_positive();
        for &(.., position) in &self.order {
            let positive = plan.triples[order.index(position as usize)];
            examples.positives.push(positive);
            let heads = plan.negatives.draw(plan, order.epoch, position as u64, positive, &mut examples.negatives);
            examples.heads.push(heads);
        }
        examples.weights.clear();
        if plan.objective.subsampling {
            plan.subsample(examples.positives.iter().copied(), &mut examples.weights);
        }
    }

    fn fill_unlabeled(&mut self, plan: &Plan<'_>, order: &EpochOrder, batch: usize) {
        let key = |x: &Triple| (x.relation, x.head, x.tail);
        self.unlabeled.clear();
        self.places.clear();
        match plan.guidance {
            Guidance::None => {}
            Guidance::SoftLabels { .. } | Guidance::FixedLabels => {
                self.unlabeled.extend_from_slice(self.evidence.conclusions());
                self.unlabeled.sort_unstable_by_key(key);
                self.unlabeled.dedup();
                for conclusion in self.evidence.conclusions() {
                    let place = self.unlabeled.binary_search_by_key(&key(conclusion), key);
                    self.places.push(place.expect("every conclusion is among the distinct ones") as u32);
                }
            }
            Guidance::Injection { .. } => {
                self.atoms.clear();
                for grounding in 0..self.evidence.len() {
                    let premises = self.evidence.premises(grounding);
                    let conclusion = self.evidence.conclusion(grounding);
                    let position = (grounding * plan.batches + batch) as u64;
                    let relation = corrupt_relation(plan, order.epoch, position, premises, conclusion);
                    self.atoms.extend_from_slice(premises);
                    self.atoms.extend([conclusion, Triple { relation, ..conclusion }]);
                }
                self.sorted.clear();
                self.sorted.extend(0..self.atoms.len() as u32);
                self.sorted.sort_unstable_by_key(|&at| (key(&self.atoms[at as usize]), at));
                self.places.resize(self.atoms.len(), 0);
                for (place, &at) in self.sorted.iter().enumerate() {
                    self.unlabeled.push(self.atoms[at as usize]);
                    self.places[at as usize] = place as u32;
                }
            }
        }
    }
}

/// A uniform relation that does not occur in the grounding; the conclusion's own if there is no other.
fn corrupt_relation(plan: &Plan<'_>, epoch: u64, position: u64, premises: &[Triple], conclusion: Triple) -> RelationId {
    for attempt in 0..100u64 {
        let stream = Stream(CORRUPTIONS.0 + (attempt << 32));
        let draw = random::draw(plan.seed, stream, epoch, position);
        let relation = RelationId(random::below(draw, plan.relations as u64) as u32);
        if relation != conclusion.relation && premises.iter().all(|x| x.relation != relation) {
            return relation;
        }
    }
    conclusion.relation
}
