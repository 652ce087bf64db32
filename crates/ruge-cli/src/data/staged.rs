//! Staged files: written beside their final place, checked, and only then given their name.
//!
//! A file called `train.txt` is therefore always whole: a crash, a full disk or a wrong checksum leaves the old
//! file, or none, never half of a new one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::digest::Digest;
use crate::output::refuse_link;

/// No published set comes near this size; whatever does is a broken or hostile archive.
pub const MAX_FILE_BYTES: u64 = 2 << 30;

/// A complete file under a temporary name, which disappears unless it is committed.
#[derive(Debug)]
pub struct Staged {
    temporary: PathBuf,
    target: PathBuf,
    /// Keeps others off the temporary file for as long as it is ours.
    _lock: Option<File>,
}

impl Staged {
    /// Copies `reader` to a temporary file beside `target`, down to the disk. `origin` names the source in errors.
    pub fn write(target: &Path, reader: impl Read, limit: u64, origin: &str) -> Result<Self> {
        let temporary = with_suffix(target, ".tmp");
        let mut file = claim(&temporary)?;
        // What a run left that was killed here.
        file.set_len(0).with_context(|| cannot_write(&temporary))?;
        let staged = Self { temporary, target: target.to_owned(), _lock: file.try_clone().ok() };
        let mut reader = reader.take(limit + 1);
        let mut buffer = vec![0; 1 << 16];
        let mut written = 0;
        loop {
            // Reading and writing are told apart: one blames the source, the other the disk.
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).with_context(|| format!("cannot read {origin}")),
            };
            written += count as u64;
            ensure!(
                written <= limit,
                "{origin} unpacks to more than {limit} bytes; no known set is that large, so it was refused"
            );
            file.write_all(&buffer[..count]).with_context(|| cannot_write(&staged.temporary))?;
        }
        file.sync_all().with_context(|| cannot_write(&staged.temporary))?;
        Ok(staged)
    }

    /// Compares the written bytes with the published digest.
    pub fn check_digest(&self, expected: &Digest, origin: &str) -> Result<()> {
        let actual = digest_of(&self.temporary, expected)?;
        if actual != *expected {
            bail!(
                "{origin} is not the published {}\n  expected {expected}\n  actual   {actual}\n  \
                 nothing was written; get the file anew from its publisher (`ruge data list` names it)",
                file_name(&self.target),
            );
        }
        Ok(())
    }

    /// Compares the number of lines with the published number of triples: all there is for files without digest.
    pub fn check_lines(&self, expected: u64, origin: &str) -> Result<()> {
        let lines = count_lines(&self.temporary)?;
        ensure!(
            lines == expected,
            "{origin} is not the published {}: it has {lines} triples instead of {expected}\n  nothing was \
             written; get the file anew from its publisher (`ruge data list` names it)",
            file_name(&self.target),
        );
        Ok(())
    }

    /// Gives the file its name, replacing what had it before.
    pub fn commit(self) -> Result<()> {
        rename(&self.temporary, &self.target)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a commit there is nothing under the temporary name, and nothing to report either way.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Opens a file of ours for writing, as it is or empty, for the use of this run alone. A link is refused: somebody else
/// chose where it leads.
pub fn claim(path: &Path) -> Result<File> {
    refuse_link(path)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .with_context(|| cannot_write(path))?;
    // Elsewhere a lock would also keep ourselves from reading the file back to verify it. And some network file systems
    // know no locks at all; the digest still protects the result.
    if cfg!(unix) && matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        bail!(
            "{} is being written by another `ruge data get`; wait for it, or choose another folder with `--out DIR`",
            path.display()
        );
    }
    Ok(file)
}

/// How many lines of a file are not blank.
pub fn count_lines(path: &Path) -> Result<u64> {
    let mut reader = BufReader::new(open(path)?);
    let (mut lines, mut line) = (0, Vec::new());
    while reader.read_until(b'\n', &mut line).with_context(|| cannot_read(path))? > 0 {
        lines += u64::from(!line.trim_ascii().is_empty());
        line.clear();
    }
    Ok(lines)
}

/// Renames and makes the new name durable.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).with_context(|| format!("cannot rename {} to {}", from.display(), to.display()))?;
    // Only a folder that can be opened as a file can be synced; where it cannot (Windows), the rename stands anyway.
    if let Some(Ok(folder)) = to.parent().map(File::open) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// The digest of the file at `path`, of the same kind as `like`.
pub fn digest_of(path: &Path, like: &Digest) -> Result<Digest> {
    like.of_same_kind(path).with_context(|| cannot_read(path))
}

/// Opens a file for reading, naming it when that fails.
pub fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| cannot_read(path))
}

/// The context of every failed read of a local file.
pub fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The context of every failed write: with the path and the two things that usually help.
pub fn cannot_write(path: &Path) -> String {
    format!(
        "cannot write {} (is there space, and may you write there? `--out DIR` chooses another folder)",
        path.display()
    )
}

/// `train.txt` and `.part` make `train.txt.part`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The last part of a path, for messages.
fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_committed_disappears() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("train.txt");
        fs::write(&target, "old").unwrap();

        let staged = Staged::write(&target, &b"new"[..], 10, "test").unwrap();
        drop(staged);
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        Staged::write(&target, &b"new"[..], 10, "test").unwrap().commit().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    }

    #[test]
    #[cfg(unix)]
    fn links_are_refused_and_leftovers_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (target, precious) = (folder.path().join("train.txt"), folder.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("train.txt.tmp")).unwrap();
        let error = Staged::write(&target, &b"new"[..], 10, "test").unwrap_err();
        assert!(error.to_string().contains("is a link"), "{error}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");

        fs::remove_file(folder.path().join("train.txt.tmp")).unwrap();
        fs::write(folder.path().join("train.txt.tmp"), "left by a run that was killed").unwrap();
        let staged = Staged::write(&target, &b"new"[..], 10, "test").unwrap();
        assert!(Staged::write(&target, &b"other"[..], 10, "test").is_err(), "one at a time");
        staged.commit().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    }

    #[test]
    fn sizes_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("train.txt");
        assert!(Staged::write(&target, &b"12345"[..], 5, "test").is_ok());
        let error = Staged::write(&target, io::repeat(b'x'), 1000, "bomb.gz").unwrap_err();
        assert!(error.to_string().contains("bomb.gz unpacks to more than 1000 bytes"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn lines_are_counted_with_or_without_a_last_newline() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("train.txt");
        let staged = Staged::write(&target, &b"a\tb\tc\n\nd\te\tf"[..], 100, "test").unwrap();
        staged.check_lines(2, "test").unwrap();
        let error = staged.check_lines(3, "here").unwrap_err().to_string();
        assert!(error.contains("2 triples instead of 3"), "{error}");
    }
}
