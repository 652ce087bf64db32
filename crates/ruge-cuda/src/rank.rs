//! Exact filtered ranking on the GPU: scores of a block of queries, then counting, block by block.
//!
//! Dot products come from cuBLAS in full `f32`, distances from our own kernel. The answer's score is read from the same
//! block as the others', so equal rows tie exactly. Scores differ from the CPU's in their last bits, because the order
//! of summation differs; ranks differ only if two scores are that close.

use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
use rayon::prelude::*;
use ruge_kg::rank::select;
use ruge_kg::{Control, EntityId, Filter, Place, Rank, RankQuery, Scored, Side, TopOptions, Triple};
use rustc_hash::FxHashMap;

use crate::device::{Buffer, Device};
use crate::error::{Doing, Result};
use crate::model::Tables;
use crate::order::{Pair, Quad};
use crate::product::{Matrix, Out, Size};
use crate::source::{Constants, Program};

/// Maximum queries scored at a time.
const BLOCK: usize = 8192;
/// Maximum scores held at a time: 2 GB.
const SCORES: usize = 1 << 29;

pub(crate) struct RankKernels {
    score_triples: CudaFunction,
    make_queries: CudaFunction,
    distances: CudaFunction,
    count_ranks: CudaFunction,
    constants: Constants,
}

impl RankKernels {
    pub fn new(device: &Device, constants: &Constants) -> Result<Self> {
        let kernels = device.compile(constants, Program::Rank)?;
        Ok(Self {
            score_triples: kernels.get("score_triples")?,
            make_queries: kernels.get("make_queries")?,
            distances: kernels.get("distances")?,
            count_ranks: kernels.get("count_ranks")?,
            constants: constants.clone(),
        })
    }

    /// Scores some dummy queries: cuBLAS loads its kernels on first use.
    pub fn warm_up(&self, device: &Device, tables: &Tables) -> Result<()> {
        if tables.entity_rows == 0 || tables.relation_rows == 0 {
            return Ok(());
        }
        let query = RankQuery { triple: Triple::new(0, 0, 0), side: Side::Tail };
        let count = if self.is_dot() { BLOCK } else { 1 };
        let mut work = QueryBuffers::new(device, tables, &self.constants, &vec![query; count], BLOCK)?;
        let block = work.block;
        self.scores(device, tables, &mut work, 0, block)?;
        device.wait()
    }

    fn layout(&self, items: usize) -> LaunchConfig {
        let blocks = items.div_ceil(self.constants.teams()).clamp(1, 1 << 20);
        LaunchConfig {
            grid_dim: (blocks as u32, 1, 1),
            block_dim: (self.constants.block() as u32, 1, 1),
            shared_mem_bytes: 0,
        }
    }

    fn is_dot(&self) -> bool {
        matches!(self.constants.model, "complex" | "hole" | "distmult")
    }

    /// η of each triple.
    pub fn score(&self, device: &Device, tables: &Tables, triples: &[Triple], scores: &mut [f32]) -> Result<()> {
        let (entities, relations) = tables.scored();
        for (triples, scores) in triples.chunks(1 << 24).zip(scores.chunks_mut(1 << 24)) {
            let list: Vec<Quad> = triples.iter().map(|x| Quad(x.head.0, x.relation.0, x.tail.0, 0)).collect();
            let (list, out) = (device.copy(&list)?, device.zeros::<f32>(triples.len())?);
            let count = triples.len() as u32;
            // SAFETY: `list` and `out` have `count` entries; the triples' ids are rows of the tables.
            unsafe {
                device
                    .stream
                    .launch_builder(&self.score_triples)
                    .arg(&list.address)
                    .arg(&count)
                    .arg(&entities)
                    .arg(&relations)
                    .arg(&out.address)
                    .launch(self.layout(triples.len()))
            }
            .doing("scoring triples")?;
            device.get(&out, scores)?;
        }
        Ok(())
    }

