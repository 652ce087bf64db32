//! The format of a file: by its name, or by its content if the name says nothing or promises something else.

use std::path::Path;

use oxrdf::GraphName;
use oxttl::NQuadsParser;
use serde::Serialize;

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
    /// One RDF statement per line, each in a graph.
    NQuads,
    /// Turtle with named graphs.
    TriG,
    /// RDF as XML: `.rdf`, `.owl`.
    RdfXml,
    /// RDF as JSON.
    JsonLd,
    /// A table by columns.
    Parquet,
}

impl Format {
    /// The format implied by a file name, ignoring compression suffixes; `None` if the name says nothing.
    pub fn from_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let packed = [".gz", ".zst", ".zip"].iter().find_map(|ending| name.strip_suffix(ending));
        match packed.unwrap_or(&name).rsplit_once('.')?.1 {
            "tsv" => Some(Format::Tsv),
            "csv" => Some(Format::Csv(b',')),
            "nt" | "ntriples" => Some(Format::NTriples),
            "ttl" | "turtle" => Some(Format::Turtle),
            "nq" | "nquads" => Some(Format::NQuads),
            "trig" => Some(Format::TriG),
            "rdf" | "owl" | "xml" => Some(Format::RdfXml),
            "jsonld" | "json" => Some(Format::JsonLd),
            "parquet" | "pq" => Some(Format::Parquet),
            _ => None,
        }
    }

    /// The format of a file that starts with these bytes.
    pub(super) fn of(path: &Path, start: &[u8], columns: usize) -> Self {
        if start.starts_with(b"PAR1") {
            return Format::Parquet;
        }
        match Self::from_name(path) {
            // Ontologies are called `.owl` and `.rdf` in any notation.
            Some(Format::RdfXml) if !is_xml(start) => Self::from_content(start, columns),
            Some(Format::Csv(_)) => Self::csv_separator(start, columns),
            Some(Format::Tsv) if all_quoted(start) => Format::Csv(b'\t'),
            Some(format) => format,
            None => Self::from_content(start, columns),
        }
    }

    /// Whether it is a table: rows of fields.
    pub fn is_table(self) -> bool {
        matches!(self, Format::Tsv | Format::Whitespace | Format::Csv(_))
    }

    /// The separator in words, for messages.
    pub(super) fn separator(self) -> &'static str {
        match self {
            Format::Tsv => "tab",
            Format::Whitespace => "blanks",
            Format::Csv(b';') => "semicolon",
            Format::Csv(b'|') => "bar",
            Format::Csv(b'\t') => "tab",
            Format::Csv(b',') => "comma",
            Format::Csv(_) => "the chosen separator",
            _ => "RDF syntax",
        }
    }

    /// The separator byte, or `None` if it is not a single byte.
    pub(super) fn separator_byte(self) -> Option<u8> {
        match self {
            Format::Tsv => Some(b'\t'),
            Format::Csv(separator) => Some(separator),
            _ => None,
        }
    }

    /// The actual separator of a `.csv` file: many use semicolons or tabs. It is the one under which most of the first
    /// lines have the number of fields in `columns`; a comma if none does better.
    fn csv_separator(start: &[u8], columns: usize) -> Self {
        let vote = |lines: &[&[u8]]| {
            let votes = |byte: u8| lines.iter().filter(|line| split_count(line, byte) == columns).count();
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
    fn from_content(start: &[u8], columns: usize) -> Self {
        if is_xml(start) {
            return Format::RdfXml;
        }
        if is_json(start) {
            return Format::JsonLd;
        }
        let lines = first_lines(start);
        let turtle = |line: &&[u8]| {
            let line = line.trim_ascii_start().to_ascii_lowercase();
            [&b"@prefix"[..], b"@base", b"prefix ", b"base <"].iter().any(|key| line.starts_with(key))
        };
        // Any RDF file may start with comments; test the first other line.
        if lines.iter().find(|line| !line.starts_with(b"#")).is_some_and(turtle) {
            return if start.contains(&b'{') { Format::TriG } else { Format::Turtle };
        }
        let ntriples = |line: &&&[u8]| {
            let line = line.trim_ascii();
            line.starts_with(b"#")
                || ((line.starts_with(b"<") || line.starts_with(b"_:")) && line.ends_with(b".") && line.contains(&b'>'))
        };
        let tabbed = |line: &&&[u8]| line.iter().filter(|&&b| b == b'\t').count() + 1 == columns;
        let votes = |test: &dyn Fn(&&&[u8]) -> bool| lines.iter().filter(|line| test(line)).count();
        let all_statements = votes(&ntriples) == lines.len() && !lines.is_empty();
        if all_statements && votes(&tabbed) < lines.len() {
            return if lines.iter().any(|line| is_in_graph(line)) { Format::NQuads } else { Format::NTriples };
        }
        if all_quoted(start) {
            return Format::Csv(b'\t');
        }
        let by = |byte: u8| move |line: &&&[u8]| split_count(line, byte) == columns;
        let candidates: [(Format, usize); 5] = [
            (Format::Tsv, votes(&|line| line.contains(&b'\t'))),
            (Format::Csv(b','), votes(&by(b','))),
            (Format::Whitespace, votes(&|line| blank_fields(line) == columns)),
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
    pub(super) fn by_habit(start: &[u8]) -> Option<(Self, usize)> {
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
pub(super) fn first_lines(start: &[u8]) -> Vec<&[u8]> {
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
pub(super) fn split_count(line: &[u8], byte: u8) -> usize {
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

pub(super) fn blank_fields(line: &[u8]) -> usize {
    line.split(|b| b.is_ascii_whitespace()).filter(|field| !field.is_empty()).count()
}

fn is_in_graph(line: &[u8]) -> bool {
    NQuadsParser::new().for_slice(line).flatten().any(|quad| quad.graph_name != GraphName::DefaultGraph)
}

/// Whether the text is XML rather than a statement that begins with an IRI.
pub(super) fn is_xml(start: &[u8]) -> bool {
    let start = start.trim_ascii_start();
    let tag = [&b"<?xml"[..], b"<!DOCTYPE", b"<!--", b"<rdf:RDF", b"<RDF"];
    tag.iter().any(|tag| start.starts_with(tag))
}

/// Whether the text is a JSON object or a list of them.
fn is_json(start: &[u8]) -> bool {
    let mut bytes = start.iter().filter(|byte| !byte.is_ascii_whitespace());
    matches!((bytes.next(), bytes.next()), (Some(b'{'), Some(b'"' | b'}')) | (Some(b'['), Some(b'{')))
}

/// Whether every field of the first lines is quoted and separated by tabs: names with quotes of their own look otherwise.
fn all_quoted(start: &[u8]) -> bool {
    let lines = first_lines(start);
    // The last line may be cut.
    let whole = if lines.len() > 1 { &lines[..lines.len() - 1] } else { &lines[..] };
    let quoted = |field: &[u8]| field.len() > 1 && field.starts_with(b"\"") && field.ends_with(b"\"");
    !whole.is_empty() && whole.iter().all(|line| line.contains(&b'\t') && line.split(|&byte| byte == b'\t').all(quoted))
}

/// What a file is instead of a graph, if its first bytes tell, and what to do.
pub(super) fn foreign(start: &[u8]) -> Option<&'static str> {
    let text = start.strip_prefix(super::BOM).unwrap_or(start).trim_ascii_start();
    let begins = |words: &[&[u8]]| {
        words.iter().any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
    };
    if begins(&[b"<!doctype html", b"<html"]) {
        return Some("this is a web page, not a graph\n  remedy: download the file itself");
    }
    if begins(&[b"Prefix(", b"Ontology("]) {
        return Some("this is OWL in functional syntax, which is not read\n  remedy: save it as RDF/XML or Turtle");
    }
    let holds = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    if is_xml(text) && holds(b"<Ontology") && !holds(b"<rdf:RDF") {
        return Some("this is OWL/XML, which is not read\n  remedy: save it as RDF/XML or Turtle");
    }
    if cfg!(not(feature = "parquet")) && start.starts_with(b"PAR1") {
        return Some(
            "this program was built without Parquet\n  remedy: save the file as TSV or CSV, or build with the feature `parquet`",
        );
    }
    if start.starts_with(b"BZh") {
        return Some("this is a bzip2 file, which is not read\n  remedy: unpack it first: bunzip2 FILE");
    }
    if start.starts_with(b"\xfd7zXZ\0") {
        return Some("this is an xz file, which is not read\n  remedy: unpack it first: unxz FILE");
    }
    None
}
