//! What of a ranking holds on a graph with other entities: everything that speaks of relations.
//!
//! A rule like `r(x, z), s(z, y) ⇒ h(x, y)` holds wherever its relations do, and so do its weight, the settings of its relation
//! and direction, and what counts about candidates weigh. A rule that names an entity says nothing there, and a ranker
//! that these were added to has no vectors for new entities. If rules were also fitted by themselves, that fit is used.
//!
//! Relations keep their ids, so nothing is translated here: the new graph takes the ids of the old one.

use super::{Ranking, Setting, Weights};
use crate::io::RuleRecord;

/// Rules, weights and settings for a graph with other entities.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Rules that name no entity, in the order given.
    pub rules: Vec<RuleRecord>,
    /// Their learned weights.
    pub weights: Option<Weights>,
    /// How they rank.
    pub ranking: Ranking,
    /// Rules that name an entity; they are not used.
    pub constants: usize,
}

impl Transfer {
    /// Of rules that rank as `ranking` says, next to another ranker or alone; nothing if neither rules nor evidence are left.
    pub fn of(
        rules: &[RuleRecord],
        weights: Option<&[[f32; 2]]>,
        ranking: Option<&Ranking>,
        next_to_another: bool,
    ) -> Option<Self> {
        let stays: Vec<usize> = (0..rules.len()).filter(|&at| !rules[at].rule.has_constants()).collect();
        let evidence = ranking.and_then(|ranking| ranking.evidence.clone());
        let ranking = match ranking.and_then(|ranking| ranking.alone.as_deref()) {
            Some(alone) => alone.clone(),
            None => match ranking.filter(|_| !next_to_another) {
                Some(ranking) => ranking.clone(),
                None => Ranking { evidence, ..Ranking::of(Setting::ALONE) },
            },
        };
        if stays.is_empty() && ranking.evidence.is_none() {
            return None;
        }
        Some(Self {
            constants: rules.len() - stays.len(),
            weights: weights.map(|weights| stays.iter().map(|&at| weights[at]).collect()),
            rules: stays.into_iter().map(|at| rules[at].clone()).collect(),
            ranking,
        })
    }
}

#[cfg(test)]
mod tests {
    use ruge_kg::{EntityId, RelationId};

    use super::super::evidence::{Evidence, Feature};
    use super::*;
    use crate::{Atom, Confidence, Rule, Term, Variable};

    #[test]
    fn rules_that_name_nobody_go_along_with_their_weights() {
        let (x, y) = (Term::from(Variable::X), Term::from(Variable::Y));
        let rule = |object: Term| RuleRecord {
            line: 0,
            rule: Rule::new(Atom::new(RelationId(0), x, object), vec![Atom::new(RelationId(1), x, object)]),
            confidence: Confidence::HARD,
            stated: Default::default(),
            counts: None,
        };
        let rules = [rule(EntityId(3).into()), rule(y)];
        let weights = [[1.0, 2.0], [3.0, 4.0]];
        let smoothing = |smoothing| Ranking { smoothing, ..Ranking::of(Setting::ALONE) };
        let beside = smoothing(9.0);
        let both = Ranking { alone: Some(Box::new(smoothing(7.0))), ..smoothing(9.0) };
        let of = |ranking| Transfer::of(&rules, Some(&weights), ranking, true).expect("a rule");
        let with = of(Some(&both));
        assert_eq!((with.rules.len(), with.constants, with.weights), (1, 1, Some(vec![[3.0, 4.0]])));
        assert_eq!(with.ranking.smoothing, 7.0, "fitted by themselves");
        assert_eq!(of(Some(&beside)).ranking, Ranking::of(Setting::ALONE), "fitted next to a model only");
        assert_eq!(of(None).ranking, Ranking::of(Setting::ALONE));
        assert!(Transfer::of(&rules[..1], None, Some(&both), true).is_none(), "nothing is left");
    }

    #[test]
    fn evidence_goes_along_even_where_no_rule_does() {
        let weights = std::array::from_fn(|at| at as f32);
        let evidence = Evidence { features: vec![Feature::Role], shared: weights, groups: vec![] };
        let fitted = Ranking { evidence: Some(evidence.clone()), ..Ranking::of(Setting::ALONE) };
        let alone = Transfer::of(&[], None, Some(&fitted), false).expect("evidence");
        assert_eq!((alone.rules.len(), alone.ranking.evidence), (0, Some(evidence.clone())));
        let beside = Transfer::of(&[], None, Some(&fitted), true).expect("evidence");
        assert_eq!(beside.ranking, Ranking { evidence: Some(evidence), ..Ranking::of(Setting::ALONE) });
    }
}
