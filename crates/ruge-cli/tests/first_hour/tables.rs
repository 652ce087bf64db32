//! Tables with headers and columns of their own, and rule files of other programs.

use crate::hold;
use crate::support::page::Page;

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
