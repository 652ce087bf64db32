//! One small file of every format in `fixtures/rules/`: recognised, read completely, and written back.

use std::path::PathBuf;

use ruge_kg::Names;
use ruge_rules::io::{
    RuleFile, RuleReadOptions, RuleRecord, Take, parse_rules, read_relation_dictionary, read_rules, unknown_relations,
};
use ruge_rules::words::formula;
use ruge_rules::{Confidence, RuleError, RuleFormat, RuleWriteOptions, write_rules};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rules")).join(name)
}

fn read(name: &str, options: &RuleReadOptions) -> (RuleFile, Names) {
    let mut names = Names::default();
    let file = read_rules(&fixture(name), options, &mut names).expect(name);
    assert_eq!(file.bad, [], "{name}");
    (file, names)
}

fn text(rules: &[RuleRecord], format: RuleFormat, names: &Names, options: &RuleWriteOptions) -> String {
    let mut out = Vec::new();
    write_rules(&mut out, format, rules, names, options).expect("sayable");
    String::from_utf8(out).expect("UTF-8")
}

/// Reads a sample, checks each rule in words, and checks that writing and reading again changes nothing.
fn check(name: &str, format: RuleFormat, expected: &[(&str, f64)]) -> (RuleFile, Names) {
    check_with(name, format, expected, None)
}

fn check_with(
    name: &str,
    format: RuleFormat,
    expected: &[(&str, f64)],
    relations: Option<Vec<String>>,
) -> (RuleFile, Names) {
    let options = RuleReadOptions { relations: relations.clone(), ..Default::default() };
    let (file, mut names) = read(name, &options);
    assert_eq!(file.format, format, "{name}");
    let found: Vec<(String, f64)> = file.rules.iter().map(|r| (formula(&r.rule, &names), r.confidence.get())).collect();
    let found: Vec<(&str, f64)> = found.iter().map(|(rule, confidence)| (rule.as_str(), *confidence)).collect();
    assert_eq!(found, expected, "{name}");
    let written = text(&file.rules, format, &names, &RuleWriteOptions { relations, ..Default::default() });
    let options = RuleReadOptions { format: Some(format), ..options };
    let again = parse_rules(&written, &options, &mut names).expect("readable");
    assert_eq!(again.bad, [], "{written}");
    assert_eq!(again.rules.len(), file.rules.len());
    for (a, b) in file.rules.iter().zip(&again.rules) {
        assert_eq!(a.rule.canonical(), b.rule.canonical(), "{written}");
        assert_eq!((a.confidence, a.stated, a.counts), (b.confidence, b.stated, b.counts), "{written}");
    }
    (file, names)
}

const CAPITAL: &str = "capital_of(x,y) ⇒ has_capital(y,x)";
const NATION: &str = "born_in(x,y) ∧ part_of(y,z) ⇒ nationality(x,z)";

#[test]
fn ruge() {
    check(
        "sample.ruge.tsv",
        RuleFormat::Ruge,
        &[(CAPITAL, 0.95), (NATION, 0.8), ("married_to(x,y) ⇒ married_to(y,x)", 1.0)],
    );
}

#[test]
fn our_own_tsv() {
    let quoted = "\"is a\"(x,\"?unsure\") ⇒ said(x,\"a \\\"word\\\"\")";
    let (file, names) = check("sample.native.tsv", RuleFormat::Native, &[(CAPITAL, 0.95), (quoted, 0.5)]);
    assert_eq!(file.comments, ["mined from the world of capitals, PCA >= 0.5"]);
    let counts = file.rules[0].counts.expect("all counts are there");
    assert_eq!((counts.support, counts.body, counts.head, counts.pca()), (19, 25, 25, 0.95));
    let options = RuleWriteOptions { comments: file.comments.clone(), ..Default::default() };
    let published = std::fs::read_to_string(fixture("sample.native.tsv")).expect("readable");
    assert_eq!(text(&file.rules, RuleFormat::Native, &names, &options), published, "byte for byte");
    // A plain reader of RUGE's files takes the first two columns.
    let options = RuleReadOptions { format: Some(RuleFormat::Ruge), ..Default::default() };
    let plain = read("sample.native.tsv", &options).0;
    assert_eq!((plain.rules.len(), plain.rules[0].confidence.get()), (2, 0.95));
}

