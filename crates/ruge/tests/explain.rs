//! Explanations of a world small enough to check by hand, and of names that would break pictures.

use std::collections::BTreeMap;

use ruge::explain::drawing::Drawing;
use ruge::explain::{ExplainOptions, Explainer, Explanation};
use ruge::spec::Pull;
use ruge::{Engine, ModelFile, Spec, assemble};
use ruge_embed::objective::truth;
use ruge_embed::{Dealing, TNorm};
use ruge_kg::{Control, Dataset, Names, RankQuery, Side, Ties, Triple};
use ruge_rules::{RuleReadOptions, parse_rules};

const FACTS: &str = "Frida born_in Coyoacan
Frida lives_in Coyoacan
Frida born_in Tizapan
Coyoacan part_of Mexico
Tizapan part_of Mexico
Mexico has_part Coyoacan
Mexico has_part Tizapan
Diego born_in Guanajuato
Guanajuato part_of Mexico
Mexico has_part Guanajuato
Diego nationality Mexico
Leon born_in Yanovka
Yanovka part_of Ukraine
Ukraine has_part Yanovka";

/// Two ways to write one chain, another chain, and a rule of one premise.
const RULES: &str = "born_in(x,z) & part_of(z,y) => nationality(x,y)\t0.8
has_part(y,z) & born_in(x,z) => nationality(x,y)\t0.7
lives_in(x,z) & part_of(z,y) => nationality(x,y)\t0.5
part_of(x,y) => has_part(y,x)\t1
has_part(x,y) => part_of(y,x)\t1
nowhere(x,z) & part_of(z,y) => nationality(x,y)\t0.9";

fn triple(data: &Dataset, [head, relation, tail]: [&str; 3]) -> Triple {
    let names = data.names();
    Triple {
        head: names.entities.id(head).expect("an entity"),
        relation: names.relations.id(relation).expect("a relation"),
        tail: names.entities.id(tail).expect("an entity"),
    }
}

fn world(t_norm: TNorm, slackness: f32) -> Engine {
    let mut names = Names::default();
    let triples = |text: &str, names: &mut Names| -> Vec<Triple> {
        let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
        text.lines().map(words).map(|w| names.triple(&w[0], &w[1], &w[2])).collect()
    };
    let mut train = triples(FACTS, &mut names);
    // More places, so that part_of and has_part are seen to be one relation turned round.
    for place in 0..20 {
        train.push(names.triple(&format!("place{place}"), "part_of", "Mexico"));
        train.push(names.triple("Mexico", "has_part", &format!("place{place}")));
    }
    let valid = triples("Frida nationality Mexico", &mut names);
    let data = Dataset::new(names, train, valid, Vec::new());
    let mut spec = Spec::default();
    spec.model.dimension = 8;
    let training = spec.negatives_mut().expect("the paper has some");
    training.guidance = Pull::Ruge { slackness, t_norm, dealing: Dealing::Shuffled };
    let model = assemble::model(&spec, &data).expect("a model");
    let mut all = data.names().clone();
    let rules = parse_rules(RULES, &RuleReadOptions::default(), &mut all).expect("rules");
    assert_eq!(rules.bad, []);
    let file = ModelFile {
        is_old: false,
        spec,
        embeddings: model.state().expect("parameters").embeddings.clone().into(),
        data,
        rules: rules.rules,
        notes: BTreeMap::new(),
        calibration: None,
        truth: None,
        ranking: None,
        weights: None,
    };
    Engine::new(file).expect("a model")
}

fn explained(engine: &Engine, names: [&str; 3], groundings: usize) -> Explanation {
    let options = ExplainOptions { groundings, ..ExplainOptions::default() };
    Explainer::new(engine).explain(triple(engine.data(), names), &options).expect("an explanation")
}

