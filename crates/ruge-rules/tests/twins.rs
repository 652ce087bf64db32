//! The miner, the counter and the grounder against brute force on random small graphs.
//!
//! The twins try every binding of every variable over every entity, as in the definitions. Graphs are small and dense,
//! with reflexive triples, repeated triples and a hub, so that corner cases are frequent.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use ruge_kg::{EntityId, Graph, Label, RelationId, Triple};
use ruge_rules::count::Counter;
use ruge_rules::ground::{ground_conclusion, stream};
use ruge_rules::{Atom, Counts, MineConfig, Rule, Side, Term, Variable, ground, mine};

const ENTITIES: u32 = 6;
const RELATIONS: u32 = 3;

fn graphs() -> impl Strategy<Value = Vec<Triple>> {
    let triple = (0..ENTITIES, 0..RELATIONS, 0..ENTITIES).prop_map(|(h, r, t)| Triple::new(h, r, t));
    // Entity 0 becomes a hub: half of the heads are replaced by it.
    let hub = (any::<bool>(), triple).prop_map(|(hub, t)| if hub { Triple { head: EntityId(0), ..t } } else { t });
    proptest::collection::vec(hub, 1..45)
}

struct World {
    facts: BTreeSet<(u32, u32, u32)>,
}

impl World {
    fn new(triples: &[Triple]) -> Self {
        Self { facts: triples.iter().map(|t| (t.head.0, t.relation.0, t.tail.0)).collect() }
    }

    fn step(&self, label: Label, from: u32, to: u32) -> bool {
        let r = label.relation().0;
        self.facts.contains(&if label.is_inverse() { (to, r, from) } else { (from, r, to) })
    }

    fn holds(&self, atom: &Atom, values: &[u32]) -> bool {
        let value = |term: Term| match term {
            Term::Variable(v) => values[v.index()],
            Term::Constant(e) => e.0,
        };
        self.facts.contains(&(value(atom.subject), atom.relation.0, value(atom.object)))
    }

    /// Every binding of `variables` variables under which the whole premise holds.
    fn bindings(&self, rule: &Rule, variables: usize, injective: bool) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        let total = (ENTITIES as usize).pow(variables as u32);
        let used: BTreeSet<usize> = rule.atoms().flat_map(|a| a.variables()).map(|v| v.index()).collect();
        for code in 0..total {
            let values: Vec<u32> =
                (0..variables).map(|i| (code / (ENTITIES as usize).pow(i as u32)) as u32 % ENTITIES).collect();
            // Variables that the rule lacks are not bound: fix them at 0.
            if (0..variables).any(|v| !used.contains(&v) && values[v] != 0) {
                continue;
            }
            if injective && used.iter().any(|&a| used.iter().any(|&b| a < b && values[a] == values[b])) {
                continue;
            }
            let fails = |atom: &Atom| !self.holds(atom, &values);
            if rule.premise.iter().all(|atom| self.holds(atom, &values)) && rule.negated.iter().all(fails) {
                all.push(values);
            }
        }
        all
    }

    fn side(&self, head: u32) -> Side {
        let subjects: BTreeSet<u32> = self.facts.iter().filter(|f| f.1 == head).map(|f| f.0).collect();
        let objects: BTreeSet<u32> = self.facts.iter().filter(|f| f.1 == head).map(|f| f.2).collect();
        if subjects.len() >= objects.len() { Side::Subject } else { Side::Object }
    }

    fn counts(&self, rule: &Rule, injective: bool) -> Counts {
        let head = rule.head().0;
        let variables = rule.variable_count().max(2);
        let pairs: BTreeSet<(u32, u32)> =
            self.bindings(rule, variables, injective).iter().map(|values| (values[0], values[1])).collect();
        let of_head = |f: &&(u32, u32, u32)| f.1 == head && !(injective && f.0 == f.2);
        Counts {
            support: pairs.iter().filter(|&&(x, y)| self.facts.contains(&(x, head, y))).count() as u64,
            body: pairs.len() as u64,
            pca_subject: pairs.iter().filter(|p| self.facts.iter().any(|f| f.1 == head && f.0 == p.0)).count() as u64,
            pca_object: pairs.iter().filter(|p| self.facts.iter().any(|f| f.1 == head && f.2 == p.1)).count() as u64,
            head: self.facts.iter().filter(of_head).count() as u64,
            side: self.side(head),
        }
    }
}

