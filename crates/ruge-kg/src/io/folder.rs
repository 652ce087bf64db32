//! From the user's path to the files with the triples.

use std::path::{Path, PathBuf};

use crate::error::KgError;

/// The three parts of a data set.
pub const SPLITS: [&str; 3] = ["train", "valid", "test"];

/// Where the triples of a data set are.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Layout {
    /// The graph compiled into the program.
    Demo,
    /// One file for everything, to be split.
    Single(PathBuf),
    /// One file per split; valid and test are optional.
    Splits([Option<PathBuf>; 3]),
    /// An OpenKE folder: `entity2id.txt`, `relation2id.txt`, `train2id.txt`, …
    OpenKe(PathBuf),
    /// A LibKGE folder: `dataset.yaml` and `.del` files.
    LibKge(PathBuf),
    /// Several files for everything, to be split together.
    Several(Vec<PathBuf>),
}

impl Layout {
    /// Recognises `data`: the word `demo`, a file, or a folder of a known shape.
    pub fn find(data: &Path) -> Result<Self, KgError> {
        if data.as_os_str() == "demo" {
            return Ok(Layout::Demo);
        }
        let metadata = match std::fs::metadata(data) {
            Ok(metadata) => metadata,
            Err(_) if super::zipped::split(data).is_some() => return Ok(Layout::Single(data.to_path_buf())),
            Err(error) => match listed_files(data)? {
                Some(files) => return Ok(Layout::Several(files)),
                None => return Err(KgError::io(data, "open")(error)),
            },
        };
        if !metadata.is_dir() {
            return Self::of_file(data);
        }
        if data.join("dataset.yaml").is_file() {
            return Ok(Layout::LibKge(data.to_path_buf()));
        }
        let names = list(data)?;
        let splits = SPLITS.map(|split| find_split(data, &names, split));
        let [train, valid, test] = splits;
        let splits = [train?, valid?, test?];
        if splits[0].is_some() {
            return Ok(Layout::Splits(splits));
        }
        let has = |name: &str| names.iter().any(|n| strip_compression(n) == name);
        if has("train2id.txt") && has("entity2id.txt") && has("relation2id.txt") {
            return Ok(Layout::OpenKe(data.to_path_buf()));
        }
        Err(KgError::NoTrain { path: data.to_path_buf(), found: in_words(&names) })
    }

    /// One file, which may be an archive of several.
    fn of_file(data: &Path) -> Result<Self, KgError> {
        let members = super::zipped::members(data)?.unwrap_or_default();
        if members.len() < 2 {
            return Ok(Layout::Single(data.to_path_buf()));
        }
        let mut splits = [None, None, None];
        for (place, split) in splits.iter_mut().zip(SPLITS) {
            let mut found =
                members.iter().filter(|member| is_split(member.rsplit('/').next().unwrap_or(member), split));
            if let (Some(first), second) = (found.next(), found.next()) {
                if let Some(second) = second {
                    return Err(KgError::Ambiguous { first: data.join(first), second: data.join(second) });
                }
                *place = Some(data.join(first));
            }
        }
        if splits[0].is_some() {
            return Ok(Layout::Splits(splits));
        }
        // Whatever lies beside the data, such as a licence, is no data.
        let known = |member: &&String| {
            super::Format::from_name(Path::new(member)).is_some() || strip_compression(member).ends_with(".txt")
        };
        let prose = |member: &&String| {
            let name = member.rsplit('/').next().unwrap_or(member).to_ascii_lowercase();
            ["readme", "license", "licence", "copying", "notice", "changelog"].iter().any(|word| name.starts_with(word))
        };
        let files: Vec<PathBuf> =
            members.iter().filter(|it| known(it) && !prose(it)).map(|member| data.join(member)).collect();
        if files.is_empty() {
            return Err(KgError::NoTrain { path: data.to_path_buf(), found: in_words(&members) });
        }
        Ok(Layout::Several(files))
    }

    /// All files of the data set, including those that are not read for train alone.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Layout::Demo => Vec::new(),
            Layout::Single(path) => vec![path.clone()],
            Layout::Splits(paths) => paths.iter().flatten().cloned().collect(),
            Layout::OpenKe(folder) => super::openke::files(folder),
            Layout::LibKge(folder) => super::libkge::files(folder),
            Layout::Several(paths) => paths.clone(),
        }
        .into_iter()
        .map(|path| super::zipped::split(&path).map_or(path, |(archive, _)| archive))
        .collect()
    }

    /// The layout, in words.
    pub fn name(&self) -> &'static str {
        match self {
            Layout::Demo => "embedded graph",
            Layout::Single(_) => "single file, split here",
            Layout::Splits(_) => "one file per split",
            Layout::OpenKe(_) => "OpenKE folder",
            Layout::LibKge(_) => "LibKGE folder",
            Layout::Several(_) => "several files, split here",
        }
    }
}

