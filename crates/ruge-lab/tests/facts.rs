//! Proposed facts in the formats of other programs, read back by readers that know nothing of the writers.

use oxttl::{NTriplesParser, TurtleParser};
use proptest::prelude::*;
use ruge::complete::{Proposal, ProposalRule};
use ruge::explain::Fact;
use ruge_kg::{Dataset, Literals, ReadOptions};
use ruge_lab::export::facts::{BASE, FactFormat, TRUTH, text};

/// Each would end a field, a line, a string or a statement if it were written as it is.
const HOSTILE: [&str; 18] = [
    "plain",
    "two words",
    "a\tb",
    "a\nb\r\nc",
    "\"quoted\", and more",
    "it's",
    "<angle> .",
    "a> <b:c> <d:e> .\n<f:g",
    "http://example.org/Zürich",
    "\"text\"@en",
    "\" >> <urn:x-ruge:truth> 1.0000 .\"",
    "_:b0",
    "back\\slash\\",
    "\\u0027}) DETACH DELETE h //",
    "'}) MATCH (n) DETACH DELETE n //",
    "`]->() DELETE r //",
    "\\u0060]->() DELETE r //",
    "\u{202e}turned\u{0}\u{7f}\u{e0001}",
];

fn proposal(names: [&str; 3], rule: &str) -> Proposal {
    let [head, relation, tail] = names.map(str::to_string);
    let rule = ProposalRule { rule: rule.to_string(), confidence: 0.75 };
    Proposal {
        labels: Default::default(),
        fact: Fact { head, relation, tail },
        truth: 0.8125,
        rules: vec![rule.clone(), rule],
        rule_count: 2,
        against: Vec::new(),
        score: 1.5,
    }
}

/// Every name in every place.
fn all() -> Vec<Proposal> {
    let at = |index: usize| HOSTILE[index % HOSTILE.len()];
    (0..HOSTILE.len()).map(|i| proposal([at(i), at(i + 1), at(i + 2)], at(i + 3))).collect()
}

fn names(proposal: &Proposal) -> [String; 3] {
    let Fact { head, relation, tail } = proposal.fact.clone();
    [head, relation, tail]
}

fn untabbed(field: &str) -> String {
    let mut out = String::new();
    let mut letters = field.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => match letters.next().expect("a backslash stands before something") {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                other => other,
            },
            other => other,
        });
    }
    out
}

fn check_tables(list: &[Proposal]) {
    let lines = text(FactFormat::Tsv, BASE, list);
    let rows: Vec<Vec<String>> =
        lines.split_terminator('\n').map(|line| line.split('\t').map(untabbed).collect()).collect();
    let csv = text(FactFormat::Csv, BASE, list);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(csv.as_bytes());
    let records: Vec<Vec<String>> =
        reader.records().map(|record| record.expect("CSV").iter().map(str::to_string).collect()).collect();
    for rows in [rows, records] {
        assert_eq!(rows.len(), list.len() + 1);
        assert_eq!(rows[0], ["head", "relation", "tail", "truth", "rules"]);
        for (row, proposal) in rows[1..].iter().zip(list) {
            assert_eq!((row.len(), &row[..3], row[3].as_str()), (5, &names(proposal)[..], "0.8125"));
            let rule = &proposal.rules[0].rule;
            assert_eq!(row[4], format!("0.750 {rule}; 0.750 {rule}"));
        }
    }
    let json = text(FactFormat::Jsonl, BASE, list);
    let read: Vec<Proposal> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(read, list);
}

/// The statements of a file, as our own reader names them.
fn statements(nt: &str) -> Vec<[String; 3]> {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("train.nt");
    std::fs::write(&path, nt).expect("written");
    let options = ReadOptions { literals: Literals::Entities, ..ReadOptions::default() };
    let (data, _) = Dataset::load(folder.path(), &options).expect("N-Triples");
    data.train().iter().map(|&triple| data.show(triple).map(str::to_string)).collect()
}

/// The end of the term that a text begins with.
fn term_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    match bytes[0] {
        b'<' => text.find('>').expect("an IRI ends") + 1,
        b'"' => {
            let mut at = 1;
            while bytes[at] != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            at + 1 + text[at + 1..].find(' ').expect("something follows")
        }
        _ => text.find(' ').expect("something follows"),
    }
}

