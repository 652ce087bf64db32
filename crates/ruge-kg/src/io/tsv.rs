//! Plain-text triples: one per line, fields between separators, no quoting; parsed in parallel.
//!
//! This covers tab- and blank-separated files, and CSV files without quotes.

use std::ops::ControlFlow;

use memchr::{memchr, memchr2};
use rayon::prelude::*;

use super::block::{Block, BlockNames, NewNames, strip_line_end};
use super::{Columns, FileContents, Format, Header, ReadOptions, Source, blank_fields, looks_like_header, split_count};
use crate::error::{KgError, Reason};
use crate::vocabulary::Names;

/// Reads triples whose fields are separated by tabs, blanks or a byte, and taken literally.
pub(super) fn read(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let mut first = true;
    source.for_each_batch(options, |blocks| {
        let mut blocks = blocks.to_vec();
        if std::mem::take(&mut first) {
            blocks[0] = open_file(blocks[0], options, contents);
        }
        read_batch(&blocks, names, options, contents)
    })
}

/// Parses blocks in parallel and merges their contents.
pub(super) fn read_batch(
    blocks: &[&[u8]],
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<ControlFlow<()>, KgError> {
    let (format, columns) = (contents.report.format, contents.report.table());
    let parsed: Vec<_> = blocks.par_iter().map(|&block| parse(block, names, format, columns, options)).collect();
    for (new, block) in parsed {
        block.merge_named(new, names, contents, options)?;
        if contents.report.enough(options) {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Skips a byte-order mark and a header line, and records both.
pub(super) fn open_file<'t>(block: &'t [u8], options: &ReadOptions, contents: &mut FileContents) -> &'t [u8] {
    let format = contents.report.format;
    let text = contents.report.pass_bom(block);
    let end = memchr(b'\n', text).map_or(text.len(), |at| at + 1);
    let (line, crlf) = strip_line_end(&text[..end]);
    let is_header = match options.header {
        Header::Yes => true,
        Header::No => false,
        Header::Auto => std::str::from_utf8(line)
            .ok()
            .and_then(|line| fields(line, format, contents.report.table()))
            .is_some_and(|[head, relation, tail]| looks_like_header(head, relation, tail)),
    };
    if is_header && !text.is_empty() {
        contents.report.header = Some(String::from_utf8_lossy(line).into_owned());
        contents.report.lines = 1;
        contents.report.crlf_lines = u64::from(crlf);
        return &text[end..];
    }
    text
}

fn fields(line: &str, format: Format, columns: Columns) -> Option<[&str; 3]> {
    let mut wanted = [None; 3];
    let mut count = 0;
    let mut see = |field| {
        for (slot, column) in wanted.iter_mut().zip([columns.head, columns.relation, columns.tail]) {
            if column == count {
                *slot = Some(field);
            }
        }
        count += 1;
    };
    match format.separator_byte() {
        Some(separator) => line.split(char::from(separator)).for_each(&mut see),
        None => line.split_ascii_whitespace().for_each(&mut see),
    }
    match wanted {
        [Some(head), Some(relation), Some(tail)] if count == columns.count => Some([head, relation, tail]),
        _ => None,
    }
}

type Items = Block<[u32; 3]>;

/// Lines whose names are looked up together.
const LINES_AT_ONCE: usize = 128;

/// The names of a block, and those of its last lines that have not been looked up. `N` borrows the text where it can.
pub(super) struct Local<'k, N> {
    names: BlockNames<'k, N>,
    entities: Vec<N>,
    relations: Vec<N>,
}

impl<'k, N: AsRef<str>> Local<'k, N> {
    pub(super) fn new(known: &'k Names) -> Self {
        let (entities, relations) = (Vec::with_capacity(2 * LINES_AT_ONCE), Vec::with_capacity(LINES_AT_ONCE));
        Self { names: BlockNames::new(known), entities, relations }
    }

    /// Adds a triple; its ids are filled in once there are enough lines.
    #[inline]
    pub(super) fn push(&mut self, items: &mut Vec<[u32; 3]>, [head, relation, tail]: [N; 3]) {
        self.entities.extend([head, tail]);
        self.relations.push(relation);
        items.push([0; 3]);
        if self.relations.len() == LINES_AT_ONCE {
            self.look_up(items);
        }
    }

    /// Looks up the ids of the last items.
    fn look_up(&mut self, items: &mut [[u32; 3]]) {
        let first = items.len() - self.relations.len();
        let items = &mut items[first..];
        let ends = self.names.entities.intern_all(&mut self.entities);
        for (item, ends) in items.iter_mut().zip(ends.chunks_exact(2)) {
            (item[0], item[2]) = (ends[0], ends[1]);
        }
        let relations = self.names.relations.intern_all(&mut self.relations);
        items.iter_mut().zip(relations).for_each(|(item, &relation)| item[1] = relation);
    }

    /// Looks up the ids of what is left, and returns the new names.
    pub(super) fn finish(mut self, items: &mut [[u32; 3]]) -> (NewNames<N>, NewNames<N>) {
        self.look_up(items);
        self.names.into_new()
    }
}

type New<'t> = NewNames<&'t str>;

fn parse<'t>(
    text: &'t [u8],
    known: &Names,
    format: Format,
    columns: Columns,
    options: &ReadOptions,
) -> ((New<'t>, New<'t>), Items) {
    let mut local = Local::new(known);
    // The common case has its own loop: three fields in order, no allocation.
    let mut block = match format.separator_byte() {
        Some(separator) if columns == Columns::default() => {
            let most = options.limits.name;
            Block::parse(text, options, |block, line| in_order(block, &mut local, line, separator, format, most))
        }
        _ => Block::parse(text, options, |block, line| {
            by_columns(block, &mut local, line, format, columns, options.limits.name)
        }),
    };
    (local.finish(&mut block.items), block)
}