#[test]
fn pushes_follow_equation_nine() {
    let engine = world(TNorm::Product, 0.01);
    let found = explained(&engine, ["Frida", "nationality", "Mexico"], 10);
    assert_eq!(found.known.as_deref(), Some("valid"));
    // Born in two places of Mexico: twice by the first rule, twice by its other version, once by lives_in.
    assert_eq!((found.fired(), found.rules.len(), found.grounding_count()), (3, 2, 5));
    assert_eq!(found.rules_for_relation, 3, "the rule about `nowhere` cannot fire");
    let first = &found.rules[0];
    assert_eq!((first.confidence, first.groundings, first.redundant.len()), (0.8, 2, 1));
    assert_eq!((first.redundant[0].confidence, first.redundant[0].groundings), (0.7, 2));
    assert_eq!(first.words, "if x born_in y and y part_of z then x nationality z");

    let phi = |names| truth(engine.score(triple(engine.data(), names)).expect("a score"));
    let chain = |verb, place| phi(["Frida", verb, place]) * phi([place, "part_of", "Mexico"]);
    let turned = |place| phi(["Frida", "born_in", place]) * phi(["Mexico", "has_part", place]);
    for grounding in &found.groundings {
        let [first, second] = &grounding.premises[..] else { panic!("two premises") };
        let expected = chain(&first.fact.relation, &first.fact.tail);
        assert_eq!((&second.fact.head, &second.fact.tail), (&first.fact.tail, &"Mexico".to_string()));
        let confidence = if first.fact.relation == "born_in" { 0.8 } else { 0.5 };
        assert!((grounding.premise_truth - f64::from(expected)).abs() < 1e-6);
        assert!((grounding.push - 0.01 * confidence * f64::from(expected)).abs() < 1e-7, "{grounding:?}");
    }
    let pushes = 0.8 * (chain("born_in", "Coyoacan") + chain("born_in", "Tizapan"))
        + 0.7 * (turned("Coyoacan") + turned("Tizapan"))
        + 0.5 * chain("lives_in", "Coyoacan");
    let label = found.soft_label.as_ref().expect("rules fire");
    assert!(label.in_training && label.groundings == 5);
    let expected = (phi(["Frida", "nationality", "Mexico"]) + 0.01 * pushes).min(1.0);
    assert!((label.after - expected).abs() < 1e-6, "{label:?}, expected {expected}");
}

#[test]
fn pushes_add_up_under_every_t_norm() {
    for t_norm in [TNorm::Product, TNorm::Lukasiewicz, TNorm::Godel] {
        for slackness in [0.001, 0.05] {
            let engine = world(t_norm, slackness);
            let found = explained(&engine, ["Frida", "nationality", "Mexico"], 1);
            let label = found.soft_label.as_ref().expect("rules fire");
            let own =
                |rule: &ruge::explain::RuleEvidence| rule.push + rule.redundant.iter().map(|r| r.push).sum::<f64>();
            let sum: f64 = found.rules.iter().map(own).sum();
            let moved = f64::from(label.after - label.before);
            if !label.clipped {
                assert!((sum - moved).abs() < 1e-5, "{t_norm:?}, C {slackness}: {sum} and {moved}");
            }
        }
    }
}

#[test]
fn ranks_are_those_of_the_definition() {
    let engine = world(TNorm::Product, 0.01);
    let data = engine.data();
    let asked = triple(data, ["Frida", "nationality", "Mexico"]);
    let found = explained(&engine, ["Frida", "nationality", "Mexico"], 1);
    let queries = RankQuery::both_sides(&[asked]);
    let ranks = engine.ranker().rank(&queries, Some(data.filter()), &Control::default()).expect("ranks");
    for (query, rank) in queries.iter().zip(ranks) {
        let told = if query.side == Side::Tail { found.rank } else { found.head_rank };
        assert_eq!(told, rank.filtered.rank(Ties::Mean), "{query:?}");
    }
    // By hand: who scores higher and is no other known fact?
    let score = |triple| engine.score(triple).expect("a score");
    let rivals = data.graph().entities().filter(|&entity| {
        let other = Triple { tail: entity, ..asked };
        score(other) > score(asked) && !data.filter().contains(other)
    });
    assert_eq!(found.rank, 1.0 + rivals.count() as f64);
}

