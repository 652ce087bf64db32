//! A rule as a function: given one end of its conclusion, which entities are at the other?
//!
//! Ranking by rules asks this for every query. The known end is bound before the first step, so the premise is walked
//! from there and never scanned. Premises, negated ones included, are checked against the training graph only.
//! Conclusions that are already facts are included; the caller decides whether they count.

use ruge_kg::{EntityId, Graph};

use crate::atom::{Atom, Term, Variable};
use crate::ground::{NotGrounded, prepare};
use crate::join::{Bindings, Once, Plan, Seen, UNBOUND};
use crate::rule::Rule;

/// A rule with two plans: from the subject of the conclusion, and from its object.
#[derive(Clone, Debug)]
pub struct Application {
    conclusion: Atom,
    from_subject: Plan,
    from_object: Plan,
}

/// Working memory of a walk; one per thread.
#[derive(Clone, Debug, Default)]
pub struct Walker {
    bindings: Bindings,
    seen: Seen,
}

impl Application {
    /// Plans both directions, or returns why the rule concludes nothing.
    pub fn new(graph: &Graph, rule: &Rule) -> Result<Self, NotGrounded> {
        prepare(graph, rule)?;
        let plan = |from: Term| {
            let bound: Vec<Variable> = from.variable().into_iter().collect();
            Plan::new(graph, rule, &bound).ok_or(NotGrounded::UnknownRelation)
        };
        let conclusion = rule.conclusion;
        Ok(Self { conclusion, from_subject: plan(conclusion.subject)?, from_object: plan(conclusion.object)? })
    }

    /// Visits every object that the rule concludes for `subject`, possibly several times.
    #[inline]
    pub fn objects(&self, graph: &Graph, subject: EntityId, walker: &mut Walker, visit: &mut impl FnMut(EntityId)) {
        walk(graph, &self.from_subject, self.conclusion.subject, subject, self.conclusion.object, walker, visit);
    }

    /// Visits every subject that the rule concludes for `object`, possibly several times.
    #[inline]
    pub fn subjects(&self, graph: &Graph, object: EntityId, walker: &mut Walker, visit: &mut impl FnMut(EntityId)) {
        walk(graph, &self.from_object, self.conclusion.object, object, self.conclusion.subject, walker, visit);
    }
}

fn walk(
    graph: &Graph,
    plan: &Plan,
    known: Term,
    value: EntityId,
    hidden: Term,
    walker: &mut Walker,
    visit: &mut impl FnMut(EntityId),
) {
    let Walker { bindings, seen } = walker;
    seen.clear();
    let guide = &mut Once { seen, pulse: None };
    bindings.clear();
    bindings.resize(plan.variables(), UNBOUND);
    match known {
        Term::Constant(entity) if entity != value => return,
        Term::Constant(_) => {}
        Term::Variable(variable) => bindings[variable.index()] = value,
    }
    match hidden {
        Term::Variable(variable) if known != hidden => {
            plan.run(graph, bindings, guide, &mut |bindings| {
                visit(bindings[variable.index()]);
                true
            });
        }
        // The answer is fixed (an entity, or the known end again), so one witness is enough.
        fixed => {
            if !plan.run(graph, bindings, guide, &mut |_| false) {
                visit(if let Term::Constant(entity) = fixed { entity } else { value });
            }
        }
    }
}
