//! Formats for walks only: a premise is a list of relations from x to y, some of them inverse.
//!
//! RNNLogic, RulE and NCRL write `head b1 b2 …`, RPJE `b1 [b2] head`, both with ids from a dictionary in which id + R
//! is the inverse of id (R relations). ComplEx-NNE_AER writes `[-]body,head` with names. Weights have a decimal point,
//! ids do not.

use std::borrow::Cow;
use std::path::Path;

use ruge_kg::Names;
use ruge_kg::io::Limits;
use rustc_hash::FxHashMap;

use super::raw::{Fault, Line, RawAtom, RawRecord, RawRule, RawTerm, chain, decimal, number};
use super::write::Unsaid;
use super::{RuleFormat, RuleRecord};
use crate::error::RuleError;

/// The meaning of relation ids.
#[derive(Default)]
pub(crate) struct Dictionary {
    /// Name and direction of each id, including inverses.
    meaning: Vec<(String, bool)>,
    id: FxHashMap<(String, bool), usize>,
    given: bool,
}

impl Dictionary {
    /// A dictionary over names in id order. A name with `!` in front is the inverse of the name without it; if there
    /// are none, the inverses follow the last name.
    pub(crate) fn new(names: Option<&[String]>) -> Self {
        let Some(names) = names else { return Self::default() };
        let known: rustc_hash::FxHashSet<&str> = names.iter().map(String::as_str).collect();
        let inverse_of = |name: &str| name.strip_prefix('!').filter(|name| known.contains(name)).map(str::to_string);
        let mut meaning: Vec<(String, bool)> = names
            .iter()
            .map(|name| inverse_of(name).map_or_else(|| (name.clone(), false), |forward| (forward, true)))
            .collect();
        if !meaning.iter().any(|&(_, inverse)| inverse) {
            meaning.extend(names.iter().map(|name| (name.clone(), true)));
        }
        let mut id = FxHashMap::default();
        for (at, relation) in meaning.iter().enumerate() {
            id.entry(relation.clone()).or_insert(at);
        }
        Self { meaning, id, given: true }
    }

    fn meaning(&self, text: &str) -> Result<(String, bool), Fault> {
        let id: usize =
            text.parse().map_err(|_| Fault::new("not a relation id", format!("{text:?} is not a relation id")))?;
        if !self.given {
            return Ok((id.to_string(), false));
        }
        let known = self.meaning.len();
        self.meaning.get(id).cloned().ok_or_else(|| {
            let reason = format!("relation {id} is not among the {known} ids of the dictionary, inverses included");
            Fault::new("unknown relation id", reason)
        })
    }

    fn id(&self, name: &str, inverse: bool) -> Result<String, Unsaid> {
        if self.given {
            let id = self.id.get(&(name.to_string(), inverse));
            return id
                .map(usize::to_string)
                .ok_or_else(|| format!("the dictionary lacks the relation {name:?}").into());
        }
        let lacks = |what: String| {
            let reason = format!("{what}; give the relations' ids with a relation dictionary or the data");
            Err(Unsaid { reason, needs_data: true })
        };
        match name.parse::<usize>() {
            Ok(_) if inverse => lacks("without a dictionary there are no inverses".into()),
            Ok(id) if id.to_string() == name => Ok(id.to_string()),
            _ => lacks(format!("it writes ids, and {name:?} is a name")),
        }
    }
}

/// The names of a relation dictionary in id order: `id<TAB>name` per line (or `name<TAB>id`), with or without a count.
pub fn read_relation_dictionary(path: &Path) -> Result<Vec<String>, RuleError> {
    let bytes = ruge_kg::io::read_whole(path, Limits::default())?;
    // Every row is kept with its position, and every name again.
    ruge_kg::memory::ensure(16 * bytes.len() as u64, "the relation dictionary", None)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        let reason = "not valid UTF-8".to_string();
        RuleError::Dictionary { path: path.to_path_buf(), line: line as u64, reason }
    })?;
    let wrong = |line: u64, reason: String| RuleError::Dictionary { path: path.to_path_buf(), line, reason };
    let rows: Vec<(u64, &str, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .skip_while(|(at, line)| *at == 0 && line.trim().parse::<usize>().is_ok())
        .map(|(at, line)| {
            let line = line.trim_end_matches('\r');
            let columns = line.split_once('\t').or_else(|| line.trim().split_once(' '));
            let (a, b) = columns.ok_or_else(|| wrong(at as u64 + 1, format!("{line:?} has one column")))?;
            Ok((at as u64 + 1, a.trim(), b.trim()))
        })
        .collect::<Result<_, RuleError>>()?;
    let ids_first = rows.iter().all(|(_, id, _)| id.parse::<usize>().is_ok());
    let mut names: Vec<Option<String>> = vec![None; rows.len()];
    for (line, a, b) in rows {
        let (id, name) = if ids_first { (a, b) } else { (b, a) };
        let place = id.parse::<usize>().ok().and_then(|id| names.get_mut(id));
        match place {
            Some(place @ None) => *place = Some(name.to_string()),
            Some(Some(first)) => return Err(wrong(line, format!("id {id} names {first:?} already"))),
            None => return Err(wrong(line, format!("{id:?} is not an id below the number of relations"))),
        }
    }
    Ok(names.into_iter().flatten().collect())
}

