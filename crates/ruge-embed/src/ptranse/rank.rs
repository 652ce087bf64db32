//! Ranking in two stages: all entities by translation, then the best of them with their paths.
//!
//! S(h,r,t) = −‖h + r − t‖₁ − ‖t + r⁻¹ − h‖₁ + Σ_p P(r|p)·R(p|h,t)·(10 − E(p,r)). The first two terms rank every
//! entity. The *block* of a query is its best 500 by these terms, known facts included, plus all ties with the last, so
//! that entity order does not matter. Within the block the path term is added; all other entities follow the block in
//! the order of the first stage. There is one such order per query: the raw rank is the answer's position in it, the
//! filtered rank skips other known facts. Ties are counted separately, as everywhere. NaN counts as −∞.
//!
//! *Paths.* They come from the training triples alone and are found for every candidate of the block, by one walk from
//! the query's known entity along the sequences that predict r. R(p|h,t) is normalised over all paths of the pair,
//! including those that predict something else, and dropped if small, as in training. The normalisers of a known entity
//! serve all its queries. The same sum for (t, r⁻¹, h) vanishes: inverse relations have no confidence.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::prelude::*;
use ruge_kg::control::{Cancelled, Control};
use ruge_kg::rank::place;
use ruge_kg::{EntityId, Filter, Rank, RankQuery, RelationId, Side, Triple};

use super::PTransEConfig;
use super::doubled::{Doubled, Sequence};
use super::gradient::{add_rows, distance};
use super::paths::Paths;
use super::walk::{WalkFrom, Walker};
use crate::cpu::{Isa, Kernel};
use crate::{Embeddings, Table};

/// The energy of a path is subtracted from this.
const PATH_BONUS: f64 = 10.0;

/// Ranks every query's answer. `embeddings` are rows of a model trained with `paths` and `config`. Ranks do not depend
/// on the number of threads.
pub fn rank(
    paths: &Paths,
    embeddings: &Embeddings,
    config: &PTransEConfig,
    queries: &[RankQuery],
    known: Option<&Filter>,
    isa: Isa,
    control: &Control<'_>,
) -> Result<Vec<Rank>, Cancelled> {
    let predictors = Predictors::new(paths, embeddings, queries);
    let ranker = Scoring { paths, embeddings, config, predictors, isa };
    let mut order: Vec<usize> = (0..queries.len()).collect();
    let key = |&at: &usize| (queries[at].side, queries[at].given(), queries[at].triple, at);
    order.sort_unstable_by_key(key);
    let groups: Vec<&[usize]> = order.chunk_by(|a, b| key(a).0 == key(b).0 && key(a).1 == key(b).1).collect();
    let done = AtomicUsize::new(0);
    let found: Result<Vec<Vec<Rank>>, Cancelled> = groups
        .par_iter()
        .with_max_len(1)
        .map_init(
            || PerThread::new(paths.doubled(), config.dimension),
            |scratch, group| {
                control.check()?;
                let first = &queries[group[0]];
                scratch.normalise(paths, start(first.side), first.given());
                let ranks = group.iter().map(|&at| ranker.rank(&queries[at], known, scratch)).collect();
                control.progress(done.fetch_add(group.len(), Relaxed) + group.len(), queries.len());
                Ok(ranks)
            },
        )
        .collect();
    let mut ranks = vec![Rank::default(); queries.len()];
    for (&at, rank) in groups.iter().copied().flatten().zip(found?.into_iter().flatten()) {
        ranks[at] = rank;
    }
    Ok(ranks)
}

/// Scores every entity in the hidden position of queries, as [`rank`] does.
pub(super) struct Scorer<'a> {
    ranker: Scoring<'a>,
    idle: Mutex<Vec<PerThread>>,
}

impl<'a> Scorer<'a> {
    /// A scorer for any of `queries`.
    pub(super) fn new(
        paths: &'a Paths,
        embeddings: &'a Embeddings,
        config: &'a PTransEConfig,
        queries: &[RankQuery],
        isa: Isa,
    ) -> Self {
        let predictors = Predictors::new(paths, embeddings, queries);
        Self { ranker: Scoring { paths, embeddings, config, predictors, isa }, idle: Mutex::default() }
    }

