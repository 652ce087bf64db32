//! Reading and writing: every file format of a graph.
//!
//! The format is recognised by the file name, or by content if the name says nothing (`.txt`, no extension);
//! compression always by content. Text is read in large pieces and parsed in parallel; the result never depends on the
//! number of threads. A strict reader stops after twenty bad lines and shows them all. A lenient one skips and counts
//! them. Nothing is dropped without being counted in the [`FileReport`].

mod block;
mod columns;
mod contents;
mod csv;
pub mod folder;
mod format;
mod ids;
mod jsonld;
mod labels;
mod libkge;
mod openke;
#[cfg(feature = "parquet")]
mod parquet;
mod rdf;
mod rdfxml;
mod replace;
mod report;
pub mod rows;
mod source;
pub mod split;
mod tsv;
mod turtle;
pub mod write;
mod zipped;

use std::path::{Path, PathBuf};

use crate::error::KgError;
use crate::vocabulary::{MAX_NAMES, Names};

pub use columns::{Column, ColumnChoice, Columns, Header};
pub(crate) use columns::{is_header, looks_like_header};
pub(crate) use contents::REPEATS_SHOWN;
pub use contents::{FileContents, LineMap, Repeats};
pub use format::Format;
use format::{blank_fields, split_count};
pub(crate) use labels::{is_nodes, read as read_labels};
pub(crate) use libkge::read as libkge;
pub(crate) use openke::read as openke;
pub(crate) use rdf::Found;
pub use rdf::{GraphChoice, Literals};
pub use report::FileReport;
pub use source::Compression;
pub(crate) use source::Source;

/// Options for reading a graph.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The columns of TSV and CSV that hold head, relation and tail.
    pub columns: ColumnChoice,
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
    /// Also split the train of a folder that holds nothing else.
    pub split_train: bool,
    /// What becomes of RDF literals.
    pub literals: Literals,
    /// Which graphs of N-Quads, TriG and JSON-LD are read.
    pub graph: GraphChoice,
    /// What relative IRIs are relative to.
    pub base: Option<String>,
    /// Files with labels, descriptions and types of names.
    pub labels: Vec<PathBuf>,
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
            columns: ColumnChoice::Auto,
            format: None,
            header: Header::Auto,
            lenient: false,
            seed: 0,
            held_out: [0.1, 0.1],
            split_train: false,
            literals: Literals::Skip,
            graph: GraphChoice::All,
            base: None,
            labels: Vec::new(),
            train_only: false,
            block: source::BLOCK,
            limits: Limits::default(),
        }
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
    let path = source.path().to_path_buf();
    let inner = source.inner_name().to_path_buf();
    let start = source.peek()?;
    if let Some(encoding) = foreign_encoding(start) {
        return Err(KgError::Encoding { path, encoding });
    }
    if let Some(message) = format::foreign(start) {
        return Err(KgError::Description { path, message: message.to_string() });
    }
    let start = start.strip_prefix(BOM).unwrap_or(start);
    let format = options.format.unwrap_or_else(|| Format::of(&inner, start, options.columns.count()));
    if let Format::Csv(byte @ (0x80.. | b'"' | b'\r' | b'\n' | 0)) = format {
        return Err(KgError::Option(format!("{:?} cannot separate fields; use a comma, a semicolon, …", byte as char)));
    }
    let habit = Format::by_habit(start);
    let first = format.is_table().then(|| first_fields(start, format));
    let mut report = FileReport::new(source.path(), format, source.compression());
    let mut table = options.clone();
    if let Some(first) = first {
        let resolved = options.columns.resolve(&first, options.header);
        let (columns, header) = resolved.map_err(|message| KgError::Columns { path, message })?;
        report.columns = Some(columns);
        if header && options.header == Header::Auto {
            table.header = Header::Yes;
        }
    }
    let mut contents = FileContents::new(report);
    let wanted = contents.report.table().count;
    match format {
        Format::Tsv | Format::Whitespace => tsv::read(source, names, &table, &mut contents)?,
        Format::Csv(separator) => csv::read(source, separator, names, &table, &mut contents)?,
        Format::NTriples | Format::NQuads => rdf::read_lines(source, names, options, &mut contents)?,
        Format::Turtle | Format::TriG => turtle::read(source, names, options, &mut contents)?,
        Format::RdfXml => rdfxml::read(source, names, options, &mut contents)?,
        Format::JsonLd => jsonld::read(source, names, options, &mut contents)?,
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::read(source, names, options, &mut contents)?,
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => {
            let message = "this program was built without Parquet\n  remedy: save the file as TSV or CSV, or build with the feature `parquet`".to_string();
            return Err(KgError::Description { path: source.path().to_path_buf(), message });
        }
    }
    contents.report.triples = contents.read();
    if contents.triples.is_empty() {
        contents.report.other_separator(habit, wanted);
    }
    contents.report.strict(options)?;
    contents.found.finish(&mut contents.report, options)?;
    contents.triples.shrink_to_fit();
    Ok(contents)
}

/// The fields of the first line; none if it is blank.
fn first_fields(start: &[u8], format: Format) -> Vec<String> {
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let text = String::from_utf8_lossy(line);
    match format {
        _ if text.is_empty() => Vec::new(),
        Format::Tsv => text.split('\t').map(str::to_string).collect(),
        Format::Csv(separator) => csv::records(start, separator).next().unwrap_or_default(),
        _ => text.split_ascii_whitespace().map(str::to_string).collect(),
    }
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
