//! RDF terms as names, what is kept of a statement, and N-Triples and N-Quads: one statement per line, parsed in parallel.
//! [`turtle`](super::turtle), [`rdfxml`](super::rdfxml) and [`jsonld`](super::jsonld) have the rest.
//!
//! A term becomes a name that people can read and type. An IRI loses its angle brackets; a blank node is `_:label`, the
//! same node in all files of a data set; a literal keeps its N-Triples form, `"text"@en` or `"5"^^<…>`. An IRI under
//! `urn:ruge:` encodes a plain name (see [`write`](super::write)). Quoted triples (RDF-star) are syntax errors.
//!
//! Literals are left out unless asked for: a number or a sentence is no entity that links could be predicted for. Those that
//! name or describe their subject become its label and description.

use std::borrow::Cow;
use std::ops::ControlFlow;

use memchr::memchr;
use oxrdf::{GraphName, Literal, NamedNodeRef, NamedOrBlankNode, Quad, Term};
use oxttl::{NQuadsParser, TriGParser, TurtleSyntaxError};
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use super::block::{Block, BlockNames, NewNames};
use super::tsv::short_enough;
use super::{FileContents, FileReport, Format, ReadOptions, Source};
use crate::error::{KgError, Reason};
use crate::labels::{Said, Sayings};
use crate::vocabulary::Names;

/// IRI prefix of plain names.
pub(super) const PLAIN: &str = "urn:ruge:";

/// What becomes of statements whose object is a literal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Literals {
    /// They are counted and left out.
    #[default]
    Skip,
    /// The literal is an entity.
    Entities,
}

/// Which graphs of a file are read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum GraphChoice {
    /// All of them, as one.
    #[default]
    All,
    /// The default graph alone.
    Default,
    /// The graph of this name.
    Named(String),
}

/// Predicates whose literals are labels, in order of preference.
const LABELS: [&str; 4] = [
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "https://schema.org/name",
];

/// Predicates whose literals are descriptions.
const DESCRIPTIONS: [&str; 4] = [
    "http://schema.org/description",
    "https://schema.org/description",
    "http://www.w3.org/2000/01/rdf-schema#comment",
    "http://purl.org/dc/terms/description",
];

/// What was found in an RDF file, or a block of it, beside triples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    literals: u64,
    other_graphs: u64,
    graphs: FxHashSet<String>,
    /// Labels and descriptions by name.
    pub(crate) sayings: Sayings,
    /// Prefixes with their namespaces.
    pub(crate) prefixes: Vec<(String, String)>,
}

impl Found {
    /// The names of a statement that is a triple of the graph; `None` if it is left out.
    pub(super) fn sift(&mut self, quad: Quad, options: &ReadOptions) -> Option<[String; 3]> {
        let wanted = match &quad.graph_name {
            GraphName::DefaultGraph => !matches!(options.graph, GraphChoice::Named(_)),
            GraphName::NamedNode(node) => self.see_graph(node.as_str(), options),
            GraphName::BlankNode(node) => self.see_graph(&node.to_string(), options),
        };
        if !wanted {
            self.other_graphs += 1;
            return None;
        }
        let head = match quad.subject {
            NamedOrBlankNode::NamedNode(node) => iri(node.into_string()),
            NamedOrBlankNode::BlankNode(node) => node.to_string(),
        };
        if let Term::Literal(literal) = &quad.object {
            self.literals += 1;
            self.hear(&head, quad.predicate.as_str(), literal);
            if options.literals == Literals::Skip {
                return None;
            }
        }
        Some([head, iri(quad.predicate.into_string()), name(quad.object)])
    }

    fn see_graph(&mut self, name: &str, options: &ReadOptions) -> bool {
        if !self.graphs.contains(name) {
            self.graphs.insert(name.to_string());
        }
        match &options.graph {
            GraphChoice::All => true,
            GraphChoice::Default => false,
            GraphChoice::Named(wanted) => wanted.trim_start_matches('<').trim_end_matches('>') == name,
        }
    }

    /// Keeps a literal that names or describes its subject. English is preferred, then no language, then any.
    fn hear(&mut self, subject: &str, predicate: &str, literal: &Literal) {
        let place = |list: &[&str]| list.iter().position(|known| *known == predicate);
        let (said, place) = match (place(&LABELS), place(&DESCRIPTIONS)) {
            (Some(place), _) => (Said::Label, place),
            (_, Some(place)) => (Said::Description, place),
            _ => return,
        };
        let language = match literal.language().map(str::to_ascii_lowercase).as_deref() {
            Some("en") => 0,
            Some(tag) if tag.starts_with("en-") => 1,
            None => 2,
            Some(_) => 3,
        };
        self.sayings.hear(subject, said, literal.value(), (4 * language + place) as u8);
    }

    /// Adds what a later block found.
    fn absorb(&mut self, other: Self) {
        self.literals += other.literals;
        self.other_graphs += other.other_graphs;
        self.graphs.extend(other.graphs);
        self.sayings.absorb(other.sayings);
        self.prefixes.extend(other.prefixes);
    }

