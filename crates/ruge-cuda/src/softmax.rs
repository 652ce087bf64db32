//! An epoch of softmax over all entities: cuBLAS computes the products on tensor cores, `kernels/softmax.cu` the rest.
//!
//! A batch is: queries, their scores with all entities, slopes in place of the scores, two products back, and row
//! owners adding their contributions. Then every row is updated, since every row is a candidate of every question,
//! unless candidates are a sample ([`crate::sample`]). The host prepares the next batches while the GPU works on these.

mod moves;
mod relations;

use std::time::Instant;

use cudarc::driver::{CudaFunction, DeviceRepr, LaunchConfig, PushKernelArg};
use ruge_embed::softmax::{AnswerLoss, Dropout, Questions};
use ruge_embed::{Cap, Losses, Plan, Softmax};

use crate::device::{Buffer, Device};
use crate::error::{CudaError, Doing, Result};
use crate::model::Tables;
use crate::order::{Pair, Quad};
use crate::product::{Matrix, Number, Out, Size};
use crate::questions::{EpochQuestions, Group, Range, batches_of_group};
use crate::sample::{Counts, Sampled};
use crate::source::{Constants, Program};
use crate::training::LONG;

/// Batches of the first epoch that are launched before the host waits for them.
const LAUNCHED: usize = 32;

/// What must be equal for buffers to fit a plan.
#[derive(Clone, Copy, PartialEq, Debug)]
struct SoftmaxFit {
    triples: (usize, usize),
    examples: (usize, usize),
    softmax: Softmax,
    seed: u64,
}

impl SoftmaxFit {
    fn of(plan: &Plan<'_>, softmax: &Softmax) -> Self {
        Self {
            triples: (plan.triples.as_ptr() as usize, plan.triples.len()),
            examples: (plan.examples.as_ptr() as usize, plan.examples.len()),
            softmax: *softmax,
            seed: plan.seed,
        }
    }
}

struct Functions {
    queries: CudaFunction,
    slopes: CudaFunction,
    target_slopes: CudaFunction,
    backward: CudaFunction,
    relation_queries: CudaFunction,
    relation_backward: CudaFunction,
    gather_entities: CudaFunction,
    gather_relations: CudaFunction,
    penalise: CudaFunction,
    move_all: CudaFunction,
    to_numbers: CudaFunction,
}

/// The number of candidates, padded so that rows of scores are aligned for tensor cores.
pub(crate) fn padded(candidates: usize) -> usize {
    candidates.next_multiple_of(32)
}

/// `struct Dropout` of the kernels.
#[derive(Clone, Copy)]
#[repr(C)]
struct Drop {
    seed: u64,
    step: u64,
    threshold: u32,
    scale: f32,
}

// SAFETY: plain numbers in C layout, as in the kernels.
unsafe impl DeviceRepr for Drop {}

impl Drop {
    fn of(dropout: Option<Dropout>) -> Self {
        let Dropout { seed, step, threshold, scale } =
            dropout.unwrap_or(Dropout { seed: 0, step: 0, threshold: 0, scale: 1.0 });
        Self { seed, step, threshold, scale }
    }
}

/// A batch's scores: their address, the address for their slopes, the distance between rows, the number of candidates,
/// and the indexes that are not candidates.
#[derive(Clone, Copy)]
struct Scores {
    address: u64,
    slopes: u64,
    stride: usize,
    candidates: usize,
    gap: [usize; 2],
}

/// All buffers of softmax training besides the model's tables.
pub(crate) struct SoftmaxTraining {
    fit: SoftmaxFit,
    constants: Constants,
    number: Number,
    softmax: Softmax,
    functions: Functions,
    questions: Buffer<Quad>,
    answers: Buffer<u32>,
    relations: Buffer<u32>,
    weights: Buffer<f32>,
    /// Empty for plain questions.
    target_ends: Buffer<u32>,
    targets: Buffer<Pair>,
    touched_entities: Buffer<Quad>,
    entity_slots: Buffer<u32>,
    touched_relations: Buffer<Quad>,
    relation_slots: Buffer<u32>,
    /// Factors of the products, in their number format.
    queries: Buffer<u8>,
    relation_queries: Buffer<u8>,
    /// Tables and slopes in 16 bits, if products use those.
    rounded: Option<Rounded>,
    /// With a sample of candidates.
    sampled: Option<Sampled>,
    d_queries: Buffer<f32>,
    d_ends: Buffer<f32>,
    d_relations: Buffer<f32>,
    d_relation_queries: Buffer<f32>,
    scores: Buffer<f32>,
    relation_scores: Buffer<f32>,
    entity_gradients: Buffer<f32>,
    relation_gradients: Buffer<f32>,
    /// Gradients by parameters of entities and relations, if those are in another basis than the scored rows.
    turned: Option<[Buffer<f32>; 2]>,
    losses: Buffer<f32>,
    relation_losses: Buffer<f32>,
    /// Batches per group.
    group: usize,
    /// The epoch of the next group, and its questions.
    order: Option<(u64, Questions)>,
    next: Option<EpochQuestions>,
    /// Batches launched before the host waits for them.
    launched: usize,
}

