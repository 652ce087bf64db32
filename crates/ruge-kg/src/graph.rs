//! The immutable graph and its indexes.
//!
//! Mining, grounding, training and ranking ask four questions, each answered by one sorted array:
//!
//! | question | index |
//! |---|---|
//! | who is reached from `u` over label `l`? | [`Adjacency`]: per entity, runs of equal label |
//! | how are `u` and `v` linked? | links: per entity, sorted by neighbour, then label |
//! | which facts has relation `r`, by head? by tail? | facts: per relation, sorted pairs, both ways |
//! | is this triple a fact? | binary search in any of them |
//!
//! Nothing is indexed densely by (relation, entity): FB15K alone would need 20 million offsets.
//!
//! *Order of construction.* Triples are scattered into relation buckets and each bucket is sorted as packed pairs;
//! every other index is then a single scatter in an order that leaves its rows sorted.

use rayon::prelude::*;

use crate::triple::{EntityId, Label, RelationId, Triple};

/// A fact of a relation seen from one side: from its head (then `other` is the tail) or from its tail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pair {
    /// The side the list is sorted by.
    pub key: EntityId,
    /// The other side.
    pub other: EntityId,
}

/// One end of an edge: walking `label` leads to `neighbour`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// Where the edge leads.
    pub neighbour: EntityId,
    /// How it gets there.
    pub label: Label,
}

/// Per entity, its neighbours grouped by label: `neighbours(u, l)` is a slice, found by binary search over the few
/// labels `u` has.
#[derive(Clone, Debug, Default)]
pub struct Adjacency {
    runs_of: Vec<u32>,
    run_labels: Vec<Label>,
    run_starts: Vec<u32>,
    neighbours: Vec<EntityId>,
}

impl Adjacency {
    /// Builds the index from facts grouped by relation and sorted by (head, tail) within each.
    fn new(entities: usize, facts: &Facts) -> Self {
        let mut degrees = vec![0u32; entities + 1];
        let mut run_counts = vec![0u32; entities + 1];
        let mut last_label = vec![u32::MAX; entities];
        let mut visit = |entity: EntityId, label: Label| {
            degrees[entity.index() + 1] += 1;
            if last_label[entity.index()] != label.0 {
                last_label[entity.index()] = label.0;
                run_counts[entity.index() + 1] += 1;
            }
        };
        facts.for_each_edge(&mut |from, label, _| visit(from, label));
        accumulate(&mut degrees);
        accumulate(&mut run_counts);

        let edges = degrees[entities] as usize;
        let runs = run_counts[entities] as usize;
        let mut neighbours = vec![EntityId(0); edges];
        let mut run_labels = vec![Label(0); runs];
        let mut run_starts = vec![0u32; runs + 1];
        let mut next_edge = degrees[..entities].to_vec();
        let mut next_run = run_counts[..entities].to_vec();
        last_label.fill(u32::MAX);
        facts.for_each_edge(&mut |from, label, to| {
            let u = from.index();
            if last_label[u] != label.0 {
                last_label[u] = label.0;
                let run = next_run[u] as usize;
                run_labels[run] = label;
                run_starts[run] = next_edge[u];
                next_run[u] += 1;
            }
            neighbours[next_edge[u] as usize] = to;
            next_edge[u] += 1;
        });
        run_starts[runs] = edges as u32;
        Self { runs_of: run_counts, run_labels, run_starts, neighbours }
    }

    /// The entities reached from `entity` over `label`, in id order.
    #[inline]
    pub fn neighbours(&self, entity: EntityId, label: Label) -> &[EntityId] {
        let (from, to) = self.run_range(entity);
        match self.run_labels[from..to].binary_search(&label) {
            Ok(at) => self.run(from + at),
            Err(_) => &[],
        }
    }

    /// The labels at `entity` in order, each with the entities it leads to.
    #[inline]
    pub fn runs(&self, entity: EntityId) -> impl ExactSizeIterator<Item = (Label, &[EntityId])> {
        let (from, to) = self.run_range(entity);
        (from..to).map(|run| (self.run_labels[run], self.run(run)))
    }

