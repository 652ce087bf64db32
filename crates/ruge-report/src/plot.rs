//! Plots as inline SVG: the only module that uses the plotting library.
//!
//! Two things differ from the library's output. Colours are CSS variables, so that a plot follows the reader's light or
//! dark setting. And every plot is drawn twice, for a desktop and for a phone, because a plot shrunk to 350 pixels is
//! not legible. The page shows one of the two.

use kuva::prelude::*;

use crate::html::{cut, escape, grouped};

/// The colour of a series, by role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// The guided model.
    Guided,
    /// The unguided model.
    Unguided,
    /// Neither.
    Plain,
    /// Guide lines.
    Faint,
}

impl Ink {
    fn css(self) -> &'static str {
        match self {
            Ink::Guided => "var(--guided)",
            Ink::Unguided => "var(--unguided)",
            Ink::Plain => "var(--plain)",
            Ink::Faint => "var(--muted)",
        }
    }
}

/// The same plot for desktop and phone.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// For wide pages.
    pub wide: String,
    /// For narrow ones.
    pub narrow: String,
}

/// A line, with marks.
#[derive(Clone, Debug)]
pub struct Series {
    /// Shown when hovering over a mark.
    pub name: String,
    /// Its colour.
    pub ink: Ink,
    /// Whether it is dashed, for readers who do not see colours.
    pub dashed: bool,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Marked points, with their hover text.
    pub marks: Vec<(f64, f64, String)>,
}

#[derive(Clone, Copy)]
struct Frame {
    width: f64,
    height: f64,
    narrow: bool,
}

const WIDE: Frame = Frame { width: 760.0, height: 320.0, narrow: false };
const NARROW: Frame = Frame { width: 350.0, height: 260.0, narrow: true };

/// The axes of line plots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axes {
    /// The range of the data.
    Plain,
    /// From 0 to 1 on both axes.
    Unit,
    /// A logarithmic y axis, if the data are positive and span more than one power of ten.
    Logarithmic,
}

/// Lines over a common axis. `None` if no point is finite.
pub fn lines(label: &str, x_label: &str, series: &[Series], axes: Axes) -> Option<Drawing> {
    let finite = |series: &Series| -> Vec<(f64, f64)> {
        series.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    };
    if series.iter().all(|series| finite(series).is_empty()) {
        return None;
    }
    let heights = || series.iter().flat_map(&finite).map(|(_, y)| y);
    let (least, most) = (heights().fold(f64::INFINITY, f64::min), heights().fold(0.0, f64::max));
    let logarithmic = axes == Axes::Logarithmic && least > 0.0 && most > 10.0 * least;
    both(label, WIDE, NARROW, |frame| {
        let mut plots: Vec<Plot> = Vec::new();
        for series in series {
            let points = finite(series);
            let width = if series.ink == Ink::Faint { 1.2 } else { 2.0 };
            let mut line = LinePlot::new().with_data(points).with_color(series.ink.css()).with_stroke_width(width);
            if series.dashed {
                line = line.with_dashed();
            }
            plots.push(line.into());
            let (marks, said): (Vec<(f64, f64)>, Vec<String>) = series
                .marks
                .iter()
                .filter(|(x, y, _)| x.is_finite() && y.is_finite())
                .map(|(x, y, said)| ((*x, *y), said.clone()))
                .unzip();
            if !marks.is_empty() {
                let scatter = ScatterPlot::new().with_data(marks).with_color(series.ink.css()).with_size(4.0);
                plots.push(scatter.with_tooltips().with_tooltip_labels(said).into());
            }
        }
        let mut layout = layout(&plots, frame).with_x_label(x_label);
        if logarithmic {
            // 0.01 rather than 1e-2.
            let short = |value: f64| format!("{}", (value * 1e6).round() / 1e6);
            layout = layout.with_log_y().with_y_tick_format(TickFormat::Custom(std::sync::Arc::new(short)));
        }
        if axes == Axes::Unit {
            layout = layout.with_x_axis_min(0.0).with_x_axis_max(1.0).with_y_axis_min(0.0).with_y_axis_max(1.0);
        }
        (plots, layout)
    })
}

