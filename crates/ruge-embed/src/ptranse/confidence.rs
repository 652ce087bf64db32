//! P(r|p): of all instances of a path, the share whose two ends are linked by r.
//!
//! An instance is one way to walk p, so two entities joined by p through several intermediate entities count several
//! times. Instances with linked ends are found from the facts of r, by the common neighbours of head and tail. All
//! instances of p are counted from the degrees of its intermediate entities, without walking them. Both counts are
//! integers, so the number of threads does not matter. Confidences of inverse relations are never used and not counted.
//!
//! *Three steps.* The number of paths explodes, so a path of two steps is extended only if P(r|p) is above a cut-off
//! for some r, and only extensions above it themselves are kept. [`ThreeStepReport`] says what that drops.

use rayon::prelude::*;
use ruge_kg::control::{Cancelled, Control, Pulse};
use ruge_kg::{EntityId, Label, RelationId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::doubled::{Doubled, Sequence};

/// Every P(r|p) > 0 of paths of one or two steps, and those of three steps above the cut-off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Confidences {
    sequences: Vec<Sequence>,
    /// Per label, the index of the first sequence that starts with it.
    first: Vec<u32>,
    offsets: Vec<usize>,
    which: Vec<u32>,
    values: Vec<f32>,
    three: Vec<Sequence>,
}

/// What the cut-off kept and dropped among the paths of three steps.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ThreeStepReport {
    /// The cut-off on P(r|p).
    pub cut_off: f64,
    /// Paths of two steps that were extended.
    pub prefixes_extended: u64,
    /// Paths of two steps with instances that were not extended.
    pub prefixes_dropped: u64,
    /// Instances of those.
    pub prefix_instances_dropped: u64,
    /// Paths of three steps that were kept.
    pub sequences_kept: u64,
    /// Extensions that were dropped although a relation links ends of theirs.
    pub sequences_dropped: u64,
    /// Instances of the kept paths of three steps.
    pub instances_kept: u64,
    /// Instances of the dropped ones.
    pub instances_dropped: u64,
    /// Positive confidences of kept paths that are not above the cut-off, and count as 0.
    pub confidences_dropped: u64,
}

/// A relation, a path of three steps that predicts it, and the confidence.
type Extension = (RelationId, Sequence, f64);

/// Per relation, sequences in order with a value each.
type Lists<T> = Vec<Vec<(Sequence, T)>>;

impl Confidences {
    /// Counts paths of up to `path_length` steps; those of three with `cut_off`.
    pub fn count(
        doubled: &Doubled,
        path_length: usize,
        cut_off: f64,
        control: &Control<'_>,
    ) -> Result<(Self, Option<ThreeStepReport>), Cancelled> {
        let linked = count_linked(doubled, path_length, control)?;
        let mut known: Vec<Sequence> = linked.par_iter().flat_map_iter(|list| list.iter().map(|x| x.0)).collect();
        known.par_sort_unstable();
        known.dedup();
        let (instances, all_two) = count_instances(doubled, &known, path_length, control)?;
        let total = |sequence| instances[known.binary_search(&sequence).expect("every counted path is known")];
        let mut lists: Lists<f64> = linked
            .into_par_iter()
            .map(|list| list.into_iter().map(|(p, count)| (p, f64::from(count) / total(p) as f64)).collect())
            .collect();

        let mut three = Vec::new();
        let mut report = None;
        if path_length == 3 {
            let mut prefixes: Vec<Sequence> = lists
                .iter()
                .flatten()
                .filter(|&&(p, confidence)| p.len() == 2 && confidence > cut_off)
                .map(|x| x.0)
                .collect();
            prefixes.sort_unstable();
            prefixes.dedup();
            let extended_instances: u64 = prefixes.iter().map(|&p| total(p)).sum();
            let mut whole = ThreeStepReport {
                cut_off,
                prefixes_extended: prefixes.len() as u64,
                prefixes_dropped: all_two.0 - prefixes.len() as u64,
                prefix_instances_dropped: all_two.1 - extended_instances,
                ..ThreeStepReport::default()
            };
            let extended = prefixes.par_iter().with_max_len(1).map(|&prefix| extend(doubled, prefix, cut_off, control));
            for (kept, part) in extended.collect::<Result<Vec<_>, Cancelled>>()? {
                whole.add(&part);
                for (relation, sequence, confidence) in kept {
                    lists[relation.index()].push((sequence, confidence));
                    three.push(sequence);
                }
            }
            three.sort_unstable();
            three.dedup();
            lists.par_iter_mut().for_each(|list| list.sort_unstable_by_key(|x| x.0));
            report = Some(whole);
        }
        Ok((Self::assemble(doubled.label_count(), known, three, lists), report))
    }

