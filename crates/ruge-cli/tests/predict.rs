//! `ruge predict` and `ruge eval --classify` as a user types them, on a small model of the embedded graph.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::OnceLock;

use crate::support::{command, json, ruge, stderr};
use serde_json::Value;
use tempfile::TempDir;

fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// One model for all tests: training it takes most of their time.
fn run() -> &'static str {
    static RUN: OnceLock<(TempDir, String)> = OnceLock::new();
    let (_, path) = RUN.get_or_init(|| {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("run").to_string_lossy().into_owned();
        let args = [
            "train",
            "demo",
            "--dim",
            "16",
            "--epochs",
            "40",
            "--validate-every",
            "20",
            "--guidance",
            "ruge",
            "--quiet",
        ];
        let output = ruge(&[&args[..], &["--out", &path]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        (folder, path)
    });
    path
}

fn write(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

fn answers(value: &Value) -> &Vec<Value> {
    value["answers"].as_array().expect("answers")
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().expect("object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn tails_heads_and_relations() {
    let tails = json(&["predict", run(), "--head", "France", "--relation", "borders", "--json"]);
    assert_eq!(answers(&tails).len(), 10);
    for pair in answers(&tails).windows(2) {
        assert!(pair[0]["score"].as_f64() >= pair[1]["score"].as_f64(), "{tails}");
    }
    for answer in answers(&tails) {
        assert_eq!(keys(answer), ["entity", "known", "score", "truth"]);
        let truth = answer["truth"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&truth), "{answer}");
    }
    assert!(answers(&tails).iter().any(|answer| answer["known"] == true), "{tails}");
    let new = json(&["predict", run(), "--head", "France", "--relation", "borders", "--new", "--top", "3", "--json"]);
    assert_eq!(answers(&new).len(), 3);
    assert!(answers(&new).iter().all(|answer| answer["known"] == false), "{new}");
    let heads = json(&["predict", run(), "--relation", "borders", "--tail", "France", "--top", "1", "--json"]);
    assert_eq!(keys(&answers(&heads)[0]), ["entity", "known", "score", "truth"]);
    let relations = json(&["predict", run(), "--head", "France", "--tail", "Spain", "--top", "5", "--json"]);
    assert_eq!(answers(&relations).len(), 5);
    assert_eq!(keys(&answers(&relations)[0]), ["known", "relation", "score", "truth"]);
    assert!(answers(&relations).iter().any(|x| x["relation"] == "borders" && x["known"] == true), "{relations}");
    let text = stdout(ruge(&["predict", run(), "--head", "France", "--relation", "borders"]));
    assert!(text.contains("France  borders  ?") && text.contains("known") && text.contains("truth"), "{text}");
}

#[test]
fn a_file_of_questions_gets_the_answers_of_single_ones() {
    let folder = tempfile::tempdir().expect("folder");
    let lines = "France\tborders\t?\n\n?\tborders\tSpain\r\n{\"head\": \"France\", \"tail\": \"Spain\"}\n";
    let questions = write(&folder, "q.tsv", lines);
    let table = stdout(ruge(&["predict", run(), "--queries", &questions, "--top", "3"]));
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows[0], ["query", "rank", "head", "relation", "tail", "score", "truth", "known"]);
    assert_eq!(rows.len(), 1 + 3 * 3);
    let alone = json(&["predict", run(), "--head", "France", "--relation", "borders", "--top", "3", "--json"]);
    for (row, answer) in rows[1..4].iter().zip(answers(&alone)) {
        assert_eq!((row[0], row[2], row[3]), ("1", "France", "borders"));
        assert_eq!(row[4], answer["entity"].as_str().unwrap());
        assert_eq!(row[5].parse::<f32>().unwrap(), answer["score"].as_f64().unwrap() as f32);
    }
    assert_eq!((rows[4][0], rows[4][4], rows[7][0]), ("3", "Spain", "4"));

    // The same through a pipe, on any number of threads.
    let args = ["predict", run(), "--queries", "-", "--top", "3", "--threads", "1"];
    let mut child = command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("written");
    assert_eq!(stdout(child.wait_with_output().expect("ends")), table);

    let text = stdout(ruge(&["predict", run(), "--queries", &questions, "--top", "3", "--to", "jsonl"]));
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[0]["answers"], alone["answers"]);
    assert_eq!((&objects[1]["tail"], &objects[1]["query"]), (&Value::from("Spain"), &Value::from(3)));

    let whole = json(&["predict", run(), "--queries", &questions, "--top", "3", "--json"]);
    assert_eq!(whole["queries"], 3);
    assert_eq!(whole["results"].as_array().unwrap()[..], objects[..]);

    let out = folder.path().join("answers.tsv");
    let args = ["predict", run(), "--queries", &questions, "--top", "3", "--out", out.to_str().unwrap()];
    let said = json(&[&args[..], &["--json"]].concat());
    assert_eq!((&said["queries"], &said["answers"]), (&Value::from(3), &Value::from(9)));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), table);
    let again = ruge(&args);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("--force"), "{}", stderr(&again));
    assert!(ruge(&[&args[..], &["--force"]].concat()).status.success());
}

