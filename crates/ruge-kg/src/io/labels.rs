//! Label files: tables of name, label, description and type.
//!
//! A header is recognised by its words, in any order and among other columns. Neo4j's node files (`:ID,name,:LABEL`) and the node tables of
//! other exports (`id,name,kind`) are label files, too, and RDF with labels is one. Without a header the columns are name, label, description, type.

use std::path::Path;

use super::csv::records;
use super::{BOM, Format, Limits, ReadOptions, foreign_encoding};
use crate::error::KgError;
use crate::labels::{Said, Sayings};
use crate::vocabulary::Names;

/// The places of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Places {
    name: usize,
    label: Option<usize>,
    description: Option<usize>,
    kind: Option<usize>,
}

/// What is said in a label file, and the number of its rows.
pub(crate) fn read(path: &Path, options: &ReadOptions) -> Result<(Sayings, usize), KgError> {
    if Format::from_name(path).is_some_and(|format| !format.is_table()) {
        // RDF says labels among other things; its triples are not wanted here.
        let said = super::read_file(path, &mut Names::default(), options)?.found.sayings;
        let count = said.len();
        return Ok((said, count));
    }
    let limits = options.limits;
    let bytes = super::read_whole(path, limits)?;
    if let Some(encoding) = foreign_encoding(&bytes) {
        return Err(KgError::Encoding { path: path.to_path_buf(), encoding });
    }
    let text = bytes.strip_prefix(BOM).unwrap_or(&bytes);
    let problem = |message: String| KgError::Description { path: path.to_path_buf(), message };
    if let Err(error) = std::str::from_utf8(text) {
        let line = 1 + text[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        return Err(problem(format!("line {line}: not valid UTF-8\n  remedy: convert the file to UTF-8")));
    }
    let separator = separator(path, text);
    let mut rows = records(text, separator).filter(|row| row.iter().any(|field| !field.trim().is_empty())).peekable();
    let Some(first) = rows.peek() else { return Err(problem("no labels: the file is empty".into())) };
    let places = match places(first) {
        Some(places) => {
            rows.next();
            places
        }
        None if first.len() < 2 => {
            return Err(problem(
                "no labels: its rows have one field\n  remedy: give name, label, description and type, separated by tabs or \
                 commas"
                    .into(),
            ));
        }
        None => {
            let column = |at: usize| (at < first.len()).then_some(at);
            Places { name: 0, label: column(1), description: column(2), kind: column(3) }
        }
    };
    let mut sayings = Sayings::default();
    let mut count = 0;
    for row in rows {
        let field =
            |at: Option<usize>| at.and_then(|at| row.get(at)).map(|field| field.trim()).filter(|it| !it.is_empty());
        let Some(name) = field(Some(places.name)) else { continue };
        count += 1;
        if let Some(label) = field(places.label) {
            sayings.hear(name, Said::Label, label, 0);
        }
        if let Some(description) = field(places.description) {
            sayings.hear(name, Said::Description, description, 0);
        }
        let kinds = field(places.kind).into_iter().flat_map(|kinds| kinds.split(';'));
        kinds.map(str::trim).filter(|kind| !kind.is_empty()).for_each(|kind| sayings.hear_type(name, kind));
    }
    Ok((sayings, count))
}

/// Whether a table whose header this is holds nodes, and no edges.
pub(crate) fn is_nodes(path: &Path, limits: Limits) -> bool {
    // Looking into a pipe would empty it.
    if path.exists() && !path.is_file() {
        return false;
    }
    let Ok(mut source) = super::Source::open(path, limits) else { return false };
    let Ok(start) = source.peek() else { return false };
    let start = start.strip_prefix(BOM).unwrap_or(start);
    let first = records(start, separator(path, start)).next().unwrap_or_default();
    let neo4j = |field: &String| field.split('(').next().is_some_and(|field| field.ends_with(":ID"));
    first.iter().any(neo4j) && super::columns::columns_of_header(&first).is_none()
}

fn separator(path: &Path, text: &[u8]) -> u8 {
    let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let count = |separator: u8| super::split_count(first, separator);
    let usual = if Format::from_name(path) == Some(Format::Csv(b',')) { b',' } else { b'\t' };
    [usual, b'\t', b',', b';', b'|'].into_iter().find(|&separator| count(separator) > 1).unwrap_or(usual)
}

/// The places that a header names; `None` if it is no header.
fn places(first: &[String]) -> Option<Places> {
    let words: Vec<String> = first.iter().map(|field| word(field)).collect();
    let find = |known: &[&str]| known.iter().find_map(|known| words.iter().position(|word| word == known));
    let id = find(&["#id", "id", "iri", "uri", "entity", "entity_id", "node", "node_id", "qid", "mid", "curie"]);
    let called = find(&["name"]);
    let label = find(&["label", "title", "preflabel", "preferred_label", "display_name"]);
    let name = id.or(called)?;
    let label = label.or(called.filter(|&called| called != name));
    let description = find(&["description", "desc", "comment", "definition", "abstract"]);
    let kind = find(&["#label", "type", "types", "kind", "class", "category", "labels"]);
    // A single known word may be data.
    let known = [label, description, kind].into_iter().flatten().count();
    (known > 0).then_some(Places { name, label, description, kind })
}

/// A field of a header. Neo4j's own `personId:ID(Person)` and `:LABEL` become `#id` and `#label`; `name:string` is a name.
fn word(field: &str) -> String {
    let field = field.trim().trim_start_matches(['#', '?']);
    match field.split_once(':') {
        Some((property, kind)) => {
            let kind = kind.split('(').next().unwrap_or_default().to_ascii_lowercase();
            match kind.as_str() {
                "id" | "label" => format!("#{kind}"),
                _ => property.to_ascii_lowercase(),
            }
        }
        None => field.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Labels;

    fn labels(name: &str, text: &str) -> (Labels, Names) {
        let mut names = Names::default();
        names.triple("Q183", "P36", "Q64");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let (sayings, _) = read(&path, &ReadOptions::default()).unwrap();
        let mut labels = Labels::default();
        labels.add(&sayings, &names);
        (labels, names)
    }

    #[test]
    fn tables_with_and_without_a_header() {
        for (name, text) in [
            ("a.tsv", "Q183\tGermany\ta country\tCountry;State\nQ64\tBerlin\n"),
            ("a.csv", "name,label,description,type\nQ183,Germany,\"a country\",Country;State\nQ64,Berlin,,\n"),
            (
                "nodes.csv",
                "code:ID(X),name:string,:LABEL,description\nQ183,Germany,Country;State,a country\nQ64,Berlin,,\n",
            ),
            ("nodes.tsv", "id\tkind\tname\tdescription\nQ183\tCountry;State\tGermany\ta country\nQ64\t\tBerlin\t\n"),
            ("a.txt", "type;label;id;description\nCountry;Germany;Q183;a country\n;Berlin;Q64;\n"),
        ] {
            let (labels, names) = labels(name, text);
            let (germany, berlin) = (names.entities.id("Q183").unwrap(), names.entities.id("Q64").unwrap());
            assert_eq!((labels.entity(germany), labels.entity(berlin)), (Some("Germany"), Some("Berlin")), "{text}");
            assert_eq!(labels.description(germany), Some("a country"), "{text}");
            assert_eq!(labels.types(germany).next(), Some("Country"), "{text}");
        }
    }

    #[test]
    fn what_is_no_label_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (text, says) in
            [(&b""[..], "empty"), (b"one\ntwo\n", "one field"), (b"a\t\xff\n", "line 1: not valid UTF-8")]
        {
            let path = folder.path().join("labels.tsv");
            std::fs::write(&path, text).unwrap();
            let error = read(&path, &ReadOptions::default()).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("labels.tsv"), "{error}");
        }
    }
}
