//! The best answers to a query: every entity is scored in the hidden place, and the k highest are kept.
//!
//! Best first; equal scores stand in the order of their ids, and NaN is no answer. The readable definition is
//! [`by_scores`], which every model has; a model overrides it for speed and is held to the same lists.

use rayon::prelude::*;
use ruge_kg::{EntityId, Filter};

use crate::error::Result;
use crate::rank::{RankOptions, RankQuery};

/// An entity with its score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scored {
    /// Who.
    pub entity: EntityId,
    /// η as ranking sums it; squared for L2 distances.
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
        let (hidden, stays) = options.hide.of(query);
        let only = options.only.and_then(|only| only(query));
        let wanted = |entity: EntityId| {
            only.is_none_or(|words| words[entity.index() / 32] >> (entity.index() % 32) & 1 == 1)
                && (stays == Some(entity) || hidden.binary_search(&entity).is_err())
        };
        let all = scores.iter().enumerate().map(|(index, &score)| Scored { entity: EntityId(index as u32), score });
        let mut found: Vec<Scored> = all.filter(|x| x.score > f32::NEG_INFINITY && wanted(x.entity)).collect();
        let order = |a: &Scored, b: &Scored| b.score.total_cmp(&a.score).then(a.entity.cmp(&b.entity));
        if options.k < found.len() {
            found.select_nth_unstable_by(options.k, order);
            found.truncate(options.k);
        }
        found.sort_unstable_by(order);
        Ok(found)
    };
    queries.par_iter().map_init(|| vec![0.0; entities], answer).collect()
}
