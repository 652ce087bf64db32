//! The evidence graph of a prediction: the entities in its premises, and the facts between them.
//!
//! Head and tail of the prediction are at the two ends, everything else between them by its distance from the head, so
//! a path reads from one end to the other: from left to right on a wide page, from top to bottom on a narrow one. Drawn
//! without the plotting library, which uses force layouts and has no edge labels.

use std::fmt::Write;

use crate::html::{cut, escape};
use crate::plot::Drawing;
use crate::report::{Fact, Prediction};

/// Maximum entities shown: a larger graph would not be readable.
const MOST_NODES: usize = 9;

/// Draws the graph. `None` if no rule fires: a single arrow says nothing.
pub fn draw(prediction: &Prediction) -> Option<Drawing> {
    let graph = Evidence::of(prediction)?;
    Some(Drawing { wide: graph.wide(), narrow: graph.narrow() })
}

struct Evidence<'p> {
    fact: &'p Fact,
    /// Names; the head first, then the tail.
    nodes: Vec<&'p str>,
    /// Distance of each node from the head; the tail is beyond all others.
    layers: Vec<usize>,
    /// From, to, relation, whether it is negated.
    edges: Vec<Edge<'p>>,
}

struct Edge<'p> {
    from: usize,
    to: usize,
    relation: &'p str,
    negated: bool,
}

