//! Stateless random numbers: every draw is a pure function of (seed, stream, epoch, position).
//!
//! Threads and devices cannot change a draw, because no generator state advances: whoever needs the draw at a position
//! computes it. The function is a keyed 64-bit mix (three rounds of xor-shift-multiply over the four inputs). It is
//! more than good enough for shuffling and sampling, and takes a handful of instructions.

use rustc_hash::FxHashMap;

/// A named source of draws; separate streams never share a draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream(pub u64);

/// Splitting a single file into train, valid and test.
pub const SPLIT: Stream = Stream(1);

/// A uniform 64-bit draw.
#[inline]
pub fn draw(seed: u64, stream: Stream, epoch: u64, position: u64) -> u64 {
    let key = mix(seed ^ mix(stream.0 ^ mix(epoch)));
    mix(key ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A uniform draw below `bound`, by multiply-high; the bias is below `bound / 2^64`.
#[inline]
pub fn below(draw: u64, bound: u64) -> u64 {
    ((u128::from(draw) * u128::from(bound)) >> 64) as u64
}

/// A uniform draw from [0, 1), with 53 bits.
#[inline]
pub fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

/// A bijective mix of 64 bits in which every input bit reaches every output bit.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 27)).wrapping_mul(0x3c79_ac49_2ba7_b653);
    x = (x ^ (x >> 33)).wrapping_mul(0x1c69_b3f7_4ac4_ae35);
    x ^ (x >> 27)
}

/// A permutation of 0..n, determined by seed and stream; linear time.
pub fn permutation(n: usize, seed: u64, stream: Stream, epoch: u64) -> Vec<u32> {
    sample(n, n, seed, stream, epoch)
}

/// `k` of the numbers 0..n, with all subsets and orders equally likely; all of them if `k` is larger. Time is linear in
/// `k` if `k` is much smaller than `n`.
pub fn sample(n: usize, k: usize, seed: u64, stream: Stream, epoch: u64) -> Vec<u32> {
    let kept = n.saturating_sub(k);
    let swaps = (kept.max(1)..n).rev().map(|i| (i, below(draw(seed, stream, epoch, i as u64), i as u64 + 1) as usize));
    // A few of many: store only the swapped positions.
    if k < n / 16 {
        let mut moved: FxHashMap<usize, u32> = FxHashMap::default();
        let mut drawn: Vec<u32> = swaps
            .map(|(i, j)| {
                let last = moved.remove(&i).unwrap_or(i as u32);
                if i == j { last } else { moved.insert(j, last).unwrap_or(j as u32) }
            })
            .collect();
        drawn.reverse();
        return drawn;
    }
    let mut order: Vec<u32> = (0..n as u32).collect();
    swaps.for_each(|(i, j)| order.swap(i, j));
    order.drain(..kept);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_streams_apart() {
        let n = 100_000;
        let mut buckets = [0u32; 16];
        let mut ones = 0u32;
        for i in 0..n {
            let a = draw(7, SPLIT, 0, i);
            buckets[below(a, 16) as usize] += 1;
            ones += (a ^ draw(7, Stream(2), 0, i)).count_ones();
        }
        let expected = n as f64 / 16.0;
        let chi2: f64 = buckets.iter().map(|&b| (f64::from(b) - expected).powi(2) / expected).sum();
        assert!(chi2 < 40.0, "chi-square of 16 buckets: {chi2}");
        let share = f64::from(ones) / (64.0 * n as f64);
        assert!((share - 0.5).abs() < 0.001, "two streams share {share} of their bits");
    }

    #[test]
    fn a_permutation_is_one() {
        let mut order = permutation(1000, 3, SPLIT, 0);
        assert_ne!(order[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        order.sort_unstable();
        assert!(order.iter().enumerate().all(|(i, &x)| i as u32 == x));
    }

    #[test]
    fn a_sample_is_even_and_without_repeats() {
        let mut counts = [0u32; 20];
        for epoch in 0..4000 {
            let mut chosen = sample(20, 5, 3, SPLIT, epoch);
            chosen.iter().for_each(|&x| counts[x as usize] += 1);
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), 5);
        }
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "a quarter of 4,000 each: {counts:?}");
        assert_eq!(sample(7, 9, 3, SPLIT, 1), permutation(7, 3, SPLIT, 1));
        assert!(sample(7, 0, 3, SPLIT, 1).is_empty() && sample(0, 3, 3, SPLIT, 1).is_empty());
    }
    #[test]
    fn a_few_of_many_are_those_that_shuffling_all_would_give() {
        for (n, k) in [(400, 24), (1600, 99), (100_000, 7), (33, 1), (50, 2)] {
            let mut order: Vec<u32> = (0..n as u32).collect();
            for i in (n - k..n).rev() {
                order.swap(i, below(draw(5, SPLIT, 2, i as u64), i as u64 + 1) as usize);
            }
            assert_eq!(sample(n, k, 5, SPLIT, 2), order[n - k..], "{k} of {n}");
        }
    }
}
