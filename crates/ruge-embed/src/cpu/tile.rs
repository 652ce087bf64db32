//! The register tile of exact ranking: scores twelve queries against thirty-two candidates, and either counts the
//! scores or compares them with the worst answer kept so far.
//!
//! A *panel* holds 32 candidates, entry by entry (`panel[k][candidate]`); a *group* holds 12 queries the same way. The
//! tile keeps all 384 running scores in registers, compares them with each query's target, and returns only counts: the
//! score matrix is never written.
//!
//! *Order of summation.* Each score is a single running sum over k = 0, 1, 2, … with fused multiply-add, as in
//! [`ordered_score`]. Lanes run over candidates, never over k, so every instruction set gives the same bits, and a
//! target scored separately ties with itself.

use super::Isa;
use crate::scoring::Comparator;

/// Candidates per panel.
pub const PANEL: usize = 32;
/// Queries per group.
pub const GROUP: usize = 12;

const DOT: u8 = Comparator::Dot as u8;
const L1: u8 = Comparator::NegL1 as u8;
const L2: u8 = Comparator::NegL2 as u8;
const MODULUS: u8 = Comparator::NegModulus as u8;

/// Counts of candidates relative to a query's target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Candidates with a higher score.
    pub better: u32,
    /// Candidates with the same score.
    pub equal: u32,
    /// Those of `better` that are known facts.
    pub better_known: u32,
    /// Those of `equal` that are known facts.
    pub equal_known: u32,
}

impl Tally {
    #[inline(always)]
    /// Adds counts over other candidates; a NaN mark is kept.
    pub fn merge(&mut self, other: Tally) {
        self.better += other.better;
        self.equal = self.equal.saturating_add(other.equal);
        self.better_known += other.better_known;
        self.equal_known += other.equal_known;
    }

    #[inline(always)]
    fn add(&mut self, better: u32, equal: u32, known: u32) {
        self.better += better.count_ones();
        self.equal += equal.count_ones();
        self.better_known += (better & known).count_ones();
        self.equal_known += (equal & known).count_ones();
    }
}

/// The score as summed by ranking. L2 distances are compared squared: the same order without the root.
#[inline(always)]
pub fn ordered_score(comparator: Comparator, query: &[f32], candidate: &[f32]) -> f32 {
    let pairs = || query.iter().zip(candidate);
    match comparator {
        Comparator::Dot => pairs().fold(0.0f32, |sum, (&q, &e)| q.mul_add(e, sum)),
        Comparator::NegL1 => -pairs().fold(0.0f32, |sum, (&q, &e)| sum + (q - e).abs()),
        Comparator::NegL2 => -pairs().fold(0.0f32, |sum, (&q, &e)| (q - e).mul_add(q - e, sum)),
        Comparator::NegModulus => {
            let half = query.len() / 2;
            -(0..half).fold(0.0f32, |sum, m| {
                let (re, im) = (query[m] - candidate[m], query[half + m] - candidate[half + m]);
                sum + im.mul_add(im, re * re).sqrt()
            })
        }
    }
}

/// Adds the panel's counts to each query's tally. `panel` is width × 32, `group` width × 12; bit c of `known[i]` means
/// that candidate c is a known fact of query i. NaN is neither better nor equal.
pub fn count(
    isa: Isa,
    comparator: Comparator,
    panel: &[f32],
    group: &[f32],
    targets: &[f32; GROUP],
    known: &[u32; GROUP],
    tallies: &mut [Tally; GROUP],
) {
    match comparator {
        Comparator::Dot => count_as::<DOT>(isa, panel, group, targets, known, tallies),
        Comparator::NegL1 => count_as::<L1>(isa, panel, group, targets, known, tallies),
        Comparator::NegL2 => count_as::<L2>(isa, panel, group, targets, known, tallies),
        Comparator::NegModulus => count_as::<MODULUS>(isa, panel, group, targets, known, tallies),
    }
}

#[inline(always)]
fn count_as<const C: u8>(
    isa: Isa,
    panel: &[f32],
    group: &[f32],
    targets: &[f32; GROUP],
    known: &[u32; GROUP],
    tallies: &mut [Tally; GROUP],
) {
    let (panel, panel_rest) = panel.as_chunks::<PANEL>();
    let (group, group_rest) = group.as_chunks::<GROUP>();
    assert!(panel_rest.is_empty() && group_rest.is_empty(), "panels and groups hold whole entries");
    assert_eq!(panel.len(), group.len(), "panel and group have the same width");
    assert!(isa.is_supported(), "the machine has no {isa:?}");
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `is_supported` has just checked every feature that `avx512` is compiled for.
        Isa::Avx512 => unsafe { x86::avx512::<C>(panel, group, targets, known, tallies) },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            for (queries, candidates) in [(0, 0), (0, 16), (6, 0), (6, 16)] {
                // SAFETY: `is_supported` has just checked every feature that `avx2` is compiled for.
                unsafe { x86::avx2::<C>(panel, group, queries, candidates, targets, known, tallies) }
            }
        }
        _ => portable::<C>(panel, group, targets, known, tallies),
    }
}