#[test]
fn bad_questions_stop_with_their_line_or_are_skipped() {
    let folder = tempfile::tempdir().expect("folder");
    let questions = write(&folder, "q.tsv", "France\tborders\t?\nFrance\tborders\n?\tborders\tSpain\n");
    let output = ruge(&["predict", run(), "--queries", &questions, "--top", "2"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("q.tsv:2: 2 fields instead of 3"), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3, "what came before is answered");
    let output = ruge(&["predict", run(), "--queries", &questions, "--top", "2", "--lenient"]);
    assert!(stderr(&output).contains("1 line skipped: not a question"), "{}", stderr(&output));
    assert_eq!(stdout(output).lines().count(), 5);
    for (line, say) in [
        ("Frence\tborders\t?", "or \"France\"?"),
        ("France\tborders\tSpain", "exactly one open place"),
        ("?\tborders\t?", "exactly one open place"),
        ("{\"head\": \"France\"}", "exactly one open place"),
        ("{\"head\": \"France\", \"relatoin\": \"borders\"}", "relatoin"),
        ("{\"head\"", "not a question"),
    ] {
        let questions = write(&folder, "bad.tsv", line);
        let output = ruge(&["predict", run(), "--queries", &questions]);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(stderr(&output).contains(say) && stderr(&output).contains("bad.tsv:1"), "{}", stderr(&output));
    }
}

#[test]
fn candidates_can_be_listed_or_typed() {
    let folder = tempfile::tempdir().expect("folder");
    let list = write(&folder, "list.txt", "Spain\nChile\n\nFrance\n");
    let args = ["predict", run(), "--head", "France", "--relation", "borders", "--json"];
    let listed = json(&[&args[..], &["--candidates", &list]].concat());
    let mut names: Vec<&str> = answers(&listed).iter().filter_map(|x| x["entity"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["Chile", "France", "Spain"]);
    let typed = json(&[&args[..], &["--typed", "--top", "100000"]].concat());
    let all = json(&[&args[..], &["--top", "100000"]].concat());
    assert!(answers(&typed).len() < answers(&all).len(), "fewer have borders than names");
    let seen: Vec<&str> = answers(&typed).iter().filter_map(|x| x["entity"].as_str()).collect();
    assert!(seen.contains(&"Spain") && !seen.contains(&"Europe"), "{seen:?}");
    let wrong = write(&folder, "wrong.txt", "Spain\nFrence\n");
    let output = ruge(&[&args[..], &["--candidates", &wrong]].concat());
    assert!(stderr(&output).contains("wrong.txt:2") && stderr(&output).contains("France"), "{}", stderr(&output));
    let note = ruge(&["predict", run(), "--head", "France", "--relation", "borders", "--top", "100000"]);
    assert!(stderr(&note).contains("shows all"), "{}", stderr(&note));
}

#[test]
fn entities_like_another() {
    let near = json(&["predict", run(), "--like", "France", "--top", "5", "--json"]);
    let list = near["nearest"].as_array().expect("a list");
    assert_eq!(list.len(), 5);
    for pair in list.windows(2) {
        assert!(pair[0]["cosine"].as_f64() >= pair[1]["cosine"].as_f64(), "{near}");
    }
    assert!(list.iter().all(|x| x["entity"] != "France" && x["duplicate"].is_boolean()), "{near}");
    assert!(stdout(ruge(&["predict", run(), "--like", "France"])).contains("shared facts"));
}

#[test]
fn a_new_entity_is_folded_in_and_rules_speak_for_it() {
    let folder = tempfile::tempdir().expect("folder");
    let facts = write(&folder, "facts.tsv", "Newtown\tcapital_of\tFrance\n");
    let args = ["predict", run(), "--with", &facts, "--head", "Newtown", "--relation", "in_continent", "--json"];
    let first = json(&args);
    let best = &answers(&first)[0];
    assert_eq!(best["entity"], "Europe", "{first}");
    assert!(best["rule"].as_str().is_some_and(|rule| rule.contains("capital_of")), "{best}");
    assert!(best["truth"].as_f64().unwrap() > 0.05 && best["known"] == false, "{best}");
    assert_eq!(json(&[&args[..], &["--threads", "1"]].concat()), first, "the same on any number of threads");
    let asked = json(&["predict", run(), "--with", &facts, "--head", "Newtown", "--relation", "capital_of", "--json"]);
    assert!(answers(&asked).iter().any(|x| x["entity"] == "France" && x["known"] == true), "{asked}");
    // Everyone else's answers are those of the model alone.
    let args = ["predict", run(), "--head", "Spain", "--tail", "Portugal", "--json"];
    assert_eq!(json(&args), json(&[&args[..], &["--with", &facts]].concat()));
    let unknown = write(&folder, "unknown.tsv", "Newtown\tcapital_of\tFrance\nNewtown\tcapitol_of\tSpain\n");
    let output = ruge(&["predict", run(), "--with", &unknown, "--head", "Newtown", "--relation", "in_continent"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("unknown.tsv:2") && said.contains("did you mean \"capital_of\"?"), "{said}");
}

#[test]
fn what_cannot_be_asked() {
    let folder = tempfile::tempdir().expect("folder");
    let model = std::fs::read(Path::new(run()).join("model.safetensors")).expect("a model");
    let cut = folder.path().join("cut.safetensors");
    std::fs::write(&cut, &model[..model.len() / 2]).expect("written");
    let foreign = write(&folder, "foreign.safetensors", "this is no model");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).expect("made");
    let nothing = write(&folder, "nothing.txt", "\n");
    let (cut, empty) = (cut.to_string_lossy(), empty.to_string_lossy());
    let borders = ["--head", "France", "--relation", "borders"];
    let ask = |model: &str, more: &[&str]| ruge(&[&["predict", model], more].concat());
    for (output, code, say) in [
        (ask("nowhere", &borders), 1, "nowhere"),
        (ask(&cut, &borders), 1, "cut off or damaged"),
        (ask(&foreign, &borders), 1, "not a usable model file"),
        (ask(&empty, &borders), 1, "no model.safetensors"),
        (ask(run(), &["--head", "Frence", "--relation", "borders"]), 2, "or \"France\"?"),
        (ask(run(), &["--head", "France", "--relation", "border"]), 2, "did you mean \"borders\""),
        (ask(run(), &["--head", "France", "--relation", "zzz"]), 2, "\"zzz\"; it has \""),
        (ask("nowhere", &borders), 1, "give a run folder or a model.safetensors"),
        (ruge(&["eval", "nowhere"]), 1, "nowhere: there is no such file or folder\n  remedy: give a run folder"),
        (ruge(&["eval", &empty]), 1, "empty: it holds no model.safetensors"),
        (ruge(&["export", &empty, "--to", "npy"]), 1, "empty: it holds no model.safetensors"),
        (ask(run(), &["--head", "--x", "--relation", "borders"]), 2, "no entity called \"--x\""),
        (ask(run(), &["--head", "France", "--relation", "-r"]), 2, "no relation called \"-r\""),
        (ask(run(), &["--relation", "borders", "--tail", "-t"]), 2, "no entity called \"-t\""),
        (ask(run(), &["--like", "-x"]), 2, "no entity called \"-x\""),
        (ruge(&["complete", run(), "--relation", "-r"]), 2, "no relation called \"-r\""),
        (ask(run(), &["--head", "France"]), 2, "two of --head, --relation and --tail"),
        (ask(run(), &[]), 2, "two of --head, --relation and --tail"),
        (ask(run(), &["--head", "France", "--relation", "borders", "--tail", "Spain"]), 2, "nothing to ask"),
        (ask(run(), &["--head", "France", "--relation", "borders", "--top", "0"]), 2, "at least 1"),
        (ask(run(), &["--head", "France", "--tail", "Spain", "--typed"]), 2, "asks for a relation"),
        (ask(run(), &["--queries", "nowhere.tsv"]), 1, "nowhere.tsv"),
        (ask(run(), &["--like", "Frence"]), 2, "France"),
        (ask(run(), &[&borders[..], &["--candidates", &nothing]].concat()), 1, "no candidate"),
        (ask(run(), &[&borders[..], &["--with", &nothing]].concat()), 1, "nothing.txt"),
        (ask(run(), &["--queries", &foreign, "--out", "/nowhere/x.tsv"]), 1, "/nowhere/x.tsv"),
    ] {
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{say}: {said}");
        assert!(said.contains(say), "{say}: {said}");
    }
}

#[test]
fn flags_of_many_questions_beside_one() {
    let folder = tempfile::tempdir().expect("folder");
    let out = folder.path().join("out.tsv").to_string_lossy().into_owned();
    let one = ["predict", run(), "--head", "France", "--relation", "borders"];
    for more in [&["--out", &out][..], &["--to", "jsonl"], &["--lenient"]] {
        let output = ruge(&[&one[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(stderr(&output).contains(&format!("{} belongs to --queries", more[0])), "{}", stderr(&output));
    }
    assert!(!Path::new(&out).exists());
}

#[test]
fn nothing_that_is_read_is_written_over() {
    let folder = tempfile::tempdir().expect("folder");
    let questions = write(&folder, "q.tsv", "France\tborders\t?\n");
    let rules = write(&folder, "r.tsv", "borders(x,y) => borders(y,x)  0.9\n");
    let model = Path::new(run()).join("model.safetensors").to_string_lossy().into_owned();
    let before = std::fs::read(&model).expect("there");
    let explain = ["explain", run(), "France", "borders", "Spain", "--force", "--rules", &rules, "--svg"];
    for (args, out) in [
        (&["predict", run(), "--queries", &questions, "--force", "--out"][..], &questions),
        (&["predict", run(), "--queries", &questions, "--force", "--out"], &model),
        (&["complete", run(), "--rules", &rules, "--force", "--out"], &rules),
        (&["complete", run(), "--format", "nt", "--force", "--out"], &model),
        (&explain, &rules),
    ] {
        let output = ruge(&[args, &[out]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("would overwrite this input file"), "{}", stderr(&output));
    }
    assert!(before == std::fs::read(&model).expect("there"), "the model was changed");
    assert_eq!(std::fs::read_to_string(&questions).expect("there"), "France\tborders\t?\n");
}

/// Held-out triples of the embedded graph with another tail, none of them a fact.
fn negatives(folder: &Path, run: &str) {
    let questions = folder.join("q.tsv");
    for (split, shift) in [("valid", 0), ("test", 1)] {
        let countries = ["France", "Spain", "Chile", "Japan", "Kenya", "Canada", "Norway", "Peru", "India", "Egypt"];
        let lines: Vec<String> =
            countries.iter().skip(shift).step_by(2).map(|x| format!("{x}\tborders\t?\n")).collect();
        std::fs::write(&questions, lines.concat()).expect("written");
        let args = ["predict", run, "--new", "--top", "4", "--queries", questions.to_str().unwrap()];
        let table = stdout(ruge(&args));
        let triples: String = table
            .lines()
            .skip(1)
            .map(|line| line.split('\t').skip(2).take(3).collect::<Vec<_>>().join("\t") + "\n")
            .collect();
        std::fs::write(folder.join(format!("{split}_negatives.txt")), triples).expect("written");
    }
}

#[test]
fn facts_are_told_from_negatives() {
    let folder = tempfile::tempdir().expect("folder");
    negatives(folder.path(), run());
    let path = folder.path().to_string_lossy();
    let found = json(&["eval", run(), "--classify", &path, "--json"]);
    for key in ["accuracy", "f1", "auc_pr", "brier", "precision", "recall"] {
        assert!((0.0..=1.0).contains(&found[key].as_f64().unwrap()), "{key}: {found}");
    }
    assert_eq!(found["negatives"], 20);
    assert_eq!(found["by_relation"]["borders"]["negatives"], 20);
    let file = folder.path().join("test_negatives.txt");
    assert_eq!(json(&["eval", run(), "--classify", file.to_str().unwrap(), "--json"]), found);
    let text = stdout(ruge(&["eval", run(), "--classify", &path]));
    assert!(text.contains("AUC-PR") && text.contains("borders"), "{text}");

    let check = |negatives: PathBuf, code: i32, say: &str| {
        let output = ruge(&["eval", run(), "--classify", negatives.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(say), "{}", stderr(&output));
    };
    check(folder.path().join("nowhere"), 1, "nowhere");
    check(folder.path().join("valid_negatives.txt"), 1, "valid_negatives.txt is needed");
    std::fs::write(&file, "Frence\tborders\tSpain\n").expect("written");
    check(file.clone(), 1, "test_negatives.txt:1");
    std::fs::remove_file(&file).expect("removed");
    check(folder.path().to_path_buf(), 1, "it needs both");
}
