//! HolE (Nickel et al. 2016): η = r · (h ⋆ t), circular correlation over ℝᵈ.
//!
//! In the Fourier basis correlation is an entrywise product, η = (1/d) Σ_f ω_f Re(conj(R_f) conj(H_f) T_f) over the
//! half spectrum f = 0 … ⌊d/2⌋, with ω_f = 1 for the real bins and 2 for the others. So HolE is scored as ComplEx with
//! ⌊d/2⌋ + 1 entries on the [`Transform`]ed rows: both entity images are scaled by √(ω_f/d), which makes the entity
//! transform orthonormal, and relation images are the plain spectrum. Gradients are mapped back by the adjoint, because
//! AdaGrad works per parameter and parameters are real.

use std::f32::consts::FRAC_1_SQRT_2;

use super::complex::{add_product, product};
use super::fourier::Fourier;
use super::{Comparator, ScoringFunction, Scratch, Transform};
use crate::cpu::Isa;

/// HolE with rows of `dimension` floats.
#[derive(Clone)]
pub struct HolE {
    dimension: usize,
    fourier: Fourier,
}

impl HolE {
    /// The model over ℝᵈ.
    pub fn new(dimension: usize) -> Self {
        Self::on(dimension, Isa::detect())
    }

    /// The model over ℝᵈ with the transforms of an instruction set. [`Isa::Portable`] gives different bits.
    pub fn on(dimension: usize, isa: Isa) -> Self {
        Self { dimension, fourier: Fourier::new(dimension, isa) }
    }

    #[inline(always)]
    fn bins(&self) -> usize {
        self.dimension / 2 + 1
    }

    /// Whether a bin is its own mirror image, hence real and of weight 1.
    #[inline(always)]
    fn is_real(&self, bin: usize) -> bool {
        bin == 0 || 2 * bin == self.dimension
    }

    /// image = spectrum of the row, times `of_real` in the real bins and `of_complex` in the others.
    fn spectrum(&self, row: &[f32], image: &mut [f32], of_real: f32, of_complex: f32, scratch: &mut Scratch) {
        scratch.real.copy_from_slice(&row[..self.dimension]);
        self.fourier.forward(&mut scratch.real, &mut scratch.spectrum, &mut scratch.work);
        let bins = self.bins();
        for (bin, value) in scratch.spectrum.iter().enumerate() {
            let factor = if self.is_real(bin) { of_real } else { of_complex };
            image[bin] = factor * value.re;
            image[bins + bin] = if self.is_real(bin) { 0.0 } else { factor * value.im };
        }
    }

    /// The adjoint: row = Σ over bins of factor · (re · cos − im · sin), by an inverse transform without its 1/d.
    fn unspectrum(&self, image: &[f32], row: &mut [f32], of_real: f32, of_complex: f32, scratch: &mut Scratch) {
        let bins = self.bins();
        for (bin, value) in scratch.spectrum.iter_mut().enumerate() {
            // The inverse transform counts every complex bin twice, for its mirror image.
            let factor = if self.is_real(bin) { of_real } else { 0.5 * of_complex };
            value.re = factor * image[bin];
            value.im = if self.is_real(bin) { 0.0 } else { factor * image[bins + bin] };
        }
        self.fourier.inverse(&mut scratch.spectrum, &mut scratch.real, &mut scratch.work);
        row[..self.dimension].copy_from_slice(&scratch.real);
    }

    fn entity_factors(&self) -> (f32, f32) {
        let factor = 1.0 / (self.dimension as f32).sqrt();
        (factor, factor / FRAC_1_SQRT_2)
    }
}

impl ScoringFunction for HolE {
    const NAME: &'static str = "hole";
    const COMPARATOR: Comparator = Comparator::Dot;

    fn dimension(&self) -> usize {
        self.dimension
    }
    #[inline(always)]
    fn entity_width(&self) -> usize {
        2 * self.bins()
    }
    #[inline(always)]
    fn relation_width(&self) -> usize {
        2 * self.bins()
    }
    fn transform(&self) -> Option<&dyn Transform> {
        Some(self)
    }

    #[inline(always)]
    fn tail_query(&self, head: &[f32], relation: &[f32], query: &mut [f32]) {
        product::<false>(self.bins(), head, relation, query);
    }
    #[inline(always)]
    fn head_query(&self, relation: &[f32], tail: &[f32], query: &mut [f32]) {
        product::<true>(self.bins(), tail, relation, query);
    }
    #[inline(always)]
    fn tail_query_backward(
        &self,
        head: &[f32],
        relation: &[f32],
        d_query: &[f32],
        d_head: &mut [f32],
        d_relation: &mut [f32],
    ) {
        add_product::<true>(self.bins(), d_query, relation, d_head);
        add_product::<true>(self.bins(), d_query, head, d_relation);
    }
    #[inline(always)]
    fn head_query_backward(
        &self,
        relation: &[f32],
        tail: &[f32],
        d_query: &[f32],
        d_relation: &mut [f32],
        d_tail: &mut [f32],
    ) {
        add_product::<false>(self.bins(), d_query, relation, d_tail);
        add_product::<true>(self.bins(), tail, d_query, d_relation);
    }
}

impl Transform for HolE {
    fn entity_width(&self) -> usize {
        self.dimension
    }
    fn relation_width(&self) -> usize {
        self.dimension
    }
    fn scratch(&self) -> Scratch {
        Scratch {
            real: vec![0.0; self.dimension],
            spectrum: vec![Default::default(); self.bins()],
            work: vec![Default::default(); self.fourier.work()],
        }
    }
    fn entity(&self, parameters: &[f32], image: &mut [f32], scratch: &mut Scratch) {
        let (of_real, of_complex) = self.entity_factors();
        self.spectrum(parameters, image, of_real, of_complex, scratch);
    }
    fn relation(&self, parameters: &[f32], image: &mut [f32], scratch: &mut Scratch) {
        self.spectrum(parameters, image, 1.0, 1.0, scratch);
    }
    fn entity_adjoint(&self, d_image: &[f32], d_parameters: &mut [f32], scratch: &mut Scratch) {
        let (of_real, of_complex) = self.entity_factors();
        self.unspectrum(d_image, d_parameters, of_real, of_complex, scratch);
    }
    fn relation_adjoint(&self, d_image: &[f32], d_parameters: &mut [f32], scratch: &mut Scratch) {
        self.unspectrum(d_image, d_parameters, 1.0, 1.0, scratch);
    }
}
