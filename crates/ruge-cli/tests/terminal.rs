//! Names that would drive a terminal, from the outside: people see marks, programs get the bytes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{command, json, ruge, stderr, text};
use tempfile::TempDir;

/// Clears the screen, retitles the window, turns text around, hides, and ends a line.
const NAMES: [&str; 6] = [
    "\u{1b}[2Jclear",
    "\u{1b}]0;title\u{7}",
    "\u{202e}gnp.exe",
    "zero\u{200b}width",
    "\u{9b}31mc1",
    "\u{2066}iso\u{2069}",
];

/// A small graph of such names, and a folder for what is made of it.
fn world() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut triples = String::new();
    for (at, head) in NAMES.iter().enumerate() {
        for step in 1..4 {
            let tail = NAMES[(at + step) % NAMES.len()];
            triples.push_str(&format!("{head}\tr\u{1b}[31m\t{tail}\n{tail}\tback\u{202e}\t{head}\n"));
        }
    }
    let path = folder.path().join("graph.tsv");
    fs::write(&path, triples).unwrap();
    let path = path.to_str().unwrap().to_string();
    (folder, path)
}

fn trained(folder: &Path, graph: &str) -> String {
    let out = folder.join("run").to_str().unwrap().to_string();
    text(&["train", graph, "--model", "complex", "--dim", "4", "--epochs", "1", "--quiet", "--out", &out]);
    out
}

/// Whether a terminal would do anything with it but show it.
fn drives(text: &str) -> bool {
    text.chars().any(|c| c != '\n' && c != '\t' && ruge_kg::visible::is_marked(c))
}

#[test]
fn what_people_read_drives_nothing() {
    let (folder, graph) = world();
    let model = trained(folder.path(), &graph);
    let rules = folder.path().join("rules.tsv").to_str().unwrap().to_string();
    text(&["mine", &graph, "--min-pca", "0.1", "--min-head-size", "1", "--out", &rules]);
    let (head, relation) = (NAMES[0], "r\u{1b}[31m");
    for args in [
        vec!["check", &graph],
        vec!["predict", &model, "--head", head, "--relation", relation],
        vec!["predict", &model, "--like", head],
        vec!["explain", &model, head, relation, NAMES[2], "--rules", &rules],
        vec!["explain", &model, head, relation, NAMES[2], "--rules", &rules, "--dot"],
        vec!["eval", &model, "--by-relation"],
        vec!["rules", "verify", &graph, "--rules", &rules],
        vec!["complete", &model],
        vec!["check", "no\u{1b}[31mfile"],
        vec!["predict", &model, "--like", "\u{1b}[31mnobody"],
        vec!["check", &graph, "\u{1b}[31mtoo much"],
        vec!["-v", "check", "no\u{1b}[31mfile"],
        vec!["explain", &model, head, relation, NAMES[2], "--json"],
        vec!["complete", &model, "--json"],
        vec!["complete", &model, "--format", "jsonl"],
    ] {
        let output = ruge(&args);
        let said = format!("{}{}", String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
        assert!(!drives(&said), "{args:?}: {said:?}");
        assert!(!said.is_empty(), "{args:?}");
    }
    let shown = text(&["predict", &model, "--head", head, "--relation", relation]);
    assert!(shown.starts_with("⟨ESC⟩[2Jclear  r⟨ESC⟩[31m  ?\n") && shown.contains("⟨U+202E⟩gnp.exe"), "{shown}");
}

#[test]
fn a_name_of_two_lines_breaks_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("graph.csv");
    fs::write(&graph, "head,relation,tail\n\"two\nlines\",r,b\n\"c\td\",r,\"two\nlines\"\n").unwrap();
    let shown = text(&["check", graph.to_str().unwrap()]);
    assert!(shown.lines().any(|line| line.trim_start().starts_with("two⟨LF⟩lines  ")), "{shown}");
    assert!(shown.contains("c⟨TAB⟩d"), "{shown}");
}

#[test]
fn what_programs_read_is_exact() {
    let (folder, graph) = world();
    let model = trained(folder.path(), &graph);
    let rules = text(&["mine", &graph, "--min-pca", "0.1", "--min-head-size", "1"]);
    assert!(rules.contains("r\u{1b}[31m") && rules.contains("back\u{202e}"), "{rules}");
    let queries = folder.path().join("queries.tsv");
    fs::write(&queries, format!("{}\tr\u{1b}[31m\t?\n", NAMES[0])).unwrap();
    let queries = queries.to_str().unwrap();
    let answers = text(&["predict", &model, "--queries", queries]);
    assert!(NAMES.iter().all(|name| answers.contains(name)), "{answers}");
    // JSON has escapes, which are the same names.
    let object = json(&["predict", &model, "--queries", queries, "--json"]);
    let found = object["results"][0]["answers"].as_array().unwrap();
    let found: Vec<&str> = found.iter().map(|answer| answer["entity"].as_str().unwrap()).collect();
    assert!(NAMES.iter().all(|name| found.contains(name)), "{found:?}");
    let plain = text(&["predict", &model, "--queries", queries, "--to", "jsonl"]);
    assert!(plain.contains("\\u202e") && !drives(&plain), "{plain}");
}

/// On a terminal rules are for people too, and our own bold still works.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_gets_marks_and_our_bold() {
    let (folder, graph) = world();
    let model = trained(folder.path(), &graph);
    let program = command(&[]).get_program().to_str().unwrap().to_string();
    let on_terminal = |args: &str| {
        let output = Command::new("script")
            .args(["-qec", &format!("'{program}' {args}"), "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .output()
            .ok()?;
        Some(String::from_utf8(output.stdout).unwrap().replace('\r', ""))
    };
    let Some(rules) = on_terminal(&format!("mine '{graph}' --min-pca 0.1 --min-head-size 1 --quiet")) else {
        eprintln!("SKIPPED: names on a terminal: there is no `script` here");
        return;
    };
    assert!(rules.contains("r⟨ESC⟩[31m") && rules.contains("back⟨U+202E⟩") && !drives(&rules), "{rules:?}");
    let shown = on_terminal(&format!("predict '{model}' --like '{}' --quiet", NAMES[0])).unwrap();
    assert!(shown.contains("\u{1b}[1mlike ⟨ESC⟩[2Jclear\u{1b}[0m"), "{shown:?}");
    assert!(!drives(&shown.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "")), "{shown:?}");
    let error = on_terminal(&format!("predict '{model}' --like 'x{}' --quiet", NAMES[0])).unwrap();
    assert!(error.starts_with("\u{1b}[1;31merror:\u{1b}[0m "), "{error:?}");
}
