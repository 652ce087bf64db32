//! Blocks of lines, shared by all line-oriented readers.
//!
//! Each block of text is parsed independently. It counts its own lines and numbers names that no earlier block has
//! introduced. Blocks are then merged in file order, so every name gets the id of its first appearance in the *file*,
//! independent of blocks and threads.

use std::collections::BTreeMap;

use memchr::memchr;

use super::{FileContents, FileReport, Limits, ReadOptions};
use crate::error::{KgError, MAX_SHOWN, Reason, shown};
use crate::triple::{EntityId, Id, RelationId, Triple};
use crate::vocabulary::{Finds, NONE, NameList, Names, Slots, Vocabulary, hash_name};

/// The names of a block. Names known from merged blocks keep their ids; new ones are numbered after them by first
/// appearance in the block. `N` borrows the text where it can.
pub(super) struct LocalNames<'k, N> {
    known: &'k NameList,
    slots: Slots,
    new: NewNames<N>,
    finds: Finds,
}

/// Names that were unknown when their block was parsed, with their hashes.
pub(super) struct NewNames<N> {
    /// Their provisional ids start here.
    base: u32,
    names: Vec<(u64, N)>,
}

impl<'k, N: AsRef<str>> LocalNames<'k, N> {
    fn new(known: &'k NameList) -> Self {
        let base = u32::try_from(known.len()).unwrap_or(NONE);
        Self { known, slots: Slots::default(), new: NewNames { base, names: Vec::new() }, finds: Finds::default() }
    }

    #[inline]
    pub(super) fn intern(&mut self, name: N) -> u32 {
        let hash = hash_name(name.as_ref().as_bytes());
        self.known.find(hash, name.as_ref()).unwrap_or_else(|| intern_new(&mut self.slots, &mut self.new, hash, name))
    }

    /// [`intern`](Self::intern) for many names, in order; drains `names`.
    pub(super) fn intern_all(&mut self, names: &mut Vec<N>) -> &[u32] {
        self.known.find_all(names, &mut self.finds);
        for ((name, id), &hash) in names.drain(..).zip(&mut self.finds.found).zip(&self.finds.hashes) {
            if *id == NONE {
                *id = intern_new(&mut self.slots, &mut self.new, hash, name);
            }
        }
        &self.finds.found
    }
}

#[inline]
fn intern_new<N: AsRef<str>>(slots: &mut Slots, new: &mut NewNames<N>, hash: u64, name: N) -> u32 {
    let same = |id: u32| new.names[id as usize].1.as_ref() == name.as_ref();
    if let Some(id) = slots.find(hash, same) {
        return new.base + id;
    }
    let id = new.names.len() as u32;
    assert!(id < NONE - new.base, "a graph holds fewer than 2^32 names of a kind");
    slots.insert(hash, id);
    new.names.push((hash, name));
    new.base + id
}

impl<N: AsRef<str>> NewNames<N> {
    /// Assigns the final ids; returns the map from ids of the block to ids of the file.
    pub(super) fn settle<I: Id>(
        self,
        vocabulary: &mut Vocabulary<I>,
        what: &'static str,
        limits: &Limits,
    ) -> Result<impl Fn(u32) -> I, KgError> {
        let base = self.base;
        let bytes = self.names.iter().map(|(_, name)| name.as_ref().len()).sum();
        vocabulary.reserve(self.names.len(), bytes, what, limits)?;
        let ids: Vec<I> =
            self.names.iter().map(|(hash, name)| vocabulary.intern_hashed(*hash, name.as_ref())).collect();
        Ok(move |id| if id < base { I::from_index(id as usize) } else { ids[(id - base) as usize] })
    }
}

pub(super) struct BlockNames<'k, N> {
    pub(super) entities: LocalNames<'k, N>,
    pub(super) relations: LocalNames<'k, N>,
}

impl<'k, N: AsRef<str>> BlockNames<'k, N> {
    pub(super) fn new(known: &'k Names) -> Self {
        Self { entities: LocalNames::new(known.entities.list()), relations: LocalNames::new(known.relations.list()) }
    }

    /// The new names.
    pub(super) fn into_new(self) -> (NewNames<N>, NewNames<N>) {
        (self.entities.new, self.relations.new)
    }
}

/// The contents of one block, with its own line numbers.
pub(super) struct Block<T> {
    pub(super) items: Vec<T>,
    /// (item, line) wherever an item is not on the line after the previous one.
    jumps: Vec<(usize, u64)>,
    /// Whether the current line has no items on purpose, and is not blank.
    left_out: bool,
    /// The first problems, and the count of the others by kind.
    problems: Vec<(u64, String, Reason)>,
    further: BTreeMap<&'static str, u64>,
    lines: u64,
    blank_lines: u64,
    crlf_lines: u64,
    /// Fields with surrounding blanks; counted by the reader of fields.
    pub(super) trimmed_fields: u64,
}

