//! The index of many rules against brute force over every binding of every variable.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ruge_kg::{EntityId, Graph, Label, RelationId, Triple};
use ruge_rules::rank::index::{Asker, Lacking, RuleIndex};
use ruge_rules::{Atom, Rule, Side, Term, Variable};

const ENTITIES: u32 = 6;
const RELATIONS: u32 = 2;

fn triples() -> impl Strategy<Value = Vec<Triple>> {
    let triple = (0..ENTITIES, 0..RELATIONS, 0..ENTITIES).prop_map(|(h, r, t)| Triple::new(h, r, t));
    proptest::collection::vec(triple, 1..30)
}

/// Paths of one to four atoms from x to y, pairs of atoms over x and y, and rules that name entities; the head is relation 0.
fn rules() -> Vec<Rule> {
    let (x, y) = (Term::from(Variable(0)), Term::from(Variable(1)));
    let head = Atom::new(RelationId(0), x, y);
    let labels = || (0..RELATIONS).flat_map(|r| [Label::forward(RelationId(r)), Label::inverse(RelationId(r))]);
    let atom = |label: Label, from: Term, to: Term| match label.is_inverse() {
        false => Atom::new(label.relation(), from, to),
        true => Atom::new(label.relation(), to, from),
    };
    let mut bodies: Vec<Vec<Label>> = labels().map(|label| vec![label]).collect();
    let mut rules = Vec::new();
    for length in 1..=4 {
        for body in &bodies {
            let places: Vec<Term> = (0..=length)
                .map(|at| {
                    if at == 0 {
                        x
                    } else if at == length {
                        y
                    } else {
                        Term::from(Variable(at as u8 + 1))
                    }
                })
                .collect();
            let atoms = body.iter().enumerate().map(|(at, &label)| atom(label, places[at], places[at + 1])).collect();
            rules.push(Rule::new(head, atoms));
        }
        bodies =
            bodies.into_iter().flat_map(|body| labels().map(move |label| [&body[..], &[label]].concat())).collect();
    }
    for (a, b) in labels().flat_map(|a| labels().map(move |b| (a, b))) {
        rules.push(Rule::new(head, vec![atom(a, x, y), atom(b, x, y)]));
    }
    for label in labels() {
        for (c, other) in [(1, Term::from(EntityId(2))), (2, Term::from(EntityId(0))), (3, Term::from(Variable(2)))] {
            let c = Term::from(EntityId(c));
            rules.push(Rule::new(Atom::new(RelationId(0), x, c), vec![atom(label, x, other)]));
            rules.push(Rule::new(Atom::new(RelationId(0), c, y), vec![atom(label, y, other)]));
        }
    }
    rules
}

/// The entities that a rule concludes, by brute force; `injective` requires all variables and constants to differ.
fn tried(facts: &BTreeSet<Triple>, rule: &Rule, side: Side, known: u32, injective: bool) -> BTreeSet<u32> {
    let terms: BTreeSet<Term> = rule.premise.iter().chain([&rule.conclusion]).flat_map(|atom| atom.terms()).collect();
    let variables: Vec<Term> = terms.iter().copied().filter(|term| matches!(term, Term::Variable(_))).collect();
    let mut found = BTreeSet::new();
    for code in 0..ENTITIES.pow(variables.len() as u32) {
        let value = |term: Term| match term {
            Term::Constant(entity) => entity.0,
            Term::Variable(_) => {
                let at = variables.iter().position(|other| *other == term).expect("a variable of the rule");
                code / ENTITIES.pow(at as u32) % ENTITIES
            }
        };
        let (given, other) = match side {
            Side::Subject => (rule.conclusion.subject, rule.conclusion.object),
            Side::Object => (rule.conclusion.object, rule.conclusion.subject),
        };
        let apart = || terms.iter().map(|&term| value(term)).collect::<BTreeSet<u32>>().len() == terms.len();
        let holds =
            |atom: &Atom| facts.contains(&Triple::new(value(atom.subject), atom.relation.0, value(atom.object)));
        if value(given) == known && (!injective || apart()) && rule.premise.iter().all(holds) {
            found.insert(value(other));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_tells_whom_its_definition_says(triples in triples(), lacking in any::<prop::sample::Index>(), known in 0..ENTITIES) {
        let facts: BTreeSet<Triple> = triples.iter().copied().collect();
        let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &triples);
        let hidden = triples[lacking.index(triples.len())];
        let rest: BTreeSet<Triple> = facts.iter().copied().filter(|fact| *fact != hidden).collect();
        let ask = |index: &RuleIndex, side, known, lacking| {
            let mut told: Vec<(u32, u32)> = Vec::new();
            let mut hear = |rule: u32, entity: EntityId| told.push((rule, entity.0));
            index.ask_without(&graph, RelationId(0), (side, EntityId(known)), lacking, &mut Asker::default(), &mut hear);
            let once: BTreeSet<(u32, u32)> = told.iter().copied().collect();
            assert_eq!(once.len(), told.len(), "told once each");
            once
        };
        let expect = |facts: &BTreeSet<Triple>, rules: &[Rule], side, known, injective| -> BTreeSet<(u32, u32)> {
            let of = |(at, rule): (usize, &Rule)| tried(facts, rule, side, known, injective).into_iter().map(move |e| (at as u32, e));
            rules.iter().enumerate().flat_map(of).collect()
        };
        let rules = rules();
        let index = RuleIndex::new(&graph, &rules).injective();
        for side in [Side::Subject, Side::Object] {
            prop_assert_eq!(ask(&index, side, known, Lacking::Nothing), expect(&facts, &rules, side, known, true));
        }
        // The query for the hidden fact, from either end.
        let pair = |fact: &Triple| {
            [(fact.head, fact.tail), (fact.tail, fact.head)].contains(&(hidden.head, hidden.tail))
        };
        let unlinked: BTreeSet<Triple> = facts.iter().copied().filter(|fact| !pair(fact)).collect();
        for (side, known, label, other) in [
            (Side::Subject, hidden.head.0, Label::forward(hidden.relation), hidden.tail),
            (Side::Object, hidden.tail.0, Label::inverse(hidden.relation), hidden.head),
        ] {
            let told = ask(&index, side, known, Lacking::Fact(label, other));
            prop_assert_eq!(told, expect(&rest, &rules, side, known, true), "without {:?}", hidden);
            let told = ask(&index, side, known, Lacking::Pair(other));
            prop_assert_eq!(told, expect(&unlinked, &rules, side, known, true), "without links of {:?}", hidden);
        }
        // Rules of four atoms never pass an entity twice.
        let short: Vec<Rule> = rules.into_iter().filter(|rule| rule.premise.len() < 4).collect();
        let index = RuleIndex::new(&graph, &short);
        for side in [Side::Subject, Side::Object] {
            prop_assert_eq!(ask(&index, side, known, Lacking::Nothing), expect(&facts, &short, side, known, false));
        }
    }
}
