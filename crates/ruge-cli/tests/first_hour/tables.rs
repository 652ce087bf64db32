//! Tables with headers and columns of their own, and rule files of other programs.

use std::fs::File;
use std::io::Write;

use crate::support::page::Page;
use crate::{hold, places};

#[test]
fn columns_are_found_by_their_header_or_as_told() {
    let mut page = Page::new();
    page.write("a.csv", "id,subject,weight,predicate,object\n1,a,0.5,r,b\n2,b,0.5,r,c\n");
    page.write("b.csv", "who,does,whom\na,r,b\nb,r,c\n");
    page.write("edges.csv", ":START_ID,:END_ID,:TYPE\n1,2,KNOWS\n2,3,KNOWS\n");
    page.write("nodes.csv", ":ID,name,:LABEL\n1,Ada,Person\n2,Bob,Person\n3,Eve,Person\n");
    page.write("quoted.tsv", "\"a\"\t\"r\"\t\"b\"\n\"b\"\t\"r\"\t\"c\"\n");
    page.write("hetionet.tsv", "source\tmetaedge\ttarget\na\tr\tb\nb\tr\tc\n");
    for line in [
        "check a.csv",
        "check b.csv --columns who,does,whom",
        "check b.csv --columns who,does,nix",
        "check nodes.csv,edges.csv",
        "check quoted.tsv",
        "check hetionet.tsv",
        "check hetionet.tsv --header no",
        "check hetionet.tsv,quoted.tsv",
    ] {
        page.types_first(line, "Counts");
    }
    hold(page, "tables");
}

#[test]
fn another_order_and_a_header_are_suspected() {
    let mut page = Page::new();
    let swapped: String = (0..200).map(|n| format!("a{}\ta{}\tr{}\n", n % 40, (n * 7) % 31, n % 3)).collect();
    page.write("swapped.tsv", &swapped);
    let rows: String = (0..200).map(|n| format!("a{n}\tr\ta{}\n", n % 7)).collect();
    page.write("header.tsv", &format!("entity one\trel name\tentity two\n{rows}"));
    page.types_first("check swapped.tsv", "Counts");
    page.types_first("check header.tsv", "Counts");
    page.types_first("check header.tsv --header yes", "Counts");
    hold(page, "suspicions");
}

#[test]
fn kale_s_rules_lose_no_atom() {
    let mut page = Page::new();
    page.write("kale.txt", "child_of(x,y) && married_to(y,z) => child_of(x,z)\nmarried_to(x,y) => married_to(y,x)\n");
    page.types("rules convert kale.txt --to text");
    page.write("wrong.txt", "&child_of(x,y) => parent_of(y,x)\n");
    page.types("rules convert wrong.txt --to text");
    hold(page, "kale");
}

#[test]
fn names_with_tabs_and_line_ends_are_escaped() {
    let mut page = Page::that_trains();
    let mut rows = String::from("head,relation,tail\n");
    for n in 0..30 {
        rows += &format!("e{n},r,\"two\nlines\"\n\"a\ttab\",back,e{n}\n");
    }
    page.write("odd.csv", &rows);
    page.silently("train odd.csv --dim 4 --epochs 1 --quiet --out model");
    for line in [
        "predict model --head e1 --relation r --top 2",
        "complete model --top 2",
        "complete model --top 2 --to tsv",
        "complete model --top 2 --to csv",
        "complete model --top 2 --to nt",
        "complete model --top 2 --to rdf-star",
        "complete model --top 2 --to cypher",
    ] {
        page.types(line);
    }
    hold(page, "escapes");
}

/// A zip archive of these files.
fn zipped(page: &Page, name: &str, files: &[(&str, &str)]) {
    let mut archive = zip::ZipWriter::new(File::create(page.path(name)).expect("created"));
    for (name, text) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).expect("begun");
        archive.write_all(text.as_bytes()).expect("written");
    }
    archive.finish().expect("closed");
}

#[test]
fn archives_pipes_and_parquet_are_files_like_any_other() {
    let mut page = Page::that_trains();
    let triples = "a\tr\tb\nb\tr\tc\n";
    zipped(&page, "one.zip", &[("facts.tsv", triples)]);
    zipped(&page, "split.zip", &[("train.tsv", triples), ("valid.tsv", "a\tr\tc\n"), ("readme.md", "# Facts")]);
    page.write("ids.csv", "head_id,relation,tail_id\nQ1,r,Q2\nQ2,r,Q3\n");
    page.silently("mine families --min-head-size 1 --min-support 2 --out rules.tsv");
    page.silently("train families --guidance ruge --rules rules.tsv --dim 4 --epochs 1 --out guided");
    page.silently("export guided --to parquet --out tables");
    for line in [
        "check one.zip",
        "check split.zip",
        "check split.zip/valid.tsv",
        "check ids.csv",
        "check tables/groundings.parquet",
    ] {
        page.types_first(line, "Counts");
    }
    page.types_piped(triples, "check /dev/stdin", "Counts");
    page.types_piped("h,r,t\na,r,b\nb,r,c\n", "check /dev/stdin", "Counts");
    hold(page, "wrapped");
}

/// Tables on a terminal of forty columns: no line is too long, and no number is lost.
#[test]
fn forty_columns_are_enough() {
    let mut page = Page::that_trains();
    page.write("places.tsv", &places());
    page.write("new.tsv", "k99\thas_capital\tc99\n");
    page.silently("run places.tsv --dim 8 --epochs 3 --out run");
    page.silently("train places.tsv --dim 8 --epochs 2 --out model");
    let schedule = "[schedule]\nepochs = 2\nvalidate-every = 1\n";
    page.write("space.toml", &format!("[model]\ndimension = [4, 8]\n{schedule}[search]\nmethod = \"grid\"\n"));
    for line in [
        "check places.tsv",
        "run places.tsv --dim 8 --epochs 3 --out run",
        "eval run --by-relation",
        "eval run/guided",
        "predict run --head k1 --relation borders --top 2",
        "predict run/guided --with new.tsv --head c99 --relation capital_of --top 2",
        "predict run --like k1 --top 2",
        "explain run k1 has_capital c1",
        "complete run --top 2",
        "rules consistency run/guided --top 2",
        "search places.tsv --spec space.toml --out search",
        "run places.tsv --dim 8 --epochs 2 --seeds 2 --out seeds",
        "combine model --out both",
        "mine places.tsv --min-head-size 1 --out rules.tsv",
        "rules verify places.tsv --rules rules.tsv",
    ] {
        page.types_narrow(line, 40);
    }
    hold(page, "narrow");
}