#[test]
fn amie() {
    let rome = "born_in(x,Rome) ⇒ lives_in(x,Rome)";
    let (file, _) = check("sample.amieplus.log", RuleFormat::Amie, &[(CAPITAL, 0.95), (NATION, 0.8), (rome, 0.5)]);
    assert_eq!(file.skipped.iter().map(|&(line, _)| line).collect::<Vec<_>>(), [1, 2, 3, 7, 8]);
    let (file, _) = check("sample.amie3.tsv", RuleFormat::Amie, &[(CAPITAL, 0.95)]);
    assert_eq!((file.rules[0].stated.std, file.rules[0].stated.body_size), (None, None));
    let options = RuleReadOptions { take: Take::Std, ..Default::default() };
    assert_eq!(read("sample.amieplus.log", &options).0.rules[0].confidence.get(), 0.76);
    let mut names = Names::default();
    let file = read_rules(&fixture("sample.amie3.tsv"), &options, &mut names).expect("readable");
    assert_eq!((file.rules.len(), file.bad[0].kind), (0, "no standard confidence on the line"));
}

#[test]
fn anyburl() {
    let (file, mut names) = check(
        "sample.anyburl.txt",
        RuleFormat::AnyBurl,
        &[
            (CAPITAL, 0.76),
            (NATION, 0.5),
            ("born_in(x,rome) ⇒ lives_in(x,rome)", 0.75),
            ("works_in(x,y) ⇒ lives_in(x,rome)", 0.25),
            ("⇒ gender(x,female)", 0.5),
            ("likes(x,y) ⇒ knows(x,x)", 0.5),
            ("is(x,\"Rome, Italy\") ⇒ \"name (of, a kind)\"(x,\"city (old), big\")", 1.0),
        ],
    );
    let why: Vec<Option<&str>> = file.rules.iter().map(RuleRecord::not_groundable).collect();
    assert_eq!(why[..4], [None; 4]);
    assert!(why[4].is_some_and(|why| why.contains("premise")) && why[5].is_some_and(|why| why.contains("same")));
    let options = RuleReadOptions { take: Take::Smoothed, ..Default::default() };
    assert_eq!(read("sample.anyburl.txt", &options).0.rules[0].confidence.get(), 19.0 / 30.0);
    let options = RuleReadOptions { format: Some(RuleFormat::AmieAnyBurl), ..Default::default() };
    let pca = read_rules(&fixture("sample.amie-anyburl.txt"), &options, &mut names).expect("readable");
    assert_eq!((pca.rules[0].stated.pca, pca.rules[0].stated.pca_body), (Some(0.95), Some(20)));
    assert_eq!(
        text(&pca.rules, RuleFormat::AmieAnyBurl, &names, &RuleWriteOptions::default()),
        "20\t19\t0.95\thas_capital(X,Y) <= capital_of(Y,X)\n"
    );
    let error = write_rules(&mut Vec::new(), RuleFormat::AnyBurl, &pca.rules, &names, &RuleWriteOptions::default());
    let error = error.expect_err("no standard counts").to_string();
    assert!(error.contains("count them in the data") && error.contains("capital_of(x,y)"), "{error}");
}

