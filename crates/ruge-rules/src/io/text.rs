//! The text form: `born_in(x,y) & part_of(y,z) => nationality(x,z)  0.9`. KALE's files are a special case.
//!
//! Premises may be negated, `!r(y,x)`, and may have alternatives, `(p(x,y) | q(x,y)) & s(y,z)`: such a line is one rule
//! per alternative. A variable is a letter followed by digits, or `?name`; every other name, and every quoted name, is
//! an entity. A rule without a number is hard.

use ruge_kg::Names;

use super::RuleRecord;
use super::atoms::{Notation, Spelling, parse as parse_atoms, parse_all};
use super::raw::{Fault, Line, RawRecord, chain_order, decimal, natural, number};
use super::ruge::quote;
use crate::atom::Variable;
use crate::rule::Rule;

const TEXT: Notation = Notation {
    arrows: &[("==>", false), ("=>", false), ("⇒", false), (":-", true)],
    separators: &["&&", "&", ",", "∧"],
    quotes: &['"'],
    comment: Some(b'#'),
    is_variable,
    loose_names: false,
    logic: true,
    operators: true,
};

const KALE: Notation = Notation {
    arrows: &[("==>", false)],
    separators: &["&&", "&", "∧", ","],
    quotes: &[],
    comment: None,
    is_variable,
    loose_names: false,
    logic: false,
    operators: true,
};

/// A letter followed by digits, or `?name`.
pub(crate) fn is_variable(name: &str) -> bool {
    match name.as_bytes() {
        [b'?', ..] => true,
        [b'a'..=b'z' | b'A'..=b'Z', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

pub(crate) fn parse(line: &str) -> Result<Line<'_>, Fault> {
    let line = line.trim();
    if let Some(comment) = line.strip_prefix('#') {
        return Ok(Line::Comment(comment.trim()));
    }
    let (rules, tail) = parse_all(line, &TEXT)?;
    if rules.iter().any(|rule| rule.premise.is_empty()) {
        return Err(Fault::plain("a rule needs a premise"));
    }
    let confidence = weight(tail)?;
    let mut records: Vec<RawRecord<'_>> =
        rules.into_iter().map(|rule| RawRecord::simple(rule, Some(confidence))).collect();
    Ok(match records.pop() {
        Some(record) if records.is_empty() => Line::Rule(Box::new(record)),
        last => Line::Rules(records.into_iter().chain(last).collect()),
    })
}

/// A line of a KALE file, which joins two premises by `&&` or `&`. A number after the rule is accepted, though KALE writes
/// none.
pub(crate) fn parse_kale(line: &str) -> Result<Line<'_>, Fault> {
    let (rule, tail) = parse_atoms(line, &KALE)?;
    if rule.premise.is_empty() {
        return Err(Fault::plain("a rule needs a premise"));
    }
    Ok(Line::Rule(Box::new(RawRecord::simple(rule, Some(weight(tail)?)))))
}

/// The number after a rule, `0.9` or `[0.9]`; 1 if there is none.
pub(crate) fn weight(tail: &str) -> Result<f64, Fault> {
    let tail = tail.trim();
    if tail.is_empty() {
        return Ok(1.0);
    }
    let inner = tail.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(tail);
    number(inner, "confidence after the rule")
}

/// A name as the text form spells it.
fn name(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(['#', '!', '?', '='])
        && !name.contains("=>")
        && !name.contains(":-")
        && !name.contains(|c: char| c.is_whitespace() || c.is_control() || "\"(),&|∧∨¬⇒[]\u{feff}".contains(c));
    if plain { name.to_string() } else { quote(name, '"') }
}

fn entity(text: &str) -> String {
    if is_variable(text) { quote(text, '"') } else { name(text) }
}

/// x, y, z, u, v, w, then z1, z2, …
pub(crate) fn letter(at: usize) -> String {
    ["x", "y", "z", "u", "v", "w"].get(at).map_or_else(|| format!("z{}", at - 5), |letter| letter.to_string())
}

/// The signs between atoms and before negated ones.
pub(crate) struct Signs {
    and: &'static str,
    not: &'static str,
    arrow: &'static str,
}

/// ASCII signs.
pub(crate) const PLAIN: Signs = Signs { and: " & ", not: "!", arrow: " => " };

/// Logical signs.
pub(crate) const LOGIC: Signs = Signs { and: " ∧ ", not: "¬", arrow: " ⇒ " };

/// The rule in the text form with these signs; variables are named in reading order.
pub(crate) fn show(rule: &Rule, names: &Names, signs: &Signs) -> String {
    let (rule, order) = natural(rule);
    let variable = |variable: Variable| letter(order.iter().position(|&v| v == variable).unwrap_or(0));
    let spelling = Spelling { variable: &variable, relation: &name, entity: &entity, comma: "," };
    let premise = spelling.signed_premise(&rule, names, signs.and, signs.not);
    let text = format!("{premise}{}{}", signs.arrow, spelling.atom(&rule.conclusion, names));
    text.trim_start().to_string()
}

pub(crate) fn write(record: &RuleRecord, names: &Names) -> Result<String, String> {
    if record.rule.premise.is_empty() {
        return Err("it has no premise".into());
    }
    Ok(format!("{}  {}", show(&record.rule, names, &PLAIN), decimal(record.confidence.get())))
}

pub(crate) fn write_kale(record: &RuleRecord, names: &Names) -> Result<String, String> {
    if chain_order(&record.rule).is_none() || record.rule.premise.len() > 2 {
        return Err("KALE knows one premise or a walk of two, without entities".into());
    }
    let (rule, order) = natural(&record.rule);
    let variable = |variable: Variable| letter(order.iter().position(|&v| v == variable).unwrap_or(0));
    let plain = |name: &str| name.to_string();
    let spelling = Spelling { variable: &variable, relation: &plain, entity: &plain, comma: "," };
    Ok(format!("{}==>{}", spelling.premise(&rule, names, "&"), spelling.atom(&rule.conclusion, names)))
}
