//! Exact filtered ranking: the rank of the true answer among all entities.
//!
//! A query hides the head or the tail of a triple, every entity is scored in its place, and the rank counts the higher
//! scores. Candidates that form another known fact are excluded from the *filtered* rank and included in the *raw* one.
//! Scores are counted as they are computed (see [`tile`]) and never stored, so memory is bounded.
//!
//! *Packing.* Entities are transposed into panels of 32 rows before they are scored. A [`Packing`] keeps the panels
//! between calls, so a model that only answers queries packs its table once. A larger table is packed slab by slab in
//! each call.
//!
//! *Threads.* Work is split into blocks of queries and, if there are few, ranges of panels, so that a single query also
//! uses all cores. Counts are integers: ranks are the same on every instruction set and number of threads. *NaN* counts
//! as −∞, below every number.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use ruge_kg::control::{Cancelled, Control};
use ruge_kg::{Filter, Place, Rank, RankQuery, Side, Triple};

use crate::cpu::tile::{self, GROUP, PANEL, Tally};
use crate::cpu::{Isa, Kernel};
use crate::scoring::{Comparator, ScoringFunction};
use crate::table::Table;

/// Groups of queries that share a pass over the panels: 192 queries, whose vectors stay in the L2 cache.
pub(crate) const GROUPS: usize = 16;
pub(crate) const BLOCK: usize = GROUPS * GROUP;
/// Maximum multiply-adds per task, so that cancelling takes effect soon.
const TASK: usize = 1 << 31;
/// Bytes of a packed table from which threads are started to pack it.
const WORTH_HELP: usize = 4 << 20;
/// Minimum panels per task.
const LEAST_PANELS: usize = 8;

/// The packed entity table, built on first use and kept.
#[derive(Default)]
pub struct Packing {
    limit: Limit,
    whole: OnceLock<Panels>,
}

/// Maximum bytes of a packed table.
#[derive(Clone, Copy)]
struct Limit(usize);

/// Default maximum bytes of the packed entity table.
pub const PACKING: usize = 1 << 30;

impl Default for Limit {
    fn default() -> Self {
        Self(PACKING)
    }
}

impl Packing {
    /// At most `bytes`; larger tables are packed slab by slab.
    pub fn within(bytes: usize) -> Self {
        Self { limit: Limit(bytes), whole: OnceLock::new() }
    }

    /// Drops the packed table, because the parameters have changed.
    pub fn clear(&mut self) {
        self.whole = OnceLock::new();
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.whole.get().map_or(0, |panels| panels.data.bytes())
    }

    /// The whole table, if it may be kept.
    fn whole(&self, entities: &Table) -> Option<&Panels> {
        let fits = 4 * entities.rows().next_multiple_of(PANEL) * entities.width() <= self.limit.0;
        fits.then(|| self.whole.get_or_init(|| Panels::pack_apart(entities)))
    }

    pub(crate) fn each_slab<E>(
        &self,
        entities: &Table,
        mut with: impl FnMut(&Panels) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(whole) = self.whole(entities) {
            return with(whole);
        }
        let slab = (self.limit.0 / (4 * PANEL * entities.width().max(1))).max(1) * PANEL;
        let rows = entities.rows();
        (0..rows).step_by(slab).try_for_each(|from| with(&Panels::pack(entities, from, rows.min(from + slab))))
    }
}

/// All that ranking needs of a model: the rows as scored, and their packing.
pub struct Candidates<'a, F> {
    /// η.
    pub scoring: &'a F,
    /// A row per entity.
    pub entities: &'a Table,
    /// A row per relation.
    pub relations: &'a Table,
    /// The entities, packed.
    pub packing: &'a Packing,
    /// The instruction set; any gives the same ranks.
    pub isa: Isa,
}

