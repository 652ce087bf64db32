//! The evidence of one explanation as a small picture: Graphviz text, or SVG.
//!
//! The triple's two entities stand left and right; every grounding is a *lane* between them, a path of premises with
//! the inner entities as stops. Nothing crosses and nothing is placed by chance, so pictures of two explanations compare.
//! Premises that form no path (a rule that names an entity, say) have a lane each and end where they end.

use std::fmt::Write;

use ruge_kg::visible;

use super::parts::{Summed, closing};
use super::{Explanation, Fact, svg};

/// Lanes a picture shows; beyond, a line says how many more there are.
const MOST_LANES: usize = 12;

/// Parts of the score that are named below a picture; the others are summed.
const MOST_PARTS: usize = 5;

/// What a drawn edge is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The explained triple itself.
    Conclusion,
    /// A training fact.
    Premise,
    /// A triple that must be absent from train.
    Absent,
    /// A training fact that is merely similar.
    Similar,
}

/// One edge of a lane, between a stop and the next.
#[derive(Clone, PartialEq, Debug)]
pub struct Edge {
    /// The relation.
    pub relation: String,
    /// Whether it leads from the stop to the next one, or back.
    pub forward: bool,
    /// What it is.
    pub kind: Kind,
}

/// A row of the picture.
#[derive(Clone, PartialEq, Debug)]
pub struct Lane {
    /// Entities from left to right.
    pub stops: Vec<String>,
    /// Edges between them, one fewer.
    pub edges: Vec<Edge>,
    /// Whether the first stop is the triple's head, drawn once for all lanes.
    pub from_head: bool,
    /// Whether the last stop is the triple's tail.
    pub to_tail: bool,
    /// A few words about the lane.
    pub caption: String,
}

/// The whole picture.
#[derive(Clone, PartialEq, Debug)]
pub struct Drawing {
    /// The explained triple.
    pub fact: Fact,
    /// The triple itself first, then its evidence.
    pub lanes: Vec<Lane>,
    /// Lines below the picture: the rules by number, what speaks against the triple, the parts of its score.
    pub legend: Vec<String>,
}

impl Drawing {
    /// A triple, and nothing that speaks for it yet.
    pub fn of(fact: Fact, caption: &str) -> Self {
        let mut drawing = Self { fact: fact.clone(), lanes: Vec::new(), legend: Vec::new() };
        drawing.lane(&fact, Kind::Conclusion, caption);
        drawing
    }

    /// Adds a grounding: its premises as a path, or where they are none a lane each. False where the picture is full.
    pub fn ground(&mut self, premises: &[(&Fact, Kind)], caption: &str) -> bool {
        if self.lanes.len() > MOST_LANES {
            return false;
        }
        match path(&self.fact, premises) {
            Some((stops, edges)) => {
                let caption = caption.to_string();
                self.lanes.push(Lane { stops, edges, from_head: true, to_tail: true, caption });
            }
            None => premises.iter().for_each(|(premise, kind)| self.lane(premise, *kind, caption)),
        }
        true
    }

    /// Draws an explanation.
    pub fn new(explanation: &Explanation) -> Self {
        let truth = match explanation.known {
            Some(_) => format!("known, rank {}", plain(explanation.rank)),
            None => format!("truth {}, rank {}", decimal(explanation.truth), plain(explanation.rank)),
        };
        let mut drawing = Self::of(explanation.fact.clone(), &truth);
        let (mut left_out, mut drawn) = (0, Vec::new());
        for grounding in &explanation.groundings {
            let caption = format!("rule {}, {}", grounding.rule_index + 1, decimal(grounding.confidence));
            let edges: Vec<(&Fact, Kind)> = grounding
                .premises
                .iter()
                .map(|premise| (&premise.fact, if premise.negated { Kind::Absent } else { Kind::Premise }))
                .collect();
            match drawing.ground(&edges, &caption) {
                true => drawn.push(grounding.rule_index),
                false => left_out += 1,
            }
        }
        for similar in explanation.similar.iter().take(MOST_LANES) {
            drawing.lane(&similar.fact, Kind::Similar, &format!("similar {}", decimal(similar.similarity)));
        }
        // Rules that are not in the picture have no number in it.
        for (index, rule) in explanation.rules.iter().enumerate().filter(|(index, _)| drawn.contains(index)) {
            let mut line = format!("rule {}, confidence {}: {}", index + 1, decimal(rule.confidence), rule.words);
            match rule.redundant.len() {
                0 => {}
                1 => line.push_str(" (and 1 more that says the same)"),
                n => line.push_str(&format!(" (and {n} more that say the same)")),
            }
            drawing.legend.push(line);
        }
        let unshown = explanation.rules.iter().map(|rule| rule.groundings).sum::<usize>() + left_out;
        let unshown = unshown.saturating_sub(explanation.groundings.len());
        if unshown > 0 {
            let word = if unshown == 1 { "grounding" } else { "groundings" };
            drawing.legend.push(format!("and {unshown} more {word}"));
        }
        let others = (0..explanation.rules.len()).filter(|index| !drawn.contains(index)).count();
        if others > 0 {
            let words = if others == 1 { "rule that concludes" } else { "rules that conclude" };
            drawing.legend.push(format!("and {others} more {words} it"));
        }
        if explanation.rules.is_empty() {
            drawing.legend.push(explanation.sentence.clone());
        }
        drawing.legend.extend(explanation.against.iter().map(|reason| format!("against it: {reason}")));
        drawing.add_up(explanation);
        drawing
    }

