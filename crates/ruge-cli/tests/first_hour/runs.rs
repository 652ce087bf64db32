//! Runs that can be planned: in a time, with several seeds, from a spec that something else found.

use std::fs;

use crate::hold;
use crate::support::page::Page;

/// The clock decides numbers, and the spec has them: the same model again, to the bit.
#[test]
fn what_a_time_came_to_is_a_spec() {
    let mut page = Page::that_trains();
    page.silently("train families --dim 8 --epochs 500 --validate-every 3 --minutes 0 --out short");
    let spec = fs::read_to_string(page.path("short/spec.toml")).expect("written");
    assert!(spec.contains("epochs = 2\n"), "one epoch, and one more that is validated: {spec}");
    page.silently("train families --spec short/spec.toml --out again");
    page.silently("run families --minutes 0 --out run");
    page.silently("run families --spec run/spec.toml --out rerun");
    let same = |one: &str, other: &str| {
        let read = |name: &str| fs::read(page.path(&format!("{name}/model.safetensors"))).expect("a model");
        assert!(read(one) == read(other), "{one} and {other} differ");
    };
    same("short", "again");
    for part in ["", "/evaluated", "/guided", "/unguided"] {
        same(&format!("run{part}"), &format!("rerun{part}"));
    }
    let spec = fs::read_to_string(page.path("run/spec.toml")).expect("written");
    assert!(spec.contains("epochs = 1\n"), "{spec}");
    // Typed again, it is the same run, and nothing is left to do.
    let said = page.says("run families --minutes 0 --out run --json");
    assert!(said.contains("\"finished\":true"), "{said}");
}

#[test]
fn seeds_have_means_and_a_test() {
    let mut page = Page::that_trains();
    page.types("run families --dim 8 --epochs 4 --seeds 3 --out seeds");
    page.asks("run families --dim 8 --epochs 4 --seeds 3 --out seeds");
    page.types("run families --dim 8 --epochs 4 --seeds 1 --out seeds");
    hold(page, "seeds");
}

#[test]
fn the_best_spec_of_a_search_runs() {
    let mut page = Page::that_trains();
    let schedule = "[schedule]\nepochs = 2\nvalidate-every = 1\n";
    page.write("space.toml", &format!("[model]\ndimension = [4, 8]\n{schedule}[search]\nmethod = \"grid\"\n"));
    page.silently("search families --spec space.toml --out search");
    page.types_first("run families --spec search/best.toml --out run", "New facts");
    hold(page, "best");
}

#[test]
fn an_unfinished_training_goes_on_when_typed_again() {
    let mut page = Page::that_trains();
    page.silently("train families --dim 8 --epochs 4 --out whole");
    page.silently("train families --dim 8 --epochs 4 --out cut");
    fs::remove_file(page.path("cut/model.safetensors")).expect("it was there");
    page.types("train families --dim 8 --epochs 4 --out cut");
    page.types("train families --dim 8 --epochs 4 --out cut");
    let read = |name: &str| fs::read(page.path(&format!("{name}/model.safetensors"))).expect("a model");
    assert!(read("whole") == read("cut"), "it ends with the same bits");
    hold(page, "again");
}
