//! Supports of all bodies of at most two atoms, computed from the facts of the head.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use ruge_kg::{Edge, EntityId, Label, Pair};

use super::{Head, Pool, Scratch};
use ruge_kg::control::Fuel;

/// Bodies that reach the threshold, with their supports.
#[derive(Default)]
pub(crate) struct Supported {
    /// A label from x to y.
    pub(crate) one: Vec<(Label, u64)>,
    /// Two labels from x to y, smaller first.
    pub(crate) same_pair: Vec<(Label, Label, u64)>,
    /// x –first→ z –second→ y.
    pub(crate) paths: Vec<(Label, Label, u64)>,
}

impl Supported {
    pub(crate) fn release(self, head: &Head<'_>) {
        head.release(self.same_pair.len() + self.paths.len(), CANDIDATE);
    }
}

/// Bytes per candidate: as listed here, and as sorted by confidence.
const CANDIDATE: usize = 64;

/// No index in a renumbering.
pub(crate) const NONE: u32 = u32::MAX;

/// Above this ratio of degrees the shorter list is looked up in the longer one, instead of scanning the longer one.
const LOOK_UP: usize = 16;

/// Facts times degree from which on a head is split over threads.
const SPLIT_WORK: u64 = 4_000_000;

/// Counts every supported body of `head`; `None` if stopped.
pub(crate) fn count(head: &Head<'_>, pool: &Pool, probes: &AtomicU64) -> Option<Supported> {
    let mut supported = Supported::default();
    count_pairs(head, &mut supported)?;
    if head.config.max_body >= 2 {
        count_paths(head, pool, probes, &mut supported)?;
    }
    Some(supported)
}

/// One-atom and same-pair bodies: the labels other than the head's that link x and y.
fn count_pairs(head: &Head<'_>, supported: &mut Supported) -> Option<()> {
    let graph = head.graph;
    let own = Label::forward(head.relation);
    let counted = |pair: &&Pair| !(head.config.injective && pair.key == pair.other);
    let mut counts = vec![0u64; 2 * graph.relation_count()];
    let mut fuel = Fuel::default();
    let mut links: Vec<&[Edge]> = Vec::new();
    for pair in graph.facts(head.relation).iter().filter(counted) {
        let edges = graph.links_between(pair.key, pair.other);
        head.spend(&mut fuel, 16 + edges.len())?;
        edges.iter().for_each(|edge| counts[edge.label.index()] += 1);
        links.push(edges);
    }
    counts[own.index()] = 0;
    let labels: Vec<Label> = (0..counts.len() as u32)
        .map(Label)
        .filter(|&label| counts[label.index()] >= head.threshold && head.allows(label))
        .collect();
    supported.one = labels.iter().map(|&label| (label, counts[label.index()])).collect();
    if head.config.max_body < 2 || labels.len() < 2 {
        return Some(());
    }
    let mut place = vec![NONE; counts.len()];
    for (index, label) in labels.iter().enumerate() {
        place[label.index()] = index as u32;
    }
    let cells = labels.len().saturating_mul(labels.len());
    head.hold(cells, size_of::<u64>())?;
    let mut table = vec![0u64; cells];
    let mut here: Vec<u32> = Vec::new();
    for edges in links {
        here.clear();
        here.extend(edges.iter().map(|edge| place[edge.label.index()]).filter(|&p| p != NONE));
        for (i, &a) in here.iter().enumerate() {
            head.spend(&mut fuel, here.len() - i)?;
            for &b in &here[i + 1..] {
                table[a as usize * labels.len() + b as usize] += 1;
            }
        }
    }
    for (a, &first) in labels.iter().enumerate() {
        head.spend(&mut fuel, labels.len())?;
        let before = supported.same_pair.len();
        for (b, &second) in labels.iter().enumerate().skip(a + 1) {
            let support = table[a * labels.len() + b];
            if support >= head.threshold {
                supported.same_pair.push((first, second, support));
            }
        }
        head.hold(supported.same_pair.len() - before, CANDIDATE)?;
    }
    head.release(cells, size_of::<u64>());
    Some(())
}

