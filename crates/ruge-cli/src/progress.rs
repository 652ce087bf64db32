//! Progress bars, the same everywhere: what is being done, how far, how much longer. Hidden off a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::console::Console;

/// A moving mark for work of unknown length. Gone when dropped.
pub fn spinner(console: Console, what: &str) -> ProgressBar {
    let bar = bar(console, None, "{spinner} {msg} {elapsed}", what);
    if console.shows_bars() {
        bar.enable_steady_tick(Duration::from_millis(100));
    }
    bar
}

/// A bar over work that is counted in advance.
pub fn work(console: Console, what: &str, total: u64) -> ProgressBar {
    bar(console, Some(total), "{msg} {wide_bar} {percent}% eta {eta}", what)
}

/// Moves a bar over work whose amount is told with every step.
pub fn follow(bar: &ProgressBar, done: u64, total: u64) {
    bar.set_length(total);
    bar.set_position(done);
}

/// A bar over bytes, or a counter where their number is unknown.
pub fn bytes(console: Console, what: &str, total: Option<u64>) -> ProgressBar {
    let template = match total {
        Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        None => "{msg} {spinner} {bytes} {bytes_per_sec}",
    };
    bar(console, total, template, what)
}

fn bar(console: Console, total: Option<u64>, template: &str, what: &str) -> ProgressBar {
    if !console.shows_bars() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    bar.with_style(style).with_message(what.to_string()).with_finish(indicatif::ProgressFinish::AndClear)
}
