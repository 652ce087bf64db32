//! `ruge eval --queries` as a user types it: a sample of the queries, ranked exactly.

use crate::support::{json, ruge, stderr, text};

#[test]
fn a_sample_is_ranked_exactly_and_says_how_sure_it_is() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let model = path("rules");
    json(&["train", "demo", "--model", "rules", "--out", &model, "--json"]);
    let all = json(&["eval", &model, "--split", "train", "--json"]);
    assert!(all["sample"].is_null(), "{all}");
    let (of, mrr) = (all["queries"].as_u64().expect("a number"), all["mrr"].as_f64().expect("a number"));
    let ask = ["eval", &model, "--split", "train", "--queries", "300", "--seed", "7", "--by-relation", "--json"];
    let found = json(&ask);
    let sample = &found["sample"];
    assert_eq!((&found["queries"], &sample["queries"], &sample["of"]), (&300.into(), &300.into(), &of.into()));
    assert_eq!(sample["seed"], 7);
    let end = |at: usize| sample["mrr"][at].as_f64().expect("a number");
    assert!(0.0 < end(0) && end(0) < end(1) && end(1) <= 1.0, "{sample}");
    let middle = found["mrr"].as_f64().expect("a number");
    assert!(end(0) < middle && middle <= end(1), "{found}");
    assert!((end(0)..=end(1)).contains(&mrr), "{mrr}: {sample}");
    assert_eq!(sample["hits"].as_object().map(|hits| hits.len()), Some(4), "{sample}");
    let relations = found["by_relation"].as_object().expect("relations");
    assert!(relations.values().all(|row| row["of"].as_u64() >= row["queries"].as_u64()), "{relations:?}");
    // The same draws, on any number of threads; another seed draws others.
    let one = json(&[&ask[..], &["--threads", "1"]].concat());
    assert_eq!((&one["ranks_sha256"], &one["sample"]), (&found["ranks_sha256"], sample));
    let other = json(&["eval", &model, "--split", "train", "--queries", "300", "--seed", "8", "--json"]);
    assert_ne!(other["ranks_sha256"], found["ranks_sha256"]);

    let shown = text(&["eval", &model, "--split", "train", "--queries", "300", "--by-relation"]);
    assert!(shown.contains(" (95 %, 300 of ") && shown.contains("±0."), "{shown}");
    assert!(shown.contains("of the drawn queries alone"), "{shown}");
    // As many as there are, or more: all of them, exact.
    let exact = json(&["eval", &model, "--split", "train", "--queries", &of.to_string(), "--json"]);
    assert_eq!((&exact["sample"], &exact["ranks_sha256"]), (&serde_json::Value::Null, &all["ranks_sha256"]));
}

#[test]
fn questions_about_another_graph_are_sampled_too() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    // Every capital_of is a has_capital the other way round; the new graph has the first of them in train.
    for (name, size) in [("old", 40), ("new", 30)] {
        std::fs::create_dir(folder.path().join(name)).expect("folder");
        let (mut train, mut valid, mut test) = (String::new(), String::new(), String::new());
        for at in 0..size {
            train += &format!("{name}c{at}\tcapital_of\t{name}x{at}\n");
            let split = match (name, at) {
                ("new", _) => &mut test,
                (_, ..6) => &mut valid,
                _ => &mut train,
            };
            *split += &format!("{name}x{at}\thas_capital\t{name}c{at}\n");
        }
        for (split, text) in [("train.txt", train), ("valid.txt", valid), ("test.txt", test)] {
            std::fs::write(folder.path().join(name).join(split), text).expect("written");
        }
    }
    json(&["train", &path("old"), "--model", "rules", "--mine", "inductive", "--out", &path("model"), "--json"]);
    let found = json(&["eval", &path("model"), "--graph", &path("new"), "--queries", "20", "--json"]);
    assert_eq!((&found["sample"]["of"], &found["sample"]["queries"]), (&60.into(), &20.into()), "{found}");
    assert!(found["hits10_of_50"].as_f64() > Some(0.5), "{found}");
    let shown = text(&["eval", &path("model"), "--graph", &path("new"), "--queries", "20"]);
    assert!(shown.contains("no candidate is sampled"), "{shown}");
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    for (words, refused) in [
        (&["--queries", "0"][..], "--queries"),
        (&["--queries", "10", "--classify", "negatives"][..], "--classify"),
        (&["--seed", "3"][..], "--queries"),
    ] {
        let output = ruge(&[&["eval", "model"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(refused), "{}", stderr(&output));
    }
}
