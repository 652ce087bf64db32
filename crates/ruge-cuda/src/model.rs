//! Θ on the GPU, behind the same [`Model`] trait as on the CPU.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ruge_embed::evidence::Guidance;
use ruge_embed::scoring::{Comparator, entity_parameters, relation_parameters};
use ruge_embed::{
    EmbedError, Embeddings, Losses, Model, Objective, Optimizer, Plan, ScoringFunction, Softmax, State, Table,
};
use ruge_kg::{Control, Filter, Rank, RankError, RankQuery, Ranker, Scored, TopOptions, Triple};

use crate::device::{Buffer, Device};
use crate::error::{CudaError, Result};
use crate::product::{Matrix, Number, Out, Size};
use crate::rank::RankKernels;
use crate::softmax::SoftmaxTraining;
use crate::source::{Constants, RowShape};
use crate::training::Training;

/// A model on a GPU.
pub struct CudaModel {
    name: &'static str,
    device: Device,
    constants: Constants,
    tables: Tables,
    steps: u64,
    training: Option<Training>,
    softmax: Option<SoftmaxTraining>,
    full_precision: bool,
    /// Maximum batches per group in softmax training.
    group: usize,
    ranker: RankKernels,
    /// The host's copy of the state, fetched on demand and dropped by the next epoch.
    state: OnceLock<State>,
    lock: Mutex<()>,
}

/// The model's rows and the optimiser's state.
pub(crate) struct Tables {
    pub entities: Buffer<f32>,
    pub relations: Buffer<f32>,
    pub entity_rows: usize,
    pub relation_rows: usize,
    /// Entity and relation tables of each moment.
    moments: Vec<[Buffer<f32>; 2]>,
    /// Rows as scored, if that basis differs from the parameters'.
    images: Option<[Buffer<f32>; 2]>,
    pub transform: Option<Transforms>,
}

/// Linear maps from parameters to scored rows, as matrices.
pub(crate) struct Transforms {
    pub entities: LinearMap,
    pub relations: LinearMap,
}

/// One row per parameter: its image.
pub(crate) struct LinearMap {
    pub buffer: Buffer<f32>,
    pub parameters: RowShape,
    pub images: RowShape,
}

impl LinearMap {
    /// Images of rows.
    ///
    /// # Safety
    /// Both tables must have this many rows with the strides of this map.
    unsafe fn forth(&self, device: &Device, parameters: u64, images: u64, rows: usize) -> Result<()> {
        let size = Size { rows, columns: self.images.width(), inner: self.parameters.width() };
        let parameters = Matrix::rows(parameters, self.parameters.stride);
        let map = Matrix::rows(self.buffer.address, self.images.stride);
        let out = Out::rows(images, self.images.stride);
        // SAFETY: the caller guarantees the tables; the matrix has a row per parameter.
        unsafe { device.multiply(size, parameters, map, out, "transforming rows") }
    }

    /// Gradients by parameters from those by images.
    ///
    /// # Safety
    /// Both tables must have this many rows with the strides of this map.
    pub unsafe fn back(&self, device: &Device, images: u64, parameters: u64, rows: usize) -> Result<()> {
        let size = Size { rows, columns: self.parameters.width(), inner: self.images.width() };
        let images = Matrix::rows(images, self.images.stride);
        let map = Matrix::rows(self.buffer.address, self.images.stride).transposed();
        let out = Out::rows(parameters, self.parameters.stride);
        // SAFETY: the caller guarantees the tables; the matrix has a row per parameter.
        unsafe { device.multiply(size, images, map, out, "turning gradients") }
    }
}

impl Tables {
    /// The rows as scored, of entities and of relations.
    pub fn images(&self) -> [&Buffer<f32>; 2] {
        match &self.images {
            Some([entities, relations]) => [entities, relations],
            None => [&self.entities, &self.relations],
        }
    }

    /// Addresses of the rows as scored.
    pub fn scored(&self) -> (u64, u64) {
        let [entities, relations] = self.images();
        (entities.address, relations.address)
    }

