//! Exact counts for a single rule of any form.
//!
//! The miner counts thousands of candidate bodies of known shapes. Here a rule from a file, of any length and with
//! entities in it, is counted by matching its premise. A test checks that the two agree.

use ruge_kg::{EntityId, Graph, Label};

use crate::atom::{Term, Variable};
use crate::error::RuleError;
use crate::join::{MOST_ATOMS, Once, Plan, Seen, UNBOUND, holds};
use crate::measure::{Counts, Side};
use crate::rule::Rule;
use ruge_kg::control::{Control, Pulse};

/// Working memory for counting; one per thread.
pub struct Counter {
    stamps: Vec<u32>,
    stamp: u32,
    seen: Seen,
}

impl Counter {
    /// For graphs with up to this many entities.
    pub fn new(entities: usize) -> Self {
        Self { stamps: vec![0; entities], stamp: 0, seen: Seen::default() }
    }

    /// Counts `rule`; `None` if it is unsafe or has no premise (its body is not a set of pairs), or a premise too long.
    ///
    /// A rule over relations missing from the graph has zero counts.
    pub fn count(&mut self, graph: &Graph, rule: &Rule) -> Option<Counts> {
        self.count_under(graph, rule, &Control::default()).ok().flatten()
    }

    /// [`count`](Self::count) with a control; [`RuleError::Cancelled`] on cancellation.
    pub fn count_under(
        &mut self,
        graph: &Graph,
        rule: &Rule,
        control: &Control<'_>,
    ) -> Result<Option<Counts>, RuleError> {
        let mut pulse = Pulse::new(control);
        let rule = &rule.renumbered();
        if rule.premise.is_empty() || !rule.is_safe() || rule.premise.len() + rule.negated.len() > MOST_ATOMS {
            return Ok(None);
        }
        let counts = match (rule.conclusion.subject, rule.conclusion.object) {
            (Term::Variable(x), Term::Variable(y)) if x != y => Some(self.count_pairs(graph, rule, &mut pulse)),
            (Term::Variable(x), object) => Some(self.count_values(graph, rule, (x, object, Side::Subject), &mut pulse)),
            (subject, Term::Variable(y)) => {
                Some(self.count_values(graph, rule, (y, subject, Side::Object), &mut pulse))
            }
            _ => None,
        };
        pulse.finish()?;
        Ok(counts)
    }

    fn count_pairs(&mut self, graph: &Graph, rule: &Rule, pulse: &mut Pulse<'_>) -> Counts {
        let head = rule.head();
        let mut counts = Counts { support: 0, body: 0, pca_subject: 0, pca_object: 0, head: 0, side: Side::Subject };
        if head.index() < graph.relation_count() {
            counts.head = graph.facts(head).len() as u64;
            if graph.distinct_heads(head) < graph.distinct_tails(head) {
                counts.side = Side::Object;
            }
        }
        let Some(plan) = Plan::new(graph, rule, &[Variable::X]) else {
            return counts;
        };
        let mut bindings = plan.bindings();
        for x in values(graph, rule, Variable::X) {
            if !pulse.beats(8) {
                break;
            }
            let x_is_subject = has(graph, x, head, false);
            if self.stamp == u32::MAX {
                self.stamps.fill(0);
                self.stamp = 0;
            }
            self.stamp += 1;
            let stamp = self.stamp;
            self.seen.clear();
            let guide = &mut Once { seen: &mut self.seen, pulse: Some(pulse) };
            bindings.fill(UNBOUND);
            bindings[Variable::X.index()] = x;
            let stamps = &mut self.stamps;
            plan.run(graph, &mut bindings, guide, &mut |bindings| {
                let y = bindings[Variable::Y.index()];
                if stamps[y.index()] != stamp {
                    stamps[y.index()] = stamp;
                    counts.body += 1;
                    counts.pca_subject += u64::from(x_is_subject);
                    counts.pca_object += u64::from(has(graph, y, head, true));
                    counts.support +=
                        u64::from(x_is_subject && holds(graph, ruge_kg::Triple { head: x, relation: head, tail: y }));
                }
                true
            });
        }
        counts
    }

    /// Rules with one free variable in the conclusion: counts over the distinct values of that variable.
    fn count_values(
        &mut self,
        graph: &Graph,
        rule: &Rule,
        (free, fixed, side): (Variable, Term, Side),
        pulse: &mut Pulse<'_>,
    ) -> Counts {
        let head = rule.head();
        let mut counts = Counts { support: 0, body: 0, pca_subject: 0, pca_object: 0, head: 0, side };
        let inverse = side == Side::Object;
        if let Term::Constant(entity) = fixed
            && entity.index() < graph.entity_count()
            && head.index() < graph.relation_count()
        {
            let towards = if inverse { Label::forward(head) } else { Label::inverse(head) };
            counts.head = graph.neighbours(entity, towards).len() as u64;
        } else if head.index() < graph.relation_count() {
            counts.head = graph.facts(head).iter().filter(|pair| pair.key == pair.other).count() as u64;
        }
        let Some(plan) = Plan::new(graph, rule, &[free]) else { return counts };
        let mut bindings = plan.bindings();
        for value in values(graph, rule, free) {
            if !pulse.beats(8) {
                break;
            }
            bindings.fill(UNBOUND);
            bindings[free.index()] = value;
            self.seen.clear();
            let guide = &mut Once { seen: &mut self.seen, pulse: Some(pulse) };
            let mut found = false;
            // One witness is enough: the visitor stops the run.
            plan.run(graph, &mut bindings, guide, &mut |_| {
                found = true;
                false
            });
            if !found {
                continue;
            }
            bindings[free.index()] = value;
            counts.body += 1;
            let plays = u64::from(has(graph, value, head, inverse));
            // The fixed argument occurs in the head, so on its side every pair counts.
            let (own, other) = if inverse {
                (&mut counts.pca_object, &mut counts.pca_subject)
            } else {
                (&mut counts.pca_subject, &mut counts.pca_object)
            };
            *own += plays;
            *other += 1;
            counts.support += u64::from(holds(graph, crate::join::bind(rule.conclusion, &bindings)));
        }
        counts
    }
}

/// The distinct candidates for a variable, from the smallest atom of the premise that contains it.
fn values(graph: &Graph, rule: &Rule, variable: Variable) -> Vec<EntityId> {
    let label = rule
        .premise
        .iter()
        .filter(|atom| atom.relation.index() < graph.relation_count())
        .filter_map(|atom| {
            let label = Label::forward(atom.relation);
            if atom.subject == variable.into() {
                Some(label)
            } else if atom.object == variable.into() {
                Some(label.reversed())
            } else {
                None
            }
        })
        .min_by_key(|label| graph.pairs(*label).len());
    let mut values: Vec<EntityId> =
        label.map_or_else(Vec::new, |label| graph.pairs(label).iter().map(|pair| pair.key).collect());
    values.dedup();
    values
}

/// Whether the entity is a subject (or an object) of some fact of the relation.
fn has(graph: &Graph, entity: EntityId, relation: ruge_kg::RelationId, as_object: bool) -> bool {
    if relation.index() >= graph.relation_count() {
        return false;
    }
    let label = if as_object { Label::inverse(relation) } else { Label::forward(relation) };
    graph.adjacency().labels(entity).binary_search(&label).is_ok()
}
