//! Softmax over a sample of candidates: where [`crate::softmax`] differs if a batch's sample stands for all.
//!
//! The cost of a step then depends on the sample and the questions, not on the number of entities: only rows that a
//! batch names or draws are read and updated.

use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
use ruge_embed::Softmax;

use crate::device::{Buffer, Device, Kernels};
use crate::error::{Doing, Result};
use crate::order::Quad;
use crate::product::Number;
use crate::questions::{EpochQuestions, Range};
use crate::softmax::padded;
use crate::training::Moving;

pub(crate) struct Sampled {
    gather: CudaFunction,
    slopes: CudaFunction,
    moves: CudaFunction,
    size: usize,
    /// Entities that a sample stands for, without the answer.
    others: f32,
    drawn: Buffer<u32>,
    places: Buffer<u32>,
    parts: Buffer<Quad>,
    answer_slots: Buffer<u32>,
    /// The drawn rows, in the products' number format; the rows after them are zeros.
    rows: Buffer<u8>,
    own: Buffer<f32>,
    d_own: Buffer<f32>,
}

/// The sizes of a group of batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Entities of the graph.
    pub entities: usize,
    /// Questions of a group.
    pub questions: usize,
    /// Questions of a batch.
    pub batch: usize,
}

impl Counts {
    /// Entities in a sample; `None` if all are candidates.
    pub fn sample(self, softmax: &Softmax) -> Option<usize> {
        (1..self.entities).contains(&softmax.sample).then_some(softmax.sample)
    }

    /// Maximum rows that a group names or draws, batch by batch.
    pub fn touched(self, softmax: &Softmax) -> usize {
        2 * self.questions + self.drawn(softmax)
    }

    fn drawn(self, softmax: &Softmax) -> usize {
        self.sample(softmax).map_or(0, |size| size * self.questions.div_ceil(self.batch))
    }

    /// Bytes of [`Sampled`].
    pub fn bytes(self, softmax: &Softmax, stride: usize, number: Number) -> usize {
        let Some(size) = self.sample(softmax) else { return 0 };
        let numbers = padded(size) * stride * number.bytes();
        numbers + 4 * (self.drawn(softmax) + 2 * self.questions + 2 * self.batch) + 16 * self.touched(softmax)
    }
}

/// The gradients that row owners add, apart from those of candidates.
pub(crate) struct Found<'a> {
    pub touched: &'a Buffer<Quad>,
    pub slots: &'a Buffer<u32>,
    pub gradients: &'a Buffer<f32>,
    pub d_ends: &'a Buffer<f32>,
    pub queries: &'a Buffer<u8>,
}

impl Sampled {
    /// Memory for groups of these sizes; `None` if all entities are candidates.
    pub fn new(
        device: &Device,
        kernels: &Kernels,
        softmax: &Softmax,
        counts: Counts,
        (stride, number): (usize, Number),
    ) -> Result<Option<Self>> {
        let Some(size) = counts.sample(softmax) else { return Ok(None) };
        Ok(Some(Self {
            gather: kernels.get("gather_sample")?,
            slopes: kernels.get("sample_slopes")?,
            moves: kernels.get("move_sampled")?,
            size,
            others: (counts.entities - 1) as f32,
            drawn: device.zeros(counts.drawn(softmax))?,
            places: device.zeros(counts.questions)?,
            parts: device.zeros(counts.touched(softmax))?,
            answer_slots: device.zeros(counts.questions)?,
            rows: device.zeros(padded(size) * stride * number.bytes())?,
            own: device.zeros(counts.batch)?,
            d_own: device.zeros(counts.batch)?,
        }))
    }

    /// Copies a group's samples to the GPU.
    pub fn put(&mut self, device: &Device, data: &EpochQuestions) -> Result<()> {
        device.put(&data.drawn, &mut self.drawn)?;
        device.put(&data.places, &mut self.places)?;
        device.put(&data.parts, &mut self.parts)?;
        device.put(&data.answer_slots, &mut self.answer_slots)
    }

    /// Number of candidates.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Address of their rows.
    pub fn rows(&self) -> u64 {
        self.rows.address
    }

    /// Addresses of the answers' own scores and of their slopes.
    pub fn own(&self) -> [u64; 2] {
        [self.own.address, self.d_own.address]
    }

    /// Copies the rows of a batch's sample.
    pub fn gather(&self, device: &Device, entities: u64, batch: usize) -> Result<()> {
        let drawn = self.drawn.address + 4 * (batch * self.size) as u64;
        let count = self.size as u32;
        let layout = LaunchConfig { grid_dim: (count.min(1 << 16), 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the drawn entities are rows of the table, and there is room for each.
        unsafe {
            let mut launch = device.stream.launch_builder(&self.gather);
            launch.arg(&entities).arg(&drawn).arg(&count).arg(&self.rows.address).launch(layout)
        }
        .doing("gathering a sample")?;
        Ok(())
    }

    /// The slopes of a batch's scores (address, slopes, stride), to be divided by the number of questions.
    pub fn slopes(
        &self,
        device: &Device,
        range: &Range,
        (scores, slopes, stride): (u64, u64, usize),
        weights: u64,
        losses: u64,
    ) -> Result<()> {
        let first = range.questions[0] as u64;
        let count = range.questions[1] - range.questions[0];
        let (stride, candidates, factor) = (stride as u32, self.size as u32, 1.0 / count as f32);
        let (places, weights, losses) = (self.places.address + 4 * first, weights + 4 * first, losses + 4 * first);
        let layout = LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (512, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: each question has a row of scores, an entry in `places`, a weight, and room for slope and loss.
        unsafe {
            device
                .stream
                .launch_builder(&self.slopes)
                .arg(&scores)
                .arg(&stride)
                .arg(&candidates)
                .arg(&places)
                .arg(&self.own.address)
                .arg(&weights)
                .arg(&factor)
                .arg(&self.others)
                .arg(&slopes)
                .arg(&self.d_own.address)
                .arg(&losses)
                .launch(layout)
        }
        .doing("taking the softmax of a sample")?;
        Ok(())
    }

    /// Updates the rows that a batch names or draws.
    pub fn move_rows(
        &self,
        device: &Device,
        rows: [usize; 2],
        found: &Found<'_>,
        [cubed, squared]: [f32; 2],
        (moving, corrections): (Moving, [f32; 2]),
        layout: LaunchConfig,
    ) -> Result<()> {
        let behind = (rows[0] * size_of::<Quad>()) as u64;
        let (touched, parts) = (found.touched.address + behind, self.parts.address + behind);
        let count = (rows[1] - rows[0]) as u32;
        // SAFETY: touched rows are rows of the tables, and their slots belong to this batch.
        unsafe {
            device
                .stream
                .launch_builder(&self.moves)
                .arg(&touched)
                .arg(&parts)
                .arg(&count)
                .arg(&found.slots.address)
                .arg(&self.answer_slots.address)
                .arg(&found.gradients.address)
                .arg(&found.d_ends.address)
                .arg(&self.d_own.address)
                .arg(&found.queries.address)
                .arg(&cubed)
                .arg(&squared)
                .arg(&moving)
                .arg(&corrections[0])
                .arg(&corrections[1])
                .launch(layout)
        }
        .doing("moving rows")?;
        Ok(())
    }
}