    /// Floats in the parameter tables of entities and relations, including gaps.
    pub fn parameter_floats(&self) -> [usize; 2] {
        [self.entities.slice.len(), self.relations.slice.len()]
    }

    /// Addresses of the moments of one kind of rows (0 for entities, 1 for relations); 0 if there are none.
    pub fn moments(&self, kind: usize) -> [u64; 2] {
        let of = |at: usize| self.moments.get(at).map_or(0, |pair| pair[kind].address);
        [of(0), of(1)]
    }

    /// Recomputes the images from the parameters.
    pub fn refresh_images(&self, device: &Device) -> Result<()> {
        let (Some([entities, relations]), Some(transform)) = (&self.images, &self.transform) else { return Ok(()) };
        // SAFETY: the tables were created with these rows and the strides of the matrices.
        unsafe {
            transform.entities.forth(device, self.entities.address, entities.address, self.entity_rows)?;
            transform.relations.forth(device, self.relations.address, relations.address, self.relation_rows)
        }
    }
}

impl CudaModel {
    /// Returns an error, with the sizes, if the model's rows do not fit on the GPU. Call it before creating anything.
    pub fn require<F: ScoringFunction>(
        device: &Device,
        scoring: &F,
        entities: usize,
        relations: usize,
        optimizer: Optimizer,
    ) -> Result<()> {
        let constants = constants(scoring, optimizer);
        let floats = |entity: RowShape, relation: RowShape| entities * entity.stride + relations * relation.stride;
        let parameters = 4 * floats(constants.entity_parameters, constants.relation_parameters);
        let transformed = 4 * floats(constants.entities, constants.relations);
        let parts = [
            ("parameters", parameters),
            ("the optimiser's memory", parameters * optimizer.state_tables()),
            ("transformed rows", if scoring.transform().is_some() { transformed } else { 0 }),
        ];
        device.require(&parts, "lower model.dimension")
    }

