//! Progress bars, the same everywhere: what is being done, how far, how much longer. Hidden off a terminal.

use std::borrow::Cow;
use std::ops::Deref;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use ruge_kg::{Work, visible};

use crate::console::Console;

/// A bar whose message is one line and drives no terminal, whatever names are in it.
#[derive(Clone, Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that nobody sees.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Says what is being done now.
    pub fn set_message(&self, text: impl Into<Cow<'static, str>>) {
        self.0.set_message(visible::line(&text.into()).into_owned());
    }

    /// The bar with something done already.
    pub fn with_position(self, position: u64) -> Self {
        Self(self.0.with_position(position))
    }
}

impl Deref for Bar {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.0
    }
}

/// A moving mark for work of unknown length. Gone when dropped.
pub fn spinner(console: Console, what: &str) -> Bar {
    let bar = bar(console, None, "{spinner} {msg} {elapsed}", what);
    if console.shows_bars() {
        bar.enable_steady_tick(Duration::from_millis(100));
    }
    bar
}

/// A bar over work that is counted in advance.
pub fn work(console: Console, what: &str, total: u64) -> Bar {
    bar(console, Some(total), "{msg} {wide_bar} {percent}% eta {eta}", what)
}

/// A bar over a part of longer work; its prefix says how long all of that still takes.
pub fn part_of_a_run(console: Console, what: &str, total: u64) -> Bar {
    bar(console, Some(total), "{msg} {wide_bar} {percent}% {prefix}", what)
}

/// Positions of a bar in an epoch, so that it moves from the first batch on.
const PARTS: u64 = 1000;

/// The position after so many epochs. Any number of them can be asked for.
pub fn position(epochs: u64) -> u64 {
    epochs.saturating_mul(PARTS)
}

/// The position after so many epochs and a part of another, from 0 to 1.
pub fn within(epochs: u64, part: f64) -> u64 {
    position(epochs).saturating_add((part * PARTS as f64) as u64)
}

/// The position after so many epochs and some work of another.
pub fn parts(epochs: u64, work: &Work) -> u64 {
    position(epochs).saturating_add(PARTS * work.done.min(work.total) / work.total.max(1))
}

/// Moves a bar over work whose amount is told with every step.
pub fn follow(bar: &Bar) -> impl Fn(&Work) + Sync {
    move |work| {
        bar.set_length(work.total);
        bar.set_position(work.done);
    }
}

/// A bar over bytes, or a counter where their number is unknown.
pub fn bytes(console: Console, what: &str, total: Option<u64>) -> Bar {
    let template = match total {
        Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        None => "{msg} {spinner} {bytes} {bytes_per_sec}",
    };
    bar(console, total, template, what)
}

fn bar(console: Console, total: Option<u64>, template: &str, what: &str) -> Bar {
    if !console.shows_bars() {
        return Bar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let bar = Bar(bar.with_style(style).with_finish(indicatif::ProgressFinish::AndClear));
    bar.set_message(what.to_string());
    bar
}
