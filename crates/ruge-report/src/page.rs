//! The page around the sections: head, table of contents, style.

use crate::html::escape;
use crate::report::Report;
use crate::section::{self, Section};

/// The page as one string: complete HTML that loads nothing from anywhere.
///
/// Write it with `ruge_kg::io::write::replace_file`, so that a reader never sees half a page.
pub fn render(report: &Report) -> String {
    let sections = section::all(report);
    let title = if report.title.is_empty() { "a run" } else { &report.title };
    let version = report.repeat.given().map_or("", |repeat| &repeat.version);
    whole(title, "ruge report", &sections, version)
}

/// Sections under a title, with a table of contents. `over` stands above the title.
pub(crate) fn whole(title: &str, over: &str, sections: &[Section], version: &str) -> String {
    let contents: String = sections
        .iter()
        .map(|section| format!("<li><a href=\"#{}\">{}</a></li>", section.id, escape(&section.title)))
        .collect();
    let body: String = sections
        .iter()
        .map(|section| {
            format!(
                "<section id=\"{id}\" aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{}</h2>\n{}</section>\n",
                escape(&section.title),
                section.body,
                id = section.id
            )
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} · {over}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><p class=\"over\">{over}</p><h1>{title}</h1></header>\n\
         <nav aria-label=\"Contents\"><ol>{contents}</ol></nav>\n<main>\n{body}</main>\n\
         <footer><p>Made by ruge {version}. This page is complete: it loads nothing from elsewhere.</p></footer>\n\
         </body>\n</html>\n",
        title = escape(title),
        over = escape(over),
        version = escape(version),
    )
}

const STYLE: &str = include_str!("style.css");
