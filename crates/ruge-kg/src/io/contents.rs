//! The contents of a file: its triples, their line numbers, and a report.
//!
//! *Repeated triples.* A small archive can contain one triple a billion times. A data set keeps the first copy and
//! counts the rest. If most triples of a large file are copies, they are dropped whenever the list would have to grow,
//! so it holds at most about twice the distinct triples. Dropped copies are counted, and the first lines are kept.

use rustc_hash::FxHashSet;

use super::{FileReport, Found, Limits};
use crate::error::KgError;
use crate::memory;
use crate::triple::Triple;

/// Maximum lines of repeated triples to report.
pub(crate) const REPEATS_SHOWN: usize = 5;

/// The line of each triple, stored as the few positions where line numbers jump.
#[derive(Clone, Debug, Default)]
pub struct LineMap {
    breaks: Vec<(usize, u64)>,
}

impl LineMap {
    /// The triple at `index` is on `line`; those after it follow line by line until the next call.
    pub(crate) fn jump(&mut self, index: usize, line: u64) {
        if self.line(index) != line {
            match self.breaks.last_mut() {
                Some(last) if last.0 == index => last.1 = line,
                _ => self.breaks.push((index, line)),
            }
        }
    }

    /// Looks up lines in ascending order of index.
    fn walk(&self) -> Walk<'_> {
        Walk { breaks: &self.breaks, last: (0, 1) }
    }

    /// The line of the triple at `index`, from 1.
    pub fn line(&self, index: usize) -> u64 {
        match self.breaks.partition_point(|&(start, _)| start <= index) {
            0 => index as u64 + 1,
            n => self.breaks[n - 1].1 + (index - self.breaks[n - 1].0) as u64,
        }
    }
}

/// [`LineMap::line`] for ascending indexes.
struct Walk<'m> {
    breaks: &'m [(usize, u64)],
    last: (usize, u64),
}

impl Walk<'_> {
    fn line(&mut self, index: usize) -> u64 {
        while let [first, rest @ ..] = self.breaks
            && first.0 <= index
        {
            (self.last, self.breaks) = (*first, rest);
        }
        self.last.1 + (index - self.last.0) as u64
    }
}

/// Dropped copies of triples.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repeats {
    /// Their number.
    pub count: usize,
    /// The lines of the first ones, in file order.
    pub first: Vec<u64>,
}

/// The triples of one file in file order, including repetitions unless a limit applies.
#[derive(Clone, Debug)]
pub struct FileContents {
    /// The triples.
    pub triples: Vec<Triple>,
    /// Their lines.
    pub lines: LineMap,
    /// Copies dropped while reading; only with [`Limits::repeats`].
    pub repeated: Repeats,
    /// The report on the file.
    pub report: FileReport,
    /// Whether triples have no lines.
    pub(crate) lineless: bool,
    /// What RDF says beside triples.
    pub(crate) found: Found,
}

impl FileContents {
    pub(crate) fn new(report: FileReport) -> Self {
        Self {
            triples: Vec::new(),
            lines: LineMap::default(),
            repeated: Repeats::default(),
            report,
            lineless: false,
            found: Found::default(),
        }
    }

    /// Triples read, including dropped ones.
    pub(crate) fn read(&self) -> usize {
        self.triples.len() + self.repeated.count
    }

    #[inline]
    pub(crate) fn push(&mut self, triple: Triple, line: u64, limits: &Limits) -> Result<(), KgError> {
        self.reserve(1, limits)?;
        self.lines.jump(self.triples.len(), line);
        self.triples.push(triple);
        Ok(())
    }

    /// Makes room for more triples. Drops copies if most triples are copies or memory runs out.
    #[inline]
    pub(crate) fn reserve(&mut self, additional: usize, limits: &Limits) -> Result<(), KgError> {
        if self.triples.capacity() - self.triples.len() >= additional {
            return Ok(());
        }
        self.grow(additional, limits)
    }

    #[cold]
    fn grow(&mut self, additional: usize, limits: &Limits) -> Result<(), KgError> {
        if limits.repeats.is_some_and(|from| self.triples.len() >= from) && 2 * self.distinct() < self.triples.len() {
            self.drop_repeated(limits)?;
        }
        let reserved = memory::reserve(&mut self.triples, additional, "triples", limits.memory);
        if reserved.is_err() && limits.repeats.is_some() {
            self.drop_repeated(limits)?;
            return memory::reserve(&mut self.triples, additional, "triples", limits.memory);
        }
        reserved
    }

