//! `ruge search` as a user types it: found, killed, resumed, failed and refused, on spaces small enough for seconds.

use std::path::Path;

use crate::support::{json, kill_until_done, ruge, stderr, text};
use serde_json::{Value, json};

const SPACE: &str = r#"
[model]
name = "complex"
dimension = [4, 8, 12]
[optimizer]
entity-rate = { low = 0.05, high = 1.0, scale = "log" }
[batches]
count = 20
[negatives]
count = 2
[schedule]
epochs = 9
validate-every = 1
[search]
method = "tpe"
trials = 10
halving = { first = 1, factor = 3 }
tie = { "optimizer.relation-rate" = "optimizer.entity-rate" }
"#;

struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new(space: &str) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("space.toml"), space).expect("written");
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    fn search(&self, out: &str, more: &[&str]) -> Value {
        json(
            &[&["search", "demo", "--spec", &self.path("space.toml"), "--out", &self.path(out), "--json"], more]
                .concat(),
        )
    }
}

/// All that a search found, without the time it took.
fn found(result: &Value) -> Value {
    let mut trials = result["trials"].clone();
    for trial in trials.as_array_mut().expect("trials") {
        trial["seconds"] = Value::Null;
    }
    json!({"trials": trials, "best_spec": result["best_spec"], "importance": result["importance"], "done": result["done"]})
}

#[test]
fn the_best_is_found_kept_and_can_be_trained_again() {
    let world = World::new(SPACE);
    let result = world.search("a", &[]);
    let trials = result["trials"].as_array().expect("trials");
    assert_eq!((trials.len(), &result["done"], &result["failed"]), (10, &json!(true), &json!(0)));
    let mrr = |trial: &Value| trial["valid_mrr"].as_f64().expect("a figure");
    let best = &result["best"];
    assert!(trials.iter().all(|trial| mrr(trial) <= mrr(best)), "{result}");
    assert!(trials.iter().any(|trial| trial["state"] == "paused" && trial["epochs"] == 1), "most are left behind");
    assert_eq!((&best["state"], &best["epochs"]), (&json!("finished"), &json!(9)));
    assert_eq!(result["best_spec"]["model"]["dimension"], best["leaves"]["model.dimension"]);
    let rates = &result["best_spec"]["optimizer"];
    assert_eq!(rates["entity-rate"], rates["relation-rate"], "they are tied");
    assert!(result["importance"]["optimizer.entity-rate"].is_number());

    // The spec it leaves gives the trial's own figure, though the trial was trained in pieces.
    let again = json(&["train", "demo", "--spec", &world.path("a/best.toml"), "--out", &world.path("again"), "--json"]);
    assert_eq!((&again["valid_mrr"], &again["best_epoch"]), (&best["valid_mrr"], &best["best_epoch"]));
    let run = Path::new(result["run"].as_str().expect("a path")).to_path_buf();
    let model = |folder: &Path| std::fs::read(folder.join("model.safetensors")).expect("a model");
    assert!(model(&run) == model(&world.folder.path().join("again")), "the same bits");
    let kept = std::fs::read_dir(run.parent().expect("trials")).expect("listed").flatten();
    let models = kept.filter(|folder| folder.path().join("model.safetensors").exists()).count();
    assert_eq!(models, 1, "models of the others are dropped");
    let page = std::fs::read_to_string(world.path("a/report.html")).expect("a page");
    for id in ["plot-curves", "plot-importance", "plot-leaf-0", "plot-leaf-1"] {
        assert!(page.contains(&format!("id=\"{id}\"")), "no {id}");
    }

    // Another number of threads changes nothing; another seed does.
    assert_eq!(found(&world.search("b", &["--threads", "1"])), found(&result));
    assert_ne!(found(&world.search("c", &["--seed", "5", "--trials", "3"]))["trials"][0], found(&result)["trials"][0]);

    // More trials go on where it was; the space need not be said again.
    let more = json(&["search", "demo", "--out", &world.path("a"), "--resume", "--trials", "12", "--json"]);
    let (old, new) = (found(&result), found(&more));
    assert_eq!(new["trials"].as_array().expect("trials").len(), 12);
    for (old, new) in old["trials"].as_array().unwrap().iter().zip(new["trials"].as_array().unwrap()) {
        assert_eq!(old["leaves"], new["leaves"]);
    }
    let told = text(&["search", "demo", "--out", &world.path("a"), "--resume"]);
    assert!(told.contains("The best trials") && told.contains("ruge train demo --spec"), "{told}");
}

#[test]
#[cfg(unix)]
fn a_killed_search_ends_as_one_that_was_not() {
    let world = World::new(&SPACE.replace("trials = 10", "trials = 8"));
    let whole = world.search("whole", &[]);
    let space = world.path("space.toml");
    let out = world.path("killed");
    let args = ["search", "demo", "--spec", &space, "--out", &out, "--json", "--checkpoint-every", "0"];
    kill_until_done(&args, &["--resume"]);
    assert_eq!(found(&world.search("killed", &["--resume"])), found(&whole));
}