/// Bars between edges. `None` if all counts are zero.
pub fn histogram(label: &str, x_label: &str, edges: &[f64], counts: &[u64]) -> Option<Drawing> {
    let rising = edges.windows(2).all(|pair| pair[0] < pair[1]) && edges.iter().all(|edge| edge.is_finite());
    if !rising || counts.is_empty() || edges.len() != counts.len() + 1 || counts.iter().all(|&count| count == 0) {
        return None;
    }
    let said: Vec<String> = counts
        .iter()
        .enumerate()
        .map(|(at, count)| format!("{:.3} to {:.3}: {count}", edges[at], edges[at + 1]))
        .collect();
    // If one bar would hide all others, heights are logarithmic: 1 is 1, 2 is 10, 3 is 100.
    let some = || counts.iter().copied().filter(|&count| count > 0);
    let (least, most) = (some().min().unwrap_or(1), some().max().unwrap_or(1));
    let logarithmic = most / least > 100;
    let height = |count: u64| match count {
        0 => 0.0,
        count if logarithmic => 1.0 + (count as f64).log10(),
        count => count as f64,
    };
    both(label, Frame { height: 240.0, ..WIDE }, Frame { height: 220.0, ..NARROW }, |frame| {
        let heights: Vec<f64> = counts.iter().map(|&count| height(count)).collect();
        let bars = Histogram::from_bins(edges.to_vec(), heights).with_color(Ink::Plain.css());
        let plots: Vec<Plot> = vec![bars.with_tooltips().with_tooltip_labels(said.clone()).into()];
        let layout = layout(&plots, frame).with_x_label(x_label);
        let layout = if logarithmic {
            let power =
                |digits: f64| if digits < 0.5 { "0".into() } else { grouped(10f64.powf(digits - 1.0).round() as u64) };
            layout.with_y_tick_step(1.0).with_y_tick_format(TickFormat::Custom(std::sync::Arc::new(power)))
        } else {
            // Integer ticks, because these are counts.
            layout.with_y_tick_step(round_step(most))
        };
        (plots, layout)
    })
}

/// The smallest of 1, 2, 5, 10, 20, … that divides `most` into at most five steps.
fn round_step(most: u64) -> f64 {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if step * 5.0 >= most as f64 {
            break;
        }
        step *= factor;
    }
    step
}

/// A pair of bars: with and without guidance.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Its name.
    pub name: String,
    /// The guided value.
    pub guided: f64,
    /// The unguided value.
    pub unguided: f64,
    /// The hover text.
    pub said: String,
}

/// Pairs of horizontal bars, the first on top. `None` if there are none.
pub fn pairs(label: &str, x_label: &str, pairs: &[Pair]) -> Option<Drawing> {
    if pairs.is_empty() {
        return None;
    }
    let number = |x: f64| if x.is_finite() { x } else { 0.0 };
    let height = 70.0 + 34.0 * pairs.len() as f64;
    both(label, Frame { height, ..WIDE }, Frame { height, ..NARROW }, |frame| {
        let mut bars = BarPlot::new().with_horizontal(true).with_width(0.72);
        let mut said = Vec::new();
        // Categories start at the bottom, and so do the bars of a group.
        for pair in pairs.iter().rev() {
            let name = plain(&cut(&pair.name, if frame.narrow { 16 } else { 34 }));
            let values = [(number(pair.unguided), Ink::Unguided.css()), (number(pair.guided), Ink::Guided.css())];
            bars = bars.with_group(name, values.to_vec());
            said.extend([pair.said.clone(), pair.said.clone()]);
        }
        let plots: Vec<Plot> = vec![bars.with_tooltips().with_tooltip_labels(said).into()];
        let layout = layout(&plots, frame).with_x_label(x_label);
        (plots, layout)
    })
}

/// Horizontal bars from 0, the first on top, each with its hover text. `None` if there are none.
pub fn bars(label: &str, x_label: &str, bars: &[(String, f64, String)]) -> Option<Drawing> {
    if bars.is_empty() {
        return None;
    }
    let height = 64.0 + 26.0 * bars.len() as f64;
    both(label, Frame { height, ..WIDE }, Frame { height, ..NARROW }, |frame| {
        let mut plot = BarPlot::new().with_horizontal(true).with_width(0.7);
        let mut said = Vec::new();
        // Categories start at the bottom.
        for (name, value, words) in bars.iter().rev() {
            let value = if value.is_finite() { *value } else { 0.0 };
            plot =
                plot.with_group(plain(&cut(name, if frame.narrow { 18 } else { 34 })), vec![(value, Ink::Plain.css())]);
            said.push(words.clone());
        }
        let plots: Vec<Plot> = vec![plot.with_tooltips().with_tooltip_labels(said).into()];
        let layout = layout(&plots, frame).with_x_label(x_label).with_x_axis_min(0.0);
        (plots, layout)
    })
}

