//! Following and cancelling long work: one protocol for everything that takes time.
//!
//! Every long function in every crate takes a [`Control`]. It carries a [`Cancel`], which any thread may trigger, and a
//! listener for events. The event type depends on the work: [`Work`] (done of total) for a single loop, richer types
//! for training, runs and searches. A function passes its control on with a different listener ([`Control::heard_by`]);
//! the cancellation is the same all the way down.
//!
//! Long loops spend a little fuel per unit of work and check the control when it runs out (a [`Pulse`]): often enough
//! that cancelling takes effect within milliseconds, seldom enough that checking costs nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Work was stopped because the caller asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Asks work to stop, from any thread. Clones share the request.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    /// A request for a part of the work only.
    part: Option<Arc<AtomicBool>>,
    /// When work first noticed the request.
    noticed: Arc<OnceLock<Instant>>,
    deadline: Option<Instant>,
    /// Whether work may continue for [`GRACE`] after the request.
    grace: bool,
}

impl Cancel {
    /// A request that has not been made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels when this flag is set, for example by a signal handler.
    pub fn on(flag: Arc<AtomicBool>) -> Self {
        Self { flag, ..Self::default() }
    }

    /// Also cancels once this deadline has passed.
    pub fn at(self, deadline: Instant) -> Self {
        let earlier = self.deadline.map_or(deadline, |other| other.min(deadline));
        Self { deadline: Some(earlier), ..self }
    }

    /// Also cancels when this flag is set: a part of the work that may be ended alone. A second part takes the place of the first.
    pub fn or_on(self, flag: Arc<AtomicBool>) -> Self {
        Self { part: Some(flag), ..self }
    }

    /// For work whose result would be lost, such as half an epoch: it may continue for a [short while](GRACE) after the
    /// cancellation was first noticed, so that nearly finished work can be kept.
    pub fn with_grace(self) -> Self {
        Self { grace: true, ..self }
    }

    /// Requests cancellation.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether cancellation was requested or the deadline has passed.
    pub fn is_asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
            || self.part.as_ref().is_some_and(|part| part.load(Ordering::Relaxed))
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether to stop now.
    pub fn is_cancelled(&self) -> bool {
        self.is_asked() && (!self.grace || self.noticed.get_or_init(Instant::now).elapsed() >= GRACE)
    }
}

/// Progress of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Units done.
    pub done: u64,
    /// Units in total.
    pub total: u64,
}

/// A cancellation and a listener; see the [module](self).
pub struct Control<'c, E = Work> {
    cancel: Cancel,
    listener: Option<&'c (dyn Fn(&E) + Sync)>,
}

impl<E> Default for Control<'_, E> {
    /// No listener, no cancellation.
    fn default() -> Self {
        Self { cancel: Cancel::default(), listener: None }
    }
}

impl<E> Clone for Control<'_, E> {
    fn clone(&self) -> Self {
        Self { cancel: self.cancel.clone(), listener: self.listener }
    }
}

impl<E> std::fmt::Debug for Control<'_, E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Control").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl<'c, E> Control<'c, E> {
    /// Cancelled by `cancel`; no listener.
    pub fn new(cancel: &Cancel) -> Self {
        Self { cancel: cancel.clone(), listener: None }
    }

    /// Adds a listener, which may be called from any thread.
    pub fn with_listener(self, listener: &'c (dyn Fn(&E) + Sync)) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// The cancellation.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The same cancellation with another listener, for work that is part of this work.
    pub fn heard_by<'d, F>(&self, listener: &'d (dyn Fn(&F) + Sync)) -> Control<'d, F> {
        Control::new(&self.cancel).with_listener(listener)
    }

    /// The same cancellation without a listener.
    pub fn quiet<F>(&self) -> Control<'static, F> {
        Control::new(&self.cancel)
    }

    /// The same control with a deadline.
    pub fn until(&self, deadline: Option<Instant>) -> Self {
        let mut control = self.clone();
        if let Some(deadline) = deadline {
            control.cancel = control.cancel.at(deadline);
        }
        control
    }

    /// Reports an event.
    pub fn report(&self, event: &E) {
        if let Some(listener) = self.listener {
            listener(event);
        }
    }

    /// Whether to stop now.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns an error if it is time to stop.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// The same without a listener, [with grace](Cancel::with_grace).
    pub fn with_grace<F>(&self) -> Control<'static, F> {
        Control::new(&self.cancel.clone().with_grace())
    }
}

