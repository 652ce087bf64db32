//! Facts grouped by relation and sorted: the order from which every other index is built.

use rayon::prelude::*;

use crate::triple::{EntityId, RelationId, Triple};

/// A fact of a relation seen from one side: from its head (then `other` is the tail) or from its tail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pair {
    /// The side the list is sorted by.
    pub key: EntityId,
    /// The other side.
    pub other: EntityId,
}

impl Pair {
    const ZERO: Self = Self { key: EntityId(0), other: EntityId(0) };

    /// Both sides as one word in pair order: comparing one is twice as fast as comparing two.
    #[inline]
    fn packed(&self) -> u64 {
        u64::from(self.key.0) << 32 | u64::from(self.other.0)
    }

    #[inline]
    fn swapped(&self) -> Self {
        Self { key: self.other, other: self.key }
    }
}

/// Facts grouped by relation, each group sorted by (key, other) and free of duplicates.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    offsets: Vec<u32>,
    pairs: Vec<Pair>,
}

impl Facts {
    /// Groups and sorts triples by (relation, head, tail), dropping duplicates.
    pub(super) fn by_head(relations: usize, parts: &[&[Triple]]) -> Self {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        assert!(total < u32::MAX as usize / 2, "a graph holds at most 2^31 triples");
        let triples = || parts.iter().flat_map(|part| part.iter());
        let mut offsets = vec![0u32; relations + 1];
        for triple in triples() {
            offsets[triple.relation.index() + 1] += 1;
        }
        accumulate(&mut offsets);
        let mut next = offsets.clone();
        let mut pairs = vec![Pair::ZERO; total];
        for triple in triples() {
            let slot = &mut next[triple.relation.index()];
            pairs[*slot as usize] = Pair { key: triple.head, other: triple.tail };
            *slot += 1;
        }
        buckets(&offsets, &mut pairs).into_par_iter().for_each(|(_, bucket)| {
            if bucket.len() <= SORT_WHOLE {
                bucket.sort_unstable_by_key(Pair::packed);
            } else {
                let copy = bucket.to_vec();
                sort_by_parts(bucket, &|| copy.iter().copied());
            }
        });
        let mut facts = Self { offsets, pairs };
        facts.drop_repeated();
        facts
    }

    /// The same facts, keyed by tail.
    pub(super) fn by_tail(&self) -> Self {
        let mut pairs = vec![Pair::ZERO; self.pairs.len()];
        buckets(&self.offsets, &mut pairs).into_par_iter().for_each(|(relation, bucket)| {
            let swapped = || self.of(relation).iter().map(Pair::swapped);
            if bucket.len() <= SORT_WHOLE {
                bucket.iter_mut().zip(swapped()).for_each(|(slot, pair)| *slot = pair);
                bucket.sort_unstable_by_key(Pair::packed);
            } else {
                sort_by_parts(bucket, &swapped);
            }
        });
        Self { offsets: self.offsets.clone(), pairs }
    }

    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    #[inline]
    pub(super) fn of(&self, relation: RelationId) -> &[Pair] {
        &self.pairs[self.offsets[relation.index()] as usize..self.offsets[relation.index() + 1] as usize]
    }

    pub(super) fn bytes(&self) -> usize {
        4 * self.offsets.len() + 8 * self.pairs.len()
    }

    /// Removes duplicate pairs. Most files have none, which a parallel check finds out.
    fn drop_repeated(&mut self) {
        let (offsets, pairs) = (&self.offsets, &self.pairs);
        let repeats = |at: &[u32]| pairs[at[0] as usize..at[1] as usize].windows(2).any(|two| two[0] == two[1]);
        if !offsets.par_windows(2).any(repeats) {
            return;
        }
        let mut kept = 0;
        for relation in 0..self.offsets.len() - 1 {
            let bucket = self.offsets[relation] as usize..self.offsets[relation + 1] as usize;
            self.offsets[relation] = kept as u32;
            let first = kept;
            for at in bucket {
                let pair = self.pairs[at];
                if kept == first || self.pairs[kept - 1] != pair {
                    self.pairs[kept] = pair;
                    kept += 1;
                }
            }
        }
        *self.offsets.last_mut().expect("offsets have an end") = kept as u32;
        self.pairs.truncate(kept);
        self.pairs.shrink_to_fit();
    }
}

/// Buckets up to this size are sorted in one go: they fit the inner caches.
const SORT_WHOLE: usize = 1 << 15;
/// Maximum parts of a larger bucket: each further part would cost a TLB entry.
const MAX_PARTS: usize = 1 << 10;

/// Writes the pairs of `source` into `bucket` in sorted order. They are first partitioned by key range, so every sort
/// stays in the caches and the time per pair does not grow with the bucket. Ranges are sorted in parallel.
fn sort_by_parts<I: Iterator<Item = Pair>>(bucket: &mut [Pair], source: &impl Fn() -> I) {
    let largest = source().map(|pair| pair.key.0).max().unwrap_or(0);
    let parts = (bucket.len() / (SORT_WHOLE / 4)).next_power_of_two().min(MAX_PARTS);
    let shift = (u32::BITS - largest.leading_zeros()).saturating_sub(parts.ilog2());
    let mut offsets = vec![0u32; (largest >> shift) as usize + 2];
    for pair in source() {
        offsets[(pair.key.0 >> shift) as usize + 1] += 1;
    }
    accumulate(&mut offsets);
    let mut next = offsets.clone();
    for pair in source() {
        let slot = &mut next[(pair.key.0 >> shift) as usize];
        bucket[*slot as usize] = pair;
        *slot += 1;
    }
    buckets(&offsets, bucket).into_par_iter().for_each(|(_, part)| part.sort_unstable_by_key(Pair::packed));
}

/// Cuts pairs at `offsets`; the index of each piece is its relation.
fn buckets<'p>(offsets: &[u32], mut rest: &'p mut [Pair]) -> Vec<(RelationId, &'p mut [Pair])> {
    let mut buckets = Vec::with_capacity(offsets.len() - 1);
    for (index, ends) in offsets.windows(2).enumerate() {
        let (bucket, tail) = rest.split_at_mut((ends[1] - ends[0]) as usize);
        buckets.push((RelationId(index as u32), bucket));
        rest = tail;
    }
    buckets
}

/// Turns counts at `i + 1` into offsets.
pub(super) fn accumulate(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}
