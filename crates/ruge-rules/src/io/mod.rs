//! Reading and writing rules: every format that miners and rule users write, and one internal form.
//!
//! The caller names the format, or it is recognised from the content. One bad line does not fail a file: the reader
//! returns bad lines with their reasons, lines that are not meant to be rules, and duplicates. A writer rejects a rule
//! that its format cannot express, and names it. It reads every line back before writing it, so *parse ∘ print = id*.
//!
//! ```
//! use ruge_kg::Names;
//! use ruge_rules::io::{RuleFormat, RuleReadOptions, RuleWriteOptions, parse_rules, write_rules};
//!
//! let mut names = Names::default();
//! let text = "?b  capital_of  ?a   => ?a  has_capital  ?b\t0.95\n";
//! let file = parse_rules(text, &RuleReadOptions::default(), &mut names)?;
//! assert_eq!((file.format, file.rules.len(), file.bad.len()), (RuleFormat::Ruge, 1, 0));
//! let mut out = Vec::new();
//! write_rules(&mut out, RuleFormat::Ruge, &file.rules, &names, &RuleWriteOptions::default())?;
//! assert_eq!(out, text.as_bytes());
//! # Ok::<(), ruge_rules::RuleError>(())
//! ```

mod amie;
mod anyburl;
mod atoms;
mod chains;
mod format;
mod json;
mod logic;
pub mod packed;
mod prolog;
mod raw;
mod ruge;
mod sniff;
mod table;
mod text;
mod unknown;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ruge_kg::Names;
use ruge_kg::io::Limits;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::error::RuleError;
use crate::measure::{Counts, Side};
use crate::rule::{Confidence, Rule, SoftRule};
use anyburl::Measure;
use chains::Dictionary;
use raw::{Fault, Line, RawRecord};
use table::Column;

pub use chains::read_relation_dictionary;
pub use format::RuleFormat;
pub use raw::decimal;
pub(crate) use raw::natural;
pub(crate) use text::{LOGIC, letter, show as show_text};
pub use unknown::{UnknownRelation, unknown_relations};
pub use write::{RuleWriteOptions, write_rules};

/// Which number of a line is the confidence of the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// The format's default: PCA for AMIE, the confidence column elsewhere, 1 if there is none.
    #[default]
    Written,
    /// The PCA confidence.
    Pca,
    /// The standard confidence.
    Std,
    /// support / (body size + 5), used for ranking by AnyBURL and related tools.
    Smoothed,
}

/// Options for reading a rule file.
#[derive(Clone, Debug, Default)]
pub struct RuleReadOptions {
    /// The format; `None` to recognise it from the content.
    pub format: Option<RuleFormat>,
    /// The number to use as confidence.
    pub take: Take,
    /// For formats with relation ids: the names in id order. A name with `!` in front is an inverse. If `None`, the ids
    /// themselves are the names, without inverses.
    pub relations: Option<Vec<String>>,
}

/// The numbers stated on a line, not verified.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stated {
    /// PCA confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pca: Option<f64>,
    /// Standard confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std: Option<f64>,
    /// Head coverage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_coverage: Option<f64>,
    /// Support.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub support: Option<u64>,
    /// Body size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_size: Option<u64>,
    /// PCA body size, on the side chosen by the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pca_body: Option<u64>,
    /// That side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
}

impl From<&Counts> for Stated {
    fn from(counts: &Counts) -> Self {
        Self {
            pca: Some(counts.pca()),
            std: Some(counts.standard()),
            head_coverage: Some(counts.head_coverage()),
            support: Some(counts.support),
            body_size: Some(counts.body),
            pca_body: Some(counts.pca_body()),
            side: Some(counts.side),
        }
    }
}

/// A rule and the numbers stated by its source.
#[derive(Clone, PartialEq, Debug)]
pub struct RuleRecord {
    /// Its position, counted from 1: the line or, in JSON, the index in the list. 0 if it is not from a file.
    pub line: u64,
    /// The rule, with variables numbered starting from the conclusion.
    pub rule: Rule,
    /// Its confidence.
    pub confidence: Confidence,
    /// The numbers stated on the line.
    pub stated: Stated,
    /// All counts, if known: mined, or read from a file with all of them.
    pub counts: Option<Counts>,
}

