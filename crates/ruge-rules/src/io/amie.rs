//! The output of AMIE+ and AMIE 3: rules among log lines, eight columns or more.
//!
//! By default AMIE 3 omits the standard confidence: it prints a body size of -1 and minus the support as confidence. So
//! negative numbers are read as missing. Header lines define the columns, which default to AMIE's usual ones.

use ruge_kg::Names;

use super::raw::{Fault, Line, RawRecord, decimal};
use super::ruge::{notation, plain_name, show};
use super::table::{Column, Row};
use super::{RuleRecord, Side};

pub(crate) const HEADER: &str = "Rule\tHead Coverage\tStd Confidence\tPCA Confidence\tPositive Examples\tBody size\tPCA Body size\tFunctional variable";

pub(crate) fn columns() -> Vec<Column> {
    HEADER.split('\t').map(Column::titled).collect()
}

/// A line of AMIE's output. The confidence is the PCA confidence.
pub(crate) fn parse<'a>(line: &'a str, columns: &mut Vec<Column>) -> Result<Line<'a>, Fault> {
    if line.starts_with("Rule\t") {
        *columns = line.split('\t').map(Column::titled).collect();
        return Ok(Line::Skip("header"));
    }
    let is_rule = line.split('\t').next().is_some_and(|text| text.split_ascii_whitespace().any(|word| word == "=>"));
    if !is_rule {
        return Ok(Line::Skip("log line"));
    }
    let row = Row::parse(line, columns)?;
    let rule = notation(row.rule, false)?;
    Ok(Line::Rule(Box::new(RawRecord { rule, confidence: row.stated.pca, stated: row.stated, counts: None })))
}

/// A line of AMIE+'s output. Unknown values are -1, as in AMIE 3; a missing PCA confidence becomes the rule's.
pub(crate) fn write(record: &RuleRecord, names: &Names) -> String {
    let stated = &record.stated;
    let number = |value: Option<f64>| value.map_or("-1".to_string(), decimal);
    let whole = |value: Option<u64>| value.map_or("-1".to_string(), |value| value.to_string());
    let side = match stated.side {
        Some(Side::Subject) => "?a",
        Some(Side::Object) => "?b",
        None => "",
    };
    [
        show(&record.rule, names, &plain_name),
        number(stated.head_coverage),
        number(stated.std),
        number(stated.pca.or(Some(record.confidence.get()))),
        whole(stated.support),
        whole(stated.body_size),
        whole(stated.pca_body),
        side.to_string(),
    ]
    .join("\t")
}