#[test]
fn ids() {
    let dictionary = read_relation_dictionary(&fixture("relations.dict")).expect("a dictionary");
    let long = "born_in(x,y) ∧ part_of(y,z) ∧ part_of(z,u) ⇒ nationality(x,u)";
    let expected = [(NATION, 0.8), (CAPITAL, 1.0), (long, 0.25)];
    check_with("sample.rnnlogic.txt", RuleFormat::RnnLogic, &expected, Some(dictionary.clone()));
    check_with("sample.rpje.txt", RuleFormat::Rpje, &[(NATION, 0.8), (CAPITAL, 0.95)], Some(dictionary));
    check("sample.rpje.txt", RuleFormat::Rpje, &[("0(x,y) ∧ 1(y,z) ⇒ 2(x,z)", 0.8), ("8(x,y) ⇒ 4(x,y)", 0.95)]);
    let listed = ["a", "b", "!a", "!b"].map(String::from).to_vec();
    let options = RuleReadOptions { relations: Some(listed), format: Some(RuleFormat::RnnLogic), ..Default::default() };
    let mut names = Names::default();
    let file = parse_rules("0 3\n1 4\nx y\n0\n0 1 7.5\n", &options, &mut names).expect("readable");
    assert_eq!(formula(&file.rules[0].rule, &names), "b(x,y) ⇒ a(y,x)");
    let kinds: Vec<&str> = file.bad.iter().map(|bad| bad.kind).collect();
    assert_eq!(kinds, ["unknown relation id", "not a relation id", "a rule needs a head and a body", "outside [0, 1]"]);
}

#[test]
fn premises_are_joined_by_any_sign_and_a_stray_one_is_no_name() {
    for joint in ["&&", "&", "∧", ",", " && ", " ∧ "] {
        for format in [None, Some(RuleFormat::Kale), Some(RuleFormat::Text)] {
            let line = format!("born_in(x,y){joint}part_of(y,z)==>nationality(x,z)");
            let (options, mut names) = (RuleReadOptions { format, ..Default::default() }, Names::default());
            let file = parse_rules(&line, &options, &mut names).expect("readable");
            assert_eq!((file.bad.len(), file.rules.len()), (0, 1), "{line}: {:?}", file.bad);
            assert_eq!(formula(&file.rules[0].rule, &names), NATION, "{line}");
        }
    }
    let mut names = Names::default();
    let stray = parse_rules("a(x,y)&&&b(y,z)==>c(x,z)\n", &RuleReadOptions::default(), &mut names).expect("readable");
    assert!(stray.rules.is_empty() && stray.bad[0].reason.contains("\"&b\" begins with `&`"), "{:?}", stray.bad);
    assert_eq!(names.relations.len(), 0, "a bad line adds no name");
}

#[test]
fn plain_notations() {
    let located = "capital_of(x,y) ⇒ located_in(x,y)";
    check("sample.nne-aer.txt", RuleFormat::NneAer, &[(CAPITAL, 0.95), (located, 1.0)]);
    let (file, names) = check("sample.kale.txt", RuleFormat::Kale, &[(CAPITAL, 1.0), (NATION, 1.0)]);
    let original = std::fs::read_to_string(fixture("sample.kale.txt")).expect("readable");
    assert_eq!(text(&file.rules, RuleFormat::Kale, &names, &RuleWriteOptions::default()), original);
    let york = "works_in(x,\"Wall Street\") ⇒ lives_in(x,\"New York\")";
    check("sample.prolog.pl", RuleFormat::Prolog, &[(CAPITAL, 0.95), (NATION, 1.0), (york, 1.0)]);
}

#[test]
fn the_text_form() {
    check(
        "sample.text.rules",
        RuleFormat::Text,
        &[
            (CAPITAL, 0.95),
            (NATION, 0.8),
            ("married_to(x,y) ⇒ married_to(y,x)", 1.0),
            ("born_in(x,y) ∧ part_of(y,z) ⇒ lives_in(x,z)", 0.6),
            ("\"is a\"(x,\"capital city\") ∧ part_of(x,y) ⇒ has_capital(y,x)", 1.0),
            ("lives_in(x,Rome) ⇒ speaks(x,Italian)", 0.9),
            ("\"named(old)\"(x,y) ⇒ named(x,y)", 1.0),
        ],
    );
}

