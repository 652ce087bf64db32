//! The launches of an epoch in order: negatives and transpose, then the steps, then the losses.
//!
//! Safety, for all launches: arguments match the kernels' parameter lists; every buffer was created for the largest
//! batch; kernels stay within the ranges of `batches`, which come from the same plan.

use std::ops::Range;

use cudarc::driver::{LaunchConfig, PushKernelArg};
use ruge_embed::evidence::Guidance;
use ruge_embed::optimizer::{Cap, Projection};
use ruge_embed::plan::Plan;

use super::{Moving, Training};
use crate::crowd::{Crowd, Crowded};
use crate::device::{Buffer, Device};
use crate::error::{Doing, Result};
use crate::fold::{Folded, Folds};
use crate::model::Tables;

#[derive(Clone, Copy)]
struct StepLaunch {
    batch: u32,
    /// Counted from the start of the epoch.
    number: u32,
    entity_move: Moving,
    relation_move: Moving,
    /// Address of the sorted touches.
    touches: u64,
    /// Blocks of threads for relation rows; those for entity rows follow.
    relation_blocks: u32,
}

fn layout(blocks: usize, threads: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks.clamp(1, 1 << 20) as u32, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}

/// Bits of an entity id, by which touches are sorted.
fn entity_bits(plan: &Plan<'_>) -> i32 {
    (usize::BITS - plan.entities.saturating_sub(1).leading_zeros()).max(1) as i32
}

impl Training {
    /// Launches some batches of an epoch; the common preparation is launched with the first, the losses with the last.
    pub(super) fn launch(
        &mut self,
        device: &Device,
        tables: &Tables,
        plan: &Plan<'_>,
        batches: Range<usize>,
    ) -> Result<()> {
        if batches.start == 0 {
            self.prepare(device, plan)?;
        }
        let touches = self.touches[usize::from((entity_bits(plan) as usize).div_ceil(4) % 2 == 1)].address;
        let moving = |parameters: &Buffer<f32>, moments: [u64; 2], rate: f32| Moving {
            parameters: parameters.address,
            first: moments[0],
            second: moments[1],
            rate,
        };
        let optimizer = self.constants.optimizer.slowed(self.rate);
        let mut step = StepLaunch {
            batch: 0,
            number: (batches.start * plan.inner_steps) as u32,
            entity_move: moving(&tables.entities, tables.moments(0), optimizer.entity_rate),
            relation_move: moving(&tables.relations, tables.moments(1), optimizer.relation_rate),
            touches,
            relation_blocks: self.most.relations.min(4096) as u32,
        };
        for batch in batches.start as u32..batches.end as u32 {
            step.batch = batch;
            if plan.projection == Projection::UnitEntitiesBeforeBatch {
                self.normalise_entities(device, tables, plan)?;
                tables.refresh_images(device)?;
            }
            for inner in 0..plan.inner_steps {
                if let Guidance::Injection { .. } = plan.guidance {
                    self.inject(device, tables, batch)?;
                }
                self.pass(device, tables, batch, inner == 0)?;
                self.fold(device, tables, &step)?;
                match self.gradients {
                    None => self.update(device, &step)?,
                    Some(_) => self.update_by_tables(device, tables, &step)?,
                }
                step.number += 1;
                if plan.projection == Projection::UnitRowsAfterStep {
                    self.normalise_entities(device, tables, plan)?;
                    self.normalise_relations(device, tables, plan)?;
                    tables.refresh_images(device)?;
                }
            }
        }
        if batches.end == plan.batches { self.sum_losses(device, plan) } else { Ok(()) }
    }

    /// Enough blocks to give each of `items` a team.
    fn teams_for(&self, items: usize) -> LaunchConfig {
        layout(items.div_ceil(self.constants.teams()), self.constants.block() as u32)
    }

    /// The launch configuration of kernels that update or sum rows.
    fn rows_layout(&self, step: &StepLaunch) -> LaunchConfig {
        let entity_blocks = self.most.rows.div_ceil(self.constants.teams()).min(1 << 16);
        layout(step.relation_blocks as usize + entity_blocks, self.constants.block() as u32)
    }

    /// Address of the number of gradient steps before the epoch.
    fn steps_before(&self) -> u64 {
        self.counters.address + 8
    }

