//! The format of a rule file, told by its first lines that look like rules.

use super::RuleFormat;
use super::ruge::{Token, tokens};

/// Lines looked at before giving up; AMIE's log before the first rule is far shorter.
const LINES: usize = 2000;

/// The format, or the first line where none fits. A file without a word in it holds no rules of our own format.
pub(crate) fn format(bytes: &[u8]) -> Result<RuleFormat, &[u8]> {
    let mut first = None;
    for line in bytes.split(|&byte| byte == b'\n').take(LINES) {
        let Ok(text) = std::str::from_utf8(line) else {
            first.get_or_insert(line);
            continue;
        };
        let text = text.trim_end_matches('\r');
        if let Some(format) = of_line(text) {
            return Ok(format);
        }
        if !text.trim().is_empty() && !text.starts_with('#') {
            first.get_or_insert(line);
        }
    }
    first.map_or(Ok(RuleFormat::Native), Err)
}

fn of_line(line: &str) -> Option<RuleFormat> {
    if line.starts_with("#rule\t") {
        return Some(RuleFormat::Native);
    }
    if line.starts_with("Rule\t") {
        return Some(RuleFormat::Amie);
    }
    if line.starts_with('#') {
        return None;
    }
    is_triples(line).then(|| match line.split('\t').count() {
        0..8 => RuleFormat::Ruge,
        8..12 => RuleFormat::Amie,
        _ => RuleFormat::Native,
    })
}

/// `s r o … => s r o` with a variable in the conclusion.
fn is_triples(line: &str) -> bool {
    let tokens = tokens(line.split('\t').next().unwrap_or(""), true);
    let Some(arrow) = tokens.iter().position(Token::is_arrow) else { return false };
    let variable = |at: usize| tokens.get(arrow + at).is_some_and(|token| token.text.starts_with('?'));
    arrow % 3 == 0 && (variable(1) || variable(3)) && matches!(tokens.len() - arrow, 4 | 5)
}
