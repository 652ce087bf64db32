//! The picture of the evidence as SVG: lanes between two tall boxes.
//!
//! Text is set in a fixed-width face, so its width is known without measuring: what would not fit is cut in its middle, and
//! the whole name is the tool tip. Colours are classes with a rule for dark ground; nothing is fetched from anywhere.
//!
//! Pictures are sent around, and their names come from files that others wrote. Every name is escaped, and opened by itself
//! the picture carries a policy: no script runs and nothing is engine. Browsers look for a policy in a `head` of HTML, and
//! find it in the metadata of an SVG too; inside a page it is that page's policy that counts, and the prefix keeps `head`
//! from ending the picture there.

use std::fmt::Write;

use ruge_kg::visible;

use super::drawing::{Drawing, Kind, Lane};

/// Width of a character at the two sizes of text: six tenths of the size.
const NAME: f64 = 7.8;
const SMALL: f64 = 6.6;

/// Characters of a name in a box, of a relation on an edge.
const NAME_CHARS: usize = 22;
const RELATION_CHARS: usize = 30;

const ROW: f64 = 58.0;
const BOX_HEIGHT: f64 = 28.0;
const MARGIN: f64 = 12.0;
const LINE: f64 = 16.0;

const STYLE: &str = ".ev{max-width:100%;height:auto;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}\
.ev .paper{fill:#ffffff}.ev .box{fill:#f6f8fa;stroke:#8c959f}.ev .end{fill:#ddf4ff;stroke:#0969da}\
.ev text{fill:#1f2328;font-size:13px}.ev .small{font-size:11px}.ev .muted{fill:#59636e;font-size:11px}\
.ev path{fill:none;stroke:#59636e;stroke-width:1.3}.ev polygon{fill:#59636e}\
.ev .conclusion{stroke:#0969da;stroke-width:2;stroke-dasharray:6 4}.ev .tip{fill:#0969da}\
.ev .absent{stroke-dasharray:2 4}.ev .similar{stroke:#8c959f}\
@media (prefers-color-scheme:dark){.ev .paper{fill:#0d1117}.ev .box{fill:#21262d;stroke:#7d8590}\
.ev .end{fill:#0c2d6b;stroke:#4493f8}.ev text{fill:#e6edf3}.ev .muted{fill:#9198a1}.ev path{stroke:#9198a1}\
.ev polygon{fill:#9198a1}.ev .conclusion{stroke:#4493f8}.ev .tip{fill:#4493f8}.ev .similar{stroke:#7d8590}}";

/// What the policy knows our style by.
const STYLE_HASH: &str = "sha256-opN7YBBFtFWqAIIMvVe5+Eu5Jf8ouBMKLgKS/U/LI/c=";

/// Where things stand.
struct Layout {
    /// Right edge of the head's box, left edge of the tail's.
    left: f64,
    right: f64,
    width: f64,
    height: f64,
}

pub(super) fn draw(drawing: &Drawing, is_whole: bool) -> String {
    let ends = [&drawing.fact.head, &drawing.fact.tail].map(|name| fold(name, NAME_CHARS, 3));
    let end_widths =
        ends.each_ref().map(|lines| 20.0 + NAME * lines.iter().map(|line| cells(line)).max().unwrap_or(1) as f64);
    let span = drawing.lanes.iter().map(lane_width).fold(0.0, f64::max);
    let layout = Layout {
        left: MARGIN + end_widths[0],
        right: MARGIN + end_widths[0] + span,
        width: 2.0 * MARGIN + end_widths[0] + span + end_widths[1],
        height: ROW * drawing.lanes.len() as f64 + 10.0,
    };
    let per_line = ((layout.width - 2.0 * MARGIN) / SMALL) as usize;
    let legend: Vec<String> = drawing.legend.iter().flat_map(|line| fold(line, per_line, 4)).collect();
    let height = layout.height + MARGIN + LINE * legend.len() as f64 + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ev\" viewBox=\"0 0 {:.0} {height:.0}\" width=\"{:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"evidence for {} {} {}\">",
        layout.width,
        layout.width,
        escaped(&drawing.fact.head),
        escaped(&drawing.fact.relation),
        escaped(&drawing.fact.tail),
    );
    if is_whole {
        let _ = writeln!(
            out,
            "<metadata><h:head xmlns:h=\"http://www.w3.org/1999/xhtml\"><h:meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src '{STYLE_HASH}'\"/></h:head></metadata>\
             <style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>"
        );
    }
    for (row, lane) in drawing.lanes.iter().enumerate() {
        draw_lane(&mut out, lane, MARGIN + ROW * (row as f64 + 0.5), &layout);
    }
    let tops = [
        (MARGIN, &ends[0], end_widths[0], &drawing.fact.head),
        (layout.right, &ends[1], end_widths[1], &drawing.fact.tail),
    ];
    for (x, lines, width, name) in tops {
        end(&mut out, x, width, layout.height - 10.0, lines, name);
    }
    for (index, line) in legend.iter().enumerate() {
        let y = layout.height + MARGIN + LINE * (index as f64 + 0.5);
        let _ = writeln!(out, "<text class=\"muted\" x=\"{MARGIN}\" y=\"{y:.1}\">{}</text>", escaped(line));
    }
    out.push_str("</svg>\n");
    out
}

