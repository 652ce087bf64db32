//! How a caller follows long work and stops it.
//!
//! Long loops spend a little [`Fuel`] for each piece of work, and look at the [`Watch`] whenever it is used up: often enough that
//! a stop takes effect within milliseconds, seldom enough that looking costs nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::RuleError;

/// How the caller follows and stops a search.
#[derive(Default)]
pub struct Watch<'a> {
    /// Set to true from outside to stop after the rules found so far.
    pub stop: Option<&'a AtomicBool>,
    /// Told (work done, work in all) whenever a head is finished; work is counted in facts of heads.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    /// Stop by oneself when this moment has passed.
    pub deadline: Option<Instant>,
}

impl Watch<'_> {
    /// Whether to stop now.
    pub fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// An error if it is time to stop.
    pub fn go_on(&self) -> Result<(), RuleError> {
        if self.stopped() { Err(RuleError::Stopped) } else { Ok(()) }
    }
}

/// Units of work between two looks. A unit is a step of a few nanoseconds, so this is about a millisecond.
const TANK: i64 = 1 << 17;

/// Work that may still be done before the next look at the watch; one per thread.
#[derive(Clone, Debug)]
pub(crate) struct Fuel(i64);

impl Default for Fuel {
    /// Empty, so that the first piece of work looks.
    fn default() -> Self {
        Self(0)
    }
}

impl Fuel {
    /// Spends fuel on some work; false once it is used up and `stopped` says yes.
    #[inline]
    pub(crate) fn spend(&mut self, work: usize, stopped: impl FnOnce() -> bool) -> bool {
        self.0 -= work as i64 + 1;
        self.0 >= 0 || self.refill(stopped)
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, stopped: impl FnOnce() -> bool) -> bool {
        if stopped() {
            // Stays empty: whoever asks again is told again.
            self.0 = 0;
            return false;
        }
        self.0 = TANK;
        true
    }
}

/// Fuel together with the watch it stands for.
pub(crate) struct Pulse<'w> {
    watch: &'w Watch<'w>,
    fuel: Fuel,
    stopped: bool,
}

impl<'w> Pulse<'w> {
    pub(crate) fn new(watch: &'w Watch<'w>) -> Self {
        Self { watch, fuel: Fuel::default(), stopped: false }
    }

    /// Whether to go on after some more work.
    #[inline]
    pub(crate) fn beats(&mut self, work: usize) -> bool {
        let (watch, stopped) = (self.watch, &mut self.stopped);
        self.fuel.spend(work, || {
            *stopped |= watch.stopped();
            *stopped
        })
    }

    /// An error if some work was cut short.
    pub(crate) fn finish(&self) -> Result<(), RuleError> {
        if self.stopped { Err(RuleError::Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watch_is_looked_at_as_work_is_done() {
        let stop = AtomicBool::new(false);
        let watch = Watch { stop: Some(&stop), ..Watch::default() };
        let mut pulse = Pulse::new(&watch);
        assert!(pulse.beats(1) && pulse.finish().is_ok());
        stop.store(true, Ordering::Relaxed);
        let more = (0..10 * TANK).take_while(|_| pulse.beats(10)).count();
        assert!(more < TANK as usize / 10, "{more} more pieces of work");
        assert!(!pulse.beats(0) && matches!(pulse.finish(), Err(RuleError::Stopped)));
        // Much work at once is one look, not an overflow.
        assert!(!Pulse::new(&watch).beats(1 << 40));
    }

    #[test]
    fn a_deadline_that_has_passed_stops() {
        let watch = Watch { deadline: Some(Instant::now()), ..Watch::default() };
        assert!(watch.stopped() && matches!(watch.go_on(), Err(RuleError::Stopped)));
        assert!(!Watch::default().stopped());
    }
}
