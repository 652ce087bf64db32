//! What bounds a search: the control, and the memory that all heads share.
//!
//! Low thresholds on a graph of many relations make candidates without end. What holds candidates and rules is counted before it
//! is made; a search that would go beyond its memory ends as if it had been stopped, and says so in
//! [`Mined::over_memory`](super::Mined::over_memory).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Head;
use ruge_kg::control::Fuel;

/// Bytes of a rule that was found, as the search and its result hold it.
pub(crate) const RULE_BYTES: usize = 320;

/// Memory shared by all heads of a search.
pub(crate) struct Memory {
    limit: u64,
    held: AtomicU64,
    over: AtomicBool,
    /// Whether somebody was told to stop: then everybody is, even if the control changes its mind.
    halted: AtomicBool,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, held: AtomicU64::new(0), over: AtomicBool::new(false), halted: AtomicBool::new(false) }
    }

    /// Counts bytes that are about to be taken; nothing if they are too many.
    pub(crate) fn hold(&self, bytes: u64) -> Option<()> {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        if before.checked_add(bytes).is_none_or(|now| now > self.limit) {
            self.exceed();
            return None;
        }
        Some(())
    }

    /// Ends the search: what is needed next is more than can be had.
    pub(crate) fn exceed(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Gives bytes back.
    pub(crate) fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that are held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether more was asked for than there is.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl Head<'_> {
    /// Whether the search ends before it is done.
    pub(crate) fn stopped(&self) -> bool {
        if self.memory.is_over() || self.memory.halted.load(Ordering::Relaxed) {
            return true;
        }
        let stopped = self.control.is_cancelled();
        if stopped {
            self.memory.halted.store(true, Ordering::Relaxed);
        }
        stopped
    }

    /// Does some work; nothing if it is time to stop.
    #[inline]
    pub(crate) fn spend(&self, fuel: &mut Fuel, work: usize) -> Option<()> {
        fuel.spend(work, || self.stopped()).then_some(())
    }

    /// Counts memory for `count` things of `size` bytes; nothing if it is too much.
    pub(crate) fn hold(&self, count: usize, size: usize) -> Option<()> {
        self.memory.hold((count as u64).saturating_mul(size as u64))
    }

    /// Gives such memory back.
    pub(crate) fn release(&self, count: usize, size: usize) {
        self.memory.release((count as u64).saturating_mul(size as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_and_given_back() {
        let memory = Memory::new(100);
        assert!(memory.hold(60).is_some() && !memory.is_over());
        memory.release(60);
        assert!(memory.hold(100).is_some());
        assert!(memory.hold(1).is_none() && memory.is_over());
        assert!(Memory::new(100).hold(u64::MAX).is_none());
    }
}