/// A line of ids. RNNLogic has the head first, RPJE last.
pub(crate) fn parse_ids<'a>(line: &'a str, format: RuleFormat, dictionary: &Dictionary) -> Result<Line<'a>, Fault> {
    if let Some(comment) = line.strip_prefix('#') {
        return Ok(Line::Comment(comment.trim()));
    }
    let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
    let mut confidence = 1.0;
    if let Some(&last) = words.last().filter(|word| word.contains(['.', 'e', 'E'])) {
        confidence = number(last, "weight")?;
        words.pop();
    }
    if words.len() < 2 {
        return Err(Fault::plain("a rule needs a head and a body"));
    }
    let head = if format == RuleFormat::Rpje { words.pop().unwrap_or("") } else { words.remove(0) };
    if format == RuleFormat::Rpje && words.len() > 2 {
        return Err(Fault::new("too many columns", format!("{} body relations; RPJE has one or two", words.len())));
    }
    let body = words.into_iter().map(|word| dictionary.meaning(word)).collect::<Result<Vec<_>, _>>()?;
    let (head, inverse) = dictionary.meaning(head)?;
    let rule = walk(body.into_iter().map(|(name, inverse)| (name.into(), inverse)).collect(), (head.into(), inverse));
    Ok(Line::Rule(Box::new(RawRecord::simple(rule, Some(confidence)))))
}

pub(crate) fn parse_nne_aer(line: &str) -> Result<Line<'_>, Fault> {
    let (rule, confidence) =
        line.rsplit_once('\t').ok_or_else(|| Fault::plain("no tab and confidence after the rule"))?;
    let mut parts = rule.split(',');
    let (Some(body), Some(head), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Fault::new("not `body,head`", format!("{rule:?} is not `body,head`: one comma is expected")));
    };
    let (body, inverse) = body.strip_prefix('-').map_or((body, false), |body| (body, true));
    let (body, head) = (body.trim(), head.trim());
    if body.is_empty() || head.is_empty() {
        return Err(Fault::plain("a relation is missing"));
    }
    let rule = walk(vec![(body.into(), inverse)], (head.into(), false));
    Ok(Line::Rule(Box::new(RawRecord::simple(rule, Some(number(confidence, "confidence")?)))))
}

/// A walk as a rule: the i-th step leads from variable i to variable i + 1.
fn walk<'a>(body: Vec<(Cow<'a, str>, bool)>, head: (Cow<'a, str>, bool)) -> RawRule<'a> {
    let variable = |at: usize| RawTerm::Variable(Cow::Owned(at.to_string()));
    let atom = |(relation, inverse): (Cow<'a, str>, bool), from: usize, to: usize| {
        let (from, to) = if inverse { (to, from) } else { (from, to) };
        RawAtom { relation, subject: variable(from), object: variable(to) }
    };
    let end = body.len();
    let premise = body.into_iter().enumerate().map(|(at, step)| atom(step, at, at + 1)).collect();
    RawRule { premise, negated: vec![], conclusion: atom(head, 0, end) }
}

/// A line in one of the three formats.
pub(crate) fn write(
    record: &RuleRecord,
    names: &Names,
    format: RuleFormat,
    dictionary: &Dictionary,
) -> Result<String, Unsaid> {
    let longest = match format {
        RuleFormat::NneAer => 1,
        RuleFormat::Rpje => 2,
        _ => usize::MAX,
    };
    let steps = chain(&record.rule).ok_or("it writes walks from x to y only, without entities and branches")?;
    if steps.len() > longest {
        return Err(format!("its premises are at most {longest} long").into());
    }
    let head = names.relations.name(record.rule.head());
    let confidence = decimal(record.confidence.get());
    if format == RuleFormat::NneAer {
        let &(body, inverse) = steps.first().ok_or("it has no premise")?;
        let sign = if inverse { "-" } else { "" };
        return Ok(format!("{sign}{},{head}\t{confidence}", names.relations.name(body)));
    }
    // A weight must not look like an id: `1` would be an id, `1.0` is not.
    let confidence = if confidence.contains('.') { confidence } else { format!("{confidence}.0") };
    let id = |&(relation, inverse)| dictionary.id(names.relations.name(relation), inverse);
    let body = steps.iter().map(id).collect::<Result<Vec<String>, Unsaid>>()?;
    let head = dictionary.id(head, false)?;
    Ok(match format {
        RuleFormat::Rpje => format!("{}\t{head}\t{confidence}", body.join("\t")),
        _ => format!("{head} {} {confidence}", body.join(" ")),
    })
}
