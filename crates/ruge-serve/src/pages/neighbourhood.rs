//! The neighbourhood of an entity as a drawing: the entity in the middle, its relations to both sides, its neighbours in rows.
//!
//! A mind map rather than a ball of threads: nothing overlaps however many neighbours there are, every name is a link, and a
//! keyboard walks through it from top to bottom. It is drawn twice, with two sides for wide screens and with one for narrow ones;
//! the style shows the one that fits. Colours and widths of lines are in the style too.

use ruge_kg::visible;

use crate::html::{Html, Number, Truth};

/// Facts of one relation.
pub struct Group {
    /// The relation as people call it.
    pub relation: String,
    /// Where all of them are listed.
    pub address: String,
    /// Whether they lead to the entity.
    pub is_inverse: bool,
    /// Those that are drawn.
    pub members: Vec<Member>,
    /// How many are not.
    pub more: usize,
}

/// A neighbour.
pub struct Member {
    /// As people call it.
    pub name: String,
    /// Its page.
    pub address: String,
    /// The truth of the fact, if it is proposed.
    pub truth: Option<f64>,
}

const ROW: f64 = 25.0;
const GAP: f64 = 16.0;
const LETTER: f64 = 7.4;
/// Letters of a name.
const WIDEST: usize = 26;

/// Both drawings.
pub fn draw(centre: &str, groups: &[Group]) -> Html {
    let mut html = Html::new();
    html.put("<div class=\"graph wide\">{}</div>\n", &[&two_sides(centre, groups)]);
    html.put("<div class=\"graph narrow\">{}</div>\n", &[&one_side(centre, groups)]);
    html
}

fn rows(group: &Group) -> usize {
    1 + group.members.len() + usize::from(group.more > 0)
}

fn height(groups: &[&Group]) -> f64 {
    groups.iter().map(|group| rows(group) as f64 * ROW + GAP).sum()
}

fn two_sides(centre: &str, groups: &[Group]) -> Html {
    // The longer ones first, each to the side that is shorter so far.
    let mut order: Vec<&Group> = groups.iter().collect();
    order.sort_by_key(|group| std::cmp::Reverse(rows(group)));
    let (mut right, mut left): (Vec<&Group>, Vec<&Group>) = (Vec::new(), Vec::new());
    for group in order {
        let side = if height(&right) <= height(&left) { &mut right } else { &mut left };
        side.push(group);
    }
    let (width, tall) = (880.0, height(&right).max(height(&left)).max(90.0));
    let (middle, across) = (width / 2.0, tall / 2.0);
    let mut html = open(width, tall, centre);
    for (groups, way) in [(&right, 1.0), (&left, -1.0)] {
        let top = (tall - height(groups)) / 2.0;
        side(&mut html, groups, (middle, across), way, middle + way * 165.0, top);
    }
    hub(&mut html, centre, middle, across);
    html.put("</svg>", &[]);
    html
}

fn one_side(centre: &str, groups: &[Group]) -> Html {
    let all: Vec<&Group> = groups.iter().collect();
    let (width, top) = (350.0, 62.0);
    let mut html = open(width, top + height(&all), centre);
    side(&mut html, &all, (22.0, 34.0), 1.0, 62.0, top);
    let shown = visible::cut(centre, 36);
    let wide = shown.chars().count() as f64 * 9.4 + 34.0;
    html.put(
        "<rect class=\"hub\" x=\"6\" y=\"6\" width=\"{}\" height=\"34\" rx=\"17\"/>",
        &[&Number(wide.min(width - 12.0), 0)],
    );
    html.put("<text class=\"centre\" x=\"20\" y=\"28\">{}</text></svg>", &[&shown]);
    html
}

fn open(width: f64, height: f64, centre: &str) -> Html {
    let (width, height) = (Number(width, 0), Number(height, 0));
    Html::of(
        "<svg viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"group\" aria-label=\"Neighbours of {}\">",
        &[&width, &height, &width, &height, &visible::cut(centre, 60)],
    )
}

fn hub(html: &mut Html, centre: &str, x: f64, y: f64) {
    let lines = folded(centre);
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(1);
    let (wide, tall) = ((longest as f64 * 9.2 + 34.0).max(70.0), 18.0 + 20.0 * lines.len() as f64);
    html.put(
        "<rect class=\"hub\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"18\"/>",
        &[&Number(x - wide / 2.0, 1), &Number(y - tall / 2.0, 1), &Number(wide, 1), &Number(tall, 1)],
    );
    for (at, line) in lines.iter().enumerate() {
        let y = y + 5.0 + 20.0 * (at as f64 - (lines.len() as f64 - 1.0) / 2.0);
        html.put(
            "<text class=\"centre\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
            &[&Number(x, 1), &Number(y, 1), line],
        );
    }
}

