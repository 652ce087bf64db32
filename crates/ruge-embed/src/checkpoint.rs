//! Checkpoints: a run on disk, exact to the bit, whole or not there at all.
//!
//! A checkpoint is one `safetensors` file, readable from any language: tables as tensors, counters and the caller's own
//! words as a JSON object in one entry of the metadata. The format keeps metadata in a hash map, so several entries would
//! come in any order; with one, equal runs write equal bytes. It is written beside its place, flushed to the disk, and renamed: whoever is killed in between
//! leaves the old file. A hash over all tensors tells a damaged file from a good one.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};

use crate::embeddings::Embeddings;
use crate::error::{EmbedError, Result};
use crate::model::State;
use crate::table::Table;
use crate::trainer::{Best, Progress};

/// The version this code writes, and the newest it reads. Version 1 had an entry of metadata for each counter.
pub const VERSION: u32 = 2;

/// The metadata entry that holds everything.
const ENTRY: &str = "ruge.checkpoint";
/// Before, each counter was an entry of its own, behind this; the other entries were the caller's.
const OURS: &str = "ruge.checkpoint.";

/// A run, as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Parameters, moments and steps.
    pub state: State,
    /// Epochs done, best model, validations since.
    pub progress: Progress,
    /// The caller's own words: its spec, its data.
    pub notes: BTreeMap<String, String>,
}

/// What a checkpoint holds besides tables.
#[derive(Default, Serialize, Deserialize)]
struct Words {
    ours: BTreeMap<String, String>,
    notes: BTreeMap<String, String>,
}

impl Words {
    fn of(metadata: &HashMap<String, String>) -> std::result::Result<Self, String> {
        if let Some(entry) = metadata.get(ENTRY) {
            return serde_json::from_str(entry).map_err(|error| format!("its metadata are damaged: {error}"));
        }
        let mut words = Self::default();
        for (key, value) in metadata {
            match key.strip_prefix(OURS) {
                Some(key) => words.ours.insert(key.to_owned(), value.clone()),
                None => words.notes.insert(key.clone(), value.clone()),
            };
        }
        Ok(words)
    }
}

/// Writes a checkpoint in one piece: at every moment, `path` is the old file or the new one.
pub fn write(path: &Path, state: &State, progress: &Progress, notes: &BTreeMap<String, String>) -> Result<()> {
    let tensors = tensors(state, progress);
    let mut ours = BTreeMap::new();
    let mut put = |key: &str, value: String| ours.insert(key.to_owned(), value);
    put("version", VERSION.to_string());
    put("epoch", progress.epoch.to_string());
    put("stale", progress.stale.to_string());
    // Runs without a plateau are written as ever.
    for (key, count) in [("cuts", progress.cuts), ("waited", progress.waited)] {
        if count > 0 {
            put(key, count.to_string());
        }
    }
    put("steps", state.steps.to_string());
    put("moments", state.moments.len().to_string());
    if let Some(best) = &progress.best {
        put("best-epoch", best.epoch.to_string());
        // In bits: a decimal could round, and a resumed run must compare with the very same number.
        put("best-mrr", format!("{:016x}", best.mrr.to_bits()));
    }
    put("hash", format!("{:016x}", hash(tensors.iter().map(|(_, tensor)| tensor.0))));
    let entry = Words { ours, notes: notes.clone() };
    let entry = serde_json::to_string(&entry).expect("words are always JSON");
    let metadata = HashMap::from([(ENTRY.to_owned(), entry)]);

    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let beside = path.with_file_name(name);
    let io = |source| EmbedError::Io { path: path.to_path_buf(), source };
    safetensors::serialize_to_file(tensors, Some(metadata), &beside)
        .map_err(|error| io(std::io::Error::other(error.to_string())))?;
    File::open(&beside).and_then(|file| file.sync_all()).map_err(io)?;
    std::fs::rename(&beside, path).map_err(io)?;
    // The new name must reach the disk too; where folders cannot be opened, the system does what it does.
    if let Some(Ok(folder)) = path.parent().map(File::open) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Reads a checkpoint and checks it whole.
pub fn read(path: &Path) -> Result<Checkpoint> {
    let bytes = std::fs::read(path).map_err(|source| EmbedError::Io { path: path.to_path_buf(), source })?;
    parse(&bytes).map_err(|reason| EmbedError::Checkpoint { path: path.to_path_buf(), reason })
}

fn parse(bytes: &[u8]) -> std::result::Result<Checkpoint, String> {
    let broken = |error: safetensors::SafeTensorError| format!("{error} (truncated or damaged?)");
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(broken)?;
    let Words { ours, notes } = Words::of(header.metadata().as_ref().unwrap_or(&HashMap::new()))?;
    let get = |key: &str| ours.get(key);
    let number = |key: &str| -> std::result::Result<u64, String> {
        let text = get(key).ok_or_else(|| format!("it has no `{key}`; is it another kind of file?"))?;
        text.parse().map_err(|_| format!("`{key}` is `{text}`, not a number"))
    };
    let bits = |key: &str| -> std::result::Result<u64, String> {
        let text = get(key).ok_or_else(|| format!("it has no `{key}`"))?;
        u64::from_str_radix(text, 16).map_err(|_| format!("`{key}` is `{text}`, not sixteen hexadecimal digits"))
    };
    let version = number("version")?;
    if version > u64::from(VERSION) {
        return Err(format!("it has version {version}, this program reads up to {VERSION}; use a newer program"));
    }
    let embeddings = |prefix: &str| -> std::result::Result<Embeddings, String> {
        Ok(Embeddings {
            entities: table(&tensors, &format!("{prefix}entities"))?,
            relations: table(&tensors, &format!("{prefix}relations"))?,
        })
    };
    let moments =
        (0..number("moments")?).map(|i| embeddings(&format!("moment{i}."))).collect::<std::result::Result<_, _>>()?;
    let state = State { embeddings: embeddings("")?, moments, steps: number("steps")? };
    let best = match get("best-epoch") {
        None => None,
        Some(_) => Some(Best {
            epoch: number("best-epoch")?,
            mrr: f64::from_bits(bits("best-mrr")?),
            embeddings: embeddings("best.")?,
        }),
    };
    let count = |key: &str| if get(key).is_some() { number(key) } else { Ok(0) };
    let progress = Progress {
        epoch: number("epoch")?,
        best,
        stale: number("stale")?,
        cuts: count("cuts")?,
        waited: count("waited")?,
    };
    if hash(self::tensors(&state, &progress).iter().map(|(_, tensor)| tensor.0)) != bits("hash")? {
        return Err("its numbers do not match its hash: the file is damaged".to_owned());
    }
    Ok(Checkpoint { state, progress, notes })
}

/// A table as a tensor; bytes are made when asked for, one tensor at a time.
struct Tensor<'a>(&'a Table, [usize; 2]);

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }
    fn shape(&self) -> &[usize] {
        &self.1
    }
    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        for row in 0..self.0.rows() {
            bytes.extend(self.0.row(row).iter().flat_map(|x| x.to_le_bytes()));
        }
        Cow::Owned(bytes)
    }
    fn data_len(&self) -> usize {
        4 * self.0.rows() * self.0.width()
    }
}

