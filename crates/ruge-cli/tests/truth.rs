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
    let relations = completed["completeness_by_relation"].as_array().expect("relations");
    assert!(relations.len() > 5, "{completed}");
    for of in relations {
        let [low, share, high] = ["low", "share", "high"].map(|key| of[key].as_f64().expect("a number"));
        assert!(0.0 < low && low <= share && share <= high && high < 1.0, "{of}");
    }
    for fact in facts {
        let [head, relation, tail] = ["head", "relation", "tail"].map(|key| fact[key].as_str().expect("a name"));
        let asked = json(&["explain", &run, head, relation, tail, "--side", "head", "--json"]);
        let sum: f64 = asked["parts"].as_array().unwrap().iter().map(|part| part["value"].as_f64().unwrap()).sum();
        assert!((sum - asked["score"].as_f64().unwrap()).abs() < 1e-4, "{asked}");
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
    assert!(second["assumes"].as_str().is_some_and(|text| text.contains("of the true facts are listed")), "{second}");
    assert!(second["completeness"]["share"].as_f64().is_some_and(|share| share >= 0.5), "{second}");
    std::fs::write(path("laws.txt"), "functional\tcapital_of\ninverse-functional\tcapital_of\n").expect("written");
    let told = json(&["explain", &run, "Espoo", "capital_of", "Finland", "--constraints", &path("laws.txt"), "--json"]);
    assert_eq!(told["truth"], 0.0, "{told}");
}

/// What a user tells a run: applied to what it proposes and shows, kept for later, and no reason to train again.
#[test]
fn a_run_is_told_what_the_user_knows() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = path("run");
    let quick = ["run", "demo", "--dim", "16", "--epochs", "20", "--validate-every", "10", "--sample", "200"];
    let go = |more: &[&str]| json(&[&quick[..], &["--out", &run, "--json"], more].concat());
    let page = || std::fs::read_to_string(path("run/report.html")).expect("a report");
    let model = || std::fs::read(path("run/model.safetensors")).expect("a model");
    let ready = |told: &serde_json::Value| told["assumes"].as_str().expect("a sentence").to_string();
    // Nothing is trained for a number that cannot be.
    let refused = ruge(&[&quick[..], &["--out", &run, "--completeness", "1.5"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let refused = ruge(&[&quick[..], &["--out", &run, "--feedback", &path("nowhere.tsv")]].concat());
    assert!(!refused.status.success() && !stderr(&refused).contains("train-unguided"), "{}", stderr(&refused));

    let first = go(&["--completeness", "0.6"]);
    assert!(ready(&first).contains("60 % of the true facts are listed, as given"), "{first}");
    assert!(page().contains("60 % of the true facts are listed, as given"), "the report says so");
    let before = model();
    let same = |told: &serde_json::Value, flags: &[&str]| {
        let kept = std::fs::read_to_string(path("run/proposals.json")).expect("proposals");
        let kept: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
        let asked = json(&[&["complete", &run, "--min-truth", "0.1", "--json"][..], flags].concat());
        let list = |object: &serde_json::Value| -> Vec<(String, String)> {
            let facts = object["facts"].as_array().expect("facts").iter();
            let name = |fact: &serde_json::Value| format!("{} {} {}", fact["head"], fact["relation"], fact["tail"]);
            let mut all: Vec<_> = facts.map(|fact| (name(fact), fact["truth"].to_string())).collect();
            all.sort();
            all
        };
        assert_eq!(list(&kept), list(&asked), "{flags:?}");
        assert_eq!(told["proposals"]["count"], list(&kept).len());
        list(&kept)
    };
    let many = same(&first, &["--completeness", "0.6"]);
    // The next command is told something else: what it says of new facts is made again, and nothing is trained.
    let judged =
        first["predictions"].as_array().unwrap().iter().find(|sample| sample["standing"] == "new").expect("one");
    let judged = ["head", "relation", "tail"].map(|key| judged["explanation"][key].as_str().unwrap().to_string());
    std::fs::write(path("judged.tsv"), format!("{}\ttrue\n", judged.join("\t"))).expect("written");
    std::fs::write(path("laws.txt"), "functional\tcapital_of\n").expect("written");
    let (feedback, laws) = (path("judged.tsv"), path("laws.txt"));
    let flags = ["--completeness", "0.95", "--feedback", &feedback, "--constraints", &laws];
    let output = ruge(&[&quick[..], &["--out", &run], &flags].concat());
    let said = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success() && said.matches("(finished before)").count() == 10, "{said}");
    assert!(model() == before, "nothing is trained again");
    let second = go(&flags);
    for part in ["95 % of the true facts are listed, as given", "violates a given constraint", "corrected by 1 judged"]
    {
        assert!(ready(&second).contains(part) && page().contains(part), "{part}: {second}");
    }
    let few = same(&second, &flags);
    assert!(few.len() < many.len(), "{} and {}", few.len(), many.len());
    let name = judged.map(|name| format!("{name:?}")).join(" ");
    assert!(many.iter().any(|(fact, _)| *fact == name) && few.iter().all(|(fact, _)| *fact != name), "{name}");
    // What was told is kept for --resume; other content of the same file is noticed.
    let resumed = json(&["run", "demo", "--out", &run, "--resume", "--json"]);
    assert_eq!(ready(&resumed), ready(&second));
    std::fs::write(path("judged.tsv"), "").expect("written");
    let resumed = json(&["run", "demo", "--out", &run, "--resume", "--json"]);
    assert!(!ready(&resumed).contains("judged"), "{resumed}");
    // A held-out fact that is shown is known, and has no chance.
    for sample in resumed["predictions"].as_array().unwrap().iter().filter(|sample| sample["standing"] == "in-test") {
        assert_eq!(sample["truth"], 1.0, "{sample}");
        assert!(sample["explanation"]["estimate"].as_f64().is_some_and(|chance| chance < 1.0), "{sample}");
    }
}