    /// What the score is made of, for and against, and its sum. A score of one part is that part.
    fn add_up(&mut self, explanation: &Explanation) {
        if explanation.parts.len() < 2 {
            return;
        }
        let Summed { shown, rest, sum } = Summed::of(&explanation.parts, MOST_PARTS);
        self.legend.push("What its score is made of:".into());
        self.legend.extend(shown.iter().map(|part| {
            let sign = if part.value < 0.0 { "against" } else { "for" };
            format!("{:+.3} {sign}: {}", part.value, part.words)
        }));
        self.legend.extend(rest.map(|(count, value)| format!("{value:+.3} {count} smaller parts")));
        self.legend.push(format!("{sum:+.3} = {}", closing(explanation.side)));
    }

    /// One edge on a lane of its own, joined to the triple's ends where it meets them.
    fn lane(&mut self, edge: &Fact, kind: Kind, caption: &str) {
        let turned = edge.tail == self.fact.head || edge.head == self.fact.tail;
        let straight = edge.head == self.fact.head || edge.tail == self.fact.tail;
        let forward = straight || !turned;
        let (left, right) = if forward { (&edge.head, &edge.tail) } else { (&edge.tail, &edge.head) };
        let lane = Lane {
            from_head: *left == self.fact.head,
            to_tail: *right == self.fact.tail,
            stops: vec![left.clone(), right.clone()],
            edges: vec![Edge { relation: edge.relation.clone(), forward, kind }],
            caption: caption.to_string(),
        };
        self.lanes.push(lane);
    }

    /// As Graphviz text: every entity once.
    pub fn dot(&self) -> String {
        let mut text = String::from(
            "digraph evidence {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n  \
             edge [fontname=\"sans-serif\", fontsize=10];\n",
        );
        for end in [&self.fact.head, &self.fact.tail] {
            let _ = writeln!(text, "  {} [penwidth=2];", quoted(end));
        }
        let mut drawn: Vec<(String, String, String)> = Vec::new();
        for lane in &self.lanes {
            for (stops, edge) in lane.stops.windows(2).zip(&lane.edges) {
                let (from, to) = if edge.forward { (&stops[0], &stops[1]) } else { (&stops[1], &stops[0]) };
                let (style, label) = match edge.kind {
                    Kind::Conclusion => ("style=dashed, penwidth=2", format!("{}\n{}", edge.relation, lane.caption)),
                    Kind::Premise => ("style=solid", edge.relation.clone()),
                    Kind::Absent => ("style=dotted, arrowhead=odot", format!("not {}", edge.relation)),
                    Kind::Similar => ("style=solid, color=gray40", format!("{}\n{}", edge.relation, lane.caption)),
                };
                let line = (quoted(from), quoted(to), format!("[label={}, {style}]", quoted(&label)));
                // Two groundings may share a premise.
                if !drawn.contains(&line) {
                    let _ = writeln!(text, "  {} -> {} {};", line.0, line.1, line.2);
                    drawn.push(line);
                }
            }
        }
        for line in &self.legend {
            let _ = writeln!(text, "  // {}", visible::line(line));
        }
        text.push_str("}\n");
        text
    }

    /// As one self-contained SVG element, legible on light and dark ground.
    pub fn svg(&self) -> String {
        svg::draw(&self.shown(), true)
    }

