//! Names: the only place that maps ids to strings.
//!
//! All names of one kind share a single buffer, and a hash table of ids points into it. Ids are assigned in order of
//! first appearance, so a file gives the same ids on any number of threads.
//!
//! *Large vocabularies.* Once the table exceeds the caches, looking up a name costs three misses: its slot, the
//! position of its text, and the text. [`NameList::find_all`] looks up many names at a time, one kind of access after
//! the other, so that the misses of different names overlap.

use std::hash::Hasher;
use std::marker::PhantomData;

use rustc_hash::FxHasher;

use crate::error::KgError;
use crate::io::Limits;
use crate::memory;
use crate::triple::{EntityId, Id, RelationId};

/// The hash of a name; shared with the readers, which hash while they parse.
#[inline]
pub(crate) fn hash_name(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.finish()
}

/// Maximum names of a kind in a graph. Below 2³¹, since a relation has an id per direction, minus the names that one
/// block of text can add, which are numbered after the known ones.
pub const MAX_NAMES: usize = (1 << 31) - (1 << 26);

/// No id: not found.
pub(crate) const NONE: u32 = u32::MAX;

/// Ids by hash: open addressing, one word per slot, load factor at most ½.
///
/// A word holds half of the hash and the id plus one, or 0 if the slot is free. The same half of the hash chooses the
/// slot, so growing does not need the names.
#[derive(Clone, Default)]
pub(crate) struct Slots {
    words: Vec<u64>,
    taken: usize,
}

impl Slots {
    /// Ids that may have this hash, likeliest first.
    #[inline]
    fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> {
        let mask = self.words.len().wrapping_sub(1);
        let mut at = hash as u32 as usize;
        std::iter::from_fn(move || {
            loop {
                let word = *self.words.get(at & mask)?;
                if word == 0 {
                    return None;
                }
                at += 1;
                if word as u32 == hash as u32 {
                    return Some((word >> 32) as u32 - 1);
                }
            }
        })
    }

    /// The id with this hash that satisfies `same`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut same: impl FnMut(u32) -> bool) -> Option<u32> {
        self.candidates(hash).find(|&id| same(id))
    }

    /// Adds an id that is not in the table.
    pub(crate) fn insert(&mut self, hash: u64, id: u32) {
        assert!(id < NONE, "a graph holds fewer than 2^32 names of a kind");
        if 2 * (self.taken + 1) > self.words.len() {
            let size = (2 * self.words.len()).max(16);
            let old = std::mem::replace(&mut self.words, vec![0; size]);
            old.into_iter().filter(|&word| word != 0).for_each(|word| self.put(word));
        }
        self.taken += 1;
        self.put(u64::from(id + 1) << 32 | u64::from(hash as u32));
    }

    fn reserve(&mut self, additional: usize, what: &str, given: Option<u64>) -> Result<(), KgError> {
        let mut size = self.words.len().max(16);
        while 2 * (self.taken + additional) > size {
            size *= 2;
        }
        // Small tables grow on demand.
        if size == self.words.len() || size * size_of::<u64>() < LARGE {
            return Ok(());
        }
        let mut words = Vec::new();
        memory::reserve(&mut words, size, what, given)?;
        words.resize(size, 0);
        let old = std::mem::replace(&mut self.words, words);
        old.into_iter().filter(|&word| word != 0).for_each(|word| self.put(word));
        Ok(())
    }

    fn put(&mut self, word: u64) {
        let mask = self.words.len() - 1;
        let mut at = word as u32 as usize & mask;
        while self.words[at] != 0 {
            at = (at + 1) & mask;
        }
        self.words[at] = word;
    }
}

/// Minimum bytes of a table whose allocation is checked first.
const LARGE: usize = 64 << 20;

/// A bijection between names and numbers.
#[derive(Clone, Default)]
pub(crate) struct NameList {
    text: String,
    ends: Vec<usize>,
    slots: Slots,
}

