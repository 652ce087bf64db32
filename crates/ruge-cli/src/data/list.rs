//! What `ruge data list` prints: one row per set, for people or for programs.

use std::fmt::Write as _;

use ruge_kg::visible;
use serde_json::{Value, json};

use super::catalog::{BenchmarkSet, Catalog};
use super::default_folder;
use crate::text::grouped;

/// How much of a set is already in its default folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Absent,
    Partial,
    Complete,
}

impl Presence {
    /// Looks, but does not read: hashing every set would make a list take seconds. `ruge data get` verifies.
    fn of(set: &BenchmarkSet) -> Self {
        let folder = default_folder(set);
        let there = set.files.iter().filter(|file| set.path_in(&folder, file.role).is_file()).count();
        match there {
            0 => Self::Absent,
            count if count == set.files.len() => Self::Complete,
            _ => Self::Partial,
        }
    }

    /// The word in the table.
    const fn word(self) -> &'static str {
        match self {
            Self::Absent => "no",
            Self::Partial => "partly",
            Self::Complete => "yes",
        }
    }
}

/// The catalog as an aligned table.
pub fn table(catalog: &Catalog) -> String {
    const HEADER: [&str; 11] =
        ["name", "entities", "relations", "train", "valid", "test", "rules", "download", "here", "licence", "source"];
    // Numbers, columns 1 to 5 and 7, are read from their last digit.
    let right = |column: usize| matches!(column, 1..=5 | 7);
    let shown = |cells: [String; 11]| cells.map(|cell| visible::line(&cell).into_owned());
    let rows: Vec<[String; 11]> = catalog.sets.iter().map(row).map(shown).collect();
    let mut widths = HEADER.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&HEADER.map(str::to_owned)).chain(&rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            // Writing to a string cannot fail.
            let _ =
                if right(column) { write!(line, "{gap}{cell:>width$}") } else { write!(line, "{gap}{cell:<width$}") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str("\n`here`: already in the folder data/NAME. Get one with: ruge data get NAME\n");
    text
}

/// One set as the cells of the table.
fn row(set: &BenchmarkSet) -> [String; 11] {
    let count = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), grouped);
    [
        set.name.clone(),
        count(set.entities),
        count(set.relations),
        count(set.train),
        count(set.valid),
        count(set.test),
        if set.has_rules() { "yes" } else { "no" }.to_owned(),
        set.download_bytes().map_or_else(|| "?".to_owned(), size),
        Presence::of(set).word().to_owned(),
        set.licence.clone(),
        set.source.clone(),
    ]
}

/// The catalog as one JSON object.
pub fn json(catalog: &Catalog) -> Value {
    let sets: Vec<_> = catalog
        .sets
        .iter()
        .map(|set| {
            let presence = Presence::of(set);
            json!({
                "name": set.name, "about": set.about, "source": set.source, "licence": set.licence,
                "entities": set.entities, "relations": set.relations,
                "train": set.train, "valid": set.valid, "test": set.test, "rules": set.has_rules(),
                "download_bytes": set.download_bytes(),
                "path": default_folder(set),
                "present": presence == Presence::Complete, "partial": presence == Presence::Partial,
            })
        })
        .collect();
    json!({ "sets": sets })
}

/// A size in megabytes, or in kilobytes where that would be nought.
fn size(bytes: u64) -> String {
    if bytes >= 1_000_000 { format!("{:.1} MB", bytes as f64 / 1e6) } else { format!("{:.1} kB", bytes as f64 / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_their_unit() {
        assert_eq!(size(46_180_910), "46.2 MB");
        assert_eq!(size(684_003), "684.0 kB");
    }
}