#[test]
fn json() {
    let rome = "lives_in(x,Rome) ⇒ speaks(x,Italian)";
    let (file, _) = check("sample.rules.json", RuleFormat::Json, &[(CAPITAL, 0.95), (rome, 1.0)]);
    assert_eq!(file.rules[0].counts.map(|counts| counts.pca()), Some(0.95));
}

#[test]
fn mistakes_in_the_text_form_are_explained() {
    let wrong = [
        ("!a(x,y) => c(x,y)", "needs a positive one"),
        ("a(x,y) | !b(x,y) => c(x,y)", "needs a positive one"),
        ("a(x,y) & !a(x,y) => c(x,y)", "contradicts itself"),
        ("a(x,y) => !c(x,y)", "one conclusion"),
        ("a(x,y) => b(x,y) | c(x,y)", "one conclusion"),
        ("(a(x,y) | b(x,y) => c(x,y)", "never closed"),
        ("(old)name(x,y) => c(x,y)", "quote a name that begins with a bracket"),
        ("a(x,y) | (b(x,y) &) => c(x,y)", "does not begin with"),
        ("(a(x,y) | b(x,y)) c(x,y) => d(x,y)", "a connective is missing"),
        ("!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!a(x,y) => c(x,y)", "more than 32"),
        ("a(x,y) b(x,y) => c(x,y)", "seems to be missing"),
        ("a(x,y) => c(x,y) & d(x,y)", "one conclusion"),
        ("a(x,y) => c(x,y) often", "not a number"),
        ("a(x,y) => c(x,y) 1.3", "outside [0, 1]"),
        ("a(x) => c(x,y)", "is not `relation(subject, object)`"),
        ("a(x,y) -> c(x,y)", "no `==>`"),
        ("=> c(x,y)", "no `==>`"),
    ];
    let options = RuleReadOptions { format: Some(RuleFormat::Text), ..Default::default() };
    for (line, expected) in wrong {
        let file = parse_rules(line, &options, &mut Names::default()).expect("a readable file");
        assert_eq!(file.rules, [], "{line}");
        assert!(file.bad[0].reason.contains(expected), "{line}: {}", file.bad[0].reason);
    }
    let mut names = Names::default();
    let file = parse_rules("a(x,y) :- b(y,x)\na(u,v) => b(u,v) [1]\nb(z1,q) => a(q,z1)\n", &options, &mut names);
    let file = file.expect("readable");
    assert_eq!((file.rules.len(), file.duplicates.len(), file.duplicates[0].first), (2, 1, 1));
}

