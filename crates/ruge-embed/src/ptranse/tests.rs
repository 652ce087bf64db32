//! PTransE against its plain twin, and machine-independent properties.

use std::collections::BTreeMap;
use std::sync::Arc;

use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Filter, Graph, Label, Rank, RankQuery, Ranker, RelationId, Side, Ties, TopOptions, Triple};

use super::twin::{ENTITIES, Path, RELATIONS, Rows, Twin, twin_bounds};
use super::*;
use crate::cpu::Isa;
use crate::model::State;
use crate::{EmbedError, Embeddings, Model, Table};

const DRAWS: Stream = Stream(0x7e58);

fn below(seed: u64, place: u64, bound: usize) -> u32 {
    random::below(random::draw(seed, DRAWS, 0, place), bound as u64) as u32
}

fn triples(seed: u64, count: u64) -> Vec<Triple> {
    (0..count)
        .map(|i| {
            Triple::new(
                below(seed, 3 * i, ENTITIES),
                below(seed, 3 * i + 1, RELATIONS),
                below(seed, 3 * i + 2, ENTITIES),
            )
        })
        .collect()
}

fn world(entities: usize, relations: usize, triples: &[Triple]) -> Arc<Graph> {
    Arc::new(Graph::new(entities, relations, triples))
}

fn state(embeddings: Embeddings) -> State {
    State { embeddings, moments: Vec::new(), steps: 0 }
}

fn config(path_length: usize) -> PTransEConfig {
    PTransEConfig { dimension: 5, batches: 2, path_length, drop: 0.03, rerank: 4, ..PTransEConfig::default() }
}

/// A table of multiples of 1/8: sums of them are exact in either precision, and ties are common.
fn coarse(rows: usize, width: usize, seed: u64) -> Table {
    let dense: Vec<f32> = (0..rows * width).map(|i| below(seed, 1000 + i as u64, 17) as f32 / 8.0 - 1.0).collect();
    Table::from_dense(rows, width, &dense)
}

fn path_of(model_paths: &Paths, number: u32) -> Path {
    let sequence = model_paths.confidences().sequences()[number as usize];
    sequence.labels().map(|label| model_paths.doubled().row(label)).collect()
}

#[test]
fn paths_and_confidences_are_those_of_the_definition() {
    for (seed, count, path_length) in [(1, 40, 1), (2, 40, 2), (3, 70, 2), (4, 25, 3), (5, 40, 3), (6, 60, 3)] {
        let triples = triples(seed, count);
        let graph = world(ENTITIES, RELATIONS, &triples);
        let config = PTransEConfig { confidence_cut_off: 0.3, ..config(path_length) };
        let twin = Twin::new(&triples, config);
        let paths = Paths::extract(graph.clone(), &config, &Control::default()).unwrap();
        let found: BTreeMap<(Path, usize), f64> = graph
            .relations()
            .flat_map(|relation| {
                let (numbers, values) = paths.confidences().of(relation);
                let entry =
                    |(&number, &value): (&u32, &f32)| ((path_of(&paths, number), relation.index()), value.into());
                numbers.iter().zip(values).map(entry).collect::<Vec<_>>()
            })
            .collect();
        assert!(found.keys().eq(twin.confidence.keys()), "seed {seed}");
        assert!(found.values().zip(twin.confidence.values()).all(|(a, b)| (a - b).abs() < 1e-6));
        let report = paths.report();
        assert_eq!(report.confidences as usize, twin.confidence.len());
        assert_eq!(report.sequences[2] as usize, twin.three.len());
        if let Some(three) = report.three_steps {
            assert_eq!(three.sequences_kept as usize, twin.three.len());
            assert!(three.prefixes_dropped > 0 && three.instances_dropped > 0, "{three:?}");
        }
        assert_eq!(paths.doubled().link_count(), twin.edges.len());
        for link in 0..paths.doubled().link_count() {
            let (head, label, tail) = paths.triple(link);
            let features = paths.features(link);
            let expected = twin.features(head.index(), tail.index());
            let found: BTreeMap<Path, f64> = features
                .numbers
                .iter()
                .zip(features.resources)
                .map(|(&n, &x)| (path_of(&paths, n), x.into()))
                .collect();
            assert!(found.keys().eq(expected.keys()), "seed {seed}, {head:?} {tail:?}: {found:?} {expected:?}");
            assert!(found.values().zip(expected.values()).all(|(a, b)| (a - b).abs() < 1e-6));
            let known = paths.known(link);
            assert_eq!(known.len(), if label.is_inverse() { 0 } else { features.numbers.len() });
            for (&number, &known) in features.numbers.iter().zip(known) {
                assert_eq!(known, paths.confidences().get(label.relation(), number));
            }
        }
    }
}