impl<T> Block<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            items: Vec::with_capacity(capacity),
            jumps: Vec::new(),
            left_out: false,
            problems: Vec::new(),
            further: BTreeMap::new(),
            lines: 0,
            blank_lines: 0,
            crlf_lines: 0,
            trimmed_fields: 0,
        }
    }

    /// Says that the current line is a statement which adds no item.
    pub(super) fn left_out(&mut self) {
        self.left_out = true;
    }

    /// Passes every line to `read`, which adds the items it finds. A line without items counts as blank; a line that
    /// `read` rejects adds only a problem. Lines that are not UTF-8 or contain a NUL are not passed on.
    ///
    /// A strict reader stops at [`MAX_SHOWN`] problems.
    #[inline]
    pub(super) fn parse<'t>(
        text: &'t [u8],
        options: &ReadOptions,
        mut read: impl FnMut(&mut Self, &'t str) -> Result<(), Reason>,
    ) -> Self {
        let mut block = Self::new(text.len() / 48);
        // Checked once for the whole block; only an invalid block is checked line by line.
        let clean = std::str::from_utf8(text).ok().filter(|_| memchr(0, text).is_none());
        let mut start = 0;
        // Whether the next item is not on the line after the previous one.
        let mut jumped = false;
        while start < text.len() {
            let next = memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at + 1);
            let (line, crlf) = strip_line_end(&text[start..next]);
            let end = start + line.len();
            block.lines += 1;
            block.crlf_lines += u64::from(crlf);
            let checked = match clean {
                _ if line.len() > options.limits.line => Err(Reason::LongLine { most: options.limits.line }),
                Some(text) => Ok(&text[start..end]),
                None if memchr(0, line).is_some() => Err(Reason::NulByte),
                None => std::str::from_utf8(line).map_err(|_| Reason::InvalidUtf8),
            };
            start = next;
            let known = block.items.len();
            match checked.and_then(|line| read(&mut block, line)) {
                Ok(()) if block.items.len() == known => {
                    block.blank_lines += u64::from(!std::mem::take(&mut block.left_out));
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
                    if block.problems.len() >= MAX_SHOWN {
                        *block.further.entry(reason.kind()).or_default() += 1;
                        continue;
                    }
                    let line = &line[..line.len().min(options.limits.line)];
                    block.problems.push((block.lines, shown(line), reason));
                    if !options.lenient && block.problems.len() >= MAX_SHOWN {
                        break;
                    }
                }
            }
        }
        block
    }

    /// Appends the block; `triple` turns an item into a triple.
    pub(super) fn merge(
        self,
        contents: &mut FileContents,
        options: &ReadOptions,
        triple: impl Fn(T) -> Triple,
    ) -> Result<(), KgError> {
        contents.reserve(self.items.len(), &options.limits)?;
        let base = contents.triples.len();
        let report = &mut contents.report;
        if self.jumps.first().is_none_or(|&(item, _)| item > 0) && !self.items.is_empty() {
            contents.lines.jump(base, report.lines + 1);
        }
        for &(item, line) in &self.jumps {
            contents.lines.jump(base + item, report.lines + line);
        }
        contents.triples.extend(self.tally(report).into_iter().map(triple));
        Ok(())
    }

    /// Adds problems and counts to the report and returns the items.
    pub(super) fn tally(self, report: &mut FileReport) -> Vec<T> {
        for (line, text, reason) in self.problems {
            report.bad_line(report.lines + line, text, reason);
        }
        for (kind, count) in self.further {
            report.further_bad_lines(count, kind);
        }
        report.lines += self.lines;
        report.blank_lines += self.blank_lines;
        report.crlf_lines += self.crlf_lines;
        report.trimmed_fields += self.trimmed_fields;
        self.items
    }
}

impl Block<[u32; 3]> {
    /// [`merge`](Self::merge) for items whose ids refer to known names and to the block's `new` ones.
    pub(super) fn merge_named<N: AsRef<str>>(
        self,
        (entities, relations): (NewNames<N>, NewNames<N>),
        names: &mut Names,
        contents: &mut FileContents,
        options: &ReadOptions,
    ) -> Result<(), KgError> {
        let entity = entities.settle::<EntityId>(&mut names.entities, "entities", &options.limits)?;
        let relation = relations.settle::<RelationId>(&mut names.relations, "relations", &options.limits)?;
        self.merge(contents, options, |[head, label, tail]| Triple {
            head: entity(head),
            relation: relation(label),
            tail: entity(tail),
        })
    }
}

/// The line without its LF or CR LF, and whether it ended in CR LF.
#[inline]
pub(super) fn strip_line_end(line: &[u8]) -> (&[u8], bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    match line.strip_suffix(b"\r") {
        Some(line) => (line, true),
        None => (line, false),
    }
}