/// Working memory of [`NameList::find_all`].
#[derive(Default)]
pub(crate) struct Finds {
    /// Hashes of the requested names.
    pub(crate) hashes: Vec<u64>,
    spans: Vec<(usize, usize)>,
    /// Numbers of the requested names, or [`NONE`].
    pub(crate) found: Vec<u32>,
}

impl NameList {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    fn span(&self, index: u32) -> (usize, usize) {
        let index = index as usize;
        (if index == 0 { 0 } else { self.ends[index - 1] }, self.ends[index])
    }

    #[inline]
    fn name(&self, index: u32) -> &str {
        let (start, end) = self.span(index);
        &self.text[start..end]
    }

    #[inline]
    fn is(&self, (start, end): (usize, usize), name: &str) -> bool {
        &self.text.as_bytes()[start..end] == name.as_bytes()
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, name: &str) -> Option<u32> {
        self.slots.find(hash, |id| self.is(self.span(id), name))
    }

    /// Hashes all `names` and looks them up.
    pub(crate) fn find_all<N: AsRef<str>>(&self, names: &[N], finds: &mut Finds) {
        let Finds { hashes, spans, found } = finds;
        hashes.clear();
        hashes.extend(names.iter().map(|name| hash_name(name.as_ref().as_bytes())));
        found.clear();
        found.extend(hashes.iter().map(|&hash| self.slots.candidates(hash).next().unwrap_or(NONE)));
        spans.clear();
        spans.extend(found.iter().map(|&id| if id == NONE { (0, 0) } else { self.span(id) }));
        for (index, name) in names.iter().enumerate() {
            if found[index] != NONE && !self.is(spans[index], name.as_ref()) {
                // Another name shares half of the hash: use the slow path.
                found[index] = self.find(hashes[index], name.as_ref()).unwrap_or(NONE);
            }
        }
    }

    fn add(&mut self, hash: u64, name: &str) -> u32 {
        let id = u32::try_from(self.ends.len()).unwrap_or(NONE);
        self.slots.insert(hash, id);
        self.text.push_str(name);
        self.ends.push(self.text.len());
        id
    }
}

/// A bijection between names and dense ids.
#[derive(Clone)]
pub struct Vocabulary<I> {
    names: NameList,
    kind: PhantomData<I>,
}

impl<I: Id> Vocabulary<I> {
    /// An empty vocabulary.
    pub fn new() -> Self {
        Self { names: NameList::default(), kind: PhantomData }
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether the vocabulary has no names.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of `name`, assigned now if the name is new.
    pub fn intern(&mut self, name: &str) -> I {
        self.intern_hashed(hash_name(name.as_bytes()), name)
    }

    /// [`intern`](Self::intern) for a caller that has already hashed the name.
    pub(crate) fn intern_hashed(&mut self, hash: u64, name: &str) -> I {
        let id = self.names.find(hash, name).unwrap_or_else(|| self.names.add(hash, name));
        I::from_index(id as usize)
    }

    /// Makes room for more names with `bytes` of text in total, or returns an error.
    pub(crate) fn reserve(
        &mut self,
        names: usize,
        bytes: usize,
        what: &'static str,
        limits: &Limits,
    ) -> Result<(), KgError> {
        if self.len() + names > limits.names {
            return Err(KgError::TooMany { what, most: limits.names });
        }
        let NameList { text, ends, slots } = &mut self.names;
        if text.capacity() - text.len() < bytes || ends.capacity() - ends.len() < names {
            let names_of = format!("names of {what}");
            memory::reserve_text(text, bytes, &names_of, limits.memory)?;
            memory::reserve(ends, names, &names_of, limits.memory)?;
        }
        slots.reserve(names, what, limits.memory)
    }

    /// The id of a known name.
    pub fn id(&self, name: &str) -> Option<I> {
        self.names.find(hash_name(name.as_bytes()), name).map(|id| I::from_index(id as usize))
    }

    /// The name of `id`. Panics if `id` is out of range.
    #[inline]
    pub fn name(&self, id: I) -> &str {
        self.names.name(id.index() as u32)
    }

    /// All ids with their names, in id order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (I, &str)> {
        (0..self.len()).map(|index| (I::from_index(index), self.names.name(index as u32)))
    }