    /// Draws the negatives of all batches and sorts the touches.
    fn prepare(&self, device: &Device, plan: &Plan<'_>) -> Result<()> {
        let count = self.order.slice.len() as u32;
        let (entities, relations) = (plan.entities as u32, plan.relations as u32);
        let (keep, filtered) = (i32::from(plan.negatives.keep_original), i32::from(plan.negatives.filtered));
        let key_count = self.most.key_count as u64;
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.draw_negatives)
                .arg(&self.order.address)
                .arg(&count)
                .arg(&self.triples.address)
                .arg(&plan.seed)
                .arg(&self.counters.address)
                .arg(&entities)
                .arg(&relations)
                .arg(&keep)
                .arg(&filtered)
                .arg(&self.keys.address)
                .arg(&key_count)
                .arg(&self.shares.address)
                .arg(&self.positives.address)
                .arg(&self.negatives.address)
                .launch(layout((count as usize).div_ceil(256), 256))
        }
        .doing("drawing negatives")?;
        let bits = entity_bits(plan);
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.sort_touches)
                .arg(&self.batches.address)
                .arg(&self.positives.address)
                .arg(&self.negatives.address)
                .arg(&self.unlabeled.address)
                .arg(&bits)
                .arg(&self.touches[0].address)
                .arg(&self.touches[1].address)
                .arg(&self.rows.address)
                .arg(&self.row_counts.address)
                .launch(layout(plan.batches, 512))
        }
        .doing("sorting touches")
        .map(|_| ())
    }

    /// KALE: the pull of groundings on the truths of their atoms.
    fn inject(&self, device: &Device, tables: &Tables, batch: u32) -> Result<()> {
        let (scored_entities, scored_relations) = tables.scored();
        let evidence = self.evidence.pointers();
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.inject)
                .arg(&self.batches.address)
                .arg(&batch)
                .arg(&scored_entities)
                .arg(&scored_relations)
                .arg(&self.unlabeled.address)
                .arg(&evidence)
                .arg(&self.groundings.address)
                .arg(&self.ends.address)
                .arg(&self.places.address)
                .arg(&self.aims.address)
                .launch(self.teams_for(self.most.unlabeled))
        }
        .doing("injecting rules")?;
        Ok(())
    }

    /// The first pass of a step; `fresh` in the first step of a batch, which computes soft labels.
    fn pass(&self, device: &Device, tables: &Tables, batch: u32, fresh: bool) -> Result<()> {
        let (scored_entities, scored_relations) = tables.scored();
        if let Some(crowd) = &self.crowd {
            let crowded = Crowded {
                batches: self.batches.address,
                entities: scored_entities,
                relations: scored_relations,
                positives: self.positives.address,
                negatives: self.negatives.address,
                weights: self.weights.address,
                d_scores: self.d_scores.address,
            };
            crowd.launch(device, &self.constants, batch, &crowded)?;
        }
        let fresh = i32::from(fresh);
        let evidence = self.evidence.pointers();
        let [negative_scores, pulls] = Crowd::addresses(self.crowd.as_ref());
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.pass)
                .arg(&self.batches.address)
                .arg(&batch)
                .arg(&fresh)
                .arg(&scored_entities)
                .arg(&scored_relations)
                .arg(&self.positives.address)
                .arg(&self.negatives.address)
                .arg(&self.unlabeled.address)
                .arg(&evidence)
                .arg(&self.groundings.address)
                .arg(&self.ends.address)
                .arg(&self.supports.address)
                .arg(&self.aims.address)
                .arg(&self.slots.address)
                .arg(&self.relation_slots.address)
                .arg(&self.d_scores.address)
                .arg(&self.losses.address)
                .arg(&self.unlabeled_losses.address)
                .arg(&negative_scores)
                .arg(&pulls)
                .arg(&self.weights.address)
                .launch(self.teams_for(self.most.positives + self.most.unlabeled))
        }
        .doing("scoring a batch")?;
        Ok(())
    }

    /// Partial sums of busy rows, if a batch has any.
    fn fold(&self, device: &Device, tables: &Tables, step: &StepLaunch) -> Result<()> {
        let Some(folds) = &self.folds else { return Ok(()) };
        let folded = Folded {
            batches: self.batches.address,
            scored: tables.scored().0,
            positives: self.positives.address,
            unlabeled: self.unlabeled.address,
            touches: step.touches,
            slots: self.slots.address,
            relation_slots: self.relation_slots.address,
            d_scores: self.d_scores.address,
        };
        folds.launch(device, &self.constants, step.batch, &folded)
    }

    /// The second pass of a step: owners add their rows' contributions and update them.
    fn update(&self, device: &Device, step: &StepLaunch) -> Result<()> {
        let folds = Folds::pointers(self.folds.as_ref());
        let steps_before = self.steps_before();
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.update)
                .arg(&self.batches.address)
                .arg(&step.batch)
                .arg(&step.number)
                .arg(&steps_before)
                .arg(&step.relation_blocks)
                .arg(&step.entity_move)
                .arg(&step.relation_move)
                .arg(&self.positives.address)
                .arg(&step.touches)
                .arg(&self.rows.address)
                .arg(&self.row_counts.address)
                .arg(&self.relation_slots_of.address)
                .arg(&self.slots.address)
                .arg(&self.relation_slots.address)
                .arg(&self.d_scores.address)
                .arg(&folds)
                .launch(self.rows_layout(step))
        }
        .doing("moving rows")?;
        Ok(())
    }

    /// The second pass if rows cannot be updated directly: gradients are summed into tables, mapped to the parameters'
    /// basis and, with a cap on whole matrices, measured before the update.
    fn update_by_tables(&mut self, device: &Device, tables: &Tables, step: &StepLaunch) -> Result<()> {
        self.sum_rows(device, tables, step)?;
        let capped = matches!(self.constants.optimizer.cap, Cap::Matrix { .. });
        if capped {
            self.move_rows(device, step, true)?;
            self.measure(device, step)?;
        }
        self.move_rows(device, step, false)?;
        tables.refresh_images(device)
    }

    fn sum_rows(&mut self, device: &Device, tables: &Tables, step: &StepLaunch) -> Result<()> {
        let layout = self.rows_layout(step);
        let folds = Folds::pointers(self.folds.as_ref());
        let (scored_entities, _) = tables.scored();
        let Some(gradients) = &mut self.gradients else { return Ok(()) };
        device.clear(&mut gradients.entities)?;
        device.clear(&mut gradients.relations)?;
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.sum_rows)
                .arg(&self.batches.address)
                .arg(&step.batch)
                .arg(&step.relation_blocks)
                .arg(&scored_entities)
                .arg(&self.positives.address)
                .arg(&step.touches)
                .arg(&self.rows.address)
                .arg(&self.row_counts.address)
                .arg(&self.relation_slots_of.address)
                .arg(&self.slots.address)
                .arg(&self.relation_slots.address)
                .arg(&self.d_scores.address)
                .arg(&gradients.entities.address)
                .arg(&gradients.relations.address)
                .arg(&gradients.occurrences.address)
                .arg(&folds)
                .launch(layout)
        }
        .doing("adding up gradients")?;
        gradients.turn(device, tables)
    }

    /// Updates rows by their gradients; with `measure`, only computes the squared norms.
    fn move_rows(&self, device: &Device, step: &StepLaunch, measure: bool) -> Result<()> {
        let Some(gradients) = &self.gradients else { return Ok(()) };
        let steps_before = self.steps_before();
        let (entity_gradients, relation_gradients) = gradients.of_parameters();
        let squares = if measure { gradients.squares.address } else { 0 };
        let entity_rows = self.most.rows as u32;
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.move_rows)
                .arg(&self.batches.address)
                .arg(&step.batch)
                .arg(&step.number)
                .arg(&steps_before)
                .arg(&step.entity_move)
                .arg(&step.relation_move)
                .arg(&self.rows.address)
                .arg(&self.row_counts.address)
                .arg(&self.relation_slots_of.address)
                .arg(&gradients.occurrences.address)
                .arg(&entity_gradients)
                .arg(&relation_gradients)
                .arg(&squares)
                .arg(&entity_rows)
                .arg(&gradients.factors.address)
                .launch(self.teams_for(self.most.rows + self.most.relations))
        }
        .doing("moving rows")?;
        Ok(())
    }

    /// From the norms of rows to the factors of whole matrices.
    fn measure(&self, device: &Device, step: &StepLaunch) -> Result<()> {
        let Some(gradients) = &self.gradients else { return Ok(()) };
        let entity_rows = self.most.rows as u32;
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.matrix_factors)
                .arg(&self.batches.address)
                .arg(&step.batch)
                .arg(&self.row_counts.address)
                .arg(&gradients.squares.address)
                .arg(&entity_rows)
                .arg(&gradients.factors.address)
                .launch(layout(1, 256))
        }
        .doing("measuring gradients")?;
        Ok(())
    }

    fn normalise_entities(&self, device: &Device, tables: &Tables, plan: &Plan<'_>) -> Result<()> {
        let rows = plan.entities as u32;
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.normalise_entities)
                .arg(&tables.entities.address)
                .arg(&rows)
                .launch(self.teams_for(plan.entities))
        }
        .doing("normalising rows")?;
        Ok(())
    }

    fn normalise_relations(&self, device: &Device, tables: &Tables, plan: &Plan<'_>) -> Result<()> {
        let rows = plan.relations as u32;
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.normalise_relations)
                .arg(&tables.relations.address)
                .arg(&rows)
                .launch(self.teams_for(plan.relations))
        }
        .doing("normalising rows")?;
        Ok(())
    }

    fn sum_losses(&self, device: &Device, plan: &Plan<'_>) -> Result<()> {
        // SAFETY: see the head of the file.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.sum_losses)
                .arg(&self.batches.address)
                .arg(&self.losses.address)
                .arg(&self.unlabeled_losses.address)
                .arg(&self.sums.address)
                .launch(layout(plan.batches, 256))
        }
        .doing("adding up losses")?;
        Ok(())
    }
}
