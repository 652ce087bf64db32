//! Matching a premise against the graph: all ways to bind its variables so that every atom is a fact.
//!
//! A [`Plan`] fixes the order of atoms once per rule: always the atom with most terms known, and among those the
//! relation with fewest facts. Each step is then a scan, a walk to neighbours or a membership test. Variables may take
//! equal values (homomorphism semantics), as in AMIE and in the grounder of the paper.

use ruge_kg::{EntityId, Graph, Label, Pair, RelationId, Triple};

use crate::atom::{Atom, Term, Variable};
use crate::rule::Rule;

/// The values of a rule's variables; unbound ones hold [`UNBOUND`].
pub(crate) type Bindings = Vec<EntityId>;

/// No value yet.
pub(crate) const UNBOUND: EntityId = EntityId(u32::MAX);

/// In which order, and how, the atoms of a premise are matched.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    variables: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Nothing known: every fact of the relation.
    Scan { relation: RelationId, subject: Variable, object: Variable },
    /// One end known: walk `label` from it to bind the other.
    Walk { from: Term, label: Label, to: Variable },
    /// Both ends known.
    Check(Atom),
    /// Both ends known, and no fact may join them.
    Absent(Atom),
}

impl Plan {
    /// Orders the premise of `rule`, given which variables are bound from the start. Negated atoms are tested as soon as
    /// their variables are bound. `None` if a relation of the premise is unknown to the graph, or if nothing binds a
    /// variable of a negated atom: such a premise never holds.
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
        if left.iter().any(|atom| atom.relation.index() >= graph.relation_count()) {
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
                // An entity is always known, so one of the arms above has taken it.
                _ => Step::Check(atom),
            };
            for variable in atom.variables() {
                known[variable.index()] = true;
            }
            steps.push(step);
            complete = test_absent(&known, &mut steps);
        }
        complete.then_some(Self { steps, variables })
    }

    /// Number of variables to bind.
    pub(crate) fn variables(&self) -> usize {
        self.variables
    }

    /// Empty bindings of the right size.
    pub(crate) fn bindings(&self) -> Bindings {
        vec![UNBOUND; self.variables]
    }

    /// The facts the first step scans, if it is a scan: pieces of them may be matched apart.
    pub(crate) fn scanned<'g>(&self, graph: &'g Graph) -> Option<&'g [Pair]> {
        match self.steps.first() {
            Some(Step::Scan { relation, .. }) => Some(graph.facts(*relation)),
            _ => None,
        }
    }

    /// Visits every completion of `bindings`; stops when the visitor returns false. Returns whether it ran to the end.
    pub(crate) fn run(
        &self,
        graph: &Graph,
        bindings: &mut Bindings,
        visit: &mut impl FnMut(&Bindings) -> bool,
    ) -> bool {
        self.extend(graph, 0, bindings, visit)
    }

    /// The same, with the first scan confined to `piece`.
    pub(crate) fn run_piece(
        &self,
        graph: &Graph,
        piece: &[Pair],
        bindings: &mut Bindings,
        visit: &mut impl FnMut(&Bindings) -> bool,
    ) -> bool {
        match self.steps.first() {
            Some(&Step::Scan { subject, object, .. }) => self.scan(graph, 0, piece, subject, object, bindings, visit),
            _ => self.extend(graph, 0, bindings, visit),
        }
    }

    fn extend(
        &self,
        graph: &Graph,
        at: usize,
        bindings: &mut Bindings,
        visit: &mut impl FnMut(&Bindings) -> bool,
    ) -> bool {
        let Some(&step) = self.steps.get(at) else { return visit(bindings) };
        match step {
            Step::Scan { relation, subject, object } => {
                self.scan(graph, at, graph.facts(relation), subject, object, bindings, visit)
            }
            Step::Walk { from, label, to } => {
                let from = value(from, bindings);
                if from.index() >= graph.entity_count() {
                    return true;
                }
                for &next in graph.neighbours(from, label) {
                    bindings[to.index()] = next;
                    if !self.extend(graph, at + 1, bindings, visit) {
                        return false;
                    }
                }
                true
            }
            Step::Check(atom) => {
                if holds(graph, bind(atom, bindings)) {
                    self.extend(graph, at + 1, bindings, visit)
                } else {
                    true
                }
            }
            Step::Absent(atom) => {
                if holds(graph, bind(atom, bindings)) {
                    true
                } else {
                    self.extend(graph, at + 1, bindings, visit)
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn scan(
        &self,
        graph: &Graph,
        at: usize,
        facts: &[Pair],
        subject: Variable,
        object: Variable,
        bindings: &mut Bindings,
        visit: &mut impl FnMut(&Bindings) -> bool,
    ) -> bool {
        for pair in facts {
            if subject == object && pair.key != pair.other {
                continue;
            }
            bindings[subject.index()] = pair.key;
            bindings[object.index()] = pair.other;
            if !self.extend(graph, at + 1, bindings, visit) {
                return false;
            }
        }
        true
    }
}

/// Whether the triple is a fact; ids beyond the graph (names only a rule file knows) are in no fact.
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