/// A name in at most three lines that fit into the middle.
fn folded(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split_inclusive([' ', '_', '/', '-']) {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + word.trim_end().chars().count() > 16 {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    if lines.len() > 3 {
        let rest = lines.split_off(2).concat();
        lines.push(rest);
    }
    lines.iter().map(|line| visible::cut(line.trim(), 18)).collect()
}

/// Groups below each other, joined to the middle.
fn side(html: &mut Html, groups: &[&Group], (from_x, from_y): (f64, f64), way: f64, x: f64, top: f64) {
    let anchor = if way > 0.0 { "start" } else { "end" };
    let mut y = top;
    for group in groups {
        let title = y + ROW / 2.0;
        let bend = (x + from_x) / 2.0;
        let mut line = format!("M{from_x:.1} {from_y:.1}");
        // Down first where the middle stands above, across first where it stands beside.
        match from_x < 30.0 {
            true => line.push_str(&format!(
                "V{:.1}Q{from_x:.1} {title:.1} {:.1} {title:.1}H{:.1}",
                title - 8.0,
                from_x + 8.0,
                x - 8.0
            )),
            false => {
                line.push_str(&format!("C{bend:.1} {from_y:.1} {bend:.1} {title:.1} {:.1} {title:.1}", x - way * 6.0))
            }
        }
        let is_guess = group.members.iter().all(|member| member.truth.is_some());
        html.put("<path class=\"{}\" d=\"{}\"/>", &[&if is_guess { "edge guess" } else { "edge" }, &line]);
        let shown = visible::cut(&group.relation, WIDEST + 4);
        let arrow = if group.is_inverse == (way > 0.0) { "←" } else { "→" };
        let said = if way > 0.0 { format!("{arrow} {shown}") } else { format!("{shown} {arrow}") };
        html.put(
            "<a href=\"{}\"><text class=\"relation\" text-anchor=\"{}\" x=\"{}\" y=\"{}\">{}</text></a>",
            &[&group.address, &anchor, &Number(x, 1), &Number(title + 4.5, 1), &said],
        );
        let (stem, indent) = (x + way * 7.0, x + way * 24.0);
        let last = title + ROW * (rows(group) - 1) as f64;
        html.put(
            "<path class=\"twig\" d=\"M{} {}V{}\"/>",
            &[&Number(stem, 1), &Number(title + 10.0, 1), &Number(last, 1)],
        );
        for (at, member) in group.members.iter().enumerate() {
            let y = title + ROW * (at + 1) as f64;
            let class = if member.truth.is_some() { "twig guess" } else { "twig" };
            html.put(
                "<path class=\"{}\" d=\"M{} {}H{}\"/>",
                &[&class, &Number(stem, 1), &Number(y, 1), &Number(indent - way * 5.0, 1)],
            );
            node(html, member, anchor, way, indent, y);
        }
        if group.more > 0 {
            let y = title + ROW * (rows(group) - 1) as f64;
            html.put(
                "<a href=\"{}\"><text class=\"rest\" text-anchor=\"{}\" x=\"{}\" y=\"{}\">and {} more</text></a>",
                &[&group.address, &anchor, &Number(indent, 1), &Number(y + 4.5, 1), &group.more],
            );
        }
        y += rows(group) as f64 * ROW + GAP;
    }
}

fn node(html: &mut Html, member: &Member, anchor: &str, way: f64, x: f64, y: f64) {
    let shown = visible::cut(&member.name, WIDEST);
    html.put(
        "<a href=\"{}\"><title>{}</title><text class=\"{}\" text-anchor=\"{}\" x=\"{}\" y=\"{}\">{}</text></a>",
        &[
            &member.address,
            &visible::cut(&member.name, 300),
            &if member.truth.is_some() { "node maybe" } else { "node" },
            &anchor,
            &Number(x, 1),
            &Number(y + 4.5, 1),
            &shown,
        ],
    );
    if let Some(truth) = member.truth {
        let far = x + way * (shown.chars().count() as f64 * LETTER + 12.0);
        html.put(
            "<text class=\"figure\" text-anchor=\"{}\" x=\"{}\" y=\"{}\">{}</text>",
            &[&anchor, &Number(far, 1), &Number(y + 4.5, 1), &Truth(truth)],
        );
    }
}
