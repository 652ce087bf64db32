//! Names that would drive a terminal, on a terminal.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::command;
use crate::support::hostile::{NAMES, drives, trained, world};

/// On a terminal rules are for people too, and our own bold still works.
pub fn a_terminal_gets_marks_and_our_bold(script: PathBuf) {
    let (folder, graph) = world();
    let model = trained(folder.path(), &graph);
    let program = command(&[]).get_program().to_str().unwrap().to_string();
    let on_terminal = |args: &str| {
        let output = Command::new(&script)
            .args(["-qec", &format!("'{program}' {args}"), "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().replace('\r', "")
    };
    let rules = on_terminal(&format!("mine '{graph}' --min-pca 0.1 --min-head-size 1 --quiet"));
    assert!(rules.contains("r⟨ESC⟩[31m") && rules.contains("back⟨U+202E⟩") && !drives(&rules), "{rules:?}");
    let shown = on_terminal(&format!("predict '{model}' --like '{}' --quiet", NAMES[0]));
    assert!(shown.contains("\u{1b}[1mlike ⟨ESC⟩[2Jclear\u{1b}[0m"), "{shown:?}");
    assert!(!drives(&shown.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "")), "{shown:?}");
    let error = on_terminal(&format!("predict '{model}' --like 'x{}' --quiet", NAMES[0]));
    assert!(error.starts_with("\u{1b}[1;31merror:\u{1b}[0m "), "{error:?}");
}
