//! PTransE against a plain twin: paths by brute force over all sequences, losses and ranks in `f64`, all by definition.

use std::collections::{BTreeMap, BTreeSet};

use ruge_embed::cpu::Isa;
use ruge_embed::{EmbedError, Embeddings, Rank, RankQuery, Side, Table, Ties};
use ruge_kg::random::{self, Stream};
use ruge_kg::{EntityId, Filter, Graph, Label, RelationId, Triple};

use super::train::{Corruption, PTransE, PTransEState};
use super::*;

const DRAWS: Stream = Stream(0x7e58);
const ENTITIES: usize = 11;
const RELATIONS: usize = 3;

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

fn config(max_path: usize) -> PTransEConfig {
    PTransEConfig { dimension: 5, batches: 2, max_path, drop: 0.03, rerank: 4, ..PTransEConfig::default() }
}

/// A table of multiples of 1/8: sums of them are exact in either precision, and ties are common.
fn coarse(rows: usize, width: usize, seed: u64) -> Table {
    let dense: Vec<f32> = (0..rows * width).map(|i| below(seed, 1000 + i as u64, 17) as f32 / 8.0 - 1.0).collect();
    Table::from_dense(rows, width, &dense)
}

/// A path by rows of the relation table.
type Path = Vec<usize>;

struct Twin {
    edges: BTreeSet<(usize, usize, usize)>,
    config: PTransEConfig,
    confidence: BTreeMap<(Path, usize), f64>,
    three: BTreeSet<Path>,
}

impl Twin {
    fn new(triples: &[Triple], config: PTransEConfig) -> Self {
        let edges = triples
            .iter()
            .flat_map(|x| {
                let (h, r, t) = (x.head.index(), x.relation.index(), x.tail.index());
                [(h, r, t), (t, r + RELATIONS, h)]
            })
            .collect();
        let mut twin = Self { edges, config, confidence: BTreeMap::new(), three: BTreeSet::new() };
        for path in Self::all_paths(config.max_path.min(2)) {
            twin.count(&path, 0.0);
        }
        if config.max_path == 3 {
            let cut_off = config.confidence_cut_off;
            let prefixes: BTreeSet<Path> = twin
                .confidence
                .iter()
                .filter(|&((path, _), &confidence)| path.len() == 2 && confidence > cut_off)
                .map(|((path, _), _)| path.clone())
                .collect();
            for prefix in prefixes {
                for last in 0..2 * RELATIONS {
                    let path = [&prefix[..], &[last]].concat();
                    if twin.count(&path, cut_off) {
                        twin.three.insert(path);
                    }
                }
            }
        }
        twin
    }

    fn all_paths(steps: usize) -> Vec<Path> {
        let mut all: Vec<Path> = (0..2 * RELATIONS).map(|row| vec![row]).collect();
        if steps == 2 {
            all.extend((0..2 * RELATIONS).flat_map(|a| (0..2 * RELATIONS).map(move |b| vec![a, b])));
        }
        all
    }

    /// The paths whose resources count.
    fn paths(&self) -> Vec<Path> {
        let mut all = Self::all_paths(self.config.max_path.min(2));
        all.extend(self.three.iter().cloned());
        all
    }

    fn successors(&self, from: usize, row: usize) -> Vec<usize> {
        (0..ENTITIES).filter(|&to| self.edges.contains(&(from, row, to))).collect()
    }

    /// Enters P(r|p) above the cut-off; says whether there is one.
    fn count(&mut self, path: &Path, cut_off: f64) -> bool {
        let (mut instances, mut linked) = (0u64, [0u64; RELATIONS]);
        for head in 0..ENTITIES {
            let mut ends = vec![head];
            for &row in path {
                ends = ends.into_iter().flat_map(|at| self.successors(at, row)).collect();
            }
            for end in ends {
                instances += 1;
                (0..RELATIONS).filter(|&r| self.edges.contains(&(head, r, end))).for_each(|r| linked[r] += 1);
            }
        }
        let mut found = false;
        for (relation, &count) in linked.iter().enumerate().filter(|x| *x.1 > 0) {
            let confidence = count as f64 / instances as f64;
            if confidence > cut_off {
                self.confidence.insert((path.clone(), relation), confidence);
                found = true;
            }
        }
        found
    }

