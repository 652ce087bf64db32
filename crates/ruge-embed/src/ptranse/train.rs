//! Training: L1 energies, margins, plain gradient descent.
//!
//! E(h,r,t) = ‖h + r − t‖₁ and E(p,r) = ‖r − Σ_{ρ∈p} ρ‖₁. A sampled triple of the doubled list is compared with a
//! corruption of its tail (¼), head (¼) or relation (½), with margin δ. For every path of its pair, its relation is
//! compared with one that does not link the pair, with margin 2δ and weight R(p|h,t)·(0.99·P(r|p) + 0.01).
//!
//! *Order.* All draws are functions of (seed, epoch, position). The gradients of a batch are taken at its starting
//! parameters, in a fixed number of parts shared by the threads; parts are added in order, so the bits do not depend on
//! the number of threads. Losses are sums, not means. After each sample its two entities and the corrupting one are
//! scaled back to ‖·‖₂ ≤ 1, as in the reference. The relations sampled in a part are scaled only after that part (a
//! sixteenth of the batch), since the paths of a sample pull on many relations and threads share those sums.

use std::sync::Arc;

use rayon::prelude::*;
use ruge_kg::control::Control;
use ruge_kg::random::{self, Stream};
use ruge_kg::{EntityId, Graph, Label, Triple};

use super::PTransEConfig;
use super::gradient::{Part, SampleGradients, bound};
use super::paths::Paths;
use crate::cpu::Isa;
use crate::model::State;
use crate::{EmbedError, Embeddings, Result, Table};

const INIT_ENTITIES: Stream = Stream(0x501);
const INIT_RELATIONS: Stream = Stream(0x502);
/// The stream for sampled triples.
const SAMPLES: Stream = Stream(0x503);
/// The stream for what is corrupted.
const SIDES: Stream = Stream(0x504);
/// The stream for the corrupting entity or relation.
const CORRUPTIONS: Stream = Stream(0x505);
/// The stream for the relation that paths are compared with.
const PATH_CORRUPTIONS: Stream = Stream(0x506);

/// Draws before a corruption is skipped.
const ATTEMPTS: u64 = 100;
/// Parts of a batch: shared by threads, and added in order.
const PARTS: usize = 16;

/// A PTransE model in training.
#[derive(Debug)]
pub struct PTransE {
    pub(super) paths: Paths,
    pub(super) config: PTransEConfig,
    seed: u64,
    pub(super) state: State,
    pub(super) isa: Isa,
    parts: Vec<Part>,
}

/// The replacement in a doubled triple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Corruption {
    Head(EntityId),
    Tail(EntityId),
    Relation(Label),
}

/// The draws of one position of an epoch. A corruption that was not found is `None`, and its term is skipped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub link: usize,
    pub corruption: Option<Corruption>,
    pub path_relation: Option<Label>,
}

impl PTransE {
    /// Finds the paths of the training graph and initialises the rows.
    pub fn new(graph: Arc<Graph>, config: PTransEConfig, seed: u64) -> Result<Self> {
        Ok(Self::with_paths(Paths::extract(graph, &config, &Control::default())?, config, seed))
    }

    /// Initialises the rows for paths found with the same settings: normal within ±6/√d, then entities in the unit
    /// ball.
    pub fn with_paths(paths: Paths, config: PTransEConfig, seed: u64) -> Self {
        let graph = paths.doubled().graph();
        let labels = paths.doubled().label_count();
        let mut entities = start(graph.entity_count(), &config, seed, INIT_ENTITIES);
        (0..entities.rows()).for_each(|index| bound(entities.row_mut(index)));
        let relations = start(labels, &config, seed, INIT_RELATIONS);
        let parts = (0..PARTS).map(|_| Part::new(labels, config.dimension)).collect();
        let embeddings = Embeddings { entities, relations };
        let state = State { embeddings, moments: Vec::new(), steps: 0 };
        Self { paths, config, seed, state, isa: Isa::detect(), parts }
    }

    /// The paths of the training graph.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The settings.
    pub fn config(&self) -> &PTransEConfig {
        &self.config
    }

    /// The current rows: entities; relations followed by inverse relations.
    pub fn embeddings(&self) -> &Embeddings {
        &self.state.embeddings
    }

    /// Uses another instruction set; the bits are the same.
    pub fn set_isa(&mut self, isa: Isa) {
        self.isa = isa;
    }

    /// Batches per epoch: as set, but at most the number of triples in the doubled list.
    pub fn batches(&self) -> usize {
        self.config.batches.clamp(1, self.paths.doubled().link_count().max(1))
    }

    /// Positions per batch.
    pub fn batch_size(&self) -> usize {
        (self.paths.doubled().link_count() / self.batches()).max(1)
    }

    /// Runs the epoch with this number, counted from 1; returns the mean loss per sample.
    pub fn epoch(&mut self, number: u64, control: &Control<'_>) -> Result<f64> {
        self.paths.list_features(control)?;
        let (size, batches) = (self.batch_size(), self.batches());
        let mut loss = 0.0;
        if self.paths.doubled().link_count() > 0 {
            for batch in 0..batches {
                control.check()?;
                loss += self.batch(number, batch * size, size);
            }
            loss /= (size * batches) as f64;
        }
        if !loss.is_finite() || !self.state.embeddings.is_finite() {
            let rate = self.config.rate;
            return Err(EmbedError::Diverged { epoch: number, loss, entity_rate: rate, relation_rate: rate });
        }
        Ok(loss)
    }

    fn batch(&mut self, epoch: u64, first: usize, size: usize) -> f64 {
        let loss = self.gradients(epoch, first, size);
        self.descend();
        self.state.steps += 1;
        loss
    }

