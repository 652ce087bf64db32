//! Splits one file into train, valid and test.
//!
//! Triples are visited in an order determined by the seed. A triple leaves train only if its head, tail and relation
//! each keep another there. So no name is missing from train, the time is linear, and a file and a seed give the same
//! split everywhere. If the graph is too sparse for the requested shares, the held-out splits are smaller.

use crate::random::{SPLIT, permutation};
use crate::triple::Triple;

/// Three parts of a list of distinct triples, each in the order of the list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    /// Training triples.
    pub train: Vec<Triple>,
    /// Triples for model selection.
    pub valid: Vec<Triple>,
    /// Triples for the reported results.
    pub test: Vec<Triple>,
}

/// Splits distinct `triples`, holding out the given shares for valid and test.
pub fn split(entities: usize, relations: usize, triples: &[Triple], held_out: [f64; 2], seed: u64) -> Parts {
    let mut entity_uses = vec![0u32; entities];
    let mut relation_uses = vec![0u32; relations];
    for triple in triples {
        entity_uses[triple.head.index()] += 1;
        entity_uses[triple.tail.index()] += u32::from(triple.tail != triple.head);
        relation_uses[triple.relation.index()] += 1;
    }
    let quota = held_out.map(|share| (share * triples.len() as f64).round() as usize);
    let mut taken = [0usize; 2];
    let mut part = vec![0u8; triples.len()];
    for index in permutation(triples.len(), seed, SPLIT, 0) {
        if taken == quota {
            break;
        }
        let Triple { head, relation, tail } = triples[index as usize];
        if entity_uses[head.index()] < 2 || entity_uses[tail.index()] < 2 || relation_uses[relation.index()] < 2 {
            continue;
        }
        entity_uses[head.index()] -= 1;
        entity_uses[tail.index()] -= u32::from(tail != head);
        relation_uses[relation.index()] -= 1;
        // The split furthest behind its quota is next, so that both get the same mixture.
        let behind = |side: usize| taken[side] * quota[1 - side];
        let side = usize::from(taken[0] == quota[0] || (taken[1] < quota[1] && behind(1) < behind(0)));
        taken[side] += 1;
        part[index as usize] = side as u8 + 1;
    }
    let pick = |wanted: u8| {
        triples.iter().zip(&part).filter(|&(_, &part)| part == wanted).map(|(&triple, _)| triple).collect()
    };
    Parts { train: pick(0), valid: pick(1), test: pick(2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost_and_every_name_stays_in_train(
            raw in proptest::collection::btree_set((0u32..30, 0u32..4, 0u32..30), 1..300),
            seed in 0u64..50,
        ) {
            let triples: Vec<Triple> = raw.iter().map(|&(h, r, t)| Triple::new(h, r, t)).collect();
            let parts = split(30, 4, &triples, [0.1, 0.2], seed);
            let mut all: Vec<Triple> = [&parts.train[..], &parts.valid, &parts.test].concat();
            all.sort();
            let mut expected = triples.clone();
            expected.sort();
            prop_assert_eq!(all, expected);
            for triple in &triples {
                prop_assert!(parts.train.iter().any(|t| t.head == triple.head || t.tail == triple.head));
                prop_assert!(parts.train.iter().any(|t| t.head == triple.tail || t.tail == triple.tail));
                prop_assert!(parts.train.iter().any(|t| t.relation == triple.relation));
            }
            prop_assert_eq!(&parts, &split(30, 4, &triples, [0.1, 0.2], seed));
        }
    }

    #[test]
    fn a_dense_graph_gets_its_shares() {
        let triples: Vec<Triple> = (0..40).flat_map(|h| (0..25).map(move |t| Triple::new(h, 0, t))).collect();
        let parts = split(40, 1, &triples, [0.1, 0.05], 1);
        assert_eq!((parts.train.len(), parts.valid.len(), parts.test.len()), (850, 100, 50));
        assert_ne!(parts, split(40, 1, &triples, [0.1, 0.05], 2), "another seed, another split");
    }
}
