//! Opening a model that the user named.

use std::path::Path;

use anyhow::Result;
use ruge::{DeviceName, Loaded, ModelFile};

use crate::console::Console;

/// MODEL as a file: a run folder or a model.safetensors.
pub fn file(path: &Path, console: Console) -> Result<ModelFile> {
    let file = ModelFile::read(&ModelFile::find(path))?;
    announce(&file, path, console);
    Ok(file)
}

/// MODEL ready for questions.
pub fn loaded(path: &Path, device: DeviceName, console: Console) -> Result<Loaded> {
    let loaded = Loaded::open_on(path, device)?;
    announce(&loaded.file, path, console);
    Ok(loaded)
}

/// Files of earlier programs are opened, and said to be such.
fn announce(file: &ModelFile, path: &Path, console: Console) {
    if file.is_old {
        console.note(&format!(
            "note: {} was written by an earlier version of ruge: its checksum covers the numbers, but not settings, rules and \
             truth values",
            path.display()
        ));
    }
}
