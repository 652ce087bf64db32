//! Tables of experiments: measured next to published figures, as Markdown and as one page with plots.
//!
//! A [`Sheet`] is a table of formatted text; the caller defines its columns.

use std::fmt::Write;

use crate::html::{Align, Table, escape};
use crate::page;
use crate::plot::{self, Axes, Ink, Series};
use crate::section::{Section, figure, legend, paragraph};

/// One table with its texts and plots.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// Its anchor: letters, digits and hyphens.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Paragraphs before it.
    pub before: Vec<String>,
    /// Column heads, and whether the column is numeric.
    pub columns: Vec<(String, bool)>,
    /// Its rows.
    pub rows: Vec<SheetRow>,
    /// Its plots.
    pub plots: Vec<SheetPlot>,
    /// Paragraphs after it.
    pub after: Vec<String>,
}

/// A row of text.
#[derive(Clone, Debug, Default)]
pub struct SheetRow {
    /// One per column; missing ones at the end are blank.
    pub cells: Vec<String>,
    /// Whether these are a paper's figures, which are shown less prominently.
    pub published: bool,
}

/// A plot of lines.
#[derive(Clone, Debug)]
pub struct SheetPlot {
    /// Its title.
    pub title: String,
    /// The label of the x axis.
    pub x_label: String,
    /// What it shows, in a sentence.
    pub caption: String,
    /// Its lines.
    pub series: Vec<Series>,
}

impl Sheet {
    /// The table as Markdown, under a heading.
    pub fn markdown(&self) -> String {
        // An unescaped bar would end a cell.
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let mut out = format!("## {}\n\n", self.title);
        for text in &self.before {
            let _ = write!(out, "{text}\n\n");
        }
        if !self.rows.is_empty() {
            let heads: Vec<String> = self.columns.iter().map(|(head, _)| cell(head)).collect();
            let lines: Vec<&str> = self.columns.iter().map(|(_, number)| if *number { "--:" } else { "---" }).collect();
            let _ = write!(out, "| {} |\n| {} |\n", heads.join(" | "), lines.join(" | "));
            for row in &self.rows {
                let mut cells: Vec<String> = row.cells.iter().map(|text| cell(text)).collect();
                cells.resize(self.columns.len(), String::new());
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
            out.push('\n');
        }
        for text in &self.after {
            let _ = write!(out, "{text}\n\n");
        }
        out
    }

    fn body(&self) -> String {
        let mut out: String = self.before.iter().map(|text| paragraph(text)).collect();
        if !self.rows.is_empty() {
            let align = |number: bool| if number { Align::Number } else { Align::Text };
            let mut table = Table::new(self.columns.iter().map(|(head, number)| (escape(head), align(*number))));
            for row in &self.rows {
                let mut cells: Vec<String> = row.cells.iter().map(|text| escape(text)).collect();
                cells.resize(self.columns.len(), String::new());
                table.classed(if row.published { "published" } else { "" }, cells);
            }
            out.push_str(&table.render(&self.title));
        }
        for (index, plot) in self.plots.iter().enumerate() {
            let keys: Vec<(String, &str)> =
                plot.series.iter().map(|series| (key(series), series.name.as_str())).collect();
            let keys: Vec<(&str, &str)> = keys.iter().map(|(class, name)| (class.as_str(), *name)).collect();
            let drawing = plot::lines(&plot.title, &plot.x_label, &plot.series, Axes::Plain);
            let id = format!("{}-plot-{index}", self.id);
            out.push_str(&figure(&id, &plot.title, &legend(&keys), drawing.as_ref(), &plot.caption));
        }
        out.extend(self.after.iter().map(|text| paragraph(text)));
        out
    }
}

/// The CSS class of a line's legend key.
pub(crate) fn key(series: &Series) -> String {
    let ink = match series.ink {
        Ink::Guided => "guided",
        Ink::Unguided => "unguided",
        Ink::Plain => "plain",
        Ink::Faint => "faint",
    };
    if series.dashed { format!("{ink} dashed") } else { ink.to_string() }
}

/// All sheets as one self-contained page.
pub fn render_sheets(title: &str, sheets: &[Sheet], version: &str) -> String {
    let sections: Vec<Section> = sheets
        .iter()
        .map(|sheet| Section { id: sheet.id.clone(), title: sheet.title.clone(), body: sheet.body() })
        .collect();
    page::whole(title, "ruge reproduce", &sections, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let points = vec![(0.1, 0.5), (0.2, 0.6), (0.3, f64::NAN)];
        let series = Series { name: "RUGE <1>".into(), ink: Ink::Guided, dashed: false, points, marks: Vec::new() };
        let plot = SheetPlot { title: "A plot".into(), x_label: "x".into(), caption: "c".into(), series: vec![series] };
        Sheet {
            id: "a".into(),
            title: "A table".into(),
            before: vec!["Before.".into()],
            columns: vec![("method".into(), false), ("MRR".into(), true)],
            rows: vec![
                SheetRow { cells: vec!["a|b".into(), "0.5".into()], published: false },
                SheetRow { cells: vec!["<paper>".into()], published: true },
            ],
            plots: vec![plot],
            after: vec!["After.".into()],
        }
    }

    #[test]
    fn markdown_keeps_its_columns() {
        let text = sheet().markdown();
        let expected =
            "## A table\n\nBefore.\n\n| method | MRR |\n| --- | --: |\n| a\\|b | 0.5 |\n| <paper> |  |\n\nAfter.\n\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_page_is_complete_and_escapes_names() {
        let page = render_sheets("T & T", &[sheet()], "0.1");
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("T &amp; T") && page.contains("&lt;paper&gt;") && page.contains("RUGE &lt;1&gt;"));
        assert!(page.contains("<svg") && page.contains("class=\"published\""));
        assert!(!page.contains("http://") || page.contains("http://www.w3.org"), "it loads nothing");
    }
}
