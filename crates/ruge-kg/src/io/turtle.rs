//! Turtle and TriG, read sequentially: a statement may span lines, and prefixes apply to all that follows.
//!
//! The text is read in pieces twice: once to collect the labels of blank nodes, once for the parser. The parser buffers
//! incomplete tokens, so the text without a result has a maximum length.

use memchr::{memchr, memchr_iter, memrchr};
use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term};
use oxttl::trig::LowLevelTriGParser;
use oxttl::turtle::LowLevelTurtleParser;
use oxttl::{TriGParser, TurtleParser, TurtleSyntaxError};
use rustc_hash::{FxHashMap, FxHashSet};

use super::block::strip_line_end;
use super::rdf::{bad_base, located};
use super::source::Text;
use super::tsv::short_enough;
use super::{BOM, FileContents, Format, ReadOptions, Source};
use crate::error::{KgError, Problem, Reason, shown};
use crate::vocabulary::Names;

/// Bytes searched for labels at a time.
const SCANNED: usize = 1 << 20;

/// Bytes of a line passed to the parser at a time.
const PIECE: usize = 1 << 16;

/// Maximum text without a result, comments and prefixes included, in units of [`Limits::line`](super::Limits).
const SILENT_LINES: usize = 2;

/// The parser of one of the two notations.
enum Parser {
    Turtle(Box<LowLevelTurtleParser>),
    TriG(Box<LowLevelTriGParser>),
}

impl Parser {
    fn new(format: Format, options: &ReadOptions) -> Result<Self, KgError> {
        let base = options.base.as_deref();
        if format == Format::TriG {
            let parser = TriGParser::new();
            let parser = match base {
                Some(base) => parser.with_base_iri(base).map_err(|error| bad_base(base, &error))?,
                None => parser,
            };
            return Ok(Parser::TriG(Box::new(parser.low_level())));
        }
        let parser = TurtleParser::new();
        let parser = match base {
            Some(base) => parser.with_base_iri(base).map_err(|error| bad_base(base, &error))?,
            None => parser,
        };
        Ok(Parser::Turtle(Box::new(parser.low_level())))
    }

    fn extend(&mut self, text: &[u8]) {
        match self {
            Parser::Turtle(parser) => parser.extend_from_slice(text),
            Parser::TriG(parser) => parser.extend_from_slice(text),
        }
    }

    fn end(&mut self) {
        match self {
            Parser::Turtle(parser) => parser.end(),
            Parser::TriG(parser) => parser.end(),
        }
    }

    fn next(&mut self) -> Option<Result<Quad, TurtleSyntaxError>> {
        match self {
            Parser::Turtle(parser) => Some(parser.parse_next()?.map(|triple| triple.in_graph(GraphName::DefaultGraph))),
            Parser::TriG(parser) => parser.parse_next(),
        }
    }

    /// The prefixes declared so far.
    fn prefixes(&self) -> Vec<(String, String)> {
        let owned = |(prefix, namespace): (&str, &str)| (prefix.to_string(), namespace.to_string());
        match self {
            Parser::Turtle(parser) => parser.prefixes().map(owned).collect(),
            Parser::TriG(parser) => parser.prefixes().map(owned).collect(),
        }
    }
}

