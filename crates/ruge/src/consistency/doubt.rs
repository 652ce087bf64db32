//! Training triples that neither the rules nor the model believe: a list to clean up from.
//!
//! A model has learnt its training triples, mistakes included, so what it says of them means little. It is asked as if the
//! triple were left out: which entities have the ten most similar heads of the relation, itself not among them, and how
//! similar are these to the triple's tail? That *likeness* does not rest on the triple's own score. (Planted mistakes in the embedded
//! graph: in a list ordered by likeness the mean precision is six times that of one ordered by truth.)
//!
//! The rules doubt a triple where none of them concludes it from other facts, and some conclude another tail for its head.
//! That means more, the more the relation has one tail for each head, its functionality: distinct heads over
//! facts. So the doubt is functionality · (1 − likeness). Relations that are more functional the other way are asked the other
//! way: heads of the ten most similar tails.

use rayon::prelude::*;
use ruge_embed::Embeddings;
use ruge_kg::{Control, EntityId, Graph, Pair, RankQuery, RelationId, Side, Ties, Triple};
use ruge_rules::apply::{Application, Walker};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::Result;
use crate::explain::{Explainer, Fact};

/// The criterion, for people.
pub const CRITERION: &str = "Training triples that no rule concludes from other facts although rules conclude another entity in \
                             their place, and that differ from those of the ten most similar entities. Doubt is \
                             functionality times (1 − likeness). Check before you delete: an exception is not a mistake.";

/// Similar ends asked.
const ASKED: usize = 10;
/// Least doubt for the list.
const LEAST: f64 = 0.5;
/// Entities named that rules would put in a doubted one's place.
const INSTEAD: usize = 3;
/// Groundings of a rule looked at: some of them may rest on the triple itself.
const LOOKED_AT: usize = 64;

/// A training triple that neither the model nor the rules believe.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Doubtful {
    /// The triple.
    #[serde(flatten)]
    pub fact: Fact,
    /// Functionality times (1 − likeness), from 0.5 to 1.
    pub doubt: f64,
    /// The end that is doubted.
    pub side: Side,
    /// Mean similarity of the doubted end to those of the ten most similar others.
    pub likeness: f64,
    /// How far the relation has one such end for each of the others.
    pub functionality: f64,
    /// What rules put in the doubted end's place, most confident first.
    pub instead: Vec<String>,
    /// The chance that it would have if it were not listed. The model has learnt the triple, so it is rather too high.
    #[serde(alias = "truth")]
    pub estimate: f64,
    /// Filtered rank of its tail.
    pub rank: f64,
    /// Filtered rank of its head.
    pub head_rank: f64,
}

struct Found {
    doubt: f64,
    likeness: f64,
    functionality: f64,
    side: Side,
    instead: Vec<EntityId>,
    triple: Triple,
}

/// The most doubtful training triples first; how many there are, and at most `most` of them.
pub fn doubtful(explainer: &Explainer, most: usize, control: &Control<'_>) -> Result<(usize, Vec<Doubtful>)> {
    let engine = explainer.engine();
    let data = engine.data();
    let rows = Rows::new(engine)?;
    let relations: Vec<RelationId> = data.graph().relations().collect();
    let ruled: Vec<RelationId> =
        relations.into_iter().filter(|&relation| !explainer.concluding(relation).is_empty()).collect();
    let found: Vec<Vec<Found>> =
        ruled.par_iter().map(|&relation| of_relation(data.graph(), explainer, &rows, relation, control)).collect();
    control.check()?;
    let mut found: Vec<Found> = found.into_iter().flatten().collect();
    found.sort_by(|a, b| b.doubt.total_cmp(&a.doubt).then(a.triple.cmp(&b.triple)));
    let count = found.len();
    found.truncate(most);
    let triples: Vec<Triple> = found.iter().map(|found| found.triple).collect();
    let queries = RankQuery::both_sides(&triples);
    let ranks = engine.ranker().rank(&queries, Some(data.filter()), control)?;
    let estimates = engine.estimates(&triples)?;
    let name = |entity: &EntityId| data.names().entities.name(*entity).to_string();
    let told = found.iter().zip(estimates).zip(ranks.chunks_exact(2)).map(|((found, estimate), ranks)| Doubtful {
        fact: Fact::new(data.names(), found.triple),
        doubt: found.doubt,
        side: found.side,
        likeness: found.likeness,
        functionality: found.functionality,
        instead: found.instead.iter().map(name).collect(),
        estimate,
        rank: ranks[1].filtered.rank(Ties::Mean),
        head_rank: ranks[0].filtered.rank(Ties::Mean),
    });
    Ok((count, told.collect()))
}

