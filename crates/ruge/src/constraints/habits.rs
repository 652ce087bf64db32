//! Habits: what nearly all listed facts of a relation do, found by counting.
//!
//! | habit | counted | not counted where |
//! |---|---|---|
//! | functional, inverse-functional | heads (tails) that have one tail (head) | fewer than 20 of them are listed |
//! | irreflexive, asymmetric | facts that do not lead back to their head, facts whose reverse is not listed | fewer than 20 entities stand at both ends: of a relation from cities to countries it says nothing |
//! | type | labels that entities at an end of the relation have | the relation has fewer than 20 entities at that end |
//!
//! A *label* is a relation and its direction. The labels that an entity has are its type, as far as the graph knows one: if no
//! entity at this end of the relation has any of them, the entity is of another kind.

use std::fmt::Write;

use ruge_kg::{Dataset, EntityId, Graph, Label, Pair, RelationId, Triple, visible};
use serde::Serialize;

/// What nearly all facts of each relation do.
#[derive(Clone, Debug)]
pub struct Habits {
    relations: Vec<Of>,
    types: Option<Types>,
}

/// The habits of one relation.
#[derive(Clone, Copy, Debug, Default)]
struct Of {
    /// Heads that have one tail, and tails that have one head.
    one: [Option<Share>; 2],
    irreflexive: Option<Share>,
    asymmetric: Option<Share>,
    /// No entity has it with itself, however few facts there are.
    never_itself: bool,
}

/// How many keep a habit, and of how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Share {
    keep: usize,
    of: usize,
}

impl Share {
    fn share(self) -> f64 {
        self.keep as f64 / self.of as f64
    }

    /// A habit, if enough were seen and nearly all keep it.
    fn habit(self) -> Option<Self> {
        (self.of >= ENOUGH && self.share() >= NEARLY_ALL).then_some(self)
    }
}

/// A kind of habit, named as the constraint that would make a law of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HabitKind {
    /// A head has one tail.
    Functional,
    /// A tail has one head.
    InverseFunctional,
    /// Nothing has it with itself.
    Irreflexive,
    /// The reverse of a fact is not a fact.
    Asymmetric,
}

impl HabitKind {
    /// As constraints are written.
    pub fn name(self) -> &'static str {
        match self {
            HabitKind::Functional => "functional",
            HabitKind::InverseFunctional => "inverse-functional",
            HabitKind::Irreflexive => "irreflexive",
            HabitKind::Asymmetric => "asymmetric",
        }
    }
}

/// A habit of a relation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Habit {
    /// What is kept.
    pub kind: HabitKind,
    /// The relation, by name.
    pub relation: String,
    /// The share that keeps it.
    pub share: f64,
    /// Of how many: heads, tails, entities at both ends, facts.
    pub of: usize,
    /// How many break it.
    pub exceptions: usize,
}

/// Entities or facts that must be listed before a habit is one.
const ENOUGH: usize = 20;
/// The share of them that must keep it.
const NEARLY_ALL: f64 = 0.9;
/// Labels up to which the table of types is made: it has a bit for every two of them, 8 MB here.
const MOST_LABELS: usize = 8192;

impl Habits {
    /// Counted on a graph.
    pub fn of(graph: &Graph) -> Self {
        Self {
            relations: graph.relations().map(|relation| Of::count(graph, relation)).collect(),
            types: Types::of(graph),
        }
    }

    /// Counted on all listed facts: what a constraint is checked against.
    pub fn listed(data: &Dataset) -> Self {
        if data.valid().is_empty() && data.test().is_empty() {
            return Self::of(data.graph());
        }
        let splits = [data.train(), data.valid(), data.test()];
        Self::of(&Graph::of_splits(data.entity_count(), data.relation_count(), &splits))
    }

    /// The habits that could be constraints, relation by relation.
    pub fn list(&self, data: &Dataset) -> Vec<Habit> {
        let names = &data.names().relations;
        let of = |(relation, name): (RelationId, &str)| {
            let found = self.relations.get(relation.index()).copied().unwrap_or_default();
            let kinds = [
                (HabitKind::Functional, found.one[0]),
                (HabitKind::InverseFunctional, found.one[1]),
                (HabitKind::Irreflexive, found.irreflexive),
                (HabitKind::Asymmetric, found.asymmetric),
            ];
            kinds
                .into_iter()
                .filter_map(|(kind, share)| share.map(|share| (kind, share)))
                .map(|(kind, share)| Habit {
                    kind,
                    relation: name.to_string(),
                    share: share.share(),
                    of: share.of,
                    exceptions: share.of - share.keep,
                })
                .collect::<Vec<_>>()
        };
        names.iter().flat_map(of).collect()
    }

