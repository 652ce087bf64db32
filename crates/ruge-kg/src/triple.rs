//! Ids and triples.
//!
//! Entities and relations are dense `u32` newtypes, so a head cannot be passed where a relation is expected, and every
//! per-entity table is a plain array. Names are stored only in a [`Vocabulary`](crate::Vocabulary).

use serde::{Deserialize, Serialize};

/// A dense id: a newtype around an array index.
pub trait Id: Copy + Eq + Ord + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static {
    /// The id of the `index`-th name. Panics above `u32::MAX`.
    fn from_index(index: usize) -> Self;
    /// The position in any array indexed by this kind of id.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("a graph holds at most 2^32 names of a kind"))
            }
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl $name {
            /// The position in any array indexed by this kind of id.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// An entity: a node of the graph.
    EntityId
}
id! {
    /// A relation: the name on an edge.
    RelationId
}

/// One fact: `relation(head, tail)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Triple {
    /// Subject.
    pub head: EntityId,
    /// Predicate.
    pub relation: RelationId,
    /// Object.
    pub tail: EntityId,
}

impl Triple {
    /// A triple from bare numbers; handy in tests and fixtures.
    pub fn new(head: u32, relation: u32, tail: u32) -> Self {
        Self { head: EntityId(head), relation: RelationId(relation), tail: EntityId(tail) }
    }

    /// The triple with head and tail swapped.
    #[inline]
    pub fn reversed(self) -> Self {
        Self { head: self.tail, relation: self.relation, tail: self.head }
    }
}

/// A relation read in one direction: `2r` from head to tail, `2r + 1` from tail to head.
///
/// Both directions of an edge are labels, so mining and grounding need no case distinction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Label(pub u32);

impl Label {
    /// `relation` from head to tail.
    #[inline]
    pub fn forward(relation: RelationId) -> Self {
        Self(relation.0 << 1)
    }
    /// `relation` from tail to head.
    #[inline]
    pub fn inverse(relation: RelationId) -> Self {
        Self(relation.0 << 1 | 1)
    }
    /// The relation, without its direction.
    #[inline]
    pub fn relation(self) -> RelationId {
        RelationId(self.0 >> 1)
    }
    /// Whether the label leads from tail to head.
    #[inline]
    pub fn is_inverse(self) -> bool {
        self.0 & 1 == 1
    }
    /// The same relation in the other direction.
    #[inline]
    pub fn reversed(self) -> Self {
        Self(self.0 ^ 1)
    }
    /// The position in an array with two entries per relation.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
