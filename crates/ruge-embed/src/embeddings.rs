//! Θ: one row of parameters per entity and per relation, and their initial values.
//!
//! Every initial value is a pure function of (seed, row, column), so it depends on neither threads nor table sizes.

use rayon::prelude::*;
use ruge_kg::random::{self, Stream};
use serde::{Deserialize, Serialize};

use crate::cpu::row;
use crate::error::{EmbedError, Result};
use crate::scoring::{ScoringFunction, entity_parameters, relation_parameters};
use crate::table::Table;

/// The stream for initial entity rows, and for all rows if the seed is shared.
pub const INIT_ENTITIES: Stream = Stream(0x101);
/// The stream for initial relation rows.
pub const INIT_RELATIONS: Stream = Stream(0x102);

/// The parameters of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// One row per entity.
    pub entities: Table,
    /// One row per relation.
    pub relations: Table,
}

/// Initial distribution of rows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "distribution", deny_unknown_fields)]
pub enum Start {
    /// N(0, deviation²), entries independent.
    Normal {
        /// Standard deviation.
        deviation: f32,
        /// Whether rows are then divided by their L2 norm.
        #[serde(default)]
        unit: bool,
    },
    /// Uniform over [−bound, bound).
    Uniform {
        /// The largest absolute value.
        bound: f32,
        /// Whether rows are then divided by their L2 norm.
        #[serde(default)]
        unit: bool,
    },
    /// Uniform over [−sum/d, sum/d), so that distances, which sum d entries, start at the same size for every d.
    Spread {
        /// d times the largest absolute value.
        sum: f32,
    },
}

impl Default for Start {
    fn default() -> Self {
        Self::Normal { deviation: 1.0, unit: false }
    }
}

impl Start {
    fn entry(self, seed: u64, stream: Stream, row: usize, column: usize) -> f32 {
        let unit = |k: usize| random::unit(random::draw(seed, stream, row as u64, (2 * column + k) as u64));
        match self {
            Self::Normal { deviation, .. } => {
                // Box and Muller; 1 − u is never 0.
                let radius = (-2.0 * (1.0 - unit(0)).ln()).sqrt();
                (f64::from(deviation) * radius * (std::f64::consts::TAU * unit(1)).cos()) as f32
            }
            Self::Uniform { bound, .. } | Self::Spread { sum: bound } => {
                (f64::from(bound) * (2.0 * unit(0) - 1.0)) as f32
            }
        }
    }

    fn is_unit(self) -> bool {
        match self {
            Self::Normal { unit, .. } | Self::Uniform { unit, .. } => unit,
            Self::Spread { .. } => false,
        }
    }

    /// The distribution for a given d.
    fn at(self, dimension: usize) -> Self {
        match self {
            Self::Spread { sum } => Self::Uniform { bound: sum / dimension as f32, unit: false },
            other => other,
        }
    }
}

/// Initial distributions of all rows.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Init {
    /// Entity rows.
    #[serde(default)]
    pub entities: Start,
    /// Relation rows.
    #[serde(default)]
    pub relations: Start,
    /// Initialise as the reference program: it restarts the same generator for each matrix, so imaginary parts equal
    /// real parts and relation row k equals entity row k. By default all entries are independent.
    #[serde(default)]
    pub shared: bool,
}

impl Embeddings {
    /// Checks that stored parameters have the shape of this model.
    pub fn require(&self, scoring: &impl ScoringFunction, entities: usize, relations: usize) -> Result<()> {
        let words = |entities: (usize, usize), relations: (usize, usize)| {
            format!("{} x {} and {} x {}", entities.0, entities.1, relations.0, relations.1)
        };
        let of = |table: &Table| (table.rows(), table.width());
        let found = words(of(&self.entities), of(&self.relations));
        let expected = words((entities, entity_parameters(scoring)), (relations, relation_parameters(scoring)));
        if found == expected { Ok(()) } else { Err(EmbedError::Shape { what: "tables", found, expected }) }
    }

    /// Initial values for a model.
    pub fn new(scoring: &impl ScoringFunction, entities: usize, relations: usize, init: &Init, seed: u64) -> Self {
        let fill = |rows, width: usize, parts: usize, start: Start, stream| {
            let mut table = Table::zeros(rows, width);
            let start = start.at(scoring.dimension());
            let part = width / parts;
            // Every entry is drawn by position, so rows can be filled in any order.
            let stride = table.stride();
            table.as_mut_slice().par_chunks_mut(stride).enumerate().for_each(|(index, row)| {
                let row = &mut row[..width];
                for (column, x) in row.iter_mut().enumerate() {
                    let column = if init.shared { column % part } else { column };
                    *x = start.entry(seed, stream, index, column);
                }
                if start.is_unit() {
                    row::normalise(row);
                }
            });
            table
        };
        let relation_stream = if init.shared { INIT_ENTITIES } else { INIT_RELATIONS };
        let (entity_width, relation_width) = (entity_parameters(scoring), relation_parameters(scoring));
        Self {
            entities: fill(entities, entity_width, scoring.entity_parts(), init.entities, INIT_ENTITIES),
            relations: fill(relations, relation_width, scoring.relation_parts(), init.relations, relation_stream),
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.entities.bytes() + self.relations.bytes()
    }

    /// Whether every parameter is finite.
    pub fn is_finite(&self) -> bool {
        self.entities.is_finite() && self.relations.is_finite()
    }

    /// Copies the parameters of another model of the same shape.
    pub fn copy_from(&mut self, other: &Self) {
        self.entities.copy_from(&other.entities);
        self.relations.copy_from(&other.relations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::ComplEx;

    #[test]
    fn start_values_are_normal_and_independent_unless_shared() {
        let model = ComplEx::new(50);
        let start = Embeddings::new(&model, 200, 20, &Init::default(), 3);
        let all = start.entities.to_dense();
        let mean = all.iter().map(|&x| f64::from(x)).sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / all.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "mean {mean}, variance {variance}");
        assert_ne!(start.entities.row(3), start.relations.row(3));
        let shared = Embeddings::new(&model, 200, 20, &Init { shared: true, ..Init::default() }, 3);
        assert_eq!(shared.entities.row(3), shared.relations.row(3));
        assert_eq!(shared.entities.row(3)[..50], shared.entities.row(3)[50..]);
        assert_eq!(start.entities.row(3)[..50], shared.entities.row(3)[..50]);
        let spread = Init { entities: Start::Spread { sum: 10.0 }, ..Init::default() };
        let spread = Embeddings::new(&model, 200, 20, &spread, 3).entities.to_dense();
        let largest = spread.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
        assert!(largest <= 0.2 && largest > 0.199, "{largest}");
    }
}