    /// The habits that a triple would break.
    pub fn broken_by(&self, data: &Dataset, triple: Triple) -> Vec<String> {
        let Triple { head, relation, tail } = triple;
        let Some(habit) = self.relations.get(relation.index()) else { return Vec::new() };
        let known = data.filter();
        let name = |entity: EntityId| data.called_entity(entity);
        let called = data.called_relation(relation);
        let percent = |share: Share| format!("{:.0} %", 100.0 * share.share());
        let mut broken = Vec::new();
        if head == tail && habit.never_itself {
            broken.push(format!("nothing is listed with {called} to itself"));
        }
        let ends =
            [(head, known.tails(head, relation), tail, "head"), (tail, known.heads(relation, tail), head, "tail")];
        for ((entity, others, than, end), share) in ends.into_iter().zip(habit.one) {
            if let (Some(share), Some(&other)) = (share, others.iter().find(|&&other| other != than)) {
                let listed = match end {
                    "head" => format!("{} {called} {}", name(entity), name(other)),
                    _ => format!("{} {called} {}", name(other), name(entity)),
                };
                broken.push(format!("already listed: {listed} ({} of {end}s have one)", percent(share)));
            }
        }
        if let Some(share) = habit.asymmetric
            && head != tail
            && known.contains(Triple { head: tail, relation, tail: head })
        {
            let listed = format!("{} {called} {}", name(tail), name(head));
            broken.push(format!("the reverse is listed: {listed} ({} of facts have no reverse)", percent(share)));
        }
        if let Some(types) = &self.types {
            let ends = [(head, Label::forward(relation), "head"), (tail, Label::inverse(relation), "tail")];
            for (entity, role, end) in ends {
                if types.is_strange(data.graph(), entity, role) {
                    broken.push(format!("{} is of a type never seen as {end} of {called}", name(entity)));
                }
            }
        }
        broken
    }

    /// The habits as a file of constraints. What is kept without exception is a line; what has exceptions, or a name that such a
    /// file cannot hold, is a comment.
    pub fn suggest(&self, data: &Dataset) -> String {
        let mut text = String::from(
            "# Constraints suggested by what the listed facts do. Keep those that must hold, delete the others.\n\
             # Lines that begin with # have exceptions among the listed facts, and count for nothing as they stand.\n",
        );
        for habit in self.list(data) {
            let Habit { kind, relation, share, of, exceptions } = &habit;
            let (kind, percent) = (kind.name(), 100.0 * share);
            let shown = visible::line(relation);
            let fits = shown == *relation && relation.trim() == relation;
            let _ = match (exceptions, fits) {
                (0, true) => writeln!(text, "{kind}\t{relation}"),
                (_, true) => writeln!(text, "# {kind}\t{relation}\t({percent:.1} % of {of}, {exceptions} exceptions)"),
                (_, false) => writeln!(text, "# {kind}\t{shown}\t(a name that this file cannot hold)"),
            };
        }
        text
    }
}

impl Of {
    fn count(graph: &Graph, relation: RelationId) -> Self {
        let one = |label: Label| {
            let mut share = Share { keep: 0, of: 0 };
            for same in graph.pairs(label).chunk_by(|a, b| a.key == b.key) {
                share.keep += usize::from(same.len() == 1);
                share.of += 1;
            }
            share.habit()
        };
        let facts = graph.facts(relation);
        let itself = facts.iter().filter(|pair| pair.key == pair.other).count();
        let both = at_both_ends(graph, relation);
        let reverse = |pair: &&Pair| graph.contains(Triple { head: pair.other, relation, tail: pair.key });
        let reversed = if both < ENOUGH { 0 } else { facts.iter().filter(reverse).count() };
        let among_ends = |share: Share| if both < ENOUGH { None } else { share.habit() };
        Self {
            one: [one(Label::forward(relation)), one(Label::inverse(relation))],
            irreflexive: among_ends(Share { keep: both.saturating_sub(itself), of: both }),
            asymmetric: among_ends(Share { keep: facts.len() - reversed, of: facts.len() }),
            never_itself: itself == 0,
        }
    }
}

/// Entities that are head of one fact of a relation and tail of another, or of the same.
fn at_both_ends(graph: &Graph, relation: RelationId) -> usize {
    let heads = graph.facts(relation).chunk_by(|a, b| a.key == b.key).map(|same| same[0].key);
    heads.filter(|&head| !graph.neighbours(head, Label::inverse(relation)).is_empty()).count()
}

/// Which labels occur together with which at one entity.
#[derive(Clone, Debug)]
struct Types {
    words: usize,
    /// A row of bits per label.
    together: Vec<u64>,
    /// Entities that have the label.
    having: Vec<u32>,
}

