//! Rules in addition to a model: held to definitions that score every candidate, and not used where they say nothing.

use std::sync::{Arc, Mutex};

use ruge::model_file::{Contents, ModelFile};
use ruge::spec::{MinePreset, RulesSpec};
use ruge::{Engine, ModelName, Spec, assemble};
use ruge_embed::Metrics;
use ruge_kg::random::{self, Stream};
use ruge_kg::rank::{place, select};
use ruge_kg::{
    Cancel, Control, Dataset, EntityId, RankError, RankQuery, Ranker, ReadOptions, Side, Ties, TopOptions, Work,
};
use ruge_rules::rank::only::{Aggregation, RulesOnly};
use ruge_rules::rank::{
    Combined, Form, Heard, Prepared, Ranking, RuleScores, SMOOTHING, Setting, Weighing, fit, ranking_confidence,
};
use ruge_rules::{Confidence, RuleRecord, SoftRule};

fn demo() -> Dataset {
    Dataset::load(std::path::Path::new("demo"), &ReadOptions::default()).expect("it is embedded").0
}

fn rules(data: &Dataset) -> Vec<RuleRecord> {
    let wanted = RulesSpec { mine: MinePreset::Ranking, ..RulesSpec::default() };
    assemble::rules_of(&wanted, data, &Control::default()).expect("rules")
}

fn prepare(rules: &[RuleRecord], data: &Dataset) -> Prepared {
    Prepared::new(rules.to_vec(), data, Weighing::of(false), &Control::default()).expect("rules")
}

#[test]
fn weighing_rules_is_followed_and_stopped() {
    let data = demo();
    let (cancel, seen) = (Cancel::new(), Mutex::new(Vec::new()));
    let follow = |work: &Work| {
        seen.lock().expect("seen").push((work.done, work.total));
        cancel.cancel();
    };
    let control = Control::new(&cancel).with_listener(&follow);
    // First while weights are learned, then before it begins.
    for _ in 0..2 {
        let prepared = Prepared::new(rules(&data), &data, Weighing::of(false), &control);
        assert!(matches!(prepared, Err(RankError::Cancelled(_))));
    }
    let seen = seen.lock().expect("seen");
    assert!(!seen.is_empty() && seen.iter().all(|&(done, total)| done < total), "{seen:?}");
}

fn untrained(data: &Dataset) -> Arc<dyn Ranker> {
    let mut spec = Spec::paper(ModelName::ComplEx, "none").expect("a spec");
    spec.model.dimension = 4;
    let model: Box<dyn Ranker> = assemble::model(&spec, data).expect("a model");
    model.into()
}

fn mrr(model: &dyn Ranker, data: &Dataset, queries: &[RankQuery]) -> f64 {
    let ranks = model.rank(queries, Some(data.filter()), &Control::default()).expect("ranks");
    Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &[10]).mrr
}

#[test]
fn all_ways_to_ask_agree() {
    let data = demo();
    let rules = rules(&data);
    let model = untrained(&data);
    let setting = Setting { discount: 0.5, constants: true, learned: false, form: Form::Probability, weight: 3.0 };
    let scores = RuleScores::new(data.shared_graph(), &rules, SMOOTHING, true);
    let combined = Combined::new(Some(untrained(&data)), Arc::new(scores.clone()), &Ranking::of(setting));
    let queries: Vec<RankQuery> = RankQuery::both_sides(data.test()).into_iter().take(300).collect();
    let entities = data.entity_count();
    let mut heard = Heard::new(&[setting.sum()]);
    let ranks = combined.rank(&queries, Some(data.filter()), &Control::default()).expect("ranks");
    let best = combined.top(&queries, &TopOptions::new(5), &Control::default()).expect("answers");
    let mut many = vec![0.0; queries.len() * entities];
    combined.score_many(&queries, &mut many).expect("scores");
    let mut said = 0;
    for (at, query) in queries.iter().enumerate() {
        // The definition: the model's score plus β times the probability.
        let mut expected = vec![0.0; entities];
        model.score_all(*query, &mut expected).expect("scores");
        scores.ask(query, &mut heard);
        for (place, entity) in heard.candidates.iter().enumerate() {
            let score = &mut expected[entity.index()];
            *score = (f64::from(*score) + 3.0 * (1.0 - (-heard.sum(place, 0)).exp())) as f32;
        }
        said += heard.candidates.len();
        let mut all = vec![0.0; entities];
        combined.score_all(*query, &mut all).expect("scores");
        assert!(all.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5));
        assert_eq!(all, many[at * entities..][..entities]);
        assert_eq!(ranks[at], place(query, Some(data.filter()), &all));
        assert_eq!(best[at], select(&all, query, &TopOptions::new(5)));
        if query.side == Side::Tail {
            let mut one = [0.0];
            combined.score(&[query.triple], &mut one).expect("a score");
            assert!((one[0] - all[query.triple.tail.index()]).abs() < 1e-4);
        }
    }
    assert!(said > 10 * queries.len(), "rules reach {said} candidates: the test looks at something");
}

