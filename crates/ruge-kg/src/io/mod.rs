//! Reading and writing: every file format of a graph.
//!
//! The format is recognised by the file name, or by content if the name says nothing (`.txt`, no extension);
//! compression always by content. Text is read in large pieces and parsed in parallel; the result never depends on the
//! number of threads. A strict reader stops after twenty bad lines and shows them all. A lenient one skips and counts
//! them. Nothing is dropped without being counted in the [`FileReport`].

mod block;
mod contents;
mod csv;
pub mod folder;
mod ids;
mod libkge;
mod openke;
mod rdf;
mod replace;
mod source;
pub mod split;
mod tsv;
mod turtle;
pub mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

use crate::error::{KgError, MAX_SHOWN, Problem, Reason};
use crate::vocabulary::{MAX_NAMES, Names};

pub(crate) use contents::REPEATS_SHOWN;
pub use contents::{FileContents, LineMap, Repeats};
pub(crate) use libkge::read as libkge;
pub(crate) use openke::read as openke;
pub use source::Compression;
pub(crate) use source::Source;

/// File format of triples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Tab-separated fields, taken literally.
    Tsv,
    /// Whitespace-separated fields.
    Whitespace,
    /// Fields separated by this byte, quoted if needed.
    #[serde(rename = "csv")]
    Csv(u8),
    /// One RDF statement per line.
    NTriples,
    /// RDF with prefixes.
    Turtle,
}

