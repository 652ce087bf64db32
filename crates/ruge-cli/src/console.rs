//! The two ways a command speaks: results on stdout, everything else on stderr.
//!
//! Colours, widths and bars follow the terminal; a pipe gets plain text of a fixed width, or of that in `COLUMNS`, so that two runs
//! of the same command give the same bytes.
//!
//! Names come from files that others wrote, so no text reaches a terminal as it is: everything for people is shown with
//! visible marks in place of what would drive the terminal ([`ruge_kg::visible`]), here and nowhere else. Our own bold
//! and colour are put in by [`Style`], whose tokens hold a number drawn when the program starts: a name cannot forge
//! them. What is for programs keeps its bytes: JSON always (with escapes, which are the same value), rules and triples
//! unless stdout is a terminal.

use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use ruge_kg::visible;

use crate::globals::GlobalArgs;
use crate::remedy;

/// Width of tables when no terminal says otherwise.
const PLAIN_WIDTH: usize = 100;

/// Columns that help may take, before anything that was typed is understood.
pub fn help_width() -> usize {
    let columns = if io::stdout().is_terminal() { terminal_size::terminal_size() } else { None };
    columns.map_or(PLAIN_WIDTH, |(width, _)| usize::from(width.0).clamp(40, PLAIN_WIDTH))
}

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
            let _ = writeln!(io::stderr(), "{}", shown(text));
        }
    }

    /// Tells what went wrong, however quiet.
    pub fn error(self, error: &anyhow::Error) {
        let coloured = io::stderr().is_terminal() && colours();
        let word = if coloured { Style::Error.of("error:") } else { "error:".to_string() };
        let words = remedy::added(&words_of(error), error);
        let _ = writeln!(io::stderr(), "{}", shown(&format!("{word} {words}")));
    }

    /// Writes the result, text for people, to stdout. A reader that has seen enough (`| head`) is not an error.
    pub fn result(self, text: &str) -> Result<()> {
        to_stdout(&shown(text))
    }

    /// Writes a result that programs read (rules, triples, a graph for Graphviz): exact in a pipe or a file.
    pub fn data_result(self, text: &str) -> Result<()> {
        if io::stdout().is_terminal() { self.result(text) } else { to_stdout(text) }
    }

    /// Writes one JSON object as the result.
    pub fn json_result(self, object: &serde_json::Value) -> Result<()> {
        to_stdout(&format!("{}\n", json(object)))
    }

    /// Stdout for data written piece by piece, shown with marks on a terminal. Flush it when done.
    pub fn data_out(self) -> DataOut<io::StdoutLock<'static>> {
        DataOut { is_shown: io::stdout().is_terminal(), out: io::stdout().lock(), rest: Vec::new() }
    }

    /// Whether progress bars would be seen.
    pub fn shows_bars(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Columns a table may take.
    pub fn width(self) -> usize {
        columns(if io::stdout().is_terminal() { terminal_size::terminal_size() } else { None })
    }

    /// Columns a note may take.
    pub fn note_width(self) -> usize {
        columns(if io::stderr().is_terminal() { terminal_size::terminal_size_of(io::stderr()) } else { None })
    }

    /// A heading, one line, as stdout can show it. It must be written by [`Console::result`].
    pub fn heading(self, text: &str) -> String {
        let text = visible::line(text);
        if io::stdout().is_terminal() && colours() { Style::Heading.of(&text) } else { text.into_owned() }
    }
}

/// Those of the terminal; else those that `COLUMNS` says, as for other programs that write into a pager; else a fixed number.
fn columns(terminal: Option<(terminal_size::Width, terminal_size::Height)>) -> usize {
    let said = || std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|&columns: &usize| columns > 0);
    terminal.map(|(width, _)| usize::from(width.0)).or_else(said).unwrap_or(PLAIN_WIDTH).clamp(40, 1000)
}

/// What is set off from the rest of a text.
#[derive(Clone, Copy)]
enum Style {
    Heading,
    Error,
}

/// Stands in every token: unknown to whoever wrote a name.
static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("style"));

impl Style {
    /// The text between two tokens, which [`shown`] turns into sequences of the terminal.
    fn of(self, text: &str) -> String {
        format!("{}{text}{}", self.token(), Self::end())
    }

    fn token(self) -> String {
        format!("\u{fdd0}{:016x}{}\u{fdd1}", *SECRET, self as u8)
    }