    /// The labels at `entity`, sorted.
    #[inline]
    pub fn labels(&self, entity: EntityId) -> &[Label] {
        let (from, to) = self.run_range(entity);
        &self.run_labels[from..to]
    }

    /// Number of edges at `entity`, both directions together.
    #[inline]
    pub fn degree(&self, entity: EntityId) -> usize {
        let (from, to) = self.run_range(entity);
        (self.run_starts[to] - self.run_starts[from]) as usize
    }

    /// Bytes held by the index.
    pub fn bytes(&self) -> usize {
        4 * (self.runs_of.len() + self.run_labels.len() + self.run_starts.len() + self.neighbours.len())
    }

    #[inline]
    fn run_range(&self, entity: EntityId) -> (usize, usize) {
        (self.runs_of[entity.index()] as usize, self.runs_of[entity.index() + 1] as usize)
    }

    #[inline]
    fn run(&self, run: usize) -> &[EntityId] {
        &self.neighbours[self.run_starts[run] as usize..self.run_starts[run + 1] as usize]
    }
}

/// Facts grouped by relation, each group sorted by (key, other) and free of duplicates.
#[derive(Clone, Debug, Default)]
struct Facts {
    offsets: Vec<u32>,
    pairs: Vec<Pair>,
}

impl Facts {
    /// Groups and sorts triples by (relation, head, tail), dropping repetitions.
    fn by_head(relations: usize, parts: &[&[Triple]]) -> Self {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        assert!(total < u32::MAX as usize / 2, "a graph holds at most 2^31 triples");
        let triples = || parts.iter().flat_map(|part| part.iter());
        let mut offsets = vec![0u32; relations + 1];
        for triple in triples() {
            offsets[triple.relation.index() + 1] += 1;
        }
        accumulate(&mut offsets);
        let mut next = offsets.clone();
        let mut packed = vec![0u64; total];
        for triple in triples() {
            let slot = &mut next[triple.relation.index()];
            packed[*slot as usize] = u64::from(triple.head.0) << 32 | u64::from(triple.tail.0);
            *slot += 1;
        }
        // One bucket per relation, sorted independently: parallel over buckets, and inside the large ones.
        let mut buckets = Vec::with_capacity(relations);
        let mut rest = packed.as_mut_slice();
        for relation in 0..relations {
            let (bucket, tail) = rest.split_at_mut((offsets[relation + 1] - offsets[relation]) as usize);
            buckets.push(bucket);
            rest = tail;
        }
        buckets.into_par_iter().for_each(|bucket| {
            if bucket.len() > 1 << 16 { bucket.par_sort_unstable() } else { bucket.sort_unstable() }
        });

        let mut pairs = Vec::with_capacity(total);
        let mut distinct = Vec::with_capacity(relations + 1);
        distinct.push(0u32);
        for relation in 0..relations {
            let bucket = &packed[offsets[relation] as usize..offsets[relation + 1] as usize];
            let mut last = None;
            for &key in bucket {
                if last != Some(key) {
                    pairs.push(Pair { key: EntityId((key >> 32) as u32), other: EntityId(key as u32) });
                    last = Some(key);
                }
            }
            distinct.push(pairs.len() as u32);
        }
        pairs.shrink_to_fit();
        Self { offsets: distinct, pairs }
    }

    /// The same facts, keyed by tail: a walk over entities in id order meets each relation's tails in order.
    fn by_tail(&self, adjacency: &Adjacency, entities: usize) -> Self {
        let mut next = self.offsets.clone();
        let mut pairs = vec![Pair { key: EntityId(0), other: EntityId(0) }; self.pairs.len()];
        for tail in (0..entities as u32).map(EntityId) {
            for (label, heads) in adjacency.runs(tail).filter(|(label, _)| label.is_inverse()) {
                let slot = &mut next[label.relation().index()];
                for &head in heads {
                    pairs[*slot as usize] = Pair { key: tail, other: head };
                    *slot += 1;
                }
            }
        }
        Self { offsets: self.offsets.clone(), pairs }
    }

    #[inline]
    fn of(&self, relation: RelationId) -> &[Pair] {
        &self.pairs[self.offsets[relation.index()] as usize..self.offsets[relation.index() + 1] as usize]
    }