impl<F: ScoringFunction> Candidates<'_, F> {
    /// Ranks every query's answer among all entities.
    pub fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        control: &Control<'_>,
    ) -> Result<Vec<Rank>, Cancelled> {
        let mut tallies = vec![Tally::default(); queries.len()];
        let progress = Progress::new(self.entities.rows(), queries.len(), control);
        self.packing.each_slab(self.entities, |panels| {
            let counted = in_tasks(panels, queries, control, |queries, range| {
                let mut block = Block::new(panels.width, queries.len(), range.len());
                self.isa.run(Prepare { block: &mut block, candidates: self, queries });
                block.mark(panels, &range, queries, known);
                let counted = block.count(panels, &range, F::COMPARATOR, self.isa, queries.len());
                progress.add(panels, &range, queries.len());
                counted
            })?;
            for (first, block) in counted {
                tallies[first..].iter_mut().zip(block).for_each(|(sum, tally)| sum.merge(tally));
            }
            Ok(())
        })?;
        let candidates = self.entities.rows() as u32;
        Ok(tallies.iter().zip(queries).map(|(tally, query)| finish(*tally, query, known, candidates)).collect())
    }

    /// Scores every entity for each query, one row of `scores` each, in ranking's order of summation.
    pub fn score_many(&self, queries: &[RankQuery], scores: &mut [f32]) {
        let (rows, width) = (self.entities.rows(), self.scoring.entity_width());
        assert_eq!(scores.len(), rows * queries.len(), "a score per query and entity");
        if rows == 0 || queries.is_empty() {
            return;
        }
        let threads = rayon::current_num_threads();
        let each = queries.len().div_ceil(threads).clamp(1, BLOCK);
        let packed = self.packing.whole(self.entities);
        let (comparator, entities) = (F::COMPARATOR, self.entities);
        let run = |from: usize, vectors: &[f32], scores: &mut [f32], stride: usize| {
            self.isa.run(ScoreMany { comparator, entities, packed, from, vectors, scores, stride });
        };
        queries.par_chunks(each).zip(scores.par_chunks_mut(each * rows)).for_each(|(queries, scores)| {
            let mut vectors = vec![0.0; queries.len() * width];
            for (vector, &query) in vectors.chunks_exact_mut(width.max(1)).zip(queries) {
                self.write_query(query, vector);
            }
            if queries.len() > 1 || threads == 1 {
                return run(0, &vectors, scores, rows);
            }
            // A single query is split among the threads.
            let part = rows.div_ceil(4 * threads).next_multiple_of(PANEL);
            scores.par_chunks_mut(part).enumerate().for_each(|(at, scores)| {
                let stride = scores.len();
                run(at * part, &vectors, scores, stride);
            });
        });
    }

    #[inline(always)]
    pub(crate) fn write_query(&self, query: RankQuery, vector: &mut [f32]) {
        let Triple { head, relation, tail } = query.triple;
        let (entity, relation) = (|at: u32| self.entities.row(at as usize), self.relations.row(relation.index()));
        match query.side {
            Side::Head => self.scoring.head_query(relation, entity(tail.0), vector),
            Side::Tail => self.scoring.tail_query(entity(head.0), relation, vector),
        }
    }
}

/// Progress of a pass over panels, in queries.
pub(crate) struct Progress<'a> {
    pairs: AtomicUsize,
    entities: usize,
    queries: usize,
    control: &'a Control<'a>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(entities: usize, queries: usize, control: &'a Control<'_>) -> Self {
        Self { pairs: AtomicUsize::new(0), entities, queries, control }
    }

    /// Records that a number of queries have been scored against these panels.
    pub(crate) fn add(&self, panels: &Panels, range: &Range<usize>, queries: usize) {
        let entities = (panels.from + range.end * PANEL).min(panels.to) - (panels.from + range.start * PANEL);
        let pairs = self.pairs.fetch_add(entities * queries, Ordering::Relaxed) + entities * queries;
        self.control.progress(pairs / self.entities.max(1), self.queries);
    }
}

/// Splits queries into blocks and panels into ranges, and runs a task for each pair. Results are in order of block,
/// then range, each with the index of its block's first query.
pub(crate) fn in_tasks<T: Send>(
    panels: &Panels,
    queries: &[RankQuery],
    control: &Control<'_>,
    task: impl Fn(&[RankQuery], Range<usize>) -> T + Sync,
) -> Result<Vec<(usize, T)>, Cancelled> {
    let blocks = queries.len().div_ceil(BLOCK);
    let threads = rayon::current_num_threads();
    let for_threads = if blocks < 2 * threads { (2 * threads).div_ceil(blocks.max(1)) } else { 1 };
    let for_length = (panels.len() * PANEL * panels.width * queries.len().min(BLOCK)).div_ceil(TASK);
    let ranges = for_threads.min(panels.len().div_ceil(LEAST_PANELS)).max(for_length).max(1);
    let each = panels.len().div_ceil(ranges).max(1);
    let pairs: Vec<(usize, usize)> =
        (0..queries.len()).step_by(BLOCK).flat_map(|q| (0..panels.len()).step_by(each).map(move |p| (q, p))).collect();
    pairs
        .into_par_iter()
        .map(|(first, panel)| {
            control.check()?;
            let block = &queries[first..queries.len().min(first + BLOCK)];
            Ok((first, task(block, panel..panels.len().min(panel + each))))
        })
        .collect()
}

