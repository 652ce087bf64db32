//! Which columns of a table hold head, relation and tail.
//!
//! They are given as an order (`hrt`), by name or by number, or they are found: a header whose words are known tells them, in any order
//! and among other columns. Without a header they are head, relation, tail.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Column order: `hrt`, `htr`, …; `-` marks a column to skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// Position of the head.
    pub head: usize,
    /// Position of the relation.
    pub relation: usize,
    /// Position of the tail.
    pub tail: usize,
    /// Columns per line.
    pub count: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self { head: 0, relation: 1, tail: 2, count: 3 }
    }
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let find = |wanted: char| {
            let mut places = text.chars().enumerate().filter(|&(_, c)| c.eq_ignore_ascii_case(&wanted));
            match (places.next(), places.next()) {
                (Some((at, _)), None) => Ok(at),
                _ => Err(format!("column order {text:?} must name `{wanted}` exactly once, as in hrt, htr or -hrt")),
            }
        };
        if let Some(other) = text.chars().find(|c| !"hrtHRT-".contains(*c)) {
            return Err(format!("column order {text:?} holds {other:?}; use h, r, t and `-` for an ignored column"));
        }
        Ok(Self { head: find('h')?, relation: find('r')?, tail: find('t')?, count: text.chars().count() })
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for column in 0..self.count {
            let name = match column {
                c if c == self.head => 'h',
                c if c == self.relation => 'r',
                c if c == self.tail => 't',
                _ => '-',
            };
            write!(f, "{name}")?;
        }
        Ok(())
    }
}

/// Whether the first line of a file is a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Header {
    /// Yes if it reads like `head relation tail` or `subject predicate object`.
    #[default]
    Auto,
    /// Yes.
    Yes,
    /// No: it is a triple.
    No,
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A column of a table, as a person names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// By position, from 1.
    Number(usize),
    /// By its name in the header.
    Name(String),
}

/// Which columns are read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ColumnChoice {
    /// Those that a known header names; head, relation, tail without one.
    #[default]
    Auto,
    /// In this order.
    Order(Columns),
    /// Head, relation and tail, each by name or number.
    Named([Column; 3]),
}

impl From<Columns> for ColumnChoice {
    fn from(columns: Columns) -> Self {
        ColumnChoice::Order(columns)
    }
}

impl FromStr for ColumnChoice {
    type Err = String;

    /// `hrt`, or three names or numbers separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains(',') {
            return text.parse().map(ColumnChoice::Order);
        }
        let columns: Vec<Column> = text
            .split(',')
            .map(|part| match part.trim().parse() {
                Ok(number) => Column::Number(number),
                Err(_) => Column::Name(part.trim().to_string()),
            })
            .collect();
        let wrong =
            columns.iter().any(|column| matches!(column, Column::Number(0)) || *column == Column::Name("".into()));
        match <[Column; 3]>::try_from(columns) {
            Ok(columns) if !wrong => Ok(ColumnChoice::Named(columns)),
            _ => Err(format!(
                "{text:?} does not name three columns; give head, relation and tail by name or by number from 1, as in \
                 subject,predicate,object or 1,3,2"
            )),
        }
    }
}

impl fmt::Display for ColumnChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnChoice::Auto => write!(f, "auto"),
            ColumnChoice::Order(columns) => write!(f, "{columns}"),
            ColumnChoice::Named(columns) => {
                let words: Vec<String> = columns
                    .iter()
                    .map(|column| match column {
                        Column::Number(number) => number.to_string(),
                        Column::Name(name) => name.clone(),
                    })
                    .collect();
                write!(f, "{}", words.join(","))
            }
        }
    }
}

impl ColumnChoice {
    /// Fields per line, as far as it is known before a line is read.
    pub(super) fn count(&self) -> usize {
        match self {
            ColumnChoice::Order(columns) => columns.count,
            _ => Columns::default().count,
        }
    }

    /// The columns of a file whose first line has these fields, and whether that line must be a header. Errors say what is wrong
    /// with the choice.
    pub(super) fn resolve(&self, first: &[String], header: Header) -> Result<(Columns, bool), String> {
        let named = match self {
            ColumnChoice::Order(columns) => return Ok((*columns, false)),
            ColumnChoice::Auto => {
                let found = if header == Header::No { None } else { columns_of_header(first) };
                return Ok(found.map_or((Columns::default(), false), |columns| (columns, true)));
            }
            ColumnChoice::Named(named) => named,
        };
        let mut by_name = false;
        let mut place = |column: &Column| match column {
            Column::Number(number) if *number <= first.len() => Ok(number - 1),
            Column::Number(number) => Err(format!("there is no column {number}: the first line has {}", first.len())),
            Column::Name(name) => {
                by_name = true;
                let same = |field: &&String| field.trim() == name || field.trim().eq_ignore_ascii_case(name);
                let exact = first.iter().position(|field| field.trim() == name);
                exact
                    .or_else(|| first.iter().position(|field| same(&field)))
                    .ok_or_else(|| format!("there is no column {name:?}; the first line has {}", first.join(", ")))
            }
        };
        let [head, relation, tail] = [place(&named[0])?, place(&named[1])?, place(&named[2])?];
        if head == relation || head == tail || relation == tail {
            return Err(format!("{self} names a column twice"));
        }
        let columns = Columns { head, relation, tail, count: first.len() };
        Ok((columns, by_name || (header == Header::Auto && columns_of_header(first).is_some())))
    }
}

