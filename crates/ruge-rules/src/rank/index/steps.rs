//! What a question costs, rule by rule, without answering it: the edges that walking the rules passes.
//!
//! Most rules are cheap, and a few are not: one that leads from a country to all its inhabitants tells fifty thousand candidates, at
//! every question about the country. Counts alone do not tell how often a question meets such a rule, so a few questions are asked.

use ruge_kg::{EntityId, Graph, Label, RelationId};

use super::{Asker, Filed, Lacking, RuleIndex, WALKED, Way, follow};
use crate::measure::Side;

impl RuleIndex {
    /// Tells every rule that has a chance where `known` stands at the end `side` of the conclusion, by its place in the list, with the
    /// steps that [`RuleIndex::ask`] takes for it.
    pub(crate) fn steps(
        &self,
        graph: &Graph,
        relation: RelationId,
        (side, known): (Side, EntityId),
        asker: &mut Asker,
        tell: &mut impl FnMut(u32, u64),
    ) {
        let Some(file) = self.files.get(&(relation, side)) else { return };
        let Asker { chosen, passed, stamp, walker, trail, .. } = asker;
        passed.resize(graph.entity_count(), 0);
        file.choose(graph, known, (Lacking::Nothing, self.injective), chosen);
        let from = |entity: EntityId, label: Label| graph.neighbours(entity, label);
        let mut walked = WALKED;
        for &at in chosen.iter() {
            let Filed { place, way } = &file.rules[at as usize];
            let steps = match way {
                Way::Answer(_) | Way::AnswerIf(..) => 0,
                Way::From(entity, label) => from(*entity, *label).len(),
                Way::Having(label) => graph.pairs(*label).len(),
                Way::One(label) | Way::Both(label, _) => from(known, *label).len(),
                Way::Two([a, b]) => from(known, *a).iter().map(|&z| 1 + from(z, *b).len()).sum(),
                Way::Three([a, b, c]) => {
                    *stamp += 1;
                    let mut steps = 0;
                    for &z in from(known, *a) {
                        for &w in from(z, *b) {
                            steps += 1;
                            if std::mem::replace(&mut passed[w.index()], *stamp) != *stamp {
                                steps += from(w, *c).len();
                            }
                        }
                    }
                    steps
                }
                Way::Walk(labels) => {
                    let before = walked;
                    trail.clear();
                    trail.push(known);
                    follow(graph, labels, trail, &mut walked, &mut |_| {});
                    before - walked
                }
                Way::Other(rule) => {
                    let mut told = 0;
                    let mut count = |_| told += 1;
                    match side {
                        Side::Subject => rule.objects(graph, known, walker, &mut count),
                        Side::Object => rule.subjects(graph, known, walker, &mut count),
                    }
                    told
                }
            };
            tell(*place, 1 + steps as u64);
        }
    }
}