    /// A model before its first step, with its rows on the GPU.
    pub fn new<F: ScoringFunction>(
        device: Device,
        scoring: &F,
        start: &Embeddings,
        optimizer: Optimizer,
    ) -> Result<Self> {
        let known = ["complex", "hole", "distmult", "transe-l1", "transe-l2", "rotate"];
        if !known.contains(&F::NAME) {
            return Err(CudaError::Unsupported { what: format!("the model {}", F::NAME) });
        }
        let constants = constants(scoring, optimizer);
        let ranker = RankKernels::new(&device, &constants)?;
        let (entity_rows, relation_rows) = (start.entities.rows(), start.relations.rows());
        Self::require(&device, scoring, entity_rows, relation_rows, optimizer)?;
        let transform = match scoring.transform() {
            None => None,
            Some(transform) => {
                let mut scratch = transform.scratch();
                let mut matrix = |parameters: RowShape, images: RowShape, entity: bool| {
                    let mut all = vec![0.0f32; parameters.width() * images.stride];
                    let mut unit = vec![0.0f32; parameters.width()];
                    for (at, image) in all.chunks_exact_mut(images.stride).enumerate() {
                        unit[at] = 1.0;
                        let image = &mut image[..images.width()];
                        match entity {
                            true => transform.entity(&unit, image, &mut scratch),
                            false => transform.relation(&unit, image, &mut scratch),
                        }
                        unit[at] = 0.0;
                    }
                    Ok::<_, CudaError>(LinearMap { buffer: device.copy(&all)?, parameters, images })
                };
                Some(Transforms {
                    entities: matrix(constants.entity_parameters, constants.entities, true)?,
                    relations: matrix(constants.relation_parameters, constants.relations, false)?,
                })
            }
        };
        let images = match &transform {
            None => None,
            Some(_) => Some([
                device.zeros(entity_rows * constants.entities.stride)?,
                device.zeros(relation_rows * constants.relations.stride)?,
            ]),
        };
        let mut moments = Vec::new();
        for _ in 0..optimizer.state_tables() {
            moments.push([
                device.zeros(entity_rows * constants.entity_parameters.stride)?,
                device.zeros(relation_rows * constants.relation_parameters.stride)?,
            ]);
        }
        let tables = Tables {
            entities: device.copy(start.entities.as_slice())?,
            relations: device.copy(start.relations.as_slice())?,
            entity_rows,
            relation_rows,
            moments,
            images,
            transform,
        };
        tables.refresh_images(&device)?;
        ranker.warm_up(&device, &tables)?;
        Ok(Self {
            name: F::NAME,
            device,
            constants,
            tables,
            steps: 0,
            training: None,
            softmax: None,
            full_precision: false,
            group: usize::MAX,
            ranker,
            state: OnceLock::new(),
            lock: Mutex::new(()),
        })
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Softmax training without tensor cores: slower, but close enough to the CPU to be compared with it.
    pub fn in_full_precision(mut self) -> Self {
        self.full_precision = true;
        self
    }

    /// Softmax training in groups of at most `batches`; by default as many as memory allows. Does not change the bits.
    pub fn in_groups_of(mut self, batches: usize) -> Self {
        self.group = batches.max(1);
        self
    }

    fn train_by_softmax(&mut self, plan: &Plan<'_>, softmax: &Softmax, epoch: u64) -> Result<Losses> {
        if !self.softmax.as_ref().is_some_and(|training| training.fits(plan, softmax)) {
            self.softmax = None;
            let number = if self.full_precision { Number::Full } else { Number::Half };
            self.softmax = Some(SoftmaxTraining::new(
                &self.device,
                &self.tables,
                (self.constants.clone(), number),
                plan,
                softmax,
                self.group,
            )?);
        }
        let Some(training) = &mut self.softmax else { return Ok(Losses::default()) };
        training.epoch(&self.device, &self.tables, plan, epoch, &mut self.steps)
    }

    fn fetch(&self) -> Result<State> {
        let table = |buffer: &Buffer<f32>, rows: usize, shape: RowShape| {
            let mut table = Table::zeros(rows, shape.width());
            self.device.get(buffer, table.as_mut_slice())?;
            Ok::<_, CudaError>(table)
        };
        let (entities, relations) = (self.constants.entity_parameters, self.constants.relation_parameters);
        let pair = |e: &Buffer<f32>, r: &Buffer<f32>| {
            Ok::<_, CudaError>(Embeddings {
                entities: table(e, self.tables.entity_rows, entities)?,
                relations: table(r, self.tables.relation_rows, relations)?,
            })
        };
        let embeddings = pair(&self.tables.entities, &self.tables.relations)?;
        let moments = self.tables.moments.iter().map(|[e, r]| pair(e, r)).collect::<Result<_>>()?;
        Ok(State { embeddings, moments, steps: self.steps })
    }

    fn train(&mut self, plan: &Plan<'_>, epoch: u64) -> Result<Losses> {
        if let Some(softmax) = &plan.softmax {
            return self.train_by_softmax(plan, softmax, epoch);
        }
        if self.constants.sides == 2 {
            return Err(CudaError::Unsupported { what: "reciprocal relations without softmax".into() });
        }
        if !self.training.as_ref().is_some_and(|training| training.fits(plan)) {
            self.training = None;
            self.training = Some(Training::new(&self.device, &self.tables, self.constants.clone(), plan, epoch)?);
        }
        let Some(training) = &mut self.training else { return Ok(Losses::default()) };
        let losses = training.epoch(&self.device, &mut self.tables, plan, epoch, self.steps)?;
        self.steps += (plan.batches * plan.inner_steps) as u64;
        Ok(losses)
    }

    /// The stream and cuBLAS serve one caller at a time.
    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The constants for a model's kernels, before a plan is known.
pub fn constants<F: ScoringFunction>(scoring: &F, optimizer: Optimizer) -> Constants {
    let stride = |width: usize| Table::zeros(0, width).stride();
    let shape =
        |width: usize, components: usize| RowShape { entries: width / components, components, stride: stride(width) };
    let transformed = scoring.transform().is_some();
    // Transformed rows are complex. Others have as many components as parts, except if a relation is a rotation.
    let complex = transformed || F::COMPARATOR == Comparator::NegModulus || scoring.entity_parts() == 2;
    let entity_components = if complex { 2 } else { 1 };
    let sides = scoring.relation_sides();
    let relation_components = if transformed { 2 } else { scoring.relation_parts() / sides };
    let relation_width = scoring.relation_width();
    let one_side = RowShape {
        entries: relation_width / (sides * relation_components),
        components: relation_components,
        stride: stride(relation_width),
    };
    Constants {
        model: F::NAME,
        dimension: scoring.dimension(),
        entities: shape(scoring.entity_width(), entity_components),
        relations: one_side,
        entity_parameters: shape(entity_parameters(scoring), scoring.entity_parts()),
        relation_parameters: shape(relation_parameters(scoring), scoring.relation_parts()),
        negatives: 1,
        all_entities: 1,
        objective: Objective::default(),
        guidance: Guidance::None,
        optimizer,
        premises: 1,
        stack: 1,
        sides,
        rounded: true,
    }
}

fn embed(error: CudaError) -> EmbedError {
    match error {
        CudaError::Cancelled(cancelled) => cancelled.into(),
        other => EmbedError::Device { lasting: other.is_lasting(), source: other.into() },
    }
}

fn ranking(error: CudaError) -> RankError {
    match error {
        CudaError::Cancelled(cancelled) => cancelled.into(),
        other => RankError::Device { lasting: other.is_lasting(), source: other.into() },
    }
}

impl Ranker for CudaModel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn entity_count(&self) -> usize {
        self.tables.entity_rows
    }

    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
        let _one = self.one_at_a_time();
        self.ranker.score(&self.device, &self.tables, triples, scores).map_err(ranking)
    }

    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<(), RankError> {
        self.score_many(&[query], scores)
    }

