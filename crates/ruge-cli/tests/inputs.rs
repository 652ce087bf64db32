//! Data as users have them: RDF, tables with headers, labels, doubtful splits, as the command line reads and shows them.

use std::sync::OnceLock;

use crate::support::{command, ruge, stderr, text as said};
use serde_json::Value;
use tempfile::TempDir;

fn write(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

/// What a command says to programs.
fn json(args: &[&str]) -> Value {
    crate::support::json(&[args, &["--json"]].concat())
}

/// What a command that fails says.
fn refused(args: &[&str]) -> String {
    let output = ruge(args);
    assert!(!output.status.success(), "{args:?}");
    stderr(&output)
}

const TURTLE: &str = "@prefix geo: <http://ex.org/geography/> .\n\
    @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n\
    geo:de a geo:Country ; rdfs:label \"Germany\"@en, \"Deutschland\"@de ; geo:capital geo:berlin ; geo:population 83 .\n\
    geo:fr a geo:Country ; rdfs:label \"France\"@en ; geo:capital geo:paris .\n";

#[test]
fn rdf_is_counted_and_shown_in_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "world.ttl", TURTLE);
    let text = said(&["check", &path]);
    for words in
        ["4 literals were left out", "2 entities have a label", "Germany (geo:de)", "rdf:type", "--literals entities"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("http://ex.org"), "{text}");
    let value = json(&["check", &path]);
    assert_eq!((&value["literals"], &value["labelled"], &value["entities"]), (&4.into(), &2.into(), &5.into()));
    assert_eq!(value["degrees"]["top"][0]["entity"].as_str().map(|name| &name[..7]), Some("http://"), "names stay");
    assert_eq!(json(&["check", &path, "--literals", "entities"])["entities"], 9);
    let relative = write(&folder, "relative.ttl", "<a> <r> <b> .\n");
    assert!(refused(&["check", &relative]).contains("--base"), "what to type");
    assert_eq!(json(&["check", &relative, "--base", "http://ex.org/"])["train"], 1);
    let quads = write(&folder, "a.nq", "<a:a> <a:r> <a:b> <g:1> .\n<a:b> <a:r> <a:c> <g:2> .\n");
    assert_eq!(json(&["check", &quads])["graphs"], 2);
    assert_eq!(json(&["check", &quads, "--graph-name", "g:2"])["train"], 1);
    assert!(refused(&["check", &quads, "--graph-name", "g:3"]).contains("g:1, g:2"));
}

#[test]
fn tables_are_read_by_their_header_or_as_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "a.csv", "id,subject,weight,predicate,object\n1,a,0.5,r,b\n2,b,0.5,r,c\n");
    let text = said(&["check", &path]);
    assert!(text.contains("head, relation and tail are the columns 2, 4 and 5"), "{text}");
    let named = write(&folder, "b.csv", "who,does,whom\na,r,b\nb,r,c\n");
    assert_eq!(json(&["check", &named, "--columns", "who,does,whom"])["relations"], 1);
    assert!(refused(&["check", &named, "--columns", "who,does,nix"]).contains("\"nix\""));
    assert!(refused(&["check", &named, "--columns", "who,does"]).contains("three columns"));
    let both = format!("{path},{named}");
    assert_eq!(json(&["check", &both])["layout"], "several files, split here");
    let mut stdin = command(&["check", "/dev/stdin", "--json"]);
    let output = stdin.stdin(std::fs::File::open(&path).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn doubtful_data_are_said_loudly() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..40).map(|n| format!("a{n}\tr\ta{}\n", n % 7)).collect();
    write(&folder, "train.tsv", &lines);
    write(&folder, "test.tsv", &lines);
    let path = folder.path().to_string_lossy().into_owned();
    let text = said(&["check", &path, "--held-out", "0.2,0.2"]);
    assert!(text.contains("warning: all 40 test triples are in train"), "{text}");
    assert!(text.contains("warning: --held-out has no effect"), "{text}");
    let rules = write(&folder, "rules.txt", "r(x,y) => r(y,x)\n");
    let output = ruge(&["ground", &path, "--rules", &rules]);
    assert!(stderr(&output).contains("warning: all 40 test triples are in train"), "{}", stderr(&output));
    std::fs::remove_file(folder.path().join("test.tsv")).unwrap();
    let text = said(&["check", &path, "--held-out", "0.2,0.2"]);
    assert!(text.contains("train alone"), "{text}");
    let swapped: String = (0..200).map(|n| format!("a{}\ta{}\tr{}\n", n % 40, (n * 7) % 31, n % 3)).collect();
    let swapped = write(&folder, "swapped.tsv", &swapped);
    let warnings = json(&["check", &swapped])["warnings"].to_string();
    assert!(warnings.contains("31 relations for 200 triples") && warnings.contains("--columns htr"), "{warnings}");
}

