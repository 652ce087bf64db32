//! The best answers to a query: every entity is scored in the hidden place, and the k highest are kept.
//!
//! Best first; equal scores stand in the order of their ids, and NaN is no answer. The readable definition is
//! [`by_scores`], which every model has; [`top`] is the fast way and held to the same lists. It walks the same panels with
//! the same tile as [`rank`](mod@crate::rank), but instead of counting, it looks at what lies above the worst answer that is
//! still kept: after the first few hundred entities that is almost nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use ruge_kg::{EntityId, Filter};

use crate::cpu::tile::{self, Above, GROUP, PANEL};
use crate::cpu::{Isa, Kernel};
use crate::error::Result;
use crate::rank::{BLOCK, GROUPS, Panels, RankOptions, RankQuery, write_query};
use crate::scoring::{Comparator, ScoringFunction};
use crate::table::Table;

/// An entity with its score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scored {
    /// Who.
    pub entity: EntityId,
    /// η; squared for L2 distances where [`top`] is asked and not a model.
    pub score: f32,
}

/// Which candidates are left out because they form known facts.
#[derive(Clone, Copy, Debug, Default)]
pub enum Hide<'f> {
    /// None.
    #[default]
    Nothing,
    /// All of them: what is left is new.
    Known(&'f Filter),
    /// All but the query's own answer, as in filtered ranking.
    OtherKnown(&'f Filter),
}

impl<'f> Hide<'f> {
    /// The entities to leave out, in id order, and the one among them that stays.
    pub(crate) fn of(self, query: &RankQuery) -> (&'f [EntityId], Option<EntityId>) {
        match self {
            Hide::Nothing => (&[], None),
            Hide::Known(filter) => (query.known(filter), None),
            Hide::OtherKnown(filter) => (query.known(filter), Some(query.answer())),
        }
    }
}

/// Says which entities may answer a query: bit e % 32 of word e / 32, or everyone.
pub type Only<'a> = &'a (dyn Fn(&RankQuery) -> Option<&'a [u32]> + Sync);

/// What is asked for.
#[derive(Clone, Copy)]
pub struct TopOptions<'a> {
    /// Answers per query; fewer where there are fewer candidates.
    pub k: usize,
    /// Known facts that are left out.
    pub hide: Hide<'a>,
    /// Who may answer.
    pub only: Option<Only<'a>>,
    /// Memory and instruction set.
    pub rank: RankOptions,
}

impl TopOptions<'_> {
    /// The k best of all entities.
    pub fn new(k: usize) -> Self {
        Self { k, hide: Hide::Nothing, only: None, rank: RankOptions::default() }
    }
}

/// A set of entities as [`Only`] wants it.
pub fn entity_set(entities: usize, members: impl IntoIterator<Item = EntityId>) -> Vec<u32> {
    let mut words = vec![0; entities.div_ceil(32)];
    for entity in members {
        words[entity.index() / 32] |= 1 << (entity.index() % 32);
    }
    words
}

/// The definition: score all, leave out what is hidden, sort, cut.
pub fn by_scores(
    entities: usize,
    score_all: &(dyn Fn(RankQuery, &mut [f32]) -> Result<()> + Sync),
    queries: &[RankQuery],
    options: &TopOptions<'_>,
) -> Result<Vec<Vec<Scored>>> {
    let answer = |scores: &mut Vec<f32>, query: &RankQuery| {
        score_all(*query, scores)?;
        Ok(select(scores, query, options))
    };
    queries.par_iter().map_init(|| vec![0.0; entities], answer).collect()
}

/// The k best of one query, given the scores of all entities.
pub fn select(scores: &[f32], query: &RankQuery, options: &TopOptions<'_>) -> Vec<Scored> {
    let (hidden, stays) = options.hide.of(query);
    let only = options.only.and_then(|only| only(query));
    let wanted = |entity: EntityId| {
        only.is_none_or(|words| words[entity.index() / 32] >> (entity.index() % 32) & 1 == 1)
            && (stays == Some(entity) || hidden.binary_search(&entity).is_err())
    };
    let all = scores.iter().enumerate().map(|(index, &score)| Scored { entity: EntityId(index as u32), score });
    let mut found: Vec<Scored> = all.filter(|x| x.score > f32::NEG_INFINITY && wanted(x.entity)).collect();
    if options.k < found.len() {
        found.select_nth_unstable_by(options.k, best_first);
        found.truncate(options.k);
        // Room for all entities, kept for every query, would be gigabytes.
        found.shrink_to_fit();
    }
    found.sort_unstable_by(best_first);
    found
}

