//! Runs that can be planned: in a time, with several seeds, from a spec that something else found.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::page::Page;
use crate::support::{command, stderr, wait_for};
use crate::{hold, places};

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

/// Everything that `mine` and `combine` leave out for want of time can be left out again without a clock.
#[test]
fn what_mining_left_out_is_named_and_can_be_left_out_again() {
    let mut page = Page::that_trains();
    page.write("places.tsv", &places());
    let rules = |page: &Page, name: &str| -> (Vec<String>, Option<String>) {
        let text = fs::read_to_string(page.path(name)).expect("rules");
        let again =
            text.lines().find_map(|line| line.split_once("--exclude-heads ")).map(|(_, names)| names.to_string());
        (text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect(), again)
    };
    // No time at all, and some: the clock may stop mining anywhere, or not at all.
    for minutes in ["0", "0.00002", "0.0002", "9"] {
        let line = format!("mine places.tsv --min-head-size 1 --minutes {minutes} --out timed.tsv");
        page.silently(&line);
        let (timed, left_out) = rules(&page, "timed.tsv");
        let flag = left_out.iter().flat_map(|names| ["--exclude-heads", names.trim_matches('\'')]);
        let mut args = vec!["mine", "places.tsv", "--min-head-size", "1", "--out", "again.tsv"];
        args.extend(flag);
        page.types_words(&args);
        assert_eq!(rules(&page, "again.tsv"), (timed.clone(), None), "after {minutes} minutes");
        assert!(minutes != "0" || (timed.is_empty() && left_out.is_some()), "no time finds no rule: {timed:?}");
        assert!(minutes != "9" || (!timed.is_empty() && left_out.is_none()), "enough time finds all: {timed:?}");
    }
}

#[test]
fn what_a_combination_came_to_is_a_command() {
    let mut page = Page::that_trains();
    page.write("places.tsv", &places());
    page.silently("train places.tsv --dim 8 --epochs 3 --out model");
    page.silently("combine model --out whole");
    let read = |page: &Page, name: &str| fs::read(page.path(&format!("{name}/model.safetensors"))).expect("a model");
    for (at, minutes) in ["0", "0.001", "0.01", "9"].into_iter().enumerate() {
        let said = page.says(&format!("combine model --minutes {minutes} --out timed{at} --json"));
        let said: Value = serde_json::from_str(&said).expect("an object");
        let repeat = said["repeat"].as_str().expect("a command").to_string();
        let spec = fs::read_to_string(page.path(&format!("timed{at}/spec.toml"))).expect("a spec");
        assert!(spec.starts_with(&format!("# the same without a clock: {repeat}\n")), "{spec}");
        page.silently(repeat.strip_prefix("ruge ").expect("a command of ours"));
        assert!(read(&page, &format!("timed{at}")) == read(&page, &format!("timed{at}-again")), "{repeat}");
        assert!(
            minutes != "9" || read(&page, "timed3") == read(&page, "whole"),
            "all the time there is changes nothing"
        );
    }
    page.types_first("combine model --minutes -1 --out wrong", "nothing");
    page.types_first("combine model --effort 0,0 --out wrong", "nothing");
    hold(page, "effort");
}

#[test]
fn a_search_ends_in_time_and_says_how_it_goes_on() {
    let mut page = Page::that_trains();
    let schedule = "[schedule]\nepochs = 2\nvalidate-every = 1\n";
    page.write("space.toml", &format!("[model]\ndimension = [4, 8]\n{schedule}[search]\nmethod = \"grid\"\n"));
    page.silently("search families --spec space.toml --out whole");
    page.types("search families --spec space.toml --minutes 0 --out timed");
    page.types("search families --minutes wrong --resume --out timed");
    page.silently("search families --resume --out timed");
    let best = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(page.path(&format!("{name}/best.toml"))).expect("a spec");
        text.lines().filter(|line| !line.starts_with("# ruge ")).map(str::to_string).collect()
    };
    assert_eq!(best("timed"), best("whole"), "a search that was stopped ends as one that was not");
    hold(page, "search-in-time");
}

