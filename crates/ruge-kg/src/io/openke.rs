//! OpenKE folders: `entity2id.txt`, `relation2id.txt`, and `train2id.txt`, `valid2id.txt`, `test2id.txt`.
//!
//! Every file starts with its number of lines. Dictionaries have `name id`, triples `head tail relation`.

use std::path::{Path, PathBuf};

use super::folder::{SPLITS, existing};
use super::ids::{Dictionary, Folder, read_dictionary, read_triples};
use super::{Columns, ReadOptions};
use crate::error::KgError;
use crate::vocabulary::Names;

const ORDER: Columns = Columns { head: 0, tail: 1, relation: 2, count: 3 };

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    ["entity", "relation"]
        .iter()
        .chain(&SPLITS)
        .filter_map(|name| existing(folder, &format!("{name}2id.txt")))
        .collect()
}

/// Reads the folder; names keep the ids of the files.
pub(crate) fn read(folder: &Path, names: &mut Names, options: &ReadOptions) -> Result<Folder, KgError> {
    let path = |name: &str| existing(folder, name).unwrap_or_else(|| folder.join(name));
    let entities = read_dictionary(&path("entity2id.txt"), Dictionary::NameId, &mut names.entities, options)?;
    let relations = read_dictionary(&path("relation2id.txt"), Dictionary::NameId, &mut names.relations, options)?;
    let sizes = (names.entities.len(), names.relations.len());
    let mut splits = [None, None, None];
    for (contents, split) in splits.iter_mut().zip(SPLITS) {
        let name = format!("{split}2id.txt");
        // Valid and test are optional; train is not.
        if split == "train" || (!options.train_only && existing(folder, &name).is_some()) {
            *contents = Some(read_triples(&path(&name), ORDER, true, sizes, options)?);
        }
    }
    Ok(Folder { dictionaries: vec![entities, relations], splits })
}
