//! Rules as a model, and rules beside a model, as a user types it.

use crate::support::{json, ruge, stderr, text};

#[test]
fn rules_alone_are_a_model() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = json(&["train", "demo", "--model", "rules", "--out", &path("a"), "--json"]);
    assert!(run["rules"].as_u64() > Some(100) && run["epochs"] == 0, "{run}");
    assert!(run["fitted_numbers"].as_u64() > Some(0), "{run}");
    for file in ["spec.toml", "rules.tsv", "metrics.jsonl", "model.safetensors"] {
        assert!(folder.path().join("a").join(file).is_file(), "{file}");
    }
    let valid = json(&["eval", &path("a"), "--split", "valid", "--json"]);
    assert_eq!(valid["mrr"], run["valid_mrr"], "fitting and evaluation agree");
    let test = json(&["eval", &path("a"), "--json", "--threads", "1"]);
    assert!(test["mrr"].as_f64() > Some(0.3), "far above chance: {test}");
    let ranks = |of: &str| test[of]["mrr"].as_f64().expect("a number");
    let mean = test["mrr"].as_f64().expect("a number");
    assert!(ranks("pessimistic") < mean && mean < ranks("optimistic"), "rules tie, and ties are told");
    assert!(text(&["eval", &path("a")]).contains("rules: "), "the model is named");

    // The stored spec repeats it, to the bit, on another number of threads.
    json(&["train", "demo", "--spec", &path("a/spec.toml"), "--out", &path("b"), "--threads", "1", "--json"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).expect("a model");
    assert!(bytes("a") == bytes("b"), "the same spec gives another model");

    // From the rules as a file, nothing is mined; the numbers of the file decide.
    let rules = path("a/rules.tsv");
    let again = json(&["train", "demo", "--model", "rules", "--rules", &rules, "--out", &path("c"), "--json"]);
    assert_eq!((&again["rules"], &again["valid_mrr"]), (&run["rules"], &run["valid_mrr"]));

    let answers = json(&["predict", &path("a"), "--head", "France", "--relation", "has_capital", "--json"]);
    let first = &answers["answers"][0];
    assert!(first["truth"].as_f64().is_some_and(|truth| (0.0..=1.0).contains(&truth)), "{answers}");
    let fact = text(&["explain", &path("a"), "Paris", "capital_of", "France", "--json"]);
    assert!(fact.contains("groundings"), "{fact}");
    let found = json(&["complete", &path("a"), "--top", "5", "--json"]);
    assert_eq!(found["facts"].as_array().map(Vec::len), Some(5), "{found}");

    let wrong = ruge(&["train", "demo", "--model", "rules", "--guidance", "ruge", "--out", &path("d")]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    assert!(stderr(&wrong).contains("nothing to guide"), "{}", stderr(&wrong));
}

#[test]
fn rules_beside_a_model_are_a_model() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let fixed = ["train", "demo", "--dim", "16", "--epochs", "20", "--validate-every", "10", "--json"];
    json(&[&fixed[..], &["--out", &path("plain")]].concat());
    let combined = json(&["combine", &path("plain"), "--out", &path("both"), "--json"]);
    assert_eq!(combined["uses_rules"], true, "{combined}");
    assert!(combined["fitted_numbers"].as_u64() > Some(1), "{combined}");
    let mrr = |name: &str| json(&["eval", &path(name), "--json"])["mrr"].as_f64().expect("a number");
    let (before, after) = (mrr("plain"), mrr("both"));
    assert!(after > before + 0.02, "{before} before, {after} after");
    assert!(text(&["eval", &path("both")]).contains("combined with"), "the model is named");
    // What the score is made of stands below the picture too, with its sum.
    let svg = path("why.svg");
    let fact = json(&["explain", &path("both"), "Paris", "capital_of", "France", "--svg", &svg, "--json"]);
    let sum: f64 =
        fact["parts"].as_array().expect("parts").iter().map(|part| part["value"].as_f64().expect("a number")).sum();
    let drawn = std::fs::read_to_string(&svg).expect("a picture");
    assert!(drawn.contains(&format!(">{sum:+.3} = the score that ranks it among tails<")), "{sum}: {drawn}");
    let first = fact["parts"][0]["value"].as_f64().expect("a number");
    assert!(drawn.contains(&format!(">{first:+.3} {}: ", if first < 0.0 { "against" } else { "for" })), "{drawn}");
    json(&["combine", &path("plain"), "--out", &path("twin"), "--threads", "1", "--json"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("model.safetensors")).expect("a model");
    assert!(bytes("both") == bytes("twin"), "the same model and rules give another combination");

    // How the rules were weighed stands in the spec, and the rules stand beside it.
    json(&["combine", &path("plain"), "--thorough", "--out", &path("thorough"), "--json"]);
    let spec = |name: &str| std::fs::read_to_string(folder.path().join(name).join("spec.toml")).expect("a spec");
    assert!(spec("thorough").contains("thorough = true") && !spec("both").contains("thorough"), "{}", spec("thorough"));
    let again =
        ["train", "demo", "--spec", &path("thorough/spec.toml"), "--epochs", "1", "--out", &path("anew"), "--json"];
    json(&again);
    assert!(spec("anew").contains("thorough = true"), "it is a spec like any other");
    let rules = path("both/rules.tsv");
    assert!(text(&["rules", "convert", &rules, "--to", "json", "--data", "demo"]).contains("confidence"));

    let answers = json(&["predict", &path("both"), "--head", "France", "--relation", "has_capital", "--json"]);
    assert_eq!(answers["answers"].as_array().map(Vec::len), Some(10), "{answers}");
    let why = json(&["explain", &path("both"), "Paris", "capital_of", "France", "--json"]);
    assert!(why["truth"].as_f64().is_some(), "{why}");
    assert_eq!(json(&["complete", &path("both"), "--top", "3", "--json"])["facts"].as_array().map(Vec::len), Some(3));

    exports_have_what_ranks(&path);
    let there = ruge(&["combine", &path("plain"), "--out", &path("both")]);
    assert_eq!(there.status.code(), Some(1));
    assert!(stderr(&there).contains("--force"), "{}", stderr(&there));
    json(&["train", "demo", "--model", "rules", "--out", &path("rules"), "--json"]);
    let alone = ruge(&["combine", &path("rules"), "--out", &path("x")]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(stderr(&alone).contains("rules alone"), "{}", stderr(&alone));

    // Rules alone are tables, and no vectors.
    for to in ["npy", "parquet"] {
        let files = files(&json(&["export", &path("rules"), "--to", to, "--out", &path("e"), "--json", "--force"]));
        assert!(files.iter().any(|file| file.starts_with("rules.")), "{files:?}");
        assert!(!files.iter().any(|file| file.starts_with("entities") || file.starts_with("groundings")), "{files:?}");
    }
    for to in ["word2vec", "pykeen"] {
        let refused = ruge(&["export", &path("rules"), "--to", to, "--out", &path("f")]);
        assert_eq!(refused.status.code(), Some(1));
        let said = stderr(&refused);
        assert!(said.contains("rules alone") && said.contains("--to npy or parquet"), "{said}");
    }
}

/// Names of the files of an export.
fn files(export: &serde_json::Value) -> Vec<String> {
    let name = |path: &serde_json::Value| path.as_str()?.rsplit(['/', '\\']).next().map(str::to_string);
    export["paths"].as_array().expect("paths").iter().filter_map(name).collect()
}

/// `plain` is a model, `both` the same with rules.
fn exports_have_what_ranks(path: &dyn Fn(&str) -> String) {
    let export = |model: &str, to: &str| {
        let out = path(&format!("{model}-{to}"));
        (json(&["export", &path(model), "--to", to, "--out", &out, "--json"]), out)
    };
    let read = |folder: &str, file: &str| std::fs::read(std::path::Path::new(folder).join(file)).expect(file);
    let text = |folder: &str, file: &str| String::from_utf8(read(folder, file)).expect("text");
    for to in ["npy", "word2vec", "parquet", "pykeen"] {
        let ((_, plain), (both, out)) = (export("plain", to), export("both", to));
        let about: serde_json::Value = serde_json::from_slice(&read(&out, "about.json")).expect("JSON");
        let is_table = matches!(to, "npy" | "parquet");
        assert_eq!(both["left_out"].is_null(), is_table, "{both}");
        assert_eq!(about["left_out"], both["left_out"]);
        let files = files(&both);
        assert_eq!(files.iter().any(|file| file.starts_with("rules.")), is_table, "{files:?}");
        assert!(!files.iter().any(|file| file.starts_with("groundings")), "{files:?}");
        for file in files.iter().filter(|file| file.starts_with("entities") || *file == "expected.tsv") {
            assert!(read(&plain, file) == read(&out, file), "{to}: {file} is that of the model inside");
        }
    }
    let (_, out) = (0, path("both-npy"));
    let rules = text(&out, "rules.tsv").lines().filter(|line| line.contains("=>")).count();
    let header = read(&out, "rule_weights.npy");
    let shape = format!("'shape': ({rules}, 2)");
    assert!(rules > 100 && String::from_utf8_lossy(&header[..128]).contains(&shape), "{rules} rules");
    let table = text(&out, "ranking.tsv");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("#fitted\trelation\tasked\tweight\tdiscount\tconstants\tlearned\tform"), "{table}");
    assert!(lines.all(|line| line.split('\t').count() == 8), "{table}");
    assert!(table.contains("as ranked\t\t\t") && table.contains("rules alone\t\t\t"), "{table}");
    assert!(["\thead\t", "\ttail\t"].iter().all(|side| table.contains(side)), "{table}");
}

#[test]
fn what_ranks_can_be_chosen() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let fixed = ["train", "demo", "--dim", "8", "--epochs", "10", "--validate-every", "10", "--json"];
    json(&[&fixed[..], &["--out", &path("plain")]].concat());
    let combine = |name: &str, flags: &[&str]| {
        json(&[&["combine", &path("plain"), "--out", &path(name), "--json"][..], flags].concat())
    };
    let mrr = |name: &str| json(&["eval", &path(name), "--json"])["mrr"].as_f64().expect("a number");
    let features = |found: &serde_json::Value| -> Vec<String> {
        let tried = found["evidence_tried"].as_array().expect("a list");
        tried.iter().map(|row| row["what"].as_str().expect("words").to_string()).collect()
    };

    let nothing = combine("nothing", &["--ranking-rules", "none", "--evidence", "none"]);
    assert_eq!((&nothing["rules"], &nothing["uses_rules"]), (&0.into(), &false.into()), "{nothing}");
    assert!(features(&nothing).is_empty() && mrr("nothing") == mrr("plain"), "the ranks are the model's own");

    let evidence = combine("evidence", &["--ranking-rules", "none"]);
    assert!(features(&evidence).iter().any(|what| what == "link"), "{evidence}");
    assert_eq!(evidence["rules"], 0);
    let taken = evidence["evidence"].as_array().is_some_and(|taken| !taken.is_empty());
    assert!(taken && mrr("evidence") > mrr("plain") + 0.01, "it helps a small model much: {evidence}");
    // What the score is made of has it, and sums to the score.
    let why = json(&["explain", &path("evidence"), "Paris", "capital_of", "France", "--json"]);
    let parts = why["parts"].as_array().expect("parts");
    let of = |kind: &str| parts.iter().filter(|part| part["kind"] == kind).count();
    assert!(of("model") == 1 && of("evidence") > 0 && of("rule") == 0, "{why}");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let sum: f64 = parts.iter().map(|part| number(&part["value"])).sum();
    assert!((sum - number(&why["score"])).abs() < 1e-4, "{sum}: {why}");
    json(&["export", &path("evidence"), "--to", "npy", "--out", &path("tables"), "--json"]);
    let table = std::fs::read_to_string(folder.path().join("tables/evidence.tsv")).expect("a table");
    assert!(table.lines().count() > 10, "{table}");

    let no_link = combine("no-link", &["--ranking-rules", "none", "--evidence", "no-link"]);
    assert!(
        !features(&no_link).is_empty() && features(&no_link).iter().all(|what| !what.contains("link")),
        "{no_link}"
    );

    std::fs::write(folder.path().join("r.txt"), "capital_of(x,y) => has_capital(y,x)  0.95\n").expect("written");
    let one = combine("one", &["--ranking-rules", &path("r.txt"), "--evidence", "none"]);
    assert_eq!((&one["rules"], &one["evidence"]), (&1.into(), &serde_json::Value::Null), "{one}");
    let wrong = ruge(&["combine", &path("plain"), "--ranking-rules", &path("none.tsv"), "--out", &path("x")]);
    assert_eq!(wrong.status.code(), Some(1), "{}", stderr(&wrong));
    assert!(!folder.path().join("x").exists(), "nothing is left of it");
}

