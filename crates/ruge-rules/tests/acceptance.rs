//! The numbers that AMIE and the paper's authors published, reproduced exactly.
//!
//! These tests need the benchmark data: a folder named by `RUGE_DATA`, or `shared/data` beside the repository. Without
//! it they say loudly that they were skipped.

#![allow(clippy::print_stderr, reason = "a skipped test must say so")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ruge_kg::io::{ReadOptions, read_file};
use ruge_kg::{Dataset, Graph, Names};
use ruge_rules::verify::verify;
use ruge_rules::{MineConfig, Mined, Rule, RuleFile, RuleReadOptions, ground, mine, read_rules};
use sha2::{Digest, Sha256};

fn data(name: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("RUGE_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: {} is not there; set RUGE_DATA to the benchmark folder", path.display());
    None
}

fn load(name: &str) -> Option<Dataset> {
    let path = data(name)?;
    Some(Dataset::load(&path, &ReadOptions::default()).expect("the benchmark is readable").0)
}

fn mined(data: &Dataset, config: &MineConfig) -> Mined {
    mine(data.graph(), config, &Default::default())
}

/// Mines with and without skyline and compares the numbers of rules.
fn check_counts(name: &str, config: MineConfig, with: usize, without: usize) {
    let Some(data) = load(name) else { return };
    assert_eq!(mined(&data, &MineConfig { skyline: true, ..config.clone() }).rules.len(), with, "{name} with skyline");
    assert_eq!(mined(&data, &MineConfig { skyline: false, ..config }).rules.len(), without, "{name} without skyline");
}

#[test]
fn fb15k_at_the_default_thresholds() {
    check_counts("fb15k", MineConfig::default(), 13_350, 15_013);
}

#[test]
fn fb15k_as_amie_by_default() {
    check_counts("fb15k", MineConfig::amie(), 41_246, 44_256);
}

#[test]
fn fb15k_at_half_coverage() {
    check_counts("fb15k", MineConfig { min_head_coverage: 0.5, ..MineConfig::default() }, 1_424, 1_737);
}

type Numbers = BTreeMap<Rule, (u64, u64)>;

fn ours(mined: &Mined) -> Numbers {
    mined.rules.iter().map(|r| (r.rule.canonical(), (r.counts.support, r.counts.pca_body()))).collect()
}

fn read(path: &Path, data: &Dataset) -> RuleFile {
    let mut names = data.names().clone();
    read_rules(path, &RuleReadOptions::default(), &mut names).expect("the reference file is readable")
}

fn theirs(file: &RuleFile) -> Numbers {
    let number = |value: Option<u64>| value.expect("AMIE writes its counts");
    file.rules.iter().map(|r| (r.rule.canonical(), (number(r.stated.support), number(r.stated.pca_body)))).collect()
}

/// The same rules with the same support and PCA body size as AMIE 3.5, whose skyline does nothing.
fn check_against_amie(name: &str, reference: &str, config: MineConfig, rules: usize) {
    let (Some(dataset), Some(path)) = (load(name), data(reference)) else { return };
    let expected = theirs(&read(&path, &dataset));
    assert_eq!(expected.len(), rules, "{reference}");
    assert!(
        ours(&mined(&dataset, &MineConfig { skyline: false, ..config })) == expected,
        "{name} differs from {reference}"
    );
}

#[test]
fn fb15k_equals_amie() {
    let config = MineConfig { min_head_coverage: 0.5, ..MineConfig::default() };
    check_against_amie("fb15k", "reference/amie3.5-fb15k-hc0.5-pca0.8.tsv.gz", config, 1_737);
}

#[test]
fn fb15k_237_equals_amie() {
    check_against_amie("fb15k-237", "reference/amie3.5-fb15k-237-hc0.01-pca0.8.tsv.gz", MineConfig::default(), 2_703);
    check_counts("fb15k-237", MineConfig::default(), 2_557, 2_703);
}

#[test]
fn wn18_and_wn18rr_equal_amie() {
    check_against_amie("wn18", "reference/amie3.5-wn18-hc0.01-pca0.8.tsv.gz", MineConfig::default(), 45);
    check_counts("wn18", MineConfig::default(), 41, 45);
    check_against_amie("wn18rr", "reference/amie3.5-wn18rr-hc0.01-pca0.8.tsv.gz", MineConfig::default(), 7);
    check_counts("wn18rr", MineConfig::default(), 5, 7);
}

