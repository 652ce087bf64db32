//! RDF: N-Triples, a statement a line and parsed in parallel, and Turtle, read from top to bottom.
//!
//! A term becomes a name that people can read and type: an IRI stands bare, without its angle brackets; a blank node
//! is `_:label`, the same node in all files of a data set; a literal keeps its N-Triples form, `"text"@en` or `"5"^^<…>`. An IRI under `urn:ruge:` is a plain name
//! in disguise, put there by [`write`](super::write), and is undone here. Quoted triples (RDF-star) are no names and
//! are reported like any other mistake of syntax.

use std::borrow::Cow;
use std::ops::ControlFlow;

use memchr::{memchr, memchr_iter, memrchr};
use oxrdf::{NamedNodeRef, NamedOrBlankNode, Term, Triple as Statement};
use oxttl::{NTriplesParser, TurtleParser, TurtleSyntaxError};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::block::{Block, BlockNames, NewNames, strip_line_end};
use super::{FileContents, ReadOptions, Source};
use crate::error::{KgError, Reason, shown};
use crate::vocabulary::Names;

/// Where plain names live among IRIs.
pub(super) const PLAIN: &str = "urn:ruge:";

/// Reads N-Triples. A line with a mistake is a bad line; the next one is read afresh.
pub(super) fn read_ntriples(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let mut first = true;
    source.for_each_batch(options.block, |blocks| {
        let mut blocks = blocks.to_vec();
        if std::mem::take(&mut first) {
            blocks[0] = contents.report.pass_bom(blocks[0]);
        }
        let parsed: Vec<_> = blocks.par_iter().map(|&block| parse_lines(block, names, options)).collect();
        for (new, block) in parsed {
            block.merge_named(new, names, contents);
            if contents.report.enough(options) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
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
            push(iris.map(|text| plain_name(text).map_or(Cow::Borrowed(text), Cow::Owned)));
            return Ok(());
        }
        // A parser of its own for every line keeps a mistake from reaching the next line. More than one statement can
        // come of a line only if it holds bare carriage returns, which end a statement as well.
        statements.clear();
        for statement in NTriplesParser::new().for_slice(line) {
            statements.push(statement.map_err(|error| located(&error))?);
        }
        statements.drain(..).for_each(|statement| push(named(statement).map(Cow::Owned)));
        Ok(())
    });
    (local.into_new(), block)
}

/// The IRIs of a statement `<S> <P> <O> .` in this very spacing and without escapes, as most are; anything else is left
/// to the parser. Twice as fast as the parser, since nothing is copied.
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

/// Reads Turtle. After a mistake the parser resumes behind the next full stop; what the broken statement had said
/// before the mistake stays.
///
/// The parser is fed line by line, and a triple is said to stand on the line that completed it.
pub(super) fn read_turtle(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let text = source.text()?;
    let text = contents.report.pass_bom(&text);
    let mut blank_nodes = BlankNodes::of(text);
    let mut places = Places { text, offset: 0, line: 1 };
    let mut parser = TurtleParser::new().low_level();
    let mut rest = text;
    let mut in_statement = false;
    // A token of many lines is looked at again with every line added to it. Long silence doubles what is added, which
    // keeps the time linear; only lines after such silence are told with less precision.
    let mut silent_lines = 0usize;
    let mut last_bad_line = 0;
    loop {
        let ending = rest.is_empty();
        if ending {
            parser.end();
        }
        let mut line = contents.report.lines.max(1);
        for _ in 0..1 + silent_lines / 64 {
            if rest.is_empty() {
                break;
            }
            let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            parser.extend_from_slice(&rest[..end]);
            let (content, crlf) = strip_line_end(&rest[..end]);
            let content = content.trim_ascii();
            // Inside a statement a blank line may be part of a long literal, so only those outside are counted.
            let blank = content.is_empty() || content.starts_with(b"#");
            contents.report.blank_lines += u64::from(blank && !in_statement);
            in_statement = (blank && in_statement) || !(blank || content.ends_with(b"."));
            contents.report.crlf_lines += u64::from(crlf);
            contents.report.lines += 1;
            silent_lines += 1;
            line = contents.report.lines;
            rest = &rest[end..];
        }
        while let Some(outcome) = parser.parse_next() {
            silent_lines = 0;
            match outcome {
                Ok(statement) => {
                    let [head, relation, tail] = named(blank_nodes.renamed(statement, names));
                    contents.lines.jump(contents.triples.len(), line);
                    contents.triples.push(names.triple(&head, &relation, &tail));
                }
                Err(error) => {
                    let (line, content) = places.line_at(error.location().start.offset);
                    let reason = match std::str::from_utf8(content) {
                        _ if memchr(0, content).is_some() => Reason::NulByte,
                        Err(_) => Reason::InvalidUtf8,
                        Ok(_) => located(&error),
                    };
                    // One slip can make the parser stumble over every token up to the next full stop.
                    if std::mem::replace(&mut last_bad_line, line) == line {
                        continue;
                    }
                    contents.report.bad_line(line, shown(content), reason);
                    if contents.report.enough(options) {
                        return Ok(());
                    }
                }
            }
        }
        if ending {
            return Ok(());
        }
    }
}

