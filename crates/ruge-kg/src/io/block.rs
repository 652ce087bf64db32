//! Blocks of lines: what every line-oriented reader shares.
//!
//! Each block of text is parsed on its own into local ids and local line numbers; blocks are then merged in file
//! order, which gives every name the id of its first appearance in the *file*, whatever the blocks or threads were.

use hashbrown::HashTable;
use memchr::memchr;

use super::{FileContents, FileReport, ReadOptions};
use crate::error::{MAX_SHOWN, Reason, shown};
use crate::triple::{EntityId, RelationId, Triple};
use crate::vocabulary::{Names, hash_name};

/// The names of a block, by first appearance in it; `N` borrows the text where it can.
pub(super) struct LocalNames<N> {
    table: HashTable<(u32, u32)>,
    names: Vec<(u64, N)>,
}

impl<N: AsRef<str>> LocalNames<N> {
    pub(super) fn new() -> Self {
        Self { table: HashTable::new(), names: Vec::new() }
    }

    #[inline]
    pub(super) fn intern(&mut self, name: N) -> u32 {
        let hash = hash_name(name.as_ref().as_bytes());
        let names = &self.names;
        let same = |&(tag, id): &(u32, u32)| tag == hash as u32 && names[id as usize].1.as_ref() == name.as_ref();
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

/// Entities and relations of one block.
pub(super) struct BlockNames<N> {
    pub(super) entities: LocalNames<N>,
    pub(super) relations: LocalNames<N>,
}

impl<N: AsRef<str>> BlockNames<N> {
    pub(super) fn new() -> Self {
        Self { entities: LocalNames::new(), relations: LocalNames::new() }
    }
}

/// What the lines of one block hold, in line numbers of its own.
pub(super) struct Block<T> {
    /// One item per triple.
    pub(super) items: Vec<T>,
    /// (item, line) wherever the items do not follow line by line.
    jumps: Vec<(usize, u64)>,
    problems: Vec<(u64, String, Reason)>,
    lines: u64,
    blank_lines: u64,
    crlf_lines: u64,
    /// Fields that had blanks around them; for the reader of fields to count.
    pub(super) trimmed_fields: u64,
}

impl<T> Block<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            items: Vec::with_capacity(capacity),
            jumps: Vec::new(),
            problems: Vec::new(),
            lines: 0,
            blank_lines: 0,
            crlf_lines: 0,
            trimmed_fields: 0,
        }
    }

    /// Hands every line to `read`, which adds the items it finds; a line without any counts as blank, and a line that
    /// `read` rejects leaves nothing behind but the problem. Lines that are not UTF-8 or hold a NUL never reach it.
    ///
    /// A strict reader stops at [`MAX_SHOWN`] problems.
    #[inline]
    pub(super) fn parse<'t>(
        text: &'t [u8],
        options: &ReadOptions,
        mut read: impl FnMut(&mut Self, &'t str) -> Result<(), Reason>,
    ) -> Self {
        let mut block = Self::new(text.len() / 48);
        // Checked once for the whole block; only a block with a fault is checked again line by line.
        let clean = std::str::from_utf8(text).ok().filter(|_| memchr(0, text).is_none());
        let mut start = 0;
        // Whether the next item stands elsewhere than one line below the one before it.
        let mut jumped = false;
        while start < text.len() {
            let next = memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at + 1);
            let (line, crlf) = strip_line_end(&text[start..next]);
            let end = start + line.len();
            block.lines += 1;
            block.crlf_lines += u64::from(crlf);
            let checked = match clean {
                Some(text) => Ok(&text[start..end]),
                None if memchr(0, line).is_some() => Err(Reason::NulByte),
                None => std::str::from_utf8(line).map_err(|_| Reason::InvalidUtf8),
            };
            start = next;
            let known = block.items.len();
            match checked.and_then(|line| read(&mut block, line)) {
                Ok(()) if block.items.len() == known => {
                    block.blank_lines += 1;
                    jumped = true;
                }
                Ok(()) => {
                    if std::mem::take(&mut jumped) {
                        block.jumps.push((known, block.lines));
                    }
                    for further in known + 1..block.items.len() {
                        block.jumps.push((further, block.lines));
                        jumped = true;
                    }
                }
                Err(reason) => {
                    block.items.truncate(known);
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

    /// Adds the block behind those before it; `triple` turns an item into a triple.
    pub(super) fn merge(self, contents: &mut FileContents, triple: impl Fn(T) -> Triple) {
        let base = contents.triples.len();
        let report = &mut contents.report;
        if self.jumps.first().is_none_or(|&(item, _)| item > 0) && !self.items.is_empty() {
            contents.lines.jump(base, report.lines + 1);
        }
        for &(item, line) in &self.jumps {
            contents.lines.jump(base + item, report.lines + line);
        }
        contents.triples.extend(self.tally(report).into_iter().map(triple));
    }

    /// Adds problems and counts to the report and leaves the items.
    pub(super) fn tally(self, report: &mut FileReport) -> Vec<T> {
        for (line, text, reason) in self.problems {
            report.bad_line(report.lines + line, text, reason);
        }
        report.lines += self.lines;
        report.blank_lines += self.blank_lines;
        report.crlf_lines += self.crlf_lines;
        report.trimmed_fields += self.trimmed_fields;
        self.items
    }
}

impl Block<[u32; 3]> {
    /// [`merge`](Self::merge) for items that are local ids of `local`.
    pub(super) fn merge_named<N: AsRef<str>>(
        self,
        local: &BlockNames<N>,
        names: &mut Names,
        contents: &mut FileContents,
    ) {
        let intern = |(hash, name): &(u64, N)| names.entities.intern_hashed(*hash, name.as_ref());
        let entities: Vec<EntityId> = local.entities.names.iter().map(intern).collect();
        let intern = |(hash, name): &(u64, N)| names.relations.intern_hashed(*hash, name.as_ref());
        let relations: Vec<RelationId> = local.relations.names.iter().map(intern).collect();
        self.merge(contents, |[head, relation, tail]| Triple {
            head: entities[head as usize],
            relation: relations[relation as usize],
            tail: entities[tail as usize],
        });
    }
}

/// Without its LF or CR LF; whether it was the latter.
#[inline]
pub(super) fn strip_line_end(line: &[u8]) -> (&[u8], bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    match line.strip_suffix(b"\r") {
        Some(line) => (line, true),
        None => (line, false),
    }
}
