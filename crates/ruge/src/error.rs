//! What can go wrong between a spec and a finished run, as types that an edge can act on.
//!
//! A message says what is wrong and which setting matters. How that setting is given, and what to type instead, is the edge's to say:
//! there are no flags and no commands in here.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::memory::Share;
use crate::suggest::meant;

pub use ruge_cuda::CudaError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RugeError {
    /// The graph could not be read.
    #[error(transparent)]
    Kg(#[from] ruge_kg::KgError),
    /// The rules could not be read or written.
    #[error(transparent)]
    Rules(ruge_rules::RuleError),
    /// Training failed.
    #[error(transparent)]
    Embed(ruge_embed::EmbedError),
    /// Ranking failed.
    #[error(transparent)]
    Rank(ruge_kg::RankError),
    /// The caller asked to stop, or the time was up.
    #[error(transparent)]
    Cancelled(#[from] ruge_kg::Cancelled),
    /// The card could not be used.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A setting, or a combination of settings, that says nothing sensible.
    #[error("{reason}")]
    Setting {
        /// Its path in a spec, where one setting is to blame.
        setting: Option<String>,
        /// What is wrong.
        reason: String,
    },
    /// Something that this model or these data cannot give.
    #[error("{0}")]
    Refused(String),
    /// Work that takes more memory than there is.
    #[error(
        "{work} needs {} of memory, and this machine has {} available, swap included{}",
        gigabytes(*needed), gigabytes(*available), largest(parts)
    )]
    Memory {
        /// The work, in words.
        work: String,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that can be had.
        available: u64,
        /// What they are for.
        parts: Vec<Share>,
    },
    /// Rules whose groundings do not fit into memory.
    #[error(
        "the rules have more than {limit} groundings, which do not fit into memory; most come from\n    {rule}\n  \
         remedy: leave out this rule or shorten its premise, or raise rules.min-confidence"
    )]
    Groundings {
        /// How many fit.
        limit: u64,
        /// The rule with most of them, as a formula.
        rule: String,
    },
    /// A file could not be read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: std::io::Error,
    },
    /// A file that is no model of ours, or a damaged one.
    #[error("{}: not a usable model file: {reason}", path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// There is no model where one was looked for.
    #[error(
        "{}: {}",
        path.display(),
        if *is_folder { "it holds no model.safetensors; is its run finished?" } else { "there is no such file or folder" }
    )]
    NoModel {
        /// The file or folder.
        path: PathBuf,
        /// Whether it is a folder that is there.
        is_folder: bool,
    },
    /// A name that the model does not have.
    #[error("the model has no {kind} called {name:?}{}", near(nearest, some, *more))]
    UnknownName {
        /// Entity or relation.
        kind: &'static str,
        /// What was typed.
        name: String,
        /// The names nearest to it.
        nearest: Vec<String>,
        /// Where none is near and there are few, some of those there are.
        some: Vec<String>,
        /// How many there are besides.
        more: usize,
    },
    /// A label that several have.
    #[error("{} {kind} are called {name:?}: {}\n  remedy: give the name of one", choices.len(), listed(&typed(choices, types)))]
    AmbiguousName {
        /// Entities or relations.
        kind: &'static str,
        /// What was typed.
        name: String,
        /// The names of those that have this label.
        choices: Vec<String>,
        /// A type of each, empty where none is known.
        types: Vec<String>,
    },
    /// A fact that cannot be taken in.
    #[error("{}:{line}: {reason}", path.display())]
    Facts {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// Why not.
        reason: String,
    },
    /// A result is already there, and is not replaced unasked.
    #[error("{}: it already holds {what}", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
        /// What it holds, with its article.
        what: String,
        /// Whether it could be continued.
        resumes: bool,
    },
    /// Something that is not ours stands where a result is to go.
    #[error("{}: {reason}", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// Another process works there.
    #[error("{}: another ruge process is working in this folder", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// There is nothing to continue.
    #[error("{}: there is no {what} to resume", path.display())]
    NothingToResume {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// A replacement that was begun and not finished.
    #[error("{}: it holds an unfinished result of `{made_by}` that is to replace another one", path.display())]
    Unfinished {
        /// The folder.
        path: PathBuf,
        /// What makes it: run, train or search.
        made_by: String,
        /// Where its files are.
        aside: PathBuf,
    },
    /// A result of another kind than the one asked for.
    #[error("{}: it holds {what}", path.display())]
    OtherKind {
        /// The folder.
        path: PathBuf,
        /// What it holds, with its article.
        what: &'static str,
        /// What makes such a result: run or train.
        made_by: &'static str,
    },
    /// A result that was begun from something else, and cannot be continued from this.
    #[error(
        "{}: {}{difference}",
        path.display(),
        if aside.is_some() { "an unfinished run is about to replace the one in it, and " } else { "" }
    )]
    OtherRun {
        /// The folder.
        path: PathBuf,
        /// What differs.
        difference: Difference,
        /// Where its files are, if it is to replace another one that is finished.
        aside: Option<PathBuf>,
    },
    /// A file of a run that cannot be relied on.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Work that was cut off from outside; what was finished is kept, and it can go on.
    #[error("{}: {reason}", path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
    /// A stage of a job that has to be made first.
    #[error("{}: {reason}", path.display())]
    Stage {
        /// The folder or file.
        path: PathBuf,
        /// Its name.
        stage: &'static str,
        /// What is wrong with what is there.
        reason: String,
    },
    /// A stage that a job does not have.
    #[error("stage {stage} is no part of this run: {reason}")]
    NoStage {
        /// Its name.
        stage: &'static str,
        /// When there is one.
        reason: String,
    },
    /// A model that a format of files cannot hold.
    #[error("{}: {reason}", path.display())]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// Why not.
        reason: String,
        /// The formats that can.
        formats: &'static [&'static str],
    },
    /// Anything else that is wrong with a folder or a file of a run.
    #[error("{}: {reason}", path.display())]
    Run {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
}

