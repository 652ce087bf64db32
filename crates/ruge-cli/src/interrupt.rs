//! Signals that ask the program to stop: Ctrl-C, SIGTERM and SIGHUP, as sent by systemd, Slurm, Kubernetes and a closed terminal.
//!
//! The first signal sets a flag, which long work checks between its steps; what was finished is then saved. It is acknowledged at
//! once, by a thread that waits for nothing else. The second signal ends the program at once. The exit code is 128 plus the number of the signal, as for any program that a signal ended.

use std::fmt;
use std::io::{IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ruge::{Cancel, Control};

/// The flag and the signal that set it.
struct Signals {
    stop: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

static SIGNALS: OnceLock<Signals> = OnceLock::new();

/// Whether signals are acknowledged in words.
static SPEAKS: AtomicBool = AtomicBool::new(true);

/// Acknowledges no signal: for those who asked for quiet.
pub fn stay_quiet() {
    SPEAKS.store(false, Ordering::Relaxed);
}

/// What a signal cancels. The handlers are installed when it is first asked for: a command that never asks ends at once.
pub fn cancel() -> Cancel {
    Cancel::on(Arc::clone(&signals().stop))
}

/// A control that nobody hears and a signal cancels.
pub fn control<E>() -> Control<'static, E> {
    Control::new(&cancel())
}

/// Whether a signal came.
pub fn came() -> bool {
    SIGNALS.get().is_some_and(|signals| signals.stop.load(Ordering::Relaxed))
}

/// An error as the user should hear it: after a signal, whatever gave up because of it counts as interrupted.
pub fn told(error: anyhow::Error) -> anyhow::Error {
    if came() && !error.chain().any(|cause| cause.is::<Interrupted>()) {
        return self::error(format!("interrupted: {error:#}"));
    }
    error
}

/// The error of a command that a signal stopped; `message` says what was saved and how to go on.
pub fn error(message: impl fmt::Display) -> anyhow::Error {
    if came() {
        say_once();
    }
    Interrupted { signal: signals().number.load(Ordering::Relaxed), message: message.to_string() }.into()
}

/// For `map_err`: the error of work that a signal stopped, or else the error that the work itself had.
pub fn instead_of<E: Into<anyhow::Error>>(message: &str) -> impl FnOnce(E) -> anyhow::Error {
    move |error_of_work| if came() { error(message) } else { error_of_work.into() }
}

fn signals() -> &'static Signals {
    SIGNALS.get_or_init(|| {
        let signals = Signals { stop: Arc::default(), number: Arc::default() };
        for &signal in WATCHED {
            // Order matters: the second signal finds the flag set and ends the program, the first one sets it. A signal that cannot
            // be watched keeps its default, which ends the program.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&signals.stop));
            let _ = signal_hook::flag::register_usize(signal, Arc::clone(&signals.number), signal as usize);
            let _ = signal_hook::flag::register(signal, Arc::clone(&signals.stop));
        }
        acknowledge();
        signals
    })
}

/// Says that the first signal was heard: work may take a moment to come to a place where it can be left.
#[cfg(unix)]
fn acknowledge() {
    let Ok((mut heard, told)) = std::os::unix::net::UnixStream::pair() else { return };
    for &signal in WATCHED {
        if let Ok(told) = told.try_clone() {
            let _ = signal_hook::low_level::pipe::register(signal, told);
        }
    }
    let wait = move || {
        if heard.read_exact(&mut [0]).is_ok() {
            say_once();
        }
    };
    // Without the thread nothing is said; the signal works all the same.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(wait);
}

#[cfg(not(unix))]
fn acknowledge() {}

/// Whether a signal was acknowledged.
static SAID: Mutex<bool> = Mutex::new(false);

/// Says it, by whoever comes first: the thread that waits, or work that has stopped already.
fn say_once() {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !*said && SPEAKS.load(Ordering::Relaxed) {
        // The line of a bar, and the ^C that a terminal shows in it, make place.
        let clear = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
        let text = "stopping: saving what is finished; press Ctrl-C again to end at once";
        let _ = writeln!(std::io::stderr(), "{clear}{text}");
    }
    *said = true;
}

#[cfg(unix)]
const WATCHED: &[i32] = &[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
#[cfg(not(unix))]
const WATCHED: &[i32] = &[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];

/// A command that a signal stopped.
#[derive(Debug)]
pub struct Interrupted {
    signal: usize,
    message: String,
}

impl Interrupted {
    /// 128 plus the number of the signal: 130 after Ctrl-C, 143 after SIGTERM.
    pub fn exit_code(&self) -> u8 {
        // Without a number the flag was set by hand; that is as good as Ctrl-C.
        let signal = if self.signal == 0 { signal_hook::consts::SIGINT as usize } else { self.signal };
        u8::try_from(128 + signal).unwrap_or(1)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Interrupted {}
