//! Rule formats by name.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::RuleError;

/// Format of a rule file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RuleFormat {
    /// Our own TSV: RUGE's notation with all counts and a header.
    Native,
    /// RUGE's rule files: `?b  r  ?a   => ?a  h  ?b`, tab, confidence.
    Ruge,
    /// The output of AMIE+ and AMIE 3.
    Amie,
    /// AnyBURL's output, which PyClause and SAFRAN read.
    #[serde(rename = "anyburl")]
    AnyBurl,
    /// AMIE 3.5's `-ofmt anyburl`: the same columns with PCA counts.
    #[serde(rename = "amie-anyburl")]
    AmieAnyBurl,
    /// RNNLogic, RulE and NCRL: `head b1 b2 …` as ids.
    #[serde(rename = "rnnlogic")]
    RnnLogic,
    /// RPJE: `b1 [b2] head` as ids.
    Rpje,
    /// ComplEx-NNE_AER: `[-]body,head`.
    NneAer,
    /// KALE: `r1(x,y)&r2(y,z)==>h(x,z)`, hard rules.
    Kale,
    /// Prolog clauses.
    Prolog,
    /// The text form for people: `born_in(x,y) => nationality(x,y)  0.9`.
    Text,
    /// One JSON object with a list of rules.
    Json,
}

const TABLE: &[(RuleFormat, &str, &[&str])] = &[
    (RuleFormat::Native, "native", &["tsv"]),
    (RuleFormat::Ruge, "ruge", &[]),
    (RuleFormat::Amie, "amie", &["amie+", "amieplus", "amie3"]),
    (RuleFormat::AnyBurl, "anyburl", &["pyclause", "safran"]),
    (RuleFormat::AmieAnyBurl, "amie-anyburl", &[]),
    (RuleFormat::RnnLogic, "rnnlogic", &["rule", "ncrl"]),
    (RuleFormat::Rpje, "rpje", &[]),
    (RuleFormat::NneAer, "nne-aer", &["complex-nne-aer", "aer"]),
    (RuleFormat::Kale, "kale", &["fb122"]),
    (RuleFormat::Prolog, "prolog", &["inferbeddings"]),
    (RuleFormat::Text, "text", &[]),
    (RuleFormat::Json, "json", &[]),
];

impl RuleFormat {
    /// All formats.
    pub fn all() -> impl ExactSizeIterator<Item = RuleFormat> {
        TABLE.iter().map(|&(format, ..)| format)
    }

    /// The name accepted by [`FromStr`].
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|(format, ..)| *format == self).map_or("unnamed", |&(_, name, _)| name)
    }

    /// Every name, for messages.
    pub fn list() -> String {
        let names: Vec<&str> = Self::all().map(Self::name).collect();
        names.join(", ")
    }
}

impl fmt::Display for RuleFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RuleFormat {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wanted = text.trim().to_ascii_lowercase().replace('_', "-");
        let known = TABLE.iter().find(|(_, name, aliases)| *name == wanted || aliases.contains(&wanted.as_str()));
        if let Some(&(format, ..)) = known {
            return Ok(format);
        }
        let near = |name: &str| strsim::jaro_winkler(name, &wanted);
        let suggestion = Self::all().map(Self::name).max_by(|a, b| near(a).total_cmp(&near(b)));
        Err(RuleError::NoSuchFormat {
            name: text.to_string(),
            suggestion: suggestion.filter(|name| near(name) > 0.7),
            formats: Self::list(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_knows_its_name() {
        for format in RuleFormat::all() {
            assert_eq!(format.to_string().parse::<RuleFormat>().ok(), Some(format));
        }
        let error = "ameie".parse::<RuleFormat>().expect_err("no such format").to_string();
        assert!(error.contains("did you mean amie?") && error.contains("ruge"), "{error}");
    }
}