/// The best model is what the story and the report are about, whoever trained it.
#[test]
fn rules_that_help_are_said_to_help() {
    let page = Page::that_trains();
    page.write("places.tsv", &places());
    let story = page.says("run places.tsv --dim 8 --epochs 6 --out run");
    let found: Value =
        serde_json::from_str(&page.says("run places.tsv --dim 8 --epochs 6 --out run --json")).expect("one");
    let mrr = |key: &str| found[key]["mrr"].as_f64().unwrap_or_else(|| panic!("{key}: {found}"));
    let best = found["systems"]["best"].as_str().expect("a name");
    let gain = mrr(best) - mrr("complex");
    assert!(gain > 0.03, "this graph is made so that rules help: {gain}");
    let words = story.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("Rules raise MRR by {gain:.3}.")), "{story}");
    let report = fs::read_to_string(page.path("run/report.html")).expect("a report");
    let headline =
        report.split("class=\"lead\">").nth(1).and_then(|rest| rest.split("</p>").next()).expect("a headline");
    assert!(headline.contains(&format!("<b>{:.3}</b>", mrr(best))) && headline.contains("help"), "{headline}");
    // Every result once: no two names have the same figures.
    let results: Vec<&Value> = ["complex", "ruge", "with_rules", "rules_only"].iter().map(|key| &found[*key]).collect();
    let named =
        found.as_object().expect("an object").values().filter(|value| value["ranks_sha256"].is_string()).count();
    assert!(named <= results.len(), "{found}");
    // Several seeds have the same names.
    let seeds: Value =
        serde_json::from_str(&page.says("run places.tsv --dim 8 --epochs 2 --seeds 2 --out seeds --json"))
            .expect("one");
    for system in ["unguided", "guided"] {
        let name = seeds["systems"][system].as_str().expect("a name");
        assert_eq!(found["systems"][system], name);
        assert!(seeds[name]["mrr"]["mean"].is_number() && found[name]["mrr"].is_number(), "{name}");
    }
    let best = seeds["systems"]["best"].as_str().expect("a name");
    assert!(seeds[best]["mrr"]["mean"].is_number(), "{seeds}");
}

/// A rule's confidence is what mining counted. Validation that says nothing about its relation is no reason to show 0.
#[test]
fn a_symmetric_relation_without_validation_keeps_its_confidence() {
    let page = Page::that_trains();
    let train: String =
        (0..60).map(|n| format!("a{n}\tsame_as\tb{n}\nb{n}\tsame_as\ta{n}\na{n}\tlives_in\tc{}\n", n % 7)).collect();
    let held: String = (0..10).map(|n| format!("b{n}\tlives_in\tc{}\n", n % 7)).collect();
    page.write("twins/train.tsv", &train);
    page.write("twins/valid.tsv", &held);
    page.write("twins/test.tsv", &held.replace("b", "b1"));
    let story = page.says("run twins --dim 4 --epochs 2 --out run");
    let rule = story.lines().find(|line| line.contains("if x same_as y then y same_as x")).expect("the rule is shown");
    assert!(rule.trim_start().starts_with("1.00") && !story.contains("conf 0.00"), "{story}");
    let report = fs::read_to_string(page.path("run/report.html")).expect("a report");
    let row =
        report.split("<tr>").find(|row| row.contains("if x same_as y then y same_as x")).expect("the rule is shown");
    assert!(row.contains(">1.000<"), "{row}");
}

/// Ctrl-C in the middle: the exit code of a signal, and whoever asks the folder for answers hears which command goes on.
#[cfg(unix)]
#[test]
fn an_interrupted_run_says_how_it_goes_on() {
    let mut page = Page::that_trains();
    // So many epochs that it cannot be over before the signal comes.
    let many = ["--epochs", "100000", "--patience", "100000", "--checkpoint-every", "0"];
    let mut child = command(&[&["run", "demo", "--dim", "8", "--out", "run"][..], &many].concat());
    child.current_dir(page.path("")).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = child.spawn().expect("runs");
    wait_for(&page.path("run/unguided/checkpoint.safetensors"));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let output = child.wait_with_output().expect("ended");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("continue with: ruge run demo"), "{said}");
    page.types("predict run --head France --relation has_capital");
    page.types("eval run");
    hold(page, "interrupted");
}
