//! Entities similar to another one: near in the embedding, and which of them may be the same thing under two names.
//!
//! Nearness is the cosine of the parameter rows. Alone it says "plays a similar part", as two football players do; two names
//! of one thing also share their facts, and not only those that everyone shares. A fact weighs ln(n / m), with m of the n
//! entities having it; the *overlap* is the weight of the shared facts over the mean weight of all facts of either.
//! A *likely duplicate* is near (a cosine of at least [`NEAR`]), and shares [`SHARED`] facts and an overlap of [`OVERLAP`].

use ruge_embed::Embeddings;
use ruge_kg::{Edge, EntityId, Graph};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::{Result, RugeError};

/// The cosine at which two entities are very near.
pub const NEAR: f64 = 0.5;
/// Facts that duplicates share at least.
pub const SHARED: usize = 4;
/// Their overlap at least.
pub const OVERLAP: f64 = 0.6;

/// An entity near another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Near {
    /// Who, by name.
    pub entity: String,
    /// The same by number.
    #[serde(skip)]
    pub id: EntityId,
    /// Cosine of the two rows.
    pub cosine: f64,
    /// Facts of train in which one may stand for the other.
    #[serde(rename = "shared_facts")]
    pub shared: usize,
    /// Their weight over the mean weight of all facts of either.
    pub overlap: f64,
    /// Whether it may be the same thing.
    pub duplicate: bool,
}

/// The `k` entities nearest to `entity`, nearest first; equals by id.
pub fn similar(engine: &Engine, entity: EntityId, k: usize) -> Result<Vec<Near>> {
    let Some(Embeddings { entities: table, .. }) = engine.embeddings()? else {
        let message = "rules alone have no vectors, so nothing can be near; ask a trained model";
        return Err(RugeError::refused(message));
    };
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let own = table.row(entity.index());
    let norm = dot(own, own).sqrt();
    let mut near: Vec<(f64, EntityId)> = (0..table.rows())
        .filter(|&other| other != entity.index())
        .map(|other| {
            let row = table.row(other);
            let length = norm * dot(row, row).sqrt();
            let cosine = if length > 0.0 { dot(own, row) / length } else { 0.0 };
            (if cosine.is_nan() { -1.0 } else { cosine }, EntityId(other as u32))
        })
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    near.truncate(k);
    let (graph, names) = (engine.data().graph(), &engine.data().names().entities);
    let whole = |entity| graph.links(entity).iter().map(|edge| weight_of(graph, edge)).sum::<f64>();
    // Once: an entity may have a hundred thousand facts.
    let whole_of_it = whole(entity);
    Ok(near
        .into_iter()
        .map(|(cosine, other)| {
            let (shared, weight) = shared(graph, graph.links(entity), graph.links(other));
            let mean = 0.5 * (whole_of_it + whole(other));
            let overlap = if mean > 0.0 { weight / mean } else { 0.0 };
            let duplicate = cosine >= NEAR && shared >= SHARED && overlap >= OVERLAP;
            Near { entity: names.name(other).to_string(), id: other, cosine, shared, overlap, duplicate }
        })
        .collect())
}

/// What a fact tells: much if few have it.
fn weight_of(graph: &Graph, edge: &Edge) -> f64 {
    let having = graph.neighbours(edge.neighbour, edge.label.reversed()).len();
    (graph.entity_count() as f64 / having.max(1) as f64).ln()
}

/// How many edges two sorted lists have in common, and their weight. Those of the shorter list are looked up in the longer one.
fn shared(graph: &Graph, a: &[Edge], b: &[Edge]) -> (usize, f64) {
    let (short, mut long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let (mut count, mut weight) = (0, 0.0);
    for edge in short {
        long = &long[long.partition_point(|other| other < edge)..];
        if long.first() == Some(edge) {
            count += 1;
            weight += weight_of(graph, edge);
        }
    }
    (count, weight)
}
