//! The best answers to a query: every entity is scored in the hidden position, and the k highest are kept.
//!
//! Best first; ties are in id order, and NaN is never an answer. [`Ranker::top`](ruge_kg::Ranker::top) is the readable
//! definition; this is the fast version, tested to return the same lists. It scans the same panels with the same tile
//! as [`rank`](mod@crate::rank), but instead of counting, it looks only at scores above the worst answer kept so far:
//! after the first few hundred entities, almost none. Up to four queries are scored directly: a tile takes a dozen.

use std::ops::Range;

use rayon::prelude::*;
use ruge_kg::control::{Cancelled, Control};
use ruge_kg::rank::select;
use ruge_kg::{EntityId, RankQuery, Scored, TopOptions};

use crate::cpu::tile::{self, Above, GROUP, PANEL};
use crate::cpu::{Isa, Kernel};
use crate::rank::{Candidates, Panels, Progress, in_tasks};
use crate::scoring::{Comparator, ScoringFunction};

/// Up to this many queries are scored one by one.
const FEW: usize = 4;

impl<F: ScoringFunction> Candidates<'_, F> {
    /// The best answers to every query among all entities. L2 distances stay squared.
    pub fn top(
        &self,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Scored>>, Cancelled> {
        let rows = self.entities.rows();
        if queries.len() <= FEW {
            let mut scores = vec![0.0; queries.len() * rows];
            self.score_many(queries, &mut scores);
            control.check()?;
            let lists = queries.par_iter().zip(scores.par_chunks(rows.max(1)));
            return Ok(lists.map(|(query, scores)| select(scores, query, options)).collect());
        }
        let k = options.k.min(rows);
        let mut found = vec![Vec::new(); queries.len()];
        let progress = Progress::new(rows, queries.len(), control);
        self.packing.each_slab(self.entities, |panels| {
            let parts = in_tasks(panels, queries, control, |queries, range| {
                let mut block = Block::new(panels.width, queries.len(), range.len());
                self.isa.run(Prepare { block: &mut block, candidates: self, queries });
                block.admit(panels, &range, queries, options);
                let mut best: Vec<Best> = queries.iter().map(|_| Best::new(k)).collect();
                block.gather(panels, &range, F::COMPARATOR, self.isa, &mut best);
                progress.add(panels, &range, queries.len());
                best
            })?;
            for (first, part) in parts {
                for (found, best) in found[first..].iter_mut().zip(part) {
                    found.extend(best.found);
                }
            }
            Ok(())
        })?;
        found.par_iter_mut().for_each(|found| {
            found.sort_unstable_by(Scored::best_first);
            found.truncate(k);
            found.shrink_to_fit();
        });
        Ok(found)
    }
}

/// The k best so far and a few more: truncated when it reaches twice k.
struct Best {
    k: usize,
    /// The score a new candidate must exceed.
    threshold: f32,
    found: Vec<Scored>,
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
            self.found.select_nth_unstable_by(self.k - 1, Scored::best_first);
            self.found.truncate(self.k);
        }
        if self.found.len() == self.k
            && let Some(worst) = self.found.iter().max_by(|a, b| a.best_first(b))
        {
            self.threshold = worst.score;
        }
    }
}

struct Block {
    vector: Vec<f32>,
    groups: Vec<f32>,
    /// Per panel and group, one bit per query and candidate that may answer.
    admitted: Vec<[u32; GROUP]>,
    tile: Above,
}

impl Block {
    fn new(width: usize, queries: usize, panels: usize) -> Self {
        let groups = queries.div_ceil(GROUP);
        Self {
            vector: vec![0.0; width],
            groups: vec![0.0; width * groups * GROUP],
            admitted: vec![[u32::MAX; GROUP]; panels * groups],
            tile: Above::default(),
        }
    }

    /// Clears the bits of candidates that may not answer.
    fn admit(&mut self, panels: &Panels, range: &Range<usize>, queries: &[RankQuery], options: &TopOptions<'_>) {
        let groups = queries.len().div_ceil(GROUP);
        let [from, to] = [range.start, range.end].map(|panel| (panels.from + panel * PANEL).min(panels.to));
        for (at, query) in queries.iter().enumerate() {
            let (group, place) = (at / GROUP, at % GROUP);
            if let Some(words) = options.only.and_then(|only| only(query)) {
                // A word of the set is a panel: both cover 32 entities.
                for (admitted, word) in self.admitted.chunks_exact_mut(groups).zip(&words[from / PANEL..]) {
                    admitted[group][place] = *word;
                }
            }
            let (hidden, stays) = options.hide.of(query);
            let first = hidden.partition_point(|entity| entity.index() < from);
            for &entity in hidden[first..].iter().take_while(|entity| entity.index() < to) {
                if stays != Some(entity) {
                    let index = entity.index() - from;
                    self.admitted[index / PANEL * groups + group][place] &= !(1 << (index % PANEL));
                }
            }
        }
    }

