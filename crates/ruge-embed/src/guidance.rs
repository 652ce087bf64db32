//! From the truths of premises to soft labels (RUGE) or to gradients of rule losses (KALE).
//!
//! These are pure functions of truth values; the model computes the truths.

use std::cmp::Reverse;

use crate::batch::Batch;
use crate::fuzzy::TNorm;

/// The groundings of a batch, grouped by the unlabeled triple they conclude.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supports {
    /// (index of the triple, grounding, truth of its premises), sorted by index, then descending truth.
    sorted: Vec<(u32, u32, f32)>,
    /// (truth of premises, confidence), in the same order.
    groundings: Vec<(f32, f32)>,
    ends: Vec<u32>,
    stack: Vec<f32>,
}

impl Supports {
    /// The groundings that conclude a triple, by descending truth of their premises.
    #[inline(always)]
    pub fn of(&self, place: usize) -> &[(f32, f32)] {
        let from = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        &self.groundings[from..self.ends[place] as usize]
    }

    /// Groups the batch's groundings by conclusion, given the truths of all premises.
    pub fn weigh(&mut self, batch: &Batch, t_norm: TNorm, truths: &[f32]) {
        let Self { sorted, groundings, ends, stack } = self;
        sorted.clear();
        let mut from = 0;
        for grounding in 0..batch.evidence.len() {
            let to = from + batch.evidence.premises(grounding).len();
            let premise = t_norm.truth_of(batch.evidence.formula(grounding), &truths[from..to], stack);
            sorted.push((batch.places[grounding], grounding as u32, premise));
            from = to;
        }
        // Truths are not negative, so their bits sort like their values.
        sorted.sort_unstable_by_key(|&(place, grounding, premise)| (place, Reverse(premise.to_bits()), grounding));
        groundings.clear();
        ends.clear();
        for of_one in sorted.chunk_by(|x, y| x.0 == y.0) {
            groundings.extend(of_one.iter().map(|&(_, g, premise)| (premise, batch.evidence.confidence(g as usize))));
            ends.push(groundings.len() as u32);
        }
    }
}

/// KALE: `pull` · ∂/∂I of Σ max(0, margin − π(g) + π(g′)) for every atom, with π = premise · (I_c − 1) + 1; g′ has
/// another relation in its conclusion. `truths` are the atoms' I; confidences are ignored.
pub(crate) fn inject(batch: &Batch, truths: &[f32], pull: f32, margin: f32, d_scores: &mut Vec<f32>) {
    d_scores.clear();
    d_scores.resize(batch.unlabeled.len(), 0.0);
    let (mut atoms, mut stack) = (Vec::new(), Vec::new());
    let mut from = 0;
    for grounding in 0..batch.evidence.len() {
        let premises = batch.evidence.premises(grounding).len();
        let places = &batch.places[from..from + premises + 2];
        from += premises + 2;
        atoms.clear();
        atoms.extend(places.iter().map(|&place| truths[place as usize]));
        let (kept, corrupted) = (atoms[premises], atoms[premises + 1]);
        let formula = batch.evidence.formula(grounding);
        let premise = TNorm::Product.truth_of(formula, &atoms[..premises], &mut stack);
        if margin - premise * (kept - 1.0) + premise * (corrupted - 1.0) <= 0.0 {
            continue;
        }
        for at in 0..premises {
            // A formula is linear in each atom: the slope is the difference between true and false.
            let own = atoms[at];
            let [below, above] = [0.0, 1.0].map(|truth| {
                atoms[at] = truth;
                TNorm::Product.truth_of(formula, &atoms[..premises], &mut stack)
            });
            atoms[at] = own;
            d_scores[places[at] as usize] += pull * (above - below) * (corrupted - kept);
        }
        d_scores[places[premises] as usize] -= pull * premise;
        d_scores[places[premises + 1] as usize] += pull * premise;
    }
}
