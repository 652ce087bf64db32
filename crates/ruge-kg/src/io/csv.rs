//! CSV: fields between separators, quoted if they contain a separator, a quote or a line end.
//!
//! Up to its first quote, a file is plain text and is read in parallel by [`tsv`](mod@super::tsv). The rest is parsed
//! here rather than by a library, because the reader needs more than the fields: whether a field was quoted (then its
//! blanks belong to the name), the line on which a record starts, and where an unclosed quote was opened. A forgiving
//! parser would return the rest of the file as one field. This one reads up to the maximum record length, reports the
//! line, and in lenient mode resumes on the next line.
//!
//! The rules are those of RFC 4180, with two additions. Blanks around a field are trimmed and counted, also before a
//! quote (`a, "b, c", d`). A closing quote may be followed only by blanks, a separator or a line end.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2, memrchr};

use super::source::{BLOCK, blocks};
use super::tsv::{self, short_enough, trim, wrong_columns};
use super::{BOM, Columns, FileContents, Header, ReadOptions, Source, looks_like_header};
use crate::error::{KgError, Reason, shown};
use crate::vocabulary::Names;

/// Reads triples whose fields are separated by `separator` and may be quoted.
pub(super) fn read(
    source: Source<'_>,
    separator: u8,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let mut text = source.text()?;
    let mut at_start = true;
    // Up to the first quote a record is a line.
    loop {
        let (end, long) = text.next_batch(options)?;
        let mut batch = &text.window()[..end];
        if memchr(b'"', batch).is_some() {
            break;
        }
        if end == 0 {
            return Ok(());
        }
        if std::mem::take(&mut at_start) {
            batch = tsv::open_file(batch, options, contents);
        }
        if tsv::read_batch(&blocks(batch, options), names, options, contents)?.is_break() {
            return Ok(());
        }
        text.pass(end);
        if long {
            text.pass_line()?;
        }
    }
    if at_start {
        contents.report.bom = text.window().starts_with(BOM);
        text.pass(if contents.report.bom { BOM.len() } else { 0 });
    }
    let mut records = Records { separator, names, options, contents, at_start };
    let usual = options.block.clamp(1 << 10, BLOCK);
    let mut wanted = usual;
    loop {
        text.fill(wanted)?;
        let window = text.window();
        let passed = records.read(window, text.ended())?;
        if records.contents.report.enough(options) || (text.ended() && passed == window.len()) {
            return Ok(());
        }
        let long = passed == 0 && (text.ended() || is_long(window, options));
        wanted = if passed == 0 { 2 * window.len().max(usual) } else { usual };
        wanted = wanted.min(options.limits.line + 2).max(1);
        text.pass(passed);
        if long {
            records.pass_long(text.window());
            if records.contents.report.enough(options) {
                return Ok(());
            }
            text.pass_line()?;
        }
    }
}

/// The records of a text that is held as a whole. A line whose quotes do not close is cut at separators alone.
pub(super) fn records(text: &[u8], separator: u8) -> impl Iterator<Item = Vec<String>> {
    let mut rest = text;
    let mut fields = Vec::new();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match cut(rest, separator, &mut fields) {
            Ok(end) => {
                rest = &rest[end..];
                Some(fields.iter().map(|field| said(&field.text)).collect())
            }
            Err(_) => {
                let (line, after) = rest.split_at(line_end(rest));
                rest = after;
                Some(stripped(line).split(|&byte| byte == separator).map(said).collect())
            }
        }
    })
}

/// Whether unterminated text is longer than a record with its line end may be.
fn is_long(text: &[u8], options: &ReadOptions) -> bool {
    text.len() > options.limits.line + 1
}

/// Parses records one after the other.
struct Records<'r> {
    separator: u8,
    names: &'r mut Names,
    options: &'r ReadOptions,
    contents: &'r mut FileContents,
    at_start: bool,
}

