//! Folders: OpenKE, LibKGE, splits, and their errors.

use super::*;

const ENTITIES: &str = "3\nNew York\t0\nb 2\nc\t1\n";
const RELATIONS: &str = "1\n/r\t0\n";

fn openke(entities: &str, relations: &str, train: &str) -> tempfile::TempDir {
    folder(&[("entity2id.txt", entities), ("relation2id.txt", relations), ("train2id.txt", train)])
}

fn load(folder: &tempfile::TempDir) -> Result<(Dataset, ruge_kg::LoadReport), KgError> {
    Dataset::load(folder.path(), &ReadOptions::default())
}

fn only_problem(folder: &tempfile::TempDir) -> (String, u64, String, Reason) {
    match load(folder) {
        Err(KgError::BadLines { mut problems, .. }) => {
            assert_eq!(problems.len(), 1, "{problems:?}");
            let Problem { file, line, text, reason, .. } = problems.remove(0);
            (file.file_name().unwrap().to_str().unwrap().to_string(), line, text, reason)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn openke_keeps_the_ids_of_its_files() {
    let folder = openke(ENTITIES, RELATIONS, "2\n0 2 0\n1\t0\t0\n");
    fs::write(folder.path().join("test2id.txt.gz"), gzip(b"1\r\n2 2 0\r\n")).unwrap();
    let (data, report) = load(&folder).unwrap();
    assert_eq!(report.layout, "OpenKE folder");
    let names: Vec<&str> = data.names().entities.iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["New York", "c", "b"]);
    assert_eq!(data.show(data.train()[0]), ["New York", "/r", "b"]);
    assert_eq!(data.show(data.train()[1]), ["c", "/r", "New York"]);
    assert_eq!(data.show(data.test()[0]), ["b", "/r", "b"]);
    assert_eq!(data.valid(), []);
    assert!(report.notes().iter().all(|note| !note.contains("no triples")), "{:?}", report.notes());
}

#[test]
fn openke_complaints() {
    let train = "1\n0 1 0\n";
    let file = |name: &str, line, text: &str, reason| (name.to_string(), line, text.to_string(), reason);
    for (folder, expected) in [
        (openke("2\na\t0\nb\tx\n", RELATIONS, train), file("entity2id.txt", 3, "b⇥x", Reason::NotAnId { field: "id" })),
        (
            openke("3\na\t0\nb\t1\nc\t1\n", RELATIONS, train),
            file("entity2id.txt", 4, "c⇥1", Reason::Repeated { what: "id" }),
        ),
        (
            openke("3\na\t0\nb\t1\na\t2\n", RELATIONS, train),
            file("entity2id.txt", 4, "a⇥2", Reason::Repeated { what: "name" }),
        ),
        (
            openke("4\na\t0\nb\t1\n", RELATIONS, train),
            file("entity2id.txt", 1, "4", Reason::Count { stated: 4, found: 2 }),
        ),
        (
            openke("a\t0\nb\t1\n", RELATIONS, train),
            file("entity2id.txt", 1, "a⇥0", Reason::NotAnId { field: "count on the first line" }),
        ),
        (
            openke("2\na\t0\nb\n", RELATIONS, train),
            file("entity2id.txt", 3, "b", Reason::Columns { found: 1, expected: 2 }),
        ),
        (
            openke("2\na\t0\n \t1\n", RELATIONS, train),
            file("entity2id.txt", 3, " ⇥1", Reason::EmptyField { field: "name" }),
        ),
        (
            openke(ENTITIES, RELATIONS, "2\n0 1 0\n0 3 0\n"),
            file("train2id.txt", 3, "0 3 0", Reason::UnknownId { field: "tail", known: 3 }),
        ),
        (
            openke(ENTITIES, RELATIONS, "2\n0 1 0\n0 1 1\n"),
            file("train2id.txt", 3, "0 1 1", Reason::UnknownId { field: "relation", known: 1 }),
        ),
        (
            openke(ENTITIES, RELATIONS, "2\n-1 1 0\n0 1 0\n"),
            file("train2id.txt", 2, "-1 1 0", Reason::NotAnId { field: "head" }),
        ),
        (
            openke(ENTITIES, RELATIONS, "1\n0 1\n"),
            file("train2id.txt", 2, "0 1", Reason::Columns { found: 2, expected: 3 }),
        ),
        (
            openke(ENTITIES, RELATIONS, "7\n0 1 0\n"),
            file("train2id.txt", 1, "7", Reason::Count { stated: 7, found: 1 }),
        ),
    ] {
        assert_eq!(only_problem(&folder), expected);
    }
    match load(&openke("2\na\t0\nb\t2\n", RELATIONS, train)) {
        Err(KgError::Description { message, .. }) => assert!(message.contains("id 1"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lenient_reader_skips_counts_and_notes() {
    let folder = openke("9\nNew York\t0\nb\t1\nb\t2\n", RELATIONS, "7\n0 1 0\n0 9 0\nx\n");
    let (data, report) = Dataset::load(folder.path(), &lenient()).unwrap();
    assert_eq!((data.train().len(), data.entity_count()), (1, 2));
    assert_eq!(report.bad_lines(), 2 + 3, "a repeated name, an unknown id, a short line, and two counts");
    assert!(report.notes().iter().any(|note| note.contains("the first line says 9")), "{:?}", report.notes());
}

fn libkge(yaml: &str) -> tempfile::TempDir {
    folder(&[
        ("dataset.yaml", yaml),
        ("train.del", "0\t0\t1\n1\t0\t2\n"),
        ("valid.del", "2\t0\t0\n"),
        ("entity_ids.del", "0\ta b\n2\tc\n1\tb\n"),
        ("relation_ids.del", "0\tr\n"),
    ])
}

#[test]
fn libkge_nested_dotted_and_silent() {
    for yaml in [
        "dataset:\n  name: toy\n  files:\n    train:\n      filename: train.del\n      type: triples\n  num_entities: 3\n",
        "dataset:\n  files.train.filename: train.del\n  num_entities: 3\n",
        "dataset.files.train.filename: train.del\ndataset.num_relations: 1\n",
        "dataset:\n  name: toy\n  num_entities: -1\n",
        "",
    ] {
        let (data, report) = load(&libkge(yaml)).unwrap_or_else(|error| panic!("{yaml}: {error}"));
        assert_eq!(report.layout, "LibKGE folder");
        assert_eq!(data.show(data.train()[1]), ["b", "r", "c"]);
        assert_eq!(data.show(data.valid()[0]), ["c", "r", "a b"]);
        assert_eq!(data.test(), []);
    }
}

#[test]
fn held_out_files_stay_unread_when_only_train_is_wanted() {
    let options = ReadOptions { train_only: true, ..Default::default() };
    let libkge = libkge("dataset:\n");
    fs::write(libkge.path().join("valid.del"), "nonsense").unwrap();
    let openke = openke(ENTITIES, RELATIONS, "1\n0 1 0\n");
    fs::write(openke.path().join("valid2id.txt"), "nonsense").unwrap();
    for folder in [libkge, openke] {
        assert!(load(&folder).is_err());
        let (data, _) = Dataset::load(folder.path(), &options).unwrap();
        assert_eq!((data.entity_count(), data.valid()), (3, &[][..]), "the dictionary names all entities");
    }
}

#[test]
fn libkge_without_dictionaries() {
    let folder = folder(&[("dataset.yaml", "dataset:\n  num_entities: 9\n"), ("train.del", "7\t5\t3\n")]);
    let (data, _) = load(&folder).unwrap();
    assert_eq!(data.entity_count(), 9, "as many as stated");
    assert_eq!(data.relation_count(), 1, "as many as occur");
    assert_eq!(data.show(data.train()[0]), ["7", "5", "3"]);
    assert_eq!(data.train()[0].head.0, 7);
    assert_eq!(data.train()[0].relation.0, 0);
    fs::write(folder.path().join("train.del"), "4000000000\t0\t4000000001\n").unwrap();
    assert_eq!(only_problem(&folder).3, Reason::UnknownId { field: "head", known: 9 });
    fs::write(folder.path().join("dataset.yaml"), "dataset:\n").unwrap();
    assert_eq!(load(&folder).unwrap().0.entity_count(), 2);
}

#[test]
fn libkge_complaints() {
    let message = |folder: &tempfile::TempDir| match load(folder) {
        Err(KgError::Description { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    let malformed = message(&libkge("dataset:\n  name: [toy\n  files: {\n"));
    assert!(malformed.contains("line"), "{malformed}");
    assert!(message(&libkge("dataset:\n  num_entities: many\n")).contains("many"));
    let miscounted = load(&libkge("dataset:\n  num_entities: 4\n")).unwrap_err();
    assert!(matches!(miscounted, KgError::OtherCount { stated: 4, found: 3, .. }), "{miscounted}");
    let nameless = folder(&[("dataset.yaml", "dataset.num_entities: 4000000000"), ("train.del", "0\t0\t0\n")]);
    assert!(message(&nameless).contains("no file names them"));
    let empty = folder(&[("dataset.yaml", "")]);
    assert!(message(&empty).contains("dataset.files"));
    let missing = libkge("dataset.files.test.filename: gone.del");
    assert!(matches!(load(&missing), Err(KgError::Io { path, .. }) if path.ends_with("gone.del")));
    let folder = libkge("dataset:\n");
    fs::write(folder.path().join("entity_ids.del"), "0\ta\nb\n").unwrap();
    assert_eq!(only_problem(&folder).3, Reason::Columns { found: 1, expected: 2 });
    fs::write(folder.path().join("entity_ids.del"), " 0 a b\n1\tb\n2\tc d \n").unwrap();
    assert_eq!(load(&folder).unwrap().0.show(ruge_kg::Triple::new(0, 0, 2)), ["a b", "r", "c d"]);
}

#[test]
fn deeply_nested_yaml_is_no_danger() {
    for text in ["[".repeat(200_000), "{a: ".repeat(100_000), "- ".repeat(100_000), "a:\n ".repeat(10)] {
        let folder = folder(&[("dataset.yaml", &text), ("train.del", "0\t0\t0\n")]);
        let _ = load(&folder);
    }
    let bomb = (1..30).fold("a0: &a0 x\n".to_string(), |yaml, n| {
        format!("{yaml}a{n}: &a{n} [*a{m}, *a{m}, *a{m}, *a{m}]\n", m = n - 1)
    });
    let folder = folder(&[("dataset.yaml", &bomb), ("train.del", "0\t0\t0\n")]);
    assert_eq!(load(&folder).unwrap().0.train().len(), 1);
}

#[test]
fn folders_that_say_too_little_or_too_much() {
    let folder = folder(&[("notes.md", "")]);
    match Layout::find(folder.path()) {
        Err(KgError::NoTrain { found, .. }) => assert_eq!(found, "notes.md"),
        other => panic!("{other:?}"),
    }
    fs::write(folder.path().join("train.txt"), "a\tr\tb\n").unwrap();
    assert!(matches!(Layout::find(folder.path()), Ok(Layout::Splits([Some(_), None, None]))));
    fs::write(folder.path().join("train.tsv"), "a\tr\tb\n").unwrap();
    match load(&folder) {
        Err(KgError::Ambiguous { first, second }) => {
            assert!(first.ends_with("train.tsv") && second.ends_with("train.txt"));
        }
        other => panic!("{other:?}"),
    }
}
