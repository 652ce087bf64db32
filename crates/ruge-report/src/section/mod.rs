//! The sections of a page. A section that was left out is not shown; a missing one says why.

mod data;
mod evidence;
mod predictions;
pub mod proposals;
mod repeat;
mod results;
mod rules;
mod summary;
mod trust;

use crate::html::escape;
use crate::plot::Drawing;
use crate::report::{Part, Report, System};

/// A finished section.
pub struct Section {
    /// Its anchor.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Its content, as HTML.
    pub body: String,
}

/// All sections of a report.
pub fn all(report: &Report) -> Vec<Section> {
    let summary = Section { id: "summary".into(), title: "Summary".into(), body: summary::body(report) };
    let rest = [
        section("data", "The data", &report.data, data::body),
        section("rules", "The rules", &report.rules, rules::body),
        section("training", "Training", &report.curves, |curves| results::curves(curves)),
        section("results", "Results", &report.metrics, results::table),
        section("relations", "By relation", &report.relations, |rows| results::relations(rows)),
        section("calibration", "Calibration", &report.calibration, trust::calibration),
        section("consistency", "Do the rules hold?", &report.consistency, trust::consistency),
        section("evidence", "Evidence", &report.evidence, evidence::body),
        section("proposals", "Proposed facts", &report.proposals, |list| proposals::body(list, &report.shown)),
        section("predictions", "Predicted facts", &report.predictions, |list| predictions::body(list)),
        section("clean-up", "Worth a second look", &report.clean_up, trust::clean_up),
        section("repeat", "How to repeat it", &report.repeat, repeat::body),
    ];
    std::iter::once(summary).chain(rest.into_iter().flatten()).collect()
}

fn section<T>(id: &'static str, title: &'static str, part: &Part<T>, body: impl Fn(&T) -> String) -> Option<Section> {
    let body = match part {
        Part::Given(value) => body(value),
        Part::Missing(why) => format!("<p class=\"missing\">{}</p>\n", escape(why)),
        Part::LeftOut => return None,
    };
    Some(Section { id: id.into(), title: title.into(), body })
}

/// A plot in both sizes under a title, with a legend. `id` is for tests and links.
pub fn figure(id: &str, title: &str, legend: &str, drawing: Option<&Drawing>, caption: &str) -> String {
    let Some(Drawing { wide, narrow }) = drawing else { return String::new() };
    format!(
        "<figure id=\"{id}\"><b>{}</b>{legend}<div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div>{}</figure>\n",
        escape(title),
        if caption.is_empty() { String::new() } else { format!("<figcaption>{}</figcaption>", escape(caption)) }
    )
}

/// The legend of a plot: CSS classes and their meanings.
pub fn legend(keys: &[(&str, &str)]) -> String {
    let keys: String =
        keys.iter().map(|(class, text)| format!("<li class=\"{class}\">{}</li>", escape(text))).collect();
    format!("<ul class=\"legend\">{keys}</ul>")
}

fn class(system: System) -> &'static str {
    match system {
        System::Combined => "combined",
        System::Guided => "guided",
        System::Unguided => "unguided",
        System::RulesAlone | System::Other => "",
    }
}

/// A sentence as a paragraph.
pub fn paragraph(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<p>{}</p>\n", escape(text)) }
}

/// The change between two shares, in percentage points.
fn points(guided: Option<f64>, unguided: Option<f64>) -> String {
    let Some(gain) = guided.zip(unguided).map(|(guided, unguided)| guided - unguided).filter(|gain| gain.is_finite())
    else {
        return "–".into();
    };
    match (gain * 1000.0).round() / 10.0 {
        r if r > 0.0 => format!("<span class=\"up\">+{r:.1}</span>"),
        r if r < 0.0 => format!("<span class=\"down\">−{:.1}</span>", -r),
        _ => "0.0".into(),
    }
}

/// `+0.123` or `−0.045`, coloured by sign; empty if there is nothing to compare.
fn change(guided: Option<f64>, unguided: Option<f64>) -> String {
    let Some(gain) = guided.zip(unguided).map(|(guided, unguided)| guided - unguided).filter(|gain| gain.is_finite())
    else {
        return "–".into();
    };
    let rounded = (gain * 1000.0).round() / 1000.0;
    match rounded {
        r if r > 0.0 => format!("<span class=\"up\">+{r:.3}</span>"),
        r if r < 0.0 => format!("<span class=\"down\">−{:.3}</span>", -r),
        _ => "0.000".into(),
    }
}