impl RuleRecord {
    /// A counted rule; its confidence is the PCA confidence.
    pub fn counted(rule: Rule, counts: Counts) -> Self {
        let confidence = Confidence::new(counts.pca()).unwrap_or(Confidence::HARD);
        Self { line: 0, rule, confidence, stated: Stated::from(&counts), counts: Some(counts) }
    }

    /// The confidence that was mined, whatever the rule counts with since: PCA confidence by its counts.
    pub fn mined_confidence(&self) -> f64 {
        self.counts.map_or(self.confidence.get(), |counts| counts.pca())
    }

    /// The confidence it counts with, where that is not the mined one: its precision on validation, or one that is set for all.
    pub fn other_confidence(&self) -> Option<f64> {
        let now = self.confidence.get();
        // Files round to nine digits.
        ((now - self.mined_confidence()).abs() > 1e-6).then_some(now)
    }

    /// The rule with its confidence only.
    pub fn soft(&self) -> SoftRule {
        SoftRule { rule: self.rule.clone(), confidence: self.confidence }
    }

    /// Why the rule has no groundings, if it has none.
    pub fn not_groundable(&self) -> Option<&'static str> {
        if self.rule.premise.is_empty() {
            Some("it has no premise")
        } else if self.rule.conclusion.subject == self.rule.conclusion.object {
            Some("both places of its conclusion are the same")
        } else if !self.rule.is_safe() && !self.rule.negated.is_empty() {
            Some("a variable of its conclusion or of a negated premise is missing in the premises that must hold")
        } else if !self.rule.is_safe() {
            Some("a variable of its conclusion is missing in its premise")
        } else {
            None
        }
    }
}

impl From<SoftRule> for RuleRecord {
    fn from(soft: SoftRule) -> Self {
        Self { line: 0, rule: soft.rule, confidence: soft.confidence, stated: Stated::default(), counts: None }
    }
}

/// A line that should be a rule but is not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BadLine {
    /// The line, from 1.
    pub line: u64,
    /// The line's text, truncated if long.
    pub text: String,
    /// A short name of the reason, for counting.
    pub kind: &'static str,
    /// The reason in full.
    pub reason: String,
}

/// A rule that is already in the file; the first one is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Duplicate {
    /// The later line.
    pub line: u64,
    /// The line that is kept.
    pub first: u64,
}

/// The contents of a rule file.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// The format that was read.
    pub format: RuleFormat,
    /// The rules in file order, without duplicates.
    pub rules: Vec<RuleRecord>,
    /// Lines that should be rules but are not.
    pub bad: Vec<BadLine>,
    /// Lines that are not meant to be rules, such as AMIE's log, and why.
    pub skipped: Vec<(u64, &'static str)>,
    /// Repeated rules.
    pub duplicates: Vec<Duplicate>,
    /// Comment lines without their marker.
    pub comments: Vec<String>,
}

impl RuleFile {
    fn new(format: RuleFormat) -> Self {
        Self { format, rules: vec![], bad: vec![], skipped: vec![], duplicates: vec![], comments: vec![] }
    }

    /// Number of bad lines by reason.
    pub fn bad_by_kind(&self) -> BTreeMap<&'static str, usize> {
        self.bad.iter().fold(BTreeMap::new(), |mut counts, bad| {
            *counts.entry(bad.kind).or_default() += 1;
            counts
        })
    }
}

/// Reads a rule file, plain or compressed with gzip or zstd. Names are interned in `names`. If those are the names of a
/// graph, relations missing from the graph get ids beyond the graph's (see [`unknown_relations`]).
///
/// A file that unpacks to more than memory can hold is an error, and so is a file with hardly any rules.
pub fn read_rules(path: &Path, options: &RuleReadOptions, names: &mut Names) -> Result<RuleFile, RuleError> {
    let bytes = ruge_kg::io::read_whole(path, Limits::default())?;
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let named = name.ends_with(".json").then_some(RuleFormat::Json);
    let options = RuleReadOptions { format: options.format.or(named), ..options.clone() };
    parse_bytes(&bytes, &options, names, path)
}

