//! Runs the program with a time limit, a memory limit, a fault or a signal, and records the outcome.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::case::{Kind, Verdict};

pub struct Ruge {
    program: PathBuf,
    scratch: PathBuf,
    runs: AtomicUsize,
}

/// The setup of a run.
pub struct Call<'a> {
    pub arguments: &'a [String],
    /// The folder it runs in; paths among the arguments are relative to it.
    pub folder: &'a Path,
    /// Additional environment variables.
    pub environment: Vec<(&'static str, OsString)>,
    /// Time limit.
    pub limit: Duration,
    /// Address space limit in MB.
    pub memory: Option<u64>,
    /// A signal (a name for `kill`) and its delay after the start.
    pub signal: Option<(&'static str, Duration)>,
}

impl<'a> Call<'a> {
    /// A plain call with a generous limit.
    pub fn new(arguments: &'a [String], folder: &'a Path) -> Self {
        let limit = Duration::from_secs(60);
        Self { arguments, folder, environment: Vec::new(), limit, memory: None, signal: None }
    }
}

/// The outcome of a run.
pub struct Outcome {
    pub status: ExitStatus,
    /// Whether it was killed for exceeding its time limit.
    pub hung: bool,
    /// Its duration.
    pub time: Duration,
    /// Its standard output.
    pub output: Vec<u8>,
    /// Its standard error.
    pub errors: String,
}

impl Ruge {
    /// The program, and a folder for its output.
    pub fn new(program: &Path, scratch: &Path) -> Self {
        Self { program: program.to_path_buf(), scratch: scratch.to_path_buf(), runs: AtomicUsize::new(0) }
    }

    /// Runs it to its end or its time limit.
    pub fn call(&self, call: &Call<'_>) -> Result<Outcome> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let [output, errors] = ["out", "err"].map(|kind| self.scratch.join(format!("{number}.{kind}")));
        let mut command = match call.memory {
            Some(memory) => {
                let mut shell = Command::new("sh");
                let kilobytes = memory * 1024;
                shell
                    .args(["-c", &format!("ulimit -c 0; ulimit -v {kilobytes}; exec \"$0\" \"$@\"")])
                    .arg(&self.program);
                shell
            }
            None => Command::new(&self.program),
        };
        command
            .args(call.arguments)
            .current_dir(call.folder)
            .envs(call.environment.iter().map(|(name, value)| (name, value)))
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?);
        let began = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot run {}", self.program.display()))?;
        let (status, hung) = wait(&mut child, call, began)?;
        let outcome = Outcome {
            status,
            hung,
            time: began.elapsed(),
            output: std::fs::read(&output)?,
            errors: String::from_utf8_lossy(&std::fs::read(&errors)?).into_owned(),
        };
        std::fs::remove_file(output)?;
        std::fs::remove_file(errors)?;
        Ok(outcome)
    }

    /// The output to a terminal, which `script` provides.
    pub fn on_a_terminal(&self, line: &str, folder: &Path) -> Result<String> {
        let output = Command::new("script")
            .args(["-qec", &format!("'{}' {line} --threads 1", self.program.display()), "/dev/null"])
            .current_dir(folder)
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .context("cannot run script")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it undisturbed and requires success: the attack depends on it.
    pub fn must(&self, arguments: &[String], folder: &Path) -> Result<Outcome> {
        let outcome = self.call(&Call::new(arguments, folder))?;
        anyhow::ensure!(
            outcome.success(),
            "ruge {} failed undisturbed: {}",
            arguments.join(" "),
            outcome.errors.trim()
        );
        Ok(outcome)
    }
}

fn wait(child: &mut Child, call: &Call<'_>, began: Instant) -> Result<(ExitStatus, bool)> {
    let mut signal = call.signal;
    let mut pause = Duration::from_micros(300);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        let passed = began.elapsed();
        if let Some((name, after)) = signal
            && passed >= after
        {
            send(child, name)?;
            signal = None;
        }
        if passed >= call.limit {
            child.kill()?;
            return Ok((child.wait()?, true));
        }
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(4));
    }
}

/// Sends a signal to a child that has not been waited for, so its process id is still valid.
fn send(child: &mut Child, name: &str) -> Result<()> {
    if name == "KILL" {
        return Ok(child.kill()?);
    }
    Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().context("cannot run kill")?;
    Ok(())
}

impl Outcome {
    /// Whether it ended with exit code 0.
    pub fn success(&self) -> bool {
        !self.hung && self.status.success()
    }

    /// Whether it died of SIGKILL, as intended.
    pub fn killed(&self) -> bool {
        !self.hung && self.status.signal() == Some(9)
    }

    /// The last lines of standard error, on one line; for a panic, its location and message.
    pub fn last_words(&self) -> String {
        let mut words: Vec<&str> = self.errors.lines().filter(|line| !line.trim().is_empty()).collect();
        match words.iter().position(|line| line.contains("panicked at")) {
            Some(at) => drop(words.drain(..at)),
            None => drop(words.drain(..words.len().saturating_sub(3))),
        }
        let words = words[..words.len().min(3)].join(" | ");
        words.chars().filter(|c| !c.is_control()).take(300).collect()
    }

    /// The verdict on a run that was asked to end after a while: obeying is not a fault.
    pub fn verdict_if_asked(&self, what: &str) -> Verdict {
        if !self.hung && (self.status.code() == Some(143) || self.status.signal() == Some(15)) {
            return vec![(Kind::Long, format!("{what}: ended when it was asked to"))];
        }
        self.verdict(what)
    }

    /// What no run may do: panic, die of a signal, hang, fail without a message.
    pub fn verdict(&self, what: &str) -> Verdict {
        let words = self.last_words();
        if self.hung {
            return vec![(Kind::Hang, format!("{what}: no end after {:.0} s", self.time.as_secs_f64()))];
        }
        if self.errors.contains("panicked at") || self.status.code() == Some(101) {
            return vec![(Kind::Panic, format!("{what}: {words}"))];
        }
        match (self.status.code(), self.status.signal()) {
            (Some(0), _) => Vec::new(),
            (Some(1 | 2), _) if words.is_empty() => vec![(Kind::Panic, format!("{what}: failed without a message"))],
            (Some(1 | 2), _) => Vec::new(),
            (Some(code), _) => vec![(Kind::Panic, format!("{what}: exit code {code}: {words}"))],
            (None, Some(6)) if self.errors.contains("memory allocation of") => {
                vec![(Kind::Memory, format!("{what}: aborted, having no more memory"))]
            }
            (None, signal) => vec![(Kind::Panic, format!("{what}: died of signal {signal:?}: {words}"))],
        }
    }
}