#[test]
fn without_a_model_the_rules_rank_as_the_ranker_of_rules_does() {
    let data = demo();
    let records = rules(&data);
    let soft: Vec<SoftRule> = records
        .iter()
        .map(|record| SoftRule {
            rule: record.rule.clone(),
            confidence: Confidence::new(ranking_confidence(record, SMOOTHING)).expect("in range"),
        })
        .collect();
    let queries: Vec<RankQuery> = RankQuery::both_sides(data.test()).into_iter().take(300).collect();
    for discount in [0.0, 0.5] {
        let ranking = Ranking::of(Setting { discount, ..Setting::ALONE });
        let model =
            Combined::new(None, Arc::new(RuleScores::new(data.shared_graph(), &records, SMOOTHING, false)), &ranking);
        let alone = RulesOnly::new(data.graph(), &soft);
        let ranks = alone.rank(&queries, Some(data.filter()), Aggregation::Discounted(discount), &Control::default());
        let ranks = ranks.expect("nobody cancels");
        let found = mrr(&model, &data, &queries);
        let expected = Metrics::of(ranks.iter().map(|rank| rank.filtered), Ties::Mean, &[10]).mrr;
        // Sums are rounded to what scores hold.
        assert!((found - expected).abs() < 2e-3, "{found} and {expected}");
        assert_eq!(model.name(), "rules");
    }
}

#[test]
fn fitting_helps_where_rules_speak() {
    let data = demo();
    let rules = rules(&data);
    let model = untrained(&data);
    let prepared = prepare(&rules, &data);
    let ranking = fit(Some(&model), &prepared, &data, &Control::default()).expect("a fit");
    let scores = prepared.scores();
    assert!(ranking.uses_rules() && ranking.fitted > 1, "{ranking:?}");
    assert_eq!(ranking.tried.iter().filter(|tried| tried.taken).count(), 1);
    let test = RankQuery::both_sides(data.test());
    let before = mrr(&*model, &data, &test);
    let after = mrr(&Combined::new(Some(model), scores, &ranking), &data, &test);
    assert!(after > before + 0.1, "{before} before, {after} after");
    // A fit is a plain value: written and read it is the same, and on one thread it is the same.
    let text = serde_json::to_string(&ranking).expect("JSON");
    assert_eq!(serde_json::from_str::<Ranking>(&text).expect("a ranking"), ranking);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
    let model = untrained(&data);
    let again = pool.install(|| {
        let prepared = prepare(&rules, &data);
        fit(Some(&model), &prepared, &data, &Control::default()).expect("a fit")
    });
    assert_eq!(again, ranking);
}