fn atom(label: Label, from: Variable, to: Variable) -> Atom {
    if label.is_inverse() { Atom::new(label.relation(), to, from) } else { Atom::new(label.relation(), from, to) }
}

fn labels() -> Vec<Label> {
    (0..2 * RELATIONS).map(Label).collect()
}

/// Every closed rule of the language with its counts, filtered by the definitions.
fn brute_force(world: &World, config: &MineConfig) -> BTreeMap<Rule, (u64, u64, u64, u64)> {
    let (x, y, z, z1) = (Variable::X, Variable::Y, Variable::Z, Variable(3));
    let mut found = BTreeMap::new();
    for head in (0..RELATIONS).map(RelationId) {
        let conclusion = Atom::new(head, x, y);
        let size = world.counts(&Rule::new(conclusion, vec![]), config.injective).head;
        if size < config.min_head_size.max(1) {
            continue;
        }
        let threshold = (config.min_head_coverage * size as f64).ceil().max(config.min_support as f64).max(1.0) as u64;
        let mut consider = |premise: Vec<Atom>, keep: &dyn Fn(&Counts) -> bool| {
            let rule = Rule::new(conclusion, premise);
            let c = world.counts(&rule, config.injective);
            let passes = c.support >= threshold && c.pca() >= config.min_pca && c.standard() >= config.min_std;
            if passes && keep(&c) {
                found.insert(rule.canonical(), (c.support, c.body, c.pca_subject, c.pca_object));
            }
            c
        };
        let own = Label::forward(head);
        let mut parents = BTreeMap::new();
        for l in labels().into_iter().filter(|&l| l != own) {
            parents.insert(l, consider(vec![atom(l, x, y)], &|_| true));
        }
        for (i, a) in labels().into_iter().enumerate() {
            for b in labels().into_iter().skip(i + 1) {
                if config.max_body < 2 || a == own || b == own {
                    continue;
                }
                let (p, q) = (parents[&a], parents[&b]);
                let perfect = |c: &Counts| c.support == c.pca_body();
                let keep = |c: &Counts| {
                    !(perfect(&p) && perfect(&q)) && (!config.skyline || (c.pca() > p.pca() && c.pca() > q.pca()))
                };
                consider(vec![atom(a, x, y), atom(b, x, y)], &keep);
            }
        }
        for a in labels() {
            for b in labels() {
                if config.max_body >= 2 {
                    consider(vec![atom(a, x, z), atom(b, z, y)], &|_| true);
                }
                for c in labels() {
                    if config.max_body >= 3 {
                        consider(vec![atom(a, x, z), atom(b, z, z1), atom(c, z1, y)], &|_| true);
                    }
                }
            }
        }
    }
    found
}

fn check_miner(triples: &[Triple], config: &MineConfig) -> Result<(), TestCaseError> {
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, triples);
    let mined = mine(&graph, config, &Default::default());
    let mut ours = BTreeMap::new();
    let mut counter = Counter::new(ENTITIES as usize);
    for rule in &mined.rules {
        let c = rule.counts;
        let before = ours.insert(rule.rule.canonical(), (c.support, c.body, c.pca_subject, c.pca_object));
        prop_assert!(before.is_none(), "mined twice: {:?}", rule.rule);
        if !config.injective {
            prop_assert_eq!(counter.count(&graph, &rule.rule), Some(c), "counted otherwise: {:?}", rule.rule);
        }
    }
    prop_assert_eq!(ours, brute_force(&World::new(triples), config));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn mining_up_to_two_atoms(
        triples in graphs(), pca in 0.0f64..1.0, std in prop_oneof![Just(0.0), 0.0f64..0.8],
        hc in prop_oneof![Just(0.01), 0.0f64..0.6], support in 0u64..4, head in 1u64..8,
        skyline: bool, injective: bool, max_body in 1usize..3,
    ) {
        let config = MineConfig {
            min_pca: pca, min_std: std, min_head_coverage: hc, min_support: support, min_head_size: head,
            skyline, injective, max_body, ..MineConfig::default()
        };
        check_miner(&triples, &config)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn mining_three_atoms(triples in graphs(), pca in 0.0f64..1.0, hc in 0.0f64..0.6, injective: bool) {
        let config = MineConfig {
            min_pca: pca, min_head_coverage: hc, min_head_size: 1, injective, max_body: 3, ..MineConfig::default()
        };
        check_miner(&triples, &config)?;
    }
}