/// A cloud of points of one colour, each with its hover text.
#[derive(Clone, Debug)]
pub struct Cloud {
    /// Their colour.
    pub ink: Ink,
    /// x, y and hover text.
    pub points: Vec<(f64, f64, String)>,
}

/// The axis of a scatter plot.
#[derive(Clone, PartialEq, Debug)]
pub enum Across {
    /// Numbers.
    Numbers,
    /// Numbers on a logarithmic scale.
    Powers,
    /// Names, at 0, 1, 2 and so on.
    Names(Vec<String>),
}

/// Clouds of points, later ones on top. `None` if no point can be drawn.
pub fn scatter(label: &str, x_label: &str, clouds: &[Cloud], across: &Across) -> Option<Drawing> {
    let drawable = |x: f64, y: f64| y.is_finite() && x.is_finite() && (*across != Across::Powers || x > 0.0);
    let all = || clouds.iter().flat_map(|cloud| &cloud.points).filter(|(x, y, _)| drawable(*x, *y));
    all().next()?;
    both(label, Frame { height: 250.0, ..WIDE }, Frame { height: 230.0, ..NARROW }, |frame| {
        let mut plots: Vec<Plot> = Vec::new();
        for cloud in clouds {
            let points = cloud.points.iter().filter(|(x, y, _)| drawable(*x, *y));
            let (places, said): (Vec<(f64, f64)>, Vec<String>) =
                points.map(|(x, y, said)| ((*x, *y), said.clone())).unzip();
            if !places.is_empty() {
                let plot = ScatterPlot::new().with_data(places).with_color(cloud.ink.css()).with_size(4.0);
                let opacity = if cloud.ink == Ink::Faint { 0.5 } else { 0.9 };
                plots.push(plot.with_marker_opacity(opacity).with_tooltips().with_tooltip_labels(said).into());
            }
        }
        let mut layout = layout(&plots, frame).with_x_label(x_label);
        match across {
            Across::Numbers => {}
            Across::Powers => {
                // Margins for the dots at both ends.
                let (least, most) = all().fold((f64::INFINITY, 0.0f64), |(a, b), (x, _, _)| (a.min(*x), b.max(*x)));
                let room = (most / least).powf(0.03).max(1.05);
                layout = layout.with_x_axis_min(least / room).with_x_axis_max(most * room);
                let short = |value: f64| format!("{}", (value * 1e9).round() / 1e9);
                layout = layout.with_log_x().with_x_tick_format(TickFormat::Custom(std::sync::Arc::new(short)));
            }
            Across::Names(names) => {
                let names: Vec<String> =
                    names.iter().map(|name| plain(&cut(name, if frame.narrow { 12 } else { 24 }))).collect();
                let last = names.len() as f64 - 0.5;
                let name = move |at: f64| match at {
                    at if (at - at.round()).abs() < 1e-6 && at >= 0.0 => {
                        names.get(at as usize).cloned().unwrap_or_default()
                    }
                    _ => String::new(),
                };
                layout = layout.with_x_axis_min(-0.5).with_x_axis_max(last).with_x_tick_step(1.0);
                layout = layout.with_x_tick_format(TickFormat::Custom(std::sync::Arc::new(name)));
            }
        }
        (plots, layout)
    })
}

/// Escapes dollar signs, which start a formula in the plotting library.
fn plain(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    text.replace('$', "\\$")
}