/// One end of the head with the labels that can still reach the threshold there.
pub(crate) struct End {
    /// Index of each label among the remaining ones, or `NONE`.
    pub(crate) place: Vec<u32>,
    pub(crate) labels: Vec<Label>,
}

impl End {
    /// Labels at the key side of `pairs` that reach the threshold; `None` if stopped.
    pub(crate) fn new(head: &Head<'_>, label: Label) -> Option<Self> {
        let graph = head.graph;
        let mut counts = vec![0u64; 2 * graph.relation_count()];
        let mut fuel = Fuel::default();
        for group in graph.pairs(label).chunk_by(|a, b| a.key == b.key) {
            let key = group[0].key;
            let weight = group.iter().filter(|pair| !(head.config.injective && pair.other == key)).count() as u64;
            let labels = graph.adjacency().labels(key);
            head.spend(&mut fuel, group.len() + labels.len())?;
            for label in labels {
                counts[label.index()] += weight;
            }
        }
        let labels: Vec<Label> = (0..counts.len() as u32)
            .map(Label)
            .filter(|&label| counts[label.index()] >= head.threshold && head.allows(label))
            .collect();
        let mut place = vec![NONE; counts.len()];
        for (index, label) in labels.iter().enumerate() {
            place[label.index()] = index as u32;
        }
        Some(Self { place, labels })
    }
}

/// Path bodies; `None` if stopped.
fn count_paths(head: &Head<'_>, pool: &Pool, probes: &AtomicU64, supported: &mut Supported) -> Option<()> {
    let graph = head.graph;
    let forward = Label::forward(head.relation);
    // One end is marked, the other walked; walk the one with smaller degrees.
    let walk_cost = |label: Label| graph.pairs(label).iter().map(|pair| graph.degree(pair.other) as u64).sum::<u64>();
    let (cost_tail, cost_head) = (walk_cost(forward), walk_cost(forward.reversed()));
    let near = if cost_tail <= cost_head { forward } else { forward.reversed() };
    let near_end = End::new(head, near)?;
    let far_end = End::new(head, near.reversed())?;
    if near_end.labels.is_empty() || far_end.labels.is_empty() {
        return Some(());
    }
    let pairs = graph.pairs(near);
    let far_edges = FarEdges::new(head, &far_end, near.reversed())?;
    let work = cost_tail.min(cost_head);
    let parts = if work > SPLIT_WORK { (2 * rayon::current_num_threads()).max(1) } else { 1 };
    let size = near_end.labels.len().saturating_mul(far_end.labels.len());
    // Cells are numbered in 32 bits; a larger table would not fit in memory anyway.
    if size > u32::MAX as usize {
        head.memory.exceed();
        return None;
    }
    let held = AtomicU64::new(0);
    let search = |part: &[Pair]| {
        pool.with(|scratch| {
            let mut table = Meetings::new(size);
            let made = walk(head, &near_end, &far_edges, far_end.labels.len(), part, scratch, &mut table);
            probes.fetch_add(made?, Ordering::Relaxed);
            held.fetch_add(table.held() as u64, Ordering::Relaxed);
            Some(table)
        })
    };
    let table = if parts == 1 {
        search(pairs)
    } else {
        cut_by_key(pairs, parts).into_par_iter().map(search).reduce(|| Some(Meetings::new(0)), |a, b| Some(a?.add(b?)))
    };
    let table = table?;
    let columns = far_end.labels.len();
    table.for_each(&mut |index, support| {
        if support >= head.threshold {
            let (at_near, at_far) = (near_end.labels[index / columns], far_end.labels[index % columns]);
            // Walked from y, the far label leads towards z; as the second step it leads away from z.
            let (first, second) =
                if near == forward { (at_near, at_far.reversed()) } else { (at_far, at_near.reversed()) };
            supported.paths.push((first, second, support));
        }
    });
    head.hold(supported.paths.len(), CANDIDATE)?;
    head.release(held.into_inner() as usize, CELL);
    supported.paths.sort_unstable();
    Some(())
}

