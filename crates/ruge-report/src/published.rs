//! Published figures for well-known data sets, to show next to a run's own.
//!
//! A data set is recognised by its counts, not by its name: a folder called `fb15k` may contain anything, and published
//! figures next to other data would mislead. All figures are filtered, with both sides pooled.

use std::collections::BTreeMap;

use crate::report::Published;

const RUGE: &str = "Guo et al. 2018";
const ROTATE: &str = "Sun et al. 2019";

/// Method, name, source, MRR, median rank, Hits@1, 3, 5, 10; NaN if not published.
type Row = (&'static str, &'static str, &'static str, f64, f64, [f64; 4]);

const NONE: f64 = f64::NAN;

/// Entities, relations, train, valid, test; and the published rows.
const SETS: &[([usize; 5], &[Row])] = &[
    (
        [14_951, 1_345, 483_142, 50_000, 59_071],
        &[
            ("transe", "TransE", RUGE, 0.400, 4.0, [0.246, 0.495, 0.576, 0.662]),
            ("distmult", "DistMult", RUGE, 0.644, 1.0, [0.532, 0.730, 0.769, 0.812]),
            ("hole", "HolE", RUGE, 0.600, 2.0, [0.485, 0.673, 0.722, 0.779]),
            ("complex", "ComplEx", RUGE, 0.690, 1.0, [0.598, 0.756, 0.793, 0.837]),
            ("ptranse", "PTransE", RUGE, 0.679, 1.0, [0.565, 0.768, 0.810, 0.855]),
            ("kale", "KALE", RUGE, 0.523, 2.0, [0.383, 0.616, 0.683, 0.762]),
            ("ruge", "RUGE", RUGE, 0.768, 1.0, [0.703, 0.815, 0.836, 0.865]),
            ("rotate", "RotatE", ROTATE, 0.797, NONE, [NONE; 4]),
        ],
    ),
    (
        [123_189, 37, 989_132, 50_000, 50_000],
        &[
            ("transe", "TransE", RUGE, 0.303, 13.0, [0.218, 0.336, 0.387, 0.475]),
            ("distmult", "DistMult", RUGE, 0.365, 6.0, [0.262, 0.411, 0.493, 0.575]),
            ("hole", "HolE", RUGE, 0.380, 7.0, [0.288, 0.420, 0.479, 0.551]),
            ("complex", "ComplEx", RUGE, 0.417, 4.0, [0.320, 0.471, 0.533, 0.603]),
            ("ptranse", "PTransE", RUGE, 0.403, 9.0, [0.339, 0.444, 0.473, 0.506]),
            ("kale", "KALE", RUGE, 0.321, 9.0, [0.215, 0.372, 0.438, 0.522]),
            ("ruge", "RUGE", RUGE, 0.431, 4.0, [0.340, 0.482, 0.541, 0.603]),
        ],
    ),
    ([40_943, 18, 141_442, 5_000, 5_000], &[("rotate", "RotatE", ROTATE, 0.949, NONE, [NONE; 4])]),
    ([14_541, 237, 272_115, 17_535, 20_466], &[("rotate", "RotatE", ROTATE, 0.337, NONE, [NONE; 4])]),
    ([40_943, 11, 86_835, 3_034, 3_134], &[("rotate", "RotatE", ROTATE, 0.477, NONE, [NONE; 4])]),
];

/// The figures for data with these counts; empty for unknown data.
pub fn of(entities: usize, relations: usize, splits: [usize; 3]) -> Vec<Published> {
    let counts = [entities, relations, splits[0], splits[1], splits[2]];
    let known = SETS.iter().find(|(of, _)| *of == counts).map_or(&[][..], |(_, rows)| rows);
    known
        .iter()
        .map(|&(method, name, source, mrr, median, hits)| Published {
            method: method.into(),
            name: name.into(),
            source: source.into(),
            mrr,
            median: median.is_finite().then_some(median),
            hits: [1, 3, 5, 10]
                .into_iter()
                .zip(hits)
                .filter(|(_, share)| share.is_finite())
                .collect::<BTreeMap<_, _>>(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_recognised_by_their_counts() {
        let rows = of(14_951, 1_345, [483_142, 50_000, 59_071]);
        let ruge = rows.iter().find(|row| row.method == "ruge").unwrap();
        assert_eq!((ruge.mrr, ruge.hits[&1], ruge.median), (0.768, 0.703, Some(1.0)));
        assert!(of(14_951, 1_345, [483_141, 50_000, 59_071]).is_empty());
        assert!(of(40_943, 11, [86_835, 3_034, 3_134])[0].hits.is_empty());
    }
}
