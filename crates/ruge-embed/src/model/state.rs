//! What a checkpoint keeps of a model, and whether it fits another one.

use crate::embeddings::Embeddings;
use crate::error::{EmbedError, Result};
use crate::table::Table;

/// All state that training changes: parameters, optimiser state, and the number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Θ
    pub embeddings: Embeddings,
    /// One pair of tables per moment of the optimiser.
    pub moments: Vec<Embeddings>,
    /// Gradient steps taken.
    pub steps: u64,
}

/// Checks that a stored state has the shape of `own`.
pub fn check_shapes(state: &State, own: &State) -> Result<()> {
    for part in std::iter::once(&state.embeddings).chain(&state.moments) {
        check_tables(part, &own.embeddings)?;
    }
    if state.moments.len() != own.moments.len() {
        let (found, expected) = (state.moments.len().to_string(), own.moments.len().to_string());
        return Err(EmbedError::Shape { what: "moments", found, expected });
    }
    Ok(())
}

/// Checks that tables have the shape of `own`.
pub(super) fn check_tables(tables: &Embeddings, own: &Embeddings) -> Result<()> {
    let shape = |x: &Embeddings| {
        let of = |table: &Table| format!("{} x {}", table.rows(), table.width());
        format!("{} and {}", of(&x.entities), of(&x.relations))
    };
    let (found, expected) = (shape(tables), shape(own));
    if found != expected {
        return Err(EmbedError::Shape { what: "tables", found, expected });
    }
    Ok(())
}
