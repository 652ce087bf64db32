//! Models of other programs: from their folders, or as Python holds them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use ruge_embed::Table;
use ruge_lab::import::{self, Foreign, Kind, Rows};

use crate::combine::tell_lost_triples;
use crate::errors::Fault;
use crate::graph::{self, Graph};
use crate::job;
use crate::model::Model;

/// Reads a model that PyKEEN or LibKGE left in a folder, beside the data it was trained on.
#[pyfunction]
#[pyo3(signature = (folder, data))]
pub fn import_folder(py: Python<'_>, folder: PathBuf, data: Option<&Graph>) -> PyResult<Model> {
    let data = data.map(|graph| Arc::clone(&graph.data));
    job::work(py, None, None, move |job| {
        let imported = import::read(&folder, data.as_deref())?;
        tell_lost_triples(job, imported.unknown.iter().sum());
        Ok(Model::new(imported.engine))
    })
}

/// A model of PyKEEN: its classes, and its tables as four-byte numbers with their widths. The graph has its ids.
#[pyfunction]
#[pyo3(signature = (graph, classes, norm, power, inverse, entities, relations))]
#[allow(clippy::too_many_arguments)]
pub fn adopt(
    py: Python<'_>,
    graph: &Graph,
    classes: (String, String),
    norm: Option<i64>,
    power: bool,
    inverse: bool,
    entities: (Vec<u8>, usize),
    relations: (Vec<u8>, usize),
) -> PyResult<Model> {
    let data = Arc::clone(&graph.data);
    job::work(py, None, None, move |_| {
        let kind = Kind { name: classes.0.clone(), interaction: classes.1, norm, power };
        let path = Path::new("the model");
        let (model, norm) = kind.model(path)?;
        let table = |(bytes, width): (Vec<u8>, usize)| {
            let numbers: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
            if width == 0 || !numbers.len().is_multiple_of(width) {
                return Err(Fault::setting("a table of the model has no rows of one width"));
            }
            Ok(Table::from_dense(numbers.len() / width, width, &numbers))
        };
        let foreign = Foreign {
            model,
            norm,
            inverse,
            rows: Rows::Pykeen,
            entities: table(entities)?,
            relations: table(relations)?,
            origin: format!("PyKEEN's {}", classes.0),
        };
        Ok(Model::new(foreign.imported(graph::copy(&data), [0; 3], path)?.engine))
    })
}
