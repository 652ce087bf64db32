//! The binary as a user types it, for all tests that do: run to its end, or killed on the way.
#![allow(dead_code, reason = "every test program uses a part of this")]

pub mod hostile;
pub mod page;
pub mod pages;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;

/// `ruge ARGS`, nothing on its standard input.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("ruge").expect("built");
    command.args(args).stdin(Stdio::null()).env_remove("COLUMNS");
    command
}

/// Runs it to its end, however that is.
pub fn ruge(args: &[&str]) -> Output {
    command(args).output().expect("runs")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it prints; it must succeed.
pub fn text(args: &[&str]) -> String {
    let output = ruge(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// The one JSON object it prints; it must succeed.
pub fn json(args: &[&str]) -> Value {
    // Anything behind the object would be an error of the reader.
    serde_json::from_str(&text(args)).expect("exactly one JSON object")
}

/// Waits for what another process must bring about. The limit is there to end a test that fails, not to measure one that passes.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(600);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: waited for ten minutes");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a program has written something to a file.
pub fn wait_for(path: &Path) {
    wait_until(&format!("{} is written", path.display()), || fs::metadata(path).is_ok_and(|file| file.len() > 0));
}

/// Everything in a folder, with sizes and times.
fn state(folder: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        found.push((entry.path(), about.len(), about.modified().ok()));
        if about.is_dir() {
            found.extend(state(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Starts a run, kills it after something changed in its `--out`, continues it with `again` and kills it after more has
/// changed, until it is through. Returns how often it was killed.
pub fn kill_until_done(run: &[&str], again: &[&str]) -> u32 {
    let out = run.iter().position(|&word| word == "--out").expect("a folder to watch");
    let out = Path::new(run[out + 1]);
    let mut kills = 0;
    let mut more: &[&str] = &[];
    for attempt in 0..40i32 {
        // More each time, so that the longest part that cannot be resumed is done in the end.
        let mut changes = 1.17f64.powi(attempt) as usize;
        let mut before = state(out);
        let mut child =
            command(&[run, more].concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("runs");
        let mut ended = None;
        wait_until("a change, or the end", || {
            ended = child.try_wait().expect("waited");
            let now = state(out);
            changes -= usize::from(now != before);
            before = now;
            ended.is_some() || changes == 0
        });
        match ended {
            Some(status) => {
                let said = stderr(&child.wait_with_output().expect("waited"));
                // Killed before it had written anything, there is nothing to continue.
                if said.contains("to resume") {
                    more = &[];
                    continue;
                }
                assert!(status.success(), "attempt {attempt}: {said}");
                break;
            }
            None => {
                child.kill().expect("killed");
                child.wait().expect("waited");
                kills += 1;
                more = again;
            }
        }
    }
    assert!(kills >= 1, "the run was over before it could be killed");
    kills
}
