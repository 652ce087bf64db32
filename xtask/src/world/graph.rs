//! The graph under construction.
//!
//! Names are declared with a kind before they are used, so one check finds misspelt names, names with two meanings and
//! cities given as countries. Problems are collected, so that the editor of a table sees all of them at once.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use super::table::tidy;

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Africa, Asia, ...
    Continent,
    /// A part of a continent, such as Western Europe.
    Region,
    /// A country of today.
    Country,
    /// A former state that others became independent from.
    PastState,
    /// A state, province or territory of a country.
    Division,
    /// A city or town.
    City,
    /// An ocean, sea, gulf, bay, strait or lake.
    Water,
    /// A language.
    Language,
    /// A branch or a family of languages.
    Family,
    /// A writing system.
    Script,
    /// A currency.
    Currency,
    /// An organisation of countries, a central bank or another body.
    Organisation,
    /// A company.
    Company,
    /// A river.
    River,
    /// A range of mountains.
    Range,
    /// A mountain.
    Mountain,
    /// An island.
    Island,
    /// A landmark, airport or university.
    Place,
    /// A category: museum, lake, airline, side of the road.
    Sort,
    /// A recurring event that cities or countries host.
    Event,
}

/// Relation, head, tail: the order of the triples.
type Fact = (&'static str, String, String);

/// Names with their kinds, and the facts about them.
#[derive(Debug, Default)]
pub struct Graph {
    kinds: BTreeMap<String, Kind>,
    facts: BTreeSet<Fact>,
    problems: Vec<String>,
    pruned: usize,
}

impl Graph {
    /// Declares the kind of a name; it must not have another kind.
    pub fn declare(&mut self, name: &str, kind: Kind, place: &str) {
        match self.kinds.get(name) {
            Some(known) if *known == kind => {}
            Some(known) => self.problem(place, format!("`{name}` is a {known:?} and a {kind:?}")),
            None => {
                if !tidy(name) {
                    self.problem(place, format!("`{name}` is not a tidy name"));
                }
                self.kinds.insert(name.to_owned(), kind);
            }
        }
    }

    /// Declares a name that may be declared only once.
    pub fn declare_new(&mut self, name: &str, kind: Kind, place: &str) {
        if self.kinds.contains_key(name) {
            self.problem(place, format!("`{name}` is declared twice"));
        }
        self.declare(name, kind, place);
    }

    /// The kind of a name, if declared.
    pub fn kind(&self, name: &str) -> Option<Kind> {
        self.kinds.get(name).copied()
    }

    /// Reports a problem if a name does not have one of these kinds.
    pub fn need(&mut self, name: &str, kinds: &[Kind], place: &str) {
        match self.kind(name) {
            Some(kind) if kinds.contains(&kind) => {}
            Some(kind) => self.problem(place, format!("`{name}` is a {kind:?}, not {kinds:?}")),
            None => self.problem(place, format!("`{name}` is unknown, not {kinds:?}")),
        }
    }

    /// Adds a fact stated in a table; a repetition is an error.
    pub fn state(&mut self, head: &str, relation: &'static str, tail: &str, place: &str) {
        if !self.derive(head, relation, tail) {
            self.problem(place, format!("`{head} {relation} {tail}` is stated twice"));
        }
    }

    /// Adds a fact that follows from others; true if it was new.
    pub fn derive(&mut self, head: &str, relation: &'static str, tail: &str) -> bool {
        self.facts.insert((relation, head.to_owned(), tail.to_owned()))
    }

    /// The tails of a head under a relation, in order.
    pub fn tails(&self, head: &str, relation: &'static str) -> Vec<String> {
        let from = (relation, head.to_owned(), String::new());
        self.facts
            .range(from..)
            .take_while(|(r, h, _)| *r == relation && h == head)
            .map(|(_, _, tail)| tail.clone())
            .collect()
    }

    /// Records a problem for [`Graph::finish`].
    pub fn problem(&mut self, place: &str, what: String) {
        self.problems.push(format!("{place}: {what}"));
    }

    /// Final checks; then drops every fact with a name that occurs only once.
    ///
    /// Such a name (a currency or a script used once) could not be learned or predicted if its only fact is held out.
    pub fn finish(mut self) -> Result<Graph> {
        let mut lower: BTreeMap<String, String> = BTreeMap::new();
        for name in self.kinds.keys() {
            if let Some(other) = lower.insert(name.to_lowercase(), name.clone()) {
                self.problems.push(format!("`{name}` and `{other}` differ only by case"));
            }
        }
        for (relation, head, tail) in &self.facts {
            if head == tail {
                self.problems.push(format!("`{head} {relation}` itself"));
            }
            for name in [head, tail] {
                if !self.kinds.contains_key(name) {
                    self.problems.push(format!("`{name}` ({relation}) was never declared"));
                }
            }
        }
        if !self.problems.is_empty() {
            bail!("{} problems in the tables:\n{}", self.problems.len(), self.problems.join("\n"));
        }
        loop {
            let lonely = self.lonely();
            let before = self.facts.len();
            self.facts.retain(|(_, head, tail)| !lonely.contains(head) && !lonely.contains(tail));
            self.pruned += before - self.facts.len();
            if before == self.facts.len() {
                return Ok(self);
            }
        }
    }

    fn lonely(&self) -> BTreeSet<String> {
        let mut degree: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, head, tail) in &self.facts {
            *degree.entry(head).or_default() += 1;
            *degree.entry(tail).or_default() += 1;
        }
        let once = degree.into_iter().filter(|(_, count)| *count == 1);
        once.map(|(name, _)| name.to_owned()).collect()
    }

    /// All facts as (relation, head, tail), in a fixed order.
    pub fn triples(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.facts.iter().map(|(relation, head, tail)| (*relation, head.as_str(), tail.as_str()))
    }

    /// Number of names in the facts.
    pub fn entities(&self) -> usize {
        let names: BTreeSet<&str> = self.triples().flat_map(|(_, head, tail)| [head, tail]).collect();
        names.len()
    }

    /// Number of facts dropped by [`Graph::finish`].
    pub fn pruned(&self) -> usize {
        self.pruned
    }

    /// The facts as text: head, relation, tail.
    pub fn to_tsv(&self) -> String {
        self.triples().map(|(relation, head, tail)| format!("{head}\t{relation}\t{tail}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_thing() {
        let mut graph = Graph::default();
        graph.declare("Luxembourg", Kind::Country, "t:1");
        graph.declare("Luxembourg", Kind::City, "t:2");
        graph.declare("luxembourg", Kind::Country, "t:3");
        graph.need("Atlantis", &[Kind::Country], "t:4");
        let error = graph.finish().unwrap_err().to_string();
        assert!(error.starts_with("3 problems"), "{error}");
    }

    #[test]
    fn names_met_once_are_dropped_until_none_is_left() {
        let mut graph = Graph::default();
        for name in ["A", "B", "C", "D"] {
            graph.declare(name, Kind::City, "t:1");
        }
        graph.state("A", "twinned_with", "B", "t:2");
        graph.state("B", "twinned_with", "A", "t:2");
        graph.state("B", "twinned_with", "C", "t:2");
        graph.state("C", "twinned_with", "D", "t:2");
        let graph = graph.finish().unwrap();
        assert_eq!(graph.to_tsv(), "A\ttwinned_with\tB\nB\ttwinned_with\tA\n");
        assert_eq!((graph.pruned(), graph.entities()), (2, 2));
    }

    #[test]
    fn stating_a_fact_twice_is_a_problem() {
        let mut graph = Graph::default();
        graph.declare("A", Kind::City, "t:1");
        graph.declare("B", Kind::City, "t:1");
        graph.state("A", "twinned_with", "B", "t:2");
        graph.state("A", "twinned_with", "B", "t:3");
        assert!(graph.finish().is_err());
    }
}
