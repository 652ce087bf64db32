//! Many rules as numbers: a model that ranks by rules has hundreds of thousands, too many for text in a header.
//!
//! A rule is a run of 32-bit numbers: a word with the number of premises (8 bits), of negated ones (8 bits), whether counts
//! follow, the side of the PCA and whether counts are wide; the atoms, conclusion first, three numbers each, a variable having its
//! highest bit set; the confidence (two numbers, the bits of an f64); the five counts, one number each or two where they are wide.

use super::{RuleRecord, Stated};
use crate::{Atom, Confidence, Counts, Rule, Side, Term, Variable};
use ruge_kg::{EntityId, RelationId};

/// Above this number rules are stored as a tensor.
pub const MOST_AS_TEXT: usize = 10_000;

const VARIABLE: u32 = 1 << 31;
const COUNTED: u32 = 1 << 16;
const OBJECT: u32 = 1 << 17;
const WIDE: u32 = 1 << 18;

/// The rules as bytes; nothing where a premise is too long to be said so.
pub fn encode(rules: &[RuleRecord]) -> Option<Vec<u8>> {
    let mut words: Vec<u32> = Vec::with_capacity(rules.len() * 14);
    for RuleRecord { rule, confidence, counts, .. } in rules {
        let (premises, negated) = (u8::try_from(rule.premise.len()).ok()?, u8::try_from(rule.negated.len()).ok()?);
        let numbers = counts.map(|c| [c.support, c.body, c.pca_subject, c.pca_object, c.head]);
        let wide = numbers.is_some_and(|numbers| numbers.iter().any(|&n| n > u64::from(u32::MAX)));
        let mut head = u32::from(premises) | u32::from(negated) << 8;
        head |= if counts.is_some() { COUNTED } else { 0 } | if wide { WIDE } else { 0 };
        head |= if counts.is_some_and(|counts| counts.side == Side::Object) { OBJECT } else { 0 };
        words.push(head);
        for atom in [&rule.conclusion].into_iter().chain(&rule.premise).chain(&rule.negated) {
            words.push(atom.relation.0);
            for term in atom.terms() {
                words.push(match term {
                    Term::Variable(variable) => VARIABLE | u32::from(variable.0),
                    Term::Constant(entity) if entity.0 < VARIABLE => entity.0,
                    Term::Constant(_) => return None,
                });
            }
        }
        let bits = confidence.get().to_bits();
        words.extend([bits as u32, (bits >> 32) as u32]);
        for number in numbers.into_iter().flatten() {
            words.push(number as u32);
            if wide {
                words.push((number >> 32) as u32);
            }
        }
    }
    Some(words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// The rules that [`encode`] wrote; nothing where the numbers make no rules.
pub fn decode(bytes: &[u8]) -> Option<Vec<RuleRecord>> {
    let mut words = bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b));
    let mut rules = Vec::new();
    while let Some(head) = words.next() {
        let (premises, negated) = (head & 0xff, head >> 8 & 0xff);
        let mut atom = || {
            let (relation, subject, object) = (words.next()?, words.next()?, words.next()?);
            let term = |word: u32| match word & VARIABLE {
                0 => Some(Term::from(EntityId(word))),
                _ => Some(Term::from(Variable(u8::try_from(word & !VARIABLE).ok()?))),
            };
            Some(Atom::new(RelationId(relation), term(subject)?, term(object)?))
        };
        let conclusion = atom()?;
        let premise = (0..premises).map(|_| atom()).collect::<Option<Vec<Atom>>>()?;
        let negated = (0..negated).map(|_| atom()).collect::<Option<Vec<Atom>>>()?;
        let (low, high) = (words.next()?, words.next()?);
        let confidence = Confidence::new(f64::from_bits(u64::from(low) | u64::from(high) << 32))?;
        let counts = if head & COUNTED == 0 {
            None
        } else {
            let mut numbers = [0u64; 5];
            for number in &mut numbers {
                *number = u64::from(words.next()?);
                if head & WIDE != 0 {
                    *number |= u64::from(words.next()?) << 32;
                }
            }
            let [support, body, pca_subject, pca_object, head_size] = numbers;
            let side = if head & OBJECT == 0 { Side::Subject } else { Side::Object };
            Some(Counts { support, body, pca_subject, pca_object, head: head_size, side })
        };
        let stated = counts.as_ref().map_or_else(Stated::default, Stated::from);
        rules.push(RuleRecord { line: 0, rule: Rule { conclusion, premise, negated }, confidence, stated, counts });
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_back_as_they_were() {
        let (x, y) = (Term::from(Variable::X), Term::from(Variable::Y));
        let atom = |relation, subject, object| Atom::new(RelationId(relation), subject, object);
        let record = |rule, confidence, counts: Option<Counts>| RuleRecord {
            line: 0,
            rule,
            confidence: Confidence::new(confidence).expect("in range"),
            stated: counts.as_ref().map_or_else(Stated::default, Stated::from),
            counts,
        };
        let counts = Counts { support: 3, body: 7, pca_subject: 5, pca_object: 6, head: 9, side: Side::Object };
        let rules = vec![
            record(Rule::new(atom(1, x, y), vec![atom(2, y, x)]), 0.6, Some(counts)),
            record(Rule::new(atom(1, x, EntityId(4).into()), vec![atom(2, x, EntityId(0).into())]), 1.0 / 3.0, None),
            record(Rule::new(atom(0, x, y), vec![atom(2, y, x)]), 0.0, Some(Counts { body: 1 << 40, ..counts })),
            record(
                Rule { negated: vec![atom(3, x, y)], ..Rule::new(atom(0, x, y), vec![atom(2, y, x), atom(1, x, y)]) },
                1.0,
                None,
            ),
        ];
        let bytes = encode(&rules).expect("short premises");
        assert_eq!(decode(&bytes).as_ref(), Some(&rules));
        assert_eq!(decode(&[]), Some(vec![]));
        assert_eq!(decode(&bytes[..bytes.len() - 4]), None, "cut off");
    }
}
