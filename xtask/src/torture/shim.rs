//! Builds the fault shim, and sets up its environment for a run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

use super::target;

/// Faults at the n-th call; see `shim.c`.
pub const FAULTS: &[&str] = &["kill", "torn", "drop", "power", "eio", "eio-on", "enospc", "enospc-on"];

/// The shim, built.
pub struct Shim(PathBuf);

impl Shim {
    /// Builds it; an inner error if that is impossible on this machine.
    pub fn build() -> Result<Result<Self, String>> {
        if !cfg!(target_os = "linux") {
            return Ok(Err("LD_PRELOAD is used as Linux has it".to_string()));
        }
        let folder = target().join("torture");
        std::fs::create_dir_all(&folder)?;
        let library = folder.join("shim.so");
        // Built under another name and renamed: another attack may be using the existing one.
        static BUILDS: AtomicUsize = AtomicUsize::new(0);
        let number = BUILDS.fetch_add(1, Ordering::Relaxed);
        let draft = folder.join(format!("shim-{}-{number}.so", std::process::id()));
        let source = draft.with_extension("c");
        std::fs::write(&source, include_str!("shim.c"))?;
        let built = Command::new("cc")
            .args(["-O1", "-Wall", "-Wno-format-truncation", "-shared", "-fPIC", "-o"])
            .args([&draft, &source])
            .args(["-ldl", "-lpthread"])
            .output();
        std::fs::remove_file(&source)?;
        match built {
            Err(_) => Ok(Err("no C compiler: `cc` cannot be run".to_string())),
            Ok(built) if built.status.success() => {
                std::fs::rename(&draft, &library)?;
                Ok(Ok(Self(library)))
            }
            Ok(built) => anyhow::bail!("the shim does not compile: {}", String::from_utf8_lossy(&built.stderr)),
        }
    }

    /// The environment of a run with this fault at the n-th change under `root`. `beside` is an empty folder on the
    /// same file system for the shim's files.
    pub fn environment(&self, root: &Path, beside: &Path, fault: &str, at: u64) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.0.clone().into()),
            ("TORTURE_ROOT", root.into()),
            ("TORTURE_FAULT", fault.into()),
            ("TORTURE_AT", at.to_string().into()),
            ("TORTURE_COUNT", beside.join("count").into()),
            ("TORTURE_LOG", beside.join("log").into()),
            ("TORTURE_SHADOW", beside.join("shadow").into()),
        ]
    }

    /// The number of calls, and the last of them.
    pub fn calls(beside: &Path) -> Result<(u64, String)> {
        let count = std::fs::read(beside.join("count")).context("the shim left no count; was it loaded?")?;
        let count = count.try_into().map(u64::from_ne_bytes).unwrap_or(0);
        let log = std::fs::read_to_string(beside.join("log")).unwrap_or_default();
        Ok((count, log.lines().last().unwrap_or("").to_string()))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The files left by a shell that writes a file and renames it, with a fault at a call.
    fn after(fault: &str, at: u64) -> Vec<(String, String)> {
        let shim = Shim::build().expect("the shim compiles").expect("the compiler that links this test, too");
        let folder = target().join("torture").join(format!("shim-{fault}-{at}"));
        let (root, beside) = (folder.join("root"), folder.join("beside"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&root).expect("room");
        std::fs::create_dir_all(beside.join("shadow")).expect("room");
        std::fs::write(root.join("b"), "old").expect("room");
        Command::new("sh")
            .args(["-c", "printf 'hello world' > a && mv a b"])
            .current_dir(&root)
            .stderr(std::process::Stdio::null())
            .envs(shim.environment(&root, &beside, fault, at))
            .status()
            .expect("there is a shell");
        let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = root.read_dir().expect("it is there").flatten().map(name).collect();
        names.sort();
        let text = |name: &String| std::fs::read_to_string(root.join(name)).expect("a file");
        let found = names.iter().map(|name| (name.clone(), text(name))).collect();
        std::fs::remove_dir_all(&folder).expect("it is ours");
        found
    }

    #[test]
    fn each_fault_leaves_what_it_is_meant_to() {
        let expect = |fault, at, expected: &[(&str, &str)]| {
            let found = after(fault, at);
            let found: Vec<(&str, &str)> = found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            assert_eq!(found, expected, "{fault} at {at}");
        };
        // Calls: 1 creates `a`, 2 writes it; `mv` is a separate process, in which 1 renames.
        expect("none", 0, &[("b", "hello world")]);
        expect("kill", 1, &[("b", "old")]);
        expect("kill", 2, &[("a", ""), ("b", "old")]);
        expect("torn", 2, &[("a", "hello"), ("b", "old")]);
        expect("enospc", 2, &[("a", ""), ("b", "old")]);
    }
}
