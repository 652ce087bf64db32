//! Recognises the format of a rule file by its first lines that look like rules.

use super::RuleFormat;
use super::ruge::{Token, tokens};

/// Maximum lines examined; AMIE's log before the first rule is far shorter.
const LINES: usize = 2000;

/// The format, or the first line if none fits. An empty file is one of our own format without rules.
pub(crate) fn format(bytes: &[u8]) -> Result<RuleFormat, &[u8]> {
    let mut structure = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (structure.next(), structure.next()) {
        (Some(b'{'), Some(b'"' | b'}')) | (Some(b'['), Some(b'{' | b']')) => return Ok(RuleFormat::Json),
        _ => {}
    }
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
    if line.starts_with(['#', '%']) {
        return None;
    }
    if is_triples(line) {
        return Some(match line.split('\t').count() {
            0..8 => RuleFormat::Ruge,
            8..12 => RuleFormat::Amie,
            _ => RuleFormat::Native,
        });
    }
    let columns: Vec<&str> = line.split('\t').collect();
    let whole = |text: &&str| text.trim().parse::<u64>().is_ok();
    let number = |text: &&str| text.trim().parse::<f64>().is_ok();
    if columns.len() >= 4 && columns[..2].iter().all(whole) && line.contains("<=") {
        return Some(RuleFormat::AnyBurl);
    }
    if let Some(arrow) = arrow(line) {
        let logic = line.starts_with(['(', '!', '¬']) || [")|", "&!", "&(", "∨", "¬"].iter().any(|s| line.contains(s));
        let bare = line.ends_with(')') && !line.contains([' ', '"']) && !logic;
        return Some(match arrow {
            ":-" => RuleFormat::Prolog,
            "==>" if bare => RuleFormat::Kale,
            _ => RuleFormat::Text,
        });
    }
    if let [rule, confidence] = columns[..]
        && rule.matches(',').count() == 1
        && number(&confidence)
    {
        return Some(RuleFormat::NneAer);
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (last, ids) = words.split_last()?;
    let is_ids = !ids.is_empty() && ids.iter().all(whole) && number(last);
    is_ids.then_some(if columns.len() > 1 && words.len() <= 4 { RuleFormat::Rpje } else { RuleFormat::RnnLogic })
}

fn arrow(line: &str) -> Option<&'static str> {
    let after_atom = |arrow: &&str| {
        line.match_indices(*arrow).any(|(at, _)| line[..at].trim_end().ends_with(')') && line[at..].contains('('))
    };
    [":-", "==>", "=>", "⇒"].into_iter().find(after_atom)
}

/// `s r o … => s r o` with a variable in the conclusion.
fn is_triples(line: &str) -> bool {
    let tokens = tokens(line.split('\t').next().unwrap_or(""), true);
    let Some(arrow) = tokens.iter().position(Token::is_arrow) else { return false };
    let variable = |at: usize| tokens.get(arrow + at).is_some_and(|token| token.text.starts_with('?'));
    arrow % 3 == 0 && (variable(1) || variable(3)) && matches!(tokens.len() - arrow, 4 | 5)
}