/// Cuts pairs into about `parts` pieces without splitting a key.
pub(crate) fn cut_by_key(pairs: &[Pair], parts: usize) -> Vec<&[Pair]> {
    let mut pieces = Vec::with_capacity(parts);
    let mut rest = pairs;
    let target = pairs.len().div_ceil(parts).max(1);
    while rest.len() > target {
        let key = rest[target - 1].key;
        let end = rest.partition_point(|pair| pair.key <= key);
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// For every entity on the walked side: its edges with remaining labels, and the labels' indexes.
struct FarEdges {
    entities: Vec<EntityId>,
    offsets: Vec<u32>,
    edges: Vec<(EntityId, u32)>,
    /// Index of each entity in `entities`, or `NONE`.
    dense: Vec<u32>,
}

impl FarEdges {
    fn new(head: &Head<'_>, end: &End, label: Label) -> Option<Self> {
        let graph = head.graph;
        let mut fuel = Fuel::default();
        let mut entities = Vec::with_capacity(graph.distinct_heads(label.relation()));
        let mut offsets = vec![0u32];
        let mut edges = Vec::new();
        for group in graph.pairs(label).chunk_by(|a, b| a.key == b.key) {
            let entity = group[0].key;
            entities.push(entity);
            head.spend(&mut fuel, graph.degree(entity))?;
            edges.extend(graph.links(entity).iter().filter_map(|edge| {
                let place = end.place[edge.label.index()];
                (place != NONE).then_some((edge.neighbour, place))
            }));
            offsets.push(edges.len() as u32);
        }
        let mut dense = vec![NONE; graph.entity_count()];
        for (index, entity) in entities.iter().enumerate() {
            dense[entity.index()] = index as u32;
        }
        Some(Self { entities, offsets, edges, dense })
    }

    #[inline]
    fn of(&self, entity: EntityId) -> &[(EntityId, u32)] {
        let index = self.dense[entity.index()] as usize;
        debug_assert_eq!(self.entities[index], entity);
        &self.edges[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }
}

/// Visits the common neighbours of every pair; returns the number of probes, `None` if stopped.
fn walk(
    head: &Head<'_>,
    near: &End,
    far_edges: &FarEdges,
    columns: usize,
    pairs: &[Pair],
    scratch: &mut Scratch,
    table: &mut Meetings,
) -> Option<u64> {
    let graph = head.graph;
    let injective = head.config.injective;
    let mut probes = 0u64;
    let mut places: Vec<u32> = Vec::new();
    let mut marked: Vec<EntityId> = Vec::new();
    let mut met: Vec<(EntityId, u32)> = Vec::new();
    let mut held = table.held();
    for group in pairs.chunk_by(|a, b| a.key == b.key) {
        let key = group[0].key;
        head.spend(&mut scratch.fuel, graph.degree(key))?;
        places.clear();
        marked.clear();
        for edge in graph.links(key) {
            let place = near.place[edge.label.index()];
            if place == NONE || (injective && edge.neighbour == key) {
                continue;
            }
            if marked.last() != Some(&edge.neighbour) {
                marked.push(edge.neighbour);
                scratch.ranges[edge.neighbour.index()] = (places.len() as u32, places.len() as u32);
                scratch.marks[edge.neighbour.index() / 64] |= 1 << (edge.neighbour.index() % 64);
            }
            places.push(place * columns as u32);
            scratch.ranges[edge.neighbour.index()].1 += 1;
        }
        for pair in group {
            let other = pair.other;
            if injective && other == key {
                continue;
            }
            table.next_pair();
            let far = far_edges.of(other);
            head.spend(&mut scratch.fuel, far.len().min(LOOK_UP * marked.len()))?;
            if far.len() > LOOK_UP * marked.len() {
                probes += marked.len() as u64;
                for &z in marked.iter().filter(|&&z| !(injective && z == other)) {
                    let start = far.partition_point(|&(neighbour, _)| neighbour < z);
                    let (from, to) = scratch.ranges[z.index()];
                    for &(_, column) in far[start..].iter().take_while(|&&(neighbour, _)| neighbour == z) {
                        head.spend(&mut scratch.fuel, (to - from) as usize)?;
                        table.hit_all(&places[from as usize..to as usize], column);
                    }
                }
            } else {
                probes += far.len() as u64;
                // Few are marked, and branches on them are unpredictable: gather them without a branch first.
                met.resize(met.len().max(far.len()), (EntityId(0), 0));
                let mut count = 0;
                for &(z, column) in far {
                    met[count] = (z, column);
                    count += usize::from(scratch.marks[z.index() / 64] >> (z.index() % 64) & 1 == 1);
                }
                for &(z, column) in met[..count].iter().filter(|&&(z, _)| !(injective && z == other)) {
                    let (from, to) = scratch.ranges[z.index()];
                    head.spend(&mut scratch.fuel, (to - from) as usize)?;
                    table.hit_all(&places[from as usize..to as usize], column);
                }
            }
        }
        for z in &marked {
            scratch.marks[z.index() / 64] = 0;
        }
        if table.held() > held {
            head.hold(table.held() - held, CELL)?;
            held = table.held();
        }
    }
    Some(probes)
}

/// How often each (near label, far label) occurs, counting each pair (x, y) once.
///
/// A cell holds the number of the last pair that hit it and the count in one word, so that a repeated hit costs one
/// load. Large tables are hash maps.
enum Meetings {
    Dense { cells: Vec<u64>, pair: u32 },
    Sparse { cells: rustc_hash::FxHashMap<u32, u64>, pair: u32 },
}

/// Cells from which on a dense table would cost more than hashing: 8 MB.
const MAX_DENSE: usize = 1 << 20;

const CELL: usize = 20;

impl Meetings {
    fn new(size: usize) -> Self {
        if size <= MAX_DENSE {
            Meetings::Dense { cells: vec![0; size], pair: 0 }
        } else {
            Meetings::Sparse { cells: Default::default(), pair: 0 }
        }
    }

    /// Cells whose memory is counted: the hashed ones.
    fn held(&self) -> usize {
        match self {
            Meetings::Dense { .. } => 0,
            Meetings::Sparse { cells, .. } => cells.capacity(),
        }
    }

    #[inline]
    fn next_pair(&mut self) {
        match self {
            Meetings::Dense { pair, .. } | Meetings::Sparse { pair, .. } => *pair += 1,
        }
    }

    /// Counts `place + column` for every place, unless this pair has been counted there.
    #[inline]
    fn hit_all(&mut self, places: &[u32], column: u32) {
        match self {
            Meetings::Dense { cells, pair } => {
                for &place in places {
                    hit(&mut cells[(place + column) as usize], *pair);
                }
            }
            Meetings::Sparse { cells, pair } => {
                for &place in places {
                    hit(cells.entry(place + column).or_insert(0), *pair);
                }
            }
        }
    }

    /// The sum of two tables; stamps are dropped.
    fn add(self, other: Self) -> Self {
        match (self, other) {
            (Meetings::Dense { mut cells, pair }, Meetings::Dense { cells: others, .. }) if !cells.is_empty() => {
                for (cell, other) in cells.iter_mut().zip(&others) {
                    *cell += other & COUNT;
                }
                Meetings::Dense { cells, pair }
            }
            (Meetings::Sparse { mut cells, pair }, Meetings::Sparse { cells: others, .. }) => {
                for (index, other) in others {
                    *cells.entry(index).or_insert(0) += other & COUNT;
                }
                Meetings::Sparse { cells, pair }
            }
            // The neutral element of the reduction is an empty dense table.
            (Meetings::Dense { .. }, other) => other,
            (table, _) => table,
        }
    }

    fn for_each(&self, visit: &mut impl FnMut(usize, u64)) {
        match self {
            Meetings::Dense { cells, .. } => {
                for (index, &cell) in cells.iter().enumerate().filter(|&(_, &cell)| cell != 0) {
                    visit(index, cell & COUNT);
                }
            }
            Meetings::Sparse { cells, .. } => {
                for (&index, &cell) in cells {
                    visit(index as usize, cell & COUNT);
                }
            }
        }
    }
}

const COUNT: u64 = u32::MAX as u64;

#[inline]
fn hit(cell: &mut u64, pair: u32) {
    if (*cell >> 32) as u32 != pair {
        *cell = u64::from(pair) << 32 | ((*cell & COUNT) + 1);
    }
}
