//! `relation(subject, object)`: the notation shared by AnyBURL, KALE, Prolog and our text form.
//!
//! Names may contain brackets and commas, so an atom is parsed from its right end: the arguments are in the last pair
//! of brackets. Quoted names are masked first, so structure is searched in the mask, and names are cut from the text.

use std::borrow::Cow;

use ruge_kg::Names;

use super::logic;
use super::raw::{Fault, RawAtom, RawRule, RawTerm};
use super::ruge::quoted;
use crate::atom::{Atom, Term, Variable};
use crate::expression::Alternative;
use crate::rule::Rule;

/// Replaces every byte of a quoted name; control characters never occur in structure.
const MASK: u8 = 1;

/// Maximum separators between premises on a line, so that a damaged file cannot keep a reader busy.
const MAX_CUTS: usize = 64;

/// Signs that no unquoted relation begins with: one more of them than the notation knows would otherwise become part of the name,
/// and the rule would silently speak of a relation that nobody has.
const OPERATORS: &[&str] = &["&", "∧", "|", "∨", ",", "¬", "=>", "⇒"];

/// The notation of a dialect.
pub(crate) struct Notation {
    /// Arrows, longer ones first, and whether the conclusion is on the left.
    pub(crate) arrows: &'static [(&'static str, bool)],
    /// Separators between premises, after a closing bracket.
    pub(crate) separators: &'static [&'static str],
    pub(crate) quotes: &'static [char],
    /// Start of a comment at the end of a line.
    pub(crate) comment: Option<u8>,
    pub(crate) is_variable: fn(&str) -> bool,
    /// Whether an unquoted relation may contain a closing bracket and a blank. Otherwise this is a missing `&`.
    pub(crate) loose_names: bool,
    /// Whether `|`, `!` and brackets around premises are logic.
    pub(crate) logic: bool,
    /// Whether an unquoted relation that begins with an operator is an error.
    pub(crate) operators: bool,
}

/// A piece of a line with its mask.
#[derive(Clone, Copy)]
pub(crate) struct Span<'t, 'm> {
    pub(crate) text: &'t str,
    pub(crate) mask: &'m [u8],
}

impl<'t, 'm> Span<'t, 'm> {
    pub(crate) fn slice(self, from: usize, to: usize) -> Self {
        Span { text: &self.text[from..to], mask: &self.mask[from..to] }
    }

    pub(crate) fn trim(self) -> Self {
        let from = self.text.len() - self.text.trim_start().len();
        let to = self.text.trim_end().len();
        if from >= to { self.slice(0, 0) } else { self.slice(from, to) }
    }

    pub(crate) fn len(self) -> usize {
        self.text.len()
    }

    /// The mask from a byte on, which need not start a character.
    pub(crate) fn slice_bytes(self, from: usize) -> &'m [u8] {
        &self.mask[from..]
    }

    pub(crate) fn starts_with_any(self, signs: &[&str]) -> bool {
        signs.iter().any(|sign| self.mask.starts_with(sign.as_bytes()))
    }
}

/// The rule on a line, and the text after it.
pub(crate) fn parse<'t>(text: &'t str, notation: &Notation) -> Result<(RawRule<'t>, &'t str), Fault> {
    match parse_all(text, notation)? {
        (mut rules, tail) if rules.len() == 1 => Ok((rules.remove(0), tail)),
        _ => Err(Fault::plain("several rules on a line")),
    }
}

/// The rules on a line, one per alternative of the premise, and the text after them.
pub(crate) fn parse_all<'t>(text: &'t str, notation: &Notation) -> Result<(Vec<RawRule<'t>>, &'t str), Fault> {
    let mask = mask(text, notation);
    let mut span = Span { text, mask: &mask };
    if let Some(sign) = notation.comment
        && let Some(at) = (1..span.len()).find(|&at| mask[at] == sign && matches!(mask[at - 1], b' ' | b'\t'))
    {
        span = span.slice(0, at);
    }
    let (at, arrow, reversed) = find_arrow(span, notation).ok_or_else(|| {
        let arrows: Vec<&str> = notation.arrows.iter().map(|&(arrow, _)| arrow).collect();
        Fault::new("no arrow", format!("no `{}` after an atom", arrows.join("` or `")))
    })?;
    let left = span.slice(0, at);
    let right = span.slice(at + arrow.len(), span.len());
    let end = right.mask.iter().rposition(|&byte| byte == b')').map_or(0, |at| at + 1);
    let (right, tail) = (right.slice(0, end), &right.text[end..]);
    let (premise, conclusion) = if reversed { (right, left) } else { (left, right) };
    if notation.logic && logic::is_logic(conclusion, notation) {
        let reason = "a conclusion is one atom, without `!`, `|` and brackets around it; a rule has one conclusion";
        return Err(Fault::new("a rule has one conclusion", reason));
    }
    let ways = if premise.trim().len() == 0 {
        vec![Alternative { holds: vec![], fails: vec![] }]
    } else if notation.logic && logic::is_logic(premise, notation) {
        logic::alternatives(premise, notation)?
    } else {
        vec![Alternative { holds: conjunction(premise, notation)?, fails: vec![] }]
    };
    let mut conclusions = conjunction(conclusion, notation)?;
    let (Some(conclusion), true) = (conclusions.pop(), conclusions.is_empty()) else {
        return Err(Fault::plain("a rule has one conclusion"));
    };
    let rule = |way: Alternative<RawAtom<'t>>| RawRule {
        premise: way.holds,
        negated: way.fails,
        conclusion: conclusion.clone(),
    };
    Ok((ways.into_iter().map(rule).collect(), tail))
}