impl Control<'_> {
    /// Reports that `done` of `total` units are finished.
    pub fn progress(&self, done: usize, total: usize) {
        self.report(&Work { done: done as u64, total: total as u64 });
    }
}

/// How long work may continue after a cancellation [with grace](Cancel::with_grace).
pub const GRACE: Duration = Duration::from_millis(250);

/// Units of work between two checks. A unit is a step of a few nanoseconds, so this is about a millisecond.
const TANK: i64 = 1 << 17;

/// Work left before the next check of the control; one per thread.
#[derive(Clone, Debug, Default)]
pub struct Fuel(i64);

impl Fuel {
    /// Spends fuel on some work. Returns false once it is used up and `stopped` returns true. The first call checks.
    #[inline]
    pub fn spend(&mut self, work: usize, stopped: impl FnOnce() -> bool) -> bool {
        self.0 -= work as i64 + 1;
        self.0 >= 0 || self.refill(stopped)
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, stopped: impl FnOnce() -> bool) -> bool {
        if stopped() {
            // Stays empty, so that later calls also return false.
            self.0 = 0;
            return false;
        }
        self.0 = TANK;
        true
    }
}

/// Fuel together with its control.
pub struct Pulse<'c> {
    cancel: &'c Cancel,
    fuel: Fuel,
    stopped: bool,
}

impl<'c> Pulse<'c> {
    /// A pulse for the work of one thread.
    pub fn new<E>(control: &'c Control<'_, E>) -> Self {
        Self { cancel: &control.cancel, fuel: Fuel::default(), stopped: false }
    }

    /// Whether to continue after this much more work.
    #[inline]
    pub fn beats(&mut self, work: usize) -> bool {
        let (cancel, stopped) = (self.cancel, &mut self.stopped);
        self.fuel.spend(work, || {
            *stopped |= cancel.is_cancelled();
            *stopped
        })
    }

    /// Returns an error if work was cut short.
    pub fn finish(&self) -> Result<(), Cancelled> {
        if self.stopped { Err(Cancelled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_pulse_looks_as_work_is_done() {
        let cancel = Cancel::new();
        let control: Control<'_> = Control::new(&cancel);
        let mut pulse = Pulse::new(&control);
        assert!(pulse.beats(1) && pulse.finish().is_ok());
        cancel.cancel();
        let more = (0..10 * TANK).take_while(|_| pulse.beats(10)).count();
        assert!(more < TANK as usize / 10, "{more} more pieces of work");
        assert!(!pulse.beats(0) && pulse.finish() == Err(Cancelled));
        // A large amount of work triggers one check, not an overflow.
        assert!(!Pulse::new(&control).beats(1 << 40));
    }

    #[test]
    fn a_deadline_that_has_passed_cancels() {
        let control: Control<'_> = Control::default();
        assert!(control.check().is_ok());
        assert_eq!(control.until(Some(Instant::now())).check(), Err(Cancelled));
        let hour = Duration::from_secs(3600);
        let early = Cancel::new().at(Instant::now()).at(Instant::now() + hour);
        assert!(early.is_cancelled(), "a later deadline does not undo an earlier one");
    }

    #[test]
    fn parts_of_work_have_listeners_of_their_own_and_one_cancellation() {
        let cancel = Cancel::new();
        let heard = Mutex::new(Vec::new());
        let listener = |text: &String| heard.lock().expect("nobody panics").push(text.clone());
        let control: Control<'_, String> = Control::new(&cancel).with_listener(&listener);
        let part = |work: &Work| control.report(&format!("{} of {}", work.done, work.total));
        let inner = control.heard_by(&part);
        inner.progress(1, 3);
        cancel.cancel();
        assert!(inner.is_cancelled() && control.quiet::<Work>().is_cancelled());
        assert_eq!(*heard.lock().expect("nobody panics"), ["1 of 3"]);
    }

    #[test]
    fn work_that_would_be_lost_has_a_short_while() {
        let control: Control<'_> = Control::default();
        control.cancel().cancel();
        let late: Control<'_> = control.with_grace();
        assert!(control.is_cancelled() && !late.is_cancelled(), "the first look begins the short while");
        while !late.is_cancelled() {
            std::thread::yield_now();
        }
    }
}
