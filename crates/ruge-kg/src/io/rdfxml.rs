//! RDF/XML, as ontologies and many exports are written. Read sequentially.
//!
//! An error ends the file: XML that is broken in one place cannot be resumed in another. A document may define abbreviations (entities) in its
//! head, and abbreviations of abbreviations, by which a few lines stand for more text than any memory holds; their length is
//! bounded before the parser sees them.

use std::cell::Cell;
use std::io::{BufRead, Read};
use std::rc::Rc;

use memchr::memchr;
use oxrdf::GraphName;
use oxrdfxml::{RdfXmlParseError, RdfXmlParser};
use rustc_hash::FxHashMap;

use super::rdf::{bad_base, reason};
use super::source::Text;
use super::tsv::short_enough;
use super::turtle::BlankNodes;
use super::{BOM, FileContents, ReadOptions, Source};
use crate::error::{KgError, shown};
use crate::vocabulary::Names;

/// Maximum bytes of the head of a document, and of the text that an abbreviation stands for.
const MAX_HEAD: usize = 1 << 20;
const MAX_ENTITY: usize = 1 << 12;

/// Reads RDF/XML.
pub(super) fn read(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    check_head(&source)?;
    let mut blank_nodes = BlankNodes::of(source.text()?, &[b"nodeID=\"", b"nodeID='"])?;
    let mut parser = RdfXmlParser::new();
    if let Some(base) = &options.base {
        parser = parser.with_base_iri(base).map_err(|error| bad_base(base, &error))?;
    }
    let mut text = source.text()?;
    text.fill(BOM.len())?;
    contents.report.bom = text.window().starts_with(BOM);
    text.pass(if contents.report.bom { BOM.len() } else { 0 });
    let lines = Rc::new(Cell::new(0));
    let failed = Rc::new(Cell::new(None));
    let reader = ByLine { text, lines: Rc::clone(&lines), begun: false, failed: Rc::clone(&failed) };
    let mut statements = parser.for_reader(reader);
    while let Some(statement) = statements.next() {
        if let Some(error) = failed.take() {
            return Err(error);
        }
        let line = lines.get().max(1);
        // Prefixes hold until the element that declares them ends, and nothing holds them longer than the first.
        if contents.found.prefixes.is_empty() {
            let owned = |(prefix, namespace): (&str, &str)| (prefix.to_string(), namespace.to_string());
            contents.found.prefixes = statements.prefixes().map(owned).collect();
            contents.found.prefixes.sort();
        }
        match statement {
            Ok(statement) => {
                contents.found.sayings.ensure_room(&options.limits)?;
                let quad = blank_nodes.renamed(statement.in_graph(GraphName::DefaultGraph), names);
                let Some([head, relation, tail]) = contents.found.sift(quad, options) else { continue };
                match short_enough([&head, &relation, &tail], options.limits.name) {
                    Ok(()) => {
                        let triple = names.read_triple([&head, &relation, &tail], &options.limits)?;
                        contents.push(triple, line, &options.limits)?;
                    }
                    Err(reason) => contents.report.bad_line(line, shown(head.as_bytes()), reason),
                }
                if contents.report.enough(options) {
                    break;
                }
            }
            Err(RdfXmlParseError::Io(error)) => return Err(KgError::io(source.path(), "read")(error)),
            Err(RdfXmlParseError::Syntax(error)) => {
                contents.report.bad_line(line, "(the rest of the file is not read)".into(), reason(error.to_string()));
                contents.report.stopped = true;
                break;
            }
        }
    }
    if let Some(error) = failed.take() {
        return Err(error);
    }
    contents.report.lines = lines.get();
    Ok(())
}

/// Rejects a document whose abbreviations stand for very long texts.
fn check_head(source: &Source<'_>) -> Result<(), KgError> {
    let mut text = source.text()?;
    text.fill(MAX_HEAD)?;
    let window = text.window();
    let Some(start) = memchr::memmem::find(window, b"<!DOCTYPE") else { return Ok(()) };
    let too_long = |what: &str| {
        let message = format!("{what}\n  remedy: check where the file is from; save it as Turtle or N-Triples");
        Err(KgError::Description { path: source.path().to_path_buf(), message })
    };
    let head = &window[start..];
    let subset = memchr(b'[', head).filter(|&open| memchr(b'>', head).is_none_or(|close| open < close));
    let Some(open) = subset else { return Ok(()) };
    let Some(length) = memchr::memmem::find(&head[open..], b"]>").or_else(|| memchr(b']', &head[open..])) else {
        return too_long("the document type of this XML is not closed, or is longer than 1 MiB");
    };
    let head = String::from_utf8_lossy(&head[open..open + length]).into_owned();
    let mut lengths: FxHashMap<&str, usize> = FxHashMap::default();
    for declared in head.split("<!ENTITY").skip(1) {
        let Some((name, rest)) = declared.trim_start().split_once(|c: char| c.is_ascii_whitespace()) else { continue };
        let rest = rest.trim_start();
        let Some(quote) = rest.chars().next().filter(|c| "\"'".contains(*c)) else { continue };
        let value = rest[1..].split(quote).next().unwrap_or_default();
        let inner: usize = value
            .split('&')
            .skip(1)
            .filter_map(|rest| lengths.get(rest.split(';').next()?).copied())
            .fold(0, usize::saturating_add);
        let length = value.len().saturating_add(inner);
        if length > MAX_ENTITY {
            return too_long(&format!("the abbreviation &{name}; of this XML stands for more than {MAX_ENTITY} bytes"));
        }
        lengths.insert(name, length);
    }
    Ok(())
}

/// Hands out the text line by line, so that a statement is known to end on the last line that was handed out.
struct ByLine<'s> {
    text: Text<'s>,
    lines: Rc<Cell<u64>>,
    begun: bool,
    /// Why reading failed, which the parser would turn into text.
    failed: Rc<Cell<Option<KgError>>>,
}

/// Bytes of a line handed out at a time.
const PIECE: usize = 1 << 16;

impl Read for ByLine<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let piece = self.fill_buf()?;
        let length = piece.len().min(out.len());
        out[..length].copy_from_slice(&piece[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for ByLine<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.text.window().is_empty()
            && let Err(error) = self.text.fill(PIECE)
        {
            self.failed.set(Some(error));
            return Err(std::io::Error::other("the text cannot be read"));
        }
        let window = self.text.window();
        if !std::mem::replace(&mut self.begun, true) && !window.is_empty() {
            self.lines.set(self.lines.get() + 1);
        }
        Ok(&window[..memchr(b'\n', window).map_or(window.len(), |at| at + 1)])
    }

    fn consume(&mut self, length: usize) {
        let ended = self.text.window()[..length].ends_with(b"\n");
        self.text.pass(length);
        self.begun &= !ended;
    }
}
