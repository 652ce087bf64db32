//! The cross-check of the tables against external sources.
//!
//! The sources are other people's work and not part of the repository; download them first (see the README of the
//! tables). Every disagreement is either fixed in our tables or explained, item by item, in `exceptions.tsv`. An
//! explanation that is no longer needed is an error, so the list stays current.

mod countries;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::table::Tables;

/// A disagreement: field, name, and `+item` (only ours) or `-item` (only theirs).
type Dispute = (String, String, String);

/// Compares the tables in `fixtures` with the sources in `sources`.
pub fn run(fixtures: &Path, sources: &Path) -> Result<()> {
    let tables = Tables::read(fixtures)?;
    let mut check = Check {
        aliases: triples(&fixtures.join("aliases.tsv"))?
            .into_iter()
            .map(|(field, ours, theirs)| ((field, theirs), ours))
            .collect(),
        ..Check::default()
    };
    countries::compare(&mut check, &tables, sources)?;
    places::compare(&mut check, &tables, sources)?;

    for (field, (agreed, unknown)) in &check.counts {
        println!("{field}: {agreed} facts agree, {unknown} not in the source");
    }
    let explained = exceptions(&fixtures.join("exceptions.tsv"))?;
    let open: Vec<_> = check.disputes.difference(&explained).collect();
    let stale: Vec<_> = explained.difference(&check.disputes).collect();
    for (field, name, item) in &open {
        println!("unexplained\t{field}\t{name}\t{item}");
    }
    for (field, name, item) in &stale {
        println!("stale\t{field}\t{name}\t{item}");
    }
    println!("{} disagreements, {} explained", check.disputes.len(), check.disputes.len() - open.len());
    if open.is_empty() && stale.is_empty() {
        return Ok(());
    }
    bail!("{} unexplained disagreements, {} stale explanations", open.len(), stale.len())
}

/// The results so far.
#[derive(Default)]
struct Check {
    /// (field, their name) to our name.
    aliases: BTreeMap<(String, String), String>,
    disputes: BTreeSet<Dispute>,
    /// Field to (facts that agree, facts unknown to the source).
    counts: BTreeMap<&'static str, (usize, usize)>,
}

impl Check {
    /// Our name for a source's name.
    fn ours(&self, field: &str, theirs: &str) -> String {
        let key = (field.to_owned(), theirs.to_owned());
        self.aliases.get(&key).map_or(theirs, String::as_str).to_owned()
    }

    /// Compares our items with theirs.
    fn compare(&mut self, field: &'static str, name: &str, ours: BTreeSet<String>, theirs: BTreeSet<String>) {
        self.counts.entry(field).or_default().0 += ours.intersection(&theirs).count();
        for item in ours.difference(&theirs) {
            self.dispute(field, name, format!("+{item}"));
        }
        for item in theirs.difference(&ours) {
            self.dispute(field, name, format!("-{item}"));
        }
    }

    fn agree(&mut self, field: &'static str) {
        self.counts.entry(field).or_default().0 += 1;
    }

    /// Counts a fact unknown to the source.
    fn unknown(&mut self, field: &'static str) {
        self.counts.entry(field).or_default().1 += 1;
    }

    fn dispute(&mut self, field: &str, name: &str, item: String) {
        self.disputes.insert((field.to_owned(), name.to_owned(), item));
    }
}

fn lines(path: &Path) -> Result<Vec<Vec<String>>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let split = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().map(split).collect())
}

fn triples(path: &Path) -> Result<Vec<Dispute>> {
    let mut all = Vec::new();
    for (index, line) in lines(path)?.into_iter().enumerate().skip(1) {
        let [a, b, c] = <[String; 3]>::try_from(line)
            .map_err(|_| anyhow::anyhow!("{}:{}: not three cells", path.display(), index + 1))?;
        all.push((a, b, c));
    }
    Ok(all)
}

fn exceptions(path: &Path) -> Result<BTreeSet<Dispute>> {
    let mut all = BTreeSet::new();
    for (index, line) in lines(path)?.into_iter().enumerate().skip(1) {
        let [field, name, items, why] = <[String; 4]>::try_from(line)
            .map_err(|_| anyhow::anyhow!("{}:{}: not four cells", path.display(), index + 1))?;
        ensure!(!why.is_empty(), "{}:{}: no reason", path.display(), index + 1);
        for item in items.split(';') {
            all.insert((field.clone(), name.clone(), item.to_owned()));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_noted_from_both_sides() {
        let mut check = Check::default();
        let set = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        check.compare("capital", "Bolivia", set(&["Sucre", "A"]), set(&["La Paz", "A"]));
        assert_eq!(check.counts["capital"].0, 1);
        let items: Vec<&str> = check.disputes.iter().map(|d| d.2.as_str()).collect();
        assert_eq!(items, ["+Sucre", "-La Paz"]);
    }
}
