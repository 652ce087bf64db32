//! Reference rates of this machine, measured in the same run as the benchmarks.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;
use ruge_embed::cpu::{Isa, Kernel};

/// Seconds of the best of `times` runs.
pub fn best(times: usize, mut f: impl FnMut()) -> f64 {
    (0..times)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

/// Bytes per second of a = b + c · x over arrays far larger than any cache, on all threads. Counted as in the STREAM
/// benchmark: two reads and one write.
#[allow(dead_code)]
pub fn triad() -> f64 {
    let n = 1 << 25;
    let (mut a, b, c) = (vec![0.0f32; n], vec![1.0f32; n], vec![2.0f32; n]);
    let chunk = 1 << 16;
    let seconds = best(7, || {
        a.par_chunks_mut(chunk).zip(b.par_chunks(chunk)).zip(c.par_chunks(chunk)).for_each(|((a, b), c)| {
            for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                *a = b + 3.0 * c;
            }
        });
        black_box(&mut a);
    });
    12.0 * n as f64 / seconds
}

/// Floating point operations per second of fused multiply-adds in registers, on all threads.
#[allow(dead_code)]
pub fn fma_peak() -> f64 {
    const ROUNDS: usize = 1 << 22;
    let threads = rayon::current_num_threads();
    let isa = Isa::detect();
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..threads).into_par_iter().for_each(|_| {
                black_box(isa.run(Spin { rounds: ROUNDS }));
            });
            (threads * ROUNDS * Spin::FLOPS) as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    let share = (cpu_seconds() - cpu) / wall.elapsed().as_secs_f64() / threads as f64;
    let rate = rates.iter().copied().fold(0.0, f64::max);
    println!(
        "multiply-add peak {:.0} GFLOP/s on {threads} threads, which had {:.0} % of their cores",
        rate / 1e9,
        100.0 * share
    );
    rate
}

/// CPU seconds of this process, on systems that report them.
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|x| x.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (ticks(11) + ticks(12)) / 100.0
}

struct Spin {
    rounds: usize,
}

impl Spin {
    const FLOPS: usize = 12 * 16 * 2;
}

impl Kernel for Spin {
    type Output = f32;
    #[inline(always)]
    fn run(self) -> f32 {
        // Twelve independent chains of sixteen lanes hide the latency of two units; separate names keep them in registers.
        let (x, y) = (black_box([0.999f32; 16]), black_box([0.001f32; 16]));
        let step = |sum: &mut [f32; 16]| {
            for i in 0..16 {
                sum[i] = sum[i].mul_add(x[i], y[i]);
            }
        };
        let [mut a, mut b, mut c, mut d, mut e, mut f] = [[1.0f32; 16]; 6];
        let [mut g, mut h, mut i, mut j, mut k, mut l] = [[2.0f32; 16]; 6];
        for _ in 0..self.rounds {
            step(&mut a);
            step(&mut b);
            step(&mut c);
            step(&mut d);
            step(&mut e);
            step(&mut f);
            step(&mut g);
            step(&mut h);
            step(&mut i);
            step(&mut j);
            step(&mut k);
            step(&mut l);
        }
        [a, b, c, d, e, f, g, h, i, j, k, l].iter().flatten().sum()
    }
}
