//! A graph with other entities, answered by rules learned elsewhere, as a user types it.

use std::fmt::Write as _;
use std::path::Path;

use crate::support::{json, ruge, stderr, text};

/// Families: a parent of a parent is a grandparent. Names begin with `name`; `lacking` families miss that fact in train.
fn family(folder: &Path, name: &str, size: usize, lacking: usize, more: &str) {
    std::fs::create_dir_all(folder).expect("folder");
    let (mut train, mut valid, mut test) = (more.to_string(), String::new(), String::new());
    for at in 0..size {
        let _ = writeln!(train, "{name}a{at}\tparent\t{name}b{at}\n{name}b{at}\tparent\t{name}c{at}");
        let fact = format!("{name}a{at}\tgrandparent\t{name}c{at}");
        let split = match at {
            _ if at >= lacking => &mut train,
            _ if at % 2 == 0 => &mut valid,
            _ => &mut test,
        };
        let _ = writeln!(split, "{fact}");
    }
    for (split, text) in [("train.txt", train), ("valid.txt", valid), ("test.txt", test)] {
        std::fs::write(folder.join(split), text).expect("written");
    }
}

#[test]
fn rules_answer_on_a_graph_they_have_never_seen() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    family(&folder.path().join("old"), "o", 40, 10, "");
    family(&folder.path().join("new"), "n", 20, 8, "na0\tlikes\tnb1\nna1\tlikes\tnb2\n");
    let train = ["train", &path("old"), "--model", "rules", "--mine", "inductive", "--out", &path("model"), "--json"];
    assert!(json(&train)["rules"].as_u64() > Some(0));

    let there = json(&["eval", &path("model"), "--graph", &path("new"), "--json"]);
    assert_eq!(there["mrr"], 1.0, "{there}");
    assert_eq!((&there["hits10_of_50"], &there["queries"]), (&1.0.into(), &8.into()), "{there}");
    assert!(there["pagerank"]["mrr"].as_f64() < Some(1.0), "{there}");
    let shown = ruge(&["eval", &path("model"), "--graph", &path("new")]);
    let (out, notes) = (String::from_utf8_lossy(&shown.stdout).into_owned(), stderr(&shown));
    assert!(out.contains("PageRank") && out.contains("Hits@10 among 50"), "{out}");
    assert!(notes.contains("2 facts are ignored") && notes.contains("\"likes\""), "{notes}");
    let valid = json(&["eval", &path("model"), "--graph", &path("new"), "--split", "valid", "--json"]);
    assert_eq!(valid["mrr"], 1.0, "{valid}");

    let asked = ["--head", "na1", "--relation", "grandparent", "--graph", &path("new"), "--json"];
    let answers = json(&[&["predict", &path("model")][..], &asked].concat());
    assert_eq!(answers["answers"][0]["entity"], "nc1", "{answers}");
    let why = text(&["explain", &path("model"), "na1", "grandparent", "nc1", "--graph", &path("new")]);
    assert!(why.contains("parent") && why.contains("nb1"), "{why}");
    let found = json(&["complete", &path("model"), "--graph", &path("new"), "--top", "5", "--json"]);
    assert!(found["candidates"].as_u64() > Some(0), "{found}");
}

#[test]
fn what_a_model_cannot_know_is_said() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    family(&folder.path().join("old"), "o", 40, 10, "");
    family(&folder.path().join("new"), "n", 20, 8, "");
    json(&["train", &path("old"), "--model", "rules", "--mine", "inductive", "--out", &path("model"), "--json"]);
    let refused = |arguments: &[&str]| {
        let run = ruge(arguments);
        assert!(matches!(run.status.code(), Some(1 | 2)), "{arguments:?}: {}", stderr(&run));
        stderr(&run)
    };
    let model = path("model");
    let new = path("new");
    let unknown = refused(&["predict", &model, "--graph", &new, "--head", "na1", "--relation", "grandparents"]);
    assert!(unknown.contains("did you mean \"grandparent\""), "{unknown}");
    let unknown = refused(&["explain", &model, "oa1", "grandparent", "nc1", "--graph", &new]);
    assert!(unknown.contains("oa1"), "{unknown}");
    let unknown = refused(&["complete", &model, "--graph", &new, "--relation", "parant"]);
    assert!(unknown.contains("did you mean"), "{unknown}");

    // A question about a relation that the model does not know, and one about an entity without facts.
    let test = folder.path().join("new/test.txt");
    std::fs::write(&test, "na1\tgrandparents\tnc1\n").expect("written");
    let unknown = refused(&["eval", &model, "--graph", &new]);
    assert!(unknown.contains("1 of 1 test triples") && unknown.contains("did you mean \"grandparent\""), "{unknown}");
    std::fs::write(&test, "na1\tgrandparent\tstranger\n").expect("written");
    let run = ruge(&["eval", &model, "--graph", &new]);
    assert!(run.status.success() && stderr(&run).contains("no rule reaches it"), "{}", stderr(&run));

    // An embedding has nothing to say about other entities.
    json(&["train", &path("old"), "--dim", "4", "--epochs", "2", "--out", &path("plain"), "--json"]);
    let plain = refused(&["eval", &path("plain"), "--graph", &new]);
    assert!(plain.contains("remedy") && plain.contains("model.name (--model) rules"), "{plain}");
    assert_eq!(ruge(&["eval", &model, &new, "--graph", &new]).status.code(), Some(2), "one or the other");
}
