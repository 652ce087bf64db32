//! "Did you mean …?"

/// The names nearest to what was typed, nearest first; none if none is near.
pub fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>, most: usize) -> Vec<&'n str> {
    let lower = typed.to_lowercase();
    let mut found: Vec<(f64, &str)> = names
        .map(|name| {
            let other = name.to_lowercase();
            let mut score = strsim::jaro_winkler(&lower, &other);
            // Of a short name one slip leaves little, yet it is one slip.
            if (3..=8).contains(&lower.len())
                && lower.len().abs_diff(other.len()) <= 1
                && strsim::osa_distance(&lower, &other) == 1
            {
                score = score.max(0.85);
            }
            // A part of the name, as people type who remember the end of a path.
            (if !lower.is_empty() && other.contains(&lower) { score.max(0.9) } else { score }, name)
        })
        .filter(|(score, _)| *score >= 0.8)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    found.into_iter().take(most).map(|(_, name)| name).collect()
}

/// `; did you mean "a" or "b"?`, or nothing.
pub fn suggestion<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> String {
    meant(&nearest(typed, names, 3))
}

/// The same of names that were found already.
pub(crate) fn meant(near: &[impl std::fmt::Debug]) -> String {
    let near: Vec<String> = near.iter().map(|name| format!("{name:?}")).collect();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised() {
        let names = ["born_in", "capital_of", "/people/person/nationality"];
        assert_eq!(nearest("bron_in", names.into_iter(), 3), ["born_in"]);
        assert_eq!(nearest("nationality", names.into_iter(), 3), ["/people/person/nationality"]);
        assert_eq!(nearest("mga", ["mag", "lag", "kennt"].into_iter(), 3), ["mag"]);
        assert_eq!(suggestion("zzz", names.into_iter()), "");
        assert_eq!(suggestion("capitol_of", names.into_iter()), "; did you mean \"capital_of\"?");
    }
}