#[test]
fn gradients_are_the_derivative_of_the_loss() {
    for (seed, path_length) in [(1, 2), (2, 3)] {
        let triples = triples(seed, 40);
        let graph = world(ENTITIES, RELATIONS, &triples);
        let config = config(path_length);
        let twin = Twin::new(&triples, config);
        let mut model = PTransE::new(graph.clone(), config, seed).unwrap();
        let dense = |rows: usize, from: u64| -> Table {
            let value = |i: u64| (random::unit(random::draw(seed, DRAWS, from, i)) - 0.5) as f32;
            Table::from_dense(rows, 5, &(0..rows as u64 * 5).map(value).collect::<Vec<_>>())
        };
        let embeddings = Embeddings { entities: dense(ENTITIES, 1), relations: dense(2 * RELATIONS, 2) };
        model.restore(state(embeddings)).unwrap();
        let size = model.batch_size();
        let (loss, entities, relations) = model.loss_and_gradient(3, size, size);
        let rows = Rows::of(model.embeddings());
        let at = |rows: &Rows| rows.loss(&twin, &model, 3, size, size);
        assert!((loss - at(&rows)).abs() < 1e-4 * loss, "{loss} {}", at(&rows));
        let (mut checked, mut kinks) = (0, 0);
        let step = 1e-5;
        for (is_entity, gradient) in [(true, &entities), (false, &relations)] {
            for index in 0..gradient.rows() {
                for k in 0..5 {
                    let moved = |by: f64| {
                        let mut rows = rows.clone();
                        if is_entity {
                            rows.entities[index][k] += by
                        } else {
                            rows.relations[index][k] += by
                        }
                        at(&rows)
                    };
                    let (up, down) = ((moved(step) - at(&rows)) / step, (at(&rows) - moved(-step)) / step);
                    if (up - down).abs() > 1e-4 {
                        kinks += 1;
                        continue;
                    }
                    let found = f64::from(gradient.row(index)[k]);
                    assert!((found - up).abs() < 1e-3, "row {index} column {k}: {found}, difference {up}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 10 * kinks, "{checked} derivatives, {kinks} kinks");
    }
}

#[test]
fn ranks_are_those_of_the_two_stage_rule() {
    let mut between = 0;
    for (seed, path_length, rerank) in [(1, 2, 4), (2, 2, 0), (3, 2, 100), (4, 3, 4), (5, 1, 3), (6, 3, 7), (7, 3, 100)]
    {
        let all = triples(seed, 60);
        let (train, test) = all.split_at(40);
        let graph = world(ENTITIES, RELATIONS, train);
        let config = PTransEConfig { rerank, confidence_cut_off: 0.3, ..config(path_length) };
        let twin = Twin::new(train, config);
        let mut model = PTransE::new(graph.clone(), config, seed).unwrap();
        let embeddings =
            Embeddings { entities: coarse(ENTITIES, 5, seed), relations: coarse(2 * RELATIONS, 5, seed + 100) };
        model.restore(state(embeddings)).unwrap();
        let rows = Rows::of(model.embeddings());
        let filter = Filter::new(ENTITIES, RELATIONS, &[train, test]);
        let queries = RankQuery::both_sides(test);
        let ranks = model.rank(&queries, Some(&filter), &Control::default()).unwrap();
        let best = model.top(&queries, &TopOptions::new(1), &Control::default()).unwrap();
        for ((query, Rank { filtered, raw }), best) in queries.iter().zip(&ranks).zip(&best) {
            for (place, filter) in [(filtered, Some(&filter)), (raw, None)] {
                let (low, high) = twin_bounds(&twin, &rows, query, filter);
                let (best, worst) = (place.rank(Ties::Optimistic), place.rank(Ties::Pessimistic));
                assert!(low <= best && worst <= high, "{query:?}: {best}..{worst}, twin {low}..{high}");
                between += u32::from(low < high);
            }
            assert!(filtered.others <= raw.others && filtered.better <= raw.better);
            // Scores are in the order of the ranks, and equal those of single triples if every entity is in the block.
            let mut scores = vec![0.0; ENTITIES];
            model.score_all(*query, &mut scores).unwrap();
            let answer = scores[query.answer().index()];
            assert_eq!(Some(best[0].score), scores.iter().copied().max_by(f32::total_cmp));
            assert_eq!(raw.better as usize, scores.iter().filter(|&&score| score > answer).count(), "{query:?}");
            if rerank >= ENTITIES {
                let mut alone = [0.0];
                model.score(&[query.triple], &mut alone).unwrap();
                assert!((alone[0] - answer).abs() < 1e-5, "{query:?}: {} alone, {answer} among all", alone[0]);
            }
        }
    }
    assert!(between > 20, "ties must occur: {between}");
}

#[test]
fn threads_and_instruction_sets_change_nothing() {
    let triples = triples(9, 45);
    let graph = world(ENTITIES, RELATIONS, &triples);
    let config = PTransEConfig { dimension: 37, rate: 0.01, path_length: 3, batches: 3, ..config(3) };
    let queries = RankQuery::both_sides(&triples);
    let run = |threads: usize, isa: Isa| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut model = PTransE::new(graph.clone(), config, 5).unwrap();
            model.set_isa(isa);
            let losses: Vec<f64> = (1..=4).map(|epoch| model.epoch(epoch, &Control::default()).unwrap()).collect();
            let ranks = model.rank(&queries, None, &Control::default()).unwrap();
            (
                losses,
                model.state().unwrap().clone(),
                ranks,
                model.paths().confidences().clone(),
                *model.paths().report(),
            )
        })
    };
    let one = run(1, Isa::detect());
    assert!(one.0[3] < one.0[0], "the loss falls: {:?}", one.0);
    assert_eq!(one, run(2, Isa::detect()));
    assert_eq!(one, run(3, Isa::detect()));
    Isa::available().for_each(|isa| assert_eq!(one, run(2, isa)));
}

#[test]
fn a_stored_state_goes_on_to_the_same_bits() {
    let triples = triples(4, 50);
    let graph = world(ENTITIES, RELATIONS, &triples);
    let mut whole = PTransE::new(graph.clone(), config(2), 8).unwrap();
    (1..=2).for_each(|epoch| assert!(whole.epoch(epoch, &Control::default()).unwrap() > 0.0));
    let mut resumed = PTransE::new(graph.clone(), config(2), 8).unwrap();
    resumed.restore(whole.state().unwrap().clone()).unwrap();
    assert_eq!(whole.epoch(3, &Control::default()).unwrap(), resumed.epoch(3, &Control::default()).unwrap());
    assert_eq!(whole.state().unwrap(), resumed.state().unwrap());
    let rows = 0..whole.embeddings().entities.rows();
    assert!(
        rows.map(|i| whole.embeddings().entities.row(i)).all(|row| row.iter().map(|x| x * x).sum::<f32>() <= 1.001)
    );

    let other = world(ENTITIES + 1, RELATIONS, &triples);
    let mut other = PTransE::new(other, config(2), 8).unwrap();
    assert!(matches!(other.restore(whole.state().unwrap().clone()), Err(EmbedError::Shape { .. })));
}

#[test]
fn divergence_and_bad_settings_are_errors() {
    let triples = triples(4, 50);
    let graph = world(ENTITIES, RELATIONS, &triples);
    let mut model = PTransE::new(graph.clone(), PTransEConfig { rate: f32::MAX, ..config(2) }, 8).unwrap();
    let error = (1..9).find_map(|epoch| model.epoch(epoch, &Control::default()).err()).unwrap();
    assert!(matches!(error, EmbedError::Diverged { .. }), "{error}");
    for bad in [
        PTransEConfig { path_length: 4, ..config(2) },
        PTransEConfig { dimension: 0, ..config(2) },
        PTransEConfig { drop: 1.0, ..config(2) },
        PTransEConfig { rate: f32::NAN, ..config(2) },
    ] {
        assert!(matches!(PTransE::new(graph.clone(), bad, 1), Err(EmbedError::Setting { .. })));
    }
    assert!(serde_json::from_str::<PTransEConfig>(r#"{"dimention": 3}"#).is_err());
    let config: PTransEConfig = serde_json::from_str(r#"{"path-length": 3}"#).unwrap();
    assert_eq!(config, PTransEConfig { path_length: 3, ..PTransEConfig::default() });
    let empty = world(3, 2, &[]);
    let mut nothing = PTransE::new(empty, PTransEConfig::default(), 1).unwrap();
    assert_eq!(nothing.epoch(1, &Control::default()).unwrap(), 0.0);
    let ranks = nothing.rank(&RankQuery::both_sides(&[Triple::new(0, 0, 1)]), None, &Control::default()).unwrap();
    assert!(ranks.iter().all(|rank| rank.raw.others == 2), "{ranks:?}");
}

/// People 0..6 are born in cities 6..9, which are in countries 9..11; the query is the nationality of 5.
#[test]
fn a_path_answers_what_translation_cannot() {
    let (born, lies, nation) = (0, 1, 2);
    let mut facts: Vec<Triple> = (6..9).map(|city| Triple::new(city, lies, 9 + city % 2)).collect();
    for person in 0..6 {
        let city = 6 + person % 3;
        facts.push(Triple::new(person, born, city));
        if person < 5 {
            facts.push(Triple::new(person, nation, 9 + city % 2));
        }
    }
    let graph = world(ENTITIES, RELATIONS, &facts);
    let config = PTransEConfig { dimension: 20, ..PTransEConfig::default() };
    let model = PTransE::new(graph.clone(), config, 1).unwrap();
    let path = Sequence::two(Label::forward(RelationId(born)), Label::forward(RelationId(lies)));
    let number = model.paths().confidences().number(path).unwrap();
    assert!((model.paths().confidences().get(RelationId(nation), number) - 5.0 / 6.0).abs() < 1e-6);
    let queries = [RankQuery { triple: Triple::new(5, nation, 9), side: Side::Tail }];
    assert_eq!(model.rank(&queries, None, &Control::default()).unwrap()[0].raw.better, 0);
    let without = PTransE::new(graph.clone(), PTransEConfig { rerank: 0, ..config }, 1).unwrap();
    assert!(
        without.rank(&queries, None, &Control::default()).unwrap()[0].raw.better > 0,
        "rows at their start know nothing"
    );
}
