//! What the processor does: one dispatch over instruction sets, row arithmetic, and the register tiles of ranking.
//!
//! A [`Kernel`] is ordinary Rust over slices. [`Isa::run`] compiles it three times, with AVX-512, with AVX2 and FMA, and
//! portably, and picks one at run time. The arithmetic is the same in all three, down to the last bit: products are
//! fused (`f32::mul_add`), and every sum over a row runs in sixteen lanes that are folded in a fixed order, so wider or
//! narrower registers change the speed and nothing else.
//!
//! This folder is the only place of the crate where `unsafe` may stand: to enter code compiled for an instruction set
//! that was detected first, to load registers from bounds-checked slices, and to prefetch.
#![allow(unsafe_code)]

pub mod matrix;
pub mod row;
pub mod tile;

/// The instruction sets a kernel is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// 512-bit registers.
    Avx512,
    /// 256-bit registers with fused multiply-add.
    Avx2,
    /// Whatever the target has; without fused multiply-add in hardware it is slow, and as exact as the others.
    Portable,
}

/// Work to be compiled for every instruction set. `run` must be `#[inline(always)]`, and so must all it calls.
pub trait Kernel {
    /// What the work returns.
    type Output;
    /// Does it.
    fn run(self) -> Self::Output;
}

impl Isa {
    /// The widest instruction set of this machine.
    pub fn detect() -> Self {
        Self::available().next().unwrap_or(Self::Portable)
    }

    /// Every instruction set this machine can run, widest first. Tests hold them to the same bits.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Avx512, Self::Avx2, Self::Portable].into_iter().filter(|isa| isa.is_supported())
    }

    #[cfg(target_arch = "x86_64")]
    fn is_supported(self) -> bool {
        let avx2 = || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        match self {
            Self::Avx512 => {
                avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("popcnt")
            }
            Self::Avx2 => avx2() && is_x86_feature_detected!("popcnt"),
            Self::Portable => true,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_supported(self) -> bool {
        self == Self::Portable
    }

    /// Runs the kernel compiled for this instruction set. Panics if the machine lacks it.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // Detection is cached by the standard library: a load and a test.
        assert!(self.is_supported(), "the machine has no {self:?}");
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `is_supported` has just found every feature that `run_avx512` is compiled for.
            Self::Avx512 => unsafe { run_avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `is_supported` has just found every feature that `run_avx2` is compiled for.
            Self::Avx2 => unsafe { run_avx2(kernel) },
            _ => kernel.run(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,popcnt")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

/// Asks for a row before it is needed; a hint without effect on results.
#[inline(always)]
pub fn prefetch(row: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(16) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching is a hint that never faults; the address lies inside a live slice anyway.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}
