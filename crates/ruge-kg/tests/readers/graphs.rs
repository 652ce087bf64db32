//! RDF beyond lines: XML, JSON, named graphs, literals, labels, prefixes, relative IRIs.

use super::*;
use ruge_kg::{GraphChoice, LoadReport, Warning};

const RDFXML: &str = r#"<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY ex "http://ex.org/"> ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#" xmlns:ex="http://ex.org/">
  <ex:Country rdf:about="http://ex.org/de">
    <rdfs:label xml:lang="de">Deutschland</rdfs:label>
    <rdfs:label xml:lang="en">Germany</rdfs:label>
    <rdfs:comment>A country.</rdfs:comment>
    <ex:capital rdf:resource="&ex;berlin"/>
    <ex:population rdf:datatype="http://www.w3.org/2001/XMLSchema#integer">83</ex:population>
    <ex:border><rdf:Description><ex:with rdf:resource="http://ex.org/fr"/></rdf:Description></ex:border>
  </ex:Country>
</rdf:RDF>
"#;

const JSONLD: &str = r#"{
  "@context": {"ex": "http://ex.org/", "rdfs": "http://www.w3.org/2000/01/rdf-schema#", "capital": {"@id": "ex:capital", "@type": "@id"}},
  "@id": "ex:de", "@type": "ex:Country", "rdfs:label": [{"@value": "Germany", "@language": "en"}, "Deutschland"],
  "capital": "ex:berlin"
}"#;

fn load(name: &str, text: &str, options: &ReadOptions) -> Result<(Dataset, LoadReport), KgError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    Dataset::load(&path, options)
}

const CAPITAL: [&str; 3] = ["http://ex.org/de", "http://ex.org/capital", "http://ex.org/berlin"];
const TYPE: [&str; 3] =
    ["http://ex.org/de", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "http://ex.org/Country"];

#[test]
fn xml_and_json_by_name_and_by_content() {
    for name in ["a.rdf", "a.owl", "a.xml", "a", "a.txt"] {
        let (named, contents) = read(name, RDFXML, &ReadOptions::default()).unwrap();
        assert_eq!(contents.report.format, Format::RdfXml, "{name}");
        assert_eq!(named[..2], triples(&[TYPE, CAPITAL]), "{name}");
        assert_eq!((named.len(), contents.report.literals, contents.lines.line(1)), (4, 4, 9), "{name}");
        assert!(named.iter().any(|[head, _, tail]| head == "_:anon1" && tail == "http://ex.org/fr"), "{named:?}");
    }
    for name in ["a.jsonld", "a.json", "a", "a.txt"] {
        let (named, contents) = read(name, JSONLD, &ReadOptions::default()).unwrap();
        assert_eq!((contents.report.format, contents.report.literals), (Format::JsonLd, 2), "{name}");
        let mut named = named;
        named.sort();
        assert_eq!(named, triples(&[CAPITAL, TYPE]), "{name}");
    }
    // Ontologies in Turtle are called .owl as well.
    let turtle = "@prefix e: <http://ex.org/> .\ne:a e:r e:b .\n";
    assert_eq!(read("a.owl", turtle, &ReadOptions::default()).unwrap().1.report.format, Format::Turtle);
}

