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

/// Rows of cells under common columns. Where there is no room for the columns side by side, each row becomes a record: what it is
/// about, and below it every number with the head of its column.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    heads: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
}

/// Between columns.
const GAP: usize = 2;
/// No name is cut to less.
const SHORTEST_NAME: usize = 8;
/// No sentence is broken to less.
const SHORTEST_TEXT: usize = 20;
/// Terminals with fewer columns get records before names are cut to less than they can be told apart by.
const NARROW: usize = 60;
/// That many characters.
const TOLD_APART: usize = 14;

impl Table {
    /// A table without rows.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), heads: None, rows: Vec::new() }
    }

    /// Gives the columns heads.
    pub fn head<S: Into<String>>(&mut self, heads: impl IntoIterator<Item = S>) -> &mut Self {
        self.heads = Some(heads.into_iter().map(|head| visible::line(&head.into()).into_owned()).collect());
        self
    }

    /// Adds a row; missing cells at its end stay blank. A cell is one line, whatever the name in it holds.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        self.rows.push(cells.into_iter().map(|cell| visible::line(&cell.into()).into_owned()).collect());
        self
    }

    /// The lines of the table, indented by two, within `width`; without heads, as far as names can give way.
    pub fn render(&self, width: usize) -> String {
        let widths = self.widths(width);
        if let Some(heads) = &self.heads
            && self.is_crowded(&widths, width)
        {
            // A head of several words says what the names are; a short one would only stand between the records.
            let wordy = self.columns.iter().position(|column| matches!(column, Column::Left | Column::Name));
            let about = wordy.and_then(|at| heads.get(at)).filter(|head| head.contains(' '));
            let about = about.map_or_else(String::new, |head| wrapped(&format!("{head}:"), width));
            return about + &self.rows.iter().map(|row| self.record(heads, row, width)).collect::<String>();
        }
        let mut text = String::new();
        for row in self.heads.iter().chain(&self.rows) {
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

    fn natural(&self, index: usize) -> usize {
        let rows = self.heads.iter().chain(&self.rows);
        rows.filter_map(|row| row.get(index)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// Whether columns of these widths do not fit, or leave too little of the names on a narrow terminal.
    fn is_crowded(&self, widths: &[usize], width: usize) -> bool {
        let is_cut = |(index, &shown): (usize, &usize)| {
            self.columns[index] == Column::Name && shown < TOLD_APART && shown < self.natural(index)
        };
        widths.iter().sum::<usize>() + GAP * widths.len() > width
            || (width < NARROW && widths.iter().enumerate().any(is_cut))
    }

    /// A row on a narrow terminal: its first name, or its first cell with its head, and below it the other cells with theirs.
    fn record(&self, heads: &[String], row: &[String], width: usize) -> String {
        let head = |at: usize| heads.get(at).map_or("", String::as_str);
        let pair = |at: usize| match head(at) {
            "" => row[at].clone(),
            head => format!("{head} {}", row[at]),
        };
        let full = |at: &usize| !row[*at].is_empty();
        let cells = row.len().min(self.columns.len());
        let wordy = (0..cells).filter(full).find(|&at| matches!(self.columns[at], Column::Left | Column::Name));
        let title = wordy.or_else(|| (0..cells).find(full)).unwrap_or(0);
        let mut text = match self.columns.get(title).filter(|_| cells > 0) {
            None => return String::new(),
            Some(Column::Text) => wrapped(&row[title], width),
            Some(Column::Right) => wrapped(&pair(title), width),
            Some(Column::Left) => wrapped(&row[title], width),
            Some(Column::Name) => wrapped(&cut(&row[title], width.saturating_sub(GAP)), width),
        };
        // Numbers follow one another while there is room; a head and its number are never parted.
        let (indent, mut line) = (2 * GAP, String::new());
        let room = width.saturating_sub(indent).max(SHORTEST_NAME);
        let mut sentences = String::new();
        for at in (0..cells).filter(full).filter(|&at| at != title) {
            if self.columns[at] == Column::Text {
                let below = wrapped(&row[at], width.saturating_sub(GAP));
                below.lines().for_each(|line| sentences.push_str(&format!("  {line}\n")));
                continue;
            }
            let next = cut(&pair(at), room);
            if !line.is_empty() && line.chars().count() + GAP + next.chars().count() > room {
                text.push_str(&format!("    {line}\n"));
                line.clear();
            }
            line = if line.is_empty() { next } else { format!("{line}  {next}") };
        }
        if !line.is_empty() {
            text.push_str(&format!("    {line}\n"));
        }
        text + &sentences
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|index| self.natural(index)).collect();
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
    fn where_columns_do_not_fit_each_row_is_a_record() {
        use Column::{Left, Name, Right, Text};
        let mut table = Table::new(&[Name, Right, Right, Right, Right]);
        table.head(["", "MRR", "H@1", "H@10", "best epoch"]);
        table.row(["ComplEx guided by rules", "0.712", "0.650", "0.812", "30"]);
        table.row(["the rules alone", "0.2", "0.1", "0.3", ""]);
        assert_eq!(table.render(80).lines().count(), 3);
        assert_eq!(
            table.render(30),
            "  ComplEx guided by rules\n    MRR 0.712  H@1 0.650\n    H@10 0.812  best epoch 30\n  the rules alone\n    \
             MRR 0.2  H@1 0.1  H@10 0.3\n"
        );
        let mut table = Table::new(&[Right, Right, Text]);
        table.head(["trial number", "validation MRR", "rule"]).row([
            "1",
            "0.5",
            "if x capital_of y then y has_capital x",
        ]);
        let narrow = table.render(40);
        assert_eq!(
            narrow,
            "  trial number 1\n    validation MRR 0.5\n    if x capital_of y then y has_capital\n    x\n"
        );
        // Names stay long enough to be told apart, and no line is too long.
        let mut table = Table::new(&[Name, Left, Right]);
        let long = "a_name_that_no_terminal_of_forty_columns_has_room_for".to_string();
        table.head(["relation".to_string(), "class".into(), "share of facts".into()]).row([
            long.clone(),
            "many to many".into(),
            "97.1 %".into(),
        ]);
        table.row([long.clone(), long, "2".into()]);
        for line in table.render(40).lines() {
            assert!(line.chars().count() <= 40, "{line:?}");
        }
        assert!(table.render(40).contains("class many to many"), "{}", table.render(40));
    }

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
