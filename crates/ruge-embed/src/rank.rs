//! Exact filtered ranking: where does the true answer stand among all entities?
//!
//! A query hides the head or the tail of a triple, every entity is scored in its place, and the answer's rank counts who
//! scores higher. Candidates that form another known fact are left out of the *filtered* rank and kept in the *raw* one.
//! Scores are counted as they are computed (see [`tile`]) and never stored, so memory stays within a stated bound
//! whatever the number of queries.
//!
//! *Ties.* Equal scores are counted apart, so the optimistic, mean and pessimistic rank come together; the mean is the
//! default. *NaN* counts as −∞, below every number. Ranks are the same on every instruction set and thread count.

use rayon::prelude::*;
use ruge_kg::{EntityId, Filter, Triple};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cpu::tile::{self, GROUP, PANEL, Tally};
use crate::cpu::{Isa, Kernel};
use crate::scoring::{Comparator, ScoringFunction};
use crate::table::Table;

/// Groups of queries that share one walk over the panels: 192 queries, whose vectors stay in the second-level cache.
pub(crate) const GROUPS: usize = 16;
pub(crate) const BLOCK: usize = GROUPS * GROUP;

/// Which end of a triple is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// (?, r, t)
    Head,
    /// (h, r, ?)
    Tail,
}

/// A triple with one end hidden.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RankQuery {
    /// The triple, its true answer included.
    pub triple: Triple,
    /// The hidden end.
    pub side: Side,
}

impl RankQuery {
    /// Both queries of each triple: head, tail, head, tail, …
    pub fn both_sides(triples: &[Triple]) -> Vec<Self> {
        triples.iter().flat_map(|&triple| [Side::Head, Side::Tail].map(|side| Self { triple, side })).collect()
    }

    /// The hidden entity.
    pub fn answer(&self) -> EntityId {
        match self.side {
            Side::Head => self.triple.head,
            Side::Tail => self.triple.tail,
        }
    }

    /// The triple with another entity in the hidden place.
    pub fn answered(&self, entity: EntityId) -> Triple {
        match self.side {
            Side::Head => Triple { head: entity, ..self.triple },
            Side::Tail => Triple { tail: entity, ..self.triple },
        }
    }

    /// Every entity that completes the query to a known fact, in id order.
    pub fn known<'f>(&self, filter: &'f Filter) -> &'f [EntityId] {
        match self.side {
            Side::Head => filter.heads(self.triple.relation, self.triple.tail),
            Side::Tail => filter.tails(self.triple.head, self.triple.relation),
        }
    }
}

/// How equal scores count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// The answer stands in the middle of its equals; half ranks occur.
    #[default]
    Mean,
    /// The answer stands before its equals.
    Optimistic,
    /// The answer stands behind its equals.
    Pessimistic,
}

/// Where an answer stands among the other candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Candidates that score higher.
    pub better: u32,
    /// Other candidates with the same score.
    pub equal: u32,
    /// All other candidates.
    pub others: u32,
}

impl Place {
    /// The rank, 1 for the best.
    pub fn rank(&self, ties: Ties) -> f64 {
        let (better, equal) = (f64::from(self.better), f64::from(self.equal));
        match ties {
            Ties::Mean => 1.0 + better + 0.5 * equal,
            Ties::Optimistic => 1.0 + better,
            Ties::Pessimistic => 1.0 + better + equal,
        }
    }
}

/// Where an answer stands, known facts left out and kept in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rank {
    /// Among candidates that are no other known fact.
    pub filtered: Place,
    /// Among all entities.
    pub raw: Place,
}

/// What ranking may use.
#[derive(Clone, Copy, Debug)]
pub struct RankOptions {
    /// Bytes for the packed entity table; larger tables are ranked slab by slab.
    pub memory: usize,
    /// The instruction set; any gives the same ranks.
    pub isa: Isa,
}

impl Default for RankOptions {
    fn default() -> Self {
        Self { memory: 1 << 30, isa: Isa::detect() }
    }
}

