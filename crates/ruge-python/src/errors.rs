//! Errors of the libraries as Python exceptions.
//!
//! The exceptions are Python classes (`ruge.errors`); here an error becomes the name of one, its message, and what a program can act
//! on: path, line, row, near names, remedy. The libraries know no keywords, so remedies that name one are added here.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ruge::RugeError;
use ruge::error::Difference;
use ruge_kg::KgError;
use ruge_rules::RuleError;

/// An error on its way to Python. Boxed, so that results are small where nothing goes wrong.
#[derive(Debug)]
pub struct Fault(Box<Parts>);

/// What an exception carries.
#[derive(Debug, Default)]
struct Parts {
    kind: &'static str,
    message: String,
    path: Option<PathBuf>,
    line: Option<u64>,
    row: Option<u64>,
    nearest: Vec<String>,
    remedy: Option<String>,
    is_cancelled: bool,
}

impl From<Parts> for Fault {
    fn from(parts: Parts) -> Self {
        Self(Box::new(parts))
    }
}

/// Results on their way to Python.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

impl Fault {
    /// Data that cannot be read, with what to do.
    pub fn data(message: impl Into<String>, row: Option<u64>, remedy: &str) -> Self {
        Parts { kind: "DataError", message: message.into(), row, remedy: Some(remedy.into()), ..Parts::default() }
            .into()
    }

    /// A setting that says nothing sensible.
    pub fn setting(message: impl Into<String>) -> Self {
        Parts { kind: "RugeError", message: message.into(), ..Parts::default() }.into()
    }

    /// A file or folder that is in the way, or cannot be used.
    pub fn at(path: PathBuf, message: impl Into<String>) -> Self {
        Parts { kind: "RugeError", message: message.into(), path: Some(path), ..Parts::default() }.into()
    }

    /// An existing file is kept, unless its replacement was asked for.
    pub fn refuse_to_replace(path: &Path, force: bool) -> Result<()> {
        if force || !path.exists() {
            return Ok(());
        }
        let what = format!(
            "{}: it already exists\n  remedy: replace it with force=True, or choose another path",
            path.display()
        );
        Err(Self::at(path.to_path_buf(), what))
    }

    /// In this file.
    pub fn of_file(mut self, path: PathBuf) -> Self {
        self.0.path = Some(path);
        self
    }

    /// In this row of a table.
    pub fn in_row(mut self, row: u64) -> Self {
        self.0.row = Some(row);
        self.0.message = format!("row {row}: {}", self.0.message);
        self
    }

    /// Whether nothing went wrong but that the caller asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled
    }

    /// A broken invariant of ours.
    pub fn panic(payload: &(dyn std::any::Any + Send)) -> Self {
        let words = payload.downcast_ref::<&str>().map(|text| text.to_string());
        let words = words.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        Parts {
            kind: "RugeError",
            message: format!("internal error: {words}"),
            remedy: Some("please report this with the call that made it".into()),
            ..Parts::default()
        }
        .into()
    }

    /// As the exception of its kind.
    pub fn raise(self, py: Python<'_>) -> PyErr {
        let fault = &self.0;
        let made = || -> PyResult<PyErr> {
            // A message may end with its remedy; as an attribute it stands alone.
            let (message, said) = match fault.message.split_once("\n  remedy: ") {
                Some((message, remedy)) => (message.to_string(), Some(remedy.replace("\n  or ", ", or "))),
                None => (fault.message.clone(), None),
            };
            let remedy = match (said, &fault.remedy) {
                (Some(said), Some(own)) => Some(format!("{said}, or {own}")),
                (said, own) => said.or_else(|| own.clone()),
            };
            let words = PyDict::new(py);
            words.set_item("path", fault.path.as_ref().map(|path| path.display().to_string()))?;
            words.set_item("line", fault.line)?;
            words.set_item("row", fault.row)?;
            words.set_item("nearest", &fault.nearest)?;
            words.set_item("remedy", remedy)?;
            let class = py.import("ruge.errors")?.getattr(fault.kind)?;
            Ok(PyErr::from_value(class.call((message,), Some(&words))?))
        };
        made().unwrap_or_else(|error| error)
    }
}

/// What to do about a file that cannot be read.
const LOOK: &str = "check the path, and that the file may be read";