impl Records<'_> {
    /// Reads the records of a window, up to one that may continue beyond it. Returns their length in bytes.
    fn read(&mut self, window: &[u8], ended: bool) -> Result<usize, KgError> {
        let Self { separator, names, options, contents, .. } = self;
        let separator = *separator;
        let most = options.limits.line;
        let mut rest = window;
        let mut fields = Vec::new();
        while !rest.is_empty() && !contents.report.enough(options) {
            let line = contents.report.lines + 1;
            let first_line = &rest[..line_end(rest)];
            if !first_line.ends_with(b"\n") && (!ended || is_long(first_line, options)) {
                break;
            }
            let may_be_header = std::mem::take(&mut self.at_start);
            let blank = first_line.trim_ascii().is_empty() && memchr(separator, first_line).is_none();
            if blank && !(may_be_header && options.header == Header::Yes) {
                contents.report.blank_lines += 1;
                take(&mut rest, first_line.len(), contents);
                continue;
            }
            let end = match cut(rest, separator, &mut fields) {
                Err(Uncut::Open(_)) if !ended && !is_long(rest, options) => {
                    self.at_start = may_be_header;
                    break;
                }
                // Only a line end guarantees that nothing follows.
                Ok(end) if !ended && end == rest.len() && !rest.ends_with(b"\n") => {
                    self.at_start = may_be_header;
                    break;
                }
                Ok(end) => end,
                Err(Uncut::Open(quote) | Uncut::Followed(quote)) => {
                    // The record's fields before the quote are dropped with it; parsing restarts on the next line.
                    let start = memrchr(b'\n', &rest[..quote]).map_or(0, |at| at + 1);
                    let text = &rest[start..start + line_end(&rest[start..])];
                    let earlier = newlines(&rest[..start]);
                    if !ended && !text.ends_with(b"\n") {
                        // The window cuts the line of the quote, so that line is parsed again.
                        let record = take(&mut rest, start, contents);
                        contents.report.bad_lines(line, earlier, shown(record), Reason::UnclosedQuote);
                        continue;
                    }
                    contents.report.bad_lines(
                        line + earlier,
                        1 + earlier,
                        shown(stripped(text)),
                        Reason::UnclosedQuote,
                    );
                    take(&mut rest, start + text.len(), contents);
                    continue;
                }
            };
            let record = take(&mut rest, end, contents);
            if record.len() > most {
                let text = shown(&record[..most]);
                contents.report.bad_lines(line, 1 + newlines(record), text, Reason::LongLine { most });
                continue;
            }
            let columns = checked(record, &fields, separator, contents.report.table());
            if may_be_header && is_header(options.header, columns.as_ref().ok()) {
                contents.report.header = Some(String::from_utf8_lossy(record).into_owned());
                continue;
            }
            match columns.and_then(|columns| trimmed(columns, options.limits.name)) {
                Ok((triple, trimmed)) => {
                    contents.report.trimmed_fields += trimmed;
                    let triple = names.read_triple(triple, &options.limits)?;
                    contents.push(triple, line, &options.limits)?;
                }
                Err(reason) => contents.report.bad_lines(line, 1 + newlines(record), shown(record), reason),
            }
        }
        Ok(window.len() - rest.len())
    }

    /// Reports a line that is too long; the window starts with it.
    fn pass_long(&mut self, window: &[u8]) {
        let most = self.options.limits.line;
        self.at_start = false;
        self.contents.report.lines += 1;
        let line = self.contents.report.lines;
        let text = shown(&window[..window.len().min(most)]);
        self.contents.report.bad_line(line, text, Reason::LongLine { most });
    }
}

/// Takes `length` bytes off `rest` and counts their lines; returns them without the last line end.
fn take<'t>(rest: &mut &'t [u8], length: usize, contents: &mut FileContents) -> &'t [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    contents.report.lines += newlines(taken) + u64::from(!taken.ends_with(b"\n"));
    contents.report.crlf_lines += u64::from(taken.ends_with(b"\r\n"));
    stripped(taken)
}

fn is_header(header: Header, columns: Option<&[Field<&str>; 3]>) -> bool {
    match header {
        Header::Yes => true,
        Header::No => false,
        Header::Auto => {
            columns.is_some_and(|[head, relation, tail]| looks_like_header(head.text, relation.text, tail.text))
        }
    }
}

/// One field: its text without quotes, and whether it was quoted.
struct Field<T> {
    text: T,
    quoted: bool,
    padded: bool,
}

/// Why a record cannot be parsed, and the position of the quote.
enum Uncut {
    /// The quote is not closed.
    Open(usize),
    /// Text follows the closing quote.
    Followed(usize),
}

