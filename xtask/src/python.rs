//! The Python package: built, installed into an environment of its own, tested, and checked for types.
//!
//! The environment is `target/python/venv`; what it needs is installed once. The native part is the library that cargo has
//! built for the other steps, put next to the package. Without Python, or without a network for the first run, the step says so
//! and does not run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::root;
use crate::test::{Outcome, cargo, target};

/// What the tests need besides the package.
const NEEDS: &[&str] = &["pytest", "mypy", "numpy", "pandas", "polars", "pyarrow", "rdflib", "tqdm"];

/// Builds, installs and tests the package.
pub fn run() -> Result<Outcome> {
    let home = root().join("target").join("python");
    let venv = home.join("venv");
    let python = venv.join("bin").join("python");
    if !python.exists() {
        let new_enough = "import sys; sys.exit(sys.version_info < (3, 11))";
        let found = Command::new("python3").args(["-c", new_enough]).status();
        if !found.is_ok_and(|status| status.success()) {
            return Ok(Outcome::NotRun("SKIPPED: it needs python3, at least 3.11, on the path".into()));
        }
        let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).status();
        if !made.is_ok_and(|status| status.success()) {
            return Ok(Outcome::NotRun("SKIPPED: python3 cannot make an environment; install its module venv".into()));
        }
    }
    let imports = format!("import {}", NEEDS.join(", "));
    let has_all = || Command::new(&python).args(["-c", &imports]).output().is_ok_and(|found| found.status.success());
    if !has_all() {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let installed = Command::new(&python).args(pip).args(NEEDS).status();
        if !installed.is_ok_and(|status| status.success()) {
            return Ok(Outcome::NotRun(format!(
                "SKIPPED: pip cannot install {}; is there a network?",
                NEEDS.join(", ")
            )));
        }
    }
    // With the features that the tests' dependencies ask for, so that nothing is compiled twice.
    let built = cargo(&["build", "--workspace", "--lib", "--tests"]).status().context("cannot run cargo")?;
    ensure!(built.success(), "the package does not build");
    let (name, place) = match std::env::consts::OS {
        "macos" => ("lib_core.dylib", "_core.abi3.so"),
        _ => ("lib_core.so", "_core.abi3.so"),
    };
    let library = target().join("debug").join(name);
    let native = root().join("python").join("ruge").join(place);
    // A library that a process has loaded is replaced, not overwritten.
    if native.exists() {
        std::fs::remove_file(&native).with_context(|| format!("cannot remove {}", native.display()))?;
    }
    std::fs::copy(&library, &native).with_context(|| format!("cannot copy {}", library.display()))?;
    let pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"];
    call(&python, &[&pytest[..], &["--doctest-modules", "python/ruge", "tests/python"]].concat())?;
    call(&python, &["-m", "mypy", "--cache-dir", "target/python/mypy"])?;
    call(&python, &["-m", "mypy.stubtest", "ruge._core"])?;
    Ok(Outcome::Holds)
}

fn call(python: &Path, words: &[&str]) -> Result<()> {
    let mut command = Command::new(python);
    command.args(words).current_dir(root());
    command.env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    let status = command.status().with_context(|| format!("cannot run {}", python.display()))?;
    if !status.success() {
        bail!("`python {}` failed", words.join(" "));
    }
    Ok(())
}