/// [`read_rules`] for rules about a graph with these `names`; also returns the relations that no triple has. If a
/// format uses relation ids and `options` has no names for them, they are the graph's ids.
pub fn read_rules_about(
    path: &Path,
    options: &RuleReadOptions,
    names: &mut Names,
) -> Result<(RuleFile, Vec<UnknownRelation>), RuleError> {
    let known = names.relations.len();
    let own = || names.relations.iter().map(|(_, name)| name.to_string()).collect();
    let relations = Some(options.relations.clone().unwrap_or_else(own));
    let file = read_rules(path, &RuleReadOptions { relations, ..options.clone() }, names)?;
    let unknown = unknown_relations(&file, known, names);
    Ok((file, unknown))
}

/// [`read_rules`] for text in memory.
pub fn parse_rules(text: &str, options: &RuleReadOptions, names: &mut Names) -> Result<RuleFile, RuleError> {
    parse_bytes(text.as_bytes(), options, names, &PathBuf::from("rules"))
}

fn parse_bytes(bytes: &[u8], options: &RuleReadOptions, names: &mut Names, path: &Path) -> Result<RuleFile, RuleError> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let format = match options.format {
        Some(format) => format,
        None => sniff::format(bytes).map_err(|first| RuleError::UnknownFormat {
            path: path.to_path_buf(),
            text: shown(first),
            formats: RuleFormat::list(),
        })?,
    };
    let mut file = RuleFile::new(format);
    let mut seen = FxHashMap::default();
    if format == RuleFormat::Json {
        // A list of small values takes this much more memory than its text.
        ruge_kg::memory::ensure(32 * bytes.len() as u64, "rules in JSON", None)?;
        let (comments, elements) = json::elements(bytes, path)?;
        file.comments = comments;
        for (at, element) in elements.into_iter().enumerate() {
            let (number, text) = (at as u64 + 1, element.to_string());
            let admitted =
                json::element(element).and_then(|raw| file.admit(number, &raw, options.take, names, &mut seen));
            if let Err(Fault { kind, reason }) = admitted {
                file.bad.push(BadLine { line: number, text: shown(text.as_bytes()), kind, reason });
            }
        }
        return Ok(file);
    }
    let mut reader = LineReader::new(format, options.relations.as_deref());
    let too_many = |what, most| RuleError::TooMany { path: path.to_path_buf(), what, most };
    for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let number = at as u64 + 1;
        if file.bad.len() > MAX_BAD {
            return Err(too_many("no rules", MAX_BAD));
        }
        if file.skipped.len() + file.comments.len() + file.duplicates.len() > MAX_OTHERS {
            return Err(too_many("comments, messages of the miner or rules seen before", MAX_OTHERS));
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let understood = match std::str::from_utf8(line) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => reader.line(text),
            Err(_) => Err(Fault::plain("not valid UTF-8")),
        };
        let bad = match understood {
            Ok(Line::Comment(comment)) => {
                file.comments.push(comment.to_string());
                continue;
            }
            Ok(Line::Skip(why)) => {
                file.skipped.push((number, why));
                continue;
            }
            Ok(Line::Rule(raw)) => file.admit(number, &raw, options.take, names, &mut seen).err(),
            // The alternatives share a confidence, so they fail together: report the first.
            Ok(Line::Rules(all)) => {
                all.iter().find_map(|raw| file.admit(number, raw, options.take, names, &mut seen).err())
            }
            Err(fault) => Some(fault),
        };
        if let Some(Fault { kind, reason }) = bad {
            file.bad.push(BadLine { line: number, text: shown(line), kind, reason });
        }
    }
    Ok(file)
}