#[test]
fn learned_weights_are_kept_with_the_model() {
    let data = demo();
    let rules = rules(&data);
    let prepared = prepare(&rules, &data);
    let (rules, scores) = (&prepared.rules, prepared.scores());
    let ranking = fit(None, &prepared, &data, &Control::default()).expect("a fit");
    assert!(ranking.uses_weights() && ranking.injective, "{:?}", ranking.tried);
    let weights = scores.weights(rules.len());
    let counted = RuleScores::new(data.shared_graph(), rules, ranking.smoothing, true);
    assert!(weights != counted.weights(rules.len()) && weights.iter().flatten().all(|&weight| weight >= 0.0));
    let model = Combined::new(None, scores, &ranking);
    let test = RankQuery::both_sides(data.test());
    let ranks = |model: &dyn Ranker| model.rank(&test, Some(data.filter()), &Control::default()).expect("ranks");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.safetensors");
    let spec = Spec::paper(ModelName::Rules, "none").expect("a spec");
    let mut contents = Contents {
        spec: &spec,
        embeddings: None,
        data: &data,
        rules,
        notes: &Default::default(),
        calibration: None,
        truth: None,
        ranking: Some(&ranking),
        weights: Some(&weights),
    };
    ModelFile::write(&path, &contents).expect("written");
    let read = Engine::open(&path).expect("a model");
    assert_eq!(ranks(read.ranker()), ranks(&model));
    // What was learned helps here; without it the ranks are others.
    contents.weights = None;
    ModelFile::write(&path, &contents).expect("written");
    let without = Engine::open(&path).expect("a model");
    assert!(mrr(read.ranker(), &data, &test) > mrr(without.ranker(), &data, &test));
    contents.weights = Some(&weights[1..]);
    ModelFile::write(&path, &contents).expect("written");
    let error = ModelFile::read(&path).expect_err("one weight is missing").to_string();
    assert!(error.contains("does not fit its"), "{error}");
}

#[test]
fn rules_that_say_nothing_are_not_used() {
    let data = demo();
    // The same rules with their conclusions dealt out at random: they fire as often and mean nothing.
    let mut rules = rules(&data);
    let heads: Vec<_> = rules.iter().map(|record| record.rule.conclusion.relation).collect();
    for (at, record) in rules.iter_mut().enumerate() {
        let other = random::below(random::draw(1, Stream(0x7e57), 0, at as u64), heads.len() as u64);
        record.rule.conclusion.relation = heads[other as usize];
        record.counts = None;
    }
    rules.retain(|record| !record.rule.has_constants());
    // A model that knows every answer leaves rules nothing to add.
    let known: Arc<dyn Ranker> = Arc::new(Knowing(untrained(&data), demo()));
    let ranking = fit(Some(&known), &prepare(&rules, &data), &data, &Control::default()).expect("a fit");
    assert!(!ranking.uses_rules(), "{:?}", ranking.tried);
    assert!(ranking.tried[0].taken && ranking.settings.is_empty() && ranking.fitted == 4);
    assert!(ranking.evidence.is_none() && !ranking.counts(), "{:?}", ranking.evidence_tried);
    // Neither do rules where there is nothing to fit on.
    let bare = Dataset::new(data.names().clone(), data.train().to_vec(), vec![], vec![]);
    let prepared = prepare(&rules, &bare);
    let ranking = fit(Some(&untrained(&data)), &prepared, &bare, &Control::default()).expect("a fit");
    assert!(!ranking.uses_rules() && ranking.fitted == 0);
    assert!(
        fit(None, &prepared, &bare, &Control::default()).expect("a fit").uses_rules(),
        "alone they are all there is"
    );
}

/// Scores facts of train and validation 1 and everything else as an untrained model does, far below.
struct Knowing(Arc<dyn Ranker>, Dataset);

impl Ranker for Knowing {
    fn name(&self) -> &'static str {
        "knowing"
    }
    fn entity_count(&self) -> usize {
        self.1.entity_count()
    }
    fn score(&self, triples: &[ruge_kg::Triple], scores: &mut [f32]) -> Result<(), RankError> {
        self.0.score(triples, scores)
    }
    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<(), RankError> {
        self.0.score_all(query, scores)?;
        scores.iter_mut().for_each(|score| *score = 0.1 * score.tanh());
        for &entity in query.known(self.1.choosing_filter()) {
            scores[EntityId::index(entity)] = 1.0;
        }
        Ok(())
    }
}