/// The files of `a.tsv,b.tsv`; `None` if there is no comma. Each must be there.
fn listed_files(data: &Path) -> Result<Option<Vec<PathBuf>>, KgError> {
    let Some(text) = data.to_str().filter(|text| text.contains(',')) else { return Ok(None) };
    let files: Vec<PathBuf> = text.split(',').filter(|part| !part.is_empty()).map(PathBuf::from).collect();
    if !files.iter().any(|file| file.exists()) {
        return Ok(None);
    }
    for file in &files {
        if let Err(error) = std::fs::metadata(file) {
            return Err(KgError::io(file, "open")(error));
        }
        if file.is_dir() {
            let message = "a folder cannot be one of several files\n  remedy: name its files".to_string();
            return Err(KgError::Description { path: file.clone(), message });
        }
    }
    Ok(Some(files))
}

fn list(folder: &Path) -> Result<Vec<String>, KgError> {
    let entries = std::fs::read_dir(folder).map_err(KgError::io(folder, "list"))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(KgError::io(folder, "list"))?;
        if let Some(name) = entry.file_name().to_str() {
            names.push(name.to_string());
        }
    }
    names.sort();
    Ok(names)
}

/// The file of `split`, or `None`.
fn find_split(folder: &Path, names: &[String], split: &str) -> Result<Option<PathBuf>, KgError> {
    let mut found: Option<&String> = None;
    for name in names.iter().filter(|name| is_split(name, split) && folder.join(name).is_file()) {
        if let Some(first) = found {
            return Err(KgError::Ambiguous { first: folder.join(first), second: folder.join(name) });
        }
        found = Some(name);
    }
    Ok(found.map(|name| folder.join(name)))
}

/// Endings of the files of a split.
const ENDINGS: [&str; 13] =
    [".txt", ".tsv", ".csv", ".nt", ".ttl", ".nq", ".trig", ".rdf", ".owl", ".xml", ".jsonld", ".json", ".parquet"];

/// `train`, `train.ENDING` or `NAME_triples.train`, compressed or not.
fn is_split(name: &str, split: &str) -> bool {
    let name = strip_compression(name);
    let aliases: &[&str] = if split == "valid" { &["valid", "validation", "dev"] } else { &[split] };
    aliases.iter().any(|split| match name.strip_prefix(split) {
        Some("") => true,
        Some(ending) => ENDINGS.contains(&ending),
        None => name.strip_suffix(split).is_some_and(|stem| stem.ends_with("_triples.")),
    })
}

fn strip_compression(name: &str) -> &str {
    [".gz", ".zst", ".zip"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

fn in_words(names: &[String]) -> String {
    match names.len() {
        0 => "nothing".to_string(),
        n if n > 8 => format!("{}, … {n} entries in all", names[..8].join(", ")),
        _ => names.join(", "),
    }
}

/// The file with this name, plain or with a compression suffix.
pub(crate) fn existing(folder: &Path, name: &str) -> Option<PathBuf> {
    [name.to_string(), format!("{name}.gz"), format!("{name}.zst")]
        .into_iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_splits() {
        for name in ["train.txt", "train.tsv.gz", "train.nt.zst", "train", "fb15k_triples.train", "x_triples.train.gz"]
        {
            assert!(is_split(name, "train"), "{name}");
        }
        for name in ["train2id.txt", "training.txt", "train.bak", "retrain.txt", "train.txt.bz2", "train.del"] {
            assert!(!is_split(name, "train"), "{name}");
        }
        assert!(is_split("dev.txt", "valid") && is_split("validation.csv", "valid"));
    }

    #[test]
    fn files_of_a_data_set() {
        let files = |names: &[&str], yaml: &str| {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                std::fs::write(folder.path().join(name), if *name == "dataset.yaml" { yaml } else { "" }).unwrap();
            }
            let files = Layout::find(folder.path()).unwrap().files();
            let mut names: Vec<String> =
                files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(files(&["train.txt", "test.tsv.gz", "other.txt"], ""), ["test.tsv.gz", "train.txt"]);
        let openke = ["entity2id.txt", "relation2id.txt", "train2id.txt", "valid2id.txt"];
        assert_eq!(files(&openke, ""), openke);
        let yaml = "dataset.files.train.filename: learn.del\n";
        let libkge = ["dataset.yaml", "entity_ids.del", "learn.del", "test.del"];
        assert_eq!(files(&[&libkge[..], &["other.del"]].concat(), yaml), libkge);
        assert!(Layout::find(Path::new("demo")).unwrap().files().is_empty());
    }
}
