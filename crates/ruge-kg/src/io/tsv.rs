//! Plain text triples: one a line, three fields, parsed in parallel.
//!
//! Each block of text is parsed on its own into local ids; blocks are then merged in file order, which gives every
//! name the id of its first appearance in the *file*, whatever the blocks or threads were.

use std::ops::ControlFlow;

use hashbrown::HashTable;
use memchr::{memchr, memchr2};
use rayon::prelude::*;

use super::{
    BOM, Columns, FileContents, Format, Header, ReadOptions, Source, blank_fields, looks_like_header, split_count,
};
use crate::error::{KgError, MAX_SHOWN, Reason, shown};
use crate::triple::{EntityId, RelationId, Triple};
use crate::vocabulary::{Names, hash_name};

/// Reads tab- or blank-separated triples.
pub(super) fn read(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let format = contents.report.format;
    let mut first = true;
    source.for_each_batch(|blocks| {
        let mut blocks = blocks.to_vec();
        if first {
            first = false;
            blocks[0] = open_file(blocks[0], format, options, contents);
        }
        let parsed: Vec<Block<'_>> = blocks.par_iter().map(|&block| Block::parse(block, format, options)).collect();
        for block in parsed {
            block.merge(names, contents);
            if contents.report.enough(options) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })
}

/// Passes over a byte-order mark and a header line, noting both.
fn open_file<'t>(block: &'t [u8], format: Format, options: &ReadOptions, contents: &mut FileContents) -> &'t [u8] {
    let report = &mut contents.report;
    let text = block.strip_prefix(BOM);
    report.bom = text.is_some();
    let text = text.unwrap_or(block);
    let end = memchr(b'\n', text).map_or(text.len(), |at| at + 1);
    let line = strip_line_end(&text[..end]).0;
    let is_header = match options.header {
        Header::Yes => true,
        Header::No => false,
        Header::Auto => std::str::from_utf8(line)
            .ok()
            .and_then(|line| fields(line, format, options.columns))
            .is_some_and(|[head, relation, tail]| looks_like_header(head, relation, tail)),
    };
    if is_header && !text.is_empty() {
        report.header = Some(String::from_utf8_lossy(line).into_owned());
        report.lines = 1;
        contents.lines.jump(0, 2);
        return &text[end..];
    }
    text
}

/// The three fields of a well-formed line.
fn fields(line: &str, format: Format, columns: Columns) -> Option<[&str; 3]> {
    let fields: Vec<&str> = match format {
        Format::Tsv => line.split('\t').collect(),
        _ => line.split_ascii_whitespace().collect(),
    };
    (fields.len() == columns.count).then(|| [fields[columns.head], fields[columns.relation], fields[columns.tail]])
}

/// The names of a block, by first appearance in it; they borrow the text.
struct LocalNames<'t> {
    table: HashTable<(u32, u32)>,
    names: Vec<(u64, &'t str)>,
}

impl<'t> LocalNames<'t> {
    fn new() -> Self {
        Self { table: HashTable::new(), names: Vec::new() }
    }

    #[inline]
    fn intern(&mut self, name: &'t str) -> u32 {
        let hash = hash_name(name.as_bytes());
        let names = &self.names;
        let same = |&(tag, id): &(u32, u32)| tag == hash as u32 && names[id as usize].1 == name;
        if let Some(&(_, id)) = self.table.find(hash, same) {
            return id;
        }
        let id = self.names.len() as u32;
        self.names.push((hash, name));
        let names = &self.names;
        self.table.insert_unique(hash, (hash as u32, id), |&(_, id)| names[id as usize].0);
        id
    }
}

/// What one block of text holds, in local ids and local line numbers.
struct Block<'t> {
    entities: LocalNames<'t>,
    relations: LocalNames<'t>,
    triples: Vec<[u32; 3]>,
    /// (triple, line) wherever a line was passed over before that triple.
    jumps: Vec<(usize, u64)>,
    problems: Vec<(u64, String, Reason)>,
    lines: u64,
    blank_lines: u64,
    crlf_lines: u64,
    trimmed_fields: u64,
}