    /// R(p|h,t), not normalised.
    fn resource(&self, path: &[usize], head: usize, tail: usize) -> f64 {
        let Some((&row, rest)) = path.split_first() else { return if head == tail { 1.0 } else { 0.0 } };
        let next = self.successors(head, row);
        next.iter().map(|&at| self.resource(rest, at, tail) / next.len() as f64).sum()
    }

    fn features(&self, head: usize, tail: usize) -> BTreeMap<Path, f64> {
        let all: Vec<(Path, f64)> = self
            .paths()
            .into_iter()
            .map(|path| (path.clone(), self.resource(&path, head, tail)))
            .filter(|x| x.1 > 0.0)
            .collect();
        let total: f64 = all.iter().map(|x| x.1).sum();
        all.into_iter().map(|(path, x)| (path, x / total)).filter(|x| x.1 > self.config.drop).collect()
    }
}

/// Rows in double precision.
#[derive(Clone)]
struct Rows {
    entities: Vec<Vec<f64>>,
    relations: Vec<Vec<f64>>,
}

impl Rows {
    fn of(embeddings: &Embeddings) -> Self {
        let rows =
            |table: &Table| (0..table.rows()).map(|i| table.row(i).iter().map(|&x| f64::from(x)).collect()).collect();
        Self { entities: rows(&embeddings.entities), relations: rows(&embeddings.relations) }
    }

    fn energy(&self, head: usize, row: usize, tail: usize) -> f64 {
        let (h, r, t) = (&self.entities[head], &self.relations[row], &self.entities[tail]);
        (0..h.len()).map(|k| (h[k] + r[k] - t[k]).abs()).sum()
    }

    fn path_energy(&self, path: &Path, row: usize) -> f64 {
        let r = &self.relations[row];
        (0..r.len()).map(|k| (r[k] - path.iter().map(|&step| self.relations[step][k]).sum::<f64>()).abs()).sum()
    }

    fn loss(&self, twin: &Twin, model: &PTransE<'_>, epoch: u64, first: usize, size: usize) -> f64 {
        let doubled = model.paths().doubled();
        let margin = f64::from(twin.config.margin);
        let mut loss = 0.0;
        for position in first..first + size {
            let sample = model.sample(epoch, position);
            let (head, label, tail) = model.paths().triple(sample.link);
            let (h, r, t) = (head.index(), doubled.row(label), tail.index());
            assert!(twin.edges.contains(&(h, r, t)));
            if let Some(corruption) = sample.corruption {
                let (ch, cr, ct) = match corruption {
                    Corruption::Head(other) => (other.index(), r, t),
                    Corruption::Tail(other) => (h, r, other.index()),
                    Corruption::Relation(other) => (h, doubled.row(other), t),
                };
                assert!(!twin.edges.contains(&(ch, cr, ct)));
                loss += (margin + self.energy(h, r, t) - self.energy(ch, cr, ct)).max(0.0);
            }
            if let Some(other) = sample.path_relation {
                let other = doubled.row(other);
                assert!(!twin.edges.contains(&(h, other, t)));
                for (path, share) in twin.features(h, t) {
                    let hinge = 2.0 * margin + self.path_energy(&path, r) - self.path_energy(&path, other);
                    let known = twin.confidence.get(&(path, r)).copied().unwrap_or(0.0);
                    loss += share * (0.99 * known + 0.01) * hinge.max(0.0);
                }
            }
        }
        loss
    }
}

fn path_of(model_paths: &Paths<'_>, number: u32) -> Path {
    let sequence = model_paths.confidences().sequences()[number as usize];
    sequence.labels().map(|label| model_paths.doubled().row(label)).collect()
}

