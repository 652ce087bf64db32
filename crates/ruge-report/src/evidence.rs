//! The evidence graph of a prediction: the entities its premises speak of, and the arrows between them.
//!
//! Head and tail of the prediction stand at the two ends, everything else between them by its distance from the head, so
//! a path reads from one end to the other. On a wide page it runs from left to right, on a narrow one from top to bottom.
//! Drawn by our own hand: the plotting library lays networks out by force, and writes nothing on the arrows.

use std::fmt::Write;

use crate::html::{cut, escape};
use crate::plot::Drawing;
use crate::report::{Fact, Prediction};

/// Entities beyond this many are left out: a graph nobody can read is no evidence.
const MOST_NODES: usize = 9;

/// Draws the graph. `None` where no rule fires: an arrow alone says nothing.
pub fn draw(prediction: &Prediction) -> Option<Drawing> {
    let graph = Evidence::of(prediction)?;
    Some(Drawing { wide: graph.wide(), narrow: graph.narrow() })
}

struct Evidence<'p> {
    fact: &'p Fact,
    /// Names; the head first, then the tail.
    nodes: Vec<&'p str>,
    /// How far from the head a node stands; the tail beyond all others.
    layers: Vec<usize>,
    /// From, to, relation, whether it is an absence.
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

    /// Nodes of each layer.
    fn columns(&self) -> Vec<Vec<usize>> {
        let mut columns = vec![Vec::new(); self.layers.iter().max().map_or(0, |last| last + 1)];
        for (node, &layer) in self.layers.iter().enumerate() {
            columns[layer].push(node);
        }
        columns
    }

    fn wide(&self) -> String {
        let columns = self.columns();
        let rows = columns.iter().map(Vec::len).max().unwrap_or(1);
        let step = if columns.len() > 3 { 230.0 } else { 270.0 };
        let width = (step * (columns.len() - 1) as f64 + 210.0).max(480.0);
        // The predicted arrow bends over everything, and parallel arrows need room of their own.
        let parallel = self.most_parallel() as f64;
        let height = 96.0 + 74.0 * (rows - 1) as f64 + 30.0 * parallel;
        let left = 0.5 * (width - step * (columns.len() - 1) as f64);
        let centre = 0.5 * height + 14.0;
        let place = |node: usize| {
            let layer = self.layers[node];
            let column = &columns[layer];
            let at = column.iter().position(|&other| other == node).unwrap_or(0) as f64;
            let shift = at - 0.5 * (column.len() - 1) as f64;
            (left + step * layer as f64, centre + 74.0 * shift)
        };
        self.svg(width, height, 22, &place, false)
    }

    fn narrow(&self) -> String {
        let columns = self.columns();
        let most = columns.iter().map(Vec::len).max().unwrap_or(1) as f64;
        let (width, step) = (350.0, 104.0);
        let gap = (width - 20.0) / most.max(2.0);
        let height = 60.0 + step * (columns.len() - 1) as f64;
        let place = |node: usize| {
            let layer = self.layers[node];
            let column = &columns[layer];
            let at = column.iter().position(|&other| other == node).unwrap_or(0) as f64;
            let shift = at - 0.5 * (column.len() - 1) as f64;
            (0.5 * width + gap * shift, 30.0 + step * layer as f64)
        };
        let letters = ((gap / 7.2) as usize).clamp(6, 22);
        self.svg(width, height, letters, &place, true)
    }

    fn most_parallel(&self) -> usize {
        let between = |edge: &Edge<'_>| (edge.from.min(edge.to), edge.from.max(edge.to));
        self.edges
            .iter()
            .map(|edge| self.edges.iter().filter(|other| between(other) == between(edge)).count())
            .max()
            .unwrap_or(1)
    }

    fn svg(&self, width: f64, height: f64, letters: usize, place: &dyn Fn(usize) -> (f64, f64), down: bool) -> String {
        let mut out = format!(
            "<svg class=\"graph\" viewBox=\"0 0 {width:.0} {height:.0}\" style=\"max-width:{width:.0}px\" role=\"img\" \
             aria-label=\"Evidence for {} {} {}\">",
            escape(&self.fact.head),
            escape(&self.fact.relation),
            escape(&self.fact.tail)
        );
        let half = |node: usize| 0.5 * node_width(self.nodes[node], letters);
        let tail = usize::from(self.nodes.len() > 1 && self.fact.head != self.fact.tail);
        let predicted = Edge { from: 0, to: tail, relation: &self.fact.relation, negated: false };
        let mut labels = String::new();
        let mut bends: Vec<((usize, usize), usize)> = Vec::new();
        for (index, edge) in std::iter::once(&predicted).chain(&self.edges).enumerate() {
            let pair = (edge.from.min(edge.to), edge.from.max(edge.to));
            let used = match bends.iter_mut().find(|(of, _)| *of == pair) {
                Some((_, used)) => {
                    *used += 1;
                    *used - 1
                }
                None => {
                    // Between head and tail the straight way is the predicted one's only where nothing lies in between.
                    bends.push((pair, 1));
                    0
                }
            };
            let (a, b) = (place(edge.from), place(edge.to));
            let direct = pair == (0, tail);
            let bend = match (direct, used) {
                (true, 0) if down => 0.9 * (0.5 * width - 40.0),
                (true, 0) => 2.0 * (0.5 * height - 18.0),
                (true, used) => -34.0 * (used as f64 - 1.0) * if used % 2 == 0 { 1.0 } else { -1.0 },
                (false, 0) => 0.0,
                (false, used) => 40.0 * used as f64 * if used % 2 == 0 { 1.0 } else { -1.0 },
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
            let (path, label, arrow) = curve(a, b, bend, (half(edge.from), half(edge.to)), pair.0 == pair.1, down);
            let _ = write!(
                out,
                "<g class=\"{class}\"><title>{}</title><path class=\"line\" d=\"{path}\"/><path class=\"tip\" d=\"{arrow}\"/></g>",
                escape(&said)
            );
            let sign = if edge.negated { "¬ " } else { "" };
            let _ = write!(
                labels,
                "<g class=\"{class}\"><title>{}</title><text x=\"{:.1}\" y=\"{:.1}\">{sign}{}</text></g>",
                escape(&said),
                label.0,
                label.1,
                escape(&cut(edge.relation, if down { 18 } else { 26 }))
            );
        }
        for (node, name) in self.nodes.iter().enumerate() {
            let (x, y) = place(node);
            let class = if node <= tail { "node end" } else { "node" };
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

/// The width of a node whose name is cut to `letters`. Letters of the page's font are about 7 pixels wide at 13.
fn node_width(name: &str, letters: usize) -> f64 {
    7.4 * cut(name, letters).chars().count().max(2) as f64 + 24.0
}

/// Distances from the head over premises; what they do not reach stands in the middle; the tail stands last.
fn layers(nodes: usize, edges: &[Edge<'_>], loops: bool) -> Vec<usize> {
    let mut layers = vec![usize::MAX; nodes];
    layers[0] = 0;
    let tail = if loops { None } else { Some(1) };
    let mut frontier = vec![0];
    while let Some(node) = frontier.pop() {
        for edge in edges {
            for (a, b) in [(edge.from, edge.to), (edge.to, edge.from)] {
                // Paths do not run through the tail: it is where they end.
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

/// The line from one node to another, where its label stands, and its tip.
fn curve(
    a: (f64, f64),
    b: (f64, f64),
    bend: f64,
    halves: (f64, f64),
    loops: bool,
    down: bool,
) -> (String, (f64, f64), String) {
    if loops {
        let (x, y) = (a.0, a.1 - 14.0);
        let path = format!(
            "M{:.1} {y:.1} C{:.1} {:.1} {:.1} {:.1} {:.1} {y:.1}",
            x - 16.0,
            x - 40.0,
            y - 44.0,
            x + 40.0,
            y - 44.0,
            x + 16.0
        );
        return (path, (x, y - 36.0), tip((x + 16.0, y), (-0.5, 1.0)));
    }
    // The bend goes up on a wide page, to the right on a narrow one, whichever way the arrow points.
    let control = if down {
        (0.5 * (a.0 + b.0) + bend, 0.5 * (a.1 + b.1))
    } else {
        (0.5 * (a.0 + b.0), 0.5 * (a.1 + b.1) - bend)
    };
    let start = leave(a, control, halves.0);
    let end = leave(b, control, halves.1);
    let middle = (0.25 * start.0 + 0.5 * control.0 + 0.25 * end.0, 0.25 * start.1 + 0.5 * control.1 + 0.25 * end.1);
    let path = format!("M{:.1} {:.1} Q{:.1} {:.1} {:.1} {:.1}", start.0, start.1, control.0, control.1, end.0, end.1);
    let towards = (end.0 - control.0, end.1 - control.1);
    (path, (middle.0, middle.1 + 4.0), tip(end, towards))
}

/// Where a line from the middle of a node towards `to` leaves the node.
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
