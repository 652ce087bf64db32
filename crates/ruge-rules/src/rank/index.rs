//! Many rules asked at once: from one end of a conclusion, which rules fire, and whom do they put at the other end?
//!
//! Trying every rule for every question is hopeless where there are hundreds of thousands, most of them with constants. So
//! rules are filed by what must hold at the known end for them to fire at all: a label it must have, an edge it must have, or
//! the entity it must be. A question looks at the edges of its known end and touches only rules that have a chance.
//!
//! Rules fire in the order in which they were given, which for ranking is that of falling confidence; each tells a candidate
//! once, however many ways lead there.

mod steps;

use std::collections::BTreeMap;

use rayon::prelude::*;
use ruge_kg::{EntityId, Graph, Label, Pair, RelationId};
use rustc_hash::FxHashMap;

use crate::apply::{Application, Walker};
use crate::atom::{Atom, Term};
use crate::ground::{NotGrounded, prepare};
use crate::measure::Side;
use crate::mine::walks::follow;
use crate::rule::Rule;

/// Steps on paths of four and more atoms for one question, all rules together: the first are the surest, and the last would cost
/// more than all others.
const WALKED: usize = 100_000;

const SIDES: [Side; 2] = [Side::Subject, Side::Object];

/// Rules filed for questions from either end.
#[derive(Clone, Debug, Default)]
pub struct RuleIndex {
    files: FxHashMap<(RelationId, Side), File>,
    /// Different variables take different values.
    injective: bool,
    not_applied: Vec<NotApplied>,
}

/// What the rules may not see: a fact is asked about as if the graph did not have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lacking {
    /// Everything is seen.
    Nothing,
    /// One fact: the known end's edge with this label to this entity.
    Fact(Label, EntityId),
    /// Every fact that links the known end to this entity.
    Pair(EntityId),
}

impl Lacking {
    /// Whether an edge of the known end is hidden.
    #[inline]
    fn hides(self, label: Label, other: EntityId) -> bool {
        match self {
            Lacking::Nothing => false,
            Lacking::Fact(of, to) => label == of && other == to,
            Lacking::Pair(to) => other == to,
        }
    }
}

/// A rule that can conclude nothing, by its place in the list, and why.
pub type NotApplied = (usize, NotGrounded);

/// The rules of one relation as asked from one end of it.
#[derive(Clone, Debug, Default)]
struct File {
    rules: Vec<Filed>,
    by_label: FxHashMap<Label, Vec<u32>>,
    by_edge: FxHashMap<(Label, EntityId), Vec<u32>>,
    by_known: FxHashMap<EntityId, Vec<u32>>,
    always: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Filed {
    /// Its place in the list of rules.
    place: u32,
    way: Way,
}

/// How candidates are found once a rule is known to have a chance.
#[derive(Clone, Debug)]
enum Way {
    /// The premise holds for the known end, so this entity is the answer.
    Answer(EntityId),
    /// This entity is the answer if the known end has such an edge.
    AnswerIf(Label, EntityId),
    /// Everyone whom the label leads to from the entity.
    From(EntityId, Label),
    /// Everyone who has the label.
    Having(Label),
    One(Label),
    Both(Label, Label),
    Two([Label; 2]),
    Three([Label; 3]),
    /// Four and more: nobody is passed twice, as when they were mined.
    Walk(Box<[Label]>),
    Other(Box<Application>),
}

/// The working memory of one thread.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    chosen: Vec<u32>,
    /// Per entity: the question and rule that reached it last.
    last: Vec<u64>,
    /// Per entity, for inner variables.
    passed: Vec<u64>,
    /// Per entity that was passed: from where first.
    via: Vec<EntityId>,
    stamp: u64,
    walker: Walker,
    trail: Vec<EntityId>,
}

