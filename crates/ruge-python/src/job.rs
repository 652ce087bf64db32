//! The one door for work: the interpreter is free, Ctrl-C is heard, and no panic reaches the user.
//!
//! Long work runs on a thread of its own. The calling thread wakes up every [`WAIT`] and is the only one that touches Python: it
//! asks for signals, hands progress to the callback and lines to `logging`. So a worker never waits for the interpreter, and cannot deadlock with it.
//!
//! Most work looks at its [`Cancel`] every few milliseconds. Some cannot: reading a file, or waiting for a disk to take a checkpoint.
//! Whoever presses Ctrl-C waits [`PATIENCE`] for it, then has the exception, and the work ends alone. What writes is waited for
//! before anything else is written, and when the interpreter ends, so a checkpoint is not lost.
//! Threads belong to a pool of ours, one per process: a forked child finds another process id and makes its own.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use rayon::ThreadPool;
use ruge::Cancel;

use crate::errors::{Fault, Result};

/// Longest time between two looks for signals.
const WAIT: Duration = Duration::from_millis(50);

/// How long a job may take to end after Ctrl-C before it is left. An epoch that is nearly done may take a quarter of a second of it.
const PATIENCE: Duration = Duration::from_secs(1);

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

/// Does long work that changes nothing outside. `progress` is called with stage, done, total and note.
pub fn work<T: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Py<PyAny>>,
    job: impl FnOnce(&Job) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    long(py, threads, progress, false, job)
}

/// Does long work that fills a folder or a file. It begins when earlier work of this kind that was left has ended.
pub fn write<T: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Py<PyAny>>,
    job: impl FnOnce(&Job) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    settle(py)?;
    long(py, threads, progress, true, job)
}

/// How the wait for a job ended.
struct Waited {
    /// The exception of a signal or of the callback.
    raised: Option<PyErr>,
    /// Whether the job goes on alone.
    is_left: bool,
}

fn long<T: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Py<PyAny>>,
    writes: bool,
    job: impl FnOnce(&Job) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let pool = pool(threads).map_err(|fault| fault.raise(py))?;
    let cancel = Cancel::new();
    let (events, heard) = channel();
    let under_way = Job { cancel: cancel.clone(), events };
    let run = move || caught(|| pool.install(move || job(&under_way)));
    let worker = std::thread::Builder::new().name("ruge".into()).stack_size(STACK).spawn(run);
    let worker = worker.map_err(|error| Fault::setting(format!("cannot start a thread: {error}")).raise(py))?;
    let Waited { raised, is_left } = py.detach(move || wait(heard, &cancel, progress));
    let ended = if is_left {
        leave(threads, writes, worker);
        None
    } else {
        Some(py.detach(|| worker.join()))
    };
    if let Some(error) = raised {
        return Err(error);
    }
    let Some(ended) = ended else { return Err(PyKeyboardInterrupt::new_err("cancelled")) };
    match ended.unwrap_or_else(|payload| Err(Fault::panic(&*payload))) {
        Err(fault) if fault.is_cancelled() => Err(PyKeyboardInterrupt::new_err("cancelled")),
        outcome => outcome.map_err(|fault| fault.raise(py)),
    }
}

/// Waits for the end of a job: listens for signals, and passes on what it tells.
fn wait(heard: Receiver<Event>, cancel: &Cancel, progress: Option<&Py<PyAny>>) -> Waited {
    let mut raised: Option<(PyErr, Instant)> = None;
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
        heard.try_iter().for_each(sort);
        match &raised {
            None => {
                let told = Python::attach(|py| tell(py, lines, progress, latest));
                if let Err(error) = told {
                    cancel.cancel();
                    raised = Some((error, Instant::now()));
                }
            }
            Some((_, since)) if !ended && since.elapsed() >= PATIENCE => {
                return Waited { raised: raised.map(|(error, _)| error), is_left: true };
            }
            Some(_) => {}
        }
        if ended {
            return Waited { raised: raised.map(|(error, _)| error), is_left: false };
        }
    }
}