/// Ranks every query's answer among all entities of the table; rows as scored. `progress` hears of queries done and
/// queries in all, from any thread.
pub fn rank<F: ScoringFunction>(
    scoring: &F,
    entities: &Table,
    relations: &Table,
    queries: &[RankQuery],
    known: Option<&Filter>,
    options: &RankOptions,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Rank> {
    let mut tallies = vec![Tally::default(); queries.len()];
    let panel_bytes = 4 * PANEL * entities.width().max(1);
    let slab = (options.memory / panel_bytes).max(1) * PANEL;
    let slabs = entities.rows().div_ceil(slab).max(1);
    let (done, all) = (AtomicUsize::new(0), queries.len());
    for from in (0..entities.rows()).step_by(slab) {
        let panels = Panels::pack(entities, from, entities.rows().min(from + slab));
        tallies.par_chunks_mut(BLOCK).zip(queries.par_chunks(BLOCK)).for_each_init(
            || Block::new(&panels),
            |block, (tallies, queries)| {
                options.isa.run(Prepare { block, scoring, entities, relations, queries });
                block.mark(&panels, queries, known);
                block.count(&panels, F::COMPARATOR, options.isa, queries.len(), tallies);
                // Every slab passes over all queries; progress tells of the share of the whole.
                let passed = done.fetch_add(queries.len(), Ordering::Relaxed) + queries.len();
                progress(passed / slabs, all);
            },
        );
    }
    let candidates = entities.rows() as u32;
    let finish = |(tally, query): (&Tally, &RankQuery)| finish(*tally, query, known, candidates);
    tallies.iter().zip(queries).map(finish).collect()
}

/// Turns counts into places: the answer is not its own rival.
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

/// Scores every entity of the table for one query, in the order of summation of ranking.
pub fn score_all<F: ScoringFunction>(
    scoring: &F,
    entities: &Table,
    relations: &Table,
    query: RankQuery,
    isa: Isa,
    scores: &mut [f32],
) {
    assert_eq!(scores.len(), entities.rows(), "one score per entity");
    let mut vector = vec![0.0; scoring.entity_width()];
    write_query(scoring, entities, relations, query, &mut vector);
    isa.run(ScoreAll { comparator: F::COMPARATOR, entities, query: &vector, scores });
}

/// The same for many queries, a row of `scores` each. A panel of entities is packed once and meets all queries of a task
/// while it is in the caches.
pub fn score_many<F: ScoringFunction>(
    scoring: &F,
    entities: &Table,
    relations: &Table,
    queries: &[RankQuery],
    isa: Isa,
    scores: &mut [f32],
) {
    let rows = entities.rows();
    assert_eq!(scores.len(), rows * queries.len(), "a score per query and entity");
    if rows == 0 {
        return;
    }
    let each = queries.len().div_ceil(rayon::current_num_threads()).clamp(1, BLOCK);
    queries.par_chunks(each).zip(scores.par_chunks_mut(each * rows)).for_each(|(queries, scores)| {
        let width = scoring.entity_width();
        let mut vectors = vec![0.0; queries.len() * width];
        for (vector, &query) in vectors.chunks_exact_mut(width.max(1)).zip(queries) {
            write_query(scoring, entities, relations, query, vector);
        }
        isa.run(ScoreMany { comparator: F::COMPARATOR, entities, vectors: &vectors, scores });
    });
}

struct ScoreMany<'a> {
    comparator: Comparator,
    entities: &'a Table,
    vectors: &'a [f32],
    scores: &'a mut [f32],
}

impl Kernel for ScoreMany<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (rows, width) = (self.entities.rows(), self.entities.width());
        let mut panel = vec![0.0; PANEL * width];
        for from in (0..rows).step_by(PANEL) {
            let to = rows.min(from + PANEL);
            pack_panel(self.entities, from, to, &mut panel);
            for (vector, scores) in self.vectors.chunks_exact(width.max(1)).zip(self.scores.chunks_exact_mut(rows)) {
                let mut found = [0.0; PANEL];
                tile::scores(self.comparator, &panel, vector, &mut found);
                scores[from..to].copy_from_slice(&found[..to - from]);
            }
        }
    }
}

/// Where a query's answer stands, given the scores of all entities. NaN counts as −∞.
pub fn place(query: &RankQuery, known: Option<&Filter>, scores: &[f32]) -> Rank {
    let number = |score: f32| if score.is_nan() { f32::NEG_INFINITY } else { score };
    let answer = query.answer();
    let target = number(scores[answer.index()]);
    let (mut better, mut equal) = (0, 0);
    for &score in scores {
        better += u32::from(number(score) > target);
        equal += u32::from(number(score) == target);
    }
    let raw = Place { better, equal: equal - 1, others: scores.len() as u32 - 1 };
    let mut filtered = raw;
    let known = known.map_or(&[][..], |filter| query.known(filter));
    for &entity in known.iter().filter(|&&entity| entity != answer) {
        let score = number(scores[entity.index()]);
        filtered.others -= 1;
        filtered.better -= u32::from(score > target);
        filtered.equal -= u32::from(score == target);
    }
    Rank { filtered, raw }
}

struct ScoreAll<'a> {
    comparator: Comparator,
    entities: &'a Table,
    query: &'a [f32],
    scores: &'a mut [f32],
}

