//! The contents of a folder, for comparison: hashes of files, or of the tensors in `safetensors` files.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::case::{Kind, Verdict};
use super::process::{Call, Ruge};

/// Files by relative path, with their hashes.
pub type Contents = BTreeMap<String, String>;

/// All files under a folder.
pub fn contents(folder: &Path) -> Result<Contents> {
    let mut found = Contents::new();
    gather(folder, "", &mut found)?;
    Ok(found)
}

fn gather(folder: &Path, before: &str, found: &mut Contents) -> Result<()> {
    for entry in folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            found.insert(format!("{name}/"), String::new());
            gather(&entry.path(), &format!("{name}/"), found)?;
        } else {
            let bytes = std::fs::read(entry.path()).with_context(|| format!("cannot read {name}"))?;
            let hash = if name.ends_with(".safetensors") {
                tensors(&bytes).unwrap_or_else(|_| hash(&bytes))
            } else {
                hash(&bytes)
            };
            found.insert(name, hash);
        }
    }
    Ok(())
}

/// SHA-256 in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of the tensors of a `safetensors` file: names, types, shapes and bytes, without metadata.
pub fn tensors(bytes: &[u8]) -> Result<String> {
    let length = bytes.first_chunk().map(|length| u64::from_le_bytes(*length)).context("too short")?;
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(8)).context("an endless header")?;
    let header: Value = serde_json::from_slice(bytes.get(8..end).context("the header is cut off")?)?;
    let mut all = Sha256::new();
    for (name, tensor) in header.as_object().context("the header is no object")? {
        if name == "__metadata__" {
            continue;
        }
        let places = tensor["data_offsets"].as_array().context("a tensor without a place")?;
        let place =
            |index: usize| places.get(index).and_then(Value::as_u64).and_then(|place| usize::try_from(place).ok());
        let (Some(from), Some(to)) = (place(0), place(1)) else { anyhow::bail!("a tensor without a place") };
        let data = bytes.get(end..).and_then(|data| data.get(from..to)).context("a tensor is cut off")?;
        all.update(format!("{name} {} {} {}\n", tensor["dtype"], tensor["shape"], data.len()));
        all.update(data);
    }
    Ok(all.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Suffixes of files that contain times or paths, or that are checked elsewhere.
const UNSTEADY: &[&str] = &["checkpoint.safetensors", ".html", ".json", ".jsonl", ".db", ".lock"];

/// Files of a result that must be the same every time: those on which two undisturbed runs agree, and every model.
pub fn steady(one: &Contents, other: &Contents) -> Result<Contents> {
    let names = |contents: &Contents| contents.keys().cloned().collect::<Vec<_>>();
    ensure!(
        names(one) == names(other),
        "two undisturbed runs leave different files: {:?}, {:?}",
        names(one),
        names(other)
    );
    for (name, hash) in one.iter().filter(|(name, _)| name.ends_with("model.safetensors")) {
        ensure!(other[name] == *hash, "two undisturbed runs give different tensors in {name}");
    }
    let same = |(name, hash): &(&String, &String)| {
        !UNSTEADY.iter().any(|ending| name.ends_with(ending)) && other[*name] == **hash
    };
    Ok(one.iter().filter(same).map(|(name, hash)| (name.clone(), hash.clone())).collect())
}

/// Opens models, each once: results are cached by the contents of the folder.
#[derive(Default)]
pub struct Openings(Mutex<HashMap<String, Option<String>>>);

impl Openings {
    /// Opens every model under the folder as a user would; reports those that do not open.
    pub fn of(&self, ruge: &Ruge, folder: &Path) -> Result<Verdict> {
        let mut verdict = Verdict::new();
        let all = contents(folder)?;
        for name in all.keys().filter(|name| name.ends_with("model.safetensors") && !name.contains("/trials/")) {
            let model = folder.join(name);
            let run = model.parent().context("a model stands in a folder")?;
            let mut key = String::new();
            for entry in run.read_dir()? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    key += &format!("{:?} {}\n", entry.file_name(), hash(&std::fs::read(entry.path())?));
                }
            }
            let key = hash(key.as_bytes());
            let before = self.0.lock().expect("no worker panics").get(&key).cloned();
            let trouble = match before {
                Some(trouble) => trouble,
                None => {
                    // A model that has seen every listed fact has no other split.
                    let arguments = ["eval", name, "--split", "train", "--json", "--threads", "1"].map(String::from);
                    let outcome = ruge.call(&Call::new(&arguments, folder))?;
                    let readable = outcome.success() && serde_json::from_slice::<Value>(&outcome.output).is_ok();
                    let trouble = (!readable).then(|| outcome.last_words());
                    self.0.lock().expect("no worker panics").insert(key, trouble.clone());
                    trouble
                }
            };
            if let Some(trouble) = trouble {
                verdict.push((Kind::Unusable, format!("{name} does not open: {trouble}")));
            }
        }
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(metadata: &str, values: [u8; 4]) -> Vec<u8> {
        let header = format!(
            r#"{{"__metadata__":{{"a":"{metadata}"}},"x":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#
        );
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &values].concat()
    }

    #[test]
    fn tensors_are_told_apart_and_metadata_is_not() {
        let plain = tensors(&file("one", [1, 2, 3, 4])).expect("a whole file");
        assert_eq!(plain, tensors(&file("other", [1, 2, 3, 4])).expect("a whole file"));
        assert_ne!(plain, tensors(&file("one", [1, 2, 3, 5])).expect("a whole file"));
        let whole = file("one", [1, 2, 3, 4]);
        for end in 0..whole.len() {
            assert!(tensors(&whole[..end]).is_err(), "cut at {end}");
        }
    }
}