/// The line with quoted names masked.
fn mask<'t>(text: &'t str, notation: &Notation) -> Cow<'t, [u8]> {
    let quotes = notation.quotes;
    let mut mask = Cow::Borrowed(text.as_bytes());
    if !text.contains(quotes) {
        return mask;
    }
    let mut at = 0;
    while let Some(next) = text[at..].find(quotes) {
        let open = at + next;
        let quote = text[open..].chars().next().unwrap_or('"');
        let before = text[..open].chars().next_back();
        let sign = |c: char| "(,&∧⇒>=-!¬".contains(c) || (notation.logic && "|∨".contains(c));
        let opens = before.is_none_or(|c| c.is_whitespace() || sign(c));
        at = open + 1;
        if !opens {
            continue;
        }
        if let Some((_, rest)) = quoted(&text[open..], quote) {
            let closes = rest.chars().next().is_none_or(|c| c.is_whitespace() || "(),&∧⇒=:<.|∨".contains(c));
            if closes {
                at = text.len() - rest.len();
                mask.to_mut()[open..at].fill(MASK);
            }
        }
    }
    mask
}

/// The first arrow after a closing bracket: names may contain arrows elsewhere.
fn find_arrow(span: Span<'_, '_>, notation: &Notation) -> Option<(usize, &'static str, bool)> {
    let mut closed = false;
    for (at, &byte) in span.mask.iter().enumerate() {
        if closed
            && let Some(&(arrow, reversed)) =
                notation.arrows.iter().find(|(arrow, _)| span.mask[at..].starts_with(arrow.as_bytes()))
        {
            return Some((at, arrow, reversed));
        }
        closed = byte == b')' || (closed && matches!(byte, b' ' | b'\t'));
    }
    None
}

/// Atoms between separators. A cut that leaves a broken atom is undone: the separator is part of a name.
fn conjunction<'t>(span: Span<'t, '_>, notation: &Notation) -> Result<Vec<RawAtom<'t>>, Fault> {
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    let mut closed = None;
    for (at, &byte) in span.mask.iter().enumerate() {
        if let Some(end) = closed {
            let rest = &span.mask[at..];
            if let Some(separator) = notation.separators.iter().find(|s| rest.starts_with(s.as_bytes())) {
                cuts.push((end, at + separator.len()));
            }
        }
        closed = match byte {
            b')' => Some(at + 1),
            b' ' | b'\t' => closed,
            _ => None,
        };
    }
    if cuts.len() > MAX_CUTS {
        return Err(Fault::new("too many premises", format!("{} places where a premise may end", cuts.len())));
    }
    cuts.push((span.len(), span.len()));
    let mut atoms = Vec::new();
    let (mut start, mut from) = (0, 0);
    while from < cuts.len() {
        let mut found = None;
        'search: for balanced in [true, false] {
            for (index, &(end, next)) in cuts.iter().enumerate().skip(from) {
                if let Some(atom) = atom(span.slice(start, end), notation, balanced)? {
                    found = Some((atom, index, next));
                    break 'search;
                }
            }
        }
        let Some((atom, index, next)) = found else {
            let text = span.slice(start, cuts[from].0).text.trim();
            return Err(Fault::new("not an atom", format!("{text:?} is not `relation(subject, object)`")));
        };
        atoms.push(atom);
        (start, from) = (next, index + 1);
    }
    Ok(atoms)
}

