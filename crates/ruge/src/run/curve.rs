//! `metrics.jsonl`: the learning curve, a line of JSON per epoch.
//!
//! A checkpoint notes how long the file was and what it hashed to, so that a run that goes on keeps the lines it knows of, and notices
//! when they were changed. Lines after them will be written again.
//!
//! [`Line`] is what a line holds; whoever writes or reads one does it here.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use ruge_embed::Metrics;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Folder, Tick};
use crate::error::{Result, RugeError};
use crate::model_file::hex;

/// Its name in a run folder.
pub const FILE: &str = "metrics.jsonl";
/// The checkpoint's note about the curve: its length in bytes and their SHA-256.
pub(super) const NOTE: &str = "curve";

/// One epoch, or what stands for one where nothing is trained.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Line {
    /// Whether the validation was the best so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<bool>,
    /// Which epoch, from 1; 0 where nothing is trained.
    pub epoch: u64,
    /// Mean loss over labeled triples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// What learning rates were multiplied by, where that is not 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Wall time.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Mean loss over unlabeled triples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlabeled_loss: Option<f64>,
    /// Hits@N of the validation, by N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_hits: Option<BTreeMap<String, f64>>,
    /// Median rank of the validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_median: Option<f64>,
    /// MRR of the validation; nothing where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_mrr: Option<f64>,
}

impl Line {
    /// The same with a validation.
    pub fn validated(self, metrics: &Metrics, best: bool) -> Self {
        Self {
            best: Some(best),
            valid_hits: Some(metrics.hits.iter().map(|(n, share)| (n.to_string(), *share)).collect()),
            valid_median: Some(metrics.median),
            valid_mrr: Some(metrics.mrr),
            ..self
        }
    }

    /// As it stands in the file, with its end.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("a line is plain data");
        text.push('\n');
        text
    }

    fn of(tick: &Tick) -> Self {
        let line = Self {
            epoch: tick.epoch,
            loss: Some(tick.losses.labeled),
            unlabeled_loss: Some(tick.losses.unlabeled),
            seconds: Some(tick.seconds),
            // By its own shortest digits, not by those of the f64 next to it.
            rate: (tick.rate != 1.0).then(|| tick.rate.to_string().parse().unwrap_or_default()),
            ..Self::default()
        };
        match &tick.metrics {
            Some(metrics) => line.validated(metrics, tick.improved),
            None => line,
        }
    }
}

/// The lines of a text; what says nothing is passed over.
pub fn lines(text: &str) -> impl Iterator<Item = Line> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The learning curve of a run folder, of all processes that had a part in it.
pub fn read(folder: &Path) -> Result<Vec<Line>> {
    let path = folder.join(FILE);
    let text = fs::read_to_string(&path).map_err(RugeError::io(&path, "read"))?;
    Ok(lines(&text).collect())
}

/// The open file.
pub(super) struct Curve {
    path: PathBuf,
    file: File,
    lines: String,
    /// Of the file so far.
    length: u64,
    hasher: Sha256,
}

impl Curve {
    /// Opens the curve of a run that has done `epoch` epochs; `note` is what its checkpoint says of it.
    pub(super) fn open(folder: &Folder, epoch: u64, note: Option<&str>) -> Result<Self> {
        let path = folder.file(FILE);
        let there = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(RugeError::io(&path, "read")(error)),
        };
        let kept = match note {
            _ if there.is_empty() => Vec::new(),
            Some(note) => known(&there, note).ok_or_else(|| RugeError::Run {
                path: path.clone(),
                reason: "it was changed or damaged since the last checkpoint; restore it, or remove it to continue without its \
                         earlier lines"
                    .into(),
            })?,
            None => until(&there, epoch),
        };
        if kept != there || !path.exists() {
            folder.write(FILE, &kept)?;
        }
        let file = OpenOptions::new().append(true).open(&path).map_err(RugeError::io(&path, "write"))?;
        let mut hasher = Sha256::new();
        hasher.update(&kept);
        Ok(Self { path, file, lines: String::new(), length: kept.len() as u64, hasher })
    }

    /// Adds a line.
    pub(super) fn add(&mut self, tick: &Tick) -> Result<()> {
        self.lines.push_str(&Line::of(tick).text());
        // A validation is worth seeing at once; single epochs can wait for company.
        if tick.metrics.is_some() || self.lines.len() > 4096 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let lines = std::mem::take(&mut self.lines);
        self.file.write_all(lines.as_bytes()).map_err(RugeError::io(&self.path, "write"))?;
        self.length += lines.len() as u64;
        self.hasher.update(lines.as_bytes());
        Ok(())
    }

    /// Brings all lines to the disk, and says what a checkpoint notes about them.
    pub(super) fn sync(&mut self) -> Result<String> {
        self.flush()?;
        self.file.sync_data().map_err(RugeError::io(&self.path, "write"))?;
        Ok(note(self.length, self.hasher.clone()))
    }
}