impl<'t> Block<'t> {
    fn parse(text: &'t [u8], format: Format, options: &ReadOptions) -> Self {
        let mut block = Self {
            entities: LocalNames::new(),
            relations: LocalNames::new(),
            triples: Vec::with_capacity(text.len() / 48),
            jumps: Vec::new(),
            problems: Vec::new(),
            lines: 0,
            blank_lines: 0,
            crlf_lines: 0,
            trimmed_fields: 0,
        };
        // Checked once for the whole block; only a block with a fault is checked again line by line.
        let clean = std::str::from_utf8(text).ok().filter(|_| memchr(0, text).is_none());
        let simple = format == Format::Tsv && options.columns == Columns::default();
        let mut start = 0;
        let mut jumped = false;
        while start < text.len() {
            let next = memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at + 1);
            let (line, crlf) = strip_line_end(&text[start..next]);
            let end = start + line.len();
            block.lines += 1;
            block.crlf_lines += u64::from(crlf);
            let checked = match clean {
                Some(text) => Ok(&text[start..end]),
                None => std::str::from_utf8(line).map_err(|_| Reason::InvalidUtf8),
            };
            start = next;
            let outcome = match checked {
                Err(reason) => Err(reason),
                Ok(_) if clean.is_none() && memchr(0, line).is_some() => Err(Reason::NulByte),
                Ok(line) if simple => block.triple_of_tabs(line),
                Ok(line) => block.triple_of_columns(line, format, options.columns),
            };
            match outcome {
                Ok(Some(triple)) => {
                    if std::mem::take(&mut jumped) {
                        block.jumps.push((block.triples.len(), block.lines));
                    }
                    block.triples.push(triple);
                }
                Ok(None) => {
                    block.blank_lines += 1;
                    jumped = true;
                }
                Err(reason) => {
                    jumped = true;
                    block.problems.push((block.lines, shown(line), reason));
                    if !options.lenient && block.problems.len() >= MAX_SHOWN {
                        break;
                    }
                }
            }
        }
        block
    }

    /// The common case: `head TAB relation TAB tail`, nothing allocated.
    #[inline]
    fn triple_of_tabs(&mut self, line: &'t str) -> Result<Option<[u32; 3]>, Reason> {
        let bytes = line.as_bytes();
        let first = memchr(b'\t', bytes);
        let second = first.and_then(|first| memchr(b'\t', &bytes[first + 1..]).map(|at| first + 1 + at));
        let (Some(first), Some(second)) = (first, second) else {
            return self.triple_of_columns(line, Format::Tsv, Columns::default());
        };
        let tail = &line[second + 1..];
        if memchr(b'\t', tail.as_bytes()).is_some() {
            return Err(wrong_columns(line, Format::Tsv, Columns::default()));
        }
        self.intern(&line[..first], &line[first + 1..second], tail).map(Some)
    }

    fn triple_of_columns(
        &mut self,
        line: &'t str,
        format: Format,
        columns: Columns,
    ) -> Result<Option<[u32; 3]>, Reason> {
        if line.trim_ascii().is_empty() && (format == Format::Whitespace || memchr(b'\t', line.as_bytes()).is_none()) {
            return Ok(None);
        }
        match fields(line, format, columns) {
            Some([head, relation, tail]) => self.intern(head, relation, tail).map(Some),
            None => Err(wrong_columns(line, format, columns)),
        }
    }

    #[inline]
    fn intern(&mut self, head: &'t str, relation: &'t str, tail: &'t str) -> Result<[u32; 3], Reason> {
        let head = self.trimmed(head, "head")?;
        let relation = self.trimmed(relation, "relation")?;
        let tail = self.trimmed(tail, "tail")?;
        Ok([self.entities.intern(head), self.relations.intern(relation), self.entities.intern(tail)])
    }

    #[inline]
    fn trimmed(&mut self, field: &'t str, name: &'static str) -> Result<&'t str, Reason> {
        let bytes = field.as_bytes();
        match (bytes.first(), bytes.last()) {
            (Some(&first), Some(&last)) if first != b' ' && last != b' ' => Ok(field),
            _ => {
                let trimmed = field.trim_matches(' ');
                if trimmed.is_empty() {
                    return Err(Reason::EmptyField { field: name });
                }
                self.trimmed_fields += 1;
                Ok(trimmed)
            }
        }
    }

    /// Adds the block's triples behind those of the blocks before it.
    fn merge(self, names: &mut Names, contents: &mut FileContents) {
        let intern = |&(hash, name): &(u64, &str)| names.entities.intern_hashed(hash, name);
        let entities: Vec<EntityId> = self.entities.names.iter().map(intern).collect();
        let intern = |&(hash, name): &(u64, &str)| names.relations.intern_hashed(hash, name);
        let relations: Vec<RelationId> = self.relations.names.iter().map(intern).collect();
        let base = contents.triples.len();
        let report = &mut contents.report;
        if self.jumps.first().is_none_or(|&(triple, _)| triple > 0) && !self.triples.is_empty() {
            contents.lines.jump(base, report.lines + 1);
        }
        for (triple, line) in self.jumps {
            contents.lines.jump(base + triple, report.lines + line);
        }
        for (line, text, reason) in self.problems {
            report.bad_line(report.lines + line, text, reason);
        }
        contents.triples.extend(self.triples.iter().map(|&[head, relation, tail]| Triple {
            head: entities[head as usize],
            relation: relations[relation as usize],
            tail: entities[tail as usize],
        }));
        report.lines += self.lines;
        report.blank_lines += self.blank_lines;
        report.crlf_lines += self.crlf_lines;
        report.trimmed_fields += self.trimmed_fields;
    }
}

/// Without its LF or CR LF; whether it was the latter.
#[inline]
fn strip_line_end(line: &[u8]) -> (&[u8], bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    match line.strip_suffix(b"\r") {
        Some(line) => (line, true),
        None => (line, false),
    }
}

/// Says whether the line merely uses another separator, or has too few or too many fields.
fn wrong_columns(line: &str, format: Format, columns: Columns) -> Reason {
    let bytes = line.as_bytes();
    let found = if format == Format::Tsv { line.split('\t').count() } else { blank_fields(bytes) };
    let others = [
        (Format::Tsv, line.split('\t').count()),
        (Format::Csv(b','), split_count(bytes, b',')),
        (Format::Csv(b';'), split_count(bytes, b';')),
        (Format::Csv(b'|'), split_count(bytes, b'|')),
        (Format::Whitespace, if memchr2(b' ', b'\t', bytes).is_some() { blank_fields(bytes) } else { 0 }),
    ];
    match others.iter().find(|&&(other, count)| other != format && count == columns.count) {
        Some(&(other, _)) => Reason::MixedSeparators { expected: format.separator(), found: other.separator() },
        None => Reason::Columns { found, expected: columns.count },
    }
}
