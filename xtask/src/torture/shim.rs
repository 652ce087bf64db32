//! Builds the fault shim, and says what it is to do in a run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::target;

/// Faults that can happen at the n-th call. What each does is told in `shim.c`.
pub const FAULTS: &[&str] = &["kill", "torn", "drop", "power", "eio", "eio-on", "enospc", "enospc-on"];

/// The shim, built.
pub struct Shim(PathBuf);

impl Shim {
    /// Builds it; `None`, with the reason, where that cannot be done.
    pub fn build() -> Result<Result<Self, String>> {
        if !cfg!(target_os = "linux") {
            return Ok(Err("LD_PRELOAD is used as Linux has it".to_string()));
        }
        let folder = target().join("torture");
        std::fs::create_dir_all(&folder)?;
        let source = folder.join("shim.c");
        let library = folder.join("shim.so");
        std::fs::write(&source, include_str!("shim.c"))?;
        let built = Command::new("cc")
            .args(["-O1", "-Wall", "-Wno-format-truncation", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .args(["-ldl", "-lpthread"])
            .output();
        match built {
            Err(_) => Ok(Err("no C compiler: `cc` cannot be run".to_string())),
            Ok(built) if built.status.success() => Ok(Ok(Self(library))),
            Ok(built) => anyhow::bail!("the shim does not compile: {}", String::from_utf8_lossy(&built.stderr)),
        }
    }

    /// The environment of a run with this fault at the n-th change under `root`. `beside` is an empty folder on the
    /// same file system for the shim's own files.
    pub fn environment(&self, root: &Path, beside: &Path, fault: &str, at: u64) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.0.clone().into()),
            ("TORTURE_ROOT", root.into()),
            ("TORTURE_FAULT", fault.into()),
            ("TORTURE_AT", at.to_string().into()),
            ("TORTURE_COUNT", beside.join("count").into()),
            ("TORTURE_LOG", beside.join("log").into()),
            ("TORTURE_SHADOW", beside.join("shadow").into()),
        ]
    }

    /// The calls that were counted, and what the last of them was.
    pub fn calls(beside: &Path) -> Result<(u64, String)> {
        let count = std::fs::read(beside.join("count")).context("the shim left no count; was it loaded?")?;
        let count = count.try_into().map(u64::from_ne_bytes).unwrap_or(0);
        let log = std::fs::read_to_string(beside.join("log")).unwrap_or_default();
        Ok((count, log.lines().last().unwrap_or("").to_string()))
    }
}
