//! Limits on the number of groundings.
//!
//! Each atom of a premise multiplies the ways to match it: eleven atoms on a line of 23 bytes may have more groundings
//! than fit in any memory. So long premises are counted before any grounding is made, others while they are grounded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ruge_kg::{Graph, Triple};

use crate::error::RuleError;
use crate::join::{Plan, bind, holds};
use crate::rule::Rule;
use ruge_kg::control::{Cancelled, Control, Pulse};

/// Limit on all groundings together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroundLimit {
    /// Maximum number.
    pub groundings: u64,
    /// Maximum bytes in memory.
    pub bytes: u64,
}

impl GroundLimit {
    /// No limit except 32-bit numbering.
    pub const NONE: Self = Self { groundings: (u32::MAX - (1 << 20)) as u64, bytes: u64::MAX };

    /// As many as fit into `bytes`.
    pub fn of_bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::NONE }
    }

    /// Maximum groundings with this many premises.
    fn most(self, width: usize) -> u64 {
        self.groundings.min(self.bytes / bytes_of(width))
    }

    /// Rejects a rule with a long premise that alone exceeds the limit. Short premises are not checked: counting them
    /// costs as much as grounding them.
    pub(super) fn require(
        self,
        graph: &Graph,
        (index, rule): (usize, &Rule),
        plan: &Plan,
        control: &Control<'_>,
    ) -> Result<(), RuleError> {
        let unlimited = self.groundings >= Self::NONE.groundings && self.bytes == u64::MAX;
        if unlimited || !plan.is_long() {
            return Ok(());
        }
        let most = self.most(rule.premise.len() + rule.negated.len());
        let mut pulse = Pulse::new(control);
        let valid = |bindings: &Vec<_>| !holds(graph, bind(rule.conclusion, bindings));
        match plan.number(graph, most, &mut pulse, &valid) {
            None => Err(RuleError::Cancelled(Cancelled)),
            Some(number) if number > most => Err(RuleError::TooManyGroundings { rule: index, limit: most }),
            Some(_) => Ok(()),
        }
    }
}

/// Bytes per grounding: its triples in a piece and in the result, which doubles as it grows, its conclusion, the
/// indexes.
fn bytes_of(width: usize) -> u64 {
    (3 * width * size_of::<Triple>() + 112) as u64
}

/// The rest of a limit, shared by all threads.
pub(crate) struct Room {
    limit: GroundLimit,
    groundings: AtomicU64,
    bytes: AtomicU64,
    full: AtomicBool,
}

impl Room {
    pub(super) fn new(limit: GroundLimit) -> Self {
        Self { limit, groundings: AtomicU64::new(0), bytes: AtomicU64::new(0), full: AtomicBool::new(false) }
    }

    /// Reserves room for groundings with this many premises.
    pub(super) fn take(&self, groundings: u64, width: usize) -> bool {
        let bytes = groundings * bytes_of(width);
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let count = self.groundings.fetch_add(groundings, Ordering::Relaxed).saturating_add(groundings);
        // Room reserved in lots but unused must not cause a rejection.
        let slack = groundings * rayon::current_num_threads() as u64;
        if count > self.limit.groundings.saturating_add(slack) || bytes > self.limit.bytes {
            self.full.store(true, Ordering::Relaxed);
        }
        !self.is_full()
    }

    pub(super) fn give_back(&self, groundings: u64, width: usize) {
        self.bytes.fetch_sub(groundings * bytes_of(width), Ordering::Relaxed);
        self.groundings.fetch_sub(groundings, Ordering::Relaxed);
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// The number of groundings when it is full.
    pub(super) fn limit(&self) -> u64 {
        self.groundings.load(Ordering::Relaxed).min(self.limit.groundings)
    }
}
