//! Errors while reading or writing a graph. Each states the file and line, its text, what is wrong and what to do.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// How many bad lines an error shows before reading stops.
pub const MAX_SHOWN: usize = 20;
/// Malformed lines that an error quotes; more of them would hide the remedy.
const MAX_QUOTED: usize = 4;

/// Why a line is not a triple.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The number of fields differs from the column order.
    Columns {
        /// Fields on the line.
        found: usize,
        /// Fields expected.
        expected: usize,
    },
    /// The line would be a triple with a different separator from the rest of the file.
    MixedSeparators {
        /// The file's separator, in words.
        expected: &'static str,
        /// The line's separator, in words.
        found: &'static str,
    },
    /// The whole file uses a different separator than expected.
    OtherSeparator {
        /// The separator expected, in words.
        expected: &'static str,
        /// The file's separator, in words.
        found: &'static str,
        /// Fields per line with that separator.
        fields: usize,
        /// Fields required by the column order.
        wanted: usize,
    },
    /// An empty head, relation or tail.
    EmptyField {
        /// Which one.
        field: &'static str,
    },
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// A NUL byte: a binary file, or text in UTF-16.
    NulByte,
    /// A quoted CSV field that is never closed, or is followed by text after its closing quote.
    UnclosedQuote,
    /// An RDF syntax error, in the parser's words.
    Rdf(String),
    /// A relative IRI without a base, in the parser's words.
    RelativeIri(String),
    /// A JSON-LD context that stands elsewhere.
    RemoteContext,
    /// A field that should be a number is not one.
    NotAnId {
        /// Which field.
        field: &'static str,
    },
    /// An id missing from its dictionary.
    UnknownId {
        /// Which field.
        field: &'static str,
        /// Size of the dictionary.
        known: usize,
    },
    /// An id or a name that occurs twice in a dictionary file.
    Repeated {
        /// `id` or `name`.
        what: &'static str,
    },
    /// A line or Turtle statement above the maximum length.
    LongLine {
        /// The maximum in bytes.
        most: usize,
    },
    /// A name above the maximum length.
    LongName {
        /// Which field.
        field: &'static str,
        /// The maximum in bytes.
        most: usize,
    },
    /// The count on the first line of an OpenKE file disagrees with its number of lines.
    Count {
        /// The stated count.
        stated: usize,
        /// The lines found.
        found: usize,
    },
}