impl From<KgError> for Fault {
    fn from(error: KgError) -> Self {
        let (path, line, remedy) = match &error {
            KgError::BadLines { problems, .. } => {
                let first = problems.first();
                let remedy = "skip and count bad lines with lenient=True";
                (first.map(|it| it.file.clone()), first.map(|it| it.line), Some(remedy))
            }
            KgError::Io { path, .. } => (Some(path.clone()), None, Some(LOOK)),
            KgError::Compressed { path, .. } => (Some(path.clone()), None, Some("copy the file again")),
            KgError::Empty { path } => (Some(path.clone()), None, Some("give a file with triples")),
            KgError::Columns { path, .. } => (
                Some(path.clone()),
                None,
                Some("name them with columns=, as in columns=(\"subject\", \"predicate\", \"object\")"),
            ),
            KgError::OnlyLiterals { path, .. } => {
                (Some(path.clone()), None, Some("keep literals with literals=\"entities\""))
            }
            _ => (None, None, None),
        };
        let remedy = remedy.map(str::to_string);
        Parts { kind: "DataError", message: error.to_string(), path, line, remedy, ..Parts::default() }.into()
    }
}

impl From<RuleError> for Fault {
    fn from(error: RuleError) -> Self {
        RugeError::from(error).into()
    }
}

impl From<RugeError> for Fault {
    fn from(error: RugeError) -> Self {
        let is_cancelled = error.is_cancelled();
        let message = error.to_string();
        let (mut path, mut line, mut nearest, mut remedy) = (None, None, Vec::new(), None);
        let kind = match error {
            RugeError::Kg(error) => return error.into(),
            RugeError::Rules(RuleError::Read(error)) => return error.into(),
            RugeError::Rules(_) | RugeError::Facts { .. } => "DataError",
            RugeError::Cuda(_) => {
                remedy = Some("use device=\"cpu\"");
                "DeviceError"
            }
            RugeError::Embed(ruge_embed::EmbedError::Device { .. }) => {
                remedy = Some("continue with device=\"cpu\", resume=True");
                "DeviceError"
            }
            RugeError::UnknownName { nearest: near, .. } => {
                nearest = near;
                remedy = Some("take one of the names in nearest");
                "UnknownName"
            }
            RugeError::AmbiguousName { choices, .. } => {
                nearest = choices;
                remedy = Some("take one of the names in nearest");
                "UnknownName"
            }
            RugeError::ModelFile { path: at, .. } => {
                (path, remedy) = (Some(at), Some("give another copy of the file, or train the model again"));
                "ModelFileError"
            }
            RugeError::NoModel { path: at, .. } => {
                (path, remedy) = (Some(at), Some("give a run folder or a model.safetensors"));
                "ModelFileError"
            }
            RugeError::Exists { path: at, .. } => {
                remedy = Some("continue it with resume=True, replace it with force=True, or give another out=");
                path = Some(at);
                "RugeError"
            }
            RugeError::Locked { path: at } | RugeError::InTheWay { path: at, .. } => {
                (path, remedy) = (Some(at), Some("give another folder with out="));
                "RugeError"
            }
            RugeError::NothingToResume { path: at, .. } => {
                (path, remedy) = (Some(at), Some("leave out resume=True to start one"));
                "RugeError"
            }
            RugeError::OtherRun { path: at, difference, .. } => {
                path = Some(at);
                remedy = Some(match difference {
                    Difference::Settings(_) => {
                        "give the same settings, start again with force=True, or give another out="
                    }
                    _ => "give the same data and rules, start again with force=True, or give another out=",
                });
                "RugeError"
            }
            RugeError::Damaged { path: at, .. } => {
                (path, remedy) = (Some(at), Some("restore a copy, or start again with force=True"));
                "RugeError"
            }
            RugeError::CutOff { path: at, .. } => {
                (path, remedy) = (Some(at), Some("continue with resume=True when the cause is removed"));
                "RugeError"
            }
            RugeError::Io { path: at, action, .. } => {
                let reads = action.contains("read") || action.contains("open");
                let what = if reads { LOOK } else { "check that the folder exists and may be written to" };
                (path, remedy) = (Some(at), Some(what));
                "RugeError"
            }
            _ => "RugeError",
        };
        if let (Some(at), true) = (&path, line.is_none()) {
            let place = format!("{}:", at.display());
            line = message.strip_prefix(&place).and_then(|rest| rest.split(':').next()?.parse().ok());
        }
        let remedy = remedy.map(str::to_string);
        Parts { kind, message, path, line, row: None, nearest, remedy, is_cancelled }.into()
    }
}