    pub(super) fn score_all(&self, query: RankQuery, scores: &mut [f32]) {
        let Scoring { paths, config, .. } = self.ranker;
        let idle = || self.idle.lock().expect("nobody panics with it in hand");
        let mut scratch = idle().pop().unwrap_or_else(|| PerThread::new(paths.doubled(), config.dimension));
        scratch.normalise(paths, start(query.side), query.given());
        self.ranker.score_all(&query, &mut scratch);
        scores.copy_from_slice(&scratch.scores);
        idle().push(scratch);
    }
}

/// S of each triple, with path terms for all of them.
pub(super) fn score(paths: &Paths, embeddings: &Embeddings, triples: &[Triple], scores: &mut [f32]) {
    let doubled = paths.doubled();
    let relations = &embeddings.relations;
    triples.par_chunks(64).zip(scores.par_chunks_mut(64)).for_each_init(
        || (Walker::new(doubled), Vec::new(), vec![0.0; relations.width()]),
        |(walker, shares, sum), (triples, scores)| {
            let mut pair = None;
            for (&triple, score) in triples.iter().zip(scores) {
                if pair.replace((triple.head, triple.tail)) != Some((triple.head, triple.tail)) {
                    paths.between(triple.head, triple.tail, walker, shares);
                }
                let mut term = 0.0;
                for &(sequence, share) in shares.iter() {
                    let confidence =
                        paths.confidences().number(sequence).map(|n| paths.confidences().get(triple.relation, n));
                    if let Some(confidence) = confidence.filter(|&x| x > 0.0) {
                        term += share * f64::from(gain(paths, relations, triple.relation, sequence, confidence, sum));
                    }
                }
                let there = translation(embeddings, triple, doubled.graph().relation_count());
                *score = (f64::from(there) + term) as f32;
            }
        },
    );
}

/// −‖h + r − t‖₁ − ‖t + r⁻¹ − h‖₁.
fn translation(embeddings: &Embeddings, triple: Triple, relation_count: usize) -> f32 {
    let Embeddings { entities, relations } = embeddings;
    let (head, tail) = (entities.row(triple.head.index()), entities.row(triple.tail.index()));
    let relation = triple.relation.index();
    let (there, back) = (relations.row(relation), relations.row(relation + relation_count));
    let point = |signed: f32, row: &[f32]| head.iter().zip(row).map(|(h, r)| h + signed * r).collect::<Vec<f32>>();
    0.0 - (distance(&point(1.0, there), tail) + distance(&point(-1.0, back), tail))
}

/// P(r|p)·(10 − E(p,r)).
fn gain(
    paths: &Paths,
    relations: &Table,
    relation: RelationId,
    sequence: Sequence,
    confidence: f32,
    sum: &mut [f32],
) -> f32 {
    add_rows(sum, relations, sequence.labels().map(|step| paths.doubled().row(step)));
    let energy = f64::from(distance(relations.row(relation.index()), sum));
    (f64::from(confidence) * (PATH_BONUS - energy)) as f32
}

/// The end of paths that a query knows.
fn start(side: Side) -> WalkFrom {
    match side {
        Side::Head => WalkFrom::Tail,
        Side::Tail => WalkFrom::Head,
    }
}

/// Per requested relation, the sequences that predict it, as walked, and P(r|p)·(10 − E(p,r)) for each.
struct Predictors {
    from_head: Vec<Predictor>,
    from_tail: Vec<Predictor>,
}

#[derive(Default)]
struct Predictor {
    sequences: Vec<Sequence>,
    gains: Vec<f32>,
}

impl Predictors {
    fn new(paths: &Paths, embeddings: &Embeddings, queries: &[RankQuery]) -> Self {
        let relations = paths.doubled().graph().relation_count();
        let mut asked = vec![[false; 2]; relations];
        for query in queries {
            asked[query.triple.relation.index()][usize::from(query.side == Side::Tail)] = true;
        }
        let list = |start: WalkFrom| {
            let asked = |&relation: &usize| asked[relation][usize::from(start == WalkFrom::Head)];
            let predictor = |relation| match Some(relation).filter(asked) {
                Some(relation) => Predictor::new(paths, embeddings, RelationId(relation as u32), start),
                None => Predictor::default(),
            };
            (0..relations).into_par_iter().with_max_len(1).map(predictor).collect()
        };
        Self { from_head: list(WalkFrom::Head), from_tail: list(WalkFrom::Tail) }
    }

