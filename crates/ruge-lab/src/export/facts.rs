//! Proposed facts for other programs: spreadsheets, triple stores, property graphs.
//!
//! Names are the user's own strings and may hold anything. Every format here can say every name, and none lets a name end its
//! field, its line or its statement:
//!
//! | format | a name is | what could break out |
//! |---|---|---|
//! | TSV | itself | tab, line feed, carriage return and backslash are `\t`, `\n`, `\r`, `\\` |
//! | CSV | itself (RFC 4180) | quoted if it holds a comma, a quote or a line end; quotes are doubled |
//! | JSON lines | a JSON string | escaped as JSON |
//! | N-Triples, RDF-star | an RDF term, or an IRI under a base | percent-encoded |
//! | Cypher | a string, and the type of a relationship | see [`cypher_string`] and [`cypher_type`] |

use std::fmt::Write as _;
use std::io::{self, Write};

use ruge::complete::{Proposal, ProposalRule};
use ruge::explain::Fact;
use ruge_kg::io::write::{Place, rdf_term};
use ruge_kg::visible;
use serde::{Deserialize, Serialize};

pub use ruge_kg::io::write::{BASE, is_base};

/// The predicate of RDF-star that gives the chance that a fact is true.
pub const TRUTH: &str = "urn:x-ruge:truth";
/// The predicate of RDF-star that gives a rule which concludes a fact.
pub const RULE: &str = "urn:x-ruge:rule";

/// How proposed facts are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactFormat {
    /// head, relation, tail, truth, rules, separated by tabs.
    Tsv,
    /// The same, separated by commas.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// N-Triples: the facts alone.
    Nt,
    /// Turtle in which each fact is quoted and has its truth.
    RdfStar,
    /// One MERGE statement per fact.
    Cypher,
}

impl FactFormat {
    /// All of them.
    pub const ALL: [FactFormat; 6] =
        [FactFormat::Tsv, FactFormat::Csv, FactFormat::Jsonl, FactFormat::Nt, FactFormat::RdfStar, FactFormat::Cypher];

    /// As typed.
    pub fn name(self) -> &'static str {
        match self {
            FactFormat::Tsv => "tsv",
            FactFormat::Csv => "csv",
            FactFormat::Jsonl => "jsonl",
            FactFormat::Nt => "nt",
            FactFormat::RdfStar => "rdf-star",
            FactFormat::Cypher => "cypher",
        }
    }

    /// The format that the ending of a file name stands for.
    pub fn of_ending(ending: &str) -> Option<Self> {
        Some(match ending.to_ascii_lowercase().as_str() {
            "tsv" | "txt" => FactFormat::Tsv,
            "csv" => FactFormat::Csv,
            "jsonl" | "ndjson" => FactFormat::Jsonl,
            "nt" => FactFormat::Nt,
            "ttl" | "ttls" | "turtle" => FactFormat::RdfStar,
            "cypher" | "cql" => FactFormat::Cypher,
            _ => return None,
        })
    }

    /// Whether the rules of a fact are written with it. Finding them takes time.
    pub fn has_rules(self) -> bool {
        self != FactFormat::Nt
    }
}

/// Writes proposed facts one after the other.
pub struct FactWriter<W: Write> {
    out: W,
    format: FactFormat,
    base: String,
}

impl<W: Write> FactWriter<W> {
    /// Starts with the line of column names, where a format has one. `base` is that of IRIs for names that are no RDF terms, such
    /// as [`BASE`].
    pub fn new(mut out: W, format: FactFormat, base: &str) -> io::Result<Self> {
        match format {
            FactFormat::Tsv => writeln!(out, "head\trelation\ttail\ttruth\trules")?,
            FactFormat::Csv => write!(out, "head,relation,tail,truth,rules\r\n")?,
            _ => {}
        }
        Ok(Self { out, format, base: base.to_string() })
    }

    /// Writes a remark, in the formats that have a place for one: a comment of N-Triples, Turtle or Cypher.
    pub fn remark(&mut self, text: &str) -> io::Result<()> {
        let sign = match self.format {
            FactFormat::Nt | FactFormat::RdfStar => "#",
            FactFormat::Cypher => "//",
            FactFormat::Tsv | FactFormat::Csv | FactFormat::Jsonl => return Ok(()),
        };
        // A line end would end the comment.
        let line = text.replace(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}', " ");
        writeln!(self.out, "{sign} {line}")
    }

    /// Writes one proposal.
    pub fn proposal(&mut self, proposal: &Proposal) -> io::Result<()> {
        match self.format {
            FactFormat::Jsonl => self.json(proposal),
            _ => self.fact(&proposal.fact, proposal.truth, &proposal.rules),
        }
    }