/// Rules with an entity in the head, by definition.
fn brute_force_constants(world: &World, config: &MineConfig) -> BTreeMap<Rule, (u64, u64, u64)> {
    let mut found = BTreeMap::new();
    for head in 0..RELATIONS {
        let facts: Vec<_> = world.facts.iter().filter(|f| f.1 == head && !(config.injective && f.0 == f.2)).collect();
        if (facts.len() as u64) < config.min_head_size.max(1) {
            continue;
        }
        for to in [Label(2 * head), Label(2 * head + 1)] {
            for c in 0..ENTITIES {
                let member = |x: u32| world.step(to, x, c) && !(config.injective && x == c);
                let size = (0..ENTITIES).filter(|&x| member(x)).count() as u64;
                let threshold = ((config.min_head_coverage * size as f64).ceil() as u64)
                    .max(config.min_constant_support)
                    .max(config.min_support);
                for label in labels() {
                    for of in std::iter::once(None).chain((0..ENTITIES).map(Some)) {
                        if of == Some(c) && label == to {
                            continue;
                        }
                        let distinct = |x: u32, d: u32| !config.injective || (x != d && x != c && d != c);
                        let has = |x: u32| match of {
                            Some(d) => distinct(x, d) && world.step(label, x, d),
                            None => (0..ENTITIES).any(|d| distinct(x, d) && world.step(label, x, d)),
                        };
                        let body: Vec<u32> = (0..ENTITIES).filter(|&x| has(x)).collect();
                        let support = body.iter().filter(|&&x| member(x)).count() as u64;
                        let known =
                            body.iter().filter(|&&x| (0..ENTITIES).any(|y| world.step(to, x, y))).count() as u64;
                        let passes = support >= threshold.max(1)
                            && support as f64 / known as f64 >= config.min_pca
                            && support as f64 / body.len() as f64 >= config.min_std;
                        if passes {
                            let free = if to.is_inverse() { Variable::Y } else { Variable::X };
                            let place = |label: Label, end: Term| {
                                if label.is_inverse() {
                                    Atom::new(label.relation(), end, free)
                                } else {
                                    Atom::new(label.relation(), free, end)
                                }
                            };
                            let end = of.map_or(Term::from(Variable::Z), |d| EntityId(d).into());
                            let rule = Rule::new(place(to, EntityId(c).into()), vec![place(label, end)]);
                            found.insert(rule.canonical(), (support, body.len() as u64, known));
                        }
                    }
                }
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn mining_with_constants(
        triples in graphs(), pca in 0.0f64..1.0, hc in 0.0f64..0.6, support in 1u64..4, injective: bool,
    ) {
        let config = MineConfig {
            min_pca: pca, min_head_coverage: hc, min_head_size: 1, injective, constants: true,
            min_constant_support: support, ..MineConfig::default()
        };
        let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &triples);
        let mined = mine(&graph, &config, &Default::default());
        let mut counter = Counter::new(ENTITIES as usize);
        let mut ours = BTreeMap::new();
        for rule in mined.rules.iter().filter(|r| r.rule.has_constants()) {
            let c = rule.counts;
            ours.insert(rule.rule.canonical(), (c.support, c.body, c.pca_body()));
            if !injective {
                prop_assert_eq!(counter.count(&graph, &rule.rule), Some(c), "counted otherwise: {:?}", rule.rule);
            }
        }
        prop_assert_eq!(ours, brute_force_constants(&World::new(&triples), &config));
    }
}

/// Any rule: 1 to 3 atoms over 4 variables and entities, some with negated atoms, safe or not.
fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let term = prop_oneof![
        6 => (0u8..4).prop_map(|v| Term::from(Variable(v))),
        1 => (0..ENTITIES).prop_map(|e| Term::from(EntityId(e))),
    ];
    let atom = (0..RELATIONS + 1, term.clone(), term).prop_map(|(r, s, o)| Atom::new(RelationId(r), s, o));
    let negated = prop_oneof![1 => Just(vec![]), 1 => proptest::collection::vec(atom.clone(), 1..3)];
    let rule = (atom.clone(), proptest::collection::vec(atom, 0..4), negated)
        .prop_map(|(conclusion, premise, negated)| Rule { conclusion, premise, negated });
    proptest::collection::vec(rule, 0..5)
}

/// Premises, negated premises, conclusion.
type Grounded = (Vec<Triple>, Vec<Triple>, Triple);

fn brute_force_groundings(world: &World, rules: &[Rule]) -> Vec<(usize, Grounded)> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        if rule.premise.is_empty() || !rule.is_safe() || rule.head().0 >= RELATIONS {
            continue;
        }
        for values in world.bindings(rule, 4, false) {
            let bound = |atom: &Atom| {
                let value = |term: Term| match term {
                    Term::Variable(v) => values[v.index()],
                    Term::Constant(e) => e.0,
                };
                Triple::new(value(atom.subject), atom.relation.0, value(atom.object))
            };
            let conclusion = bound(&rule.conclusion);
            let premises: Vec<Triple> = rule.premise.iter().map(bound).collect();
            let negated: Vec<Triple> = rule.negated.iter().map(bound).collect();
            let observed = world.facts.contains(&(conclusion.head.0, conclusion.relation.0, conclusion.tail.0));
            if !observed && seen.insert((premises.clone(), negated.clone(), conclusion)) {
                all.push((index, (premises, negated, conclusion)));
            }
        }
    }
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn grounding(triples in graphs(), rules in rules()) {
        let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &triples);
        let groundings = ground(&graph, &rules);
        let mut ours: Vec<(usize, Grounded)> = (0..groundings.len())
            .map(|g| {
                let conclusion = groundings.unlabeled()[groundings.conclusion(g)];
                (groundings.rule(g), (groundings.premises(g).to_vec(), groundings.negated(g).to_vec(), conclusion))
            })
            .collect();
        let in_order = ours.clone();
        ours.sort();
        let expected = brute_force_groundings(&World::new(&triples), &rules);
        prop_assert_eq!(&ours, &expected);

        // Provenance both ways.
        let distinct: BTreeSet<Triple> = expected.iter().map(|(_, (.., c))| *c).collect();
        prop_assert_eq!(groundings.unlabeled().len(), distinct.len());
        for rule in 0..rules.len() {
            prop_assert!(groundings.of_rule(rule).all(|g| groundings.rule(g) == rule));
        }
        for (u, &triple) in groundings.unlabeled().iter().enumerate() {
            let all = groundings.concluding(u);
            prop_assert!(!all.is_empty() && all.iter().all(|&g| groundings.conclusion(g as usize) == u));
            prop_assert_eq!(all.len(), expected.iter().filter(|(_, (.., c))| *c == triple).count());
        }

        // Streaming with almost no memory passes on the same, in the same order.
        let mut streamed = Vec::new();
        let folder = std::env::temp_dir();
        let held_out = [Triple::new(0, 0, 0), Triple::new(1, 1, 1)];
        let report = stream(&graph, &rules, 0, &folder, &[&held_out], &mut |g| {
            streamed.push((g.rule, (g.premises.to_vec(), g.negated.to_vec(), g.conclusion)));
            Ok(())
        }).unwrap();
        prop_assert_eq!(&streamed, &in_order);
        prop_assert_eq!(report.unlabeled as usize, distinct.len());
        prop_assert_eq!(report.overlaps[0] as usize, groundings.overlap(&held_out));
        prop_assert_eq!(report.repeated as usize, groundings.repeated());

        // For a given conclusion, the same premises are returned.
        for (u, &triple) in groundings.unlabeled().iter().enumerate().take(3) {
            for (index, rule) in rules.iter().enumerate() {
                let mut back = ground_conclusion(&graph, rule, triple, usize::MAX);
                back.sort();
                let mut world_says: Vec<Vec<Triple>> = World::new(&triples)
                    .bindings(rule, 4, false)
                    .into_iter()
                    .filter(|_| rule.head() == triple.relation && rule.is_safe() && !rule.premise.is_empty())
                    .map(|values| {
                        let bound = |atom: &Atom| {
                            let value = |term: Term| term.variable().map_or_else(
                                || if let Term::Constant(e) = term { e.0 } else { 0 }, |v| values[v.index()]);
                            Triple::new(value(atom.subject), atom.relation.0, value(atom.object))
                        };
                        (bound(&rule.conclusion), rule.premise.iter().chain(&rule.negated).map(bound).collect::<Vec<_>>())
                    })
                    .filter(|(conclusion, _)| *conclusion == triple)
                    .map(|(_, premises)| premises)
                    .collect();
                world_says.sort();
                if rule.is_safe() {
                    prop_assert_eq!(&back, &world_says, "rule {} for unlabeled {}", index, u);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn counting_any_rule(triples in graphs(), rules in rules()) {
        let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &triples);
        let mut counter = Counter::new(ENTITIES as usize);
        for rule in rules.iter().map(Rule::renumbered) {
            let pairs = [Term::from(Variable::X), Term::from(Variable::Y)];
            if rule.premise.is_empty() || !rule.is_safe() {
                prop_assert_eq!(counter.count(&graph, &rule), None);
            } else if rule.conclusion.terms() == pairs {
                let expected = World::new(&triples).counts(&rule, false);
                prop_assert_eq!(counter.count(&graph, &rule), Some(expected), "{:?}", rule);
            }
        }
    }
}

#[test]
fn the_same_rules_on_any_number_of_threads() {
    let triples: Vec<Triple> = (0..4000u32)
        .map(|i| {
            let draw = ruge_kg::random::draw(3, ruge_kg::random::Stream(9), 0, u64::from(i));
            let head = (draw % 97 * (draw >> 40) % 97) as u32 % 60;
            Triple::new(head, (draw >> 8) as u32 % 7, (draw >> 20) as u32 % 60)
        })
        .collect();
    let graph = Graph::new(60, 7, &triples);
    let config = MineConfig { min_pca: 0.1, min_head_size: 10, constants: true, max_body: 3, ..Default::default() };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| mine(&graph, &config, &Default::default()).rules)
    };
    let one = on(1);
    assert!(one.len() > 100, "{}", one.len());
    assert_eq!(one, on(2));
    assert_eq!(one, on(5));
}

