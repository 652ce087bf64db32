//! Mining: every closed rule up to a given length that passes the thresholds, with exact counts.
//!
//! With at most two body atoms there are only three forms of body: one atom, two atoms over the same pair, and a path
//! over one inner variable. They are enumerated directly from the facts of each head relation:
//!
//! 1. [`support`]: labels at the two ends that could still reach the threshold (*dangling* support), then, for each
//!    head fact, the common neighbours of its two ends. Nothing is joined without a head fact, so hubs cost the smaller
//!    of two degrees, not their product.
//! 2. [`denominator`]: PCA body sizes, stopped as soon as a body is known to fail; exact sizes for those that pass.
//! 3. [`prune`]: thresholds, perfect rules, the skyline, shapes.
//!
//! [`long`] adds paths of three atoms, [`walks`] some of four and five, [`constants`] rules with constants. Heads are
//! independent, so they run in parallel, largest first. The result has a total order: the same bytes on any number of
//! threads.

mod bound;
mod config;
mod constants;
mod denominator;
mod long;
mod prune;
#[cfg(test)]
mod stops;
mod support;
pub(crate) mod walks;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use ruge_kg::{EntityId, Graph, Label, RelationId};

use crate::atom::{Atom, Term, Variable};
use crate::measure::{Counts, Side};
use crate::rule::{Confidence, Rule, SoftRule};
use bound::Memory;
use ruge_kg::control::{Control, Fuel, Work};

pub use config::{ConfigError, Long, MineConfig, RelationFilter, Shapes};
pub use walks::Walks;

/// A premise in the miner's form; the conclusion is h(x, y), or has an entity as one argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Body {
    /// One label from x to y.
    One(Label),
    /// Two labels from x to y, the smaller first.
    SamePair(Label, Label),
    /// x –first→ z –second→ y.
    Path(Label, Label),
    /// x –first→ z –second→ z1 –third→ y.
    Long(Label, Label, Label),
    /// More labels from x to y.
    Walk(walks::Walk),
    /// The head's argument reached by `to` is the entity `at`; the other variable has the label, possibly to an entity.
    Constant { to: Label, at: EntityId, label: Label, of: Option<EntityId> },
}

impl Body {
    fn atoms(self) -> usize {
        match self {
            Body::One(_) | Body::Constant { .. } => 1,
            Body::SamePair(..) | Body::Path(..) => 2,
            Body::Long(..) => 3,
            Body::Walk(walk) => walk.labels().len(),
        }
    }

    /// The body as a rule for `head`.
    fn rule(self, head: RelationId) -> Rule {
        let (x, y, z, z1) = (Variable::X, Variable::Y, Variable::Z, Variable(3));
        let step = |label: Label, from: Variable, to: Variable| {
            if label.is_inverse() {
                Atom::new(label.relation(), to, from)
            } else {
                Atom::new(label.relation(), from, to)
            }
        };
        let conclusion = Atom::new(head, x, y);
        match self {
            Body::One(label) => Rule::new(conclusion, vec![step(label, x, y)]),
            Body::SamePair(a, b) => Rule::new(conclusion, vec![step(a, x, y), step(b, x, y)]),
            Body::Path(a, b) => Rule::new(conclusion, vec![step(a, x, z), step(b, z, y)]),
            Body::Long(a, b, c) => Rule::new(conclusion, vec![step(a, x, z), step(b, z, z1), step(c, z1, y)]),
            Body::Walk(walk) => {
                let labels = walk.labels();
                let variable = |at: usize| match at {
                    0 => x,
                    at if at == labels.len() => y,
                    at => Variable(1 + at as u8),
                };
                let steps = labels.iter().enumerate().map(|(at, &label)| step(label, variable(at), variable(at + 1)));
                Rule::new(conclusion, steps.collect())
            }
            Body::Constant { to, at, label, of } => {
                // Following `to` from the variable leads to the entity.
                let free = if to.is_inverse() { y } else { x };
                let place = |label: Label, from: Variable, to: Term| {
                    if label.is_inverse() {
                        Atom::new(label.relation(), to, from)
                    } else {
                        Atom::new(label.relation(), from, to)
                    }
                };
                let other = of.map_or(Term::from(z), Term::from);
                Rule::new(place(to, free, at.into()), vec![place(label, free, other)])
            }
        }
    }
}

/// A rule with its counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MinedRule {
    /// The rule.
    pub rule: Rule,
    /// Its counts, exact except for paths of four and more atoms.
    pub counts: Counts,
}

