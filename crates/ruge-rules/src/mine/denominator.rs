//! Body sizes: the number of pairs (x, y) for which a premise holds.
//!
//! There are two questions. *Does the PCA confidence pass?* is asked for thousands of candidates, so counting covers
//! only values of the functional variable that occur in the head, and stops as soon as the body is too large. *What are
//! the exact counts?* is asked for the few that pass, over all pairs and for both sides at once.

use ruge_kg::{EntityId, Graph, Label, Pair};

use super::support::NONE;
use super::{Head, Scratch};
use crate::measure::{Counts, Side};

/// Marks the subjects and objects of the head in `scratch.roles`; undone by [`unmark`].
pub(crate) fn mark(head: &Head<'_>, scratch: &mut Scratch) {
    for pair in head.graph.facts(head.relation) {
        scratch.roles[pair.key.index()] |= SUBJECT;
        scratch.roles[pair.other.index()] |= OBJECT;
    }
}

pub(crate) fn unmark(head: &Head<'_>, scratch: &mut Scratch) {
    for pair in head.graph.facts(head.relation) {
        scratch.roles[pair.key.index()] = 0;
        scratch.roles[pair.other.index()] = 0;
    }
}

pub(crate) const SUBJECT: u8 = 1;
pub(crate) const OBJECT: u8 = 2;

/// The role of the functional variable, then of the other one.
pub(crate) fn roles(side: Side) -> (u8, u8) {
    match side {
        Side::Subject => (SUBJECT, OBJECT),
        Side::Object => (OBJECT, SUBJECT),
    }
}

/// Groups of equal key among `pairs` whose key has `role` in the head.
pub(crate) fn groups<'g>(pairs: &'g [Pair], role: u8, scratch: &Scratch) -> Vec<&'g [Pair]> {
    pairs.chunk_by(|a, b| a.key == b.key).filter(|group| scratch.roles[group[0].key.index()] & role != 0).collect()
}

/// Exact sizes of one-atom bodies; `None` if stopped.
pub(crate) fn one(head: &Head<'_>, label: Label, support: u64, scratch: &mut Scratch) -> Option<Counts> {
    let mut counts = empty(head, support);
    for pairs in head.graph.pairs(label).chunks(1 << 12) {
        head.spend(&mut scratch.fuel, pairs.len())?;
        for pair in pairs {
            if head.config.injective && pair.key == pair.other {
                continue;
            }
            add(&mut counts, pair.key, pair.other, scratch);
        }
    }
    Some(counts)
}

/// Exact sizes of a body of two labels over the same pair; inner `None` if its PCA body exceeds `limit`, outer if
/// stopped.
pub(crate) fn same_pair(
    head: &Head<'_>,
    (a, b, support): (Label, Label, u64),
    limit: u64,
    scratch: &mut Scratch,
) -> Option<Option<Counts>> {
    let mut counts = empty(head, support);
    let (mut left, mut right) = (head.graph.pairs(a), head.graph.pairs(b));
    // Both lists are sorted by (x, y): skip what the other lacks.
    while let (Some(first), Some(second)) = (left.first(), right.first()) {
        head.spend(&mut scratch.fuel, 2)?;
        match first.cmp(second) {
            std::cmp::Ordering::Less => left = &left[leap(left, second)..],
            std::cmp::Ordering::Greater => right = &right[leap(right, first)..],
            std::cmp::Ordering::Equal => {
                if !(head.config.injective && first.key == first.other) {
                    add(&mut counts, first.key, first.other, scratch);
                    if counts.pca_body() > limit {
                        return Some(None);
                    }
                }
                left = &left[1..];
                right = &right[1..];
            }
        }
    }
    Some(Some(counts))
}

/// How many pairs at the front are smaller than `target`, by exponential search.
fn leap(pairs: &[Pair], target: &Pair) -> usize {
    if pairs.first().is_none_or(|first| first >= target) {
        return 0;
    }
    let mut step = 1;
    while step < pairs.len() && pairs[step] < *target {
        step *= 2;
    }
    let from = step / 2;
    let to = step.min(pairs.len());
    from + pairs[from..to].partition_point(|pair| pair < target)
}

fn empty(head: &Head<'_>, support: u64) -> Counts {
    Counts { support, body: 0, pca_subject: 0, pca_object: 0, head: head.size, side: head.side }
}

#[inline]
fn add(counts: &mut Counts, x: EntityId, y: EntityId, scratch: &Scratch) {
    counts.body += 1;
    counts.pca_subject += u64::from(scratch.roles[x.index()] & SUBJECT != 0);
    counts.pca_object += u64::from(scratch.roles[y.index()] & OBJECT != 0);
}

/// The path as walked from the functional variable.
pub(crate) fn from_functional(side: Side, first: Label, second: Label) -> (Label, Label) {
    match side {
        Side::Subject => (first, second),
        Side::Object => (second.reversed(), first.reversed()),
    }
}