/// Copies in 16 bits. Zero rows pad the entities to `padded`: tensor cores are three times slower if a side is odd.
struct Rounded {
    entities: Buffer<u16>,
    relations: Buffer<u16>,
    slopes: Buffer<u16>,
    relation_slopes: Buffer<u16>,
}

impl SoftmaxTraining {
    /// Memory for a plan, in groups of at most this many batches; `number` is the format of the products' factors.
    pub fn new(
        device: &Device,
        tables: &Tables,
        (mut constants, number): (Constants, Number),
        plan: &Plan<'_>,
        softmax: &Softmax,
        most: usize,
    ) -> Result<Self> {
        constants.rounded = number == Number::Half;
        let unsupported = [
            (constants.optimizer.cap != Cap::None, "softmax training with a cap"),
            (softmax.sample > 0 && !softmax.is_plain(), "a sample of candidates with such answers or losses"),
            (
                tables.transform.is_some() && (softmax.sample > 0 || softmax.relations > 0.0),
                "a sample of candidates, or relations asked for, in a model of another basis",
            ),
        ];
        if let Some((_, what)) = unsupported.iter().find(|case| case.0) {
            return Err(CudaError::Unsupported { what: (*what).into() });
        }
        let kernels = device.compile(&constants, Program::Softmax)?;
        let functions = Functions {
            queries: kernels.get("softmax_queries")?,
            slopes: kernels.get("softmax_slopes")?,
            target_slopes: kernels.get("target_slopes")?,
            backward: kernels.get("softmax_backward")?,
            relation_queries: kernels.get("relation_queries")?,
            relation_backward: kernels.get("relation_backward")?,
            gather_entities: kernels.get("gather_entities")?,
            gather_relations: kernels.get("gather_relations")?,
            penalise: kernels.get("penalise")?,
            move_all: kernels.get("move_all")?,
            to_numbers: kernels.get("to_numbers")?,
        };
        let all = 2 * (plan.triples.len() + plan.examples.len());
        let batch = softmax.batch.min(all).max(1);
        let group = batches_of_group(softmax, tables.entity_rows, batch).min(most);
        // From here on, per group.
        let all = all.min(group.saturating_mul(batch));
        let (stride, half) = (constants.entities.stride, constants.relations.width());
        let asks = usize::from(softmax.relations > 0.0);
        let ends = batch * (1 + asks);
        let candidates = asks * padded(tables.relation_rows) * constants.sides;
        let counts = Counts { entities: tables.entity_rows, questions: all, batch };
        // Candidates per question.
        let among = padded(counts.sample(softmax).unwrap_or(tables.entity_rows));
        let table_numbers = among * stride + tables.relation_rows * constants.relations.stride;
        let turned = match tables.transform {
            Some(_) => tables.parameter_floats(),
            None => [0; 2],
        };
        let copied = match number {
            Number::Full => 0,
            Number::Half => 2 * (table_numbers + batch * (among + candidates)),
        };
        let parts = [
            ("scores of a batch", 4 * batch * (among + candidates)),
            ("vectors of a batch", 4 * (batch * (2 * stride + (1 + 2 * asks) * half) + ends * stride)),
            ("gradients", 4 * (table_numbers + turned.iter().sum::<usize>())),
            ("copies in 16 bits", copied),
            ("questions", all * (16 + 12 + 16 + 4 * (2 + asks)) + 16 * counts.touched(softmax)),
            ("samples", counts.bytes(softmax, stride, number)),
        ];
        let remedy = if counts.sample(softmax).is_some() {
            "lower softmax.sample, softmax.batch or model.dimension"
        } else {
            "lower softmax.batch or model.dimension"
        };
        device.require(&parts, remedy)?;
        let sampled = Sampled::new(device, &kernels, softmax, counts, (stride, number))?;
        let rounded = match number {
            Number::Full => None,
            Number::Half => Some(Rounded {
                entities: device.zeros(if sampled.is_some() { 0 } else { among * stride })?,
                relations: device.zeros(tables.relation_rows * constants.relations.stride)?,
                slopes: device.zeros(batch * among)?,
                relation_slopes: device.zeros(batch * candidates)?,
            }),
        };
        Ok(Self {
            fit: SoftmaxFit::of(plan, softmax),
            group,
            order: None,
            number,
            rounded,
            sampled,
            softmax: *softmax,
            functions,
            questions: device.zeros(all)?,
            answers: device.zeros(all)?,
            relations: device.zeros(all)?,
            weights: device.zeros(all)?,
            target_ends: device.zeros(if softmax.is_plain() { 0 } else { all + 1 })?,
            targets: device.zeros(if softmax.is_plain() { 0 } else { all })?,
            touched_entities: device.zeros(counts.touched(softmax))?,
            entity_slots: device.zeros((1 + asks) * all)?,
            touched_relations: device.zeros(all)?,
            relation_slots: device.zeros(all)?,
            queries: device.zeros(batch * stride * number.bytes())?,
            relation_queries: device.zeros(asks * batch * half * number.bytes())?,
            d_queries: device.zeros(batch * stride)?,
            d_ends: device.zeros(ends * stride)?,
            d_relations: device.zeros(batch * half)?,
            d_relation_queries: device.zeros(asks * batch * half)?,
            scores: device.zeros(batch * among)?,
            relation_scores: device.zeros(batch * candidates)?,
            entity_gradients: device.zeros(among * stride)?,
            relation_gradients: device.zeros(tables.relation_rows * constants.relations.stride)?,
            turned: match tables.transform {
                Some(_) => Some([device.zeros(turned[0])?, device.zeros(turned[1])?]),
                None => None,
            },
            losses: device.zeros(all)?,
            relation_losses: device.zeros(all)?,
            next: None,
            launched: LAUNCHED,
            constants,
        })
    }

