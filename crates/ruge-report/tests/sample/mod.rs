//! A report with content in every section. Names are deliberately awkward: markup, long paths, dollar signs.

use std::collections::BTreeMap;

use ruge::complete::{Proposal, ProposalRule};
use ruge_report::*;

/// Markup in a name: it must be shown as text.
pub const EVIL: &str = "<script>alert('x')</script>";
/// A name longer than a phone is wide.
pub const LONG: &str = "/award/award_nominee/award_nominations./award/award_nomination/award_nominee";

/// The report; its figures are invented.
pub fn report() -> Report {
    Report {
        title: "world & more".into(),
        summary: vec!["Three predicted facts with their reasons stand below.".into()],
        data: data().into(),
        rules: rules().into(),
        curves: vec![
            curve("ComplEx guided by 57 rules", System::Guided, 0.71),
            curve("ComplEx without rules", System::Unguided, 0.62),
        ]
        .into(),
        metrics: metrics().into(),
        relations: relations().into(),
        calibration: calibration().into(),
        consistency: consistency().into(),
        evidence: evidence().into(),
        proposals: proposed().into(),
        shown: shown(),
        predictions: predictions().into(),
        clean_up: CleanUp {
            about: "Training triples that the model holds for false and that a rule contradicts.".into(),
            rows: vec![
                Suspect {
                    fact: Fact::new("Vienna", "capital_of", "Hungary"),
                    truth: 0.031,
                    why: "if x capital_of y then x located_in y, yet Vienna located_in Hungary is not known".into(),
                },
                Suspect {
                    fact: Fact::new(EVIL, LONG, "Elbe"),
                    truth: 0.08,
                    why: "no rule concludes it, 3 conclude another tail".into(),
                },
            ],
        }
        .into(),
        repeat: Repeat {
            commands: vec!["ruge demo --out runs/demo --seed 1".into(), "ruge eval runs/demo --by-relation".into()],
            specs: vec![(
                "spec.toml (with rules)".into(),
                "seed = 1\n\n[model]\nname = \"complex\"\ndimension = 40\n".into(),
            )],
            version: "0.1.0 (6d455c4)".into(),
            seed: 1,
            data_hash: "5a7e1d65085fb4ab4cb36864383ba10539330d51806d5b0d17b84452fd3bb618".into(),
            stages: vec![
                ("check".into(), 0.041),
                ("mine".into(), 0.52),
                ("train".into(), 38.2),
                ("evaluate".into(), 1.4),
            ],
            notes: vec![("threads".into(), "2".into())],
        }
        .into(),
    }
}

fn data() -> DataAudit {
    let size =
        |relation: &str, facts, class: &str| RelationSize { relation: relation.into(), facts, class: class.into() };
    let pattern = |kind: &str, first: &str, second: &str, share: f64| PatternRow {
        kind: kind.into(),
        first: first.into(),
        second: second.into(),
        share_of_first: share,
        share_of_second: share,
        support: 431,
    };
    DataAudit {
        source: "the embedded graph".into(),
        entities: 2731,
        relations: 24,
        splits: [9520, 1190, 1190],
        findings: vec![
            Finding { level: Level::Fine, text: "Every line is a triple, and none is repeated.".into() },
            Finding {
                level: Level::Note,
                text: "Validation and test triples were split off here, reproducibly.".into(),
            },
            Finding { level: Level::Warning, text: "512 test triples (43.0 %) could be copied from train.".into() },
        ],
        largest: vec![
            size("located_in", 2210, "N-1"),
            size("flows_through", 890, "N-N"),
            size(LONG, 432, "N-N"),
            size(EVIL, 3, "1-1"),
        ],
        patterns: vec![
            pattern("inverse", "has_capital", "capital_of", 0.981),
            pattern("symmetric", "borders", "borders", 1.0),
            pattern("duplicate", LONG, EVIL, 0.83),
        ],
    }
}

