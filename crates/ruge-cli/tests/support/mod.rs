//! The binary as a user types it, for all tests that do: run to its end, or killed on the way.
#![allow(dead_code, reason = "every test program uses a part of this")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;

/// `ruge ARGS`, nothing on its standard input.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("ruge").expect("built");
    command.args(args).stdin(Stdio::null());
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

/// Waits until a program has written something to a file.
pub fn wait_for(path: &std::path::Path) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while std::fs::metadata(path).map_or(0, |file| file.len()) == 0 {
        assert!(Instant::now() < deadline, "{} was never written", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a run, kills it, continues it with `again` and kills it again, at moments that drift, until it is through.
/// Returns how often it was killed.
pub fn kill_until_done(run: &[&str], again: &[&str]) -> u32 {
    let mut kills = 0;
    let mut more: &[&str] = &[];
    for attempt in 0..40i32 {
        let mut child =
            command(&[run, more].concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("runs");
        // Longer each time, so that the longest part that cannot be resumed gets its time in the end.
        let deadline = Instant::now() + Duration::from_millis(150).mul_f64(1.17f64.powi(attempt));
        let ended = loop {
            if let Some(status) = child.try_wait().expect("waited") {
                break Some(status);
            }
            if Instant::now() > deadline {
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
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