impl<'p> Evidence<'p> {
    fn of(prediction: &'p Prediction) -> Option<Self> {
        let fact = &prediction.fact;
        let mut nodes: Vec<&str> = vec![&fact.head];
        if fact.tail != fact.head {
            nodes.push(&fact.tail);
        }
        let mut edges: Vec<Edge<'_>> = Vec::new();
        for premise in prediction.rules.iter().flat_map(|rule| &rule.premises) {
            let missing = [&premise.head, &premise.tail].iter().filter(|name| !nodes.contains(&name.as_str())).count();
            if nodes.len() + missing > MOST_NODES {
                continue;
            }
            let mut place = |name: &'p str| {
                nodes.iter().position(|node| *node == name).unwrap_or_else(|| {
                    nodes.push(name);
                    nodes.len() - 1
                })
            };
            let (from, to) = (place(&premise.head), place(&premise.tail));
            let edge = Edge { from, to, relation: &premise.relation, negated: premise.negated };
            let same = |old: &Edge<'_>| (old.from, old.to, old.relation) == (edge.from, edge.to, edge.relation);
            if !edges.iter().any(same) {
                edges.push(edge);
            }
        }
        if edges.is_empty() {
            return None;
        }
        let layers = layers(nodes.len(), &edges, fact.head == fact.tail);
        Some(Self { fact, nodes, layers, edges })
    }

    /// The index of the prediction's tail; the head is the first node.
    fn tail(&self) -> usize {
        usize::from(self.fact.head != self.fact.tail)
    }

    /// Whether an edge links the two ends of the prediction, in either direction.
    fn is_direct(&self, edge: &Edge<'_>) -> bool {
        (edge.from.min(edge.to), edge.from.max(edge.to)) == (0, self.tail())
    }

    fn direct(&self) -> usize {
        self.edges.iter().filter(|edge| self.is_direct(edge)).count()
    }

    /// Left to right, with a lane for the prediction, for every edge between its ends, and for every row of nodes.
    fn wide(&self) -> String {
        let mut columns = vec![Vec::new(); self.layers.iter().max().map_or(0, |last| last + 1)];
        for (node, &layer) in self.layers.iter().enumerate() {
            columns[layer].push(node);
        }
        let rows = columns.iter().map(Vec::len).max().unwrap_or(1);
        let between = self.nodes.len() > self.tail() + 1;
        let direct = self.direct();
        let lane = |at: usize| 24.0 + 40.0 * at as f64;
        let row = |at: f64| lane(1 + direct) + 10.0 + 62.0 * at;
        let (letters, label) = (20, 24);
        let widest = self.nodes.iter().map(|name| node_width(name, letters)).fold(0.0, f64::max);
        let longest = self.edges.iter().map(|edge| cut(edge.relation, label).chars().count()).max().unwrap_or(0);
        let step = (widest + 6.6 * longest as f64 + 44.0).clamp(if between { 190.0 } else { 420.0 }, 420.0);
        let width = step * (columns.len() - 1) as f64 + widest + 24.0;
        let bottom = if between { row(rows as f64 - 1.0) } else { lane(direct.max(1)) };
        // With a single lane, the ends are in it and the path is straight; otherwise they are centred.
        let centre = if direct == 0 { row(0.5 * (rows as f64 - 1.0)) } else { 0.5 * (lane(1) + bottom) };
        let centre = centre.max(lane(0) + 44.0);
        let mut places = vec![(0.0, 0.0); self.nodes.len()];
        for (layer, column) in columns.iter().enumerate() {
            let x = 0.5 * widest + 12.0 + step * layer as f64;
            for (at, &node) in column.iter().enumerate() {
                let end = node <= self.tail();
                places[node] = (x, if end { centre } else { row(at as f64 + 0.5 * (rows - column.len()) as f64) });
            }
        }
        let height = bottom.max(centre) + 30.0;
        let through = |place: &Way| match place {
            Way::Predicted => (0.5 * width, lane(0)),
            Way::Direct(at) => (0.5 * width, lane(1 + at)),
            Way::Beside(middle, at) => (middle.0, middle.1 + bow(*at, 15.0)),
        };
        self.svg((width, height), (letters, label), &places, &through, None)
    }

    /// Top to bottom, one node per row, because a phone is narrow.
    fn narrow(&self) -> String {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|&node| (self.layers[node], node));
        let (width, direct) = (350.0, self.direct());
        let between = order.len() > self.tail() + 1;
        let gap = if between { 82.0 } else { 60.0 + 30.0 * direct as f64 };
        let mut places = vec![(0.0, 0.0); self.nodes.len()];
        for (at, &node) in order.iter().enumerate() {
            let side = match (node <= self.tail(), order.len() - self.tail() > 2) {
                (false, true) => {
                    if at % 2 == 0 {
                        52.0
                    } else {
                        -52.0
                    }
                }
                _ => 0.0,
            };
            places[node] = (0.5 * width - 14.0 + side, 28.0 + gap * at as f64);
        }
        let height = 56.0 + gap * (order.len() - 1) as f64;
        let through = |place: &Way| match place {
            Way::Predicted => (width - 62.0, 0.5 * height),
            Way::Direct(at) => {
                // Those without nodes to avoid are in the middle; labels are below one another.
                let share = (*at as f64 + 1.0) / (direct as f64 + 1.0);
                (if between { 56.0 } else { 130.0 - 40.0 * *at as f64 }.max(50.0), height * (0.2 + 0.6 * share))
            }
            Way::Beside(middle, at) => (middle.0 + bow(*at, 40.0), middle.1 + bow(*at, 9.0)),
        };
        self.svg((width, height), (22, 17), &places, &through, Some(gap))
    }

    fn svg(
        &self,
        (width, height): (f64, f64),
        (letters, label): (usize, usize),
        places: &[(f64, f64)],
        through: &dyn Fn(&Way) -> (f64, f64),
        row: Option<f64>,
    ) -> String {
        let mut out = format!(
            "<svg class=\"graph\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" role=\"img\" \
             aria-label=\"Evidence for {} {} {}\">",
            escape(&self.fact.head),
            escape(&self.fact.relation),
            escape(&self.fact.tail)
        );
        let half = |node: usize| 0.5 * node_width(self.nodes[node], letters);
        let predicted = Edge { from: 0, to: self.tail(), relation: &self.fact.relation, negated: false };
        let mut labels = String::new();
        let mut seen: Vec<(usize, usize)> = Vec::new();
        for (index, edge) in std::iter::once(&predicted).chain(&self.edges).enumerate() {
            let pair = (edge.from.min(edge.to), edge.from.max(edge.to));
            let earlier = seen.iter().filter(|old| **old == pair).count();
            seen.push(pair);
            let (a, b) = (places[edge.from], places[edge.to]);
            let middle = (0.5 * (a.0 + b.0), 0.5 * (a.1 + b.1));
            let way = match index {
                0 => Way::Predicted,
                _ if self.is_direct(edge) => Way::Direct(earlier - 1),
                _ => {
                    let parallel =
                        self.edges.iter().filter(|other| (other.from.min(other.to), other.from.max(other.to)) == pair);
                    Way::Beside(middle, if parallel.count() > 1 { earlier + 1 } else { 0 })
                }
            };
            let class = match (index, edge.negated) {
                (0, _) => "edge predicted",
                (_, true) => "edge absent",
                _ => "edge",
            };
            let said = format!(
                "{}{} {} {}",
                if edge.negated { "not known: " } else { "" },
                self.nodes[edge.from],
                edge.relation,
                self.nodes[edge.to]
            );
            let at = if pair.0 == pair.1 { (a.0, a.1 - 44.0) } else { through(&way) };
            let (path, arrow) = curve(a, b, at, (half(edge.from), half(edge.to)), pair.0 == pair.1);
            let _ = write!(
                out,
                "<g class=\"{class}\"><title>{}</title><path class=\"line\" d=\"{path}\"/><path class=\"tip\" d=\"{arrow}\"/></g>",
                escape(&said)
            );
            let sign = if edge.negated { "¬ " } else { "" };
            let text = cut(edge.relation, label);
            let at = match (&way, row) {
                // A long arrow passes other rows, so its label is next to the inner node, between rows.
                (Way::Beside(_, 0), Some(row)) if pair.0 != pair.1 => {
                    let (inner, outer) = if edge.from > self.tail() { (a, b) } else { (b, a) };
                    let share = (0.5 * row / (outer.1 - inner.1).abs().max(row)).min(0.5);
                    (inner.0 + share * (outer.0 - inner.0), inner.1 + share * (outer.1 - inner.1))
                }
                _ => at,
            };
            // Labels stay inside the picture; the prediction's label is bold.
            let letter = if index == 0 { 3.9 } else { 3.4 };
            let reach = letter * (text.chars().count() + sign.len()) as f64 + 4.0;
            let x = at.0.min(width - reach).max(reach);
            let _ = write!(
                labels,
                "<g class=\"{class}\"><title>{}</title><text x=\"{x:.1}\" y=\"{:.1}\">{sign}{}</text></g>",
                escape(&said),
                at.1 + 4.0,
                escape(&text)
            );
        }
        for (node, name) in self.nodes.iter().enumerate() {
            let (x, y) = places[node];
            let class = if node <= self.tail() { "node end" } else { "node" };
            let wide = node_width(name, letters);
            let _ = write!(
                out,
                "<g class=\"{class}\"><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"28\" \
                 rx=\"14\"/><text x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>",
                escape(name),
                x - 0.5 * wide,
                y - 14.0,
                y + 4.5,
                escape(&cut(name, letters))
            );
        }
        out.push_str(&labels);
        out.push_str("</svg>");
        out
    }
}

