//! `?b  rel  ?a   => ?a  rel  ?b`: the notation of RUGE and AMIE, RUGE's rule files, and our own TSV: RUGE's with more
//! columns.
//!
//! Column one is the rule, column two the confidence, so a reader of these two columns reads both formats. In our own
//! files a name that would break the notation is in double quotes, with `\"`, `\\`, `\t`, `\n` and `\r` inside, and `!`
//! precedes each negated premise.

use std::borrow::Cow;

use ruge_kg::Names;

use super::raw::{Fault, Line, RawAtom, RawRecord, RawRule, RawTerm, decimal};
use super::table::{Column, Row};
use super::{RuleRecord, Side};
use crate::atom::{Atom, Term, Variable};
use crate::rule::Rule;

pub(crate) const HEADER: &str = "#rule\tconfidence\thead_coverage\tstd_confidence\tpca_confidence\tpca_other_side\tsupport\tbody_size\tpca_body_subject\tpca_body_object\thead_size\tfunctional_side\tsmoothed\twilson";

/// The columns in the header of our own TSV.
pub(crate) fn native_columns() -> Vec<Column> {
    HEADER.split('\t').map(Column::titled).collect()
}

/// A line of a RUGE rule file.
pub(crate) fn parse(line: &str) -> Result<Line<'_>, Fault> {
    if line.starts_with('#') {
        return Ok(Line::Comment(line));
    }
    // Some editors replace the tab by blanks: then the number is the token after the conclusion.
    let (text, mut confidence) = match line.split_once('\t') {
        Some((text, rest)) => (text, Some(rest.split('\t').next().unwrap_or("").trim().to_string())),
        None => (line, None),
    };
    let mut tokens = tokens(text, true);
    let Some(arrow) = tokens.iter().position(Token::is_arrow) else {
        return Ok(Line::Skip("no `=>` on the line"));
    };
    if confidence.is_none() && tokens.len() == arrow + 5 {
        confidence = tokens.pop().map(|token| token.text.into_owned());
    }
    let rule = from_tokens(tokens, false)?;
    let missing = || Fault::plain("no confidence after the rule");
    let confidence =
        super::raw::number(&confidence.filter(|text| !text.is_empty()).ok_or_else(missing)?, "confidence")?;
    Ok(Line::Rule(Box::new(RawRecord::simple(rule, Some(confidence)))))
}

/// A line of our own TSV; `columns` is updated by a header line.
pub(crate) fn parse_native<'a>(line: &'a str, columns: &mut Vec<Column>) -> Result<Line<'a>, Fault> {
    if let Some(header) = line.strip_prefix("#rule\t") {
        *columns = std::iter::once("rule").chain(header.split('\t')).map(Column::titled).collect();
        return Ok(Line::Skip("header"));
    }
    if let Some(comment) = line.strip_prefix('#') {
        return Ok(Line::Comment(comment.strip_prefix(' ').unwrap_or(comment)));
    }
    let row = Row::parse(line, columns)?;
    let rule = notation(row.rule, true)?;
    let confidence = row.confidence.ok_or_else(|| Fault::plain("no confidence after the rule"))?;
    let (stated, counts) = (row.stated, row.counts());
    Ok(Line::Rule(Box::new(RawRecord { rule, confidence: Some(confidence), stated, counts })))
}

/// A rule in triple notation; our own also has quotes and negation.
pub(crate) fn notation(text: &str, own: bool) -> Result<RawRule<'_>, Fault> {
    from_tokens(tokens(text, own), own)
}

pub(crate) struct Token<'a> {
    pub(crate) text: Cow<'a, str>,
    quoted: bool,
}

impl Token<'_> {
    pub(crate) fn is_arrow(&self) -> bool {
        !self.quoted && self.text == "=>"
    }

    fn is_not(&self) -> bool {
        !self.quoted && self.text == "!"
    }
}

fn from_tokens(mut tokens: Vec<Token<'_>>, negation: bool) -> Result<RawRule<'_>, Fault> {
    let mut arrow = tokens.iter().position(Token::is_arrow).ok_or_else(|| Fault::plain("no `=>` in the rule"))?;
    // At the start of an atom, `!` negates it.
    let mut signs = Vec::new();
    for at in (0..).step_by(3).take_while(|_| negation) {
        if at >= arrow {
            break;
        }
        signs.push(tokens[at].is_not());
        if tokens[at].is_not() {
            tokens.remove(at);
            arrow -= 1;
        }
    }
    let (premise, conclusion) = (arrow, tokens.len() - arrow - 1);
    if premise % 3 != 0 || conclusion != 3 {
        return Err(Fault::new(
            "not made of triples",
            format!(
                "{premise} words before `=>` and {conclusion} after it; atoms are `subject  relation  object`, one of them after `=>`"
            ),
        ));
    }
    let mut words = tokens.into_iter().filter(|token| !token.is_arrow());
    let mut atoms = Vec::with_capacity(premise / 3 + 1);
    while let (Some(subject), Some(relation), Some(object)) = (words.next(), words.next(), words.next()) {
        if !relation.quoted && relation.text.starts_with('?') {
            let reason = format!("{} is in the place of a relation", relation.text);
            return Err(Fault::new("a variable as relation", reason));
        }
        atoms.push(RawAtom { relation: relation.text, subject: term(subject), object: term(object) });
    }
    let conclusion = atoms.pop().ok_or_else(|| Fault::plain("no conclusion"))?;
    let is_negated = |at: usize| signs.get(at).copied().unwrap_or(false);
    let (mut premise, mut negated) = (Vec::new(), Vec::new());
    for (at, atom) in atoms.into_iter().enumerate() {
        if is_negated(at) { &mut negated } else { &mut premise }.push(atom);
    }
    Ok(RawRule { premise, negated, conclusion })
}

fn term(token: Token<'_>) -> RawTerm<'_> {
    if !token.quoted && token.text.starts_with('?') {
        RawTerm::Variable(token.text)
    } else {
        RawTerm::Constant(token.text)
    }
}

/// Words between blanks; with `quotes`, a word in double quotes may contain blanks.
pub(crate) fn tokens(text: &str, quotes: bool) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_blank);
        if rest.is_empty() {
            return tokens;
        }
        if quotes
            && let Some((name, after)) =
                quoted(rest, '"').filter(|(_, after)| after.is_empty() || after.starts_with(is_blank))
        {
            tokens.push(Token { text: name, quoted: true });
            rest = after;
            continue;
        }
        let end = rest.find(is_blank).unwrap_or(rest.len());
        tokens.push(Token { text: Cow::Borrowed(&rest[..end]), quoted: false });
        rest = &rest[end..];
    }
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace()
}

