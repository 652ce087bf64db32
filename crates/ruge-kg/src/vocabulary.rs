//! Names: the only place where an id meets its string.
//!
//! All names of one kind share a single buffer; a hash table of ids points back into it. Ids are handed out in
//! order of first appearance, so the same file gives the same ids whatever the thread count.

use std::hash::Hasher;
use std::marker::PhantomData;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::triple::{EntityId, Id, RelationId};

/// The hash under which a name is stored; shared with the readers, which hash while they parse.
#[inline]
pub(crate) fn hash_name(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.finish()
}

/// A bijection between names and dense ids.
#[derive(Clone)]
pub struct Vocabulary<I> {
    text: String,
    ends: Vec<usize>,
    table: HashTable<(u32, u32)>,
    kind: PhantomData<I>,
}

impl<I: Id> Vocabulary<I> {
    /// An empty vocabulary.
    pub fn new() -> Self {
        Self { text: String::new(), ends: Vec::new(), table: HashTable::new(), kind: PhantomData }
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no name was ever interned.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The id of `name`, given now if it is new.
    pub fn intern(&mut self, name: &str) -> I {
        self.intern_hashed(hash_name(name.as_bytes()), name)
    }

    /// [`intern`](Self::intern) for a caller that has hashed the name already.
    pub(crate) fn intern_hashed(&mut self, hash: u64, name: &str) -> I {
        let tag = hash as u32;
        let (text, ends) = (&self.text, &self.ends);
        let same = |&(other, id): &(u32, u32)| other == tag && name_at(text, ends, id as usize) == name;
        if let Some(&(_, id)) = self.table.find(hash, same) {
            return I::from_index(id as usize);
        }
        let id = I::from_index(self.ends.len());
        self.text.push_str(name);
        self.ends.push(self.text.len());
        let (text, ends) = (&self.text, &self.ends);
        self.table.insert_unique(hash, (tag, id.index() as u32), |&(_, id)| {
            hash_name(name_at(text, ends, id as usize).as_bytes())
        });
        id
    }

    /// The id of a known name.
    pub fn id(&self, name: &str) -> Option<I> {
        let hash = hash_name(name.as_bytes());
        let same = |&(tag, id): &(u32, u32)| tag == hash as u32 && name_at(&self.text, &self.ends, id as usize) == name;
        self.table.find(hash, same).map(|&(_, id)| I::from_index(id as usize))
    }

    /// The name of `id`. Panics on an id of another vocabulary that is out of range here.
    #[inline]
    pub fn name(&self, id: I) -> &str {
        name_at(&self.text, &self.ends, id.index())
    }

    /// All ids with their names, in id order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (I, &str)> {
        (0..self.len()).map(|index| (I::from_index(index), name_at(&self.text, &self.ends, index)))
    }

    /// Frees what growing left over.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
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

#[inline]
fn name_at<'t>(text: &'t str, ends: &[usize], index: usize) -> &'t str {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &text[start..ends[index]]
}

/// The names of a graph: entities and relations side by side.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Entity names.
    pub entities: Vocabulary<EntityId>,
    /// Relation names.
    pub relations: Vocabulary<RelationId>,
}

impl Names {
    /// Interns the three names of a triple, head first: this order *is* the order of first appearance.
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
}
