//! The order of an epoch for the GPU: flat arrays over all batches.
//!
//! The CPU shuffles and assigns batches ([`EpochOrder`]) while the GPU trains the previous epoch.

use cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use rayon::prelude::*;
use ruge_embed::batch::Batch;
use ruge_embed::evidence::Guidance;
use ruge_embed::plan::{EpochOrder, Plan};
use ruge_kg::Triple;

/// `struct Batch` of the kernels.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct BatchRange {
    pub positives: [u32; 2],
    pub unlabeled: [u32; 2],
    pub relations: [u32; 2],
    pub groundings: [u32; 2],
    pub touches: u64,
}

/// `struct Relations` of the kernels: the slots of one relation in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RelationSlots {
    pub relation: u32,
    pub positives: [u32; 2],
    pub unlabeled: [u32; 2],
}

// SAFETY: plain integers in C layout, as in the kernels; zeros are valid.
unsafe impl DeviceRepr for BatchRange {}
// SAFETY: as above.
unsafe impl ValidAsZeroBits for BatchRange {}
// SAFETY: as above.
unsafe impl DeviceRepr for RelationSlots {}
// SAFETY: as above.
unsafe impl ValidAsZeroBits for RelationSlots {}

/// `uint2` of the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub(crate) struct Pair(pub u32, pub u32);

/// `uint4` of the kernels: a triple and a fourth number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub(crate) struct Quad(pub u32, pub u32, pub u32, pub u32);

// SAFETY: plain integers with the layout of CUDA's vector types.
unsafe impl DeviceRepr for Pair {}
// SAFETY: as above.
unsafe impl ValidAsZeroBits for Pair {}
// SAFETY: as above.
unsafe impl DeviceRepr for Quad {}
// SAFETY: as above.
unsafe impl ValidAsZeroBits for Quad {}

/// Distinct conclusions of all groundings, sorted as in batches, and the index of each grounding's conclusion. Sorting
/// a batch's groundings by conclusion then only sorts numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conclusions {
    sorted: Vec<Triple>,
    places: Vec<u32>,
}

impl Conclusions {
    /// The conclusions of a plan's evidence, if its guidance needs them.
    pub fn new(plan: &Plan<'_>) -> Self {
        let (Guidance::SoftLabels { .. } | Guidance::FixedLabels) = plan.guidance else { return Self::default() };
        let key = |x: &Triple| (x.relation, x.head, x.tail);
        let mut sorted = plan.evidence.conclusions().to_vec();
        sorted.par_sort_unstable_by_key(key);
        sorted.dedup();
        let place = |x: &Triple| sorted.binary_search_by_key(&key(x), key).unwrap_or_default() as u32;
        let places = plan.evidence.conclusions().par_iter().map(place).collect();
        Self { sorted, places }
    }
}

/// All batches of an epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochData {
    pub epoch: u64,
    /// (position in the epoch, index among the triples), batch after batch, sorted by relation within.
    pub order: Vec<Pair>,
    pub batches: Vec<BatchRange>,
    pub unlabeled: Vec<Quad>,
    /// Groundings: by conclusion under soft labels, as dealt under injection.
    pub groundings: Vec<u32>,
    /// Soft labels: ranges of the unlabeled triples' groundings. Injection: ranges of the groundings in `places`.
    pub ends: Vec<u32>,
    /// Injection: the unlabeled triple of each atom.
    pub places: Vec<u32>,
    pub relations: Vec<RelationSlots>,
    /// Weight of each positive relative to the mean of its batch; empty if all are equal.
    pub weights: Vec<f32>,
}

/// One batch to be added to [`EpochData`].
#[derive(Default)]
struct BatchOrder {
    order: Vec<Pair>,
    unlabeled: Vec<Quad>,
    groundings: Vec<u32>,
    ends: Vec<u32>,
    places: Vec<u32>,
    relations: Vec<RelationSlots>,
    weights: Vec<f32>,
}

