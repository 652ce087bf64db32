//! `ruge mine`, `ruge rules` and `ruge ground` as a user types them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Output, Stdio};

use crate::support::{command, ruge};
use serde_json::Value;

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn ok(args: &[&str]) -> String {
    let output = ruge(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

fn json(args: &[&str]) -> Value {
    let text = ok(args);
    assert_eq!(text.lines().count(), 1, "one object: {text}");
    serde_json::from_str(&text).expect("JSON")
}

/// Twelve people; most of those born in a town are its citizens.
fn world() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("folder");
    let mut text = String::new();
    for person in 0..12 {
        let town = person % 3;
        text.push_str(&format!("p{person}\tborn in\ttown{town}\n"));
        if person % 4 != 3 {
            text.push_str(&format!("p{person}\tcitizen_of\ttown{town}\n"));
        }
    }
    std::fs::write(folder.path().join("train.txt"), text).expect("written");
    std::fs::write(folder.path().join("valid.txt"), "p3\tcitizen_of\ttown0\n").expect("written");
    std::fs::write(folder.path().join("test.txt"), "p7\tcitizen_of\ttown1\n").expect("written");
    let path = folder.path().to_string_lossy().into_owned();
    (folder, path)
}

#[test]
fn mining_the_embedded_graph_finds_what_everyone_knows() {
    let text = ok(&["mine", "demo", "--quiet"]);
    assert!(text.starts_with("# ruge "), "{text}");
    let rule = "?b  has_capital  ?a   => ?a  capital_of  ?b\t1\t";
    assert!(text.lines().any(|line| line.starts_with(rule)), "{text}");
    let found = json(&["mine", "demo", "--json"]);
    let rules = text.lines().filter(|line| line.starts_with('?')).count();
    assert_eq!(found["rules"], rules);
    assert_eq!(found["one_atom"].as_u64().unwrap() + found["two_atom"].as_u64().unwrap(), rules as u64);
    assert!(found["seconds"].as_f64().unwrap() > 0.0 && found["peak_memory_mb"].as_f64().unwrap() > 1.0);
}

#[test]
fn the_same_bytes_on_any_number_of_threads() {
    let mine = |threads: &str| {
        ok(&["mine", "demo", "--constants", "--max-body", "3", "--min-pca", "0.3", "-q", "--threads", threads])
    };
    let one = mine("1");
    assert!(one.lines().count() > 1000);
    assert!(one == mine("2") && one == mine("7"), "threads change the output");
}

#[test]
fn a_preset_and_flags_beside_it() {
    let strict = json(&["mine", "demo", "--preset", "ruge-fb15k", "--json"]);
    assert_eq!((&strict["applied"]["min_head_coverage"], &strict["applied"]["skyline"]), (&0.5.into(), &false.into()));
    let wide = json(&["mine", "demo", "--preset", "amie", "--min-hc", "0.2", "--json"]);
    assert_eq!((&wide["applied"]["min_pca"], &wide["applied"]["min_head_coverage"]), (&0.1.into(), &0.2.into()));
}

#[test]
fn names_with_blanks_survive_the_way_through_a_file() {
    let (folder, data) = world();
    let rules = folder.path().join("rules.tsv").to_string_lossy().into_owned();
    let told = ok(&["mine", &data, "--min-head-size", "1", "--out", &rules]);
    assert!(told.contains("if x born in y then x citizen_of y"), "{told}");
    // 9 of 12 born somewhere are citizens there; each citizen has one town, so the PCA forgives the other three.
    let line = std::fs::read_to_string(&rules).unwrap();
    let line = line
        .lines()
        .find(|line| line.ends_with("subject\t0.529411765\t0.467689994") || line.contains("=> ?a  citizen_of"));
    let fields: Vec<&str> = line.expect("the rule").split('\t').collect();
    assert_eq!(fields[..3], ["?a  \"born in\"  ?b   => ?a  citizen_of  ?b", "1", "1"]);
    assert_eq!(fields[3..11], ["0.75", "1", "0.75", "9", "12", "9", "12", "9", "subject"].as_slice()[..8]);

    let verified = json(&["rules", "verify", &data, "--rules", &rules, "--json"]);
    assert_eq!((&verified["mismatched"], &verified["unreadable"]), (&0.into(), &0.into()));
    assert_eq!(verified["rules"], verified["matching_pca"]);

    let out = folder.path().join("g.tsv").to_string_lossy().into_owned();
    let grounded = json(&["ground", &data, "--rules", &rules, "--json", "--out", &out]);
    assert_eq!((&grounded["groundings"], &grounded["unlabeled"]), (&3.into(), &3.into()));
    assert_eq!((&grounded["in_valid"], &grounded["in_test"]), (&1.into(), &1.into()));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.contains("\tp3\tcitizen_of\ttown0\tp3\tborn in\ttown0\n"), "{text}");
    let none = json(&["ground", &data, "--rules", &rules, "--json", "--memory", "0"]);
    assert_eq!(none["unlabeled"], 3, "next to no memory changes nothing");
}