    /// Visits both ends of every fact, label by label: all of `2r` before all of `2r + 1`, and for any one entity and
    /// label the neighbours in id order.
    fn for_each_edge(&self, visit: &mut impl FnMut(EntityId, Label, EntityId)) {
        for relation in (0..self.offsets.len() as u32 - 1).map(RelationId) {
            let pairs = self.of(relation);
            for pair in pairs {
                visit(pair.key, Label::forward(relation), pair.other);
            }
            for pair in pairs {
                visit(pair.other, Label::inverse(relation), pair.key);
            }
        }
    }
}

/// Turns counts at `i + 1` into offsets.
fn accumulate(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

/// 𝒪, the observed triples, as a set with its indexes. Immutable once built.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    entities: usize,
    adjacency: Adjacency,
    link_offsets: Vec<u32>,
    links: Vec<Edge>,
    by_head: Facts,
    by_tail: Facts,
    distinct: Vec<(u32, u32)>,
}

impl Graph {
    /// Indexes `triples` over `entities` × `relations` ids. Repeated triples count once.
    pub fn new(entities: usize, relations: usize, triples: &[Triple]) -> Self {
        let by_head = Facts::by_head(relations, &[triples]);
        let adjacency = Adjacency::new(entities, &by_head);
        let (by_tail, (link_offsets, links)) =
            rayon::join(|| by_head.by_tail(&adjacency, entities), || links(&adjacency, entities));
        let count_keys = |pairs: &[Pair]| pairs.chunk_by(|a, b| a.key == b.key).count() as u32;
        let distinct = (0..relations as u32)
            .into_par_iter()
            .map(|r| (count_keys(by_head.of(RelationId(r))), count_keys(by_tail.of(RelationId(r)))))
            .collect();
        Self { entities, adjacency, link_offsets, links, by_head, by_tail, distinct }
    }

    /// Number of entity ids, used or not.
    pub fn entity_count(&self) -> usize {
        self.entities
    }

    /// Number of relation ids, used or not.
    pub fn relation_count(&self) -> usize {
        self.distinct.len()
    }

    /// Number of distinct triples.
    pub fn len(&self) -> usize {
        self.by_head.pairs.len()
    }

    /// Whether there is no triple at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entity ids.
    pub fn entities(&self) -> impl ExactSizeIterator<Item = EntityId> + use<> {
        (0..self.entities).map(|index| EntityId(index as u32))
    }

    /// All relation ids.
    pub fn relations(&self) -> impl ExactSizeIterator<Item = RelationId> + use<> {
        (0..self.relation_count()).map(|index| RelationId(index as u32))
    }

    /// Whether the triple is a fact. Logarithmic in the smaller of the two degrees.
    pub fn contains(&self, triple: Triple) -> bool {
        let out = self.links(triple.head);
        let back = self.links(triple.tail);
        let (links, edge) = if out.len() <= back.len() {
            (out, Edge { neighbour: triple.tail, label: Label::forward(triple.relation) })
        } else {
            (back, Edge { neighbour: triple.head, label: Label::inverse(triple.relation) })
        };
        links.binary_search(&edge).is_ok()
    }

    /// The entities reached from `entity` over `label`, in id order.
    #[inline]
    pub fn neighbours(&self, entity: EntityId, label: Label) -> &[EntityId] {
        self.adjacency.neighbours(entity, label)
    }

    /// Neighbours grouped by label.
    #[inline]
    pub fn adjacency(&self) -> &Adjacency {
        &self.adjacency
    }

    /// Every edge at `entity`, sorted by neighbour, then label.
    #[inline]
    pub fn links(&self, entity: EntityId) -> &[Edge] {
        &self.links[self.link_offsets[entity.index()] as usize..self.link_offsets[entity.index() + 1] as usize]
    }

    /// The edges that lead from `from` to `to`, sorted by label.
    pub fn links_between(&self, from: EntityId, to: EntityId) -> &[Edge] {
        let links = self.links(from);
        let start = links.partition_point(|edge| edge.neighbour < to);
        let len = links[start..].partition_point(|edge| edge.neighbour == to);
        &links[start..start + len]
    }

    /// Number of edges at `entity`; a reflexive fact counts twice.
    #[inline]
    pub fn degree(&self, entity: EntityId) -> usize {
        self.links(entity).len()
    }

