//! Names that would drive a terminal, from the outside: people see marks, programs get the bytes.

use std::fs;

use crate::support::hostile::{NAMES, drives, trained, world};
use crate::support::{json, ruge, stderr, text};

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

/// Tabs, line ends, quotes and angle brackets, in what `predict`, `explain` and `complete` print.
#[test]
fn names_of_several_lines_are_marked_wherever_they_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (odd, other) = ("two\nlines\t<b>\"q\"", "an\r\nother");
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut rows = String::from("head,relation,tail\n");
    for i in 0..30 {
        rows.push_str(&format!("e{i},r,{}\n{},back,e{i}\n", quoted(odd), quoted(other)));
    }
    fs::write(at("graph.csv"), rows).unwrap();
    let model = at("run");
    text(&["train", &at("graph.csv"), "--dim", "4", "--epochs", "1", "--quiet", "--out", &model]);
    for args in [
        vec!["predict", &model, "--head", "e1", "--relation", "r"],
        vec!["predict", &model, "--head", odd, "--relation", "r"],
        vec!["explain", &model, "e1", "r", other],
        vec!["explain", &model, odd, "r", other],
        vec!["complete", &model, "--top", "30"],
    ] {
        let shown = text(&args);
        assert!(shown.contains("two⟨LF⟩lines⟨TAB⟩<b>") || shown.contains("an⟨CR⟩⟨LF⟩other"), "{args:?}: {shown}");
        for broken in ["two\nlines", "two lines", "an other", "an\n", "\t", "\r"] {
            assert!(!shown.contains(broken), "{args:?}: {broken:?} in {shown}");
        }
    }
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
    // The asked entity is not its own partner.
    assert!(NAMES[1..].iter().all(|name| found.contains(name)), "{found:?}");
    let plain = text(&["predict", &model, "--queries", queries, "--to", "jsonl"]);
    assert!(plain.contains("\\u202e") && !drives(&plain), "{plain}");
}
