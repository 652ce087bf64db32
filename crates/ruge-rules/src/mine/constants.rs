//! Rules with constants: `h(x,c) ⇐ r(x,d)`, `h(x,c) ⇐ r(x,z)` and their mirror images.
//!
//! All counts are over distinct values of the free variable x. The entities with an edge r to d are a *run* of the
//! graph's adjacency, seen from d. So each edge at x is numbered by the run that x belongs to through it, and one head
//! `h(·,c)` costs one increment per edge of its members: the sum of their degrees, without any lookup.

use std::sync::Mutex;

use ruge_kg::{EntityId, Graph, Label};
use rustc_hash::FxHashMap;

use super::bound::RULE_BYTES;
use super::{Body, Head};
use crate::measure::{Counts, Side};
use ruge_kg::control::{Control, Fuel, Pulse};

/// Precomputed data of the graph for the search over entities.
pub(crate) struct LinkRuns {
    /// For every edge, in the order of all edges: the run from its far end back to its near end.
    back: Vec<u32>,
    owner: Vec<EntityId>,
    free: Mutex<Vec<Votes>>,
}

/// Per-thread counters, all zero between heads.
struct Votes {
    by_run: Vec<u32>,
    by_label: Vec<u32>,
    /// Per run: 1 + members that have the head's label; 0 if not counted yet.
    known: Vec<u32>,
}

impl LinkRuns {
    /// Numbers all runs; `None` if stopped.
    pub(crate) fn new(graph: &Graph, control: &Control<'_>) -> Option<Self> {
        let mut pulse = Pulse::new(control);
        let adjacency = graph.adjacency();
        let runs = adjacency.run_count();
        let mut owner = vec![EntityId(0); runs];
        let mut next: Vec<usize> = (0..runs).map(|run| adjacency.run_places(run).1.start).collect();
        let mut back = vec![0; 2 * graph.len()];
        for entity in graph.entities() {
            for run in adjacency.runs_of(entity) {
                owner[run] = entity;
                let label = adjacency.run_places(run).0.reversed();
                let members = adjacency.run_members(run);
                if !pulse.beats(8 * members.len()) {
                    return None;
                }
                for &member in members {
                    // Entities are visited in id order, and so are the ends of each of the member's runs.
                    if let Some(theirs) = adjacency.run_number(member, label) {
                        back[next[theirs]] = run as u32;
                        next[theirs] += 1;
                    }
                }
            }
        }
        Some(Self { back, owner, free: Mutex::new(Vec::new()) })
    }

    /// Lends counters. Stopped work leaves them dirty, so they are not reused.
    fn with<T>(&self, graph: &Graph, work: impl FnOnce(&mut Votes) -> Option<T>) -> Option<T> {
        let taken = self.free.lock().expect("no holder of this lock panics").pop();
        let runs = self.owner.len();
        let mut votes = taken.unwrap_or_else(|| Votes {
            by_run: vec![0; runs],
            by_label: vec![0; 2 * graph.relation_count()],
            known: vec![0; runs],
        });
        let result = work(&mut votes)?;
        self.free.lock().expect("no holder of this lock panics").push(votes);
        Some(result)
    }
}

/// All rules with an entity in either argument of `head`; `None` if stopped.
pub(crate) fn mine(head: &Head<'_>, links: &LinkRuns) -> Option<Vec<(Body, Counts)>> {
    links.with(head.graph, |votes| {
        let mut rules = Vec::new();
        for to in [Label::forward(head.relation), Label::inverse(head.relation)] {
            let mut search = Search {
                head,
                links,
                votes,
                to,
                played: vec![false; head.graph.entity_count()],
                known: Vec::new(),
                label_known: FxHashMap::default(),
                fuel: Fuel::default(),
            };
            for pair in head.graph.pairs(to) {
                search.played[pair.key.index()] = true;
            }
            // Seen from c, the facts `to(·, c)` are one run.
            for facts in head.graph.pairs(to.reversed()).chunk_by(|a, b| a.key == b.key) {
                let before = rules.len();
                search.entity(facts[0].key, &mut rules)?;
                if rules.len() > before {
                    head.hold(rules.len() - before, RULE_BYTES)?;
                }
            }
            search.forget();
        }
        Some(rules)
    })
}

/// The search for one argument of one head.
struct Search<'a, 'g> {
    head: &'a Head<'g>,
    links: &'a LinkRuns,
    votes: &'a mut Votes,
    /// The label from x to the entity in the head.
    to: Label,
    /// Whether an entity has an edge with that label.
    played: Vec<bool>,
    /// Runs whose `known` is set.
    known: Vec<u32>,
    /// Sizes per label that do not depend on the entity in the head.
    label_known: FxHashMap<Label, (u64, u64)>,
    fuel: Fuel,
}

