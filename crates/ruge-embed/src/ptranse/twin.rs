//! The plain twin of PTransE: paths by brute force over all sequences; losses and ranks in `f64`, by definition.

use std::collections::{BTreeMap, BTreeSet};

use ruge_kg::{EntityId, Filter, RankQuery, Side, Triple};

use super::PTransEConfig;
use super::train::{Corruption, PTransE};
use crate::{Embeddings, Table};

pub(super) const ENTITIES: usize = 11;
pub(super) const RELATIONS: usize = 3;

/// A path as rows of the relation table.
pub(super) type Path = Vec<usize>;

pub(super) struct Twin {
    pub(super) edges: BTreeSet<(usize, usize, usize)>,
    pub(super) config: PTransEConfig,
    pub(super) confidence: BTreeMap<(Path, usize), f64>,
    pub(super) three: BTreeSet<Path>,
}

impl Twin {
    pub(super) fn new(triples: &[Triple], config: PTransEConfig) -> Self {
        let edges = triples
            .iter()
            .flat_map(|x| {
                let (h, r, t) = (x.head.index(), x.relation.index(), x.tail.index());
                [(h, r, t), (t, r + RELATIONS, h)]
            })
            .collect();
        let mut twin = Self { edges, config, confidence: BTreeMap::new(), three: BTreeSet::new() };
        for path in Self::all_paths(config.path_length.min(2)) {
            twin.count(&path, 0.0);
        }
        if config.path_length == 3 {
            let cut_off = config.confidence_cut_off;
            let prefixes: BTreeSet<Path> = twin
                .confidence
                .iter()
                .filter(|&((path, _), &confidence)| path.len() == 2 && confidence > cut_off)
                .map(|((path, _), _)| path.clone())
                .collect();
            for prefix in prefixes {
                for last in 0..2 * RELATIONS {
                    let path = [&prefix[..], &[last]].concat();
                    if twin.count(&path, cut_off) {
                        twin.three.insert(path);
                    }
                }
            }
        }
        twin
    }

    fn all_paths(steps: usize) -> Vec<Path> {
        let mut all: Vec<Path> = (0..2 * RELATIONS).map(|row| vec![row]).collect();
        if steps == 2 {
            all.extend((0..2 * RELATIONS).flat_map(|a| (0..2 * RELATIONS).map(move |b| vec![a, b])));
        }
        all
    }

    fn paths(&self) -> Vec<Path> {
        let mut all = Self::all_paths(self.config.path_length.min(2));
        all.extend(self.three.iter().cloned());
        all
    }

    fn successors(&self, from: usize, row: usize) -> Vec<usize> {
        (0..ENTITIES).filter(|&to| self.edges.contains(&(from, row, to))).collect()
    }

    /// Records P(r|p) above the cut-off; returns whether there is one.
    fn count(&mut self, path: &Path, cut_off: f64) -> bool {
        let (mut instances, mut linked) = (0u64, [0u64; RELATIONS]);
        for head in 0..ENTITIES {
            let mut ends = vec![head];
            for &row in path {
                ends = ends.into_iter().flat_map(|at| self.successors(at, row)).collect();
            }
            for end in ends {
                instances += 1;
                (0..RELATIONS).filter(|&r| self.edges.contains(&(head, r, end))).for_each(|r| linked[r] += 1);
            }
        }
        let mut found = false;
        for (relation, &count) in linked.iter().enumerate().filter(|x| *x.1 > 0) {
            let confidence = count as f64 / instances as f64;
            if confidence > cut_off {
                self.confidence.insert((path.clone(), relation), confidence);
                found = true;
            }
        }
        found
    }

    /// R(p|h,t), not normalised.
    fn resource(&self, path: &[usize], head: usize, tail: usize) -> f64 {
        let Some((&row, rest)) = path.split_first() else { return if head == tail { 1.0 } else { 0.0 } };
        let next = self.successors(head, row);
        next.iter().map(|&at| self.resource(rest, at, tail) / next.len() as f64).sum()
    }

    pub(super) fn features(&self, head: usize, tail: usize) -> BTreeMap<Path, f64> {
        let all: Vec<(Path, f64)> = self
            .paths()
            .into_iter()
            .map(|path| (path.clone(), self.resource(&path, head, tail)))
            .filter(|x| x.1 > 0.0)
            .collect();
        let total: f64 = all.iter().map(|x| x.1).sum();
        all.into_iter().map(|(path, x)| (path, x / total)).filter(|x| x.1 > self.config.drop).collect()
    }
}