impl Types {
    /// Nothing where there are too many labels for a table.
    fn of(graph: &Graph) -> Option<Self> {
        let labels = 2 * graph.relation_count();
        if labels > MOST_LABELS {
            return None;
        }
        let words = labels.div_ceil(64);
        let mut types = Self { words, together: vec![0; words * labels], having: vec![0; labels] };
        for entity in graph.entities() {
            let own = graph.adjacency().labels(entity);
            for role in own {
                types.having[role.0 as usize] += 1;
                let row = &mut types.together[words * role.0 as usize..][..words];
                own.iter()
                    .filter(|label| *label != role)
                    .for_each(|label| row[label.0 as usize / 64] |= 1 << (label.0 % 64));
            }
        }
        Some(types)
    }

    /// Whether an entity has labels, and none of them occurs at entities that have this one.
    fn is_strange(&self, graph: &Graph, entity: EntityId, role: Label) -> bool {
        let own = graph.adjacency().labels(entity);
        let row = &self.together[self.words * role.0 as usize..][..self.words];
        let seen = |label: &Label| row[label.0 as usize / 64] >> (label.0 % 64) & 1 == 1;
        self.having[role.0 as usize] as usize >= ENOUGH
            && !own.is_empty()
            && !own.contains(&role)
            && !own.iter().any(seen)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::constraints::Constraints;
    use ruge_kg::{Names, ReadOptions};

    fn demo() -> Dataset {
        Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded").0
    }

    fn triple(data: &Dataset, [h, r, t]: [&str; 3]) -> Triple {
        let entity = |name: &str| data.names().entities.id(name).expect(name);
        Triple { head: entity(h), relation: data.names().relations.id(r).expect(r), tail: entity(t) }
    }

    /// A chain of managers: one above each, no one above himself. Projects are led by managers, and have a budget.
    fn firm(relation: &str) -> Dataset {
        let mut names = Names::default();
        let mut train = Vec::new();
        for i in 0..40 {
            train.push(names.triple(&format!("m{i}"), relation, &format!("m{}", i + 1)));
            train.push(names.triple(&format!("p{i}"), "led_by", &format!("m{i}")));
            train.push(names.triple(&format!("p{i}"), "budget", &format!("{}", i % 3)));
        }
        Dataset::new(names, train, vec![], vec![])
    }

    #[test]
    fn second_values_break_habits() {
        let data = demo();
        let habits = Habits::of(data.graph());
        let broken = habits.broken_by(&data, triple(&data, ["Espoo", "capital_of", "Finland"]));
        assert!(broken.iter().any(|reason| reason.contains("Helsinki capital_of Finland")), "{broken:?}");
        assert!(habits.broken_by(&data, triple(&data, ["Finland", "borders", "Estonia"])).is_empty());
    }

    #[test]
    fn a_reverse_and_a_strange_type_break_habits() {
        let data = firm("below");
        let habits = Habits::of(data.graph());
        let broken = |fact| habits.broken_by(&data, triple(&data, fact)).join("; ");
        let reverse = broken(["m8", "below", "m7"]);
        assert!(reverse.contains("the reverse is listed: m7 below m8 (100 % of facts have no reverse)"), "{reverse}");
        let strange = broken(["m3", "below", "2"]);
        assert!(strange.contains("2 is of a type never seen as tail of below"), "{strange}");
        assert_eq!(broken(["p1", "led_by", "m40"]).matches("type").count(), 0, "the last manager is one");
        // Cities and countries: that no country is below itself says nothing.
        let kinds: Vec<(HabitKind, String)> =
            habits.list(&data).into_iter().map(|habit| (habit.kind, habit.relation)).collect();
        assert!(kinds.contains(&(HabitKind::Asymmetric, "below".into())), "{kinds:?}");
        assert!(!kinds.iter().any(|(kind, name)| *kind == HabitKind::Irreflexive && name == "led_by"), "{kinds:?}");
    }

    #[test]
    fn suggestions_are_constraints_that_the_data_obey() {
        let data = demo();
        let text = Habits::listed(&data).suggest(&data);
        let constraints = Constraints::parse(&text, &data).expect("its own words");
        assert!(!constraints.is_empty() && text.contains("exceptions)"), "{text}");
        assert_eq!(constraints.violations(&data), []);
        // Exceptions are counted right: with the comment taken away, so many facts or more violate it.
        let line = text.lines().find(|line| line.starts_with("# functional\t")).expect("some have exceptions");
        let relation = line.split('\t').nth(1).expect("a name");
        let strict = Constraints::parse(&format!("functional\t{relation}"), &data).expect("a constraint");
        assert!(!strict.violations(&data).is_empty(), "{line}");
    }

    #[test]
    fn names_that_no_line_can_hold_are_comments() {
        let data = firm("be\tlow\n");
        let text = Habits::of(data.graph()).suggest(&data);
        assert!(text.contains("# functional\tbe⟨TAB⟩low⟨LF⟩\t"), "{text}");
        assert!(Constraints::parse(&text, &data).is_ok());
    }
}
