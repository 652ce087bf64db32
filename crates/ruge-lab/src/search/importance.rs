//! Which leaves mattered.
//!
//! For every open leaf, the share of the variance of the trials' ranks that the leaf explains alone: trials are grouped by its
//! value (numbers by quarters), and the ranks of groups are compared, as in the test of Kruskal and Wallis. The figure is its
//! effect size ε², corrected for what chance would explain: 0 for a leaf that says nothing, 1 for one that says everything.
//! Ranks, because a few trials that failed or diverged would drown a plain variance.
//!
//! Trials are compared at the end of their first rung, where all of them were, and those that failed are the worst. What a
//! leaf does only together with another is not seen, and TPE tries some values far more often than others.

use toml::Value;

use super::space::Space;
use super::{State, Trial};

/// Below this many trials nothing is said.
pub const LEAST: usize = 8;
/// Groups that numbers are cut into.
const GROUPS: usize = 4;

/// What each leaf explains, in the order of the space's leaves; `None` where there is too little to say.
pub fn importance(space: &Space, trials: &[Trial]) -> Vec<Option<f64>> {
    let score = |trial: &Trial| match (trial.rungs.first(), trial.state) {
        (Some(rung), _) => Some(rung.valid_mrr),
        (None, State::Failed) => Some(f64::NEG_INFINITY),
        (None, _) => None,
    };
    let scored: Vec<(&Trial, f64)> = trials.iter().filter_map(|trial| Some((trial, score(trial)?))).collect();
    let ranks = ranks(&scored.iter().map(|(_, score)| *score).collect::<Vec<_>>());
    let of = |leaf: usize| {
        let values: Vec<&Value> = scored.iter().map(|(trial, _)| &trial.point[leaf]).collect();
        let domain = &space.parameters[leaf].domain;
        let places: Vec<f64> = values.iter().map(|value| domain.unit(value)).collect();
        let groups = if domain.count().is_some_and(|count| count <= 2 * GROUPS as u64) || !domain.is_ordered() {
            by_value(&values)
        } else {
            by_quarter(&places)
        };
        explained(&ranks, &groups)
    };
    (0..space.parameters.len()).map(of).collect()
}

/// The rank of each, from 1; equals share the mean of theirs.
fn ranks(scores: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let mut ranks = vec![0.0; scores.len()];
    let mut begin = 0;
    while begin < order.len() {
        let same = |at: &&usize| scores[**at] == scores[order[begin]];
        let count = order[begin..].iter().take_while(same).count();
        order[begin..begin + count].iter().for_each(|&at| ranks[at] = begin as f64 + (count as f64 + 1.0) / 2.0);
        begin += count;
    }
    ranks
}

fn by_value(values: &[&Value]) -> Vec<usize> {
    values.iter().map(|value| values.iter().position(|other| other == value).unwrap_or(0)).collect()
}

/// Quarters of equal size; equal values are never parted.
fn by_quarter(places: &[f64]) -> Vec<usize> {
    let mut sorted = places.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = |place: f64| sorted.partition_point(|other| *other < place);
    places.iter().map(|&place| GROUPS * below(place) / sorted.len()).collect()
}

/// ε² of ranks in groups.
fn explained(ranks: &[f64], groups: &[usize]) -> Option<f64> {
    let n = ranks.len();
    let mut members: std::collections::BTreeMap<usize, Vec<f64>> = Default::default();
    groups.iter().zip(ranks).for_each(|(&group, &rank)| members.entry(group).or_default().push(rank));
    let k = members.len();
    let mean = (n as f64 + 1.0) / 2.0;
    let whole: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    if n < LEAST || k < 2 || n <= k || whole == 0.0 {
        return None;
    }
    let between: f64 = members
        .values()
        .map(|ranks| ranks.len() as f64 * (ranks.iter().sum::<f64>() / ranks.len() as f64 - mean).powi(2))
        .sum();
    let share = between / whole;
    Some((1.0 - (1.0 - share) * (n as f64 - 1.0) / (n as f64 - k as f64)).max(0.0))
}

#[cfg(test)]
mod tests {
    use ruge_kg::random::{Stream, draw, unit};

    use super::super::Rung;
    use super::*;

    #[test]
    fn ranks_and_effect_by_hand() {
        assert_eq!(ranks(&[0.3, 0.1, 0.3, f64::NEG_INFINITY]), [3.5, 2.0, 3.5, 1.0]);
        // Two groups of four, fully apart: between 8 · 2² = 32, whole 42; 1 − (10/42) · 7/6.
        let ranks: Vec<f64> = (1..=8).map(f64::from).collect();
        let found = explained(&ranks, &[0, 0, 0, 0, 1, 1, 1, 1]).unwrap();
        assert!((found - (1.0 - 10.0 / 42.0 * 7.0 / 6.0)).abs() < 1e-12);
        assert_eq!(explained(&ranks, &[0, 1, 1, 0, 0, 1, 1, 0]), Some(0.0), "less than chance would");
        assert!(explained(&ranks[..7], &[0, 0, 0, 1, 1, 1, 1]).is_none() && explained(&ranks, &[0; 8]).is_none());
        assert_eq!(by_quarter(&[0.1, 0.1, 0.1, 0.9]), [0, 0, 0, 3], "equals stay together");
    }

    #[test]
    fn the_leaf_that_matters_is_found() {
        let text = "model.name = [\"complex\", \"distmult\", \"hole\"]\nmodel.dimension = { low = 8, high = 512 }\n\
                    optimizer.entity-rate = { low = 0.01, high = 1.0, scale = \"log\" }";
        let space = Space::parse(text, "x", None).unwrap();
        let trials: Vec<Trial> = (0..60)
            .map(|number| {
                let chance = |at: u64| unit(draw(1, Stream(0x7e60), number, at));
                let point = space.point(&[chance(0), chance(1), chance(2)]);
                // A peak in the rate, a little of the name, nothing of the dimension.
                let off = chance(2) - 0.5;
                let valid_mrr = 1.0 - off * off + if point[1].as_str() == Some("hole") { 0.05 } else { 0.0 };
                let rungs = vec![Rung { epochs: 1, valid_mrr, best_epoch: 1 }];
                Trial { rungs, state: State::Paused, ..Trial::new(number as usize + 1, point) }
            })
            .collect();
        let found: Vec<f64> = importance(&space, &trials).into_iter().flatten().collect();
        assert!(found[2] > 0.4 && found[2] > found[1] && found[1] > 0.02 && found[0] < 0.1, "{found:?}");
        assert!(importance(&space, &trials[..5]).iter().all(Option::is_none));
    }
}
