//! Writes triples as tab-separated text or as N-Triples.
//!
//! The output reads back as the same names in the same order, if literals are read as entities. TSV rejects a name it cannot represent. N-Triples
//! represents every name: an RDF term as that term, any other name as an IRI under `urn:ruge:`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use oxttl::NTriplesParser;

use super::rdf::{self, PLAIN};
use super::{Format, is_header};
use crate::error::KgError;
use crate::triple::{EntityId, RelationId, Triple};
use crate::vocabulary::Names;

pub use super::replace::{remove_drafts, remove_for_good, replace_file, replace_file_in};

/// The base of IRIs that stand for names which are no RDF terms. The reader turns such IRIs into the names again.
pub const BASE: &str = PLAIN;

/// A place in an RDF statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// An IRI or a blank node.
    Subject,
    /// An IRI.
    Predicate,
    /// Any term.
    Object,
}

/// A name as a term of N-Triples and Turtle: itself if it is a term that may stand there, otherwise an IRI of `base` and the name,
/// percent-encoded.
///
/// ```
/// use ruge_kg::io::write::{BASE, Place, rdf_term};
/// assert_eq!(rdf_term("http://example.org/Paris", Place::Subject, BASE), "<http://example.org/Paris>");
/// assert_eq!(rdf_term("New York", Place::Object, BASE), "<urn:ruge:New%20York>");
/// ```
pub fn rdf_term(name: &str, place: Place, base: &str) -> String {
    match term(name) {
        Some(term) if place == Place::Object || term.starts_with('<') => term,
        Some(term) if place == Place::Subject && !term.starts_with('"') => term,
        _ => disguised(name, base),
    }
}

/// Whether names can be put behind it to give IRIs.
pub fn is_base(base: &str) -> bool {
    oxrdf::NamedNodeRef::new(&format!("{base}name")).is_ok() && !base.chars().any(|c| c.is_whitespace() || c == '>')
}