impl Kernel for ScoreAll<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut panel = vec![0.0; PANEL * self.entities.width()];
        for (index, scores) in self.scores.chunks_mut(PANEL).enumerate() {
            pack_panel(self.entities, index * PANEL, index * PANEL + scores.len(), &mut panel);
            let mut found = [0.0; PANEL];
            tile::scores(self.comparator, &panel, self.query, &mut found);
            scores.copy_from_slice(&found[..scores.len()]);
        }
    }
}

#[inline(always)]
pub(crate) fn write_query<F: ScoringFunction>(
    scoring: &F,
    entities: &Table,
    relations: &Table,
    query: RankQuery,
    vector: &mut [f32],
) {
    let Triple { head, relation, tail } = query.triple;
    match query.side {
        Side::Head => scoring.head_query(relations.row(relation.index()), entities.row(tail.index()), vector),
        Side::Tail => scoring.tail_query(entities.row(head.index()), relations.row(relation.index()), vector),
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
    pub(crate) fn pack(entities: &Table, from: usize, to: usize) -> Self {
        let width = entities.width();
        let mut data = Table::zeros((to - from).div_ceil(PANEL), PANEL * width);
        let stride = data.stride();
        data.as_mut_slice().par_chunks_mut(stride).enumerate().for_each(|(index, panel)| {
            let first = from + index * PANEL;
            pack_panel(entities, first, to.min(first + PANEL), panel);
        });
        Self { from, to, width, data }
    }

    pub(crate) fn len(&self) -> usize {
        self.data.rows()
    }
}

/// Transposes rows into a panel; places without a row are NaN, which no target loses to or ties with.
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

/// A block of queries with their targets and the known facts among the candidates: the scratch of one thread.
struct Block {
    vector: Vec<f32>,
    groups: Vec<f32>,
    targets: [[f32; GROUP]; GROUPS],
    /// Per panel and group, one bit per candidate and query.
    known: Vec<[u32; GROUP]>,
}

impl Block {
    fn new(panels: &Panels) -> Self {
        Self {
            vector: vec![0.0; panels.width],
            groups: vec![0.0; panels.width * BLOCK],
            targets: [[0.0; GROUP]; GROUPS],
            known: vec![[0; GROUP]; panels.len() * GROUPS],
        }
    }

    /// Sets the bits of known facts, the answer's own excepted.
    fn mark(&mut self, panels: &Panels, queries: &[RankQuery], known: Option<&Filter>) {
        let Some(filter) = known else { return };
        self.known.fill([0; GROUP]);
        for (at, query) in queries.iter().enumerate() {
            let known = query.known(filter);
            let first = known.partition_point(|entity| entity.index() < panels.from);
            for &entity in known[first..].iter().take_while(|entity| entity.index() < panels.to) {
                if entity != query.answer() {
                    let place = entity.index() - panels.from;
                    self.known[place / PANEL * GROUPS + at / GROUP][at % GROUP] |= 1 << (place % PANEL);
                }
            }
        }
    }

    fn count(&self, panels: &Panels, comparator: Comparator, isa: Isa, queries: usize, tallies: &mut [Tally]) {
        let groups = queries.div_ceil(GROUP);
        let mut counted = [[Tally::default(); GROUP]; GROUPS];
        for (index, known) in self.known.chunks_exact(GROUPS).enumerate() {
            let panel = &panels.data.row(index)[..PANEL * panels.width];
            for (group, vectors) in self.groups.chunks_exact(panels.width * GROUP).take(groups).enumerate() {
                let (targets, tallies) = (&self.targets[group], &mut counted[group]);
                tile::count(isa, comparator, panel, vectors, targets, &known[group], tallies);
            }
        }
        for (at, tally) in tallies.iter_mut().enumerate() {
            let found = counted[at / GROUP][at % GROUP];
            tally.better += found.better;
            tally.better_known += found.better_known;
            tally.equal_known += found.equal_known;
            // −∞ stands for NaN and ties with all that is not better; `finish` reads the mark.
            let nan = self.targets[at / GROUP][at % GROUP] == f32::NEG_INFINITY;
            tally.equal = if nan { u32::MAX } else { tally.equal + found.equal };
        }
    }
}

/// Computes query vectors and target scores of a block.
struct Prepare<'a, F> {
    block: &'a mut Block,
    scoring: &'a F,
    entities: &'a Table,
    relations: &'a Table,
    queries: &'a [RankQuery],
}

impl<F: ScoringFunction> Kernel for Prepare<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Self { block, scoring, entities, relations, queries } = self;
        let Block { vector, groups, targets, .. } = block;
        let width = vector.len();
        for (at, &query) in queries.iter().enumerate() {
            write_query(scoring, entities, relations, query, vector);
            let score = tile::ordered_score(F::COMPARATOR, vector, entities.row(query.answer().index()));
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