    /// Computes the gradients of a batch into the parts; returns its loss.
    fn gradients(&mut self, epoch: u64, first: usize, size: usize) -> f64 {
        let mut parts = std::mem::take(&mut self.parts);
        let model = &*self;
        parts.par_iter_mut().enumerate().for_each(|(index, part)| {
            let positions = first + size * index / PARTS..first + size * (index + 1) / PARTS;
            part.clear();
            model.isa.run(SampleGradients { model, part, epoch, positions });
        });
        self.parts = parts;
        self.parts.iter().map(|part| part.loss).sum()
    }

    /// Subtracts the gradients of all parts in order, and scales back into the unit ball.
    fn descend(&mut self) {
        let Self { parts, state: State { embeddings: Embeddings { entities, relations }, .. }, config, .. } = self;
        let rate = config.rate;
        let (width, stride) = (relations.width(), relations.stride());
        rayon::join(
            || {
                relations.as_mut_slice().par_chunks_mut(stride).enumerate().for_each(|(index, row)| {
                    let row = &mut row[..width];
                    for part in parts.iter().filter(|part| part.touched[index] || part.sampled[index]) {
                        row.iter_mut().zip(part.relations.row(index)).for_each(|(x, g)| *x -= rate * g);
                        if part.sampled[index] {
                            bound(row);
                        }
                    }
                });
            },
            || {
                for part in parts.iter() {
                    let mut at = 0;
                    for &(end, bounded) in &part.samples {
                        for place in at..end {
                            let row = entities.row_mut(part.entities[place] as usize);
                            let moves = &part.moves[place * width..][..width];
                            row.iter_mut().zip(moves).for_each(|(x, &times)| *x -= rate * f32::from(times));
                        }
                        bounded.into_iter().flatten().for_each(|entity| bound(entities.row_mut(entity.index())));
                        at = end;
                    }
                }
            },
        );
    }

    pub(super) fn sample(&self, epoch: u64, position: usize) -> Sample {
        let graph = self.paths.doubled().graph();
        let draw = |stream, place| random::draw(self.seed, stream, epoch, place);
        let position = position as u64;
        let link = random::below(draw(SAMPLES, position), self.paths.doubled().link_count() as u64) as usize;
        let (head, label, tail) = self.paths.triple(link);
        let side = random::below(draw(SIDES, position), 4);
        let pick = |stream, attempt, bound: usize| {
            random::below(draw(stream, position * ATTEMPTS + attempt), bound as u64) as u32
        };
        let corruption = (0..ATTEMPTS).find_map(|attempt| match side {
            0 => {
                let other = EntityId(pick(CORRUPTIONS, attempt, graph.entity_count()));
                (!linked(graph, head, label, other)).then_some(Corruption::Tail(other))
            }
            1 => {
                let other = EntityId(pick(CORRUPTIONS, attempt, graph.entity_count()));
                (!linked(graph, other, label, tail)).then_some(Corruption::Head(other))
            }
            _ => {
                let other = Label(pick(CORRUPTIONS, attempt, 2 * graph.relation_count()));
                (!linked(graph, head, other, tail)).then_some(Corruption::Relation(other))
            }
        });
        let path_relation = (0..ATTEMPTS)
            .map(|attempt| Label(pick(PATH_CORRUPTIONS, attempt, 2 * graph.relation_count())))
            .find(|&other| !linked(graph, head, other, tail));
        Sample { link, corruption, path_relation }
    }

    /// The loss of a batch and its gradient by entity and relation rows, for tests.
    #[cfg(test)]
    pub(super) fn loss_and_gradient(&mut self, epoch: u64, first: usize, size: usize) -> (f64, Table, Table) {
        let loss = self.gradients(epoch, first, size);
        let Embeddings { entities, relations } = &self.state.embeddings;
        let width = entities.width();
        let mut down = (Table::zeros(entities.rows(), width), Table::zeros(relations.rows(), width));
        for part in &self.parts {
            for (&index, moves) in part.entities.iter().zip(part.moves.chunks_exact(width)) {
                down.0.row_mut(index as usize).iter_mut().zip(moves).for_each(|(x, &times)| *x += f32::from(times));
            }
            for index in (0..relations.rows()).filter(|&index| part.touched[index]) {
                down.1.row_mut(index).iter_mut().zip(part.relations.row(index)).for_each(|(x, g)| *x += g);
            }
        }
        (loss, down.0, down.1)
    }
}

fn linked(graph: &Graph, head: EntityId, label: Label, tail: EntityId) -> bool {
    let triple = Triple { head, relation: label.relation(), tail };
    graph.contains(if label.is_inverse() { triple.reversed() } else { triple })
}

/// Initial values. The reference rejects uniform draws under the density; the distribution is the same.
fn start(rows: usize, config: &PTransEConfig, seed: u64, stream: Stream) -> Table {
    let (dimension, deviation) = (config.dimension, f64::from(config.deviation));
    let limit = 6.0 / (dimension as f64).sqrt();
    let mut table = Table::zeros(rows, dimension);
    for index in 0..rows {
        for (column, x) in table.row_mut(index).iter_mut().enumerate() {
            let unit = |k| random::unit(random::draw(seed, stream, index as u64, (2 * column + k) as u64));
            // Box and Muller; 1 − u is never 0.
            let normal = (-2.0 * (1.0 - unit(0)).ln()).sqrt() * (std::f64::consts::TAU * unit(1)).cos();
            *x = (deviation * normal).clamp(-limit, limit) as f32;
        }
    }
    table
}