/// Facts per value from which on values are looked up among the facts.
const SEARCH: usize = 8;

/// The values of the functional variable with a first label, each with the entities it leads to.
pub(crate) struct Start<'g> {
    groups: Vec<&'g [Pair]>,
    /// Those entities, most informative first; empty if injective, as an end may then be excluded for some values.
    middles: Vec<Middle>,
}

/// An entity z that values x lead to. Over all x, the number of distinct ends is at most the sum over z of values ×
/// ends, and at least that of shares × ends: an x that leads to m entities has at least their mean number of ends.
struct Middle {
    z: EntityId,
    /// Number of values that lead here.
    values: u32,
    /// The sum over these values of 1/m, rounded down, in units of 1/[`WHOLE`].
    shares: u64,
    /// How much the lower bound may gain from this entity: one with many edges is likelier to have the second label.
    promise: u64,
}

/// The share of a value that leads to only one entity.
const WHOLE: u64 = 1 << 20;
/// Middles examined in order of promise; most failing bodies have failed by then.
const IN_ORDER: usize = 16;

impl<'g> Start<'g> {
    /// Only values in the head count towards the PCA. `None` if stopped.
    pub(crate) fn new(head: &Head<'g>, first: Label, scratch: &mut Scratch) -> Option<Self> {
        head.spend(&mut scratch.fuel, 4 * head.graph.pairs(first).len())?;
        let groups = Self::groups(head, first, scratch);
        let middles = if head.config.injective { Vec::new() } else { Self::middles(head.graph, &groups, scratch) };
        Some(Self { groups, middles })
    }

    fn middles(graph: &Graph, groups: &[&[Pair]], scratch: &mut Scratch) -> Vec<Middle> {
        let Scratch { shares, touched, .. } = scratch;
        for group in groups {
            let share = WHOLE / group.len() as u64;
            for pair in *group {
                let (values, sum) = &mut shares[pair.other.index()];
                if *values == 0 {
                    touched.push(pair.other);
                }
                *values += 1;
                *sum += share;
            }
        }
        let middle = |z: EntityId| {
            let (values, shares) = std::mem::take(&mut shares[z.index()]);
            Middle { z, values, shares, promise: shares.saturating_mul(graph.degree(z) as u64) }
        };
        let mut middles: Vec<Middle> = touched.drain(..).map(middle).collect();
        let falling = |middle: &Middle| std::cmp::Reverse(middle.promise);
        if middles.len() > 2 * IN_ORDER {
            middles.select_nth_unstable_by_key(IN_ORDER, falling);
            middles[..IN_ORDER].sort_unstable_by_key(falling);
        } else {
            middles.sort_unstable_by_key(falling);
        }
        middles
    }