/// Reads Turtle or TriG. After an error the parser resumes after the next full stop; triples that the broken statement gave
/// before the error are kept.
///
/// The parser is fed line by line, and a triple is assigned to the line that completed it.
pub(super) fn read(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let mut blank_nodes = BlankNodes::of(source.text()?, &[b"_:"])?;
    let mut feed = Feed::new(source.text()?, options)?;
    contents.report.bom = feed.bom;
    let mut parser = Parser::new(contents.report.format, options)?;
    // A token of many lines is scanned again with every added line. After many lines without a result, the amount added
    // doubles, which keeps the time linear; only line numbers after such a stretch are less precise.
    let mut silent_pieces = 0usize;
    let mut silent_bytes = 0usize;
    let mut last_bad_line = 0;
    loop {
        let mut ending = false;
        for _ in 0..1 + silent_pieces / 64 {
            let piece = feed.next()?;
            ending = piece.is_empty();
            if ending {
                parser.end();
                break;
            }
            parser.extend(piece);
            silent_bytes += piece.len();
            silent_pieces += 1;
        }
        let line = feed.line();
        while let Some(outcome) = parser.next() {
            (silent_pieces, silent_bytes) = (0, 0);
            let (line, text, reason) = match outcome {
                Ok(statement) => {
                    contents.found.sayings.ensure_room(&options.limits)?;
                    let Some(triple) = contents.found.sift(blank_nodes.renamed(statement, names), options) else {
                        continue;
                    };
                    let [head, relation, tail] = &triple;
                    match short_enough([head, relation, tail], options.limits.name) {
                        Ok(()) => {
                            let triple = names.read_triple([head, relation, tail], &options.limits)?;
                            contents.push(triple, line, &options.limits)?;
                            continue;
                        }
                        Err(reason) => (line, shown(head.as_bytes()), reason),
                    }
                }
                Err(error) => {
                    let (line, content) = feed.line_at(error.location().start.offset);
                    let reason = match std::str::from_utf8(content) {
                        _ if memchr(0, content).is_some() => Reason::NulByte,
                        Err(_) => Reason::InvalidUtf8,
                        Ok(_) => located(&error),
                    };
                    // One error can make the parser report every token up to the next full stop.
                    if std::mem::replace(&mut last_bad_line, line) == line {
                        continue;
                    }
                    (line, shown(content), reason)
                }
            };
            contents.report.bad_line(line, text, reason);
            if contents.report.enough(options) {
                feed.tell(contents);
                return Ok(());
            }
        }
        if ending {
            contents.found.prefixes = parser.prefixes();
            contents.found.prefixes.sort();
            feed.tell(contents);
            return Ok(());
        }
        // Lenient mode cannot continue either: the end of the statement is unknown.
        let most = SILENT_LINES * options.limits.line;
        if silent_bytes > most {
            let (line, content) = feed.line_at(feed.fed - silent_bytes as u64);
            let (file, text, reason) = (source.path().to_path_buf(), shown(content), Reason::LongLine { most });
            return Err(KgError::BadLines {
                problems: vec![Problem { file, line, text, reason }],
                more: true,
                good: 0,
            });
        }
    }
}

/// The text on its way to the parser, line by line, with line counts.
struct Feed<'s> {
    text: Text<'s>,
    /// Text that the parser has not processed yet, and some before it, to show in errors.
    recent: Vec<u8>,
    kept: usize,
    /// The offset of its first byte, and its line.
    base: (u64, u64),
    /// The last requested position: errors come in order, so lines are counted from there.
    asked: (u64, u64),
    fed: u64,
    bom: bool,
    lines: u64,
    blank_lines: u64,
    crlf_lines: u64,
    in_statement: bool,
    current: Line,
}

/// State of an incomplete line.
#[derive(Default)]
struct Line {
    begun: bool,
    /// Its first and last non-blank byte.
    ends: Option<(u8, u8)>,
    /// Whether the last byte so far is a CR.
    cr: bool,
}

impl<'s> Feed<'s> {
    fn new(mut text: Text<'s>, options: &ReadOptions) -> Result<Self, KgError> {
        text.fill(BOM.len())?;
        let bom = text.window().starts_with(BOM);
        text.pass(if bom { BOM.len() } else { 0 });
        let kept = (SILENT_LINES + 1) * options.limits.line.max(PIECE);
        Ok(Self {
            text,
            recent: Vec::new(),
            kept,
            base: (0, 1),
            asked: (0, 1),
            fed: 0,
            bom,
            lines: 0,
            blank_lines: 0,
            crlf_lines: 0,
            in_statement: false,
            current: Line::default(),
        })
    }

    /// The next line, or a piece of a long one; empty at the end.
    fn next(&mut self) -> Result<&[u8], KgError> {
        if self.text.window().len() < PIECE {
            self.text.fill(16 * PIECE)?;
        }
        let window = self.text.window();
        let window = &window[..window.len().min(PIECE)];
        let length = memchr(b'\n', window).map_or(window.len(), |at| at + 1);
        if self.recent.len() + length > 2 * self.kept {
            let cut = self.recent.len() - self.kept;
            self.base = (self.base.0 + cut as u64, self.base.1 + newlines(&self.recent[..cut]));
            self.recent.drain(..cut);
        }
        let start = self.recent.len();
        self.recent.extend_from_slice(&window[..length]);
        self.text.pass(length);
        self.fed += length as u64;
        let piece = &self.recent[start..];
        self.current.add(piece);
        let ended =
            piece.ends_with(b"\n") || (self.current.begun && self.text.ended() && self.text.window().is_empty());
        if ended {
            let Line { ends, cr, .. } = std::mem::take(&mut self.current);
            // Within a statement a blank line may belong to a long literal, so only those outside are counted.
            let blank = ends.is_none_or(|(first, _)| first == b'#');
            let stopped = ends.is_some_and(|(_, last)| last == b'.');
            self.blank_lines += u64::from(blank && !self.in_statement);
            self.in_statement = (blank && self.in_statement) || !(blank || stopped);
            self.crlf_lines += u64::from(cr);
            self.lines += 1;
        }
        Ok(&self.recent[start..])
    }

