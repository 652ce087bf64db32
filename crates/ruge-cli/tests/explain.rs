//! `ruge explain`, `ruge complete` and `ruge rules consistency` as a user types them.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::support::{ruge, stderr, text};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    crate::support::json(&[args, &["--json"]].concat())
}

/// A folder with a quick guided run, its unguided twin where a run keeps it, and a plain one; trained once.
fn runs() -> &'static PathBuf {
    static RUNS: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = RUNS.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_path_buf();
        for (name, guidance) in [("guided", "ruge"), ("guided/unguided", "none")] {
            let out = path.join(name).to_string_lossy().into_owned();
            let args = ["train", "demo", "--dim", "16", "--epochs", "30", "--guidance", guidance, "--out", &out];
            text(&args);
        }
        (folder, path)
    });
    path
}

fn run(name: &str) -> String {
    runs().join(name).to_string_lossy().into_owned()
}

/// Rules that rank tell entities apart, and reasons are theirs: nothing speaks for what no rule reaches.
#[test]
fn reasons_are_those_the_model_ranks_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("rules").to_string_lossy().into_owned();
    text(&["train", "demo", "--model", "rules", "--out", &out]);
    let itself = json(&["explain", &out, "France", "borders", "France"]);
    let parts = |of: &Value, kind: &str| -> usize {
        let all = of["parts"].as_array().expect("parts");
        let sum: f64 = all.iter().map(|part| part["value"].as_f64().expect("a value")).sum();
        assert!((sum - of["score"].as_f64().expect("a score")).abs() < 1e-4, "{of}");
        all.iter().filter(|part| part["kind"] == kind).count()
    };
    assert_eq!((parts(&itself, "rule"), itself["rules"].as_array().map(Vec::len)), (0, Some(0)), "{itself}");
    let other = json(&["explain", &out, "France", "borders", "Spain"]);
    assert!(parts(&other, "rule") > 0 && !other["rules"].as_array().expect("rules").is_empty(), "{other}");
    assert!(other["score"].as_f64() > itself["score"].as_f64(), "{other}");
    for grounding in other["groundings"].as_array().expect("groundings") {
        let premises = grounding["premises"].as_array().expect("premises");
        let named = premises.iter().flat_map(|premise| [&premise["head"], &premise["tail"]]);
        let entities: std::collections::BTreeSet<String> = named.map(Value::to_string).collect();
        let ends =
            entities.len() + ["France", "Spain"].iter().filter(|name| !entities.contains(&format!("{name:?}"))).count();
        let rule = grounding["rule"].as_str().expect("a rule");
        let variables = ["x", "y", "z", "u", "v", "w"]
            .iter()
            .filter(|v| rule.contains(&format!("({v},")) || rule.contains(&format!(",{v})")));
        assert!(ends >= variables.count(), "{grounding}");
    }
}

#[test]
fn a_fact_is_explained_in_text_json_dot_and_svg() {
    let model = run("guided");
    let fact = ["Paris", "in_continent", "Europe"];
    let all = [&["explain", &model][..], &fact].concat();
    let found = json(&all);
    for key in ["truth", "rank", "head_rank", "groundings", "rules", "seconds", "soft_label", "known"] {
        assert!(!found[key].is_null(), "{key}: {found}");
    }
    let grounding = &found["groundings"][0];
    assert!(grounding["rule"].as_str().unwrap().contains("⇒ in_continent(x,"), "{grounding}");
    assert!(grounding["confidence"].as_f64().unwrap() >= 0.8);
    assert!(grounding["premises"][0]["head"].is_string());
    let said = text(&all);
    assert!(said.starts_with("Paris  in_continent  Europe\n"), "{said}");
    for words in ["truth", "confidence", "since", "moves the soft label by", "Soft label"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 140), "{said}");
    let one = json(&[&all[..], &["--groundings", "1"]].concat());
    assert_eq!(one["groundings"].as_array().unwrap().len(), one["rules"].as_array().unwrap().len());
    assert_eq!(one["grounding_count"], found["grounding_count"]);

    let dot = text(&[&all[..], &["--dot"]].concat());
    assert!(dot.starts_with("digraph evidence {") && dot.contains("\"Paris\" -> \"Europe\""), "{dot}");
    let svg = runs().join("why.svg").to_string_lossy().into_owned();
    text(&[&all[..], &["--svg", &svg]].concat());
    let drawn = std::fs::read_to_string(&svg).expect("an SVG");
    assert!(drawn.starts_with("<svg ") && drawn.trim_end().ends_with("</svg>"));
    let again = ruge(&[&all[..], &["--svg", &svg]].concat());
    assert!(again.status.code() == Some(1) && stderr(&again).contains("--force"), "{}", stderr(&again));
    std::fs::write(&svg, "mine").unwrap();
    text(&[&all[..], &["--svg", &svg, "--force"]].concat());
    assert_eq!(std::fs::read_to_string(&svg).unwrap(), drawn);
}

