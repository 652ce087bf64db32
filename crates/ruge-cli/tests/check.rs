//! `ruge check` from the outside: what a user with good or bad files is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

fn ruge(arguments: &[&str]) -> Output {
    Command::cargo_bin("ruge").unwrap().env_remove("RUGE_LOG").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A folder with these files, and its path as an argument.
fn folder(files: &[(&str, &[u8])]) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let path = folder.path().to_str().unwrap().to_string();
    (folder, path)
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let text = stdout(output);
    assert_eq!(text.lines().count(), 1, "exactly one object on one line");
    serde_json::from_str(&text).unwrap()
}

fn families() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/families")
}

/// `ruge check` on a train file with this content stops with exit code 1 and says all of `expected`.
#[track_caller]
fn stops(content: &[u8], expected: &[&str]) {
    let (_folder, path) = folder(&[("train.tsv", content)]);
    let output = ruge(&["check", &path]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    for part in expected {
        assert!(stderr(&output).contains(part), "{part:?} is not in:\n{}", stderr(&output));
    }
    assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
}

#[test]
fn wrong_column_count() {
    stops(b"a\tr\tb\na\tr\n", &["train.tsv:2: 2 fields instead of 3", "a⇥r", "remedy:", "--columns", "--lenient"]);
    stops(b"a\tr\tb\tc\n", &["train.tsv:1: 4 fields instead of 3"]);
}

#[test]
fn empty_field() {
    stops(b"a\tr\tb\n\tr\tb\n", &["train.tsv:2: the head is empty", "remedy: fill the field in"]);
    stops(b"a\tr\tb\na\tr\t\n", &["train.tsv:2: the tail is empty"]);
}

#[test]
fn invalid_utf8() {
    stops(b"a\tr\tb\n\xe9\tr\tb\n", &["train.tsv:2: not valid UTF-8", "iconv"]);
}

#[test]
fn nul_byte_and_utf16() {
    stops(b"a\tr\tb\na\0\tr\tb\n", &["train.tsv:2: holds a NUL byte"]);
    stops(b"\xff\xfea\0", &["train.tsv", "UTF-16", "iconv"]);
}

#[test]
fn mixed_separators() {
    stops(b"a\tr\tb\na,r,b\n", &["train.tsv:2: separated by comma, while the file is separated by tab"]);
}

#[test]
fn an_empty_file() {
    stops(b"", &["train.tsv: no triples", "remedy:"]);
    stops(b"\n\n", &["train.tsv: no triples"]);
}

#[test]
fn twenty_bad_lines_end_the_reading_and_four_are_shown() {
    let text: String = (0..50).map(|i| format!("bad{i}\n")).collect();
    let (_folder, path) = folder(&[("train.tsv", text.as_bytes())]);
    let output = ruge(&["check", &path]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("at least 20 bad lines; reading stopped here"), "{message}");
    assert!(message.contains("train.tsv:4:") && !message.contains("train.tsv:5:"), "{message}");
    assert!(message.contains("and 16 more lines"), "{message}");
}

#[test]
fn lenient_skips_and_counts() {
    let (_folder, path) = folder(&[("train.tsv", b"a\tr\tb\nbad\nc\tr\n\xff\tr\tb\nb\tr\tc\n")]);
    let output = ruge(&["check", &path, "--lenient", "--json"]);
    let report = json(&output);
    assert_eq!((report["bad_lines"].as_u64(), report["train"].as_u64()), (Some(3), Some(2)));
    assert!(stderr(&output).contains("3 lines skipped") || stderr(&output).contains("2 lines skipped"));
    assert!(stderr(&output).contains("train.tsv:4"), "{}", stderr(&output));
    let output = ruge(&["check", &path, "--lenient"]);
    assert!(stdout(&output).contains("3 bad lines skipped"), "{}", stdout(&output));
}

#[test]
fn harmless_oddities_are_noted() {
    let text = b"\xef\xbb\xbfhead\trelation\ttail\r\na\tr\tb\r\n a\tr\tc\r\n\r\na\tr\tb\r\n";
    let (_folder, path) = folder(&[("train.tsv", text), ("test.tsv", b"a\ts\tz\n")]);
    let output = ruge(&["check", &path, "--json"]);
    let report = json(&output);
    for (key, value) in [("train", 2), ("duplicates", 1), ("unseen_entities", 1), ("unseen_relations", 1), ("valid", 0)]
    {
        assert_eq!(report[key], value, "{key}");
    }
    let notes = report["notes"].to_string();
    for part in ["byte-order mark", "is a header", "CR LF", "blank", "trimmed", "repeated triple in train"] {
        assert!(notes.contains(part), "{part:?} is not in {notes}");
        assert!(stderr(&output).contains(part), "{part:?} is not on stderr");
    }
    let text = stdout(&ruge(&["check", &path]));
    assert!(text.contains("1 entity occurs only here: z"), "{text}");
    let quiet = ruge(&["check", &path, "--json", "--quiet"]);
    assert!(quiet.stderr.is_empty());
}

#[test]
fn a_missing_file_and_a_folder_without_train() {
    let output = ruge(&["check", "no/such/place"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no/such/place: cannot open") && stderr(&output).contains("remedy:"));
    let (_folder, path) = folder(&[("test.tsv", b"a\tr\tb\n")]);
    let output = ruge(&["check", &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no train file in this folder (it holds test.tsv)"), "{}", stderr(&output));
}

#[test]
fn columns_header_and_split_of_a_single_file() {
    let text: String = (0..40).map(|i| format!("{}\t{}\tr\n", i % 8, i / 8)).collect();
    let (_folder, path) = folder(&[("all.tsv", text.as_bytes())]);
    let file = format!("{path}/all.tsv");
    let report = json(&ruge(&["check", &file, "--columns", "htr", "--json", "--held-out", "0.2,0.1"]));
    assert_eq!((report["relations"].as_u64(), report["entities"].as_u64()), (Some(1), Some(8)));
    assert_eq!(["train", "valid", "test"].map(|split| report[split].as_u64().unwrap()), [28, 8, 4]);
    assert_eq!(report["unseen_entities"], 0);
    let report = json(&ruge(&["check", &file, "--columns", "htr", "--json", "--header", "yes"]));
    assert_eq!(report["splits"]["train"]["read"], 39);
}

#[test]
fn usage_errors_end_with_two() {
    for arguments in [
        &["frobnicate"][..],
        &[],
        &["check"],
        &["check", "demo", "--columns", "hrx"],
        &["check", "demo", "--held-out", "0.9,0.9"],
        &["check", "demo", "--threads", "0"],
        &["check", "demo", "--quiet", "--verbose"],
        &["completions", "tcsh"],
    ] {
        let output = ruge(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_wrong_log_filter_is_told() {
    let output = Command::cargo_bin("ruge").unwrap().env("RUGE_LOG", "=,=").args(["check", "demo"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("RUGE_LOG==,= is not a log filter"), "{}", stderr(&output));
}

#[test]
fn help_teaches_with_an_example() {
    for arguments in
        [&["--help"][..], &["check", "-h"], &["data", "-h"], &["data", "list", "-h"], &["data", "get", "-h"]]
    {
        let output = ruge(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("Example"), "{arguments:?}:\n{}", stdout(&output));
    }
    assert!(stdout(&ruge(&["completions", "-h"])).contains("bash-completion"));
    assert!(stdout(&ruge(&["--version"])).starts_with("ruge 0."));
}

#[test]
fn completions_for_common_shells() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&ruge(&["completions", shell]));
        assert!(script.contains("held-out") && script.contains("check"), "{shell}");
    }
}

#[test]
fn the_same_bytes_on_any_number_of_threads() {
    let families = families();
    let families = families.to_str().unwrap();
    for more in [&[][..], &["--json"]] {
        let one = ruge(&[&["check", families, "--threads", "1"][..], more].concat());
        let two = ruge(&[&["check", families, "--threads", "2"][..], more].concat());
        assert_eq!(one.status.code(), Some(0));
        assert_eq!(stdout(&one), stdout(&two));
    }
}

#[test]
fn the_families_by_name() {
    let path = families();
    let text = stdout(&ruge(&["check", path.to_str().unwrap()]));
    for part in ["married_to", "parent_of", "Atlantis", "Leakage", "50.0 % of test can be read off train"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains('\x1b'), "no colours off a terminal");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let report = json(&ruge(&["--json", "check", path.to_str().unwrap()]));
    assert_eq!(report["duplicates"], 1);
    assert_eq!(report["leakage"]["test"]["copyable"], 3);
    assert_eq!(report["patterns"]["inverse"][0]["first"], "parent_of");
    assert_eq!(report["cardinalities"]["N-1"]["relations"], 1);
}

#[test]
fn the_embedded_graph() {
    let report = json(&ruge(&["check", "demo", "--json", "--columns", "trh", "--seed", "7"]));
    assert!(report["train"].as_u64().unwrap() >= 1);
    assert_eq!(report["unseen_entities"], 0);
    assert_eq!(report, json(&ruge(&["check", "demo", "--json"])), "nothing said about files touches it");
}

#[test]
fn constraints_are_suggested_checked_and_blamed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let laws = at("laws.txt");
    let found = json(&ruge(&["check", "demo", "--suggest-constraints", &laws, "--json"]));
    let habits = found["habits"].as_array().unwrap();
    assert!(habits.iter().any(|habit| habit["kind"] == "functional" && habit["exceptions"] == 0), "{habits:?}");
    assert!(found["violations"].is_null(), "nobody asked");
    // What is suggested holds.
    let found = json(&ruge(&["check", "demo", "--constraints", &laws, "--json"]));
    assert_eq!(found["violations"], Value::Array(vec![]));
    assert!(stdout(&ruge(&["check", "demo", "--constraints", &laws])).contains("all listed facts obey"));
    let again = ruge(&["check", "demo", "--suggest-constraints", &laws]);
    assert!(again.status.code() == Some(1) && stderr(&again).contains("--force"), "{}", stderr(&again));
    assert_eq!(ruge(&["check", "demo", "--suggest-constraints", &laws, "--force"]).status.code(), Some(0));

    // What does not hold is counted and named.
    fs::write(at("strict.txt"), "functional\tborders\n").unwrap();
    let found = json(&ruge(&["check", "demo", "--constraints", &at("strict.txt"), "--json"]));
    let violations = found["violations"].as_array().unwrap();
    assert!(violations.len() > 100 && violations.iter().all(|fact| fact["fact"][1] == "borders"), "{}", violations[0]);
    assert!(violations[0]["reason"].as_str().unwrap().contains("borders is functional, and"), "{}", violations[0]);
    let shown = stdout(&ruge(&["check", "demo", "--constraints", &at("strict.txt")]));
    assert!(shown.contains("Facts that violate a constraint") && shown.contains("more; --json lists all"), "{shown}");

    fs::write(at("wrong.txt"), "# laws\nfunctional\tborder\n").unwrap();
    let output = ruge(&["check", "demo", "--constraints", &at("wrong.txt")]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("wrong.txt:2: there is no relation called \"border\"; did you mean \"borders\""), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_pipe_is_a_quiet_success() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ruge"))
        .arg("check")
        .arg(families())
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn columns_may_begin_with_one_to_skip() {
    let rows = "1;Anna K.;kennt;Ben;2020\n2;Ben;kennt;Cleo;2021\n3;Cleo;kennt;Anna K.;2021\n";
    let (_folder, path) = folder(&[("train.csv", rows.as_bytes())]);
    let output = ruge(&["check", &path]);
    let said = stderr(&output);
    assert!(said.contains("5 fields instead of 3") && said.contains("--columns"), "{said}");
    let found = json(&ruge(&["check", &path, "--columns", "-hrt-", "--json"]));
    assert_eq!(found["entities"], 3, "{found}");
}