#[inline]
fn in_order<'t>(
    block: &mut Items,
    local: &mut Local<'_, &'t str>,
    line: &'t str,
    separator: u8,
    format: Format,
    most: usize,
) -> Result<(), Reason> {
    let bytes = line.as_bytes();
    let first = memchr(separator, bytes);
    let second = first.and_then(|first| memchr(separator, &bytes[first + 1..]).map(|at| first + 1 + at));
    let (Some(first), Some(second)) = (first, second) else {
        return by_columns(block, local, line, format, Columns::default(), most);
    };
    let tail = &line[second + 1..];
    if memchr(separator, tail.as_bytes()).is_some() {
        return Err(wrong_columns(line, format, Columns::default()));
    }
    intern(block, local, [&line[..first], &line[first + 1..second], tail], most)
}

fn by_columns<'t>(
    block: &mut Items,
    local: &mut Local<'_, &'t str>,
    line: &'t str,
    format: Format,
    columns: Columns,
    most: usize,
) -> Result<(), Reason> {
    let separated = format.separator_byte().is_some_and(|separator| memchr(separator, line.as_bytes()).is_some());
    if !separated && line.trim_ascii().is_empty() {
        return Ok(());
    }
    match fields(line, format, columns) {
        Some(fields) => intern(block, local, fields, most),
        None => Err(wrong_columns(line, format, columns)),
    }
}

#[inline]
fn intern<'t>(
    block: &mut Items,
    local: &mut Local<'_, &'t str>,
    fields: [&'t str; 3],
    most: usize,
) -> Result<(), Reason> {
    // All three are checked before any is interned: a bad line must add no name.
    let [head, relation, tail] = fields;
    let mut trimmed = 0;
    let head = trim(head, "head", &mut trimmed)?;
    let relation = trim(relation, "relation", &mut trimmed)?;
    let tail = trim(tail, "tail", &mut trimmed)?;
    short_enough([head, relation, tail], most)?;
    block.trimmed_fields += trimmed;
    local.push(&mut block.items, [head, relation, tail]);
    Ok(())
}

/// A field without surrounding blanks, which are counted.
#[inline]
pub(super) fn trim<'t>(field: &'t str, name: &'static str, trimmed_fields: &mut u64) -> Result<&'t str, Reason> {
    let bytes = field.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) if first != b' ' && last != b' ' => Ok(field),
        _ => {
            let trimmed = field.trim_matches(' ');
            if trimmed.is_empty() {
                return Err(Reason::EmptyField { field: name });
            }
            *trimmed_fields += 1;
            Ok(trimmed)
        }
    }
}

/// Rejects names above the maximum length.
#[inline]
pub(super) fn short_enough(names: [&str; 3], most: usize) -> Result<(), Reason> {
    if names.iter().all(|name| name.len() <= most) {
        return Ok(());
    }
    let long = names.iter().zip(["head", "relation", "tail"]).find(|(name, _)| name.len() > most);
    Err(Reason::LongName { field: long.map_or("name", |(_, field)| field), most })
}

/// Decides whether the line uses another separator or has too few or too many fields.
pub(super) fn wrong_columns(line: &str, format: Format, columns: Columns) -> Reason {
    let bytes = line.as_bytes();
    let found = match format {
        Format::Csv(separator) => split_count(bytes, separator),
        Format::Tsv => line.split('\t').count(),
        _ => blank_fields(bytes),
    };
    let others = [
        (Format::Tsv, line.split('\t').count()),
        (Format::Csv(b','), split_count(bytes, b',')),
        (Format::Csv(b';'), split_count(bytes, b';')),
        (Format::Csv(b'|'), split_count(bytes, b'|')),
        (Format::Whitespace, if memchr2(b' ', b'\t', bytes).is_some() { blank_fields(bytes) } else { 0 }),
    ];
    let same = |other: Format| other == format || other.separator_byte() == format.separator_byte();
    // A line that contains the file's separator uses it, whatever commas and blanks its names have. Names contain no
    // tabs.
    let uses = found > 1 && format != Format::Whitespace;
    let other = |other: Format| !same(other) && (!uses || other == Format::Tsv);
    match others.iter().find(|&&(format, count)| other(format) && count == columns.count) {
        Some(&(other, _)) => Reason::MixedSeparators { expected: format.separator(), found: other.separator() },
        None => Reason::Columns { found, expected: columns.count },
    }
}
