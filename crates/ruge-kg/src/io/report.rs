//! What reading a file found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{BOM, Columns, Compression, Format, ReadOptions};
use crate::error::{KgError, MAX_SHOWN, Problem, Reason};

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
    /// Which columns were read, in a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
    /// Statements whose object is a literal.
    #[serde(skip_serializing_if = "is_zero")]
    pub literals: u64,
    /// Whether they were left out.
    #[serde(skip)]
    pub literals_skipped: bool,
    /// Named graphs.
    #[serde(skip_serializing_if = "is_zero")]
    pub graphs: u64,
    /// Statements of graphs that were not chosen.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_graphs: u64,
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
            columns: None,
            literals: 0,
            literals_skipped: false,
            graphs: 0,
            other_graphs: 0,
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

    /// The columns of a table.
    pub(crate) fn table(&self) -> Columns {
        self.columns.unwrap_or_default()
    }

    /// If no line is a triple, the file does not mix separators: it uses a different one.
    pub(super) fn other_separator(&mut self, habit: Option<(Format, usize)>, wanted: usize) {
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
        let problems = std::mem::take(&mut self.problems);
        // What was read behind the last of them depends on how the file was cut for its readers.
        let good = match problems.last().filter(|_| self.stopped) {
            Some(last) => (last.line as usize).saturating_sub(problems.len()),
            None => self.triples,
        };
        Err(KgError::BadLines { problems, more: self.stopped, good })
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
