//! Reads the hand-written tables.
//!
//! A table is a tab-separated file with a header line; a cell may contain a list separated by `;`. All errors in the
//! *form* of a table are reported here, with file and line, so that the expansion only deals with meaning.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// Every table and the columns it must have, in this order.
pub const TABLES: &[(&str, &[&str])] = &[
    ("regions", &["region", "continent"]),
    (
        "countries",
        &["name", "code", "region", "capitals", "languages", "currencies", "drives", "independent_from", "coasts"],
    ),
    ("borders", &["name", "neighbours"]),
    ("divisions", &["name", "country", "capital", "continent"]),
    ("cities", &["country", "division", "cities", "continent"]),
    ("waters", &["name", "kind", "part_of", "countries"]),
    ("shores", &["water", "cities"]),
    ("families", &["branch", "family"]),
    ("languages", &["name", "branch", "family", "scripts", "also_spoken_in"]),
    ("currencies", &["currency", "issuer", "city"]),
    ("organisations", &["name", "headquarters", "founders", "members"]),
    ("companies", &["name", "industry", "city"]),
    ("rivers", &["name", "countries", "empties_into", "tributary_of", "cities"]),
    ("ranges", &["name", "countries"]),
    ("mountains", &["name", "kind", "range", "countries", "highest_of"]),
    ("islands", &["name", "countries", "water"]),
    ("places", &["name", "kind", "city"]),
    ("twins", &["city", "sister_cities"]),
    ("events", &["event", "hosts"]),
];

/// One line of a table.
#[derive(Debug, Clone)]
pub struct Row {
    table: &'static str,
    line: usize,
    columns: &'static [&'static str],
    cells: Vec<String>,
}

impl Row {
    /// The row's file and line, for messages.
    pub fn place(&self) -> String {
        format!("{}.tsv:{}", self.table, self.line)
    }

    /// The text of a cell; may be empty.
    pub fn cell(&self, column: &str) -> &str {
        let at = self.columns.iter().position(|name| *name == column);
        debug_assert!(at.is_some(), "{} has no column {column}", self.table);
        at.and_then(|at| self.cells.get(at)).map_or("", String::as_str)
    }

    /// The items of a list cell.
    pub fn list(&self, column: &str) -> impl Iterator<Item = &str> {
        self.cell(column).split(';').filter(|item| !item.is_empty())
    }
}

/// All tables, by name.
#[derive(Debug, Default)]
pub struct Tables {
    rows: BTreeMap<&'static str, Vec<Row>>,
}

impl Tables {
    /// Reads every known table of a folder; all must exist.
    pub fn read(dir: &Path) -> Result<Tables> {
        let mut tables = Tables::default();
        for (name, _) in TABLES {
            let path = dir.join(format!("{name}.tsv"));
            let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            tables.add(name, &text)?;
        }
        Ok(tables)
    }

    /// Adds one table from its text; missing tables count as empty.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let Some((name, columns)) = TABLES.iter().find(|(known, _)| *known == name) else {
            bail!("no table is called {name}");
        };
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
        ensure!(header == *columns, "{name}.tsv: the header is {header:?}, not {columns:?}");
        let mut rows = Vec::new();
        for (index, line) in lines.enumerate() {
            let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
            let line = index + 2;
            ensure!(
                cells.len() == columns.len(),
                "{name}.tsv:{line}: {} cells instead of {}",
                cells.len(),
                columns.len()
            );
            for cell in &cells {
                ensure!(
                    cell.is_empty() || cell.split(';').all(tidy),
                    "{name}.tsv:{line}: `{cell}` has an empty item or blanks at an end"
                );
            }
            ensure!(!cells[0].is_empty(), "{name}.tsv:{line}: no name");
            rows.push(Row { table: name, line, columns, cells });
        }
        self.rows.insert(name, rows);
        Ok(())
    }

    /// The rows of a table; empty if it was never added.
    pub fn rows(&self, name: &str) -> &[Row] {
        self.rows.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Whether a name can be written to a tab-separated file unchanged.
pub fn tidy(name: &str) -> bool {
    !name.is_empty() && name.trim() == name && !name.contains("  ") && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_empty_cells_are_read() {
        let mut tables = Tables::default();
        tables.add("islands", "name\tcountries\twater\nTimor\tA;B\t\n").unwrap();
        let row = &tables.rows("islands")[0];
        assert_eq!(row.list("countries").collect::<Vec<_>>(), ["A", "B"]);
        assert_eq!(row.list("water").count(), 0);
        assert_eq!(row.place(), "islands.tsv:2");
    }

    #[test]
    fn bad_form_is_refused_with_its_line() {
        let mut tables = Tables::default();
        for bad in ["Timor\tA", "Timor \tA\tB", "Timor\tA;;B\tC", "\tA\tB"] {
            let text = format!("name\tcountries\twater\n{bad}\n");
            let error = tables.add("islands", &text).unwrap_err().to_string();
            assert!(error.contains("islands.tsv:2"), "{error}");
        }
        assert!(tables.add("islands", "name\twater\n").is_err());
        assert!(tables.add("moons", "name\n").is_err());
    }
}