/// Each line of the text form against the rules it stands for.
#[test]
fn alternatives_and_negation_in_a_premise() {
    let worlds: &[(&str, &[&str])] = &[
        ("(p(x,y) | q(x,y)) & !r(y,x) => h(x,y) 0.9", &["p(x,y) ∧ ¬r(y,x) ⇒ h(x,y)", "q(x,y) ∧ ¬r(y,x) ⇒ h(x,y)"]),
        ("h(x,y) :- p(x,y), ¬(r(x,y) ∧ r(y,x))", &["p(x,y) ∧ ¬r(x,y) ⇒ h(x,y)", "p(x,y) ∧ ¬r(y,x) ⇒ h(x,y)"]),
        ("p(x,y)|q(x,y)&r(y,x)=>h(x,y)", &["p(x,y) ⇒ h(x,y)", "q(x,y) ∧ r(y,x) ⇒ h(x,y)"]),
        ("p(x,y) || q(x,y) ∨ \"r|s\"(x,y) => h(x,y)", &["p(x,y) ⇒ h(x,y)", "q(x,y) ⇒ h(x,y)", "\"r|s\"(x,y) ⇒ h(x,y)"]),
        ("!!p(x,y) & (q(x,Rome)) => h(x,y)", &["p(x,y) ∧ q(x,Rome) ⇒ h(x,y)"]),
        ("!\"is a\"(x,Town) && p(x,y) => h(x,y)", &["p(x,y) ∧ ¬\"is a\"(x,Town) ⇒ h(x,y)"]),
        ("named(old)(x,y)|!q(y,x)&p(x,y)==>h(x,y)", &["\"named(old)\"(x,y) ⇒ h(x,y)", "p(x,y) ∧ ¬q(y,x) ⇒ h(x,y)"]),
        ("a|b(x,y) => h(x,y)", &["\"a|b\"(x,y) ⇒ h(x,y)"]),
    ];
    for (line, expected) in worlds {
        let mut names = Names::default();
        // Only `:-` could be confused with Prolog.
        let format = line.contains(":-").then_some(RuleFormat::Text);
        let options = RuleReadOptions { format, ..Default::default() };
        let file = parse_rules(line, &options, &mut names).expect("readable");
        assert_eq!((file.format, &file.bad[..]), (RuleFormat::Text, &[][..]), "{line}");
        let said: Vec<String> = file.rules.iter().map(|record| formula(&record.rule, &names)).collect();
        assert_eq!(&said, expected, "{line}");
        assert!(file.rules.iter().all(|record| record.line == 1 && record.confidence == file.rules[0].confidence));
    }
    let many: Vec<String> = (0..7).map(|i| format!("(a{i}{i}(x,y) | b{i}{i}(x,y))")).collect();
    let file =
        parse_rules(&format!("{} => h(x,y)", many.join(" & ")), &RuleReadOptions::default(), &mut Names::default());
    assert!(file.expect("readable").bad[0].reason.contains("more than 64 alternatives"));
}

#[test]
fn what_a_format_cannot_say_names_the_rule() {
    let mut names = Names::default();
    let options = RuleReadOptions { format: Some(RuleFormat::Text), ..Default::default() };
    let text = "\"born in\"(x,y) => nation(x,y) 0.5\na(x,y) & b(y,x) => c(x,y)\nlives(x,Rome) => speaks(x,Italian)\n\
                a(x,y) & !b(y,x) => c(x,y)\n";
    let rules = parse_rules(text, &options, &mut names).expect("readable").rules;
    for (at, format, reason) in [
        (0, RuleFormat::Ruge, "would be refused"),
        (0, RuleFormat::Amie, "would be refused"),
        (0, RuleFormat::Kale, "no place for the confidence 0.5"),
        (0, RuleFormat::RnnLogic, "or the data"),
        (1, RuleFormat::RnnLogic, "walks"),
        (1, RuleFormat::NneAer, "walks"),
        (1, RuleFormat::Kale, "walk of two"),
        (2, RuleFormat::NneAer, "without entities"),
        (2, RuleFormat::Ruge, "no entities"),
        (2, RuleFormat::AnyBurl, "in the data"),
        (3, RuleFormat::Ruge, "a premise is negated"),
        (3, RuleFormat::Amie, "a premise is negated"),
        (3, RuleFormat::AnyBurl, "a premise is negated"),
        (3, RuleFormat::AmieAnyBurl, "a premise is negated"),
        (3, RuleFormat::RnnLogic, "a premise is negated"),
        (3, RuleFormat::Rpje, "a premise is negated"),
        (3, RuleFormat::NneAer, "a premise is negated"),
        (3, RuleFormat::Kale, "a premise is negated"),
        (3, RuleFormat::Prolog, "a premise is negated"),
    ] {
        let mut out = Vec::new();
        let error = write_rules(&mut out, format, &rules[at..=at], &names, &RuleWriteOptions::default());
        let error = error.expect_err("unsayable").to_string();
        assert!(error.contains(reason) && error.contains(" => "), "{format}: {error}");
        assert_eq!(out, b"", "nothing is written");
    }
}

