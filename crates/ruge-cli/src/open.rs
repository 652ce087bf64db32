//! Opening a model that the user named.

use std::path::Path;

use anyhow::Result;
use ruge::{DeviceName, Engine, OpenOptions};

use crate::console::Console;

/// MODEL, a run folder or a model.safetensors, ready for questions.
pub fn engine(path: &Path, device: DeviceName, console: Console) -> Result<Engine> {
    with(path, &OpenOptions { device, ..OpenOptions::default() }, console)
}

/// The same, with choices. Files of earlier programs are opened, and said to be such.
pub fn with(path: &Path, options: &OpenOptions, console: Console) -> Result<Engine> {
    let engine = Engine::open_with(path, options)?;
    if engine.is_old() {
        console.note(&format!(
            "note: {} was written by an earlier version of ruge: its checksum covers the numbers, but not settings, rules and \
             truth values",
            path.display()
        ));
    }
    Ok(engine)
}
