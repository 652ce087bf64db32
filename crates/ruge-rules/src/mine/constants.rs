//! Rules that name an entity: `h(x,c) ⇐ r(x,d)`, `h(x,c) ⇐ r(x,z)` and their mirror images.
//!
//! All counts are over distinct values of the one free variable x. The facts `h(·,c)` are a run of the graph's adjacency,
//! and so are the entities with an edge to d: two sets of entities, of which only the overlap must be counted. For each
//! fact `h(x,c)` every edge at x votes for its own run, so one head costs the sum of the degrees around it.

use ruge_kg::{Adjacency, EntityId, Graph, Label};
use rustc_hash::FxHashMap;

use super::{Body, Head};
use crate::measure::{Counts, Side};

/// For every (label, entity) the number of entities that have that edge; for every label the number of entities that
/// have it at all.
pub(crate) struct LinkRuns {
    /// Entities with at least one edge of the label.
    with_label: Vec<u64>,
}

impl LinkRuns {
    pub(crate) fn new(graph: &Graph) -> Self {
        let keys = |label: Label| {
            let relation = label.relation();
            if label.is_inverse() { graph.distinct_tails(relation) } else { graph.distinct_heads(relation) }
        };
        Self { with_label: (0..2 * graph.relation_count() as u32).map(|l| keys(Label(l)) as u64).collect() }
    }
}

/// What is counted about one possible premise of one head `h(·,c)`.
#[derive(Clone, Copy, Default)]
struct Vote {
    support: u64,
}

/// All rules with an entity in the head place of `head`, both places in turn; `None` when told to stop.
pub(crate) fn mine(head: &Head<'_>, links: &LinkRuns) -> Option<Vec<(Body, Counts)>> {
    let mut rules = Vec::new();
    for to in [Label::forward(head.relation), Label::inverse(head.relation)] {
        // `pairs` of the reversed label: key = the entity c, others = the values of the free variable.
        for facts in head.graph.pairs(to.reversed()).chunk_by(|a, b| a.key == b.key) {
            if head.watch.stopped() {
                return None;
            }
            mine_entity(head, links, to, facts[0].key, &mut rules);
        }
    }
    Some(rules)
}

/// Rules that conclude `to(x, at)`.
fn mine_entity(head: &Head<'_>, links: &LinkRuns, to: Label, at: EntityId, rules: &mut Vec<(Body, Counts)>) {
    let graph = head.graph;
    let injective = head.config.injective;
    let members = graph.neighbours(at, to.reversed());
    let size = members.iter().filter(|&&x| !(injective && x == at)).count() as u64;
    let covered = (head.config.min_head_coverage * size as f64).ceil() as u64;
    let threshold = covered.max(head.config.min_constant_support).max(head.config.min_support);
    if size < threshold {
        return;
    }
    let side = if to.is_inverse() { Side::Object } else { Side::Subject };
    let mut by_edge: FxHashMap<(Label, EntityId), Vote> = FxHashMap::default();
    let mut by_label: FxHashMap<Label, Vote> = FxHashMap::default();
    for &x in members.iter().filter(|&&x| !(injective && x == at)) {
        for (label, ends) in graph.adjacency().runs(x).filter(|(label, _)| head.allows(*label)) {
            let mut any = false;
            for &end in ends.iter().filter(|&&end| !(injective && (end == x || end == at))) {
                any = true;
                // An edge that too few entities share cannot reach the threshold, and the head itself is no premise.
                if graph.neighbours(end, label.reversed()).len() as u64 >= threshold && (label, end) != (to, at) {
                    by_edge.entry((label, end)).or_default().support += 1;
                }
            }
            if any {
                by_label.entry(label).or_default().support += 1;
            }
        }
    }
    let plays = |x: EntityId| has(graph.adjacency(), x, to);
    let mut judge = |label: Label, of: Option<EntityId>, support: u64, body: u64, known: u64| {
        let (pca_subject, pca_object) = if side == Side::Subject { (known, body) } else { (body, known) };
        let counts = Counts { support, body, pca_subject, pca_object, head: size, side };
        if counts.pca() >= head.config.min_pca && counts.standard() >= head.config.min_std {
            rules.push((Body::Constant { to, at, label, of }, counts));
        }
    };
    for ((label, end), vote) in by_edge.into_iter().filter(|(_, vote)| vote.support >= threshold) {
        let counted = |x: &EntityId| !(injective && (*x == end || *x == at));
        let (mut body, mut known) = (0, 0);
        for &x in graph.neighbours(end, label.reversed()).iter().filter(|x| counted(x)) {
            body += 1;
            known += u64::from(plays(x));
        }
        judge(label, Some(end), vote.support, body, known);
    }
    for (label, vote) in by_label.into_iter().filter(|(_, vote)| vote.support >= threshold) {
        // Passing needs support/known ≥ the least PCA, and known is at most the entities with the label.
        let (mut body, mut known) = (0, 0);
        if injective {
            for group in graph.pairs(label).chunk_by(|a, b| a.key == b.key) {
                let x = group[0].key;
                if x != at && group.iter().any(|pair| pair.other != x && pair.other != at) {
                    body += 1;
                    known += u64::from(plays(x));
                }
            }
        } else {
            body = links.with_label[label.index()];
            let limit = head.config.largest_body(vote.support);
            for group in graph.pairs(label).chunk_by(|a, b| a.key == b.key) {
                known += u64::from(plays(group[0].key));
                if known > limit {
                    break;
                }
            }
        }
        judge(label, None, vote.support, body, known);
    }
}

/// Whether the entity has an edge of the label.
fn has(adjacency: &Adjacency, entity: EntityId, label: Label) -> bool {
    adjacency.labels(entity).binary_search(&label).is_ok()
}