#[test]
fn paths_and_confidences_are_those_of_the_definition() {
    for (seed, count, max_path) in [(1, 40, 1), (2, 40, 2), (3, 70, 2), (4, 25, 3), (5, 40, 3), (6, 60, 3)] {
        let triples = triples(seed, count);
        let graph = Graph::new(ENTITIES, RELATIONS, &triples);
        let config = PTransEConfig { confidence_cut_off: 0.3, ..config(max_path) };
        let twin = Twin::new(&triples, config);
        let paths = Paths::extract(&graph, &config).unwrap();
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
    for (seed, max_path) in [(1, 2), (2, 3)] {
        let triples = triples(seed, 40);
        let graph = Graph::new(ENTITIES, RELATIONS, &triples);
        let config = config(max_path);
        let twin = Twin::new(&triples, config);
        let mut model = PTransE::new(&graph, config, seed).unwrap();
        let dense = |rows: usize, from: u64| -> Table {
            let value = |i: u64| (random::unit(random::draw(seed, DRAWS, from, i)) - 0.5) as f32;
            Table::from_dense(rows, 5, &(0..rows as u64 * 5).map(value).collect::<Vec<_>>())
        };
        let embeddings = Embeddings { entities: dense(ENTITIES, 1), relations: dense(2 * RELATIONS, 2) };
        model.set_state(PTransEState { embeddings, epoch: 0 }).unwrap();
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

/// The bounds a rank must lie in: scores closer than rounding may stand either way.
fn twin_bounds(twin: &Twin, rows: &Rows, query: &RankQuery, filter: Option<&Filter>) -> (f64, f64) {
    let Triple { head, relation, tail } = query.triple;
    let r = relation.index();
    let pair = |entity: usize| match query.side {
        Side::Head => (entity, tail.index()),
        Side::Tail => (head.index(), entity),
    };
    let first: Vec<f64> = (0..ENTITIES)
        .map(|entity| {
            let (h, t) = pair(entity);
            -rows.energy(h, r, t) - rows.energy(t, r + RELATIONS, h)
        })
        .collect();
    let mut sorted = first.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let size = twin.config.rerank.min(ENTITIES);
    let in_block = |entity: usize| size > 0 && first[entity] >= sorted[size - 1];
    let score = |entity: usize| {
        if !in_block(entity) {
            return first[entity] - 1e6;
        }
        let (h, t) = pair(entity);
        let term = |(path, share): (Path, f64)| {
            let known = twin.confidence.get(&(path.clone(), r)).copied().unwrap_or(0.0);
            known * share * (10.0 - rows.path_energy(&path, r))
        };
        first[entity] + twin.features(h, t).into_iter().map(term).sum::<f64>()
    };
    let answer = query.answer();
    let own = score(answer.index());
    let (mut low, mut high) = (1.0, 1.0);
    for entity in (0..ENTITIES).filter(|&entity| entity != answer.index()) {
        let other = EntityId(entity as u32);
        let (h, t) = if query.side == Side::Head { (other, tail) } else { (head, other) };
        if filter.is_some_and(|filter| filter.contains(Triple { head: h, relation, tail: t })) {
            continue;
        }
        let difference = score(entity) - own;
        if difference > 1e-4 {
            low += 1.0;
        }
        if difference > -1e-4 {
            high += 1.0;
        }
    }
    (low, high)
}

#[test]
fn ranks_are_those_of_the_two_stage_rule() {
    let mut between = 0;
    for (seed, max_path, rerank) in [(1, 2, 4), (2, 2, 0), (3, 2, 100), (4, 3, 4), (5, 1, 3), (6, 3, 7)] {
        let all = triples(seed, 60);
        let (train, test) = all.split_at(40);
        let graph = Graph::new(ENTITIES, RELATIONS, train);
        let config = PTransEConfig { rerank, confidence_cut_off: 0.3, ..config(max_path) };
        let twin = Twin::new(train, config);
        let mut model = PTransE::new(&graph, config, seed).unwrap();
        let embeddings =
            Embeddings { entities: coarse(ENTITIES, 5, seed), relations: coarse(2 * RELATIONS, 5, seed + 100) };
        model.set_state(PTransEState { embeddings, epoch: 0 }).unwrap();
        let rows = Rows::of(model.embeddings());
        let filter = Filter::new(ENTITIES, RELATIONS, &[train, test]);
        let queries = RankQuery::both_sides(test);
        let ranks = model.rank(&queries, Some(&filter), &|_, all| assert_eq!(all, queries.len()));
        for (query, Rank { filtered, raw }) in queries.iter().zip(&ranks) {
            for (place, filter) in [(filtered, Some(&filter)), (raw, None)] {
                let (low, high) = twin_bounds(&twin, &rows, query, filter);
                let (best, worst) = (place.rank(Ties::Optimistic), place.rank(Ties::Pessimistic));
                assert!(low <= best && worst <= high, "{query:?}: {best}..{worst}, twin {low}..{high}");
                between += u32::from(low < high);
            }
            assert!(filtered.others <= raw.others && filtered.better <= raw.better);
        }
    }
    assert!(between > 20, "ties must occur: {between}");
}

#[test]
fn threads_and_instruction_sets_change_nothing() {
    let triples = triples(9, 45);
    let graph = Graph::new(ENTITIES, RELATIONS, &triples);
    let config = PTransEConfig { dimension: 37, rate: 0.01, max_path: 3, batches: 3, ..config(3) };
    let queries = RankQuery::both_sides(&triples);
    let run = |threads: usize, isa: Isa| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut model = PTransE::new(&graph, config, 5).unwrap();
            model.set_isa(isa);
            let losses: Vec<f64> = (1..=4).map(|epoch| model.epoch(epoch).unwrap()).collect();
            let ranks = model.rank(&queries, None, &|_, _| ());
            (losses, model.state(), ranks, model.paths().confidences().clone(), *model.paths().report())
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
    let graph = Graph::new(ENTITIES, RELATIONS, &triples);
    let mut whole = PTransE::new(&graph, config(2), 8).unwrap();
    (1..=2).for_each(|epoch| assert!(whole.epoch(epoch).unwrap() > 0.0));
    let mut resumed = PTransE::new(&graph, config(2), 8).unwrap();
    resumed.set_state(whole.state()).unwrap();
    assert_eq!(resumed.epochs_done(), 2);
    assert_eq!(whole.epoch(3).unwrap(), resumed.epoch(3).unwrap());
    assert_eq!(whole.state(), resumed.state());
    let rows = 0..whole.embeddings().entities.rows();
    assert!(
        rows.map(|i| whole.embeddings().entities.row(i)).all(|row| row.iter().map(|x| x * x).sum::<f32>() <= 1.001)
    );

    let other = Graph::new(ENTITIES + 1, RELATIONS, &triples);
    let mut other = PTransE::new(&other, config(2), 8).unwrap();
    assert!(matches!(other.set_state(whole.state()), Err(PTransEError::Embed(EmbedError::Shape { .. }))));
}

#[test]
fn divergence_and_bad_settings_are_errors() {
    let triples = triples(4, 50);
    let graph = Graph::new(ENTITIES, RELATIONS, &triples);
    let mut model = PTransE::new(&graph, PTransEConfig { rate: f32::MAX, ..config(2) }, 8).unwrap();
    let error = (1..9).find_map(|epoch| model.epoch(epoch).err()).unwrap();
    assert!(matches!(error, PTransEError::Embed(EmbedError::Diverged { .. })), "{error}");
    for bad in [
        PTransEConfig { max_path: 4, ..config(2) },
        PTransEConfig { dimension: 0, ..config(2) },
        PTransEConfig { drop: 1.0, ..config(2) },
        PTransEConfig { rate: f32::NAN, ..config(2) },
    ] {
        assert!(matches!(PTransE::new(&graph, bad, 1), Err(PTransEError::Setting { .. })));
    }
    assert!(serde_json::from_str::<PTransEConfig>(r#"{"dimention": 3}"#).is_err());
    let config: PTransEConfig = serde_json::from_str(r#"{"max-path": 3}"#).unwrap();
    assert_eq!(config, PTransEConfig { max_path: 3, ..PTransEConfig::default() });
    let empty = Graph::new(3, 2, &[]);
    assert_eq!(PTransE::new(&empty, PTransEConfig::default(), 1).unwrap().epoch(1).unwrap(), 0.0);
}

/// People 0..6 are born in cities 6..9, which lie in countries 9..11; the nationality of 5 is asked for.
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
    let graph = Graph::new(ENTITIES, RELATIONS, &facts);
    let config = PTransEConfig { dimension: 20, ..PTransEConfig::default() };
    let model = PTransE::new(&graph, config, 1).unwrap();
    let path = Sequence::two(Label::forward(RelationId(born)), Label::forward(RelationId(lies)));
    let number = model.paths().confidences().number(path).unwrap();
    assert!((model.paths().confidences().get(RelationId(nation), number) - 5.0 / 6.0).abs() < 1e-6);
    let queries = [RankQuery { triple: Triple::new(5, nation, 9), side: Side::Tail }];
    assert_eq!(model.rank(&queries, None, &|_, _| ())[0].raw.better, 0);
    let mut without = PTransE::new(&graph, PTransEConfig { rerank: 0, ..config }, 1).unwrap();
    assert!(without.epoch(1).is_ok());
}