#[test]
fn trials_that_fail_are_kept_and_the_search_goes_on() {
    // Rates that diverge, and a dimension no spec takes.
    let space =
        SPACE.replace("[4, 8, 12]", "[4, 0]").replace("{ low = 0.05, high = 1.0, scale = \"log\" }", "[0.5, 1e30]");
    let world = World::new(&space.replace("\"tpe\"", "\"grid\"").replace("trials = 10", ""));
    let result = world.search("a", &[]);
    let states: Vec<&str> = result["trials"].as_array().unwrap().iter().map(|t| t["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["finished", "failed", "failed", "failed"], "{result}");
    assert!(result["trials"][1]["error"].as_str().unwrap().contains("diverged"), "{result}");
    assert!(result["trials"][2]["error"].as_str().unwrap().contains("model.dimension is 0"), "{result}");
    assert_eq!((&result["failed"], &result["best"]["trial"]), (&json!(3), &json!(1)));
    let page = std::fs::read_to_string(world.path("a/report.html")).expect("a page");
    assert!(page.contains("id=\"failed\"") && page.contains("diverged"));
    // Where nothing works, that is the result, and an error.
    let world = World::new(&space.replace("[4, 0]", "[0]"));
    let output = ruge(&["search", "demo", "--spec", &world.path("space.toml"), "--out", &world.path("a")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("every trial failed") && stderr(&output).contains("model.dimension is 0"));
}

#[test]
fn guided_trials_share_their_rules_and_time_can_be_up() {
    let space = format!(
        "{}\n[guidance]\nkind = \"ruge\"\nslackness = [0.01, 0.1]\n[rules]\nmin-confidence = [0.0, 0.9]\n",
        SPACE
    )
    .replace("[4, 8, 12]", "4")
    .replace("{ low = 0.05, high = 1.0, scale = \"log\" }", "[0.5, 0.6]")
    .replace("\"tpe\"", "\"sobol\"")
    .replace("trials = 10", "trials = 4");
    let world = World::new(&space);
    let none = world.search("a", &["--minutes", "0"]);
    assert_eq!(
        (&none["done"], &none["time_is_up"], none["trials"].as_array().unwrap().len()),
        (&json!(false), &json!(true), 0)
    );
    let result = world.search("a", &["--resume"]);
    assert_eq!((&result["done"], result["trials"].as_array().unwrap().len()), (&json!(true), 4));
    // What is shared is what each would have made for itself.
    let again = json(&["train", "demo", "--spec", &world.path("a/best.toml"), "--out", &world.path("again"), "--json"]);
    assert_eq!(again["valid_mrr"], result["best"]["valid_mrr"]);
    assert!(again["rules"].as_u64().unwrap() > 0);
}

#[test]
fn mistakes_are_told() {
    let world = World::new(&SPACE.replace("trials = 10", "trials = 1").replace("epochs = 9", "epochs = 1"));
    world.search("run", &[]);
    let (run, new, space) = (world.path("run"), world.path("new"), world.path("space.toml"));
    let write = |name: &str, old: &str, by: &str| {
        std::fs::write(world.path(name), SPACE.replace(old, by)).expect("written");
        world.path(name)
    };
    let (typo, odd, other) = (
        write("typo.toml", "dimension", "dimenson"),
        write("odd.toml", "halving", "halfing"),
        write("other.toml", "low = 0.05", "low = 0.06"),
    );
    let train = world.path("train.tsv");
    let lines: String = (0..100).map(|at| format!("a{}\tr\tb{}\n", at % 10, at / 10)).collect();
    std::fs::write(&train, lines).expect("written");
    for (args, code, says) in [
        (vec!["demo"], 2, &["--spec"][..]),
        (vec!["demo", "--spec", "nowhere.toml", "--out", &new], 1, &["nowhere.toml"]),
        (vec!["demo", "--spec", &typo, "--out", &new], 2, &["typo.toml:4", "did you mean `dimension`"]),
        (vec!["demo", "--spec", &odd, "--out", &new], 2, &["odd.toml", "did you mean `halving`"]),
        (vec!["demo", "--spec", &space, "--out", &run], 1, &["--resume", "--force"]),
        (vec!["demo", "--spec", &other, "--out", &run, "--resume"], 1, &["another space or seed", "--force"]),
        (vec!["demo", "--out", &run, "--resume", "--seed", "9"], 1, &["--seed 0, not 9"]),
        (vec!["demo", "--out", &new, "--resume"], 1, &["no search to resume", "leave out --resume"]),
        (vec![&train, "--out", &run, "--resume"], 1, &["other data"]),
        (vec!["demo", "--spec", &space, "--out", &new, "--skip"], 2, &["--resume"]),
        (vec![&train, "--spec", &space, "--out", &new, "--held-out", "0,0"], 1, &["no validation triples"]),
        (vec!["demo", "--spec", &space, "--out", &space], 1, &["it is a file"]),
        (vec!["demo", "--spec", &space, "--out", &new, "--minutes", "nan"], 2, &["number of minutes"]),
        (vec!["demo", "--spec", &space, "--out", &new, "--minutes=-1"], 2, &["number of minutes"]),
    ] {
        let output = ruge(&[&["search"], &args[..]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(says.iter().all(|say| said.contains(say)), "{args:?}: {said}");
    }
    assert!(!Path::new(&new).join("search.db").exists(), "nothing was begun");
    let forced = world.search("run", &["--force", "--trials", "2"]);
    assert_eq!(forced["trials"].as_array().unwrap().len(), 2);
}

#[test]
fn the_projects_own_spaces_can_be_searched() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/search"));
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("listed").flatten() {
        let space = ruge_lab::search::Space::read(&file.path()).expect("a space");
        let middle = space.point(&vec![0.5; space.parameters.len()]);
        space.spec(&middle).unwrap_or_else(|error| panic!("{}: {error}", file.path().display()));
        count += 1;
    }
    assert!(count >= 2);
}
