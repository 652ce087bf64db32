//! Relation prediction as an auxiliary question: (h, ?, t) among all relations.

use cudarc::driver::PushKernelArg;

use super::{Scores, SoftmaxTraining, padded};
use crate::device::Device;
use crate::error::{Doing, Result};
use crate::model::Tables;
use crate::order::Quad;
use crate::product::{Matrix, Out, Size};

impl SoftmaxTraining {
    /// (h, ?, t) among all relations: sets the gradients of relations, adds to those of both ends.
    pub(super) fn ask_relations(&mut self, device: &Device, tables: &Tables, first: usize, count: usize) -> Result<()> {
        let (half, stride) = (self.constants.relations.width(), self.constants.relations.stride);
        let (sides, rows) = (self.constants.sides, tables.relation_rows);
        let (entities, relations) = (tables.scored().0, self.factors(tables).1);
        let size_of_number = self.number.bytes();
        let questions = self.questions.address + (first * size_of::<Quad>()) as u64;
        let number = count as u32;
        let stream = &device.stream;
        // SAFETY: (for all launches and products of this function) as in `step`.
        unsafe {
            stream
                .launch_builder(&self.functions.relation_queries)
                .arg(&questions)
                .arg(&number)
                .arg(&entities)
                .arg(&self.relation_queries.address)
                .launch(self.layout(count))
        }
        .doing("asking for relations")?;
        let queries = Matrix::rows(self.relation_queries.address, half).of(self.number);
        let one_side =
            |side: usize| Matrix::rows(relations + (size_of_number * side * half) as u64, stride).of(self.number);
        let (side_columns, columns) = (padded(rows), sides * padded(rows));
        for side in 0..sides {
            let out = Out::rows(self.relation_scores.address + 4 * (side * side_columns) as u64, columns);
            let size = Size { rows: count, columns: rows, inner: half };
            // SAFETY: see above.
            unsafe { device.multiply(size, queries, one_side(side).transposed(), out, "scoring all relations") }?;
        }
        let scores = Scores {
            address: self.relation_scores.address,
            slopes: self.rounded.as_ref().map_or(self.relation_scores.address, |x| x.relation_slopes.address),
            stride: columns,
            candidates: (sides - 1) * side_columns + rows,
            gap: if sides == 2 { [rows, side_columns] } else { [0, 0] },
        };
        let (answers, losses) =
            (self.relations.address + 4 * first as u64, self.relation_losses.address + 4 * first as u64);
        self.slopes(device, first, count, scores, answers, losses, self.softmax.relations)?;
        // Both sides form one matrix of candidates only if rows have no gaps between them. So the sides are multiplied
        // one after the other, and the second is added to the first.
        let slopes = |side: usize| {
            Matrix::rows(scores.slopes + (size_of_number * side * side_columns) as u64, columns).of(self.number)
        };
        let scale = self.softmax.relations / count as f32;
        for side in 0..sides {
            let size = Size { rows: count, columns: half, inner: rows };
            let out = Out { scale, add: side > 0, ..Out::rows(self.d_relation_queries.address, half) };
            let back = Size { rows, columns: half, inner: count };
            let gradients = self.relation_gradients.address + 4 * (side * half) as u64;
            let gradients = Out { scale, ..Out::rows(gradients, stride) };
            // SAFETY: see above.
            unsafe {
                device.multiply(size, slopes(side), one_side(side), out, "going back to queries")?;
                device.multiply(back, slopes(side).transposed(), queries, gradients, "going back to relations")?;
            }
        }
        // SAFETY: see above.
        unsafe {
            stream
                .launch_builder(&self.functions.relation_backward)
                .arg(&questions)
                .arg(&number)
                .arg(&entities)
                .arg(&self.d_relation_queries.address)
                .arg(&self.d_ends.address)
                .launch(self.layout(count))
        }
        .doing("going back to ends")?;
        Ok(())
    }
}