/// The route of an edge.
enum Way {
    /// The predicted fact, above everything.
    Predicted,
    /// Between the two ends: its index among such edges.
    Direct(usize),
    /// Straight, or parallel to others between the same nodes: the midpoint, and its index from 1 (0: alone).
    Beside((f64, f64), usize),
}

/// Alternates between the sides, with growing distance.
fn bow(at: usize, by: f64) -> f64 {
    match at {
        0 => 0.0,
        odd if odd % 2 == 1 => -by * odd.div_ceil(2) as f64,
        even => by * (even / 2) as f64,
    }
}

/// The width of a node whose name is cut to `letters`. Letters are about 7 pixels wide at font size 13.
fn node_width(name: &str, letters: usize) -> f64 {
    7.4 * cut(name, letters).chars().count().max(2) as f64 + 24.0
}

/// Distances from the head along premises; unreachable nodes are in the middle, the tail is last.
fn layers(nodes: usize, edges: &[Edge<'_>], loops: bool) -> Vec<usize> {
    let mut layers = vec![usize::MAX; nodes];
    layers[0] = 0;
    let tail = if loops { None } else { Some(1) };
    let mut frontier = vec![0];
    while let Some(node) = frontier.pop() {
        for edge in edges {
            for (a, b) in [(edge.from, edge.to), (edge.to, edge.from)] {
                // Paths end at the tail and do not pass through it.
                if a == node && Some(b) != tail && layers[b] > layers[node] + 1 {
                    layers[b] = layers[node] + 1;
                    frontier.push(b);
                }
            }
        }
    }
    let reached = |layers: &[usize]| layers.iter().copied().filter(|&layer| layer != usize::MAX).max().unwrap_or(0);
    let middle = reached(&layers).max(1);
    for (node, layer) in layers.iter_mut().enumerate() {
        if *layer == usize::MAX && Some(node) != tail {
            *layer = middle;
        }
    }
    if tail.is_some() {
        layers[1] = reached(&layers) + 1;
    }
    layers
}

/// The line from one node to another via a point, and its arrow head.
fn curve(a: (f64, f64), b: (f64, f64), by: (f64, f64), halves: (f64, f64), loops: bool) -> (String, String) {
    if loops {
        let (x, y) = (a.0, a.1 - 14.0);
        let (left, right, top) = (x - 40.0, x + 40.0, y - 40.0);
        let path = format!("M{:.1} {y:.1} C{left:.1} {top:.1} {right:.1} {top:.1} {:.1} {y:.1}", x - 16.0, x + 16.0);
        return (path, tip((x + 16.0, y), (-0.5, 1.0)));
    }
    // A quadratic curve passes half way between its control point and the midpoint of its ends.
    let control = (2.0 * by.0 - 0.5 * (a.0 + b.0), 2.0 * by.1 - 0.5 * (a.1 + b.1));
    let start = leave(a, control, halves.0);
    let end = leave(b, control, halves.1);
    let control = (2.0 * by.0 - 0.5 * (start.0 + end.0), 2.0 * by.1 - 0.5 * (start.1 + end.1));
    let path = format!("M{:.1} {:.1} Q{:.1} {:.1} {:.1} {:.1}", start.0, start.1, control.0, control.1, end.0, end.1);
    (path, tip(end, (end.0 - control.0, end.1 - control.1)))
}

/// Where a line from the centre of a node towards `to` leaves the node.
fn leave(node: (f64, f64), to: (f64, f64), half: f64) -> (f64, f64) {
    let (dx, dy) = (to.0 - node.0, to.1 - node.1);
    let across = if dx.abs() > 1e-6 { (half + 3.0) / dx.abs() } else { f64::INFINITY };
    let along = if dy.abs() > 1e-6 { 18.0 / dy.abs() } else { f64::INFINITY };
    let t = across.min(along).min(1.0);
    (node.0 + t * dx, node.1 + t * dy)
}

fn tip(at: (f64, f64), towards: (f64, f64)) -> String {
    let length = (towards.0 * towards.0 + towards.1 * towards.1).sqrt().max(1e-6);
    let (ux, uy) = (towards.0 / length, towards.1 / length);
    let back = (at.0 - 8.0 * ux, at.1 - 8.0 * uy);
    format!(
        "M{:.1} {:.1} L{:.1} {:.1} L{:.1} {:.1} Z",
        at.0,
        at.1,
        back.0 - 4.0 * uy,
        back.1 + 4.0 * ux,
        back.0 + 4.0 * uy,
        back.1 - 4.0 * ux
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Firing, Standing};

    fn prediction(premises: &[(&str, &str, &str)], fact: Fact) -> Prediction {
        let premises = premises.iter().map(|(h, r, t)| Fact::new(*h, *r, *t)).collect();
        let rules = vec![Firing { words: "if …".into(), confidence: 0.9, push: None, premises }];
        Prediction {
            fact,
            standing: Standing::New,
            truth: None,
            truth_unguided: None,
            rank: None,
            rank_unguided: None,
            rules,
            similar: Vec::new(),
            note: None,
        }
    }

    #[test]
    fn a_path_reads_from_head_to_tail() {
        let given = prediction(
            &[("Ann", "born_in", "Graz"), ("Graz", "part_of", "Austria")],
            Fact::new("Ann", "from", "Austria"),
        );
        let graph = Evidence::of(&given).unwrap();
        assert_eq!(graph.nodes, ["Ann", "Austria", "Graz"]);
        assert_eq!(graph.layers, [0, 2, 1]);
        let drawing = draw(&given).unwrap();
        for svg in [&drawing.wide, &drawing.narrow] {
            assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
            assert_eq!(svg.matches("class=\"tip\"").count(), 3, "{svg}");
        }
    }

    #[test]
    fn loops_strangers_and_no_rule_at_all_are_drawn_or_not() {
        let alone = prediction(&[], Fact::new("a", "r", "b"));
        assert!(draw(&alone).is_none());
        let itself = prediction(&[("a", "s", "a")], Fact::new("a", "r", "a"));
        assert!(draw(&itself).unwrap().wide.contains(">a</text>"));
        let strange = prediction(&[("c", "s", "d")], Fact::new("a", "r", "b"));
        assert_eq!(Evidence::of(&strange).unwrap().layers, [0, 2, 1, 1]);
        let many: Vec<(String, String)> = (0..20).map(|at| ("a".to_string(), format!("x{at}"))).collect();
        let many: Vec<(&str, &str, &str)> = many.iter().map(|(a, x)| (a.as_str(), "s", x.as_str())).collect();
        assert_eq!(Evidence::of(&prediction(&many, Fact::new("a", "r", "b"))).unwrap().nodes.len(), MOST_NODES);
    }
}
