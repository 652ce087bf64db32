//! JSON-LD: RDF as JSON. The text is held as a whole, since a context may stand behind what it explains.
//!
//! A context that the file only names by its address is not fetched: reading a graph does not go to the network.

use oxjsonld::JsonLdParser;

use super::rdf::{bad_base, reason};
use super::tsv::short_enough;
use super::turtle::BlankNodes;
use super::{BOM, FileContents, ReadOptions, Source};
use crate::error::{KgError, Reason, shown};
use crate::memory;
use crate::vocabulary::Names;

/// Without a base the parser would silently drop what is relative: this one, which nobody has, shows it.
const NO_BASE: &str = "http://no-base.invalid/";

/// Reads JSON-LD. An error ends the file. Statements have no lines.
pub(super) fn read(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let mut blank_nodes = BlankNodes::of(source.text()?, &[b"_:"])?;
    let text = source.whole()?;
    // The parser holds the events of the document.
    memory::ensure(8 * text.len() as u64, "JSON-LD", options.limits.memory)?;
    contents.report.bom = text.starts_with(BOM);
    let text = text.strip_prefix(BOM).unwrap_or(&text);
    let mut parser = JsonLdParser::new();
    let base = options.base.as_deref().unwrap_or(NO_BASE);
    parser = parser.with_base_iri(base).map_err(|error| bad_base(base, &error))?;
    let ends = memchr::memchr_iter(b'\n', text).count() as u64;
    contents.report.lines = ends + u64::from(!text.is_empty() && !text.ends_with(b"\n"));
    contents.lineless = true;
    let mut statements = parser.for_slice(text);
    while let Some(statement) = statements.next() {
        if contents.found.prefixes.is_empty() {
            let owned = |(prefix, namespace): (&str, &str)| (prefix.to_string(), namespace.to_string());
            contents.found.prefixes = statements.prefixes().map(owned).collect();
            contents.found.prefixes.sort();
        }
        let (line, text, reason) = match statement {
            Ok(quad) => {
                let Some([head, relation, tail]) = contents.found.sift(blank_nodes.renamed(quad, names), options)
                else {
                    continue;
                };
                if let Some(relative) = [&head, &tail].into_iter().find_map(|name| name.strip_prefix(NO_BASE)) {
                    let reason = Reason::RelativeIri(format!("the IRI {relative:?} is relative, and there is no base"));
                    contents.report.bad_line(1, relative.to_string(), reason);
                    contents.report.stopped = true;
                    break;
                }
                match short_enough([&head, &relation, &tail], options.limits.name) {
                    Ok(()) => {
                        let triple = names.read_triple([&head, &relation, &tail], &options.limits)?;
                        contents.push(triple, 1, &options.limits)?;
                        continue;
                    }
                    Err(reason) => (1, shown(head.as_bytes()), reason),
                }
            }
            Err(error) => {
                let line = error.location().map_or(1, |place| place.start.line + 1);
                let content = text.split(|&byte| byte == b'\n').nth(line as usize - 1).unwrap_or_default();
                let message = error.to_string();
                let reason = match message.contains("load_document_callback") || message.contains("LoadDocument") {
                    true => Reason::RemoteContext,
                    false => reason(message),
                };
                contents.report.bad_line(line, shown(content), reason);
                contents.report.stopped = true;
                break;
            }
        };
        contents.report.bad_line(line, text, reason);
        if contents.report.enough(options) {
            break;
        }
    }
    Ok(())
}
