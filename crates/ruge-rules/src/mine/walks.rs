//! Paths of four and five atoms, for sparse graphs, where three atoms do not lead far.
//!
//! There are too many to count them all. Candidates are the paths that join the two ends of some of the head's facts,
//! found from both ends towards the middle. Each is then counted from a limited number of its starts. So, unlike all
//! other mining, this finds only the rules that a sample shows, and counts are over a sample if a path has very many
//! starts. Samples are evenly spaced, so the result is the same in every run.
//!
//! All entities of a path differ, whatever the configuration: a long path that may turn back equals a shorter one.

use rayon::prelude::*;
use ruge_kg::{EntityId, Graph, Label};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::bound::RULE_BYTES;
use super::{Body, Head, Pool, Scratch};
use crate::measure::Counts;
use ruge_kg::control::Fuel;

/// Maximum atoms of a path.
pub const LONGEST: usize = 5;
/// Inner entities with more edges are not passed through when finding candidates: paths through them conclude anything.
const HUB: usize = 300;
/// Maximum half paths per end of a fact.
const HALVES: usize = 100_000;
/// Maximum steps from one start; a path that branches more is dropped.
const STEPS: usize = 50_000;

/// Sample sizes and thresholds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Walks {
    /// Maximum atoms: 4 or 5.
    pub longest: usize,
    /// Facts of a head that are searched for candidates.
    pub facts: usize,
    /// Starts from which a candidate is counted.
    pub starts: usize,
    /// Maximum candidates of a head, most frequent first.
    pub most: usize,
    /// Minimum support among the starts.
    pub min_support: u64,
    /// Minimum standard confidence.
    pub min_confidence: f64,
}

/// Labels from x to y.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Walk {
    labels: [Label; LONGEST],
    len: u8,
}

impl Walk {
    /// The labels.
    pub fn labels(&self) -> &[Label] {
        &self.labels[..self.len as usize]
    }
}

/// Bytes per path found, hashed.
const WALK: usize = 36;

/// Finds paths of four and more atoms that pass; `None` if stopped.
pub(crate) fn mine(head: &Head<'_>, walks: &Walks, pool: &Pool) -> Option<Vec<(Body, Counts)>> {
    let facts: Vec<(EntityId, EntityId)> =
        head.graph.facts(head.relation).iter().map(|pair| (pair.key, pair.other)).filter(|(x, y)| x != y).collect();
    let wanted = facts.len().min(walks.facts);
    let taken: Vec<(EntityId, EntityId)> = (0..wanted).map(|at| facts[at * facts.len() / wanted]).collect();
    let parts: Vec<Option<FxHashMap<Walk, u32>>> = taken
        .par_chunks(32)
        .map(|part| {
            let (mut found, mut own) = (FxHashMap::default(), FxHashSet::default());
            let (mut fuel, mut held) = (Fuel::default(), 0);
            for &(x, y) in part {
                own.clear();
                join(head, walks.longest, x, y, &mut own, &mut fuel)?;
                for &walk in &own {
                    *found.entry(walk).or_insert(0u32) += 1;
                }
                if found.capacity() > held {
                    head.hold(found.capacity() - held, WALK)?;
                    held = found.capacity();
                }
            }
            Some(found)
        })
        .collect();
    let mut all: FxHashMap<Walk, u32> = FxHashMap::default();
    let (mut fuel, mut held) = (Fuel::default(), 0);
    for part in parts {
        let part = part?;
        held += part.capacity();
        for (walk, count) in part {
            head.spend(&mut fuel, 16)?;
            *all.entry(walk).or_insert(0) += count;
        }
    }
    head.release(held, WALK);
    let least = (walks.min_support * wanted as u64).div_ceil(facts.len().max(1) as u64).max(2);
    let mut candidates: Vec<(Walk, u32)> = all.into_iter().filter(|(_, count)| u64::from(*count) >= least).collect();
    candidates.sort_unstable_by_key(|&(walk, count)| (std::cmp::Reverse(count), walk));
    candidates.truncate(walks.most);
    let judged: Vec<Option<Option<Counts>>> = candidates
        .par_iter()
        .map(|(walk, _)| pool.with(|scratch| count(head, walks, walk.labels(), scratch)))
        .collect();
    let mut rules = Vec::new();
    for ((walk, _), counts) in candidates.into_iter().zip(judged) {
        if let Some(counts) = counts? {
            rules.push((Body::Walk(walk), counts));
        }
    }
    head.hold(rules.len(), RULE_BYTES)?;
    Some(rules)
}

