//! The transpose of a batch: which contributions each row receives.
//!
//! The first pass of a step works triple by triple and writes a few vectors for each *slot* (a positive with its
//! negatives, or an unlabeled triple). The second pass works row by row: the owner of a row adds the vectors that touch
//! it, in the fixed order listed here. So no two threads add to the same row, and the bits do not depend on their
//! number.

use ruge_kg::Triple;

use crate::batch::Examples;

/// Vectors per slot: its two queries, and the gradients of its head and tail.
pub const PARTS: usize = 4;
/// The tail query, used by the negatives that replace the tail.
pub const TAIL_QUERY: usize = 0;
/// The head query, used by the negatives that replace the head.
pub const HEAD_QUERY: usize = 1;
/// The gradient of the slot's head.
pub const HEAD_GRADIENT: usize = 2;
/// The gradient of the slot's tail.
pub const TAIL_GRADIENT: usize = 3;

/// A contribution to an entity's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    /// slot · PARTS + part.
    pub source: u32,
    /// Index of the coefficient; `u32::MAX` stands for 1.
    pub coefficient: u32,
}

/// Consecutive slots of one relation, short enough to balance the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The relation.
    pub relation: u32,
    /// First slot.
    pub from: u32,
    /// One past the last slot.
    pub to: u32,
}

const LONGEST_SEGMENT: usize = 32;

/// The transpose of a batch, by entity and by relation.
#[derive(Clone, Debug, Default)]
pub struct Incidence {
    entity_ends: Vec<u32>,
    touches: Vec<Touch>,
    /// Occurrences of each entity in labeled and in unlabeled triples.
    pub entity_occurrences: Vec<[u32; 2]>,
    /// Slots split by relation; positives first.
    pub segments: Vec<Segment>,
    relation_ends: Vec<u32>,
    relation_segments: Vec<u32>,
    /// Occurrences of each relation in labeled and in unlabeled triples.
    pub relation_occurrences: Vec<[u32; 2]>,
}

impl Incidence {
    /// The contributions to an entity's row.
    #[inline(always)]
    pub fn touches(&self, entity: usize) -> &[Touch] {
        &self.touches[self.entity_ends[entity] as usize..self.entity_ends[entity + 1] as usize]
    }

    /// The segments of a relation.
    #[inline(always)]
    pub fn segments_of(&self, relation: usize) -> &[u32] {
        &self.relation_segments[self.relation_ends[relation] as usize..self.relation_ends[relation + 1] as usize]
    }

    /// Rebuilds the transpose. Both kinds of triples must be sorted by relation.
    pub(crate) fn build(&mut self, entities: usize, relations: usize, examples: &Examples, unlabeled: &[Triple]) {
        self.cut(&examples.positives, unlabeled);
        let labeled = 1 + examples.stride as u32;
        self.relation_occurrences.clear();
        self.relation_occurrences.resize(relations, [0; 2]);
        for positive in &examples.positives {
            self.relation_occurrences[positive.relation.index()][0] += labeled;
        }
        for triple in unlabeled {
            self.relation_occurrences[triple.relation.index()][1] += 1;
        }
        // A counting sort in two passes: lengths, then positions. `ends` is shifted by one while filling.
        let Self { relation_ends, relation_segments, segments, .. } = self;
        starts(relation_ends, relations, segments.iter().map(|segment| segment.relation as usize));
        relation_segments.clear();
        relation_segments.resize(segments.len(), 0);
        for (index, segment) in segments.iter().enumerate() {
            let place = &mut relation_ends[segment.relation as usize + 1];
            relation_segments[*place as usize] = index as u32;
            *place += 1;
        }

        let positives = examples.positives.len();
        self.entity_occurrences.clear();
        self.entity_occurrences.resize(entities, [0; 2]);
        let tails_of = |positive: usize| examples.stride as u32 - examples.heads[positive];
        for (slot, positive) in examples.positives.iter().enumerate() {
            self.entity_occurrences[positive.head.index()][0] += 1 + tails_of(slot);
            self.entity_occurrences[positive.tail.index()][0] += 1 + examples.heads[slot];
        }
        for entity in &examples.negatives {
            self.entity_occurrences[entity.index()][0] += 1;
        }
        for triple in unlabeled {
            self.entity_occurrences[triple.head.index()][1] += 1;
            self.entity_occurrences[triple.tail.index()][1] += 1;
        }
        let touched = examples.positives.iter().chain(unlabeled).flat_map(|x| [x.head, x.tail]);
        let touched = touched.chain(examples.negatives.iter().copied()).map(|entity| entity.index());
        starts(&mut self.entity_ends, entities, touched);
        let Self { entity_ends, touches, .. } = self;
        touches.clear();
        touches.resize(2 * (positives + unlabeled.len()) + examples.negatives.len(), Touch::default());
        let mut touch = |entity: usize, slot: usize, part: usize, coefficient: u32| {
            let place = &mut entity_ends[entity + 1];
            touches[*place as usize] = Touch { source: (slot * PARTS + part) as u32, coefficient };
            *place += 1;
        };
        for (slot, positive) in examples.positives.iter().enumerate() {
            touch(positive.head.index(), slot, HEAD_GRADIENT, u32::MAX);
            touch(positive.tail.index(), slot, TAIL_GRADIENT, u32::MAX);
            let first = slot * examples.stride;
            let heads = examples.heads[slot] as usize;
            for k in 0..examples.stride {
                let part = if k < heads { HEAD_QUERY } else { TAIL_QUERY };
                touch(examples.negatives[first + k].index(), slot, part, (first + k) as u32);
            }
        }
        for (at, triple) in unlabeled.iter().enumerate() {
            touch(triple.head.index(), positives + at, HEAD_GRADIENT, u32::MAX);
            touch(triple.tail.index(), positives + at, TAIL_GRADIENT, u32::MAX);
        }
    }

    /// Splits the slots into segments of one relation each.
    fn cut(&mut self, positives: &[Triple], unlabeled: &[Triple]) {
        self.segments.clear();
        for (first, triples) in [(0, positives), (positives.len(), unlabeled)] {
            let mut from = 0;
            while from < triples.len() {
                let relation = triples[from].relation;
                let longest = triples.len().min(from + LONGEST_SEGMENT);
                let length = triples[from..longest].iter().take_while(|x| x.relation == relation).count();
                let (from_slot, to_slot) = ((first + from) as u32, (first + from + length) as u32);
                self.segments.push(Segment { relation: relation.0, from: from_slot, to: to_slot });
                from += length;
            }
        }
    }
}

/// The start of each key's run, in `ends[key + 1]`. Filling advances it to the end, so that `ends[key]` is the start.
fn starts(ends: &mut Vec<u32>, keys: usize, items: impl Iterator<Item = usize>) {
    ends.clear();
    ends.resize(keys + 2, 0);
    for key in items {
        ends[key + 2] += 1;
    }
    for key in 1..ends.len() {
        ends[key] += ends[key - 1];
    }
    ends.pop();
}