impl RuleFile {
    /// Interns a rule and adds it, unless it is a duplicate.
    fn admit(
        &mut self,
        line: u64,
        raw: &RawRecord<'_>,
        take: Take,
        names: &mut Names,
        seen: &mut FxHashMap<Rule, u64>,
    ) -> Result<(), Fault> {
        let confidence = confidence(raw, take)?;
        let Names { entities, relations } = names;
        let built =
            raw.rule.build(&mut |name| Some(relations.intern(name)), &mut |name| Some(entities.intern(name)))?;
        let Some(rule) = built else { return Ok(()) };
        match seen.entry(raw::key(&rule)) {
            std::collections::hash_map::Entry::Occupied(first) => {
                self.duplicates.push(Duplicate { line, first: *first.get() });
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(line);
                self.rules.push(RuleRecord { line, rule, confidence, stated: raw.stated, counts: raw.counts });
            }
        }
        Ok(())
    }
}

fn confidence(raw: &RawRecord<'_>, take: Take) -> Result<Confidence, Fault> {
    let stated = &raw.stated;
    let value = match take {
        Take::Written => raw.confidence.ok_or("no confidence on the line"),
        // In a file with a single number, like RUGE's, it is the PCA confidence.
        Take::Pca if stated.pca.is_none() && stated.std.is_none() => raw.confidence.ok_or("no PCA confidence"),
        Take::Pca => stated.pca.ok_or("no PCA confidence on the line"),
        Take::Std => stated.std.ok_or("no standard confidence on the line"),
        Take::Smoothed => match (stated.support, stated.body_size) {
            (Some(support), Some(body)) => Ok(support as f64 / (body as f64 + 5.0)),
            _ => Err("no support and body size on the line"),
        },
    };
    let value = value.map_err(Fault::plain)?;
    Confidence::new(value)
        .ok_or_else(|| Fault::new("outside [0, 1]", format!("the confidence {value} lies outside [0, 1]")))
}

/// Maximum bytes of a line: no rule is that long, and parsing takes more than linear time.
const MAX_LINE: usize = 1 << 16;

/// Maximum lines that are not rules, each kept with text and reason: beyond this it is probably another file.
const MAX_BAD: usize = 1 << 20;

/// Maximum lines without new rules. The log of a long run has some ten thousand.
const MAX_OTHERS: usize = 1 << 22;

/// Parses lines of one format; remembers the header, if the format has one.
struct LineReader {
    format: RuleFormat,
    columns: Vec<Column>,
    dictionary: Dictionary,
}

impl LineReader {
    fn new(format: RuleFormat, relations: Option<&[String]>) -> Self {
        let columns = match format {
            RuleFormat::Native => ruge::native_columns(),
            RuleFormat::Amie => amie::columns(),
            _ => Vec::new(),
        };
        Self { format, columns, dictionary: Dictionary::new(relations) }
    }

    fn line<'a>(&mut self, text: &'a str) -> Result<Line<'a>, Fault> {
        if text.len() > MAX_LINE {
            return Err(Fault::new("line too long", format!("{} bytes; at most {MAX_LINE} are read", text.len())));
        }
        match self.format {
            RuleFormat::Native => ruge::parse_native(text, &mut self.columns),
            RuleFormat::Ruge => ruge::parse(text),
            RuleFormat::Amie => amie::parse(text, &mut self.columns),
            RuleFormat::AnyBurl => anyburl::parse(text, Measure::Std),
            RuleFormat::AmieAnyBurl => anyburl::parse(text, Measure::Pca),
            RuleFormat::RnnLogic | RuleFormat::Rpje => chains::parse_ids(text, self.format, &self.dictionary),
            RuleFormat::NneAer => chains::parse_nne_aer(text),
            RuleFormat::Kale => text::parse_kale(text),
            RuleFormat::Prolog => prolog::parse(text),
            RuleFormat::Text => text::parse(text),
            RuleFormat::Json => Err(Fault::plain("JSON has no lines")),
        }
    }
}

/// A line as shown in messages: truncated at 160 characters, tabs made visible.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(800)]);
    let mut out: String = text
        .chars()
        .take(160)
        .map(|c| {
            if c == '\t' {
                '⇥'
            } else if c.is_control() {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect();
    if text.chars().count() > 160 || line.len() > 800 {
        out.push('…');
    }
    out
}