#[test]
fn broken_xml_and_json_name_the_line() {
    let cut = RDFXML.replace("</ex:border>", "");
    let (line, _, reason) = problem("a.rdf", &cut);
    assert!(line >= 11 && matches!(reason, Reason::Rdf(_)), "{line}: {reason}");
    let (line, text, _) = problem("a.jsonld", JSONLD.replace("\"@type\": \"@id\"", "\"@type\": @id"));
    assert_eq!(line, 2, "{text}");
    let remote = problem("a.jsonld", r#"{"@context": "https://schema.org", "@id": "http://a.org/", "name": "x"}"#);
    assert_eq!(remote.2, Reason::RemoteContext);
    let laughs: String =
        (1..12).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let bomb = format!("<?xml version=\"1.0\"?><!DOCTYPE r [<!ENTITY l0 \"haha\">{laughs}]><rdf:RDF/>");
    let error = read("a.rdf", &bomb, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("stands for more than"), "{error}");
    for (text, says) in [
        ("<!DOCTYPE html><html>", "web page"),
        ("Prefix(:=<http://a/>)\nOntology(", "functional"),
        ("<?xml version=\"1.0\"?>\n<Ontology>", "OWL/XML"),
    ] {
        let error = read("a.owl", text, &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

const QUADS: &str =
    "<a:a> <a:r> <a:b> <g:1> .\n<a:b> <a:r> <a:c> <g:2> .\n<a:c> <a:r> <a:d> .\n<a:c> <a:r> \"x\" <g:2> .\n";
const TRIG: &str = "@prefix a: <a:> .\n<g:1> { <a:a> <a:r> <a:b> }\nGRAPH <g:2> { <a:b> <a:r> <a:c> ; <a:r> \"x\" }\n<a:c> <a:r> <a:d> .\n";

#[test]
fn graphs_are_read_together_or_one_is_chosen() {
    for (name, text) in [("a.nq", QUADS), ("a.txt", QUADS), ("a.trig", TRIG), ("a", TRIG)] {
        let of = |graph: GraphChoice| {
            let (mut named, contents) = read(name, text, &ReadOptions { graph, ..Default::default() }).unwrap();
            named.sort();
            (named, contents.report.graphs, contents.report.other_graphs)
        };
        let (first, second, third) = (["a:a", "a:r", "a:b"], ["a:b", "a:r", "a:c"], ["a:c", "a:r", "a:d"]);
        assert_eq!(of(GraphChoice::All), (triples(&[first, second, third]), 2, 0), "{name}");
        assert_eq!(of(GraphChoice::Default), (triples(&[third]), 2, 3), "{name}");
        assert_eq!(of(GraphChoice::Named("g:2".into())), (triples(&[second]), 2, 2), "{name}");
        assert_eq!(of(GraphChoice::Named("<g:1>".into())).0, triples(&[first]), "{name}");
        let graph = GraphChoice::Named("g:3".into());
        let error = read(name, text, &ReadOptions { graph, ..Default::default() }).unwrap_err().to_string();
        assert!(error.contains("no graph is called \"g:3\"; there are g:1, g:2"), "{error}");
    }
    let (_, _, reason) = problem("a.nt", "<a:a> <a:r> <a:b> <g:1> .\n");
    assert!(reason.to_string().contains("N-Quads"), "{reason}");
}

#[test]
fn literals_are_left_out_and_counted_or_kept() {
    let text = "<a:a> <a:r> <a:b> .\n<a:a> <a:age> \"5\" .\n\n<a:a> <a:r> <a:c> .\n";
    for name in ["a.nt", "a.ttl"] {
        let (named, contents) = read(name, text, &ReadOptions::default()).unwrap();
        assert_eq!((named.len(), contents.report.literals, contents.report.blank_lines), (2, 1, 1), "{name}");
        assert_eq!(contents.lines.line(1), 4, "{name}");
        assert_eq!(good(name, text).0.len(), 3, "{name}");
    }
    let (data, report) = load("a.nt", text, &ReadOptions::default()).unwrap();
    assert_eq!(data.entity_count(), 3);
    assert!(report.notes().iter().any(|note| note.contains("1 literal was left out")), "{:?}", report.notes());
    let only = load("a.nt", "<a:a> <a:r> \"x\" .\n", &ReadOptions::default()).unwrap_err();
    assert!(matches!(only, KgError::OnlyLiterals { count: 1, .. }), "{only}");
}

#[test]
fn relative_iris_need_a_base() {
    let base = ReadOptions { base: Some("http://ex.org/dir/".into()), ..Default::default() };
    for (name, text) in [
        ("a.nt", "<a> <r> <b> .\n"),
        ("a.ttl", "<a> <r> <b> .\n"),
        ("a.trig", "<a> <r> <b> .\n"),
        ("a.nq", "<a> <r> <b> .\n"),
        (
            "a.rdf",
            "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://ex.org/dir/\">\n\
             <rdf:Description rdf:about=\"a\"><e:r rdf:resource=\"b\"/></rdf:Description></rdf:RDF>",
        ),
        ("a.jsonld", "{\"@id\": \"a\", \"http://ex.org/dir/r\": {\"@id\": \"b\"}}"),
    ] {
        let reason = problem(name, text).2;
        assert!(matches!(reason, Reason::RelativeIri(_)), "{name}: {reason}");
        let (named, _) = read(name, text, &base).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(named, triples(&[["http://ex.org/dir/a", "http://ex.org/dir/r", "http://ex.org/dir/b"]]), "{name}");
    }
    let wrong = ReadOptions { base: Some("no iri".into()), ..Default::default() };
    for name in ["a.ttl", "a.nt", "a.rdf", "a.jsonld"] {
        assert!(matches!(read(name, "<a:a> <a:r> <a:b> .", &wrong), Err(KgError::Option(_))), "{name}");
    }
}

#[test]
fn labels_types_and_prefixes_come_with_the_graph() {
    for (name, text) in [("a.rdf", RDFXML), ("a.jsonld", JSONLD)] {
        let (data, report) = load(name, text, &ReadOptions::default()).unwrap();
        let germany = data.names().entities.id("http://ex.org/de").unwrap();
        assert_eq!(data.labels().entity(germany), Some("Germany"), "{name}");
        assert_eq!(data.labels().types(germany).collect::<Vec<_>>(), ["http://ex.org/Country"], "{name}");
        assert_eq!(data.prefixes().shorten("http://ex.org/berlin"), "ex:berlin", "{name}: declared");
        assert_eq!(data.prefixes().shorten(TYPE[1]), "rdf:type", "{name}");
        assert_eq!((report.labelled, report.typed), (1, 1), "{name}");
    }
    let (data, _) = load("a.rdf", RDFXML, &ReadOptions::default()).unwrap();
    let germany = data.names().entities.id("http://ex.org/de").unwrap();
    assert_eq!(data.labels().description(germany), Some("A country."));
    // English first, then no language, then any; the first of equals.
    let lines = |labels: &[&str]| {
        let said = |label: &&str| format!("<a:a> <http://schema.org/name> {label} .\n");
        format!("<a:a> <a:r> <a:b> .\n{}", labels.iter().map(said).collect::<String>())
    };
    for (labels, best) in [
        (&["\"x\"@de", "\"y\"", "\"z\"@en-GB", "\"w\"@en"][..], "w"),
        (&["\"x\"@de", "\"y\"", "\"z\"@fr"], "y"),
        (&["\"x\"@de", "\"z\"@fr"], "x"),
    ] {
        let (data, _) = load("a.nt", &lines(labels), &ReadOptions::default()).unwrap();
        assert_eq!(data.labels().entity(data.names().entities.id("a:a").unwrap()), Some(best));
    }
}

#[test]
fn label_files_win_and_say_what_they_know() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name)
    };
    let data =
        at("a.nt", "<a:a> <a:r> <a:b> .\n<a:a> <http://www.w3.org/2000/01/rdf-schema#label> \"said by the data\" .\n");
    let labels = vec![at("l.tsv", "a:a\tA\nnobody\tN\n"), at("m.csv", "name,type\na:b,Thing\na:r,Relation\n")];
    let (data, report) = Dataset::load(&data, &ReadOptions { labels, ..Default::default() }).unwrap();
    let entity = |name: &str| data.names().entities.id(name).unwrap();
    assert_eq!(data.labels().entity(entity("a:a")), Some("A"));
    assert_eq!(data.labels().types(entity("a:b")).collect::<Vec<_>>(), ["Thing"]);
    let known: Vec<(usize, usize)> = report.labels.iter().map(|file| (file.rows, file.known)).collect();
    assert_eq!(known, [(2, 1), (2, 2)]);
    // RDF may be a label file, too.
    let turtle = at("l.ttl", "<a:b> <http://www.w3.org/2004/02/skos/core#prefLabel> \"B\"@en .\n");
    let options = ReadOptions { labels: vec![turtle], ..Default::default() };
    let (data, report) = Dataset::load(&folder.path().join("a.nt"), &options).unwrap();
    assert_eq!(data.labels().entity(data.names().entities.id("a:b").unwrap()), Some("B"));
    assert_eq!((report.labels[0].rows, report.labelled), (1, 2));
    let missing = ReadOptions { labels: vec![folder.path().join("none.tsv")], ..Default::default() };
    assert!(Dataset::load(&folder.path().join("a.nt"), &missing).unwrap_err().to_string().contains("none.tsv"));
}

/// A file per split.
fn splits(train: &str, test: &str) -> LoadReport {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.tsv"), train).unwrap();
    std::fs::write(folder.path().join("test.tsv"), test).unwrap();
    Dataset::load(folder.path(), &ReadOptions::default()).unwrap().1
}

#[test]
fn doubtful_data_are_said_to_be() {
    let lines = |from: usize, to: usize| -> String { (from..to).map(|n| format!("a{n}\tr\ta{}\n", n % 7)).collect() };
    let same = splits(&lines(0, 40), &lines(0, 40));
    assert_eq!(same.warnings, [Warning::TestInTrain { shared: 40, test: 40 }]);
    assert!(same.warnings[0].to_string().contains("all 40 test triples are in train"));
    assert_eq!(splits(&lines(0, 40), &lines(30, 60)).warnings.len(), 2);
    let other = splits(&lines(0, 40), &lines(100, 110).replace('a', "b"));
    assert_eq!(other.warnings, [Warning::TestUnseen { unseen: 10, test: 10 }]);
    assert_eq!(splits(&lines(0, 40), "a1\tr\ta2\na1\tr\ta3\n").warnings, []);

    let (_, report) = load("a.tsv", &(lines(0, 200) + "a1\tonce\ta2\n"), &ReadOptions::default()).unwrap();
    let first = vec![("once".to_string(), 1)];
    assert_eq!(report.warnings, [Warning::Untested { relations: 1, of: 2, first }]);

    let (_, report) =
        load("a.tsv", &("entity one\trel name\tentity two\n".to_string() + &lines(0, 200)), &ReadOptions::default())
            .unwrap();
    let header = report.warnings.iter().find(|warning| matches!(warning, Warning::MaybeHeader { .. }));
    assert!(
        header.is_some_and(|it| it.to_string().contains("entity one, rel name, entity two")),
        "{:?}",
        report.warnings
    );

    // Read in the wrong order, entities become relations.
    let swapped: String = (0..200).map(|n| format!("a{}\ta{}\tr{}\n", n % 40, (n * 7) % 31, n % 3)).collect();
    let (_, report) = load("a.tsv", &swapped, &ReadOptions::default()).unwrap();
    assert!(
        report.warnings.iter().any(|it| matches!(it, Warning::ColumnOrder { relations: 31, .. })),
        "{:?}",
        report.warnings
    );
    let columns = "htr".parse().unwrap();
    let (_, report) = load("a.tsv", &swapped, &ReadOptions { columns, ..Default::default() }).unwrap();
    assert!(!report.warnings.iter().any(|it| matches!(it, Warning::ColumnOrder { .. })), "{:?}", report.warnings);
}
