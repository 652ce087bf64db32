//! Fitted evidence in words: what each count adds to the score of a candidate, relation by relation.

use ruge_kg::{Dataset, RelationId, Side};
use ruge_rules::rank::evidence::{DEGREES, Evidence, Feature, GroupWeights, LINKS, ROLES, TYPES, bin_words};
use ruge_rules::rank::{Ranking, Tried};

use crate::report::{Effect, EvidenceRow, EvidenceUse, TriedRow};

/// Relations and directions that are shown: those with most facts.
const ROWS: usize = 40;
/// Effects named for each.
const EFFECTS: usize = 4;
/// What adds less is not named.
const LEAST: f32 = 0.05;

/// The evidence of a ranking, or what was tried where none counts; nothing where none was tried.
pub fn of(ranking: &Ranking, data: &Dataset) -> Option<EvidenceUse> {
    let tried = |Tried { what, mrr, taken }: &Tried| TriedRow { what: what.clone(), mrr: *mrr, taken: *taken };
    let tried: Vec<TriedRow> = ranking.evidence_tried.iter().map(tried).collect();
    let Some(evidence) = &ranking.evidence else {
        return (!tried.is_empty()).then(|| EvidenceUse { tried, fitted: ranking.fitted, ..EvidenceUse::default() });
    };
    let mut groups: Vec<_> = evidence
        .groups
        .iter()
        .filter(|group| (group.relation as usize) < data.relation_count())
        .map(|group| (data.graph().facts(RelationId(group.relation)).len(), group))
        .collect();
    groups.sort_by_key(|(facts, group)| (std::cmp::Reverse(*facts), group.relation, group.side == Side::Head));
    let rows = groups.into_iter().take(ROWS).map(|(_, group)| EvidenceRow {
        relation: data.called_relation(RelationId(group.relation)),
        asked: place(group.side).into(),
        effects: effects(evidence, &group.weights, place(group.side)),
    });
    Some(EvidenceUse {
        features: evidence.features.iter().map(|feature| (feature.name().into(), asks(*feature).into())).collect(),
        fitted: ranking.fitted,
        tried,
        shared: effects(evidence, &evidence.shared, "answer"),
        rows: rows.collect(),
    })
}

fn place(side: Side) -> &'static str {
    match side {
        Side::Head => "head",
        Side::Tail => "tail",
    }
}

fn asks(feature: Feature) -> &'static str {
    match feature {
        Feature::Role => "How many facts of this relation already have the candidate in this place?",
        Feature::Link => "Does a fact already link the candidate to the known end? Are the two the same?",
        Feature::Degree => "How many facts is the candidate part of?",
        Feature::Type => "How much do its other relations look like those of entities in this place?",
    }
}

/// Of each feature the count that adds most and the one that takes most, the strongest first.
fn effects(evidence: &Evidence, weights: &GroupWeights, place: &str) -> Vec<Effect> {
    let mut found: Vec<Effect> = Vec::new();
    let mut at = 0;
    for (feature, bins) in
        [(Feature::Role, ROLES), (Feature::Link, LINKS), (Feature::Degree, DEGREES), (Feature::Type, TYPES)]
    {
        let own = &weights[at..at + bins];
        at += bins;
        if !evidence.features.contains(&feature) {
            continue;
        }
        let by_value = |a: &(usize, &f32), b: &(usize, &f32)| a.1.total_cmp(b.1);
        let ends = [own.iter().enumerate().max_by(by_value), own.iter().enumerate().min_by(by_value)];
        for (bin, &value) in ends.into_iter().flatten().filter(|(_, value)| value.abs() >= LEAST) {
            let effect = Effect { words: words(feature, bin, place), value: f64::from(value) };
            if !found.contains(&effect) {
                found.push(effect);
            }
        }
    }
    found.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
    found.truncate(EFFECTS);
    found
}

fn words(feature: Feature, bin: usize, place: &str) -> String {
    let facts = |bins: usize| match bin_words(bin, bins).as_str() {
        "1" => "1 fact".to_string(),
        count => format!("{count} facts"),
    };
    match (feature, bin) {
        (Feature::Role, 0) => format!("no fact has it as {place} yet"),
        (Feature::Role, _) => format!("already the {place} of {}", facts(ROLES)),
        (Feature::Link, 0) => "already linked to the known end".into(),
        (Feature::Link, _) => "the known end itself".into(),
        (Feature::Degree, _) => format!("part of {} in all", facts(DEGREES)),
        (Feature::Type, bin) => {
            const LIKE: [&str; TYPES] = [
                "not at all like",
                "unlike",
                "rather unlike",
                "a little unlike",
                "a little like",
                "rather like",
                "like",
                "very like",
            ];
            format!("of a type {} that of other {place}s", LIKE[bin.min(TYPES - 1)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::Names;
    use ruge_rules::rank::Setting;
    use ruge_rules::rank::evidence::{Group, WEIGHTS};

    #[test]
    fn weights_are_told_in_words() {
        let mut names = Names::default();
        let train = vec![names.triple("a", "r", "b"), names.triple("b", "s", "c")];
        let data = Dataset::new(names, train, vec![], vec![]);
        let mut weights = [0.0; WEIGHTS];
        (weights[1], weights[0], weights[ROLES], weights[ROLES + LINKS + 3]) = (-2.5, 0.5, 0.25, 9.0);
        let evidence = Evidence {
            features: vec![Feature::Role, Feature::Link],
            shared: [0.0; WEIGHTS],
            groups: vec![Group { relation: 0, side: Side::Tail, weights }],
        };
        let tried = vec![Tried { what: "none".into(), mrr: 0.3, taken: false }];
        let ranking =
            Ranking { evidence: Some(evidence), evidence_tried: tried, fitted: 7, ..Ranking::of(Setting::ALONE) };
        let found = of(&ranking, &data).expect("evidence counts");
        let [row] = &found.rows[..] else { panic!("{found:?}") };
        let said: Vec<String> = row.effects.iter().map(|x| format!("{:+.2} {}", x.value, x.words)).collect();
        // What does not count is not told, however large its weight.
        assert_eq!(
            said,
            [
                "-2.50 already the tail of 1 fact",
                "+0.50 no fact has it as tail yet",
                "+0.25 already linked to the known end"
            ]
        );
        assert_eq!((row.relation.as_str(), row.asked.as_str(), found.fitted), ("r", "tail", 7));
        assert!(found.shared.is_empty() && found.tried.len() == 1);
        // Without evidence, what was tried remains.
        let without = of(&Ranking { evidence: None, ..ranking }, &data).expect("something was tried");
        assert!(without.features.is_empty() && without.tried == found.tried);
        assert!(of(&Ranking::of(Setting::ALONE), &data).is_none());
    }
}