fn rules() -> RuleSet {
    let rule = |words: &str, formula: &str, confidence, support| RuleRow {
        words: words.into(),
        formula: formula.into(),
        confidence,
        support: Some(support),
        head_coverage: Some(0.812),
        standard: Some(0.744),
        valid: Some([38, 94]),
    };
    RuleSet {
        source: "mined from train".into(),
        count: 57,
        by_length: [31, 26, 0],
        groundings: Some(3120),
        unlabeled: Some(2204),
        in_test: Some(611),
        best: vec![
            rule("if x has_capital y then y capital_of x", "has_capital(x,y) ⇒ capital_of(y,x)", 0.994, 171),
            rule("if x borders y then y borders x", "borders(x,y) ⇒ borders(y,x)", 1.0, 530),
            rule(
                "if x located_in y and y located_in z then x located_in z",
                "located_in(x,y) ∧ located_in(y,z) ⇒ located_in(x,z)",
                0.973,
                1204,
            ),
            rule(&format!("if x {LONG} y then y {LONG} x"), &format!("{LONG}(x,y) ⇒ {LONG}(y,x)"), 0.911, 88),
            rule(&format!("if x {EVIL} y then x $price y"), "", 0.806, 12),
        ],
        confidences: Histogram {
            edges: (0..=8).map(|at| 0.8 + 0.025 * f64::from(at)).collect(),
            counts: vec![5, 4, 6, 3, 9, 7, 8, 15],
        },
    }
}

fn curve(name: &str, system: System, top: f64) -> Curve {
    let rise = |epoch: u64| top * (1.0 - (-(epoch as f64) / 18.0).exp()) - 0.0004 * epoch as f64;
    let valid_mrr: Vec<(u64, f64)> = (1..=20).map(|at| (5 * at, rise(5 * at))).collect();
    let best = valid_mrr.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|&(epoch, _)| epoch);
    let loss = (1..=100).map(|epoch| (epoch, 0.69 * (-(epoch as f64) / 8.0).exp() + 0.01 / top)).collect();
    Curve { name: name.into(), system, valid_mrr, loss, best_epoch: best }
}

fn metrics() -> MetricsTable {
    let row = |name: &str, system, method: &str, mrr: f64| MetricsRow {
        name: name.into(),
        system,
        method: method.into(),
        mrr,
        spread: (system == System::Guided).then_some((0.004, 5)),
        median: 1.5,
        mean_rank: 41.27,
        hits: BTreeMap::from([(1, mrr - 0.1), (3, mrr + 0.04), (5, mrr + 0.07), (10, mrr + 0.12)]),
        queries: 2380,
    };
    MetricsTable {
        split: "test".into(),
        rows: vec![
            row("ComplEx guided by rules", System::Guided, "ruge", 0.768),
            row("the same, combined with 2,204 rules at ranking time", System::Combined, "with-rules", 0.812),
            row("ComplEx", System::Unguided, "complex", 0.690),
            row("rules alone", System::RulesAlone, "rules", 0.512),
        ],
        published: published::of(14_951, 1_345, [483_142, 50_000, 59_071]),
    }
}

fn relations() -> Vec<RelationRow> {
    let names = [
        "located_in",
        "has_capital",
        "capital_of",
        "borders",
        "flows_through",
        "speaks",
        LONG,
        EVIL,
        "costs $x in $",
        "member_of",
        "mouth_of",
    ];
    let row = |(at, name): (usize, &&str)| RelationRow {
        relation: name.to_string(),
        queries: 400 / (at + 1),
        rules: Some(at % 4),
        combined: Some(0.97 - 0.06 * at as f64),
        guided: Some(0.95 - 0.06 * at as f64),
        unguided: if at == 9 { None } else { Some(0.80 - 0.05 * at as f64) },
    };
    names.iter().enumerate().map(row).collect()
}