impl RuleIndex {
    /// Files every rule. Whoever asks gets them in this order.
    pub fn new<'r>(graph: &Graph, rules: impl IntoIterator<Item = &'r Rule>) -> Self {
        let mut heads: BTreeMap<RelationId, Vec<(usize, &Rule)>> = BTreeMap::new();
        for (place, rule) in rules.into_iter().enumerate() {
            heads.entry(rule.head()).or_default().push((place, rule));
        }
        let heads: Vec<(RelationId, Vec<(usize, &Rule)>)> = heads.into_iter().collect();
        let filed: Vec<([File; 2], Vec<NotApplied>)> = heads
            .par_iter()
            .map(|(_, rules)| {
                let (mut files, mut not_applied) = (<[File; 2]>::default(), Vec::new());
                for &(place, rule) in rules {
                    let put = |(file, side): (&mut File, Side)| file.put(graph, place as u32, rule, side);
                    let tried = prepare(graph, rule).and_then(|_| files.iter_mut().zip(SIDES).try_for_each(put));
                    not_applied.extend(tried.err().map(|reason| (place, reason)));
                }
                (files, not_applied)
            })
            .collect();
        let mut index = Self::default();
        for ((relation, _), (files, not_applied)) in heads.into_iter().zip(filed) {
            index.files.extend(SIDES.map(|side| (relation, side)).into_iter().zip(files));
            index.not_applied.extend(not_applied);
        }
        index.not_applied.sort_by_key(|(place, _)| *place);
        index
    }

    /// The same rules, but no entity stands for two variables, or for one and a constant: as rules for ranking are counted. Rules of unusual
    /// shapes (negation, branches) are applied as before.
    #[must_use]
    pub fn injective(mut self) -> Self {
        self.injective = true;
        self
    }

    /// Whether [`injective`](Self::injective) makes a difference to a rule: it has none of the unusual shapes.
    pub fn tells_apart(graph: &Graph, rule: &Rule) -> bool {
        let ends = [rule.conclusion.subject, rule.conclusion.object];
        let filed = |known: usize| file_of(rule, ends[known], ends[1 - known]).is_some();
        !rule.premise.is_empty() && knows_constants(graph, rule) && filed(0) && filed(1)
    }

    /// Rules that can conclude nothing, by their place in the list given, and why.
    pub fn not_applied(&self) -> &[NotApplied] {
        &self.not_applied
    }

    /// Tells of all that fires where `known` stands at the end `side` of the conclusion.
    pub fn ask(
        &self,
        graph: &Graph,
        relation: RelationId,
        (side, known): (Side, EntityId),
        asker: &mut Asker,
        hearer: &mut impl Hearer,
    ) {
        self.ask_without(graph, relation, (side, known), Lacking::Nothing, asker, hearer);
    }

    /// As [`Self::ask`], as if the graph lacked the fact that joins `known` by a label to an entity: what the rules say of a fact
    /// that they may not see. Rules of unusual shapes say nothing then. Rules must be applied injectively, so that `known` is passed but once.
    pub fn ask_without(
        &self,
        graph: &Graph,
        relation: RelationId,
        (side, known): (Side, EntityId),
        lacking: Lacking,
        asker: &mut Asker,
        hearer: &mut impl Hearer,
    ) {
        debug_assert!(self.injective || lacking == Lacking::Nothing);
        let Some(file) = self.files.get(&(relation, side)) else { return };
        let Asker { chosen, last, passed, via, stamp, walker, trail } = asker;
        last.resize(graph.entity_count(), 0);
        passed.resize(graph.entity_count(), 0);
        via.resize(graph.entity_count(), known);
        let apart = self.injective;
        file.choose(graph, known, (lacking, apart), chosen);
        let mut steps = WALKED;
        // The first step of a path.
        let first = |label: Label| {
            let there = move |other: &&EntityId| !(apart && **other == known || lacking.hides(label, **other));
            graph.neighbours(known, label).iter().filter(there)
        };
        for &at in chosen.iter() {
            let Filed { place, way } = &file.rules[at as usize];
            if !hearer.goes_on(*place) {
                break;
            }
            *stamp += 1;
            let stamp = *stamp;
            let mut tell = |entity: EntityId| {
                // A rule may name an entity that the graph does not have.
                if let Some(slot) = last.get_mut(entity.index())
                    && *slot != stamp
                {
                    *slot = stamp;
                    hearer.hear(*place, entity);
                }
            };
            match way {
                Way::Answer(entity) => {
                    if !(apart && *entity == known) {
                        tell(*entity);
                    }
                }
                Way::AnswerIf(label, entity) => {
                    if !apart || *entity != known && first(*label).any(|other| other != entity) {
                        tell(*entity);
                    }
                }
                Way::From(entity, label) => {
                    // A rule that concludes its own premise would see the fact that is lacking.
                    let lacks = *entity == known && lacking != Lacking::Nothing;
                    let new = |other: &&EntityId| !lacks && (!apart || ![known, *entity].contains(other));
                    graph.neighbours(*entity, *label).iter().filter(new).for_each(|&other| tell(other));
                }
                Way::Having(label) => {
                    let counts =
                        |Pair { key, other }: &&Pair| !apart || *other != known && other != key && *key != known;
                    graph.pairs(*label).iter().filter(counts).for_each(|pair| tell(pair.key));
                }
                Way::One(label) => first(*label).for_each(|&other| tell(other)),
                Way::Both(a, b) => {
                    let also = |label: Label, other: &EntityId| !lacking.hides(label, *other);
                    let ends = graph.neighbours(known, *b);
                    let both = |other: &&EntityId| ends.binary_search(other).is_ok() && also(*b, other);
                    first(*a).filter(both).for_each(|&other| tell(other));
                }
                Way::Two([a, b]) => {
                    for &z in first(*a) {
                        let new = |other: &&EntityId| !apart || **other != known && **other != z;
                        graph.neighbours(z, *b).iter().filter(new).for_each(|&other| tell(other));
                    }
                }
                Way::Three([a, b, c]) => {
                    for &z in first(*a) {
                        for &w in graph.neighbours(z, *b) {
                            if apart && (w == known || w == z) {
                                continue;
                            }
                            // Many ways lead to w, but what follows is the same, but for the one who was passed on the first way:
                            // the second way may end there.
                            if passed[w.index()] != stamp {
                                passed[w.index()] = stamp;
                                via[w.index()] = z;
                                let new = |end: &&EntityId| !apart || **end != known && **end != z && **end != w;
                                graph.neighbours(w, *c).iter().filter(new).for_each(|&end| tell(end));
                            } else if apart && via[w.index()] != known {
                                let end = std::mem::replace(&mut via[w.index()], known);
                                if graph.neighbours(w, *c).binary_search(&end).is_ok() {
                                    tell(end);
                                }
                            }
                        }
                    }
                }
                Way::Walk(labels) => {
                    for &z in first(labels[0]) {
                        if steps == 0 {
                            break;
                        }
                        steps -= 1;
                        if z != known {
                            trail.clear();
                            trail.extend([known, z]);
                            follow(graph, &labels[1..], trail, &mut steps, &mut tell);
                        }
                    }
                }
                Way::Other(_) if lacking != Lacking::Nothing => {}
                Way::Other(rule) => match side {
                    Side::Subject => rule.objects(graph, known, walker, &mut tell),
                    Side::Object => rule.subjects(graph, known, walker, &mut tell),
                },
            }
        }
    }
}

