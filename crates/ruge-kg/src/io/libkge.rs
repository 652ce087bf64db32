//! LibKGE folders: a `dataset.yaml` that names the files, `.del` files of ids, and dictionaries `id TAB name`.
//!
//! LibKGE writes `dataset.files.train.filename` either nested or as one dotted key; both are accepted. A file that is
//! not listed is looked up under its usual name. Without dictionaries, the ids as text are the names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

use super::folder::{SPLITS, existing};
use super::ids::{Dictionary, Folder, read_dictionary, read_triples};
use super::{Columns, FileContents, FileReport, ReadOptions};
use crate::error::KgError;
use crate::memory;
use crate::triple::{EntityId, Id, RelationId};
use crate::vocabulary::{Names, Vocabulary};

/// A larger description is probably another file.
const MAX_DESCRIPTION: u64 = 1 << 16;

/// More unnamed ids than this are probably a mistake.
const MAX_NAMELESS: usize = 1 << 24;

/// The files of the folder, as far as its description can be parsed.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let path = folder.join("dataset.yaml");
    let mut files = Vec::new();
    if let Ok(description) = Description::read(&path) {
        for key in ["entity_ids", "relation_ids"].iter().chain(&SPLITS) {
            files.extend(description.file(folder, key, &format!("{key}.del"), false).ok().flatten());
        }
    }
    files.push(path);
    files
}

/// Reads the folder; names keep the ids of the files.
pub(crate) fn read(folder: &Path, names: &mut Names, options: &ReadOptions) -> Result<Folder, KgError> {
    let description = Description::read(&folder.join("dataset.yaml"))?;
    let mut dictionaries = Vec::new();
    let entities =
        description.names(folder, ["entity", "entities"], &mut names.entities, &mut dictionaries, options)?;
    let relations =
        description.names(folder, ["relation", "relations"], &mut names.relations, &mut dictionaries, options)?;
    let sizes = (entities.unwrap_or(usize::MAX), relations.unwrap_or(usize::MAX));
    let mut splits = [None, None, None];
    for (contents, split) in splits.iter_mut().zip(SPLITS) {
        if split != "train" && options.train_only {
            continue;
        }
        // Valid and test are optional; train is not.
        if let Some(path) = description.file(folder, split, &format!("{split}.del"), split == "train")? {
            *contents = Some(read_triples(&path, Columns::default(), false, sizes, options)?);
        }
    }
    if entities.is_none() || relations.is_none() {
        let triples: usize = splits.iter().flatten().map(|contents| contents.triples.len()).sum();
        memory::ensure(96 * triples as u64, "ids that no dictionary names", options.limits.memory)?;
    }
    if entities.is_none() {
        let ids = splits.iter().flatten().flat_map(|c| &c.triples).flat_map(|t| [t.head.0, t.tail.0]);
        let new_ids = name_by_id(ids, &mut names.entities);
        renumber(&mut splits, |triple| {
            triple.head = EntityId(new_ids[&triple.head.0]);
            triple.tail = EntityId(new_ids[&triple.tail.0]);
        });
    }
    if relations.is_none() {
        let ids = splits.iter().flatten().flat_map(|c| &c.triples).map(|t| t.relation.0);
        let new_ids = name_by_id(ids, &mut names.relations);
        renumber(&mut splits, |triple| triple.relation = RelationId(new_ids[&triple.relation.0]));
    }
    Ok(Folder { dictionaries, splits })
}

/// Names the occurring ids in id order; returns the new id of each.
fn name_by_id<I: Id>(ids: impl Iterator<Item = u32>, vocabulary: &mut Vocabulary<I>) -> BTreeMap<u32, u32> {
    let mut new_ids: BTreeMap<u32, u32> = ids.map(|id| (id, 0)).collect();
    for (id, new) in &mut new_ids {
        *new = vocabulary.intern(&id.to_string()).index() as u32;
    }
    new_ids
}

fn renumber(splits: &mut [Option<FileContents>; 3], change: impl Fn(&mut crate::Triple)) {
    splits.iter_mut().flatten().flat_map(|contents| &mut contents.triples).for_each(change);
}

/// `dataset.yaml`, with every value under its dotted path.
struct Description {
    path: PathBuf,
    values: BTreeMap<String, String>,
}

