//! Ranking in two stages: all entities by translation, the best of them again with their paths.
//!
//! S(h,r,t) = −‖h + r − t‖₁ − ‖t + r⁻¹ − h‖₁ + Σ_p P(r|p)·R(p|h,t)·(10 − E(p,r)). The first two terms rank every entity.
//! The *block* of a query is its best 500 by these terms, known facts among them, and all that tie with the last of
//! them, so that entity order does not matter. Within the block the path term is added and decides; whoever is outside
//! stands behind the whole block, in the order of the first stage. There is one such order per query: the raw rank
//! reads the answer's place from it, the filtered rank leaves other known facts out of it. Equal scores are counted
//! apart, as everywhere. NaN counts as −∞.
//!
//! *Paths.* They come from the training triples alone and are found for every candidate of the block alike: the query's
//! known entity is the start of one walk along the sequences that predict r. R(p|h,t) is normalised over all paths of
//! the pair, also those that predict something else, and dropped when small, just as in training; the normalisers of
//! one known entity serve all its queries. The same sum for (t, r⁻¹, h) vanishes: inverse relations have no confidence.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::prelude::*;
use ruge_embed::cpu::{Isa, Kernel};
use ruge_embed::{Embeddings, Place, Rank, RankQuery, Side, Table};
use ruge_kg::{EntityId, Filter, RelationId};

use super::PTransEConfig;
use super::doubled::{Doubled, Sequence};
use super::gradient::{add_rows, distance};
use super::paths::Paths;
use super::walk::{Start, Walker};

/// From what the energy of a path is taken away.
const PATH_BONUS: f64 = 10.0;

/// Ranks every query's answer. `embeddings` are rows of a model trained with `paths` and `config`; `progress` hears of
/// queries done and queries in all, from any thread. The ranks are the same on any number of threads.
pub fn rank(
    paths: &Paths<'_>,
    embeddings: &Embeddings,
    config: &PTransEConfig,
    queries: &[RankQuery],
    known: Option<&Filter>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Rank> {
    let predictors = Predictors::new(paths, embeddings, queries);
    let ranker = Ranker { paths, embeddings, config, known, predictors, isa: Isa::detect() };
    let mut order: Vec<usize> = (0..queries.len()).collect();
    let key = |&at: &usize| (queries[at].side, given(&queries[at]), queries[at].triple, at);
    order.sort_unstable_by_key(key);
    let groups: Vec<&[usize]> = order.chunk_by(|a, b| key(a).0 == key(b).0 && key(a).1 == key(b).1).collect();
    let done = AtomicUsize::new(0);
    let found: Vec<Vec<Rank>> = groups
        .par_iter()
        .with_max_len(1)
        .map_init(
            || Scratch::new(paths.doubled(), config.dimension),
            |scratch, group| {
                let first = &queries[group[0]];
                scratch.normalise(paths, start(first.side), given(first));
                let ranks = group.iter().map(|&at| ranker.rank(&queries[at], scratch)).collect();
                progress(done.fetch_add(group.len(), Relaxed) + group.len(), queries.len());
                ranks
            },
        )
        .collect();
    let mut ranks = vec![Rank::default(); queries.len()];
    for (&at, rank) in groups.iter().copied().flatten().zip(found.into_iter().flatten()) {
        ranks[at] = rank;
    }
    ranks
}

/// The entity a query gives.
fn given(query: &RankQuery) -> EntityId {
    match query.side {
        Side::Head => query.triple.tail,
        Side::Tail => query.triple.head,
    }
}

/// The end of paths that a query gives.
fn start(side: Side) -> Start {
    match side {
        Side::Head => Start::Tail,
        Side::Tail => Start::Head,
    }
}

/// Per relation asked for, the sequences that predict it as they are walked, and P(r|p)·(10 − E(p,r)) for each.
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
    fn new(paths: &Paths<'_>, embeddings: &Embeddings, queries: &[RankQuery]) -> Self {
        let relations = paths.doubled().graph().relation_count();
        let mut asked = vec![[false; 2]; relations];
        for query in queries {
            asked[query.triple.relation.index()][usize::from(query.side == Side::Tail)] = true;
        }
        let list = |start: Start| {
            let asked = |&relation: &usize| asked[relation][usize::from(start == Start::Head)];
            let predictor = |relation| match Some(relation).filter(asked) {
                Some(relation) => Predictor::new(paths, embeddings, RelationId(relation as u32), start),
                None => Predictor::default(),
            };
            (0..relations).into_par_iter().with_max_len(1).map(predictor).collect()
        };
        Self { from_head: list(Start::Head), from_tail: list(Start::Tail) }
    }

    fn of(&self, start: Start, relation: RelationId) -> &Predictor {
        match start {
            Start::Head => &self.from_head[relation.index()],
            Start::Tail => &self.from_tail[relation.index()],
        }
    }
}

