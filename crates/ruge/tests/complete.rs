//! Proposals for the embedded graph, and how far model and rules agree on it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use ruge::complete::{CompleteOptions, Proposal, complete, measure};
use ruge::consistency::{consistency, doubtful};
use ruge::explain::{ExplainOptions, Explainer};
use ruge::{Engine, GuidanceSpec, ModelFile, ModelName, Spec, assemble};
use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Dataset, ReadOptions, Triple};
use ruge_rules::RuleRecord;
use rustc_hash::FxHashSet;

fn demo() -> Dataset {
    Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("the embedded graph").0
}

/// A quick model, guided by mined rules or not.
fn train(data: Dataset, guided: bool) -> Engine {
    let mut spec = Spec::paper(ModelName::ComplEx, if guided { "ruge" } else { "none" }).expect("a spec");
    spec.model.dimension = 24;
    let rules = assemble::rules(&spec, &data, &Control::default()).expect("rules");
    let (rules, groundings) = assemble::grounded(&spec, &data, rules, &Control::default()).expect("they fit");
    let evidence = assemble::evidence(&rules, &groundings);
    let mut model = assemble::model(&spec, &data).expect("a model");
    {
        let plan = assemble::plan(&spec, &data, &evidence, &[]).expect("a plan");
        for epoch in 1..=40 {
            model.epoch(&plan, epoch).expect("an epoch");
        }
    }
    let embeddings = Some(model.state().expect("parameters").embeddings.clone());
    let file = ModelFile {
        is_old: false,
        spec,
        embeddings,
        data,
        rules,
        notes: BTreeMap::new(),
        calibration: None,
        truth: None,
        ranking: None,
        weights: None,
    };
    Engine::new(file).expect("a model")
}

fn guided() -> &'static Engine {
    static MODEL: OnceLock<Engine> = OnceLock::new();
    MODEL.get_or_init(|| train(demo(), true))
}

fn all(engine: &Engine, options: &CompleteOptions) -> Vec<Proposal> {
    let explainer = Explainer::new(engine);
    let completion = complete(&explainer, options, &Control::default()).expect("candidates");
    completion.proposals(0..completion.len()).unwrap()
}

fn id(data: &Dataset, proposal: &Proposal) -> Triple {
    let names = data.names();
    Triple {
        head: names.entities.id(&proposal.fact.head).expect("an entity"),
        relation: names.relations.id(&proposal.fact.relation).expect("a relation"),
        tail: names.entities.id(&proposal.fact.tail).expect("an entity"),
    }
}

#[test]
fn proposals_are_new_ordered_and_have_their_rules() {
    let engine = guided();
    let options = CompleteOptions { top: Some(500), ..CompleteOptions::default() };
    let found = all(engine, &options);
    assert_eq!(found.len(), 500);
    assert!(found.is_sorted_by(|a, b| a.truth >= b.truth));
    let data = engine.data();
    let distinct: FxHashSet<Triple> = found.iter().map(|proposal| id(data, proposal)).collect();
    assert_eq!(distinct.len(), found.len());
    assert!(distinct.iter().all(|triple| !data.filter().contains(*triple)), "a known fact is proposed");
    let explainer = Explainer::new(engine);
    assert!(found.iter().any(|proposal| proposal.rule_count > 1) && found.iter().any(|p| p.rule_count == 0));
    for proposal in found.iter().step_by(25) {
        let explained = explainer.explain(id(data, proposal), &ExplainOptions::default()).expect("an explanation");
        assert_eq!(explained.fired(), proposal.rule_count, "{proposal:?}");
        assert!(proposal.rules.is_sorted_by(|a, b| a.confidence >= b.confidence));
        assert_eq!(explained.truth, proposal.truth, "one fact has one truth");
        assert_eq!(explained.against, proposal.against);
    }
}