#[derive(Clone)]
pub(super) struct Rows {
    pub(super) entities: Vec<Vec<f64>>,
    pub(super) relations: Vec<Vec<f64>>,
}

impl Rows {
    pub(super) fn of(embeddings: &Embeddings) -> Self {
        let rows =
            |table: &Table| (0..table.rows()).map(|i| table.row(i).iter().map(|&x| f64::from(x)).collect()).collect();
        Self { entities: rows(&embeddings.entities), relations: rows(&embeddings.relations) }
    }

    fn energy(&self, head: usize, row: usize, tail: usize) -> f64 {
        let (h, r, t) = (&self.entities[head], &self.relations[row], &self.entities[tail]);
        (0..h.len()).map(|k| (h[k] + r[k] - t[k]).abs()).sum()
    }

    fn path_energy(&self, path: &Path, row: usize) -> f64 {
        let r = &self.relations[row];
        (0..r.len()).map(|k| (r[k] - path.iter().map(|&step| self.relations[step][k]).sum::<f64>()).abs()).sum()
    }

    pub(super) fn loss(&self, twin: &Twin, model: &PTransE, epoch: u64, first: usize, size: usize) -> f64 {
        let doubled = model.paths().doubled();
        let margin = f64::from(twin.config.margin);
        let mut loss = 0.0;
        for position in first..first + size {
            let sample = model.sample(epoch, position);
            let (head, label, tail) = model.paths().triple(sample.link);
            let (h, r, t) = (head.index(), doubled.row(label), tail.index());
            assert!(twin.edges.contains(&(h, r, t)));
            if let Some(corruption) = sample.corruption {
                let (ch, cr, ct) = match corruption {
                    Corruption::Head(other) => (other.index(), r, t),
                    Corruption::Tail(other) => (h, r, other.index()),
                    Corruption::Relation(other) => (h, doubled.row(other), t),
                };
                assert!(!twin.edges.contains(&(ch, cr, ct)));
                loss += (margin + self.energy(h, r, t) - self.energy(ch, cr, ct)).max(0.0);
            }
            if let Some(other) = sample.path_relation {
                let other = doubled.row(other);
                assert!(!twin.edges.contains(&(h, other, t)));
                for (path, share) in twin.features(h, t) {
                    let hinge = 2.0 * margin + self.path_energy(&path, r) - self.path_energy(&path, other);
                    let known = twin.confidence.get(&(path, r)).copied().unwrap_or(0.0);
                    loss += share * (0.99 * known + 0.01) * hinge.max(0.0);
                }
            }
        }
        loss
    }
}

/// Bounds on a rank: scores closer than rounding may be in either order.
pub(super) fn twin_bounds(twin: &Twin, rows: &Rows, query: &RankQuery, filter: Option<&Filter>) -> (f64, f64) {
    let Triple { head, relation, tail } = query.triple;
    let r = relation.index();
    let pair = |entity: usize| match query.side {
        Side::Head => (entity, tail.index()),
        Side::Tail => (head.index(), entity),
    };
    let first: Vec<f64> = (0..ENTITIES)
        .map(|entity| {
            let (h, t) = pair(entity);
            -rows.energy(h, r, t) - rows.energy(t, r + RELATIONS, h)
        })
        .collect();
    let mut sorted = first.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let size = twin.config.rerank.min(ENTITIES);
    let in_block = |entity: usize| size > 0 && first[entity] >= sorted[size - 1];
    let score = |entity: usize| {
        if !in_block(entity) {
            return first[entity] - 1e6;
        }
        let (h, t) = pair(entity);
        let term = |(path, share): (Path, f64)| {
            let known = twin.confidence.get(&(path.clone(), r)).copied().unwrap_or(0.0);
            known * share * (10.0 - rows.path_energy(&path, r))
        };
        first[entity] + twin.features(h, t).into_iter().map(term).sum::<f64>()
    };
    let answer = query.answer();
    let own = score(answer.index());
    let (mut low, mut high) = (1.0, 1.0);
    for entity in (0..ENTITIES).filter(|&entity| entity != answer.index()) {
        let other = EntityId(entity as u32);
        let (h, t) = if query.side == Side::Head { (other, tail) } else { (head, other) };
        if filter.is_some_and(|filter| filter.contains(Triple { head: h, relation, tail: t })) {
            continue;
        }
        let difference = score(entity) - own;
        if difference > 1e-4 {
            low += 1.0;
        }
        if difference > -1e-4 {
            high += 1.0;
        }
    }
    (low, high)
}