    fn of(&self, start: WalkFrom, relation: RelationId) -> &Predictor {
        match start {
            WalkFrom::Head => &self.from_head[relation.index()],
            WalkFrom::Tail => &self.from_tail[relation.index()],
        }
    }
}

impl Predictor {
    fn new(paths: &Paths, embeddings: &Embeddings, relation: RelationId, start: WalkFrom) -> Self {
        let (numbers, confidences) = paths.confidences().of(relation);
        let relations = &embeddings.relations;
        let mut sum = vec![0.0; relations.width()];
        let mut entries: Vec<(Sequence, f32)> = numbers
            .iter()
            .zip(confidences)
            .map(|(&number, &confidence)| {
                let sequence = paths.confidences().sequences()[number as usize];
                let gain = gain(paths, relations, relation, sequence, confidence, &mut sum);
                (if start == WalkFrom::Head { sequence } else { sequence.reversed() }, gain)
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.0);
        let (sequences, gains) = entries.into_iter().unzip();
        Self { sequences, gains }
    }
}

struct PerThread {
    walker: Walker,
    /// Σ_p R(p|h,t) between the known entity and every other.
    normaliser: Vec<f64>,
    one_step: Vec<f64>,
    scores: Vec<f32>,
    sorted: Vec<f32>,
    /// The two points near which an answer should be.
    points: [Vec<f32>; 2],
    /// Per entity, 1 + its index in the block; 0 outside.
    place_of: Vec<u32>,
    block: Vec<EntityId>,
    terms: Vec<f64>,
}

impl PerThread {
    fn new(doubled: &Doubled, dimension: usize) -> Self {
        let entities = doubled.graph().entity_count();
        Self {
            walker: Walker::new(doubled),
            normaliser: vec![0.0; entities],
            one_step: vec![0.0; entities],
            scores: vec![0.0; entities],
            sorted: Vec::with_capacity(entities),
            points: [vec![0.0; dimension], vec![0.0; dimension]],
            place_of: vec![0; entities],
            block: Vec::new(),
            terms: Vec::new(),
        }
    }

    /// Sums the resources of all paths between the known entity and each other.
    fn normalise(&mut self, paths: &Paths, start: WalkFrom, given: EntityId) {
        let Self { walker, normaliser, one_step, .. } = self;
        let doubled = paths.doubled();
        one_step.fill(0.0);
        pass(doubled, start, given, 1.0, one_step);
        normaliser.copy_from_slice(one_step);
        if paths.config().path_length >= 2 {
            // All paths of two steps together: each intermediate entity passes on its resource over all relations.
            for (middle, &resource) in one_step.iter().enumerate().filter(|x| *x.1 > 0.0) {
                pass(doubled, start, EntityId(middle as u32), resource, normaliser);
            }
        }
        let three = paths.three_steps(start);
        if !three.is_empty() {
            walker.walk(doubled, start, given, three, &mut |_, end, resource| normaliser[end.index()] += resource);
        }
    }
}

/// Passes a resource on over every edge of an entity.
fn pass(doubled: &Doubled, start: WalkFrom, from: EntityId, resource: f64, to: &mut [f64]) {
    let adjacency = doubled.graph().adjacency();
    for run in adjacency.runs_of(from) {
        let members = adjacency.run_members(run);
        match start {
            WalkFrom::Head => {
                let share = resource / members.len() as f64;
                members.iter().for_each(|entity| to[entity.index()] += share);
            }
            WalkFrom::Tail => {
                for (entity, &size) in members.iter().zip(doubled.run_back(run)) {
                    to[entity.index()] += resource / f64::from(size);
                }
            }
        }
    }
}

struct Scoring<'a> {
    paths: &'a Paths,
    embeddings: &'a Embeddings,
    config: &'a PTransEConfig,
    predictors: Predictors,
    isa: Isa,
}