#[test]
fn thresholds_and_relations_cut_the_same_list() {
    let engine = guided();
    let everything = all(engine, &CompleteOptions { top: None, ..CompleteOptions::default() });
    let least = everything[200].truth;
    let above = all(engine, &CompleteOptions { top: None, min_truth: least, ..CompleteOptions::default() });
    assert!(above.len() > 200 && above[..] == everything[..above.len()]);
    assert!(everything[above.len()].truth < least);
    let relation = engine.relation("borders").expect("a relation");
    let of_one = all(engine, &CompleteOptions { relation: Some(relation), top: None, ..CompleteOptions::default() });
    let set = |list: &[Proposal]| -> FxHashSet<Triple> { list.iter().map(|p| id(engine.data(), p)).collect() };
    let borders: Vec<Proposal> = everything.into_iter().filter(|p| p.fact.relation == "borders").collect();
    assert_eq!(set(&of_one), set(&borders), "one relation has the same candidates alone");
}

#[test]
fn threads_change_nothing() {
    let engine = guided();
    let options = CompleteOptions { top: Some(300), ..CompleteOptions::default() };
    let expected = all(engine, &options);
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        assert_eq!(pool.install(|| all(engine, &options)), expected, "{threads} threads");
    }
}

#[test]
fn truth_can_be_believed_on_test_and_never_looks_at_it() {
    let engine = guided();
    let explainer = Explainer::new(engine);
    let options = CompleteOptions { top: None, ..CompleteOptions::default() };
    let measured = measure(&explainer, &options, &Control::default()).expect("candidates");
    assert!(measured.all.ece <= 0.05, "{measured:?}");
    assert!(measured.from_a_tenth.ece <= 0.15, "{measured:?}");
    assert!(measured.found * 2 > measured.test, "{} of {}", measured.found, measured.test);

    // Other test triples, as many of them: the fit has the same bits.
    let data = engine.data();
    let other: Vec<Triple> = data.test().iter().map(|triple| triple.reversed()).collect();
    let other = Dataset::new(data.names().clone(), data.train().to_vec(), data.valid().to_vec(), other);
    let held_out = |data: &Dataset| data.test().iter().filter(|t| !data.graph().contains(**t)).count();
    let fit = |engine: &Engine| {
        let explainer = Explainer::new(engine);
        complete(&explainer, &options, &Control::default()).expect("candidates");
        engine.fitted_truth().expect("scores").expect("validation triples").clone()
    };
    let twin = ModelFile {
        is_old: false,
        spec: engine.spec().clone(),
        embeddings: engine.embeddings().expect("tables").cloned(),
        rules: engine.rules().to_vec(),
        notes: BTreeMap::new(),
        // The model's own calibration is another matter, and fitted elsewhere.
        calibration: Some(engine.calibration().clone()),
        truth: None,
        ranking: None,
        weights: None,
        data: other,
    };
    let twin = Engine::new(twin).expect("a model");
    let (one, two) = (fit(engine), fit(&twin));
    let [one, two] = [one, two].map(|truth| serde_json::to_value(truth).expect("plain data"));
    assert_eq!((&one["weights"], &one["knots"]), (&two["weights"], &two["knots"]));
    assert_ne!(held_out(data), 0);
}

#[test]
fn without_validation_truth_is_the_models() {
    let engine = guided();
    let data = engine.data();
    let bare = Dataset::new(data.names().clone(), data.train().to_vec(), vec![], vec![]);
    let file = ModelFile {
        is_old: false,
        spec: engine.spec().clone(),
        embeddings: engine.embeddings().expect("tables").cloned(),
        rules: engine.rules().to_vec(),
        notes: BTreeMap::new(),
        calibration: None,
        truth: None,
        ranking: None,
        weights: None,
        data: bare,
    };
    let bare = Engine::new(file).expect("a model");
    let explainer = Explainer::new(&bare);
    let completion = complete(&explainer, &CompleteOptions::default(), &Control::default()).expect("candidates");
    assert!(completion.completeness.is_none() && completion.len() == 100);
    for (triple, truth) in completion.triples() {
        assert_eq!(truth, bare.listed_share(triple.relation, bare.score(triple).expect("a score")));
    }
}

