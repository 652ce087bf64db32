//! Paths of three atoms: x –l1→ z –l2→ z1 –l3→ y, in all eight patterns of direction.
//!
//! There are too many such paths to walk them all, and nearly all of them fail. So the search goes from both ends
//! towards the middle: labels that enough head facts have at x and at y, then two-step beginnings (l1, l2) and endings
//! (l2, l3) that enough head facts have, and only then, per subject x, the entities z1 that a remaining beginning
//! reaches *and* some y of the head touches. Every pruning step drops only paths that cannot reach the threshold.

use rayon::prelude::*;
use ruge_kg::{EntityId, Graph, Label, Pair};

use super::bound::RULE_BYTES;
use super::denominator::{self, forks, groups, roles};
use super::support::{End, NONE, cut_by_key};
use super::{Body, Head, Pool, Scratch};
use crate::measure::{Counts, Side};
use ruge_kg::control::Fuel;

/// Finds all three-atom paths of `head` that pass; `None` if stopped.
pub(crate) fn mine(head: &Head<'_>, pool: &Pool) -> Option<Vec<(Body, Counts)>> {
    let supported = count(head, pool)?;
    let groups: Vec<&[Candidate]> = supported.chunk_by(|a, b| a.walk[..2] == b.walk[..2]).collect();
    let found: Vec<Option<Vec<(Body, Counts)>>> =
        groups.par_iter().map(|group| pool.with(|scratch| select(head, group, scratch))).collect();
    let mut rules = Vec::new();
    for part in found {
        rules.extend(part?);
    }
    head.release(supported.len(), size_of::<Candidate>());
    Some(rules)
}

/// A body that reaches the threshold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The labels as walked from the functional variable.
    walk: [Label; 3],
    labels: [Label; 3],
    support: u64,
}

fn turned([a, b, c]: [Label; 3]) -> [Label; 3] {
    [c.reversed(), b.reversed(), a.reversed()]
}

/// Two-step beginnings at one end of the head: the (first label, second label) that enough head facts have.
struct Beginnings {
    second_labels: usize,
    counts: Vec<u64>,
}

impl Beginnings {
    /// Bytes per cell: its count, the last turn that reached it, and its number among prefixes.
    const CELL: usize = 16;

    fn new(head: &Head<'_>, end: &End, label: Label) -> Option<Self> {
        let graph = head.graph;
        let second_labels = 2 * graph.relation_count();
        let cells = end.labels.len().saturating_mul(second_labels);
        head.hold(cells, Self::CELL)?;
        let mut counts = vec![0u64; cells];
        let mut last = vec![NONE; counts.len()];
        let mut fuel = Fuel::default();
        for (turn, group) in graph.pairs(label).chunk_by(|a, b| a.key == b.key).enumerate() {
            let key = group[0].key;
            let weight = group.iter().filter(|pair| !(head.config.injective && pair.other == key)).count() as u64;
            for (first, middles) in graph.adjacency().runs(key) {
                let place = end.place[first.index()];
                if place == NONE {
                    continue;
                }
                for &middle in middles {
                    head.spend(&mut fuel, graph.adjacency().labels(middle).len())?;
                    for second in graph.adjacency().labels(middle) {
                        let cell = place as usize * second_labels + second.index();
                        if last[cell] != turn as u32 {
                            last[cell] = turn as u32;
                            counts[cell] += weight;
                        }
                    }
                }
            }
        }
        Some(Self { second_labels, counts })
    }

    fn count(&self, place: usize, second: Label) -> u64 {
        self.counts[place * self.second_labels + second.index()]
    }
}

/// Remaining beginnings, numbered.
struct Prefixes {
    second_labels: usize,
    number: Vec<u32>,
    labels: Vec<(Label, Label)>,
}