#[test]
fn silence_is_said_and_rules_can_be_lent() {
    let plain = run("guided/unguided");
    let fact = ["explain", &plain, "Paris", "in_continent", "Europe"];
    let found = json(&fact);
    assert_eq!(found["groundings"], Value::Array(vec![]));
    assert!(found["sentence"].as_str().unwrap().contains("No rule concludes"), "{found}");
    assert_eq!(found["similar"].as_array().unwrap().len(), 5);
    assert!(text(&fact).contains("The most similar known facts"));
    let rules = run("guided/rules.tsv");
    let lent = json(&[&fact[..], &["--rules", &rules]].concat());
    assert!(!lent["groundings"].as_array().unwrap().is_empty());
    assert!(lent["soft_label"].is_null(), "no label was made of lent rules");
}

#[test]
fn new_facts_are_proposed_in_every_format() {
    let model = run("guided");
    let found = json(&["complete", &model, "--top", "40"]);
    let facts = found["facts"].as_array().expect("facts");
    assert_eq!(facts.len(), 40);
    for fact in facts {
        for key in ["head", "relation", "tail", "truth", "rules"] {
            assert!(!fact[key].is_null(), "{key}: {fact}");
        }
    }
    let said = text(&["complete", &model, "--top", "40"]);
    assert!(said.contains(facts[0]["head"].as_str().unwrap()) && said.contains("not listed is true"), "{said}");
    let one = json(&["complete", &model, "--relation", "borders", "--top", "10"]);
    assert!(one["facts"].as_array().unwrap().iter().all(|fact| fact["relation"] == "borders"));

    let lines = text(&["complete", &model, "--top", "40", "--format", "jsonl"]);
    let parsed: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(&parsed, facts);
    let tsv = runs().join("new.tsv").to_string_lossy().into_owned();
    text(&["complete", &model, "--top", "40", "--out", &tsv]);
    let table = std::fs::read_to_string(&tsv).unwrap();
    assert_eq!(table.lines().count(), 41, "a header and forty facts");
    let cells: Vec<&str> = table.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!((cells.len(), cells[0]), (5, facts[0]["head"].as_str().unwrap()));
    // What is written can be read: by its columns, and as N-Triples.
    let read = json(&["check", &tsv, "--columns", "hrt--"]);
    assert_eq!(read["train"].as_u64().unwrap() + read["valid"].as_u64().unwrap() + read["test"].as_u64().unwrap(), 40);
    let nt = runs().join("new.nt").to_string_lossy().into_owned();
    let done = json(&["complete", &model, "--top", "40", "--out", &nt]);
    assert_eq!(done["facts"].as_array().unwrap().len(), 40);
    let triples = std::fs::read_to_string(&nt).unwrap();
    let (remark, rest) = triples.split_once('\n').unwrap();
    assert!(remark.starts_with("# Truth is the estimated chance"), "{remark}");
    assert!(rest.lines().count() == 40 && rest.lines().all(|line| line.ends_with(" .")), "{triples}");
    let read = json(&["check", &nt]);
    assert_eq!(read["train"].as_u64().unwrap() + read["valid"].as_u64().unwrap() + read["test"].as_u64().unwrap(), 40);

    let csv = text(&["complete", &model, "--top", "40", "--to", "csv"]);
    assert!(csv.starts_with("head,relation,tail,truth,rules\r\n") && csv.lines().count() == 41, "{csv}");
    let ttl = runs().join("new.ttl").to_string_lossy().into_owned();
    text(&["complete", &model, "--top", "40", "--base", "http://example.org/id/", "--out", &ttl]);
    let star = std::fs::read_to_string(&ttl).unwrap();
    assert!(star.starts_with("# Truth is"), "{star}");
    assert!(star.lines().skip(1).all(|line| line.starts_with("<< <http://example.org/id/")), "{star}");
    assert!(star.contains(" >> <urn:x-ruge:truth> 0."), "{star}");
    let cypher = text(&["complete", &model, "--top", "40", "--to", "cypher"]);
    assert!(cypher.starts_with("// Truth is"), "{cypher}");
    assert!(
        cypher.lines().skip(1).all(|line| line.starts_with("MERGE (h:Entity {name: '") && line.ends_with("];")),
        "{cypher}"
    );

    let measured = json(&["complete", &model, "--measure"]);
    assert!(measured["ece"].as_f64().unwrap() <= 0.05, "{measured}");
    assert!(measured["sentence"].as_str().unwrap().contains("nobody listed count as wrong"));
    assert_eq!(measured["all"]["curve"].as_array().unwrap().len(), 10);
}

