//! What every command prints for people, and the shape of every `--json` object, word for word in `snapshots/`.
//!
//! `INSTA_UPDATE=always cargo test -p ruge-cli --test snapshots` writes them again; read the difference before you commit it.

mod support;

use support::page::Page;

#[test]
fn help() {
    let mut page = Page::new();
    page.types("--help");
    page.types("predict --help");
    page.hold("help");
}

/// What is wrong, where, and what to do: in the data, on the command line, in a name.
#[test]
fn errors() {
    let mut page = Page::with_model();
    page.write("broken.tsv", "a\tr\tb\na\tr\n");
    page.types("check broken.tsv");
    page.types("train families --dim 0 --out never");
    page.types("predict model --head Antno --relation married_to");
    page.types("eval nowhere");
    page.hold("errors");
}

#[test]
fn check() {
    let mut page = Page::new();
    page.types("check families");
    page.asks("check families");
    page.write("laws.txt", "# One parent would be few.\nfunctional\tchild_of\nasymmetric\tmarried_to\n");
    page.types("check families --constraints laws.txt");
    page.asks("check families --constraints laws.txt");
    page.write("wrong.txt", "functional child_off\n");
    page.types("check families --constraints wrong.txt");
    page.hold("check");
}

#[test]
fn mine() {
    let mut page = Page::new();
    page.types("mine families --min-head-size 1 --min-support 2");
    page.types("mine families --min-head-size 1 --min-support 2 --out rules.tsv");
    page.asks("mine families --min-head-size 1 --min-support 2");
    page.hold("mine");
}

#[test]
fn rules() {
    let mut page = Page::new();
    page.silently("mine families --min-head-size 1 --min-support 2 --out rules.tsv");
    page.types("rules verify families --rules rules.tsv");
    page.asks("rules verify families --rules rules.tsv");
    page.types("rules convert rules.tsv --to amie");
    page.types("rules convert rules.tsv --to json --out rules.json");
    page.asks("rules convert rules.tsv --to json --out rules.json");
    page.types("ground families --rules rules.tsv");
    page.types("ground families --rules rules.tsv --out groundings.tsv");
    page.asks("ground families --rules rules.tsv");
    page.hold("rules");
}

#[test]
fn consistency() {
    let mut page = Page::with_model();
    page.types("rules consistency model");
    page.asks("rules consistency model");
    page.hold("consistency");
}

#[test]
fn train() {
    let mut page = Page::that_trains();
    page.types("train families --dim 8 --epochs 4 --validate-every 2 --out a");
    page.asks("train families --dim 8 --epochs 4 --validate-every 2 --out b");
    page.asks("train families --model rules --out c");
    page.hold("train");
}

#[test]
fn eval() {
    let mut page = Page::with_model();
    page.types("eval model --by-relation");
    page.asks("eval model --by-relation");
    page.types("eval model --split train --queries 10 --by-relation");
    page.asks("eval model --split train --queries 10");
    page.write("negatives/valid_negatives.txt", "Felix\tchild_of\tAda\nAnton\tmarried_to\tFlora\n");
    page.write("negatives/test_negatives.txt", "Frieda\tmarried_to\tAda\nFlora\tchild_of\tAda\n");
    page.types("eval model --classify negatives");
    page.asks("eval model --classify negatives");
    page.hold("eval");
}

#[test]
fn predict() {
    let mut page = Page::with_model();
    page.write("questions.tsv", "Anton\tmarried_to\t?\n?\tchild_of\tFritz\nAnton\t?\tAda\n");
    page.write("facts.tsv", "Gustav\tmarried_to\tAda\nGustav\tfather_of\tFlora\n");
    for question in [
        "--head Anton --relation married_to --top 3",
        "--relation child_of --tail Fritz --top 3 --new",
        "--head Anton --tail Ada --top 3",
        "--like Anton --top 3",
        "--with facts.tsv --head Gustav --relation married_to --typed --top 3",
        "--queries questions.tsv --top 2",
    ] {
        page.types(&format!("predict model {question}"));
        page.asks(&format!("predict model {question}"));
    }
    page.types("predict model --queries questions.tsv --top 2 --to jsonl");
    page.hold("predict");
}

#[test]
fn explain() {
    let mut page = Page::with_model();
    page.types("explain model Flora child_of Fritz");
    page.asks("explain model Flora child_of Fritz");
    page.types("explain model Flora child_of Fritz --dot");
    page.hold("explain");
}

#[test]
fn complete() {
    let mut page = Page::with_model();
    page.types("complete model --top 3");
    page.asks("complete model --top 3");
    for format in ["tsv", "csv", "nt", "rdf-star", "cypher"] {
        page.types(&format!("complete model --top 2 --to {format}"));
    }
    page.hold("complete");
}

#[test]
fn combine() {
    let mut page = Page::with_model();
    page.types("combine model --rules rules.tsv --out a");
    page.asks("combine model --rules rules.tsv --out b");
    page.hold("combine");
}

#[test]
fn export() {
    let mut page = Page::with_model();
    for format in ["npy", "word2vec", "parquet", "pykeen"] {
        page.types(&format!("export model --to {format} --out {format}"));
        page.asks(&format!("export model --to {format} --out {format}-again"));
    }
    page.hold("export");
}

#[test]
fn search() {
    let mut page = Page::that_trains();
    let schedule = "[schedule]\nepochs = 2\nvalidate-every = 1\n";
    page.write("space.toml", &format!("[model]\ndimension = [4, 8]\n{schedule}[search]\nmethod = \"grid\"\n"));
    page.types("search families --spec space.toml --out a");
    page.asks("search families --spec space.toml --out b");
    page.hold("search");
}

#[test]
fn run() {
    let mut page = Page::that_trains();
    page.types("run families --dim 8 --epochs 4 --out a");
    page.asks("run families --dim 8 --epochs 4 --out b");
    page.hold("run");
}

#[test]
fn reproduce() {
    let mut page = Page::that_trains();
    page.write("experiments/complex.toml", "[model]\ndimension = 8\n[schedule]\nepochs = 2\nvalidate-every = 1\n");
    let cell = |name: &str, seeds: &str| {
        let published = "published = { mrr = 0.69, med = 1, hits = { 1 = 0.598 } }";
        let spec = "data = \"demo\"\nspec = \"complex.toml\"";
        format!("[[cell]]\nname = \"{name}\"\nmethod = \"{name}\"\n{spec}\nseeds = {seeds}\n{published}\n")
    };
    let cells = cell("ComplEx", "[0, 1]") + &cell("other", "[0]");
    page.write("experiments/link-prediction.toml", &format!("title = \"A small table\"\nnote = \"Ours.\"\n{cells}"));
    page.silently("reproduce link-prediction ComplEx");
    page.types("reproduce link-prediction --recorded");
    page.asks("reproduce link-prediction --recorded");
    page.hold("reproduce");
}

#[test]
fn data() {
    let mut page = Page::new();
    page.types("data list");
    page.asks("data list");
    page.hold("data");
}
