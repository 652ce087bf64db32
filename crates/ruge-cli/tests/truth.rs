//! Truth as a user meets it: one number in every command, moved by what the user says, and reasons that sum up to the score.

use crate::support::{json, ruge, stderr};

#[test]
fn a_new_fact_has_one_truth_and_its_reasons_sum_up() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = path("run");
    let quick = ["--dim", "16", "--epochs", "20", "--validate-every", "10", "--sample", "200", "--samples", "2"];
    let told = json(&[&["run", "demo", "--out", &run, "--json"][..], &quick].concat());

    // The model to deploy knows every listed fact, and nothing listed is proposed.
    let completed = json(&["complete", &run, "--min-truth", "0.05", "--top", "12", "--json"]);
    let facts = completed["facts"].as_array().expect("facts");
    assert!(facts.len() >= 5, "{completed}");
    assert!(
        completed["assumes"].as_str().is_some_and(|text| text.contains("of the true facts are listed")),
        "{completed}"
    );
    for fact in facts {
        let [head, relation, tail] = ["head", "relation", "tail"].map(|key| fact[key].as_str().expect("a name"));
        let why = json(&["explain", &run, head, relation, tail, "--json"]);
        assert_eq!((&why["truth"], &why["known"]), (&fact["truth"], &serde_json::Value::Null), "{why}");
        let parts: f64 = why["parts"].as_array().unwrap().iter().map(|part| part["value"].as_f64().unwrap()).sum();
        assert!((parts - why["score"].as_f64().unwrap()).abs() < 1e-4, "{why}");
        let asked = json(&["predict", &run, "--head", head, "--relation", relation, "--top", "3000", "--json"]);
        let answer = asked["answers"].as_array().unwrap().iter().find(|answer| answer["entity"] == tail).expect(tail);
        assert_eq!(answer["truth"], fact["truth"], "{answer}");
    }
    for sample in told["predictions"].as_array().unwrap().iter().filter(|sample| sample["standing"] == "new") {
        assert_eq!(sample["truth"], sample["explanation"]["truth"], "{sample}");
    }

    // Held-out facts are known to it, so they are no questions for it; the evaluated model ranks them.
    let model = path("run/model.safetensors");
    let refused = ruge(&["eval", &model]);
    assert!(!refused.status.success() && stderr(&refused).contains("evaluated"), "{}", stderr(&refused));
    assert_eq!(json(&["eval", &run, "--json"])["ranks_sha256"], told["with_rules"]["ranks_sha256"]);

    // The fewer of the true facts are listed, the truer is what is missing.
    let truth = |more: &[&str]| {
        let first = &facts[0];
        let [head, relation, tail] = ["head", "relation", "tail"].map(|key| first[key].as_str().unwrap());
        let asked = json(&[&["explain", &run, head, relation, tail, "--json"][..], more].concat());
        asked["truth"].as_f64().unwrap()
    };
    let all = json(&["complete", &run, "--min-truth", "0.05", "--json"]);
    let last = all["facts"].as_array().unwrap().last().expect("a fact");
    let of_last = |more: &[&str]| {
        let [head, relation, tail] = ["head", "relation", "tail"].map(|key| last[key].as_str().unwrap());
        json(&[&["explain", &run, head, relation, tail, "--json"][..], more].concat())["truth"].as_f64().unwrap()
    };
    let (half, most) = (of_last(&["--completeness", "0.5"]), of_last(&["--completeness", "0.95"]));
    assert!(half > most, "{half} and {most}: {last}");
    let nonsense = ruge(&["complete", &run, "--completeness", "1.2"]);
    assert_eq!(nonsense.status.code(), Some(2), "{}", stderr(&nonsense));

    // Judged facts: the rest moves to where the judge is, and what was judged is not proposed again.
    let line = |fact: &serde_json::Value, holds: bool| {
        format!(
            "{}\t{}\t{}\t{holds}\n",
            fact["head"].as_str().unwrap(),
            fact["relation"].as_str().unwrap(),
            fact["tail"].as_str().unwrap()
        )
    };
    let wrong: String = facts[1..].iter().map(|fact| line(fact, false)).collect();
    std::fs::write(path("judged.tsv"), wrong).expect("written");
    assert!(truth(&["--feedback", &path("judged.tsv")]) < truth(&[]), "all others were judged false");
    let again = json(&["complete", &run, "--min-truth", "0.01", "--feedback", &path("judged.tsv"), "--json"]);
    let proposed = again["facts"].as_array().unwrap();
    assert!(facts[1..].iter().all(|fact| proposed.iter().all(|other| (
        &other["head"],
        &other["relation"],
        &other["tail"]
    ) != (
        &fact["head"],
        &fact["relation"],
        &fact["tail"]
    ))));
    std::fs::write(path("judged.tsv"), "Espoo\tcapital_of\tFinland\tperhaps\n").expect("written");
    let bad = ruge(&["complete", &run, "--feedback", &path("judged.tsv")]);
    assert!(!bad.status.success() && stderr(&bad).contains("judged.tsv:1"), "{}", stderr(&bad));

    // A second value of a function is not a likely fact, and the reason is given.
    let second = json(&["explain", &run, "Espoo", "capital_of", "Finland", "--json"]);
    assert!(second["truth"].as_f64().unwrap() < 0.1, "{second}");
    assert!(second["against"].to_string().contains("Helsinki"), "{second}");
    std::fs::write(path("laws.txt"), "functional\tcapital_of\ninverse-functional\tcapital_of\n").expect("written");
    let told = json(&["explain", &run, "Espoo", "capital_of", "Finland", "--constraints", &path("laws.txt"), "--json"]);
    assert_eq!(told["truth"], 0.0, "{told}");
}
