//! Whether work fits into the machine, asked before it starts: memory that turns out to be missing later takes the
//! whole program down, with everything it had not written yet.

use ruge_rules::GroundLimit;

use crate::error::{Result, RugeError};

mod training;

pub(crate) use training::{Shape, Sizes, ptranse, training};

/// What some work takes.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    /// The work, in words.
    work: String,
    parts: Vec<Share>,
}

/// A part of the memory that work takes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Share {
    /// What it is for.
    pub what: String,
    /// How much it is.
    pub bytes: u64,
    /// Which setting makes it smaller, in words.
    pub remedy: &'static str,
}

/// What stays free for everything that is not counted: a twentieth, within these bounds.
const RESERVE: [u64; 2] = [64_000_000, 1_000_000_000];

/// What can be used of what is available.
fn usable(available: u64) -> u64 {
    available.saturating_sub((available / 20).clamp(RESERVE[0], RESERVE[1]))
}

impl Need {
    fn new(work: String) -> Self {
        Self { work, parts: Vec::new() }
    }

    /// Refuses work that takes more than this machine has left.
    pub(crate) fn require(&self) -> Result<()> {
        ruge_kg::memory::available().map_or(Ok(()), |available| self.within(available))?;
        // A limit of the process itself is found by trying.
        Ok(ruge_kg::memory::ensure(self.bytes(), &self.work, None)?)
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes))
    }

    fn within(&self, available: u64) -> Result<()> {
        let (needed, available) = (self.bytes(), usable(available));
        if needed <= available {
            return Ok(());
        }
        Err(RugeError::Memory { work: self.work.clone(), needed, available, parts: self.parts.clone() })
    }
}

/// How many groundings may be held: three quarters of the memory that is left, since guidance takes the rest.
pub(crate) fn ground_limit() -> GroundLimit {
    GroundLimit::of_bytes(ruge_kg::memory::available().map_or(u64::MAX, |available| usable(available) / 4 * 3))
}

/// Bytes that mining may take: no more than its own limit, and no more than the machine has left.
pub fn mining(limit: u64) -> u64 {
    ruge_kg::memory::available().map_or(limit, |available| usable(available).min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_the_arithmetic() {
        let mut need = Need::new("training".into());
        need.add("parameters", 3_000_000_000, "lower the dimension");
        need.add("the optimiser", 2_700_000_000, "use another");
        assert!(need.within(6_000_000_000).is_ok());
        let words = need.within(5_999_999_900).unwrap_err().to_string();
        for part in
            ["training needs 5.7 GB", "5.7 GB available", "3.0 GB for parameters", "remedy: lower the dimension"]
        {
            assert!(words.contains(part), "{words}");
        }
        need.add("everything", u64::MAX, "ask for less");
        assert!(need.within(u64::MAX).unwrap_err().to_string().contains("ask for less"));
    }

    #[test]
    fn something_is_kept_free() {
        assert_eq!(usable(10_000_000_000), 9_500_000_000);
        assert_eq!(usable(100_000_000_000), 99_000_000_000);
        assert_eq!((usable(100_000_000), usable(1)), (36_000_000, 0));
    }
}
