//! Writing rules, and rejecting those that would not read back.

use std::io::Write;

use ruge_kg::Names;

use super::anyburl::{self, Measure};
use super::raw::{Line, key};
use super::{LineReader, RuleFormat, RuleRecord, amie, chains, confidence, json, prolog, ruge, text};
use crate::error::RuleError;

/// Options for writing a rule file.
#[derive(Clone, Debug, Default)]
pub struct RuleWriteOptions {
    /// Comments at the top, in formats that have them: what was mined, and how.
    pub comments: Vec<String>,
    /// For formats with relation ids: the names in id order.
    pub relations: Option<Vec<String>>,
}

/// Writes rules. If the format cannot express one of them, nothing is written and the error names it.
pub fn write_rules(
    out: &mut dyn Write,
    format: RuleFormat,
    rules: &[RuleRecord],
    names: &Names,
    options: &RuleWriteOptions,
) -> Result<(), RuleError> {
    let renumbered = |record: &RuleRecord| RuleRecord { rule: record.rule.renumbered(), ..record.clone() };
    if format == RuleFormat::Json {
        let rules: Vec<RuleRecord> = rules.iter().map(renumbered).collect();
        out.write_all(json::write(&rules, names, &options.comments).map_err(std::io::Error::from)?.as_bytes())?;
        return Ok(());
    }
    let mut reader = LineReader::new(format, options.relations.as_deref());
    let mut written = head(format, &options.comments);
    for record in rules {
        let record = renumbered(record);
        let line = line(&reader, &record, names)
            .and_then(|line| Ok(read_back(&mut reader, &record, names, &line).map(|()| line)?))
            .map_err(|Unsaid { reason, needs_data }| RuleError::Unsayable {
                format,
                rule: text::show(&record.rule, names, &text::PLAIN),
                reason,
                needs_data,
            })?;
        written.push_str(&line);
        written.push('\n');
    }
    out.write_all(written.as_bytes())?;
    Ok(())
}

fn head(format: RuleFormat, comments: &[String]) -> String {
    let mut text = String::new();
    let sign = match format {
        RuleFormat::Native | RuleFormat::Text => Some('#'),
        RuleFormat::Prolog => Some('%'),
        _ => None,
    };
    if let Some(sign) = sign {
        for line in comments.iter().flat_map(|comment| comment.lines()) {
            text.push_str(format!("{sign} {line}").trim_end());
            text.push('\n');
        }
    }
    match format {
        RuleFormat::Native => text.push_str(ruge::HEADER),
        RuleFormat::Amie => text.push_str(amie::HEADER),
        _ => return text,
    }
    text.push('\n');
    text
}

fn line(reader: &LineReader, record: &RuleRecord, names: &Names) -> Result<String, Unsaid> {
    if !record.rule.negated.is_empty() && !matches!(reader.format, RuleFormat::Native | RuleFormat::Text) {
        return Err("a premise is negated; native, text and json can express that".into());
    }
    Ok(match reader.format {
        RuleFormat::Native => ruge::write_native(record, names),
        RuleFormat::Ruge => ruge::write(record, names)?,
        RuleFormat::Amie => amie::write(record, names),
        RuleFormat::AnyBurl => anyburl::write(record, names, Measure::Std)?,
        RuleFormat::AmieAnyBurl => anyburl::write(record, names, Measure::Pca)?,
        format @ (RuleFormat::RnnLogic | RuleFormat::Rpje | RuleFormat::NneAer) => {
            chains::write(record, names, format, &reader.dictionary)?
        }
        RuleFormat::Kale => text::write_kale(record, names)?,
        RuleFormat::Prolog => prolog::write(record, names)?,
        RuleFormat::Text => text::write(record, names)?,
        RuleFormat::Json => return Err("JSON is written whole".into()),
    })
}

/// Why a format cannot express a rule.
pub(crate) struct Unsaid {
    pub(crate) reason: String,
    pub(crate) needs_data: bool,
}

impl<T: Into<String>> From<T> for Unsaid {
    fn from(reason: T) -> Self {
        Self { reason: reason.into(), needs_data: false }
    }
}

/// Checks that a reader gets the same rule from the line. In formats without quoting this rejects names with blanks,
/// commas or brackets, however they would mislead a reader.
fn read_back(reader: &mut LineReader, record: &RuleRecord, names: &Names, line: &str) -> Result<(), String> {
    let misread = |how: &str| Err(format!("the line `{line}` would be {how}; a name in it breaks the notation"));
    if line.contains(['\n', '\r']) {
        return Err("a name holds a line break".into());
    }
    if line.starts_with('\u{feff}') {
        return Err("a name begins with a byte order mark, which a reader drops at the start of a file".into());
    }
    let raw = match reader.line(line) {
        Ok(Line::Rule(raw)) => raw,
        Ok(_) => return misread("skipped"),
        Err(fault) => return misread(&format!("refused ({})", fault.reason)),
    };
    let relation = &mut |name: &str| names.relations.id(name);
    let entity = &mut |name: &str| names.entities.id(name);
    match raw.rule.build(relation, entity) {
        Ok(Some(rule)) if key(&rule) == key(&record.rule) => {}
        Ok(_) => return misread("read as another rule"),
        Err(fault) => return Err(fault.reason),
    }
    // Formats with counts have their own measure in the confidence column.
    let own_measure = matches!(reader.format, RuleFormat::Amie | RuleFormat::AnyBurl | RuleFormat::AmieAnyBurl);
    match confidence(&raw, Default::default()) {
        Ok(read) if own_measure || (read.get() - record.confidence.get()).abs() < 1e-9 => Ok(()),
        Ok(read) => Err(format!(
            "the format has no place for the confidence {}; it means {}",
            record.confidence.get(),
            read.get()
        )),
        Err(fault) => Err(fault.reason),
    }
}