#[test]
fn large_heads_contain_the_published_amie_plus_log() {
    let (Some(dataset), Some(path)) = (load("fb15k"), data("reference/amieplus-fb15k-minis1000-published.txt.gz"))
    else {
        return;
    };
    let config = MineConfig { min_head_size: 1000, ..MineConfig::amie() };
    let ours = ours(&mined(&dataset, &config));
    let published = theirs(&read(&path, &dataset));
    assert_eq!((ours.len(), published.len()), (8_913, 8_909));
    let missing = published.iter().filter(|(rule, counts)| ours.get(rule) != Some(counts)).count();
    assert_eq!(missing, 0, "published rules that we lack or count otherwise");
}

#[test]
fn the_preset_gives_the_published_rule_file() {
    let (Some(dataset), Some(path)) = (load("fb15k"), data("fb15k/rules.tsv")) else { return };
    let file = read(&path, &dataset);
    let published: BTreeMap<Rule, f64> = file.rules.iter().map(|r| (r.rule.canonical(), r.confidence.get())).collect();
    let mined = mined(&dataset, &MineConfig::ruge_fb15k());
    assert_eq!((mined.rules.len(), published.len()), (454, 454));
    for rule in &mined.rules {
        let confidence = published.get(&rule.rule.canonical()).expect("every mined rule is in the published file");
        assert!((rule.counts.pca() - confidence).abs() < 6e-10, "{} against {confidence}", rule.counts.pca());
    }
    let verification = verify(dataset.graph(), &file);
    assert_eq!((verification.matching_pca(), verification.mismatched()), (454, 0));
}

#[test]
fn grounding_the_published_rules_gives_the_papers_counts() {
    let (Some(dataset), Some(path)) = (load("fb15k"), data("fb15k/rules.tsv")) else { return };
    let rules: Vec<Rule> = read(&path, &dataset).rules.into_iter().map(|record| record.rule).collect();
    let groundings = ground(dataset.graph(), &rules);
    let overlaps = (groundings.overlap(dataset.valid()), groundings.overlap(dataset.test()));
    assert_eq!((groundings.len(), groundings.unlabeled().len(), overlaps), (96_724, 74_707, (34_200, 40_436)));
    assert_eq!(groundings.repeated(), 101, "96,825 without dropping what two rules share");
}

#[test]
fn grounding_on_the_validation_file_gives_the_same_text_as_the_authors() {
    let (Some(valid), Some(path)) = (data("fb15k/valid.txt.gz"), data("fb15k/rules.tsv")) else { return };
    let mut names = Names::default();
    let triples = read_file(&valid, &mut names, &ReadOptions::default()).expect("readable").triples;
    let graph = Graph::new(names.entities.len(), names.relations.len(), &triples);
    let rules: Vec<Rule> = read_rules(&path, &RuleReadOptions::default(), &mut names)
        .expect("readable")
        .rules
        .into_iter()
        .map(|record| record.rule)
        .collect();
    let groundings = ground(&graph, &rules);
    assert_eq!(groundings.not_grounded().len(), 1, "one relation is absent");
    let show = |t: &ruge_kg::Triple| {
        let entity = |id| names.entities.name(id);
        format!("{}\t{}\t{}", entity(t.head), names.relations.name(t.relation), entity(t.tail))
    };
    let mut lines: Vec<String> = (0..groundings.len())
        .map(|g| {
            let conclusion = &groundings.unlabeled()[groundings.conclusion(g)];
            groundings.premises(g).iter().chain([conclusion]).map(show).collect::<Vec<_>>().join("|")
        })
        .collect();
    lines.sort();
    let one_premise = (0..groundings.len()).filter(|&g| groundings.premises(g).len() == 1).count();
    assert_eq!((lines.len(), one_premise, groundings.unlabeled().len()), (46_639, 46_116, 44_951));
    let several: Vec<usize> =
        (0..groundings.unlabeled().len()).map(|u| groundings.concluding(u).len()).filter(|&n| n > 1).collect();
    assert_eq!((several.len(), several.iter().max()), (1_559, Some(&4)));
    assert_eq!(groundings.unlabeled().iter().filter(|t| t.head == t.tail).count(), 59);
    let digest = Sha256::digest(lines.join("\n").as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "5a7e1d65085fb4ab4cb36864383ba10539330d51806d5b0d17b84452fd3bb618");
}