#[test]
fn the_sentence_says_whether_the_model_agrees() {
    let engine = world(TNorm::Product, 0.01);
    let mut seen = [0, 0];
    for head in ["Frida", "Diego", "Leon", "Tizapan", "place3"] {
        for tail in ["Mexico", "Ukraine", "Coyoacan", "place7"] {
            let found = explained(&engine, [head, "nationality", tail], 1);
            let model = found.model.expect("there is a model");
            // The model alone ranks here.
            assert_eq!((model.rank, model.head_rank), (found.rank, found.head_rank));
            // Thirty entities or so: the first tenth of them.
            let first = (found.entities / 10) as f64;
            assert_eq!(model.agrees, model.rank <= first || model.head_rank <= first, "{found:?}");
            let doubted = found.known.is_none() && found.truth < 0.4;
            let expected = match (found.fired() > 0, model.agrees, doubted) {
                (true, true, false) => "rules and the model agree",
                (true, true, true) => "rules and the model speak for it",
                (true, false, false) => "rules, but not the model",
                (true, false, true) => "for it; the model does not",
                (false, true, false) => "the model agrees, but no rule",
                (false, true, true) => "although the model speaks for it; no rule does",
                (false, false, _) => "neither a rule nor a model speaks for it",
            };
            let sentence = found.sentence.replace("1 rule ", "1 rules ").replace("1 rule,", "1 rules,");
            assert!(sentence.contains(expected), "{} instead of {expected}", found.sentence);
            seen[usize::from(model.agrees)] += 1;
            let listed = engine.data().filter().contains(triple(engine.data(), [head, "nationality", tail]));
            assert_eq!(found.sentence.starts_with("Known (listed in "), listed, "{}", found.sentence);
            // A picture calls no known fact a chance.
            let caption = &Drawing::new(&found).lanes[0].caption;
            assert_eq!(caption.starts_with("known, "), listed, "{caption}");
            assert_eq!(caption.starts_with("truth "), !listed, "{caption}");
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn few_groundings_are_shown_and_all_are_counted() {
    let engine = world(TNorm::Product, 0.01);
    let found = explained(&engine, ["Frida", "nationality", "Mexico"], 1);
    assert_eq!(found.groundings.len(), 2, "one of each rule shown");
    assert_eq!(found.grounding_count(), 5);
    let drawing = Drawing::new(&found);
    assert!(drawing.legend.iter().any(|line| line == "and 1 more grounding"), "{:?}", drawing.legend);
}

#[test]
fn an_observed_triple_is_not_its_own_reason() {
    let engine = world(TNorm::Product, 0.01);
    let found = explained(&engine, ["Diego", "nationality", "Mexico"], 3);
    assert_eq!(found.known.as_deref(), Some("train"));
    assert_eq!(found.fired(), 2);
    assert!(!found.soft_label.expect("rules fire").in_training, "an observed triple is labelled 1");
}

#[test]
fn where_no_rule_speaks_it_is_said() {
    let engine = world(TNorm::Product, 0.01);
    let found = explained(&engine, ["Leon", "nationality", "Mexico"], 3);
    assert!(found.rules.is_empty() && found.groundings.is_empty() && found.soft_label.is_none());
    assert!(found.sentence.contains(" No rule concludes it: the premises of the 3 rules"), "{}", found.sentence);
    assert_eq!(found.similar.len(), 2, "one nationality is listed in train, and one is held out");
    let diego = found.similar.iter().find(|similar| similar.fact.head == "Diego").expect("a listed fact");
    assert_eq!(diego.tail_similarity, 1.0);
    let found = explained(&engine, ["Leon", "born_in", "Mexico"], 3);
    assert!(found.sentence.contains("none of the 5 rules concludes born_in"), "{}", found.sentence);
    let likeness: Vec<f64> = found.similar.iter().map(|fact| fact.similarity).collect();
    assert!(likeness.len() == 4 && likeness.is_sorted_by(|a, b| a >= b), "{likeness:?}");
    // Rules may come from elsewhere, and then no label was made of them.
    let bare = Explainer::with_rules(&engine, engine.rules()[..1].to_vec());
    let found = bare
        .explain(triple(engine.data(), ["Frida", "nationality", "Mexico"]), &ExplainOptions::default())
        .expect("an explanation");
    assert!(found.fired() == 1 && found.soft_label.is_none());
    let none = Explainer::with_rules(&engine, Vec::new());
    let found = none
        .explain(triple(engine.data(), ["Frida", "nationality", "Mexico"]), &ExplainOptions::default())
        .expect("an explanation");
    assert!(found.sentence.contains("the model has no rules"), "{}", found.sentence);
}

#[test]
fn an_explanation_survives_json() {
    let engine = world(TNorm::Product, 0.01);
    for names in [["Frida", "nationality", "Mexico"], ["Leon", "nationality", "Mexico"]] {
        let found = explained(&engine, names, 3);
        let value = serde_json::to_value(&found).expect("JSON");
        assert_eq!(value["head"], names[0]);
        let again: Explanation = serde_json::from_value(value).expect("an explanation");
        assert_eq!(again, found);
    }
}

/// Names that would break markup, and that are far too long.
fn nasty(explanation: &mut Explanation) {
    let long = "/film/film/release_date_s./film/film_regional_release_date/film_release_region";
    explanation.fact.head = "<script>alert(\"x\")</script> & sons".into();
    explanation.fact.tail = format!("{long} 東京都千代田区 {long}");
    explanation.fact.relation = long.into();
    for grounding in &mut explanation.groundings {
        for premise in &mut grounding.premises {
            premise.fact.relation = format!("{long}\"\\");
            if premise.fact.head == "Frida" {
                premise.fact.head = explanation.fact.head.clone();
            }
            if premise.fact.tail == "Mexico" {
                premise.fact.tail = explanation.fact.tail.clone();
            }
        }
    }
}

#[test]
fn pictures_hold_any_name_within_their_frame() {
    let engine = world(TNorm::Product, 0.01);
    let mut spoken = explained(&engine, ["Frida", "nationality", "Mexico"], 3);
    let silent = explained(&engine, ["Leon", "nationality", "Mexico"], 3);
    let drawing = Drawing::new(&spoken);
    let stops: Vec<usize> = drawing.lanes.iter().map(|lane| lane.stops.len()).collect();
    assert_eq!(stops, [2, 3, 3, 3], "the triple, and a path through each place");
    assert!(drawing.lanes.iter().all(|lane| lane.from_head && lane.to_tail));
    assert!(drawing.dot().contains("\"Frida\" -> \"Coyoacan\" [label=\"born_in\", style=solid];"), "{}", drawing.dot());
    assert!(drawing.dot().contains("\"Frida\" -> \"Mexico\" [label=\"nationality\\n"), "{}", drawing.dot());
    check_svg(&drawing.svg());
    check_svg(&Drawing::new(&silent).svg());
    nasty(&mut spoken);
    let svg = Drawing::new(&spoken).svg();
    assert!(!svg.contains("<script"), "markup in a name must stay text");
    check_svg(&svg);
}

/// Tags are balanced, and no text reaches beyond the frame: characters of the fixed-width face are 0.6 of its size wide.
fn check_svg(svg: &str) {
    let frame = svg.split("viewBox=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a frame");
    let frame: Vec<f64> = frame.split(' ').map(|number| number.parse().expect("a number")).collect();
    let mut open: Vec<&str> = Vec::new();
    let mut texts = 0;
    for piece in svg.split('<').skip(1) {
        let (tag, rest) = piece.split_once('>').expect("a whole tag");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        if name == "text" && !tag.starts_with('/') {
            let number = |key: &str| -> f64 {
                let value = tag.split(&format!(" {key}=\"")).nth(1).and_then(|rest| rest.split('"').next());
                value.expect("an attribute").parse().expect("a number")
            };
            let size = if tag.contains("small") || tag.contains("muted") { 6.6 } else { 7.8 };
            let shown = rest
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#39;", "'")
                .replace("&amp;", "&");
            let wide = |c: char| if ('\u{2e80}'..'\u{ffff}').contains(&c) { 2.0 } else { 1.0 };
            let width: f64 = size * shown.chars().map(wide).sum::<f64>();
            let from = number("x") - if tag.contains("middle") { width / 2.0 } else { 0.0 };
            assert!(from >= 0.0 && from + width <= frame[2], "{shown:?} from {from:.0}, {width:.0} wide, in {frame:?}");
            assert!((0.0..frame[3]).contains(&number("y")), "{shown:?}");
            texts += 1;
        }
    }
    assert!(open.is_empty() && texts >= 4, "{open:?}, {texts} texts");
}