/// Whoever asks the rules.
pub trait Hearer {
    /// Whether a rule, and those after it, are still of interest.
    fn goes_on(&mut self, _rule: u32) -> bool {
        true
    }
    /// The rule puts the entity at the other end; told once for each pair.
    fn hear(&mut self, rule: u32, entity: EntityId);
}

impl<F: FnMut(u32, EntityId)> Hearer for F {
    #[inline]
    fn hear(&mut self, rule: u32, entity: EntityId) {
        self(rule, entity);
    }
}

impl File {
    fn put(&mut self, graph: &Graph, place: u32, rule: &Rule, side: Side) -> Result<(), NotGrounded> {
        let (known, hidden) = match side {
            Side::Subject => (rule.conclusion.subject, rule.conclusion.object),
            Side::Object => (rule.conclusion.object, rule.conclusion.subject),
        };
        let at = self.rules.len() as u32;
        let way = match file_of(rule, known, hidden).filter(|_| knows_constants(graph, rule)) {
            Some((Key::Label(label), way)) => {
                self.by_label.entry(label).or_default().push(at);
                way
            }
            Some((Key::Edge(label, entity), way)) => {
                self.by_edge.entry((label, entity)).or_default().push(at);
                way
            }
            Some((Key::Known(entity), way)) => {
                self.by_known.entry(entity).or_default().push(at);
                way
            }
            None => {
                self.always.push(at);
                Way::Other(Box::new(Application::new(graph, rule)?))
            }
        };
        self.rules.push(Filed { place, way });
        Ok(())
    }

