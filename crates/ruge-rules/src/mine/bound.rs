//! Bounds of a search: its control, and the memory shared by all heads.
//!
//! Low thresholds on a graph with many relations give endless candidates. Memory for candidates and rules is counted
//! before it is allocated. A search that would exceed its limit ends as if it had been stopped, and reports it in
//! [`Mined::over_memory`](super::Mined::over_memory).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Head;
use ruge_kg::control::Fuel;

/// Bytes per rule found, in the search and in its result.
pub(crate) const RULE_BYTES: usize = 320;

/// Memory shared by all heads of a search.
pub(crate) struct Memory {
    limit: u64,
    held: AtomicU64,
    over: AtomicBool,
    /// Whether any thread was stopped: then all are, even if the control changes.
    halted: AtomicBool,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, held: AtomicU64::new(0), over: AtomicBool::new(false), halted: AtomicBool::new(false) }
    }

    /// Counts bytes before they are allocated; `None` if there are too many.
    pub(crate) fn hold(&self, bytes: u64) -> Option<()> {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        if before.checked_add(bytes).is_none_or(|now| now > self.limit) {
            self.exceed();
            return None;
        }
        Some(())
    }

    /// Ends the search: the next allocation exceeds the limit.
    pub(crate) fn exceed(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl Head<'_> {
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

    /// Accounts for some work; `None` if it is time to stop.
    #[inline]
    pub(crate) fn spend(&self, fuel: &mut Fuel, work: usize) -> Option<()> {
        fuel.spend(work, || self.stopped()).then_some(())
    }

    /// Counts memory for `count` items of `size` bytes; `None` if it is too much.
    pub(crate) fn hold(&self, count: usize, size: usize) -> Option<()> {
        self.memory.hold((count as u64).saturating_mul(size as u64))
    }

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
