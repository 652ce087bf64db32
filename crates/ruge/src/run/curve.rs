//! `metrics.jsonl`: the learning curve, a line of JSON per epoch.
//!
//! A checkpoint notes how long the file was and what it hashed to, so that a run that goes on keeps the lines it knows of, and notices
//! when they were changed. Lines after them will be written again.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Folder, Tick};
use crate::error::{Result, RugeError};
use crate::model_file::hex;

const FILE: &str = "metrics.jsonl";
/// The checkpoint's note about the curve: its length in bytes and their SHA-256.
pub(super) const NOTE: &str = "curve";

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
    pub(super) fn add(&mut self, tick: &Tick<'_>) -> Result<()> {
        let mut line = json!({
            "epoch": tick.epoch, "loss": tick.losses.labeled, "unlabeled_loss": tick.losses.unlabeled, "seconds": tick.seconds,
        });
        if tick.rate != 1.0 {
            // By its own shortest digits, not by those of the f64 next to it.
            line["rate"] = tick.rate.to_string().parse::<f64>().unwrap_or_default().into();
        }
        if let Some(metrics) = tick.metrics {
            line["valid_mrr"] = metrics.mrr.into();
            line["valid_median"] = metrics.median.into();
            line["valid_hits"] = json!(metrics.hits);
            line["best"] = tick.improved.into();
        }
        self.lines.push_str(&format!("{line}\n"));
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
    let of = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).ok()?["epoch"].as_u64();
    let lines = there.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.filter(|line| of(line).is_some_and(|of| of <= epoch)).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
