//! Exact reproduction of the numbers published by AMIE and by the paper's authors.
//!
//! The data are not part of the project; see `ruge_testing::data`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ruge_kg::io::{ReadOptions, read_file};
use ruge_kg::{Dataset, Graph, Names};
use ruge_rules::verify::verify;
use ruge_rules::{MineConfig, Mined, Rule, RuleFile, RuleReadOptions, ground, mine, read_rules};
use ruge_testing::{Tests, data};
use sha2::{Digest, Sha256};

const AMIE_PLUS: &str = "reference/amieplus-fb15k-minis1000-published.txt.gz";

fn main() -> ExitCode {
    let mut tests = Tests::default()
        .test(data("fb15k"), fb15k_at_the_default_thresholds)
        .test(data("fb15k"), fb15k_as_amie_by_default)
        .test((data("fb15k"), data(AMIE_PLUS)), large_heads_contain_the_published_amie_plus_log)
        .test(data("fb15k"), the_preset_gives_the_published_rule_file)
        .test(data("fb15k"), grounding_the_published_rules_gives_the_papers_counts)
        .test(data("fb15k"), grounding_on_the_validation_file_gives_the_same_text_as_the_authors);
    let half = MineConfig { min_head_coverage: 0.5, ..MineConfig::default() };
    for (name, coverage, config, with_skyline, rules) in [
        ("fb15k", "0.5", half, 1_424, 1_737),
        ("fb15k-237", "0.01", MineConfig::default(), 2_557, 2_703),
        ("wn18", "0.01", MineConfig::default(), 41, 45),
        ("wn18rr", "0.01", MineConfig::default(), 5, 7),
    ] {
        let reference = data(&format!("reference/amie3.5-{name}-hc{coverage}-pca0.8.tsv.gz"));
        tests = tests.named(&format!("equals_amie::{name}"), (data(name), reference), move |(folder, reference)| {
            equals_amie(&folder, &reference, config, with_skyline, rules);
        });
    }
    tests.run()
}

fn load(folder: &Path) -> Dataset {
    Dataset::load(folder, &ReadOptions::default()).expect("the benchmark is readable").0
}

fn mined(data: &Dataset, config: &MineConfig) -> Mined {
    mine(data.graph(), config, &Default::default())
}

/// Mines with and without skyline and compares the numbers of rules.
fn check_counts(folder: &Path, config: MineConfig, with: usize, without: usize) {
    let data = load(folder);
    assert_eq!(mined(&data, &MineConfig { skyline: true, ..config.clone() }).rules.len(), with, "with skyline");
    assert_eq!(mined(&data, &MineConfig { skyline: false, ..config }).rules.len(), without, "without skyline");
}

fn fb15k_at_the_default_thresholds(folder: PathBuf) {
    check_counts(&folder, MineConfig::default(), 13_350, 15_013);
}

fn fb15k_as_amie_by_default(folder: PathBuf) {
    check_counts(&folder, MineConfig::amie(), 41_246, 44_256);
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

/// The same rules with the same support and PCA body size as AMIE 3.5, whose skyline does nothing; ours keeps fewer.
fn equals_amie(folder: &Path, reference: &Path, config: MineConfig, with_skyline: usize, rules: usize) {
    let data = load(folder);
    let expected = theirs(&read(reference, &data));
    assert_eq!(expected.len(), rules);
    assert!(ours(&mined(&data, &MineConfig { skyline: false, ..config.clone() })) == expected, "not AMIE's rules");
    assert_eq!(mined(&data, &MineConfig { skyline: true, ..config }).rules.len(), with_skyline, "with skyline");
}

fn large_heads_contain_the_published_amie_plus_log((folder, path): (PathBuf, PathBuf)) {
    let dataset = load(&folder);
    let config = MineConfig { min_head_size: 1000, ..MineConfig::amie() };
    let ours = ours(&mined(&dataset, &config));
    let published = theirs(&read(&path, &dataset));
    assert_eq!((ours.len(), published.len()), (8_913, 8_909));
    let missing = published.iter().filter(|(rule, counts)| ours.get(rule) != Some(counts)).count();
    assert_eq!(missing, 0, "published rules that we lack or count otherwise");
}

fn the_preset_gives_the_published_rule_file(folder: PathBuf) {
    let dataset = load(&folder);
    let file = read(&folder.join("rules.tsv"), &dataset);
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

fn grounding_the_published_rules_gives_the_papers_counts(folder: PathBuf) {
    let dataset = load(&folder);
    let rules: Vec<Rule> =
        read(&folder.join("rules.tsv"), &dataset).rules.into_iter().map(|record| record.rule).collect();
    let groundings = ground(dataset.graph(), &rules);
    let overlaps = (groundings.overlap(dataset.valid()), groundings.overlap(dataset.test()));
    assert_eq!((groundings.len(), groundings.unlabeled().len(), overlaps), (96_724, 74_707, (34_200, 40_436)));
    assert_eq!(groundings.repeated(), 101, "96,825 without dropping what two rules share");
}

fn grounding_on_the_validation_file_gives_the_same_text_as_the_authors(folder: PathBuf) {
    let mut names = Names::default();
    let triples =
        read_file(&folder.join("valid.txt.gz"), &mut names, &ReadOptions::default()).expect("readable").triples;
    let graph = Graph::new(names.entities.len(), names.relations.len(), &triples);
    let rules: Vec<Rule> = read_rules(&folder.join("rules.tsv"), &RuleReadOptions::default(), &mut names)
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