/// All candidates, sorted by their walk.
fn count(head: &Head<'_>, pool: &Pool) -> Option<Vec<Candidate>> {
    let graph = head.graph;
    let forward = Label::forward(head.relation);
    // Two steps are walked from one end and one from the other: walk two from the end with fewer.
    let mut fuel = Fuel::default();
    let mut two_steps = |label: Label| -> Option<u64> {
        let mut sum = 0;
        for group in graph.pairs(label).chunk_by(|a, b| a.key == b.key) {
            let edges = graph.links(group[0].key);
            head.spend(&mut fuel, edges.len())?;
            sum += edges.iter().map(|edge| graph.degree(edge.neighbour) as u64).sum::<u64>();
        }
        Some(sum)
    };
    let near = if two_steps(forward)? <= two_steps(forward.reversed())? { forward } else { forward.reversed() };
    let near_end = End::new(head, near)?;
    let far_end = End::new(head, near.reversed())?;
    if near_end.labels.is_empty() || far_end.labels.is_empty() {
        return Some(Vec::new());
    }
    let beginnings = Beginnings::new(head, &near_end, near)?;
    let endings = Beginnings::new(head, &far_end, near.reversed())?;
    let mut prefixes = Prefixes {
        second_labels: beginnings.second_labels,
        number: vec![NONE; beginnings.counts.len()],
        labels: Vec::new(),
    };
    for (place, &first) in near_end.labels.iter().enumerate() {
        head.spend(&mut fuel, beginnings.second_labels)?;
        for second in (0..beginnings.second_labels as u32).map(Label).filter(|&label| head.allows(label)) {
            let ends = |far: usize| endings.count(far, second.reversed()) >= head.threshold;
            if beginnings.count(place, second) < head.threshold {
                continue;
            }
            head.spend(&mut fuel, far_end.labels.len())?;
            if (0..far_end.labels.len()).any(ends) {
                prefixes.number[place * beginnings.second_labels + second.index()] = prefixes.labels.len() as u32;
                prefixes.labels.push((first, second));
            }
        }
    }
    let cells = (near_end.labels.len() + far_end.labels.len()) * beginnings.second_labels;
    drop((beginnings, endings));
    head.release(cells, Beginnings::CELL);
    let columns = far_end.labels.len();
    let cells = prefixes.labels.len().saturating_mul(columns);
    head.hold(cells, SUM_CELL)?;
    let parts = cut_by_key(graph.pairs(near), 4 * rayon::current_num_threads());
    let tables: Vec<Option<Vec<u32>>> = parts
        .into_par_iter()
        .map(|part| pool.with(|scratch| walk(head, &near_end, &far_end, &prefixes, part, scratch)))
        .collect();
    let mut sum = vec![0u64; cells];
    for table in tables {
        head.spend(&mut fuel, cells)?;
        for (total, count) in sum.iter_mut().zip(table?) {
            *total += u64::from(count);
        }
    }
    let mut candidates = Vec::new();
    let reached = sum.iter().filter(|&&support| support >= head.threshold).count();
    head.hold(reached, size_of::<Candidate>())?;
    for (cell, &support) in sum.iter().enumerate().filter(|&(_, &support)| support >= head.threshold) {
        let (first, second) = prefixes.labels[cell / columns];
        let walked = [first, second, far_end.labels[cell % columns].reversed()];
        let labels = if near == forward { walked } else { turned(walked) };
        let walk = if head.side == Side::Subject { labels } else { turned(labels) };
        candidates.push(Candidate { walk, labels, support });
    }
    drop(sum);
    head.release(cells, SUM_CELL);
    candidates.par_sort_unstable();
    Some(candidates)
}

/// Bytes per cell of supports: in the sum, and in the tables of some parts. Most pages of a part are never touched.
const SUM_CELL: usize = 16;

