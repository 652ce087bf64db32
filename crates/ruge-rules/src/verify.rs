//! Verifies a rule file against the data.
//!
//! Every rule is counted again, and its confidence is compared with the four numbers that tools call by that name. If a
//! whole file agrees with one of them, that is what the file contains; the ranges and shapes show the filters that made
//! it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use ruge_kg::Graph;
use serde::Serialize;

use crate::count::Counter;
use crate::error::RuleError;
use crate::io::{RuleFile, RuleFormat, RuleRecord};
use crate::measure::{Counts, Side};
use crate::rule::Shape;
use ruge_kg::control::{Control, Work};

/// A number that some tool calls confidence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// PCA confidence with the subject kept.
    PcaSubject,
    /// PCA confidence with the object kept.
    PcaObject,
    /// Standard confidence.
    Standard,
    /// support / (body size + 5).
    Smoothed,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::PcaSubject, Kind::PcaObject, Kind::Standard, Kind::Smoothed];

    /// Its name, in words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::PcaSubject => "PCA, subject side",
            Kind::PcaObject => "PCA, object side",
            Kind::Standard => "standard",
            Kind::Smoothed => "smoothed",
        }
    }

    /// Its value.
    pub fn of(self, counts: &Counts) -> f64 {
        match self {
            Kind::PcaSubject => counts.pca_on(Side::Subject),
            Kind::PcaObject => counts.pca_on(Side::Object),
            Kind::Standard => counts.standard(),
            Kind::Smoothed => counts.smoothed(),
        }
    }
}

/// One rule, counted again.
#[derive(Clone, PartialEq, Debug)]
pub struct Verified {
    /// Its index in the file's list of rules.
    pub rule: usize,
    /// Its counts in the data; `None` for a rule that cannot be counted (no premise, unsafe).
    pub counts: Option<Counts>,
    /// The confidences equal to the stated one, within the precision of the file's format.
    pub equals: Vec<Kind>,
    /// Other wrong numbers in the file: name, stated, counted.
    pub wrong: Vec<(&'static str, f64, f64)>,
}

impl Verified {
    /// Whether the stated confidence is the PCA confidence on the side that AMIE would choose.
    pub fn is_pca(&self) -> bool {
        let kind = |counts: Counts| match counts.side {
            Side::Subject => Kind::PcaSubject,
            Side::Object => Kind::PcaObject,
        };
        self.counts.is_some_and(|counts| self.equals.contains(&kind(counts)))
    }

    /// Whether the stated confidence is none of the four, or a stated count is wrong.
    pub fn is_mismatch(&self) -> bool {
        self.counts.is_some() && (self.equals.is_empty() || !self.wrong.is_empty())
    }
}

/// Minimum and maximum of a number over a file.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Range {
    /// Minimum.
    pub lowest: f64,
    /// Maximum.
    pub highest: f64,
}

impl Range {
    fn over(values: impl Iterator<Item = f64>) -> Option<Self> {
        values.fold(None, |range: Option<Range>, value| {
            Some(range.map_or(Range { lowest: value, highest: value }, |r| Range {
                lowest: r.lowest.min(value),
                highest: r.highest.max(value),
            }))
        })
    }
}

/// A whole file, counted again.
#[derive(Clone, Debug)]
pub struct Verification {
    /// Rule by rule.
    pub rules: Vec<Verified>,
    /// Number of rules by shape.
    pub shapes: BTreeMap<Shape, usize>,
    /// How many stated confidences equal each kind.
    pub equal: BTreeMap<Kind, usize>,
    /// Ranges of the counted numbers, by name.
    pub ranges: Vec<(&'static str, Range)>,
}

impl Verification {
    /// How many stated confidences are the PCA confidence of the functional side.
    pub fn matching_pca(&self) -> usize {
        self.rules.iter().filter(|rule| rule.is_pca()).count()
    }

    /// How many stated confidences are the standard confidence.
    pub fn matching_std(&self) -> usize {
        self.equal.get(&Kind::Standard).copied().unwrap_or(0)
    }

    /// How many rules disagree with the data.
    pub fn mismatched(&self) -> usize {
        self.rules.iter().filter(|rule| rule.is_mismatch()).count()
    }

