//! A data set: names, an indexed training graph, and two held-out splits.
//!
//! Models and miners learn from `train` only; `valid` and `test` are lists. Repeated triples within a split are dropped
//! and counted. A name that occurs only in valid or test still gets an id: such triples are part of the evaluation, and
//! [`stats`](crate::stats) counts them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashSet;

use crate::error::KgError;
use crate::graph::{Filter, Graph};
use crate::io::folder::Layout;
use crate::io::{self, FileContents, LineMap, REPEATS_SHOWN, ReadOptions, Repeats, split};
use crate::labels::{Labels, RDF_TYPE, Sayings};
use crate::load::{self, Duplicates, LabelFile, LoadReport};
use crate::memory;
use crate::prefixes::Prefixes;
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
    labels: Labels,
    declared: Vec<(String, String)>,
    prefixes: OnceLock<Prefixes>,
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
            Self {
                names,
                graph,
                train,
                valid,
                test,
                filter: OnceLock::new(),
                choosing_filter: OnceLock::new(),
                labels: Labels::default(),
                declared: Vec::new(),
                prefixes: OnceLock::new(),
            },
            [in_train, in_valid, in_test],
        )
    }

    /// Loads `data`: `demo`, a folder, a single file or archive, or several files; what is not split already is split.
    pub fn load(data: &Path, options: &ReadOptions) -> Result<(Self, LoadReport), KgError> {
        let layout = Layout::find(data)?;
        let mut options = options.clone();
        options.limits.repeats.get_or_insert(MANY);
        let options = &options;
        let mut names = Names::default();
        let mut files = Vec::new();
        let mut label_files = options.labels.clone();
        let mut read_file = |path: &Path| io::read_file(path, &mut names, options).map(|contents| vec![contents]);
        let contents: [Vec<FileContents>; 3] = match &layout {
            Layout::Demo => {
                let text = crate::demo::WORLD.as_bytes();
                [vec![io::read_bytes(Path::new("demo"), text, &mut names, options)?], vec![], vec![]]
            }
            Layout::Single(path) => [read_file(path)?, vec![], vec![]],
            Layout::Several(paths) => {
                let (nodes, edges): (Vec<&PathBuf>, Vec<&PathBuf>) =
                    paths.iter().partition(|path| io::is_nodes(path, options.limits));
                label_files.extend(nodes.into_iter().cloned());
                let read: Result<Vec<_>, _> = edges.into_iter().map(|path| read_file(path)).collect();
                [read?.into_iter().flatten().collect(), vec![], vec![]]
            }
            Layout::Splits(paths) => {
                let mut contents: [Vec<FileContents>; 3] = Default::default();
                for (split, path) in paths.iter().enumerate() {
                    if let Some(path) = path
                        && (split == 0 || !options.train_only)
                    {
                        contents[split] = read_file(path)?;
                    }
                }
                contents
            }
            Layout::OpenKe(folder) => {
                io::openke(folder, &mut names, options)?.with_reports(&mut files).map(|it| it.into_iter().collect())
            }
            Layout::LibKge(folder) => {
                io::libkge(folder, &mut names, options)?.with_reports(&mut files).map(|it| it.into_iter().collect())
            }
        };
        require_triples(data, &contents[0])?;
        let first = first_triple(&contents[0]);
        let mut sayings = Vec::new();
        let mut labels = Vec::new();
        for path in &label_files {
            let (said, rows) = io::read_labels(path, options)?;
            labels.push(LabelFile { path: path.clone(), rows, known: 0 });
            sayings.push(said);
        }
        let mut declared = Vec::new();
        let mut parts: [Vec<Part>; 3] = Default::default();
        let mut read = [0; 3];
        let mut splits: [Vec<Triple>; 3] = Default::default();
        for (split, contents) in contents.into_iter().enumerate() {
            for contents in contents {
                let FileContents { triples, lines, repeated, report, lineless, found } = contents;
                sayings.push(found.sayings);
                declared.extend(found.prefixes);
                read[split] += report.triples;
                let start = splits[split].len();
                parts[split].push(Part {
                    path: report.path.clone(),
                    lines: (!lineless).then_some(lines),
                    repeated,
                    start,
                });
                if splits[split].is_empty() {
                    splits[split] = triples;
                } else {
                    memory::reserve(&mut splits[split], triples.len(), "triples", options.limits.memory)?;
                    splits[split].extend(triples);
                }
                files.push(report);
            }
        }
        require_room(&names, &splits, options)?;
        let train_alone = options.split_train && matches!(layout, Layout::Splits([Some(_), None, None]));
        let split_here = train_alone || matches!(layout, Layout::Demo | Layout::Single(_) | Layout::Several(_));
        let mut repeated: [Removed; 3] = Default::default();
        if split_here {
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
        let (mut dataset, removed) = Self::assemble(names, splits);
        if !split_here {
            repeated = removed;
        }
        let duplicates = [0, 1, 2].map(|split| duplicates(&parts[split], &repeated[split]));
        dataset.declared = declared;
        for (at, said) in sayings.iter().enumerate() {
            let known = dataset.labels.add(said, &dataset.names);
            if let Some(file) = labels.get_mut(at) {
                file.known = known;
            }
        }
        dataset.add_types();
        let first = first.as_ref().map(|(path, triple)| (path.as_path(), *triple));
        let warnings = match layout {
            // The demo graph is what it is.
            Layout::Demo => Vec::new(),
            _ => load::warnings(&dataset, split_here, first),
        };
        let (labelled, typed) = (dataset.labels.labelled(), dataset.labels.typed());
        let layout = if train_alone { "folder with train alone, split here" } else { layout.name() };
        Ok((dataset, LoadReport { layout, files, read, duplicates, split_here, labels, labelled, typed, warnings }))
    }

    /// The tails of `rdf:type` are types as well as entities.
    fn add_types(&mut self) {
        let Some(relation) = self.names.relations.id(RDF_TYPE) else { return };
        let mut sayings = Sayings::default();
        for split in [&self.train, &self.valid, &self.test] {
            for triple in split.iter().filter(|triple| triple.relation == relation) {
                let [head, _, tail] = self.show(*triple);
                sayings.hear_type(head, tail);
            }
        }
        self.labels.add(&sayings, &self.names);
    }

    /// The same data with these labels.
    #[must_use]
    pub fn with_labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// The same data with prefixes that a file declared.
    #[must_use]
    pub fn with_prefixes(mut self, declared: Vec<(String, String)>) -> Self {
        self.declared = declared;
        self.prefixes = OnceLock::new();
        self
    }

    /// Labels, descriptions and types of the names.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Prefixes that files declared, with their namespaces.
    pub fn declared_prefixes(&self) -> &[(String, String)] {
        &self.declared
    }

    /// Short forms of the IRIs among the names. Found on first use.
    pub fn prefixes(&self) -> &Prefixes {
        self.prefixes.get_or_init(|| Prefixes::of(&self.declared, &self.names))
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
        let mut there = Self::assemble(names, translated).0;
        there.labels = self.labels.translated(&entity, &relation);
        there.declared = self.declared.clone();
        (there, lost)
    }

    /// The same facts, all of them in train, with the same labels.
    pub fn merged(&self) -> Self {
        let all = [&self.train, &self.valid, &self.test].into_iter().flatten().copied().collect();
        let merged = Self::new(self.names.clone(), all, Vec::new(), Vec::new());
        merged.with_labels(self.labels.clone()).with_prefixes(self.declared.clone())
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

    /// An entity as people read it: `Germany (Q183)` with a label, an IRI in its short form, any other name as it is.
    pub fn called_entity(&self, id: EntityId) -> String {
        called(self.labels.entity(id), self.names.entities.name(id), self.prefixes())
    }

    /// A relation as people read it.
    pub fn called_relation(&self, id: RelationId) -> String {
        called(self.labels.relation(id), self.names.relations.name(id), self.prefixes())
    }

    /// The entities that a person may mean: the one of this name, or of this short form of an IRI, or those of this label.
    pub fn entities_meant(&self, text: &str) -> Vec<EntityId> {
        let names = &self.names.entities;
        let exact = names.id(text).or_else(|| names.id(&self.prefixes().expand(text)?));
        exact.map_or_else(|| self.labels.entities_called(text), |id| vec![id])
    }

    /// The relations that a person may mean, likewise.
    pub fn relations_meant(&self, text: &str) -> Vec<RelationId> {
        let names = &self.names.relations;
        let exact = names.id(text).or_else(|| names.id(&self.prefixes().expand(text)?));
        exact.map_or_else(|| self.labels.relations_called(text), |id| vec![id])
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

fn called(label: Option<&str>, name: &str, prefixes: &Prefixes) -> String {
    let short = prefixes.shorten(name);
    match label {
        // A label that repeats the name tells nothing.
        Some(label) if label != short.rsplit_once(':').map_or(name, |(_, local)| local) => format!("{label} ({short})"),
        _ => short.into_owned(),
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

/// An error if nothing was read to learn from.
fn require_triples(data: &Path, train: &[FileContents]) -> Result<(), KgError> {
    if train.iter().any(|contents| !contents.triples.is_empty()) {
        return Ok(());
    }
    let path = train.first().map_or(data, |contents| &contents.report.path).to_path_buf();
    match train.iter().map(|contents| contents.report.literals).sum() {
        0 => Err(KgError::Empty { path }),
        count => Err(KgError::OnlyLiterals { path, count }),
    }
}

/// The first triple of a table that begins with one.
fn first_triple(train: &[FileContents]) -> Option<(PathBuf, Triple)> {
    let contents = train.first()?;
    let plain = contents.report.columns.is_some() && contents.report.header.is_none();
    let triple = contents.triples.first().filter(|_| plain && contents.lines.line(0) == 1)?;
    Some((contents.report.path.clone(), *triple))
}

/// Where the triples of a file are in their split.
struct Part {
    path: PathBuf,
    /// Nothing where triples have no lines.
    lines: Option<LineMap>,
    repeated: Repeats,
    start: usize,
}

/// Copies were dropped in two places: some while reading, the rest when the split was put together.
fn duplicates(parts: &[Part], removed: &Removed) -> Duplicates {
    let dropped: usize = parts.iter().map(|part| part.repeated.count).sum();
    let mut first = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let Some(lines) = &part.lines else { continue };
        let end = parts.get(at + 1).map_or(usize::MAX, |next| next.start);
        let here = removed.first.iter().filter(|&&index| (part.start..end).contains(&index));
        let here = here.map(|&index| lines.line(index - part.start));
        let mut places: Vec<u64> = part.repeated.first.iter().copied().chain(here).collect();
        places.sort_unstable();
        first.extend(places.into_iter().map(|line| (part.path.clone(), line)));
    }
    first.truncate(REPEATS_SHOWN);
    Duplicates { count: dropped + removed.count, first }
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