impl Format {
    /// The format implied by a file name, ignoring compression suffixes; `None` if the name says nothing.
    pub fn from_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "tsv" => Some(Format::Tsv),
            "csv" => Some(Format::Csv(b',')),
            "nt" | "ntriples" => Some(Format::NTriples),
            "ttl" | "turtle" => Some(Format::Turtle),
            _ => None,
        }
    }

    /// The separator in words, for messages.
    fn separator(self) -> &'static str {
        match self {
            Format::Tsv => "tab",
            Format::Whitespace => "blanks",
            Format::Csv(b';') => "semicolon",
            Format::Csv(b'|') => "bar",
            Format::Csv(b'\t') => "tab",
            Format::Csv(b',') => "comma",
            Format::Csv(_) => "the chosen separator",
            Format::NTriples | Format::Turtle => "RDF syntax",
        }
    }

    /// The separator byte, or `None` if it is not a single byte.
    fn separator_byte(self) -> Option<u8> {
        match self {
            Format::Tsv => Some(b'\t'),
            Format::Csv(separator) => Some(separator),
            Format::Whitespace | Format::NTriples | Format::Turtle => None,
        }
    }

    /// The actual separator of a `.csv` file: many use semicolons or tabs. It is the one under which most of the first
    /// lines have the number of fields in `columns`; a comma if none does better.
    fn csv_separator(start: &[u8], columns: Columns) -> Self {
        let vote = |lines: &[&[u8]]| {
            let votes = |byte: u8| lines.iter().filter(|line| split_count(line, byte) == columns.count).count();
            let mut best = (b',', votes(b','));
            for byte in [b';', b'\t', b'|'] {
                let votes = votes(byte);
                if votes > best.1 {
                    best = (byte, votes);
                }
            }
            best
        };
        // A quoted field may span lines; if quotes mean something else, use lines.
        let mut lines = first_records(start);
        let mut best = vote(&lines);
        if best.1 == 0 {
            lines = first_lines(start);
            best = vote(&lines);
        }
        // If the number of columns differs, find at least the separator, so that the error can state the number.
        let few = 2 * best.1 <= lines.len();
        let habit = Self::by_habit(start).filter(|_| few).and_then(|(format, _)| format.separator_byte());
        Format::Csv(habit.unwrap_or(best.0))
    }

    /// Guesses the format: the one under which most of the first lines have the number of fields in `columns`.
    fn from_content(start: &[u8], columns: Columns) -> Self {
        let lines = first_lines(start);
        let turtle = |line: &&[u8]| {
            let line = line.trim_ascii_start().to_ascii_lowercase();
            [&b"@prefix"[..], b"@base", b"prefix ", b"base <"].iter().any(|key| line.starts_with(key))
        };
        // Any RDF file may start with comments; test the first other line.
        if lines.iter().find(|line| !line.starts_with(b"#")).is_some_and(turtle) {
            return Format::Turtle;
        }
        let ntriples = |line: &&&[u8]| {
            let line = line.trim_ascii();
            line.starts_with(b"#")
                || ((line.starts_with(b"<") || line.starts_with(b"_:")) && line.ends_with(b".") && line.contains(&b'>'))
        };
        let tabbed = |line: &&&[u8]| line.iter().filter(|&&b| b == b'\t').count() + 1 == columns.count;
        let votes = |test: &dyn Fn(&&&[u8]) -> bool| lines.iter().filter(|line| test(line)).count();
        let all_statements = votes(&ntriples) == lines.len() && !lines.is_empty();
        if all_statements && votes(&tabbed) < lines.len() {
            return Format::NTriples;
        }
        let by = |byte: u8| move |line: &&&[u8]| split_count(line, byte) == columns.count;
        let candidates: [(Format, usize); 5] = [
            (Format::Tsv, votes(&|line| line.contains(&b'\t'))),
            (Format::Csv(b','), votes(&by(b','))),
            (Format::Whitespace, votes(&|line| blank_fields(line) == columns.count)),
            (Format::Csv(b';'), votes(&by(b';'))),
            (Format::Csv(b'|'), votes(&by(b'|'))),
        ];
        // Ties go to the earlier candidate, so tabs win if present.
        let best = candidates.iter().map(|(_, n)| *n).max().unwrap_or(0);
        let likely = candidates.iter().find(|(_, n)| *n == best && best > 0).map_or(Format::Tsv, |(format, _)| *format);
        // Tabs may start after a long preamble.
        if 2 * best > lines.len() || start.contains(&b'\t') {
            return likely;
        }
        Self::by_habit(start).map_or(likely, |(format, _)| format)
    }

    /// The separator that splits most of the first lines into the same number of fields, and that number.
    fn by_habit(start: &[u8]) -> Option<(Self, usize)> {
        let lines = first_lines(start);
        let habit = |count: &dyn Fn(&[u8]) -> usize| {
            let mut counts: Vec<usize> = lines.iter().map(|line| count(line)).collect();
            counts.sort_unstable();
            let usual = *counts.get(counts.len() / 2)?;
            let lines = counts.iter().filter(|&&count| count == usual).count();
            (usual > 1 && 2 * lines > counts.len()).then_some((usual, usual * lines))
        };
        let formats = [Format::Tsv, Format::Csv(b';'), Format::Csv(b'|'), Format::Csv(b',')];
        let mut best: Option<(Self, usize, usize)> = None;
        for format in formats {
            if let Some((usual, weight)) = habit(&|line| split_count(line, format.separator_byte().unwrap_or(b'\t')))
                && best.is_none_or(|(.., most)| weight > most)
            {
                best = Some((format, usual, weight));
            }
        }
        // Names often contain blanks, so blanks are the last choice.
        match best {
            Some((format, usual, _)) => Some((format, usual)),
            None => habit(&blank_fields).map(|(usual, _)| (Format::Whitespace, usual)),
        }
    }
}

/// The lines at the start of a file, for guessing its format.
fn first_lines(start: &[u8]) -> Vec<&[u8]> {
    let lines = start.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.is_empty()).take(50).collect()
}

/// The first records; lines within a quoted field count as one. The last record is dropped, as it may be cut.
fn first_records(start: &[u8]) -> Vec<&[u8]> {
    let mut quoted = false;
    let mut records: Vec<&[u8]> = start
        .split(|&byte| {
            quoted ^= byte == b'"';
            byte == b'\n' && !quoted
        })
        .collect();
    if records.len() > 1 {
        records.pop();
    }
    records.retain(|record| !record.trim_ascii().is_empty());
    records.truncate(64);
    records
}

