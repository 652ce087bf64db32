//! The part of a file that has been downloaded so far: `FILE.part`, which outlives the run that began it.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::digest::Digest;
use super::staged::{cannot_read, cannot_write, claim, digest_of, rename, with_suffix};

/// An open part, for the use of this run alone.
#[derive(Debug)]
pub struct PartialFile {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl PartialFile {
    /// Opens the part of `target`, as an earlier run left it or empty, and keeps others off it, so that two runs do
    /// not write into one another.
    pub fn open(target: &Path) -> Result<Self> {
        let path = with_suffix(target, ".part");
        let file = claim(&path)?;
        Ok(Self { file, path, target: target.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes there are already.
    pub fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().with_context(|| cannot_read(&self.path))?.len())
    }

    /// Moves to the end, where the next bytes belong.
    pub fn seek_end(&mut self) -> Result<()> {
        self.file.seek(SeekFrom::End(0)).with_context(|| cannot_write(&self.path))?;
        Ok(())
    }

    /// Writes where the last write ended.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| cannot_write(&self.path))
    }

    /// Throws away what there is.
    pub fn empty(&mut self) -> Result<()> {
        if self.len()? > 0 {
            self.file.set_len(0).with_context(|| cannot_write(&self.path))?;
        }
        Ok(())
    }

    /// Brings everything to the disk and hashes what is there, in the same way as `like`.
    pub fn digest(&self, like: &Digest) -> Result<Digest> {
        self.file.sync_all().with_context(|| cannot_write(&self.path))?;
        digest_of(&self.path, like)
    }

    /// Gives the finished file its name.
    pub fn finish(self) -> Result<()> {
        rename(&self.path, &self.target)
    }

    /// Leaves the part for a later run, or removes it when it is empty: nothing to resume from, only litter.
    pub fn abandon(self) {
        if self.len().is_ok_and(|length| length == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