    /// Whether the memory fits this plan.
    pub fn fits(&self, plan: &Plan<'_>, softmax: &Softmax) -> bool {
        self.fit == SoftmaxFit::of(plan, softmax)
    }

    /// One epoch. `steps` counts gradient steps.
    pub fn epoch(
        &mut self,
        device: &Device,
        tables: &Tables,
        plan: &Plan<'_>,
        epoch: u64,
        steps: &mut u64,
    ) -> Result<Losses> {
        self.round_tables(device, tables)?;
        let started = Instant::now();
        let (mut sum, mut batches) = (0.0, 0);
        loop {
            let group = Group { epoch, first: batches, steps: *steps };
            let data = match self.next.take() {
                Some(data) if data.group == group => data,
                _ => self.questions_of(plan, group),
            };
            let found = self.group(device, tables, plan, &data, steps)?;
            batches += data.batches.len();
            let of_epoch = self.order.as_ref().map_or(0, |(_, order)| order.batch_count());
            let done = batches >= of_epoch;
            let next = if done { (epoch + 1, 0) } else { (epoch, batches) };
            self.next = Some(self.questions_of(plan, Group { epoch: next.0, first: next.1, steps: *steps }));
            let mut losses = vec![0.0f32; found];
            device.get(&self.losses, &mut losses)?;
            sum += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
            if done {
                let share = LONG / started.elapsed().as_secs_f64();
                self.launched = ((share * batches as f64) as usize).max(1);
                return Ok(Losses { labeled: sum / batches.max(1) as f64, unlabeled: 0.0 });
            }
        }
    }

    /// The questions of a group of batches.
    fn questions_of(&mut self, plan: &Plan<'_>, group: Group) -> EpochQuestions {
        if self.order.as_ref().is_none_or(|order| order.0 != group.epoch) {
            self.order = Some((group.epoch, Questions::new(plan, &self.softmax, group.epoch)));
        }
        let Some((_, order)) = &self.order else { return EpochQuestions::default() };
        EpochQuestions::new(plan, &self.softmax, order, (group, self.group), self.constants.sides as u32)
    }

