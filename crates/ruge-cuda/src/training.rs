//! An epoch on the GPU: buffers allocated once, arrays uploaded per epoch, and the graph of launches.
//!
//! Nothing inside an epoch waits for the host. The launches of all batches are recorded once as a CUDA graph whose
//! kernels read sizes from arrays on the GPU, and each epoch replays it over new arrays. Meanwhile the host prepares
//! the order of the next epoch.

use std::time::Instant;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaFunction, DeviceRepr};
use ruge_embed::evidence::Guidance;
use ruge_embed::optimizer::Cap;
use ruge_embed::plan::Plan;
use ruge_embed::{Dealing, Losses};

use crate::crowd::{self, Crowd};
use crate::device::{Buffer, Device, Kernels, Recorded};
use crate::error::{Doing, Result};
use crate::evidence::{EvidenceBuffers, deepest, head_shares};
use crate::fit::Fit;
use crate::fold::Folds;
use crate::gradients::Gradients;
use crate::model::Tables;
use crate::order::{BatchRange, Conclusions, EpochData, Pair, Quad, RelationSlots};
use crate::source::{Constants, Program};

mod launches;

/// Vectors per slot for entity rows.
const PARTS: usize = 4;

/// `struct Moving` of the kernels.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Moving {
    pub parameters: u64,
    pub first: u64,
    pub second: u64,
    pub rate: f32,
}

// SAFETY: addresses and a float in C layout, as in the kernels.
unsafe impl DeviceRepr for Moving {}

struct Functions {
    draw_negatives: CudaFunction,
    sort_touches: CudaFunction,
    pass: CudaFunction,
    inject: CudaFunction,
    update: CudaFunction,
    sum_rows: CudaFunction,
    move_rows: CudaFunction,
    matrix_factors: CudaFunction,
    normalise_entities: CudaFunction,
    normalise_relations: CudaFunction,
    sum_losses: CudaFunction,
}

impl Functions {
    fn new(kernels: &Kernels) -> Result<Self> {
        Ok(Self {
            draw_negatives: kernels.get("draw_negatives")?,
            sort_touches: kernels.get("sort_touches")?,
            pass: kernels.get("pass")?,
            inject: kernels.get("inject")?,
            update: kernels.get("update")?,
            sum_rows: kernels.get("sum_rows")?,
            move_rows: kernels.get("move_rows")?,
            matrix_factors: kernels.get("matrix_factors")?,
            normalise_entities: kernels.get("normalise_entities")?,
            normalise_relations: kernels.get("normalise_relations")?,
            sum_losses: kernels.get("sum_losses")?,
        })
    }
}

/// All buffers of training besides the model's tables.
pub(crate) struct Training {
    fit: Fit,
    constants: Constants,
    functions: Functions,
    evidence: EvidenceBuffers,
    triples: Buffer<Quad>,
    keys: Buffer<u64>,
    shares: Buffer<f64>,
    /// The epoch, then the steps before it.
    counters: Buffer<u64>,
    order: Buffer<Pair>,
    batches: Buffer<BatchRange>,
    unlabeled: Buffer<Quad>,
    groundings: Buffer<u32>,
    ends: Buffer<u32>,
    places: Buffer<u32>,
    relation_slots_of: Buffer<RelationSlots>,
    positives: Buffer<Quad>,
    negatives: Buffer<u32>,
    touches: [Buffer<u64>; 2],
    rows: Buffer<Pair>,
    row_counts: Buffer<u32>,
    slots: Buffer<f32>,
    relation_slots: Buffer<f32>,
    d_scores: Buffer<f32>,
    /// Used if a loss needs all negatives before the slope of one.
    crowd: Option<Crowd>,
    /// Weights of positives, if they differ.
    weights: Buffer<f32>,
    supports: Buffer<f32>,
    aims: Buffer<f32>,
    losses: Buffer<f32>,
    unlabeled_losses: Buffer<f32>,
    sums: Buffer<f64>,
    gradients: Option<Gradients>,
    folds: Option<Folds>,
    most: Most,
    /// The launches of an epoch in parts, between which it can be cancelled; empty before they are recorded.
    graphs: Vec<Recorded>,
    /// The factor on learning rates in the recorded launches.
    rate: f32,
    /// Wall time of the previous epoch.
    seconds: f64,
    next: Option<EpochData>,
    conclusions: Conclusions,
}

/// The largest sizes of any batch; launches are sized for them, and loops handle more.
#[derive(Clone, Copy, Debug)]
struct Most {
    positives: usize,
    unlabeled: usize,
    relations: usize,
    rows: usize,
    key_count: usize,
}

impl Training {
    /// Whether the recorded launches fit this plan.
    pub fn fits(&self, plan: &Plan<'_>) -> bool {
        self.fit == Fit::of(plan)
    }

