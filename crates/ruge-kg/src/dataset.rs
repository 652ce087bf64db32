//! A data set: names, an indexed training graph, and two held-out splits.
//!
//! Models and miners learn from `train` only; `valid` and `test` are lists. Repeated triples within a split are dropped
//! and counted. A name that occurs only in valid or test still gets an id: such triples are part of the evaluation, and
//! [`stats`](crate::stats) counts them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::error::KgError;
use crate::graph::{Filter, Graph};
use crate::io::folder::{Layout, SPLITS};
use crate::io::{self, FileContents, FileReport, LineMap, REPEATS_SHOWN, ReadOptions, Repeats, split};
use crate::memory;
use crate::triple::{EntityId, RelationId, Triple};
use crate::vocabulary::Names;

/// Train, valid and test over one vocabulary.
#[derive(Debug)]
pub struct Dataset {
    names: Names,
    graph: Arc<Graph>,
    train: Vec<Triple>,
    valid: Vec<Triple>,
    test: Vec<Triple>,
    filter: OnceLock<Filter>,
    choosing_filter: OnceLock<Filter>,
}

impl Dataset {
    /// Builds a data set. Of repeated triples within a split, only the first is kept.
    pub fn new(names: Names, train: Vec<Triple>, valid: Vec<Triple>, test: Vec<Triple>) -> Self {
        Self::assemble(names, [train, valid, test]).0
    }

    /// [`Dataset::new`], with the positions of the dropped triples.
    fn assemble(mut names: Names, splits: [Vec<Triple>; 3]) -> (Self, [Removed; 3]) {
        names.entities.shrink();
        names.relations.shrink();
        let (entities, relations) = (names.entities.len(), names.relations.len());
        let [mut train, mut valid, mut test] = splits;
        let graph = Arc::new(Graph::new(entities, relations, &train));
        // The graph has already counted: most training files repeat nothing and need no second pass.
        let in_train = if graph.len() == train.len() { Removed::default() } else { remove_repeated(&mut train) };
        let in_valid = remove_repeated(&mut valid);
        let in_test = remove_repeated(&mut test);
        (
            Self { names, graph, train, valid, test, filter: OnceLock::new(), choosing_filter: OnceLock::new() },
            [in_train, in_valid, in_test],
        )
    }

    /// Loads `data`: `demo`, a folder, or a single file, which is split.
    pub fn load(data: &Path, options: &ReadOptions) -> Result<(Self, LoadReport), KgError> {
        let layout = Layout::find(data)?;
        let mut options = options.clone();
        options.limits.repeats.get_or_insert(MANY);
        let options = &options;
        let mut names = Names::default();
        let mut held_out_now = false;
        let mut files = Vec::new();
        let contents: [Option<FileContents>; 3] = match &layout {
            Layout::Demo => {
                let text = crate::demo::WORLD.as_bytes();
                held_out_now = true;
                [Some(io::read_bytes(Path::new("demo"), text, &mut names, options)?), None, None]
            }
            Layout::Single(path) => {
                held_out_now = true;
                [Some(io::read_file(path, &mut names, options)?), None, None]
            }
            Layout::Splits(paths) => {
                let mut contents = [None, None, None];
                for (split, path) in paths.iter().enumerate() {
                    if let Some(path) = path
                        && (split == 0 || !options.train_only)
                    {
                        contents[split] = Some(io::read_file(path, &mut names, options)?);
                    }
                }
                contents
            }
            Layout::OpenKe(folder) => io::openke(folder, &mut names, options)?.with_reports(&mut files),
            Layout::LibKge(folder) => io::libkge(folder, &mut names, options)?.with_reports(&mut files),
        };
        if let [Some(train), ..] = &contents
            && train.triples.is_empty()
        {
            return Err(KgError::Empty { path: train.report.path.clone() });
        }
        let mut maps: [Option<(PathBuf, LineMap)>; 3] = [None, None, None];
        let mut dropped: [Repeats; 3] = Default::default();
        let mut read = [0; 3];
        let mut splits: [Vec<Triple>; 3] = Default::default();
        for (split, contents) in contents.into_iter().enumerate() {
            if let Some(contents) = contents {
                maps[split] = Some((contents.report.path.clone(), contents.lines));
                dropped[split] = contents.repeated;
                read[split] = contents.report.triples;
                splits[split] = contents.triples;
                files.push(contents.report);
            }
        }
        require_room(&names, &splits, options)?;
        let mut repeated: [Removed; 3] = Default::default();
        if held_out_now {
            // Duplicates must be removed before the split, or one copy would be trained on and the other tested.
            repeated[0] = remove_repeated(&mut splits[0]);
            let held_out = match layout {
                Layout::Demo => crate::demo::HELD_OUT,
                _ => options.held_out,
            };
            let seed = if layout == Layout::Demo { crate::demo::SEED } else { options.seed };
            let parts = split::split(names.entities.len(), names.relations.len(), &splits[0], held_out, seed);
            splits = [parts.train, parts.valid, parts.test];
        }
        let (dataset, removed) = Self::assemble(names, splits);
        if !held_out_now {
            repeated = removed;
        }
        // Copies were dropped in two places: some while reading, the rest here.
        let duplicates = [0, 1, 2].map(|split| Duplicates {
            count: dropped[split].count + repeated[split].count,
            first: maps[split].as_ref().map_or_else(Vec::new, |(path, lines)| {
                let here = repeated[split].first.iter().map(|&index| lines.line(index));
                let mut places: Vec<u64> = dropped[split].first.iter().copied().chain(here).collect();
                places.sort_unstable();
                places.into_iter().take(REPEATS_SHOWN).map(|line| (path.clone(), line)).collect()
            }),
        });
        Ok((dataset, LoadReport { layout: layout.name(), files, read, duplicates, split_here: held_out_now }))
    }