impl Predictor {
    fn new(paths: &Paths<'_>, embeddings: &Embeddings, relation: RelationId, start: Start) -> Self {
        let (numbers, confidences) = paths.confidences().of(relation);
        let relations = &embeddings.relations;
        let mut sum = vec![0.0; relations.width()];
        let mut entries: Vec<(Sequence, f32)> = numbers
            .iter()
            .zip(confidences)
            .map(|(&number, &confidence)| {
                let sequence = paths.confidences().sequences()[number as usize];
                add_rows(&mut sum, relations, sequence.labels().map(|step| paths.doubled().row(step)));
                let energy = f64::from(distance(relations.row(relation.index()), &sum));
                let gain = f64::from(confidence) * (PATH_BONUS - energy);
                (if start == Start::Head { sequence } else { sequence.reversed() }, gain as f32)
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.0);
        let (sequences, gains) = entries.into_iter().unzip();
        Self { sequences, gains }
    }
}

/// What one thread works with.
struct Scratch {
    walker: Walker,
    /// Σ_p R(p|h,t) for the given entity and every other, or the other way round.
    normaliser: Vec<f64>,
    one_step: Vec<f64>,
    scores: Vec<f32>,
    sorted: Vec<f32>,
    /// The two points near which an answer should lie.
    points: [Vec<f32>; 2],
    /// Per entity, 1 + its place in the block; 0 outside.
    place_of: Vec<u32>,
    block: Vec<EntityId>,
    terms: Vec<f64>,
}

impl Scratch {
    fn new(doubled: &Doubled<'_>, dimension: usize) -> Self {
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

    /// Adds up the resources of all paths between the given entity and each other.
    fn normalise(&mut self, paths: &Paths<'_>, start: Start, given: EntityId) {
        let Self { walker, normaliser, one_step, .. } = self;
        let doubled = paths.doubled();
        one_step.fill(0.0);
        pass(doubled, start, given, 1.0, one_step);
        normaliser.copy_from_slice(one_step);
        if paths.max_path() >= 2 {
            // All paths of two steps together: each middle passes on what reached it over all relations.
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
fn pass(doubled: &Doubled<'_>, start: Start, from: EntityId, resource: f64, to: &mut [f64]) {
    let adjacency = doubled.graph().adjacency();
    for run in adjacency.runs_of(from) {
        let members = adjacency.run_members(run);
        match start {
            Start::Head => {
                let share = resource / members.len() as f64;
                members.iter().for_each(|entity| to[entity.index()] += share);
            }
            Start::Tail => {
                for (entity, &size) in members.iter().zip(doubled.run_back(run)) {
                    to[entity.index()] += resource / f64::from(size);
                }
            }
        }
    }
}

struct Ranker<'a, 'g> {
    paths: &'a Paths<'g>,
    embeddings: &'a Embeddings,
    config: &'a PTransEConfig,
    known: Option<&'a Filter>,
    predictors: Predictors,
    isa: Isa,
}

impl Ranker<'_, '_> {
    /// Where the answer stands; the scratch holds the normalisers of the query's given entity.
    fn rank(&self, query: &RankQuery, scratch: &mut Scratch) -> Rank {
        self.score(query, scratch);
        scratch.choose_block(self.config.rerank);
        self.add_paths(query, scratch);
        let rank = self.place(query, scratch);
        for entity in scratch.block.drain(..) {
            scratch.place_of[entity.index()] = 0;
        }
        rank
    }

    /// The first stage: every entity's distance to two points.
    fn score(&self, query: &RankQuery, scratch: &mut Scratch) {
        let Embeddings { entities, relations } = self.embeddings;
        let relation = query.triple.relation.index();
        let inverse = relations.row(relation + self.paths.doubled().graph().relation_count());
        let rows = entities.row(given(query).index()).iter().zip(relations.row(relation)).zip(inverse);
        let [there, back] = &mut scratch.points;
        // ‖h + r − t‖ and ‖t + r⁻¹ − h‖, solved for the entity asked for.
        for (((&e, &r), &r_inverse), (there, back)) in rows.zip(there.iter_mut().zip(back.iter_mut())) {
            (*there, *back) = match query.side {
                Side::Tail => (e + r, e - r_inverse),
                Side::Head => (e - r, e + r_inverse),
            };
        }
        self.isa.run(Score { entities, there, back, scores: &mut scratch.scores });
    }

    /// The second stage: adds Σ_p P(r|p)·R(p|h,t)·(10 − E(p,r)) for the block.
    fn add_paths(&self, query: &RankQuery, scratch: &mut Scratch) {
        let Scratch { walker, normaliser, place_of, terms, block, .. } = scratch;
        terms.clear();
        terms.resize(block.len(), 0.0);
        let start = start(query.side);
        let predictor = self.predictors.of(start, query.triple.relation);
        walker.walk(self.paths.doubled(), start, given(query), &predictor.sequences, &mut |at, end, resource| {
            let place = place_of[end.index()];
            if place > 0 {
                let share = resource / normaliser[end.index()];
                if share > self.config.drop {
                    terms[place as usize - 1] += f64::from(predictor.gains[at]) * share;
                }
            }
        });
    }

    fn place(&self, query: &RankQuery, scratch: &Scratch) -> Rank {
        let answer = query.answer();
        let standing = |entity: EntityId| scratch.standing(entity, answer);
        let mut raw = Place { others: scratch.scores.len() as u32 - 1, ..Place::default() };
        for entity in (0..scratch.scores.len() as u32).map(EntityId).filter(|&entity| entity != answer) {
            match standing(entity) {
                Ordering::Greater => raw.better += 1,
                Ordering::Equal => raw.equal += 1,
                Ordering::Less => {}
            }
        }
        let mut filtered = raw;
        let known = self.known.map_or(&[][..], |filter| match query.side {
            Side::Head => filter.heads(query.triple.relation, query.triple.tail),
            Side::Tail => filter.tails(query.triple.head, query.triple.relation),
        });
        for &entity in known.iter().filter(|&&entity| entity != answer) {
            filtered.others -= 1;
            match standing(entity) {
                Ordering::Greater => filtered.better -= 1,
                Ordering::Equal => filtered.equal -= 1,
                Ordering::Less => {}
            }
        }
        Rank { filtered, raw }
    }
}

impl Scratch {
    /// Puts the best `size` entities and all that tie with the last of them into the block.
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

    /// How an entity compares with the answer: the block first, within it by all terms, outside by the first stage.
    fn standing(&self, entity: EntityId, answer: EntityId) -> Ordering {
        let score = |entity: EntityId| f64::from(self.scores[entity.index()]);
        let whole = |entity: EntityId, place: u32| {
            let sum = score(entity) + self.terms[place as usize - 1];
            if sum.is_nan() { f64::NEG_INFINITY } else { sum }
        };
        match (self.place_of[entity.index()], self.place_of[answer.index()]) {
            (0, 0) => score(entity).total_cmp(&score(answer)),
            (0, _) => Ordering::Less,
            (_, 0) => Ordering::Greater,
            (a, b) => whole(entity, a).total_cmp(&whole(answer, b)),
        }
    }
}

/// −‖there − e‖₁ − ‖back − e‖₁ for every entity; −∞ for NaN, and −0 is not told from 0.
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
