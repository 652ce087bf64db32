//! RDF terms as names, and N-Triples: one statement per line, parsed in parallel. [`turtle`](super::turtle) has the
//! rest.
//!
//! A term becomes a name that people can read and type. An IRI loses its angle brackets; a blank node is `_:label`, the
//! same node in all files of a data set; a literal keeps its N-Triples form, `"text"@en` or `"5"^^<…>`. An IRI under
//! `urn:ruge:` encodes a plain name (see [`write`](super::write)). Quoted triples (RDF-star) are syntax errors.

use std::borrow::Cow;
use std::ops::ControlFlow;

use memchr::memchr;
use oxrdf::{NamedNodeRef, NamedOrBlankNode, Term, Triple as Statement};
use oxttl::{NTriplesParser, TurtleSyntaxError};
use rayon::prelude::*;

use super::block::{Block, BlockNames, NewNames};
use super::tsv::short_enough;
use super::{FileContents, ReadOptions, Source};
use crate::error::{KgError, Reason};
use crate::vocabulary::Names;

/// IRI prefix of plain names.
pub(super) const PLAIN: &str = "urn:ruge:";

/// Reads N-Triples. A line with an error is skipped; parsing restarts on the next line.
pub(super) fn read_ntriples(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let mut first = true;
    source.for_each_batch(options, |blocks| {
        let mut blocks = blocks.to_vec();
        if std::mem::take(&mut first) {
            blocks[0] = contents.report.pass_bom(blocks[0]);
        }
        let parsed: Vec<_> = blocks.par_iter().map(|&block| parse_lines(block, names, options)).collect();
        for (new, block) in parsed {
            block.merge_named(new, names, contents, options)?;
            if contents.report.enough(options) {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

type Parsed<'t> = (NewNames<Cow<'t, str>>, NewNames<Cow<'t, str>>);

fn parse_lines<'t>(text: &'t [u8], known: &Names, options: &ReadOptions) -> (Parsed<'t>, Block<[u32; 3]>) {
    let mut local = BlockNames::new(known);
    let mut statements = Vec::new();
    let block = Block::parse(text, options, |block, line| {
        let mut push = |[head, relation, tail]: [Cow<'t, str>; 3]| {
            let (head, relation) = (local.entities.intern(head), local.relations.intern(relation));
            block.items.push([head, relation, local.entities.intern(tail)]);
        };
        if let Some(iris) = three_iris(line) {
            short_enough(iris, options.limits.name)?;
            push(iris.map(|text| plain_name(text).map_or(Cow::Borrowed(text), Cow::Owned)));
            return Ok(());
        }
        // One parser per line keeps an error from affecting the next line. A line can give more than one statement only
        // if it contains bare carriage returns, which also end a statement.
        statements.clear();
        for statement in NTriplesParser::new().for_slice(line) {
            let names = named(statement.map_err(|error| located(&error))?);
            short_enough([&names[0], &names[1], &names[2]], options.limits.name)?;
            statements.push(names);
        }
        statements.drain(..).for_each(|names| push(names.map(Cow::Owned)));
        Ok(())
    });
    (local.into_new(), block)
}

/// The IRIs of a statement with exactly the spacing `<S> <P> <O> .` and no escapes, as most have; anything else goes to
/// the parser. Twice as fast as the parser, since nothing is copied.
fn three_iris(line: &str) -> Option<[&str; 3]> {
    let cut = |text: &'_ str| memchr(b'>', text.as_bytes());
    let line = line.strip_prefix('<')?;
    let (head, rest) = line.split_at(cut(line)?);
    let rest = rest.strip_prefix("> <")?;
    let (relation, rest) = rest.split_at(cut(rest)?);
    let tail = rest.strip_prefix("> <")?.strip_suffix("> .")?;
    let iris = [head, relation, tail];
    iris.iter().all(|iri| NamedNodeRef::new(iri).is_ok()).then_some(iris)
}

/// The parser's message, with the column of the error.
pub(super) fn located(error: &TurtleSyntaxError) -> Reason {
    Reason::Rdf(format!("{} (column {})", error.message(), error.location().start.column + 1))
}

pub(super) fn named(statement: Statement) -> [String; 3] {
    let head = match statement.subject {
        NamedOrBlankNode::NamedNode(node) => iri(node.into_string()),
        NamedOrBlankNode::BlankNode(node) => node.to_string(),
    };
    [head, iri(statement.predicate.into_string()), name(statement.object)]
}

pub(super) fn name(term: Term) -> String {
    match term {
        Term::NamedNode(node) => iri(node.into_string()),
        Term::BlankNode(node) => node.to_string(),
        Term::Literal(literal) => literal.to_string(),
    }
}

fn iri(iri: String) -> String {
    plain_name(&iri).unwrap_or(iri)
}

/// The plain name encoded by an IRI; `None` for other IRIs.
fn plain_name(iri: &str) -> Option<String> {
    let encoded = iri.strip_prefix(PLAIN)?;
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let [high, low, tail @ ..] = tail else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_come_out_of_their_disguise() {
        let name = |text: &str| iri(text.to_string());
        assert_eq!(name("urn:ruge:New%20York"), "New York");
        assert_eq!(name("urn:ruge:%C3%BC"), "ü");
        assert_eq!(name("urn:other:x"), "urn:other:x");
        // Not UTF-8, or an empty name: the IRI is kept.
        assert_eq!(name("urn:ruge:%FF"), "urn:ruge:%FF");
        assert_eq!(name("urn:ruge:"), "urn:ruge:");
    }
}
