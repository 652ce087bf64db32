//! The half spectrum of a real row and its inverse, for [`HolE`](super::HolE).
//!
//! With AVX2 or AVX-512 the transforms are those of `realfft`, with fused 256-bit registers, hence the same bits.
//! Otherwise they are `rustfft`'s scalar ones over a complex row: different bits, but the same on all such machines.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlannerScalar};

use crate::cpu::Isa;

/// Both transforms of one length.
#[derive(Clone)]
pub(super) struct Fourier {
    length: usize,
    plans: Plans,
}

#[derive(Clone)]
enum Plans {
    Fused { forward: Arc<dyn RealToComplex<f32>>, inverse: Arc<dyn ComplexToReal<f32>> },
    Plain { forward: Arc<dyn Fft<f32>>, inverse: Arc<dyn Fft<f32>> },
}

impl Fourier {
    /// Transforms of rows of `length` floats.
    pub fn new(length: usize, isa: Isa) -> Self {
        let plans = if isa == Isa::Portable {
            let mut planner = FftPlannerScalar::new();
            Plans::Plain { forward: planner.plan_fft_forward(length), inverse: planner.plan_fft_inverse(length) }
        } else {
            // Uses AVX and FMA if present, as they are here.
            let mut planner = RealFftPlanner::new();
            Plans::Fused { forward: planner.plan_fft_forward(length), inverse: planner.plan_fft_inverse(length) }
        };
        Self { length, plans }
    }

    /// Complex numbers of scratch space for either transform.
    pub fn work(&self) -> usize {
        match &self.plans {
            Plans::Fused { forward, inverse } => forward.get_scratch_len().max(inverse.get_scratch_len()),
            Plans::Plain { forward, inverse } => {
                self.length + forward.get_inplace_scratch_len().max(inverse.get_inplace_scratch_len())
            }
        }
    }

    /// The first ⌊length/2⌋ + 1 bins of the row's spectrum. May overwrite the row.
    pub fn forward(&self, row: &mut [f32], spectrum: &mut [Complex<f32>], work: &mut [Complex<f32>]) {
        match &self.plans {
            Plans::Fused { forward, .. } => forward
                .process_with_scratch(row, spectrum, work)
                .expect("the buffers have the lengths the plan asked for"),
            Plans::Plain { forward, .. } => {
                let (whole, work) = work.split_at_mut(self.length);
                whole.iter_mut().zip(&*row).for_each(|(value, &x)| *value = Complex::new(x, 0.0));
                forward.process_with_scratch(whole, work);
                spectrum.copy_from_slice(&whole[..spectrum.len()]);
            }
        }
    }

    /// The row with this half spectrum, times `length`. Bins that are their own mirror image must be real. May
    /// overwrite it.
    pub fn inverse(&self, spectrum: &mut [Complex<f32>], row: &mut [f32], work: &mut [Complex<f32>]) {
        match &self.plans {
            Plans::Fused { inverse, .. } => inverse
                .process_with_scratch(spectrum, row, work)
                .expect("the buffers have the lengths the plan asked for, and real bins are real"),
            Plans::Plain { inverse, .. } => {
                let (whole, work) = work.split_at_mut(self.length);
                for (bin, value) in whole.iter_mut().enumerate() {
                    *value = if bin < spectrum.len() { spectrum[bin] } else { spectrum[self.length - bin].conj() };
                }
                inverse.process_with_scratch(whole, work);
                row.iter_mut().zip(&*whole).for_each(|(x, value)| *x = value.re);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(length: usize, isa: Isa) -> (Vec<u32>, Vec<f64>, Vec<f32>) {
        let fourier = Fourier::new(length, isa);
        let entry = |i: usize| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
        let mut row: Vec<f32> = (0..length).map(entry).collect();
        let mut spectrum = vec![Complex::default(); length / 2 + 1];
        let mut work = vec![Complex::default(); fourier.work()];
        fourier.forward(&mut row, &mut spectrum, &mut work);
        let found: Vec<f64> = spectrum.iter().flat_map(|bin| [f64::from(bin.re), f64::from(bin.im)]).collect();
        spectrum[0].im = 0.0;
        if length.is_multiple_of(2) {
            spectrum[length / 2].im = 0.0;
        }
        fourier.inverse(&mut spectrum, &mut row, &mut work);
        let bits = found.iter().map(|&x| (x as f32).to_bits()).chain(row.iter().map(|x| x.to_bits())).collect();
        (bits, found, row)
    }

    #[test]
    fn every_instruction_set_transforms_and_the_wide_ones_to_the_same_bits() {
        for length in [1, 2, 3, 4, 5, 10, 16, 50, 97, 100, 150, 200, 256] {
            let mut fused = Vec::new();
            for isa in Isa::available() {
                let (bits, spectrum, row) = both(length, isa);
                let entry = |i: usize| f64::from(((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0);
                for bin in 0..=length / 2 {
                    let turn = |i: usize| -std::f64::consts::TAU * (i * bin % length) as f64 / length as f64;
                    let want = [f64::cos as fn(f64) -> f64, f64::sin]
                        .map(|part| (0..length).map(|i| entry(i) * part(turn(i))).sum::<f64>());
                    let close = (spectrum[2 * bin] - want[0]).hypot(spectrum[2 * bin + 1] - want[1]) < 1e-4;
                    assert!(
                        close,
                        "{isa:?}, bin {bin} of {length}: {:?} for {want:?}",
                        &spectrum[2 * bin..2 * bin + 2]
                    );
                }
                for (i, &x) in row.iter().enumerate() {
                    let want = entry(i) * length as f64;
                    assert!((f64::from(x) - want).abs() < 1e-3, "{isa:?}, entry {i} of {length}: {x} for {want}");
                }
                if isa != Isa::Portable {
                    fused.push(bits);
                }
            }
            assert!(fused.windows(2).all(|pair| pair[0] == pair[1]), "length {length}");
        }
    }
}
