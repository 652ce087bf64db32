//! Files of ids: dictionaries that map ids to names, and triples written as ids.
//!
//! OpenKE and LibKGE store names and triples separately. An id of the file becomes the id of the graph, so a dictionary
//! must name every id from 0 on exactly once. A gap is an error even in lenient mode, since its name would be made up.

use std::ops::ControlFlow;
use std::path::Path;

use memchr::memchr;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use super::block::{Block, strip_line_end};
use super::tsv::trim;
use super::{Columns, FileContents, FileReport, Format, ReadOptions, Source, foreign_encoding};
use crate::error::{KgError, Reason, shown};
use crate::memory;
use crate::triple::{EntityId, Id, RelationId, Triple};
use crate::vocabulary::Vocabulary;

/// The contents of a folder of id files.
pub(crate) struct Folder {
    pub(crate) dictionaries: Vec<FileReport>,
    pub(crate) splits: [Option<FileContents>; 3],
}

impl Folder {
    /// The splits; appends the reports of the dictionaries to `reports`.
    pub(crate) fn with_reports(self, reports: &mut Vec<FileReport>) -> [Option<FileContents>; 3] {
        reports.extend(self.dictionaries);
        self.splits
    }
}

/// Layout of a dictionary.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dictionary {
    /// The number of names on the first line, then `name id`; the name may contain blanks.
    NameId,
    /// `id name`; the name may contain blanks.
    IdName,
}

/// Fills an empty vocabulary from a dictionary file.
pub(super) fn read_dictionary<I: Id>(
    path: &Path,
    dictionary: Dictionary,
    vocabulary: &mut Vocabulary<I>,
    options: &ReadOptions,
) -> Result<FileReport, KgError> {
    assert!(vocabulary.is_empty(), "a dictionary gives the first ids, so it must be read first");
    let format = if dictionary == Dictionary::NameId { Format::Whitespace } else { Format::Tsv };
    let (source, mut report) = open(path, format, options)?;
    let text = source.whole()?;
    // The lookup tables for names and ids take a multiple of the text.
    memory::ensure(8 * text.len() as u64, "a dictionary", options.limits.memory)?;
    let mut text = report.pass_bom(&text);
    let mut stated = None;
    if dictionary == Dictionary::NameId {
        (stated, text) = take_count(text, &mut report);
    }
    let mut ids = FxHashSet::default();
    let mut names = FxHashSet::default();
    let block = Block::parse(text, options, |block, line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        // A name may contain blanks, so a tab takes precedence as the separator.
        let (id, name) = match dictionary {
            Dictionary::IdName => {
                let line = line.trim_ascii_start();
                line.split_once('\t').or_else(|| line.split_once(' '))
            }
            Dictionary::NameId => {
                let line = line.trim_ascii_end();
                line.rsplit_once('\t').or_else(|| line.rsplit_once(' ')).map(|(name, id)| (id, name))
            }
        }
        .ok_or(Reason::Columns { found: 1, expected: 2 })?;
        let id = number(id.trim_ascii(), "id")?;
        let mut trimmed = 0;
        let name = trim(name, "name", &mut trimmed)?;
        if name.len() > options.limits.name {
            return Err(Reason::LongName { field: "name", most: options.limits.name });
        }
        if !ids.insert(id) {
            return Err(Reason::Repeated { what: "id" });
        }
        if !names.insert(name) {
            return Err(Reason::Repeated { what: "name" });
        }
        block.trimmed_fields += trimmed;
        block.items.push((id, name));
        Ok(())
    });
    let mut entries = block.tally(&mut report);
    report.enough(options);
    check_count(stated, entries.len(), &mut report);
    report.strict(options)?;
    entries.sort_unstable();
    if let Some(missing) = (0..).zip(&entries).find_map(|(index, &(id, _))| (id != index).then_some(index)) {
        let last = entries[entries.len() - 1].0;
        let message =
            format!("no line names the id {missing}\n  remedy: every id from 0 to the largest, {last}, needs a name");
        return Err(KgError::Description { path: path.to_path_buf(), message });
    }
    let bytes = entries.iter().map(|(_, name)| name.len()).sum();
    vocabulary.reserve(entries.len(), bytes, "names of a dictionary", &options.limits)?;
    for (_, name) in &entries {
        vocabulary.intern(name);
    }
    report.dictionary = Some(entries.len());
    Ok(report)
}

