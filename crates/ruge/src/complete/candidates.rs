//! Candidates for new facts: the best answers of the model, and the best conclusions of rules, to questions that the graph suggests.
//!
//! Who else is at the other end? This is asked for every (h, r) and (r, t) that is listed. It is also asked for entities that have no
//! value yet but are like those that have one: they have a label that most of these have. For each relation and end there are at most
//! as many of them as of the others.

use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, EntityId, Filter, Graph, Hide, Label, RankQuery, RelationId, Side, TopOptions, Triple, Work};
use ruge_rules::rank::{Heard, Sum};

use crate::error::Result;
use crate::truth::Witness;

/// Questions asked in one call: the model packs its entities once for each.
const BATCH: usize = 16_384;

/// Which questions are drawn, where not all are asked.
const DRAWN: Stream = Stream(0x701);

/// A sample has at least so many questions of every relation.
const LEAST_PER_RELATION: usize = 40;

/// The best rule decides which conclusions are candidates.
const BEST: Sum = Sum { discount: 0.0, constants: true, learned: false };

/// Triples that are not listed and may be facts.
pub struct Candidates {
    /// In order of relation, head and tail.
    pub triples: Vec<Triple>,
    /// How many questions were asked.
    pub questions: usize,
}

/// The questions that a graph suggests, for one relation.
pub(crate) fn questions(graph: &Graph, relation: RelationId) -> Vec<RankQuery> {
    let mut all = Vec::new();
    for (label, side) in [(Label::forward(relation), Side::Tail), (Label::inverse(relation), Side::Head)] {
        let members: Vec<EntityId> =
            graph.pairs(label).chunk_by(|a, b| a.key == b.key).map(|same| same[0].key).collect();
        let mut having = vec![0usize; 2 * graph.relation_count()];
        for &member in &members {
            graph.adjacency().labels(member).iter().for_each(|other| having[other.0 as usize] += 1);
        }
        having[label.0 as usize] = 0;
        let typical = |entity: EntityId| {
            let labels = graph.adjacency().labels(entity);
            labels.iter().map(|label| having[label.0 as usize]).max().unwrap_or(0)
        };
        let mut alike: Vec<(usize, EntityId)> = graph
            .entities()
            .filter(|entity| members.binary_search(entity).is_err())
            .map(|entity| (typical(entity), entity))
            .filter(|(most, _)| 2 * most > members.len())
            .collect();
        alike.sort_unstable_by_key(|&(most, entity)| (std::cmp::Reverse(most), entity));
        alike.truncate(members.len());
        let known = members.into_iter().chain(alike.into_iter().map(|(_, entity)| entity));
        all.extend(known.map(|entity| RankQuery { triple: Triple { head: entity, relation, tail: entity }, side }));
    }
    all
}

/// The questions of all relations, or about so many of them, drawn by the seed.
pub(crate) fn sample(graph: &Graph, most: usize, seed: u64) -> Vec<RankQuery> {
    let all: Vec<Vec<RankQuery>> = graph.relations().map(|relation| questions(graph, relation)).collect();
    let count: usize = all.iter().map(Vec::len).sum();
    let mut drawn = Vec::new();
    for (relation, questions) in all.into_iter().enumerate() {
        let share = (questions.len() as f64 * most as f64 / count.max(1) as f64).ceil() as usize;
        let mut places = random::permutation(questions.len(), seed, DRAWN, relation as u64);
        places.truncate(share.max(LEAST_PER_RELATION));
        places.sort_unstable();
        drawn.extend(places.into_iter().map(|at| questions[at as usize]));
    }
    drawn
}

/// Answers to questions, of the model and of the rules, `per_query` of each, without those that `listed` has.
pub(crate) fn gather(
    witness: &Witness<'_>,
    questions: &[RankQuery],
    per_query: usize,
    listed: &Filter,
    control: &Control<'_>,
) -> Result<Candidates> {
    use rayon::prelude::*;
    let graph = witness.graph;
    // Relations that some entity has with itself; of others nobody need be told that nobody does.
    let reflexive: Vec<bool> =
        graph.relations().map(|r| graph.facts(r).iter().any(|pair| pair.key == pair.other)).collect();
    let mut triples: Vec<Triple> = Vec::new();
    for (batch, some) in questions.chunks(BATCH).enumerate() {
        let done = batch * BATCH;
        let heard = |work: &Work| control.progress(done + work.done as usize, questions.len());
        let options = TopOptions { hide: Hide::Known(listed), ..TopOptions::new(per_query) };
        let lists = witness.ranker.top(some, &options, &control.heard_by(&heard))?;
        let concluded: Result<Vec<Vec<EntityId>>> = some
            .par_iter()
            .with_min_len(16)
            .map_init(
                || Heard::new(&[BEST]),
                |heard, query| {
                    control.check()?;
                    witness.rules.ask(query, heard);
                    let known = query.known(listed);
                    let mut best: Vec<(f64, EntityId)> = (heard.candidates.iter().enumerate())
                        .filter(|(_, entity)| known.binary_search(entity).is_err())
                        .map(|(place, &entity)| (heard.sum(place, 0), entity))
                        .collect();
                    best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                    best.truncate(per_query);
                    Ok(best.into_iter().map(|(_, entity)| entity).collect())
                },
            )
            .collect();
        for ((query, list), concluded) in some.iter().zip(&lists).zip(concluded?) {
            let found = list.iter().map(|found| found.entity).chain(concluded).map(|entity| query.answered(entity));
            triples.extend(found.filter(|x| x.head != x.tail || reflexive[x.relation.index()]));
        }
        // Both ends of a fact lead to it, and so do model and rules.
        triples.par_sort_unstable_by_key(|x| (x.relation, x.head, x.tail));
        triples.dedup();
    }
    Ok(Candidates { triples, questions: questions.len() })
}