    /// Sums over many queries at a time may be rounded differently from those of one.
    fn score_many(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        let _one = self.one_at_a_time();
        self.ranker.score_many(&self.device, &self.tables, queries, scores).map_err(ranking)
    }

    fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        control: &Control<'_>,
    ) -> Result<Vec<Rank>, RankError> {
        let _one = self.one_at_a_time();
        self.ranker.rank(&self.device, &self.tables, queries, known, control).map_err(ranking)
    }

    fn top(
        &self,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Scored>>, RankError> {
        let _one = self.one_at_a_time();
        self.ranker.top(&self.device, &self.tables, queries, options, control).map_err(ranking)
    }
}

impl Model for CudaModel {
    fn epoch(&mut self, plan: &Plan<'_>, epoch: u64) -> ruge_embed::Result<Losses> {
        self.state = OnceLock::new();
        let losses = self.train(plan, epoch).map_err(embed)?;
        let loss = losses.labeled + losses.unlabeled;
        if loss.is_finite() {
            return Ok(losses);
        }
        let Optimizer { entity_rate, relation_rate, .. } = self.constants.optimizer;
        Err(EmbedError::Diverged { epoch, loss, entity_rate, relation_rate })
    }

    fn state(&self) -> ruge_embed::Result<&State> {
        if self.state.get().is_none() {
            let state = self.fetch().map_err(embed)?;
            let _ = self.state.set(state);
        }
        self.state
            .get()
            .ok_or_else(|| EmbedError::Device { source: "the state could not be kept".into(), lasting: false })
    }

    fn restore(&mut self, state: State) -> ruge_embed::Result<()> {
        ruge_embed::model::check_shapes(&state, self.state()?)?;
        let put = |table: &Table, buffer: &mut Buffer<f32>| self.device.put(table.as_slice(), buffer).map_err(embed);
        put(&state.embeddings.entities, &mut self.tables.entities)?;
        put(&state.embeddings.relations, &mut self.tables.relations)?;
        for (moment, [entities, relations]) in state.moments.iter().zip(&mut self.tables.moments) {
            put(&moment.entities, entities)?;
            put(&moment.relations, relations)?;
        }
        self.steps = state.steps;
        self.tables.refresh_images(&self.device).map_err(embed)?;
        self.device.wait().map_err(embed)?;
        self.state = OnceLock::from(state);
        Ok(())
    }
}
