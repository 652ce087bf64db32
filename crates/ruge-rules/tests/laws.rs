//! parse ∘ print = id, for every format and every rule it can express; and no text makes a reader panic.

use proptest::prelude::*;
use ruge_kg::{Names, RelationId};
use ruge_rules::io::{RuleReadOptions, RuleRecord, parse_rules};
use ruge_rules::{
    Atom, Confidence, Counts, Rule, RuleFormat, RuleWriteOptions, Side, SoftRule, Term, Variable, write_rules,
};

/// Names that break notations, including everything special to some reader.
fn nasty() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "a",
        "X",
        "z1",
        "?v",
        "born_in",
        "/film/film.x/y",
        "<isIn>",
        " ",
        "  ",
        "\t",
        "\n",
        "\r",
        "\"",
        "'",
        "\\",
        "(",
        ")",
        ",",
        "&",
        "|",
        "!",
        "¬",
        "∧",
        "∨",
        "⇒",
        "=>",
        "==>",
        "<=",
        ":-",
        "#",
        "%",
        "-",
        "0",
        "0.5",
        "[1]",
        "me_myself_i",
        "ü",
        "\u{a0}",
        "\u{85}",
        "\u{2028}",
        "\u{1}",
        "\u{feff}",
        ".",
        "_",
    ];
    let pieces = proptest::collection::vec(proptest::sample::select(PIECES), 0..4).prop_map(|p| p.concat());
    prop_oneof![4 => pieces, 1 => any::<String>()]
}

fn plain() -> impl Strategy<Value = String> {
    "[a-z_/]{2,8}(\\.[a-z]{2,4})?".prop_filter("a token of AnyBURL", |name| name != "me_myself_i")
}

/// A term: a variable below four, or one of four entities.
type Place = Result<u8, u32>;

fn term() -> impl Strategy<Value = Place> {
    prop_oneof![5 => (0u8..4).prop_map(Ok), 1 => (0u32..4).prop_map(Err)]
}

#[derive(Debug, Clone)]
struct World {
    names: Vec<String>,
    atoms: Vec<(u32, Place, Place)>,
    negated: Vec<(u32, Place, Place)>,
    confidence: f64,
    counts: Option<Counts>,
}

fn counts() -> impl Strategy<Value = Counts> {
    (0u64..50, 0u64..50, 0u64..50, 0u64..50, 1u64..50, any::<bool>()).prop_map(|(support, s, o, rest, head, side)| {
        Counts {
            support,
            body: support + s + o + rest,
            pca_subject: support + s,
            pca_object: support + o,
            head: support + head,
            side: if side { Side::Subject } else { Side::Object },
        }
    })
}

fn world<N: Strategy<Value = String>>(name: impl Fn() -> N) -> impl Strategy<Value = World> {
    let atoms = |most| proptest::collection::vec((0u32..4, term(), term()), most);
    let negated = prop_oneof![2 => Just(vec![]), 1 => atoms(1..3)];
    (proptest::collection::vec(name(), 8), atoms(1..5), negated, 0.0..=1.0f64, proptest::option::of(counts()))
        .prop_map(|(names, atoms, negated, confidence, counts)| World { names, atoms, negated, confidence, counts })
}

impl World {
    fn build(&self) -> (Names, RuleRecord) {
        let mut names = Names::default();
        let relations: Vec<RelationId> = self.names[..4].iter().map(|name| names.relations.intern(name)).collect();
        let entities: Vec<_> = self.names[4..].iter().map(|name| names.entities.intern(name)).collect();
        let term = |term: Place| match term {
            Ok(variable) => Term::Variable(Variable(variable)),
            Err(entity) => Term::Constant(entities[entity as usize]),
        };
        let atom = |&(r, s, o): &(u32, Place, Place)| Atom::new(relations[r as usize], term(s), term(o));
        let mut atoms = self.atoms.iter().map(atom);
        let conclusion = atoms.next().expect("at least one atom");
        let rule = Rule { conclusion, premise: atoms.collect(), negated: self.negated.iter().map(atom).collect() };
        let record = match self.counts {
            Some(counts) => RuleRecord::counted(rule, counts),
            None => {
                let confidence = Confidence::new(self.confidence).expect("in range");
                RuleRecord::from(SoftRule { rule, confidence })
            }
        };
        (names, record)
    }
}