#[test]
fn rules_written_by_hand() {
    let (folder, data) = world();
    let rules = folder.path().join("mine.txt").to_string_lossy().into_owned();
    std::fs::write(&rules, "# ours\n\"born in\"(x,y) => citizen_of(x,y)  0.9\nborn_in(x,y) => citizen_of(x,y)\n(((\n")
        .unwrap();
    let output = ruge(&["ground", &data, "--rules", &rules, "--rule-format", "text"]);
    let said = stderr(&output);
    assert!(output.status.success() && stdout(&output).contains("3 unlabeled"), "{said}");
    assert!(
        said.contains("mine.txt:3: no training triple has the relation \"born_in\"; did you mean \"born in\"?"),
        "{said}"
    );
    assert!(said.contains("mine.txt:4:"), "{said}");
    // Without the rule of 0.9 only the one over an unknown relation is left, which is an ordinary case.
    let strict =
        json(&["ground", &data, "--rules", &rules, "--rule-format", "text", "--min-conf", "0.95", "--json", "-q"]);
    assert_eq!((&strict["groundings"], &strict["not_grounded"]), (&0.into(), &1.into()));
}

#[test]
fn verify_tells_what_a_number_is() {
    let (folder, data) = world();
    let rules = folder.path().join("r.tsv").to_string_lossy().into_owned();
    let rule = "?a  citizen_of  ?b   => ?a  lives  ?b";
    std::fs::write(&rules, format!("{rule}\t0.5\n")).unwrap();
    let unknown = json(&["rules", "verify", &data, "--rules", &rules, "--json", "-q"]);
    assert_eq!((&unknown["rules"], &unknown["mismatched"]), (&1.into(), &1.into()));
    let text = ok(&["rules", "verify", &data, "--rules", &rules, "-q"]);
    assert!(text.contains("line 1: stated 0.5, counted PCA 0.000000"), "{text}");
}

#[test]
fn converting_there_and_back() {
    let (folder, data) = world();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    ok(&["mine", "demo", "--out", &path("a.tsv"), "-q"]);
    for format in ["json", "text", "amie", "anyburl", "ruge", "prolog"] {
        ok(&["rules", "convert", &path("a.tsv"), "--to", format, "--data", "demo", "--out", &path("b"), "-q"]);
        ok(&["rules", "convert", &path("b"), "--rule-format", format, "--to", "ruge", "--out", &path("c"), "-q"]);
        ok(&["rules", "convert", &path("a.tsv"), "--to", "ruge", "--out", &path("d"), "-q"]);
        let count = |name: &str| std::fs::read_to_string(path(name)).unwrap().lines().count();
        assert_eq!(count("c"), count("d"), "through {format}");
    }
    // A name with a blank cannot be said in plain RUGE notation; the error names the rule, and nothing is written.
    ok(&["mine", &data, "--min-head-size", "1", "--out", &path("e.tsv"), "-q"]);
    let output = ruge(&["rules", "convert", &path("e.tsv"), "--to", "ruge", "--out", &path("f")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("born in") && !std::path::Path::new(&path("f")).exists(), "{}", stderr(&output));
}

#[test]
fn rules_without_counts_are_counted_in_the_data() {
    let (folder, _) = world();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("a.txt"), "capital_of(X,Y) :- has_capital(Y,X).\n").unwrap();
    let convert = |more: &[&str]| {
        let file = path("a.txt");
        ruge(&[&["rules", "convert", &file, "--rule-format", "prolog", "--to", "anyburl"], more].concat())
    };
    let output = convert(&["--data", "demo"]);
    assert_eq!(stdout(&output).trim_end(), "346\t285\t0.823699422\tcapital_of(X,Y) <= has_capital(Y,X)");
    let output = convert(&[]);
    assert!(stderr(&output).contains("give the data with --data"), "{}", stderr(&output));
    // Nothing says what y is: no data can count it.
    std::fs::write(path("a.txt"), "capital_of(X,Y) :- has_capital(X,X).\n").unwrap();
    let told = stderr(&convert(&["--data", "demo"]));
    assert!(told.contains("cannot be counted") && !told.contains("--data"), "{told}");
}