impl Reason {
    /// What the user can do about it.
    pub fn remedy(&self) -> Cow<'static, str> {
        let remedy = match self {
            Reason::Columns { .. } => {
                "give every line the fields of the column order, or name another order, in which `-` skips a column: hrt-"
            }
            Reason::MixedSeparators { .. } => "use one separator in the whole file",
            Reason::OtherSeparator { found, fields, wanted, .. } => {
                let format = format_of(found);
                return match example_columns(*fields) {
                    _ if fields == wanted => format!("read it as {format}").into(),
                    None => format!("read it as {format}, and name the columns to read").into(),
                    Some(columns) => {
                        format!("read it as {format}, and name the columns to read, for example {columns}").into()
                    }
                };
            }
            Reason::EmptyField { .. } => "fill the field in, or delete the line",
            Reason::InvalidUtf8 => "convert the file to UTF-8, for example with: iconv -f LATIN1 -t UTF-8",
            Reason::NulByte => {
                "if this is UTF-16, convert it with: iconv -f UTF-16 -t UTF-8; otherwise it is not a text file"
            }
            Reason::UnclosedQuote => "close the quote, or write a quote inside a field as two quotes",
            Reason::Rdf(_) => {
                "fix the statement, or check that the file's extension (.nt, .ttl, .rdf, .jsonld) is right"
            }
            Reason::RelativeIri(_) => "give the base IRI that relative ones belong to",
            Reason::RemoteContext => "put the context itself into the file in the place of its address",
            Reason::NotAnId { .. } => "ids are whole numbers from 0; OpenKE columns are head, tail, relation",
            Reason::UnknownId { .. } => "add the id to its dictionary file, or correct it",
            Reason::Repeated { .. } => "give every id one name and every name one id",
            Reason::LongLine { .. } => {
                "check that the file is text with one triple per line; shorten the line or delete it"
            }
            Reason::LongName { .. } => "give it a shorter name, for example an id; or delete the line",
            Reason::Count { .. } => "correct the first line, or restore the missing lines",
        };
        remedy.into()
    }

    /// The format that would read the line, if its separator is wrong, and a column order, if its number of fields is.
    pub fn other_reading(&self) -> (Option<&'static str>, Option<String>) {
        match self {
            Reason::Columns { found, .. } => (None, example_columns(*found)),
            Reason::OtherSeparator { found, fields, wanted, .. } => {
                (Some(format_of(found)), if fields == wanted { None } else { example_columns(*fields) })
            }
            _ => (None, None),
        }
    }

    /// A short name, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Reason::Columns { .. } => "wrong number of columns",
            Reason::MixedSeparators { .. } => "mixed separators",
            Reason::OtherSeparator { .. } => "another separator",
            Reason::EmptyField { .. } => "empty field",
            Reason::InvalidUtf8 => "invalid UTF-8",
            Reason::NulByte => "NUL byte",
            Reason::UnclosedQuote => "unclosed quote",
            Reason::Rdf(_) => "RDF syntax",
            Reason::RelativeIri(_) => "relative IRI without a base",
            Reason::RemoteContext => "a context that stands elsewhere",
            Reason::NotAnId { .. } => "not an id",
            Reason::UnknownId { .. } => "unknown id",
            Reason::Repeated { .. } => "repeated id or name",
            Reason::LongLine { .. } => "line too long",
            Reason::LongName { .. } => "name too long",
            Reason::Count { .. } => "wrong count",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Columns { found, expected } => {
                let plural = if *found == 1 { "" } else { "s" };
                write!(f, "{found} field{plural} instead of {expected}")
            }
            Reason::MixedSeparators { expected, found } => {
                write!(f, "separated by {found}, while the file is separated by {expected}")
            }
            Reason::OtherSeparator { expected, found, fields, wanted } => {
                write!(f, "separated by {found}, while {expected} was expected")?;
                if fields == wanted { Ok(()) } else { write!(f, "; {fields} fields instead of {wanted}") }
            }
            Reason::EmptyField { field } => write!(f, "the {field} is empty"),
            Reason::InvalidUtf8 => write!(f, "not valid UTF-8"),
            Reason::NulByte => write!(f, "holds a NUL byte"),
            Reason::UnclosedQuote => write!(f, "a quote is not closed, or more text follows the closing quote"),
            Reason::Rdf(message) | Reason::RelativeIri(message) => write!(f, "{message}"),
            Reason::RemoteContext => write!(f, "the context is named by its address, which is not fetched"),
            Reason::NotAnId { field } => write!(f, "the {field} is not a whole number"),
            Reason::UnknownId { field, known } => write!(f, "the {field} is not among the {known} known ids"),
            Reason::Repeated { what } => write!(f, "this {what} was given before"),
            Reason::LongLine { most } => {
                write!(f, "longer than {}, the maximum length of a line", size(*most as u64))
            }
            Reason::LongName { field, most } => write!(f, "the {field} is a name of more than {}", size(*most as u64)),
            Reason::Count { stated, found } => write!(f, "the first line says {stated}, the file holds {found}"),
        }
    }
}

/// The format for lines with this separator.
fn format_of(separator: &str) -> &'static str {
    match separator {
        "comma" => "csv",
        "semicolon" => "csv-semicolon",
        "bar" => "csv-bar",
        "tab" => "tsv",
        _ => "blanks",
    }
}

/// A column order for lines with this many fields.
fn example_columns(fields: usize) -> Option<String> {
    (fields >= 3).then(|| format!("hrt{}", "-".repeat((fields - 3).min(20))))
}

/// A line that is not a triple.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
    /// The line's text; long lines are truncated with a mark.
    pub text: String,
    /// Why it is not a triple.
    pub reason: Reason,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n    {}", self.file.display(), self.line, self.reason, self.text)
    }
}

