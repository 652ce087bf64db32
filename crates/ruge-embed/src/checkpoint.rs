//! Checkpoints: the exact state of a run on disk, complete or absent.
//!
//! A checkpoint is one sealed `safetensors` file ([`tensor_file`]), readable from any language. Tables are tensors;
//! counters and the caller's notes are a JSON object in one metadata entry. The format keeps metadata in a hash map, so
//! several entries would be written in any order; with one entry, equal runs write equal bytes. The file is written
//! under a temporary name, flushed and renamed: a kill leaves the old file. The seal's checksum covers every byte.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::embeddings::Embeddings;
use crate::error::{EmbedError, Result};
use crate::model::State;
use crate::table::Table;
use crate::tensor_file::{self, Content, Fault, TensorFile};
use crate::trainer::{Best, Progress};

/// The version written, and the newest version read. Versions 1 and 2 had no seal, only a hash over their tables;
/// version 1 had one metadata entry per counter.
pub const VERSION: u32 = tensor_file::FORMAT;

/// The metadata entry with all counters and notes.
const ENTRY: &str = "ruge.checkpoint";
/// Prefix of our metadata entries in version 1; the others were the caller's.
const OURS: &str = "ruge.checkpoint.";

/// A stored run.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Parameters, moments and steps.
    pub state: State,
    /// Epochs done, the best model, validations since.
    pub progress: Progress,
    /// The caller's notes: its spec, its data.
    pub notes: BTreeMap<String, String>,
    /// Whether an earlier version wrote it; then the checksum covers only its tables.
    pub is_old: bool,
}

/// The contents of a checkpoint other than tables.
#[derive(Default, Serialize, Deserialize)]
struct Words {
    ours: BTreeMap<String, String>,
    notes: BTreeMap<String, String>,
}

