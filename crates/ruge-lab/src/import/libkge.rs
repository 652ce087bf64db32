//! Checkpoints of LibKGE: `checkpoint_best.pt` in a folder of `kge start`. Names and triples are in the data set, which LibKGE keeps
//! elsewhere.

use std::path::{Path, PathBuf};

use ruge::error::{Result, RugeError};
use ruge::spec::{ModelName, Norm};
use ruge_embed::Table;

use super::pickle::{At, Node, Pickle};
use super::torch::Torch;
use super::{Foreign, Rows};

/// The checkpoint that a folder of LibKGE has, the best one first.
pub fn checkpoint(folder: &Path) -> Option<PathBuf> {
    let best = folder.join("checkpoint_best.pt");
    if best.is_file() {
        return Some(best);
    }
    let is_one = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("checkpoint_") && name.ends_with(".pt")
    };
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_one).collect();
    found.sort();
    found.pop()
}

/// Reads a checkpoint.
pub fn read(path: &Path) -> Result<Foreign> {
    let mut file = Torch::open(path)?;
    let options =
        options(&file.says).ok_or_else(|| file.unusable("it has no settings; is it a checkpoint of LibKGE?"))?;
    let text =
        |file: &Torch, at: At, key: &str| file.says.get(at, key).and_then(|at| file.says.text(at)).map(str::to_string);
    let mut name = text(&file, options, "model").unwrap_or_default();
    let inverse = name == "reciprocal_relations_model";
    if inverse {
        let base = file.says.get(options, &name).and_then(|own| file.says.get(own, "base_model"));
        name = base.and_then(|base| text(&file, base, "type")).unwrap_or_default();
    }
    let (model, norm) = match name.as_str() {
        "complex" => (ModelName::ComplEx, Norm::L1),
        "distmult" => (ModelName::DistMult, Norm::L1),
        "transe" => {
            let norm = file.says.get(options, "transe").and_then(|own| file.says.get(own, "l_norm"));
            match norm.map_or(Some(1), |at| file.says.int(at)) {
                Some(1) => (ModelName::TransE, Norm::L1),
                Some(2) => (ModelName::TransE, Norm::L2),
                _ => return Err(file.unusable("its TransE has another norm than 1 or 2")),
            }
        }
        other => {
            let reason =
                format!("LibKGE's model {other:?} has no counterpart here; there are complex, distmult and transe");
            return Err(file.unusable(&reason));
        }
    };
    let entities = table(&mut file, "_entity_embedder")?;
    let relations = table(&mut file, "_relation_embedder")?;
    let origin = format!("LibKGE's {name}");
    Ok(Foreign { model, norm, inverse, rows: Rows::LibKge, entities, relations, origin })
}

/// The settings: the dict that names the model and the data set.
fn options(says: &Pickle) -> Option<At> {
    let is_settings = |&at: &At| {
        matches!(says.node(at), Node::Dict(_))
            && says.get(at, "model").is_some_and(|model| matches!(says.node(model), Node::Text(_)))
            && says.get(at, "dataset").is_some()
    };
    says.all().find(is_settings)
}

fn table(file: &mut Torch, embedder: &str) -> Result<Table> {
    let wanted = format!("{embedder}._embeddings.weight");
    let says = &file.says;
    let found = says.all().find_map(|at| match says.node(at) {
        Node::Dict(entries) => entries
            .iter()
            .find(|(key, _)| says.text(*key).is_some_and(|key| key == wanted || key == format!("_base_model.{wanted}")))
            .map(|(_, value)| *value),
        _ => None,
    });
    match found {
        Some(at) => file.matrix(at),
        None => Err(file.unusable(&format!("it has no table {wanted}"))),
    }
}

/// What to do where the data are missing.
pub fn without_data(path: &Path) -> RugeError {
    let reason = "a checkpoint of LibKGE has no names and no triples; give its data set as DATA too";
    RugeError::ModelFile { path: path.to_path_buf(), reason: reason.into() }
}