    /// The rules that have a chance, in their order.
    fn choose(&self, graph: &Graph, known: EntityId, (lacking, apart): (Lacking, bool), chosen: &mut Vec<u32>) {
        chosen.clear();
        chosen.extend(&self.always);
        chosen.extend(self.by_known.get(&known).into_iter().flatten());
        if known.index() < graph.entity_count() {
            for (label, others) in graph.adjacency().runs(known) {
                let lacks = |other: EntityId| lacking.hides(label, other) || apart && other == known;
                if others.iter().all(|&other| lacks(other)) {
                    continue;
                }
                chosen.extend(self.by_label.get(&label).into_iter().flatten());
                if !self.by_edge.is_empty() {
                    for &other in others.iter().filter(|other| !lacks(**other)) {
                        chosen.extend(self.by_edge.get(&(label, other)).into_iter().flatten());
                    }
                }
            }
        }
        chosen.sort_unstable();
    }
}

/// Whether every entity the rule names is one of the graph; others go the slow way, which minds.
fn knows_constants(graph: &Graph, rule: &Rule) -> bool {
    let known = |term: Term| !matches!(term, Term::Constant(entity) if entity.index() >= graph.entity_count());
    rule.premise.iter().chain([&rule.conclusion]).all(|atom| atom.terms().into_iter().all(known))
}

/// What the known end must have or be for a rule to have a chance.
enum Key {
    Label(Label),
    Edge(Label, EntityId),
    Known(EntityId),
}

/// The atom's label as walked from `from`, and where it leads.
fn walked(atom: &Atom, from: Term) -> Option<(Label, Term)> {
    match (atom.subject == from, atom.object == from) {
        (true, false) => Some((Label::forward(atom.relation), atom.object)),
        (false, true) => Some((Label::inverse(atom.relation), atom.subject)),
        _ => None,
    }
}

/// What must hold at the known end, and how candidates are found then; none for rules of another kind.
fn file_of(rule: &Rule, known: Term, hidden: Term) -> Option<(Key, Way)> {
    if !rule.negated.is_empty() || known == hidden {
        return None;
    }
    match (known, hidden, &rule.premise[..]) {
        (Term::Variable(_), Term::Constant(answer), [atom]) => match walked(atom, known)? {
            (label, Term::Constant(of)) => Some((Key::Edge(label, of), Way::Answer(answer))),
            (label, Term::Variable(_)) => Some((Key::Label(label), Way::AnswerIf(label, answer))),
        },
        (Term::Constant(known), Term::Variable(_), [atom]) => match walked(atom, hidden)? {
            (label, Term::Constant(of)) => Some((Key::Known(known), Way::From(of, label.reversed()))),
            (label, Term::Variable(_)) => Some((Key::Known(known), Way::Having(label))),
        },
        (Term::Variable(_), Term::Variable(_), atoms) => {
            if rule.has_constants() {
                return None;
            }
            match atoms {
                [atom] => match walked(atom, known)? {
                    (label, end) if end == hidden => Some((Key::Label(label), Way::One(label))),
                    _ => None,
                },
                [a, b] => {
                    if let (Some((one, to)), Some((two, also))) = (walked(a, known), walked(b, known))
                        && to == hidden
                        && also == hidden
                    {
                        return Some((Key::Label(one), Way::Both(one, two)));
                    }
                    let path = path(atoms, known, hidden)?;
                    Some((Key::Label(path[0]), Way::Two([path[0], path[1]])))
                }
                [_, _, _] => {
                    let path = path(atoms, known, hidden)?;
                    Some((Key::Label(path[0]), Way::Three([path[0], path[1], path[2]])))
                }
                _ => {
                    let path = path(atoms, known, hidden)?;
                    Some((Key::Label(path[0]), Way::Walk(path.into())))
                }
            }
        }
        _ => None,
    }
}

/// The labels of a path from one variable to another through all atoms, whatever their order.
fn path(atoms: &[Atom], from: Term, to: Term) -> Option<Vec<Label>> {
    let mut left: Vec<&Atom> = atoms.iter().collect();
    let mut passed = vec![from];
    let mut labels = Vec::new();
    let mut at = from;
    while !left.is_empty() {
        let here: Vec<usize> = (0..left.len()).filter(|&index| left[index].terms().contains(&at)).collect();
        let &[next] = &here[..] else { return None };
        let (label, end) = walked(left.remove(next), at)?;
        if passed.contains(&end) || (end == to) != left.is_empty() {
            return None;
        }
        passed.push(end);
        labels.push(label);
        at = end;
    }
    Some(labels)
}