impl Search<'_, '_> {
    /// Rules that conclude `to(x, at)`; `None` if stopped.
    fn entity(&mut self, at: EntityId, rules: &mut Vec<(Body, Counts)>) -> Option<()> {
        let graph = self.head.graph;
        let config = self.head.config;
        let adjacency = graph.adjacency();
        let members = graph.neighbours(at, self.to.reversed());
        self.head.spend(&mut self.fuel, members.len())?;
        let bindable = |x: &&EntityId| !(config.injective && **x == at);
        let size = members.iter().filter(bindable).count() as u64;
        let covered = (config.min_head_coverage * size as f64).ceil() as u64;
        let threshold = covered.max(config.min_constant_support).max(config.min_support).max(1);
        if size < threshold {
            return Some(());
        }
        let mut runs: Vec<usize> = Vec::new();
        let mut labels: Vec<Label> = Vec::new();
        for &x in members.iter().filter(bindable) {
            self.head.spend(&mut self.fuel, 2 * graph.degree(x))?;
            for run in adjacency.runs_of(x) {
                let (label, places) = adjacency.run_places(run);
                let mut any = false;
                for place in places {
                    let back = self.links.back[place] as usize;
                    if config.injective && [x, at].contains(&self.links.owner[back]) {
                        continue;
                    }
                    any = true;
                    self.votes.by_run[back] += 1;
                    if u64::from(self.votes.by_run[back]) == threshold {
                        runs.push(back);
                    }
                }
                if any {
                    self.votes.by_label[label.index()] += 1;
                    if u64::from(self.votes.by_label[label.index()]) == threshold {
                        labels.push(label);
                    }
                }
            }
        }
        runs.sort_unstable();
        labels.sort_unstable();
        for run in runs {
            let label = adjacency.run_places(run).0.reversed();
            let of = self.links.owner[run];
            // The head itself is not a premise.
            if self.head.allows(label) && (label, of) != (self.to, at) {
                let support = u64::from(self.votes.by_run[run]);
                let (body, known) = self.run_sizes(run, of, at)?;
                self.judge(
                    Body::Constant { to: self.to, at, label, of: Some(of) },
                    [support, body, known, size],
                    rules,
                );
            }
        }
        for label in labels.into_iter().filter(|&label| self.head.allows(label)) {
            let support = u64::from(self.votes.by_label[label.index()]);
            let (body, known) = self.label_sizes(label, at)?;
            self.judge(Body::Constant { to: self.to, at, label, of: None }, [support, body, known, size], rules);
        }
        for &x in members {
            for run in adjacency.runs_of(x) {
                let (label, places) = adjacency.run_places(run);
                self.votes.by_label[label.index()] = 0;
                self.links.back[places].iter().for_each(|&back| self.votes.by_run[back as usize] = 0);
            }
        }
        Some(())
    }

    /// Members of the run of `of`, and how many of them have a fact of the head.
    fn run_sizes(&mut self, run: usize, of: EntityId, at: EntityId) -> Option<(u64, u64)> {
        let members = self.head.graph.adjacency().run_members(run);
        if self.votes.known[run] == 0 {
            // The same for every entity in the head, so counted once.
            self.head.spend(&mut self.fuel, members.len())?;
            let known = members.iter().filter(|x| self.played[x.index()]).count() as u32;
            self.votes.known[run] = known + 1;
            self.known.push(run as u32);
        }
        let (mut body, mut known) = (members.len() as u64, u64::from(self.votes.known[run] - 1));
        if self.head.config.injective {
            for x in [of, at].into_iter().filter(|x| members.binary_search(x).is_ok()) {
                body -= 1;
                known -= u64::from(self.played[x.index()]);
            }
        }
        Some((body, known))
    }

    /// Entities with the label, and how many of them have a fact of the head.
    fn label_sizes(&mut self, label: Label, at: EntityId) -> Option<(u64, u64)> {
        let injective = self.head.config.injective;
        if let Some(&sizes) = self.label_known.get(&label) {
            return Some(sizes);
        }
        let (mut body, mut known) = (0, 0);
        self.head.spend(&mut self.fuel, self.head.graph.pairs(label).len())?;
        for group in self.head.graph.pairs(label).chunk_by(|a, b| a.key == b.key) {
            let x = group[0].key;
            if injective && (x == at || group.iter().all(|pair| pair.other == x || pair.other == at)) {
                continue;
            }
            body += 1;
            known += u64::from(self.played[x.index()]);
        }
        if !injective {
            self.label_known.insert(label, (body, known));
        }
        Some((body, known))
    }

    fn judge(&self, body: Body, [support, size, known, head]: [u64; 4], rules: &mut Vec<(Body, Counts)>) {
        let side = if self.to.is_inverse() { Side::Object } else { Side::Subject };
        // The entity occurs in the head, so on its side every value counts.
        let (pca_subject, pca_object) = if side == Side::Subject { (known, size) } else { (size, known) };
        let counts = Counts { support, body: size, pca_subject, pca_object, head, side };
        if counts.pca() >= self.head.config.min_pca && counts.standard() >= self.head.config.min_std {
            rules.push((body, counts));
        }
    }

    fn forget(&mut self) {
        for run in self.known.drain(..) {
            self.votes.known[run as usize] = 0;
        }
    }
}
