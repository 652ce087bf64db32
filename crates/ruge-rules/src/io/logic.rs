//! Premises with ∨, ¬ and brackets: `(p(x,y) | q(x,y)) & !r(y,x)`.
//!
//! A recursive-descent parser over the masked line: disjunctions of conjunctions of negations of atoms or brackets; ∧
//! binds tighter than ∨. The premise is then split into its alternatives, each the premise of a separate rule: for the
//! conclusion h, (a ∨ b) ⇒ h is equivalent to a ⇒ h and b ⇒ h together.
//!
//! The equivalence is that of classical logic. In guidance both push; Eq. (4) would count their overlap once.

use super::atoms::{Notation, Span, atom};
use super::raw::{Fault, RawAtom};
use crate::expression::{Alternative, Expression};

const OR: &[&str] = &["||", "|", "∨"];
const NOT: &[&str] = &["!", "¬"];

/// Maximum nesting of brackets and negations on a line.
const MAX_DEPTH: usize = 32;

/// Maximum alternatives on a line: a few nested brackets can stand for millions.
const MAX_ALTERNATIVES: usize = 64;

/// Maximum brackets tried as the end of an atom.
const MAX_ENDS: usize = 64;

/// Whether the text contains more than atoms between separators.
pub(crate) fn is_logic(span: Span<'_, '_>, notation: &Notation) -> bool {
    let opens = |at: usize| {
        let rest = span.slice(at, span.len()).trim();
        rest.starts_with_any(NOT) || rest.starts_with_any(&["("])
    };
    let mut closed = false;
    for (at, &byte) in span.mask.iter().enumerate() {
        if closed {
            let rest = span.slice_bytes(at);
            if OR.iter().any(|sign| rest.starts_with(sign.as_bytes())) {
                return true;
            }
            let separator = notation.separators.iter().find(|sign| rest.starts_with(sign.as_bytes()));
            if separator.is_some_and(|separator| opens(at + separator.len())) {
                return true;
            }
        }
        closed = byte == b')' || (closed && matches!(byte, b' ' | b'\t'));
    }
    opens(0)
}

/// The alternatives of a premise: positive and negated atoms, in order.
pub(crate) fn alternatives<'t>(
    span: Span<'t, '_>,
    notation: &Notation,
) -> Result<Vec<Alternative<RawAtom<'t>>>, Fault> {
    let mut parser = Parser { span, notation, at: 0 };
    let premise = parser.or(0)?;
    parser.skip_blanks();
    if parser.at < span.len() {
        let rest = &span.text[parser.at..];
        return Err(Fault::new("not a premise", format!("{rest:?} follows the premise; a connective is missing")));
    }
    let Some(alternatives) = premise.alternatives(MAX_ALTERNATIVES) else {
        let reason = format!("the premise has more than {MAX_ALTERNATIVES} alternatives; write several rules");
        return Err(Fault::new("too many alternatives", reason));
    };
    if alternatives.is_empty() {
        return Err(Fault::plain("the premise contradicts itself"));
    }
    if alternatives.iter().any(|way| way.holds.is_empty()) {
        let reason = "a negated premise needs a positive one with the same variables";
        return Err(Fault::new("nothing but negation in a premise", reason));
    }
    Ok(alternatives)
}

struct Parser<'t, 'm, 'n> {
    span: Span<'t, 'm>,
    notation: &'n Notation,
    at: usize,
}

impl<'t> Parser<'t, '_, '_> {
    fn or(&mut self, depth: usize) -> Result<Expression<RawAtom<'t>>, Fault> {
        let mut parts = vec![self.and(depth)?];
        while self.eat(OR) {
            parts.push(self.and(depth)?);
        }
        Ok(Expression::Or(parts))
    }

    fn and(&mut self, depth: usize) -> Result<Expression<RawAtom<'t>>, Fault> {
        let mut parts = vec![self.not(depth)?];
        while self.eat(self.notation.separators) {
            parts.push(self.not(depth)?);
        }
        Ok(Expression::And(parts))
    }

    fn not(&mut self, depth: usize) -> Result<Expression<RawAtom<'t>>, Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::new("too many brackets", format!("more than {MAX_DEPTH} inside one another")));
        }
        if self.eat(NOT) {
            return Ok(Expression::Not(Box::new(self.not(depth + 1)?)));
        }
        if self.eat(&["("]) {
            let inner = self.or(depth + 1)?;
            if !self.eat(&[")"]) {
                let reason = "a bracket around premises is never closed; quote a name that begins with a bracket";
                return Err(Fault::new("an open bracket", reason));
            }
            return Ok(inner);
        }
        self.atom().map(Expression::Atom)
    }

    /// The shortest piece that ends at a bracket, is followed by a sign and parses as an atom.
    fn atom(&mut self) -> Result<RawAtom<'t>, Fault> {
        let from = self.at;
        let brackets = (from..self.span.len()).filter(|&at| self.span.mask[at] == b')');
        let ends = brackets.map(|at| at + 1).filter(|&end| self.may_end(end));
        for end in ends.take(MAX_ENDS) {
            if let Some(atom) = atom(self.span.slice(from, end), self.notation, true)? {
                self.at = end;
                return Ok(atom);
            }
        }
        let text = self.span.text[from..].trim();
        Err(Fault::new("not an atom", format!("{text:?} does not begin with `relation(subject, object)`")))
    }

    /// Whether a sign, a closing bracket or nothing follows.
    fn may_end(&self, end: usize) -> bool {
        let rest = self.span.slice(end, self.span.len()).trim();
        rest.len() == 0
            || rest.starts_with_any(OR)
            || rest.starts_with_any(&[")"])
            || rest.starts_with_any(self.notation.separators)
    }

    fn skip_blanks(&mut self) {
        let rest = &self.span.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Consumes one of the signs, if it is next.
    fn eat(&mut self, signs: &[&str]) -> bool {
        self.skip_blanks();
        let rest = self.span.slice_bytes(self.at);
        let sign = signs.iter().find(|sign| rest.starts_with(sign.as_bytes()));
        self.at += sign.map_or(0, |sign| sign.len());
        sign.is_some()
    }
}
