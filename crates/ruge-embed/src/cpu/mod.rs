//! What the processor does: one dispatch over instruction sets, row arithmetic, and the register tiles of ranking.
//!
//! A [`Kernel`] is ordinary Rust over slices. [`Isa::run`] compiles it three times, with AVX-512, with AVX2 and FMA, and
//! portably, and picks one at run time. The arithmetic is the same in all three, down to the last bit: products are
//! fused (`f32::mul_add`), and every sum over a row runs in sixteen lanes that are folded in a fixed order, so wider or
//! narrower registers change the speed and nothing else. Products of matrices ([`matrix`]) are held to one order, too, whatever
//! the registers and caches, and are fused in software where the processor cannot.
//!
//! Two things come from elsewhere. The Fourier transforms of HolE have one set of bits with AVX2 and AVX-512 and another one
//! without them. And `exp`, `ln`, `sin`, `cos` of losses and start values are the system's, which may choose by the processor, too:
//! with FMA it takes one version for AVX2 and AVX-512, without it another, whose last bit can differ.
//!
//! This folder is the only place of the crate where `unsafe` may stand: to enter code compiled for an instruction set
//! that was detected first, to load registers from bounds-checked slices, and to prefetch.
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
    /// Whatever the target has; without fused multiply-add in hardware it is slow, and as exact as the others. HolE's
    /// transforms are the same on every such machine, but not those of the other sets.
    Portable,
}

/// What [`Isa::detect`] answers once it was asked.
static CHOSEN: OnceLock<Isa> = OnceLock::new();

/// Why an instruction set cannot be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IsaError {
    /// No such word.
    #[error("there is no such instruction set; choose avx512, avx2 or portable")]
    Unknown,
    /// The processor cannot run it.
    #[error("this machine has no {}; its widest instruction set is {}", .0.name(), Isa::widest().name())]
    Missing(Isa),
    /// Models were already made for another one.
    #[error("the instruction set is already in use: {}; choose before the first model is made", .0.name())]
    Late(Isa),
}

impl FromStr for Isa {
    type Err = IsaError;
    fn from_str(word: &str) -> Result<Self, IsaError> {
        [Self::Avx512, Self::Avx2, Self::Portable].into_iter().find(|isa| isa.name() == word).ok_or(IsaError::Unknown)
    }
}

/// Work to be compiled for every instruction set. `run` must be `#[inline(always)]`, and so must all it calls.
pub trait Kernel {
    /// What the work returns.
    type Output;
    /// Does it.
    fn run(self) -> Self::Output;
}

impl Isa {
    /// The instruction set that models take: the widest of this machine, or the one that [`Isa::limit`] chose.
    pub fn detect() -> Self {
        *CHOSEN.get_or_init(Self::widest)
    }

    /// Chooses what [`Isa::detect`] answers in this process: kernels, products of matrices and Fourier transforms follow. Must come
    /// before the first model; choosing the same again is no error.
    pub fn limit(isa: Self) -> Result<(), IsaError> {
        if !isa.is_supported() {
            return Err(IsaError::Missing(isa));
        }
        match *CHOSEN.get_or_init(|| isa) {
            chosen if chosen == isa => Ok(()),
            other => Err(IsaError::Late(other)),
        }
    }

    /// The word for it: `avx512`, `avx2`, `portable`.
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
