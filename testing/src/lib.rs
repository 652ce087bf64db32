//! Tests that need more than the repository: benchmark data, a GPU, a browser, an instruction set, a program.
//!
//! Such tests are in separate test programs, with `harness = false` in the manifest and a `main` that lists them. Each
//! test states its needs and receives them. If something is missing, the test is counted as *ignored*, never as passed:
//! its line says what is missing, and the program ends with how to provide it. The command line is that of the standard
//! test harness, so `cargo test` and `cargo nextest` work with both.
//!
//! ```no_run
//! use std::path::PathBuf;
//! use std::process::ExitCode;
//! use ruge_testing::{Tests, data};
//!
//! fn reads_fb15k(folder: PathBuf) {
//!     assert!(folder.join("train.txt.gz").is_file());
//! }
//!
//! fn main() -> ExitCode {
//!     Tests::default().test(data("fb15k"), reads_fb15k).run()
//! }
//! ```
#![allow(clippy::print_stdout, reason = "a test program reports to the terminal")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Something that this machine lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    what: String,
    remedy: String,
}

impl Missing {
    /// What is missing, in a word or two, and how to provide it.
    pub fn new(what: impl Into<String>, remedy: impl Display) -> Self {
        Self { what: what.into(), remedy: remedy.to_string() }
    }
}

impl Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "needs {}: {}", self.what, self.remedy)
    }
}

/// What a test receives, or why it cannot.
pub type Need<T> = Result<T, Missing>;

/// One need, or two.
pub trait Needs {
    /// What the test receives.
    type Given;
    /// Everything, or all that is missing.
    fn given(self) -> Result<Self::Given, Vec<Missing>>;
}

impl<T> Needs for Need<T> {
    type Given = T;
    fn given(self) -> Result<T, Vec<Missing>> {
        self.map_err(|missing| vec![missing])
    }
}

impl<A, B> Needs for (Need<A>, Need<B>) {
    type Given = (A, B);
    fn given(self) -> Result<(A, B), Vec<Missing>> {
        match self {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (a, b) => Err(a.err().into_iter().chain(b.err()).collect()),
        }
    }
}

/// A file or folder of the benchmark data: below `RUGE_DATA`, or below `shared/data` next to the repository.
pub fn data(name: &str) -> Need<PathBuf> {
    let next_to = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = std::env::var_os("RUGE_DATA").map_or_else(next_to, PathBuf::from);
    let path = folder.join(name);
    let remedy = format!("not in {}; set RUGE_DATA to the folder with the benchmark data", folder.display());
    if path.exists() { Ok(path) } else { Err(Missing::new(name, remedy)) }
}

/// The first of these programs on the path; `what` describes them in a word or two.
pub fn program(what: &str, names: &[&str], remedy: &str) -> Need<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|file| file.is_file())
        .ok_or_else(|| Missing::new(what, remedy))
}

/// The tests of a test program.
#[derive(Default)]
pub struct Tests {
    trials: Vec<Trial>,
    /// By remedy.
    missing: BTreeMap<String, BTreeSet<String>>,
}

impl Tests {
    /// Adds a function as a test, under its own name.
    pub fn test<N, F>(self, needs: N, body: F) -> Self
    where
        N: Needs<Given: Send + 'static>,
        F: FnOnce(N::Given) + Send + 'static,
    {
        // `program::module::function`
        let path = std::any::type_name::<F>();
        let (_, name) = path.split_once("::").unwrap_or(("", path));
        assert!(!name.contains("{{closure}}"), "a closure has no name: use `named`");
        self.named(name, needs, body)
    }

    /// Adds a test under a given name, for tests that share a function.
    pub fn named<N>(mut self, name: &str, needs: N, body: impl FnOnce(N::Given) + Send + 'static) -> Self
    where
        N: Needs<Given: Send + 'static>,
    {
        self.trials.push(match needs.given() {
            Ok(given) => Trial::test(name, move || {
                body(given);
                Ok(())
            }),
            Err(missing) => {
                let list = |part: fn(&Missing) -> String| missing.iter().map(part).collect::<Vec<_>>().join(", ");
                let (kind, why) = (list(|missing| missing.what.clone()), list(Missing::to_string));
                for Missing { what, remedy } in missing {
                    self.missing.entry(remedy).or_default().insert(what);
                }
                // If requested with --include-ignored, it fails.
                let fails = move || Err(Failed::from(why));
                Trial::test(name, fails).with_kind(format!("needs {kind}")).with_ignored_flag(true)
            }
        });
        self
    }

    /// Runs the tests that the command line selects. The end says what was missing; `cargo xtask test` parses it.
    pub fn run(self) -> ExitCode {
        let arguments = Arguments::from_args();
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        if conclusion.num_ignored > 0 {
            for (remedy, what) in self.missing {
                println!("ignored: {}", Missing::new(Vec::from_iter(what).join(", "), remedy));
            }
            println!();
        }
        conclusion.exit_code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_makes_a_test_ignored_and_is_named_with_its_remedy() {
        let missing = |what: &str| Err::<(), _>(Missing::new(what, "buy one"));
        let tests = Tests::default()
            .named("runs", Ok(3), |three| assert_eq!(three, 3))
            .named("lacks one", (Ok(3), missing("a GPU")), |_| unreachable!())
            .named("lacks both", (missing("a browser"), missing("a GPU")), |_| unreachable!());
        let ignored: Vec<bool> = tests.trials.iter().map(Trial::has_ignored_flag).collect();
        assert_eq!(ignored, [false, true, true]);
        assert_eq!((tests.trials[0].kind(), tests.trials[2].kind()), ("", "needs a browser, a GPU"));
        let both = BTreeSet::from(["a browser".to_string(), "a GPU".to_string()]);
        assert_eq!(tests.missing, BTreeMap::from([("buy one".to_string(), both)]));
    }
}
