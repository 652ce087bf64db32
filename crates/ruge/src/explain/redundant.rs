//! Which rules say the same?
//!
//! Mined rules come in versions: where two relations hold of the same pairs, or one is the inverse of the other, each chain
//! through them is mined once for every way to write it. Two relations count as one where each holds of at least
//! [`MUTUAL`] of the other's pairs in train; a held-out fifth leaves a perfect inverse at about four fifths. Rules are
//! alike when they differ only by such relations, by the names of variables or by the order of premises.

use ruge_kg::{Graph, Label, RelationId};
use ruge_rules::{Atom, Rule};
use rustc_hash::{FxHashMap, FxHashSet};

/// The share of pairs that two relations must have in common, seen from each of them.
pub const MUTUAL: f64 = 0.7;

/// Relations with fewer facts than this are never taken for another: chance would do it.
const MIN_FACTS: usize = 10;

/// For each rule a number; rules with equal numbers say the same.
pub fn groups(graph: &Graph, rules: &[&Rule]) -> Vec<usize> {
    let relations: FxHashSet<RelationId> =
        rules.iter().flat_map(|rule| &rule.premise).map(|atom| atom.relation).collect();
    let mut relations: Vec<RelationId> =
        relations.into_iter().filter(|relation| relation.index() < graph.relation_count()).collect();
    relations.sort_unstable();
    let classes = Classes::find(graph, &relations);
    let mut numbers: FxHashMap<Rule, usize> = FxHashMap::default();
    rules
        .iter()
        .map(|rule| {
            let rewrite = |atom: &Atom| classes.rewrite(*atom);
            let same = Rule {
                conclusion: rule.conclusion,
                premise: rule.premise.iter().map(rewrite).collect(),
                negated: rule.negated.iter().map(rewrite).collect(),
            };
            let next = numbers.len();
            *numbers.entry(same.canonical()).or_insert(next)
        })
        .collect()
}

/// Relations that hold of the same pairs, each with a label of the class's first relation.
struct Classes {
    /// The first relation of the class, walked so that it leads where the relation does.
    of: FxHashMap<RelationId, Label>,
    /// Classes whose relations hold both ways, by their first relation.
    symmetric: FxHashSet<RelationId>,
}

impl Classes {
    fn find(graph: &Graph, relations: &[RelationId]) -> Self {
        let mut classes = Self {
            of: relations.iter().map(|&relation| (relation, Label::forward(relation))).collect(),
            symmetric: FxHashSet::default(),
        };
        let wanted: FxHashSet<RelationId> = relations.iter().copied().collect();
        let mut counts: FxHashMap<Label, usize> = FxHashMap::default();
        for &relation in relations {
            let facts = graph.facts(relation);
            if facts.len() < MIN_FACTS {
                continue;
            }
            counts.clear();
            for pair in facts {
                for edge in graph.links_between(pair.key, pair.other) {
                    *counts.entry(edge.label).or_default() += 1;
                }
            }
            let mut partners: Vec<(Label, usize)> = counts.iter().map(|(&label, &count)| (label, count)).collect();
            partners.sort_unstable();
            for (label, common) in partners {
                let other = label.relation();
                let larger = facts.len().max(graph.facts(other).len());
                if label != Label::forward(relation)
                    && wanted.contains(&other)
                    && common as f64 >= MUTUAL * larger as f64
                {
                    classes.join(relation, label);
                }
            }
        }
        classes
    }

    /// `relation` leads where `label` does.
    fn join(&mut self, relation: RelationId, label: Label) {
        let of = |classes: &Self, label: Label| {
            let class = classes.of[&label.relation()];
            if label.is_inverse() { class.reversed() } else { class }
        };
        let (one, two) = (of(self, Label::forward(relation)), of(self, label));
        if one.relation() == two.relation() {
            if one != two {
                self.symmetric.insert(one.relation());
            }
            return;
        }
        let (kept, gone) = if one.relation() < two.relation() { (one, two) } else { (two, one) };
        // `gone` leads where `kept` does, so gone's first relation leads there or back.
        let instead = if gone.is_inverse() { kept.reversed() } else { kept };
        for class in self.of.values_mut().filter(|class| class.relation() == gone.relation()) {
            *class = if class.is_inverse() { instead.reversed() } else { instead };
        }
        if self.symmetric.remove(&gone.relation()) {
            self.symmetric.insert(kept.relation());
        }
    }

    fn rewrite(&self, atom: Atom) -> Atom {
        let Some(&label) = self.of.get(&atom.relation) else { return atom };
        let turned = Atom { relation: label.relation(), subject: atom.object, object: atom.subject };
        let straight = Atom { relation: label.relation(), ..atom };
        if self.symmetric.contains(&label.relation()) {
            return straight.min(turned);
        }
        if label.is_inverse() { turned } else { straight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::Names;
    use ruge_rules::{RuleReadOptions, parse_rules};

    #[test]
    fn rules_through_inverse_relations_are_alike() {
        let mut names = Names::default();
        let mut train = Vec::new();
        for i in 0..20 {
            let (a, b) = (format!("a{i}"), format!("b{i}"));
            train.push(names.triple(&a, "parent", &b));
            if i != 3 {
                train.push(names.triple(&b, "child", &a));
            }
            train.push(names.triple(&a, "spouse", &b));
            train.push(names.triple(&b, "spouse", &a));
            if i < 5 {
                train.push(names.triple(&a, "likes", &b));
            }
        }
        let text = "parent(x,z) & spouse(z,y) => knows(x,y)\n\
                    spouse(y,z) & child(z,x) => knows(x,y)\n\
                    child(z,x) & spouse(y,z) => knows(y,x)\n\
                    likes(x,z) & spouse(z,y) => knows(x,y)\n\
                    parent(z,x) & spouse(z,y) => knows(x,y)\n";
        let file = parse_rules(text, &RuleReadOptions::default(), &mut names).expect("rules");
        assert_eq!(file.bad, []);
        let graph = Graph::new(names.entities.len(), names.relations.len(), &train);
        let rules: Vec<&Rule> = file.rules.iter().map(|record| &record.rule).collect();
        let groups = groups(&graph, &rules);
        assert_eq!(groups[0], groups[1], "child is parent turned round");
        // In the third, x and y of the conclusion are exchanged: another rule.
        assert_ne!(groups[0], groups[2]);
        assert_ne!(groups[0], groups[3], "likes holds of a quarter of the pairs");
        assert_ne!(groups[0], groups[4], "the other direction");
    }
}