/// Turns counts into places; the answer does not compete with itself.
fn finish(tally: Tally, query: &RankQuery, known: Option<&Filter>, candidates: u32) -> Rank {
    let known = known.map_or(&[][..], |filter| query.known(filter));
    let others_known = known.len() as u32 - u32::from(known.binary_search(&query.answer()).is_ok());
    let others = candidates - 1;
    // An answer that scored NaN was counted as −∞: it ties with all that is not better.
    let nan = tally.equal == u32::MAX;
    let raw = Place {
        better: tally.better,
        equal: if nan { others - tally.better } else { tally.equal.saturating_sub(1) },
        others,
    };
    let better = tally.better - tally.better_known;
    let filtered_others = others - others_known;
    let filtered = Place {
        better,
        equal: if nan { filtered_others - better } else { raw.equal - tally.equal_known },
        others: filtered_others,
    };
    Rank { filtered, raw }
}

struct ScoreMany<'a> {
    comparator: Comparator,
    entities: &'a Table,
    packed: Option<&'a Panels>,
    /// The first entity, at the start of a panel.
    from: usize,
    vectors: &'a [f32],
    scores: &'a mut [f32],
    stride: usize,
}

impl Kernel for ScoreMany<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let width = self.entities.width();
        let mut own = if self.packed.is_some() { Vec::new() } else { vec![0.0; PANEL * width] };
        for at in (0..self.stride).step_by(PANEL) {
            let count = PANEL.min(self.stride - at);
            let panel = match self.packed {
                Some(panels) => &panels.data.row((self.from + at) / PANEL)[..PANEL * width],
                None => {
                    pack_panel(self.entities, self.from + at, self.from + at + count, &mut own);
                    &own[..]
                }
            };
            let rows = self.scores.chunks_exact_mut(self.stride);
            for (vector, scores) in self.vectors.chunks_exact(width.max(1)).zip(rows) {
                let mut found = [0.0; PANEL];
                tile::scores(self.comparator, panel, vector, &mut found);
                scores[at..at + count].copy_from_slice(&found[..count]);
            }
        }
    }
}

/// Part of the entity table, transposed within panels of 32 rows.
pub(crate) struct Panels {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) width: usize,
    pub(crate) data: Table,
}

impl Panels {
    fn empty(entities: &Table, from: usize, to: usize) -> Self {
        let width = entities.width();
        Self { from, to, width, data: Table::zeros((to - from).div_ceil(PANEL), PANEL * width) }
    }

    pub(crate) fn pack(entities: &Table, from: usize, to: usize) -> Self {
        let mut panels = Self::empty(entities, from, to);
        let stride = panels.data.stride();
        panels.data.as_mut_slice().par_chunks_mut(stride).enumerate().for_each(|(index, panel)| {
            let first = from + index * PANEL;
            pack_panel(entities, first, to.min(first + PANEL), panel);
        });
        panels
    }