#[test]
fn unknown_relations_come_with_a_suggestion() {
    let mut names = Names::default();
    names.triple("Paris", "capital_of", "France");
    let known = names.relations.len();
    let options = RuleReadOptions::default();
    let file = parse_rules("capitol_of(x,y) => qqq(x,y)\nqqq(x,y) => capital_of(x,y)", &options, &mut names);
    let unknown = unknown_relations(&file.expect("readable"), known, &names);
    let unknown: Vec<_> = unknown.iter().map(|u| (u.line, u.name.as_str(), u.suggestion.as_deref())).collect();
    assert_eq!(unknown, [(1, "qqq", None), (1, "capitol_of", Some("capital_of"))]);
}

#[test]
fn compressed_broken_and_foreign_files() {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let mut names = Names::default();
    let path = folder.path().join("rules.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed
        .write_all(b"\xef\xbb\xbf?b  r  ?a   => ?a  h  ?b\t0.5\r\n?b \xff\n?a => ?b\t1\n?a  r  ?b   => ?a  h  ?b\t7\n")
        .expect("memory");
    std::fs::write(&path, packed.finish().expect("memory")).expect("written");
    let file = read_rules(&path, &RuleReadOptions::default(), &mut names).expect("readable");
    assert_eq!((file.rules.len(), file.rules[0].confidence), (1, Confidence::new(0.5).expect("in range")));
    let kinds: Vec<_> = file.bad_by_kind().into_iter().collect();
    assert_eq!(kinds, [("not made of triples", 1), ("not valid UTF-8", 1), ("outside [0, 1]", 1)]);
    assert_eq!(names.relations.len(), 2, "bad lines leave no names behind");
    for text in ["once upon a time\n", "{\"rules\": 3}", "{\"rules\": [", "/m/01\tr\t/m/02\n"] {
        assert!(parse_rules(text, &RuleReadOptions::default(), &mut names).is_err(), "{text}");
    }
    let missing = read_rules(&folder.path().join("none"), &RuleReadOptions::default(), &mut names).unwrap_err();
    assert!(missing.to_string().contains("remedy: check the path"), "{missing}");
    let packed = std::fs::read(&path).expect("readable");
    std::fs::write(&path, &packed[..packed.len() - 9]).expect("written");
    let cut = read_rules(&path, &RuleReadOptions::default(), &mut names).unwrap_err();
    assert!(cut.to_string().contains("ends too early"), "{cut}");
}

#[test]
fn a_file_in_which_hardly_a_line_is_a_rule_is_refused_before_it_fills_the_memory() {
    let options = RuleReadOptions { format: Some(RuleFormat::Ruge), ..Default::default() };
    let read = |text: &str| parse_rules(text, &options, &mut Names::default());
    let bad = read(&"?a => ?b\t1\n".repeat((1 << 20) + 2)).unwrap_err();
    assert!(matches!(bad, RuleError::TooMany { what: "no rules", .. }), "{bad}");
    let copies = read(&"?b  r  ?a   => ?a  h  ?b\t0.5\n".repeat(1000)).expect("copies are fine");
    assert_eq!((copies.rules.len(), copies.duplicates.len()), (1, 999));
}

#[test]
fn a_hostile_line_is_refused_at_once() {
    // Quadratic work on a million pieces would not finish.
    for piece in ["(", ")", "),", "(,", "a(x,", "\"", "a(x,y)&", "a(x,y)&(", "a(x,y)|", "!", "a(x,y)&!(", "?a  r  ?b  "]
    {
        for repeats in [1000, 7000, 1_000_000] {
            let text = format!("{} => b(x,y)", piece.repeat(repeats));
            for format in RuleFormat::all().filter(|&format| format != RuleFormat::Json) {
                let options = RuleReadOptions { format: Some(format), ..Default::default() };
                let file = parse_rules(&text, &options, &mut Names::default()).expect("readable");
                assert_eq!(file.rules, [], "{format}: {piece}");
            }
        }
    }
}
