//! Which supported bodies become rules.

use ruge_kg::Label;

use super::bound::RULE_BYTES;
use super::support::Supported;
use super::{Body, Head, Pool, Scratch, Shapes, denominator};
use crate::measure::Counts;

/// Applies confidences, perfect rules, skyline and shapes; `None` if stopped.
pub(crate) fn select(head: &Head<'_>, supported: &Supported, pool: &Pool) -> Option<Vec<(Body, Counts)>> {
    pool.with(|scratch| {
        denominator::mark(head, scratch);
        let rules = select_marked(head, supported, scratch);
        denominator::unmark(head, scratch);
        let rules = rules?;
        head.hold(rules.len(), RULE_BYTES)?;
        Some(rules)
    })
}

fn select_marked(head: &Head<'_>, supported: &Supported, scratch: &mut Scratch) -> Option<Vec<(Body, Counts)>> {
    let mut rules = Vec::new();
    let passes = |counts: &Counts| counts.pca() >= head.config.min_pca && counts.standard() >= head.config.min_std;

    // Parents first: a body over the same pair is compared with both of its atoms, however weak they are.
    let parents: Vec<(Label, Counts)> = supported
        .one
        .iter()
        .map(|&(label, support)| Some((label, denominator::one(head, label, support, scratch)?)))
        .collect::<Option<_>>()?;
    rules
        .extend(parents.iter().filter(|(_, counts)| passes(counts)).map(|&(label, counts)| (Body::One(label), counts)));

    if head.config.shapes == Shapes::All {
        let parent = |label: Label| {
            let at = parents
                .binary_search_by_key(&label, |&(label, _)| label)
                .expect("a part has at least the support of the whole");
            &parents[at].1
        };
        for &(a, b, support) in &supported.same_pair {
            head.spend(&mut scratch.fuel, 8)?;
            let (left, right) = (parent(a), parent(b));
            if is_perfect(left) && is_perfect(right) {
                continue;
            }
            let limit = head.config.largest_body(support);
            let Some(counts) = denominator::same_pair(head, (a, b, support), limit, scratch)? else { continue };
            if passes(&counts) && (!head.config.skyline || (beats(&counts, left) && beats(&counts, right))) {
                rules.push((Body::SamePair(a, b), counts));
            }
        }
    }

    let mut paths: Vec<(Label, Label, (Label, Label, u64))> = supported
        .paths
        .iter()
        .filter(|&&(first, second, _)| wanted(head, first, second))
        .map(|&path| {
            let (from, onward) = denominator::from_functional(head.side, path.0, path.1);
            (from, onward, path)
        })
        .collect();
    // Bodies with the same label at the functional variable share their starting points.
    paths.sort_unstable();
    for group in paths.chunk_by(|a, b| a.0 == b.0) {
        let start = denominator::Start::new(head, group[0].0, scratch)?;
        for &(_, onward, (first, second, support)) in group {
            let limit = head.config.largest_body(support);
            if !start.at_most(head, onward, limit, scratch)? {
                continue;
            }
            let counts = denominator::path(head, first, second, support, scratch)?;
            if passes(&counts) {
                rules.push((Body::Path(first, second), counts));
            }
        }
    }
    Some(rules)
}

/// Whether the configured shapes include this path.
fn wanted(head: &Head<'_>, first: Label, second: Label) -> bool {
    match head.config.shapes {
        Shapes::All => true,
        Shapes::DirectedChains => {
            first.is_inverse() == second.is_inverse()
                && first.relation() != second.relation()
                && first.relation() != head.relation
                && second.relation() != head.relation
        }
    }
}

/// A rule without exceptions is not refined.
fn is_perfect(counts: &Counts) -> bool {
    counts.support == counts.pca_body()
}

/// Strictly higher PCA confidence, compared as exact fractions.
fn beats(counts: &Counts, parent: &Counts) -> bool {
    u128::from(counts.support) * u128::from(parent.pca_body())
        > u128::from(parent.support) * u128::from(counts.pca_body())
}
