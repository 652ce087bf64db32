//! Matching a premise against the graph: all bindings of its variables under which every atom is a fact.
//!
//! A [`Plan`] fixes the order of atoms once per rule: always the atom with the most known terms, and among those the
//! relation with the fewest facts. Each step is then a scan, a walk to neighbours or a membership test. Variables may
//! take equal values (homomorphism semantics), as in AMIE and in the paper's grounder.
//!
//! A long premise may have more matches than can be visited, because each atom multiplies them. But what follows a step
//! depends only on the variables used by later steps or the conclusion. Callers that need only the conclusions or the
//! number of matches remember these states and enter each once ([`Once`], [`NotBarren`], [`Plan::number`]).

use ruge_kg::{EntityId, Graph, Label, Pair, RelationId, Triple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::atom::{Atom, Term, Variable};
use crate::rule::Rule;
use ruge_kg::control::Pulse;

/// The values of a rule's variables; unbound ones hold [`UNBOUND`].
pub(crate) type Bindings = Vec<EntityId>;

pub(crate) const UNBOUND: EntityId = EntityId(u32::MAX);

/// Maximum atoms of a premise: each is a level of recursion.
pub(crate) const MOST_ATOMS: usize = 200;

/// The order and method in which the atoms of a premise are matched.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    variables: usize,
    /// Per step, the variables that the rest depends on.
    live: Vec<Option<Live>>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// No end is known: scan every fact of the relation.
    Scan { relation: RelationId, subject: Variable, object: Variable },
    /// One end is known: follow `label` from it to bind the other.
    Walk { from: Term, label: Label, to: Variable },
    /// Both ends are known.
    Check(Atom),
    /// Both ends are known, and no fact may join them.
    Absent(Atom),
}

impl Plan {
    /// Orders the premise of `rule`, given the variables bound from the start. Negated atoms are tested as soon as
    /// their variables are bound. `None` if the premise never holds: a relation is unknown to the graph, or nothing
    /// binds a variable of a negated atom. Also `None` for more than [`MOST_ATOMS`] atoms.
    pub(crate) fn new(graph: &Graph, rule: &Rule, bound: &[Variable]) -> Option<Self> {
        let variables = rule.variable_count();
        let mut known = vec![false; variables];
        for variable in bound {
            known[variable.index()] = true;
        }
        let mut left: Vec<Atom> = rule.premise.clone();
        let mut absent: Vec<Atom> = rule.negated.clone();
        let mut steps = Vec::with_capacity(left.len() + absent.len());
        let mut test_absent = |known: &[bool], steps: &mut Vec<Step>| {
            let is_open = |atom: &Atom| atom.variables().any(|v| !known[v.index()]);
            steps.extend(absent.iter().filter(|atom| !is_open(atom)).map(|&atom| Step::Absent(atom)));
            absent.retain(is_open);
            absent.is_empty()
        };
        let mut complete = test_absent(&known, &mut steps);
        if left.iter().any(|atom| atom.relation.index() >= graph.relation_count())
            || left.len() + rule.negated.len() > MOST_ATOMS
        {
            return None;
        }
        while !left.is_empty() {
            let is_known = |term: Term| term.variable().is_none_or(|v| known[v.index()]);
            let rank = |atom: &Atom| {
                let unknown = atom.terms().into_iter().filter(|&term| !is_known(term)).count();
                (unknown, graph.facts(atom.relation).len())
            };
            let best = (0..left.len()).min_by_key(|&index| (rank(&left[index]), index)).unwrap_or(0);
            let atom = left.remove(best);
            let step = match (is_known(atom.subject), is_known(atom.object), atom.subject, atom.object) {
                (true, true, ..) => Step::Check(atom),
                (true, false, from, Term::Variable(to)) => {
                    Step::Walk { from, label: Label::forward(atom.relation), to }
                }
                (false, true, Term::Variable(to), from) => {
                    Step::Walk { from, label: Label::inverse(atom.relation), to }
                }
                (_, _, Term::Variable(subject), Term::Variable(object)) => {
                    Step::Scan { relation: atom.relation, subject, object }
                }
                // An entity is always known, so an arm above has matched it.
                _ => Step::Check(atom),
            };
            for variable in atom.variables() {
                known[variable.index()] = true;
            }
            steps.push(step);
            complete = test_absent(&known, &mut steps);
        }
        let live = Live::of(&steps, rule, bound);
        complete.then_some(Self { steps, variables, live })
    }