    fn groups(head: &Head<'g>, first: Label, scratch: &Scratch) -> Vec<&'g [Pair]> {
        let own = match head.side {
            Side::Subject => Label::forward(head.relation),
            Side::Object => Label::inverse(head.relation),
        };
        let (values, pairs) = (head.graph.pairs(own), head.graph.pairs(first));
        if pairs.len() < SEARCH * values.len() {
            return groups(pairs, roles(head.side).0, scratch);
        }
        // Few values among many facts: look up each from the previous position on, instead of scanning all facts.
        let mut rest = pairs;
        let mut found = Vec::new();
        for group in values.chunk_by(|a, b| a.key == b.key) {
            let key = group[0].key;
            rest = &rest[leap(rest, &Pair { key, other: EntityId(0) })..];
            let end = rest.iter().position(|pair| pair.key != key).unwrap_or(rest.len());
            if end > 0 {
                found.push(&rest[..end]);
                rest = &rest[end..];
            }
        }
        found
    }

    /// Whether at most `limit` pairs satisfy first–second with the functional variable from the head; `None` if
    /// stopped.
    pub(crate) fn at_most(&self, head: &Head<'_>, second: Label, limit: u64, scratch: &mut Scratch) -> Option<bool> {
        let mut steps = Steps::new(head, second, scratch);
        if !self.middles.is_empty() {
            let limit_in_shares = limit.saturating_mul(WHOLE);
            let (mut least, mut most) = (0u64, 0u64);
            for middle in &self.middles {
                head.spend(&mut scratch.fuel, 1)?;
                let ends = steps.from(middle.z, scratch).len() as u64;
                least = least.saturating_add(middle.shares.saturating_mul(ends));
                most = most.saturating_add(u64::from(middle.values) * ends);
                if least > limit_in_shares {
                    return Some(false);
                }
            }
            if most <= limit {
                return Some(true);
            }
        }
        let mut count = 0u64;
        for group in &self.groups {
            count += ends(head, &mut steps, group, scratch, &mut |_| ())?;
            if count > limit {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// The last step of a path over one label; the ends of each entity are looked up once and cached.
struct Steps<'g> {
    graph: &'g Graph,
    label: Label,
    stamp: u32,
}

impl<'g> Steps<'g> {
    fn new(head: &Head<'g>, label: Label, scratch: &mut Scratch) -> Self {
        Self { graph: head.graph, label, stamp: scratch.next_stamp() }
    }

    /// The ends from `z`.
    #[inline]
    fn from(&mut self, z: EntityId, scratch: &mut Scratch) -> &'g [EntityId] {
        if !self.graph.adjacency().may_have(z, self.label) {
            return &[];
        }
        let known = &mut scratch.memo[z.index()];
        if known.0 != self.stamp {
            let run = self.graph.adjacency().run_number(z, self.label);
            *known = (self.stamp, run.map_or(NONE, |run| run as u32), NONE);
        }
        if known.1 == NONE { &[] } else { self.graph.adjacency().run_members(known.1 as usize) }
    }

    /// How many ends from `z` have `role`; counted once.
    #[inline]
    fn playing(&mut self, role: u8, z: EntityId, scratch: &mut Scratch) -> u32 {
        let ends = self.from(z, scratch);
        if ends.is_empty() {
            return 0;
        }
        let known = &mut scratch.memo[z.index()];
        if known.2 == NONE {
            known.2 = ends.iter().filter(|end| scratch.roles[end.index()] & role != 0).count() as u32;
        }
        known.2
    }
}

/// Visits the distinct ends of one value's paths; returns their number, `None` if stopped.
#[inline]
fn ends(
    head: &Head<'_>,
    steps: &mut Steps<'_>,
    group: &[Pair],
    scratch: &mut Scratch,
    visit: &mut impl FnMut(EntityId),
) -> Option<u64> {
    let injective = head.config.injective;
    let key = group[0].key;
    if let [only] = group
        && !injective
    {
        let ends = steps.from(only.other, scratch);
        head.spend(&mut scratch.fuel, ends.len())?;
        ends.iter().for_each(|&end| visit(end));
        return Some(ends.len() as u64);
    }
    let stamp = scratch.next_stamp();
    let mut count = 0;
    for pair in group {
        let z = pair.other;
        if injective && z == key {
            continue;
        }
        let ends = steps.from(z, scratch);
        head.spend(&mut scratch.fuel, ends.len())?;
        for &end in ends {
            if injective && (end == key || end == z) {
                continue;
            }
            let last = &mut scratch.stamps[end.index()];
            if *last != stamp {
                *last = stamp;
                count += 1;
                visit(end);
            }
        }
    }
    Some(count)
}

/// Exact sizes of a path body, for both sides; `None` if stopped.
///
/// The ends of an inner entity are looked up once, and values with a single successor share its count, so a hub in the
/// middle is visited once, not once for each of its thousands of neighbours.
pub(crate) fn path(
    head: &Head<'_>,
    first: Label,
    second: Label,
    support: u64,
    scratch: &mut Scratch,
) -> Option<Counts> {
    let graph = head.graph;
    // Walk from the end whose values more often have a single successor.
    let from_y = forks(graph, second.reversed()) < forks(graph, first);
    let (start, onward) = if from_y { (second.reversed(), first.reversed()) } else { (first, second) };
    let (own_role, other_role) = if from_y { (OBJECT, SUBJECT) } else { (SUBJECT, OBJECT) };
    let injective = head.config.injective;
    let mut totals = [0u64; 3];
    let mut steps = Steps::new(head, onward, scratch);
    for group in graph.pairs(start).chunk_by(|a, b| a.key == b.key) {
        let (count, in_other) = match group {
            [only] if !injective => {
                head.spend(&mut scratch.fuel, 1)?;
                let inside = steps.playing(other_role, only.other, scratch);
                (steps.from(only.other, scratch).len() as u64, u64::from(inside))
            }
            _ => {
                let roles = std::mem::take(&mut scratch.roles);
                let mut inside = 0;
                let mut look = |end: EntityId| inside += u64::from(roles[end.index()] & other_role != 0);
                let count = ends(head, &mut steps, group, scratch, &mut look);
                scratch.roles = roles;
                (count?, inside)
            }
        };
        totals[0] += count;
        totals[1] += in_other;
        if scratch.roles[group[0].key.index()] & own_role != 0 {
            totals[2] += count;
        }
    }
    let [body, in_other, in_own] = totals;
    let (pca_subject, pca_object) = if from_y { (in_other, in_own) } else { (in_own, in_other) };
    Some(Counts { support, body, pca_subject, pca_object, head: head.size, side: head.side })
}

/// How many facts of the label are not the only one of their key.
pub(crate) fn forks(graph: &Graph, label: Label) -> usize {
    let relation = label.relation();
    let keys = if label.is_inverse() { graph.distinct_tails(relation) } else { graph.distinct_heads(relation) };
    graph.pairs(label).len() - keys
}
