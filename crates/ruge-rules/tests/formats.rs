//! The published rule files and the reference outputs of other miners, read completely and written back.
//!
//! The files are not part of the project; see `ruge_testing::data`.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ruge_kg::Names;
use ruge_rules::io::{RuleFile, RuleReadOptions, Take, parse_rules, read_rules};
use ruge_rules::{RuleFormat, RuleWriteOptions, Shape, write_rules};
use ruge_testing::{Tests, data};

fn main() -> ExitCode {
    let mut tests = Tests::default()
        .test(data("fb15k/rules.tsv"), the_published_rules_of_fb15k)
        .test(data("yago37-core3/rules.tsv"), the_published_rules_of_yago37)
        .test(data("reference/amieplus-fb15k-minis1000-published.txt.gz"), the_published_log_of_amie_plus)
        .test(data("wn18/rules-kale.txt"), the_rules_of_wn18);
    for (name, rules) in [("fb15k-hc0.5", 1737), ("fb15k-237-hc0.01", 2703), ("wn18-hc0.01", 45), ("wn18rr-hc0.01", 7)]
    {
        let file = data(&format!("reference/amie3.5-{name}-pca0.8.tsv.gz"));
        tests = tests.named(&format!("a_reference_output_of_amie_3::{name}"), file, move |path| {
            a_reference_output_of_amie_3(&path, rules);
        });
    }
    tests.run()
}

fn read(path: &Path, names: &mut Names) -> RuleFile {
    let file = read_rules(path, &RuleReadOptions::default(), names).expect("a readable file");
    assert_eq!(file.bad, [], "bad lines");
    assert_eq!(file.duplicates, [], "duplicates");
    file
}

/// Writes in `format` and reads again: the same rules with the same numbers.
fn round_trip(file: &RuleFile, format: RuleFormat, names: &mut Names) -> RuleFile {
    let mut out = Vec::new();
    write_rules(&mut out, format, &file.rules, names, &RuleWriteOptions::default()).expect("a sayable file");
    let text = String::from_utf8(out).expect("UTF-8");
    let options = RuleReadOptions { format: Some(format), ..Default::default() };
    let again = parse_rules(&text, &options, names).expect("a readable file");
    assert_eq!(again.bad, []);
    assert_eq!(again.rules.len(), file.rules.len());
    for (a, b) in file.rules.iter().zip(&again.rules) {
        assert_eq!(a.rule.canonical(), b.rule.canonical());
        assert!((a.confidence.get() - b.confidence.get()).abs() < 1e-9, "{a:?} {b:?}");
    }
    again
}

fn the_published_rules_of_fb15k(path: PathBuf) {
    let mut names = Names::default();
    let file = read(&path, &mut names);
    assert_eq!((file.format, file.rules.len()), (RuleFormat::Ruge, 454));
    assert_eq!(file.rules.iter().filter(|r| r.rule.premise.len() == 1).count(), 414);
    assert_eq!(file.rules.iter().filter(|r| r.rule.premise.len() == 2).count(), 40);
    assert_eq!(file.rules.iter().filter(|r| r.confidence.get() == 1.0).count(), 93);
    assert_eq!(file.rules.iter().map(|r| r.rule.head()).collect::<HashSet<_>>().len(), 301);
    let mut shapes: BTreeMap<Shape, usize> = BTreeMap::new();
    for record in &file.rules {
        *shapes.entry(record.rule.shape()).or_default() += 1;
    }
    let expected = [
        (Shape::SameDirection, 98),
        (Shape::Inverse, 292),
        (Shape::Symmetry, 24),
        (Shape::Chain, 13),
        (Shape::InverseChain, 27),
    ];
    assert_eq!(shapes, BTreeMap::from(expected));

    let mut out = Vec::new();
    write_rules(&mut out, RuleFormat::Ruge, &file.rules, &names, &RuleWriteOptions::default()).expect("sayable");
    let published = std::fs::read_to_string(&path).expect("text");
    let letters = |text: &str| text.replace("?f", "?e").replace("?g", "?e").replace("?h", "?e");
    assert_eq!(letters(&String::from_utf8(out).expect("UTF-8")), letters(&published), "the bytes, but for ?e and ?f");
    for format in [RuleFormat::Native, RuleFormat::Amie, RuleFormat::Text, RuleFormat::Prolog, RuleFormat::Json] {
        round_trip(&file, format, &mut names);
    }
}

fn the_published_rules_of_yago37(path: PathBuf) {
    let mut names = Names::default();
    let file = read(&path, &mut names);
    assert_eq!((file.format, file.rules.len()), (RuleFormat::Ruge, 16));
    let of = |shape| file.rules.iter().filter(|r| r.rule.shape() == shape).count();
    assert_eq!((of(Shape::Chain), of(Shape::CommonSubject), of(Shape::SamePair)), (5, 5, 3));
    round_trip(&file, RuleFormat::Ruge, &mut names);
}

fn a_reference_output_of_amie_3(path: &Path, rules: usize) {
    let mut names = Names::default();
    let file = read(path, &mut names);
    assert_eq!((file.format, file.rules.len()), (RuleFormat::Amie, rules));
    assert_eq!(file.skipped, [(1, "header")]);
    for record in &file.rules {
        let stated = &record.stated;
        assert!(stated.std.is_none() && stated.body_size.is_none() && stated.side.is_some());
        let (Some(support), Some(body)) = (stated.support, stated.pca_body) else { panic!("no counts: {record:?}") };
        assert!((support as f64 / body as f64 - record.confidence.get()).abs() < 1e-6);
    }
    let again = round_trip(&file, RuleFormat::Amie, &mut names);
    assert!(file.rules.iter().zip(&again.rules).all(|(a, b)| a.stated == b.stated));
    round_trip(&file, RuleFormat::Native, &mut names);
}

fn the_published_log_of_amie_plus(path: PathBuf) {
    let mut names = Names::default();
    let file = read(&path, &mut names);
    assert_eq!((file.format, file.rules.len()), (RuleFormat::Amie, 8909));
    assert_eq!(file.skipped.iter().filter(|(_, why)| *why == "log line").count(), 15);
    let options = RuleReadOptions { take: Take::Std, ..Default::default() };
    let std = read_rules(&path, &options, &mut names).expect("readable");
    assert_eq!(std.rules[0].confidence.get(), 0.785714286);
    assert_eq!(file.rules[0].confidence.get(), 0.846153846);
    let again = round_trip(&file, RuleFormat::Amie, &mut names);
    assert!(file.rules.iter().zip(&again.rules).all(|(a, b)| a.stated == b.stated));
}

fn the_rules_of_wn18(path: PathBuf) {
    let mut names = Names::default();
    let file = read(&path, &mut names);
    assert_eq!((file.format, file.rules.len()), (RuleFormat::Kale, 14));
    assert!(file.rules.iter().all(|r| r.rule.shape() == Shape::Inverse && r.confidence.get() == 1.0));
    let mut out = Vec::new();
    write_rules(&mut out, RuleFormat::Kale, &file.rules, &names, &RuleWriteOptions::default()).expect("sayable");
    let published = std::fs::read_to_string(&path).expect("text").replace('\r', "");
    assert_eq!(String::from_utf8(out).expect("UTF-8"), published, "the bytes, but for the line ends");
    round_trip(&file, RuleFormat::Text, &mut names);
    round_trip(&file, RuleFormat::NneAer, &mut names);
}