    /// The same as a part of a page that knows the classes of its style.
    pub fn svg_for_page(&self) -> String {
        svg::draw(&self.shown(), false)
    }

    /// The same picture with every name as it is shown, so that widths are those of what is seen.
    fn shown(&self) -> Self {
        let line = |text: &String| visible::line(text).into_owned();
        let fact =
            Fact { head: line(&self.fact.head), relation: line(&self.fact.relation), tail: line(&self.fact.tail) };
        let edge = |edge: &Edge| Edge { relation: line(&edge.relation), ..edge.clone() };
        let lane = |lane: &Lane| Lane {
            stops: lane.stops.iter().map(line).collect(),
            edges: lane.edges.iter().map(edge).collect(),
            caption: line(&lane.caption),
            ..*lane
        };
        Self { fact, lanes: self.lanes.iter().map(lane).collect(), legend: self.legend.iter().map(line).collect() }
    }
}

/// The premises as a path from head to tail that uses each once, if they are one.
fn path(fact: &Fact, premises: &[(&Fact, Kind)]) -> Option<(Vec<String>, Vec<Edge>)> {
    let mut left: Vec<(&Fact, Kind)> = premises.to_vec();
    let mut stops = vec![fact.head.clone()];
    let mut edges = Vec::new();
    while !left.is_empty() {
        let at = stops.last()?.clone();
        // A way that ends at the tail too early would leave premises over: take it last.
        let next = |(premise, _): &(&Fact, Kind)| match (premise.head == at, premise.tail == at) {
            (true, _) => Some((premise.tail.clone(), true)),
            (false, true) => Some((premise.head.clone(), false)),
            (false, false) => None,
        };
        let ways: Vec<(usize, String, bool)> = left
            .iter()
            .enumerate()
            .filter_map(|(index, premise)| next(premise).map(|(to, forward)| (index, to, forward)))
            .collect();
        let way = ways.iter().find(|(_, to, _)| *to != fact.tail).or(ways.first())?;
        let (premise, kind) = left.remove(way.0);
        edges.push(Edge { relation: premise.relation.clone(), forward: way.2, kind });
        stops.push(way.1.clone());
    }
    let ends_well = stops.last() == Some(&fact.tail) && !stops[1..stops.len() - 1].contains(&fact.tail);
    (ends_well && !stops[1..].contains(&fact.head)).then_some((stops, edges))
}

/// Three digits, as a reader takes in at a glance.
fn decimal(value: f64) -> String {
    format!("{value:.3}")
}

/// Ranks are whole but for ties.
fn plain(rank: f64) -> String {
    if rank.fract() == 0.0 { format!("{rank:.0}") } else { format!("{rank:.1}") }
}

/// A quoted identifier of Graphviz: backslashes and quotes escaped, line ends as `\n`.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push_str(&visible::line(c.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(head: &str, relation: &str, tail: &str) -> Fact {
        Fact { head: head.into(), relation: relation.into(), tail: tail.into() }
    }

    #[test]
    fn premises_line_up_from_head_to_tail() {
        let conclusion = fact("x", "r", "y");
        let (a, b) = (fact("z", "a", "x"), fact("z", "b", "y"));
        let (stops, edges) = path(&conclusion, &[(&b, Kind::Premise), (&a, Kind::Premise)]).expect("a path");
        assert_eq!(stops, ["x", "z", "y"]);
        assert_eq!(
            edges.iter().map(|edge| (edge.relation.as_str(), edge.forward)).collect::<Vec<_>>(),
            [("a", false), ("b", true)]
        );
        let direct = fact("y", "s", "x");
        assert_eq!(path(&conclusion, &[(&direct, Kind::Premise)]).expect("a path").0, ["x", "y"]);
        // Two facts between the same ends are no path, nor is one that ends elsewhere.
        assert_eq!(path(&conclusion, &[(&direct, Kind::Premise), (&direct, Kind::Premise)]), None);
        assert_eq!(path(&conclusion, &[(&fact("x", "is", "c"), Kind::Premise)]), None);
    }

    #[test]
    fn names_cannot_break_out() {
        assert_eq!(quoted("a \"b\" \\ c\nd\u{1}"), "\"a \\\"b\\\" \\\\ c\\nd⟨SOH⟩\"");
        assert_eq!(quoted("\u{202e}x"), "\"⟨U+202E⟩x\"");
    }
}
