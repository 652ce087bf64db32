//! Results that go to a file: complete or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::usage::UsageError;

/// Writes a file through `write`; what stood there before is replaced only when everything is on disk.
pub fn to_file<T>(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<T>) -> Result<T> {
    ruge_kg::io::write::replace_file(path, |file| {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let result = write(&mut out)?;
        out.flush().with_context(|| format!("{}: cannot write", path.display()))?;
        let file = out.into_inner().map_err(|error| error.into_error());
        Ok((file.with_context(|| format!("{}: cannot write", path.display()))?, result))
    })
}

/// Stops before a file would be written over that the command itself reads; `flag` is what gave `path`.
pub fn refuse_inputs(flag: &str, path: Option<&Path>, inputs: impl IntoIterator<Item = PathBuf>) -> Result<()> {
    // What is not there, and what is no plain file (a terminal, a pipe), holds nothing to lose.
    let Some(path) = path.filter(|path| path.is_file()) else { return Ok(()) };
    let Ok(target) = path.canonicalize() else { return Ok(()) };
    if inputs.into_iter().any(|input| input.canonicalize().is_ok_and(|input| input == target)) {
        let name = path.display();
        bail!(UsageError(format!("{name}: {flag} would overwrite this input file; give another {flag}")));
    }
    Ok(())
}

/// Stops before a link in a folder that we fill would be written through: whoever put it there chose where it leads.
pub fn refuse_link(path: &Path) -> Result<()> {
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        bail!(
            "{}: it is a link, and links are not followed when writing; remove it, or give another --out",
            path.display()
        );
    }
    Ok(())
}

/// Stops before a file of the user's would be written over.
pub fn refuse_to_replace(path: &Path, force: bool) -> Result<()> {
    // What is no plain file (a terminal, a pipe) holds nothing to lose.
    if !force && std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() || metadata.is_dir()) {
        bail!("{}: it already exists; give another name, or overwrite it with --force", path.display());
    }
    Ok(())
}
