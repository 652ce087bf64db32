//! The end of a softmax step: row owners add their contributions, and rows are updated.

use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
use ruge_embed::optimizer::UpdateRule;

use super::SoftmaxTraining;
use crate::device::{Buffer, Device};
use crate::error::{Doing, Result};
use crate::model::Tables;
use crate::order::Quad;
use crate::questions::Range;
use crate::sample::Found;
use crate::training::Moving;

impl SoftmaxTraining {
    pub(super) fn move_tables(
        &self,
        device: &Device,
        tables: &Tables,
        range: &Range,
        step: u64,
        rate: f32,
    ) -> Result<()> {
        let (entities, relations) = tables.scored();
        let penalty = self.softmax.penalty(range.questions[1] - range.questions[0]);
        // In another basis the penalty applies to the parameters, after the gradients are mapped to them.
        let penalty_here = if self.turned.is_some() { [0.0; 2] } else { penalty };
        let (slots, found) = (&self.relation_slots, &self.d_relations);
        let gather = &self.functions.gather_relations;
        let into = (relations, &self.relation_gradients);
        self.gather(device, gather, (&self.touched_relations, slots, range.relations), found, into, penalty_here)?;
        let optimizer = self.constants.optimizer.slowed(rate);
        let corrections = match optimizer.rule {
            UpdateRule::Adam { beta1, beta2, .. } => {
                [beta1, beta2].map(|beta| (1.0 / (1.0 - f64::from(beta).powf(step as f64))) as f32)
            }
            _ => [1.0; 2],
        };
        let copies = self.rounded.as_ref().map(|rounded| [rounded.entities.address, rounded.relations.address]);
        let copies = copies.filter(|_| self.turned.is_none()).unwrap_or_default();
        let moving = |kind: usize, parameters: &Buffer<f32>, rate: f32| {
            let moments = tables.moments(kind);
            Moving { parameters: parameters.address, first: moments[0], second: moments[1], rate }
        };
        let entity_moving = moving(0, &tables.entities, optimizer.entity_rate);
        match &self.sampled {
            Some(sampled) => {
                let found = Found {
                    touched: &self.touched_entities,
                    slots: &self.entity_slots,
                    gradients: &self.entity_gradients,
                    d_ends: &self.d_ends,
                    queries: &self.queries,
                };
                let layout = self.layout(range.entities[1] - range.entities[0]);
                sampled.move_rows(device, range.entities, &found, penalty, (entity_moving, corrections), layout)?;
            }
            None => {
                let (slots, found) = (&self.entity_slots, &self.d_ends);
                let gather = &self.functions.gather_entities;
                let into = (entities, &self.entity_gradients);
                let touched = (&self.touched_entities, slots, range.entities);
                self.gather(device, gather, touched, found, into, penalty_here)?;
                self.turn(device, tables, range, penalty)?;
                let gradients = self.turned.as_ref().map_or(&self.entity_gradients, |turned| &turned[0]);
                // Gradients of the padding rows are ignored.
                let floats = gradients.slice.len().min(tables.entities.slice.len());
                self.move_all(device, (gradients, floats), entity_moving, corrections, copies[0])?;
            }
        }
        let gradients = self.turned.as_ref().map_or(&self.relation_gradients, |turned| &turned[1]);
        let floats = gradients.slice.len().min(tables.relations.slice.len());
        let relation_moving = moving(1, &tables.relations, optimizer.relation_rate);
        self.move_all(device, (gradients, floats), relation_moving, corrections, copies[1])?;
        if self.turned.is_some() {
            tables.refresh_images(device)?;
            self.round_tables(device, tables)?;
        }
        Ok(())
    }

    /// Maps gradients to the parameters' basis, if that differs, and adds the penalty there.
    fn turn(&self, device: &Device, tables: &Tables, range: &Range, [cubed, squared]: [f32; 2]) -> Result<()> {
        let (Some(turned), Some(transform)) = (&self.turned, &tables.transform) else { return Ok(()) };
        let parts = [
            (&transform.entities, &self.entity_gradients, &tables.entities, &self.touched_entities, range.entities),
            (
                &transform.relations,
                &self.relation_gradients,
                &tables.relations,
                &self.touched_relations,
                range.relations,
            ),
        ];
        let rows = [tables.entity_rows, tables.relation_rows];
        for ((matrix, images, parameters, touched, part), (turned, rows)) in
            parts.into_iter().zip(turned.iter().zip(rows))
        {
            // SAFETY: both have this many rows with the matrix's strides.
            unsafe { matrix.back(device, images.address, turned.address, rows) }?;
            let touched = touched.address + (part[0] * size_of::<Quad>()) as u64;
            let many = (part[1] - part[0]) as u32;
            let (stride, width) = (matrix.parameters.stride as u32, matrix.parameters.width() as u32);
            let layout =
                LaunchConfig { grid_dim: (many.clamp(1, 1 << 16), 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: touched rows are rows of both tables.
            unsafe {
                device
                    .stream
                    .launch_builder(&self.functions.penalise)
                    .arg(&touched)
                    .arg(&many)
                    .arg(&parameters.address)
                    .arg(&stride)
                    .arg(&width)
                    .arg(&cubed)
                    .arg(&squared)
                    .arg(&turned.address)
                    .launch(layout)
            }
            .doing("adding penalties")?;
        }
        Ok(())
    }

    /// Adds the contributions of touched rows' slots, and the penalty.
    fn gather(
        &self,
        device: &Device,
        function: &CudaFunction,
        (touched, slots, part): (&Buffer<Quad>, &Buffer<u32>, [usize; 2]),
        found: &Buffer<f32>,
        (parameters, gradients): (u64, &Buffer<f32>),
        [cubed, squared]: [f32; 2],
    ) -> Result<()> {
        let touched = touched.address + (part[0] * size_of::<Quad>()) as u64;
        let many = part[1] - part[0];
        let number = many as u32;
        // SAFETY: touched rows are rows of the table, and their slots belong to this batch.
        unsafe {
            device
                .stream
                .launch_builder(function)
                .arg(&touched)
                .arg(&number)
                .arg(&slots.address)
                .arg(&parameters)
                .arg(&found.address)
                .arg(&cubed)
                .arg(&squared)
                .arg(&gradients.address)
                .launch(self.layout(many))
        }
        .doing("adding up gradients")?;
        Ok(())
    }

    /// Updates all rows of a table by their gradients.
    fn move_all(
        &self,
        device: &Device,
        (gradients, floats): (&Buffer<f32>, usize),
        moving: Moving,
        corrections: [f32; 2],
        copy: u64,
    ) -> Result<()> {
        let floats = floats as u64;
        let blocks = floats.div_ceil(4 * 256).clamp(1, 1 << 16) as u32;
        let layout = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: tables and gradients have the same strides, multiples of 16 floats.
        unsafe {
            device
                .stream
                .launch_builder(&self.functions.move_all)
                .arg(&gradients.address)
                .arg(&moving)
                .arg(&floats)
                .arg(&corrections[0])
                .arg(&corrections[1])
                .arg(&copy)
                .launch(layout)
        }
        .doing("moving rows")?;
        Ok(())
    }
}