/// The quoted name at the start of `text` and the text after it; `None` if no quote opens or closes.
pub(crate) fn quoted(text: &str, quote: char) -> Option<(Cow<'_, str>, &str)> {
    let body = text.strip_prefix(quote)?;
    if let Some(end) = body.find([quote, '\\']).filter(|&end| body[end..].starts_with(quote)) {
        return Some((Cow::Borrowed(&body[..end]), &body[end + 1..]));
    }
    let mut name = String::new();
    let mut characters = body.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            c if c == quote => return Some((Cow::Owned(name), &body[at + 1..])),
            '\\' => match characters.next()?.1 {
                't' => name.push('\t'),
                'n' => name.push('\n'),
                'r' => name.push('\r'),
                c => name.push(c),
            },
            c => name.push(c),
        }
    }
    None
}

/// `name` in quotes, with characters that would break a line or the quote escaped.
pub(crate) fn quote(name: &str, quote: char) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push(quote);
    for c in name.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => {
                if c == quote || c == '\\' {
                    out.push('\\');
                }
                out.push(c);
            }
        }
    }
    out.push(quote);
    out
}

/// AMIE's variable names: ?a and ?b for the conclusion, ?e, ?f, … inside.
pub(crate) fn variable(variable: Variable) -> String {
    match variable.0 {
        0 => "?a".into(),
        1 => "?b".into(),
        n @ 2..=23 => format!("?{}", (b'e' + n - 2) as char),
        n => format!("?v{n}"),
    }
}

/// The rule in triple notation; `name` spells names.
pub(crate) fn show(rule: &Rule, names: &Names, name: &dyn Fn(&str) -> String) -> String {
    let term = |term: Term| match term {
        Term::Variable(v) => variable(v),
        Term::Constant(entity) => name(names.entities.name(entity)),
    };
    let atom = |atom: &Atom| {
        format!("{}  {}  {}", term(atom.subject), name(names.relations.name(atom.relation)), term(atom.object))
    };
    let mut premise: Vec<String> = rule.premise.iter().map(atom).collect();
    premise.extend(rule.negated.iter().map(|negated| format!("!  {}", atom(negated))));
    format!("{}   => {}", premise.join("  "), atom(&rule.conclusion))
}

/// A name as our own TSV spells it.
pub(crate) fn native_name(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(['?', '"', '#'])
        && name != "=>"
        && name != "!"
        && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}');
    if plain { name.to_string() } else { quote(name, '"') }
}

/// A name without quotes, for tools that do not support them.
pub(crate) fn plain_name(name: &str) -> String {
    name.to_string()
}

pub(crate) fn write(record: &RuleRecord, names: &Names) -> Result<String, String> {
    if record.rule.has_constants() {
        return Err("RUGE's rules have no entities".into());
    }
    if record.rule.premise.is_empty() {
        return Err("the premise is empty, and a line that does not begin with a variable is skipped".into());
    }
    Ok(format!("{}\t{}", show(&record.rule, names, &plain_name), decimal(record.confidence.get())))
}

/// A line of our own TSV. Unknown values are empty.
pub(crate) fn write_native(record: &RuleRecord, names: &Names) -> String {
    let stated = &record.stated;
    let number = |value: Option<f64>| value.map_or(String::new(), decimal);
    let whole = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let counts = record.counts.as_ref();
    let on = |side: Side| match counts {
        Some(counts) if side == Side::Subject => Some(counts.pca_subject),
        Some(counts) => Some(counts.pca_object),
        None => stated.pca_body.filter(|_| stated.side == Some(side)),
    };
    let other = counts.map(|counts| match counts.side {
        Side::Subject => counts.pca_on(Side::Object),
        Side::Object => counts.pca_on(Side::Subject),
    });
    let side = match stated.side {
        Some(Side::Subject) => "subject",
        Some(Side::Object) => "object",
        None => "",
    };
    let columns = [
        show(&record.rule, names, &native_name),
        decimal(record.confidence.get()),
        number(stated.head_coverage),
        number(stated.std),
        number(stated.pca),
        number(other),
        whole(stated.support),
        whole(stated.body_size),
        whole(on(Side::Subject)),
        whole(on(Side::Object)),
        whole(counts.map(|counts| counts.head)),
        side.to_string(),
        number(counts.map(|counts| counts.smoothed())),
        number(counts.map(|counts| counts.wilson())),
    ];
    columns.join("\t").trim_end_matches('\t').to_string()
}