/// Parents and their children, in three parts; then what makes a graph hard is added.
fn family(folder: &std::path::Path, name: &str, valid: Option<&str>, test: &str) -> String {
    let place = folder.join(name);
    std::fs::create_dir(&place).expect("a folder");
    let parent = |i: usize| format!("a{i}\tparent\tb{}\n", i % 20);
    let child = |i: usize| format!("b{}\tchild\ta{i}\n", i % 20);
    let of = |range: std::ops::Range<usize>| range.map(|i| parent(i) + &child(i)).collect::<String>();
    let train = of(0..45) + &(45..60).map(parent).collect::<String>();
    std::fs::write(place.join("train.tsv"), train).expect("written");
    if let Some(more) = valid {
        std::fs::write(place.join("valid.tsv"), (45..52).map(child).collect::<String>() + more).expect("written");
    }
    std::fs::write(place.join("test.tsv"), (52..60).map(child).collect::<String>() + test).expect("written");
    place.to_string_lossy().into_owned()
}

#[test]
fn graphs_with_gaps_are_ranked_asked_and_completed() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let one: String =
        (0..60).map(|i| format!("e{i}\tr\te{}\ne{}\tr\te{i}\n", (i * 7 + 3) % 60, (i * 7 + 3) % 60)).collect();
    std::fs::write(folder.path().join("one.tsv"), one).expect("written");
    for (name, data, asked) in [
        ("one-relation", path("one.tsv"), ["e0", "r"]),
        ("only-in-valid", family(folder.path(), "v", Some("a1\tnovel\tb2\na3\tnovel\tb4\n"), ""), ["a1", "novel"]),
        ("no-valid", family(folder.path(), "n", None, ""), ["a1", "parent"]),
        ("only-in-test", family(folder.path(), "t", Some(""), "zz\tparent\tb1\n"), ["zz", "parent"]),
    ] {
        let model = path(name);
        let trained = json(&["train", &data, "--model", "rules", "--out", &model, "--json"]);
        assert!(trained["rules"].as_u64() > Some(0), "{name}: {trained}");
        // Without validation there is nothing to fit evidence on, and nothing is.
        assert_eq!(trained["fitted_numbers"] == 0, name == "no-valid", "{name}: {trained}");
        let again = ruge(&["train", &data, "--model", "rules", "--out", &path(&format!("{name}-again"))]);
        assert_eq!(stderr(&again).contains("evidence is not used"), name == "no-valid", "{name}: {}", stderr(&again));
        let found = json(&["eval", &model, "--json"]);
        assert!(found["mrr"].as_f64() > Some(0.3), "{name}: {found}");
        let answers = json(&["predict", &model, "--head", asked[0], "--relation", asked[1], "--json"]);
        for answer in answers["answers"].as_array().expect("answers") {
            assert!(answer["truth"].as_f64().is_some_and(|truth| (0.0..=1.0).contains(&truth)), "{name}: {answers}");
        }
        let proposed = json(&["complete", &model, "--top", "5", "--json"]);
        assert_eq!(proposed["facts"].as_array().map(Vec::len), Some(5), "{name}: {proposed}");
    }
}