    pub(crate) fn variables(&self) -> usize {
        self.variables
    }

    pub(crate) fn bindings(&self) -> Bindings {
        vec![UNBOUND; self.variables]
    }

    /// The facts scanned by the first step, if it is a scan: pieces of them may be matched separately.
    pub(crate) fn scanned<'g>(&self, graph: &'g Graph) -> Option<&'g [Pair]> {
        match self.steps.first() {
            Some(Step::Scan { relation, .. }) => Some(graph.facts(*relation)),
            _ => None,
        }
    }

    /// Visits every completion of `bindings`; stops when the visitor returns false or the guide says so. Returns
    /// whether it ran to the end.
    pub(crate) fn run(
        &self,
        graph: &Graph,
        bindings: &mut Bindings,
        guide: &mut impl Guide,
        visit: &mut impl FnMut(&Bindings) -> bool,
    ) -> bool {
        self.extend(graph, 0, bindings, guide, visit)
    }

    /// [`run`](Self::run) with the first scan restricted to `piece`.
    pub(crate) fn run_piece(
        &self,
        graph: &Graph,
        piece: &[Pair],
        bindings: &mut Bindings,
        guide: &mut impl Guide,
        visit: &mut impl FnMut(&Bindings) -> bool,
    ) -> bool {
        match self.steps.first() {
            Some(&Step::Scan { subject, object, .. }) => {
                scan(piece, subject, object, bindings, &mut |bindings| self.extend(graph, 1, bindings, guide, visit))
            }
            _ => self.extend(graph, 0, bindings, guide, visit),
        }
    }

    fn extend<G: Guide, V: FnMut(&Bindings) -> bool>(
        &self,
        graph: &Graph,
        at: usize,
        bindings: &mut Bindings,
        guide: &mut G,
        visit: &mut V,
    ) -> bool {
        if at == self.steps.len() {
            return visit(bindings);
        }
        let state = self.live[at].map(|live| (at, live.values(bindings)));
        match guide.enter(state) {
            Turn::On => {}
            Turn::Back => return true,
            Turn::Stop => return false,
        }
        let ran = self.each(graph, at, bindings, &mut |bindings| self.extend(graph, at + 1, bindings, guide, visit));
        if ran {
            guide.leave(state);
        }
        ran
    }

    /// Every match of one step, until stopped.
    #[inline]
    fn each(
        &self,
        graph: &Graph,
        at: usize,
        bindings: &mut Bindings,
        go_on: &mut impl FnMut(&mut Bindings) -> bool,
    ) -> bool {
        match self.steps[at] {
            Step::Scan { relation, subject, object } => scan(graph.facts(relation), subject, object, bindings, go_on),
            Step::Walk { from, label, to } => {
                let from = value(from, bindings);
                if from.index() >= graph.entity_count() {
                    return true;
                }
                for &next in graph.neighbours(from, label) {
                    bindings[to.index()] = next;
                    if !go_on(bindings) {
                        return false;
                    }
                }
                true
            }
            Step::Check(atom) => !holds(graph, bind(atom, bindings)) || go_on(bindings),
            Step::Absent(atom) => holds(graph, bind(atom, bindings)) || go_on(bindings),
        }
    }

    /// Whether to compute the [`number`](Self::number) before visiting completions: a long premise may have too many.
    pub(crate) fn is_long(&self) -> bool {
        self.live.iter().any(Option::is_some)
    }

    /// The number of completions for which `counts` is true, without visiting each if parts of the premise are
    /// independent; at most `limit` + 1, and `None` if cancelled. `counts` may use only variables of the conclusion.
    pub(crate) fn number(
        &self,
        graph: &Graph,
        limit: u64,
        pulse: &mut Pulse<'_>,
        counts: &impl Fn(&Bindings) -> bool,
    ) -> Option<u64> {
        let mut known: Vec<FxHashMap<u64, u64>> = vec![FxHashMap::default(); self.steps.len()];
        self.number_from(graph, (0, limit), &mut self.bindings(), pulse, &mut known, counts)
    }

    fn number_from(
        &self,
        graph: &Graph,
        (at, limit): (usize, u64),
        bindings: &mut Bindings,
        pulse: &mut Pulse<'_>,
        known: &mut Vec<FxHashMap<u64, u64>>,
        counts: &impl Fn(&Bindings) -> bool,
    ) -> Option<u64> {
        if at == self.steps.len() {
            return Some(u64::from(counts(bindings)));
        }
        if !pulse.beats(8) {
            return None;
        }
        let state = self.live[at].map(|live| live.values(bindings));
        if let Some(&number) = state.and_then(|state| known[at].get(&state)) {
            return Some(number);
        }
        let mut sum = 0u64;
        let mut stopped = false;
        self.each(graph, at, bindings, &mut |bindings| {
            match self.number_from(graph, (at + 1, limit), bindings, pulse, known, counts) {
                Some(number) => sum = sum.saturating_add(number),
                None => stopped = true,
            }
            !stopped && sum <= limit
        });
        if stopped {
            return None;
        }
        if let Some(state) = state.filter(|_| known[at].len() < REMEMBERED) {
            known[at].insert(state, sum.min(limit.saturating_add(1)));
        }
        Some(sum.min(limit.saturating_add(1)))
    }
}

