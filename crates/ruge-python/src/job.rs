//! The one door for work: the interpreter is free, Ctrl-C is heard, and no panic reaches the user.
//!
//! Long work runs on a thread of its own. The calling thread wakes up every [`WAIT`] and is the only one that touches Python: it
//! asks for signals, hands progress to the callback and lines to `logging`. So a worker never waits for the interpreter, and cannot deadlock with it.
//! Threads belong to a pool of ours, one per process: a forked child finds another process id and makes its own.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use rayon::ThreadPool;
use ruge::Cancel;

use crate::errors::{Fault, Result};

/// Longest time between two looks for signals.
const WAIT: Duration = Duration::from_millis(50);

/// What the calling thread hears.
pub enum Event {
    /// How far the work is, for the callback.
    Progress {
        /// What is being done.
        stage: &'static str,
        /// Units done.
        done: u64,
        /// Units in total.
        total: u64,
        /// A word about it.
        note: String,
    },
    /// A line for the log, and its level as `logging` counts.
    Line(u8, String),
}

/// The level of things that went as they should.
pub const INFO: u8 = 20;
/// The level of things that a user should know.
pub const WARNING: u8 = 30;

/// Long work under way: how it is cancelled, and who hears of it.
pub struct Job {
    /// Set by Ctrl-C and by a callback that raises.
    pub cancel: Cancel,
    events: Sender<Event>,
}

impl Job {
    /// Tells of progress.
    pub fn tell(&self, stage: &'static str, done: u64, total: u64, note: String) {
        // Nobody hears of what comes after the end.
        let _ = self.events.send(Event::Progress { stage, done, total, note });
    }

    /// Writes a line to the log.
    pub fn log(&self, level: u8, line: impl Into<String>) {
        let _ = self.events.send(Event::Line(level, line.into()));
    }
}

/// Does long work. `progress` is called with stage, done, total and note.
pub fn work<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Py<PyAny>>,
    job: impl FnOnce(&Job) -> Result<T> + Send,
) -> PyResult<T> {
    let pool = pool(threads).map_err(|fault| fault.raise(py))?;
    let cancel = Cancel::new();
    let (events, heard) = channel();
    let under_way = Job { cancel: cancel.clone(), events };
    let (outcome, raised) = py.detach(move || {
        let mut raised: Option<PyErr> = None;
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || caught(|| pool.install(move || job(&under_way))));
            loop {
                let mut latest: Option<Event> = None;
                let mut lines: Vec<(u8, String)> = Vec::new();
                // Of what happened meanwhile, every line, and the last of progress: a callback is for people.
                let mut sort = |event: Event| match event {
                    Event::Line(level, line) => lines.push((level, line)),
                    progress => latest = Some(progress),
                };
                let ended = match heard.recv_timeout(WAIT) {
                    Ok(event) => {
                        sort(event);
                        false
                    }
                    Err(RecvTimeoutError::Timeout) => false,
                    Err(RecvTimeoutError::Disconnected) => true,
                };
                while let Ok(event) = heard.try_recv() {
                    sort(event);
                }
                if raised.is_none() {
                    raised = Python::attach(|py| -> PyResult<()> {
                        py.check_signals()?;
                        if !lines.is_empty() {
                            let logger = py.import("logging")?.call_method1("getLogger", ("ruge",))?;
                            for (level, line) in lines {
                                logger.call_method1("log", (level, "%s", line))?;
                            }
                        }
                        if let (Some(progress), Some(Event::Progress { stage, done, total, note })) = (progress, latest)
                        {
                            progress.call1(py, (stage, done, total, note))?;
                        }
                        Ok(())
                    })
                    .err();
                    if raised.is_some() {
                        cancel.cancel();
                    }
                }
                if ended {
                    break;
                }
            }
            (worker.join().unwrap_or_else(|payload| Err(Fault::panic(&*payload))), raised)
        })
    });
    match (raised, outcome) {
        (Some(error), _) => Err(error),
        (None, Err(fault)) if fault.is_cancelled() => Err(PyKeyboardInterrupt::new_err("cancelled")),
        (None, outcome) => outcome.map_err(|fault| fault.raise(py)),
    }
}

/// Does short work.
pub fn short<T: Send>(py: Python<'_>, job: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let pool = pool(None).map_err(|fault| fault.raise(py))?;
    py.detach(|| caught(|| pool.install(job))).map_err(|fault| fault.raise(py))
}

fn caught<T>(job: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|payload| Err(Fault::panic(&*payload)))
}

/// The pools of a process, by number of threads.
type Pools = HashMap<usize, Arc<ThreadPool>>;

static POOLS: OnceLock<Mutex<(u32, Pools)>> = OnceLock::new();

/// Bytes of stack of a thread: what the first thread of a program usually has.
const STACK: usize = 8 << 20;

fn pool(threads: Option<usize>) -> Result<Arc<ThreadPool>> {
    let wish = || std::env::var("RUGE_THREADS").ok()?.parse().ok();
    let threads = threads.or_else(wish).unwrap_or(0);
    let mut held = POOLS.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let process = std::process::id();
    if held.0 != process {
        // The threads of the parent are not here, and waiting for their end would never end.
        std::mem::forget(std::mem::take(&mut held.1));
        held.0 = process;
    }
    if let Some(pool) = held.1.get(&threads) {
        return Ok(Arc::clone(pool));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK).build();
    let pool = pool.map_err(|error| Fault::setting(format!("cannot start {threads} threads: {error}")))?;
    let pool = Arc::new(pool);
    held.1.insert(threads, Arc::clone(&pool));
    Ok(pool)
}