impl Scoring<'_> {
    /// The answer's rank; the scratch holds the normalisers of the query's known entity.
    fn rank(&self, query: &RankQuery, known: Option<&Filter>, scratch: &mut PerThread) -> Rank {
        self.score_all(query, scratch);
        place(query, known, &scratch.scores)
    }

    /// Both stages: a score for every entity, in the order of the query.
    fn score_all(&self, query: &RankQuery, scratch: &mut PerThread) {
        self.score(query, scratch);
        scratch.choose_block(self.config.rerank);
        self.add_paths(query, scratch);
        scratch.settle();
    }

    /// The first stage: every entity's distance to two points.
    fn score(&self, query: &RankQuery, scratch: &mut PerThread) {
        let Embeddings { entities, relations } = self.embeddings;
        let relation = query.triple.relation.index();
        let inverse = relations.row(relation + self.paths.doubled().graph().relation_count());
        let rows = entities.row(query.given().index()).iter().zip(relations.row(relation)).zip(inverse);
        let [there, back] = &mut scratch.points;
        // ‖h + r − t‖ and ‖t + r⁻¹ − h‖, solved for the hidden entity.
        for (((&e, &r), &r_inverse), (there, back)) in rows.zip(there.iter_mut().zip(back.iter_mut())) {
            (*there, *back) = match query.side {
                Side::Tail => (e + r, e - r_inverse),
                Side::Head => (e - r, e + r_inverse),
            };
        }
        self.isa.run(Score { entities, there, back, scores: &mut scratch.scores });
    }

    /// The second stage: adds Σ_p P(r|p)·R(p|h,t)·(10 − E(p,r)) for the block.
    fn add_paths(&self, query: &RankQuery, scratch: &mut PerThread) {
        let PerThread { walker, normaliser, place_of, terms, block, .. } = scratch;
        terms.clear();
        terms.resize(block.len(), 0.0);
        let start = start(query.side);
        let predictor = self.predictors.of(start, query.triple.relation);
        walker.walk(self.paths.doubled(), start, query.given(), &predictor.sequences, &mut |at, end, resource| {
            let place = place_of[end.index()];
            if place > 0 {
                let share = resource / normaliser[end.index()];
                if share > self.config.drop {
                    terms[place as usize - 1] += f64::from(predictor.gains[at]) * share;
                }
            }
        });
    }
}

impl PerThread {
    /// Selects the best `size` entities and all ties with the last into the block.
    fn choose_block(&mut self, size: usize) {
        let Self { scores, sorted, place_of, block, .. } = self;
        block.clear();
        if size == 0 || scores.is_empty() {
            return;
        }
        sorted.clear();
        sorted.extend_from_slice(scores);
        let last = size.min(sorted.len()) - 1;
        let least = *sorted.select_nth_unstable_by(last, |a, b| b.total_cmp(a)).1;
        for (index, _) in scores.iter().enumerate().filter(|x| *x.1 >= least) {
            block.push(EntityId(index as u32));
            place_of[index] = block.len() as u32;
        }
    }

    /// Adds the path terms of the block to its scores and empties the block. If a term is so negative that a member
    /// would fall to the level of the others, all others are lowered by the same amount, to stay behind it.
    fn settle(&mut self) {
        let Self { scores, place_of, block, terms, .. } = self;
        let mut worst = f32::INFINITY;
        for (entity, term) in block.iter().zip(terms.iter()) {
            let score = &mut scores[entity.index()];
            let sum = (f64::from(*score) + term) as f32;
            // −0 equals 0.
            *score = if sum.is_nan() { f32::NEG_INFINITY } else { sum + 0.0 };
            worst = worst.min(*score);
        }
        let outside = |at: usize| place_of[at] == 0;
        let best = (0..scores.len()).filter(|&at| outside(at)).map(|at| scores[at]).fold(f32::NEG_INFINITY, f32::max);
        if best >= worst {
            let behind = worst.next_down();
            for at in (0..scores.len()).filter(|&at| outside(at)) {
                scores[at] = (scores[at] - (best - behind)).min(behind);
            }
        }
        for entity in block.drain(..) {
            place_of[entity.index()] = 0;
        }
    }
}

/// −‖there − e‖₁ − ‖back − e‖₁ for every entity; −∞ for NaN, and −0 equals 0.
struct Score<'a> {
    entities: &'a Table,
    there: &'a [f32],
    back: &'a [f32],
    scores: &'a mut [f32],
}

impl Kernel for Score<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (index, score) in self.scores.iter_mut().enumerate() {
            let row = self.entities.row(index);
            let sum = 0.0 - (distance(self.there, row) + distance(self.back, row));
            *score = if sum.is_nan() { f32::NEG_INFINITY } else { sum };
        }
    }
}
