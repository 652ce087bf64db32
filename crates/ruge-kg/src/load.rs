//! What loading a data set found: what was read, what was left out, and what makes results on it doubtful.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::dataset::Dataset;
use crate::io::folder::SPLITS;
use crate::io::{Columns, FileReport};
use crate::triple::{EntityId, RelationId, Triple};
use crate::visible::plural;

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
    /// Label files that were read.
    pub labels: Vec<LabelFile>,
    /// Entities with a label.
    pub labelled: usize,
    /// Entities with a type.
    pub typed: usize,
    /// What makes results on these data doubtful.
    pub warnings: Vec<Warning>,
}

/// A label file that was read.
#[derive(Clone, Debug, Serialize)]
pub struct LabelFile {
    /// The file.
    pub path: PathBuf,
    /// Rows that name something.
    pub rows: usize,
    /// Names of the graph among them.
    pub known: usize,
}

/// Something about the data that makes results on them doubtful.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Warning {
    /// Test triples that are trained on.
    TestInTrain {
        /// How many.
        shared: usize,
        /// Of how many.
        test: usize,
    },
    /// Test triples about names that train lacks.
    TestUnseen {
        /// How many.
        unseen: usize,
        /// Of how many.
        test: usize,
    },
    /// Relations of train that the split left without a test triple.
    Untested {
        /// How many.
        relations: usize,
        /// Of how many.
        of: usize,
        /// The largest of them, with their facts in train.
        first: Vec<(String, usize)>,
    },
    /// So many relations that another column probably holds them.
    ColumnOrder {
        /// Relations.
        relations: usize,
        /// Triples.
        triples: usize,
        /// Relations that are entities, too.
        also_entities: usize,
    },
    /// A first line whose names occur nowhere else.
    MaybeHeader {
        /// The file.
        path: PathBuf,
        /// The line, as three names.
        names: [String; 3],
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::TestInTrain { shared, test } if shared == test => {
                write!(f, "all {test} test triples are in train: nothing can be concluded from a test on them")
            }
            Warning::TestInTrain { shared, test } => {
                write!(f, "{shared} of {test} test triples are in train, so a test on them partly repeats training")
            }
            Warning::TestUnseen { unseen, test } => write!(
                f,
                "{unseen} of {test} test triples have an entity or relation that train lacks, about which nothing is learned; do \
                 the files belong together?"
            ),
            Warning::Untested { relations, of, first } => {
                let more = if *relations > first.len() { ", …" } else { "" };
                let have = verb(*relations, ["has", "have"]);
                let named = first.iter().map(|(name, facts)| format!("{name} with {}", counted(*facts, "fact")));
                write!(
                    f,
                    "{relations} of {} {have} no test triple after the split ({}{more})",
                    counted(*of, "relation"),
                    named.collect::<Vec<_>>().join(", ")
                )
            }
            Warning::ColumnOrder { relations, triples, also_entities: 0 } => {
                write!(f, "{relations} relations for {triples} triples: is the column order right?")
            }
            Warning::ColumnOrder { relations, triples, also_entities } => write!(
                f,
                "{relations} relations for {triples} triples, and {also_entities} of them are entities, too: is the column order \
                 right?"
            ),
            Warning::MaybeHeader { path, names } => write!(
                f,
                "{}: the first line was read as a triple ({}), but its names occur nowhere else: is it a header?",
                path.display(),
                names.join(", ")
            ),
        }
    }
}

/// A count with its noun.
fn counted(count: impl TryInto<usize>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(usize::MAX);
    format!("{count} {}", plural(count, noun))
}

