//! The Python package: a wheel is built, installed into a fresh environment, tested there, and checked for types.
//!
//! `target/python/base` has what building and testing needs, and is filled once. The wheel is built with the `dev` profile, from the
//! crates that the tests have compiled. It is installed by pip into `target/python/fresh`, which is made again each time and sees the
//! packages of `base`; the tests import what is installed there, not the sources. Without Python, or without a network for the first
//! run, the step says so and does not run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::root;
use crate::test::{Outcome, target};

/// What building and testing needs besides the package.
const NEEDS: &[&str] =
    &["maturin", "pytest", "mypy", "numpy", "pandas", "polars", "pyarrow", "rdflib", "tqdm", "joblib"];

/// Where Python may be. The first that is new enough and can make an environment is taken.
const PYTHONS: &[&str] =
    &["python3", "python3.14", "python3.13", "python3.12", "python3.11", "/usr/bin/python3", "python"];

/// Builds, installs and tests the package.
pub fn run() -> Result<Outcome> {
    let home = root().join("target").join("python");
    let base = match base(&home) {
        Ok(base) => base,
        Err(why) => return Ok(Outcome::NotRun(format!("SKIPPED: {why}"))),
    };
    let fresh = install(&home, &base, &build(&home, &base)?)?;
    let pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"];
    call(&fresh, &[&pytest[..], &["--doctest-modules", "--pyargs", "ruge", "tests/python"]].concat())?;
    call(&fresh, &["-m", "mypy", "--cache-dir", "target/python/mypy"])?;
    call(&fresh, &["-m", "mypy.stubtest", "ruge._core"])?;
    Ok(Outcome::Holds)
}

fn python_of(environment: &Path) -> PathBuf {
    environment.join("bin").join("python")
}

/// Whether a command can be run and ends well.
fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The interpreter of an environment that has what is needed; or why there is none.
fn base(home: &Path) -> Result<PathBuf, String> {
    let place = home.join("base");
    let python = python_of(&place);
    let imports = format!("import {}", NEEDS.join(", "));
    let has_all = || succeeds(Command::new(&python).args(["-c", &imports]).stderr(Stdio::null()));
    if has_all() {
        return Ok(python);
    }
    if !succeeds(Command::new(&python).args(["-m", "pip", "--version"]).stderr(Stdio::null())) {
        let new_enough = "import sys; sys.exit(sys.version_info < (3, 11))";
        let fits = |name: &&&str| succeeds(Command::new(name).args(["-c", new_enough]).stderr(Stdio::null()));
        let found: Vec<&&str> = PYTHONS.iter().filter(fits).collect();
        if found.is_empty() {
            return Err("it needs Python, at least 3.11, on the path".into());
        }
        let makes = |name: &&&str| succeeds(Command::new(name).args(["-m", "venv", "--clear"]).arg(&place));
        if !found.iter().any(makes) {
            return Err("Python cannot make an environment; install its module venv".into());
        }
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    if succeeds(Command::new(&python).args(pip).args(NEEDS)) && has_all() {
        return Ok(python);
    }
    Err(format!("pip cannot install {}; is there a network?", NEEDS.join(", ")))
}

/// Builds the wheel.
fn build(home: &Path, python: &Path) -> Result<PathBuf> {
    let wheels = home.join("wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).with_context(|| format!("cannot remove {}", wheels.display()))?;
    }
    // A library beside the sources, from `maturin develop`, would be taken for the package's.
    let stray = root().join("python").join("ruge").join("_core.abi3.so");
    if stray.exists() {
        std::fs::remove_file(&stray).with_context(|| format!("cannot remove {}", stray.display()))?;
    }
    let mut command = Command::new(python);
    // The checks of wheels for other machines look for libraries of this one, which is not what is tested here.
    command.args(["-m", "maturin", "build", "--quiet", "--locked", "--profile", "dev", "--auditwheel", "skip"]);
    command.args(["--compression-level", "1"]);
    command.arg("--interpreter").arg(python).arg("--out").arg(&wheels);
    command.current_dir(root()).env("CARGO_TARGET_DIR", target()).stdin(Stdio::null());
    let status = command.status().context("cannot run maturin")?;
    ensure!(status.success(), "the wheel does not build");
    let mut found = std::fs::read_dir(&wheels)
        .with_context(|| format!("cannot read {}", wheels.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = found.next().context("maturin wrote no wheel")?;
    ensure!(found.next().is_none(), "maturin wrote more than one wheel");
    ensure!(
        wheel.to_string_lossy().contains("-cp311-abi3-"),
        "{} is not for every Python from 3.11 on",
        wheel.display()
    );
    Ok(wheel)
}

/// Makes a fresh environment and installs the wheel; returns its interpreter.
fn install(home: &Path, base: &Path, wheel: &Path) -> Result<PathBuf> {
    let place = home.join("fresh");
    let made = Command::new(base).args(["-m", "venv", "--clear", "--without-pip"]).arg(&place).status();
    ensure!(made.is_ok_and(|status| status.success()), "cannot make {}", place.display());
    let fresh = python_of(&place);
    let site = |python: &Path| -> Result<PathBuf> {
        let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let found = Command::new(python).args(["-c", code]).output().context("cannot run Python")?;
        Ok(PathBuf::from(String::from_utf8(found.stdout)?.trim()))
    };
    let path = site(&fresh)?.join("base.pth");
    std::fs::write(&path, format!("{}\n", site(base)?.display()))
        .with_context(|| format!("cannot write {}", path.display()))?;
    let mut pip = Command::new(base);
    pip.args(["-m", "pip", "--disable-pip-version-check", "--python"]).arg(&fresh);
    pip.args(["install", "--quiet", "--no-index"]).arg(wheel);
    let status = pip.current_dir(home).status().context("cannot run pip")?;
    ensure!(status.success(), "pip cannot install {}", wheel.display());
    Ok(fresh)
}

fn call(python: &Path, words: &[&str]) -> Result<()> {
    let mut command = Command::new(python);
    command.args(words).current_dir(root()).env_remove("PYTHONPATH").env("PYTHONDONTWRITEBYTECODE", "1");
    let status = command.status().with_context(|| format!("cannot run {}", python.display()))?;
    if !status.success() {
        bail!("`python {}` failed", words.join(" "));
    }
    Ok(())
}
