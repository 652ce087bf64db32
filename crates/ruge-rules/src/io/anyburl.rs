//! AnyBURL's format, also read by PyClause and SAFRAN. AMIE 3.5 writes the same columns with PCA counts.
//!
//! `predicted<TAB>correct<TAB>confidence<TAB>h(X,Y) <= r1(X,A), r2(A,Y)`. Variables are single capitals, everything
//! else is an entity. The token `me_myself_i` stands for the other argument of its atom: `h(X,me_myself_i)` is h(X,X).

use ruge_kg::Names;

use super::atoms::{Notation, Spelling, parse as parse_atoms};
use super::raw::{Fault, Line, RawRecord, RawTerm, count, decimal, in_chain_order, ratio};
use super::write::Unsaid;
use super::{RuleRecord, Stated};
use crate::atom::Variable;

const NOTATION: Notation = Notation {
    arrows: &[("<=", true)],
    separators: &[","],
    quotes: &['"'],
    comment: None,
    is_variable,
    loose_names: true,
    logic: false,
    operators: false,
};

const REFLEXIVE: &str = "me_myself_i";

fn is_variable(name: &str) -> bool {
    matches!(name.as_bytes(), [b'A'..=b'Z'])
}

/// Which counts the columns hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Body size and standard confidence.
    Std,
    /// PCA body size and PCA confidence.
    Pca,
}

pub(crate) fn parse(line: &str, measure: Measure) -> Result<Line<'_>, Fault> {
    if line.starts_with('#') {
        return Ok(Line::Comment(line.trim_start_matches('#').trim()));
    }
    let columns: Vec<&str> = line.splitn(4, '\t').collect();
    let [predicted, correct, confidence, rule] = columns[..] else {
        let reason = format!("{} columns; AnyBURL writes predicted, correct, confidence, rule", columns.len());
        return Err(Fault::new("wrong number of columns", reason));
    };
    let (predicted, correct) = (count(predicted, "number predicted")?, count(correct, "number correct")?);
    let confidence = ratio(confidence, "confidence")?;
    let (mut rule, tail) = parse_atoms(rule, &NOTATION)?;
    if !tail.trim().is_empty() {
        return Err(Fault::new("text after the rule", format!("{:?} follows the rule", tail.trim())));
    }
    for atom in rule.premise.iter_mut().chain([&mut rule.conclusion]) {
        let itself = |term: &RawTerm<'_>| matches!(term, RawTerm::Constant(name) if name == REFLEXIVE);
        match (itself(&atom.subject), itself(&atom.object)) {
            (true, false) => atom.subject = atom.object.clone(),
            (false, true) => atom.object = atom.subject.clone(),
            _ => {}
        }
    }
    let mut stated = Stated { support: correct, ..Default::default() };
    match measure {
        Measure::Std => (stated.body_size, stated.std) = (predicted, confidence),
        Measure::Pca => (stated.pca_body, stated.pca) = (predicted, confidence),
    }
    Ok(Line::Rule(Box::new(RawRecord { rule, confidence, stated, counts: None })))
}

/// A line as AnyBURL writes it: a walk starts at X.
pub(crate) fn write(record: &RuleRecord, names: &Names, measure: Measure) -> Result<String, Unsaid> {
    let stated = &record.stated;
    let predicted = match measure {
        Measure::Std => stated.body_size,
        Measure::Pca => stated.pca_body,
    };
    let (Some(predicted), Some(correct)) = (predicted, stated.support) else {
        let reason = "its columns are counts, and this rule has none; count them in the data".into();
        return Err(Unsaid { reason, needs_data: true });
    };
    if correct > predicted {
        return Err(format!("{correct} correct of {predicted} predicted is not a confidence").into());
    }
    let confidence = if predicted == 0 { 0.0 } else { correct as f64 / predicted as f64 };
    let rule = in_chain_order(&record.rule);
    if rule.variable_count() > 26 {
        return Err("it has more variables than the alphabet has letters".into());
    }
    let variable = |variable: Variable| match variable.0 {
        0 => "X".to_string(),
        1 => "Y".to_string(),
        // A to W, then Z: the remaining letters.
        n @ 2..=24 => ((b'A' + n - 2) as char).to_string(),
        _ => "Z".to_string(),
    };
    let plain = |name: &str| name.to_string();
    let spelling = Spelling { variable: &variable, relation: &plain, entity: &plain, comma: "," };
    let head = spelling.atom(&rule.conclusion, names);
    let body = spelling.premise(&rule, names, ", ");
    Ok(format!("{predicted}\t{correct}\t{}\t{}", decimal(confidence), format!("{head} <= {body}").trim_end()))
}