pub(crate) fn atom<'t>(span: Span<'t, '_>, notation: &Notation, balanced: bool) -> Result<Option<RawAtom<'t>>, Fault> {
    let span = span.trim();
    let Some((b')', inner)) = span.mask.split_last() else { return Ok(None) };
    let end = inner.len();
    for open in openings(inner, balanced) {
        let content = span.slice(open + 1, end);
        let Some((subject, object)) = places(content, notation) else { continue };
        let (relation, quoted) = name(span.slice(0, open));
        if relation.is_empty() && !quoted {
            continue;
        }
        if !quoted && !notation.loose_names && relation.contains(')') && relation.contains(char::is_whitespace) {
            let reason =
                format!("an `&` seems to be missing in {:?}; quote a name that holds brackets and blanks", span.text);
            return Err(Fault::new("not an atom", reason));
        }
        if notation.operators
            && !quoted
            && let Some(sign) = OPERATORS.iter().find(|sign| relation.starts_with(**sign))
        {
            let reason = format!(
                "the relation {relation:?} begins with `{sign}`, which joins or negates premises; write one sign between two \
                 premises, or quote the name"
            );
            return Err(Fault::new("an operator in a name", reason));
        }
        return Ok(Some(RawAtom { relation, subject: term(subject, notation), object: term(object, notation) }));
    }
    Ok(None)
}

/// Possible starts of the arguments, from the right: the bracket matching the last one or, for names with unbalanced
/// brackets, any of the last few.
fn openings(mask: &[u8], balanced: bool) -> impl Iterator<Item = usize> {
    let mut depth = 0usize;
    let mut matching = None;
    for (at, &byte) in mask.iter().enumerate().rev().filter(|_| balanced) {
        match byte {
            b')' => depth += 1,
            b'(' if depth > 0 => depth -= 1,
            b'(' => {
                matching = Some(at);
                break;
            }
            _ => {}
        }
    }
    let any = (0..mask.len()).rev().filter(move |&at| !balanced && mask[at] == b'(').take(16);
    matching.into_iter().chain(any)
}

/// Both arguments. If there is more than one comma, a variable at one end tells where the other name starts.
fn places<'t, 'm>(span: Span<'t, 'm>, notation: &Notation) -> Option<(Span<'t, 'm>, Span<'t, 'm>)> {
    let first = span.mask.iter().position(|&byte| byte == b',')?;
    let last = span.mask.iter().rposition(|&byte| byte == b',')?;
    let at = |comma: usize| (span.slice(0, comma).trim(), span.slice(comma + 1, span.len()).trim());
    let is_variable = |span: Span<'_, '_>| (notation.is_variable)(span.text);
    let (subject, object) = if first == last {
        at(first)
    } else {
        match (is_variable(at(first).0), is_variable(at(last).1)) {
            (true, false) => at(first),
            (false, true) => at(last),
            _ => return None,
        }
    };
    (subject.len() > 0 && object.len() > 0).then_some((subject, object))
}

/// The name, and whether it was quoted.
fn name<'t>(span: Span<'t, '_>) -> (Cow<'t, str>, bool) {
    let span = span.trim();
    if span.mask.first() == Some(&MASK)
        && span.text.starts_with(['"', '\''])
        && let Some((name, "")) = span.text.chars().next().and_then(|quote| quoted(span.text, quote))
    {
        return (name, true);
    }
    (Cow::Borrowed(span.text), false)
}

fn term<'t>(span: Span<'t, '_>, notation: &Notation) -> RawTerm<'t> {
    match name(span) {
        (name, false) if (notation.is_variable)(&name) => RawTerm::Variable(name),
        (name, _) => RawTerm::Constant(name),
    }
}

/// How a writer spells the parts of an atom.
pub(crate) struct Spelling<'a> {
    pub(crate) variable: &'a dyn Fn(Variable) -> String,
    pub(crate) relation: &'a dyn Fn(&str) -> String,
    pub(crate) entity: &'a dyn Fn(&str) -> String,
    pub(crate) comma: &'static str,
}

impl Spelling<'_> {
    pub(crate) fn atom(&self, atom: &Atom, names: &Names) -> String {
        let term = |term: Term| match term {
            Term::Variable(variable) => (self.variable)(variable),
            Term::Constant(entity) => (self.entity)(names.entities.name(entity)),
        };
        let relation = (self.relation)(names.relations.name(atom.relation));
        format!("{relation}({}{}{})", term(atom.subject), self.comma, term(atom.object))
    }

    /// The positive premises, joined.
    pub(crate) fn premise(&self, rule: &Rule, names: &Names, and: &str) -> String {
        let atoms: Vec<String> = rule.premise.iter().map(|atom| self.atom(atom, names)).collect();
        atoms.join(and)
    }

    /// All premises, joined; negated ones follow `not`.
    pub(crate) fn signed_premise(&self, rule: &Rule, names: &Names, and: &str, not: &str) -> String {
        let mut text = self.premise(rule, names, and);
        for atom in &rule.negated {
            text.push_str(and);
            text.push_str(not);
            text.push_str(&self.atom(atom, names));
        }
        text
    }
}