    fn line(&self) -> u64 {
        (self.lines + u64::from(self.current.begun)).max(1)
    }

    /// The line of an offset, and its text.
    fn line_at(&mut self, offset: u64) -> (u64, &[u8]) {
        let offset = offset.clamp(self.base.0, self.fed);
        if offset < self.asked.0 || self.asked.0 < self.base.0 {
            self.asked = self.base;
        }
        let place = |offset: u64| (offset - self.base.0) as usize;
        let (from, at) = (place(self.asked.0), place(offset));
        self.asked = (offset, self.asked.1 + newlines(&self.recent[from..at]));
        let start = memrchr(b'\n', &self.recent[..at]).map_or(0, |at| at + 1);
        let end = memchr(b'\n', &self.recent[at..]).map_or(self.recent.len(), |length| at + length);
        (self.asked.1, strip_line_end(&self.recent[start..end]).0)
    }

    fn tell(&self, contents: &mut FileContents) {
        contents.report.lines = self.lines;
        contents.report.blank_lines = self.blank_lines;
        contents.report.crlf_lines = self.crlf_lines;
    }
}

impl Line {
    fn add(&mut self, piece: &[u8]) {
        self.begun |= !piece.is_empty();
        let trimmed = piece.trim_ascii();
        if let (Some(&first), Some(&last)) = (trimmed.first(), trimmed.last()) {
            self.ends = Some((self.ends.map_or(first, |(first, _)| first), last));
        }
        match piece {
            [b'\n'] => {}
            _ => {
                let content = piece.strip_suffix(b"\n").unwrap_or(piece);
                self.cr = content.last().map_or(self.cr, |&byte| byte == b'\r');
            }
        }
    }
}

fn newlines(text: &[u8]) -> u64 {
    memchr_iter(b'\n', text).count() as u64
}

/// Gives anonymous nodes, in Turtle `[…]` and `(…)`, names that are the same in every run.
///
/// The parser generates random names that look like labels a file could use. So the labels of the file are collected
/// first; a hexadecimal label that is not among them was generated.
pub(super) struct BlankNodes {
    labels: FxHashSet<Box<[u8]>>,
    given: FxHashMap<u128, oxrdf::BlankNode>,
    next: usize,
}

impl BlankNodes {
    /// For a text that writes labels after one of these marks.
    pub(super) fn of(mut text: Text<'_>, marks: &[&[u8]]) -> Result<Self, KgError> {
        let mut labels = FxHashSet::default();
        loop {
            text.fill(SCANNED)?;
            let window = text.window();
            // A label cut by the window is read again in the next one, unless it is longer than any window.
            let mark = marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
            let tail = window.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count() + mark;
            let end = if text.ended() || tail >= window.len() { window.len() } else { window.len() - tail };
            let places = |mark: &&'_ [u8]| {
                let mark = *mark;
                let found: Vec<usize> = memchr::memmem::find_iter(window, mark)
                    .take_while(|&at| at < end)
                    .map(|at| at + mark.len())
                    .collect();
                found
            };
            for at in marks.iter().flat_map(places) {
                let rest = &window[at..];
                let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                let label = &rest[..length];
                if (label.starts_with(b"anon") || label.iter().all(u8::is_ascii_hexdigit)) && !labels.contains(label) {
                    labels.insert(label.into());
                }
            }
            if text.ended() {
                return Ok(Self { labels, given: FxHashMap::default(), next: 1 });
            }
            text.pass(end);
        }
    }

    pub(super) fn renamed(&mut self, mut statement: Quad, names: &Names) -> Quad {
        if let NamedOrBlankNode::BlankNode(node) = &mut statement.subject {
            self.rename(node, names);
        }
        if let Term::BlankNode(node) = &mut statement.object {
            self.rename(node, names);
        }
        if let GraphName::BlankNode(node) = &mut statement.graph_name {
            self.rename(node, names);
        }
        statement
    }

    fn rename(&mut self, node: &mut oxrdf::BlankNode, names: &Names) {
        let Some(id) = node.as_ref().unique_id().filter(|_| !self.labels.contains(node.as_str().as_bytes())) else {
            return;
        };
        if let Some(given) = self.given.get(&id) {
            *node = given.clone();
            return;
        }
        // Another file of the data set may also have anonymous nodes; those are different nodes.
        let label = loop {
            let label = format!("anon{}", self.next);
            self.next += 1;
            if !self.labels.contains(label.as_bytes()) && names.entities.id(&format!("_:{label}")).is_none() {
                break label;
            }
        };
        *node = oxrdf::BlankNode::new_unchecked(label);
        self.given.insert(id, node.clone());
    }
}