    /// Writes one fact of which no more is known.
    pub fn fact(&mut self, fact: &Fact, truth: f64, rules: &[ProposalRule]) -> io::Result<()> {
        let Fact { head, relation, tail } = fact;
        let out = &mut self.out;
        match self.format {
            FactFormat::Tsv => {
                let [head, relation, tail] = [head, relation, tail].map(|name| tsv(name));
                writeln!(out, "{head}\t{relation}\t{tail}\t{truth:.4}\t{}", tsv(&said(rules)))
            }
            FactFormat::Csv => {
                let [head, relation, tail] = [head, relation, tail].map(|name| csv(name));
                write!(out, "{head},{relation},{tail},{truth:.4},{}\r\n", csv(&said(rules)))
            }
            FactFormat::Jsonl => {
                let rule_count = rules.len();
                let (fact, rules) = (fact.clone(), rules.to_vec());
                self.json(&Plain { fact, truth, rules, rule_count })
            }
            FactFormat::Nt => writeln!(out, "{} .", statement(fact, &self.base)),
            FactFormat::RdfStar => {
                write!(out, "<< {} >> <{TRUTH}> {truth:.4}", statement(fact, &self.base))?;
                for (at, rule) in rules.iter().enumerate() {
                    let before = if at == 0 { format!(" ; <{RULE}>") } else { " ,".into() };
                    write!(out, "{before} {}", literal(&said(std::slice::from_ref(rule))))?;
                }
                writeln!(out, " .")
            }
            FactFormat::Cypher => {
                let [from, name, to] = [head, relation, tail].map(|name| cypher_string(name));
                let rules: Vec<String> =
                    rules.iter().map(|rule| cypher_string(&said(std::slice::from_ref(rule)))).collect();
                writeln!(
                    out,
                    "MERGE (h:Entity {{name: {from}}}) MERGE (t:Entity {{name: {to}}}) \
                     MERGE (h)-[r:{} {{name: {name}}}]->(t) SET r.truth = {truth:.4}, r.rules = [{}];",
                    cypher_type(relation),
                    rules.join(", ")
                )
            }
        }
    }

    fn json<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let text = serde_json::to_string(value).map_err(io::Error::other)?;
        writeln!(self.out, "{}", visible::json(&text))
    }

    /// Ends it, and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A fact as a JSON object.
#[derive(Serialize)]
struct Plain {
    #[serde(flatten)]
    fact: Fact,
    truth: f64,
    rules: Vec<ProposalRule>,
    rule_count: usize,
}

/// All of them as one text.
pub fn text(format: FactFormat, base: &str, proposals: &[Proposal]) -> String {
    text_with(format, base, "", proposals)
}

/// The same after a remark, if there is something to say.
pub fn text_with(format: FactFormat, base: &str, remark: &str, proposals: &[Proposal]) -> String {
    let mut writer = FactWriter::new(Vec::new(), format, base).expect("memory takes everything");
    if !remark.is_empty() {
        writer.remark(remark).expect("memory takes everything");
    }
    proposals.iter().for_each(|proposal| writer.proposal(proposal).expect("memory takes everything"));
    String::from_utf8(writer.out).expect("only text was written")
}

/// Rules with their confidences, for a field of text.
pub fn said(rules: &[ProposalRule]) -> String {
    let each: Vec<String> = rules.iter().map(|rule| format!("{:.3} {}", rule.confidence, rule.rule)).collect();
    each.join("; ")
}

fn tsv(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

fn statement(fact: &Fact, base: &str) -> String {
    format!(
        "{} {} {}",
        rdf_term(&fact.head, Place::Subject, base),
        rdf_term(&fact.relation, Place::Predicate, base),
        rdf_term(&fact.tail, Place::Object, base)
    )
}

/// Text as a literal of Turtle.
fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Text as a string of Cypher. Some versions replace `\uXXXX` before they look for the end of a string, others within it. Therefore
/// no backslash of a name stands before a `u` of the name: that one is written as an escape, which both read as `u`.
pub fn cypher_string(text: &str) -> String {
    let mut out = String::from("'");
    let mut after_backslash = false;
    for character in text.chars() {
        match character {
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            'u' if after_backslash => out.push_str("\\u0075"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
        after_backslash = character == '\\';
    }
    out.push('\'');
    out
}

/// A relation as the type of a relationship: quoted by backticks, backticks doubled. A type has no escapes that all versions agree
/// on, so a backslash and control characters become `_`; the property `name` has the relation as it is.
pub fn cypher_type(relation: &str) -> String {
    let plain = relation.replace(|c: char| c == '\\' || c.is_control(), "_");
    // A type may not be empty.
    format!("`{}`", if plain.is_empty() { "_".into() } else { plain.replace('`', "``") })
}
