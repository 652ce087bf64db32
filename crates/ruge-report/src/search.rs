//! The page of a search: the best settings, the course of the search, and which settings mattered.
//!
//! As everywhere in this crate, the page is made from plain data; the caller fills in a [`SearchPage`].

mod gather;

use crate::html::{Align, Table, counted, escape, name, seconds};
use crate::page;
use crate::plot::{self, Across, Axes, Cloud, Ink, Series};
use crate::section::{Section, figure, legend, paragraph};
use crate::sheet::key;

/// The contents of the page.
#[derive(Clone, Debug, Default)]
pub struct SearchPage {
    /// The title: the data.
    pub title: String,
    /// The method, in a sentence.
    pub method: String,
    /// Whether the search is finished.
    pub is_done: bool,
    /// The searched settings.
    pub leaves: Vec<SearchLeaf>,
    /// Every trial, best first, then those without a result.
    pub trials: Vec<SearchTrial>,
    /// Commands to reproduce and to continue the search.
    pub commands: Vec<String>,
    /// The best spec as TOML.
    pub best_spec: String,
    /// The space as TOML.
    pub space: String,
    /// The program version.
    pub version: String,
}

/// A searched setting.
#[derive(Clone, Debug)]
pub struct SearchLeaf {
    /// Its dotted path.
    pub path: String,
    /// The shortest unambiguous form of the path.
    pub short: String,
    /// Its possible values, in words.
    pub domain: String,
    /// Its axis.
    pub across: Across,
    /// The share of the variance of ranks it explains; `None` if there are too few trials.
    pub importance: Option<f64>,
}

/// A trial.
#[derive(Clone, Debug, Default)]
pub struct SearchTrial {
    /// Its number.
    pub number: usize,
    /// Its state, in a word.
    pub state: String,
    /// Whether it was trained to the end.
    pub is_whole: bool,
    /// The best validation MRR.
    pub mrr: Option<f64>,
    /// The epoch of that MRR, and all epochs trained.
    pub epochs: Option<(u64, u64)>,
    /// Wall time.
    pub seconds: f64,
    /// Its settings in words, and their positions on the axes.
    pub values: Vec<(String, f64)>,
    /// Validation MRR by epoch.
    pub curve: Vec<(u64, f64)>,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// Trials in the first table.
const BEST: usize = 10;
/// Trials whose curves are highlighted.
const CURVES: usize = 3;

/// The page as one string.
pub fn render_search(page: &SearchPage) -> String {
    let section = |id: &str, title: &str, body: String| {
        (!body.is_empty()).then(|| Section { id: id.into(), title: title.into(), body })
    };
    let sections: Vec<Section> = [
        section("summary", "Summary", summary(page)),
        section("best", "The best trials", best(page)),
        section("curves", "How they learned", curves(page)),
        section("leaves", "What mattered", leaves(page)),
        section("trials", "All trials", trials(page)),
        section("failed", "Trials that failed", failed(page)),
        section("repeat", "How to repeat it", repeat(page)),
    ]
    .into_iter()
    .flatten()
    .collect();
    page::whole(&page.title, "ruge search", &sections, &page.version)
}

fn with_result(page: &SearchPage) -> impl Iterator<Item = &SearchTrial> {
    page.trials.iter().filter(|trial| trial.mrr.is_some())
}

fn summary(page: &SearchPage) -> String {
    let mut out = String::new();
    let best = with_result(page).next();
    match best {
        Some(best) => out.push_str(&format!(
            "<p class=\"lead\">Trial {} is the best: validation MRR <b>{}</b>.</p>\n",
            best.number,
            mrr(best.mrr)
        )),
        None => out.push_str("<p class=\"lead\">No trial has a result yet.</p>\n"),
    }
    out.push_str(&paragraph(&page.method));
    if !page.is_done {
        out.push_str(&paragraph("The search is not finished; this page shows it so far."));
    }
    if let Some(best) = best.filter(|best| !best.is_whole) {
        let text = format!("Trial {} has not been trained to its end.", best.number);
        out.push_str(&paragraph(&text));
    }
    let failed = page.trials.iter().filter(|trial| trial.error.is_some()).count();
    let whole = page.trials.iter().filter(|trial| trial.is_whole).count();
    let time: f64 = page.trials.iter().map(|trial| trial.seconds).sum();
    let figures = [
        (mrr(best.and_then(|best| best.mrr)), "best validation MRR"),
        (page.trials.len().to_string(), "trials"),
        (whole.to_string(), "of them trained to the end"),
        (failed.to_string(), "of them failed"),
        (seconds(time), "of training"),
    ];
    let items: String =
        figures.iter().map(|(value, label)| format!("<li><b>{value}</b><span>{label}</span></li>")).collect();
    out.push_str(&format!("<ul class=\"figures\">{items}</ul>\n"));
    if let Some(best) = best {
        let facts = page.leaves.iter().zip(&best.values);
        let facts: String = facts
            .map(|(leaf, (value, _))| format!("<dt><code>{}</code></dt><dd>{}</dd>", escape(&leaf.path), escape(value)))
            .collect();
        out.push_str(&format!("<dl>{facts}</dl>\n"));
    }
    out
}

fn mrr(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "–".into(), |value| format!("{value:.4}"))
}