/// Cuts the first record of `text` into fields. Returns its length, line end included.
fn cut<'t>(text: &'t [u8], separator: u8, fields: &mut Vec<Field<Cow<'t, [u8]>>>) -> Result<usize, Uncut> {
    fields.clear();
    // A blank that separates fields cannot also pad them.
    let blanks = |at: usize| match separator {
        b' ' => 0,
        _ => text[at..].iter().take_while(|&&byte| byte == b' ').count(),
    };
    let mut at = 0;
    loop {
        let before = blanks(at);
        if text.get(at + before) == Some(&b'"') {
            let (content, behind) = quoted(text, at + before)?;
            let after = blanks(behind);
            fields.push(Field { text: content, quoted: true, padded: before + after > 0 });
            match &text[behind + after..] {
                [byte, ..] if *byte == separator => at = behind + after + 1,
                [b'\n', ..] => return Ok(behind + after + 1),
                [b'\r', b'\n', ..] => return Ok(behind + after + 2),
                [] | [b'\r'] => return Ok(text.len()),
                _ => return Err(Uncut::Followed(at + before)),
            }
        } else {
            let end = memchr2(separator, b'\n', &text[at..]).map_or(text.len(), |length| at + length);
            let last = text.get(end) != Some(&separator);
            let content =
                if last { text[at..end].strip_suffix(b"\r").unwrap_or(&text[at..end]) } else { &text[at..end] };
            fields.push(Field { text: Cow::Borrowed(content), quoted: false, padded: false });
            if last {
                return Ok(text.len().min(end + 1));
            }
            at = end + 1;
        }
    }
}

/// The content of the quoted field that opens at `open`, and the position after its closing quote.
fn quoted(text: &[u8], open: usize) -> Result<(Cow<'_, [u8]>, usize), Uncut> {
    let mut content: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut at = open + 1;
    loop {
        let close = at + memchr(b'"', &text[at..]).ok_or(Uncut::Open(open))?;
        // Two quotes stand for one, which is kept with the text before it.
        let doubled = text.get(close + 1) == Some(&b'"');
        let piece = &text[at..close + usize::from(doubled)];
        match &mut content {
            Cow::Borrowed([]) if !doubled => content = Cow::Borrowed(piece),
            content => content.to_mut().extend_from_slice(piece),
        }
        at = close + 1 + usize::from(doubled);
        if !doubled {
            return Ok((content, at));
        }
    }
}

/// Head, relation and tail of a record, if it is valid text with the right number of fields.
fn checked<'f>(
    record: &[u8],
    fields: &'f [Field<Cow<'_, [u8]>>],
    separator: u8,
    columns: Columns,
) -> Result<[Field<&'f str>; 3], Reason> {
    if memchr(0, record).is_some() {
        return Err(Reason::NulByte);
    }
    let line = std::str::from_utf8(record).map_err(|_| Reason::InvalidUtf8)?;
    if fields.len() != columns.count {
        return Err(match wrong_columns(line, super::Format::Csv(separator), columns) {
            Reason::Columns { expected, .. } => Reason::Columns { found: fields.len(), expected },
            other => other,
        });
    }
    let field = |column: usize| {
        let Field { text, quoted, padded } = &fields[column];
        let text = std::str::from_utf8(text).map_err(|_| Reason::InvalidUtf8)?;
        Ok(Field { text, quoted: *quoted, padded: *padded })
    };
    Ok([field(columns.head)?, field(columns.relation)?, field(columns.tail)?])
}

/// The names, and how many of them had surrounding blanks.
fn trimmed(columns: [Field<&str>; 3], most: usize) -> Result<([&str; 3], u64), Reason> {
    let mut count = 0;
    let [head, relation, tail] = columns;
    let names = [
        name_of(head, "head", &mut count)?,
        name_of(relation, "relation", &mut count)?,
        name_of(tail, "tail", &mut count)?,
    ];
    short_enough(names, most)?;
    Ok((names, count))
}

fn name_of<'t>(field: Field<&'t str>, what: &'static str, trimmed_fields: &mut u64) -> Result<&'t str, Reason> {
    if !field.quoted {
        return trim(field.text, what, trimmed_fields);
    }
    *trimmed_fields += u64::from(field.padded);
    if field.text.is_empty() { Err(Reason::EmptyField { field: what }) } else { Ok(field.text) }
}

fn line_end(text: &[u8]) -> usize {
    memchr(b'\n', text).map_or(text.len(), |at| at + 1)
}

fn stripped(line: &[u8]) -> &[u8] {
    super::block::strip_line_end(line).0
}

fn newlines(text: &[u8]) -> u64 {
    memchr_iter(b'\n', text).count() as u64
}
