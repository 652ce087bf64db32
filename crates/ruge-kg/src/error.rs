//! What can go wrong while reading a graph, said so that a reader can act on it: which file, which line, what stood
//! there, why it is wrong and what to do.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// How many bad lines an error shows before it stops reading.
pub const MAX_SHOWN: usize = 20;

/// Why a line is not a triple.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The line has another number of fields than the column order asks for.
    Columns {
        /// Fields on the line.
        found: usize,
        /// Fields expected.
        expected: usize,
    },
    /// The line would be a triple with another separator than the rest of the file.
    MixedSeparators {
        /// The file's separator, in words.
        expected: &'static str,
        /// The line's separator, in words.
        found: &'static str,
    },
    /// The whole file has another separator than was expected.
    OtherSeparator {
        /// The separator expected, in words.
        expected: &'static str,
        /// The file's separator, in words.
        found: &'static str,
        /// Fields that it makes of a line.
        fields: usize,
        /// Fields that the column order asks for.
        wanted: usize,
    },
    /// A head, relation or tail of no characters.
    EmptyField {
        /// Which one.
        field: &'static str,
    },
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// A NUL byte: a binary file, or text in UTF-16.
    NulByte,
    /// A quoted CSV field that is never closed, or goes on behind its closing quote.
    UnclosedQuote,
    /// A syntax error of N-Triples or Turtle, in the parser's words.
    Rdf(String),
    /// A field that should be a number is none.
    NotAnId {
        /// Which field.
        field: &'static str,
    },
    /// An id that its dictionary lacks.
    UnknownId {
        /// Which field.
        field: &'static str,
        /// Size of the dictionary.
        known: usize,
    },
    /// An id or a name given twice in a dictionary file.
    Repeated {
        /// `id` or `name`.
        what: &'static str,
    },
    /// A line, or a statement of Turtle, that is longer than any that is read.
    LongLine {
        /// Bytes that it may have.
        most: usize,
    },
    /// A name that is longer than any that is kept.
    LongName {
        /// Which field.
        field: &'static str,
        /// Bytes that it may have.
        most: usize,
    },
    /// The count on the first line of an OpenKE file disagrees with its lines.
    Count {
        /// What the first line says.
        stated: usize,
        /// What the file holds.
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
            Reason::Rdf(_) => "fix the statement, or check that the file's extension (.nt, .ttl) is right",
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

    /// The format that would read the line, where its separator is to blame, and a column order where its fields are.
    pub fn other_reading(&self) -> (Option<&'static str>, Option<String>) {
        match self {
            Reason::Columns { found, .. } => (None, example_columns(*found)),
            Reason::OtherSeparator { found, fields, wanted, .. } => {
                (Some(format_of(found)), if fields == wanted { None } else { example_columns(*fields) })
            }
            _ => (None, None),
        }
    }

    /// A short name to count by.
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
            Reason::Rdf(message) => write!(f, "{message}"),
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

/// The format that reads lines with this separator.
fn format_of(separator: &str) -> &'static str {
    match separator {
        "comma" => "csv",
        "semicolon" => "csv-semicolon",
        "bar" => "csv-bar",
        "tab" => "tsv",
        _ => "blanks",
    }
}

/// A column order for lines of so many fields.
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
    /// What stands there; long lines are cut, with a mark.
    pub text: String,
    /// Why it is no triple.
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
    /// The file system said no.
    #[error("{}: cannot {action}: {source}{}", path.display(), remedy_for(source, path, action))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: std::io::Error,
    },
    /// Compressed data that ends early or is damaged.
    #[error("{}: {}\n  remedy: copy or download the file again", path.display(), show_damage(format, source))]
    Compressed {
        /// The file.
        path: PathBuf,
        /// `gzip` or `zstd`.
        format: &'static str,
        /// What the decoder answered.
        source: std::io::Error,
    },
    /// Compressed data that only a decoder with more memory can unpack.
    #[error("{}: this zstd file needs more than 128 MB of memory to unpack\n  remedy: unpack it first: zstd -d --long=31 {}", path.display(), path.display())]
    Window {
        /// The file.
        path: PathBuf,
    },
    /// Text that has to be held whole and is too large for that.
    #[error("{}: {} more than {}, half of the available memory\n  remedy: {}", path.display(), show_packed(*packed), size(*most), large_remedy(*packed))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// `gzip` or `zstd`, if it is compressed.
        packed: Option<&'static str>,
        /// Bytes that can be held.
        most: u64,
    },
    /// A file that another program wrote to while it was read.
    #[error("{}: the file changed while it was read\n  remedy: wait until it is complete, and run again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Memory that cannot be had.
    #[error("not enough memory: needs about {} for {what}{}\n  remedy: free some memory, use a larger machine, or read part of the data", size(*needed), show_left(*available))]
    Memory {
        /// What it is needed for.
        what: String,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that are left, where the system says so.
        available: Option<u64>,
    },
    /// More than there are numbers for.
    #[error("more than {most} {what}; a graph cannot hold more\n  remedy: read part of the data")]
    TooMany {
        /// Entities, relations or triples.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// Something other than a plain file where a file of ours should go.
    #[error("{}: {found}, and is not followed when writing\n  remedy: remove it, or give another output folder", path.display())]
    NotOurs {
        /// The place.
        path: PathBuf,
        /// What stands there, in words.
        found: &'static str,
    },
    /// Lines that are no triples.
    #[error("{}", show_bad_lines(problems, *more))]
    BadLines {
        /// The first ones, at most [`MAX_SHOWN`].
        problems: Vec<Problem>,
        /// Whether reading stopped before the end of the file.
        more: bool,
    },
    /// A file without a single triple.
    #[error("{}: no triples\n  remedy: write one triple per line, `head TAB relation TAB tail`, or name another format", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A folder in which no training file was found.
    #[error("{}: no train file in this folder (it holds {found})\n  remedy: name it train.txt, train.tsv, train.csv, train.nt or train.ttl (each also .gz or .zst) or NAME_triples.train; or give one triple file instead of a folder", path.display())]
    NoTrain {
        /// The folder.
        path: PathBuf,
        /// What is in it, in words.
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
        /// The encoding its first bytes announce.
        encoding: &'static str,
    },
    /// A data set description that does not say what it must.
    #[error("{}: {message}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },
    /// A count in a description that disagrees with the file it counts.
    #[error("{}: num_{what} is {stated}, but {} names {found}\n  remedy: correct the one or the other, or read leniently, which goes by the file", path.display(), file.display())]
    OtherCount {
        /// The description.
        path: PathBuf,
        /// Entities or relations.
        what: &'static str,
        /// What it says.
        stated: usize,
        /// The file that names them.
        file: PathBuf,
        /// How many it names.
        found: usize,
    },
    /// An option that makes no sense.
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
    /// Wraps an I/O error with the path it concerns.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> KgError {
        let path = path.to_path_buf();
        move |source| KgError::Io { path, action, source }
    }
}

/// Bytes as people say them.
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

fn show_bad_lines(problems: &[Problem], more: bool) -> String {
    let mut out = match (problems.len(), more) {
        (1, _) => "1 bad line".to_string(),
        (n, false) => format!("{n} bad lines"),
        (n, true) => format!("at least {n} bad lines; reading stopped here"),
    };
    let mut remedies: Vec<Cow<'_, str>> = Vec::new();
    for problem in problems {
        out.push_str(&format!("\n  {problem}"));
        let remedy = problem.reason.remedy();
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    for remedy in remedies {
        out.push_str(&format!("\n  remedy: {remedy}"));
    }
    out
}

/// A line as an error shows it: cut at 160 characters with a mark, control characters made visible.
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
