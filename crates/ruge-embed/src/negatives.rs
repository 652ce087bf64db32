//! Negatives: triples assumed false, made by replacing the head or the tail of an observed one.

use ruge_kg::random::{self, Stream};
use ruge_kg::{EntityId, Triple};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// The stream for replacement entities.
pub const NEGATIVES: Stream = Stream(0x113);
/// The stream for the replaced side.
pub const SIDES: Stream = Stream(0x114);

/// Attempts to draw a negative that is not a fact; after that, any is accepted.
const ATTEMPTS: u64 = 100;

/// Which end of the positive is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sides {
    /// ⌊count/2⌋ heads and as many tails: the reference program. An odd count is rounded down.
    #[default]
    Halves,
    /// Each by a fair coin, as in `ttrouill/complex`.
    Coin,
    /// Each by a coin that favours the side with more answers (Wang et al. 2014): fewer false negatives.
    Bernoulli,
    /// All negatives of a positive at one end, chosen by a fair coin. Each positive is then one query, as
    /// self-adversarial negatives and the sampled softmax require.
    OneEnd,
}

/// How negatives are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Negatives {
    /// α
    pub count: usize,
    /// Which end is replaced.
    #[serde(default)]
    pub sides: Sides,
    /// Whether a draw may return the replaced entity itself; not in the reference.
    #[serde(default)]
    pub keep_original: bool,
    /// Whether observed triples are redrawn; not in the reference.
    #[serde(default)]
    pub filtered: bool,
}

impl Default for Negatives {
    fn default() -> Self {
        Self { count: 10, sides: Sides::Halves, keep_original: false, filtered: false }
    }
}

impl Negatives {
    /// Actual negatives per positive.
    pub fn per_positive(&self) -> usize {
        match self.sides {
            Sides::Halves => self.count / 2 * 2,
            Sides::Coin | Sides::Bernoulli | Sides::OneEnd => self.count,
        }
    }

    /// Appends the negatives of the positive at `position` of the epoch, heads first; returns how many are heads.
    pub(crate) fn draw(
        &self,
        plan: &Plan<'_>,
        epoch: u64,
        position: u64,
        positive: Triple,
        negatives: &mut Vec<EntityId>,
    ) -> u32 {
        let n = self.per_positive() as u64;
        let share = match self.sides {
            Sides::Halves => 0.0,
            Sides::Coin | Sides::OneEnd => 0.5,
            Sides::Bernoulli => {
                // Tails per head against heads per tail; the number of facts cancels.
                let heads = plan.graph.distinct_heads(positive.relation).max(1) as f64;
                let tails = plan.graph.distinct_tails(positive.relation).max(1) as f64;
                tails / (heads + tails)
            }
        };
        let is_head = |k: u64| match self.sides {
            Sides::Halves => k < n / 2,
            Sides::OneEnd => random::unit(random::draw(plan.seed, SIDES, epoch, position * n)) < share,
            _ => random::unit(random::draw(plan.seed, SIDES, epoch, position * n + k)) < share,
        };
        let first = negatives.len();
        for k in (0..n).filter(|&k| is_head(k)) {
            negatives.push(self.replacement(plan, epoch, position * n + k, positive, true));
        }
        let heads = negatives.len() - first;
        for k in (0..n).filter(|&k| !is_head(k)) {
            negatives.push(self.replacement(plan, epoch, position * n + k, positive, false));
        }
        heads as u32
    }

    #[inline]
    fn replacement(&self, plan: &Plan<'_>, epoch: u64, place: u64, positive: Triple, head: bool) -> EntityId {
        let original = if head { positive.head } else { positive.tail };
        let mut found = original;
        for attempt in 0..ATTEMPTS {
            let draw = random::draw(plan.seed, Stream(NEGATIVES.0 + (attempt << 32)), epoch, place);
            let others = plan.entities as u64 - u64::from(!self.keep_original);
            let mut entity = random::below(draw, others.max(1)) as u32;
            if !self.keep_original && plan.entities > 1 && entity >= original.0 {
                entity += 1;
            }
            found = EntityId(entity);
            let negative = if head { Triple { head: found, ..positive } } else { Triple { tail: found, ..positive } };
            if !self.filtered || !plan.graph.contains(negative) {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::Graph;

    fn drawn(negatives: Negatives) -> Vec<(u32, Vec<EntityId>)> {
        let facts: Vec<Triple> = (1..9).map(|tail| Triple::new(0, 0, tail)).collect();
        let graph = Graph::new(10, 1, &facts);
        let plan = Plan { negatives, ..Plan::new(&graph, &facts, 1) };
        (0..400)
            .map(|position| {
                let mut drawn = Vec::new();
                let heads = negatives.draw(&plan, 3, position, facts[2], &mut drawn);
                (heads, drawn)
            })
            .collect()
    }

    #[test]
    fn the_reference_draws_halves_and_never_the_original() {
        for (heads, negatives) in drawn(Negatives { count: 5, ..Negatives::default() }) {
            assert_eq!((heads, negatives.len()), (2, 4));
            assert!(negatives[..2].iter().all(|x| x.0 != 0) && negatives[2..].iter().all(|x| x.0 != 3));
        }
    }

    #[test]
    fn filtered_negatives_are_no_facts_and_bernoulli_favours_the_many() {
        let all = drawn(Negatives { count: 4, sides: Sides::Bernoulli, filtered: true, keep_original: false });
        let heads: u32 = all.iter().map(|(heads, _)| heads).sum();
        // One head, eight tails: the head is replaced 8 times in 9.
        assert!((f64::from(heads) / 1600.0 - 8.0 / 9.0).abs() < 0.03, "{heads} of 1600");
        for (heads, negatives) in all {
            assert!(negatives[heads as usize..].iter().all(|x| x.0 == 0 || x.0 == 9));
        }
    }

    #[test]
    fn one_end_is_replaced_whole() {
        let all = drawn(Negatives { count: 5, sides: Sides::OneEnd, ..Negatives::default() });
        let at_heads = all.iter().filter(|(heads, _)| *heads == 5).count();
        assert!(all.iter().all(|(heads, negatives)| [0, 5].contains(heads) && negatives.len() == 5));
        assert!((150..250).contains(&at_heads), "{at_heads} of 400");
    }
}
