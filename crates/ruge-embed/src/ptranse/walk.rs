//! The entities that a set of paths reaches from one entity, and the resource that arrives.
//!
//! The sequences are sorted, so they form a tree: all that start with the same label share that step. At each node, the
//! runs of the labels that continue in the tree are looked up once for all entities reached so far. A walk from the
//! head gives R(p|h,·). A walk from the tail over reversed sequences gives R(p|·,t), since the share passed on by an
//! edge depends only on its own start.

use ruge_kg::EntityId;

use super::doubled::{Doubled, Sequence};

/// The end of the paths at which a walk starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkFrom {
    /// The head; sequences in order.
    Head,
    /// The tail; sequences reversed.
    Tail,
}

/// Buffers for walks over one graph: a number per entity and an entry per label and step.
#[derive(Debug)]
pub struct Walker {
    resource: Vec<f64>,
    steps: [Level; 3],
}

/// Buffers of one step; a deeper step has its own.
#[derive(Debug, Default)]
struct Level {
    /// Per label, 1 + the group of sequences that continue with it; 0 if none.
    group_of: Vec<u32>,
    /// Per group, the start of its sequences.
    groups: Vec<usize>,
    hits: Vec<Hit>,
    reached: Vec<(EntityId, f64)>,
}

/// A run to walk for a group.
#[derive(Clone, Copy, Debug)]
struct Hit {
    group: u32,
    run: u32,
    resource: f64,
}

impl Walker {
    /// Buffers for walks over `doubled`.
    pub fn new(doubled: &Doubled) -> Self {
        let step = || Level { group_of: vec![0; doubled.label_count()], ..Level::default() };
        Self { resource: vec![0.0; doubled.graph().entity_count()], steps: [step(), step(), step()] }
    }

    /// Walks sorted `sequences` from `entity`; `visit(sequence, end, resource)` is called once for each end of each
    /// sequence, in an order determined by the arguments.
    pub fn walk(
        &mut self,
        doubled: &Doubled,
        start: WalkFrom,
        entity: EntityId,
        sequences: &[Sequence],
        visit: &mut impl FnMut(usize, EntityId, f64),
    ) {
        debug_assert!(sequences.is_sorted(), "a walk needs its sequences in order");
        let Self { resource, steps } = self;
        go(doubled, start, sequences, 0, &[(entity, 1.0)], resource, steps, visit);
    }
}

/// One step from all of `from` at once. `base` is the index of the first of these sequences among all.
#[expect(clippy::too_many_arguments, reason = "the state of a recursion, spelt out")]
fn go(
    doubled: &Doubled,
    start: WalkFrom,
    sequences: &[Sequence],
    base: usize,
    from: &[(EntityId, f64)],
    resource: &mut [f64],
    steps: &mut [Level],
    visit: &mut impl FnMut(usize, EntityId, f64),
) {
    let Some((step, deeper)) = steps.split_first_mut() else { return };
    let depth = 2 - deeper.len();
    let adjacency = doubled.graph().adjacency();
    step.group_by_label(sequences, depth);
    step.hits.clear();
    for &(entity, resource) in from {
        for run in adjacency.runs_of(entity) {
            let group = step.group_of[adjacency.run_places(run).0.index()];
            if group > 0 {
                step.hits.push(Hit { group: group - 1, run: run as u32, resource });
            }
        }
    }
    step.forget_groups(sequences, depth);
    // Runs of an entity are distinct, and so are the entities, so the key is unique and the order fixed.
    step.hits.sort_unstable_by_key(|hit| (hit.group, hit.run));
    for hits in step.hits.chunk_by(|a, b| a.group == b.group) {
        let group = hits[0].group as usize;
        let places = step.groups[group]..step.groups[group + 1];
        let here = usize::from(sequences[places.start].len() == depth + 1);
        step.reached.clear();
        for hit in hits {
            let run = adjacency.run_members(hit.run as usize);
            let mut pass = |entity: EntityId, size: u32| {
                let passed = hit.resource / f64::from(size);
                if hits.len() == 1 {
                    step.reached.push((entity, passed));
                } else {
                    let sum = &mut resource[entity.index()];
                    if *sum == 0.0 {
                        step.reached.push((entity, 0.0));
                    }
                    *sum += passed;
                }
            };
            match start {
                WalkFrom::Head => run.iter().for_each(|&entity| pass(entity, run.len() as u32)),
                WalkFrom::Tail => {
                    let sizes = doubled.run_back(hit.run as usize);
                    run.iter().zip(sizes).for_each(|(&entity, &size)| pass(entity, size));
                }
            }
        }
        if hits.len() > 1 {
            for (entity, sum) in &mut step.reached {
                *sum = std::mem::take(&mut resource[entity.index()]);
            }
        }
        if here == 1 {
            step.reached.iter().for_each(|&(entity, passed)| visit(base + places.start, entity, passed));
        }
        let rest = places.start + here..places.end;
        if !rest.is_empty() {
            let sequences = &sequences[rest.clone()];
            go(doubled, start, sequences, base + rest.start, &step.reached, resource, deeper, visit);
        }
    }
}

impl Level {
    /// Groups the sequences by their label at this depth and indexes the groups by label.
    fn group_by_label(&mut self, sequences: &[Sequence], depth: usize) {
        self.groups.clear();
        let mut last = None;
        for (at, sequence) in sequences.iter().enumerate() {
            let label = sequence.label(depth);
            if label != last {
                self.groups.push(at);
                if let Some(label) = label {
                    self.group_of[label.index()] = self.groups.len() as u32;
                }
                last = label;
            }
        }
        self.groups.push(sequences.len());
    }

    fn forget_groups(&mut self, sequences: &[Sequence], depth: usize) {
        for &at in &self.groups[..self.groups.len() - 1] {
            if let Some(label) = sequences[at].label(depth) {
                self.group_of[label.index()] = 0;
            }
        }
    }
}