fn check_rdf(list: &[Proposal]) {
    let nt = text(FactFormat::Nt, BASE, list);
    let parsed = NTriplesParser::new().for_slice(&nt).collect::<Result<Vec<_>, _>>().expect("N-Triples");
    assert_eq!((parsed.len(), nt.lines().count()), (list.len(), list.len()));
    assert_eq!(statements(&nt), list.iter().map(names).collect::<Vec<_>>());
    let other = text(FactFormat::Nt, "http://example.org/id/", &[proposal(["a b", "r", "c"], "")]);
    assert_eq!(other, "<http://example.org/id/a%20b> <http://example.org/id/r> <http://example.org/id/c> .\n");

    // Turtle-star: what is quoted is a statement of N-Triples, and what follows is Turtle about it.
    let star = text(FactFormat::RdfStar, BASE, list);
    assert_eq!(star.lines().count(), list.len());
    for ((line, plain), proposal) in star.lines().zip(nt.lines()).zip(list) {
        let inner = line.strip_prefix("<< ").expect("quoted");
        let mut at = 0;
        for _ in 0..3 {
            at += term_end(&inner[at..]);
            at += inner[at..].find(|c: char| c != ' ').expect("something follows");
        }
        let (quoted, about) = inner.split_at(at);
        assert_eq!(format!("{quoted}."), plain);
        let about = about.strip_prefix(">> ").expect("the end of the quote");
        let about = format!("<urn:it> {about}");
        let said = TurtleParser::new().for_slice(&about).collect::<Result<Vec<_>, _>>().expect("Turtle");
        assert_eq!(said[0].predicate.as_str(), TRUTH);
        assert_eq!(said[0].object.to_string(), "\"0.8125\"^^<http://www.w3.org/2001/XMLSchema#decimal>");
        let oxrdf::Term::Literal(rule) = &said[1].object else { panic!("{:?}", said[1]) };
        assert_eq!(rule.value(), format!("0.750 {}", proposal.rules[0].rule));
        assert_eq!(said.len(), 3);
    }
}

/// What an older Cypher does first: escapes become characters wherever they stand.
fn converted(query: &str) -> String {
    let letters: Vec<char> = query.chars().collect();
    let mut units = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        if letters[at] == '\\' && letters.get(at + 1) == Some(&'u') {
            let digits: String = letters[at + 2..at + 6].iter().collect();
            units.push(u16::from_str_radix(&digits, 16).expect("four digits"));
            at += 6;
        } else {
            units.extend(letters[at].encode_utf16(&mut [0; 2]).iter());
            at += 1;
        }
    }
    String::from_utf16(&units).expect("pairs stay pairs")
}

/// The strings and quoted names of a Cypher statement, and the rest with a mark in the place of each.
fn lexed(query: &str) -> (String, Vec<String>) {
    let (mut rest, mut found) = (String::new(), Vec::new());
    let mut letters = query.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\'' && letter != '`' {
            rest.push(letter);
            continue;
        }
        let mut units: Vec<u16> = Vec::new();
        loop {
            let next = letters.next().expect("a string ends");
            let is_end = next == letter;
            if is_end && letter == '`' && letters.peek() == Some(&'`') {
                letters.next();
            } else if is_end {
                break;
            }
            let meant = match next {
                '\\' if letter == '\'' => match letters.next().expect("an escape") {
                    't' => '\t',
                    'n' => '\n',
                    'r' => '\r',
                    'u' => {
                        let digits: String = letters.by_ref().take(4).collect();
                        units.push(u16::from_str_radix(&digits, 16).expect("four digits"));
                        continue;
                    }
                    other => other,
                },
                other => other,
            };
            units.extend(meant.encode_utf16(&mut [0; 2]).iter());
        }
        found.push(String::from_utf16(&units).expect("text"));
        rest.push(if letter == '`' { '@' } else { '#' });
    }
    (rest, found)
}

fn check_cypher(list: &[Proposal]) {
    let text = text(FactFormat::Cypher, BASE, list);
    assert_eq!(text.lines().count(), list.len());
    for (line, proposal) in text.lines().zip(list) {
        for query in [line.to_string(), converted(line)] {
            let (rest, found) = lexed(&query);
            let expected = "MERGE (h:Entity {name: #}) MERGE (t:Entity {name: #}) MERGE (h)-[r:@ {name: #}]->(t) \
                            SET r.truth = 0.8125, r.rules = [#, #];";
            assert_eq!(rest, expected, "{query}");
            let [head, relation, tail] = names(proposal);
            assert_eq!([&found[0], &found[1], &found[3]], [&head, &tail, &relation], "{query}");
            assert!(!found[2].contains('\\') && found[2].chars().count() >= 1, "{query}");
            assert_eq!(found[4], format!("0.750 {}", proposal.rules[0].rule));
        }
    }
}

#[test]
fn hostile_names_come_back_from_every_format() {
    let list = all();
    check_tables(&list);
    check_rdf(&list);
    check_cypher(&list);
}

#[test]
fn endings_name_formats() {
    for format in FactFormat::ALL {
        let ending = match format {
            FactFormat::RdfStar => "ttl",
            other => other.name(),
        };
        assert_eq!(FactFormat::of_ending(ending), Some(format));
    }
    assert_eq!(FactFormat::of_ending("xyz"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_name_comes_back(parts in prop::collection::vec("[\\\\u0'\"`\t\n\r,;<> :.@a-z0-9é\u{202e}]{1,12}", 4)) {
        let list = [proposal([&parts[0], &parts[1], &parts[2]], &parts[3])];
        check_tables(&list);
        check_rdf(&list);
        check_cypher(&list);
    }
}
