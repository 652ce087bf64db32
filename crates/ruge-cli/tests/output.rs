//! Where results cannot be written: a full disk is an error, a reader who has seen enough is none.
#![cfg(target_os = "linux")]

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{command, stderr, text};

/// A model and rules of the embedded graph, the arguments of every command that prints, and the folder of it all.
fn commands() -> (tempfile::TempDir, Vec<Vec<String>>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (model, rules, queries, export) = (at("run"), at("rules.tsv"), at("queries.tsv"), at("export"));
    text(&["train", "demo", "--model", "complex", "--dim", "4", "--epochs", "1", "--quiet", "--out", &model]);
    text(&["mine", "demo", "--out", &rules]);
    fs::write(&queries, "Chad\tborders\t?\n".repeat(500)).unwrap();
    let list: Vec<String> = [
        "check demo",
        "check demo --json",
        "mine demo",
        "rules convert RULES --to json",
        "rules verify demo --rules RULES",
        "ground demo --rules RULES",
        "eval MODEL",
        "predict MODEL --head Chad --relation borders",
        "predict MODEL --like Chad --json",
        "predict MODEL --queries QUERIES",
        "predict MODEL --queries QUERIES --json",
        "explain MODEL Chad borders Niger",
        "explain MODEL Chad borders Niger --dot",
        "complete MODEL --format tsv",
        "complete MODEL --format nt",
        "export MODEL --to npy --force --out EXPORT",
        "data list",
        "data list --json",
        "completions bash",
        "--help",
        "predict --help",
        "--version",
    ]
    .iter()
    .map(|line| {
        line.replace("MODEL", &model).replace("RULES", &rules).replace("QUERIES", &queries).replace("EXPORT", &export)
    })
    .collect();
    (folder, list.iter().map(|line| line.split(' ').map(str::to_string).collect()).collect())
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
    let (_folder, commands) = commands();
    for args in commands {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(&args).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("cannot write") && said.contains("No space left"), "{args:?}: {said}");

        // The reader takes a line and goes.
        let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_stderr_that_takes_nothing_changes_nothing() {
    for (args, code) in
        [(&["check", "demo"][..], 0), (&["check", "nowhere"], 1), (&["-vv", "check", "demo"], 0), (&["--nonsense"], 2)]
    {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(args).stdout(Stdio::piped()).stderr(full).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert_eq!(output.stdout.is_empty(), code != 0, "{args:?}");
    }
}