/// The parser's words, with the column where it stumbled.
fn located(error: &TurtleSyntaxError) -> Reason {
    Reason::Rdf(format!("{} (column {})", error.message(), error.location().start.column + 1))
}

/// The line of an offset, counted onwards from the one asked for before.
struct Places<'t> {
    text: &'t [u8],
    offset: usize,
    line: u64,
}

impl<'t> Places<'t> {
    fn line_at(&mut self, offset: u64) -> (u64, &'t [u8]) {
        let offset = usize::try_from(offset).map_or(self.text.len(), |offset| offset.min(self.text.len()));
        if offset < self.offset {
            (self.offset, self.line) = (0, 1);
        }
        self.line += memchr_iter(b'\n', &self.text[self.offset..offset]).count() as u64;
        self.offset = offset;
        let start = memrchr(b'\n', &self.text[..offset]).map_or(0, |at| at + 1);
        let end = memchr(b'\n', &self.text[offset..]).map_or(self.text.len(), |at| offset + at);
        (self.line, strip_line_end(&self.text[start..end]).0)
    }
}

/// The names of a statement.
fn named(statement: Statement) -> [String; 3] {
    let head = match statement.subject {
        NamedOrBlankNode::NamedNode(node) => iri(node.into_string()),
        NamedOrBlankNode::BlankNode(node) => node.to_string(),
    };
    [head, iri(statement.predicate.into_string()), name(statement.object)]
}

/// The name of a term.
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

/// The plain name an IRI stands for; `None` if it is an IRI like any other.
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

/// Gives the nameless nodes of Turtle, `[…]` and `(…)`, names that are the same in every run.
///
/// The parser draws them at random, and its random names look like labels a file could use. So the labels of the file
/// are collected first: a hexadecimal label that is not among them was drawn.
struct BlankNodes<'t> {
    labels: FxHashSet<&'t [u8]>,
    given: FxHashMap<u128, oxrdf::BlankNode>,
    next: usize,
}

impl<'t> BlankNodes<'t> {
    fn of(text: &'t [u8]) -> Self {
        let labels = memchr::memmem::find_iter(text, b"_:")
            .map(|at| {
                let rest = &text[at + 2..];
                let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                &rest[..length]
            })
            .filter(|label| label.starts_with(b"anon") || label.iter().all(u8::is_ascii_hexdigit))
            .collect();
        Self { labels, given: FxHashMap::default(), next: 1 }
    }

    fn renamed(&mut self, mut statement: Statement, names: &Names) -> Statement {
        if let NamedOrBlankNode::BlankNode(node) = &mut statement.subject {
            self.rename(node, names);
        }
        if let Term::BlankNode(node) = &mut statement.object {
            self.rename(node, names);
        }
        statement
    }

    fn rename(&mut self, node: &mut oxrdf::BlankNode, names: &Names) {
        let Some(id) = node.as_ref().unique_id().filter(|_| !self.labels.contains(node.as_str().as_bytes())) else {
            return;
        };
        if let Some(given) = self.given.get(&id) {
            *node = given.clone();
            return;
        }
        // Another file of the data set may have nameless nodes too; those are other nodes.
        let label = loop {
            let label = format!("anon{}", self.next);
            self.next += 1;
            if !self.labels.contains(label.as_bytes()) && names.entities.id(&format!("_:{label}")).is_none() {
                break label;
            }
        };
        *node = oxrdf::BlankNode::new_unchecked(label);
        self.given.insert(id, node.clone());
    }
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
        // Not UTF-8, or no name at all: the IRI stays as it is.
        assert_eq!(name("urn:ruge:%FF"), "urn:ruge:%FF");
        assert_eq!(name("urn:ruge:"), "urn:ruge:");
    }
}