    /// The same facts in other ids, with the names of these ids. Facts with an entity or relation that has no id there are left
    /// out; their number by split is returned.
    pub fn translated(
        &self,
        names: Names,
        entity: impl Fn(EntityId) -> Option<EntityId>,
        relation: impl Fn(RelationId) -> Option<RelationId>,
    ) -> (Self, [usize; 3]) {
        let there =
            |t: &Triple| Some(Triple { head: entity(t.head)?, relation: relation(t.relation)?, tail: entity(t.tail)? });
        let splits = [&self.train, &self.valid, &self.test];
        let translated = splits.map(|split| split.iter().filter_map(there).collect::<Vec<_>>());
        let lost = std::array::from_fn(|at| splits[at].len() - translated[at].len());
        (Self::assemble(names, translated).0, lost)
    }

    /// Entity and relation names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Number of entities in all splits.
    pub fn entity_count(&self) -> usize {
        self.names.entities.len()
    }

    /// Number of relations in all splits.
    pub fn relation_count(&self) -> usize {
        self.names.relations.len()
    }

    /// The training graph, indexed.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The training graph, shared: for values that outlive the data set, such as a model that ranks by walks.
    pub fn shared_graph(&self) -> Arc<Graph> {
        Arc::clone(&self.graph)
    }

    /// The training triples in file order, each once.
    pub fn train(&self) -> &[Triple] {
        &self.train
    }

    /// The validation triples in file order, each once.
    pub fn valid(&self) -> &[Triple] {
        &self.valid
    }

    /// The test triples in file order, each once.
    pub fn test(&self) -> &[Triple] {
        &self.test
    }

    /// A split by its name.
    pub fn split(&self, name: &str) -> Option<&[Triple]> {
        match name {
            "train" => Some(&self.train),
            "valid" => Some(&self.valid),
            "test" => Some(&self.test),
            _ => None,
        }
    }

    /// The known facts of all splits. Built on first use, since mining never needs it.
    pub fn filter(&self) -> &Filter {
        self.filter.get_or_init(|| Filter::beside(&self.graph, &[&self.valid, &self.test]))
    }

    /// The known facts of train and validation, for choices that may not look at test. Built on first use.
    pub fn choosing_filter(&self) -> &Filter {
        self.choosing_filter.get_or_init(|| Filter::beside(&self.graph, &[&self.valid]))
    }

    /// The names of a triple.
    pub fn show(&self, triple: Triple) -> [&str; 3] {
        [
            self.names.entities.name(triple.head),
            self.names.relations.name(triple.relation),
            self.names.entities.name(triple.tail),
        ]
    }
}

