//! The two ways a command speaks: results on stdout, everything else on stderr.
//!
//! Colours, widths and bars follow the terminal; a pipe gets plain text of a fixed width, so that two runs of the same
//! command give the same bytes.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};

use crate::globals::GlobalArgs;

/// Width of tables when no terminal says otherwise.
const PLAIN_WIDTH: usize = 100;

/// What the user wants to hear, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// No notes, no bars.
    pub quiet: bool,
    /// Results as one JSON object.
    pub json: bool,
}

impl Console {
    /// As the global flags say.
    pub fn new(globals: &GlobalArgs) -> Self {
        Self { quiet: globals.quiet, json: globals.json }
    }

    /// Says something that is not the result.
    pub fn note(self, text: &str) {
        if !self.quiet {
            // A closed stderr is no reason to stop working.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Tells what went wrong, however quiet.
    pub fn error(self, error: &anyhow::Error) {
        let word = if io::stderr().is_terminal() && colours() { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
        let _ = writeln!(io::stderr(), "{word} {}", words_of(error));
    }

    /// Writes the result to stdout. A reader that has seen enough (`| head`) is not an error.
    pub fn result(self, text: &str) -> Result<()> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
            _ => Ok(()),
        }
    }

    /// Writes one JSON object as the result.
    pub fn json_result(self, object: &serde_json::Value) -> Result<()> {
        self.result(&format!("{object}\n"))
    }

    /// Whether progress bars would be seen.
    pub fn shows_bars(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Columns a table may take.
    pub fn width(self) -> usize {
        let columns = if io::stdout().is_terminal() { terminal_size::terminal_size() } else { None };
        columns.map_or(PLAIN_WIDTH, |(width, _)| usize::from(width.0).max(40))
    }

    /// Columns a note may take.
    pub fn note_width(self) -> usize {
        let columns = if io::stderr().is_terminal() { terminal_size::terminal_size_of(io::stderr()) } else { None };
        columns.map_or(PLAIN_WIDTH, |(width, _)| usize::from(width.0).max(40))
    }

    /// A heading as stdout can show it.
    pub fn heading(self, text: &str) -> String {
        if io::stdout().is_terminal() && colours() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Whether the user's environment allows colours (<https://no-color.org>).
pub fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The whole chain of causes; what an outer message has said already is not said again.
fn words_of(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::words_of;

    #[test]
    fn causes_are_told_once() {
        let cause = || std::io::Error::other("the disk is full");
        let plain = anyhow::Error::new(cause()).context("out.tsv: cannot write");
        assert_eq!(words_of(&plain), "out.tsv: cannot write: the disk is full");
        let said = anyhow::Error::new(cause()).context("out.tsv: cannot write: the disk is full\n  remedy: make room");
        assert_eq!(words_of(&said), "out.tsv: cannot write: the disk is full\n  remedy: make room");
    }
}