    /// η of every entity in the hidden position of each query, one row each.
    pub fn score_many(
        &self,
        device: &Device,
        tables: &Tables,
        queries: &[RankQuery],
        scores: &mut [f32],
    ) -> Result<()> {
        let mut work = QueryBuffers::new(device, tables, &self.constants, queries, 1024)?;
        let at_a_time = work.block;
        for (block, rows) in scores.chunks_mut((at_a_time * tables.entity_rows).max(1)).enumerate() {
            self.scores(device, tables, &mut work, block * at_a_time, rows.len() / tables.entity_rows)?;
            device.get(&work.scores, rows)?;
        }
        Ok(())
    }

    /// Scores of `count` queries from `first` on, one row over all entities each.
    fn scores(
        &self,
        device: &Device,
        tables: &Tables,
        work: &mut QueryBuffers,
        first: usize,
        count: usize,
    ) -> Result<()> {
        let (entities, relations) = tables.scored();
        let queries = work.queries.address + (first * size_of::<Quad>()) as u64;
        let number = count as u32;
        // SAFETY: `queries` holds more than `first + count`, `vectors` has room for a block; ids are table rows.
        unsafe {
            device
                .stream
                .launch_builder(&self.make_queries)
                .arg(&queries)
                .arg(&number)
                .arg(&entities)
                .arg(&relations)
                .arg(&work.vectors.address)
                .launch(self.layout(count))
        }
        .doing("making queries")?;
        let rows = self.constants.entities;
        let entity_count = tables.entity_rows as u32;
        if self.is_dot() {
            let size = Size { rows: count, columns: tables.entity_rows, inner: rows.width() };
            let queries = Matrix::rows(work.vectors.address, rows.stride);
            let candidates = Matrix::rows(entities, rows.stride).transposed();
            let out = Out::rows(work.scores.address, tables.entity_rows);
            // SAFETY: the score block has a row of all entities per query.
            unsafe { device.multiply(size, queries, candidates, out, "scoring all entities") }?;
        } else {
            let layout = LaunchConfig {
                grid_dim: (entity_count.div_ceil(64), number.div_ceil(64), 1),
                block_dim: (256, 1, 1),
                shared_mem_bytes: 0,
            };
            // SAFETY: as above.
            unsafe {
                device
                    .stream
                    .launch_builder(&self.distances)
                    .arg(&work.vectors.address)
                    .arg(&number)
                    .arg(&entities)
                    .arg(&entity_count)
                    .arg(&work.scores.address)
                    .launch(layout)
            }
            .doing("scoring all entities")?;
        }
        Ok(())
    }