/// A model of a small graph whose names are numbers and whose labels are in a file.
fn model() -> &'static str {
    static MODEL: OnceLock<(TempDir, String)> = OnceLock::new();
    let (_, path) = MODEL.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut triples = String::new();
        let mut labels = String::from(
            "name\tlabel\ttype\nQ1\tGermany\tCountry\nP1\thas capital\t\nQ90\tParis\tCity\nQ91\tParis\tCity\n",
        );
        for n in 1..30 {
            triples += &format!("Q{n}\tP1\tQ{}\nQ{}\tP2\tQ{n}\nQ{n}\tP3\tQ{}\n", 89 + n, 89 + n, 1 + n % 29);
            labels += &format!("Q{n}\tCountry {n}\tCountry\n");
        }
        let data = write(&folder, "data.tsv", &triples);
        let labels = write(&folder, "labels.tsv", &labels);
        let out = folder.path().join("run").to_string_lossy().into_owned();
        let args = ["train", &data, "--labels", &labels, "--model", "rules", "--out", &out, "--quiet"];
        let output = ruge(&args);
        assert!(output.status.success(), "{}", stderr(&output));
        (folder, out)
    });
    path
}

#[test]
fn labels_survive_in_the_model_and_are_found() {
    let value = json(&["predict", model(), "--head", "Germany", "--relation", "has capital", "--top", "3"]);
    let by_name = json(&["predict", model(), "--head", "Q1", "--relation", "P1", "--top", "3"]);
    assert_eq!(value["answers"], by_name["answers"]);
    let paris = value["answers"].as_array().unwrap().iter().find(|answer| answer["entity"] == "Q90").expect("known");
    assert_eq!(paris["label"], "Paris");
    let text = said(&["predict", model(), "--head", "germany", "--relation", "P1", "--top", "3"]);
    assert!(text.contains("Paris (Q90)"), "{text}");
    let several = refused(&["predict", model(), "--head", "Paris", "--relation", "P2"]);
    assert!(several.contains("2 entities are called \"Paris\": Q90 (City), Q91 (City)"), "{several}");
    let text = said(&["explain", model(), "Germany", "has capital", "Q90"]);
    assert!(text.starts_with("Germany (Q1)  has capital (P1)  Paris (Q90)"), "{text}");
    let value = json(&["explain", model(), "Q1", "P1", "Q90"]);
    assert_eq!(
        (&value["head"], &value["head_label"], &value["tail_label"]),
        (&"Q1".into(), &"Germany".into(), &"Paris".into())
    );
    let value = json(&["complete", model(), "--top", "50"]);
    let facts = value["facts"].as_array().unwrap();
    assert!(facts.iter().any(|fact| fact["head_label"].is_string() || fact["tail_label"].is_string()), "{value}");
    assert!(
        refused(&["predict", model(), "--head", "Germny", "--relation", "P1"]).contains("\"Germany\""),
        "a label is near"
    );
}