/// The form of a verb that goes with a count.
fn verb(count: impl TryInto<usize>, [one, many]: [&'static str; 2]) -> &'static str {
    if count.try_into().unwrap_or(usize::MAX) == 1 { one } else { many }
}

/// Share of test, in percent, from which being in train is heavy overlap.
const HEAVY: usize = 10;

/// Names listed in a warning.
const NAMED: usize = 5;

/// Triples from which the look of a graph says something.
const ENOUGH: usize = 20;

/// What makes a test on these triples doubtful.
pub fn of_test(data: &Dataset, test: &[Triple]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let graph = data.graph();
    let shared = test.iter().filter(|&&triple| graph.contains(triple)).count();
    if shared > 0 && 100 * shared >= HEAVY * test.len() {
        warnings.push(Warning::TestInTrain { shared, test: test.len() });
    }
    let known = |triple: &Triple| {
        graph.degree(triple.head) > 0 && graph.degree(triple.tail) > 0 && !graph.facts(triple.relation).is_empty()
    };
    let unseen = test.iter().filter(|triple| !known(triple)).count();
    if unseen > 0 && 2 * unseen >= test.len() {
        warnings.push(Warning::TestUnseen { unseen, test: test.len() });
    }
    warnings
}

/// What makes results on the data doubtful. `first` is the first triple of a table without header, with its file.
pub(crate) fn warnings(data: &Dataset, split_here: bool, first: Option<(&Path, Triple)>) -> Vec<Warning> {
    let (graph, test) = (data.graph(), data.test());
    let mut warnings = of_test(data, test);
    let mut tested = vec![false; data.relation_count()];
    test.iter().for_each(|triple| tested[triple.relation.index()] = true);
    let mut untested: Vec<RelationId> = graph.relations().filter(|relation| !tested[relation.index()]).collect();
    if split_here && !test.is_empty() && !untested.is_empty() {
        untested.sort_by_key(|&relation| std::cmp::Reverse(graph.facts(relation).len()));
        let named = |&id: &RelationId| (data.names().relations.name(id).to_string(), graph.facts(id).len());
        let first = untested.iter().take(NAMED).map(named).collect();
        warnings.push(Warning::Untested { relations: untested.len(), of: data.relation_count(), first });
    }
    let triples = data.train().len() + data.valid().len() + test.len();
    let relations = data.relation_count();
    if triples >= ENOUGH {
        let names = data.names();
        let also_entities = names.relations.iter().filter(|(_, name)| names.entities.id(name).is_some()).count();
        let tails = || data.graph().entities().filter(|&entity| is_tail(data, entity)).count();
        let few_tails = || relations >= 50 && 10 * relations >= triples && 3 * tails() < relations;
        if few_tails() || (relations >= NAMED && 2 * also_entities >= relations) {
            warnings.push(Warning::ColumnOrder { relations, triples, also_entities });
        }
    }
    if let Some((path, triple)) = first
        && triples >= ENOUGH
        && triples >= NAMED * relations
        && [triple.head, triple.tail].iter().all(|&entity| graph.degree(entity) == 1)
        && graph.facts(triple.relation).len() == 1
    {
        let names = data.show(triple).map(str::to_string);
        warnings.push(Warning::MaybeHeader { path: path.to_path_buf(), names });
    }
    warnings
}

fn is_tail(data: &Dataset, entity: EntityId) -> bool {
    data.graph().adjacency().labels(entity).iter().any(|label| label.is_inverse())
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
                let (lines, end) = (counted(file.crlf_lines, "line"), verb(file.crlf_lines, ["ends", "end"]));
                notes.push(format!("{name}: {lines} {end} in CR LF; the CR is not part of the tail"));
            }
            if let Some(columns) = file.columns.filter(|columns| *columns != Columns::default()) {
                let Columns { head, relation, tail, .. } = columns;
                notes.push(format!(
                    "{name}: head, relation and tail are the columns {}, {} and {}",
                    head + 1,
                    relation + 1,
                    tail + 1
                ));
            }
            if file.literals > 0 {
                let what = match file.literals_skipped {
                    true => verb(file.literals, ["was left out", "were left out"]),
                    false => verb(file.literals, ["is read as an entity", "are read as entities"]),
                };
                notes.push(format!("{name}: {} {what}", counted(file.literals, "literal")));
            }
            if file.graphs > 0 {
                let other = match file.other_graphs {
                    0 if file.graphs == 1 => String::new(),
                    0 => "; they are read as one".to_string(),
                    n => {
                        let are = verb(n, ["is", "are"]);
                        format!("; {} of graphs that were not chosen {are} left out", counted(n, "statement"))
                    }
                };
                notes.push(format!("{name}: {}{other}", counted(file.graphs, "named graph")));
            }
            if file.blank_lines > 0 {
                notes.push(format!("{name}: {} skipped", counted(file.blank_lines, "blank or comment line")));
            }
            if file.trimmed_fields > 0 {
                let were = verb(file.trimmed_fields, ["was", "were"]);
                let fields = counted(file.trimmed_fields, "field");
                notes.push(format!("{name}: {fields} {were} trimmed of surrounding blanks"));
            }
            if file.triples == 0 && file.dictionary.is_none() {
                notes.push(format!("{name}: no triples"));
            }
            for (reason, count) in &file.bad_by_reason {
                notes.push(format!("{name}: {} skipped: {reason}", counted(*count, "line")));
            }
            for problem in &file.problems {
                notes.push(format!("skipped {problem}"));
            }
        }
        for (split, duplicates) in SPLITS.iter().zip(&self.duplicates) {
            if duplicates.count > 0 {
                let places: Vec<String> =
                    duplicates.first.iter().map(|(path, line)| format!("{}:{line}", path.display())).collect();
                let places =
                    if places.is_empty() { String::new() } else { format!(" (first at {})", places.join(", ")) };
                let (triples, are) =
                    (counted(duplicates.count, "repeated triple"), verb(duplicates.count, ["is", "are"]));
                notes.push(format!("{triples} in {split} {are} counted once{places}"));
            }
        }
        for LabelFile { path, rows, known } in &self.labels {
            notes.push(format!("{}: {}, {known} about names of the graph", path.display(), counted(*rows, "row")));
        }
        if self.labelled > 0 {
            let have = verb(self.labelled, ["has", "have"]);
            notes.push(format!("{} {have} a label", counted(self.labelled, "entity")));
        }
        notes
    }
}