/// Words of headers for head, relation and tail.
const WORDS: [&[&str]; 3] = [
    &["head", "h", "subject", "subj", "s", "source", "src", "from", "start", "_start"],
    &[
        "relation",
        "r",
        "rel",
        "predicate",
        "pred",
        "p",
        "property",
        "edge",
        "metaedge",
        "relationship",
        "edge_type",
        "relation_type",
        "rel_type",
        "label",
        "type",
        "_type",
    ],
    &["tail", "t", "object", "obj", "o", "target", "dst", "dest", "to", "end", "_end"],
];

/// How well a field of a header names a part of a triple: lower is better.
fn fits(field: &str, part: usize) -> Option<usize> {
    let field = field.trim().trim_start_matches(['#', '?', ':']).to_ascii_lowercase();
    // Neo4j writes the group of ids behind them: `:START_ID(Person)`.
    let field = field.split('(').next().unwrap_or_default();
    let endings = ["", "_id", "id", "_name", "_iri", "_uri"];
    let rank = |word: &&str| endings.iter().position(|ending| field.strip_suffix(ending) == Some(word));
    // `type` and `label` name a relation only where no clearer word does.
    let weak = |word: &str| if ["label", "type", "_type"].contains(&word) { endings.len() } else { 0 };
    WORDS[part].iter().filter_map(|word| Some(rank(word)? + weak(word))).min()
}

/// The columns that a header names; `None` if it is no header, or if it names one of them twice.
pub(super) fn columns_of_header(fields: &[String]) -> Option<Columns> {
    let find = |part: usize| {
        let ranks: Vec<(usize, usize)> =
            fields.iter().enumerate().filter_map(|(at, field)| Some((fits(field, part)?, at))).collect();
        let best = ranks.iter().min()?;
        (ranks.iter().filter(|(rank, _)| *rank == best.0).count() == 1).then_some(best.1)
    };
    let (head, relation, tail) = match (find(0), find(1), find(2)) {
        (None, Some(relation), None) => only_relation(fields, relation)?,
        (head, relation, tail) => (head?, relation?, tail?),
    };
    Some(Columns { head, relation, tail, count: fields.len() })
}

/// Words that name a column and hardly ever a relation.
const ONLY_COLUMNS: [&str; 7] =
    ["relation", "predicate", "relationship", "metaedge", "edge_type", "relation_type", "rel_type"];

/// Of three columns, one whose name says that it holds the relation: `package,other,relationship`. The others are head and tail, in
/// their order. Their names must be plain words, so that facts of a relation that is called so are no header.
fn only_relation(fields: &[String], relation: usize) -> Option<(usize, usize, usize)> {
    let name = fields[relation].trim().to_ascii_lowercase();
    let is_word = |at: usize| fields[at].trim().bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let is_other = |at: &usize| *at != relation && is_word(*at) && fits(&fields[*at], 1).is_none();
    let others: Vec<usize> = (0..fields.len()).filter(is_other).collect();
    match others[..] {
        [head, tail] if fields.len() == 3 && ONLY_COLUMNS.contains(&name.as_str()) => Some((head, relation, tail)),
        _ => None,
    }
}

/// Whether a first line is taken for a header.
pub(crate) fn is_header(fields: &[&str]) -> bool {
    columns_of_header(&fields.iter().map(|field| field.to_string()).collect::<Vec<_>>()).is_some()
}

/// Whether three fields look like column names rather than a fact.
pub(crate) fn looks_like_header(head: &str, relation: &str, tail: &str) -> bool {
    [head, relation, tail].into_iter().enumerate().all(|(part, field)| fits(field, part).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<String> {
        text.split(',').map(str::to_string).collect()
    }

    #[test]
    fn headers_tell_their_columns() {
        for (header, order) in [
            ("head,relation,tail", "hrt"),
            ("Subject,Predicate,Object", "hrt"),
            ("source,metaedge,target", "hrt"),
            ("head_id,relation_id,tail_id", "hrt"),
            ("h,t,r", "htr"),
            ("from,type,to", "hrt"),
            (":START_ID(Person),:END_ID(City),:TYPE", "htr"),
            ("id,source,source_type,relationship,target,weight", "-h-rt-"),
            ("head,head_name,relation,tail,tail_name", "h-rt-"),
            ("package,other,relationship", "htr"),
            ("who,relation,whom", "hrt"),
        ] {
            assert_eq!(columns_of_header(&fields(header)).map(|c| c.to_string()), Some(order.into()), "{header}");
        }
        for line in [
            "Paris,capital_of,France",
            "head,relation,France",
            "a,b",
            "source,source,target",
            ":ID,name,:LABEL",
            "a,type,b",
            "who,relation,whom,when",
            "entity 0,relation,entity 1",
            "http://a/b,predicate,c",
        ] {
            assert_eq!(columns_of_header(&fields(line)), None, "{line}");
        }
    }

    #[test]
    fn columns_by_name_and_number() {
        let choice = |text: &str| text.parse::<ColumnChoice>();
        let first = fields("id,Subject,verb,object");
        let resolve = |text: &str| choice(text).unwrap().resolve(&first, Header::Auto);
        assert_eq!(resolve("subject,verb,object").unwrap().0.to_string(), "-hrt");
        assert!(resolve("subject,verb,object").unwrap().1, "names need a header");
        assert_eq!(resolve("2,4,3").unwrap(), ("-htr".parse().unwrap(), false));
        assert!(resolve("2,9,3").unwrap_err().contains("no column 9"));
        assert!(resolve("subject,nix,object").unwrap_err().contains("no column \"nix\""));
        assert!(resolve("2,2,3").unwrap_err().contains("twice"));
        for wrong in ["a,b", "0,1,2", "a,,c", "xyz"] {
            assert!(choice(wrong).is_err(), "{wrong}");
        }
    }
}
