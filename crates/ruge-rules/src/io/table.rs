//! Rule files with named columns: AMIE's output and our own TSV have the same columns under different headers.

use super::raw::{Fault, count, ratio};
use super::{Side, Stated};
use crate::measure::Counts;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    Rule,
    Confidence,
    HeadCoverage,
    Std,
    Pca,
    Support,
    Body,
    PcaBody,
    PcaSubject,
    PcaObject,
    Head,
    Side,
    /// Derived from others, or unknown.
    Ignored,
}

impl Column {
    /// The column with this title, in any tool's header.
    pub(crate) fn titled(title: &str) -> Self {
        let letters: String = title.chars().filter(char::is_ascii_alphabetic).collect();
        match letters.to_ascii_lowercase().as_str() {
            "rule" => Column::Rule,
            "confidence" => Column::Confidence,
            "headcoverage" => Column::HeadCoverage,
            "stdconfidence" | "standardconfidence" => Column::Std,
            "pcaconfidence" => Column::Pca,
            "positiveexamples" | "support" => Column::Support,
            "bodysize" => Column::Body,
            "pcabodysize" => Column::PcaBody,
            "pcabodysubject" => Column::PcaSubject,
            "pcabodyobject" => Column::PcaObject,
            "headsize" => Column::Head,
            "functionalvariable" | "functionalside" => Column::Side,
            _ => Column::Ignored,
        }
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) rule: &'a str,
    pub(crate) confidence: Option<f64>,
    pub(crate) stated: Stated,
    pca_subject: Option<u64>,
    pca_object: Option<u64>,
    head: Option<u64>,
}

impl<'a> Row<'a> {
    /// Splits a line at its tabs. Columns beyond the end of the line are missing, not errors.
    pub(crate) fn parse(line: &'a str, columns: &[Column]) -> Result<Self, Fault> {
        let mut row = Row::default();
        for (text, column) in line.split('\t').zip(columns) {
            match column {
                Column::Rule => row.rule = text,
                Column::Confidence => row.confidence = ratio(text, "confidence")?,
                Column::HeadCoverage => row.stated.head_coverage = ratio(text, "head coverage")?,
                Column::Std => row.stated.std = ratio(text, "standard confidence")?,
                Column::Pca => row.stated.pca = ratio(text, "PCA confidence")?,
                Column::Support => row.stated.support = count(text, "support")?,
                Column::Body => row.stated.body_size = count(text, "body size")?,
                Column::PcaBody => row.stated.pca_body = count(text, "PCA body size")?,
                Column::PcaSubject => row.pca_subject = count(text, "PCA body size of the subject side")?,
                Column::PcaObject => row.pca_object = count(text, "PCA body size of the object side")?,
                Column::Head => row.head = count(text, "head size")?,
                Column::Side => row.stated.side = side(text)?,
                Column::Ignored => {}
            }
        }
        let kept = match row.stated.side {
            Some(Side::Subject) => row.pca_subject,
            Some(Side::Object) => row.pca_object,
            None => None,
        };
        row.stated.pca_body = row.stated.pca_body.or(kept);
        Ok(row)
    }

    /// All counts, if every one is stated.
    pub(crate) fn counts(&self) -> Option<Counts> {
        Some(Counts {
            support: self.stated.support?,
            body: self.stated.body_size?,
            pca_subject: self.pca_subject?,
            pca_object: self.pca_object?,
            head: self.head?,
            side: self.stated.side?,
        })
    }
}

/// `?a` (AMIE+), -1 (AMIE 3) or `subject`; AMIE always names the conclusion's arguments ?a and ?b.
fn side(text: &str) -> Result<Option<Side>, Fault> {
    match text.trim() {
        "?a" | "-1" | "subject" => Ok(Some(Side::Subject)),
        "?b" | "-2" | "object" => Ok(Some(Side::Object)),
        "" | "-" => Ok(None),
        // Other variables occur with constants in the head; the rule determines their side.
        other if other.starts_with(['?', '-']) => Ok(None),
        other => Err(Fault::new("not a side", format!("{other:?} is neither a variable nor a side"))),
    }
}