    /// A one-sentence summary of the file.
    pub fn verdict(&self) -> String {
        let counted = self.rules.iter().filter(|rule| rule.counts.is_some()).count();
        if counted == 0 {
            return "The file holds no rule that can be counted.".into();
        }
        if self.matching_pca() == counted {
            return "Every figure is the PCA confidence on the functional side: AMIE's PCA confidence.".into();
        }
        for kind in Kind::ALL {
            if self.equal.get(&kind) == Some(&counted) {
                return format!("Every figure is the {} confidence.", kind.name());
            }
        }
        let best = self.equal.iter().max_by_key(|(_, count)| **count);
        match (best, self.matching_pca()) {
            (_, pca) if pca * 2 > counted => {
                format!("{pca} of {counted} figures are the PCA confidence on the functional side; the others are not.")
            }
            (Some((kind, &count)), _) if count * 2 > counted => {
                format!("{count} of {counted} figures are the {} confidence; the others are not.", kind.name())
            }
            _ => "The figures follow none of the known confidences: perhaps they come from other data.".into(),
        }
    }
}

/// Rounding tolerance of a stated ratio, by format.
fn tolerance(format: RuleFormat) -> f64 {
    // AMIE 3 prints six decimals, all other known tools nine or all.
    if format == RuleFormat::Amie { 6e-7 } else { 6e-10 }
}

/// Counts every rule of the file in `graph`, which must be the training graph the file was mined from.
pub fn verify(graph: &Graph, file: &RuleFile) -> Verification {
    verify_under(graph, file, &Control::default()).expect("nobody stops it")
}

/// [`verify`] with a control, which receives progress in rules; [`RuleError::Cancelled`] on cancellation.
pub fn verify_under(graph: &Graph, file: &RuleFile, control: &Control<'_>) -> Result<Verification, RuleError> {
    let tolerance = tolerance(file.format);
    let done = AtomicU64::new(0);
    let count = |(index, record): (usize, &RuleRecord), counter: &mut Counter| {
        let counts = counter.count_under(graph, &record.rule, control)?;
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        control.report(&Work { done, total: file.rules.len() as u64 });
        Ok(compare(index, record, counts, tolerance))
    };
    let rules: Vec<Verified> = file
        .rules
        .par_iter()
        .enumerate()
        .map_init(|| Counter::new(graph.entity_count()), |counter, item| count(item, counter))
        .collect::<Result<_, RuleError>>()?;
    let mut equal = BTreeMap::new();
    for kind in rules.iter().flat_map(|rule| &rule.equals) {
        *equal.entry(*kind).or_default() += 1;
    }
    let mut shapes = BTreeMap::new();
    for record in &file.rules {
        *shapes.entry(record.rule.shape()).or_default() += 1;
    }
    type Number = fn(&Counts) -> f64;
    let numbers: [(&'static str, Number); 5] = [
        ("support", |c| c.support as f64),
        ("head coverage", Counts::head_coverage),
        ("PCA confidence", Counts::pca),
        ("standard confidence", Counts::standard),
        ("head size", |c| c.head as f64),
    ];
    let counted = || rules.iter().filter_map(|rule| rule.counts.as_ref());
    let ranges = numbers
        .iter()
        .filter_map(|(name, number)| Range::over(counted().map(number)).map(|range| (*name, range)))
        .collect();
    Ok(Verification { rules, shapes, equal, ranges })
}

fn compare(index: usize, record: &RuleRecord, counts: Option<Counts>, tolerance: f64) -> Verified {
    let mut verified = Verified { rule: index, counts, equals: Vec::new(), wrong: Vec::new() };
    let Some(counts) = counts else { return verified };
    let close = |a: f64, b: f64| (a - b).abs() <= tolerance;
    verified.equals = Kind::ALL.into_iter().filter(|kind| close(kind.of(&counts), record.confidence.get())).collect();
    let stated = &record.stated;
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    for (name, said, is) in [
        ("support", whole(stated.support), counts.support as f64),
        ("body size", whole(stated.body_size), counts.body as f64),
        ("PCA body size", whole(stated.pca_body), counts.pca_body() as f64),
        ("head coverage", stated.head_coverage, counts.head_coverage()),
        ("PCA confidence", stated.pca, counts.pca()),
        ("standard confidence", stated.std, counts.standard()),
    ] {
        if let Some(said) = said
            && !close(said, is)
        {
            verified.wrong.push((name, said, is));
        }
    }
    verified
}
