//! Rules first, embedding for the rest: held to a ranking that scores every candidate.

use ruge::{ModelName, Spec, assemble};
use ruge_kg::{Control, Dataset, EntityId, Place, Rank, RankQuery, ReadOptions, Side};
use ruge_rules::apply::{Application, Walker};
use ruge_rules::rank::only::RulesOnly;
use ruge_rules::{RuleRecord, SoftRule};

#[test]
fn ranks_are_those_of_the_sorted_pairs() {
    let (data, _) = Dataset::load(std::path::Path::new("demo"), &ReadOptions::default()).unwrap();
    let mut spec = Spec::paper(ModelName::ComplEx, "ruge").unwrap();
    spec.model.dimension = 4;
    let model = assemble::model(&spec, &data).unwrap();
    let rules: Vec<SoftRule> =
        assemble::rules(&spec, &data, &Control::default()).unwrap().iter().map(RuleRecord::soft).collect();
    let queries: Vec<RankQuery> = RankQuery::both_sides(data.test()).into_iter().take(200).collect();
    let entities: Vec<EntityId> = (0..data.entity_count() as u32).map(EntityId).collect();
    let (mut alone, mut expected, mut hit) = (Vec::new(), Vec::new(), 0);
    for query in &queries {
        let mut confidence = vec![0.0f64; entities.len()];
        for SoftRule { rule, confidence: own } in rules.iter().filter(|soft| soft.rule.head() == query.triple.relation)
        {
            let Ok(application) = Application::new(data.graph(), rule) else { continue };
            let mut visit = |entity: EntityId| confidence[entity.index()] = confidence[entity.index()].max(own.get());
            let mut walker = Walker::default();
            match query.side {
                Side::Tail => application.objects(data.graph(), query.triple.head, &mut walker, &mut visit),
                Side::Head => application.subjects(data.graph(), query.triple.tail, &mut walker, &mut visit),
            }
        }
        let triples: Vec<_> = entities.iter().map(|&entity| query.answered(entity)).collect();
        let mut scores = vec![0.0; triples.len()];
        model.score(&triples, &mut scores).unwrap();
        let known = query.known(data.filter());
        let place = |key: &dyn Fn(usize) -> (f64, f32)| {
            let own = key(query.answer().index());
            let mut place = Place::default();
            for entity in entities.iter().filter(|e| **e != query.answer() && known.binary_search(e).is_err()) {
                let theirs = key(entity.index());
                place.better += u32::from(theirs > own);
                place.equal += u32::from(theirs == own);
                place.others += 1;
            }
            place
        };
        let plain = place(&|at| (0.0, scores[at]));
        alone.push(Rank { filtered: plain, raw: plain });
        expected.push(place(&|at| (confidence[at], scores[at])));
        hit += usize::from(confidence[query.answer().index()] > 0.0);
    }
    assert!(hit > 20 && hit < 180, "{hit} of 200 answers are reached by a rule: both cases are met");
    let ranks = RulesOnly::new(data.graph(), &rules)
        .rank_first(&queries, Some(data.filter()), &*model, &alone, &Control::default())
        .unwrap();
    for ((query, found), expected) in queries.iter().zip(&ranks).zip(&expected) {
        assert_eq!(found.filtered, *expected, "{query:?}");
    }
}
