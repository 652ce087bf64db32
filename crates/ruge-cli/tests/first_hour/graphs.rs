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