    fn assemble(labels: usize, mut sequences: Vec<Sequence>, three: Vec<Sequence>, lists: Lists<f64>) -> Self {
        sequences.extend_from_slice(&three);
        // A pair linked in the inverse direction is joined only by reversed paths, so these need a number too.
        sequences.extend_from_within(..);
        let half = sequences.len() / 2;
        sequences[half..].par_iter_mut().for_each(|sequence| *sequence = sequence.reversed());
        sequences.par_sort_unstable();
        sequences.dedup();
        sequences.shrink_to_fit();
        assert!(u32::try_from(sequences.len()).is_ok(), "sequences are numbered by 32 bits");
        let first = (0..=labels)
            .map(|label| sequences.partition_point(|sequence| sequence.first().index() < label) as u32)
            .collect();
        let mut confidences = Self { sequences, first, three, ..Self::default() };
        confidences.offsets.push(0);
        for list in lists {
            for (sequence, confidence) in list {
                let number = confidences.number(sequence).expect("every listed path has a number");
                confidences.which.push(number);
                confidences.values.push(confidence as f32);
            }
            confidences.offsets.push(confidences.which.len());
        }
        confidences
    }

    /// Every numbered sequence, in order.
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// The kept sequences of three steps, in order.
    pub fn three_steps(&self) -> &[Sequence] {
        &self.three
    }

    /// The number of a sequence: its index in [`sequences`](Self::sequences).
    #[inline]
    pub fn number(&self, sequence: Sequence) -> Option<u32> {
        let label = sequence.first().index();
        let (from, to) = (self.first[label], self.first[label + 1]);
        let found = self.sequences[from as usize..to as usize].binary_search(&sequence).ok()?;
        Some(from + found as u32)
    }

    /// The sequences that predict `relation`, by number, and their P(r|p).
    pub fn of(&self, relation: RelationId) -> (&[u32], &[f32]) {
        let range = self.offsets[relation.index()]..self.offsets[relation.index() + 1];
        (&self.which[range.clone()], &self.values[range])
    }

    /// P(r|p), 0 where unknown.
    #[inline]
    pub fn get(&self, relation: RelationId, number: u32) -> f32 {
        let (which, values) = self.of(relation);
        which.binary_search(&number).map_or(0.0, |at| values[at])
    }

    /// Number of stored P(r|p).
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no path predicts any relation.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        8 * (self.sequences.len() + self.three.len() + self.offsets.len()) + 4 * self.first.len() + 8 * self.which.len()
    }
}

/// Per relation, the instances of each path of one or two steps whose ends it links.
fn count_linked(doubled: &Doubled, path_length: usize, control: &Control<'_>) -> Result<Lists<u32>, Cancelled> {
    let graph = doubled.graph();
    let relations: Vec<RelationId> = graph.relations().collect();
    let count = |&relation: &RelationId| {
        let mut counts: FxHashMap<Sequence, u32> = FxHashMap::default();
        let mut pulse = Pulse::new(control);
        for fact in graph.facts(relation) {
            let (head, tail) = (fact.key, fact.other);
            if !pulse.beats(graph.links(head).len() + graph.links(tail).len()) {
                return Err(Cancelled);
            }
            for edge in graph.links_between(head, tail) {
                *counts.entry(Sequence::one(edge.label)).or_default() += 1;
            }
            if path_length >= 2 {
                let (of_head, of_tail) = (graph.links(head), graph.links(tail));
                let (at_head, at_tail) = (doubled.links_of(head).start, doubled.links_of(tail).start);
                doubled.meet(head, tail, |from_head, from_tail| {
                    for first in &of_head[from_head.start - at_head..from_head.end - at_head] {
                        for second in &of_tail[from_tail.start - at_tail..from_tail.end - at_tail] {
                            let sequence = Sequence::two(first.label, second.label.reversed());
                            *counts.entry(sequence).or_default() += 1;
                        }
                    }
                });
            }
        }
        let mut counts: Vec<(Sequence, u32)> = counts.into_iter().collect();
        counts.sort_unstable();
        Ok(counts)
    };
    relations.par_iter().with_max_len(1).map(count).collect()
}