    /// The facts of `relation`, sorted by head, then tail (`key` is the head).
    #[inline]
    pub fn facts(&self, relation: RelationId) -> &[Pair] {
        self.by_head.of(relation)
    }

    /// The facts of `relation`, sorted by tail, then head (`key` is the tail).
    #[inline]
    pub fn facts_by_tail(&self, relation: RelationId) -> &[Pair] {
        self.by_tail.of(relation)
    }

    /// The pairs walked by `label`: by head for a forward label, by tail for an inverse one.
    #[inline]
    pub fn pairs(&self, label: Label) -> &[Pair] {
        if label.is_inverse() { self.facts_by_tail(label.relation()) } else { self.facts(label.relation()) }
    }

    /// Number of distinct heads of `relation`.
    pub fn distinct_heads(&self, relation: RelationId) -> usize {
        self.distinct[relation.index()].0 as usize
    }

    /// Number of distinct tails of `relation`.
    pub fn distinct_tails(&self, relation: RelationId) -> usize {
        self.distinct[relation.index()].1 as usize
    }

    /// Every triple, sorted by relation, head, tail.
    pub fn triples(&self) -> impl Iterator<Item = Triple> {
        self.relations().flat_map(|relation| {
            self.facts(relation).iter().map(move |pair| Triple { head: pair.key, relation, tail: pair.other })
        })
    }

    /// Bytes held by all indexes.
    pub fn bytes(&self) -> usize {
        self.adjacency.bytes()
            + 4 * (self.link_offsets.len() + self.by_head.offsets.len() + self.by_tail.offsets.len())
            + 8 * (self.links.len() + self.by_head.pairs.len() + self.by_tail.pairs.len() + self.distinct.len())
    }
}

/// Per entity, its edges sorted by (neighbour, label).
///
/// Walking all entities `v` in order and dropping each edge `v -l-> u` at `u` as `u -l⁻¹-> v` leaves every list sorted
/// by neighbour; only a pair linked by both directions of one relation comes out swapped, and is put right at once.
fn links(adjacency: &Adjacency, entities: usize) -> (Vec<u32>, Vec<Edge>) {
    let mut offsets = vec![0u32; entities + 1];
    for u in 0..entities {
        offsets[u + 1] = offsets[u] + adjacency.degree(EntityId(u as u32)) as u32;
    }
    let mut next = offsets.clone();
    let mut links = vec![Edge { neighbour: EntityId(0), label: Label(0) }; offsets[entities] as usize];
    for v in (0..entities as u32).map(EntityId) {
        for (label, neighbours) in adjacency.runs(v) {
            for &u in neighbours {
                let at = next[u.index()] as usize;
                links[at] = Edge { neighbour: v, label: label.reversed() };
                if at > offsets[u.index()] as usize && links[at - 1] > links[at] {
                    links.swap(at - 1, at);
                }
                next[u.index()] += 1;
            }
        }
    }
    (offsets, links)
}

/// What is known to be true in any split: the tails of (h, r) and the heads of (r, t).
///
/// Filtered ranking must not punish a model for ranking one fact above another, so it asks here.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    adjacency: Adjacency,
}

impl Filter {
    /// Indexes the union of `splits`.
    pub fn new(entities: usize, relations: usize, splits: &[&[Triple]]) -> Self {
        Self { adjacency: Adjacency::new(entities, &Facts::by_head(relations, splits)) }
    }

    /// Every `t` with `relation(head, t)` in some split, in id order.
    #[inline]
    pub fn tails(&self, head: EntityId, relation: RelationId) -> &[EntityId] {
        self.adjacency.neighbours(head, Label::forward(relation))
    }

    /// Every `h` with `relation(h, tail)` in some split, in id order.
    #[inline]
    pub fn heads(&self, relation: RelationId, tail: EntityId) -> &[EntityId] {
        self.adjacency.neighbours(tail, Label::inverse(relation))
    }

    /// Whether the triple stands in some split.
    pub fn contains(&self, triple: Triple) -> bool {
        self.tails(triple.head, triple.relation).binary_search(&triple.tail).is_ok()
    }
}
