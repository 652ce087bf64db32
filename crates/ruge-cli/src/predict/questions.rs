//! The lines of a file of questions, read ahead on a thread of their own.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Context, Result};
use ruge::predict::LONGEST;

/// Lines that are waited for before answering begins, if the source has so many at hand.
const ENOUGH: usize = 8192;
/// Bytes of lines after which answering begins as well.
const ENOUGH_BYTES: usize = 1 << 25;
/// Bytes read at once.
const BUFFER: usize = 1 << 18;

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
        let (sender, blocks) = sync_channel(4);
        std::thread::spawn(move || {
            let mut reader = BufReader::with_capacity(BUFFER, source);
            let mut in_long = false;
            loop {
                let block = read_block(&mut reader, &mut in_long, LONGEST);
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
        let mut bytes = 0;
        let mut block = self.blocks.recv().ok();
        while let Some(found) = block {
            let found = found.with_context(|| format!("{}: cannot read after line {}", self.name, self.line))?;
            for text in found {
                self.line += 1;
                bytes += text.len();
                lines.push((self.line, text));
            }
            block = if lines.len() < ENOUGH && bytes < ENOUGH_BYTES { self.blocks.try_recv().ok() } else { None };
        }
        Ok(lines)
    }
}

/// Lines until the buffer is used up: then the source may have us wait, and nobody should wait for what we have.
///
/// Of a line without an end comes one byte more than a line may have, at once; `in_long` then passes over what follows of it.
fn read_block(reader: &mut impl BufRead, in_long: &mut bool, longest: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    let mut line: Vec<u8> = Vec::new();
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if buffer.is_empty() {
            if !line.is_empty() {
                lines.push(stripped(line));
            }
            return Ok(lines);
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let piece = end.map_or(buffer, |at| &buffer[..=at]);
        if !*in_long {
            line.extend_from_slice(&piece[..piece.len().min(longest + 2 - line.len())]);
        }
        let (used, rest) = (piece.len(), buffer.len() - piece.len());
        reader.consume(used);
        if *in_long {
            *in_long = end.is_none();
        } else if end.is_some() {
            lines.push(stripped(std::mem::take(&mut line)));
        } else if line.len() > longest + 1 {
            *in_long = true;
            lines.push(std::mem::take(&mut line));
        }
        // A line that has begun is waited for; one that is too long is not.
        if rest == 0 && line.is_empty() && !lines.is_empty() {
            return Ok(lines);
        }
    }
}

/// Without its line end.
fn stripped(mut line: Vec<u8>) -> Vec<u8> {
    while matches!(line.last(), Some(b'\n' | b'\r')) {
        line.pop();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines of a text that comes in pieces of `size` bytes.
    fn lines(text: &[u8], size: usize, longest: usize) -> Vec<Vec<u8>> {
        let mut reader = BufReader::with_capacity(size, text);
        let (mut in_long, mut all) = (false, Vec::new());
        loop {
            let block = read_block(&mut reader, &mut in_long, longest).unwrap();
            if block.is_empty() {
                return all;
            }
            all.extend(block);
        }
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text = b"a\tr\t?\n\n12345678\r\n123456789\nb\r\nlast";
        let expected: [&[u8]; 6] = [b"a\tr\t?", b"", b"12345678", b"123456789", b"b", b"last"];
        for size in 1..40 {
            let found = lines(text, size, 8);
            assert_eq!(found.len(), 6, "{size}");
            for (found, expected) in found.iter().zip(expected) {
                if expected.len() <= 8 {
                    assert_eq!(found, expected, "{size}");
                } else {
                    assert!(found.len() > 8, "a line that is too long stays too long");
                }
            }
        }
    }

    #[test]
    fn a_line_without_an_end_comes_before_its_end() {
        // An endless source: whoever reads it to the end never returns.
        let mut reader = BufReader::with_capacity(64, b"a\tr\t?\n".chain(io::repeat(b'x')));
        let mut in_long = false;
        let mut next = || read_block(&mut reader, &mut in_long, 1000).unwrap();
        assert_eq!(next(), [b"a\tr\t?"]);
        let long = next();
        assert_eq!((long.len(), long[0].len()), (1, 1002));
        assert!(in_long);
    }
}