/// The best answers to every query among all entities of the table; rows as scored. `progress` hears of queries done and
/// queries in all, from any thread.
pub fn top<F: ScoringFunction>(
    scoring: &F,
    entities: &Table,
    relations: &Table,
    queries: &[RankQuery],
    options: &TopOptions<'_>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Vec<Scored>> {
    let mut best: Vec<Best> = queries.iter().map(|_| Best::new(options.k.min(entities.rows()))).collect();
    let panel_bytes = 4 * PANEL * entities.width().max(1);
    let slab = (options.rank.memory / panel_bytes).max(1) * PANEL;
    let slabs = entities.rows().div_ceil(slab).max(1);
    let (done, all, isa) = (AtomicUsize::new(0), queries.len(), options.rank.isa);
    for from in (0..entities.rows()).step_by(slab) {
        let panels = Panels::pack(entities, from, entities.rows().min(from + slab));
        // Slabs go by ascending id, so that a later candidate of equal score stands behind an earlier one.
        best.par_chunks_mut(BLOCK).zip(queries.par_chunks(BLOCK)).for_each_init(
            || Block::new(&panels),
            |block, (best, queries)| {
                isa.run(Prepare { block, scoring, entities, relations, queries });
                block.admit(&panels, queries, options);
                block.gather(&panels, F::COMPARATOR, isa, best);
                let passed = done.fetch_add(queries.len(), Ordering::Relaxed) + queries.len();
                progress(passed / slabs, all);
            },
        );
    }
    best.into_par_iter().map(Best::finish).collect()
}

/// The k best so far, and some more: cut back whenever twice as many have come together.
struct Best {
    k: usize,
    /// What a newcomer must exceed.
    threshold: f32,
    found: Vec<Scored>,
}

/// The order of answers. NaN never gets here, and 0 equals −0, as the tile compares.
fn best_first(a: &Scored, b: &Scored) -> std::cmp::Ordering {
    b.score.partial_cmp(&a.score).unwrap_or(std::cmp::Ordering::Equal).then(a.entity.cmp(&b.entity))
}

impl Best {
    fn new(k: usize) -> Self {
        let threshold = if k == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        Self { k, threshold, found: Vec::new() }
    }

    #[inline]
    fn push(&mut self, scored: Scored) {
        self.found.push(scored);
        if self.found.len() >= 2 * self.k {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.found.len() > self.k {
            self.found.select_nth_unstable_by(self.k - 1, best_first);
            self.found.truncate(self.k);
        }
        if self.found.len() == self.k
            && let Some(worst) = self.found.iter().max_by(|a, b| best_first(a, b))
        {
            self.threshold = worst.score;
        }
    }

    fn finish(mut self) -> Vec<Scored> {
        self.found.sort_unstable_by(best_first);
        self.found.truncate(self.k);
        self.found
    }
}

/// A block of queries: the scratch of one thread.
struct Block {
    vector: Vec<f32>,
    groups: Vec<f32>,
    /// Per panel and group, a bit per query and candidate that may answer.
    admitted: Vec<[u32; GROUP]>,
    tile: Above,
}

impl Block {
    fn new(panels: &Panels) -> Self {
        Self {
            vector: vec![0.0; panels.width],
            groups: vec![0.0; panels.width * BLOCK],
            admitted: vec![[0; GROUP]; panels.len() * GROUPS],
            tile: Above::default(),
        }
    }

    /// Sets the bits of those who may answer.
    fn admit(&mut self, panels: &Panels, queries: &[RankQuery], options: &TopOptions<'_>) {
        self.admitted.fill([u32::MAX; GROUP]);
        for (at, query) in queries.iter().enumerate() {
            let (group, place) = (at / GROUP, at % GROUP);
            if let Some(words) = options.only.and_then(|only| only(query)) {
                // A word of the set is a panel: both hold 32 entities.
                for (admitted, word) in self.admitted.chunks_exact_mut(GROUPS).zip(&words[panels.from / PANEL..]) {
                    admitted[group][place] = *word;
                }
            }
            let (hidden, stays) = options.hide.of(query);
            let first = hidden.partition_point(|entity| entity.index() < panels.from);
            for &entity in hidden[first..].iter().take_while(|entity| entity.index() < panels.to) {
                if stays != Some(entity) {
                    let index = entity.index() - panels.from;
                    self.admitted[index / PANEL * GROUPS + group][place] &= !(1 << (index % PANEL));
                }
            }
        }
    }

