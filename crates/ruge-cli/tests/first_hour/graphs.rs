//! RDF as people have it: labels, types, literals, prefixes, graphs, relative IRIs.

use crate::hold;
use crate::support::page::Page;

const TURTLE: &str = "@prefix geo: <http://ex.org/geography/> .\n\
    @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n\
    geo:de a geo:Country ; rdfs:label \"Germany\"@en, \"Deutschland\"@de ; geo:capital geo:berlin ; geo:population 83 .\n\
    geo:fr a geo:Country ; rdfs:label \"France\"@en ; geo:capital geo:paris .\n";

/// What was read, without what follows from it.
fn reads(page: &mut Page, line: &str) {
    page.types_first(line, "Counts");
}

#[test]
fn literals_are_counted_and_labels_are_shown() {
    let mut page = Page::new();
    page.write("world.ttl", TURTLE);
    page.types("check world.ttl");
    reads(&mut page, "check world.ttl --literals entities");
    hold(page, "turtle");
}

#[test]
fn other_kinds_of_rdf_are_recognised() {
    let mut page = Page::new();
    page.write(
        "a.rdf",
        "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://ex.org/\">\n\
         <rdf:Description rdf:about=\"http://ex.org/a\"><e:r rdf:resource=\"http://ex.org/b\"/></rdf:Description>\n\
         <rdf:Description rdf:about=\"http://ex.org/b\"><e:r rdf:resource=\"http://ex.org/c\"/></rdf:Description>\n\
         </rdf:RDF>\n",
    );
    page.write("b.jsonld", "{\"@id\": \"http://ex.org/a\", \"http://ex.org/r\": {\"@id\": \"http://ex.org/b\"}}\n");
    page.write("c.nq", "<a:a> <a:r> <a:b> <g:1> .\n<a:b> <a:r> <a:c> <g:2> .\n");
    page.write("d.trig", "@prefix a: <http://ex.org/> .\na:g { a:a a:r a:b . a:b a:r a:c . }\n");
    page.write("e.ttl", "<a> <r> <b> .\n");
    reads(&mut page, "check a.rdf");
    reads(&mut page, "check b.jsonld");
    reads(&mut page, "check c.nq");
    reads(&mut page, "check c.nq --graph-name g:2");
    reads(&mut page, "check c.nq --graph-name g:3");
    reads(&mut page, "check d.trig");
    reads(&mut page, "check e.ttl");
    reads(&mut page, "check e.ttl --base http://ex.org/");
    hold(page, "rdf");
}

#[test]
fn labels_are_names_too() {
    let mut page = Page::that_trains();
    let (mut triples, mut labels) = (String::new(), String::from("name\tlabel\ttype\nP1\thas capital\t\n"));
    labels += "Q90\tParis\tCity\nQ91\tParis\tCity\n";
    for n in 1..30 {
        triples += &format!("Q{n}\tP1\tQ{}\nQ{}\tP2\tQ{n}\nQ{n}\tP3\tQ{}\n", 89 + n, 89 + n, 1 + n % 29);
        labels += &format!("Q{n}\tCountry {n}\tCountry\n");
    }
    page.write("data.tsv", &triples);
    page.write("labels.tsv", &labels);
    page.types("train data.tsv --labels labels.tsv --model rules --out model");
    page.types_words(&["predict", "model", "--head", "Country 1", "--relation", "has capital", "--top", "3"]);
    page.types("predict model --head Paris --relation P2");
    page.types("predict model --head Q90 --relation P2 --top 2");
    page.types_words(&["explain", "model", "Country 1", "has capital", "Q90"]);
    hold(page, "labels");
}

/// Forty places with labels, as an RDF file.
fn world() -> String {
    let mut text = String::from(
        "@prefix geo: <http://ex.org/geography/> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n\
         geo:P36 rdfs:label \"has capital\"@en .\ngeo:P1376 rdfs:label \"is capital of\"@en .\n",
    );
    for n in 0..60 {
        text += &format!(
            "geo:Q{n} rdfs:label \"Land {n}\"@en ; geo:P36 geo:C{n} ; geo:inContinent geo:K{} ; geo:borders geo:Q{} .\n\
             geo:C{n} rdfs:label \"City {n}\"@en ; geo:P1376 geo:Q{n} .\n",
            n % 5,
            (n + 1) % 60
        );
    }
    text
}

#[test]
fn iris_are_short_in_rules_and_never_cut() {
    let mut page = Page::that_trains();
    let iri = |name: &str| format!("<http://example.org/a/long/namespace/of/places#{name}>");
    let facts: String = (0..30)
        .map(|n| {
            let (land, city) = (iri(&format!("land{n}")), iri(&format!("city{n}")));
            format!("{land} {} {city} .\n{city} {} {land} .\n", iri("hasCapital"), iri("isCapitalOf"))
        })
        .collect();
    page.write("world.nt", &facts);
    page.types("mine world.nt --min-head-size 1 --out rules.tsv");
    page.silently("train world.nt --guidance ruge --rules rules.tsv --dim 4 --epochs 2 --out model");
    page.write("new.nt", &format!("{} {} {} .\n", iri("city99"), iri("isCapitalOf"), iri("land99")));
    let land = iri("land99").replace(['<', '>'], "");
    page.types(&format!("predict model --with new.nt --head {land} --relation places:hasCapital --top 2"));
    page.types("rules consistency model --top 2");
    page.types_narrow("rules consistency model --top 2", 40);
    hold(page, "iris");
}

#[test]
fn the_report_has_labels_and_its_downloads_have_names() {
    let mut page = Page::that_trains();
    page.write("world.ttl", &world());
    page.silently("run world.ttl --dim 8 --epochs 6 --min-support 2 --out run");
    let report = std::fs::read_to_string(page.path("run/report.html")).expect("a report");
    let text = report.replace("<wbr>", "");
    for shown in ["has capital (geo:P36)", "if x is capital of y then y has capital x", ">geo:inContinent<"] {
        assert!(text.contains(shown), "{shown} is not in the report");
    }
    // What is downloaded is in attributes; what is read has no full IRI but for the command lines and settings.
    let (read, _) = text.split_once("<section id=\"repeat\"").expect("how to repeat it");
    let outside: String = read.split('<').filter_map(|part| part.split_once('>')).map(|(_, words)| words).collect();
    assert!(
        !outside.contains("http://ex.org/"),
        "{:?}",
        outside.find("http://ex.org/").map(|at| &outside[at..at + 60])
    );
    let shown = page.says("rules consistency run/guided --top 30");
    assert!(shown.contains("if x is capital of y then y has capital x") && !shown.contains("http://"), "{shown}");

    // Proposed facts are read with labels and downloaded without.
    let relations = ["child_of", "parent_of", "married_to", "father_of"];
    let labels: String = relations.iter().map(|name| format!("{name}\tlabel of {name}\n")).collect();
    page.write("labels.tsv", &format!("name\tlabel\n{labels}"));
    page.silently("run families --labels labels.tsv --dim 8 --epochs 4 --out families-run");
    let report = std::fs::read_to_string(page.path("families-run/report.html")).expect("a report");
    let (_, proposals) = report.split_once("<section id=\"proposals\"").expect("proposed facts");
    let both = |name: &&&str| {
        let shown = format!("label of {name} ({name})");
        proposals.replace("<wbr>", "").contains(&shown) && proposals.contains(&format!("&quot;{name}&quot;"))
    };
    assert!(relations.iter().filter(both).count() > 0, "no relation is shown with its label");
}