/// All tables of a run, in a fixed order.
fn tensors<'a>(state: &'a State, progress: &'a Progress) -> Vec<(String, Tensor<'a>)> {
    let mut tensors = Vec::new();
    let mut put = |prefix: &str, embeddings: &'a Embeddings| {
        for (name, table) in [("entities", &embeddings.entities), ("relations", &embeddings.relations)] {
            tensors.push((format!("{prefix}{name}"), Tensor(table, [table.rows(), table.width()])));
        }
    };
    put("", &state.embeddings);
    for (i, moment) in state.moments.iter().enumerate() {
        put(&format!("moment{i}."), moment);
    }
    if let Some(best) = &progress.best {
        put("best.", &best.embeddings);
    }
    tensors
}

fn table(tensors: &SafeTensors<'_>, name: &str) -> std::result::Result<Table, String> {
    let tensor = tensors.tensor(name).map_err(|_| format!("it has no tensor `{name}`"))?;
    let &[rows, width] = tensor.shape() else { return Err(format!("tensor `{name}` is no table")) };
    if tensor.dtype() != Dtype::F32 {
        return Err(format!("tensor `{name}` holds {:?}, not F32", tensor.dtype()));
    }
    let mut table = Table::zeros(rows, width);
    for (index, bytes) in tensor.data().chunks_exact(4 * width.max(1)).enumerate() {
        for (x, bytes) in table.row_mut(index).iter_mut().zip(bytes.as_chunks::<4>().0) {
            *x = f32::from_le_bytes(*bytes);
        }
    }
    Ok(table)
}

/// A 64-bit hash over the bits of all tables; order counts, padding does not.
fn hash<'a>(tables: impl Iterator<Item = &'a Table>) -> u64 {
    let mut hash = 0x243f_6a88_85a3_08d3u64;
    for table in tables {
        for row in 0..table.rows() {
            for x in table.row(row) {
                hash = (hash ^ u64::from(x.to_bits())).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            }
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_of_version_1_are_read() {
        let mut embeddings = Embeddings { entities: Table::zeros(3, 2), relations: Table::zeros(1, 2) };
        embeddings.entities.row_mut(2)[1] = 0.5;
        let state = State { embeddings: embeddings.clone(), moments: vec![embeddings.clone()], steps: 7 };
        let progress = Progress {
            epoch: 4,
            best: Some(Best { epoch: 3, mrr: 0.25, embeddings }),
            stale: 1,
            ..Progress::default()
        };
        let tensors = tensors(&state, &progress);
        let hash = hash(tensors.iter().map(|(_, tensor)| tensor.0));
        let mut metadata = HashMap::from([("spec".to_owned(), "d = 2".to_owned())]);
        for (key, value) in [
            ("version", "1".to_owned()),
            ("epoch", "4".to_owned()),
            ("stale", "1".to_owned()),
            ("steps", "7".to_owned()),
            ("moments", "1".to_owned()),
            ("best-epoch", "3".to_owned()),
            ("best-mrr", format!("{:016x}", 0.25f64.to_bits())),
            ("hash", format!("{hash:016x}")),
        ] {
            metadata.insert(format!("{OURS}{key}"), value);
        }
        let bytes = safetensors::serialize(tensors, Some(metadata)).unwrap();
        let notes = BTreeMap::from([("spec".to_owned(), "d = 2".to_owned())]);
        assert_eq!(parse(&bytes), Ok(Checkpoint { state, progress, notes }));
    }
}