/// Writes triples to a file, compressed if its name ends in `.gz` or `.zst`; returns their number.
pub fn write_triples(
    path: &Path,
    format: Format,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<usize, KgError> {
    replace_file(path, |file| write_compressed(file, path, format, names, triples))
}

/// Writes triples to any writer; `name` is used as the path in messages. Returns their number.
pub fn print_triples(
    out: &mut dyn Write,
    name: &Path,
    format: Format,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<usize, KgError> {
    match format {
        Format::Tsv => print_tsv(out, name, names, triples),
        Format::NTriples => print_ntriples(out, name, names, triples),
        _ => {
            let message = format!("{}: triples are written as .tsv or .nt, not as {format:?}", name.display());
            Err(KgError::Option(message))
        }
    }
}

fn write_compressed(
    file: File,
    path: &Path,
    format: Format,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<(File, usize), KgError> {
    let failed = |error| KgError::io(path, "write")(error);
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("gz") => {
            let mut out = BufWriter::new(flate2::write::GzEncoder::new(file, flate2::Compression::default()));
            let count = print_triples(&mut out, path, format, names, triples)?;
            let encoder = out.into_inner().map_err(|error| failed(error.into_error()))?;
            Ok((encoder.finish().map_err(failed)?, count))
        }
        Some("zst") => {
            let mut encoder =
                zstd::stream::write::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(failed)?;
            // gzip always has a checksum; without one a flipped bit may go unnoticed.
            encoder.include_checksum(true).map_err(failed)?;
            let mut out = BufWriter::new(encoder);
            let count = print_triples(&mut out, path, format, names, triples)?;
            let encoder = out.into_inner().map_err(|error| failed(error.into_error()))?;
            Ok((encoder.finish().map_err(failed)?, count))
        }
        _ => {
            let mut out = BufWriter::with_capacity(1 << 18, file);
            let count = print_triples(&mut out, path, format, names, triples)?;
            Ok((out.into_inner().map_err(|error| failed(error.into_error()))?, count))
        }
    }
}

fn print_tsv(
    out: &mut dyn Write,
    path: &Path,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<usize, KgError> {
    let mut entities_checked = vec![false; names.entities.len()];
    let mut relations_checked = vec![false; names.relations.len()];
    let check = |what, name: &str, checked: &mut bool| {
        let reason = if *checked { None } else { refused_by_tsv(name) };
        *checked = true;
        match reason {
            Some(reason) => Err(KgError::Unwritable { what, name: name.to_string(), format: "TSV", reason }),
            None => Ok(()),
        }
    };
    let mut count = 0;
    for triple in triples {
        let head = names.entities.name(triple.head);
        let relation = names.relations.name(triple.relation);
        let tail = names.entities.name(triple.tail);
        check("entity", head, &mut entities_checked[triple.head.index()])?;
        check("relation", relation, &mut relations_checked[triple.relation.index()])?;
        check("entity", tail, &mut entities_checked[triple.tail.index()])?;
        // A first triple that looks like a header would be skipped by readers, and quotes around all names taken away; after a
        // real header both are safe.
        if count == 0
            && (is_header(&[head, relation, tail]) || [head, relation, tail].iter().all(|it| it.starts_with('"')))
        {
            out.write_all(b"head\trelation\ttail\n").map_err(KgError::io(path, "write"))?;
        }
        writeln!(out, "{head}\t{relation}\t{tail}").map_err(KgError::io(path, "write"))?;
        count += 1;
    }
    Ok(count)
}

/// Why a name cannot be stored between tabs and read back unchanged.
fn refused_by_tsv(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is empty")
    } else if name.contains(['\t', '\n', '\r']) {
        Some("it holds a tab or a line end; N-Triples (.nt) can hold it")
    } else if name.contains('\0') {
        Some("it holds a NUL; N-Triples (.nt) can hold it")
    } else if name.starts_with(' ') || name.ends_with(' ') {
        Some("blanks around a name are trimmed when it is read; N-Triples (.nt) keeps them")
    } else if name.starts_with('\u{feff}') {
        Some("it starts with a byte-order mark; N-Triples (.nt) can hold it")
    } else {
        None
    }
}

fn print_ntriples(
    out: &mut dyn Write,
    path: &Path,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<usize, KgError> {
    // Each name is converted once, not once per triple.
    let mut entities: Vec<Option<Box<str>>> = vec![None; names.entities.len()];
    let mut relations: Vec<Option<Box<str>>> = vec![None; names.relations.len()];
    let mut count = 0;
    for Triple { head, relation, tail } in triples {
        let disguise = |name: &str, what| match name {
            "" => Err(KgError::Unwritable { what, name: String::new(), format: "N-Triples", reason: "it is empty" }),
            name => Ok(disguised(name, BASE).into_boxed_str()),
        };
        let entity = |id: EntityId| match term(names.entities.name(id)) {
            Some(term) => Ok(term.into_boxed_str()),
            None => disguise(names.entities.name(id), "entity"),
        };
        let verb = |id: RelationId| match term(names.relations.name(id)) {
            Some(term) if term.starts_with('<') => Ok(term.into_boxed_str()),
            _ => disguise(names.relations.name(id), "relation"),
        };
        for id in [head, tail] {
            if entities[id.index()].is_none() {
                entities[id.index()] = Some(entity(id)?);
            }
        }
        if relations[relation.index()].is_none() {
            relations[relation.index()] = Some(verb(relation)?);
        }
        let subject = entities[head.index()].as_deref().unwrap_or_default();
        let predicate = relations[relation.index()].as_deref().unwrap_or_default();
        let object = entities[tail.index()].as_deref().unwrap_or_default();
        // RDF allows a literal as an object but not as a subject.
        let written = if subject.starts_with('"') {
            writeln!(out, "{} {predicate} {object} .", disguised(names.entities.name(head), BASE))
        } else {
            writeln!(out, "{subject} {predicate} {object} .")
        };
        written.map_err(KgError::io(path, "write"))?;
        count += 1;
    }
    Ok(count)
}

/// The name as a term, if the reader maps the term back to exactly this name.
fn term(name: &str) -> Option<String> {
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let term = if name.starts_with('"') || name.starts_with("_:") { name.to_string() } else { format!("<{name}>") };
    let statement = format!("<urn:s> <urn:p> {term} .");
    let mut statements = NTriplesParser::new().for_slice(&statement);
    match (statements.next(), statements.next()) {
        (Some(Ok(statement)), None) => (rdf::name(statement.object) == name).then_some(term),
        _ => None,
    }
}

fn disguised(name: &str, base: &str) -> String {
    let mut out = format!("<{base}");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out.push('>');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_terms_stay_terms() {
        for name in ["http://example.org/é", "_:b0", "\"text\"@en", "\"5\"^^<http://example.org/int>", "urn:x:y"] {
            assert!(term(name).is_some(), "{name}");
        }
        for name in
            ["Paris", "/m/027rn", "a b", "_:a.", "\"text\"@EN", "\"open", "urn:ruge:x", "a:b> .\n<c:d", "http://a b"]
        {
            assert_eq!(term(name), None, "{name}");
        }
        assert_eq!(disguised("/m/é", BASE), "<urn:ruge:%2Fm%2F%C3%A9>");
        assert_eq!(rdf_term("\"text\"@en", Place::Object, BASE), "\"text\"@en");
        assert_eq!(rdf_term("\"x\"", Place::Subject, "http://a.org/"), "<http://a.org/%22x%22>");
        assert_eq!(rdf_term("_:b0", Place::Predicate, BASE), "<urn:ruge:_%3Ab0>");
        assert!(is_base("http://example.org/#") && is_base(BASE));
        assert!(!is_base("") && !is_base("example.org/") && !is_base("http://a b/") && !is_base("http://a> <b:"));
    }
}
