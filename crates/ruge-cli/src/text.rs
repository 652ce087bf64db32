//! Text for people: grouped numbers, shares, and tables that line up. Names stand in them as they are shown, marks counted.

use ruge_kg::visible;
pub use ruge_kg::visible::{cut, plural};
pub use ruge_report::grouped;

/// 0.8147 as `81.5 %`. Rounding never turns some into none or most into all.
pub fn percent(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    match rounded {
        0.0 if share > 0.0 => "< 0.1 %".to_string(),
        100.0 if share < 1.0 => "> 99.9 %".to_string(),
        _ => format!("{rounded:.1} %"),
    }
}

/// A count with its noun: `1 relation`, `2,985 entities`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{} {}", grouped(count), plural(count, noun))
}

/// A decimal number of so many digits; what rounds to zero has no sign.
pub fn decimal(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(positive) if !positive.contains(|c: char| c.is_ascii_digit() && c != '0') => positive.to_string(),
        _ => text,
    }
}

/// How a column stands, and whether it may give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// Numbers: read from their last digit.
    Right,
    /// Words that must be whole.
    Left,
    /// Names of the user's, cut where the table would be too wide.
    Name,
    /// Rules and sentences, broken into lines where the table would be too wide; the last column.
    Text,
}

/// Rows of cells under common columns.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// Between columns.
const GAP: usize = 2;
/// No name is cut to less.
const SHORTEST_NAME: usize = 8;
/// No sentence is broken to less.
const SHORTEST_TEXT: usize = 20;

