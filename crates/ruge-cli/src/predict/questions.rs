//! Questions from a file: lines, read ahead on a thread of their own, and what they ask.
//!
//! A line that begins with `{` is a JSON object with two of the keys `head`, `relation`, `tail`; the missing one, or one that
//! is null, is asked for. Any other line has three fields separated by tabs, one of which is `?`. Blank lines are passed
//! over. An entity that is called `?` can be asked about in JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Context, Result};
use ruge::Loaded;
use ruge::predict::Question;
use serde::Deserialize;

/// Lines that are waited for before answering begins, if the source has so many at hand.
const ENOUGH: usize = 8192;
/// Bytes read at once.
const BUFFER: usize = 1 << 18;

/// A question as it was asked.
#[derive(Debug)]
pub struct Asked {
    /// Its line, from 1.
    pub line: u64,
    /// What is asked.
    pub question: Question,
}

/// Lines of a source as they come.
pub struct Lines {
    blocks: Receiver<io::Result<Vec<Vec<u8>>>>,
    name: String,
    /// Lines handed out so far.
    line: u64,
}

impl Lines {
    /// Opens a file, or stdin for `-`.
    pub fn open(path: &Path) -> Result<Self> {
        let stdin = path == Path::new("-");
        let name = if stdin { "stdin".to_string() } else { path.display().to_string() };
        let source: Box<dyn Read + Send> = if stdin {
            Box::new(io::stdin())
        } else {
            let file = File::open(path).with_context(|| format!("{name}: cannot read the questions"))?;
            Box::new(file)
        };
        // A few blocks ahead: reading goes on while the last questions are answered.
        let (sender, blocks) = sync_channel(16);
        std::thread::spawn(move || {
            let mut reader = BufReader::with_capacity(BUFFER, source);
            loop {
                let block = read_block(&mut reader);
                let done = !matches!(&block, Ok(lines) if !lines.is_empty());
                // A receiver that is gone wants no more.
                if sender.send(block).is_err() || done {
                    return;
                }
            }
        });
        Ok(Self { blocks, name, line: 0 })
    }

    /// The source, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next lines with their numbers: waits for some, then takes what is there. Empty at the end.
    pub fn next(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut lines = Vec::new();
        let mut block = self.blocks.recv().ok();
        while let Some(found) = block {
            let found = found.with_context(|| format!("{}: cannot read on after line {}", self.name, self.line))?;
            for text in found {
                self.line += 1;
                lines.push((self.line, text));
            }
            block = if lines.len() < ENOUGH { self.blocks.try_recv().ok() } else { None };
        }
        Ok(lines)
    }
}

/// Lines until the buffer is used up: then the source may have us wait, and nobody should wait for what we have.
fn read_block(reader: &mut BufReader<Box<dyn Read + Send>>) -> io::Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(lines);
        }
        while matches!(line.last(), Some(b'\n' | b'\r')) {
            line.pop();
        }
        lines.push(line);
        if reader.buffer().is_empty() {
            return Ok(lines);
        }
    }
}

/// What JSON may say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    head: Option<String>,
    relation: Option<String>,
    tail: Option<String>,
}

/// Reads a line; nothing if it is blank. Errors are reasons, without the place.
pub fn parse(text: &[u8], loaded: &Loaded) -> Result<Option<Question>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_string())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(None);
    }
    let remedy = "write head, relation and tail separated by tabs, with ? for the one asked for, or a JSON object";
    let named = if text.trim_start().starts_with('{') {
        let named: Named = serde_json::from_str(text).map_err(|error| format!("no question: {error}"))?;
        (named.head, named.relation, named.tail)
    } else {
        let fields: Vec<&str> = text.split('\t').collect();
        let &[head, relation, tail] = fields.as_slice() else {
            return Err(format!("{} fields instead of 3; {remedy}", fields.len()));
        };
        let place = |field: &str| if field.trim() == "?" { None } else { Some(field.to_string()) };
        (place(head), place(relation), place(tail))
    };
    let (head, relation, tail) = (named.0.as_deref(), named.1.as_deref(), named.2.as_deref());
    if [head, relation, tail].into_iter().flatten().count() != 2 {
        return Err(format!("a question has exactly one open place; {remedy}"));
    }
    Question::named(loaded, head, relation, tail).map(Some).map_err(|error| error.to_string())
}