/// Those of one relation; too few of them once the control says stop.
fn of_relation(
    graph: &Graph,
    explainer: &Explainer,
    rows: &Rows,
    relation: RelationId,
    control: &Control<'_>,
) -> Vec<Found> {
    let facts = graph.facts(relation).len().max(1) as f64;
    let functionality = [graph.distinct_heads(relation) as f64 / facts, graph.distinct_tails(relation) as f64 / facts];
    // The doubted end, and the facts keyed by the other one.
    let (side, functionality, facts) = if functionality[0] >= functionality[1] {
        (Side::Tail, functionality[0], graph.facts(relation))
    } else {
        (Side::Head, functionality[1], graph.facts_by_tail(relation))
    };
    if functionality < LEAST {
        return Vec::new();
    }
    let mut rules: Vec<usize> = explainer.concluding(relation).to_vec();
    let confidence = |index: usize| explainer.rules()[index].confidence.get();
    rules.sort_by(|&a, &b| confidence(b).total_cmp(&confidence(a)));
    let rules: Vec<Application> =
        rules.into_iter().filter_map(|index| Application::new(graph, &explainer.rules()[index].rule).ok()).collect();
    let groups: Vec<&[Pair]> = facts.chunk_by(|a, b| a.key == b.key).collect();
    let doubts = |own: &&[Pair]| -> Vec<Found> {
        if control.is_cancelled() {
            return Vec::new();
        }
        let key = own[0].key;
        let mut walker = Walker::default();
        let mut concluded: Vec<EntityId> = Vec::new();
        for rule in &rules {
            let mut note = |entity| {
                if !concluded.contains(&entity) {
                    concluded.push(entity);
                }
            };
            match side {
                Side::Tail => rule.objects(graph, key, &mut walker, &mut note),
                Side::Head => rule.subjects(graph, key, &mut walker, &mut note),
            }
        }
        let mut near: Option<Vec<&[Pair]>> = None;
        let mut found = Vec::new();
        for pair in *own {
            let triple = match side {
                Side::Tail => Triple { head: key, relation, tail: pair.other },
                Side::Head => Triple { head: pair.other, relation, tail: key },
            };
            let instead: Vec<EntityId> =
                concluded.iter().copied().filter(|other| *other != pair.other).take(INSTEAD).collect();
            if instead.is_empty() || concluded.contains(&pair.other) && supported(explainer, triple) {
                continue;
            }
            let near = near.get_or_insert_with(|| rows.nearest(key, &groups));
            let best = |others: &&[Pair]| {
                others.iter().map(|other| rows.likeness(pair.other, other.other)).fold(-1.0, f64::max)
            };
            let likeness = near.iter().map(best).sum::<f64>() / near.len().max(1) as f64;
            let doubt = functionality * (1.0 - likeness.clamp(0.0, 1.0));
            if doubt >= LEAST {
                found.push(Found { doubt, likeness, functionality, side, instead, triple });
            }
        }
        found
    };
    groups.par_iter().flat_map_iter(doubts).collect()
}

/// Whether some rule concludes the triple from other facts.
fn supported(explainer: &Explainer, triple: Triple) -> bool {
    explainer.concluding(triple.relation).iter().any(|&index| {
        let rule = &explainer.rules()[index].rule;
        let groundings = explainer.groundings(index, triple, LOOKED_AT);
        groundings.iter().any(|triples| !triples[..rule.premise.len()].contains(&triple))
    })
}

/// Rows of all entities, each of length 1.
struct Rows {
    width: usize,
    rows: Vec<f32>,
}

impl Rows {
    fn new(engine: &Engine) -> Result<Self> {
        // Rules alone have no vectors: nobody is like anybody else.
        let Some(Embeddings { entities: table, .. }) = engine.embeddings()? else {
            return Ok(Self { width: 0, rows: Vec::new() });
        };
        let mut rows = Vec::with_capacity(table.rows() * table.width());
        for index in 0..table.rows() {
            let row = table.row(index);
            let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let scale = if length > 0.0 && length.is_finite() { 1.0 / length } else { 0.0 };
            rows.extend(row.iter().map(|&x| (f64::from(x) * scale) as f32));
        }
        Ok(Self { width: table.width(), rows })
    }

    fn likeness(&self, a: EntityId, b: EntityId) -> f64 {
        if a == b {
            return 1.0;
        }
        let row = |entity: EntityId| &self.rows[entity.index() * self.width..][..self.width];
        // Eight sums side by side, so that the sum is a short one and has a fixed order.
        let mut sums = [0.0f32; 8];
        for (a, b) in row(a).chunks(8).zip(row(b).chunks(8)) {
            for ((sum, x), y) in sums.iter_mut().zip(a).zip(b) {
                *sum += x * y;
            }
        }
        f64::from(sums.iter().sum::<f32>())
    }

    /// The facts of the ten entities most like `key`, of those that `groups` are keyed by.
    fn nearest<'g>(&self, key: EntityId, groups: &[&'g [Pair]]) -> Vec<&'g [Pair]> {
        let others = groups.iter().filter(|group| group[0].key != key);
        let mut like: Vec<(f64, &[Pair])> = others.map(|&group| (self.likeness(key, group[0].key), group)).collect();
        let order = |a: &(f64, &[Pair]), b: &(f64, &[Pair])| b.0.total_cmp(&a.0).then(a.1[0].key.cmp(&b.1[0].key));
        if like.len() > ASKED {
            like.select_nth_unstable_by(ASKED, order);
            like.truncate(ASKED);
        }
        like.sort_by(order);
        like.into_iter().map(|(_, group)| group).collect()
    }
}