#[test]
fn mistakes_of_the_user() {
    for (args, code, say) in [
        (&["mine", "demo", "--heads", "capitol_of"][..], 2, "did you mean \"capital_of\""),
        (&["mine", "demo", "--min-pca", "1.5"], 2, "must be in [0, 1]"),
        (&["mine", "demo", "--max-body", "4"], 2, "1, 2 or 3"),
        (&["mine", "demo", "--time-limit", "soon"], 2, "as in 90s"),
        (&["mine", "nowhere"], 1, "nowhere"),
        (&["ground", "demo", "--rules", "nowhere.tsv"], 1, "nowhere.tsv"),
        (&["rules", "convert", "x", "--to", "amei"], 2, "amie"),
        (&["ground", "demo"], 2, "--rules"),
        (&["mine", "demo", "--out", "no/such/folder/rules.tsv"], 1, "no/such/folder"),
    ] {
        let output = ruge(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(say), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}

#[test]
fn no_input_is_written_over() {
    let (folder, data) = world();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::copy(path("train.txt"), path("copy.tsv")).expect("copied");
    std::fs::write(path("r.txt"), "\"born in\"(x,y) => citizen_of(x,y)  0.9\n").expect("written");
    std::fs::write(path("heads.txt"), "citizen_of\n").expect("written");
    let (copy, rules, heads) = (path("copy.tsv"), path("r.txt"), format!("@{}", path("heads.txt")));
    let detour = path("./copy.tsv");
    let there = |name: &str| std::fs::read(path(name)).expect("there");
    let files = ["train.txt", "valid.txt", "test.txt", "copy.tsv", "r.txt", "heads.txt"];
    let before = files.map(there);
    for (args, out) in [
        (vec!["mine", &copy], "copy.tsv"),
        (vec!["mine", &detour], "copy.tsv"),
        (vec!["mine", &data], "train.txt"),
        (vec!["mine", &data], "valid.txt"),
        (vec!["mine", &data, "--heads", &heads], "heads.txt"),
        (vec!["ground", &copy, "--rules", &rules], "copy.tsv"),
        (vec!["ground", &data, "--rules", &rules], "r.txt"),
        (vec!["ground", &data, "--rules", &rules], "test.txt"),
        (vec!["rules", "convert", &rules, "--to", "json"], "r.txt"),
        (vec!["rules", "convert", &rules, "--to", "json", "--data", &copy], "copy.tsv"),
    ] {
        let target = path(out);
        let output = ruge(&[&args[..], &["--out", &target]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?} {out}: {said}");
        assert!(said.contains(&target) && said.contains("give another --out"), "{args:?} {out}: {said}");
    }
    assert!(before == files.map(there), "an input was changed");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(path("copy.tsv"), path("link.tsv")).expect("linked");
        assert_eq!(ruge(&["mine", &copy, "--out", &path("link.tsv")]).status.code(), Some(2));
    }
    // Any other file may be replaced.
    ok(&["mine", &copy, "--min-head-size", "1", "--out", &rules, "-q"]);
    assert!(there("r.txt") != before[4] && there("copy.tsv") == before[3]);
}

#[test]
fn a_time_limit_is_no_failure() {
    let output = ruge(&["mine", "demo", "--max-body", "3", "--time-limit", "0s"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("30 of 30 heads were not searched"), "{}", stderr(&output));
}

#[test]
#[cfg(unix)]
fn ctrl_c_leaves_what_was_finished() {
    let folder = tempfile::tempdir().expect("folder");
    let graph = folder.path().join("graph.tsv");
    // Everything meets everything: searching it for paths of three takes far longer than sending a signal.
    let facts = (0..60_000u64).map(|i| format!("e{}\tr{}\te{}\n", i * 7919 % 997, i % 29, i * 104_729 % 1009));
    let repeated = "e0\tr0\te0\n".repeat(2);
    std::fs::write(&graph, facts.chain([repeated]).collect::<String>()).expect("written");
    let mut child = command(&["mine", &graph.to_string_lossy(), "--max-body", "3", "--min-hc", "0", "--min-pca", "0"])
        .args(["--time-limit", "10m"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    // The note about the repeated fact comes when it listens to signals, right before the search.
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success(), "the search was over before it could be interrupted: {line}");
    said.read_to_string(&mut line).expect("text");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(130), "{line}");
    assert!(line.contains("heads were not searched"), "{line}");
    assert!(stdout(&output).contains("# stopped early:"), "{:.300}", stdout(&output));
}
