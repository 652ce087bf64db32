//! Rows that a batch touches thousands of times are summed by many teams. Otherwise a batch of forty thousand
//! conclusions of a few relations would wait for the one owner of the busiest row.

use cudarc::driver::{CudaFunction, DeviceRepr, LaunchConfig, PushKernelArg};

use crate::device::{Buffer, Device};
use crate::error::{Doing, Result};
use crate::order::Pair;
use crate::source::Constants;

/// `FOLD` of the kernels.
const FOLD: usize = 256;

/// Batches with fewer unlabeled triples have no such rows.
const MANY: usize = 4096;

/// `struct Folds` of the kernels.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct FoldPointers([u64; 3]);

// SAFETY: addresses in C layout, as in the kernels.
unsafe impl DeviceRepr for FoldPointers {}

/// Sums over touches of one row.
pub(crate) struct Folds {
    function: CudaFunction,
    entities: Buffer<f32>,
    occurrences: Buffer<Pair>,
    relations: Buffer<f32>,
    blocks: [usize; 2],
}

/// Addresses of the arrays of an epoch, in the kernel's order.
pub(crate) struct Folded {
    pub batches: u64,
    pub scored: u64,
    pub positives: u64,
    pub unlabeled: u64,
    pub touches: u64,
    pub slots: u64,
    pub relation_slots: u64,
    pub d_scores: u64,
}

impl Folds {
    /// Memory for batches of at most this many touches and unlabeled triples; `None` if they are few.
    pub fn new(
        device: &Device,
        constants: &Constants,
        function: CudaFunction,
        touches: usize,
        unlabeled: usize,
    ) -> Result<Option<Self>> {
        if unlabeled < MANY {
            return Ok(None);
        }
        let blocks = [touches / FOLD, unlabeled / FOLD];
        Ok(Some(Self {
            function,
            entities: device.room(blocks[0] * constants.entities.stride)?,
            occurrences: device.zeros(blocks[0])?,
            relations: device.room(blocks[1] * constants.relations.stride)?,
            blocks,
        }))
    }

    /// The arguments for kernels; null if nothing is folded.
    pub fn pointers(folds: Option<&Self>) -> FoldPointers {
        folds.map_or_else(FoldPointers::default, |folds| {
            FoldPointers([folds.entities.address, folds.occurrences.address, folds.relations.address])
        })
    }

    /// Folds the results of a batch's slots.
    pub fn launch(&self, device: &Device, constants: &Constants, batch: u32, folded: &Folded) -> Result<()> {
        let entity_blocks = self.blocks[0].clamp(1, 1 << 16);
        let layout = LaunchConfig {
            grid_dim: ((entity_blocks + self.blocks[1].clamp(1, 1 << 16)) as u32, 1, 1),
            block_dim: (constants.block() as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let entity_blocks = entity_blocks as u32;
        let pointers = Self::pointers(Some(self));
        // SAFETY: arguments match the kernel's parameter list; the buffers hold every FOLD of the largest batch.
        unsafe {
            device
                .stream
                .launch_builder(&self.function)
                .arg(&folded.batches)
                .arg(&batch)
                .arg(&entity_blocks)
                .arg(&folded.scored)
                .arg(&folded.positives)
                .arg(&folded.unlabeled)
                .arg(&folded.touches)
                .arg(&folded.slots)
                .arg(&folded.relation_slots)
                .arg(&folded.d_scores)
                .arg(&pointers)
                .launch(layout)
        }
        .doing("folding gradients")?;
        Ok(())
    }
}
