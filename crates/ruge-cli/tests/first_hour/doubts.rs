//! What makes results doubtful is said loudly, and what a command did not do is said at all.

use crate::support::page::Page;
use crate::{hold, places};

#[test]
fn doubtful_splits_are_said() {
    let mut page = Page::that_trains();
    let lines = |name: &str| -> String { (0..40).map(|n| format!("{name}{n}\tr\t{name}{}\n", n % 7)).collect() };
    page.write("same/train.tsv", &lines("a"));
    page.write("same/test.tsv", &lines("a"));
    page.write("other/train.tsv", &lines("a"));
    page.write("other/test.tsv", &lines("b"));
    page.write("alone/train.tsv", &lines("a"));
    let leaves: String = (0..216).map(|n| format!("p{n}\tpart_of\tw{n}\n")).collect();
    page.write("leaves.tsv", &(places() + &leaves));
    page.types("train same --dim 4 --epochs 1 --out same-model");
    page.types("train other --dim 4 --epochs 1 --out other-model");
    page.types_first("check leaves.tsv", "Counts");
    page.types_first("check alone --held-out 0.2,0.2", "Held-out parts");
    page.types_first("check same --held-out 0.2,0.2", "Counts");
    hold(page, "splits");
}

#[test]
fn one_of_something_is_no_plural() {
    let mut page = Page::new();
    page.write("one.tsv", "a\tr\tb\n");
    page.types("check one.tsv");
    hold(page, "one");
}

#[test]
fn no_entity_is_its_own_partner() {
    let mut page = Page::that_trains();
    page.write("places.tsv", &places());
    page.silently("train places.tsv --dim 8 --epochs 3 --out model");
    let all = page.says("predict model --head k1 --relation borders --top 1000");
    assert!(all.contains("k2") && !all.lines().any(|line| line.split_whitespace().nth(1) == Some("k1")), "{all}");
}

#[test]
fn a_folder_of_a_run_is_left_alone_by_train() {
    let mut page = Page::that_trains();
    page.silently("run families --dim 4 --epochs 2 --out run");
    page.types("train families --dim 4 --epochs 2 --out run");
    page.types("train families --out run --resume");
    std::fs::remove_file(page.path("run/model.safetensors")).expect("it is there");
    page.types("predict run --head Ada --relation child_of");
    hold(page, "owners");
}
