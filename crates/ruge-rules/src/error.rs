//! Errors while reading, writing or grounding rules.

use ruge_kg::Cancelled;
use std::path::PathBuf;

/// A rule file could not be read or written. Bad lines are not errors: readers collect them in
/// [`RuleFile::bad`](crate::io::RuleFile::bad) and continue.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum RuleError {
    /// The file cannot be read: it is missing, damaged, or too large.
    #[error(transparent)]
    Read(#[from] ruge_kg::KgError),
    /// So many lines are not rules that this is not a rule file.
    #[error(
        "{}: more than {most} lines are {what}; this does not look like a rule file\n  remedy: check the path, or remove those lines",
        path.display()
    )]
    TooMany {
        /// The file.
        path: PathBuf,
        /// What they are.
        what: &'static str,
        /// The maximum.
        most: usize,
    },
    /// No line looks like a rule in any known format.
    #[error(
        "{}: no line looks like a rule of a known format; the first line is\n    {text}\n  remedy: name the format, one of {formats}",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its first line.
        text: String,
        /// The known formats.
        formats: String,
    },
    /// An unknown format name.
    #[error("unknown rule format {name:?}{}\n  remedy: use one of {formats}", suggest(suggestion))]
    NoSuchFormat {
        /// The requested name.
        name: String,
        /// The closest name, if any.
        suggestion: Option<&'static str>,
        /// The known formats.
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
        /// The parser's message.
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
    /// A rule that the chosen format cannot express.
    #[error("{format} cannot express the rule {rule}: {reason}")]
    Unsayable {
        /// The format.
        format: crate::io::RuleFormat,
        /// The rule, in the text form.
        rule: String,
        /// Why not, and what to do.
        reason: String,
        /// Whether the training data would help: they provide counts and ids.
        needs_data: bool,
    },
    /// The output could not be written.
    #[error("cannot write the rules: {0}")]
    Write(#[from] std::io::Error),
    /// Groundings could not be written.
    #[error("cannot write groundings: {0}")]
    Grounding(std::io::Error),
    /// The caller cancelled, or the deadline passed.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A rule has more groundings than the limit.
    #[error(
        "rule {} has more than {limit} groundings; remove it, shorten its premise, or allow more",
        rule + 1
    )]
    TooManyGroundings {
        /// The rule's index in the list.
        rule: usize,
        /// Maximum groundings of all rules together.
        limit: u64,
    },
}

fn suggest(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or(String::new(), |name| format!("; did you mean {name}?"))
}