impl Table {
    /// A table without rows.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; missing cells at its end stay blank. A cell is one line, whatever the name in it holds.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        self.rows.push(cells.into_iter().map(|cell| visible::line(&cell.into()).into_owned()).collect());
        self
    }

    /// The lines of the table, indented by two, within `width` as far as names can give way.
    pub fn render(&self, width: usize) -> String {
        let widths = self.widths(width);
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(GAP);
            for (index, (column, &width)) in self.columns.iter().zip(&widths).enumerate() {
                let cell = row.get(index).map_or("", String::as_str);
                if *column == Column::Text {
                    let indent = line.chars().count() + if index > 0 { GAP } else { 0 };
                    line.push_str(&" ".repeat(indent - line.chars().count()));
                    line.push_str(&broken(cell, width, indent));
                    continue;
                }
                let cell = if *column == Column::Name { cut(cell, width) } else { cell.to_string() };
                let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
                if index > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                match column {
                    Column::Right => line.extend([blanks, cell]),
                    Column::Left | Column::Name | Column::Text => line.extend([cell, blanks]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let natural = |index: usize| {
            self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(natural).collect();
        let total = widths.iter().sum::<usize>() + GAP * self.columns.len();
        let mut excess = total.saturating_sub(width);
        for index in (0..widths.len()).filter(|&index| self.columns[index] == Column::Text) {
            let narrower = widths[index].saturating_sub(excess).max(SHORTEST_TEXT.min(widths[index]));
            excess = excess.saturating_sub(widths[index] - narrower);
            widths[index] = narrower;
        }
        // The widest name gives way first, one character at a time, so that none is cut more than it must be.
        while excess > 0 {
            let names = (0..widths.len()).filter(|&index| self.columns[index] == Column::Name);
            match names.max_by_key(|&index| widths[index]) {
                Some(widest) if widths[widest] > SHORTEST_NAME => widths[widest] -= 1,
                _ => break,
            }
            excess -= 1;
        }
        widths
    }
}

/// A sentence broken at blanks into lines of `width`, all but the first after so many blanks.
fn broken(sentence: &str, width: usize, indent: usize) -> String {
    let lines = wrapped(sentence, width + GAP);
    let lines: Vec<&str> = lines.lines().map(str::trim_start).collect();
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// A line without indent, broken where it is too long; the rest stands below, indented.
pub fn flowing(line: &str, width: usize) -> String {
    broken(line, width.saturating_sub(GAP), GAP) + "\n"
}

/// A sentence broken at blanks so that no line is longer than `width`, each indented by two.
pub fn wrapped(sentence: &str, width: usize) -> String {
    let mut text = String::new();
    let mut line = String::new();
    for word in visible::text(sentence).split_whitespace() {
        if !line.is_empty() && GAP + line.chars().count() + 1 + word.chars().count() > width {
            text.push_str(&format!("  {line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// A label in a column of its own and a sentence beside it, broken so that every line begins below its first.
pub fn labelled(label: &str, column: usize, sentence: &str, width: usize) -> String {
    let (label, blanks) = (visible::line(label), " ".repeat(column));
    let beside = wrapped(sentence, width.saturating_sub(column).max(GAP + 20));
    let mut lines = beside.lines().map(str::trim_start);
    let mut text = format!("  {label:<column$}{}\n", lines.next().unwrap_or_default());
    lines.for_each(|line| text.push_str(&format!("  {blanks}{line}\n")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0u64, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"].map(str::to_string));
    }

    #[test]
    fn one_is_no_plural_and_zero_has_no_sign() {
        assert_eq!([0, 1, 1200].map(|count| counted(count, "entity")), ["0 entities", "1 entity", "1,200 entities"]);
        let shown = [-0.0004, -0.0, 0.0, -0.0006, 0.5].map(|value| decimal(value, 3));
        assert_eq!(shown, ["0.000", "0.000", "0.000", "-0.001", "0.500"]);
    }

    #[test]
    fn shares_do_not_lie_at_the_ends() {
        let shown = [0.0, 0.0001, 0.8147, 0.99999, 1.0].map(percent);
        assert_eq!(shown, ["0.0 %", "< 0.1 %", "81.5 %", "> 99.9 %", "100.0 %"].map(str::to_string));
    }

    #[test]
    fn names_break_no_table_and_marks_have_a_width() {
        let mut table = Table::new(&[Column::Name, Column::Right, Column::Left]);
        table.row(["two\nlines\t\u{1b}[1m", "1", "x"]).row(["\u{202e}b", "1,000", "yes\u{9b}"]);
        assert_eq!(
            table.render(80),
            "  two⟨LF⟩lines⟨TAB⟩⟨ESC⟩[1m      1  x\n  ⟨U+202E⟩b                  1,000  yes⟨U+009B⟩\n"
        );
        let narrow = table.render(30);
        assert_eq!(narrow.lines().count(), 2, "{narrow}");
        assert_eq!(labelled("a\nb", 8, "c\u{1b}", 27), "  a⟨LF⟩b  c⟨ESC⟩\n");
    }

    #[test]
    fn tables_fit_their_width() {
        let mut table = Table::new(&[Column::Name, Column::Right, Column::Left]);
        table.row(["a name that is far too long for this table", "1", "x"]).row(["b", "1,000", "yes"]);
        for line in table.render(40).lines() {
            assert!(line.chars().count() <= 40, "{line:?}");
        }
        assert_eq!(table.render(32), "  a name… this table      1  x\n  b                   1,000  yes\n");
        assert!(table.render(200).contains("far too long for this table"));
    }

    #[test]
    fn sentences_in_a_table_are_broken_and_not_cut() {
        let mut table = Table::new(&[Column::Right, Column::Text]);
        table.row(["conf", "rule"]).row(["0.99", "if x capital_of y then y has_capital x"]);
        assert_eq!(table.render(80).lines().count(), 2);
        assert_eq!(table.render(36), "  conf  rule\n  0.99  if x capital_of y then y\n        has_capital x\n");
        assert_eq!(flowing("one two three four", 12), "one two\n  three four\n");
        assert_eq!(flowing("short", 12), "short\n");
    }

    #[test]
    fn labels_stand_in_their_own_column() {
        assert_eq!(labelled("one", 5, "two three four five six", 27), "  one  two three four five\n       six\n");
        assert_eq!(labelled("one", 5, "", 20), "  one  \n");
    }

    #[test]
    fn sentences_wrap() {
        assert_eq!(wrapped("one two three", 9), "  one two\n  three\n");
        assert_eq!(wrapped("", 9), "");
    }
}
