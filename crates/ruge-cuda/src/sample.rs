//! Softmax over a sample of candidates: what [`crate::softmax`] does otherwise where those drawn for a batch stand for all.
//!
//! A step then costs what the sample and the questions cost, however many entities there are: only rows that a batch names
//! or has drawn are read and moved.

use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
use ruge_embed::Softmax;

use crate::device::{Buffer, Device, Kernels};
use crate::error::{Doing, Result};
use crate::order::Quad;
use crate::product::Number;
use crate::questions::{EpochQuestions, Range};
use crate::softmax::padded;
use crate::training::Moving;

/// Buffers of a sample.
pub(crate) struct Sampled {
    gather: CudaFunction,
    slopes: CudaFunction,
    moves: CudaFunction,
    /// Entities of a sample.
    size: usize,
    /// Entities that a sample stands for, an answer not counted.
    others: f32,
    drawn: Buffer<u32>,
    places: Buffer<u32>,
    parts: Buffer<Quad>,
    answer_slots: Buffer<u32>,
    /// The rows of those drawn, in whatever numbers products take; those behind them are zeros.
    rows: Buffer<u8>,
    own: Buffer<f32>,
    d_own: Buffer<f32>,
}

/// What a group of batches of so many questions brings with it.
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
    /// Entities of a sample; nothing where all are candidates.
    pub fn sample(self, softmax: &Softmax) -> Option<usize> {
        (1..self.entities).contains(&softmax.sample).then_some(softmax.sample)
    }

    /// Rows that a group may name or draw, batch by batch.
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

/// What the owners of rows add up, but for what they have in common with all candidates.
pub(crate) struct Found<'a> {
    pub touched: &'a Buffer<Quad>,
    pub slots: &'a Buffer<u32>,
    pub gradients: &'a Buffer<f32>,
    pub d_ends: &'a Buffer<f32>,
    pub queries: &'a Buffer<u8>,
}

impl Sampled {
    /// Memory for groups of such counts; nothing where all entities are candidates.
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

    /// Copies what a group draws.
    pub fn put(&mut self, device: &Device, data: &EpochQuestions) -> Result<()> {
        device.put(&data.drawn, &mut self.drawn)?;
        device.put(&data.places, &mut self.places)?;
        device.put(&data.parts, &mut self.parts)?;
        device.put(&data.answer_slots, &mut self.answer_slots)
    }

    /// How many candidates there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where their rows are.
    pub fn rows(&self) -> u64 {
        self.rows.address
    }

    /// Where answers' own scores go, and the slopes of those.
    pub fn own(&self) -> [u64; 2] {
        [self.own.address, self.d_own.address]
    }

    /// Fetches the rows of a batch's sample.
    pub fn gather(&self, device: &Device, entities: u64, batch: usize) -> Result<()> {
        let drawn = self.drawn.address + 4 * (batch * self.size) as u64;
        let count = self.size as u32;
        let layout = LaunchConfig { grid_dim: (count.min(1 << 16), 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: those drawn are rows of the table, and there is a place for each.
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
        // SAFETY: a row of scores, a place, a weight and places for slope and loss per question.
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

    /// Moves the rows that a batch names or has drawn.
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
        // SAFETY: touched rows are rows of the tables, their slots those of this batch.
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