#[test]
fn guidance_brings_the_model_closer_to_its_rules() {
    let engine = guided();
    let plain = train(demo(), false);
    assert!(matches!(plain.spec().guidance(), GuidanceSpec::None));
    let explainer = Explainer::new(engine);
    let found = consistency(&explainer, Some(&plain), &Control::default()).expect("the same data");
    let unguided = found.unguided.expect("a twin");
    assert!(found.model.share > unguided.share + 0.1, "{:?} and {unguided:?}", found.model);
    assert!(found.model.mean_phi > unguided.mean_phi);
    assert_eq!(found.rules.iter().map(|rule| rule.groundings).sum::<usize>(), found.groundings);
    assert_eq!(found.rules.iter().map(|rule| rule.model.consistent).sum::<usize>(), found.model.consistent);

    // One rule of one premise, by the definition.
    let graph = engine.data().graph();
    let simple = |record: &&RuleRecord| record.rule.premise.len() == 1;
    let record = engine.rules().iter().find(simple).expect("such a rule");
    let told =
        found.rules.iter().find(|rule| rule.rule == ruge_rules::words::formula(&record.rule, engine.data().names()));
    let phi = |triple| f64::from(ruge_embed::objective::truth(engine.score(triple).expect("a score")));
    let (mut groundings, mut met) = (0, 0);
    for pair in graph.facts(record.rule.premise[0].relation) {
        let premise = Triple { head: pair.key, relation: record.rule.premise[0].relation, tail: pair.other };
        let turned = record.rule.premise[0].subject != record.rule.conclusion.subject;
        let conclusion = if turned { premise.reversed() } else { premise };
        let conclusion = Triple { relation: record.rule.head(), ..conclusion };
        if !graph.contains(conclusion) {
            groundings += 1;
            met += usize::from(phi(conclusion) >= record.confidence.get() * phi(premise) - 1e-6);
        }
    }
    let told = told.expect("the rule has groundings");
    assert_eq!((told.groundings, told.model.consistent), (groundings, met));

    let other = train_on_half();
    assert!(consistency(&explainer, Some(&other), &Control::default()).is_err(), "another graph is no twin");
}

fn train_on_half() -> Engine {
    let data = demo();
    let half = data.train()[..data.train().len() / 2].to_vec();
    let spec = Spec::default();
    let data = Dataset::new(data.names().clone(), half, vec![], vec![]);
    let model = assemble::model(&spec, &data).expect("a model");
    let embeddings = Some(model.state().expect("parameters").embeddings.clone());
    let file = ModelFile {
        is_old: false,
        spec,
        embeddings,
        data,
        rules: vec![],
        notes: BTreeMap::new(),
        calibration: None,
        truth: None,
        ranking: None,
        weights: None,
    };
    Engine::new(file).expect("a model")
}

#[test]
fn planted_mistakes_are_doubted() {
    const NOISE: Stream = Stream(0x9a11);
    let data = demo();
    let mut train_triples = data.train().to_vec();
    let mut planted: FxHashSet<Triple> = FxHashSet::default();
    for index in (0..train_triples.len()).step_by(50) {
        let other = random::below(random::draw(0, NOISE, 0, index as u64), train_triples.len() as u64) as usize;
        let wrong = Triple { tail: train_triples[other].tail, ..train_triples[index] };
        if !data.filter().contains(wrong) {
            planted.insert(wrong);
        }
    }
    train_triples.extend(planted.iter().copied().collect::<std::collections::BTreeSet<_>>());
    let spoilt = Dataset::new(data.names().clone(), train_triples, data.valid().to_vec(), data.test().to_vec());
    let share = planted.len() as f64 / spoilt.train().len() as f64;
    let engine = train(spoilt, true);
    let explainer = Explainer::new(&engine);
    let (count, list) = doubtful(&explainer, 30, &Control::default()).expect("scores");
    assert!(count >= list.len() && list.len() >= 10, "{count}");
    let wrong = |fact: &ruge::explain::Fact| {
        let names = engine.data().names();
        let triple = Triple {
            head: names.entities.id(&fact.head).expect("an entity"),
            relation: names.relations.id(&fact.relation).expect("a relation"),
            tail: names.entities.id(&fact.tail).expect("an entity"),
        };
        planted.contains(&triple)
    };
    let found = list.iter().filter(|doubt| wrong(&doubt.fact)).count() as f64 / list.len() as f64;
    assert!(found > 20.0 * share && found >= 0.4, "{found} of the list is planted, {share} of train");
    assert!(list.is_sorted_by(|a, b| a.doubt >= b.doubt));
}