    /// Packs everything without the pool of the caller, by threads of its own where that pays.
    ///
    /// Others wait while this runs, some of them threads of that pool. If this waited for tasks of the pool, the waiting thread could
    /// be given a task that asks for the same table, and would wait for itself.
    fn pack_apart(entities: &Table) -> Self {
        let rows = entities.rows();
        let mut panels = Self::empty(entities, 0, rows);
        let stride = panels.data.stride();
        let helpers = if panels.data.bytes() < WORTH_HELP { 0 } else { rayon::current_num_threads() - 1 };
        let left = Mutex::new(panels.data.as_mut_slice().chunks_mut(stride).enumerate());
        let work = || {
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((index, panel)) = next else { return };
                let first = index * PANEL;
                pack_panel(entities, first, rows.min(first + PANEL), panel);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                // Without a helper there is only more for the others.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        panels
    }

    pub(crate) fn len(&self) -> usize {
        self.data.rows()
    }
}

/// Transposes rows into a panel; positions without a row are NaN, which is never better or equal.
fn pack_panel(entities: &Table, from: usize, to: usize, panel: &mut [f32]) {
    for place in 0..PANEL {
        if from + place < to {
            for (k, &value) in entities.row(from + place).iter().enumerate() {
                panel[k * PANEL + place] = value;
            }
        } else {
            panel[place..].iter_mut().step_by(PANEL).for_each(|value| *value = f32::NAN);
        }
    }
}

/// A block of queries with their targets and the known facts among the candidates.
struct Block {
    vector: Vec<f32>,
    groups: Vec<f32>,
    targets: Vec<[f32; GROUP]>,
    /// Per panel and group, one bit per candidate and query.
    known: Vec<[u32; GROUP]>,
}

impl Block {
    fn new(width: usize, queries: usize, panels: usize) -> Self {
        let groups = queries.div_ceil(GROUP);
        Self {
            vector: vec![0.0; width],
            groups: vec![0.0; width * groups * GROUP],
            targets: vec![[0.0; GROUP]; groups],
            known: vec![[0; GROUP]; panels * groups],
        }
    }

    /// Sets the bits of known facts, the answer's own excepted.
    fn mark(&mut self, panels: &Panels, range: &Range<usize>, queries: &[RankQuery], known: Option<&Filter>) {
        let Some(filter) = known else { return };
        let groups = self.targets.len();
        let [from, to] = [range.start, range.end].map(|panel| (panels.from + panel * PANEL).min(panels.to));
        for (at, query) in queries.iter().enumerate() {
            let known = query.known(filter);
            let first = known.partition_point(|entity| entity.index() < from);
            for &entity in known[first..].iter().take_while(|entity| entity.index() < to) {
                if entity != query.answer() {
                    let place = entity.index() - from;
                    self.known[place / PANEL * groups + at / GROUP][at % GROUP] |= 1 << (place % PANEL);
                }
            }
        }
    }

    fn count(
        &self,
        panels: &Panels,
        range: &Range<usize>,
        comparator: Comparator,
        isa: Isa,
        queries: usize,
    ) -> Vec<Tally> {
        let groups = self.targets.len();
        let mut counted = vec![[Tally::default(); GROUP]; groups];
        for (index, known) in range.clone().zip(self.known.chunks_exact(groups)) {
            let panel = &panels.data.row(index)[..PANEL * panels.width];
            for (group, vectors) in self.groups.chunks_exact(panels.width * GROUP).enumerate() {
                let (targets, tallies) = (&self.targets[group], &mut counted[group]);
                tile::count(isa, comparator, panel, vectors, targets, &known[group], tallies);
            }
        }
        let mut tallies = counted.concat();
        tallies.truncate(queries);
        for (tally, target) in tallies.iter_mut().zip(self.targets.as_flattened()) {
            // −∞ stands for NaN and ties with all that is not better; `finish` reads the mark.
            if *target == f32::NEG_INFINITY {
                tally.equal = u32::MAX;
            }
        }
        tallies
    }
}

struct Prepare<'a, F> {
    block: &'a mut Block,
    candidates: &'a Candidates<'a, F>,
    queries: &'a [RankQuery],
}

impl<F: ScoringFunction> Kernel for Prepare<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Self { block, candidates, queries } = self;
        let Block { vector, groups, targets, .. } = block;
        let width = vector.len();
        for (at, &query) in queries.iter().enumerate() {
            candidates.write_query(query, vector);
            let answer = candidates.entities.row(query.answer().index());
            let score = tile::ordered_score(F::COMPARATOR, vector, answer);
            targets[at / GROUP][at % GROUP] = if score.is_nan() { f32::NEG_INFINITY } else { score };
            let group = &mut groups[at / GROUP * GROUP * width..][..GROUP * width];
            for (entries, &value) in group.chunks_exact_mut(GROUP).zip(&*vector) {
                entries[at % GROUP] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests;
