//! `cargo xtask test`: all checks for a change, fastest first.
//!
//! This is the test command of the README, and all that CI runs. It needs no terminal and no data beyond the
//! repository, and stops at the first failing step. It ends with what could not run: ignored tests and skipped steps.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{directions, kernels, python, root, tidy};

/// One check: its name, its function, and what to do if it fails.
struct Step {
    name: &'static str,
    check: fn() -> Result<Outcome>,
    remedy: &'static str,
}

/// The result of a step that did not fail.
pub enum Outcome {
    /// It passed.
    Holds,
    /// Tests ran, with these counts.
    Tests(Counts),
    /// It could not run, for this reason.
    NotRun(String),
}

/// Start of the lines in which a test program says what its ignored tests lack; see `Tests::run` of `ruge-testing`.
const MISSING: &str = "ignored: ";

/// Test counts by result, and what the ignored tests lack.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
    missing: BTreeSet<String>,
}

impl Counts {
    /// Reads a line of a test program's output.
    fn read(&mut self, line: &str) {
        if let Some(missing) = line.strip_prefix(MISSING) {
            self.missing.insert(missing.to_string());
        }
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for part in numbers.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let number = number.parse().unwrap_or(0);
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    /// The lines for the end of the summary.
    fn lines(&self) -> String {
        let mut text = format!("   {} tests passed, {} failed, {} ignored", self.passed, self.failed, self.ignored);
        self.missing.iter().for_each(|missing| text.push_str(&format!("\n      {MISSING}{missing}")));
        text
    }
}

const STEPS: &[Step] = &[
    Step {
        name: "tidy",
        check: || tidy::run().map(|()| Outcome::Holds),
        remedy: "mend what is listed; `cargo xtask tidy` runs this alone",
    },
    Step {
        name: "crate directions",
        check: || directions::run().map(|()| Outcome::Holds),
        remedy: "see the invariants in ARCHITECTURE.md; `cargo xtask tidy` runs this alone",
    },
    Step { name: "format", check: || run_cargo(&["fmt", "--all", "--check"], &[]), remedy: "cargo fmt --all" },
    Step {
        name: "clippy",
        check: || run_cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"], &[]),
        remedy: "cargo clippy --workspace --all-targets",
    },
    Step { name: "tests", check: tests, remedy: "cargo test --workspace" },
    Step {
        name: "Python package",
        check: python::run,
        remedy: "mend what pytest or mypy name; the package is in python/ruge, its tests in tests/python",
    },
    Step {
        name: "torture",
        check: torture,
        remedy: "repeat what failed by the lines it printed; `cargo xtask torture` does this alone, and longer",
    },
    Step {
        name: "CUDA kernels",
        check: kernels::run,
        remedy: "mend what NVRTC names; the kernels are in crates/ruge-cuda/kernels",
    },
    Step {
        name: "docs",
        // Module docs link to private modules, so those are documented too.
        check: || run_cargo(DOC, &[("RUSTDOCFLAGS", DOC_LINTS)]),
        remedy: "mend the links rustdoc names",
    },
    Step {
        name: "licences, bans, sources",
        check: || deny(&["licenses", "bans", "sources"]),
        remedy: "see deny.toml; target/tools/bin/cargo-deny check licenses bans sources",
    },
    Step {
        name: "advisories",
        check: advisories,
        remedy: "see deny.toml; target/tools/bin/cargo-deny check advisories",
    },
];

const DOC: &[&str] = &["doc", "--workspace", "--no-deps", "--document-private-items"];
const DOC_LINTS: &str = "--deny warnings --allow rustdoc::private_intra_doc_links";

/// Runs every step.
pub fn run() -> Result<()> {
    let started = Instant::now();
    let mut done: Vec<(&str, Result<Outcome>, Duration)> = Vec::new();
    for (index, step) in STEPS.iter().enumerate() {
        println!("── {} ({} of {})", step.name, index + 1, STEPS.len());
        let began = Instant::now();
        let outcome = (step.check)();
        let time = began.elapsed();
        match &outcome {
            Ok(Outcome::NotRun(why)) => println!("   {} did not run: {why}", step.name),
            Ok(Outcome::Tests(counts)) if counts.failed > 0 => {}
            Ok(_) => println!("   {} holds ({:.1} s)", step.name, time.as_secs_f64()),
            Err(_) => {}
        }
        done.push((step.name, outcome, time));
        if done.last().is_some_and(|(_, outcome, _)| fails(outcome)) {
            break;
        }
    }
    println!("{}", summary(&done));
    let Some((name, outcome, _)) = done.pop() else { return Ok(()) };
    if fails(&outcome) {
        let why = outcome.err().map_or("tests failed".to_string(), |error| format!("{error:#}"));
        bail!("{name} failed: {why}\n  remedy: {}", STEPS[done.len()].remedy);
    }
    println!("all steps that ran hold ({:.0} s)", started.elapsed().as_secs_f64());
    Ok(())
}

fn fails(outcome: &Result<Outcome>) -> bool {
    matches!(outcome, Err(_) | Ok(Outcome::Tests(Counts { failed: 1.., .. })))
}

fn summary(done: &[(&str, Result<Outcome>, Duration)]) -> String {
    let mut lines = vec!["── summary".to_string()];
    for (name, outcome, time) in done {
        let time = time.as_secs_f64();
        lines.push(match outcome {
            Ok(Outcome::NotRun(why)) => format!("   {name:<24} not run: {why}"),
            outcome if fails(outcome) => format!("   {name:<24} FAILS {time:>8.1} s"),
            _ => format!("   {name:<24} holds {time:>8.1} s"),
        });
    }
    lines.extend(STEPS[done.len()..].iter().map(|step| format!("   {:<24} not run", step.name)));
    lines.extend(done.iter().filter_map(|(_, outcome, _)| match outcome {
        Ok(Outcome::Tests(counts)) => Some(counts.lines()),
        _ => None,
    }));
    lines.join("\n")
}

/// Runs all tests, also after a failure, and counts them.
fn tests() -> Result<Outcome> {
    let mut child = cargo(&["test", "--workspace", "--no-fail-fast"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo test")?;
    let mut counts = Counts::default();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        println!("{line}");
        counts.read(&line);
    }
    let status = child.wait()?;
    ensure!(status.success() || counts.failed > 0, "cargo test ended with {status}");
    Ok(Outcome::Tests(counts))
}

/// cargo, as if typed in the root of the repository: without standard input, and without the variables set by `cargo
/// run`, which would make build scripts run again.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
            .iter()
            .any(|start| text.starts_with(start))
        {
            command.env_remove(&name);
        }
    }
    command
}