fn calibration() -> CalibrationCurve {
    let bin = |at: i32, bend: f64| {
        let predicted = 0.05 + 0.1 * f64::from(at);
        ReliabilityBin {
            predicted,
            observed: predicted.powf(bend),
            count: if at == 0 { 20_800 } else { 12 + 7 * at as u64 },
        }
    };
    CalibrationCurve {
        about: "Test triples and as many corrupted ones; what nobody listed counts as wrong.".into(),
        bins: (0..10).map(|at| bin(at, 1.06)).collect(),
        before: (0..10).map(|at| bin(at, 2.2)).collect(),
        brier: Some(0.081),
        ece: Some(0.021),
        brier_before: Some(0.142),
        ece_before: Some(0.118),
    }
}

fn consistency() -> Consistency {
    let row = |words: &str, guided| ConsistencyRow {
        words: words.into(),
        confidence: 0.97,
        groundings: 412,
        guided: Some(guided),
        unguided: Some(0.52),
    };
    Consistency {
        guided: Some(0.914),
        unguided: Some(0.587),
        rows: vec![
            row("if x has_capital y then y capital_of x", 0.98),
            row("if x located_in y and y located_in z then x located_in z", 0.44),
        ],
    }
}

fn evidence() -> EvidenceUse {
    let effect = |value: f64, words: &str| Effect { words: words.into(), value };
    let tried = |what: &str, mrr, taken| TriedRow { what: what.into(), mrr, taken };
    EvidenceUse {
        features: vec![
            ("role".into(), "How many facts of this relation already have the candidate in this place?".into()),
            ("link".into(), "Does a fact already link the candidate to the known end?".into()),
        ],
        fitted: 312,
        tried: vec![tried("no evidence", 0.768, false), tried("role", 0.79, false), tried("role, link", 0.812, true)],
        shared: vec![effect(-0.4, "already the answer of 2 facts")],
        rows: [("capital_of", "tail"), ("located_in", "head"), (LONG, "tail"), (EVIL, "head")]
            .map(|(relation, asked)| EvidenceRow {
                relation: relation.into(),
                asked: asked.into(),
                effects: vec![effect(-2.5, "already the tail of 1 fact"), effect(0.51, "no fact has it as tail yet")],
            })
            .to_vec(),
    }
}

/// Proposed facts with what is said about them.
pub fn proposed() -> Proposed {
    Proposed {
        facts: proposals(),
        found: 311,
        least: 0.1,
        cut: vec!["The truest are here.".into()],
        assumes: "It assumes that 90 % of the true facts are listed.".into(),
        completeness: vec![CompletenessRow {
            relation: LONG.into(),
            proposals: 100,
            share: 0.9,
            interval: [0.85, 0.95],
            sure: 40,
            given: false,
        }],
    }
}

/// Labels of some of them: what is shown is not what is downloaded.
fn shown() -> shown::Shown {
    let entities = [("place 299", "the last place (place 299)"), ("place 0", EVIL)];
    let relations = [("borders", "lies beside (borders)")];
    let of = |list: &[(&str, &str)]| list.iter().map(|(name, it)| (name.to_string(), it.to_string())).collect();
    shown::Shown { entities: of(&entities), relations: of(&relations), rules: Default::default() }
}

/// Names that would end a field, a line, a string or a statement of a file, and ordinary ones.
pub fn proposals() -> Vec<Proposal> {
    let hostile = [
        EVIL,
        LONG,
        "a \"quoted\", b",
        "two\nlines\tand a tab\r",
        "\\u0027}) DETACH DELETE h //",
        "back\\slash'`",
        "http://example.org/Z\u{fc}rich",
        "\"text\"@en",
        "_:b0",
        "\u{202e}turned\u{200b}\u{7f}",
        "(it's!*)",
    ];
    let rule = |at: usize| ProposalRule { rule: format!("{}(x,y) ⇒ s(y,x)", hostile[at % 11]), confidence: 0.9 };
    let fact = |[head, relation, tail]: [&str; 3]| ruge::explain::Fact {
        head: head.into(),
        relation: relation.into(),
        tail: tail.into(),
    };
    let proposal = |names: [&str; 3], truth: f64, rules: usize| Proposal {
        fact: fact(names),
        labels: Default::default(),
        truth,
        rules: (0..rules.min(5)).map(rule).collect(),
        rule_count: rules,
        against: if rules == 1 {
            vec![format!("already listed: {} (97 % of tails have one)", names[0])]
        } else {
            vec![]
        },
        score: 2.5,
    };
    let odd = (0..11).map(|at| {
        let names = [hostile[at], hostile[(at + 1) % 11], hostile[(at + 2) % 11]];
        proposal(names, 0.99 - 0.05 * at as f64, at)
    });
    let plain = (0..300).map(|at| {
        let relation = ["located_in", "borders", "speaks"][at % 3];
        proposal([&format!("place {at}"), relation, &format!("region {}", at % 40)], 0.4 - 0.001 * at as f64, at % 3)
    });
    odd.chain(plain).collect()
}