/// Why a graph could not be read or written.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum KgError {
    /// A file-system operation failed.
    #[error("{}: cannot {action}: {source}{}", path.display(), remedy_for(source, path, action))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operation.
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// Compressed data that ends early or is damaged.
    #[error("{}: {}\n  remedy: copy or download the file again", path.display(), show_damage(format, source))]
    Compressed {
        /// The file.
        path: PathBuf,
        /// `gzip` or `zstd`.
        format: &'static str,
        /// The decoder's error.
        source: std::io::Error,
    },
    /// Compressed data that needs more memory to decode than is allowed.
    #[error("{}: this zstd file needs more than 128 MB of memory to unpack\n  remedy: unpack it first: zstd -d --long=31 {}", path.display(), path.display())]
    Window {
        /// The file.
        path: PathBuf,
    },
    /// Text that must be held in memory as a whole and is too large.
    #[error("{}: {} more than {}, half of the available memory\n  remedy: {}", path.display(), show_packed(*packed), size(*most), large_remedy(*packed))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// `gzip` or `zstd`, if it is compressed.
        packed: Option<&'static str>,
        /// Maximum bytes that can be held.
        most: u64,
    },
    /// Another program changed the file while it was read.
    #[error("{}: the file changed while it was read\n  remedy: wait until it is complete, and run again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Not enough memory.
    #[error("not enough memory: needs about {} for {what}{}\n  remedy: free some memory, use a larger machine, or read part of the data", size(*needed), show_left(*available))]
    Memory {
        /// What it is needed for.
        what: String,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes available, if the system reports them.
        available: Option<u64>,
    },
    /// More items than ids can number.
    #[error("more than {most} {what}; a graph cannot hold more\n  remedy: read part of the data")]
    TooMany {
        /// Entities, relations or triples.
        what: &'static str,
        /// The maximum.
        most: usize,
    },
    /// The target of a write is not a plain file.
    #[error("{}: {found}, and is not followed when writing\n  remedy: remove it, or give another output folder", path.display())]
    NotOurs {
        /// The place.
        path: PathBuf,
        /// What it is, in words.
        found: &'static str,
    },
    /// Malformed lines.
    #[error("{}", show_bad_lines(problems, *more, *good))]
    BadLines {
        /// The first ones, at most [`MAX_SHOWN`].
        problems: Vec<Problem>,
        /// Whether reading stopped before the end of the file.
        more: bool,
        /// Lines that could be read, up to the last of them if reading stopped.
        good: usize,
    },
    /// A file without triples.
    #[error("{}: no triples\n  remedy: write one triple per line, `head TAB relation TAB tail`, or name another format", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A file in which every object is a literal.
    #[error("{}: no triples: the objects of all {count} statements are literals, which are left out\n  remedy: read literals as entities, or check that it is the right file", path.display())]
    OnlyLiterals {
        /// The file.
        path: PathBuf,
        /// Statements with literals.
        count: u64,
    },
    /// A named graph that a file does not have.
    #[error("{}: no graph is called {name:?}{}\n  remedy: give one of these, or read all graphs", path.display(), show_graphs(found))]
    NoGraph {
        /// The file.
        path: PathBuf,
        /// The graph wanted.
        name: String,
        /// The graphs that are there.
        found: Vec<String>,
    },
    /// Columns that a table does not have.
    #[error("{}: {message}", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A folder without a training file.
    #[error("{}: no train file in this folder (it holds {found})\n  remedy: name it train.txt, train.tsv, train.csv, train.nt or train.ttl (each also .gz or .zst) or NAME_triples.train; or give one triple file instead of a folder", path.display())]
    NoTrain {
        /// The folder.
        path: PathBuf,
        /// What the folder contains, in words.
        found: String,
    },
    /// Two files for one split.
    #[error("two files for one split: {} and {}\n  remedy: keep one of them", first.display(), second.display())]
    Ambiguous {
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A text encoding other than UTF-8.
    #[error("{}: the file is {encoding}, not UTF-8\n  remedy: iconv -f {encoding} -t UTF-8 {} > converted.txt", path.display(), path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
        /// The encoding announced by its first bytes.
        encoding: &'static str,
    },
    /// An incomplete or invalid data set description.
    #[error("{}: {message}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },
    /// A count in a description that disagrees with the file it describes.
    #[error("{}: num_{what} is {stated}, but {} names {found}\n  remedy: correct the one or the other, or read leniently, which goes by the file", path.display(), file.display())]
    OtherCount {
        /// The description.
        path: PathBuf,
        /// Entities or relations.
        what: &'static str,
        /// The stated count.
        stated: usize,
        /// The file with the names.
        file: PathBuf,
        /// The names found in it.
        found: usize,
    },
    /// An invalid option.
    #[error("{0}")]
    Option(String),
    /// A name that the chosen output format cannot hold.
    #[error("{what} {name:?} cannot be written as {format}: {reason}")]
    Unwritable {
        /// Entity or relation.
        what: &'static str,
        /// Its name.
        name: String,
        /// The format.
        format: &'static str,
        /// Why not.
        reason: &'static str,
    },
}

