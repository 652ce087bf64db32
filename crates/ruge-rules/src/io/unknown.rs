//! Relations that occur in rules but not in the graph.

use std::fmt;

use ruge_kg::{Names, RelationId};
use rustc_hash::FxHashSet;
use serde::Serialize;

use super::RuleFile;

/// With more unknown names than this, no suggestions are made: the file is for another graph.
const SUGGESTED: usize = 20;

/// A relation without triples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UnknownRelation {
    /// The first rule that uses it.
    pub line: u64,
    /// Its name.
    pub name: String,
    /// The closest name in the graph, if any.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnknownRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no training triple has the relation {:?}", self.name)?;
        self.suggestion.as_ref().map_or(Ok(()), |name| write!(f, "; did you mean {name:?}?"))
    }
}

/// The relations of `file` with ids from `known` on, each once. `known` is the graph's number of relations.
pub fn unknown_relations(file: &RuleFile, known: usize, names: &Names) -> Vec<UnknownRelation> {
    let mut seen: FxHashSet<RelationId> = FxHashSet::default();
    let mut unknown = Vec::new();
    for record in &file.rules {
        for atom in record.rule.atoms() {
            if atom.relation.index() < known || !seen.insert(atom.relation) {
                continue;
            }
            let name = names.relations.name(atom.relation);
            let suggestion = if unknown.len() < SUGGESTED { nearest(name, known, names) } else { None };
            unknown.push(UnknownRelation { line: record.line, name: name.to_string(), suggestion });
        }
    }
    unknown
}

fn nearest(name: &str, known: usize, names: &Names) -> Option<String> {
    let candidates = names.relations.iter().take(known);
    let scored = candidates.map(|(_, other)| (strsim::normalized_damerau_levenshtein(name, other), other));
    let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score >= 0.6).then(|| best.to_string())
}