/// Number of fields of a line split at `byte`, respecting quotes.
fn split_count(line: &[u8], byte: u8) -> usize {
    let mut quoted = false;
    let mut fields = 1;
    for &b in line {
        if b == b'"' {
            quoted = !quoted;
        } else if b == byte && !quoted {
            fields += 1;
        }
    }
    fields
}

fn blank_fields(line: &[u8]) -> usize {
    line.split(|b| b.is_ascii_whitespace()).filter(|field| !field.is_empty()).count()
}

/// Column order: `hrt`, `htr`, …; `-` marks a column to skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// Position of the head.
    pub head: usize,
    /// Position of the relation.
    pub relation: usize,
    /// Position of the tail.
    pub tail: usize,
    /// Columns per line.
    pub count: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self { head: 0, relation: 1, tail: 2, count: 3 }
    }
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let find = |wanted: char| {
            let mut places = text.chars().enumerate().filter(|&(_, c)| c.eq_ignore_ascii_case(&wanted));
            match (places.next(), places.next()) {
                (Some((at, _)), None) => Ok(at),
                _ => Err(format!("column order {text:?} must name `{wanted}` exactly once, as in hrt, htr or -hrt")),
            }
        };
        if let Some(other) = text.chars().find(|c| !"hrtHRT-".contains(*c)) {
            return Err(format!("column order {text:?} holds {other:?}; use h, r, t and `-` for an ignored column"));
        }
        Ok(Self { head: find('h')?, relation: find('r')?, tail: find('t')?, count: text.chars().count() })
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for column in 0..self.count {
            let name = match column {
                c if c == self.head => 'h',
                c if c == self.relation => 'r',
                c if c == self.tail => 't',
                _ => '-',
            };
            write!(f, "{name}")?;
        }
        Ok(())
    }
}

/// Whether the first line of a file is a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Header {
    /// Yes if it reads like `head relation tail` or `subject predicate object`.
    #[default]
    Auto,
    /// Yes.
    Yes,
    /// No: it is a triple.
    No,
}

/// Options for reading a graph.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Column order in TSV and CSV.
    pub columns: Columns,
    /// The format; `None` to decide by name and content.
    pub format: Option<Format>,
    /// Header lines.
    pub header: Header,
    /// Skip and count bad lines instead of stopping.
    pub lenient: bool,
    /// Seed of the split of a single file.
    pub seed: u64,
    /// Shares of valid and test in the split of a single file.
    pub held_out: [f64; 2],
    /// Do not read valid and test if they are separate files: mining uses only train.
    pub train_only: bool,
    /// Bytes of text per parser; tests make it small to test block boundaries.
    #[doc(hidden)]
    pub block: usize,
    /// Limits; tests make them small.
    #[doc(hidden)]
    pub limits: Limits,
}

/// Limits on what is read: a file of a few kilobytes can unpack to more than any memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a line or a CSV record. 16 MiB: the longest lines of public graphs (the outline of a country as a
    /// literal) take a few MiB, and every machine can hold a window of this size.
    pub line: usize,
    /// Bytes of a name. 4 MiB: names stay in memory as long as the graph; whole articles as literals are shorter.
    pub name: usize,
    /// Number of names of a kind, see [`MAX_NAMES`].
    pub names: usize,
    /// Minimum number of triples before repeated ones are dropped while reading, if they are many; `None` keeps all.
    pub repeats: Option<usize>,
    /// Available memory in bytes; `None` asks the system.
    pub memory: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line: 16 << 20, name: 4 << 20, names: MAX_NAMES, repeats: None, memory: None }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            columns: Columns::default(),
            format: None,
            header: Header::Auto,
            lenient: false,
            seed: 0,
            held_out: [0.1, 0.1],
            train_only: false,
            block: source::BLOCK,
            limits: Limits::default(),
        }
    }
}