/// Stops that are not one of the two tall boxes.
fn inner(lane: &Lane) -> std::ops::Range<usize> {
    usize::from(lane.from_head)..lane.stops.len() - usize::from(lane.to_tail)
}

fn stop_width(name: &str) -> f64 {
    20.0 + NAME * cells(&cut(name, NAME_CHARS)) as f64
}

fn edge_width(lane: &Lane, edge: usize) -> f64 {
    let words = cells(&label(lane, edge)).max(if edge == 0 { cells(&lane.caption) } else { 0 });
    44.0 + SMALL * words as f64
}

fn label(lane: &Lane, edge: usize) -> String {
    let relation = cut(&lane.edges[edge].relation, RELATION_CHARS);
    if lane.edges[edge].kind == Kind::Absent { format!("not {relation}") } else { relation }
}

fn lane_width(lane: &Lane) -> f64 {
    let stops: f64 = lane.stops[inner(lane)].iter().map(|name| stop_width(name)).sum();
    let edges: f64 = (0..lane.edges.len()).map(|edge| edge_width(lane, edge)).sum();
    // An end that is not joined to its box keeps its distance from it.
    stops + edges + 24.0 * (f64::from(u8::from(!lane.from_head)) + f64::from(u8::from(!lane.to_tail)))
}

fn draw_lane(out: &mut String, lane: &Lane, y: f64, layout: &Layout) {
    let spare = (layout.right - layout.left - lane_width(lane)).max(0.0) / lane.edges.len().max(1) as f64;
    let mut x = layout.left + if lane.from_head { 0.0 } else { 24.0 };
    let inner = inner(lane);
    for (index, name) in lane.stops.iter().enumerate() {
        if inner.contains(&index) {
            let width = stop_width(name);
            let shown = cut(name, NAME_CHARS);
            let _ = writeln!(
                out,
                "<g><title>{}</title><rect class=\"box\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{BOX_HEIGHT}\" \
                 rx=\"6\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>",
                escaped(name),
                y - BOX_HEIGHT / 2.0,
                x + width / 2.0,
                y + 4.5,
                escaped(&shown)
            );
            x += width;
        }
        let Some(edge) = lane.edges.get(index) else { break };
        let to = x + edge_width(lane, index) + spare;
        let (class, tip) = match edge.kind {
            Kind::Conclusion => ("conclusion", "tip"),
            Kind::Premise => ("premise", ""),
            Kind::Absent => ("absent", ""),
            Kind::Similar => ("similar", ""),
        };
        let (a, b) = if edge.forward { (x + 2.0, to - 8.0) } else { (x + 8.0, to - 2.0) };
        let _ = write!(
            out,
            "<g><title>{}</title><path class=\"{class}\" d=\"M{a:.1} {y:.1}H{b:.1}\"/>",
            escaped(&edge.relation)
        );
        let (tip_x, back) = if edge.forward { (to - 1.0, -9.0) } else { (x + 1.0, 9.0) };
        let _ = write!(
            out,
            "<polygon class=\"{tip}\" points=\"{tip_x:.1},{y:.1} {:.1},{:.1} {:.1},{:.1}\"/>",
            tip_x + back,
            y - 4.0,
            tip_x + back,
            y + 4.0
        );
        let middle = (x + to) / 2.0;
        let _ = write!(
            out,
            "<text class=\"small\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y - 7.0,
            escaped(&label(lane, index))
        );
        if index == 0 {
            let _ = write!(
                out,
                "<text class=\"muted\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y + 16.0,
                escaped(&lane.caption)
            );
        }
        out.push_str("</g>\n");
        x = to;
    }
}