fn note(length: u64, hasher: Sha256) -> String {
    let sum = hex(&hasher.finalize());
    format!("{length} {sum}")
}

/// The part of the file that a note speaks of; nothing if it is another one now.
fn known(there: &[u8], noted: &str) -> Option<Vec<u8>> {
    let length: usize = noted.split(' ').next()?.parse().ok()?;
    let kept = there.get(..length)?;
    (note(length as u64, Sha256::new_with_prefix(kept)) == noted).then(|| kept.to_vec())
}

/// The lines up to an epoch, for checkpoints that note nothing.
fn until(there: &[u8], epoch: u64) -> Vec<u8> {
    let of = |line: &[u8]| Some(serde_json::from_slice::<Line>(line).ok()?.epoch);
    let lines = there.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.filter(|line| of(line).is_some_and(|of| of <= epoch)).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_embed::Losses;

    #[test]
    fn a_line_is_written_as_it_always_was_and_reads_back() {
        let hits = [(1, 0.1), (3, 0.3), (10, 0.5)].into();
        let none = Metrics::of([], ruge_kg::Ties::Mean, &[]);
        let metrics = Metrics { mrr: 0.25, median: 7.5, hits, ..none };
        let losses = Losses { labeled: 0.5, unlabeled: f64::NAN };
        let tick = Tick { epoch: 3, losses, metrics: Some(metrics.clone()), improved: true, seconds: 0.125, rate: 0.4 };
        let line = Line::of(&tick);
        let text = "{\"best\":true,\"epoch\":3,\"loss\":0.5,\"rate\":0.4,\"seconds\":0.125,\"unlabeled_loss\":null,\
                    \"valid_hits\":{\"1\":0.1,\"10\":0.5,\"3\":0.3},\"valid_median\":7.5,\"valid_mrr\":0.25}\n";
        assert_eq!(line.text(), text);
        let read: Vec<Line> = lines(&format!("{text}nonsense\n{{\"loss\":1}}\n{{\"epoch\":4}}\n")).collect();
        assert_eq!(read, [Line { unlabeled_loss: None, ..line }, Line { epoch: 4, ..Line::default() }]);
        let plain = Line { epoch: 0, seconds: Some(1.5), ..Line::default() };
        assert_eq!(plain.text(), "{\"epoch\":0,\"seconds\":1.5}\n");
    }

    #[test]
    fn lines_are_kept_as_far_as_a_checkpoint_knows_them() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::at(place.path());
        let path = place.path().join(FILE);
        let mut curve = Curve::open(&folder, 0, None).unwrap();
        curve.lines.push_str("{\"epoch\":1}\n");
        let noted = curve.sync().unwrap();
        curve.lines.push_str("{\"epoch\":2}\n{\"ep");
        curve.flush().unwrap();
        assert_eq!(until(&fs::read(&path).unwrap(), 9), b"{\"epoch\":1}\n{\"epoch\":2}\n");
        let mut again = Curve::open(&folder, 1, Some(&noted)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"epoch\":1}\n");
        assert_eq!(again.sync().unwrap(), noted);
        fs::write(&path, "{\"epoch\":7}\n").unwrap();
        let told = Curve::open(&folder, 1, Some(&noted)).err().unwrap().to_string();
        assert!(told.contains("metrics.jsonl") && told.contains("remove it"), "{told}");
        fs::remove_file(&path).unwrap();
        Curve::open(&folder, 1, Some(&noted)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}