/// Supports over one piece of the head's facts.
fn walk(
    head: &Head<'_>,
    near: &End,
    far: &End,
    prefixes: &Prefixes,
    pairs: &[Pair],
    scratch: &mut Scratch,
) -> Option<Vec<u32>> {
    let graph = head.graph;
    let injective = head.config.injective;
    let columns = far.labels.len();
    let mut table = vec![0u32; prefixes.labels.len() * columns];
    if scratch.stamps2.is_empty() {
        scratch.stamps2 = vec![0; graph.entity_count()];
    }
    // What the ys of one x touch: per entity a list of (y, last label) combinations.
    let mut first_of = vec![NONE; graph.entity_count()];
    let mut touched: Vec<EntityId> = Vec::new();
    let mut lists: Vec<(u32, u32)> = Vec::new();
    let mut combos: Vec<(u32, EntityId)> = Vec::new();
    let mut combo_stamp: Vec<u32> = Vec::new();
    let mut combo_of = vec![(NONE, 0u32); columns];
    let mut runs: Vec<(u32, EntityId, &[EntityId])> = Vec::new();
    for group in pairs.chunk_by(|a, b| a.key == b.key) {
        let key = group[0].key;
        touched.clear();
        lists.clear();
        combos.clear();
        for (turn, pair) in group.iter().enumerate() {
            let y = pair.other;
            if injective && y == key {
                continue;
            }
            head.spend(&mut scratch.fuel, graph.degree(y))?;
            for edge in graph.links(y) {
                let place = far.place[edge.label.index()];
                if place == NONE || (injective && (edge.neighbour == key || edge.neighbour == y)) {
                    continue;
                }
                if combo_of[place as usize].0 != turn as u32 {
                    combo_of[place as usize] = (turn as u32, combos.len() as u32);
                    combos.push((place, y));
                }
                let list = &mut first_of[edge.neighbour.index()];
                if *list == NONE {
                    touched.push(edge.neighbour);
                }
                lists.push((combo_of[place as usize].1, *list));
                *list = lists.len() as u32 - 1;
            }
        }
        combo_of.fill((NONE, 0));
        if touched.is_empty() {
            continue;
        }
        combo_stamp.clear();
        combo_stamp.resize(combos.len(), 0);
        runs.clear();
        for edge in graph.links(key) {
            let place = near.place[edge.label.index()];
            if place == NONE || (injective && edge.neighbour == key) {
                continue;
            }
            let row = place as usize * prefixes.second_labels;
            head.spend(&mut scratch.fuel, graph.adjacency().labels(edge.neighbour).len())?;
            for (second, ends) in graph.adjacency().runs(edge.neighbour) {
                let number = prefixes.number[row + second.index()];
                if number != NONE {
                    runs.push((number, edge.neighbour, ends));
                }
            }
        }
        runs.sort_unstable_by_key(|&(number, middle, _)| (number, middle));
        for same in runs.chunk_by(|a, b| a.0 == b.0) {
            let stamp = scratch.next_stamp();
            let row = &mut table[same[0].0 as usize * columns..][..columns];
            for &(_, middle, ends) in same {
                let mut work = 0;
                let mut reach = |end: EntityId| {
                    // Unless injective, reaching an entity a second time adds nothing.
                    if !injective && std::mem::replace(&mut scratch.stamps2[end.index()], stamp) == stamp {
                        return;
                    }
                    let mut at = first_of[end.index()];
                    while at != NONE {
                        work += 1;
                        let (combo, next) = lists[at as usize];
                        let (place, y) = combos[combo as usize];
                        let distinct = !injective || (middle != y && end != middle && end != key);
                        if distinct && combo_stamp[combo as usize] != stamp {
                            combo_stamp[combo as usize] = stamp;
                            row[place as usize] += 1;
                        }
                        at = next;
                    }
                };
                if ends.len() > 16 * touched.len() {
                    touched.iter().filter(|end| ends.binary_search(end).is_ok()).for_each(|&end| reach(end));
                } else {
                    ends.iter().filter(|end| first_of[end.index()] != NONE).for_each(|&end| reach(end));
                }
                head.spend(&mut scratch.fuel, work + ends.len().min(16 * touched.len()))?;
            }
        }
        for entity in &touched {
            first_of[entity.index()] = NONE;
        }
    }
    Some(table)
}

/// Evaluates candidates that share their first two steps from the functional variable.
fn select(head: &Head<'_>, group: &[Candidate], scratch: &mut Scratch) -> Option<Vec<(Body, Counts)>> {
    if head.stopped() {
        return None;
    }
    let graph = head.graph;
    if scratch.stamps2.is_empty() {
        scratch.stamps2 = vec![0; graph.entity_count()];
    }
    denominator::mark(head, scratch);
    let rules = select_marked(head, group, scratch);
    denominator::unmark(head, scratch);
    let rules = rules?;
    head.hold(rules.len(), RULE_BYTES)?;
    Some(rules)
}

fn select_marked(head: &Head<'_>, group: &[Candidate], scratch: &mut Scratch) -> Option<Vec<(Body, Counts)>> {
    let graph = head.graph;
    let mut rules = Vec::new();
    let mut held = 0;
    let [first, second, _] = group[0].walk;
    head.spend(&mut scratch.fuel, graph.pairs(first).len())?;
    let starts = groups(graph.pairs(first), roles(head.side).0, scratch);
    // The ends of two steps, per start; computed on first use and shared by all third steps.
    let mut middles: Vec<Option<Vec<(EntityId, EntityId)>>> = vec![None; starts.len()];
    'candidates: for candidate in group {
        let limit = head.config.largest_body(candidate.support);
        let mut count = 0u64;
        for (start, middle) in starts.iter().zip(&mut middles) {
            let reached = match middle {
                Some(reached) => reached,
                None => {
                    let reached = two_steps(head, start, second, scratch)?;
                    head.hold(reached.len(), size_of::<(EntityId, EntityId)>())?;
                    held += reached.len();
                    middle.insert(reached)
                }
            };
            count += third_step(head, start[0].key, reached, candidate.walk[2], scratch, &mut |_| ())?;
            if count > limit {
                continue 'candidates;
            }
        }
        let counts = exact(head, candidate, scratch)?;
        if counts.pca() >= head.config.min_pca && counts.standard() >= head.config.min_std {
            let [a, b, c] = candidate.labels;
            rules.push((Body::Long(a, b, c), counts));
        }
    }
    head.release(held, size_of::<(EntityId, EntityId)>());
    Some(rules)
}