    fn gather(&mut self, panels: &Panels, comparator: Comparator, isa: Isa, best: &mut [Best]) {
        let mut thresholds = [[f32::INFINITY; GROUP]; GROUPS];
        for (at, best) in best.iter().enumerate() {
            thresholds[at / GROUP][at % GROUP] = best.threshold;
        }
        let groups = best.len().div_ceil(GROUP);
        for (index, admitted) in self.admitted.chunks_exact(GROUPS).enumerate() {
            let panel = &panels.data.row(index)[..PANEL * panels.width];
            for (group, vectors) in self.groups.chunks_exact(panels.width * GROUP).take(groups).enumerate() {
                let thresholds = &mut thresholds[group];
                tile::above(isa, comparator, panel, vectors, thresholds, &mut self.tile);
                let members = &mut best[group * GROUP..];
                for (place, best) in members.iter_mut().take(GROUP).enumerate() {
                    let mut mask = self.tile.above[place] & admitted[group][place];
                    while mask != 0 {
                        let candidate = mask.trailing_zeros() as usize;
                        mask &= mask - 1;
                        let entity = EntityId((panels.from + index * PANEL + candidate) as u32);
                        best.push(Scored { entity, score: self.tile.scores[place][candidate] });
                    }
                    thresholds[place] = best.threshold;
                }
            }
        }
    }
}

/// Computes the query vectors of a block.
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
        let Self { block: Block { vector, groups, .. }, scoring, entities, relations, queries } = self;
        let width = vector.len();
        for (at, &query) in queries.iter().enumerate() {
            write_query(scoring, entities, relations, query, vector);
            let group = &mut groups[at / GROUP * GROUP * width..][..GROUP * width];
            for (entries, &value) in group.chunks_exact_mut(GROUP).zip(&*vector) {
                entries[at % GROUP] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ruge_kg::Triple;
    use ruge_kg::random::{self, Stream};

    use super::*;
    use crate::rank::{Side, score_all};
    use crate::scoring::{ComplEx, DistMult, RotatE, TransEL1, TransEL2};

    fn draw(epoch: u64, at: usize, bound: u64) -> u32 {
        random::below(random::draw(5, Stream(0x7e5a), epoch, at as u64), bound) as u32
    }

    /// Rows of few levels, so that scores tie.
    fn table(rows: usize, width: usize, epoch: u64) -> Table {
        let mut table = Table::zeros(rows, width);
        for row in 0..rows {
            for (k, value) in table.row_mut(row).iter_mut().enumerate() {
                *value = draw(epoch, row * width + k, 5) as f32 - 2.0;
            }
        }
        table
    }

    fn check<F: ScoringFunction>(scoring: &F) {
        let (entities, relations) = (173, 3);
        let mut e = table(entities, scoring.entity_width(), 0);
        e.row_mut(7)[0] = f32::NAN;
        let r = table(relations, scoring.relation_width(), 1);
        let facts: Vec<Triple> =
            (0..450).map(|i| Triple::new(draw(2, i, 173), draw(3, i, 3), draw(4, i, 173))).collect();
        let filter = Filter::new(entities, relations, &[&facts]);
        let queries = RankQuery::both_sides(&facts[..150]);
        let odd = entity_set(entities, (0..entities as u32).filter(|id| id % 3 == 1).map(EntityId));
        let typed = |query: &RankQuery| (query.side == Side::Tail).then_some(&odd[..]);
        let isa = Isa::detect();
        let scores = |query: RankQuery, out: &mut [f32]| {
            score_all(scoring, &e, &r, query, isa, out);
            Ok(())
        };
        for k in [0, 1, 10, 1000] {
            for hide in [Hide::Nothing, Hide::Known(&filter), Hide::OtherKnown(&filter)] {
                for only in [None, Some(&typed as Only<'_>)] {
                    let options = TopOptions { hide, only, ..TopOptions::new(k) };
                    let expected = by_scores(entities, &scores, &queries, &options).unwrap();
                    for isa in Isa::available() {
                        for memory in [0, 1 << 30] {
                            let options = TopOptions { rank: RankOptions { memory, isa }, ..options };
                            let found = top(scoring, &e, &r, &queries, &options, &|done, all| assert!(done <= all));
                            assert_eq!(found, expected, "{} of {k} on {isa:?} within {memory} bytes", F::NAME);
                        }
                    }
                }
            }
        }
        let filtered = TopOptions { hide: Hide::OtherKnown(&filter), ..TopOptions::new(entities) };
        let lists = by_scores(entities, &scores, &queries[..1], &filtered).unwrap();
        assert!(lists[0].iter().any(|x| x.entity == queries[0].answer()) || queries[0].answer() == EntityId(7));
    }

    #[test]
    fn the_fast_way_gives_the_lists_of_the_definition() {
        check(&ComplEx::new(5));
        check(&DistMult::new(9));
        check(&TransEL1::new(10));
        check(&TransEL2::new(10));
        check(&RotatE::new(4));
    }
}