/// Half a path: its end, its labels as walked, and the entities on it.
type Half = (EntityId, [Label; 3], [EntityId; 3]);

/// All half paths of this many steps from one end that avoid the other; `None` if stopped.
fn halves(head: &Head<'_>, from: EntityId, other: EntityId, steps: usize, fuel: &mut Fuel) -> Option<Vec<Half>> {
    let graph = head.graph;
    let mut now: Vec<Half> = vec![(from, [Label(u32::MAX); 3], [from; 3])];
    for step in 0..steps {
        let mut next = Vec::new();
        for &(at, labels, passed) in &now {
            if step > 0 && graph.degree(at) > HUB {
                continue;
            }
            head.spend(fuel, 4 * graph.degree(at))?;
            for edge in graph.links(at) {
                let to = edge.neighbour;
                if to == from || to == other || passed[..step].contains(&to) || !head.allows(edge.label) {
                    continue;
                }
                let (mut labels, mut passed) = (labels, passed);
                labels[step] = edge.label;
                passed[step] = to;
                next.push((to, labels, passed));
            }
            if next.len() > HALVES {
                break;
            }
        }
        next.truncate(HALVES);
        now = next;
    }
    Some(now)
}

/// The paths of four and more atoms between two entities; `None` if stopped.
fn join(
    head: &Head<'_>,
    longest: usize,
    x: EntityId,
    y: EntityId,
    found: &mut FxHashSet<Walk>,
    fuel: &mut Fuel,
) -> Option<()> {
    let mut ends = halves(head, y, x, 2, fuel)?;
    ends.sort_unstable();
    for steps in 2..longest.saturating_sub(1) {
        for (middle, labels, passed) in halves(head, x, y, steps, fuel)? {
            let from = ends.partition_point(|end| end.0 < middle);
            for end in ends[from..].iter().take_while(|end| end.0 == middle) {
                head.spend(fuel, 8)?;
                // The middle is in both halves; no other entity may be.
                if passed[..steps].contains(&end.2[0]) {
                    continue;
                }
                let mut walk = Walk { labels: [Label(u32::MAX); LONGEST], len: steps as u8 + 2 };
                walk.labels[..steps].copy_from_slice(&labels[..steps]);
                walk.labels[steps] = end.1[1].reversed();
                walk.labels[steps + 1] = end.1[0].reversed();
                found.insert(walk);
            }
        }
    }
    Some(())
}

/// Visits the ends of all paths from `trail[0]` without repeated entities, possibly repeatedly; false once the steps
/// are used up.
pub(crate) fn follow(
    graph: &Graph,
    labels: &[Label],
    trail: &mut Vec<EntityId>,
    steps: &mut usize,
    visit: &mut impl FnMut(EntityId),
) -> bool {
    let (Some((&label, rest)), Some(&at)) = (labels.split_first(), trail.last()) else { return true };
    for &to in graph.neighbours(at, label) {
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        if trail.contains(&to) {
            continue;
        }
        if rest.is_empty() {
            visit(to);
        } else {
            trail.push(to);
            let goes_on = follow(graph, rest, trail, steps, visit);
            trail.pop();
            if !goes_on {
                return false;
            }
        }
    }
    true
}

