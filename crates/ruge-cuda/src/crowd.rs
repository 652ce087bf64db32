//! Losses that need the scores of all negatives of a positive before any slope: hundreds of rows per positive, spread
//! over many teams. A batch has few positives, so one team per positive would leave most of a GPU idle.

use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
use ruge_embed::Loss;

use crate::device::{Buffer, Device, Kernels};
use crate::error::{Doing, Result};
use crate::source::Constants;

/// Negatives per team and round.
pub(crate) const CHUNK: usize = 64;

/// The two rounds over a batch's negatives, and their results.
pub(crate) struct Crowd {
    score: CudaFunction,
    slope: CudaFunction,
    /// Scores of a positive's negatives, then its own.
    pub scores: Buffer<f32>,
    /// Gradients of the queries, by chunk.
    pub pulls: Buffer<f32>,
    units: usize,
}

/// Addresses of the arrays of an epoch, in the kernels' order.
pub(crate) struct Crowded {
    pub batches: u64,
    pub entities: u64,
    pub relations: u64,
    pub positives: u64,
    pub negatives: u64,
    pub weights: u64,
    pub d_scores: u64,
}

/// Floats for a batch with this many positives: scores, pulls. None for losses that take negatives one by one.
pub(crate) fn floats(constants: &Constants, positives: usize) -> [usize; 2] {
    if !matches!(constants.objective.loss, Loss::SelfAdversarial { .. } | Loss::SampledSoftmax) {
        return [0, 0];
    }
    let chunks = constants.negatives.div_ceil(CHUNK);
    [positives * (constants.negatives + 1), positives * chunks * 2 * constants.entities.stride]
}

impl Crowd {
    /// For batches of at most this many positives; `None` for losses that take negatives one by one.
    pub fn new(device: &Device, constants: &Constants, kernels: &Kernels, positives: usize) -> Result<Option<Self>> {
        let [scores, pulls] = floats(constants, positives);
        if scores == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            score: kernels.get("score_crowd")?,
            slope: kernels.get("slope_crowd")?,
            scores: device.room(scores)?,
            pulls: device.room(pulls)?,
            units: positives * constants.negatives.div_ceil(CHUNK),
        }))
    }

    /// Addresses of scores and pulls; null if there are none.
    pub fn addresses(crowd: Option<&Self>) -> [u64; 2] {
        crowd.map_or([0, 0], |crowd| [crowd.scores.address, crowd.pulls.address])
    }

    /// Computes scores, then slopes, of a batch's negatives.
    pub fn launch(&self, device: &Device, constants: &Constants, batch: u32, of: &Crowded) -> Result<()> {
        let layout = LaunchConfig {
            grid_dim: (self.units.div_ceil(constants.teams()).clamp(1, 1 << 20) as u32, 1, 1),
            block_dim: (constants.block() as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let stream = &device.stream;
        // SAFETY: arguments match the kernels' parameter lists; the buffers hold every chunk of the largest batch.
        unsafe {
            stream
                .launch_builder(&self.score)
                .arg(&of.batches)
                .arg(&batch)
                .arg(&of.entities)
                .arg(&of.relations)
                .arg(&of.positives)
                .arg(&of.negatives)
                .arg(&self.scores.address)
                .launch(layout)
                .doing("scoring negatives")?;
            stream
                .launch_builder(&self.slope)
                .arg(&of.batches)
                .arg(&batch)
                .arg(&of.entities)
                .arg(&of.relations)
                .arg(&of.positives)
                .arg(&of.negatives)
                .arg(&of.weights)
                .arg(&self.scores.address)
                .arg(&of.d_scores)
                .arg(&self.pulls.address)
                .launch(layout)
                .doing("weighing negatives")?;
        }
        Ok(())
    }
}