/// The scores of a tile, and which of them exceed the thresholds.
#[derive(Clone, Debug)]
pub struct Above {
    /// By query, then candidate.
    pub scores: [[f32; PANEL]; GROUP],
    /// Bit c of entry i: candidate c of query i is above the query's threshold.
    pub above: [u32; GROUP],
}

impl Default for Above {
    fn default() -> Self {
        Self { scores: [[0.0; PANEL]; GROUP], above: [0; GROUP] }
    }
}

/// Scores a panel for every query of a group and marks the scores above each query's threshold; NaN is never above.
/// Shapes and bits are those of [`count`].
pub fn above(
    isa: Isa,
    comparator: Comparator,
    panel: &[f32],
    group: &[f32],
    thresholds: &[f32; GROUP],
    found: &mut Above,
) {
    match comparator {
        Comparator::Dot => above_as::<DOT>(isa, panel, group, thresholds, found),
        Comparator::NegL1 => above_as::<L1>(isa, panel, group, thresholds, found),
        Comparator::NegL2 => above_as::<L2>(isa, panel, group, thresholds, found),
        Comparator::NegModulus => above_as::<MODULUS>(isa, panel, group, thresholds, found),
    }
}

#[inline(always)]
fn above_as<const C: u8>(isa: Isa, panel: &[f32], group: &[f32], thresholds: &[f32; GROUP], found: &mut Above) {
    let (panel, panel_rest) = panel.as_chunks::<PANEL>();
    let (group, group_rest) = group.as_chunks::<GROUP>();
    assert!(panel_rest.is_empty() && group_rest.is_empty(), "panels and groups hold whole entries");
    assert_eq!(panel.len(), group.len(), "panel and group have the same width");
    assert!(isa.is_supported(), "the machine has no {isa:?}");
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `is_supported` has just checked every feature that `avx512_above` is compiled for.
        Isa::Avx512 => unsafe { x86::avx512_above::<C>(panel, group, thresholds, found) },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            found.above = [0; GROUP];
            for (queries, candidates) in [(0, 0), (0, 16), (6, 0), (6, 16)] {
                // SAFETY: `is_supported` has just checked every feature that `avx2_above` is compiled for.
                unsafe { x86::avx2_above::<C>(panel, group, queries, candidates, thresholds, found) }
            }
        }
        _ => {
            for (i, scores) in found.scores.iter_mut().enumerate() {
                score_panel::<C>(panel, |k| group[k][i], scores);
                found.above[i] =
                    scores.iter().enumerate().fold(0, |mask, (c, &score)| mask | u32::from(score > thresholds[i]) << c);
            }
        }
    }
}

/// The tile in plain Rust, one query at a time.
fn portable<const C: u8>(
    panel: &[[f32; PANEL]],
    group: &[[f32; GROUP]],
    targets: &[f32; GROUP],
    known: &[u32; GROUP],
    tallies: &mut [Tally; GROUP],
) {
    for (i, tally) in tallies.iter_mut().enumerate() {
        let mut sums = [0.0f32; PANEL];
        score_panel::<C>(panel, |k| group[k][i], &mut sums);
        let (mut better, mut equal) = (0, 0);
        for (c, &score) in sums.iter().enumerate() {
            better |= u32::from(score > targets[i]) << c;
            equal |= u32::from(score == targets[i]) << c;
        }
        tally.add(better, equal, known[i]);
    }
}

/// Scores one query against the 32 candidates of a panel, with lanes over candidates.
#[inline(always)]
fn score_panel<const C: u8>(panel: &[[f32; PANEL]], query: impl Fn(usize) -> f32, sums: &mut [f32; PANEL]) {
    *sums = [0.0; PANEL];
    if C == MODULUS {
        let half = panel.len() / 2;
        let (re, im) = panel.split_at(half);
        for m in 0..half {
            let (q_re, q_im) = (query(m), query(half + m));
            for c in 0..PANEL {
                let (re, im) = (q_re - re[m][c], q_im - im[m][c]);
                sums[c] += im.mul_add(im, re * re).sqrt();
            }
        }
    } else {
        for (k, entries) in panel.iter().enumerate() {
            let q = query(k);
            for c in 0..PANEL {
                let difference = q - entries[c];
                sums[c] = match C {
                    DOT => q.mul_add(entries[c], sums[c]),
                    L1 => sums[c] + difference.abs(),
                    _ => difference.mul_add(difference, sums[c]),
                };
            }
        }
    }
    if C != DOT {
        for sum in sums {
            *sum = -*sum;
        }
    }
}