    /// Estimated number of distinct triples, counted among those with one hash in 64: copies share their hash.
    fn distinct(&self) -> usize {
        let mut sample = FxHashSet::default();
        for triple in &self.triples {
            let Triple { head, relation, tail } = triple;
            let mixed = (u64::from(head.0) << 32 | u64::from(tail.0))
                ^ u64::from(relation.0).wrapping_mul(0xff51_afd7_ed55_8ccd);
            if mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58 == 0 {
                sample.insert(*triple);
            }
        }
        64 * sample.len()
    }

    /// Keeps the first of equal triples, with its line.
    fn drop_repeated(&mut self, limits: &Limits) -> Result<(), KgError> {
        let Self { triples, lines, repeated, .. } = self;
        let old_lines = std::mem::take(lines);
        let mut seen: FxHashSet<Triple> = FxHashSet::default();
        let mut walk = old_lines.walk();
        let mut kept = 0;
        for at in 0..triples.len() {
            let (triple, line) = (triples[at], walk.line(at));
            if seen.len() == seen.capacity() {
                let needed = 2 * (seen.len() as u64).max(64) * 2 * size_of::<Triple>() as u64;
                memory::ensure(needed, "finding repeated triples", limits.memory)?;
                seen.try_reserve(seen.len().max(64))
                    .map_err(|_| memory::missing(needed, "finding repeated triples", None))?;
            }
            if seen.insert(triple) {
                lines.jump(kept, line);
                triples[kept] = triple;
                kept += 1;
            } else {
                repeated.count += 1;
                repeated.first.push(line);
                // Lines of this pass may precede those of the previous pass.
                if repeated.first.len() > 2 * REPEATS_SHOWN {
                    repeated.first.sort_unstable();
                    repeated.first.truncate(REPEATS_SHOWN);
                }
            }
        }
        repeated.first.sort_unstable();
        repeated.first.truncate(REPEATS_SHOWN);
        triples.truncate(kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::{Compression, Format};
    use super::*;

    proptest! {
        /// The kept triples, the counts and the lines do not depend on how often copies are dropped.
        #[test]
        fn dropping_copies_early_changes_nothing(
            raw in proptest::collection::vec((0u32..3, 0u32..2, 0u32..3, 1u64..3), 1..400),
            from in 1usize..64,
        ) {
            let report = FileReport::new(Path::new("a"), Format::Tsv, Compression::None);
            let (mut all, mut few) = (FileContents::new(report.clone()), FileContents::new(report));
            let (keep, drop) = (Limits::default(), Limits { repeats: Some(from), ..Limits::default() });
            let mut line = 0;
            for &(h, r, t, step) in &raw {
                line += step;
                all.push(Triple::new(h, r, t), line, &keep).unwrap();
                few.push(Triple::new(h, r, t), line, &drop).unwrap();
            }
            prop_assert_eq!(all.read(), few.read());
            few.drop_repeated(&drop).unwrap();
            all.drop_repeated(&keep).unwrap();
            prop_assert_eq!(&all.triples, &few.triples);
            prop_assert_eq!(&all.repeated, &few.repeated);
            for at in 0..all.triples.len() {
                prop_assert_eq!(all.lines.line(at), few.lines.line(at));
            }
        }
    }

    #[test]
    fn many_copies_of_few_triples_take_little_room() {
        let report = FileReport::new(Path::new("a"), Format::Tsv, Compression::None);
        let mut contents = FileContents::new(report);
        let limits = Limits { repeats: Some(1000), ..Limits::default() };
        for line in 1..=300_000 {
            contents.push(Triple::new(line as u32 % 3, 0, 1), line, &limits).unwrap();
        }
        // A sample of one in 64 cannot distinguish three triples from some two hundred.
        assert!(contents.triples.capacity() <= 4096, "{}", contents.triples.capacity());
        assert_eq!(contents.read(), 300_000);
        assert_eq!(contents.repeated.first, [4, 5, 6, 7, 8]);
    }

    #[test]
    fn lines_walk_as_they_are_asked_for() {
        let mut lines = LineMap::default();
        for (index, line) in [(0, 1), (3, 7), (4, 9), (10, 20)] {
            lines.jump(index, line);
        }
        let mut walk = lines.walk();
        for index in [0, 1, 3, 3, 4, 9, 10, 15] {
            assert_eq!(walk.line(index), lines.line(index));
        }
    }
}