    fn end() -> String {
        format!("\u{fdd0}{:016x}.\u{fdd1}", *SECRET)
    }
}

/// Text for people as it may be written: marks for what would drive a terminal, sequences for our own tokens.
pub fn shown(text: &str) -> String {
    // A token begins with a character that nobody writes: most texts have none.
    if !text.contains('\u{fdd0}') {
        return visible::text(text).into_owned();
    }
    let tokens = [(Style::Heading.token(), "\x1b[1m"), (Style::Error.token(), "\x1b[1;31m"), (Style::end(), "\x1b[0m")];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let next = tokens.iter().filter_map(|(token, sequence)| Some((rest.find(token.as_str())?, token, sequence)));
        let Some((at, token, sequence)) = next.min_by_key(|(at, ..)| *at) else { break };
        out.push_str(&visible::text(&rest[..at]));
        out.push_str(sequence);
        rest = &rest[at + token.len()..];
    }
    out.push_str(&visible::text(rest));
    out
}

/// JSON text in which control and bidirectional characters are escapes: the same value, and safe on a terminal.
pub fn json(value: &impl Display) -> String {
    let text = value.to_string();
    visible::json(&text).into_owned()
}

fn to_stdout(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// Data on its way to stdout: as it is, or, on a terminal, as [`shown`] shows it.
#[derive(Debug)]
pub struct DataOut<W: Write> {
    is_shown: bool,
    out: W,
    /// The beginning of a character whose end has not been written yet.
    rest: Vec<u8>,
}

impl<W: Write> Write for DataOut<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_shown {
            return self.out.write(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let text = String::from_utf8_lossy(&self.rest[..whole]);
        self.out.write_all(shown(&text).as_bytes())?;
        self.rest.drain(..whole);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
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
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let cause = || std::io::Error::other("the disk is full");
        let plain = anyhow::Error::new(cause()).context("out.tsv: cannot write");
        assert_eq!(words_of(&plain), "out.tsv: cannot write: the disk is full");
        let said = anyhow::Error::new(cause()).context("out.tsv: cannot write: the disk is full\n  remedy: make room");
        assert_eq!(words_of(&said), "out.tsv: cannot write: the disk is full\n  remedy: make room");
    }

    #[test]
    fn names_drive_nothing_and_forge_nothing() {
        assert_eq!(shown("\u{1b}[2Jgone\u{202e}\n"), "⟨ESC⟩[2Jgone⟨U+202E⟩\n");
        let heading = Style::Heading.of("like \u{1b}[0m\u{9b}1m");
        assert_eq!(shown(&format!("{heading}\n\u{7}")), "\x1b[1mlike ⟨ESC⟩[0m⟨U+009B⟩1m\x1b[0m\n⟨BEL⟩");
        assert_eq!(shown(&format!("{} x", Style::Error.of("error:"))), "\x1b[1;31merror:\x1b[0m x");
        // A token of another start of the program, or half a token.
        let forged = format!("\u{fdd0}{:016x}0\u{fdd1}x", *SECRET ^ 1);
        assert!(!shown(&forged).contains('\x1b') && !shown(&forged).contains('\u{fdd0}'));
        assert!(!shown(&Style::Heading.token()[..10]).contains('\x1b'));
    }

    #[test]
    fn json_is_escaped_and_the_same() {
        let value = serde_json::json!({"\u{202e}a": "\u{9b}31m\u{e0001}\u{1b}\n"});
        let text = json(&value);
        assert!(text.is_ascii(), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn data_are_exact_unless_shown() {
        let bytes = "a\té\u{1b}[1m\u{202e}\n".as_bytes();
        for is_shown in [false, true] {
            let mut out = DataOut { is_shown, out: Vec::new(), rest: Vec::new() };
            // One byte at a time: characters arrive in pieces.
            bytes.iter().for_each(|byte| out.write_all(&[*byte]).unwrap());
            let expected = if is_shown { "a\té⟨ESC⟩[1m⟨U+202E⟩\n".as_bytes() } else { bytes };
            assert_eq!(out.out, expected);
        }
        let mut out = DataOut { is_shown: true, out: Vec::new(), rest: Vec::new() };
        out.write_all(b"\xff\x1b\n").unwrap();
        assert_eq!(String::from_utf8(out.out).unwrap(), "\u{fffd}⟨ESC⟩\n");
    }
}