fn table(page: &SearchPage) -> Table {
    let fixed =
        [("trial", Align::Number), ("MRR", Align::Number), ("best epoch", Align::Number), ("epochs", Align::Number)];
    let mut columns: Vec<(String, Align)> = fixed.map(|(head, align)| (head.to_string(), align)).to_vec();
    columns.extend([("time".to_string(), Align::Number), ("state".to_string(), Align::Text)]);
    let numbers = |leaf: &SearchLeaf| if matches!(leaf.across, Across::Names(_)) { Align::Text } else { Align::Number };
    columns.extend(page.leaves.iter().map(|leaf| (escape(&leaf.short), numbers(leaf))));
    Table::new(columns)
}

fn row(trial: &SearchTrial) -> Vec<String> {
    let epochs =
        |which: fn((u64, u64)) -> u64| trial.epochs.map_or_else(|| "–".into(), |epochs| which(epochs).to_string());
    let fixed = [
        trial.number.to_string(),
        mrr(trial.mrr),
        epochs(|(best, _)| best),
        epochs(|(_, all)| all),
        seconds(trial.seconds),
        escape(&trial.state),
    ];
    fixed.into_iter().chain(trial.values.iter().map(|(value, _)| name(value, 40))).collect()
}

fn best(page: &SearchPage) -> String {
    let mut table = table(page);
    for (place, trial) in with_result(page).take(BEST).enumerate() {
        table.classed(if place == 0 { "guided" } else { "" }, row(trial));
    }
    if table.is_empty() {
        return String::new();
    }
    let note =
        "MRR is the best filtered MRR on the validation triples, mean rank for ties. Test triples were not used.";
    format!("{}{}", paragraph(note), table.render("The best trials"))
}

fn curves(page: &SearchPage) -> String {
    let mut series = Vec::new();
    let learned: Vec<&SearchTrial> = with_result(page).filter(|trial| !trial.curve.is_empty()).collect();
    // The best are drawn last, on top of the others.
    for (place, trial) in learned.iter().enumerate().rev() {
        let (ink, dashed) = match place {
            0 => (Ink::Guided, false),
            1 => (Ink::Unguided, false),
            place if place < CURVES => (Ink::Unguided, true),
            _ => (Ink::Faint, false),
        };
        let points: Vec<(f64, f64)> = trial.curve.iter().map(|(epoch, mrr)| (*epoch as f64, *mrr)).collect();
        let name = format!("trial {}", trial.number);
        let told = |(epoch, mrr): &(f64, f64)| (*epoch, *mrr, format!("{name}, epoch {epoch}: {mrr:.4}"));
        let end = trial.epochs.and_then(|(best, _)| points.iter().find(|(epoch, _)| *epoch == best as f64));
        // A curve of one point needs a mark.
        let is_marked = place < CURVES || points.len() == 1;
        let marks = end.or(points.last()).filter(|_| is_marked).map(told).into_iter().collect();
        series.push(Series { name, ink, dashed, points, marks });
    }
    let mut keys: Vec<(String, String)> = Vec::new();
    for (place, series) in series.iter().rev().take(CURVES).enumerate() {
        let nth = ["the best", "the second", "the third"][place];
        keys.push((key(series), format!("{}, {nth}", series.name)));
    }
    if series.len() > CURVES {
        keys.push(("faint solid".into(), "the others".into()));
    }
    let keys: Vec<(&str, &str)> = keys.iter().map(|(class, text)| (class.as_str(), text.as_str())).collect();
    let drawing = plot::lines("Validation MRR by epoch", "epoch", &series, Axes::Plain);
    let caption =
        "A dot marks the best epoch. A line that ends early is a trial that was stopped because others were better.";
    figure("plot-curves", "Validation MRR by epoch", &legend(&keys), drawing.as_ref(), caption)
}

