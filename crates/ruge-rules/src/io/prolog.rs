//! Prolog clauses, as used by inferbeddings: `h(X0, X2) :- r1(X0, X1), r2(X1, X2)`, optionally followed by a weight.
//!
//! Variables start with a capital or `_`; quoted names (single or double) are always names. Relations are written
//! without quotes wherever a reader can tell where they end, because the tools that read them support no quotes there.

use ruge_kg::Names;

use super::RuleRecord;
use super::atoms::{Notation, Spelling, parse as parse_atoms};
use super::raw::{Fault, Line, RawRecord, decimal, natural};
use super::ruge::quote;
use super::text::weight;
use crate::atom::Variable;

const NOTATION: Notation = Notation {
    arrows: &[(":-", true)],
    separators: &[","],
    quotes: &['\'', '"'],
    comment: Some(b'%'),
    is_variable,
    loose_names: false,
    logic: false,
    operators: false,
};

fn is_variable(name: &str) -> bool {
    matches!(name.as_bytes(), [b'A'..=b'Z' | b'_', rest @ ..] if rest.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_'))
}

pub(crate) fn parse(line: &str) -> Result<Line<'_>, Fault> {
    let line = line.trim();
    if let Some(comment) = line.strip_prefix(['%', '#']) {
        return Ok(Line::Comment(comment.trim()));
    }
    let (rule, tail) = parse_atoms(line, &NOTATION)?;
    if rule.premise.is_empty() {
        return Err(Fault::plain("a rule needs a premise"));
    }
    let confidence = weight(tail.strip_prefix('.').unwrap_or(tail))?;
    Ok(Line::Rule(Box::new(RawRecord::simple(rule, Some(confidence)))))
}

fn relation(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(['%', '#'])
        && !name.contains(":-")
        && !name.contains(|c: char| c.is_whitespace() || c.is_control() || "'\"(),%\u{feff}".contains(c));
    if plain { name.to_string() } else { quote(name, '\'') }
}

fn entity(name: &str) -> String {
    if is_variable(name) { quote(name, '\'') } else { relation(name) }
}

/// A clause; a weight of 1 is omitted.
pub(crate) fn write(record: &RuleRecord, names: &Names) -> Result<String, String> {
    if record.rule.premise.is_empty() {
        return Err("it has no premise".into());
    }
    let (rule, order) = natural(&record.rule);
    let variable = |variable: Variable| format!("X{}", order.iter().position(|&v| v == variable).unwrap_or(0));
    let spelling = Spelling { variable: &variable, relation: &relation, entity: &entity, comma: ", " };
    let clause = format!("{} :- {}", spelling.atom(&rule.conclusion, names), spelling.premise(&rule, names, ", "));
    match record.confidence.get() {
        1.0 => Ok(clause),
        confidence => Ok(format!("{clause}\t{}", decimal(confidence))),
    }
}