/// What only the calling thread may do: look for signals, write to the log, call the callback.
fn tell(py: Python<'_>, lines: Vec<(u8, String)>, progress: Option<&Py<PyAny>>, latest: Option<Event>) -> PyResult<()> {
    py.check_signals()?;
    if !lines.is_empty() {
        let logger = py.import("logging")?.call_method1("getLogger", ("ruge",))?;
        for (level, line) in lines {
            logger.call_method1("log", (level, "%s", line))?;
        }
    }
    if let (Some(progress), Some(Event::Progress { stage, done, total, note })) = (progress, latest) {
        progress.call1(py, (stage, done, total, note))?;
    }
    Ok(())
}

/// Jobs that write and were left, of this process.
static LEFT: Mutex<(u32, Vec<JoinHandle<()>>)> = Mutex::new((0, Vec::new()));

/// Lets a job end alone. Its threads are its own from now on.
fn leave<T: Send + 'static>(threads: Option<usize>, writes: bool, worker: JoinHandle<T>) {
    forget_pool(threads);
    if !writes {
        return;
    }
    let end = std::thread::Builder::new().spawn(move || drop(worker.join()));
    let mut left = held(&LEFT);
    let process = std::process::id();
    if left.0 != process {
        // The threads of the parent are not here.
        *left = (process, Vec::new());
    }
    left.1.extend(end);
}

/// Waits until what was left has written what it had to write; listens for signals meanwhile.
#[pyfunction]
pub fn settle(py: Python<'_>) -> PyResult<()> {
    loop {
        let is_done = {
            let mut left = held(&LEFT);
            left.1.retain(|job| !job.is_finished());
            left.1.is_empty() || left.0 != std::process::id()
        };
        if is_done {
            return Ok(());
        }
        py.detach(|| std::thread::sleep(WAIT));
        py.check_signals()?;
    }
}

/// Does short work.
pub fn short<T: Send>(py: Python<'_>, job: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let pool = pool(None).map_err(|fault| fault.raise(py))?;
    py.detach(|| caught(|| pool.install(job))).map_err(|fault| fault.raise(py))
}

/// Does work that is next to none, or that touches Python.
pub fn here<T>(py: Python<'_>, job: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(|| {
        trip();
        job()
    }))
    .unwrap_or_else(|payload| Err(Fault::panic(&*payload).raise(py)))
}

fn caught<T>(job: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(|| {
        trip();
        job()
    }))
    .unwrap_or_else(|payload| Err(Fault::panic(&*payload)))
}

/// Whether the next entry is to panic, for the test that no panic reaches the user.
#[cfg(debug_assertions)]
pub static ARMED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Panics where a test asked for it.
fn trip() {
    #[cfg(debug_assertions)]
    assert!(!ARMED.swap(false, std::sync::atomic::Ordering::Relaxed), "asked for by a test");
}

/// The pools of a process, by number of threads.
type Pools = HashMap<usize, Arc<ThreadPool>>;

static POOLS: OnceLock<Mutex<(u32, Pools)>> = OnceLock::new();

/// Bytes of stack of a thread: what the first thread of a program usually has.
const STACK: usize = 8 << 20;

/// A panic elsewhere leaves what is held as it was.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wanted(threads: Option<usize>) -> usize {
    let wish = || std::env::var("RUGE_THREADS").ok()?.parse().ok();
    threads.or_else(wish).unwrap_or(0)
}

/// The next call has threads of its own.
fn forget_pool(threads: Option<usize>) {
    held(POOLS.get_or_init(Mutex::default)).1.remove(&wanted(threads));
}

fn pool(threads: Option<usize>) -> Result<Arc<ThreadPool>> {
    let threads = wanted(threads);
    let mut held = held(POOLS.get_or_init(Mutex::default));
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