impl KgError {
    /// Wraps an I/O error with its path.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> KgError {
        let path = path.to_path_buf();
        move |source| KgError::Io { path, action, source }
    }
}

/// A human-readable byte count.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..1_000_000 => format!("{} kB", bytes / 1000),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn show_damage(format: &str, source: &std::io::Error) -> String {
    match source.kind() {
        std::io::ErrorKind::UnexpectedEof => format!("the {format} data ends too early: the file is cut off"),
        _ => format!("damaged {format} data: {source}"),
    }
}

fn show_graphs(found: &[String]) -> String {
    match found {
        [] => "; the file has no named graph".to_string(),
        [first @ .., _] if found.len() > 5 => {
            format!("; there are {}, … {} in all", first[..5].join(", "), found.len())
        }
        all => format!("; there are {}", all.join(", ")),
    }
}

fn show_packed(packed: Option<&str>) -> String {
    packed.map_or_else(|| "holds".to_string(), |format| format!("this {format} file unpacks to"))
}

fn large_remedy(packed: Option<&str>) -> &'static str {
    match packed {
        Some(_) => "check that the file is what you think; if so, unpack and split it, or use a larger machine",
        None => "split it, or use a larger machine",
    }
}

fn show_left(available: Option<u64>) -> String {
    available.map_or_else(String::new, |available| format!(", and {} is available", size(available)))
}

fn remedy_for(error: &std::io::Error, path: &Path, action: &str) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => {
                format!("\n  remedy: the folder {} does not exist either; check the path", parent.display())
            }
            _ if action == "open" => "\n  remedy: check the path; `demo` is the embedded graph".to_string(),
            _ => "\n  remedy: check the path".to_string(),
        },
        std::io::ErrorKind::PermissionDenied => "\n  remedy: check the permissions".to_string(),
        std::io::ErrorKind::StorageFull => "\n  remedy: free some space and run again".to_string(),
        _ => String::new(),
    }
}

/// Lines that are told where all have the same cause.
const FEW: usize = 3;

fn show_bad_lines(problems: &[Problem], more: bool, good: usize) -> String {
    let others = if good > 0 { format!(", {good} good") } else { String::new() };
    let mut out = match (problems.len(), more) {
        (1, _) => format!("1 bad line{others}"),
        (n, false) => format!("{n} bad lines{others}"),
        (n, true) => format!("at least {n} bad lines{others}; reading stopped here"),
    };
    // Without a base every relative IRI is an error, and so is every use of a prefix for one: a few of them tell all.
    let is_relative = |problem: &&Problem| matches!(problem.reason, Reason::RelativeIri(_));
    let relative: Vec<&Problem> = problems.iter().filter(is_relative).take(FEW).collect();
    let told: Vec<&Problem> = if relative.is_empty() { problems.iter().collect() } else { relative };
    let mut remedies: Vec<Cow<'_, str>> = Vec::new();
    for problem in &told {
        let remedy = match problem.reason {
            Reason::Columns { .. } if good > problems.len() => "give these lines the fields of all others".into(),
            _ => problem.reason.remedy(),
        };
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    let quoted = told.len().min(MAX_QUOTED);
    told[..quoted].iter().for_each(|problem| out.push_str(&format!("\n  {problem}")));
    match problems.len() - quoted {
        0 => {}
        1 => out.push_str("\n  and 1 more line"),
        others => out.push_str(&format!("\n  and {others} more lines")),
    }
    for remedy in remedies {
        out.push_str(&format!("\n  remedy: {remedy}"));
    }
    out
}

/// A line as shown in errors: truncated at 160 characters with a mark, control characters made visible.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(800)]);
    let mut out: String = text
        .chars()
        .take(160)
        .map(|c| match c {
            '\t' => '⇥',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect();
    if text.chars().count() > 160 || line.len() > 800 {
        out.push_str(&format!("… ({} bytes)", line.len()));
    }
    if out.is_empty() { "(empty)".to_string() } else { out }
}
