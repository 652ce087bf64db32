//! `cargo xtask test`: everything that must hold before a change is done, in the order of how soon it fails.
//!
//! This is the test command of the README, and all that CI runs. It needs no terminal and no data beyond the
//! repository, and stops at the first step that fails.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{directions, kernels, root, tidy};

/// One thing that must hold: what it is called, what does it, what to do when it fails.
struct Step {
    name: &'static str,
    check: fn() -> Result<()>,
    remedy: &'static str,
}

const STEPS: &[Step] = &[
    Step { name: "tidy", check: tidy::run, remedy: "mend what is listed; `cargo xtask tidy` runs this alone" },
    Step {
        name: "crate directions",
        check: directions::run,
        remedy: "see the invariants in ARCHITECTURE.md; `cargo xtask tidy` runs this alone",
    },
    Step { name: "format", check: || run_cargo(&["fmt", "--all", "--check"], &[]), remedy: "cargo fmt --all" },
    Step {
        name: "clippy",
        check: || run_cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"], &[]),
        remedy: "cargo clippy --workspace --all-targets",
    },
    Step { name: "tests", check: || run_cargo(&["test", "--workspace"], &[]), remedy: "cargo test --workspace" },
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
        // Module prose links to the rooms behind it, so the private ones are documented too.
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
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for (index, step) in STEPS.iter().enumerate() {
        println!("── {} ({} of {})", step.name, index + 1, STEPS.len());
        let began = Instant::now();
        let outcome = (step.check)();
        times.push((step.name, began.elapsed()));
        if let Err(error) = outcome {
            println!("{}", summary(&times, false));
            bail!("{} failed: {error:#}\n  remedy: {}", step.name, step.remedy);
        }
        println!("   {} holds ({:.1} s)", step.name, began.elapsed().as_secs_f64());
    }
    println!("{}\nall {} steps hold ({:.0} s)", summary(&times, true), STEPS.len(), started.elapsed().as_secs_f64());
    Ok(())
}

fn summary(times: &[(&str, Duration)], all: bool) -> String {
    let line = |(index, (name, time)): (usize, &(&str, Duration))| {
        let verdict = if all || index + 1 < times.len() { "holds" } else { "FAILS" };
        format!("   {name:<24} {verdict} {:>8.1} s", time.as_secs_f64())
    };
    let mut lines: Vec<String> = times.iter().enumerate().map(line).collect();
    lines.extend(STEPS[times.len()..].iter().map(|step| format!("   {:<24} not run", step.name)));
    format!("── summary\n{}", lines.join("\n"))
}

/// cargo, as if typed in the root of the repository: without standard input, and without what `cargo run` told us about
/// ourselves, which would make build scripts that watch the environment run anew.
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

fn run_cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let status = cargo(arguments)
        .envs(environment.iter().copied())
        .status()
        .with_context(|| format!("cannot run cargo {}", arguments[0]))?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments[0]);
    Ok(())
}

/// Two minutes of the attack, always with the same seed, on the program the tests have built.
fn torture() -> Result<()> {
    #[cfg(unix)]
    return crate::torture::attack(&crate::torture::Options {
        minutes: 2.0,
        seed: 20,
        only: None,
        case: None,
        ruge: Some(target().join("debug").join("ruge")),
        json: false,
    });
    #[cfg(not(unix))]
    {
        println!("SKIPPED: the attack needs a Unix");
        Ok(())
    }
}

/// The folder cargo builds into.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo-deny of our own: nothing is installed outside `target`.
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

/// What deny.toml says of licences, banned crates and sources.
fn deny(checks: &[&str]) -> Result<()> {
    let tool = deny_tool()?;
    let status = Command::new(&tool)
        .args(["--all-features", "--locked", "check"])
        .args(checks)
        .current_dir(root())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {}", tool.display()))?;
    ensure!(status.success(), "cargo-deny ended with {status}");
    Ok(())
}

/// How long the database of advisories may take to come.
const ADVISORIES: Duration = Duration::from_secs(40);

/// Known faults of crates. The database changes while the code does not and needs the network: where it cannot be had,
/// that is said, and nothing else fails.
fn advisories() -> Result<()> {
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
        println!(
            "SKIPPED: the database of advisories cannot be had here; run target/tools/bin/cargo-deny check advisories where it can"
        );
        return Ok(());
    }
    deny(&["advisories"])
}