fn layout(plots: &[Plot], frame: Frame) -> Layout {
    let theme = Theme {
        background: "none".into(),
        axis_color: "var(--line-strong)".into(),
        grid_color: "var(--line)".into(),
        tick_color: "var(--line-strong)".into(),
        text_color: "var(--ink-soft)".into(),
        legend_bg: "none".into(),
        legend_border: "none".into(),
        font_family: None,
        ..Theme::light()
    };
    let (tick, label) = if frame.narrow { (11, 12) } else { (12, 13) };
    Layout::auto_from_plots(plots)
        .with_theme(theme)
        .with_width(frame.width)
        .with_height(frame.height)
        .with_ticks(if frame.narrow { 4 } else { 6 })
        .with_tick_size(tick)
        .with_label_size(label)
        .with_body_size(tick)
        .with_axis_line_width(1.0)
        .with_tick_width(1.0)
        .with_grid_line_width(1.0)
}

fn both(label: &str, wide: Frame, narrow: Frame, draw: impl Fn(Frame) -> (Vec<Plot>, Layout)) -> Option<Drawing> {
    let [wide, narrow] = [wide, narrow].map(|frame| {
        let (plots, layout) = draw(frame);
        fluid(&kuva::render_to_svg(plots, layout), label)
    });
    Some(Drawing { wide, narrow })
}

/// Makes a drawing fill its width: the size becomes a view box, and a label describes it.
fn fluid(svg: &str, label: &str) -> String {
    let Some((head, body)) = svg.split_once('>') else { return String::new() };
    let size = |name: &str| {
        head.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split('"').next()).unwrap_or("0").to_string()
    };
    let (width, height) = (size("width"), size("height"));
    let slug: String =
        label.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    format!(
        "<svg class=\"plot\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" \
         aria-label=\"{}\" fill=\"var(--ink-soft)\">{}",
        escape(label),
        renamed(&unstyled(body), &format!("{slug}-{width}"))
    )
}

/// Moves the library's inline styles to the page's only style sheet, whose hash is in the policy.
fn unstyled(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    // User text cannot contain these unescaped.
    while let Some((before, style)) = rest.split_once("<style>") {
        out.push_str(before);
        rest = style.split_once("</style>").map_or("", |(_, after)| after);
    }
    out + rest
}

/// Renumbers clipping paths: the library counts them over the whole program, but a page must not depend on others.
fn renamed(body: &str, prefix: &str) -> String {
    let mut numbers: Vec<&str> = Vec::new();
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    // Both start with a quote that user text cannot contain unescaped.
    let marks = ["id=\"kuva-clip-", "clip-path=\"url(#kuva-clip-"];
    let next = |text: &str| marks.iter().filter_map(|mark| text.find(mark).map(|at| (at, mark.len()))).min();
    while let Some((at, length)) = next(rest) {
        let (before, number) = rest.split_at(at + length);
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let index = numbers.iter().position(|old| *old == &number[..digits]).unwrap_or_else(|| {
            numbers.push(&number[..digits]);
            numbers.len() - 1
        });
        out.push_str(before.strip_suffix("kuva-clip-").unwrap_or(before));
        out.push_str(&format!("{prefix}-{index}"));
        rest = &number[digits..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_plot_gives_the_same_text() {
        let draw = || histogram("h", "x", &[0.0, 0.5, 1.0], &[3, 4]).unwrap();
        let (first, second) = (draw(), draw());
        assert_eq!((&first.wide, &first.narrow), (&second.wide, &second.narrow));
        assert!(first.wide.contains("id=\"h-760-0\"") && first.wide.contains("url(#h-760-0)"), "{}", first.wide);
        assert!(!first.wide.contains("kuva-clip"));
    }

    #[test]
    fn one_tall_bar_does_not_hide_the_others() {
        let ticks = |counts: &[u64]| histogram("h", "x", &[0.0, 0.5, 1.0], counts).unwrap().wide;
        assert!(ticks(&[20_000, 3]).contains(">10,000<"), "counted in digits");
        assert!(!ticks(&[20, 3]).contains(">100<") && ticks(&[20, 3]).contains(">20<"), "counted plainly");
    }

    #[test]
    fn colours_are_the_pages_own() {
        let pair = Pair { name: "r".into(), guided: 0.5, unguided: 0.25, said: "r".into() };
        let drawing = pairs("bars", "MRR", &[pair]).unwrap();
        for svg in [drawing.wide, drawing.narrow] {
            assert!(!svg.contains('#') || !svg.contains("=\"#"), "a fixed colour in {svg}");
            assert!(svg.contains("var(--guided)") && svg.contains("var(--unguided)"));
        }
    }
}