fn scan(
    facts: &[Pair],
    subject: Variable,
    object: Variable,
    bindings: &mut Bindings,
    go_on: &mut impl FnMut(&mut Bindings) -> bool,
) -> bool {
    for pair in facts {
        if subject == object && pair.key != pair.other {
            continue;
        }
        bindings[subject.index()] = pair.key;
        bindings[object.index()] = pair.other;
        if !go_on(bindings) {
            return false;
        }
    }
    true
}

/// Minimum atoms of a premise for which remembering states may pay off.
const LONG: usize = 4;

/// States remembered per step; more are forgotten, which costs time but does not change results.
const REMEMBERED: usize = 1 << 20;

/// The variables that the rest of the plan depends on after a step, if fewer than all bound ones: the rest is the same
/// however the others are bound.
#[derive(Clone, Copy, Debug)]
struct Live([Option<Variable>; 2]);

impl Live {
    fn values(self, bindings: &Bindings) -> u64 {
        let value = |variable: Option<Variable>| variable.map_or(0, |variable| u64::from(bindings[variable.index()].0));
        value(self.0[0]) << 32 | value(self.0[1])
    }

    /// For each step, given the variables bound from the start.
    fn of(steps: &[Step], rule: &Rule, bound: &[Variable]) -> Vec<Option<Live>> {
        let mut live = vec![None; steps.len()];
        if steps.len() < LONG {
            return live;
        }
        // Every completion needs the conclusion's variables.
        let mut needed: Vec<Variable> = rule.conclusion.variables().collect();
        for (at, step) in steps.iter().enumerate().rev() {
            needed.extend(step.variables());
            let mut made: Vec<Variable> = steps[..at].iter().flat_map(Step::variables).collect();
            made.retain(|variable| !bound.contains(variable));
            made.sort_unstable();
            made.dedup();
            let kept: Vec<Variable> = made.iter().copied().filter(|variable| needed.contains(variable)).collect();
            if kept.len() < made.len() && kept.len() <= 2 {
                live[at] = Some(Live([kept.first().copied(), kept.get(1).copied()]));
            }
        }
        live
    }
}