    /// The best answers; scored here, selected by the host.
    pub fn top(
        &self,
        device: &Device,
        tables: &Tables,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Scored>>> {
        let mut work = QueryBuffers::new(device, tables, &self.constants, queries, 1024)?;
        let mut scores = vec![0.0f32; work.block * tables.entity_rows];
        let mut found = Vec::with_capacity(queries.len());
        for block in queries.chunks(work.block) {
            control.check()?;
            self.scores(device, tables, &mut work, found.len(), block.len())?;
            device.get(&work.scores, &mut scores[..block.len() * tables.entity_rows])?;
            let lists = scores.par_chunks(tables.entity_rows.max(1)).zip(block);
            found.par_extend(lists.map(|(scores, query)| select(scores, query, options)));
            control.progress(found.len(), queries.len());
        }
        Ok(found)
    }

    /// The place of each answer.
    pub fn rank(
        &self,
        device: &Device,
        tables: &Tables,
        queries: &[RankQuery],
        known: Option<&Filter>,
        control: &Control<'_>,
    ) -> Result<Vec<Rank>> {
        let (known_of, lists) = known_lists(queries, known);
        let lists = device.copy(&lists)?;
        let mut work = QueryBuffers::new(device, tables, &self.constants, queries, BLOCK)?;
        let answers: Vec<u32> = queries.iter().map(|query| query.answer().0).collect();
        let (answers, known_at) = (device.copy(&answers)?, device.copy(&known_of)?);
        let counted = device.zeros::<Quad>(queries.len())?;
        let entity_count = tables.entity_rows as u32;
        let blocks = queries.len().div_ceil(work.block);
        for block in 0..blocks {
            let first = block * work.block;
            let count = work.block.min(queries.len() - first);
            self.scores(device, tables, &mut work, first, count)?;
            let at = |address: u64, size: usize| address + (first * size) as u64;
            let (answers, known_at) = (at(answers.address, 4), at(known_at.address, size_of::<Pair>()));
            let tallies = at(counted.address, size_of::<Quad>());
            let layout = LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: one block per query; answers and known entities are rows of the table.
            unsafe {
                device
                    .stream
                    .launch_builder(&self.count_ranks)
                    .arg(&work.scores.address)
                    .arg(&entity_count)
                    .arg(&answers)
                    .arg(&known_at)
                    .arg(&lists.address)
                    .arg(&tallies)
                    .launch(layout)
            }
            .doing("counting ranks")?;
            // Long rankings wait now and then, so that progress is accurate and cancelling takes effect.
            if block % 32 == 31 {
                device.wait()?;
                control.check()?;
                control.progress(first + count, queries.len());
            }
        }
        let mut tallies = vec![Quad::default(); queries.len()];
        device.get(&counted, &mut tallies)?;
        control.progress(queries.len(), queries.len());
        let others = (tables.entity_rows as u32).saturating_sub(1);
        let finish = |((query, tally), list): ((&RankQuery, &Quad), &Pair)| {
            let known = known.map_or(&[][..], |filter| query.known(filter));
            let others_known = (list.1 - list.0) - u32::from(known.binary_search(&query.answer()).is_ok());
            let raw = Place { better: tally.0, equal: tally.1.saturating_sub(1), others };
            let filtered =
                Place { better: tally.0 - tally.2, equal: raw.equal - tally.3, others: others - others_known };
            Rank { filtered, raw }
        };
        Ok(queries.par_iter().zip(&tallies).zip(&known_of).map(finish).collect())
    }
}

/// The queries, and memory for the scores of a block of them.
struct QueryBuffers {
    block: usize,
    queries: Buffer<Quad>,
    vectors: Buffer<f32>,
    scores: Buffer<f32>,
}

impl QueryBuffers {
    fn new(
        device: &Device,
        tables: &Tables,
        constants: &Constants,
        queries: &[RankQuery],
        most: usize,
    ) -> Result<Self> {
        let stride = constants.entities.stride;
        let mut block = queries.len().min(most).min(SCORES / tables.entity_rows.max(1)).max(1);
        // If memory is short, use smaller blocks rather than fail.
        let free = device.free()?.saturating_sub(16 * queries.len());
        while block > 64 && 4 * block * (tables.entity_rows + stride) > free {
            block /= 2;
        }
        let scores = 4 * block * (tables.entity_rows + stride);
        device.require(
            &[("scores of a block of queries", scores), ("queries", 16 * queries.len())],
            "ask for fewer at once",
        )?;
        let side = |query: &RankQuery| u32::from(query.side == Side::Tail);
        let list: Vec<Quad> = queries
            .par_iter()
            .map(|query| Quad(query.triple.head.0, query.triple.relation.0, query.triple.tail.0, side(query)))
            .collect();
        Ok(Self {
            block,
            queries: device.copy(&list)?,
            vectors: device.room(block * stride)?,
            scores: device.room(block * tables.entity_rows)?,
        })
    }
}

/// For each query the range of its known answers in a list that stores those of equal queries once.
fn known_lists(queries: &[RankQuery], known: Option<&Filter>) -> (Vec<Pair>, Vec<u32>) {
    let Some(filter) = known else { return (vec![Pair(0, 0); queries.len()], Vec::new()) };
    let slices: Vec<&[EntityId]> = queries.par_iter().map(|query| query.known(filter)).collect();
    let mut lists = Vec::new();
    // The filter stores each list once, so its address identifies it.
    let mut seen: FxHashMap<*const EntityId, Pair> = FxHashMap::default();
    let of = slices
        .iter()
        .map(|entities| {
            if entities.is_empty() {
                return Pair(0, 0);
            }
            *seen.entry(entities.as_ptr()).or_insert_with(|| {
                let from = lists.len() as u32;
                lists.extend(entities.iter().map(|entity| entity.0));
                Pair(from, lists.len() as u32)
            })
        })
        .collect();
    (of, lists)
}