impl Description {
    fn read(path: &Path) -> Result<Self, KgError> {
        let problem = |message| KgError::Description { path: path.to_path_buf(), message };
        let file = File::open(path).map_err(KgError::io(path, "open"))?;
        let mut bytes = Vec::new();
        file.take(MAX_DESCRIPTION + 1).read_to_end(&mut bytes).map_err(KgError::io(path, "read"))?;
        if bytes.len() as u64 > MAX_DESCRIPTION {
            let size = std::fs::metadata(path).map_or(bytes.len() as u64, |metadata| metadata.len());
            return Err(problem(format!("{size} bytes are too many for a data set description")));
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
            problem(format!("line {line}: not valid UTF-8"))
        })?;
        let values = flatten(text).map_err(|error| {
            let (line, column) = (error.marker().line(), error.marker().col() + 1);
            problem(format!("line {line}, column {column}: not valid YAML: {}", error.info()))
        })?;
        Ok(Self { path: path.to_path_buf(), values })
    }

    fn problem(&self, message: String) -> KgError {
        KgError::Description { path: self.path.clone(), message }
    }

    /// The file under `key`; `None` if it is optional and missing.
    fn file(&self, folder: &Path, key: &str, usual: &str, needed: bool) -> Result<Option<PathBuf>, KgError> {
        let named = self.values.get(&format!("dataset.files.{key}.filename"));
        let name = named.map_or(usual, String::as_str);
        let path = existing(folder, name);
        match (path, named.is_some() || needed) {
            (None, true) if self.values.is_empty() => Err(self.problem(format!(
                "says nothing under `dataset`, and there is no {usual}\n  remedy: name the files under dataset.files"
            ))),
            // Opening it will report that it is missing, and its path.
            (None, true) => Ok(Some(folder.join(name))),
            (path, _) => Ok(path),
        }
    }

    /// Fills `vocabulary` from its dictionary or, without one, with the ids up to the stated number. Returns its size,
    /// or `None` if there is neither.
    fn names<I: Id>(
        &self,
        folder: &Path,
        [one, many]: [&'static str; 2],
        vocabulary: &mut Vocabulary<I>,
        dictionaries: &mut Vec<FileReport>,
        options: &ReadOptions,
    ) -> Result<Option<usize>, KgError> {
        let stated = match self.values.get(&format!("dataset.num_{many}")) {
            None => None,
            // LibKGE's value for "not counted yet".
            Some(text) if text == "-1" => None,
            Some(text) => Some(
                text.parse::<usize>()
                    .map_err(|_| self.problem(format!("num_{many} is {text:?}; it should be the number of {many}")))?,
            ),
        };
        let key = format!("{one}_ids");
        let Some(path) = self.file(folder, &key, &format!("{key}.del"), false)? else {
            if let Some(count) = stated.filter(|&count| count > MAX_NAMELESS) {
                return Err(self.problem(format!(
                    "num_{many} is {count}, but no file names them\n  remedy: name it under dataset.files.{key}"
                )));
            }
            for id in 0..stated.unwrap_or(0) {
                vocabulary.intern(&id.to_string());
            }
            return Ok(stated);
        };
        dictionaries.push(read_dictionary(&path, Dictionary::IdName, vocabulary, options)?);
        let count = vocabulary.len();
        if let Some(stated) = stated.filter(|&stated| stated != count && !options.lenient) {
            let description = self.path.clone();
            return Err(KgError::OtherCount { path: description, what: many, stated, file: path, found: count });
        }
        Ok(Some(count))
    }
}

/// An open mapping or list.
struct Level {
    /// In a mapping, the key whose value comes next.
    key: Option<String>,
    mapping: bool,
    /// Whether it is itself a key, which YAML allows.
    is_key: bool,
}

/// The scalars of a YAML text under their dotted paths. The first of two equal paths wins; lists are ignored.
///
/// It follows the parser's events instead of building a tree. A tree of a hundred thousand brackets could not be
/// dropped without overflowing the stack, and one of aliases can exceed any memory.
fn flatten(text: &str) -> Result<BTreeMap<String, String>, ScanError> {
    let mut values = BTreeMap::new();
    let mut levels: Vec<Level> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, _) = event?;
        let expects_key = levels.last().is_some_and(|level| level.mapping && level.key.is_none());
        // The finished key or value, as the key of the enclosing level.
        let key = match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let mapping = matches!(event, Event::MappingStart(..));
                levels.push(Level { key: None, mapping, is_key: expects_key });
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                levels.pop().and_then(|level| level.is_key.then(|| "?".to_string()))
            }
            Event::Alias(_) => expects_key.then(|| "?".to_string()),
            Event::Scalar(text, ..) if expects_key => Some(text.into_owned()),
            Event::Scalar(text, style, ..) => {
                let null = style == ScalarStyle::Plain && matches!(text.as_ref(), "" | "~" | "null");
                if !null && levels.iter().all(|level| level.mapping) {
                    let path: Vec<&str> = levels.iter().filter_map(|level| level.key.as_deref()).collect();
                    values.entry(path.join(".")).or_insert_with(|| text.into_owned());
                }
                None
            }
            _ => continue,
        };
        if let Some(level) = levels.last_mut() {
            level.key = key;
        }
    }
    Ok(values)
}