/// What differs between a result that was begun and what is to continue it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Difference {
    /// The version of the arithmetic, which decides the bits.
    Arithmetic {
        /// Who began it, in words.
        by: String,
    },
    /// The data, or how they are split.
    Data,
    /// Settings of the spec, in words where they are known.
    Settings(Option<String>),
    /// What the rules say; with the file that was changed, where there is one.
    Rules(Option<PathBuf>),
    /// The space of a search, or its seed.
    Space,
    /// It has gone further than is asked for.
    Epochs {
        /// Epochs it has done.
        done: u64,
        /// Epochs that are asked for.
        wanted: u64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arithmetic { by } => write!(f, "it was begun by {by}, whose arithmetic gives other bits"),
            Self::Data => write!(f, "it was started with other data"),
            Self::Settings(None) => write!(f, "it was started with other settings"),
            Self::Settings(Some(words)) => write!(f, "it was started with other settings ({words})"),
            Self::Rules(None) => write!(f, "it was started with other rules"),
            Self::Rules(Some(file)) => {
                write!(f, "it was started with other rules: {} was changed since", file.display())
            }
            Self::Space => write!(f, "it was begun with another space or seed"),
            Self::Epochs { done, wanted } => write!(f, "it has done {done} epochs already, more than {wanted}"),
        }
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// The part of the memory that is worth lowering.
fn largest(parts: &[Share]) -> String {
    parts.iter().max_by_key(|part| part.bytes).map_or_else(String::new, |part| {
        format!("\n  the largest part is {} for {}\n  remedy: {}", gigabytes(part.bytes), part.what, part.remedy)
    })
}

/// Names that may have been meant.
/// Choices named in an error.
const CHOICES: usize = 10;

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(CHOICES).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > CHOICES { format!("{shown}, …") } else { shown }
}

/// Names with their types, by which a reader may tell them apart: `Q90 (City)`.
fn typed(names: &[String], types: &[String]) -> Vec<String> {
    let kind = |at: usize| types.get(at).filter(|kind| !kind.is_empty());
    let named = |(at, name): (usize, &String)| kind(at).map_or_else(|| name.clone(), |kind| format!("{name} ({kind})"));
    names.iter().enumerate().map(named).collect()
}

fn near(nearest: &[String], some: &[String], more: usize) -> String {
    if !nearest.is_empty() || some.is_empty() {
        return meant(nearest);
    }
    let some: Vec<String> = some.iter().map(|name| format!("{name:?}")).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; it has {}{more}", some.join(", "))
}

impl RugeError {
    /// Whether nothing went wrong but that the caller asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, RugeError::Cancelled(_))
    }

    /// Settings that say nothing sensible.
    pub fn spec(reason: impl Into<String>) -> Self {
        Self::Setting { setting: None, reason: reason.into() }
    }

    /// A setting that says nothing sensible.
    pub fn setting(setting: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Setting { setting: Some(setting.into()), reason: reason.into() }
    }

    /// Something that this model or these data cannot give.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused(reason.into())
    }

    /// Wraps an I/O error with the path it concerns.
    pub fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, action, source }
    }
}

/// A cancellation is the same whichever room it was noticed in.
macro_rules! from_room {
    ($($error:ty, $cancelled:path, $variant:ident;)+) => {$(
        impl From<$error> for RugeError {
            fn from(error: $error) -> Self {
                match error {
                    $cancelled(cancelled) => Self::Cancelled(cancelled),
                    other => Self::$variant(other),
                }
            }
        }
    )+};
}

from_room! {
    ruge_rules::RuleError, ruge_rules::RuleError::Cancelled, Rules;
    ruge_embed::EmbedError, ruge_embed::EmbedError::Cancelled, Embed;
    ruge_kg::RankError, ruge_kg::RankError::Cancelled, Rank;
}

/// Results of this crate.
pub type Result<T, E = RugeError> = std::result::Result<T, E>;