    /// Allocates for a plan; `first` is the next epoch.
    pub fn new(
        device: &Device,
        tables: &Tables,
        mut constants: Constants,
        plan: &Plan<'_>,
        first: u64,
    ) -> Result<Self> {
        constants.negatives = plan.negatives.per_positive();
        constants.objective = plan.objective;
        constants.all_entities = plan.entities;
        constants.guidance = plan.guidance;
        let (premises, stack) = deepest(plan.evidence);
        (constants.premises, constants.stack) = (premises, stack);
        let conclusions = Conclusions::new(plan);
        let data = EpochData::new(plan, &conclusions, first, EpochData::default());
        let alpha = constants.negatives;
        let (count, batches) = (data.order.len(), plan.batches);
        // Epochs differ in how many conclusions a batch repeats; these bounds hold for all of them.
        let evidence = plan.evidence.len();
        let atoms = plan.evidence.all_premises().len() + 2 * evidence;
        let unlabeled = match plan.guidance {
            Guidance::None => 0,
            Guidance::SoftLabels { .. } | Guidance::FixedLabels => evidence,
            Guidance::Injection { .. } => atoms,
        };
        let per_batch = count.div_ceil(batches.max(1));
        // Groundings assigned with their premises may all be in one batch.
        let most_groundings = match plan.dealing {
            Dealing::Shuffled => evidence.div_ceil(batches.max(1)),
            Dealing::WithPremises => evidence,
        };
        let most_unlabeled = match plan.guidance {
            Guidance::None => 0,
            Guidance::SoftLabels { .. } | Guidance::FixedLabels => most_groundings,
            Guidance::Injection { .. } => most_groundings * (premises + 2),
        };
        let touches = count * (2 + alpha) + 2 * unlabeled;
        let most = Most {
            positives: per_batch,
            unlabeled: most_unlabeled,
            relations: plan.relations.min(per_batch + most_unlabeled).max(1),
            rows: plan.entities.min(per_batch * (2 + alpha) + 2 * most_unlabeled).max(1),
            key_count: if plan.negatives.filtered { plan.triples.len() } else { 0 },
        };
        let most_slots = per_batch + most_unlabeled;
        let relation_rows = (plan.relations.min(per_batch + most_unlabeled)) * batches;
        let slot_floats = most_slots * PARTS * constants.entities.stride;
        let relation_floats = most_slots * constants.relations.stride;
        let split = tables.transform.is_some() || matches!(constants.optimizer.cap, Cap::Matrix { .. });
        let table_floats = plan.entities * constants.entities.stride + plan.relations * constants.relations.stride;
        let parts = [
            ("what a batch leaves for its rows", 4 * (slot_floats + relation_floats)),
            ("negatives and who touches which row", 4 * count * alpha + 24 * touches),
            ("triples and order", 48 * count + 16 * plan.triples.len() + 64 * evidence + 32 * unlabeled),
            ("scores of negatives", 4 * crowd::floats(&constants, per_batch).iter().sum::<usize>()),
            ("gradients", if split { 12 * table_floats } else { 0 }),
        ];
        device.require(&parts, "raise batches.count, or lower negatives.count or model.dimension")?;

        let kernels = device.compile(&constants, Program::Train)?;
        let functions = Functions::new(&kernels)?;
        let gradients = match split {
            true => Some(Gradients::new(device, tables, &constants, [most.rows, most.relations])?),
            false => None,
        };
        let most_touches = per_batch * (2 + alpha) + 2 * most_unlabeled;
        let folds = Folds::new(device, &constants, kernels.get("fold")?, most_touches, most_unlabeled)?;
        let triples: Vec<Quad> = plan.triples.iter().map(|x| Quad(x.head.0, x.relation.0, x.tail.0, 0)).collect();
        Ok(Self {
            fit: Fit::of(plan),
            functions,
            evidence: EvidenceBuffers::new(device, plan.evidence)?,
            triples: device.copy(&triples)?,
            keys: device.copy(&sorted_keys(plan))?,
            shares: device.copy(&head_shares(plan))?,
            counters: device.zeros(2)?,
            order: device.zeros(count)?,
            batches: device.zeros(batches)?,
            unlabeled: device.zeros(unlabeled)?,
            groundings: device.zeros(evidence)?,
            ends: device.zeros(unlabeled.max(evidence) + 1)?,
            places: device.zeros(if matches!(plan.guidance, Guidance::Injection { .. }) { atoms } else { 0 })?,
            relation_slots_of: device.zeros(relation_rows)?,
            positives: device.zeros(count)?,
            negatives: device.zeros(count * alpha)?,
            touches: [device.zeros(touches)?, device.zeros(touches)?],
            rows: device.zeros(touches)?,
            row_counts: device.zeros(batches)?,
            slots: device.zeros(slot_floats)?,
            relation_slots: device.zeros(relation_floats)?,
            d_scores: device.zeros(per_batch * alpha)?,
            crowd: Crowd::new(device, &constants, &kernels, per_batch)?,
            weights: device.zeros(if plan.objective.subsampling { count } else { 0 })?,
            supports: device.zeros(evidence)?,
            aims: device.zeros(unlabeled)?,
            losses: device.zeros(count)?,
            unlabeled_losses: device.zeros(unlabeled)?,
            sums: device.zeros(2 * batches)?,
            gradients,
            folds,
            most,
            graphs: Vec::new(),
            rate: plan.rate,
            seconds: 0.0,
            next: Some(data),
            conclusions,
            constants,
        })
    }