impl MinedRule {
    /// The rule with its PCA confidence.
    pub fn soft(&self) -> SoftRule {
        let confidence = Confidence::new(self.counts.pca()).unwrap_or(Confidence::HARD);
        SoftRule { rule: self.rule.clone(), confidence }
    }
}

/// The result of mining.
#[derive(Clone, Debug, Default)]
pub struct Mined {
    /// The rules, sorted by head, length, PCA confidence, support and body.
    pub rules: Vec<MinedRule>,
    /// Heads that were searched completely.
    pub finished: Vec<RelationId>,
    /// Heads that were not, because the search was stopped.
    pub unfinished: Vec<RelationId>,
    /// The memory limit in bytes, if the search was stopped because it was exceeded.
    pub over_memory: Option<u64>,
    /// Common-neighbour probes made.
    pub probes: u64,
    /// Probes of an ideal search: over the facts of all heads, the smaller of the two degrees.
    pub ideal_probes: u64,
}

/// The search of one head relation, with the data shared by all its bodies.
pub(crate) struct Head<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) config: &'g MineConfig,
    pub(crate) relation: RelationId,
    /// Number of its facts (without reflexive ones if injective).
    pub(crate) size: u64,
    pub(crate) threshold: u64,
    pub(crate) side: Side,
    pub(crate) control: &'g Control<'g>,
    pub(crate) memory: &'g Memory,
}

impl<'g> Head<'g> {
    fn new(
        graph: &'g Graph,
        config: &'g MineConfig,
        relation: RelationId,
        (control, memory): (&'g Control<'g>, &'g Memory),
    ) -> Self {
        let facts = graph.facts(relation);
        let size = if config.injective {
            facts.iter().filter(|pair| pair.key != pair.other).count() as u64
        } else {
            facts.len() as u64
        };
        let functional = graph.distinct_heads(relation) >= graph.distinct_tails(relation);
        let side = if functional { Side::Subject } else { Side::Object };
        Self { graph, config, relation, size, threshold: config.threshold(size), side, control, memory }
    }

    /// Whether a body may use the label.
    pub(crate) fn allows(&self, label: Label) -> bool {
        self.config.bodies.allows(label.relation())
    }
}

/// Per-thread working memory, reused for all heads; nothing in it is cleared, only overwritten with a new stamp.
pub(crate) struct Scratch {
    /// Range of the marked entity's edges that lead to each marked entity.
    pub(crate) ranges: Vec<(u32, u32)>,
    /// A bit per entity, set where `ranges` is valid: small enough for the L1 cache.
    pub(crate) marks: Vec<u64>,
    /// Last stamp per entity.
    pub(crate) stamps: Vec<u32>,
    /// The same, for searches that mark two kinds of entity; allocated on first use.
    pub(crate) stamps2: Vec<u32>,
    pub(crate) stamp: u32,
    /// Whether each entity is a subject (bit 0) or an object (bit 1) of the current head.
    pub(crate) roles: Vec<u8>,
    /// Per entity: stamp, and two numbers cached by the current search.
    pub(crate) memo: Vec<(u32, u32, u32)>,
    /// Per entity a count and a sum, all 0 between uses, and the entities where they are not.
    pub(crate) shares: Vec<(u32, u64)>,
    pub(crate) touched: Vec<EntityId>,
    /// Work left until the next check of the control.
    pub(crate) fuel: Fuel,
}

impl Scratch {
    fn new(entities: usize) -> Self {
        Self {
            ranges: vec![(0, 0); entities],
            marks: vec![0; entities.div_ceil(64)],
            stamps: vec![0; entities],
            stamps2: Vec::new(),
            stamp: 0,
            roles: vec![0; entities],
            memo: vec![(0, 0, 0); entities],
            shares: vec![(0, 0); entities],
            touched: Vec::new(),
            fuel: Fuel::default(),
        }
    }

    /// A stamp that no entity has.
    pub(crate) fn next_stamp(&mut self) -> u32 {
        if self.stamp == u32::MAX {
            self.stamps.fill(0);
            self.stamps2.fill(0);
            self.memo.fill((0, 0, 0));
            self.stamp = 0;
        }
        self.stamp += 1;
        self.stamp
    }
}

/// Working memory for any number of threads.
pub(crate) struct Pool {
    entities: usize,
    free: Mutex<Vec<Scratch>>,
}

impl Pool {
    pub(crate) fn new(entities: usize) -> Self {
        Self { entities, free: Mutex::new(Vec::new()) }
    }

