//! The score that `explain` takes apart is the one that ranks, whichever end is asked for and whatever ranks.

use std::collections::BTreeMap;

use ruge::explain::{ExplainOptions, Explainer};
use ruge::predict::{PredictOptions, Question, Who};
use ruge::spec::{MinePreset, RulesSpec};
use ruge::{Engine, ModelFile, ModelName, Spec, assemble};
use ruge_kg::{Control, Dataset, RankQuery, ReadOptions, Side, Triple};
use ruge_rules::rank::evidence::{Evidence, Feature};
use ruge_rules::rank::{Form, Ranking, Setting};

fn demo() -> Dataset {
    Dataset::load(std::path::Path::new("demo"), &ReadOptions::default()).expect("the embedded graph").0
}

/// A model as it starts, with scores that are far apart; `reciprocal` ones score heads by relations of their own.
fn engine(reciprocal: bool, model: bool, ranking: Option<Ranking>) -> Engine {
    let data = demo();
    let mut spec = Spec::paper(ModelName::ComplEx, "none").expect("a spec");
    let start = spec.init;
    if reciprocal {
        spec.set_softmax();
        spec.init = start;
    }
    spec.model.dimension = 8;
    assert_eq!(spec.model.reciprocal, reciprocal);
    let embeddings = match model {
        true => Some(assemble::model(&spec, &data).expect("a model").state().expect("parameters").embeddings.clone()),
        false => None,
    };
    if !model {
        spec = Spec::paper(ModelName::Rules, "none").expect("a spec");
    }
    let rules = match ranking {
        Some(_) => {
            let wanted = RulesSpec { mine: MinePreset::Ranking, ..RulesSpec::default() };
            assemble::rules_of(&wanted, &data, &Control::default()).expect("rules")
        }
        None => Vec::new(),
    };
    let file = ModelFile {
        is_old: false,
        spec,
        embeddings,
        data,
        rules,
        notes: BTreeMap::new(),
        calibration: None,
        truth: None,
        ranking,
        weights: None,
    };
    Engine::new(file).expect("a model")
}

/// Rules that count, evidence and nearness.
fn everything() -> Ranking {
    let setting = Setting { discount: 0.5, constants: true, learned: false, form: Form::Probability, weight: 3.0 };
    let shared = std::array::from_fn(|at| (at % 5) as f32 * 0.3 - 0.5);
    let evidence = Evidence { features: Feature::ALL.to_vec(), shared, groups: Vec::new() };
    Ranking { evidence: Some(evidence), near: true, ..Ranking::of(setting) }
}

/// Facts of train and of test, and triples that nobody lists.
fn asked(data: &Dataset) -> Vec<Triple> {
    let some = |list: &[Triple]| -> Vec<Triple> { list.iter().step_by(list.len() / 8).copied().collect() };
    let (train, test) = (some(data.train()), some(data.test()));
    let unlisted = test.iter().zip(&train).map(|(one, other)| Triple { tail: other.tail, ..*one });
    let unlisted: Vec<Triple> = unlisted.filter(|triple| !data.filter().contains(*triple)).collect();
    assert!(!unlisted.is_empty());
    [train, test, unlisted].concat()
}

/// How far scores of the two sides are apart at most.
fn check(engine: &Engine) -> f32 {
    let explainer = Explainer::new(engine);
    let mut apart = 0.0f32;
    for triple in asked(engine.data()) {
        // What is not listed is asked about on all that is.
        let known = engine.data().filter().contains(triple);
        let asking = if known { engine.clone() } else { engine.on_all_listed().expect("a graph") };
        let mut scores = Vec::new();
        for side in [Side::Tail, Side::Head] {
            let options = ExplainOptions { side, ..ExplainOptions::default() };
            let found = explainer.explain(triple, &options).expect("an explanation");
            let sum: f64 = found.parts.iter().map(|part| part.value).sum();
            assert!((sum - f64::from(found.score)).abs() < 1e-4, "{side:?}: {sum} of {found:?}");
            // As ranking scores all answers to the question.
            let query = RankQuery { triple, side };
            let mut all = vec![0.0; engine.data().entity_count()];
            asking.ranker().score_all(query, &mut all).expect("scores");
            let ranked = all[query.answer().index()];
            assert!((ranked - found.score).abs() < 1e-4, "{side:?}: {ranked} ranks {found:?}");
            // As the question is answered.
            let (question, who) = match side {
                Side::Tail => (Question::Tail { head: triple.head, relation: triple.relation }, triple.tail),
                Side::Head => (Question::Head { relation: triple.relation, tail: triple.tail }, triple.head),
            };
            let options = PredictOptions { top: all.len(), new: !known, ..PredictOptions::default() };
            let answers = engine.predict(&[question], &options, &Control::default()).expect("answers");
            // Nobody asks whether an entity has the relation with itself.
            if let Some(answer) = answers[0].iter().find(|answer| answer.who == Who::Entity(who)) {
                assert_eq!(answer.score, found.score, "{side:?} of {:?}", found.fact);
            } else {
                assert_eq!(triple.head, triple.tail);
            }
            assert!(answers[0].is_sorted_by(|a, b| a.score >= b.score));
            scores.push(found.score);
        }
        apart = apart.max((scores[0] - scores[1]).abs());
    }
    apart
}

#[test]
fn a_plain_model_has_one_score() {
    assert_eq!(check(&engine(false, true, None)), 0.0);
}

#[test]
fn a_reciprocal_model_has_a_score_for_each_end() {
    assert!(check(&engine(true, true, None)) > 0.01, "or the test sees nothing");
}

#[test]
fn rules_and_evidence_add_up_at_both_ends() {
    assert!(check(&engine(true, true, Some(everything()))) > 0.01);
    assert!(check(&engine(false, true, Some(everything()))) > 0.01);
}

#[test]
fn rules_alone_add_up_at_both_ends() {
    check(&engine(false, false, Some(Ranking::of(Setting::ALONE))));
    check(&engine(false, false, Some(everything())));
}