    /// Notes what was counted; an error if the chosen graph is not there.
    pub(super) fn finish(&mut self, report: &mut FileReport, options: &ReadOptions) -> Result<(), KgError> {
        report.literals = self.literals;
        report.literals_skipped = options.literals == Literals::Skip;
        report.graphs = self.graphs.len() as u64;
        report.other_graphs = self.other_graphs;
        let has_graphs = matches!(report.format, Format::NQuads | Format::TriG | Format::JsonLd);
        if let GraphChoice::Named(name) = &options.graph
            && has_graphs
            && report.triples == 0
            && report.literals == 0
        {
            let mut found: Vec<String> = self.graphs.iter().cloned().collect();
            found.sort();
            return Err(KgError::NoGraph { path: report.path.clone(), name: name.clone(), found });
        }
        Ok(())
    }
}

/// Reads N-Triples or N-Quads. A line with an error is skipped; parsing restarts on the next line.
pub(super) fn read_lines(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let quads = contents.report.format == Format::NQuads;
    let mut first = true;
    let base = base_of(options)?;
    source.for_each_batch(options, |blocks| {
        let mut blocks = blocks.to_vec();
        if std::mem::take(&mut first) {
            blocks[0] = contents.report.pass_bom(blocks[0]);
        }
        let lines = Lines { quads, base: &base, options };
        let parsed: Vec<_> = blocks.par_iter().map(|&block| lines.parse(block, names)).collect();
        for (new, block, found) in parsed {
            block.merge_named(new, names, contents, options)?;
            contents.found.absorb(found);
            contents.found.sayings.ensure_room(&options.limits)?;
            if contents.report.enough(options) {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// A parser that knows the base, if there is one. Lines of N-Triples and N-Quads without named graphs are TriG, too.
fn base_of(options: &ReadOptions) -> Result<Option<TriGParser>, KgError> {
    let Some(base) = &options.base else { return Ok(None) };
    TriGParser::new().with_base_iri(base).map(Some).map_err(|error| bad_base(base, &error))
}

/// The error for a base that is no absolute IRI.
pub(super) fn bad_base(base: &str, error: &dyn std::fmt::Display) -> KgError {
    KgError::Option(format!("the base {base:?} is no absolute IRI ({error}); give one like http://example.org/"))
}

type Parsed<'t> = (NewNames<Cow<'t, str>>, NewNames<Cow<'t, str>>);

/// How lines are parsed.
struct Lines<'o> {
    quads: bool,
    base: &'o Option<TriGParser>,
    options: &'o ReadOptions,
}

impl Lines<'_> {
    fn parse<'t>(&self, text: &'t [u8], known: &Names) -> (Parsed<'t>, Block<[u32; 3]>, Found) {
        let options = self.options;
        let mut local = BlockNames::new(known);
        let mut found = Found::default();
        let mut statements = Vec::new();
        let quick = !self.quads || options.graph == GraphChoice::All;
        let block = Block::parse(text, options, |block, line| {
            let mut push = |block: &mut Block<[u32; 3]>, [head, relation, tail]: [Cow<'t, str>; 3]| {
                let (head, relation) = (local.entities.intern(head), local.relations.intern(relation));
                block.items.push([head, relation, local.entities.intern(tail)]);
            };
            if quick && let Some(iris) = three_iris(line) {
                short_enough(iris, options.limits.name)?;
                push(block, iris.map(|text| plain_name(text).map_or(Cow::Borrowed(text), Cow::Owned)));
                return Ok(());
            }
            // One parser per line keeps an error from affecting the next line. A line can give more than one statement only
            // if it contains bare carriage returns, which also end a statement.
            statements.clear();
            let mut here = Found::default();
            let mut lines = 0;
            for quad in self.quads_of(line) {
                lines += 1;
                let Some(names) = here.sift(quad?, options) else { continue };
                short_enough([&names[0], &names[1], &names[2]], options.limits.name)?;
                statements.push(names);
            }
            if lines > 0 && statements.is_empty() {
                block.left_out();
            }
            found.absorb(here);
            statements.drain(..).for_each(|names| push(block, names.map(Cow::Owned)));
            Ok(())
        });
        (local.into_new(), block, found)
    }

    fn quads_of(&self, line: &str) -> Vec<Result<Quad, Reason>> {
        let mut quads: Vec<Result<Quad, Reason>> =
            NQuadsParser::new().for_slice(line).map(|quad| quad.map_err(|error| located(&error))).collect();
        if let Some(base) = self.base
            && quads.iter().any(|quad| matches!(quad, Err(Reason::RelativeIri(_))))
        {
            let again = base.clone().for_slice(line);
            quads = again.map(|quad| quad.map_err(|error| located(&error))).collect();
        }
        let in_graph = |quad: &Result<Quad, Reason>| {
            !self.quads && quad.as_ref().is_ok_and(|quad| quad.graph_name != GraphName::DefaultGraph)
        };
        if quads.iter().any(in_graph) {
            let message = "the statement has four terms: this is N-Quads, not N-Triples".to_string();
            return vec![Err(Reason::Rdf(message))];
        }
        quads
    }
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
    reason(format!("{} (column {})", error.message(), error.location().start.column + 1))
}

/// A syntax error, in the parser's words. All RDF parsers say the same of a relative IRI without a base.
pub(super) fn reason(message: String) -> Reason {
    if message.contains("No scheme found in an absolute IRI") {
        return Reason::RelativeIri(message);
    }
    Reason::Rdf(message)
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