    /// The underlying list, for readers that look up many names at a time.
    pub(crate) fn list(&self) -> &NameList {
        &self.names
    }

    pub(crate) fn shrink(&mut self) {
        self.names.text.shrink_to_fit();
        self.names.ends.shrink_to_fit();
    }
}

impl<I: Id> Default for Vocabulary<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id> std::fmt::Debug for Vocabulary<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vocabulary({} names)", self.len())
    }
}

/// The names of a graph: entities and relations.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Entity names.
    pub entities: Vocabulary<EntityId>,
    /// Relation names.
    pub relations: Vocabulary<RelationId>,
}

impl Names {
    /// [`triple`](Self::triple) for readers: returns an error when a limit is reached.
    pub(crate) fn read_triple(&mut self, names: [&str; 3], limits: &Limits) -> Result<crate::Triple, KgError> {
        let [head, relation, tail] = names;
        self.entities.reserve(2, head.len() + tail.len(), "entities", limits)?;
        self.relations.reserve(1, relation.len(), "relations", limits)?;
        Ok(self.triple(head, relation, tail))
    }

    /// Interns the three names of a triple, head first. This order defines the order of first appearance.
    pub fn triple(&mut self, head: &str, relation: &str, tail: &str) -> crate::Triple {
        crate::Triple {
            head: self.entities.intern(head),
            relation: self.relations.intern(relation),
            tail: self.entities.intern(tail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_first_appearance() {
        let mut names = Vocabulary::<EntityId>::new();
        let ids: Vec<u32> = ["b", "a", "b", "", "ü", "a"].iter().map(|n| names.intern(n).0).collect();
        assert_eq!(ids, [0, 1, 0, 2, 3, 1]);
        assert_eq!(names.id("ü"), Some(EntityId(3)));
        assert_eq!(names.id("c"), None);
        assert_eq!(names.iter().map(|(_, n)| n).collect::<Vec<_>>(), ["b", "a", "", "ü"]);
    }

    #[test]
    fn a_thousand_names_survive_growth() {
        let mut names = Vocabulary::<RelationId>::new();
        for i in 0..1000 {
            assert_eq!(names.intern(&format!("name {i}")), RelationId(i));
        }
        for i in 0..1000 {
            assert_eq!(names.id(&format!("name {i}")), Some(RelationId(i)));
            assert_eq!(names.name(RelationId(i)), format!("name {i}"));
        }
    }

    #[test]
    fn names_that_share_half_a_hash_are_told_apart() {
        let mut list = NameList::default();
        for (index, name) in ["a", "b", "c"].iter().enumerate() {
            assert_eq!(list.find(7, name), None);
            assert_eq!(list.add(7 + ((index as u64) << 32), name), index as u32);
        }
        assert_eq!(["a", "b", "c", "d"].map(|name| list.find(7, name)), [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn many_at_a_time_are_found_as_one_by_one() {
        let mut names = Vocabulary::<EntityId>::new();
        let mut finds = Finds::default();
        names.list().find_all(&["a"], &mut finds);
        assert_eq!(finds.found, [NONE]);
        for i in 0..500 {
            names.intern(&format!("name {i}"));
        }
        let asked: Vec<String> = (0..1000).rev().map(|i| format!("name {i}")).collect();
        names.list().find_all(&asked, &mut finds);
        let expected: Vec<u32> = asked.iter().map(|name| names.id(name).map_or(NONE, |id| id.0)).collect();
        assert_eq!(finds.found, expected);
    }
}