fn predictions() -> Vec<Prediction> {
    let firing = |words: &str, premises: Vec<Fact>| Firing {
        words: words.into(),
        confidence: 0.973,
        push: Some(0.0081),
        premises,
    };
    let base = Prediction {
        fact: Fact::new("Graz", "located_in", "Austria"),
        standing: Standing::InTest,
        truth: Some(0.962),
        truth_unguided: Some(0.413),
        rank: Some(1.0),
        rank_unguided: Some(17.0),
        rules: vec![firing(
            "if x located_in y and y located_in z then x located_in z",
            vec![Fact::new("Graz", "located_in", "Styria"), Fact::new("Styria", "located_in", "Austria")],
        )],
        similar: Vec::new(),
        against: Vec::new(),
        parts: Vec::new(),
        closing: String::new(),
        note: None,
    };
    let part = |value: f64, words: &str| Effect { value, words: words.into() };
    let direct = Prediction {
        fact: Fact::new("Lisbon", "capital_of", "Portugal"),
        standing: Standing::New,
        against: vec!["already listed: Porto capital_of Portugal (97 % of tails have one)".into()],
        parts: vec![
            part(4.25, "the embedding's own score"),
            part(-2.125, "Portugal already is the tail of 1 fact of capital_of"),
            part(1.5, "if x has_capital y then y capital_of x"),
            part(0.75, "2 facts already link Portugal and Lisbon"),
            part(0.5, "if x largest_city_of y and y member_of z then x capital_of y"),
            part(0.25, "Portugal is part of 61 facts in all"),
            part(-0.125, "Portugal compared with other tails of capital_of, by the relations they have"),
        ],
        closing: "the score that ranks it among tails".into(),
        rules: vec![
            firing("if x has_capital y then y capital_of x", vec![Fact::new("Portugal", "has_capital", "Lisbon")]),
            firing(
                "if x largest_city_of y and y member_of z then x capital_of y",
                vec![
                    Fact::new("Lisbon", "largest_city_of", "Portugal"),
                    Fact::new("Portugal", "member_of", "European Union"),
                ],
            ),
            firing(
                "if x seat_of y and y governs z then x capital_of z",
                vec![
                    Fact::new("Lisbon", "seat_of", "Government of Portugal"),
                    Fact::new("Government of Portugal", "governs", "Portugal"),
                ],
            ),
        ],
        ..base.clone()
    };
    let evil = Prediction {
        fact: Fact::new(EVIL, LONG, "a \"quoted\" & very long name of an entity that nobody would choose"),
        rules: vec![firing(
            "if …",
            vec![Fact { negated: true, ..Fact::new(EVIL, "not_this", "Elbe") }, Fact::new("Elbe", LONG, EVIL)],
        )],
        ..base.clone()
    };
    let alone = Prediction {
        fact: Fact::new("Danube", "flows_through", "Ulm"),
        rules: Vec::new(),
        similar: vec![Fact::new("Danube", "flows_through", "Linz"), Fact::new("Iller", "flows_through", "Ulm")],
        note: Some("The model alone says so.".into()),
        ..base.clone()
    };
    vec![base, direct, evil, alone]
}
