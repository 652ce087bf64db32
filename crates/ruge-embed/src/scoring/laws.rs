//! The laws of every scoring function, checked against the twin's textbook formulas.

use ruge_kg::random::{self, Stream};

use super::*;
use crate::twin::Scoring;

const DRAWS: Stream = Stream(0x7e57);

/// Parameter rows of one random triple.
fn rows(scoring: &impl ScoringFunction, seed: u64) -> [Vec<f32>; 3] {
    let widths = [entity_parameters(scoring), relation_parameters(scoring), entity_parameters(scoring)];
    [0, 1, 2].map(|role| {
        (0..widths[role])
            .map(|i| 2.0 * random::unit(random::draw(seed, DRAWS, role as u64, i as u64)) as f32 - 1.0)
            .collect()
    })
}

/// The rows as they are scored.
fn images(scoring: &impl ScoringFunction, parameters: &[Vec<f32>; 3]) -> [Vec<f32>; 3] {
    let Some(transform) = scoring.transform() else { return parameters.clone() };
    let mut scratch = transform.scratch();
    let mut images = [scoring.entity_width(), scoring.relation_width(), scoring.entity_width()].map(|w| vec![0.0; w]);
    transform.entity(&parameters[0], &mut images[0], &mut scratch);
    transform.relation(&parameters[1], &mut images[1], &mut scratch);
    transform.entity(&parameters[2], &mut images[2], &mut scratch);
    images
}

fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().map(|&x| f64::from(x)).collect()
}

fn check<F: ScoringFunction>(scoring: &F, twin: Scoring) {
    for seed in 0..8 {
        let parameters = rows(scoring, seed);
        let [h, r, t] = &images(scoring, &parameters);
        let plain = parameters.each_ref().map(|row| wide(row));
        let expected = twin.score(&plain[0], &plain[1], &plain[2]);
        let close = |what: &str, found: f32| {
            let error = (f64::from(found) - expected).abs();
            assert!(error < 2e-5 * (1.0 + expected.abs()), "{}: {what} {found}, textbook {expected}", F::NAME);
        };
        close("score", scoring.score(h, r, t));
        let mut query = vec![0.0; scoring.entity_width()];
        scoring.tail_query(h, r, &mut query);
        close("tail query", row::compare(F::COMPARATOR, &query, t));
        scoring.head_query(r, t, &mut query);
        close("head query", row::compare(F::COMPARATOR, &query, h));

        if F::ASKS_RELATIONS {
            let mut query = vec![0.0; scoring.relation_width()];
            scoring.relation_query(h, t, &mut query);
            close("relation query", row::dot(&query, r));
            let textbook = twin.gradient(&plain[0], &plain[1], &plain[2]);
            let (mut d_h, mut d_t) = (vec![0.0; h.len()], vec![0.0; t.len()]);
            scoring.relation_query_backward(h, t, r, &mut d_h, &mut d_t);
            for (found, expected) in d_h.iter().zip(&textbook[0]).chain(d_t.iter().zip(&textbook[2])) {
                assert!((f64::from(*found) - expected).abs() < 1e-5 * (1.0 + expected.abs()), "{}", F::NAME);
            }
        }

        // The derivative, once through the tail query and once through the head query.
        let d_score = -1.7f32;
        let mut gradients = [h, r, t].map(|row| vec![0.0; row.len()]);
        let [d_h, d_r, d_t] = &mut gradients;
        scoring.backward([h, r, t], d_score, [d_h, d_r, d_t]);
        let mut other = [h, r, t].map(|row| vec![0.0; row.len()]);
        let mut d_query = vec![0.0; query.len()];
        row::add_d_query(F::COMPARATOR, d_score, &query, h, &mut d_query);
        row::add_d_candidate(F::COMPARATOR, d_score, &query, h, &mut other[0]);
        let [_, d_r, d_t] = &mut other;
        scoring.head_query_backward(r, t, &d_query, d_r, d_t);
        let textbook = twin.gradient(&plain[0], &plain[1], &plain[2]);
        for found in [gradients, other] {
            for (role, mut found) in found.into_iter().enumerate() {
                if let Some(transform) = scoring.transform() {
                    let mut scratch = transform.scratch();
                    let mut d_parameters = vec![0.0; parameters[role].len()];
                    match role {
                        1 => transform.relation_adjoint(&found, &mut d_parameters, &mut scratch),
                        _ => transform.entity_adjoint(&found, &mut d_parameters, &mut scratch),
                    }
                    found = d_parameters;
                }
                for m in 0..found.len() {
                    let mut moved = plain.clone();
                    let step = 1e-6;
                    moved[role][m] += step;
                    let above = twin.score(&moved[0], &moved[1], &moved[2]);
                    moved[role][m] -= 2.0 * step;
                    let below = twin.score(&moved[0], &moved[1], &moved[2]);
                    let slope = (above - below) / (2.0 * step);
                    assert!((slope - textbook[role][m]).abs() < 1e-5 * (1.0 + slope.abs()), "textbook of {twin:?}");
                    let found = f64::from(found[m] / d_score);
                    assert!(
                        (found - slope).abs() < 1e-4 * (1.0 + slope.abs()),
                        "{}: derivative {found} by row {role}, entry {m}; by differences {slope}",
                        F::NAME
                    );
                }
            }
        }
    }
}

/// Scores and gradients for every model, at widths that fill whole registers and widths that do not.
#[test]
fn every_model_obeys_the_laws() {
    for d in [1, 2, 5, 8, 24, 37] {
        check(&ComplEx::new(d), Scoring::ComplEx);
        check(&DistMult::new(d), Scoring::DistMult);
        check(&HolE::new(d), Scoring::HolE);
        check(&TransEL1::new(d), Scoring::TransEL1);
        check(&TransEL2::new(d), Scoring::TransEL2);
        check(&RotatE::new(d), Scoring::RotatE);
    }
}

/// ⟨T x, y⟩ = ⟨x, T* y⟩ for both of HolE's maps.
#[test]
fn a_transform_and_its_adjoint_agree() {
    for d in [1, 2, 7, 24] {
        let hole = HolE::new(d);
        let transform = hole.transform().unwrap();
        let mut scratch = transform.scratch();
        let x: Vec<f32> = (0..d).map(|i| (i as f32 * 0.7).sin()).collect();
        let mut y: Vec<f32> = (0..2 * (d / 2 + 1)).map(|i| (i as f32 * 1.3).cos()).collect();
        let bins = d / 2 + 1;
        y[bins] = 0.0;
        if d % 2 == 0 {
            y[2 * bins - 1] = 0.0;
        }
        for entity in [true, false] {
            let (mut image, mut back) = (vec![0.0; y.len()], vec![0.0; d]);
            if entity {
                transform.entity(&x, &mut image, &mut scratch);
                transform.entity_adjoint(&y, &mut back, &mut scratch);
            } else {
                transform.relation(&x, &mut image, &mut scratch);
                transform.relation_adjoint(&y, &mut back, &mut scratch);
            }
            let (left, right) = (row::dot(&image, &y), row::dot(&x, &back));
            assert!((left - right).abs() < 1e-4, "d = {d}: {left} and {right}");
        }
    }
}
