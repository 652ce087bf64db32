//! Why rules could not be read or written, said so that a reader can act on it.

use ruge_kg::Cancelled;
use std::path::PathBuf;

/// Why a rule file as a whole could not be read or written. A bad line is never one of these: readers collect bad
/// lines in [`RuleFile::bad`](crate::io::RuleFile::bad) and go on.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum RuleError {
    /// The file cannot be read: it is missing, damaged, or too large.
    #[error(transparent)]
    Read(#[from] ruge_kg::KgError),
    /// So many lines that are no rules that the file is none of rules.
    #[error(
        "{}: more than {most} lines are {what}; this does not look like a rule file\n  remedy: check the path, or remove those lines",
        path.display()
    )]
    TooMany {
        /// The file.
        path: PathBuf,
        /// What they are.
        what: &'static str,
        /// How many are read.
        most: usize,
    },
    /// No line looks like a rule of any format we know.
    #[error(
        "{}: no line looks like a rule of a known format; the first line is\n    {text}\n  remedy: name the format, one of {formats}",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its first line.
        text: String,
        /// The formats there are.
        formats: String,
    },
    /// A format of this name does not exist.
    #[error("unknown rule format {name:?}{}\n  remedy: use one of {formats}", suggest(suggestion))]
    NoSuchFormat {
        /// What was asked for.
        name: String,
        /// The nearest name, if one is near.
        suggestion: Option<&'static str>,
        /// The formats there are.
        formats: String,
    },
    /// A JSON file that is not JSON, or not an object with a list of rules.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// A relation dictionary that does not number its relations 0, 1, 2, …
    #[error("{}:{line}: {reason}\n  remedy: write one relation per line, `id TAB name`, ids from 0 without gaps", path.display())]
    Dictionary {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A rule that the chosen format has no words for.
    #[error("{format} cannot express the rule {rule}: {reason}")]
    Unsayable {
        /// The format.
        format: crate::io::RuleFormat,
        /// The rule, in the text form.
        rule: String,
        /// Why not, and what to do.
        reason: String,
        /// Whether the data that the rules are about would help: counts and ids come from there.
        needs_data: bool,
    },
    /// The output could not be written.
    #[error("cannot write the rules: {0}")]
    Write(#[from] std::io::Error),
    /// Groundings could not be handed on.
    #[error("cannot write groundings: {0}")]
    Grounding(std::io::Error),
    /// The caller asked to stop, or the time was up.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A rule has more groundings than may be made.
    #[error(
        "rule {} has more than {limit} groundings; remove it, shorten its premise, or allow more",
        rule + 1
    )]
    TooManyGroundings {
        /// The rule, by its place in the list.
        rule: usize,
        /// Groundings that all rules together may have.
        limit: u64,
    },
}

fn suggest(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or(String::new(), |name| format!("; did you mean {name}?"))
}