/// Reads triples of ids. `order` gives the columns; ids must be below the two sizes.
pub(super) fn read_triples(
    path: &Path,
    order: Columns,
    counted: bool,
    (entities, relations): (usize, usize),
    options: &ReadOptions,
) -> Result<FileContents, KgError> {
    let format = if counted { Format::Whitespace } else { Format::Tsv };
    let (source, report) = open(path, format, options)?;
    let mut contents = FileContents::new(report);
    let mut stated = None;
    let mut first = true;
    let parse = |text: &[u8]| {
        Block::parse(text, options, |block: &mut Block<Triple>, line: &str| {
            let mut fields = [""; 3];
            let mut found = 0;
            for field in line.split_ascii_whitespace() {
                if let Some(slot) = fields.get_mut(found) {
                    *slot = field;
                }
                found += 1;
            }
            match found {
                0 => return Ok(()),
                3 => {}
                _ => return Err(Reason::Columns { found, expected: 3 }),
            }
            block.items.push(Triple {
                head: EntityId(known(fields[order.head], "head", entities)?),
                relation: RelationId(known(fields[order.relation], "relation", relations)?),
                tail: EntityId(known(fields[order.tail], "tail", entities)?),
            });
            Ok(())
        })
    };
    source.for_each_batch(options, |blocks| {
        let mut blocks = blocks.to_vec();
        if std::mem::take(&mut first) {
            blocks[0] = contents.report.pass_bom(blocks[0]);
            if counted {
                (stated, blocks[0]) = take_count(blocks[0], &mut contents.report);
            }
        }
        let parsed: Vec<_> = blocks.par_iter().map(|&text| parse(text)).collect();
        for block in parsed {
            block.merge(&mut contents, options, |triple| triple)?;
            if contents.report.enough(options) {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    contents.report.triples = contents.read();
    check_count(stated, contents.read(), &mut contents.report);
    contents.report.strict(options)?;
    Ok(contents)
}

fn open(path: &Path, format: Format, options: &ReadOptions) -> Result<(Source<'static>, FileReport), KgError> {
    let mut source = Source::open(path, options.limits)?;
    if let Some(encoding) = foreign_encoding(source.peek()?) {
        return Err(KgError::Encoding { path: path.to_path_buf(), encoding });
    }
    let report = FileReport::new(path, format, source.compression());
    Ok((source, report))
}

/// Takes the first line of an OpenKE file: the number of lines after it.
fn take_count<'t>(text: &'t [u8], report: &mut FileReport) -> (Option<(usize, String)>, &'t [u8]) {
    if text.is_empty() {
        return (None, text);
    }
    let end = memchr(b'\n', text).map_or(text.len(), |at| at + 1);
    let (line, crlf) = strip_line_end(&text[..end]);
    report.lines = 1;
    report.crlf_lines = u64::from(crlf);
    let count = std::str::from_utf8(line).ok().and_then(|line| number(line.trim_ascii(), "count").ok());
    if count.is_none() {
        report.bad_line(1, shown(line), Reason::NotAnId { field: "count on the first line" });
    }
    (count.map(|count| (count as usize, shown(line))), &text[end..])
}

/// Compares the stated count with the number of lines found, good and bad.
fn check_count(stated: Option<(usize, String)>, good: usize, report: &mut FileReport) {
    let found = good + report.bad_lines as usize;
    if let Some((stated, text)) = stated
        && stated != found
        && !report.stopped
    {
        report.bad_line(1, text, Reason::Count { stated, found });
    }
}

fn known(field: &str, what: &'static str, known: usize) -> Result<u32, Reason> {
    let id = number(field, what)?;
    if (id as usize) < known { Ok(id) } else { Err(Reason::UnknownId { field: what, known }) }
}

/// A number of digits only: no sign, at most `u32::MAX`.
fn number(field: &str, what: &'static str) -> Result<u32, Reason> {
    let digits = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    field.parse().ok().filter(|_| digits).ok_or(Reason::NotAnId { field: what })
}
