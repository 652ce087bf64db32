//! CPU kernels: dispatch over instruction sets, row arithmetic, and the register tiles of ranking.
//!
//! A [`Kernel`] is ordinary Rust over slices. [`Isa::run`] compiles it three times (AVX-512, AVX2 with FMA, portable)
//! and picks one at run time. All three give the same bits: products are fused (`f32::mul_add`), and every sum over a
//! row runs in sixteen lanes that are folded in a fixed order, so the register width only changes the speed. Matrix
//! products ([`matrix`]) also have a fixed order, and are fused in software if the CPU cannot.
//!
//! There are two exceptions. HolE's Fourier transforms give one set of bits with AVX2 and AVX-512 and another without.
//! And `exp`, `ln`, `sin` and `cos` in losses and initial values come from the system library, which may choose by CPU:
//! one version with FMA, another without, and their last bits can differ.
//!
//! This folder is the only place in the crate where `unsafe` is allowed: to call code compiled for a detected
//! instruction set, to load registers from bounds-checked slices, and to prefetch.
#![allow(unsafe_code)]

use std::str::FromStr;
use std::sync::OnceLock;

pub mod matrix;
mod order;
pub mod row;
pub mod tile;

/// The instruction sets a kernel is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// 512-bit registers.
    Avx512,
    /// 256-bit registers with fused multiply-add.
    Avx2,
    /// The target's baseline. Slow without hardware fused multiply-add, but as exact as the others. HolE's transforms
    /// are the same on all such machines, but differ from those of the other sets.
    Portable,
}

/// The result of [`Isa::detect`].
static CHOSEN: OnceLock<Isa> = OnceLock::new();

/// Why an instruction set cannot be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IsaError {
    /// Unknown name.
    #[error("there is no such instruction set; choose avx512, avx2 or portable")]
    Unknown,
    /// The CPU does not support it.
    #[error("this machine has no {}; its widest instruction set is {}", .0.name(), Isa::widest().name())]
    Missing(Isa),
    /// Models already use another one.
    #[error("the instruction set is already in use: {}; choose before the first model is made", .0.name())]
    Late(Isa),
}

impl FromStr for Isa {
    type Err = IsaError;
    fn from_str(word: &str) -> Result<Self, IsaError> {
        [Self::Avx512, Self::Avx2, Self::Portable].into_iter().find(|isa| isa.name() == word).ok_or(IsaError::Unknown)
    }
}

/// Work compiled for every instruction set. `run` and everything it calls must be `#[inline(always)]`.
pub trait Kernel {
    /// The result.
    type Output;
    /// Does the work.
    fn run(self) -> Self::Output;
}

impl Isa {
    /// The instruction set that models use: the widest of this machine, or the one set by [`Isa::limit`].
    pub fn detect() -> Self {
        *CHOSEN.get_or_init(Self::widest)
    }

    /// Sets the result of [`Isa::detect`] for this process; kernels, matrix products and Fourier transforms follow it.
    /// Must be called before the first model is created. Setting the same value again is not an error.
    pub fn limit(isa: Self) -> Result<(), IsaError> {
        if !isa.is_supported() {
            return Err(IsaError::Missing(isa));
        }
        match *CHOSEN.get_or_init(|| isa) {
            chosen if chosen == isa => Ok(()),
            other => Err(IsaError::Late(other)),
        }
    }

    /// Its name: `avx512`, `avx2` or `portable`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    fn widest() -> Self {
        Self::available().next().unwrap_or(Self::Portable)
    }

    /// All instruction sets this machine supports, widest first. Tests check that they give the same bits.
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

    /// Runs the kernel compiled for this instruction set. Panics if the machine does not support it.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // The standard library caches detection: a load and a test.
        assert!(self.is_supported(), "the machine has no {self:?}");
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `is_supported` has just checked every feature that `run_avx512` is compiled for.
            Self::Avx512 => unsafe { run_avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `is_supported` has just checked every feature that `run_avx2` is compiled for.
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

/// Prefetches a row: a hint without effect on results.
#[inline(always)]
pub fn prefetch(row: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(16) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching is a hint that never faults; the address is inside a live slice anyway.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_set_is_chosen_once() {
        let widest = Isa::available().next().expect("at least the portable one");
        assert_eq!(Isa::detect(), widest);
        assert_eq!(Isa::limit(widest), Ok(()));
        if widest != Isa::Portable {
            assert_eq!(Isa::limit(Isa::Portable), Err(IsaError::Late(widest)));
            assert_eq!(Isa::detect(), widest);
        }
        for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable] {
            assert_eq!(isa.name().parse(), Ok(isa));
        }
        assert_eq!("sse".parse::<Isa>(), Err(IsaError::Unknown));
    }
}