impl EpochData {
    /// The order of an epoch; reuses the memory of a finished one.
    pub fn new(plan: &Plan<'_>, conclusions: &Conclusions, epoch: u64, mut over: Self) -> Self {
        let order = EpochOrder::new(plan, epoch);
        let parts: Vec<BatchOrder> = (0..plan.batches)
            .into_par_iter()
            .map_init(Batch::default, |batch, index| part(plan, conclusions, &order, index, batch))
            .collect();
        over.clear();
        let mut data = Self { epoch, ..over };
        data.ends.push(0);
        let per_positive = 2 + plan.negatives.per_positive();
        let mut touches = 0u64;
        for part in parts {
            let range = |from: usize, more: usize| [from as u32, (from + more) as u32];
            data.batches.push(BatchRange {
                positives: range(data.order.len(), part.order.len()),
                unlabeled: range(data.unlabeled.len(), part.unlabeled.len()),
                relations: range(data.relations.len(), part.relations.len()),
                groundings: range(data.groundings.len(), part.groundings.len()),
                touches,
            });
            touches += (part.order.len() * per_positive + 2 * part.unlabeled.len()) as u64;
            let (before, first) = (data.ends.last().copied().unwrap_or(0), data.unlabeled.len() as u32);
            data.ends.extend(part.ends.iter().map(|end| before + end));
            data.places.extend(part.places.iter().map(|place| first + place));
            data.order.extend(part.order);
            data.unlabeled.extend(part.unlabeled);
            data.groundings.extend(part.groundings);
            data.relations.extend(part.relations);
            data.weights.extend(part.weights);
        }
        data
    }

    fn clear(&mut self) {
        self.order.clear();
        self.batches.clear();
        self.unlabeled.clear();
        self.groundings.clear();
        self.ends.clear();
        self.places.clear();
        self.relations.clear();
        self.weights.clear();
    }
}

fn part(plan: &Plan<'_>, conclusions: &Conclusions, order: &EpochOrder, index: usize, batch: &mut Batch) -> BatchOrder {
    let mut sorted: Vec<(u32, u32, u32, u32)> = order
        .positives(plan, index)
        .map(|(position, at)| {
            let triple = plan.triples[at];
            (triple.relation.0, triple.head.0, position as u32, at as u32)
        })
        .collect();
    sorted.sort_unstable();
    let mut part = BatchOrder::default();
    part.order.extend(sorted.iter().map(|&(_, _, position, at)| Pair(position, at)));
    if plan.objective.subsampling {
        plan.subsample(sorted.iter().map(|&(.., at)| plan.triples[at as usize]), &mut part.weights);
    }
    match plan.guidance {
        Guidance::None => {}
        Guidance::SoftLabels { .. } | Guidance::FixedLabels => {
            // Conclusion, then order in the batch, then grounding: the first two decide.
            let place = |(at, grounding): (usize, usize)| {
                (u64::from(conclusions.places[grounding]) << 32 | at as u64, grounding as u32)
            };
            let mut by_place: Vec<(u64, u32)> = order.groundings(index).enumerate().map(place).collect();
            by_place.sort_unstable_by_key(|x| x.0);
            part.groundings.reserve_exact(by_place.len());
            for run in by_place.chunk_by(|x, y| x.0 >> 32 == y.0 >> 32) {
                let conclusion = conclusions.sorted[(run[0].0 >> 32) as usize];
                part.unlabeled.push(Quad(conclusion.head.0, conclusion.relation.0, conclusion.tail.0, 0));
                part.groundings.extend(run.iter().map(|x| x.1));
                part.ends.push(part.groundings.len() as u32);
            }
        }
        Guidance::Injection { .. } => {
            batch.prepare_unlabeled(plan, order, index);
            part.unlabeled.extend(batch.unlabeled.iter().map(|x| Quad(x.head.0, x.relation.0, x.tail.0, 0)));
            part.places.extend_from_slice(&batch.places);
            part.groundings.extend(order.groundings(index).map(|grounding| grounding as u32));
            let mut end = 0;
            part.ends.extend((0..part.groundings.len()).map(|at| {
                end += batch.evidence.premises(at).len() as u32 + 2;
                end
            }));
        }
    }
    // Both kinds of slots are sorted by relation; their runs are merged.
    let unlabeled = &part.unlabeled;
    let (mut p, mut u) = (0, 0);
    while p < sorted.len() || u < unlabeled.len() {
        let next = |relation: Option<u32>| relation.unwrap_or(u32::MAX);
        let relation = next(sorted.get(p).map(|x| x.0)).min(next(unlabeled.get(u).map(|x| x.1)));
        let (p_end, u_end) = (
            p + sorted[p..].iter().take_while(|x| x.0 == relation).count(),
            u + unlabeled[u..].iter().take_while(|x| x.1 == relation).count(),
        );
        part.relations.push(RelationSlots {
            relation,
            positives: [p as u32, p_end as u32],
            unlabeled: [u as u32, u_end as u32],
        });
        (p, u) = (p_end, u_end);
    }
    part
}