/// Minimum number of triples before copies are dropped while reading. Smaller files do not need the memory.
const MANY: usize = 1 << 20;

/// Maximum triples in a split: each has two edges, counted in 32 bits.
const MAX_TRIPLES: usize = u32::MAX as usize / 2 - 1;

/// Rejects data that cannot be indexed: too many triples for 32-bit ids, or too much for the available memory.
fn require_room(names: &Names, splits: &[Vec<Triple>; 3], options: &ReadOptions) -> Result<(), KgError> {
    let [train, valid, test] = splits.each_ref().map(Vec::len);
    if train.max(valid + test) > MAX_TRIPLES {
        return Err(KgError::TooMany { what: "triples of a split", most: MAX_TRIPLES });
    }
    // Two sorted lists, neighbours and links in both directions, label runs, and a set while copies are removed.
    let triples = 96 * (train + valid + test) as u64;
    let ids = 40 * names.entities.len() as u64 + 160 * names.relations.len() as u64;
    memory::ensure(triples + ids, "the indexes of the graph", options.limits.memory)
}

/// Positions of removed copies.
#[derive(Default)]
struct Removed {
    count: usize,
    first: Vec<usize>,
}

/// Keeps the first of equal triples.
fn remove_repeated(triples: &mut Vec<Triple>) -> Removed {
    let mut seen = FxHashSet::with_capacity_and_hasher(triples.len(), Default::default());
    let mut index = 0;
    let mut removed = Removed::default();
    triples.retain(|&triple| {
        let new = seen.insert(triple);
        if !new {
            removed.count += 1;
            if removed.first.len() < REPEATS_SHOWN {
                removed.first.push(index);
            }
        }
        index += 1;
        new
    });
    removed
}

/// Repeated triples in one split.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Duplicates {
    /// How many copies were dropped.
    pub count: usize,
    /// File and line of the first ones.
    pub first: Vec<(PathBuf, u64)>,
}

/// What loading found.
#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    /// The layout, in words.
    pub layout: &'static str,
    /// One report per file read.
    pub files: Vec<FileReport>,
    /// Triples read per split, including repetitions.
    pub read: [usize; 3],
    /// Repetitions per split.
    pub duplicates: [Duplicates; 3],
    /// Whether the file was split into train, valid and test while loading.
    pub split_here: bool,
}

impl LoadReport {
    /// Lines skipped in all files.
    pub fn bad_lines(&self) -> u64 {
        self.files.iter().map(|file| file.bad_lines).sum()
    }

    /// Notes for the user, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for file in &self.files {
            let name = file.path.display();
            if file.bom {
                notes.push(format!("{name}: a byte-order mark at the start was ignored"));
            }
            if let Some(header) = &file.header {
                notes.push(format!(
                    "{name}: the first line is a header and was skipped ({})",
                    crate::error::shown(header.as_bytes())
                ));
            }
            if file.crlf_lines > 0 {
                notes.push(format!("{name}: {} lines end in CR LF; the CR is not part of the tail", file.crlf_lines));
            }
            if file.blank_lines > 0 {
                notes.push(format!("{name}: {} blank or comment lines skipped", file.blank_lines));
            }
            if file.trimmed_fields > 0 {
                notes.push(format!("{name}: {} fields were trimmed of surrounding blanks", file.trimmed_fields));
            }
            if file.triples == 0 && file.dictionary.is_none() {
                notes.push(format!("{name}: no triples"));
            }
            for (reason, count) in &file.bad_by_reason {
                notes.push(format!("{name}: {count} lines skipped: {reason}"));
            }
            for problem in &file.problems {
                notes.push(format!("skipped {problem}"));
            }
        }
        for (split, duplicates) in SPLITS.iter().zip(&self.duplicates) {
            if duplicates.count > 0 {
                let places: Vec<String> =
                    duplicates.first.iter().map(|(path, line)| format!("{}:{line}", path.display())).collect();
                notes.push(format!(
                    "{} repeated triples in {split} are counted once (first at {})",
                    duplicates.count,
                    places.join(", ")
                ));
            }
        }
        notes
    }
}