/// All instances of each of the sorted `known` paths of one or two steps; and the number of all paths of two steps,
/// known or not, and of their instances.
fn count_instances(
    doubled: &Doubled,
    known: &[Sequence],
    path_length: usize,
    control: &Control<'_>,
) -> Result<(Vec<u64>, (u64, u64)), Cancelled> {
    let graph = doubled.graph();
    let parts: Result<Vec<(Vec<u64>, u64, u64)>, Cancelled> = (0..doubled.label_count() as u32)
        .into_par_iter()
        .map(|label| {
            let first = Label(label);
            let from = known.partition_point(|sequence| sequence.first() < first);
            let group = &known[from..];
            let group = &group[..group.partition_point(|sequence| sequence.first() == first)];
            let mut by_second = vec![0u64; if path_length >= 2 { doubled.label_count() } else { 0 }];
            if path_length >= 2 {
                // Each intermediate entity joins all its predecessors with all its successors.
                let mut pulse = Pulse::new(control);
                for into in graph.pairs(first.reversed()).chunk_by(|a, b| a.key == b.key) {
                    if !pulse.beats(into.len()) {
                        return Err(Cancelled);
                    }
                    for (second, run) in graph.adjacency().runs(into[0].key) {
                        by_second[second.index()] += into.len() as u64 * run.len() as u64;
                    }
                }
            }
            let of = |sequence: &Sequence| match sequence.label(1) {
                None => graph.pairs(first).len() as u64,
                Some(second) => by_second[second.index()],
            };
            let counts = group.iter().map(of).collect();
            Ok((counts, by_second.iter().filter(|&&count| count > 0).count() as u64, by_second.iter().sum()))
        })
        .collect();
    let parts = parts?;
    let all_two = parts.iter().fold((0, 0), |(paths, instances), part| (paths + part.1, instances + part.2));
    Ok((parts.into_iter().flat_map(|part| part.0).collect(), all_two))
}

/// The extensions of a path of two steps above the cut-off, and counts of the others.
fn extend(
    doubled: &Doubled,
    prefix: Sequence,
    cut_off: f64,
    control: &Control<'_>,
) -> Result<(Vec<Extension>, ThreeStepReport), Cancelled> {
    let graph = doubled.graph();
    let adjacency = graph.adjacency();
    let (first, second) = (prefix.first(), prefix.label(1).expect("a prefix has two steps"));
    let mut linked: FxHashMap<(Sequence, RelationId), u64> = FxHashMap::default();
    let mut arriving: FxHashMap<EntityId, u64> = FxHashMap::default();
    let mut ends: Vec<EntityId> = Vec::new();
    let mut pulse = Pulse::new(control);
    for out in graph.pairs(first).chunk_by(|a, b| a.key == b.key) {
        let head = out[0].key;
        ends.clear();
        ends.extend(out.iter().flat_map(|pair| adjacency.neighbours(pair.other, second)));
        ends.sort_unstable();
        for same in ends.chunk_by(|a, b| a == b) {
            let (end, times) = (same[0], same.len() as u64);
            if !pulse.beats(graph.links(head).len() + graph.links(end).len()) {
                return Err(Cancelled);
            }
            *arriving.entry(end).or_default() += times;
            let (of_head, of_end) = (graph.links(head), graph.links(end));
            let (at_head, at_end) = (doubled.links_of(head).start, doubled.links_of(end).start);
            doubled.meet(head, end, |from_head, from_end| {
                for link in of_head[from_head.start - at_head..from_head.end - at_head].iter() {
                    if !link.label.is_inverse() {
                        for third in &of_end[from_end.start - at_end..from_end.end - at_end] {
                            *linked.entry((prefix.then(third.label), link.label.relation())).or_default() += times;
                        }
                    }
                }
            });
        }
    }
    let mut instances: FxHashMap<Sequence, u64> = FxHashMap::default();
    for (&end, &times) in &arriving {
        for (third, run) in adjacency.runs(end) {
            *instances.entry(prefix.then(third)).or_default() += times * run.len() as u64;
        }
    }
    let mut linked: Vec<((Sequence, RelationId), u64)> = linked.into_iter().collect();
    linked.sort_unstable();
    let mut kept = Vec::new();
    let mut report = ThreeStepReport::default();
    for group in linked.chunk_by(|a, b| a.0.0 == b.0.0) {
        let (sequence, total) = (group[0].0.0, instances[&group[0].0.0]);
        let before = kept.len();
        for &((_, relation), count) in group {
            let confidence = count as f64 / total as f64;
            if confidence > cut_off {
                kept.push((relation, sequence, confidence));
            }
        }
        let found = (kept.len() - before) as u64;
        if found > 0 {
            report.sequences_kept += 1;
            report.instances_kept += total;
            report.confidences_dropped += group.len() as u64 - found;
        } else {
            report.sequences_dropped += 1;
        }
    }
    report.instances_dropped = instances.values().sum::<u64>() - report.instances_kept;
    Ok((kept, report))
}

impl ThreeStepReport {
    fn add(&mut self, part: &Self) {
        self.sequences_kept += part.sequences_kept;
        self.sequences_dropped += part.sequences_dropped;
        self.instances_kept += part.instances_kept;
        self.instances_dropped += part.instances_dropped;
        self.confidences_dropped += part.confidences_dropped;
    }
}