    /// Trains on a group of batches; returns the number of losses on the GPU.
    fn group(
        &mut self,
        device: &Device,
        tables: &Tables,
        plan: &Plan<'_>,
        data: &EpochQuestions,
        steps: &mut u64,
    ) -> Result<usize> {
        if let Some(sampled) = &mut self.sampled {
            sampled.put(device, data)?;
        }
        device.put(&data.questions, &mut self.questions)?;
        device.put(&data.answers, &mut self.answers)?;
        device.put(&data.relations, &mut self.relations)?;
        device.put(&data.weights, &mut self.weights)?;
        device.put(&data.target_ends, &mut self.target_ends)?;
        device.put(&data.targets, &mut self.targets)?;
        device.put(&data.touched_entities, &mut self.touched_entities)?;
        device.put(&data.entity_slots, &mut self.entity_slots)?;
        device.put(&data.touched_relations, &mut self.touched_relations)?;
        device.put(&data.relation_slots, &mut self.relation_slots)?;
        for (batch, range) in data.batches.iter().enumerate() {
            *steps += 1;
            if let Some(sampled) = &self.sampled {
                sampled.gather(device, tables.scored().0, batch)?;
            }
            let dropout = Drop::of(self.softmax.dropout(plan.seed, *steps));
            self.step(device, tables, range, *steps, (plan.rate, dropout))?;
            // Launched work cannot be cancelled, so only a limited amount is launched at a time.
            if batch % self.launched == self.launched - 1 {
                device.wait()?;
                plan.check()?;
            }
        }
        Ok(data.questions.len())
    }

