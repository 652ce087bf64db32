//! HTML building blocks. Every user string passes through [`escape`].

use std::fmt::Write;

use ruge_kg::visible;
pub use ruge_kg::visible::cut;

/// Escapes text for HTML and XML. Invisible and bidirectional characters become visible marks.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for character in visible::text(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Like [`escape`], with possible line breaks after slashes, and after underscores in very long words.
pub fn breakable(text: &str) -> String {
    let word = |word: &str| {
        let parted = escape(word).replace('/', "/<wbr>");
        if word.chars().count() > 24 { parted.replace('_', "_<wbr>") } else { parted }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 rule`, `57 rules`.
pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A metric or a truth value with three digits; `–` if it is not a number.
pub fn decimal(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { "–".into() }
}

/// A truth value; never rounded to certainty.
pub fn truth(value: f64) -> String {
    match decimal(value).as_str() {
        "1.000" if value < 1.0 => "&gt; 0.999".into(),
        "0.000" if value > 0.0 => "&lt; 0.001".into(),
        plain => plain.into(),
    }
}

/// A metric that may be missing.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), decimal)
}

/// 0.8147 as `81.5 %`. Rounding never turns some into none or most into all.
pub fn percent(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    match rounded {
        _ if !share.is_finite() => "–".into(),
        0.0 if share > 0.0 => "&lt; 0.1 %".into(),
        100.0 if share < 1.0 => "&gt; 99.9 %".into(),
        _ => format!("{rounded:.1} %"),
    }
}

/// A rank, with its half if it is not whole.
pub fn rank(value: f64) -> String {
    if !value.is_finite() {
        "–".into()
    } else if value.fract() == 0.0 {
        grouped(value as u64)
    } else {
        format!("{value:.1}")
    }
}

/// A human-readable duration.
pub fn seconds(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".into(),
        _ if value < 0.0995 => format!("{:.0} ms", value * 1e3),
        _ if value < 9.95 => format!("{value:.1} s"),
        _ if value < 119.5 => format!("{value:.0} s"),
        _ if value < 7200.0 => format!("{:.0} min {:02.0} s", (value / 60.0).floor(), value % 60.0),
        _ => format!("{:.1} h", value / 3600.0),
    }
}

/// Alignment of a table column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text: left-aligned.
    Text,
    /// Numbers: right-aligned.
    Number,
}

/// A table that scrolls inside its box if it is wider than the page. Cells are HTML.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    /// Column heads (HTML) and their alignment.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        Self { columns: columns.into_iter().map(|(head, align)| (head.into(), align)).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.classed("", cells);
    }

    /// Adds a row with a CSS class.
    pub fn classed(&mut self, class: &str, cells: Vec<String>) {
        self.rows.push((class.to_string(), cells));
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as HTML. `label` is its accessible name.
    pub fn render(&self, label: &str) -> String {
        self.part(label, &self.rows)
    }

    /// The table as HTML, with rows after the first `shown` collapsed.
    pub fn folded(&self, label: &str, shown: usize) -> String {
        // Collapsing a row or two would take more space than it saves.
        if self.rows.len() <= shown + 3 {
            return self.render(label);
        }
        let (first, rest) = self.rows.split_at(shown);
        format!(
            "{}<details><summary>{} more</summary>\n{}</details>\n",
            self.part(label, first),
            grouped(rest.len()),
            self.part(&format!("{label}, continued"), rest)
        )
    }

    fn part(&self, label: &str, rows: &[(String, Vec<String>)]) -> String {
        let class = |align: Align| if align == Align::Number { " class=\"n\"" } else { "" };
        // A scrolling box must be reachable by keyboard.
        let mut out = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table><thead><tr>",
            escape(label)
        );
        for (head, align) in &self.columns {
            let _ = write!(out, "<th scope=\"col\"{}>{head}</th>", class(*align));
        }
        out.push_str("</tr></thead><tbody>\n");
        for (row_class, cells) in rows {
            out.push_str(&if row_class.is_empty() { "<tr>".into() } else { format!("<tr class=\"{row_class}\">") });
            for ((_, align), cell) in self.columns.iter().zip(cells) {
                let _ = write!(out, "<td{}>{cell}</td>", class(*align));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}

/// A name isolated from the text direction around it.
pub fn isolated(text: &str) -> String {
    format!("<bdi>{}</bdi>", breakable(text))
}

/// A name cut to `width`, with the full name on hover.
pub fn name(text: &str, width: usize) -> String {
    let (text, short) = (visible::line(text), cut(text, width));
    let class = if short.chars().count() > 24 { "name long" } else { "name" };
    if short == text {
        format!("<bdi class=\"{class}\">{}</bdi>", breakable(&text))
    } else {
        format!("<bdi class=\"{class}\" title=\"{}\">{}</bdi>", escape(&text), breakable(&short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_users_becomes_markup() {
        assert_eq!(escape("<b title=\"x\">&'\u{1}</b>"), "&lt;b title=&quot;x&quot;&gt;&amp;&#39;⟨SOH⟩&lt;/b&gt;");
        assert_eq!(escape("a\u{202e}b\n\u{200b}"), "a⟨U+202E⟩b\n⟨U+200B⟩");
        assert_eq!(isolated("<i>"), "<bdi>&lt;i&gt;</bdi>");
        assert_eq!(name("\u{202e}\n", 40), "<bdi class=\"name\">⟨U+202E⟩⟨LF⟩</bdi>");
        assert_eq!(breakable("/a b_c<"), "/<wbr>a b_c&lt;");
        assert_eq!(breakable(&"a_".repeat(13)), "a_<wbr>".repeat(13));
        assert_eq!(
            name("<script>alert(1)</script>", 12),
            "<bdi class=\"name\" title=\"&lt;script&gt;alert(1)&lt;/script&gt;\">&lt;scr…script&gt;</bdi>"
        );
    }

    #[test]
    fn long_tables_fold_and_keep_every_row() {
        let mut table = Table::new([("a", Align::Text)]);
        (0..20).for_each(|row| table.row(vec![format!("row {row}")]));
        let folded = table.folded("rows", 12);
        assert_eq!((folded.matches("<td>row").count(), folded.matches("<details>").count()), (20, 1));
        assert!(folded.contains("<summary>8 more</summary>"));
        assert!(!table.folded("rows", 17).contains("<details>"));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [seconds(0.0421), seconds(3.26), seconds(64.0), seconds(600.4)],
            ["42 ms", "3.3 s", "64 s", "10 min 00 s"]
        );
        assert_eq!([percent(0.99999), percent(0.5), percent(f64::NAN)], ["&gt; 99.9 %", "50.0 %", "–"]);
        assert_eq!(
            [truth(0.9999), truth(1.0), truth(0.0001), truth(0.5)],
            ["&gt; 0.999", "1.000", "&lt; 0.001", "0.500"]
        );
        assert_eq!([rank(1234.0), rank(1.5)], ["1,234", "1.5"]);
    }
}