impl Step {
    fn variables(&self) -> Vec<Variable> {
        match self {
            Step::Scan { subject, object, .. } => vec![*subject, *object],
            Step::Walk { from, to, .. } => from.variable().into_iter().chain([*to]).collect(),
            Step::Check(atom) | Step::Absent(atom) => atom.variables().collect(),
        }
    }
}

/// A step, and the values that the rest depends on.
type State = Option<(usize, u64)>;

pub(crate) enum Turn {
    /// Match it.
    On,
    /// Skip the rest below it.
    Back,
    /// Stop the search.
    Stop,
}

/// Prunes and stops a search.
pub(crate) trait Guide {
    fn enter(&mut self, state: State) -> Turn;
    /// After a step whose matches were all tried.
    fn leave(&mut self, _state: State) {}
}

/// Never prunes.
impl Guide for Pulse<'_> {
    #[inline]
    fn enter(&mut self, _state: State) -> Turn {
        if self.beats(8) { Turn::On } else { Turn::Stop }
    }
}

/// States that need not be entered again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    steps: Vec<FxHashSet<u64>>,
    any: bool,
}

impl Seen {
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.any) {
            self.steps.iter_mut().for_each(FxHashSet::clear);
        }
    }

    /// Whether the state is new.
    fn insert(&mut self, (at, values): (usize, u64)) -> bool {
        if self.steps.len() <= at {
            self.steps.resize_with(at + 1, FxHashSet::default);
        }
        self.any = true;
        if self.steps[at].len() >= REMEMBERED {
            return !self.steps[at].contains(&values);
        }
        self.steps[at].insert(values)
    }
}

/// Enters each state once: sufficient if only the values of the conclusion's variables matter.
pub(crate) struct Once<'a, 'w> {
    /// States already entered.
    pub(crate) seen: &'a mut Seen,
    /// Stops the search, if given.
    pub(crate) pulse: Option<&'a mut Pulse<'w>>,
}

impl Guide for Once<'_, '_> {
    #[inline]
    fn enter(&mut self, state: State) -> Turn {
        if let Some(pulse) = &mut self.pulse
            && !pulse.beats(8)
        {
            return Turn::Stop;
        }
        match state {
            Some(state) if !self.seen.insert(state) => Turn::Back,
            _ => Turn::On,
        }
    }
}

/// Never enters a state again that had no completion; every completion is visited.
#[derive(Default)]
pub(crate) struct NotBarren {
    barren: Seen,
    /// Completions found so far, counted by the visitor, when each step was entered.
    entered: Vec<u64>,
    pub(crate) met: std::rc::Rc<std::cell::Cell<u64>>,
}

impl Guide for NotBarren {
    fn enter(&mut self, state: State) -> Turn {
        let known = |(at, values): (usize, u64)| self.barren.steps.get(at).is_some_and(|set| set.contains(&values));
        if state.is_some_and(known) {
            return Turn::Back;
        }
        self.entered.push(self.met.get());
        Turn::On
    }

    fn leave(&mut self, state: State) {
        if self.entered.pop() == Some(self.met.get())
            && let Some(state) = state
        {
            self.barren.insert(state);
        }
    }
}

/// Whether the triple is a fact; ids beyond the graph (names known only to a rule file) are in no fact.
pub(crate) fn holds(graph: &Graph, triple: Triple) -> bool {
    triple.head.index() < graph.entity_count()
        && triple.tail.index() < graph.entity_count()
        && triple.relation.index() < graph.relation_count()
        && graph.contains(triple)
}

#[inline]
fn value(term: Term, bindings: &Bindings) -> EntityId {
    match term {
        Term::Variable(variable) => bindings[variable.index()],
        Term::Constant(entity) => entity,
    }
}

/// The atom with its variables replaced by their values.
#[inline]
pub(crate) fn bind(atom: Atom, bindings: &Bindings) -> Triple {
    Triple { head: value(atom.subject, bindings), relation: atom.relation, tail: value(atom.object, bindings) }
}