#[test]
fn conclusions_beyond_the_budget_go_through_a_file() {
    // A chain rule over a dense graph concludes thousands of triples many times: several sorted runs.
    let triples: Vec<Triple> = (0..200u32)
        .flat_map(|x| (0..12u32).map(move |k| Triple::new(x, 0, (x * 7 + k * k * 5 + 1) % 200)))
        .chain([Triple::new(0, 1, 0)])
        .collect();
    let graph = Graph::new(200, 2, &triples);
    let (x, y, z) = (Variable::X, Variable::Y, Variable::Z);
    let body = |r: u32| vec![Atom::new(RelationId(r), x, z), Atom::new(RelationId(r), z, y)];
    let rules =
        [Rule::new(Atom::new(RelationId(1), x, y), body(0)), Rule::new(Atom::new(RelationId(1), y, x), body(0))];
    let whole = ground(&graph, &rules);
    assert!(whole.unlabeled().len() > 5000, "{}", whole.unlabeled().len());
    let held_out: Vec<Triple> = whole.unlabeled().iter().step_by(3).copied().collect();
    let mut groundings = 0;
    let report = stream(&graph, &rules, 0, &std::env::temp_dir(), &[&held_out], &mut |_| {
        groundings += 1;
        Ok(())
    })
    .unwrap();
    assert!(report.spilled > 2, "{} runs", report.spilled);
    assert_eq!((groundings, report.groundings as usize), (whole.len(), whole.len()));
    assert_eq!(report.unlabeled as usize, whole.unlabeled().len());
    assert_eq!(report.overlaps[0] as usize, held_out.len());
}