/// Writes and reads; `None` if the format refuses.
fn there_and_back(
    format: RuleFormat,
    record: &RuleRecord,
    names: &Names,
    relations: Option<Vec<String>>,
) -> Option<()> {
    let mut out = Vec::new();
    let options = RuleWriteOptions { relations: relations.clone(), comments: vec!["said\nin two lines".into()] };
    write_rules(&mut out, format, std::slice::from_ref(record), names, &options).ok()?;
    let text = String::from_utf8(out).expect("UTF-8");
    let mut again = names.clone();
    let options = RuleReadOptions { format: Some(format), relations, ..Default::default() };
    let file = parse_rules(&text, &options, &mut again).expect("readable");
    assert_eq!(file.bad, [], "{format}: {text}");
    assert_eq!(file.rules.len(), 1, "{format}: {text}");
    assert_eq!(file.rules[0].rule.canonical(), record.rule.canonical(), "{format}: {text}");
    assert_eq!((again.entities.len(), again.relations.len()), (names.entities.len(), names.relations.len()), "{text}");
    let anyburl = format == RuleFormat::AnyBurl;
    let expected = if anyburl { record.stated.std } else { Some(record.confidence.get()) };
    let expected = expected.expect("AnyBURL is written with counts");
    assert!((file.rules[0].confidence.get() - expected).abs() < 1e-9, "{format}: {text}");
    if matches!(format, RuleFormat::Native | RuleFormat::Json) {
        assert_eq!(file.rules[0].counts, record.counts, "{format}: {text}");
    }
    Some(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nasty_names_survive_or_are_refused(world in world(nasty)) {
        let (names, record) = world.build();
        for format in RuleFormat::all() {
            let said = there_and_back(format, &record, &names, Some(world.names[..4].to_vec())).is_some();
            let must = match format {
                RuleFormat::Native | RuleFormat::Json => true,
                RuleFormat::Text => !record.rule.premise.is_empty() && !contradicts_itself(&record.rule),
                RuleFormat::Prolog => !record.rule.premise.is_empty() && record.rule.negated.is_empty(),
                _ => false,
            };
            prop_assert!(said || !must, "{format} must be able to say {:?}", world);
        }
    }

    #[test]
    fn plain_names_are_refused_nowhere(world in world(plain)) {
        let (names, record) = world.build();
        let body = record.rule.premise.len();
        let steps = walk(&record.rule);
        for format in RuleFormat::all() {
            let said = there_and_back(format, &record, &names, Some(world.names[..4].to_vec())).is_some();
            let can = match format {
                RuleFormat::Native | RuleFormat::Json => true,
                RuleFormat::Text => body > 0 && !contradicts_itself(&record.rule),
                _ if !record.rule.negated.is_empty() => false,
                RuleFormat::Amie => true,
                RuleFormat::Prolog => body > 0,
                RuleFormat::Ruge => body > 0 && !record.rule.has_constants(),
                RuleFormat::AnyBurl | RuleFormat::AmieAnyBurl => world.counts.is_some(),
                RuleFormat::RnnLogic => steps,
                RuleFormat::Rpje => steps && body <= 2,
                RuleFormat::NneAer => steps && body == 1,
                RuleFormat::Kale => steps && body <= 2 && record.confidence.get() == 1.0,
                other => panic!("{other} has no law"),
            };
            prop_assert_eq!(said, can, "{}: {:?}", format, world);
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>(), words in proptest::collection::vec(nasty(), 0..30), glue in 0usize..3) {
        let noise = words.join(["", " ", "\t"][glue]);
        let rules = format!("{noise}\n3\t2\t0.5\th(X,Y) <= {noise}\n?a  {noise} => ?a  r  ?b\t0.5\na(x,{noise}) => b({noise},y) {noise}\n");
        for text in [&text, &noise, &rules] {
            let _ = parse_rules(text, &RuleReadOptions::default(), &mut Names::default());
            for format in RuleFormat::all() {
                let options = RuleReadOptions { format: Some(format), ..Default::default() };
                let _ = parse_rules(text, &options, &mut Names::default());
            }
        }
    }
}

/// The text form reports such a rule as an error.
fn contradicts_itself(rule: &Rule) -> bool {
    rule.negated.iter().any(|atom| rule.premise.contains(atom))
}

/// Whether the premises form one walk from x to y, by trying every order: the slow twin of the writers' test.
fn walk(rule: &Rule) -> bool {
    fn extend(at: Term, end: Term, left: &[Atom], met: &mut Vec<Term>) -> bool {
        if left.is_empty() {
            return at == end;
        }
        (0..left.len()).any(|index| {
            let atom = left[index];
            let rest: Vec<Atom> = left.iter().enumerate().filter(|&(i, _)| i != index).map(|(_, a)| *a).collect();
            [(atom.subject, atom.object), (atom.object, atom.subject)].into_iter().any(|(from, to)| {
                if from != at || met.contains(&to) {
                    return false;
                }
                met.push(to);
                let found = extend(to, end, &rest, met);
                met.pop();
                found
            })
        })
    }
    let (start, end) = (rule.conclusion.subject, rule.conclusion.object);
    !rule.premise.is_empty()
        && !rule.has_constants()
        && start != end
        && extend(start, end, &rule.premise, &mut vec![start])
}