fn leaves(page: &SearchPage) -> String {
    let mut out = String::new();
    let mut known: Vec<(&SearchLeaf, f64)> = page
        .leaves
        .iter()
        .filter_map(|leaf| Some((leaf, leaf.importance.filter(|share| share.is_finite())?)))
        .collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    if known.is_empty() {
        out.push_str(&paragraph("Too few trials to say which setting mattered; at least eight are needed."));
    } else {
        let bars: Vec<(String, f64, String)> = known
            .iter()
            .map(|(leaf, share)| (leaf.path.clone(), *share, format!("{}: {share:.2}", leaf.path)))
            .collect();
        let drawing = plot::bars("Importance of each setting", "share of variance explained", &bars);
        let caption = "For each leaf alone: trials are grouped by its value (numbers by quarters) and ranked by validation MRR at \
                       the end of their first rung, failed trials last. Shown is the share of the variance of ranks that lies \
                       between groups (ε² of Kruskal and Wallis), less what chance would give: 0 says nothing, 1 says \
                       everything. What a leaf does only together with another is not seen.";
        out.push_str(&figure("plot-importance", "Importance of each setting", "", drawing.as_ref(), caption));
    }
    let some_paused = with_result(page).any(|trial| !trial.is_whole);
    let mut order: Vec<(usize, &SearchLeaf)> = page.leaves.iter().enumerate().collect();
    let share = |leaf: &SearchLeaf| leaf.importance.filter(|share| share.is_finite()).unwrap_or(0.0);
    order.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)));
    for (at, leaf) in order {
        let cloud = |ink: Ink, of: &dyn Fn(usize, &SearchTrial) -> bool| Cloud {
            ink,
            points: with_result(page)
                .enumerate()
                .filter(|(place, trial)| of(*place, trial))
                .filter_map(|(_, trial)| {
                    let (value, x) = trial.values.get(at)?;
                    Some((
                        *x,
                        trial.mrr?,
                        format!("trial {}, {} = {value}: {}", trial.number, leaf.short, mrr(trial.mrr)),
                    ))
                })
                .collect(),
        };
        let clouds = [
            cloud(Ink::Faint, &|place, trial| place > 0 && !trial.is_whole),
            cloud(Ink::Unguided, &|place, trial| place > 0 && trial.is_whole),
            cloud(Ink::Guided, &|place, _| place == 0),
        ];
        let title = format!("Validation MRR against {}", leaf.path);
        let mut keys = vec![("dot guided", "the best"), ("dot unguided", "trained to the end")];
        if some_paused {
            keys.push(("dot faint", "stopped earlier"));
        }
        let drawing = plot::scatter(&title, &leaf.path, &clouds, &leaf.across);
        out.push_str(&figure(&format!("plot-leaf-{at}"), &title, &legend(&keys), drawing.as_ref(), &leaf.domain));
    }
    out
}

fn trials(page: &SearchPage) -> String {
    if page.trials.len() <= BEST {
        return String::new();
    }
    let mut table = table(page);
    page.trials.iter().for_each(|trial| table.row(row(trial)));
    table.folded("All trials", BEST)
}

fn failed(page: &SearchPage) -> String {
    let failed: Vec<&SearchTrial> = page.trials.iter().filter(|trial| trial.error.is_some()).collect();
    if failed.is_empty() {
        return String::new();
    }
    let mut table = Table::new([("trial", Align::Number), ("leaves", Align::Text), ("why", Align::Text)]);
    for trial in &failed {
        let leaves =
            page.leaves.iter().zip(&trial.values).map(|(leaf, (value, _))| format!("{} = {value}", leaf.short));
        let words = |text: &str| format!("<span class=\"words\">{}</span>", escape(text));
        let leaves = words(&leaves.collect::<Vec<_>>().join(", "));
        table.row(vec![trial.number.to_string(), leaves, words(trial.error.as_deref().unwrap_or(""))]);
    }
    let text = format!("{} failed; the search continued without them.", counted(failed.len(), "trial", "trials"));
    format!("{}{}", paragraph(&text), table.folded("Trials that failed", BEST))
}

fn repeat(page: &SearchPage) -> String {
    let code = |text: &str| format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escape(text));
    let mut out = code(&page.commands.join("\n"));
    out.push_str(&paragraph(
        "The same program, data, space and seed give the same trials, killed and resumed or not, on any number of threads.",
    ));
    for (title, text) in [("The best spec", &page.best_spec), ("The space", &page.space)] {
        if !text.is_empty() {
            out.push_str(&format!("<details><summary>{title}</summary>{}</details>\n", code(text)));
        }
    }
    out
}