/// The (last, middle) entities two steps from a start; one middle per last unless variables must differ. `None` if
/// stopped.
fn two_steps(
    head: &Head<'_>,
    start: &[Pair],
    second: Label,
    scratch: &mut Scratch,
) -> Option<Vec<(EntityId, EntityId)>> {
    let stamp = scratch.next_stamp();
    let mut reached = Vec::new();
    let key = start[0].key;
    for pair in start {
        let middle = pair.other;
        if head.config.injective && middle == key {
            continue;
        }
        let lasts = head.graph.neighbours(middle, second);
        head.spend(&mut scratch.fuel, 4 + lasts.len())?;
        for &last in lasts {
            if head.config.injective {
                if last != key && last != middle {
                    reached.push((last, middle));
                }
            } else if std::mem::replace(&mut scratch.stamps2[last.index()], stamp) != stamp {
                reached.push((last, middle));
            }
        }
    }
    Some(reached)
}

/// Visits the distinct ends of the third step; returns their number, `None` if stopped.
fn third_step(
    head: &Head<'_>,
    key: EntityId,
    reached: &[(EntityId, EntityId)],
    third: Label,
    scratch: &mut Scratch,
    visit: &mut impl FnMut(EntityId),
) -> Option<u64> {
    let stamp = scratch.next_stamp();
    let mut count = 0;
    for &(last, middle) in reached {
        let ends = head.graph.neighbours(last, third);
        head.spend(&mut scratch.fuel, 4 + ends.len())?;
        for &end in ends {
            if head.config.injective && (end == key || end == last || end == middle) {
                continue;
            }
            if std::mem::replace(&mut scratch.stamps[end.index()], stamp) != stamp {
                count += 1;
                visit(end);
            }
        }
    }
    Some(count)
}

/// Exact sizes of one path, over all pairs; `None` if stopped.
fn exact(head: &Head<'_>, candidate: &Candidate, scratch: &mut Scratch) -> Option<Counts> {
    let graph: &Graph = head.graph;
    let labels = candidate.labels;
    let from_y = forks(graph, labels[2].reversed()) < forks(graph, labels[0]);
    let [first, second, third] = if from_y { turned(labels) } else { labels };
    let (own_role, other_role) =
        if from_y { (denominator::OBJECT, denominator::SUBJECT) } else { (denominator::SUBJECT, denominator::OBJECT) };
    let memo_stamp = scratch.next_stamp();
    let (mut body, mut in_other, mut in_own) = (0u64, 0u64, 0u64);
    for group in graph.pairs(first).chunk_by(|a, b| a.key == b.key) {
        let single = group.len() == 1 && !head.config.injective;
        let middle = group[0].other.index();
        let (count, inside) = if single && scratch.memo[middle].0 == memo_stamp {
            (u64::from(scratch.memo[middle].1), u64::from(scratch.memo[middle].2))
        } else {
            let reached = two_steps(head, group, second, scratch)?;
            let played = std::mem::take(&mut scratch.roles);
            let mut inside = 0u64;
            let mut look = |end: EntityId| inside += u64::from(played[end.index()] & other_role != 0);
            let count = third_step(head, group[0].key, &reached, third, scratch, &mut look);
            scratch.roles = played;
            let count = count?;
            if single {
                scratch.memo[middle] = (memo_stamp, count as u32, inside as u32);
            }
            (count, inside)
        };
        body += count;
        in_other += inside;
        if scratch.roles[group[0].key.index()] & own_role != 0 {
            in_own += count;
        }
    }
    let (pca_subject, pca_object) = if from_y { (in_other, in_own) } else { (in_own, in_other) };
    Some(Counts { support: candidate.support, body, pca_subject, pca_object, head: head.size, side: head.side })
}