    /// One epoch, after `steps` gradient steps.
    pub fn epoch(
        &mut self,
        device: &Device,
        tables: &mut Tables,
        plan: &Plan<'_>,
        epoch: u64,
        steps: u64,
    ) -> Result<Losses> {
        let data = match self.next.take() {
            Some(data) if data.epoch == epoch => data,
            _ => EpochData::new(plan, &self.conclusions, epoch, EpochData::default()),
        };
        device.put(&[epoch, steps], &mut self.counters)?;
        device.put(&data.order, &mut self.order)?;
        device.put(&data.batches, &mut self.batches)?;
        device.put(&data.unlabeled, &mut self.unlabeled)?;
        device.put(&data.groundings, &mut self.groundings)?;
        device.put(&data.ends, &mut self.ends)?;
        device.put(&data.places, &mut self.places)?;
        device.put(&data.relations, &mut self.relation_slots_of)?;
        device.put(&data.weights, &mut self.weights)?;
        if self.rate != plan.rate {
            (self.graphs, self.rate) = (Vec::new(), plan.rate);
        }
        let (is_new, is_long) = (self.graphs.is_empty(), self.seconds > LONG);
        let started = Instant::now();
        let mut data = Some(data);
        for (at, part) in parts(plan.batches).into_iter().enumerate() {
            match self.graphs.get(at) {
                Some(graph) => graph.0.launch().doing("starting an epoch")?,
                // The first epoch is not recorded: libraries allocate on first use, which a recording must not.
                None => self.launch(device, tables, plan, part)?,
            }
            // Launched work cannot be cancelled. In a long epoch the host waits for each part; a short one is launched
            // whole.
            if is_long {
                if let Some(data) = data.take() {
                    self.next = Some(EpochData::new(plan, &self.conclusions, epoch + 1, data));
                }
                device.wait()?;
                plan.check()?;
            }
        }
        // The host prepares the next epoch's order meanwhile.
        if let Some(data) = data {
            self.next = Some(EpochData::new(plan, &self.conclusions, epoch + 1, data));
        }
        if is_new {
            device.wait()?;
            self.record(device, tables, plan)?;
        }
        let mut sums = vec![0.0f64; 2 * plan.batches];
        device.get(&self.sums, &mut sums)?;
        self.seconds = started.elapsed().as_secs_f64();
        let mut losses = Losses::default();
        for pair in sums.chunks_exact(2) {
            losses.labeled += pair[0] / plan.batches as f64;
            losses.unlabeled += pair[1] / plan.batches as f64;
        }
        Ok(losses)
    }

    /// Records the launches of an epoch as graphs; if the driver refuses, epochs are launched kernel by kernel.
    fn record(&mut self, device: &Device, tables: &mut Tables, plan: &Plan<'_>) -> Result<()> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let mut graphs = Vec::new();
        for part in parts(plan.batches) {
            device.stream.begin_capture(mode).doing("recording an epoch")?;
            let launched = self.launch(device, tables, plan, part);
            let graph = device.stream.end_capture(CUgraphInstantiate_flags(0));
            launched?;
            match graph.doing("recording an epoch")? {
                Some(graph) => graphs.push(Recorded(graph)),
                None => return Ok(()),
            }
        }
        self.graphs = graphs;
        Ok(())
    }
}

/// Maximum seconds of launches between two checks by the host.
pub(crate) const LONG: f64 = 0.2;

/// Parts of an epoch: few enough that waiting between them costs nothing.
const PARTS_OF_EPOCH: usize = 16;

fn parts(batches: usize) -> Vec<std::ops::Range<usize>> {
    let each = batches.div_ceil(PARTS_OF_EPOCH).max(1);
    (0..batches).step_by(each).map(|from| from..batches.min(from + each)).collect()
}

/// Sorted keys of all training triples, for filtered draws; empty if draws are not filtered.
fn sorted_keys(plan: &Plan<'_>) -> Vec<u64> {
    if !plan.negatives.filtered {
        return Vec::new();
    }
    let (entities, relations) = (plan.entities as u64, plan.relations as u64);
    let key = |x: &ruge_kg::Triple| {
        (u64::from(x.head.0) * relations + u64::from(x.relation.0)) * entities + u64::from(x.tail.0)
    };
    let mut keys: Vec<u64> = plan.triples.iter().map(key).collect();
    keys.sort_unstable();
    keys
}
