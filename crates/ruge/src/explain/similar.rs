//! The most similar known facts: what stands in for evidence where no rule speaks.
//!
//! Two entities are as similar as their rows of parameters: their cosine. A training fact of the same relation is as similar
//! to a triple as its two ends are to the triple's, on average; an end in common counts 1.

use ruge_embed::Embeddings;
use ruge_kg::{EntityId, Triple};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::Fact;
use crate::engine::Engine;
use crate::error::Result;

/// A known fact of the same relation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SimilarFact {
    /// The training fact.
    #[serde(flatten)]
    pub fact: Fact,
    /// Mean of the two below.
    pub similarity: f64,
    /// Cosine of the two heads' rows; 1 for the same head.
    pub head_similarity: f64,
    /// Cosine of the two tails' rows; 1 for the same tail.
    pub tail_similarity: f64,
}

/// The `most` training facts of the triple's relation that are most like it, itself left out; equals in the order of ids.
pub fn facts(engine: &Engine, triple: Triple, most: usize) -> Result<Vec<SimilarFact>> {
    let data = engine.data();
    // Rules alone have no vectors, so nothing is like anything.
    let Some(Embeddings { entities: rows, .. }) = engine.embeddings()? else { return Ok(Vec::new()) };
    let mut known: [FxHashMap<EntityId, f64>; 2] = Default::default();
    let mut like = |side: usize, asked: EntityId, other: EntityId| {
        if asked == other {
            return 1.0;
        }
        *known[side].entry(other).or_insert_with(|| cosine(rows.row(asked.index()), rows.row(other.index())))
    };
    let mut found: Vec<(f64, f64, f64, Triple)> = Vec::new();
    for pair in data.graph().facts(triple.relation) {
        let fact = Triple { head: pair.key, relation: triple.relation, tail: pair.other };
        if fact != triple {
            let (head, tail) = (like(0, triple.head, fact.head), like(1, triple.tail, fact.tail));
            found.push(((head + tail) / 2.0, head, tail, fact));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.3.cmp(&b.3)));
    found.truncate(most);
    let show = |&(similarity, head_similarity, tail_similarity, fact): &(f64, f64, f64, Triple)| SimilarFact {
        fact: Fact::new(data.names(), fact),
        similarity,
        head_similarity,
        tail_similarity,
    };
    Ok(found.iter().map(show).collect())
}

/// The cosine of two rows; 0 where one of them has no length or is not finite.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let (mut product, mut first, mut second) = (0.0f64, 0.0f64, 0.0f64);
    for (&x, &y) in a.iter().zip(b) {
        let (x, y) = (f64::from(x), f64::from(y));
        product += x * y;
        first += x * x;
        second += y * y;
    }
    let cosine = product / (first * second).sqrt();
    if cosine.is_finite() { cosine.clamp(-1.0, 1.0) } else { 0.0 }
}