    fn gather(&mut self, panels: &Panels, range: &Range<usize>, comparator: Comparator, isa: Isa, best: &mut [Best]) {
        let groups = best.len().div_ceil(GROUP);
        let mut thresholds = vec![[f32::INFINITY; GROUP]; groups];
        for (threshold, best) in thresholds.as_flattened_mut().iter_mut().zip(&*best) {
            *threshold = best.threshold;
        }
        for (index, admitted) in range.clone().zip(self.admitted.chunks_exact(groups)) {
            let panel = &panels.data.row(index)[..PANEL * panels.width];
            for (group, vectors) in self.groups.chunks_exact(panels.width * GROUP).enumerate() {
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

struct Prepare<'a, F> {
    block: &'a mut Block,
    candidates: &'a Candidates<'a, F>,
    queries: &'a [RankQuery],
}

impl<F: ScoringFunction> Kernel for Prepare<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Self { block: Block { vector, groups, .. }, candidates, queries } = self;
        let width = vector.len();
        for (at, &query) in queries.iter().enumerate() {
            candidates.write_query(query, vector);
            let group = &mut groups[at / GROUP * GROUP * width..][..GROUP * width];
            for (entries, &value) in group.chunks_exact_mut(GROUP).zip(&*vector) {
                entries[at % GROUP] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ruge_kg::random::{self, Stream};
    use ruge_kg::rank::{Only, entity_set};
    use ruge_kg::{Filter, Hide, Side, Triple, Work};

    use super::*;
    use crate::rank::Packing;
    use crate::scoring::{ComplEx, DistMult, RotatE, TransEL1, TransEL2};
    use crate::table::Table;

    fn draw(epoch: u64, at: usize, bound: u64) -> u32 {
        random::below(random::draw(5, Stream(0x7e5a), epoch, at as u64), bound) as u32
    }

    /// Rows with few levels, so that scores tie.
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
        let packing = Packing::default();
        fn with<'a, F>(scoring: &'a F, [e, r]: [&'a Table; 2], packing: &'a Packing, isa: Isa) -> Candidates<'a, F> {
            Candidates { scoring, entities: e, relations: r, packing, isa }
        }
        // The definition: all scores, and the k best of them.
        let by_scores = |queries: &[RankQuery], options: &TopOptions<'_>| -> Vec<Vec<Scored>> {
            let mut scores = vec![0.0; queries.len() * entities];
            with(scoring, [&e, &r], &packing, Isa::detect()).score_many(queries, &mut scores);
            queries.iter().zip(scores.chunks(entities)).map(|(query, row)| select(row, query, options)).collect()
        };
        for k in [0, 1, 10, 1000] {
            for hide in [Hide::Nothing, Hide::Known(&filter), Hide::OtherKnown(&filter)] {
                for only in [None, Some(&typed as Only<'_>)] {
                    let options = TopOptions { hide, only, ..TopOptions::new(k) };
                    let expected = by_scores(&queries, &options);
                    for isa in Isa::available() {
                        for memory in [0, 1 << 30] {
                            let packing = Packing::within(memory);
                            let candidates = with(scoring, [&e, &r], &packing, isa);
                            let told = |work: &Work| assert!(work.done <= work.total);
                            let control = Control::default().with_listener(&told);
                            let found = candidates.top(&queries, &options, &control).expect("nobody cancels");
                            assert_eq!(found, expected, "{} of {k} on {isa:?} within {memory} bytes", F::NAME);
                            for few in [1, FEW + 1] {
                                let found = candidates.top(&queries[..few], &options, &control);
                                assert_eq!(found.as_deref(), Ok(&expected[..few]), "{} of {k} on {isa:?}", F::NAME);
                            }
                        }
                    }
                }
            }
        }
        let filtered = TopOptions { hide: Hide::OtherKnown(&filter), ..TopOptions::new(entities) };
        let lists = by_scores(&queries[..1], &filtered);
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