/// Scores one query against a panel.
#[inline(always)]
pub fn scores(comparator: Comparator, panel: &[f32], query: &[f32], out: &mut [f32; PANEL]) {
    let panel = panel.as_chunks::<PANEL>().0;
    match comparator {
        Comparator::Dot => score_panel::<DOT>(panel, |k| query[k], out),
        Comparator::NegL1 => score_panel::<L1>(panel, |k| query[k], out),
        Comparator::NegL2 => score_panel::<L2>(panel, |k| query[k], out),
        Comparator::NegModulus => score_panel::<MODULUS>(panel, |k| query[k], out),
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::needless_range_loop)]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Above, DOT, GROUP, L1, MODULUS, PANEL, Tally};

    /// 12 × 32 scores in 24 registers of 16 floats.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,popcnt")]
    fn avx512_scores<const C: u8>(panel: &[[f32; PANEL]], group: &[[f32; GROUP]]) -> [[__m512; 2]; GROUP] {
        let load = |entries: &[f32; PANEL], at: usize| {
            let lanes: &[f32] = &entries[at..at + 16];
            // SAFETY: the slice has just been cut to 16 floats.
            unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
        };
        let mut sums = [[_mm512_setzero_ps(); 2]; GROUP];
        if C == MODULUS {
            let half = panel.len() / 2;
            let (panel_re, panel_im) = panel.split_at(half);
            let (group_re, group_im) = group.split_at(half);
            for (((p_re, p_im), q_re), q_im) in panel_re.iter().zip(panel_im).zip(group_re).zip(group_im) {
                let p_re = [load(p_re, 0), load(p_re, 16)];
                let p_im = [load(p_im, 0), load(p_im, 16)];
                for i in 0..GROUP {
                    let (q_re, q_im) = (_mm512_set1_ps(q_re[i]), _mm512_set1_ps(q_im[i]));
                    for j in 0..2 {
                        let (re, im) = (_mm512_sub_ps(q_re, p_re[j]), _mm512_sub_ps(q_im, p_im[j]));
                        let modulus = _mm512_sqrt_ps(_mm512_fmadd_ps(im, im, _mm512_mul_ps(re, re)));
                        sums[i][j] = _mm512_add_ps(sums[i][j], modulus);
                    }
                }
            }
        } else {
            for (entries, q) in panel.iter().zip(group) {
                let entries = [load(entries, 0), load(entries, 16)];
                for i in 0..GROUP {
                    let q = _mm512_set1_ps(q[i]);
                    for j in 0..2 {
                        sums[i][j] = if C == DOT {
                            _mm512_fmadd_ps(q, entries[j], sums[i][j])
                        } else {
                            let difference = _mm512_sub_ps(q, entries[j]);
                            if C == L1 {
                                _mm512_add_ps(sums[i][j], _mm512_abs_ps(difference))
                            } else {
                                _mm512_fmadd_ps(difference, difference, sums[i][j])
                            }
                        };
                    }
                }
            }
        }
        if C != DOT {
            for i in 0..GROUP {
                sums[i] = sums[i].map(|sum| _mm512_sub_ps(_mm512_setzero_ps(), sum));
            }
        }
        sums
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,popcnt")]
    pub(super) fn avx512<const C: u8>(
        panel: &[[f32; PANEL]],
        group: &[[f32; GROUP]],
        targets: &[f32; GROUP],
        known: &[u32; GROUP],
        tallies: &mut [Tally; GROUP],
    ) {
        let scores = avx512_scores::<C>(panel, group);
        for i in 0..GROUP {
            let target = _mm512_set1_ps(targets[i]);
            let (mut better, mut equal) = (0, 0);
            for j in 0..2 {
                better |= u32::from(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(scores[i][j], target)) << (16 * j);
                equal |= u32::from(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(scores[i][j], target)) << (16 * j);
            }
            tallies[i].add(better, equal, known[i]);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,popcnt")]
    pub(super) fn avx512_above<const C: u8>(
        panel: &[[f32; PANEL]],
        group: &[[f32; GROUP]],
        thresholds: &[f32; GROUP],
        found: &mut Above,
    ) {
        let scores = avx512_scores::<C>(panel, group);
        for i in 0..GROUP {
            let threshold = _mm512_set1_ps(thresholds[i]);
            found.above[i] = 0;
            for (j, lanes) in found.scores[i].as_chunks_mut::<16>().0.iter_mut().enumerate() {
                // SAFETY: the chunk has 16 floats.
                unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), scores[i][j]) };
                found.above[i] |= u32::from(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(scores[i][j], threshold)) << (16 * j);
            }
        }
    }

    /// Queries per AVX2 tile.
    const ROWS: usize = 6;

    /// 6 × 16 scores in 12 registers of 8 floats: queries and candidates starting at the given offsets.
    #[inline]
    #[target_feature(enable = "avx2,fma,popcnt")]
    fn avx2_scores<const C: u8>(
        panel: &[[f32; PANEL]],
        group: &[[f32; GROUP]],
        queries: usize,
        candidates: usize,
    ) -> [[__m256; 2]; ROWS] {
        let load = |entries: &[f32; PANEL], at: usize| {
            let lanes: &[f32] = &entries[candidates + at..candidates + at + 8];
            // SAFETY: the slice has just been cut to 8 floats.
            unsafe { _mm256_loadu_ps(lanes.as_ptr()) }
        };
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        if C == MODULUS {
            let half = panel.len() / 2;
            let (panel_re, panel_im) = panel.split_at(half);
            let (group_re, group_im) = group.split_at(half);
            for (((p_re, p_im), q_re), q_im) in panel_re.iter().zip(panel_im).zip(group_re).zip(group_im) {
                let p_re = [load(p_re, 0), load(p_re, 8)];
                let p_im = [load(p_im, 0), load(p_im, 8)];
                for i in 0..ROWS {
                    let (q_re, q_im) = (_mm256_set1_ps(q_re[queries + i]), _mm256_set1_ps(q_im[queries + i]));
                    for j in 0..2 {
                        let (re, im) = (_mm256_sub_ps(q_re, p_re[j]), _mm256_sub_ps(q_im, p_im[j]));
                        let modulus = _mm256_sqrt_ps(_mm256_fmadd_ps(im, im, _mm256_mul_ps(re, re)));
                        sums[i][j] = _mm256_add_ps(sums[i][j], modulus);
                    }
                }
            }
        } else {
            for (entries, q) in panel.iter().zip(group) {
                let entries = [load(entries, 0), load(entries, 8)];
                for i in 0..ROWS {
                    let q = _mm256_set1_ps(q[queries + i]);
                    for j in 0..2 {
                        sums[i][j] = if C == DOT {
                            _mm256_fmadd_ps(q, entries[j], sums[i][j])
                        } else {
                            let difference = _mm256_sub_ps(q, entries[j]);
                            if C == L1 {
                                let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), difference);
                                _mm256_add_ps(sums[i][j], size)
                            } else {
                                _mm256_fmadd_ps(difference, difference, sums[i][j])
                            }
                        };
                    }
                }
            }
        }
        if C != DOT {
            for i in 0..ROWS {
                sums[i] = sums[i].map(|sum| _mm256_sub_ps(_mm256_setzero_ps(), sum));
            }
        }
        sums
    }

    #[target_feature(enable = "avx2,fma,popcnt")]
    pub(super) fn avx2<const C: u8>(
        panel: &[[f32; PANEL]],
        group: &[[f32; GROUP]],
        queries: usize,
        candidates: usize,
        targets: &[f32; GROUP],
        known: &[u32; GROUP],
        tallies: &mut [Tally; GROUP],
    ) {
        let scores = avx2_scores::<C>(panel, group, queries, candidates);
        for i in 0..ROWS {
            let target = _mm256_set1_ps(targets[queries + i]);
            let (mut better, mut equal) = (0u32, 0u32);
            for j in 0..2 {
                let mask = |compared: __m256| _mm256_movemask_ps(compared) as u32;
                better |= mask(_mm256_cmp_ps::<_CMP_GT_OQ>(scores[i][j], target)) << (8 * j);
                equal |= mask(_mm256_cmp_ps::<_CMP_EQ_OQ>(scores[i][j], target)) << (8 * j);
            }
            tallies[queries + i].add(better << candidates, equal << candidates, known[queries + i]);
        }
    }

    #[target_feature(enable = "avx2,fma,popcnt")]
    pub(super) fn avx2_above<const C: u8>(
        panel: &[[f32; PANEL]],
        group: &[[f32; GROUP]],
        queries: usize,
        candidates: usize,
        thresholds: &[f32; GROUP],
        found: &mut Above,
    ) {
        let scores = avx2_scores::<C>(panel, group, queries, candidates);
        for i in 0..ROWS {
            let threshold = _mm256_set1_ps(thresholds[queries + i]);
            let places = &mut found.scores[queries + i][candidates..candidates + 16];
            for (j, lanes) in places.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                // SAFETY: the chunk has 8 floats.
                unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), scores[i][j]) };
                let mask = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(scores[i][j], threshold)) as u32;
                found.above[queries + i] |= mask << (candidates + 8 * j);
            }
        }
    }
}