/// Counts a path from some of its starts; inner `None` if it fails, outer `None` if stopped.
fn count(head: &Head<'_>, walks: &Walks, labels: &[Label], scratch: &mut Scratch) -> Option<Option<Counts>> {
    let graph = head.graph;
    head.spend(&mut scratch.fuel, graph.pairs(labels[0]).len())?;
    let forward = Label::forward(head.relation);
    let starts: Vec<EntityId> =
        graph.pairs(labels[0]).chunk_by(|a, b| a.key == b.key).map(|group| group[0].key).collect();
    let wanted = starts.len().min(walks.starts);
    let mut counts = Counts { support: 0, body: 0, pca_subject: 0, pca_object: 0, head: head.size, side: head.side };
    let (mut trail, mut ends) = (Vec::new(), Vec::new());
    for at in 0..wanted {
        let x = starts[at * starts.len() / wanted];
        let stamp = scratch.next_stamp();
        let stamps = &mut scratch.stamps;
        ends.clear();
        trail.clear();
        trail.push(x);
        let mut steps = STEPS;
        let whole = follow(graph, labels, &mut trail, &mut steps, &mut |end| {
            if std::mem::replace(&mut stamps[end.index()], stamp) != stamp {
                ends.push(end);
            }
        });
        head.spend(&mut scratch.fuel, 2 * (STEPS - steps))?;
        if !whole {
            return Some(None);
        }
        let facts = graph.neighbours(x, forward);
        for end in &ends {
            counts.body += 1;
            counts.support += u64::from(facts.binary_search(end).is_ok());
            counts.pca_subject += u64::from(!facts.is_empty());
            counts.pca_object += u64::from(!graph.neighbours(*end, forward.reversed()).is_empty());
        }
        // A tenth of the starts is enough if nothing points to a rule.
        let hopeless =
            10 * at > wanted && ((counts.support + 2) as f64) < 0.3 * walks.min_confidence * counts.body as f64;
        if hopeless {
            return Some(None);
        }
    }
    let passes = counts.support >= walks.min_support && counts.standard() >= walks.min_confidence;
    Some(passes.then_some(counts))
}

#[cfg(test)]
mod tests {
    use ruge_kg::{RelationId, Triple};

    use super::*;
    use crate::measure::Side;
    use crate::mine::MineConfig;
    use crate::rank::index::{Asker, RuleIndex};
    use ruge_kg::Control;

    const WALKS: Walks =
        Walks { longest: 5, facts: 1000, starts: 1000, most: 1000, min_support: 3, min_confidence: 0.5 };

    /// Chains of five nodes a –0→ b –1→ c –0→ d –1→ e, whose ends relation 2 joins; every tenth lacks that fact.
    fn chains() -> Graph {
        let mut facts = Vec::new();
        for chain in 0..40u32 {
            let node = |at: u32| 5 * chain + at;
            facts.extend((0..4).map(|at| Triple::new(node(at), at % 2, node(at + 1))));
            if chain % 10 != 0 {
                facts.push(Triple::new(node(0), 2, node(4)));
            }
        }
        Graph::new(200, 3, &facts)
    }

    fn mined(graph: &Graph) -> Vec<crate::mine::MinedRule> {
        let config = MineConfig { walks: Some(WALKS), ..MineConfig::ranking(100, 1000, 3) };
        let mut rules = crate::mine::mine(graph, &config, &Control::default()).rules;
        rules.retain(|rule| rule.rule.premise.len() >= 4 && rule.rule.head() == RelationId(2));
        rules
    }

    #[test]
    fn a_path_of_four_atoms_is_found_and_counted() {
        let graph = chains();
        let rules = mined(&graph);
        assert_eq!(rules.len(), 1, "{rules:?}");
        let counts = rules[0].counts;
        assert_eq!((counts.support, counts.body, counts.head), (36, 40, 36));
        assert_eq!((counts.pca_subject, counts.pca_object), (36, 36));
        // The chain without its fact is concluded, from either end.
        let index = RuleIndex::new(&graph, rules.iter().map(|rule| &rule.rule));
        for (side, known, answer) in [(Side::Subject, 0, 4), (Side::Object, 4, 0)] {
            let mut told = Vec::new();
            let mut hear = |_: u32, entity: EntityId| told.push(entity.0);
            index.ask(&graph, RelationId(2), (side, EntityId(known)), &mut Asker::default(), &mut hear);
            assert_eq!(told, [answer]);
        }
    }

    #[test]
    fn nobody_is_passed_twice() {
        // A star: every path of four atoms between leaves would pass the middle twice.
        let facts: Vec<Triple> =
            (1..30).map(|leaf| Triple::new(0, leaf % 2, leaf)).chain([Triple::new(1, 2, 2)]).collect();
        let graph = Graph::new(30, 3, &facts);
        assert!(mined(&graph).is_empty());
        let (mut trail, mut ends) = (vec![EntityId(1)], Vec::new());
        let labels = [Label::inverse(RelationId(1)), Label::forward(RelationId(1))];
        assert!(follow(&graph, &labels, &mut trail, &mut 1000, &mut |end| ends.push(end.0)));
        assert!(!ends.contains(&1) && ends.len() == 14, "{ends:?}");
        assert!(!follow(&graph, &labels, &mut trail, &mut 3, &mut |_| ()), "steps are used up");
    }
}