fn end(out: &mut String, x: f64, width: f64, height: f64, lines: &[String], name: &str) {
    let _ = write!(
        out,
        "<g><title>{}</title><rect class=\"end\" x=\"{x:.1}\" y=\"{MARGIN}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\"/>",
        escaped(name)
    );
    let first = MARGIN + height / 2.0 - LINE * (lines.len() as f64 - 1.0) / 2.0 + 4.5;
    for (index, line) in lines.iter().enumerate() {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x + width / 2.0,
            first + LINE * index as f64,
            escaped(line)
        );
    }
    out.push_str("</g>\n");
}

/// Columns that text takes in a fixed-width face: two for the scripts of East Asia and for emoji, none for marks that
/// stand on the letter before.
fn cells(text: &str) -> usize {
    text.chars().map(cell).sum()
}

fn cell(character: char) -> usize {
    match character as u32 {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f | 0x20d0..=0x20ff => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// At most `most` columns, the middle given up.
fn cut(text: &str, most: usize) -> String {
    if cells(text) <= most {
        return text.to_string();
    }
    let characters: Vec<char> = text.chars().collect();
    let take = |characters: &mut dyn Iterator<Item = &char>, mut room: usize| -> Vec<char> {
        let fits = |c: &&char| {
            let fits = cell(**c) <= room;
            room = room.saturating_sub(cell(**c));
            fits
        };
        characters.take_while(fits).copied().collect()
    };
    let end = (most - 1) * 2 / 3;
    let first = take(&mut characters.iter(), most - 1 - end);
    let mut last = take(&mut characters.iter().rev(), end);
    last.reverse();
    first.into_iter().chain(['…']).chain(last).collect()
}

/// Lines of at most `width` columns, broken at blanks, slashes and underscores where there are some; at most `most` lines.
fn fold(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive([' ', '/', '_']) {
        let line = lines.last_mut().map_or(0, |line| cells(line));
        if line > 0 && line + cells(word.trim_end()) > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most - 1).concat();
        lines.push(rest);
    }
    lines.iter().map(|line| cut(line.trim(), width)).collect()
}

/// Text for XML, in elements and attributes; what XML cannot hold becomes a mark.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in visible::line(text).chars() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_within_its_columns() {
        for text in [
            "short",
            "/film/film/release_date_s./film/film_regional_release_date",
            "東京都千代田区丸の内一丁目九番一号",
            "e\u{301}te\u{301}",
        ] {
            for most in [5, 12, 22] {
                assert!(cells(&cut(text, most)) <= most, "{text} in {most}");
            }
            for line in fold(text, 14, 3) {
                assert!(cells(&line) <= 14, "{line}");
            }
        }
        assert_eq!(cut("/people/person/nationality", 13), "/peo…ionality");
        assert_eq!(fold("one two three", 9, 3), ["one two", "three"]);
        assert_eq!(fold("a b c d e f", 3, 2).len(), 2);
    }

    #[test]
    fn the_policy_knows_our_style() {
        use sha2::{Digest, Sha256};
        let digits: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
        // Six bits a letter; 256 of them end with two that stand for nothing.
        let hash = Sha256::digest(STYLE.as_bytes());
        let bit = |at: usize| hash.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8)) & 1);
        let letters = (0..43).map(|letter| digits[(0..6).fold(0, |value, at| 2 * value + bit(6 * letter + at))]);
        assert_eq!(STYLE_HASH, format!("sha256-{}=", letters.collect::<String>()));
    }

    #[test]
    fn markup_in_names_is_text() {
        assert_eq!(escaped("<b>\"R&D\"</b>\u{0}"), "&lt;b&gt;&quot;R&amp;D&quot;&lt;/b&gt;⟨NUL⟩");
    }
}