    /// Lends a scratch for the duration of `work`.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let taken = self.free.lock().expect("no holder of this lock panics").pop();
        let mut scratch = taken.unwrap_or_else(|| Scratch::new(self.entities));
        let result = work(&mut scratch);
        self.free.lock().expect("no holder of this lock panics").push(scratch);
        result
    }
}

/// Mines the graph. Use the training graph: nothing else is considered.
pub fn mine(graph: &Graph, config: &MineConfig, control: &Control<'_>) -> Mined {
    let memory = Memory::new(config.memory);
    let mut heads: Vec<Head<'_>> = graph
        .relations()
        .filter(|&relation| config.heads.allows(relation))
        .map(|relation| Head::new(graph, config, relation, (control, &memory)))
        .filter(|head| head.size >= config.min_head_size.max(1))
        .collect();
    // Largest first, so that the largest head does not run last on one thread.
    heads.sort_by_key(|head| (std::cmp::Reverse(head.size), head.relation));

    let total: u64 = heads.iter().map(|head| head.size).sum();
    let done = AtomicU64::new(0);
    let probes = AtomicU64::new(0);
    let pool = Pool::new(graph.entity_count());
    // Outer: whether they are wanted; inner: `None` if the search was stopped.
    let links = config.constants.then(|| constants::LinkRuns::new(graph, control));
    let for_long = config.for_long();
    let search = |head: &Head<'_>| -> Option<Vec<MinedRule>> {
        if head.stopped() {
            return None;
        }
        let links = match &links {
            Some(links) => Some(links.as_ref()?),
            None => None,
        };
        let mut found = mine_head(head, &for_long, &pool, links, &probes)?;
        // Rules are ordered by head first, so each head sorts its own.
        found.sort_unstable_by(order);
        let found = found.into_iter().map(|(body, counts)| MinedRule { rule: body.rule(head.relation), counts });
        let found = found.collect();
        let now = done.fetch_add(head.size, Ordering::Relaxed) + head.size;
        control.report(&Work { done: now, total });
        Some(found)
    };
    let found: Vec<Option<Vec<MinedRule>>> = heads.par_iter().with_max_len(1).map(search).collect();

    let mut mined = Mined { probes: probes.into_inner(), ..Mined::default() };
    let mut found: Vec<(RelationId, Option<Vec<MinedRule>>)> =
        heads.iter().map(|head| head.relation).zip(found).collect();
    found.sort_by_key(|(relation, _)| *relation);
    for (relation, found) in found {
        match found {
            Some(found) => {
                mined.finished.push(relation);
                mined.rules.extend(found);
            }
            None => mined.unfinished.push(relation),
        }
    }
    mined.over_memory = memory.is_over().then_some(config.memory);
    mined.ideal_probes = heads
        .par_iter()
        .map(|head| {
            let smaller = |pair: &ruge_kg::Pair| graph.degree(pair.key).min(graph.degree(pair.other)) as u64;
            graph.facts(head.relation).iter().map(smaller).sum::<u64>()
        })
        .sum();
    mined
}

/// The order of a head's rules: by length, PCA confidence, support and body.
fn order(a: &(Body, Counts), b: &(Body, Counts)) -> std::cmp::Ordering {
    a.0.atoms().cmp(&b.0.atoms()).then_with(|| descending(&a.1, &b.1)).then(a.0.cmp(&b.0))
}

/// Higher PCA first (compared as exact fractions), then higher support.
fn descending(a: &Counts, b: &Counts) -> std::cmp::Ordering {
    let left = u128::from(a.support) * u128::from(b.pca_body());
    let right = u128::from(b.support) * u128::from(a.pca_body());
    right.cmp(&left).then(b.support.cmp(&a.support))
}

/// All rules of one head; `None` if stopped.
fn mine_head(
    head: &Head<'_>,
    for_long: &MineConfig,
    pool: &Pool,
    links: Option<&constants::LinkRuns>,
    probes: &AtomicU64,
) -> Option<Vec<(Body, Counts)>> {
    let supported = support::count(head, pool, probes)?;
    let mut rules = prune::select(head, &supported, pool)?;
    supported.release(head);
    if head.config.max_body >= 3 {
        let head = Head::new(head.graph, for_long, head.relation, (head.control, head.memory));
        rules.extend(long::mine(&head, pool)?);
    }
    if let Some(walks) = head.config.walks.filter(|_| head.config.max_body >= 3) {
        rules.extend(walks::mine(head, &walks, pool)?);
    }
    if let Some(links) = links {
        rules.extend(constants::mine(head, links)?);
    }
    Some(rules)
}