impl Words {
    fn of(metadata: &HashMap<String, String>) -> std::result::Result<Self, String> {
        if let Some(entry) = metadata.get(ENTRY) {
            return serde_json::from_str(entry).map_err(|error| format!("its metadata are damaged ({error})"));
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

/// Writes a checkpoint atomically: at any time, `path` is the old file or the new one.
pub fn write(path: &Path, state: &State, progress: &Progress, notes: &BTreeMap<String, String>) -> Result<()> {
    let tables = tables(state, progress);
    let mut ours = BTreeMap::new();
    let mut put = |key: &str, value: String| ours.insert(key.to_owned(), value);
    put("version", VERSION.to_string());
    put("epoch", progress.epoch.to_string());
    put("stale", progress.stale.to_string());
    // Runs without a plateau keep the earlier format.
    for (key, count) in [("cuts", progress.cuts), ("waited", progress.waited)] {
        if count > 0 {
            put(key, count.to_string());
        }
    }
    put("steps", state.steps.to_string());
    put("moments", state.moments.len().to_string());
    if let Some(best) = &progress.best {
        put("best-epoch", best.epoch.to_string());
        // As bits: a decimal could round, and a resumed run must compare with the same number.
        put("best-mrr", format!("{:016x}", best.mrr.to_bits()));
    }
    let entry = Words { ours, notes: notes.clone() };
    let entry = serde_json::to_string(&entry).expect("words are always JSON");
    let metadata = HashMap::from([(ENTRY.to_owned(), entry)]);
    let tensors = tables.into_iter().map(|(name, table)| (name, Content::Table(table))).collect();
    tensor_file::write(path, tensors, metadata).map_err(|source| EmbedError::Io { path: path.to_path_buf(), source })
}

/// Reads and verifies a checkpoint.
pub fn read(path: &Path) -> Result<Checkpoint> {
    TensorFile::open(path).and_then(parse).map_err(|fault| match fault {
        Fault::Io(source) => EmbedError::Io { path: path.to_path_buf(), source },
        Fault::Broken(reason) => EmbedError::Checkpoint { path: path.to_path_buf(), reason },
    })
}

fn parse(file: TensorFile) -> std::result::Result<Checkpoint, Fault> {
    let Words { ours, notes } = file.words().map_or_else(|| Ok(Words::default()), Words::of)?;
    let get = |key: &str| ours.get(key);
    let number = |key: &str| -> std::result::Result<u64, String> {
        let text = get(key).ok_or_else(|| format!("it has no `{key}`; is it another kind of file?"))?;
        text.parse().map_err(|_| format!("`{key}` is `{text}`, not a number"))
    };
    let bits = |key: &str| -> std::result::Result<u64, String> {
        let text = get(key).ok_or_else(|| format!("it has no `{key}`"))?;
        u64::from_str_radix(text, 16).map_err(|_| format!("`{key}` is `{text}`, not sixteen hexadecimal digits"))
    };
    let sealed = file.is_sealed(number("version")?)?;
    let mut stored = file.read(sealed, |_| true)?;
    let mut embeddings = |prefix: &str| -> std::result::Result<Embeddings, String> {
        Ok(Embeddings {
            entities: stored.take_table(&format!("{prefix}entities"))?,
            relations: stored.take_table(&format!("{prefix}relations"))?,
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
    if !sealed && hash(tables(&state, &progress).iter().map(|(_, table)| *table)) != bits("hash")? {
        return Err(Fault::Broken("its numbers do not match its hash: the file is damaged".to_owned()));
    }
    Ok(Checkpoint { state, progress, notes, is_old: !sealed })
}

fn tables<'a>(state: &'a State, progress: &'a Progress) -> Vec<(String, &'a Table)> {
    let mut tables = Vec::new();
    let mut put = |prefix: &str, embeddings: &'a Embeddings| {
        for (name, table) in [("entities", &embeddings.entities), ("relations", &embeddings.relations)] {
            tables.push((format!("{prefix}{name}"), table));
        }
    };
    put("", &state.embeddings);
    for (i, moment) in state.moments.iter().enumerate() {
        put(&format!("moment{i}."), moment);
    }
    if let Some(best) = &progress.best {
        put("best.", &best.embeddings);
    }
    tables
}

/// The hash of earlier versions: 64 bits over the bits of all tables, in order, without padding.
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

    fn run() -> (State, Progress) {
        let mut embeddings = Embeddings { entities: Table::zeros(3, 2), relations: Table::zeros(1, 2) };
        embeddings.entities.row_mut(2)[1] = 0.5;
        let state = State { embeddings: embeddings.clone(), moments: vec![embeddings.clone()], steps: 7 };
        let progress = Progress {
            epoch: 4,
            best: Some(Best { epoch: 3, mrr: 0.25, embeddings }),
            stale: 1,
            ..Progress::default()
        };
        (state, progress)
    }

    /// A file as written before there were seals.
    fn old_file(path: &Path, state: &State, progress: &Progress, metadata: HashMap<String, String>) {
        let dense: Vec<(String, [usize; 2], Vec<u8>)> = tables(state, progress)
            .into_iter()
            .map(|(name, table)| {
                let bytes = table.to_dense().iter().flat_map(|x| x.to_le_bytes()).collect();
                (name, [table.rows(), table.width()], bytes)
            })
            .collect();
        let views = dense.iter().map(|(name, shape, bytes)| {
            (name, safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.to_vec(), bytes).unwrap())
        });
        std::fs::write(path, safetensors::serialize(views, Some(metadata)).unwrap()).unwrap();
    }

    #[test]
    fn checkpoints_of_earlier_versions_are_read() {
        let (state, progress) = run();
        let hash = hash(tables(&state, &progress).iter().map(|(_, table)| *table));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        let notes = BTreeMap::from([("spec".to_owned(), "d = 2".to_owned())]);
        let ours = |version: &str| -> BTreeMap<String, String> {
            [
                ("version", version.to_owned()),
                ("epoch", "4".to_owned()),
                ("stale", "1".to_owned()),
                ("steps", "7".to_owned()),
                ("moments", "1".to_owned()),
                ("best-epoch", "3".to_owned()),
                ("best-mrr", format!("{:016x}", 0.25f64.to_bits())),
                ("hash", format!("{hash:016x}")),
            ]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
        };
        let mut first: HashMap<String, String> =
            ours("1").into_iter().map(|(key, value)| (format!("{OURS}{key}"), value)).collect();
        first.insert("spec".to_owned(), "d = 2".to_owned());
        let second = serde_json::to_string(&Words { ours: ours("2"), notes: notes.clone() }).unwrap();
        for metadata in [first, HashMap::from([(ENTRY.to_owned(), second)])] {
            old_file(&path, &state, &progress, metadata);
            let expected =
                Checkpoint { state: state.clone(), progress: progress.clone(), notes: notes.clone(), is_old: true };
            assert_eq!(read(&path).unwrap(), expected);
        }
    }

    #[test]
    fn no_flipped_bit_is_accepted() {
        let (state, progress) = run();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        let notes = BTreeMap::from([("spec".to_owned(), "d = 2".to_owned())]);
        write(&path, &state, &progress, &notes).unwrap();
        let good = std::fs::read(&path).unwrap();
        assert_eq!(read(&path).unwrap(), Checkpoint { state, progress, notes, is_old: false });
        // One bit of every byte; `tensor_file` tries every bit of a smaller file.
        for (byte, bit) in (0..good.len()).map(|byte| (byte, byte % 8)) {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(read(&path), Err(EmbedError::Checkpoint { .. })), "bit {bit} of byte {byte} was taken");
        }
    }
}