/// Report on one file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// Its compression.
    pub compression: Compression,
    /// Lines read.
    pub lines: u64,
    /// Triples read, including repetitions.
    pub triples: usize,
    /// Names read, if the file is a dictionary.
    pub dictionary: Option<usize>,
    /// Blank lines and comments skipped.
    pub blank_lines: u64,
    /// The header line that was skipped, if any.
    pub header: Option<String>,
    /// Whether the file started with a byte-order mark.
    pub bom: bool,
    /// Lines that ended in CR LF.
    pub crlf_lines: u64,
    /// Fields with surrounding blanks.
    pub trimmed_fields: u64,
    /// Malformed lines that were skipped.
    pub bad_lines: u64,
    /// Malformed lines by reason.
    pub bad_by_reason: BTreeMap<&'static str, u64>,
    /// The first malformed lines.
    #[serde(skip)]
    pub problems: Vec<Problem>,
    /// Whether reading stopped early because of them.
    #[serde(skip)]
    pub stopped: bool,
}

impl FileReport {
    pub(crate) fn new(path: &Path, format: Format, compression: Compression) -> Self {
        Self {
            path: path.to_path_buf(),
            format,
            compression,
            lines: 0,
            triples: 0,
            dictionary: None,
            blank_lines: 0,
            header: None,
            bom: false,
            crlf_lines: 0,
            trimmed_fields: 0,
            bad_lines: 0,
            bad_by_reason: BTreeMap::new(),
            problems: Vec::new(),
            stopped: false,
        }
    }

    /// The text after a byte-order mark, which is recorded.
    pub(crate) fn pass_bom<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        let behind = text.strip_prefix(BOM);
        self.bom = behind.is_some();
        behind.unwrap_or(text)
    }

    /// Records a bad line; `text` is ready to display.
    pub(crate) fn bad_line(&mut self, line: u64, text: String, reason: Reason) {
        self.bad_lines(line, 1, text, reason);
    }

    /// Records `count` lines lost to one error on `line`.
    pub(crate) fn bad_lines(&mut self, line: u64, count: u64, text: String, reason: Reason) {
        self.bad_lines += count;
        *self.bad_by_reason.entry(reason.kind()).or_default() += count;
        if self.problems.len() < MAX_SHOWN {
            self.problems.push(Problem { file: self.path.clone(), line, text, reason });
        }
    }

    /// Records bad lines beyond those that are shown.
    pub(crate) fn further_bad_lines(&mut self, count: u64, kind: &'static str) {
        self.bad_lines += count;
        *self.bad_by_reason.entry(kind).or_default() += count;
    }

    /// If no line is a triple, the file does not mix separators: it uses a different one.
    fn other_separator(&mut self, habit: Option<(Format, usize)>, wanted: usize) {
        let expected = self.format.separator();
        for problem in &mut self.problems {
            let (found, fields) = match (&problem.reason, habit) {
                (Reason::MixedSeparators { .. } | Reason::Columns { found: 1, .. }, Some((format, fields))) => {
                    (format.separator(), fields)
                }
                (Reason::MixedSeparators { found, .. }, None) => (*found, wanted),
                _ => continue,
            };
            if found != expected {
                problem.reason = Reason::OtherSeparator { expected, found, fields, wanted };
            }
        }
    }

    /// Whether a strict reader has found enough problems.
    pub(crate) fn enough(&mut self, options: &ReadOptions) -> bool {
        // Do not read on after an unterminated line to find more problems.
        let endless = self.problems.last().is_some_and(|problem| matches!(problem.reason, Reason::LongLine { .. }));
        if !options.lenient && (endless || self.problems.len() >= MAX_SHOWN) {
            self.stopped = true;
        }
        self.stopped
    }

    /// The strict reader's error, if any.
    pub(crate) fn strict(&mut self, options: &ReadOptions) -> Result<(), KgError> {
        if options.lenient || self.problems.is_empty() {
            return Ok(());
        }
        Err(KgError::BadLines { problems: std::mem::take(&mut self.problems), more: self.stopped })
    }
}