#[test]
fn a_model_is_compared_with_its_rules_and_its_twin() {
    let found = json(&["rules", "consistency", &run("guided")]);
    for key in ["groundings", "model", "unguided", "rules", "definition", "doubtful"] {
        assert!(!found[key].is_null(), "{key}: {found}");
    }
    let share = |key: &str| found[key]["share"].as_f64().unwrap();
    assert!(share("model") > share("unguided"), "{} and {}", found["model"], found["unguided"]);
    assert!(found["doubtful"]["criterion"].is_string() && found["doubtful"]["triples"].is_array());
    assert!(found["violations"].is_null());
    let laws = runs().join("laws.txt").to_string_lossy().into_owned();
    std::fs::write(&laws, "functional borders\n").unwrap();
    let found = json(&["rules", "consistency", &run("guided"), "--constraints", &laws]);
    assert!(found["violations"].as_array().unwrap().len() > 100, "{}", found["violations"]);
    let said = text(&["rules", "consistency", &run("guided/model.safetensors"), "--top", "3", "--constraints", &laws]);
    assert!(said.contains("Facts that violate a constraint") && said.contains("borders is functional"), "{said}");
    assert!(said.contains("without guidance") && said.contains("more rules"), "{said}");
}

#[test]
fn what_can_go_wrong() {
    let model = run("guided");
    let plain = run("guided/unguided");
    let foreign = runs().join("foreign.safetensors").to_string_lossy().into_owned();
    std::fs::write(&foreign, "no model at all").unwrap();
    let there = runs().join("there.tsv").to_string_lossy().into_owned();
    std::fs::write(&there, "mine\n").unwrap();
    let nowhere = runs().join("no/such/folder/new.tsv").to_string_lossy().into_owned();
    let nowhere_svg = runs().join("no/such/folder/why.svg").to_string_lossy().into_owned();
    for (args, code, say) in [
        (vec!["explain", &model, "Pariss", "in_continent", "Europe"], 2, "did you mean \"Paris\""),
        (vec!["explain", &model, "Paris", "on_continent", "Europe"], 2, "in_continent"),
        (vec!["explain", &model, "Paris", "in_continent"], 2, "<T>"),
        (vec!["explain", &foreign, "Paris", "in_continent", "Europe"], 1, "not a usable model file"),
        (vec!["explain", "nothing-here", "Paris", "in_continent", "Europe"], 1, "nothing-here"),
        (vec!["explain", &model, "Paris", "in_continent", "Europe", "--rules", "none.tsv"], 1, "none.tsv"),
        (vec!["explain", &model, "Paris", "in_continent", "Europe", "--svg", &nowhere_svg], 1, "cannot write"),
        (vec!["explain", &model, "Paris", "in_continent", "Europe", "--dot", "--json"], 2, "cannot be used with"),
        (vec!["complete", &model, "--relation", "border"], 2, "borders"),
        (vec!["complete", &model, "--min-truth", "1.5"], 2, "from 0 to 1"),
        (vec!["complete", &model, "--per-query", "0"], 2, "per-query"),
        (vec!["complete", &model, "--top", "0"], 2, "at least 1"),
        (vec!["complete", &model, "--out", &there], 1, "--force"),
        (vec!["complete", &model, "--out", "new.xyz"], 2, "--to"),
        (vec!["complete", &model, "--to", "nt", "--base", "no iri"], 2, "absolute IRI"),
        (vec!["complete", &model, "--top", "5", "--out", &nowhere], 1, "cannot write"),
        (vec!["complete", &foreign], 1, "not a usable model file"),
        (vec!["complete", &model, "--measure", "--top", "3"], 2, "cannot be used with"),
        (vec!["rules", "consistency", &plain], 1, "--rules FILE"),
        (vec!["rules", "consistency", &foreign], 1, "not a usable model file"),
    ] {
        let output = ruge(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(say), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "mine\n", "nothing was overwritten");
    // More answers than there are entities is no mistake.
    let families = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/families");
    let small = run("families");
    text(&["train", families, "--dim", "4", "--epochs", "2", "--out", &small]);
    let many = ruge(&["complete", &small, "--per-query", "1000", "--top", "100000"]);
    assert!(many.status.success() && stderr(&many).contains("not 1000"), "{}", stderr(&many));
}