fn run_cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Outcome> {
    let status = cargo(arguments)
        .envs(environment.iter().copied())
        .status()
        .with_context(|| format!("cannot run cargo {}", arguments[0]))?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments[0]);
    Ok(Outcome::Holds)
}

/// Two minutes of torture, always with the same seed, on the program built by the tests.
fn torture() -> Result<Outcome> {
    #[cfg(unix)]
    crate::torture::attack(&crate::torture::Options {
        minutes: 2.0,
        seed: 20,
        only: None,
        case: None,
        ruge: Some(target().join("debug").join("ruge")),
        json: false,
    })?;
    Ok(if cfg!(unix) { Outcome::Holds } else { Outcome::NotRun("the attack needs a Unix".into()) })
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Our own cargo-deny: nothing is installed outside `target`.
fn deny_tool() -> Result<PathBuf> {
    let tools = target().join("tools");
    let tool = tools.join("bin").join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX));
    if !tool.is_file() {
        println!("   building cargo-deny, once");
        let folder = tools.to_string_lossy().into_owned();
        run_cargo(&["install", "--locked", "--debug", "--quiet", "cargo-deny", "--root", &folder], &[])?;
    }
    Ok(tool)
}

/// Checks licences, banned crates and sources by deny.toml.
fn deny(checks: &[&str]) -> Result<Outcome> {
    let tool = deny_tool()?;
    let status = Command::new(&tool)
        .args(["--all-features", "--locked", "check"])
        .args(checks)
        .current_dir(root())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {}", tool.display()))?;
    ensure!(status.success(), "cargo-deny ended with {status}");
    Ok(Outcome::Holds)
}

/// Time limit for downloading the advisory database.
const ADVISORIES: Duration = Duration::from_secs(40);

/// Checks advisories about crates. The database changes independently of the code and needs the network: if it is
/// unavailable, that is reported, and nothing fails.
fn advisories() -> Result<Outcome> {
    let tool = deny_tool()?;
    let mut fetch = Command::new(&tool)
        .args(["--all-features", "--locked", "fetch", "db"])
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", tool.display()))?;
    let began = Instant::now();
    let fetched = loop {
        match fetch.try_wait()? {
            Some(status) => break status.success(),
            None if began.elapsed() > ADVISORIES => {
                fetch.kill()?;
                fetch.wait()?;
                break false;
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    if !fetched {
        let why = "the database of advisories cannot be fetched; run target/tools/bin/cargo-deny check advisories with a network";
        return Ok(Outcome::NotRun(why.into()));
    }
    deny(&["advisories"])
}

#[cfg(test)]
mod counts {
    use super::*;

    #[test]
    fn tests_are_counted_over_all_programs() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "ignored: needs fb15k: set RUGE_DATA",
            "test result: FAILED. 5 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out; finished in 9.31s",
            "ignored: needs fb15k: set RUGE_DATA",
        ] {
            counts.read(line);
        }
        let missing = BTreeSet::from(["needs fb15k: set RUGE_DATA".to_string()]);
        assert_eq!(counts, Counts { passed: 7, failed: 1, ignored: 4, missing });
    }
}