/// Reads a file of triples, interning names into `names`.
pub fn read_file(path: &Path, names: &mut Names, options: &ReadOptions) -> Result<FileContents, KgError> {
    read_source(Source::open(path, options.limits)?, names, options)
}

/// Reads triples from memory; `name` is used as the path in messages, and its extension for the format.
pub fn read_bytes(
    name: &Path,
    bytes: &[u8],
    names: &mut Names,
    options: &ReadOptions,
) -> Result<FileContents, KgError> {
    read_source(Source::from_bytes(name, bytes, options.limits), names, options)
}

fn read_source(mut source: Source<'_>, names: &mut Names, options: &ReadOptions) -> Result<FileContents, KgError> {
    let named = Format::from_name(source.path());
    let path = source.path().to_path_buf();
    let start = source.peek()?;
    if let Some(encoding) = foreign_encoding(start) {
        return Err(KgError::Encoding { path, encoding });
    }
    let start = start.strip_prefix(BOM).unwrap_or(start);
    let format = match (options.format, named) {
        (Some(format), _) => format,
        (None, Some(Format::Csv(_))) => Format::csv_separator(start, options.columns),
        (None, Some(format)) => format,
        (None, None) => Format::from_content(start, options.columns),
    };
    if let Format::Csv(byte @ (0x80.. | b'"' | b'\r' | b'\n' | 0)) = format {
        return Err(KgError::Option(format!("{:?} cannot separate fields; use a comma, a semicolon, …", byte as char)));
    }
    let habit = Format::by_habit(start);
    let report = FileReport::new(source.path(), format, source.compression());
    let mut contents = FileContents::new(report);
    match format {
        Format::Tsv | Format::Whitespace => tsv::read(source, names, options, &mut contents)?,
        Format::Csv(separator) => csv::read(source, separator, names, options, &mut contents)?,
        Format::NTriples => rdf::read_ntriples(source, names, options, &mut contents)?,
        Format::Turtle => turtle::read(source, names, options, &mut contents)?,
    }
    contents.report.triples = contents.read();
    if contents.triples.is_empty() {
        contents.report.other_separator(habit, options.columns.count);
    }
    contents.report.strict(options)?;
    contents.triples.shrink_to_fit();
    Ok(contents)
}

/// Reads a whole file, decompressing gzip and zstd. For files that are parsed at once, such as rules. Fails if it would
/// take more than half of the available memory.
pub fn read_whole(path: &Path, limits: Limits) -> Result<Vec<u8>, KgError> {
    let read = |path: &Path| Ok(Source::open(path, limits)?.whole()?.into_owned());
    read(path).map_err(|error| match error {
        KgError::Io { path, source, .. } => KgError::Io { path, action: "read", source },
        other => other,
    })
}

/// The UTF-8 byte-order mark.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

fn foreign_encoding(start: &[u8]) -> Option<&'static str> {
    match start {
        [0xff, 0xfe, 0, 0, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        _ => None,
    }
}

/// Whether three fields look like column names rather than a fact.
pub(crate) fn looks_like_header(head: &str, relation: &str, tail: &str) -> bool {
    let is = |field: &str, words: &[&str]| {
        let field = field.trim().trim_start_matches(['#', '?', ':']).to_ascii_lowercase();
        let field = field.strip_suffix("_id").or(field.strip_suffix("_name")).unwrap_or(&field);
        words.contains(&field)
    };
    is(head, &["head", "h", "subject", "subj", "s", "source", "from", "start"])
        && is(relation, &["relation", "r", "rel", "predicate", "pred", "p", "property", "edge", "label", "type"])
        && is(tail, &["tail", "t", "object", "obj", "o", "target", "to", "end"])
}