    /// Recomputes the 16-bit copies from the tables, which may have been restored. A sample's rows are rounded as they
    /// are gathered; the others have no copy.
    fn round_tables(&self, device: &Device, tables: &Tables) -> Result<()> {
        let Some(rounded) = &self.rounded else { return Ok(()) };
        for (table, copy) in tables.images().into_iter().zip([&rounded.entities, &rounded.relations]) {
            let count = copy.slice.len().min(table.slice.len()) as u64;
            let layout = LaunchConfig { grid_dim: (4096, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: both have `count` entries.
            unsafe {
                device
                    .stream
                    .launch_builder(&self.functions.to_numbers)
                    .arg(&table.address)
                    .arg(&copy.address)
                    .arg(&count)
                    .launch(layout)
            }
            .doing("rounding rows")?;
        }
        Ok(())
    }

    /// The tables in the products' number format.
    fn factors(&self, tables: &Tables) -> (u64, u64) {
        let (entities, relations) = match &self.rounded {
            Some(rounded) => (rounded.entities.address, rounded.relations.address),
            None => tables.scored(),
        };
        (self.sampled.as_ref().map_or(entities, Sampled::rows), relations)
    }

    fn layout(&self, items: usize) -> LaunchConfig {
        let blocks = items.div_ceil(self.constants.teams()).clamp(1, 1 << 20);
        LaunchConfig {
            grid_dim: (blocks as u32, 1, 1),
            block_dim: (self.constants.block() as u32, 1, 1),
            shared_mem_bytes: 0,
        }
    }

    fn step(
        &mut self,
        device: &Device,
        tables: &Tables,
        range: &Range,
        step: u64,
        (rate, dropout): (f32, Drop),
    ) -> Result<()> {
        let (entities, relations) = tables.scored();
        let rows = self.constants.entities;
        let first = range.questions[0];
        let count = range.questions[1] - first;
        let number = count as u32;
        let questions = self.questions.address + (first * size_of::<Quad>()) as u64;
        let stream = &device.stream;
        let among = self.sampled.as_ref().map_or(tables.entity_rows, Sampled::size);
        // Null, unless candidates are a sample.
        let [own, d_own] = self.sampled.as_ref().map_or([0; 2], Sampled::own);
        // SAFETY: (for all launches and products of this function) arguments match the kernels' parameter lists;
        // buffers were created for the largest batch, and questions name rows of the tables.
        unsafe {
            stream
                .launch_builder(&self.functions.queries)
                .arg(&questions)
                .arg(&number)
                .arg(&entities)
                .arg(&relations)
                .arg(&dropout)
                .arg(&self.queries.address)
                .arg(&own)
                .launch(self.layout(count))
        }
        .doing("making queries")?;
        let queries = Matrix::rows(self.queries.address, rows.stride).of(self.number);
        let candidates = Matrix::rows(self.factors(tables).0, rows.stride).of(self.number);
        let scores = Scores {
            address: self.scores.address,
            slopes: self.rounded.as_ref().map_or(self.scores.address, |rounded| rounded.slopes.address),
            stride: padded(among),
            candidates: among,
            gap: [0, 0],
        };
        let out = Out::rows(scores.address, scores.stride);
        // Slopes of the padding rows are never written and stay 0.
        let among = if self.rounded.is_some() { scores.stride } else { among };
        let all = Size { rows: count, columns: among, inner: rows.width() };
        // SAFETY: see above.
        unsafe { device.multiply(all, queries, candidates.transposed(), out, "scoring all entities") }?;
        let at = |buffer: &Buffer<u32>| buffer.address + 4 * first as u64;
        let (answers, losses) = (at(&self.answers), self.losses.address + 4 * first as u64);
        match &self.sampled {
            Some(sampled) => {
                let places = (scores.address, scores.slopes, scores.stride);
                sampled.slopes(device, range, places, self.weights.address, self.losses.address)?;
            }
            None if self.softmax.is_plain() => self.slopes(device, first, count, scores, answers, losses, 1.0)?,
            None => self.target_slopes(device, first, count, scores, losses)?,
        }
        let slopes = Matrix::rows(scores.slopes, scores.stride).of(self.number);
        let scaled = |address: u64, stride: usize| Out { scale: 1.0 / count as f32, ..Out::rows(address, stride) };
        let back = Size { rows: count, columns: rows.width(), inner: among };
        let to_entities = Size { rows: among, columns: rows.width(), inner: count };
        // SAFETY: see above.
        unsafe {
            let out = scaled(self.d_queries.address, rows.stride);
            device.multiply(back, slopes, candidates, out, "going back to queries")?;
            let gradients = scaled(self.entity_gradients.address, rows.stride);
            device.multiply(to_entities, slopes.transposed(), queries, gradients, "going back to entities")?;
            stream
                .launch_builder(&self.functions.backward)
                .arg(&questions)
                .arg(&number)
                .arg(&entities)
                .arg(&relations)
                .arg(&dropout)
                .arg(&self.d_queries.address)
                .arg(&d_own)
                .arg(&self.d_ends.address)
                .arg(&self.d_relations.address)
                .launch(self.layout(count))
        }
        .doing("going back to rows")?;
        if self.softmax.relations > 0.0 {
            self.ask_relations(device, tables, first, count)?;
        } else {
            device.clear(&mut self.relation_gradients)?;
        }

        self.move_tables(device, tables, range, step, rate)
    }

    /// Slopes for given targets.
    fn target_slopes(&self, device: &Device, first: usize, count: usize, scores: Scores, losses: u64) -> Result<()> {
        let (stride, candidates) = (scores.stride as u32, scores.candidates as u32);
        let (ends, weights) = (self.target_ends.address + 4 * first as u64, self.weights.address + 4 * first as u64);
        let (factor, binary) = (1.0 / count as f32, i32::from(self.softmax.loss == AnswerLoss::Bce));
        let layout = LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (512, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: each question has a row of scores, a range of targets, a weight and room for the loss.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.target_slopes)
                .arg(&scores.address)
                .arg(&stride)
                .arg(&candidates)
                .arg(&ends)
                .arg(&self.targets.address)
                .arg(&weights)
                .arg(&factor)
                .arg(&self.softmax.smoothing)
                .arg(&binary)
                .arg(&scores.slopes)
                .arg(&losses)
                .launch(layout)
        }
        .doing("meeting the targets")?;
        Ok(())
    }

    /// The slopes of a batch's scores, to be divided by the number of questions; `weight` multiplies the losses.
    #[allow(clippy::too_many_arguments, reason = "a launch, spelled out")]
    fn slopes(
        &self,
        device: &Device,
        first: usize,
        count: usize,
        scores: Scores,
        answers: u64,
        losses: u64,
        weight: f32,
    ) -> Result<()> {
        let (stride, candidates) = (scores.stride as u32, scores.candidates as u32);
        let gap = Pair(scores.gap[0] as u32, scores.gap[1] as u32);
        let weights = self.weights.address + 4 * first as u64;
        let factor = weight / count as f32;
        let layout = LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (512, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: each question has a row of scores, an answer, a weight and room for the loss.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.slopes)
                .arg(&scores.address)
                .arg(&stride)
                .arg(&candidates)
                .arg(&gap)
                .arg(&answers)
                .arg(&weights)
                .arg(&factor)
                .arg(&scores.slopes)
                .arg(&losses)
                .launch(layout)
        }
        .doing("taking the softmax")?;
        Ok(())
    }
}
